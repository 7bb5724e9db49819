//! What a job's run time is believed to be, from the recent jobs of its user.
//!
//! Users repeat themselves: the next job resembles the last few, most of all those that asked for
//! the same time limit and the same width. Each remembered job votes with a weight that halves
//! every two jobs, counts eight times for the same limit and four times for the same width. A
//! belief only orders jobs; it never enters a reserved start.
//!
//! All arithmetic is on integers and depends on nothing but the calls made, so a replay gives the
//! same answers.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Jobs remembered per user.
pub const KEEP: usize = 16;
/// A vote's weight halves after this many newer jobs.
const HALF: usize = 2;
/// Weight of the newest job: with `KEEP` and `HALF` the oldest still has 2^9.
const NEWEST: u128 = 1 << 16;
/// Factor for a past job with the same time limit.
const SAME_LIMIT: u128 = 8;
/// Factor for a past job of the same width.
const SAME_WIDTH: u128 = 4;
/// Shorter runs count as this long, as in the bounded slowdown (10 s).
const TAU_MS: u64 = 10_000;
/// Scale of [`RuntimeEstimate::urgency`].
const ONE: u64 = 1 << 60;

/// A finished job, as remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FinishedJob {
    width: u32,
    limit_ms: u64,
    run_ms: u64,
}

/// What is believed of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RuntimeEstimate {
    /// Expected run time, at most the limit.
    pub run_ms: u64,
    /// Expected value of 1/run (scaled): how fast waiting hurts this job. Not the inverse of `run_ms`: a job that is
    /// either over at once or very long is long on average, yet well worth trying early.
    pub urgency: u64,
}

impl RuntimeEstimate {
    /// The belief about a job of which nothing but the limit is known.
    #[must_use]
    pub fn from_limit(limit_ms: u64) -> Self {
        Self { run_ms: limit_ms.max(1), urgency: inverse(limit_ms) }
    }

    /// Rank among waiting jobs, highest first: slowdown saved per unit of machine time spent, that is
    /// E\[1/run\] / (E\[run\] * width), the weighted shortest expected processing time rule.
    #[must_use]
    pub fn rank(&self, width: u32) -> u128 {
        (u128::from(self.urgency) << 48)
            / (u128::from(self.run_ms.max(1)) * u128::from(width.max(1)))
    }
}

fn inverse(run_ms: u64) -> u64 {
    ONE / run_ms.max(TAU_MS)
}

/// Recent jobs of every user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(U, VecDeque<FinishedJob>)>", into = "Vec<(U, VecDeque<FinishedJob>)>")]
#[serde(bound(
    serialize = "U: Ord + Clone + Serialize",
    deserialize = "U: Ord + Deserialize<'de>"
))]
pub struct History<U: Ord + Clone> {
    users: BTreeMap<U, VecDeque<FinishedJob>>,
}

impl<U: Ord + Clone> Default for History<U> {
    fn default() -> Self {
        History { users: BTreeMap::new() }
    }
}

impl<U: Ord + Clone> From<Vec<(U, VecDeque<FinishedJob>)>> for History<U> {
    fn from(all: Vec<(U, VecDeque<FinishedJob>)>) -> Self {
        History { users: all.into_iter().collect() }
    }
}

impl<U: Ord + Clone> From<History<U>> for Vec<(U, VecDeque<FinishedJob>)> {
    fn from(h: History<U>) -> Self {
        h.users.into_iter().collect()
    }
}

impl<U: Ord + Clone> History<U> {
    /// Records a job that ended by itself or at its limit. A job that was cancelled or lost its node says nothing
    /// about how long its like will run and should not be recorded.
    pub fn observe(&mut self, user: U, width: u32, limit_ms: u64, run_ms: u64) {
        let past = self.users.entry(user).or_default();
        past.push_front(FinishedJob { width, limit_ms, run_ms });
        past.truncate(KEEP);
    }

    /// All that is remembered: whose job it was, its limit and how long it ran, in milliseconds.
    pub(crate) fn past(&self) -> impl Iterator<Item = (&U, u64, u64)> {
        self.users
            .iter()
            .flat_map(|(user, past)| past.iter().map(move |p| (user, p.limit_ms, p.run_ms)))
    }

    /// Expected run time, or `None` for a user without history.
    #[must_use]
    pub fn predict(&self, user: &U, width: u32, limit_ms: u64) -> Option<u64> {
        self.vote(user, width, limit_ms).map(|b| b.run_ms)
    }

