//! Jobs under which nodes fail one after another, and what else explains that.

use super::apply::in_group;
use super::causes::is_group;
use super::findings::of_hardware;
use crate::Engine;
use muster_health::correlate::Common;
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::{Finding, Incident, ObservedFinding, Severity};
use muster_model::hold::{HeldBy, Hold};
use muster_model::ids::JobId;
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::qualification::Outcome;
use muster_model::units::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Nodes that must have failed under a job, without another cause.
const NODES_MIN: usize = 3;

impl Engine {
    /// A job under which many more nodes failed than its size and time explain. Those that have
    /// another cause do not count.
    pub(crate) fn maybe_killer(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id).cloned() else { return };
        let all = job.unhealthy_nodes.iter();
        let list: Vec<&NodeName> = all.filter(|n| self.other_cause(n, &job).is_none()).collect();
        let nodes = list.len() as u64;
        if list.len() < NODES_MIN {
            return;
        }
        let gang = job.groups.iter().map(|g| u64::from(g.nodes)).sum::<u64>().max(1);
        let days_milli =
            self.state.now.since(job.started_at.unwrap_or(job.submitted_at)).0 / 86_400 + 1;
        let rate = u64::from(self.state.policy.reliability.failures_per_million_node_days);
        // Failures that were to be expected, in millionths of thousandths: ten times as many prove it.
        let expected = gang.saturating_mul(days_milli).saturating_mul(rate);
        if nodes.saturating_mul(1_000_000_000) < expected.saturating_mul(10) {
            return;
        }
        let code = FailureMode::NODE_KILLER.code();
        let severity = Severity::Critical;
        let seen = ObservedFinding::new(code, Entity::Job(id), severity, self.state.now);
        let list: Vec<String> = list.into_iter().map(ToString::to_string).collect();
        let seen = seen.because(format!("nodes that failed under it: {}", list.join(", ")));
        self.found(seen, true);
        self.quarantine_job(id, "nodes fail under it one after another");
    }

    /// A job does not start again until somebody has looked, or until something else explains what
    /// it was held for.
    pub(super) fn quarantine_job(&mut self, id: JobId, why: &str) {
        let Some(job) = self.state.jobs.get(&id).cloned() else { return };
        if job.held.is_none() && job.ended_at.is_none() {
            let name = format!("muster: {why}");
            self.emit_hold(&job, Hold { name, by: HeldBy::Suspicion, since: None });
        }
    }

    /// Is a job the common cause of what has another cause on nearly every node?
    pub(super) fn is_explained_without(&self, c: &Common) -> bool {
        let Entity::Job(id) = &c.cause else { return false };
        if c.kind != FailureMode::NODE_KILLER {
            return false;
        }
        let Some(job) = self.state.jobs.get(id) else { return false };
        let nodes = self.state.nodes_of_findings(&c.findings);
        nodes.iter().filter(|n| self.other_cause(n, job).is_none()).count() < NODES_MIN
    }

    /// Ends what was concluded of jobs whose nodes turned out to have another cause, and releases
    /// what was held for it.
    pub(super) fn end_explained_suspicions(&mut self) {
        let book = &self.state.health;
        let of = |kind: &str, entity: &Entity| match entity {
            Entity::Job(id) if kind == FailureMode::NODE_KILLER.code() => Some(*id),
            _ => None,
        };
        let found = book.open().filter_map(|f| of(&f.seen.kind, &f.seen.entity));
        let common = book.open_incidents().filter_map(|i| of(&i.kind, &i.cause));
        let jobs: BTreeSet<JobId> = found.chain(common).collect();
        for id in jobs {
            self.end_suspicion_if_explained(id);
        }
    }

    fn end_suspicion_if_explained(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id).cloned() else { return };
        let (book, cause) = (&self.state.health, Entity::Job(id));
        let of_it = |i: &&Arc<Incident>| i.kind == FailureMode::NODE_KILLER && i.cause == cause;
        let incidents: Vec<Arc<Incident>> = book.open_incidents().filter(of_it).cloned().collect();
        let mut nodes: BTreeSet<NodeName> = job.unhealthy_nodes.iter().cloned().collect();
        for i in &incidents {
            nodes.extend(self.state.nodes_of_findings(&i.findings));
        }
        let others: Vec<Option<String>> = nodes.iter().map(|n| self.other_cause(n, &job)).collect();
        let left = others.iter().filter(|o| o.is_none()).count();
        let others: BTreeSet<String> = others.into_iter().flatten().collect();
        if left >= NODES_MIN || others.is_empty() {
            return;
        }
        let others: Vec<String> = others.into_iter().collect();
        let held = job.held.as_ref().is_some_and(|h| h.by == HeldBy::Suspicion);
        let end = if held { format!("; job {id} is released") } else { String::new() };
        let why = format!("its nodes failed for another cause: {}{end}", others.join(", "));
        let code = FailureMode::NODE_KILLER.code();
        if let Some(f) = self.state.health.open_of(&cause, code).map(|f| f.id) {
            self.close_finding(f, &why, true);
        }
        for i in incidents {
            // It ended with the finding where that was the last of it.
            let now = self.state.health.incidents.get(&i.id);
            if now.is_some_and(|i| i.closed.is_none()) {
                self.emit(
                    None,
                    Event::IncidentClosed { id: i.id, why: why.clone(), part_of: None },
                );
                self.incident_over(i.id);
            }
            // Its nodes were left alone for the job: each is remediated for itself again.
            let book = &self.state.health;
            let open = |f: &&u64| book.findings.get(f).is_some_and(|f| f.closed.is_none());
            let rest: Vec<u64> = i.findings.iter().filter(open).copied().collect();
            self.reconsider_findings(&rest);
        }
        if held {
            self.emit(Some(&job.project), Event::JobReleased { job: id, decided: true });
            self.held_by_breaker(id);
        }
    }

    /// What a node failed for that is not a job which ran there: something it shares with nodes that
    /// failed without the job, a part that was unhealthy before the job came, or a test that it did
    /// not pass since. That a GPU failed under the job proves neither.
    fn other_cause(&self, node: &NodeName, job: &Job) -> Option<String> {
        let n = self.state.nodes.get(node)?;
        let book = &self.state.health;
        let recent = |i: &&Arc<Incident>| {
            is_group(&i.cause) && i.closed.as_ref().is_none_or(|c| c.at >= job.submitted_at)
        };
        let shared = |i: &&Arc<Incident>| {
            let named = !matches!(i.cause, Entity::Sku(_) | Entity::Pool(_));
            let part = (named && in_group(n, &i.cause))
                || book.open_on(node).any(|f| f.incident == Some(i.id));
            let without = || {
                let hit = self.state.nodes_of_findings(&i.findings);
                hit.iter().any(|n| !job.unhealthy_nodes.contains(n))
            };
            part && without()
        };
        if let Some(i) = book.incidents.values().filter(recent).find(shared) {
            return Some(format!("incident {} ({})", i.id, i.cause));
        }
        let came = came_at(job, node).unwrap_or(job.submitted_at);
        let earlier = |f: &&Arc<Finding>| {
            let bad = f.seen.severity >= Severity::Degraded && of_hardware(&f.seen);
            bad && f.seen.first_seen < came
        };
        if let Some(f) = book.open_on(node).find(earlier) {
            return Some(format!("finding {} ({} on {})", f.id, f.seen.kind, f.seen.entity));
        }
        let since = n.qualified.as_ref().filter(|q| q.ended_at >= came);
        let failed = since.filter(|q| q.report.outcome == Outcome::Failed);
        failed.map(|q| format!("test {} that {node} failed", q.id))
    }
}

/// When a job first came to a node, as far as is known.
fn came_at(job: &Job, node: &NodeName) -> Option<Time> {
    let past = job.past.iter().filter(|p| p.nodes.contains(node)).map(|p| p.placed_at);
    let here = |a: &&muster_model::job::Attempt| a.placement.slots.iter().any(|s| s.node == *node);
    past.chain(job.attempt.iter().filter(here).map(|a| a.placed_at)).min()
}
