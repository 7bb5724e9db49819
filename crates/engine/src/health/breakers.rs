//! Breakers: opened by causes, by jobs that keep failing and by operators; probed after a while.

use super::apply::in_group;
use super::causes::template;
use crate::Engine;
use crate::decide::qualify::{self, CAN};
use muster_health::breaker;
use muster_model::breaker::{Breaker, BreakerState, Probe};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::job::{Job, Verdict};
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::qualification::{Level, Outcome};
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// A job whose attempts end sooner than this after their start crashes.
const SOON: Span = Span::mins(10);
/// So many crashes in a row of one template open its breaker.
const CRASHES: u32 = 5;
/// A probe of which nothing came within this is tried again.
const PROBE_WITHIN: Span = Span::hours(2);

impl Engine {
    /// Keeps work away from something.
    pub(super) fn open_breaker(&mut self, entity: Entity, why: &str, because_of: Option<u64>) {
        let old = self.state.health.breakers.get(&entity).cloned();
        if old.as_ref().is_some_and(|b| b.state != BreakerState::Closed || b.pinned.is_some()) {
            return;
        }
        if let Some(held) = self.group_held(&entity) {
            self.page(&format!("a breaker was not opened: {entity}"), &format!("{why}; {held}"));
            return;
        }
        let now = self.state.now;
        let b = breaker::open(old.as_deref(), entity, now, why.to_owned(), because_of);
        self.set_breaker(b, false);
    }

    pub(super) fn set_breaker(&mut self, b: Breaker, word: bool) {
        self.emit(None, Event::BreakerSet { breaker: Box::new(b), word });
        self.work.all = true;
    }

    /// An incident is over: the breaker it opened is probed at once.
    pub(super) fn incident_over(&mut self, id: u64) {
        let of_it = |b: &&Arc<Breaker>| {
            b.because_of == Some(id) && b.state == BreakerState::Open && b.pinned.is_none()
        };
        if let Some(b) = self.state.health.breakers.values().find(of_it).cloned() {
            self.probe(&b);
        }
    }

    /// The breaker that an incident opened is not needed any more.
    pub(super) fn close_breaker_of(&mut self, incident: u64, why: &str) {
        let of_it = |b: &&Arc<Breaker>| b.because_of == Some(incident) && b.pinned.is_none();
        let Some(b) = self.state.health.breakers.values().find(of_it).cloned() else { return };
        let now = self.state.now;
        let half = breaker::half_open(&b, now, Probe::Attempt { key: None });
        self.set_breaker(breaker::probed(&half, now, true, why.to_owned()), false);
    }

    /// Breakers whose time has come are probed.
    pub(super) fn pass_breakers(&mut self) {
        let now = self.state.now;
        let due: Vec<Arc<Breaker>> =
            self.state.health.breakers.values().filter(|b| breaker::due(b, now)).cloned().collect();
        for b in due {
            self.probe(&b);
        }
        let silent = |b: &&Arc<Breaker>| {
            b.state == BreakerState::HalfOpen && b.pinned.is_none() && now >= b.since + PROBE_WITHIN
        };
        let late: Vec<Arc<Breaker>> =
            self.state.health.breakers.values().filter(silent).cloned().collect();
        for b in late {
            let next = breaker::lapsed(&b, now, "nothing came of its probe".to_owned());
            self.set_breaker(next, false);
        }
    }

    fn probe(&mut self, b: &Breaker) {
        let now = self.state.now;
        if let Entity::Template(..) = b.entity {
            let half = breaker::half_open(b, now, Probe::Attempt { key: None });
            self.set_breaker(half, false);
            self.let_one_through(&b.entity);
            return;
        }
        let idle = |n: &&Arc<muster_model::node::Node>| {
            in_group(n, &b.entity)
                && n.reachable
                && !n.protected
                && n.stage == Stage::Ready
                && n.qualifying.is_none()
                && n.inventory.can.contains(CAN)
                && self.state.attempts_on(&n.name).next().is_none()
                && n.orphans.is_empty()
        };
        let Some(node) = self.state.nodes.values().find(idle).map(|n| n.name.clone()) else {
            // Where nothing can be tested, it counts whether what opened it is over.
            let over = b.because_of.and_then(|i| self.state.health.incidents.get(&i));
            let over = over.is_none_or(|i| i.closed.is_some());
            let why = if over { "its findings are over" } else { "nothing there can be tested" };
            let half = breaker::half_open(b, now, Probe::Attempt { key: None });
            let next = breaker::probed(&half, now, over, why.to_owned());
            self.set_breaker(next, false);
            return;
        };
        let id = qualify::begin(self, &node, Level::Quick, true);
        let half = breaker::half_open(b, now, Probe::Qualification { node, id });
        self.set_breaker(half, false);
    }

