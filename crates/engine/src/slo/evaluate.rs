//! When objectives and alerts are looked at, and what follows. Alerts are looked at because
//! something happened that they follow from or because their own moment has come, a second apart
//! at least; objectives once a minute.

use crate::Engine;
use muster_model::alert::{Alert, AlertState, Condition, MatcherInput};
use muster_model::event::Event;
use muster_model::names::Label;
use muster_model::slo::Gate;
use muster_model::units::{Span, Time};
use muster_slo::decide::{HOLD, Site, is_known};
use muster_slo::{Change, budget, conditions};
use std::collections::BTreeMap;

/// Alerts are looked at this often at most; less often while there are very many conditions.
const EVERY: Span = Span::secs(1);
/// And the longest pause between two looks.
const SELDOM: Span = Span::secs(15);
/// Things are counted by the minute.
const MINUTE: i64 = 60_000;
/// Open jobs for which one more minute passes between two judgements.
const JOBS_A_MINUTE: usize = 20_000;
/// Alerts that are over are kept for so long in the working state, for reports.
const KEPT_FOR: Span = Span::hours(35 * 24);
/// And so many of them.
const KEPT: usize = 2000;

impl Engine {
    /// Judges objectives and decides on alerts, as far as they are due.
    pub(crate) fn evaluate_due_objectives(&mut self) {
        if !self.policy.objectives {
            return;
        }
        if self.next_judged() <= self.state.now {
            self.evaluate_objectives();
        }
        if self.next_look().is_none_or(|t| t > self.state.now) {
            return;
        }
        self.end_silences();
        self.decide_alerts();
        self.forget_alerts();
    }

    /// When objectives next have something to do by themselves.
    pub(crate) fn next_judgement(&self) -> Option<Time> {
        if !self.policy.objectives {
            return None;
        }
        let next = self.next_look().map_or(self.next_judged(), |t| t.min(self.next_judged()));
        Some(next.max(self.state.now + Span(1)))
    }

    /// Why automation takes no more nodes: an objective whose error budget is exhausted.
    pub(crate) fn gated(&self) -> Option<String> {
        let name = self.watch.holding.first()?;
        Some(format!("the error budget of {name} is exhausted: automation takes no more nodes"))
    }

    fn next_judged(&self) -> Time {
        let Some(last) = self.watch.judged_at else { return Time(0) };
        let many = self.state.open_job_count() / JOBS_A_MINUTE;
        let every = Span(self.policy.judged_every.0.saturating_mul(1 + many as u64));
        // At whole minutes, which is how things are counted.
        Time(last.0.div_euclid(MINUTE).saturating_mul(MINUTE)) + every
    }

    fn next_look(&self) -> Option<Time> {
        let pause = EVERY.0.saturating_add(self.watch.weight).min(SELDOM.0);
        let free = self.watch.looked_at + Span(pause);
        let timed = self.watch.next.map(|t| t.max(free));
        self.watch.news.then_some(free).into_iter().chain(timed).min()
    }

    /// The status of every objective: what burns, and what stops because of it.
    fn evaluate_objectives(&mut self) {
        let now = self.state.now;
        self.watch.judged_at = Some(now);
        let standings = self.state.objective_statuses(now);
        let so =
            |s: &crate::state::ObjectiveStatus| conditions::objective(&s.objective, &s.status, now);
        let mut burning: Vec<_> = standings.iter().filter_map(so).collect();
        // What burns goes on burning while its words change, or something beside it does.
        for c in &mut burning {
            if let Some(old) = self.watch.burning.iter().find(|old| old.key == c.key) {
                c.since = old.since;
            }
        }
        let reported = |c: &Condition| (c.key.clone(), c.urgency, c.summary.clone(), c.by_hardware);
        if !burning.iter().map(reported).eq(self.watch.burning.iter().map(reported)) {
            self.watch.burning = burning;
            self.watch.news = true;
        }
        // Jobs come and go all the time: who is affected is counted anew with the minute.
        self.watch.news |= self.state.slo.open().next().is_some();
        let mut holding: Vec<Label> = Vec::new();
        if self.state.slo.is_stated() {
            let all = standings.iter().map(|s| (&s.objective, &s.status));
            holding.extend(budget::stopped_by(Gate::Automation, all).map(|o| o.name.clone()));
        }
        if holding.is_empty() && !self.watch.holding.is_empty() {
            self.work.room = true;
        }
        self.watch.holding = holding;
    }

