//! Time passes: limits, fences, dependents, the scheduling cycle, forgetting.

use crate::Engine;
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::StopReason;
use muster_model::units::Time;
use muster_scheduler::FAR;
use std::collections::BTreeSet;

impl Engine {
    /// Lets time pass up to `now`. An early tick changes nothing. Returns whether another tick
    /// should follow at once (the cycle stopped at its limit).
    pub fn tick(&mut self, now: Time) -> bool {
        self.advance(now);
        self.pass_deadlines();
        self.pass_tests();
        self.pass_health();
        let now = self.state.now;
        let mut index = std::mem::take(&mut self.state.index);
        index.ripen(&self.state, now);
        self.state.index = index;
        if self.due_by(now).is_some() {
            self.dirty = true;
        }
        let more = if self.dirty { self.schedule() } else { false };
        self.dirty = more;
        self.forget();
        // Work that just left may be what a remedy waits for.
        self.pass_due();
        self.pass_runs();
        self.pass_promises();
        self.dirty
    }

    /// When the engine next has something to do by itself.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        if self.dirty {
            return Some(self.state.now);
        }
        let wake = self.state.index.wakes.first().map(|(t, _)| *t);
        let test = self.state.index.tests.first().map(|(t, _)| *t);
        [wake, test, self.next_health(), self.next_run(), self.next_promises(), self.due_by(FAR)]
            .into_iter()
            .flatten()
            .min()
    }

    /// The first moment after the last cycle and not after `t` at which time alone may change
    /// the plan: a promise falls due, a reservation begins or ends, a wait is over.
    fn due_by(&self, t: Time) -> Option<Time> {
        let last = self.scheduled_at;
        let promised = self
            .state
            .index
            .promised
            .range((last, JobId(u64::MAX))..)
            .next()
            .map(|(t, _)| *t)
            .filter(|t| *t < FAR);
        [promised, self.opens()].into_iter().flatten().min().filter(|d| *d <= t)
    }

    /// Has a moment come since the last cycle at which something may fit although nothing was
    /// released?
    pub(crate) fn opens_by(&self, t: Time) -> bool {
        self.opens().is_some_and(|o| o <= t)
    }

    /// The first moment after the last cycle at which a reservation begins or ends, or a wait is
    /// over.
    fn opens(&self) -> Option<Time> {
        let last = self.scheduled_at;
        let notice = self.state.policy.preemption.notice;
        let reserved = self
            .state
            .reservations
            .values()
            .filter_map(|b| b.reservation.window(last))
            .flat_map(|(start, end)| [start - notice, start, end])
            .filter(|t| *t > last)
            .min();
        let again = self.look_again.filter(|t| *t > last);
        reserved.into_iter().chain(again).min()
    }

    fn pass_deadlines(&mut self) {
        let now = self.state.now;
        let due: Vec<(Time, JobId)> =
            self.state.index.wakes.range(..=(now, JobId(u64::MAX))).copied().collect();
        if due.is_empty() {
            return;
        }
        self.dirty = true;
        for (_, id) in &due {
            let Some(job) = self.state.jobs.get(id).cloned() else { continue };
            let Some(a) = &job.attempt else { continue };
            if self.pass_preflight(&job, a) {
                continue;
            }
            match (&a.stop, a.deadline, job.spec.time_limit) {
                (None, Some(d), Some(limit)) if d <= now => {
                    self.order_stop(&job, StopReason::TimeLimit { limit }, None);
                    self.settle_job(*id);
                }
                (Some(_), ..) => self.settle_job(*id),
                _ => {
                    if let Some(n) = a.notice.as_ref().filter(|n| n.until <= now) {
                        self.order_stop(&job, n.reason.clone(), None);
                        self.settle_job(*id);
                    }
                }
            }
        }
        // What ended just now may leave others that wait for it with nothing to wait for.
        let due = self.state.index.wakes.range(..=(now, JobId(u64::MAX))).map(|(_, id)| *id);
        self.settle_dependents(due.collect());
    }

    /// The lowest port that no attempt uses on any of these hosts. Ranks on one host, whatever
    /// node they belong to, never meet on a port.
    pub(crate) fn free_port(&self, hosts: &BTreeSet<&str>) -> Option<u16> {
        let taken: Vec<_> = hosts.iter().filter_map(|h| self.state.index.ports.get(*h)).collect();
        let (first, last) = self.policy.ports;
        // Starting from a point that moves with each record keeps a port from being used again
        // while the kernel still holds it in TIME_WAIT.
        let width = u64::from(last - first) + 1;
        let start = self.state.seq.0 % width;
        (0..width)
            .map(|i| first + u16::try_from((start + i) % width).unwrap_or(0))
            .find(|p| taken.iter().all(|t| !t.contains_key(p)))
    }

    /// Ended jobs beyond the number kept leave the working state, a tenth at a time.
    fn forget(&mut self) {
        let keep = self.policy.keep_ended;
        let have = self.state.index.ended.len();
        if have <= keep + keep / 10 {
            return;
        }
        let jobs: Vec<JobId> =
            self.state.index.ended.iter().take(have - keep).map(|(_, id)| *id).collect();
        self.emit(None, Event::JobsForgotten { jobs });
    }
}
