//! Time passes: limits, fences, dependents, the scheduling cycle, forgetting.

use crate::Engine;
use muster_model::event::Event;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::StopReason;
use muster_model::placement::Placement;
use muster_model::units::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// Lets time pass up to `now`. An early tick changes nothing. Returns whether another tick
    /// should follow at once (the cycle stopped at its limit).
    pub fn tick(&mut self, now: Time) -> bool {
        self.advance(now);
        self.pass_deadlines();
        let now = self.state.now;
        let mut index = std::mem::take(&mut self.state.index);
        index.ripen(&self.state, now);
        self.state.index = index;
        let more = if self.dirty { self.schedule() } else { false };
        self.dirty = more;
        self.forget();
        more
    }

    /// When the engine next has something to do by itself.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        if self.dirty {
            return Some(self.state.now);
        }
        self.state.index.wakes.first().map(|(t, _)| *t)
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
            match (&a.stop, a.deadline, job.spec.time_limit) {
                (None, Some(d), Some(limit)) if d <= now => {
                    self.order_stop(&job, StopReason::TimeLimit { limit }, None);
                    self.settle_job(*id);
                }
                (Some(_), ..) => self.settle_job(*id),
                _ => {}
            }
        }
        self.settle_dependents(due.into_iter().map(|(_, id)| id).collect());
    }

    fn schedule(&mut self) -> bool {
        let now = self.state.now;
        let mut index = std::mem::take(&mut self.state.index);
        let policy = self.policy.scheduling;
        let plan = muster_scheduler::plan(&mut index.fleet, &mut index.queue, &policy, now);
        self.state.index = index;
        let more = plan.more;
        for start in plan.starts {
            let Some(job) = self.state.jobs.get(&start.ticket.job).cloned() else { continue };
            let hosts: BTreeSet<&str> = start
                .placed
                .slots
                .iter()
                .filter_map(|s| self.state.nodes.get(&s.node))
                .map(|n| n.host.as_str())
                .collect();
            let Some(port) = self.free_port(&hosts) else { continue };
            let placement = Placement {
                slots: start.placed.slots,
                port,
                domain: start.placed.domain,
                level: start.placed.level,
                fabric: muster_model::placement::Fabric::default(),
                cap_watts: None,
            };
            let key = AttemptKey { job: job.id, attempt: job.attempts + 1 };
            let placement = Arc::new(placement);
            self.emit(Some(&job.project), Event::JobPlaced { key, placement });
        }
        more
    }

    /// The lowest port that no attempt uses on any of these hosts. Ranks on one host, whatever
    /// node they belong to, never meet on a port.
    fn free_port(&self, hosts: &BTreeSet<&str>) -> Option<u16> {
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
