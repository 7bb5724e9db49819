//! Time passes: limits, fences, dependents, the scheduling cycle, forgetting.

use crate::{Engine, State};
use muster_model::event::Event;
use muster_model::ids::{JobId, Seq};
use muster_model::job::{Attempt, SlotState, StopReason};
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use muster_scheduler::FAR;
use std::collections::{BTreeMap, BTreeSet};

/// So long a server that took the lead waits for nodes at most, before it acts upon the limits of
/// what runs there: longer than it takes until a silent node is called lost.
const CONTACT_WITHIN: Span = Span::secs(60);

/// An agent that connects says of ranks that they run, also of those whose last output it has yet to
/// send. So long it has to say that they ended.
const END_REPORTED_WITHIN: Span = Span::secs(5);

/// Nodes that a server has not heard since it took the lead, or that may not have reported
/// everything, and until when they are waited for.
#[derive(Debug, Clone)]
pub(crate) struct AwaitedNodes {
    nodes: BTreeMap<NodeName, Time>,
    /// Those that were heard since, or are lost, each with the end of the log before that.
    heard: BTreeMap<NodeName, Seq>,
    /// The last that is known of the server before.
    since: Time,
    /// No node is waited for any longer.
    until: Time,
}

impl Engine {
    /// Lets time pass up to `now`. An early tick changes nothing. Returns whether another tick
    /// should follow at once (the cycle stopped at its limit).
    pub fn tick(&mut self, now: Time) -> bool {
        self.advance(now);
        let now = self.state.now;
        if let Some(u) = &mut self.unheard {
            u.nodes.retain(|_, until| *until > now);
        }
        self.unheard.take_if(|u| u.until <= now);
        self.expire_deadlines();
        self.fail_overdue_tests();
        self.process_due_health();
        let now = self.state.now;
        self.state.with_index(|ix, s| ix.queue_due_retries(s, now));
        if self.due_by(now).is_some() {
            self.plans = true;
        }
        let more = if self.plans { self.schedule() } else { false };
        (self.dirty, self.plans) = (more, more);
        self.forget();
        // Work that just left may be what a remediation waits for.
        self.advance_remediations();
        self.advance_runbook_runs();
        self.evaluate_due_objectives();
        self.dirty
    }

