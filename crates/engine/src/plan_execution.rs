//! A plan carried out: starts, reserved starts, notices to those who make room, replacements for nodes
//! that failed.

use crate::Engine;
use crate::reservations::is_displaced;
use crate::state::dependencies::Depends;
use crate::state::index::work;
use muster_model::distinct;
use muster_model::event::Event;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Basis, Job, JobState, ReservedStart, StopReason};
use muster_model::names::NodeName;
use muster_model::placement::Placement;
use muster_model::reservation::Overrun;
use muster_model::spec::{CheckpointSpec, Priority};
use muster_model::units::{Span, Time};
use muster_scheduler::{Plan, Start, StartReservation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reserved starts that were taken back in this cycle, and why.
type RevokedStarts = BTreeMap<JobId, (ReservedStart, String)>;

impl Engine {
    /// One cycle. Returns whether another should follow at once.
    pub(crate) fn schedule(&mut self) -> bool {
        let now = self.state.now;
        self.cycles += 1;
        self.clear_reserved();
        let broken = self.drop_broken();
        let ranks = self.state.ranks(now);
        self.state.index.cluster.queue.set_ranks(ranks);
        if self.opens_by(now) {
            self.state.index.cluster.fleet.forget_failures();
        }
        let policy = self.state.policy.clone();
        let plan = muster_scheduler::plan(&mut self.state.index.cluster, &policy, now);
        self.scheduled_at = now;
        self.look_again = plan.look_again;
        let more = self.execute(plan, &broken) || self.replace_nodes_with_spares();
        if policy.defrag.enabled && !more {
            self.defragment();
        }
        more
    }

    /// Moves work so that a waiting gang fits, within the hour's budget; at most one gang a minute.
    fn defragment(&mut self) {
        let now = self.state.now;
        if now < self.defragmented_at + Span::mins(1) || self.state.queue_len() == 0 {
            return;
        }
        self.defragmented_at = now;
        let hour = |t: &&Time| now.since(**t) < Span::hours(1);
        let done = self.state.moves.iter().filter(hour).count();
        let budget = self.state.policy.defrag.moves_per_hour as usize;
        let found = muster_scheduler::moves(&self.state.index.cluster, &self.state.policy, now);
        let Some(best) = found.into_iter().find(|m| m.moves.len() + done <= budget) else {
            return;
        };
        let Some(gang) = self.state.jobs.get(&best.gang).cloned() else { return };
        self.keep_for(&gang, best.nodes, Basis::Move);
        for (id, _) in best.moves {
            if let Some(job) = self.state.jobs.get(&id).cloned() {
                self.give_notice(&job, StopReason::Moved { by: Some(best.gang) }, None);
            }
        }
    }

    fn execute(&mut self, plan: Plan, broken: &RevokedStarts) -> bool {
        let more = plan.more;
        for start in plan.starts {
            self.start(start);
        }
        for p in plan.reserved_starts {
            self.reserve_start(p, broken);
        }
        for (id, reason) in plan.dropped {
            let Some(job) = self.state.jobs.get(&id).cloned() else { continue };
            if job.reserved_start.is_some() {
                self.emit(Some(&job.project), Event::ReservedStartDropped { job: id, reason });
            }
        }
        for v in plan.victims {
            if let Some(job) = self.state.jobs.get(&v.job).cloned() {
                let why = StopReason::Preempted { by: Some(v.by), rank: v.rank };
                self.give_notice(&job, why, None);
            }
        }
        for r in plan.resizes {
            if let Some(job) = self.state.jobs.get(&r.job).cloned() {
                self.resize(&job, r.nodes, r.on);
            }
        }
        more
    }

    fn start(&mut self, start: Start) {
        let Some(job) = self.state.jobs.get(&start.job).cloned() else { return };
        let nodes = start.placed.slots.iter().filter_map(|s| self.state.nodes.get(&s.node));
        let hosts: Vec<&str> = distinct(nodes.map(|n| n.host.as_str()));
        // Simulated work meets nobody on a port; thousands of simulated nodes share one host.
        let free = self.free_port(&hosts);
        let Some(port) = free.or(job.spec.simulate.is_some().then_some(self.policy.ports.0)) else {
            return;
        };
        let placement = Arc::new(Placement {
            slots: start.placed.slots,
            port,
            domain: start.placed.domain,
            level: start.placed.level,
            fabric: start.placed.fabric,
            cap_watts: start.placed.cap_watts,
            checkpoint_every: self.state.checkpoint_every(&job),
        });
        let key = AttemptKey { job: job.id, attempt: job.attempts + 1 };
        let placed = Event::JobPlaced { key, placement: placement.clone() };
        self.emit(Some(&job.project), placed);
        self.begin_preflight(&job, key, &placement);
        // Found room elsewhere: who was to make room for it may go on.
        self.withdraw_notices(job.id);
    }

    /// Reserved starts that rest on a node that left service or carries less than before are taken back
    /// before anybody plans with what was kept for them.
    fn drop_broken(&mut self) -> RevokedStarts {
        let jobs: Vec<JobId> = self.state.index.cluster.fleet.broken().collect();
        let mut out = RevokedStarts::new();
        for id in jobs {
            let Some(job) = self.state.jobs.get(&id).cloned() else { continue };
            let Some(p) = job.reserved_start.as_ref().filter(|_| job.state == JobState::Queued)
            else {
                continue;
            };
            let reason = self.state.index.cluster.fleet.why_broken(id);
            out.insert(id, (p.clone(), reason.clone()));
            self.emit(Some(&job.project), Event::ReservedStartDropped { job: id, reason });
            self.withdraw_notices(id);
        }
        let mut dropped = self.impossible_reserved_starts();
        dropped.extend(self.closed_reserved_starts());
        dropped.extend(self.blocked_reserved_starts());
        for (id, p, reason) in dropped {
            let project = self.state.jobs.get(&id).map(|j| j.project.clone());
            if out.insert(id, (p, reason.clone())).is_some() {
                continue;
            }
            self.emit(project.as_ref(), Event::ReservedStartDropped { job: id, reason });
            self.withdraw_notices(id);
        }
        out
    }

    /// Reserved starts of jobs that can never start as the nodes and the rules are by now. Those that a
    /// cycle reserves by limits are possible then: they are looked at again when one of these changes.
    fn impossible_reserved_starts(&mut self) -> Vec<(JobId, ReservedStart, String)> {
        let now = self.state.now;
        let bounds = Some(self.state.index.cluster.fleet.bounds());
        let before = std::mem::replace(&mut self.reserved_under, bounds);
        let all = before != bounds || self.opens_by(now);
        let s = &self.state;
        let jobs = s.index.reserved_starts.iter().filter_map(|(_, id)| s.jobs.get(id));
        let due: Vec<&Arc<Job>> = jobs
            .filter(|j| j.state == JobState::Queued)
            .filter(|j| {
                let basis = j.reserved_start.as_ref().map(|p| p.basis);
                all || basis.is_some_and(|b| b != Basis::Limits)
            })
            .collect();
        if due.is_empty() {
            return Vec::new();
        }
        let mut reasons = s.reasons(now);
        let never = |j: &Arc<Job>| {
            // One that waits for something else is not in the queue.
            let queued = s.index.cluster.queue.get(j.id).cloned();
            let w = queued.unwrap_or_else(|| Arc::new(work(j)));
            let why = reasons.never_starts(&w)?;
            Some((j.id, j.reserved_start.clone()?, why))
        };
        due.into_iter().filter_map(never).collect()
    }

    /// Reserved starts that are due of jobs that depend on one that was requeued: they would be kept
    /// for as long as that one waits, and it may be what it needs.
    fn blocked_reserved_starts(&self) -> Vec<(JobId, ReservedStart, String)> {
        let due = self.state.index.reserved_starts.range(..=(self.state.now, JobId(u64::MAX)));
        let jobs = due.filter_map(|(_, id)| self.state.jobs.get(id));
        let waiting = jobs.filter(|j| j.state == JobState::Queued && !j.depends.is_empty());
        let blocked = waiting.filter_map(|j| {
            let depends = self.state.index.waits.evaluate(&self.state, j);
            let Depends::Waits(_) = depends else { return None };
            let why = depends.words(&self.state)?;
            Some((j.id, j.reserved_start.clone()?, format!("it {why} again")))
        });
        blocked.collect()
    }

    /// Reserved starts that are due on nodes which a window of others keeps the job off: they were
    /// reserved before the window was, or for a job that could not start in time.
    fn closed_reserved_starts(&self) -> Vec<(JobId, ReservedStart, String)> {
        if self.state.reservations.is_empty() {
            return Vec::new();
        }
        let now = self.state.now;
        let fleet = &self.state.index.cluster.fleet;
        let due = self.state.index.reserved_starts.range(..=(now, JobId(u64::MAX)));
        due.filter_map(|(_, id)| self.state.jobs.get(id))
            .filter(|j| j.state == JobState::Queued)
            .filter_map(|j| {
                let p = j.reserved_start.as_ref()?;
                let (name, node) = fleet.closed_now(&work(j), p.nodes.iter(), now)?;
                let what = match name {
                    Some(name) => format!("reservation {name}"),
                    None => "a reservation of another project".to_owned(),
                };
                Some((j.id, p.clone(), format!("node {node} is in {what}")))
            })
            .collect()
    }

    fn reserve_start(&mut self, p: StartReservation, broken: &RevokedStarts) {
        let Some(job) = self.state.jobs.get(&p.job).cloned() else { return };
        let was = broken.get(&p.job);
        let had = job.reserved_start.as_ref().or(was.map(|(p, _)| p));
        let since = had.map_or(self.state.now, |p| p.since);
        // It waits for what runs again, and not for those who were to leave for it.
        let gave_way = had.is_some_and(|h| h.basis != Basis::Limits) && p.basis == Basis::Limits;
        let moved = was.filter(|(w, _)| p.at > w.at).map(|(_, why)| why.clone()).or(p.moved);
        let reserved_start =
            ReservedStart { at: p.at, nodes: p.nodes.into(), basis: p.basis, since, moved };
        self.emit(Some(&job.project), Event::StartReserved { job: job.id, reserved_start });
        if gave_way {
            self.withdraw_notices(job.id);
        }
    }

    /// Warns an attempt that it will be stopped: after the checkpoint it is asked for, or when its
    /// time is up. What cannot be asked is stopped with its usual grace.
    pub(crate) fn give_notice(&mut self, job: &Arc<Job>, reason: StopReason, by: Option<Time>) {
        let Some(a) = &job.attempt else { return };
        if a.stop.is_some() || a.notice.is_some() {
            return;
        }
        let key = AttemptKey { job: job.id, attempt: a.no };
        let asks = job.spec.checkpoint.as_ref().filter(|c| c.request.signal.is_some());
        let now = self.state.now;
        let wait = |c: &CheckpointSpec| c.grace.unwrap_or(self.state.policy.preemption.notice);
        let until = asks.map(|c| by.unwrap_or(now + wait(c)));
        // Where no time is left there is nothing to wait for.
        let Some(until) = until.filter(|t| *t > now && a.started_at.is_some()) else {
            if by.is_none_or(|t| t <= now) {
                self.order_stop(job, reason, None);
                self.conclude_job(job.id);
            }
            return;
        };
        self.emit(Some(&job.project), Event::NoticeGiven { key, reason, until });
        self.emit(Some(&job.project), Event::CheckpointAsked { key });
    }

    /// Those who were to make room for a job that no longer wants it go on.
    pub(crate) fn withdraw_notices(&mut self, by: JobId) {
        let warned: Vec<JobId> = self.state.index.noticed.iter().copied().collect();
        for id in warned {
            let Some(job) = self.state.jobs.get(&id).cloned() else { continue };
            let Some(a) = &job.attempt else { continue };
            let for_job = a.notice.as_ref().and_then(|n| n.reason.preempted_for());
            if a.stop.is_none() && for_job == Some(by) {
                let key = AttemptKey { job: id, attempt: a.no };
                // Those whose attempt it is read this; they may not know of others' jobs.
                let own = self.state.jobs.get(&by).is_some_and(|o| o.project == job.project);
                let other = if own { format!("job {by}") } else { "another job".to_owned() };
                let reason = format!("{other} no longer waits for its capacity");
                self.emit(Some(&job.project), Event::NoticeWithdrawn { key, reason });
            }
        }
    }

    /// An elastic gang goes on with another number of nodes: those it keeps and new ones.
    fn resize(&mut self, job: &Arc<Job>, nodes: u32, on: Vec<NodeName>) {
        let project = Some(&job.project);
        self.emit(project, Event::JobResized { job: job.id, nodes });
        self.keep_for(job, on, Basis::Resize);
        if let Some(job) = self.state.jobs.get(&job.id).cloned() {
            self.give_notice(&job, StopReason::Resized { nodes }, None);
        }
    }

    /// Keeps nodes for the next attempt of a job that is being stopped.
    fn keep_for(&mut self, job: &Arc<Job>, nodes: Vec<NodeName>, basis: Basis) {
        let now = self.state.now;
        let at = now + self.state.policy.preemption.notice;
        let reserved_start =
            ReservedStart { at, nodes: nodes.into(), basis, since: now, moved: None };
        self.emit(Some(&job.project), Event::StartReserved { job: job.id, reserved_start });
    }

    /// Nodes of a gang failed: just those are replaced, by spares of the same domain if there are
    /// any, and the others are kept for it. Not while it is held: they would be idle.
    pub(crate) fn swap(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id).filter(|j| j.held.is_none()).cloned() else {
            return;
        };
        let Some(a) = &job.attempt else { return };
        if job.groups.iter().map(|g| g.nodes).sum::<u32>() <= 1 && a.placement.slots.len() <= 1 {
            return;
        }
        let w = work(&job);
        let fleet = &self.state.index.cluster.fleet;
        let slots = &a.placement.slots;
        let Some(nodes) = muster_scheduler::replacements(fleet, &w, slots, self.state.now) else {
            return;
        };
        if job.spec.elastic.is_some() {
            let n = u32::try_from(slots.len()).unwrap_or(u32::MAX);
            self.emit(Some(&job.project), Event::JobResized { job: id, nodes: n });
        }
        let had = a.placement.slots.clone();
        self.swap_spare_role(&had, &nodes);
        self.keep_for(&job, nodes, Basis::Swap);
    }

    /// A job above the normal class leaves its nodes, one after the other, and may be tried again at
    /// once: they are reserved for it until then, or a lower class could have what it leaves first.
    pub(crate) fn keep_nodes(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id).cloned() else { return };
        let Some(a) = &job.attempt else { return };
        let class = job.spec.priority;
        let first = self.state.queue().next().and_then(|first| self.state.jobs.get(&first));
        let above = class > Priority::Normal && first.is_none_or(|w| w.spec.priority <= class);
        let waits = job.held.is_some() || job.reserved_start.is_some();
        if !above || waits || job.spec.elastic.is_some() {
            return;
        }
        let slots = &a.placement.slots;
        let fleet = &self.state.index.cluster.fleet;
        // Where one of them is out of service, others are looked for when it is queued.
        let nodes = muster_scheduler::replacements(fleet, &work(&job), slots, self.state.now);
        let its = |nodes: &Vec<NodeName>| nodes.iter().eq(slots.iter().map(|s| &s.node));
        if let Some(nodes) = nodes.filter(its) {
            self.keep_for(&job, nodes, Basis::Swap);
        }
    }

    /// A job has to wait before it is tried again: what was kept for it would be idle until then.
    pub(crate) fn release_kept_nodes(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id).cloned() else { return };
        if job.reserved_start.as_ref().is_some_and(|r| r.basis == Basis::Swap) {
            self.drop_reserved_start(&job, "its next attempt has to wait");
        }
    }

    /// Work of others leaves nodes whose reservation begins: in time for a checkpoint.
    fn clear_reserved(&mut self) {
        if self.state.reservations.is_empty() {
            return;
        }
        let (now, notice) = (self.state.now, self.state.policy.preemption.notice);
        let due: Vec<_> = self
            .state
            .reservations
            .values()
            .filter(|b| b.reservation.overrun == Overrun::Stop)
            .filter_map(|b| b.reservation.window(now).map(|w| (b.clone(), w)))
            .filter(|(_, (start, _))| *start <= now + notice)
            .collect();
        for (b, (start, _)) in due {
            let r = &b.reservation;
            for node in self.state.reserved_nodes(&b) {
                let here: Vec<Arc<Job>> = self.state.attempts_on(&node).cloned().collect();
                for job in here {
                    // Work that is over before the window begins is left alone.
                    if !is_displaced(r, &job, start, now) {
                        continue;
                    }
                    let reason = StopReason::ReservationBegins { name: Some(r.name.clone()) };
                    self.give_notice(&job, reason, Some(start));
                }
            }
        }
    }
}
