//! The status of objectives, worked out at most so often: it takes a look at every open job.

use crate::brain::Brain;
use muster_engine::ObjectiveStatus;
use muster_model::ids::Seq;
use muster_slo::Ledger;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was worked out is shown for so long at least.
const LEAST: Duration = Duration::from_secs(1);
/// And for so many times as long as it took.
const TIMES: u32 = 20;

#[derive(Debug, Clone)]
struct CachedStatuses {
    until: Instant,
    /// The objectives it was worked out for.
    of: Seq,
    all: Arc<Vec<ObjectiveStatus>>,
    tail: Arc<Ledger>,
}

/// The status of objectives.
#[derive(Debug, Clone, Default)]
pub struct ObjectiveStatuses(Arc<Mutex<Option<CachedStatuses>>>);

impl ObjectiveStatuses {
    /// The status of every objective, a moment ago at the latest. It may take a while: not on a thread
    /// that answers requests.
    pub fn get(&self, brain: &Brain) -> Arc<Vec<ObjectiveStatus>> {
        self.read_with_ledger(brain).0
    }

    /// The same, and what only counts at the moment: charts are drawn with it.
    pub fn read_with_ledger(&self, brain: &Brain) -> (Arc<Vec<ObjectiveStatus>>, Arc<Ledger>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = brain.read(|s| s.slo.objectives_at);
        if let Some(k) = kept.as_ref().filter(|k| k.of == of && Instant::now() < k.until) {
            return (Arc::clone(&k.all), Arc::clone(&k.tail));
        }
        let started = Instant::now();
        let now = brain.now();
        let (all, tail) = brain.read_polled(|s| {
            let tail = s.slo_tail(now);
            (Arc::new(s.objective_statuses_with(&tail, now)), Arc::new(tail))
        });
        let until = Instant::now() + LEAST.max(started.elapsed() * TIMES);
        *kept = Some(CachedStatuses { until, of, all: Arc::clone(&all), tail: Arc::clone(&tail) });
        (all, tail)
    }

    /// The next look works them out anew.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
