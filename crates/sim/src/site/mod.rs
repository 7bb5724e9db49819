//! A real site as a scenario: what its log says, lived on from where it ends, as it is or with
//! something changed; or lived again from its beginning under another policy.
//!
//! Known of a site are its machines, its policy, what runs and waits, how long jobs of each user
//! ran and how often nodes failed. Guessed is how long what runs will go on and what will come;
//! both are drawn anew for each seed, so that the spread of the answers shows how much is unknown.

mod answer;
mod change;
mod draw;
mod effort;
mod facts;
mod limit;
mod log;
mod machines;
mod pair;
mod plan;
mod replay;
mod words;

#[cfg(test)]
mod tests;

pub use answer::{answer, cells, label};
pub use change::{CHANGES, Change};
pub use effort::{Ask, Effort};
pub use log::records;
pub use pair::{JobTotals, SimulatedPair, SimulatedRun};
pub use plan::Plan;
pub use replay::replay;

use crate::SimError;
use facts::Facts;
use muster_engine::State;
use muster_health::Rate;
use muster_model::event::Record;
use muster_model::ids::Seq;
use muster_model::units::{Span, Time};
use std::borrow::Borrow;

/// How much of the log new arrivals are taken from.
const RECENT: Span = Span::hours(14 * 24);
/// With less of a log, or fewer jobs in it, nothing can be said of what will come.
const ENOUGH: Span = Span::hours(6);
const ENOUGH_JOBS: usize = 20;

/// What the log of a site adds up to.
#[derive(Debug)]
pub struct Site {
    pub(crate) state: State,
    pub(crate) facts: Facts,
    pub(crate) now: Time,
}

impl Site {
    /// Folds a log from its first record on.
    ///
    /// # Errors
    /// When a record does not follow from those before it, or there is none.
    pub fn from_records(
        records: impl Iterator<Item = impl Borrow<Record>>,
    ) -> Result<Site, SimError> {
        let (mut state, mut facts) = (State::default(), Facts::default());
        for r in records {
            let r: &Record = r.borrow();
            if state.seq == Seq(0) && r.seq > Seq(1) {
                return Err(SimError::new(format!(
                    "the log begins with record {}: what came before is in archived segments",
                    r.seq
                )));
            }
            facts.note(r);
            state.apply(r).map_err(|e| SimError::new(format!("the log is broken: {e}")))?;
        }
        if state.site.is_none() {
            return Err(SimError::new("the log is empty: it does not even found a site"));
        }
        let now = state.at;
        facts.close();
        Ok(Site { state, facts, now })
    }

    /// The same site at a later moment, when nothing was written since.
    #[must_use]
    pub fn at(mut self, now: Time) -> Site {
        self.now = self.now.max(now);
        self
    }

    /// How often nodes fail here: what was seen, weighed with what the policy assumes.
    #[must_use]
    pub fn failure_rate(&self) -> Rate {
        let p = &self.state.policy.reliability;
        let prior = Rate(u64::from(p.failures_per_million_node_days));
        Rate::estimate(&self.facts.exposure(self.now), prior, u64::from(p.weight))
    }

    /// Jobs that are taken as a sample of what will come, by the time before now; empty when the
    /// log is too short to say.
    pub(crate) fn recent(&self) -> (Span, Vec<&facts::SubmittedJob>) {
        let window = self.now.since(self.facts.first).min(RECENT);
        let from = self.now - window;
        let jobs: Vec<&facts::SubmittedJob> =
            self.facts.jobs.values().filter(|j| j.at > from).collect();
        if window < ENOUGH || jobs.len() < ENOUGH_JOBS {
            (window, Vec::new())
        } else {
            (window, jobs)
        }
    }

    /// Jobs that came in an hour, lately; none when the log is too short to say.
    #[must_use]
    pub fn arrivals_per_hour(&self) -> Option<f64> {
        let (window, jobs) = self.recent();
        (!jobs.is_empty()).then(|| jobs.len() as f64 / (window.0 as f64 / 3_600_000.0))
    }

    /// Jobs that hold nodes, and jobs that wait for some.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let active = self.state.jobs.values().filter(|j| j.state.is_active()).count();
        (active, self.state.queue_len())
    }
}
