//! The history of nodes and of work, as the log adds it up: how long each node worked, what ended
//! work there, and which failures nothing explains.
//!
//! A node is the cause of what is known to be its own: it was lost, found unhealthy, or could not do what
//! it was asked. Where nobody knows who of a gang it was, each gets its part. What turns out to
//! have a cause elsewhere (a leaf, a feed, a version, a job) is taken back.

use super::findings::of_hardware;
use super::held::of_work;
use crate::state::{HealthState, PAST_NODES, State};
use muster_health::breaker::Count;
use muster_health::lemon;
use muster_model::FailureMode;
use muster_model::breaker::{Breaker, BreakerState};
use muster_model::entity::Entity;
use muster_model::event::{Event, Record};
use muster_model::finding::{Finding, Severity};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Attempt, Job, SlotEnd, StopReason, Verdict};
use muster_model::names::NodeName;
use muster_model::node::{Node, NodeRole, Stage};
use muster_model::placement::{AllocatedPart, Slot};
use muster_model::remediation::RemediationStep;
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// Things whose failures are counted at a time.
const COUNTS_MAX: usize = 4096;
/// A finding is believed to be about what failed up to this long before it was first seen.
const BEFORE: Span = Span::mins(10);

impl State {
    /// Adds a record to the histories. It is not folded in elsewhere yet.
    pub(crate) fn note_history(&mut self, r: &Record) {
        match &r.event {
            Event::AttemptEnded { key, verdict, .. } => self.worked(*key, *verdict, r.at),
            Event::AttemptAttributed { key, verdict, findings, .. } => {
                self.judged(*key, *verdict, findings);
            }
            Event::IncidentOpened { incident } if elsewhere(&incident.cause) => {
                self.forgiven(&incident.findings);
            }
            Event::IncidentGrew { id, findings, .. } => {
                let cause = self.health.incidents.get(id).map(|i| i.cause.clone());
                if cause.is_some_and(|c| elsewhere(&c)) {
                    self.forgiven(findings);
                }
            }
            Event::FindingClosed { id, decided: false, .. } => {
                let lemon =
                    self.health.findings.get(id).filter(|f| f.seen.kind == FailureMode::LEMON);
                if let Some(node) = lemon.and_then(|f| f.seen.entity.node()).cloned() {
                    self.health.reset_history(&node);
                }
            }
            Event::RemediationStepped {
                id,
                step: to @ (RemediationStep::Testing | RemediationStep::Probation),
                ..
            } => {
                // People say that they repaired it, or had it tested after their repair.
                let by_people = |s: RemediationStep| {
                    s == RemediationStep::Repairing
                        || s == RemediationStep::Approval && *to == RemediationStep::Testing
                };
                let r = self.health.remediations.get(id);
                let repaired = r.filter(|r| r.kind == FailureMode::LEMON && by_people(r.step));
                if let Some(node) = repaired.map(|r| r.node.clone()) {
                    self.health.reset_history(&node);
                }
            }
            Event::NodeMarked { node, role, decided, .. } => self.marked(node, *role, *decided),
            Event::NodeStaged { node, stage: Stage::Suspect | Stage::Quarantined, .. }
                if self.nodes.get(node).is_some_and(|n| n.stage == Stage::Ready) =>
            {
                self.health.history(node).out(r.at);
            }
            Event::NodeEnrolled { node, .. }
                if self.nodes.get(node).is_none_or(|n| n.stage == Stage::Retired) =>
            {
                self.health.unknown(node);
            }
            Event::NodeRetired { node } => self.health.unknown(node),
            Event::BreakerSet { breaker, .. } => self.begins_anew(breaker),
            _ => {}
        }
    }

