//! What the ranks of an attempt said of their steps, added up: how fast, where a step's time goes,
//! which rank is the slowest, and when nothing was done.

use crate::stage::Stage;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// Ranks that are distinguished.
const RANKS: usize = 65_536;
/// Stages that are distinguished.
const STAGES: usize = 32;
/// Stretches of idleness that are kept apart; further ones are added to the last.
const STRETCHES: usize = 256;
/// Gaps between steps after which it is known what is usual.
const LEARNT: u32 = 5;
/// It is idle when no step came for so many times the usual gap, and for at least so long: the
/// same by which a hang is judged.
const GAPS: u64 = 20;
const FLOOR: Span = Span::secs(60);

/// Sums of one rank, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Rank {
    n: u64,
    t: u64,
    /// Without exchange and waiting.
    own: u64,
}

/// What an attempt said of itself.
#[derive(Debug, Clone, Default)]
pub struct JobProgress {
    first: Option<Time>,
    /// The last sign of progress.
    last: Option<Time>,
    newest: Option<u64>,
    /// What is usual between two signs, in milliseconds, and from how many that was learnt.
    gap: u64,
    gaps: u32,
    idle: Vec<(Time, Time)>,
    reported: u64,
    /// Reported with their length.
    timed: u64,
    t: u64,
    stages: BTreeMap<String, (u64, u64)>,
    ranks: BTreeMap<u32, Rank>,
}

impl JobProgress {
    /// A rank made a step; lengths in microseconds.
    pub fn step(
        &mut self,
        rank: u32,
        at: Time,
        step: u64,
        took: Option<u64>,
        stages: impl IntoIterator<Item = (String, u64)>,
    ) {
        // It began when it was not yet over.
        self.first.get_or_insert(at - Span(took.unwrap_or(0) / 1000));
        self.reported = self.reported.saturating_add(1);
        // A gang goes on when its newest step does, whoever reports it.
        if self.newest.is_none_or(|n| step > n) {
            self.newest = Some(step);
            self.sign(at, Span(0));
        }
        let mut exchanged = 0u64;
        let mut all = 0u64;
        for (name, us) in stages {
            all = all.saturating_add(us);
            if Stage::of(&name) == Stage::Comm {
                exchanged = exchanged.saturating_add(us);
            }
            if self.stages.len() < STAGES || self.stages.contains_key(&name) {
                let sum = self.stages.entry(name).or_default();
                *sum = (sum.0.saturating_add(1), sum.1.saturating_add(us));
            }
        }
        let Some(t) = took.or((all > 0).then_some(all)) else { return };
        self.timed = self.timed.saturating_add(1);
        self.t = self.t.saturating_add(t);
        if self.ranks.len() < RANKS || self.ranks.contains_key(&rank) {
            let r = self.ranks.entry(rank).or_default();
            r.n = r.n.saturating_add(1);
            r.t = r.t.saturating_add(t);
            r.own = r.own.saturating_add(t.saturating_sub(exchanged));
        }
    }

    /// A checkpoint was written, which held the attempt up for so long. That was no idleness.
    pub fn checkpoint(&mut self, at: Time, blocked: Span) {
        if self.first.is_some() {
            self.sign(at, blocked);
        }
    }

    /// It goes on; of the time since the last sign so much is accounted for.
    fn sign(&mut self, at: Time, blocked: Span) {
        let Some(last) = self.last.replace(self.last.map_or(at, |l| l.max(at))) else { return };
        let gap = at.since(last).0.saturating_sub(blocked.0);
        match self.bound() {
            Some(bound) if gap > bound.0 => {
                let to = last + Span(gap);
                self.rest(last + Span(self.gap), to);
                return;
            }
            _ => {}
        }
        if blocked.0 == 0 && gap > 0 {
            self.gap = if self.gaps == 0 { gap } else { (self.gap * 7 + gap) / 8 };
            self.gaps = self.gaps.saturating_add(1);
        }
    }

    fn rest(&mut self, from: Time, to: Time) {
        if self.idle.len() >= STRETCHES {
            // Rather too short than in time that was worked.
            return;
        }
        self.idle.push((from, to));
    }

    /// A longer time without a step is idleness, when it is known.
    #[must_use]
    pub fn bound(&self) -> Option<Span> {
        (self.gaps >= LEARNT).then(|| Span(self.gap.saturating_mul(GAPS)).max(FLOOR))
    }

    /// When nothing was done, as far as is known at a moment.
    #[must_use]
    pub fn idle(&self, now: Time) -> Vec<(Time, Time)> {
        let mut out = self.idle.clone();
        if let (Some(last), Some(bound)) = (self.last, self.bound())
            && now.since(last) > bound
        {
            out.push((last + Span(self.gap), now));
        }
        out
    }

