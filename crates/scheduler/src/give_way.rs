//! Room that is kept for a job and that it could not use: others have reserved some of it before the
//! job would be over.

use crate::fleet::CapacityReservation;
use crate::node::{Ask, Entry, Hold};
use crate::place::Query;
use crate::plan::Cycle;
use muster_model::ids::JobId;
use muster_model::job::Basis;

impl Cycle<'_> {
    /// Room that a job should start on by now (made for it, or reserved by limits) is free, and
    /// somebody else has reserved some of it before the job would be over: quotas changed in between,
    /// or a gang was interrupted. It waits like any other then: kept, it would stand in the way of
    /// that reserved start, and both would wait for each other.
    pub(crate) fn release_overdue_reservations(&mut self) {
        let kept = self.c.fleet.kept.iter();
        let due = kept.filter(|(_, k)| k.basis != Basis::Limits || k.start <= self.now);
        let gives: Vec<JobId> =
            due.filter(|(job, k)| self.thwarted(**job, k)).map(|(job, _)| *job).collect();
        for job in gives {
            self.drop_reservation(job);
            self.gave_way.insert(job);
        }
    }

    /// Would a job fit on what is kept for it, but for reserved starts to others? Where others make
    /// room for it, that is not known before they have left.
    fn thwarted(&self, job: JobId, kept: &CapacityReservation) -> bool {
        let f = &self.c.fleet;
        let Some(work) = self.c.queue.get(job).filter(|_| !f.is_broken(job)) else {
            return false;
        };
        let mut q = Query::new(f, work, self.now, u32::MAX, u64::MAX);
        q.who.above = f.overruled_by(work.priority);
        // Most wait for the first of their nodes: no more is looked at then.
        let on = || {
            let asks = q.asks.iter().flat_map(|a| std::iter::repeat_n(a, a.nodes as usize));
            kept.nodes.iter().map(|ix| f.entry(*ix)).zip(asks)
        };
        let made = matches!(kept.basis, Basis::Preemption | Basis::Move);
        q.demand.nodes() as usize == kept.nodes.len()
            && on().all(|(e, a)| e.serving() && e.fits(a))
            && on().any(|(e, a)| {
                let mut others = e.book.iter().filter(|b| b.job != job);
                others.any(|b| b.start < q.end && b.end > self.now)
                    && !f.free_until(e, a, q.who, self.now, q.end)
                    && !(made && self.is_free_once_left(e, a, &q))
            })
    }

    /// Can the node carry the share from now on, as long as the job lasts, once those who are on
    /// their way out have left it? This is what was asked before others were to leave for the job.
    /// Whoever asks more of the room afterwards gives it up and makes others leave for it again, in
    /// every cycle.
    fn is_free_once_left(&self, e: &Entry, a: &Ask, q: &Query<'_>) -> bool {
        let leaves = |h: &Hold| self.c.running.get(&h.job).is_some_and(|r| r.stopping);
        let mut left = e.clone();
        left.holds.retain(|h| !leaves(h));
        left.recount();
        self.c.fleet.free_until(&left, a, q.who, self.now, q.end)
    }
}
