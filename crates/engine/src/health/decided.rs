//! What an operator decided against, and what is seen after that. A decision is about what was known
//! then: the same evidence proposes nothing again, a critical fault that occurs later does.

use crate::{Engine, State};
use muster_model::entity::Entity;
use muster_model::finding::Finding;
use muster_model::remediation::{Action, Remediation, RemediationOutcome, RemediationStep};
use muster_model::units::Time;
use std::sync::Arc;

/// Does a remediation deal with a GPU, or with its whole node?
fn covers(r: &Remediation, gpu: Option<u32>) -> bool {
    r.gpu == gpu || r.action.takes_node()
}

impl State {
    /// When an operator last denied or undid what was to be done about a finding, or what was to be
    /// done about another one and covered it.
    fn decided_against(&self, f: &Finding) -> Option<Time> {
        let gpu = f.seen.entity.gpu();
        let by_operator = |r: &&Arc<Remediation>| {
            matches!(r.outcome, Some(RemediationOutcome::Denied | RemediationOutcome::Undone))
        };
        let about =
            |r: &&Arc<Remediation>| r.finding == f.id || (r.since >= f.opened_at && covers(r, gpu));
        let ever = self.health.remediations_ever(f.seen.entity.node()?);
        ever.filter(by_operator).filter(about).map(|r| r.since).max()
    }

    /// Did a fault at this time come after an operator's decision, and does nothing answer it yet? One
    /// decision has one new proposal, however many faults follow.
    fn is_news(&self, f: &Finding, at: Time) -> bool {
        let Some(decided) = self.decided_against(f) else { return false };
        let book = &self.health;
        let own = f.remediation.and_then(|id| book.remediations.get(&id));
        let answered = own.is_some_and(|r| r.at > decided);
        let goes_on = |r: &Arc<Remediation>| {
            let live = r.step != RemediationStep::Probation && r.action > Action::RestartJob;
            live && covers(r, f.seen.entity.gpu())
        };
        let node = f.seen.entity.node();
        let under_way = node.is_some_and(|n| book.remediations_of(n).any(goes_on));
        at > decided && !answered && !under_way
    }
}

impl Engine {
    /// A critical fault occurred at this time, and its finding is open. If an operator decided against a
    /// remediation before, it is proposed anew.
    pub(super) fn propose_again(&mut self, entity: &Entity, kind: &str, at: Time) {
        let Some(f) = self.state.health.open_of(entity, kind).cloned() else { return };
        if !self.state.is_news(&f, at) {
            return;
        }
        // The proposal rests on what was seen since.
        self.write_repeats(&[f.id]);
        if let Some(f) = self.state.health.findings.get(&f.id).cloned() {
            self.choose_remediation(&f);
        }
    }
}
