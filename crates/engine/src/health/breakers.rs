//! Breakers: opened by causes, by jobs that keep failing and by operators; probed after a while.

use super::apply::in_group;
use super::held::{UNUSED, is_work};
use super::limits::{PAGE_AGAIN, STOPPED};
use crate::Engine;
use crate::node_actions::CAN;
use crate::qualify;
use crate::state::HealthState;
use muster_health::breaker;
use muster_model::breaker::{Breaker, BreakerState, Probe};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::Incident;
use muster_model::names::{NodeName, ProjectName};
use muster_model::node::Stage;
use muster_model::qualification::{Level, Outcome};
use muster_model::remediation::Act;
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// A probe of which nothing came within this is tried again.
const PROBE_WITHIN: Span = Span::hours(2);
/// How often is looked how a job that is let through does.
const PROBE_EVERY: Span = Span::mins(1);

/// What people read when a limit holds a breaker back.
fn not_opened(entity: &Entity) -> String {
    format!("a breaker was not opened: {entity}")
}

impl HealthState {
    /// Breakers that keep new work from nodes: open, or half-open until their probe has passed.
    pub fn open_breakers(&self) -> impl Iterator<Item = &Breaker> {
        let all = self.breakers.values().map(|b| &**b);
        all.filter(|b| b.state != BreakerState::Closed && !is_work(&b.entity))
    }

    /// What held back the breaker of an incident's cause, if something did and it is not open.
    #[must_use]
    pub fn refused_breaker(&self, i: &Incident) -> Option<&str> {
        if self.breakers.get(&i.cause).is_some_and(|b| b.state != BreakerState::Closed) {
            return None;
        }
        let title = not_opened(&i.cause);
        for a in self.acts.values().rev() {
            // Who was notified shortly before is not notified again.
            if let Act::Page { title: paged, detail } = &a.act
                && *paged == title
                && a.at + PAGE_AGAIN >= i.opened_at
            {
                let held = detail.rsplit_once("; ").map_or(detail.as_str(), |(_, held)| held);
                // That is over once it runs again.
                let over = held.starts_with(STOPPED) && self.automation.stopped.is_none();
                return (!over).then_some(held);
            }
        }
        None
    }
}

impl Engine {
    /// Keeps work away from something.
    pub(super) fn open_breaker(&mut self, entity: Entity, why: &str, because_of: Option<u64>) {
        self.open_breaker_for(entity, why, because_of, None);
    }

    /// The same for the jobs of one project, where only they failed. One that is open for a project
    /// is open for everybody once others failed, too.
    pub(super) fn open_breaker_for(
        &mut self,
        entity: Entity,
        why: &str,
        because_of: Option<u64>,
        project: Option<ProjectName>,
    ) {
        let old = self.state.health.breakers.get(&entity).cloned();
        let widens = |b: &&Arc<Breaker>| {
            let open = b.state == BreakerState::Open && b.pinned.is_none();
            open && b.project.is_some() && b.project != project
        };
        if let Some(b) = old.as_ref().filter(widens) {
            let reason = why.to_owned();
            self.set_breaker(Breaker { project: None, reason, ..(**b).clone() }, false);
            return;
        }
        if old.as_ref().is_some_and(|b| b.state != BreakerState::Closed || b.pinned.is_some()) {
            return;
        }
        if let Some(held) = self.group_held(&entity) {
            self.page(&not_opened(&entity), &format!("{why}; {held}"));
            return;
        }
        let now = self.state.now;
        let b = breaker::open(old.as_deref(), entity, now, why.to_owned(), because_of);
        self.set_breaker(Breaker { project, ..b }, false);
    }

    pub(super) fn set_breaker(&mut self, b: Breaker, by_operator: bool) {
        let (entity, closed) = (b.entity.clone(), b.state == BreakerState::Closed);
        let old = self.state.health.breakers.get(&entity).map(|b| b.state);
        self.emit(None, Event::BreakerSet { breaker: Box::new(b), by_operator });
        if is_work(&entity) {
            self.update_jobs_behind_breaker(&entity);
        } else if closed && old.is_some_and(|s| s != BreakerState::Closed) {
            self.group_is_open_to_work(&entity);
        }
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
    pub(super) fn probe_due_breakers(&mut self) {
        let now = self.state.now;
        let due: Vec<Arc<Breaker>> =
            self.state.health.breakers.values().filter(|b| breaker::due(b, now)).cloned().collect();
        for b in due {
            self.probe(&b);
        }
        let half = |b: &&Arc<Breaker>| {
            b.state == BreakerState::HalfOpen && b.pinned.is_none() && is_work(&b.entity)
        };
        let trying: Vec<Arc<Breaker>> =
            self.state.health.breakers.values().filter(half).cloned().collect();
        for b in trying {
            self.evaluate_probe(&b);
        }
        let silent = |b: &&Arc<Breaker>| {
            b.state == BreakerState::HalfOpen && b.pinned.is_none() && now >= b.since + PROBE_WITHIN
        };
        let late: Vec<Arc<Breaker>> =
            self.state.health.breakers.values().filter(silent).cloned().collect();
        for b in late {
            let next = if is_work(&b.entity) && self.is_unused(&b.entity) {
                breaker::probed(&b, now, true, UNUSED.to_owned())
            } else {
                breaker::reopen_after_probe(&b, now, "nothing came of its probe".to_owned())
            };
            self.set_breaker(next, false);
        }
    }

    fn probe(&mut self, b: &Breaker) {
        let now = self.state.now;
        if is_work(&b.entity) {
            let half = breaker::half_open(b, now, Probe::Attempt { key: None });
            self.set_breaker(half, false);
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
}

/// When time alone gives a breaker something to do.
pub(super) fn wakes(b: &Breaker, now: Time) -> Option<Time> {
    match b.state {
        _ if b.pinned.is_some() => None,
        BreakerState::Open => b.probe_at,
        BreakerState::HalfOpen if matches!(b.probe, Some(Probe::Attempt { key: Some(_) })) => {
            Some(now + PROBE_EVERY)
        }
        BreakerState::HalfOpen => Some(b.since + PROBE_WITHIN),
        BreakerState::Closed => None,
    }
}
