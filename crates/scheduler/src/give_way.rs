//! Room that is kept for a job and that it could not use: others have reserved some of it before the
//! job would be over.

use crate::fleet::CapacityReservation;
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

    /// Would a job fit on what is kept for it, but for reserved starts to others?
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
        q.demand.nodes() as usize == kept.nodes.len()
            && on().all(|(e, a)| e.serving() && e.fits(a))
            && on().any(|(e, a)| {
                let mut others = e.book.iter().filter(|b| b.job != job);
                others.any(|b| b.start < q.end && b.end > self.now)
                    && !f.free_until(e, a, q.who, self.now, q.end)
            })
    }
}