    /// An attempt is over: its nodes worked so long, and one of them may have ended it.
    fn worked(&mut self, key: AttemptKey, verdict: Verdict, at: Time) {
        let Some(job) = self.jobs.get(&key.job).cloned() else { return };
        let Some(a) = job.attempt.as_ref().filter(|a| a.no == key.attempt) else { return };
        if let Some(from) = a.started_at {
            let until = a.freed_at.unwrap_or(at);
            for slot in &a.placement.slots {
                let milli = self.nodes.get(&slot.node).map_or(1000, |n| share(slot, n));
                self.health.history(&slot.node).busy(from, until, milli);
            }
        }
        if verdict == Verdict::Success {
            for e in of_work(&job) {
                self.health.counts.remove(&e);
            }
            return;
        }
        let reason = a.stop.as_ref().map(|s| &s.reason);
        for (node, gang) in culprits(a, verdict, reason) {
            if !self.health.explained_on(&node) {
                self.health.history(&node).failed(at, job.id, gang);
            }
        }
        if verdict == Verdict::Infrastructure
            && let Some(StopReason::SlotFailed { node, end: end @ SlotEnd::NodeFault { .. } }) =
                reason
            && !(end.had_no_server() || end.ended_with_agent() || end.is_unproven())
            && !self.is_unhealthy(node)
        {
            let node = node.clone();
            self.health.nothing_explains(&job, a, &node, at);
        }
    }

    /// Is something known to be wrong with a node?
    fn is_unhealthy(&self, node: &NodeName) -> bool {
        let grave =
            |f: &Arc<Finding>| of_hardware(&f.seen) && f.seen.severity >= Severity::Degraded;
        self.nodes.get(node).is_none_or(|n| !n.reachable) || self.health.open_on(node).any(grave)
    }

    /// Somebody looked closer: what was counted follows.
    fn judged(&mut self, key: AttemptKey, verdict: Verdict, findings: &[u64]) {
        let Some(job) = self.jobs.get(&key.job).cloned() else { return };
        let Some(p) = job.past.iter().find(|p| p.no == key.attempt) else { return };
        if !findings.is_empty() || !matches!(verdict, Verdict::Infrastructure | Verdict::Platform) {
            self.health.counts.values_mut().for_each(|c| c.discount_failure(p.ended_at, job.id));
            self.health.counts.retain(|_, c| !c.is_empty());
        }
        let found: Vec<&Arc<Finding>> =
            findings.iter().filter_map(|id| self.health.findings.get(id)).collect();
        let named = found.iter().any(|f| f.seen.entity.node().is_some());
        let nobody = !matches!(verdict, Verdict::Infrastructure | Verdict::Unknown);
        if !named && !nobody {
            return;
        }
        // The cause is the first of them.
        let own = |f: &&Arc<Finding>| of_hardware(&f.seen) && !self.health.is_elsewhere(f);
        let culprit = found.first().filter(|f| own(f)).and_then(|f| f.seen.entity.node()).cloned();
        for n in &p.nodes {
            self.health.correct(n, |r| r.discount_failure(p.ended_at, job.id));
        }
        if let Some(n) = culprit.filter(|n| !nobody && self.nodes.contains_key(n)) {
            self.health.history(&n).failed(p.ended_at, job.id, 1);
        }
    }

    /// These findings have a cause elsewhere.
    fn forgiven(&mut self, findings: &[u64]) {
        for id in findings {
            let Some(f) = self.health.findings.get(id) else { continue };
            let since = f.seen.first_seen.min(f.opened_at) - BEFORE;
            if let Some(node) = f.seen.entity.node().cloned() {
                self.health.correct(&node, |r| r.discount_failures_since(since));
            }
        }
    }

    /// What a node is kept for changes.
    fn marked(&mut self, node: &NodeName, role: NodeRole, decided: bool) {
        let was = self.nodes.get(node).map(|n| n.role);
        if role == NodeRole::Lemon && decided {
            self.health.lemons.insert(node.clone());
            return;
        }
        self.health.lemons.remove(node);
        // Somebody knows better.
        if !decided && was == Some(NodeRole::Lemon) && role != NodeRole::Lemon {
            self.health.reset_history(node);
        }
    }

    /// What opened a breaker is not counted again, neither for it nor for the nodes that were hit.
    fn begins_anew(&mut self, b: &Breaker) {
        self.health.counts.remove(&b.entity);
        if b.state == BreakerState::Closed
            || !matches!(b.entity, Entity::Template(..) | Entity::Image(_))
        {
            return;
        }
        let jobs = &self.jobs;
        let other = |id: JobId| jobs.get(&id).is_none_or(|j| of_work(j).all(|e| e != b.entity));
        for (of, c) in &mut self.health.counts {
            if matches!(of, Entity::Node(_)) {
                c.keep(other);
            }
        }
        self.health.counts.retain(|_, c| !c.is_empty());
    }
}

