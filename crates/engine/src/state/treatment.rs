//! What is done about findings, and whether somebody has to decide: one rule for every place that says so.

use super::State;
use muster_model::finding::Severity;
use muster_model::names::NodeName;
use muster_model::remediation::{Action, Remediation, RemediationOutcome, RemediationStep};
use std::collections::BTreeSet;

/// What is being done about a finding; worst first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingTreatment {
    /// Nothing, and nothing is to be.
    Alone,
    /// Nothing: an operator undid what was chosen.
    Undone,
    /// Nothing: an operator said no to what was chosen.
    Denied,
    /// Nothing: a limit or a stop holds it back, in words.
    Held(String),
    /// Nothing before somebody approves it.
    Approval,
    /// Nothing now: it is watched.
    Watched,
    /// Nothing now: its node passed its test and is in service on probation.
    Probation,
    /// Something.
    Acted,
}

impl State {
    /// Does a limit, missing proof or stopped automation delay a remediation? See
    /// [`Remediation::is_delayed`].
    #[must_use]
    pub fn is_delayed(&self, r: &Remediation) -> bool {
        let taking = self.policy.remediations.mode(Action::Drain);
        r.is_delayed(taking, self.health.automation.stopped.is_some())
    }

    /// Has an operator to decide about a remediation? What is delayed goes on by itself.
    #[must_use]
    pub fn awaits_approval(&self, r: &Remediation) -> bool {
        r.is_pending() && !self.is_delayed(r)
    }

    /// Is a remediation shown as pending approval? One is that was approved, too, and whose node cannot be
    /// tested: it asks for a person again.
    #[must_use]
    pub(crate) fn asks_operator(&self, r: &Remediation) -> bool {
        r.step == RemediationStep::Approval || self.awaits_approval(r)
    }

    /// What is being done about a finding on this node, for which a remediation of this number was chosen.
    /// What is under way on a node counts for all that was found there.
    #[must_use]
    pub fn treatment(&self, node: Option<&NodeName>, chosen: Option<u64>) -> FindingTreatment {
        let chosen = chosen.and_then(|id| self.health.remediations.get(&id));
        let own = chosen.filter(|r| r.outcome.is_none());
        let there = node.into_iter().flat_map(|n| self.health.remediations_of(n));
        let mut all: Vec<&Remediation> = own.into_iter().chain(there).map(|r| &**r).collect();
        // A node that is watched for something else is not helped by that.
        if all.iter().any(|r| r.action.takes_node()) {
            all.retain(|r| r.action.takes_node());
        }
        if all.is_empty() {
            return match chosen.and_then(|r| r.outcome) {
                Some(RemediationOutcome::Denied) => FindingTreatment::Denied,
                Some(RemediationOutcome::Undone) => FindingTreatment::Undone,
                _ => FindingTreatment::Alone,
            };
        }
        let begins = |r: &Remediation| r.approved.is_some() && r.step == RemediationStep::Proposed;
        if all.iter().any(|r| r.is_in_progress() || begins(r)) {
            return FindingTreatment::Acted;
        }
        if all.iter().any(|r| self.asks_operator(r)) {
            return FindingTreatment::Approval;
        }
        match all.iter().find(|r| self.is_delayed(r)) {
            Some(held) => FindingTreatment::Held(held.why.clone()),
            None if all.iter().any(|r| r.is_probation()) => FindingTreatment::Probation,
            None => FindingTreatment::Watched,
        }
    }

    /// Incidents with critical findings that are open, where nothing is done about any of these and
    /// nothing waits to be.
    #[must_use]
    pub fn untreated_incidents(&self) -> BTreeSet<u64> {
        let (mut untreated, mut treated): (BTreeSet<u64>, BTreeSet<u64>) = <_>::default();
        for f in self.health.open().filter(|f| f.seen.severity == Severity::Critical) {
            let Some(incident) = f.incident else { continue };
            let how = self.treatment(f.seen.entity.node(), f.remediation);
            let of = if how == FindingTreatment::Alone { &mut untreated } else { &mut treated };
            of.insert(incident);
        }
        for incident in treated {
            untreated.remove(&incident);
        }
        untreated
    }
}
