//! One look at every node: what the log says of it, and what it last reported about itself.

use super::order::order;
use super::snapshot::{NodeSnapshot, SiteSnapshot};
use super::{Viewer, past_metrics};
use crate::agents::Agents;
use crate::brain::Brain;
use muster_engine::State;
use muster_model::finding::{Finding, Severity};
use muster_model::job::Job;
use muster_model::names::{Label, NodeName};
use muster_model::node::Stage;
use muster_model::{JobId, Span, Time};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Nodes looked at under one lock: readers hold up the log's writer.
const AT_ONCE: usize = 512;
/// A row of figures says nothing of a moment that is later than this.
const FRESH: Span = Span::secs(30);

/// Looks at everything. Takes its time, but no lock for long.
pub(super) fn take_snapshot(brain: &Brain, agents: &Agents) -> SiteSnapshot {
    let mut out = SiteSnapshot { at: brain.now(), nodes: Vec::new(), jobs: BTreeMap::new() };
    let maintenance = brain.read(|s| s.nodes_in_maintenance(out.at));
    let mut after: Option<NodeName> = None;
    loop {
        let (nodes, jobs) = brain.read(|s| part(s, &maintenance, after.as_ref(), AT_ONCE));
        after = nodes.last().map(|n| n.node.name.clone());
        let more = nodes.len() == AT_ONCE;
        out.nodes.extend(nodes.into_iter().filter(|n| n.node.stage != Stage::Retired));
        out.jobs.extend(jobs);
        if !more {
            break;
        }
    }
    for seen in out.nodes.iter_mut().filter(|n| n.node.reachable) {
        seen.figures = agents.newest(&seen.node.name);
    }
    out.nodes.sort_by(|a, b| order(&a.node, &b.node));
    out
}

/// The same of a moment that has passed, with the metrics of the rows in memory. One project is not
/// shown what its GPUs did before they were allocated to it.
pub(super) fn take_past_snapshot(
    state: &State,
    agents: &Agents,
    at: Time,
    viewer: &Viewer,
) -> SiteSnapshot {
    let mut look = snapshot_from_log(state, at);
    let SiteSnapshot { nodes, jobs, .. } = &mut look;
    let own = viewer.as_ref().map(|project| past_metrics::since(jobs.values(), project));
    for seen in nodes.iter_mut().filter(|n| n.node.reachable) {
        let Some(window) = agents.telemetry(&seen.node.name) else { continue };
        let row = window.rows.iter().rev().find(|r| r.at <= at);
        let Some(row) = row.filter(|r| at.since(r.at) < FRESH) else { continue };
        let gpus = match &own {
            Some(own) => {
                past_metrics::hide_before(own.get(&seen.node.name), row, window.gpu_columns.len())
            }
            None => row.gpus.clone(),
        };
        seen.figures = Some((window.gpu_columns.clone(), gpus));
    }
    look
}

/// Metrics out of the history, where the rows in memory do not reach back so far. Reads files.
pub(super) fn fill_from_history(look: &mut SiteSnapshot, agents: &Agents, viewer: &Viewer) {
    let SiteSnapshot { at, nodes, jobs } = look;
    let own = viewer.as_ref().map(|project| past_metrics::since(jobs.values(), project));
    past_metrics::fill(nodes, agents.history(), *at, own.as_ref());
}

/// What the log alone says of every node: no figures.
pub(super) fn snapshot_from_log(state: &State, at: Time) -> SiteSnapshot {
    let (mut nodes, jobs) = part(state, &state.nodes_in_maintenance(at), None, usize::MAX);
    nodes.retain(|n| n.node.stage != Stage::Retired);
    nodes.sort_by(|a, b| order(&a.node, &b.node));
    SiteSnapshot { at, nodes, jobs: jobs.into_iter().collect() }
}

type Some = (Vec<NodeSnapshot>, Vec<(JobId, Arc<Job>)>);

fn part(
    s: &State,
    maintenance: &BTreeMap<NodeName, Label>,
    after: Option<&NodeName>,
    most: usize,
) -> Some {
    let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
    let range = s.nodes.range::<NodeName, _>((lower, Bound::Unbounded)).take(most);
    let (mut nodes, mut jobs) = (Vec::new(), Vec::new());
    for (name, node) in range {
        jobs.extend(s.attempts_on(name).map(|j| (j.id, Arc::clone(j))));
        nodes.push(NodeSnapshot {
            node: Arc::clone(node),
            figures: None,
            in_maintenance: maintenance.contains_key(name),
            findings: s.health.open_on(name).map(|f| brief(f)).collect(),
            remediated: s.health.remediations_of(name).next().is_some(),
            waits: s.health.remediations_of(name).any(|r| r.is_pending()),
        });
    }
    (nodes, jobs)
}

fn brief(finding: &Finding) -> (Option<u32>, Severity) {
    (finding.seen.entity.gpu(), finding.seen.severity)
}
