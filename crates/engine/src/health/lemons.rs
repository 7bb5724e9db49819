//! Nodes that fail more often than their work explains: found from their histories, kept for
//! small work, and let go when their failures are long ago.

use crate::Engine;
use muster_health::lemon::{Fleet, Lemon, Record, SEEN_MIN, lemon};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::names::NodeName;
use muster_model::node::{NodeRole, Stage};
use muster_model::units::{Span, Time};

/// Histories are looked at this long after the last time, once failures were added.
const EVERY: Span = Span::mins(10);
/// And without any, to see whose failures are long ago.
const AGAIN: Span = Span::hours(24);
/// One node in so many may be kept for small work by automation: more are not believed.
const ONE_IN: usize = 20;
/// Jobs that are named as evidence.
const JOBS: usize = 8;

impl Engine {
    /// Looks at the histories of nodes, if it is time.
    pub(super) fn review_lemons(&mut self) {
        let now = self.state.now;
        if self.work.judged_at.is_some() && self.next_lemons().is_none_or(|t| t > now) {
            return;
        }
        self.work.judged_at = Some(now);
        self.work.failures = false;
        let book = &self.state.health;
        if book.records.is_empty() {
            return;
        }
        let fleet = Fleet::of(book.records.values().map(AsRef::as_ref), now);
        let (mut found, mut over) = (Vec::new(), Vec::new());
        for (node, record) in &book.records {
            let serves = |s: Stage| !matches!(s, Stage::Enrolled | Stage::Retired);
            if self.state.nodes.get(node).is_none_or(|n| !serves(n.stage)) {
                continue;
            }
            if let Some(l) = lemon(record, &fleet, now) {
                found.push(make_finding(node, &l, record, now));
            } else if record.seen_milli(now) < u64::from(SEEN_MIN) * 1000 {
                over.extend(
                    book.open_of(&Entity::Node(node.clone()), FailureMode::LEMON.code())
                        .map(|f| f.id),
                );
            }
        }
        for f in found {
            self.found(f, true);
        }
        for id in over {
            self.close_finding(id, "no evidence against it any more", true);
        }
    }

    /// When histories are looked at next.
    pub(super) fn next_lemons(&self) -> Option<Time> {
        let last = self.work.judged_at?;
        let failed = self.work.failures.then_some(last + EVERY);
        failed.or((!self.state.health.records.is_empty()).then_some(last + AGAIN))
    }

    /// A lemon only gets work that is easily done again. Where there would be too many of them,
    /// somebody is notified instead.
    pub(super) fn restrict_to_small_work(&mut self, node: &NodeName) {
        let serve = |s: Stage| !matches!(s, Stage::Enrolled | Stage::Retired);
        let fleet = self.state.nodes.values().filter(|n| serve(n.stage)).count();
        let kept = self.state.health.lemons.len();
        if kept >= (fleet / ONE_IN).max(1) {
            let detail = format!(
                "{kept} of {fleet} nodes are reserved for small work already; node {node} would be one \
                 more, and is not"
            );
            self.page("more lemon nodes than the limit", &detail);
            return;
        }
        self.mark(node, Some(NodeRole::Lemon), 0);
    }

    /// It was no lemon, or is none any more. What an operator chose stays.
    pub(super) fn allow_all_work(&mut self, node: &NodeName) {
        let Some(n) = self.state.nodes.get(node) else { return };
        if n.role == NodeRole::Lemon && self.state.health.lemons.contains(node) {
            let (role, hazard) = (NodeRole::Normal, n.hazard);
            let event = Event::NodeMarked { node: node.clone(), role, hazard, decided: true };
            self.emit(None, event);
        }
    }
}

fn make_finding(node: &NodeName, l: &Lemon, record: &Record, now: Time) -> ObservedFinding {
    let entity = Entity::Node(node.clone());
    let jobs: Vec<String> = record.jobs(now).take(JOBS).map(|j| j.to_string()).collect();
    let seen = ObservedFinding::new(FailureMode::LEMON.code(), entity, Severity::Warning, now)
        .with_confidence(l.confidence)
        .because(l.reason.clone())
        .because(format!("the last jobs it failed: {}", jobs.join(", ")));
    match record.outs(now) {
        0 => seen,
        n => seen.because(format!("taken out of service {n} times in four weeks")),
    }
}
