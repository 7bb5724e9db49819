//! A reserved start of a lower class stands against nobody of a higher one. It is left alone where
//! the other fits beside it; where it is in the way it is planned anew, behind the other.

use crate::fleet::Fleet;
use crate::node::{Ask, Entry};
use crate::place::{Query, place, place_on};
use crate::plan::Cycle;
use crate::queue::QueuePosition;
use crate::timeline::{FutureStart, earliest};
use crate::work::Work;
use muster_model::ids::JobId;
use muster_model::job::Basis;
use muster_model::policy::BackfillMode;
use muster_model::spec::Priority;
use muster_model::units::{Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An aggressive reserved start leaves so much time before it: short work passes meanwhile. More
/// lowers the mean wait little and lets single waits grow.
const SLACK: Span = Span::mins(30);
/// Why a reserved start is later than before, or is none any more.
const OVERRULED: &str = "work of a higher priority class takes that capacity";

impl Fleet {
    /// The class itself, if work of it has reserved starts of lower classes to overrule.
    pub(crate) fn overruled_by(&self, class: Priority) -> Option<Priority> {
        self.yielding.first().filter(|(lowest, _)| *lowest < class).map(|_| class)
    }

    /// Is a start of a class below this one reserved on a node that satisfies the per-node request?
    pub(crate) fn any_booked_below(&self, class: Priority, asks: &[Ask]) -> bool {
        self.booked.iter().map(|p| self.entry(p.ix)).any(|e| {
            e.open()
                && e.book.iter().any(|b| b.class.is_some_and(|c| c < class))
                && asks.iter().any(|a| e.capable(a))
        })
    }
}

impl Cycle<'_> {
    /// Starts a job that fits nowhere beside the reserved starts of lower classes, if it fits
    /// without them.
    pub(crate) fn start_overruling(&mut self, work: &Arc<Work>, mut q: Query<'_>) -> bool {
        let f = &self.c.fleet;
        q.who.above = f.overruled_by(work.priority);
        if q.who.above.is_none() {
            return false;
        }
        let Ok(placed) = place(f, &q) else { return false };
        let nodes: Vec<u32> = placed.slots.iter().filter_map(|s| f.find(&s.node)).collect();
        self.start(work.clone(), placed);
        self.overrule(work, &nodes);
        true
    }

    /// The same on the nodes that are kept for it: reserved starts of lower classes do not make it
    /// give them up, so they do not keep it from starting there.
    pub(crate) fn overrule_on_kept(&mut self, work: &Arc<Work>, mut q: Query<'_>) {
        let f = &self.c.fleet;
        q.who.above = f.overruled_by(work.priority);
        let Some(kept) = f.kept.get(&work.job).filter(|_| q.who.above.is_some()) else { return };
        let Ok(placed) = place_on(f, &q, &kept.nodes) else { return };
        let nodes: Vec<u32> = placed.slots.iter().filter_map(|s| f.find(&s.node)).collect();
        self.start(work.clone(), placed);
        self.overrule(work, &nodes);
    }

    /// The earliest start of a job, and whether it overrules somebody: only where it is earlier
    /// than any beside them.
    pub(crate) fn earliest_start(
        &self,
        w: &Work,
        q: &Query<'_>,
        slack: bool,
    ) -> (Option<FutureStart>, bool) {
        let f = &self.c.fleet;
        let aggressive = slack && self.policy.backfill.mode == BackfillMode::Aggressive;
        let find = |q: &Query<'_>| {
            let first = earliest(f, q, self.now);
            if aggressive { first.and_then(|l| earliest(f, q, l.at + SLACK)) } else { first }
        };
        let beside = find(q);
        let above = f.overruled_by(w.priority);
        if above.is_none() || beside.as_ref().is_some_and(|l| l.at <= self.now) {
            return (beside, false);
        }
        let mut alone = q.clone();
        alone.who.above = above;
        let earlier = |l: &FutureStart| beside.as_ref().is_none_or(|b| l.at < b.at);
        match find(&alone).filter(earlier) {
            Some(l) => (Some(l), true),
            None => (beside, false),
        }
    }

    /// Takes back the reserved starts of lower classes that do not fit any more beside what a job
    /// took on these nodes.
    pub(crate) fn overrule(&mut self, by: &Work, nodes: &[u32]) {
        let f = &self.c.fleet;
        let booked = nodes.iter().flat_map(|ix| &f.entry(*ix).book);
        let lower: BTreeSet<JobId> =
            booked.filter(|b| b.class.is_some_and(|c| c < by.priority)).map(|b| b.job).collect();
        let mut turns: Vec<QueuePosition> =
            lower.iter().filter_map(|j| self.c.queue.place(*j)).collect();
        turns.sort_unstable();
        // The last in the queue gives way first: those before it may fit then.
        for t in turns.into_iter().rev() {
            let f = &self.c.fleet;
            if nodes.iter().all(|ix| still_carries(f.entry(*ix), t.job, self.now)) {
                continue;
            }
            self.drop_reservation(t.job);
            self.out.reserved_starts.retain(|p| p.job != t.job);
            self.overruled.insert(t.job);
            self.overruling.insert(by.job);
        }
    }

    /// Others leave for a job that overruled somebody: it needs less than it took, and those whom it
    /// overruled are planned once more.
    pub(crate) fn reopen_overruled(&mut self) {
        let kept = &self.c.fleet.kept;
        // Not those for whom others leave by now.
        let limits = |j: &&JobId| kept.get(*j).is_some_and(|k| k.basis == Basis::Limits);
        let again: Vec<JobId> = self.overruled.iter().filter(limits).copied().collect();
        for job in again {
            self.drop_reservation(job);
            self.out.reserved_starts.retain(|p| p.job != job);
        }
    }

    /// Those who were overruled get another start, in the order of the queue.
    pub(crate) fn replan_overruled(&mut self) {
        let mut hopeless = BTreeSet::new();
        let mut asked: BTreeSet<JobId> = BTreeSet::new();
        loop {
            let (started, kept) = (&self.started, &self.c.fleet.kept);
            let open = self
                .overruled
                .iter()
                .filter(|j| !started.contains(j) && !kept.contains_key(j) && !asked.contains(j));
            let Some(t) = open.filter_map(|j| self.c.queue.place(*j)).min() else { return };
            asked.insert(t.job);
            // What is only gathered for a job in a cycle was reserved for nobody.
            if !self.reserve_start(t, &mut hopeless) && self.reserved_before(t.job).is_some() {
                self.out.dropped.push((t.job, OVERRULED.to_string()));
            }
        }
    }

    /// Did the cycle decide anything by overruling somebody? What it only tried leaves no trace,
    /// and would be tried again and again.
    pub(crate) fn has_overruled(&self) -> bool {
        let reserved = |j: &JobId| self.out.reserved_starts.iter().any(|p| p.job == *j);
        let took = |j: &JobId| self.started.contains(j) || reserved(j);
        !self.out.dropped.is_empty() || self.overruling.iter().any(took)
    }

    /// The start that was reserved for a job before this cycle, as far as the cycle touched it.
    fn reserved_before(&self, job: JobId) -> Option<Time> {
        self.before.get(&job).and_then(Option::as_ref).map(|(kept, _)| kept.start)
    }

    /// Why a job that was overruled starts later than before, if it does.
    pub(crate) fn why_overruled(&self, job: JobId, at: Time) -> Option<String> {
        let later = self.reserved_before(job).is_some_and(|before| at > before);
        (later && self.overruled.contains(&job)).then(|| OVERRULED.to_string())
    }
}

/// Does a node still carry what is reserved there for a job, beside all else?
fn still_carries(e: &Entry, job: JobId, now: Time) -> bool {
    e.book.iter().filter(|b| b.job == job).all(|own| {
        let share = own.share();
        let begins = e.book.iter().map(|b| b.start).filter(|t| *t > own.start && *t < own.end);
        let mut at = std::iter::once(own.start).chain(begins).map(|t| t.max(now));
        at.all(|t| Fleet::fits_with(e, &share, (t, now), |b| b.job != job))
    })
}
