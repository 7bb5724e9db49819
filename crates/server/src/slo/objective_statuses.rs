//! Objectives at one moment of the log, worked out at most so often: it takes a look at every open job.

use crate::brain::Brain;
use muster_engine::{ObjectiveStatus, State};
use muster_model::alert::Alert;
use muster_model::ids::Seq;
use muster_model::units::Time;
use muster_slo::Ledger;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was worked out is shown for so long while no record comes.
const LEAST: Duration = Duration::from_secs(1);
/// And in any case for so many times as long as it took.
const TIMES: u32 = 20;

/// Every objective at one moment of the log. Whatever is said of them follows from it, so that no two
/// answers that name one record and one moment differ.
#[derive(Debug)]
pub struct ObjectiveMoment {
    /// The last record that it follows from.
    pub seq: Seq,
    /// When that record was written.
    pub written_at: Time,
    /// Until when was counted.
    pub at: Time,
    /// The site has set its objectives: exhausted ones stop something.
    pub stated: bool,
    /// The status of every objective, in order of their names.
    pub all: Vec<ObjectiveStatus>,
    /// Alerts that were not over.
    pub open: Vec<Alert>,
    /// What only counts at the moment: charts are drawn with it.
    pub tail: Ledger,
    objectives_at: Seq,
}

impl ObjectiveMoment {
    fn of(s: &State, at: Time) -> ObjectiveMoment {
        let tail = s.slo_tail(at);
        ObjectiveMoment {
            seq: s.seq,
            written_at: s.at,
            at,
            stated: s.slo.is_stated(),
            all: s.objective_statuses_with(&tail, at),
            open: s.slo.open().cloned().collect(),
            tail,
            objectives_at: s.slo.objectives_at,
        }
    }
}

#[derive(Debug, Clone)]
struct KeptMoment {
    moment: Arc<ObjectiveMoment>,
    /// While it is the log's last record, it is shown until then,
    until: Instant,
    /// and otherwise until then.
    until_moved: Instant,
}

impl KeptMoment {
    fn of(s: &State, at: Time) -> KeptMoment {
        let started = Instant::now();
        let moment = Arc::new(ObjectiveMoment::of(s, at));
        let costly = started.elapsed() * TIMES;
        let now = Instant::now();
        KeptMoment { moment, until: now + LEAST.max(costly), until_moved: now + costly }
    }

    /// Does it still serve who wants to see a record (`least`) where the log is so far (`s`)?
    fn serves(&self, s: &State, least: Seq) -> bool {
        let moment = &self.moment;
        let until = if moment.seq == s.seq { self.until } else { self.until_moved };
        moment.seq >= least && moment.objectives_at == s.slo.objectives_at && Instant::now() < until
    }
}

/// The status of objectives.
#[derive(Debug, Clone, Default)]
pub struct ObjectiveStatuses(Arc<Mutex<Option<KeptMoment>>>);

impl ObjectiveStatuses {
    /// Every objective as of the newest record, or of one a moment ago where it takes long to work out;
    /// never of one before `least`. It may take a while: not on a thread that answers requests.
    pub fn recent(&self, brain: &Brain, least: Seq) -> Arc<ObjectiveMoment> {
        self.serve(brain, |kept, s| kept.serves(s, least), |_, moment| Arc::clone(moment))
    }

    /// The same as of the state that the closure sees: for what is read from both. Where records keep coming
    /// it is worked out anew at each call, one call at a time.
    pub fn read<R>(&self, brain: &Brain, f: impl FnOnce(&State, &ObjectiveMoment) -> R) -> R {
        self.serve(brain, |kept, s| kept.serves(s, s.seq), |s, moment| f(s, moment))
    }

    fn serve<R>(
        &self,
        brain: &Brain,
        serves: impl FnOnce(&KeptMoment, &State) -> bool,
        f: impl FnOnce(&State, &Arc<ObjectiveMoment>) -> R,
    ) -> R {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        brain.read_polled(move |s| {
            let now = kept.take().filter(|k| serves(k, s));
            let now = now.unwrap_or_else(|| KeptMoment::of(s, brain.now()));
            let moment = Arc::clone(&now.moment);
            *kept = Some(now);
            // Others need not wait for what is made of it.
            drop(kept);
            f(s, &moment)
        })
    }
}
