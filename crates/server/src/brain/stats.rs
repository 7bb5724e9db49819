//! Figures the brain keeps about itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 12] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

/// Bounds for what must be quick, in seconds: close enough together that the slowest of a hundred
/// can be seen to lie between one and five hundred milliseconds.
pub(crate) const FINE: [f64; 22] = [
    0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05,
    0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 5.0,
];

/// Bounds for what takes people's time, in seconds.
pub(crate) const COARSE: [f64; 14] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

/// Bounds for the life of a node, in seconds: fourteen from a quarter of an hour to thirty days,
/// each about 1.845 times the one before.
pub(crate) const LIFE: [f64; 14] = [
    900.0,
    1_661.0,
    3_065.0,
    5_657.0,
    10_439.0,
    19_265.0,
    35_554.0,
    65_613.0,
    121_088.0,
    223_463.0,
    412_395.0,
    761_063.0,
    1_404_520.0,
    2_592_000.0,
];

/// How long something takes, counted by buckets.
#[derive(Debug)]
pub(crate) struct Timer {
    bounds: &'static [f64],
    /// One more than there are bounds.
    buckets: Box<[AtomicU64]>,
    micros: AtomicU64,
}

impl Default for Timer {
    fn default() -> Timer {
        Timer::with(&BOUNDS)
    }
}

impl Timer {
    pub(crate) fn with(bounds: &'static [f64]) -> Timer {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Timer { bounds, buckets, micros: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, took: Duration) {
        let s = took.as_secs_f64();
        let i = self.bounds.iter().position(|b| s <= *b).unwrap_or(self.bounds.len());
        self.buckets[i].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Histogram {
        let mut total = 0;
        let cumulative = self
            .bounds
            .iter()
            .zip(&self.buckets)
            .map(|(b, n)| {
                total += n.load(Ordering::Relaxed);
                (*b, total)
            })
            .collect();
        let count = total + self.buckets[self.bounds.len()].load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "a sum of seconds for a graph")]
        let sum = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        Histogram { cumulative, count, sum }
    }
}

/// A histogram as Prometheus wants it.
#[derive(Debug, Clone, PartialEq, Default)]
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
    /// The last record in the newest snapshot; 0 where there is none.
    pub(crate) snapshot_seq: AtomicU64,
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
