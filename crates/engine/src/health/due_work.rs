//! What of the fleet's health is looked at, and when. Something is looked at because an event or
//! its own moment asks for it, never because everything is: a site of a hundred thousand GPUs
//! hears of thousands of faults in a second.

use crate::Engine;
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::names::NodeName;
use muster_model::remediation::{Remediation, RemediationStep};
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// A pass looks so often at most at what its own steps made due.
pub(super) const STEPS: usize = 8;
/// Common causes, and whether limits leave room again, are looked for this often at most.
const EVERY: Span = Span::secs(1);
/// What limits hold back is tried again this long after the last time, whatever happened.
const HELD_AGAIN: Span = Span::mins(1);

impl Engine {
    /// Looks at everything that is due.
    pub(crate) fn process_due_health(&mut self) {
        self.hold_jobs_behind_breakers();
        self.end_crash_loops();
        self.record_due_repeats();
        self.review_lemons();
        self.detect_drift();
        for _ in 0..STEPS {
            self.advance_remediations();
            if !self.do_due_work() {
                return;
            }
        }
    }

    /// Looks at what time or news made due. Says whether there was something.
    fn do_due_work(&mut self) -> bool {
        let now = self.state.now;
        let mut any = false;
        if std::mem::take(&mut self.work.all) {
            self.schedule_all_reviews();
            any = true;
        }
        while let Some(node) = self.work.nodes_at.pop(now) {
            self.report_stuck_stage(&node);
            self.work.due.insert(node);
            any = true;
        }
        while let Some(node) = self.work.absent_at.pop(now) {
            self.find_absent(&node);
            any = true;
        }
        while let Some(id) = self.work.acts_at.pop(now) {
            self.act_is_late(id);
            any = true;
        }
        if self.work.breakers_at.take_if(|t| *t <= now).is_some() {
            self.probe_due_breakers();
            let next = self.next_breaker();
            self.work.breakers_at = self.work.breakers_at.or(next);
            any = true;
        }
        if self.work.correlate && now >= self.work.correlated_at + EVERY {
            self.work.correlate = false;
            self.work.correlated_at = now;
            self.correlate();
            self.end_explained_suspicions();
            any = true;
        }
        if self.next_capacity().is_some_and(|t| t <= now) {
            self.try_held();
            any = true;
        }
        any
    }

    /// After a start, and when the rules changed.
    fn schedule_all_reviews(&mut self) {
        let book = &self.state.health;
        let nodes: Vec<NodeName> = book.index.remediations.keys().cloned().collect();
        let acts: Vec<(u64, Time)> = book.open_acts().map(|a| (a.id, a.until)).collect();
        // Which of them have ended is looked at with them.
        let crashed = book.open().filter(|f| f.seen.kind == FailureMode::CRASH_LOOP);
        self.work.ended.extend(crashed.filter_map(|f| match f.seen.entity {
            Entity::Job(id) => Some(id),
            _ => None,
        }));
        for (id, until) in acts {
            self.work.acts_at.set(&id, Some(until));
        }
        let absent: Vec<NodeName> = self.state.nodes_with_missing_gpus().cloned().collect();
        for node in absent {
            self.look_for_absent(&node);
        }
        self.work.groups = None;
        self.work.correlate |= self.state.health.open_count() > 1;
        self.work.breakers_at = Some(Time(0));
        for n in &nodes {
            self.report_stuck_stage(n);
        }
        self.work.moved.extend(nodes.iter().cloned());
        self.work.due.extend(nodes);
    }

    /// Remediations that limits hold back may have room now.
    fn try_held(&mut self) {
        self.work.room = false;
        self.work.tried_at = self.state.now;
        // Who was taken within the hour has changed with time alone.
        self.work.groups = None;
        let held = self.held_nodes();
        self.work.holds = !held.is_empty();
        self.work.due.extend(held);
    }

    fn held_nodes(&self) -> Vec<NodeName> {
        let book = &self.state.health;
        let nodes = book.index.remediations.keys();
        nodes.filter(|n| book.waits_on(n)).cloned().collect()
    }

    /// When what is held back is tried again: soon after there may be room, and now and then.
    fn next_capacity(&self) -> Option<Time> {
        let last = self.work.tried_at;
        let stopped = self.state.health.automation.stopped.is_some();
        match (self.work.holds, self.work.room) {
            (true, true) => Some(last + EVERY),
            (true, false) if !stopped => Some(last + HELD_AGAIN),
            _ => None,
        }
    }

    /// When time alone gives breakers something to do.
    fn next_breaker(&self) -> Option<Time> {
        let now = self.state.now;
        let all = self.state.health.breakers.values();
        all.filter_map(|b| super::breakers::wakes(b, now)).filter(|t| *t > now).min()
    }

    /// When health next has something to do by itself.
    pub(crate) fn next_health(&self) -> Option<Time> {
        let w = &self.work;
        let news = !w.due.is_empty() || !w.moved.is_empty() || !w.ended.is_empty();
        let soon = (news || w.all).then_some(Time(0));
        let causes = w.correlate.then_some(w.correlated_at + EVERY);
        let timed = [w.nodes_at.first(), w.acts_at.first(), w.breakers_at, self.next_capacity()];
        let seldom =
            [self.next_lemons(), self.next_drift(), w.repeats_at.first(), w.absent_at.first()];
        let all = timed.into_iter().chain(seldom).chain([soon, causes]);
        all.flatten().min().map(|t| t.max(self.state.now + Span(1)))
    }

    /// Remediations of nodes about which something changed take the steps they can.
    pub(crate) fn advance_remediations(&mut self) {
        for _ in 0..STEPS {
            let due = std::mem::take(&mut self.work.due);
            if due.is_empty() {
                break;
            }
            for node in due {
                let ids: Vec<u64> =
                    self.state.health.remediations_of(&node).map(|r| r.id).collect();
                for id in ids {
                    if self.step_remediation(id) {
                        self.work.due.insert(node.clone());
                    }
                }
                self.release_denied(&node);
            }
        }
        for node in std::mem::take(&mut self.work.moved) {
            let at = self.next_of(&node);
            self.work.nodes_at.set(&node, at);
        }
    }

    /// When time alone gives a node's remediations something to do. What is past was looked at
    /// already, and something else must happen first.
    fn next_of(&self, node: &NodeName) -> Option<Time> {
        let now = self.state.now;
        let book = &self.state.health;
        if !book.index.remediations.contains_key(node) {
            return None;
        }
        // Of the others only the node's own stage has a time that something follows from.
        let timed = |r: &&Arc<Remediation>| {
            matches!(
                r.step,
                RemediationStep::Proposed | RemediationStep::Moving | RemediationStep::Probation
            )
        };
        let remediations = book.remediations_of(node).filter(timed).filter_map(|r| r.until);
        let stage = self.state.nodes.get(node).and_then(|n| n.stage_until);
        remediations.chain(stage).filter(|t| *t > now).min()
    }

    /// An act of which nothing was heard has failed.
    fn act_is_late(&mut self, id: u64) {
        if self.state.health.acts.get(&id).is_some_and(|a| a.ended.is_none()) {
            let message = "no report in time".to_string();
            self.emit(None, Event::ActEnded { id, ok: false, message, expired: true });
        }
    }
}
