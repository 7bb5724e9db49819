//! Figures the brain keeps about itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 12] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

#[derive(Debug, Default)]
pub(crate) struct Timer {
    buckets: [AtomicU64; 13],
    micros: AtomicU64,
}

impl Timer {
    pub(crate) fn observe(&self, took: Duration) {
        let s = took.as_secs_f64();
        let i = BOUNDS.iter().position(|b| s <= *b).unwrap_or(BOUNDS.len());
        self.buckets[i].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn read(&self) -> Histogram {
        let mut total = 0;
        let cumulative = BOUNDS
            .iter()
            .zip(&self.buckets)
            .map(|(b, n)| {
                total += n.load(Ordering::Relaxed);
                (*b, total)
            })
            .collect();
        let count = total + self.buckets[BOUNDS.len()].load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "a sum of seconds for a graph")]
        let sum = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        Histogram { cumulative, count, sum }
    }
}

/// A histogram as Prometheus wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Upper bound in seconds, and how many were at or below it.
    pub cumulative: Vec<(f64, u64)>,
    /// How many in all.
    pub count: u64,
    /// Their sum in seconds.
    pub sum: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) append: Timer,
    pub(crate) cycle: Timer,
    pub(crate) requests: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) reloads: AtomicU64,
    pub(crate) snapshots: AtomicU64,
    /// By invariant, as last looked at.
    pub(crate) violations: Mutex<Vec<(&'static str, u64)>>,
}

/// Figures about the brain.
#[derive(Debug, Clone, PartialEq)]
pub struct BrainStats {
    /// Time of one durable append.
    pub append: Histogram,
    /// Time of one scheduling cycle.
    pub cycle: Histogram,
    /// Requests decided.
    pub requests: u64,
    /// Records written.
    pub records: u64,
    /// Times the memory was thrown away after a failed append.
    pub reloads: u64,
    /// Snapshots written.
    pub snapshots: u64,
    /// How often each invariant was found violated when last looked at; none before the first look.
    pub violations: Vec<(&'static str, u64)>,
}

impl Counters {
    pub(crate) fn read(&self) -> BrainStats {
        BrainStats {
            append: self.append.read(),
            cycle: self.cycle.read(),
            requests: self.requests.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            reloads: self.reloads.load(Ordering::Relaxed),
            snapshots: self.snapshots.load(Ordering::Relaxed),
            violations: self.violations.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