impl HealthState {
    /// A node's history, to be added to.
    fn history(&mut self, node: &NodeName) -> &mut lemon::Record {
        Arc::make_mut(self.records.entry(node.clone()).or_default())
    }

    /// Changes what is known of a node, where anything is.
    fn correct(&mut self, node: &NodeName, f: impl FnOnce(&mut lemon::Record)) {
        if let Some(r) = self.records.get_mut(node) {
            f(Arc::make_mut(r));
        }
    }

    fn reset_history(&mut self, node: &NodeName) {
        self.correct(node, lemon::Record::reset_history);
    }

    fn unknown(&mut self, node: &NodeName) {
        self.records.remove(node);
        self.lemons.remove(node);
        self.counts.remove(&Entity::Node(node.clone()));
    }

    /// A failure that no finding explains: of the work, or of the node?
    fn nothing_explains(&mut self, job: &Job, a: &Attempt, node: &NodeName, at: Time) {
        let own = Entity::Node(node.clone());
        // A node counts that cannot start what it is given, again and again: what fails at once
        // there fails for one reason.
        let last = self.counts.get(&own).and_then(Count::last);
        let again = a.started_at.is_none() && last.is_none_or(|t| a.placed_at > t);
        let of_node = again.then_some(own);
        for e in of_work(job).chain([Entity::Site]).chain(of_node) {
            if self.counts.len() >= COUNTS_MAX && !self.counts.contains_key(&e) {
                self.counts.retain(|of, c| c.failures(of, at) > 0);
                if self.counts.len() >= COUNTS_MAX {
                    continue;
                }
            }
            let count: &mut Count = self.counts.entry(e.clone()).or_default();
            count.failed(&e, at, job.id, node);
        }
    }

    /// Has something that is found on a node a cause elsewhere?
    fn explained_on(&self, node: &NodeName) -> bool {
        self.open_on(node).any(|f| self.is_elsewhere(f))
    }

    fn is_elsewhere(&self, f: &Finding) -> bool {
        let incident = f.incident.and_then(|i| self.incidents.get(&i));
        incident.is_some_and(|i| elsewhere(&i.cause))
    }
}

/// Is a cause none of the nodes it is seen on?
fn elsewhere(cause: &Entity) -> bool {
    cause.node().is_none()
}

/// Nodes that may have ended an attempt, each with the number of those it is one of.
fn culprits(a: &Attempt, verdict: Verdict, reason: Option<&StopReason>) -> Vec<(NodeName, u32)> {
    let all = || {
        let n = a.placement.slots.len();
        let known = u32::try_from(n).ok().filter(|_| n <= PAST_NODES);
        // The job is one of those it may have been. A part of more nodes is nothing.
        let each = known.map(|n| a.placement.slots.iter().map(move |s| (s.node.clone(), n + 1)));
        each.into_iter().flatten().collect()
    };
    match (verdict, reason) {
        (
            Verdict::Infrastructure,
            Some(StopReason::NodeLost { node } | StopReason::Unhealthy { node, .. }),
        ) => vec![(node.clone(), 1)],
        (
            Verdict::Infrastructure,
            Some(StopReason::SlotFailed { node, end: end @ SlotEnd::NodeFault { .. } }),
        ) if !(end.had_no_server() || end.is_unproven()) => vec![(node.clone(), 1)],
        (Verdict::Unknown, _) => all(),
        _ => Vec::new(),
    }
}

/// How much of a node a slot holds, in thousandths.
fn share(slot: &Slot, n: &Node) -> u32 {
    let gpus = n.gpu_set().len();
    let held = match &slot.part {
        Some(AllocatedPart::Milli(m)) => *m,
        Some(AllocatedPart::Mig { size, .. }) => u32::from(*size) * 1000 / 7,
        // Work without GPUs is an eighth of a node, like work with one of eight.
        None => slot.gpus.len().max(1) * 1000,
    };
    held.checked_div(gpus).unwrap_or(1000).min(1000)
}
