//! Whether somebody has to decide about a remediation: one rule for every place that says so.

use super::State;
use muster_model::remediation::{Action, Remediation};

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
}
