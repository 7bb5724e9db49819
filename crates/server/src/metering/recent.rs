//! The last minutes of attempts, rank beside rank: where each was placed, how long its steps took
//! and when it wrote checkpoints. In memory only; what ended is kept for as long as there is
//! something of it to see.

use muster_engine::State;
use muster_metering::Track;
use muster_metering::track::{BINS, WIDTH};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::placement::Placement;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Checkpoints of one attempt that are remembered.
const CHECKPOINTS: usize = 64;
/// Attempts that are over and still remembered.
const OVER: usize = 1024;

/// How long something is worth keeping.
fn kept() -> Span {
    Span(WIDTH.0.saturating_mul(u64::try_from(BINS).unwrap_or(1)))
}

/// One attempt.
#[derive(Debug, Clone)]
pub struct Recent {
    /// Who was where.
    pub placement: Arc<Placement>,
    /// Lengths of steps.
    pub track: Track,
    /// Checkpoints, and how long each held it up.
    pub checkpoints: VecDeque<(Time, Span)>,
    ended: Option<Time>,
}

/// The last minutes of all attempts that run or ended lately.
#[derive(Debug, Default)]
pub(super) struct Recents(BTreeMap<AttemptKey, Recent>);

/// Where an attempt that goes on was placed.
pub(super) fn placed(s: &State, key: AttemptKey) -> Option<Arc<Placement>> {
    let job = s.jobs.get(&key.job).filter(|j| j.attempt_key() == Some(key))?;
    job.attempt.as_ref().map(|a| a.placement.clone())
}

impl Recents {
    pub(super) fn knows(&self, key: AttemptKey) -> bool {
        self.0.contains_key(&key)
    }

    /// An attempt was heard of for the first time.
    pub(super) fn begin(&mut self, key: AttemptKey, placement: Arc<Placement>) {
        self.0.entry(key).or_insert_with(|| Recent {
            placement,
            track: Track::default(),
            checkpoints: VecDeque::new(),
            ended: None,
        });
    }

    pub(super) fn step(&mut self, key: AttemptKey, rank: u32, at: Time, took: u64) {
        if let Some(r) = self.0.get_mut(&key) {
            r.track.step(rank, at, took);
        }
    }

    /// Every rank may report one checkpoint: what follows at once is the same.
    pub(super) fn checkpoint(&mut self, key: AttemptKey, at: Time, blocked: Span) {
        let Some(r) = self.0.get_mut(&key) else { return };
        if let Some((last, longest)) = r.checkpoints.back_mut()
            && at.since(*last) < Span::secs(2)
        {
            *longest = (*longest).max(blocked);
            return;
        }
        if r.checkpoints.len() >= CHECKPOINTS {
            r.checkpoints.pop_front();
        }
        r.checkpoints.push_back((at, blocked));
    }

    /// An attempt of a job: the one that is asked for, or the newest.
    pub(super) fn of(&self, job: JobId, attempt: Option<u32>) -> Option<(u32, Recent)> {
        let (low, high) = (attempt.unwrap_or(0), attempt.unwrap_or(u32::MAX));
        let range = AttemptKey { job, attempt: low }..=AttemptKey { job, attempt: high };
        self.0.range(range).next_back().map(|(k, r)| (k.attempt, r.clone()))
    }

    /// Forgets what nobody can see any more.
    pub(super) fn tidy(&mut self, s: &State) {
        let now = s.at;
        self.0.retain(|key, r| {
            let Some(job) = s.jobs.get(&key.job) else { return false };
            if job.attempt_key() == Some(*key) {
                return true;
            }
            let past = job.past.iter().find(|p| p.no == key.attempt);
            let ended = *r.ended.get_or_insert(past.map_or(now, |p| p.ended_at));
            now.since(ended) < kept()
        });
        let mut over = self.0.values().filter(|r| r.ended.is_some()).count();
        while over > OVER {
            let first = self.0.iter().find(|(_, r)| r.ended.is_some()).map(|(k, _)| *k);
            let Some(key) = first else { return };
            self.0.remove(&key);
            over -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_checkpoint_reported_by_many_ranks_is_one() {
        let mut all = Recents::default();
        let key = AttemptKey { job: JobId(1), attempt: 1 };
        all.checkpoint(key, Time(0), Span(5));
        assert!(all.of(JobId(1), None).is_none(), "nobody knows where it was placed");
        let placement = Placement {
            slots: Vec::new(),
            port: 0,
            domain: String::new(),
            level: muster_model::topology::Level::Leaf,
            fabric: muster_model::placement::Fabric::default(),
            cap_watts: None,
            checkpoint_every: None,
        };
        all.begin(key, Arc::new(placement));
        for (at, blocked) in [(1000, 10), (1001, 30), (1002, 20), (61_000, 5)] {
            all.checkpoint(key, Time(at), Span(blocked));
        }
        let (no, r) = all.of(JobId(1), None).unwrap();
        assert_eq!(no, 1);
        assert_eq!(r.checkpoints, [(Time(1000), Span(30)), (Time(61_000), Span(5))]);
        assert!(all.of(JobId(1), Some(2)).is_none() && all.of(JobId(2), None).is_none());
    }
}
