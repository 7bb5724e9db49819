//! Lemons: nodes that fail more often than their share of the work explains.
//!
//! Over four weeks, a node's failures stand against what the rest of the fleet's rate and its own
//! busy time let expect, so that a node is not counted against for being busy. The failure of a gang whose
//! culprit is not known is shared by its nodes: each gets `1/n` of it. Where the culprit is known,
//! it gets the whole of it. What ended several jobs of a node at once was one failure, and so is
//! what one job met there within a day: the job may be the reason. A node is called a lemon when
//! three or more failures were seen and chance explains so many with less than one in ten thousand.
//!
//! The idea of counting over 28 days is from Meta's fleets (arXiv:2410.21680), where thresholds were
//! set by hand; the exposure in the denominator is ours.

#[cfg(test)]
mod tests;

use crate::correlate::tail::poisson;
use crate::rate::Rate;
use crate::series::exp_neg;
use muster_model::ids::JobId;
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far back failures and work count.
pub const WINDOW: Span = Span::hours(28 * 24);
/// Failures of a node that are kept.
pub const FAILS_MAX: usize = 64;
/// Failures below which nobody is called anything.
pub const SEEN_MIN: u32 = 3;
/// Chance below which it is not called chance.
const CHANCE: f64 = 1e-4;
/// How often nodes fail where nothing was seen yet, counted as one failure seen at this rate.
const PRIOR: Rate = Rate::RSC1;
/// Failures of a node this close together are one.
const ONE: Span = Span::mins(10);
/// Failures under one job this close together are one.
const ONE_JOB: Span = Span::hours(24);
/// Times that a node was out of service that are kept.
const OUTS_MAX: usize = 32;
/// Days that the window can touch.
const DAYS_MAX: usize = 29;
const DAY_MS: i64 = 86_400_000;
/// Fewer busy hours than this count as this, so that a first bad day is not taken for a year's.
const BUSY_MIN: u64 = 86_400_000;
/// For the confidence: one node in so many is a lemon, and fails so many times as often as others
/// (1.2% of nodes: arXiv:2410.21680).
const ONE_IN: f64 = 83.0;
const TIMES: u16 = 10;

/// A failure that a node was part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Fail {
    at: Time,
    /// Its part in it, in thousandths.
    part: u32,
    /// The job that met it.
    job: JobId,
}

/// What is known of one node: its failures, its busy time and how often it was taken out of
/// service. Bounded, whatever happens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// In the order they were reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fails: Vec<Fail>,
    /// Busy milliseconds of each day; no more days than the window has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    busy: BTreeMap<i64, u64>,
    /// When it was taken out of service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outs: Vec<Time>,
}

impl Record {
    /// It was part of a failure under a job: its own when `gang_nodes` is one, else one of so many
    /// nodes, and nobody knows whose it was.
    pub fn failed(&mut self, at: Time, job: JobId, gang_nodes: u32) {
        self.fails.retain(|f| f.at + WINDOW > at);
        let part = 1000 / gang_nodes.clamp(1, 1000);
        let same = |f: &&mut Fail| {
            let apart = f.at.since(at).max(at.since(f.at));
            apart < ONE || (f.job == job && apart < ONE_JOB)
        };
        if let Some(f) = self.fails.iter_mut().rev().find(same) {
            f.part = f.part.max(part);
            return;
        }
        if self.fails.len() >= FAILS_MAX {
            // Two half failures make one of both parts: old ones are joined rather than lost.
            let oldest = self.fails.remove(0);
            if let Some(next) = self.fails.first_mut() {
                next.part = next.part.saturating_add(oldest.part);
            }
        }
        self.fails.push(Fail { at, part, job });
    }

    /// What was counted of a job at that moment was not the node's doing.
    pub fn discount_failure(&mut self, at: Time, job: JobId) {
        self.fails.retain(|f| (f.at, f.job) != (at, job));
    }

    /// What was counted since then was not the node's doing.
    pub fn discount_failures_since(&mut self, since: Time) {
        self.fails.retain(|f| f.at < since);
    }

    /// It begins anew: it was repaired, or somebody knows better.
    pub fn reset_history(&mut self) {
        self.fails.clear();
    }

    /// It was taken out of service.
    pub fn out(&mut self, at: Time) {
        self.outs.retain(|t| *t + WINDOW > at);
        if self.outs.len() >= OUTS_MAX {
            self.outs.remove(0);
        }
        self.outs.push(at);
    }