    /// When the first step that was reported began.
    #[must_use]
    pub fn first(&self) -> Option<Time> {
        self.first
    }

    /// What is to be reported of it.
    #[must_use]
    pub fn pace(&self) -> Option<Pace> {
        let mean = |sum: u64, n: u64| sum.checked_div(n);
        let mut stages: Vec<(String, u64)> = self
            .stages
            .iter()
            .filter_map(|(name, (n, us))| Some((name.clone(), mean(*us, *n)?)))
            .collect();
        stages.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let own = |r: &Rank| mean(r.own, r.n).unwrap_or(0);
        let slowest = self.ranks.iter().max_by_key(|(no, r)| (own(r), std::cmp::Reverse(**no)));
        let mut all: Vec<u64> = self.ranks.values().map(own).collect();
        all.sort_unstable();
        let median = all.get(all.len().saturating_sub(1) / 2).copied();
        Some(Pace {
            first: self.first?,
            last: self.last?,
            step: self.newest?,
            reported: self.reported,
            step_us: mean(self.t, self.timed),
            stages,
            ranks: u32::try_from(self.ranks.len()).unwrap_or(u32::MAX),
            slowest: slowest.filter(|_| all.len() > 1).map(|(no, r)| (*no, own(r))),
            median_us: median,
        })
    }
}

/// What is to be reported of an attempt's steps; means in microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// When the first step that was reported began.
    pub first: Time,
    /// The last sign of progress.
    pub last: Time,
    /// The newest step.
    pub step: u64,
    /// Reports that were heard; ranks send at most one a second.
    pub reported: u64,
    /// A step takes so long.
    pub step_us: Option<u64>,
    /// Its stages, the longest first.
    pub stages: Vec<(String, u64)>,
    /// Ranks that reported how long a step takes.
    pub ranks: u32,
    /// The rank whose own work takes longest, where several reported, and how long.
    pub slowest: Option<(u32, u64)>,
    /// The median rank's own work.
    pub median_us: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time(1_000_000) + Span::secs(s)
    }

    #[test]
    fn what_is_usual_is_learnt_and_longer_gaps_are_idle() {
        let mut v = JobProgress::default();
        for s in 0..10 {
            for rank in 0..4 {
                v.step(rank, at(s * 10), s, None, []);
            }
        }
        assert_eq!(v.bound(), Some(Span::secs(200)), "twenty times ten seconds");
        assert_eq!(v.idle(at(90 + 200)), []);
        assert_eq!(v.idle(at(90 + 201)), [(at(100), at(291))], "not over yet");
        // A slow step, then a long rest.
        v.step(0, at(200), 10, None, []);
        assert_eq!(v.idle(at(200)), []);
        v.step(0, at(1200), 11, None, []);
        let idle = v.idle(at(1200));
        assert_eq!(idle.len(), 1);
        assert_eq!(idle[0].1, at(1200));
    }

    #[test]
    fn nothing_is_claimed_before_something_is_known() {
        let mut v = JobProgress::default();
        assert!(v.pace().is_none());
        v.step(0, at(0), 1, None, []);
        v.step(0, at(5000), 2, None, []);
        assert_eq!((v.idle(at(9000)), v.bound()), (vec![], None));
    }

    #[test]
    fn a_checkpoint_is_no_idleness() {
        let mut v = JobProgress::default();
        for s in 0..10 {
            v.step(0, at(s), s, None, []);
        }
        v.checkpoint(at(9 + 300), Span::secs(295));
        v.step(0, at(310), 10, None, []);
        assert_eq!(v.idle(at(311)), []);
        v.checkpoint(at(310 + 300), Span::secs(100));
        assert_eq!(v.idle(at(610)).len(), 1, "200 s that the checkpoint does not account for");
    }

    #[test]
    fn the_slowest_rank_and_the_slowest_stage_are_named() {
        let mut v = JobProgress::default();
        for s in 0..10u64 {
            for rank in 0..4u32 {
                // Rank 2 computes for longer; the others wait for it.
                let compute = if rank == 2 { 900 } else { 500 };
                let stages = [("compute".into(), compute), ("comm".into(), 1000 - compute)];
                v.step(rank, at(s), s, Some(1000), stages);
            }
        }
        let p = v.pace().unwrap();
        assert_eq!(p.slowest, Some((2, 900)));
        assert_eq!((p.median_us, p.step_us, p.ranks, p.step), (Some(500), Some(1000), 4, 9));
        assert_eq!(p.stages, [("compute".to_string(), 600), ("comm".to_string(), 400)]);
    }
}
