//! Figures that runs of runbooks look at and that are not in the log: what agents reported last.
//! The log decides; here it is only looked and reported.

use crate::agents::Agents;
use crate::brain::Brain;
use muster_model::command::Command;
use muster_model::names::NodeName;
use muster_model::runbook::Run;
use muster_runbook::{Observable, StepKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// A figure as a node's agent reported it last: of the GPU that is meant, or the largest of the
/// node.
pub fn figure(
    agents: &Agents,
    look: &Observable,
    vars: &BTreeMap<String, String>,
) -> Option<String> {
    let Observable::Telemetry(name) = look else { return None };
    let node: NodeName = vars.get("node")?.parse().ok()?;
    let (columns, values) = agents.newest(&node)?;
    let at = columns.iter().position(|c| c == name)?;
    let rows = || values.chunks(columns.len().max(1)).filter_map(|g| g.get(at).copied());
    let gpu = vars.get("gpu").and_then(|g| g.parse::<usize>().ok());
    let value = match gpu {
        Some(g) => rows().nth(g)?,
        None => rows().filter(|v| v.is_finite()).reduce(f32::max)?,
    };
    value.is_finite().then(|| format!("{value:.1}"))
}

/// What the step that a run stands at looks at outside the log.
pub fn outside(run: &Run) -> Option<(Observable, BTreeMap<String, String>)> {
    let book = muster_runbook::parse(&run.book, &run.text).ok()?;
    match &book.step(run.step)?.what {
        StepKind::Check(t) | StepKind::Wait(t, _) if t.look.outside() => {
            Some((t.look.clone(), run.vars.clone()))
        }
        _ => None,
    }
}

/// Gives runs that the machine follows what they look at, until `stop`.
pub fn start(brain: Brain, agents: Agents, stop: CancellationToken) {
    crate::supervise::task("runbooks", move || follow(brain.clone(), agents.clone(), stop.clone()));
}

async fn follow(brain: Brain, agents: Agents, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        let waiting: Vec<Arc<Run>> = brain.read(|s| {
            let auto = |r: &&Arc<Run>| r.auto && r.waits.is_none();
            s.runbooks.live().filter(auto).cloned().collect()
        });
        for run in waiting {
            let Some((look, vars)) = outside(&run) else { continue };
            // A node that reports nothing: the run goes on with that, after a while.
            let seen = figure(&agents, &look, &vars).unwrap_or_default();
            let old = brain.now().since(run.since).0 > 30_000;
            if seen.is_empty() && !old {
                continue;
            }
            let command = Command::RunbookSaw { run: run.id, step: run.step, seen };
            if let Err(e) = brain.system(command).await {
                tracing::debug!(run = run.id, error = %e, "what a run observes was not accepted");
            }
        }
    }
}