    /// So many thousandths of it worked from one moment to another.
    pub fn busy(&mut self, from: Time, to: Time, milli: u32) {
        // Longer than the window is all of it.
        let mut at = from.max(to - WINDOW);
        while at < to {
            let day = at.0.div_euclid(DAY_MS);
            let end = Time((day + 1).saturating_mul(DAY_MS)).min(to);
            let ms = self.busy.entry(day).or_default();
            *ms = ms.saturating_add(end.since(at).0 * u64::from(milli.min(1000)) / 1000);
            at = end;
        }
        while self.busy.len() > DAYS_MAX {
            self.busy.pop_first();
        }
    }

    /// Thousandths of failures within the window.
    #[must_use]
    pub fn seen_milli(&self, now: Time) -> u64 {
        self.fails.iter().filter(|f| f.at + WINDOW > now).map(|f| u64::from(f.part)).sum()
    }

    /// Busy milliseconds within the window, to whole days.
    #[must_use]
    pub fn busy_ms(&self, now: Time) -> u64 {
        self.busy.range(first_day(now)..).fold(0, |sum, (_, ms)| sum.saturating_add(*ms))
    }

    /// How often it was taken out of service within the window.
    #[must_use]
    pub fn outs(&self, now: Time) -> usize {
        self.outs.iter().filter(|t| **t + WINDOW > now).count()
    }

    /// The jobs that its newest failures hit, newest first.
    pub fn jobs(&self, now: Time) -> impl Iterator<Item = JobId> {
        self.fails.iter().rev().filter(move |f| f.at + WINDOW > now).map(|f| f.job)
    }

    /// Whether nothing of it matters any more.
    #[must_use]
    pub fn is_empty(&self, now: Time) -> bool {
        self.seen_milli(now) == 0 && self.busy_ms(now) == 0
    }
}

/// The first day that the window touches.
fn first_day(now: Time) -> i64 {
    (now - WINDOW).0.div_euclid(DAY_MS)
}

/// All nodes added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// Thousandths of failures within the window.
    pub seen_milli: u64,
    /// Busy milliseconds within the window.
    pub busy_ms: u64,
}

impl Fleet {
    /// The sum of these.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>, now: Time) -> Fleet {
        records.into_iter().fold(Fleet::default(), |f, r| Fleet {
            seen_milli: f.seen_milli.saturating_add(r.seen_milli(now)),
            busy_ms: f.busy_ms.saturating_add(r.busy_ms(now)),
        })
    }
}

/// A node that fails too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lemon {
    /// Failures that were to be expected, in thousandths.
    pub expected_milli: u64,
    /// Failures seen, its parts of others added up, rounded down.
    pub seen: u32,
    /// How sure that is, in thousandths, if one node in 83 is a lemon.
    pub confidence: u16,
    /// In a sentence.
    pub reason: String,
}

/// Whether a node fails more often than its exposure explains. `fleet` holds the node as well; what
/// is its own is taken out, so that one lemon among few nodes does not hide itself.
#[must_use]
pub fn lemon(own: &Record, fleet: &Fleet, now: Time) -> Option<Lemon> {
    let (seen_milli, busy) = (own.seen_milli(now), own.busy_ms(now));
    let seen = u32::try_from(seen_milli / 1000).unwrap_or(u32::MAX);
    if seen < SEEN_MIN {
        return None;
    }
    let others_ms = fleet.busy_ms.saturating_sub(busy) as f64;
    let others = fleet.seen_milli.saturating_sub(seen_milli) as f64 / 1000.0;
    let one_in_ms = 1_000_000.0 * 86_400_000.0 / PRIOR.0 as f64;
    let rate = (1.0 + others) / (one_in_ms + others_ms);
    let expected = rate * busy.max(BUSY_MIN) as f64;
    if poisson(seen, expected) >= CHANCE {
        return None;
    }
    let days = busy as f64 / 86_400_000.0;
    Some(Lemon {
        expected_milli: (expected * 1000.0 + 0.5) as u64,
        seen,
        confidence: confidence(seen, expected),
        reason: format!(
            "{seen} failures in four weeks with {days:.1} days of work, where the fleet's rate lets \
             expect {expected:.2}"
        ),
    })
}

/// By the rule of Bayes: how much likelier `seen` is at ten times the rate than at the rate.
fn confidence(seen: u32, expected: f64) -> u16 {
    let times = f64::from(TIMES);
    let likelier = (0..seen.min(100)).fold(exp_neg(expected * (times - 1.0)), |p, _| p * times);
    let odds = likelier / (ONE_IN - 1.0);
    (1000.0 * odds / (1.0 + odds)) as u16
}