    /// A test ended: it may have been a probe.
    pub(crate) fn test_was_probe(&mut self, node: &NodeName, id: u64, outcome: Outcome) {
        let of_it = |b: &&Arc<Breaker>| matches!(&b.probe, Some(Probe::Qualification { node: n, id: i }) if n == node && *i == id);
        let Some(b) = self.state.health.breakers.values().find(of_it).cloned() else { return };
        let ok = outcome != Outcome::Failed;
        let why = format!("node {node} {} its test", if ok { "passed" } else { "failed" });
        let next = breaker::probed(&b, self.state.now, ok, why);
        self.set_breaker(next, false);
    }

    /// An attempt ended: its template may crash again and again, or have mended.
    pub(crate) fn template_ended(&mut self, job: &Job, verdict: Verdict, why: &str) {
        let entity = template(job);
        let now = self.state.now;
        let ran = job.attempt.as_ref().and_then(|a| a.started_at).map(|t| now.since(t));
        let crashed = verdict != Verdict::Success
            && !matches!(verdict, Verdict::Operator | Verdict::Scheduler)
            && ran.is_none_or(|r| r < SOON);
        let half = self.state.health.breakers.get(&entity).cloned();
        if let Some(b) = half.filter(|b| b.state == BreakerState::HalfOpen) {
            // One that was stopped by others says nothing.
            let next = if matches!(verdict, Verdict::Operator | Verdict::Scheduler) {
                breaker::lapsed(&b, now, why.to_owned())
            } else {
                breaker::probed(&b, now, !crashed, why.to_owned())
            };
            let closed = next.state == BreakerState::Closed;
            self.set_breaker(next, false);
            if closed {
                self.release_all(&entity);
            }
            return;
        }
        if !crashed {
            return;
        }
        // This one, and those before it that crashed, newest first.
        let quick = |p: &&muster_model::job::PastAttempt| {
            p.started_at.is_none_or(|t| p.ended_at.since(t) < SOON)
                && matches!(
                    p.verdict,
                    Verdict::Application
                        | Verdict::Infrastructure
                        | Verdict::Platform
                        | Verdict::Unknown
                )
        };
        let row = job.past.iter().rev().take_while(quick).count();
        let row = u32::try_from(row).unwrap_or(u32::MAX).saturating_add(1);
        if row >= CRASHES {
            let reason =
                format!("{row} attempts of job {} crashed in a row; the last: {why}", job.id);
            let seen = muster_model::finding::SeenFinding::new(
                "crash-loop",
                Entity::Job(job.id),
                muster_model::finding::Severity::Warning,
                now,
            );
            self.found(seen.because(reason.clone()), true);
            self.open_breaker(entity, &reason, None);
        }
    }

    /// A job whose template's breaker is open does not start.
    pub(crate) fn held_by_breaker(&mut self, id: muster_model::ids::JobId) {
        let Some(job) = self.state.jobs.get(&id).cloned() else { return };
        let entity = template(&job);
        let open = self.state.health.breakers.get(&entity);
        if open.is_some_and(|b| b.state == BreakerState::Open) && job.held.is_none() {
            self.emit(
                Some(&job.project),
                Event::JobHeld { job: id, by: by_breaker(&entity), decided: true },
            );
        }
    }

    fn held_jobs(&self, entity: &Entity) -> Vec<Arc<Job>> {
        let by = by_breaker(entity);
        let all = self.state.jobs.values();
        all.filter(|j| j.held.as_deref() == Some(&by)).cloned().collect()
    }

    fn let_one_through(&mut self, entity: &Entity) {
        if let Some(j) = self.held_jobs(entity).first() {
            self.emit(Some(&j.project), Event::JobReleased { job: j.id, decided: true });
        }
    }

    fn release_all(&mut self, entity: &Entity) {
        for j in self.held_jobs(entity) {
            self.emit(Some(&j.project), Event::JobReleased { job: j.id, decided: true });
        }
    }
}

/// When time alone gives a breaker something to do.
pub(super) fn wakes(b: &Breaker) -> Option<Time> {
    match b.state {
        _ if b.pinned.is_some() => None,
        BreakerState::Open => b.probe_at,
        BreakerState::HalfOpen => Some(b.since + PROBE_WITHIN),
        BreakerState::Closed => None,
    }
}

fn by_breaker(entity: &Entity) -> String {
    format!("breaker {entity}")
}
