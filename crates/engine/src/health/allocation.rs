//! New work stays away from a node with a critical finding at once, whatever holds back what is to
//! be done there. Beyond what makes a storm it is avoided only, and somebody is paged: the cordons
//! of a detector that lies must not empty the fleet.

use super::findings::of_hardware;
use crate::state::index::block;
use crate::{Engine, State};
use muster_lifecycle::limits::stop_holds;
use muster_lifecycle::steps::SURE;
use muster_model::event::Event;
use muster_model::finding::{Finding, Severity};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::remediation::{Action, Mode, RemediationStep};
use muster_scheduler::Block;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why new work stays away from a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocationBlocker {
    /// It gets none.
    Always(String),
    /// It gets some where no other node fits.
    IfOthersFit(String),
}

impl State {
    /// Why new work stays away from a node, if it does: what the scheduler itself is told of it.
    #[must_use]
    pub fn allocation_blocker(&self, n: &Node) -> Option<AllocationBlocker> {
        if let Some(b) = block(n) {
            let why = match &n.breaker {
                Some(e) if b == Block::Breaker => format!("breaker {e} is not closed"),
                _ => b.words().to_owned(),
            };
            return Some(AllocationBlocker::Always(why));
        }
        let r = self.health.waiting_on(&n.name)?;
        let found = self.health.findings.get(&r.finding);
        let severity = found.map_or("", |f| f.seen.severity.word());
        let why = format!("{severity} finding {} ({})", r.finding, r.kind);
        Some(AllocationBlocker::IfOthersFit(why.trim_start().to_owned()))
    }
}

impl Engine {
    /// Something about a node changed whose remediation waits: it takes new work, or it does not.
    pub(super) fn settle_allocation(&mut self, node: &NodeName, why: &str, by_operator: bool) {
        let Some(n) = self.state.nodes.get(node).cloned() else { return };
        let cause = self.stops(node);
        let waits = self.state.health.waits_on(node);
        match (n.stage, cause) {
            (Stage::Ready, Some(f)) if waits && n.reachable => self.stop_allocation(&n, &f),
            (Stage::Suspect, None) if !self.is_taken(node) => {
                self.ready_again(&n, why, by_operator);
            }
            (Stage::Suspect, Some(_)) if !waits && !self.is_taken(node) => {
                self.ready_again(&n, why, by_operator);
            }
            _ => {}
        }
    }

    fn stop_allocation(&mut self, n: &Node, f: &Finding) {
        let automatic = self.state.policy.remediations.mode(Action::Drain) == Mode::Automatic;
        if !automatic || self.state.health.automation.stopped.is_some() {
            return;
        }
        let groups = self.groups_of(n);
        if let Some(why) = stop_holds(&groups) {
            let title = "more nodes have critical findings than automation may stop";
            let rest = "the others take new work only where no other node fits";
            self.page(title, &format!("{why}; {rest}"));
            return;
        }
        self.count_stopped(n);
        let event = Event::NodeStaged {
            node: n.name.clone(),
            stage: Stage::Suspect,
            reason: format!("{} (finding {}): no new work", f.seen.kind, f.id),
            until: None,
            by_operator: false,
        };
        self.emit(None, event);
    }

    /// Too many nodes were found at once to be believed: those among them that only take no new
    /// work take some again, where no other node fits.
    pub(super) fn resume_in_storm(&mut self, nodes: &BTreeSet<NodeName>) {
        for node in nodes {
            let n = self.state.nodes.get(node).cloned();
            if let Some(n) = n.filter(|n| self.state.health.is_stopped(n)) {
                self.ready_again(&n, "found in a storm: findings not acted on", false);
            }
        }
    }

    /// The finding for which a node gets no new work.
    fn stops(&self, node: &NodeName) -> Option<Arc<Finding>> {
        let grave = |f: &&Arc<Finding>| {
            f.seen.severity == Severity::Critical
                && f.seen.confidence >= SURE
                && of_hardware(&f.seen)
                && !self.explained(f)
        };
        self.state.health.open_on(node).find(grave).cloned()
    }

    /// Has automation taken a node, by a remediation that goes on?
    fn is_taken(&self, node: &NodeName) -> bool {
        let on = |s: RemediationStep| {
            !matches!(
                s,
                RemediationStep::Proposed | RemediationStep::Probation | RemediationStep::Ended
            )
        };
        self.state.health.remediations_of(node).any(|r| r.action.takes_node() && on(r.step))
    }
}
