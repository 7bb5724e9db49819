//! New work stays away from a node with a critical finding at once, whatever holds back what is to
//! be done there. Beyond what makes a storm it is avoided only, and somebody is paged: the cordons
//! of a detector that lies must not empty the fleet.

use super::findings::of_hardware;
use crate::qualify;
use crate::state::index::block;
use crate::{Engine, State};
use muster_lifecycle::limits::stop_holds;
use muster_lifecycle::steps::SURE;
use muster_model::event::Event;
use muster_model::finding::{Finding, Severity};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::remediation::{Action, Mode, Remediation, RemediationOutcome, RemediationStep};
use muster_scheduler::Block;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why new work avoids a node whose agent's connection ended.
pub const NOT_CONNECTED: &str = "its agent is not connected";

/// Why new work stays away from a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocationBlocker {
    /// It gets none.
    Always(String),
    /// It gets some where no other node fits.
    IfOthersFit(String),
}

impl State {
    /// Why new work stays away from a node, if it does: what the scheduler itself knows of it.
    #[must_use]
    pub fn allocation_blocker(&self, n: &Node) -> Option<AllocationBlocker> {
        if let Some(b) = block(n) {
            let why = match &n.breaker {
                Some(e) if b == Block::Breaker => format!("breaker {e} is not closed"),
                _ => b.words().to_owned(),
            };
            return Some(AllocationBlocker::Always(why));
        }
        let Some(r) = self.health.waiting_on(&n.name) else {
            let why = || AllocationBlocker::IfOthersFit(NOT_CONNECTED.to_owned());
            return self.is_disconnected(&n.name).then(why);
        };
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
            // What is only recorded stops nothing; what an operator denied does.
            (Stage::Suspect, Some(_))
                if !waits && !self.is_taken(node) && (by_operator || !self.is_denied(node)) =>
            {
                self.ready_again(&n, why, by_operator);
            }
            _ => {}
        }
    }

    /// An operator gives a node back to work. What stops new work there does so from this moment
    /// on, whether what is to be done about it waits or was denied.
    pub(crate) fn settle_undrained(&mut self, node: &NodeName) {
        match self.stops(node).filter(|_| self.is_denied(node)) {
            Some(f) => self.emit(None, no_new_work(node, &f)),
            None => self.settle_allocation(node, "nothing critical is left", false),
        }
    }

    /// No remediation holds a node any more that one took: it returns to service. Where something
    /// else that is critical waits there, or was denied, what runs may stay and nothing new comes.
    pub(super) fn release(&mut self, n: &Node, why: &str, by_operator: bool) {
        let waits = self.state.health.waits_on(&n.name) || self.is_denied(&n.name);
        match self.stops(&n.name).filter(|_| waits && !by_operator) {
            None => self.ready_again(n, why, by_operator),
            Some(f) => {
                qualify::drop_test(self, n);
                self.emit(None, no_new_work(&n.name, &f));
                self.keep_reported_work(n, why);
            }
        }
    }

    /// What was to be done about a node was denied. That is no proof that its hardware is healthy:
    /// what stops new work does so until it is over, and the node says who denied it.
    pub(super) fn settle_denied(&mut self, r: &Remediation, why: &str) {
        if r.step == RemediationStep::Proposed && self.stops(&r.node).is_none() {
            self.settle_allocation(&r.node, why, true);
            return;
        }
        let Some(n) = self.state.nodes.get(&r.node).cloned() else { return };
        let left = self.is_taken(&n.name) || self.state.health.waits_on(&n.name);
        if left || !matches!(n.stage, Stage::Suspect | Stage::Quarantined) {
            return;
        }
        let by = why.strip_prefix("by ").unwrap_or(why);
        let event = Event::NodeStaged {
            node: n.name.clone(),
            stage: n.stage,
            reason: format!("{} (finding {}): remediation denied by {by}", r.kind, r.finding),
            until: n.stage_until,
            by_operator: true,
        };
        self.emit(None, event);
    }

    /// Something about a node changed that gets no new work and that no remediation has taken: it
    /// gets some again when nothing critical is left.
    pub(super) fn release_denied(&mut self, node: &NodeName) {
        let suspect = self.state.nodes.get(node).is_some_and(|n| n.stage == Stage::Suspect);
        if suspect && self.stops(node).is_none() {
            self.settle_allocation(node, "nothing critical is left", false);
        }
    }

    /// An operator denied or took back what was for one GPU. That says nothing of the node's other
    /// GPUs: what was found there and has no remediation, because this one covered it, gets its own.
    pub(super) fn consider_other_gpus(&mut self, decided: &Remediation) {
        let ids: Vec<u64> = self.critical_on_other_gpus(decided).map(|f| f.id).collect();
        self.reconsider_findings(&ids);
    }

    /// An operator took back what was done for one GPU: what was denied of another keeps the node
    /// out as before.
    pub(super) fn settle_other_gpus(&mut self, undone: &Remediation) {
        self.consider_other_gpus(undone);
        let denied = self.critical_on_other_gpus(undone).find(|f| self.was_denied(f)).cloned();
        let Some(f) = denied else { return };
        let ready = self.state.nodes.get(&undone.node).is_some_and(|n| n.stage == Stage::Ready);
        if !ready || self.is_taken(&undone.node) {
            return;
        }
        let event = Event::NodeStaged {
            node: undone.node.clone(),
            stage: Stage::Quarantined,
            reason: format!("{} (finding {}): its remediation was denied", f.seen.kind, f.id),
            until: None,
            by_operator: true,
        };
        self.emit(None, event);
    }

    /// Critical findings of the same node on other GPUs than a remediation is for.
    fn critical_on_other_gpus(&self, r: &Remediation) -> impl Iterator<Item = &Arc<Finding>> {
        let own = r.gpu;
        self.state.health.open_on(&r.node).filter(move |f| {
            let gpu = f.seen.entity.gpu();
            f.seen.severity == Severity::Critical && gpu.is_some() && gpu != own
        })
    }

    /// A node passed a test that a person asked for. Where its remediation was denied, nothing else
    /// returns it.
    pub(super) fn return_denied(&mut self, node: &NodeName) {
        let Some(n) = self.state.nodes.get(node).cloned() else { return };
        let held = self.is_taken(node)
            || self.is_kept_out(node)
            || self.state.health.act_under_way(node).is_some();
        if n.stage == Stage::Quarantined && !held {
            self.serve_again(&n, "passed its test".into());
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
        let was = self.counted(n);
        self.emit(None, no_new_work(&n.name, f));
        self.count_again(&n.name, was);
    }

    /// Too many nodes were found at once to be believed: those among them that only take no new
    /// work take some again, where no other node fits. A node whose remediation an operator denied
    /// stays as it is: nothing waits there that would keep other work away.
    pub(super) fn resume_in_storm(&mut self, nodes: &BTreeSet<NodeName>) {
        for node in nodes {
            let n = self.state.nodes.get(node).cloned();
            let waits = self.state.health.waits_on(node);
            if let Some(n) = n.filter(|n| waits && self.state.health.is_stopped(n)) {
                self.ready_again(&n, "found in a storm: findings not acted on", false);
            }
        }
    }

    /// The finding for which a node gets no new work.
    fn stops(&self, node: &NodeName) -> Option<Arc<Finding>> {
        self.stopping(node).next().cloned()
    }

    /// Did an operator deny what was to be done about one of those findings?
    fn is_denied(&self, node: &NodeName) -> bool {
        self.stopping(node).any(|f| self.was_denied(f))
    }

    fn was_denied(&self, f: &Finding) -> bool {
        let last = f.remediation.and_then(|r| self.state.health.remediations.get(&r));
        last.is_some_and(|r| r.outcome == Some(RemediationOutcome::Denied))
    }

    /// All findings for which a node gets no new work, oldest first.
    pub(super) fn stopping(&self, node: &NodeName) -> impl Iterator<Item = &Arc<Finding>> {
        let grave = move |f: &&Arc<Finding>| {
            f.seen.severity == Severity::Critical
                && f.seen.confidence >= SURE
                && of_hardware(&f.seen)
                && self.is_in_use(f)
                && !self.explained(f)
        };
        self.state.health.open_on(node).filter(grave)
    }

    /// Has automation taken a node, by a remediation that goes on?
    pub(super) fn is_taken(&self, node: &NodeName) -> bool {
        let on = |s: RemediationStep| {
            !matches!(
                s,
                RemediationStep::Proposed | RemediationStep::Probation | RemediationStep::Ended
            )
        };
        self.state.health.remediations_of(node).any(|r| r.action.takes_node() && on(r.step))
    }
}

/// A node gets no new work for a finding, and keeps what it has.
fn no_new_work(node: &NodeName, f: &Finding) -> Event {
    Event::NodeStaged {
        node: node.clone(),
        stage: Stage::Suspect,
        reason: format!("{} (finding {}): no new work", f.seen.kind, f.id),
        until: None,
        by_operator: false,
    }
}