    /// Everything believed of a job; only the limit speaks for a user without history.
    #[must_use]
    pub fn runtime_estimate(&self, user: &U, width: u32, limit_ms: u64) -> RuntimeEstimate {
        self.vote(user, width, limit_ms).unwrap_or_else(|| RuntimeEstimate::from_limit(limit_ms))
    }

    /// Weighted means over the user's past jobs.
    fn vote(&self, user: &U, width: u32, limit_ms: u64) -> Option<RuntimeEstimate> {
        let (mut weight, mut run, mut urgency) = (0u128, 0u128, 0u128);
        for (age, past) in self.users.get(user)?.iter().enumerate() {
            // A past job longer than this one may be says that it will run to its limit.
            let ran = past.run_ms.min(limit_ms);
            let mut vote = NEWEST >> (age / HALF);
            if past.limit_ms == limit_ms {
                vote *= SAME_LIMIT;
            }
            if past.width == width {
                vote *= SAME_WIDTH;
            }
            weight += vote;
            run += vote * u128::from(ran);
            urgency += vote * u128::from(inverse(ran));
        }
        // A mean is never above its largest term, so both fit.
        let mean = |sum: u128| u64::try_from(sum / weight).unwrap_or(u64::MAX);
        (weight > 0).then(|| RuntimeEstimate { run_ms: mean(run).max(1), urgency: mean(urgency) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: u64 = 60_000;

    #[test]
    fn a_stranger_has_no_prediction() {
        let h = History::default();
        assert_eq!(h.predict(&"ann", 4, 60 * MIN), None);
        assert_eq!(h.runtime_estimate(&"ann", 4, 60 * MIN), RuntimeEstimate::from_limit(60 * MIN));
    }

    #[test]
    fn one_job_is_enough_and_the_limit_caps_it() {
        let mut h = History::default();
        h.observe("ann", 4, 60 * MIN, 20 * MIN);
        assert_eq!(h.predict(&"ann", 4, 60 * MIN), Some(20 * MIN));
        assert_eq!(h.predict(&"ann", 8, 10 * MIN), Some(10 * MIN));
        assert_eq!(h.predict(&"bob", 4, 60 * MIN), None);
    }

    #[test]
    fn the_same_limit_and_width_outvote_newer_jobs() {
        let mut h = History::default();
        h.observe("ann", 4, 60 * MIN, 50 * MIN);
        h.observe("ann", 1, 5 * MIN, MIN);
        // Weights 32 : 1, both in the newest pair.
        assert_eq!(h.predict(&"ann", 4, 60 * MIN), Some((32 * 50 + 1) * MIN / 33));
        assert_eq!(h.predict(&"ann", 1, 5 * MIN), Some((5 + 32) * MIN / 33));
    }

    #[test]
    fn newer_jobs_count_more_and_old_ones_fall_out() {
        let mut h = History::default();
        for run in [40, 40, 10, 10] {
            h.observe("ann", 1, 60 * MIN, run * MIN);
        }
        assert_eq!(h.predict(&"ann", 1, 60 * MIN), Some(20 * MIN));
        for _ in 0..KEEP {
            h.observe("ann", 1, 60 * MIN, 7 * MIN);
        }
        assert_eq!(h.predict(&"ann", 1, 60 * MIN), Some(7 * MIN));
    }

    #[test]
    fn a_job_that_may_be_over_at_once_ranks_above_a_sure_one_of_the_same_mean() {
        let mut h = History::default();
        for run in [1, 59] {
            h.observe("ann", 1, 60 * MIN, run * MIN);
            h.observe("bob", 1, 60 * MIN, 30 * MIN);
        }
        let (a, b) =
            (h.runtime_estimate(&"ann", 1, 60 * MIN), h.runtime_estimate(&"bob", 1, 60 * MIN));
        assert_eq!(a.run_ms, b.run_ms);
        assert!(a.rank(1) > b.rank(1));
        assert!(b.rank(1) > b.rank(2));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut h = History::default();
        for _ in 0..KEEP {
            h.observe(0u8, u32::MAX, u64::MAX, u64::MAX);
        }
        let b = h.runtime_estimate(&0, u32::MAX, u64::MAX);
        assert_eq!(b.run_ms, u64::MAX);
        assert_eq!(b.rank(u32::MAX), 0);
        h.observe(1, 0, 0, 0);
        assert!(h.runtime_estimate(&1, 0, 0).rank(0) > 0);
    }
}
