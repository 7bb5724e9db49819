//! Figures about detection and recovery.

use crate::brain::stats::{COARSE, Histogram, LIFE, Timer};
use muster_health::modes;
use muster_model::job::Recovery;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Parts of a recovery, in the order in which they follow one another.
pub const PARTS: [&str; 6] = ["detect", "decide", "drain", "place", "start", "load"];

/// A sum of time.
#[derive(Debug, Default)]
pub(super) struct Busy(AtomicU64);

impl Busy {
    pub(super) fn add(&self, took: Duration) {
        self.0.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(super) struct HealthMetrics {
    /// Findings opened, by failure mode.
    opened: Mutex<BTreeMap<&'static str, u64>>,
    /// Parts of recoveries.
    parts: [Timer; 6],
    /// How long nodes were in service before they were taken out.
    pub(super) between: Timer,
    /// One look.
    pub(super) look: Timer,
    /// Time spent on taking rows in.
    pub(super) rows_busy: Busy,
    /// Findings that were written to the log.
    pub(super) reported: AtomicU64,
    /// Findings that were dropped because the log took none for too long.
    pub(super) lost: AtomicU64,
    /// Times that a detector failed.
    pub(super) failures: AtomicU64,
}

impl Default for HealthMetrics {
    fn default() -> HealthMetrics {
        HealthMetrics {
            opened: Mutex::default(),
            parts: std::array::from_fn(|_| Timer::with(&COARSE)),
            between: Timer::with(&LIFE),
            look: Timer::default(),
            rows_busy: Busy::default(),
            reported: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }
}

impl HealthMetrics {
    /// A finding was opened. Kinds that the map of failure modes does not name share one word.
    pub(super) fn finding(&self, kind: &str) {
        let kind = modes::mode(kind).map_or("other", |m| m.code);
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        *opened.entry(kind).or_default() += 1;
    }

    /// The work runs again.
    pub(super) fn recovered(&self, r: &Recovery) {
        let between = |from: Option<Time>, to: Option<Time>| Some(to?.since(from?));
        let parts = [
            between(Some(r.fault_at), Some(r.found_at)),
            between(Some(r.found_at), Some(r.decided_at)),
            between(Some(r.decided_at), r.drained_at),
            r.placing(),
            between(r.placed_at, r.started_at),
        ];
        for (timer, took) in self.parts.iter().zip(parts) {
            took.into_iter().for_each(|t| timer.observe(t.to_std()));
        }
    }

    /// It makes progress again.
    pub(super) fn loaded(&self, r: &Recovery) {
        if let (Some(from), Some(to)) = (r.started_at, r.working_at) {
            self.parts[5].observe(to.since(from).to_std());
        }
    }

    pub(super) fn read(&self, taken: u64, dropped: u64) -> HealthStats {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        HealthStats {
            opened: self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            parts: std::array::from_fn(|i| self.parts[i].read()),
            between: self.between.read(),
            look: self.look.read(),
            rows_busy: Duration::from_micros(of(&self.rows_busy.0)),
            reported: of(&self.reported),
            lost: of(&self.lost),
            failures: of(&self.failures),
            taken,
            dropped,
        }
    }
}

/// Figures about detection and recovery since this server started.
#[derive(Debug, Clone)]
pub struct HealthStats {
    /// Findings opened, by failure mode.
    pub opened: BTreeMap<&'static str, u64>,
    /// Time of each part of a recovery: detect, decide, drain, place, start, load.
    pub parts: [Histogram; 6],
    /// How long nodes were in service before they were taken out.
    pub between: Histogram,
    /// Time of one look at everything.
    pub look: Histogram,
    /// Time used to read what was reported.
    pub rows_busy: Duration,
    /// Findings reported to the log.
    pub reported: u64,
    /// Findings that the log did not take for so long that they were dropped.
    pub lost: u64,
    /// Times that a detector failed.
    pub failures: u64,
    /// Rows, steps and signs of life taken in.
    pub taken: u64,
    /// Those that found no space.
    pub dropped: u64,
}
