//! Counters for Prometheus about jobs, since this server began: what only grows, in contrast to
//! reports, in which ends may be judged anew.

use crate::brain::Brain;
use crate::brain::stats::{Histogram, Timer};
use muster_model::event::{Event, Record};
use muster_model::ids::{AttemptKey, Seq};
use muster_model::job::Verdict;
use muster_model::spec::Priority;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bounds for waiting, in seconds: from a second to three days.
const WAIT: [f64; 12] =
    [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 7200.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0];

/// Priority classes with their words.
pub const CLASSES: [(Priority, &str); 4] = [
    (Priority::Low, "low"),
    (Priority::Normal, "normal"),
    (Priority::High, "high"),
    (Priority::Critical, "critical"),
];

/// How jobs can end.
pub const OUTCOMES: [&str; 6] =
    ["succeeded", "application", "infrastructure", "platform", "unknown", "cancelled"];

fn word(v: Verdict) -> &'static str {
    match v {
        Verdict::Success => "succeeded",
        Verdict::Application => "application",
        Verdict::Infrastructure => "infrastructure",
        Verdict::Platform => "platform",
        Verdict::Unknown => "unknown",
        Verdict::Operator | Verdict::Scheduler => "cancelled",
    }
}

/// Ends of attempts that may still turn out to have been interruptions.
const OWN_KEPT: usize = 20_000;

/// Counts since this server began.
#[derive(Debug)]
pub(super) struct Tally {
    /// What is older was before.
    after: Seq,
    waits: [Timer; 4],
    counts: Mutex<Counts>,
    /// Attempts that ended by themselves, as far as is known.
    own: Mutex<BTreeSet<AttemptKey>>,
}

/// What is counted.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Jobs by how they ended.
    pub ended: BTreeMap<&'static str, u64>,
    /// Those that ended well at their first attempt.
    pub first: u64,
    /// Attempts that ended by a failure.
    pub interrupted: BTreeMap<&'static str, u64>,
    /// Jobs that came.
    pub submitted: u64,
    /// Attempts that were stopped for others.
    pub preempted: u64,
}

impl Tally {
    pub(super) fn new(after: Seq) -> Tally {
        Tally {
            after,
            waits: std::array::from_fn(|_| Timer::with(&WAIT)),
            counts: Mutex::default(),
            own: Mutex::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long jobs of each class waited for their first place.
    pub(super) fn waits(&self) -> Vec<(&'static str, Histogram)> {
        CLASSES.iter().zip(&self.waits).map(|((_, word), t)| (*word, t.read())).collect()
    }

    /// An attempt ended by itself, as far as is known.
    fn ended_by_itself(&self, key: AttemptKey) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if own.len() >= OWN_KEPT {
            own.pop_first();
        }
        own.insert(key);
    }

    /// Was it counted as one that ended by itself? Once.
    fn was_by_itself(&self, key: AttemptKey) -> bool {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).remove(&key)
    }

    /// Counts a record that the state holds already.
    pub(super) fn count(&self, r: &Record, brain: &Brain) {
        if r.seq <= self.after {
            return;
        }
        let asked = match &r.event {
            Event::JobPlaced { key, .. } if key.attempt == 1 => Some(key.job),
            Event::AttemptEnded { key, .. } => Some(key.job),
            Event::JobSucceeded { job } | Event::JobFailed { job, .. } => Some(*job),
            _ => None,
        };
        let job = asked.and_then(|id| brain.read(|s| s.jobs.get(&id).cloned()));
        let mut c = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match &r.event {
            Event::JobSubmitted { array, .. } => c.submitted += array.len().max(1) as u64,
            Event::JobPlaced { key, .. } if key.attempt == 1 => {
                let Some(job) = job else { return };
                let waited = Duration::from_millis(r.at.since(job.submitted_at).0);
                if let Some(n) = CLASSES.iter().position(|(p, _)| *p == job.spec.priority) {
                    self.waits[n].observe(waited);
                }
            }
            Event::AttemptEnded { key, verdict, .. } => {
                // What was found around its end is in the state already.
                let past = job.iter().flat_map(|j| &j.past).find(|p| p.no == key.attempt);
                let verdict = past.map_or(*verdict, |p| p.verdict);
                match verdict {
                    Verdict::Scheduler => c.preempted += 1,
                    Verdict::Success | Verdict::Operator => {}
                    v => *c.interrupted.entry(word(v)).or_default() += 1,
                }
                if verdict == Verdict::Application {
                    self.ended_by_itself(*key);
                }
            }
            // One that was counted as an interruption stays where it was counted: a counter only grows.
            Event::AttemptAttributed { key, verdict, .. }
                if verdict.is_interruption() && self.was_by_itself(*key) =>
            {
                *c.interrupted.entry(word(*verdict)).or_default() += 1;
            }
            Event::JobSucceeded { .. } => {
                *c.ended.entry("succeeded").or_default() += 1;
                c.first += u64::from(job.is_some_and(|j| j.attempts <= 1));
            }
            Event::JobFailed { .. } => {
                // Whose doing the end of its last attempt was.
                let last = job.and_then(|j| j.past.last().map(|p| word(p.verdict)));
                *c.ended.entry(last.unwrap_or("application")).or_default() += 1;
            }
            Event::JobCancelled { .. } => *c.ended.entry("cancelled").or_default() += 1,
            _ => {}
        }
    }
}