    /// When the engine next has something to do by itself.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        if self.dirty {
            return Some(self.state.now);
        }
        let wake = self.next_deadline();
        let test = self.state.index.tests.first().map(|(t, _)| *t);
        [wake, test, self.next_health(), self.next_run(), self.next_judgement(), self.due_by(FAR)]
            .into_iter()
            .flatten()
            .min()
    }

    /// The first moment after the last cycle and not after `t` at which time alone may change
    /// the plan: a reserved start falls due, a reservation begins or ends, a wait is over.
    fn due_by(&self, t: Time) -> Option<Time> {
        let last = self.scheduled_at;
        let reserved_starts = self
            .state
            .index
            .reserved_starts
            .range((last, JobId(u64::MAX))..)
            .next()
            .map(|(t, _)| *t)
            .filter(|t| *t < FAR);
        [reserved_starts, self.opens()].into_iter().flatten().min().filter(|d| *d <= t)
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

    fn expire_deadlines(&mut self) {
        let now = self.state.now;
        let due: Vec<(Time, JobId)> =
            self.state.index.wakes.range(..=(now, JobId(u64::MAX))).copied().collect();
        if due.is_empty() {
            return;
        }
        self.plans = true;
        for (_, id) in &due {
            let Some(job) = self.state.jobs.get(id).cloned() else { continue };
            let Some(a) = &job.attempt else { continue };
            if self.expire_preflight(&job, a) {
                continue;
            }
            match (&a.stop, a.deadline, job.spec.time_limit) {
                (None, Some(d), Some(limit)) if d <= now && !self.awaits_nodes(a) => {
                    self.order_stop(&job, StopReason::TimeLimit { limit }, None);
                    self.conclude_job(*id);
                }
                (Some(_), ..) => self.conclude_job(*id),
                _ => {
                    if let Some(n) = a.notice.as_ref().filter(|n| n.until <= now) {
                        self.order_stop(&job, n.reason.clone(), None);
                        self.conclude_job(*id);
                    }
                }
            }
        }
        // What ended just now may leave others that wait for it with nothing to wait for.
        let due = self.state.index.wakes.range(..=(now, JobId(u64::MAX))).map(|(_, id)| *id);
        self.end_blocked_dependents(due.collect());
    }

    /// When the first deadline falls due that can be acted upon.
    fn next_deadline(&self) -> Option<Time> {
        let wakes = &self.state.index.wakes;
        let Some(u) = &self.unheard else { return wakes.first().map(|(t, _)| *t) };
        let now = self.state.now;
        let waits = |id: &JobId| {
            let a = self.state.jobs.get(id).and_then(|j| j.attempt.as_ref());
            a.is_some_and(|a| self.awaits_nodes(a))
        };
        let next = wakes.iter().find(|(t, id)| *t > now || !waits(id)).map(|(t, _)| *t);
        let due = wakes.first().is_some_and(|(t, _)| *t <= now);
        let heard = u.nodes.values().min().copied().filter(|_| due);
        next.into_iter().chain(heard).min()
    }

    /// A server took the lead. Ranks may have ended while there was none, and only their agents
    /// know: no limit is acted upon before these were heard, or are lost.
    pub(crate) fn await_nodes(&mut self, since: Time) {
        let reachable = self.state.nodes.values().filter(|n| n.reachable);
        let until = self.state.now + CONTACT_WITHIN;
        let nodes: BTreeMap<NodeName, Time> = reachable.map(|n| (n.name.clone(), until)).collect();
        let heard = BTreeMap::new();
        self.unheard = (!nodes.is_empty()).then_some(AwaitedNodes { nodes, heard, since, until });
    }

    /// The engine that goes on with what the log has, where what was decided last could not be
    /// written. Nodes are waited for as before; what was heard of them after the end of the log, or
    /// may have been, was not heard: their agents say it again.
    #[must_use]
    pub fn reloaded(&self, state: State) -> Engine {
        let mut engine = Engine::new(state, self.policy.clone());
        let Some(mut u) = self.unheard.clone() else { return engine };
        let seq = engine.state.seq;
        let reachable = |n: &NodeName| engine.state.nodes.get(n).is_some_and(|n| n.reachable);
        let (unsure, written): (BTreeMap<NodeName, Seq>, BTreeMap<NodeName, Seq>) =
            u.heard.into_iter().partition(|(_, end)| *end >= seq);
        u.heard = written;
        let until = u.until;
        u.nodes.extend(unsure.into_keys().filter(reachable).map(|node| (node, until)));
        // Whoever was about to say how its ranks ended may have to say it again.
        u.nodes.values_mut().for_each(|t| *t = until);
        engine.unheard = Some(u);
        engine
    }

    /// Since when no server heard a node, where this one hears it for the first time.
    pub(crate) fn away_since(&self, node: &NodeName) -> Option<Time> {
        let first = |u: &&AwaitedNodes| u.nodes.contains_key(node) && !u.heard.contains_key(node);
        self.unheard.as_ref().filter(first).map(|u| u.since)
    }

    /// A node was heard for the first time, and ranks with a time limit run there as far as it says.
    pub(crate) fn start_awaiting_node(&mut self, node: &NodeName) {
        let until = self.state.now + END_REPORTED_WITHIN;
        let seq = self.state.seq;
        let Some(u) = &mut self.unheard else { return };
        if let Some(t) = u.nodes.get_mut(node) {
            *t = until.min(*t);
            u.heard.insert(node.clone(), seq);
        }
    }

    /// A node was heard, or is lost.
    pub(crate) fn stop_awaiting_node(&mut self, node: &NodeName) {
        let seq = self.state.seq;
        let Some(u) = &mut self.unheard else { return };
        if u.nodes.remove(node).is_some() {
            u.heard.insert(node.clone(), seq);
        }
    }

    /// May ranks of an attempt have ended on a node that this server has not heard yet?
    fn awaits_nodes(&self, a: &Attempt) -> bool {
        let Some(u) = &self.unheard else { return false };
        let up = |s: &SlotState| matches!(s, SlotState::Pending | SlotState::Running);
        let mut slots = a.placement.slots.iter().zip(&a.slots).filter(|(_, s)| up(s));
        slots.any(|(slot, _)| u.nodes.contains_key(&slot.node))
    }

    /// The lowest port that no attempt uses on any of these hosts. Ranks on one host, whatever
    /// node they belong to, never meet on a port.
    pub(crate) fn free_port(&self, hosts: &[&str]) -> Option<u16> {
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

    /// Ended jobs beyond the number kept leave the working state, a tenth at a time: those of the
    /// projects that have most.
    fn forget(&mut self) {
        let keep = self.policy.keep_ended;
        let have = self.state.index.ended.len();
        if have > keep + keep / 10 {
            let jobs = self.state.index.ended.first_to_leave(have - keep);
            self.emit_forgotten(jobs);
        }
        let jobs = self.state.ended_to_make_space();
        if !jobs.is_empty() {
            self.emit_forgotten(jobs);
        }
    }

    /// Jobs leave the working state, and what they ran need not be stored any more.
    fn emit_forgotten(&mut self, jobs: Vec<JobId>) {
        let ran: BTreeSet<JobId> =
            jobs.iter().filter_map(|id| self.state.jobs.get(id)).map(|j| j.payload).collect();
        self.emit(None, Event::JobsForgotten { jobs });
        let state = &self.state;
        self.unneeded.extend(ran.into_iter().filter(|payload| !state.needs_payload(*payload)));
    }
}