    /// Silences whose last window is over.
    fn end_silences(&mut self) {
        let now = self.state.now;
        let over = self.state.slo.silences.values().filter(|s| s.window(now).is_none());
        let names: Vec<Label> = over.map(|s| s.name.clone()).collect();
        for name in names {
            self.emit(None, Event::SilenceEnded { name, expired: true });
        }
    }

    fn decide_alerts(&mut self) {
        let now = self.state.now;
        let conditions = self.conditions();
        self.watch.news = false;
        self.watch.looked_at = now;
        self.watch.weight = conditions.len() as u64;
        let s = &self.state;
        let mut known: Vec<&Alert> =
            s.slo.alerts.values().filter(|a| is_known(a, now, HOLD)).collect();
        // Of one group the open one counts, then the newest.
        known.sort_by_key(|a| (a.is_open(), a.resolved_at));
        let mut open: BTreeMap<String, Alert> = BTreeMap::new();
        for a in known {
            open.insert(a.group.clone(), a.clone());
        }
        let silences: Vec<_> = s.slo.silences.values().cloned().collect();
        let above = |e: &muster_model::entity::Entity| {
            conditions::above(e, |n| s.nodes.get(n).map(|n| &**n))
        };
        let site = Site { silences: &silences, routing: &s.slo.routing, above: &above, hold: HOLD };
        let changes = muster_slo::decide(now, &conditions, &open, &site);
        for c in changes {
            let project = c.alert().project.clone();
            let event = match c {
                Change::Raised(alert) => Event::AlertOpened { alert },
                Change::Changed(alert) => Event::AlertChanged { alert },
                Change::Resolved(alert) => Event::AlertClosed { alert },
            };
            self.emit(project.as_ref(), event);
        }
        self.watch.next = self.next_by_time(now);
    }

    /// When time alone may change an alert.
    fn next_by_time(&self, now: Time) -> Option<Time> {
        let slo = &self.state.slo;
        let mut out: Vec<Time> = Vec::new();
        for a in slo.open() {
            out.extend(a.gone_since.map(|t| t + HOLD));
            if let Some(loud) = a.loud_since.filter(|_| a.state == AlertState::Firing) {
                let routes = slo.routing.routes_of(&MatcherInput::from(a));
                let steps = routes.iter().flat_map(|r| &r.escalate);
                out.extend(steps.map(|e| loud + e.after));
            }
        }
        for (start, end) in slo.silences.values().filter_map(|s| s.window(now)) {
            out.extend([start, end]);
        }
        out.extend(slo.outside.values().filter_map(|o| o.until));
        out.extend(slo.certificates.values().flat_map(|t| conditions::certificate_moments(*t)));
        out.into_iter().filter(|t| *t > now).min()
    }

    /// Alerts that were over long ago leave the working state, once all who had to be notified
    /// were.
    fn forget_alerts(&mut self) {
        let (now, slo) = (self.state.now, &self.state.slo);
        if self.watch.forget_at.is_none_or(|t| t > now) {
            return;
        }
        let mut over: Vec<(Time, &Alert)> =
            slo.alerts.values().filter_map(|a| Some((a.resolved_at?, a))).collect();
        over.sort_by_key(|(t, a)| (*t, &a.id));
        let many = over.len().saturating_sub(KEPT);
        let next = over.first().map(|(t, _)| *t + KEPT_FOR);
        if many == 0 && next.is_none_or(|t| t > now) {
            self.watch.forget_at = next;
            return;
        }
        let old = over.iter().enumerate();
        let old = old.filter(|(i, (t, _))| *i < many || now.since(*t) >= KEPT_FOR);
        let settled = old.filter(|(_, (_, a))| slo.desk.is_settled(a, &slo.routing));
        let ids: Vec<String> = settled.map(|(_, (_, a))| a.id.clone()).collect();
        if !ids.is_empty() {
            self.emit(None, Event::AlertsForgotten { ids });
        }
    }
}
