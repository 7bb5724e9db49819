//! Where somebody who opens a runbook now has to begin.

use super::observe::observe;
use crate::state::State;
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::remediation::RemediationStep;
use muster_model::runbook::StepOutcome;
use muster_runbook::{Act, ActKind, Next, ParsedRunbook, StepKind};
use std::collections::{BTreeMap, BTreeSet};

/// The first step that somebody has to take: checks are looked up, waits that are over and acts that
/// are done already are passed. None where nothing is left to do, as of a node that was repaired and
/// tested and is only watched.
#[must_use]
pub fn current_step(
    state: &State,
    book: &ParsedRunbook,
    vars: &BTreeMap<String, String>,
) -> Option<u32> {
    let about_node = book.needs.iter().any(|v| v == "node");
    if about_node && on_probation(state, vars) {
        return None;
    }
    let (mut no, mut seen) = (1, BTreeSet::new());
    while let Some(step) = book.step(no).filter(|s| seen.insert(s.no)) {
        let outcome = match &step.what {
            // What only the agents know has to be looked at by whoever follows the runbook.
            StepKind::Check(t) | StepKind::Wait(t, _) if t.look.outside() => return Some(no),
            StepKind::Check(t) if !t.bound.holds(&observe(state, t, vars)) => StepOutcome::HoldsNot,
            StepKind::Wait(t, _) if !t.bound.holds(&observe(state, t, vars)) => return Some(no),
            StepKind::Check(_) | StepKind::Wait(..) => StepOutcome::Holds,
            StepKind::Act(act) if is_done(state, act, vars) => StepOutcome::Done,
            StepKind::Act(_) | StepKind::Ask(_) => return Some(no),
        };
        match book.after(no, outcome, None) {
            Next::Step(n) => no = n,
            Next::Over(_) => return None,
        }
    }
    None
}

/// Did the node that the runbook is about return, and is it watched?
fn on_probation(state: &State, vars: &BTreeMap<String, String>) -> bool {
    let name = vars.get("node").and_then(|n| n.parse::<NodeName>().ok());
    let mut remediations = name.iter().flat_map(|n| state.health.remediations_of(n)).peekable();
    remediations.peek().is_some() && remediations.all(|r| r.step == RemediationStep::Probation)
}

/// Would an act change nothing? Only what keeps work from a node is judged.
fn is_done(state: &State, act: &Act, vars: &BTreeMap<String, String>) -> bool {
    let name = act.field("node", vars).and_then(|n| n.parse::<NodeName>().ok());
    let Some(node) = name.and_then(|n| state.nodes.get(&n)) else { return false };
    match act.kind {
        ActKind::Cordon => node.cordon.is_some() || node.stage != Stage::Ready,
        ActKind::Drain => {
            let empty = || state.attempts_on(&node.name).next().is_none();
            (node.stage != Stage::Ready && node.stage != Stage::Enrolled)
                || (node.cordon.is_some() && empty())
        }
        _ => false,
    }
}
