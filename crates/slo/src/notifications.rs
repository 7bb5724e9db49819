//! Who was notified of what, and what is owed.
//!
//! Nothing is queued that could be lost: what is owed follows from the alerts and from what was
//! reported, at every moment anew. A receiver that is away for weeks is notified of every alert
//! that lasted long enough meanwhile, once, and then that it is over. It may be notified twice,
//! when the server dies between sending and remembering.

use crate::decide::{HOLD, escalation};
pub use muster_model::alert::AlertChange;
use muster_model::alert::{
    Alert, AlertState, Channel, GroupBy, MatcherInput, Receiver, Route, Routing, Urgency,
};
use muster_model::names::Label;
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Alerts in one message at most.
pub const LETTER_MAX: usize = 100;
/// The first and the longest pause after a failure.
const PAUSE: (Span, Span) = (Span::secs(1), Span::mins(5));
/// An Alertmanager takes what it does not hear of for over.
const KEEP_ALIVE: Span = Span::mins(1);
const ERROR_MAX: usize = 240;

/// What an alert's receiver last got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastNotification {
    /// When it was last notified.
    pub at: Time,
    /// That it is so urgent.
    pub urgency: Urgency,
    /// That it is over.
    pub over: bool,
}

/// How a receiver is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Line {
    /// Failures in a row.
    pub failures: u32,
    /// Not tried before this.
    pub not_before: Time,
    /// Since when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_since: Option<Time>,
    /// Its last error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A message that is to be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The receiver it goes to.
    pub to: Label,
    /// Ids of alerts and what there is to report, in order.
    pub alerts: Vec<(String, AlertChange)>,
}

/// What waits for a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// The receiver that is behind.
    pub receiver: Label,
    /// Alerts that wait to be sent to it.
    pub alerts: u64,
    /// Since when the oldest is owed.
    pub oldest: Option<Time>,
    /// How it is doing.
    pub line: Line,
}

/// What was sent to whom.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NotificationState {
    /// By receiver, by the id of the alert.
    #[serde(rename = "told")]
    sent: BTreeMap<Label, BTreeMap<String, LastNotification>>,
    lines: BTreeMap<Label, Line>,
    /// Since when receivers are named: what was over by then is nothing to them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    joined: BTreeMap<Label, Time>,
}

/// A receiver of an alert: by which route, and after how long without an answer.
struct Address<'a> {
    receiver: &'a Receiver,
    route: &'a Route,
    /// Only notified once the alert is escalated: so long after it began to notify, or when somebody
    /// escalates it.
    after: Option<Later>,
}

/// An escalation step.
#[derive(Debug, Clone, Copy)]
struct Later {
    after: Span,
    /// Its number among the alert's steps, from 1.
    level: u32,
}

/// All receivers of an alert, each once: as near as it is named.
fn addresses<'a>(a: &Alert, routing: &'a Routing) -> Vec<Address<'a>> {
    let mut out: Vec<Address<'a>> = Vec::new();
    let mut add = |name: &Label, route: &'a Route, after: Option<Later>| {
        let known = out.iter().any(|o| o.receiver.name == *name);
        if let Some(receiver) = routing.receiver(name).filter(|_| !known) {
            out.push(Address { receiver, route, after });
        }
    };
    let routes = routing.routes_of(&MatcherInput::from(a));
    for r in &routes {
        r.to.iter().for_each(|n| add(n, r, None));
    }
    let steps = escalation(a, routing);
    for r in &routes {
        for e in &r.escalate {
            let before = steps.iter().filter(|s| **s < e.after).count();
            let level = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
            let later = Later { after: e.after, level };
            e.to.iter().for_each(|n| add(n, r, Some(later)));
        }
    }
    out
}

/// What is owed to a receiver about an alert, and from when on; `joined`: since when it is named.
fn owed(
    a: &Alert,
    to: &Address<'_>,
    sent: Option<&LastNotification>,
    joined: Option<Time>,
) -> Option<(Time, AlertChange)> {
    let Some(sent) = sent else {
        // Quiet all the time, or quiet when it ended.
        let loud = a.loud_since?;
        // What went away before it was due was noise, also while it may still come back.
        let noise = |due: Time| a.gone_since.is_some_and(|gone| gone < due);
        return match (to.after, a.resolved_at) {
            (None, None) => {
                let due = loud + to.route.wait;
                (!noise(due)).then_some((due, AlertChange::Firing))
            }
            (None, Some(end)) if joined.is_some_and(|t| end <= t) => None,
            // It was explained by another, which is reported.
            (None, Some(_)) if a.merged_into.is_some() => None,
            // It lasted long enough for a notification, and nobody could be notified.
            (None, Some(end)) => {
                let due = loud + to.route.wait;
                (due <= end && !noise(due)).then_some((due, AlertChange::Firing))
            }
            (Some(later), None) if a.state == AlertState::Firing => {
                let due = loud + later.after;
                // Somebody passed it on before its time.
                let due = if a.level >= later.level { due.min(a.changed_at) } else { due };
                Some((due, AlertChange::Firing))
            }
            (Some(_), _) => None,
        };
    };
    if sent.over {
        return None;
    }
    if let Some(end) = a.resolved_at {
        // What comes back within a while goes on: its end is not reported before. What another
        // alert explains is over at once.
        let sure = a.gone_since.filter(|_| a.merged_into.is_none()).map_or(end, |t| t + HOLD);
        return to.receiver.resolved.then_some((end.max(sure), AlertChange::Over));
    }
    let lives = matches!(to.receiver.by, Channel::Alertmanager { .. });
    a.loud_since?;
    if a.urgency > sent.urgency {
        return Some((a.changed_at, AlertChange::Worse));
    }
    match a.state {
        _ if lives => Some((sent.at + to.route.repeat.min(KEEP_ALIVE), AlertChange::Still)),
        AlertState::Firing => Some((sent.at + to.route.repeat, AlertChange::Still)),
        _ => None,
    }
}

/// What messages of a route are held together by.
fn together(a: &Alert, by: &Route) -> Vec<String> {
    let of = |g: &GroupBy| match g {
        GroupBy::Urgency => a.urgency.word().to_owned(),
        GroupBy::Topic => a.topic.word().to_owned(),
        GroupBy::Kind => a.kind.clone(),
        GroupBy::Owner => a.owner.clone(),
        GroupBy::Project => a.project.as_ref().map(ToString::to_string).unwrap_or_default(),
        GroupBy::Alert => a.id.clone(),
    };
    by.group_by.iter().map(of).collect()
}

impl NotificationState {
    fn last_notification(&self, receiver: &Label, id: &str) -> Option<&LastNotification> {
        self.sent.get(receiver)?.get(id)
    }

    fn owed(&self, a: &Alert, to: &Address<'_>) -> Option<(Time, AlertChange)> {
        let name = &to.receiver.name;
        owed(a, to, self.last_notification(name, &a.id), self.joined.get(name).copied())
    }

    /// Another routing counts from now on: receivers that the one before did not name are new.
    pub fn rerouted(&mut self, now: Time, before: &Routing, routing: &Routing) {
        let new = routing.receivers.iter().map(|r| &r.name);
        let new = new.filter(|n| before.receiver(n).is_none());
        self.joined.extend(new.map(|n| (n.clone(), now)));
    }

    /// Since when receivers are named, as another desk knows it.
    pub fn copy_receivers_from(&mut self, of: &NotificationState) {
        self.joined.clone_from(&of.joined);
    }

    /// Who was notified of an alert, and what last.
    pub fn notified_of<'a>(
        &'a self,
        id: &'a str,
    ) -> impl Iterator<Item = (&'a Label, &'a LastNotification)> {
        self.sent.iter().filter_map(move |(to, sent)| Some((to, sent.get(id)?)))
    }

    /// Messages that are to be sent now, longest owed first for each receiver. To be asked again
    /// after each was notified or failed: of alerts that are both new and over, the first news
    /// comes before the last.
    #[must_use]
    pub fn due(
        &self,
        now: Time,
        alerts: &BTreeMap<String, Alert>,
        routing: &Routing,
    ) -> Vec<Notification> {
        type News = (String, AlertChange);
        type Together<'a> = (&'a Label, Vec<String>);
        let mut owed: Vec<(Together<'_>, Time, News)> = Vec::new();
        for a in alerts.values() {
            for to in addresses(a, routing) {
                let name = &to.receiver.name;
                if self.lines.get(name).is_some_and(|l| l.not_before > now) {
                    continue;
                }
                let due = self.owed(a, &to).filter(|(t, _)| *t <= now);
                let Some((since, news)) = due else { continue };
                owed.push(((name, together(a, to.route)), since, (a.id.clone(), news)));
            }
        }
        owed.sort_by(|a, b| a.0.cmp(&b.0));
        let bundles = owed.chunk_by(|a, b| a.0 == b.0).filter_map(|of| {
            let since = of.iter().map(|one| one.1).min()?;
            Some((of[0].0.0.clone(), since, of.iter().map(|one| one.2.clone()).collect()))
        });
        let mut order: Vec<(Label, Time, Vec<News>)> = bundles.collect();
        order.sort();
        let letters = order.into_iter().flat_map(|(to, _, alerts)| {
            let parts: Vec<Vec<_>> = alerts.chunks(LETTER_MAX).map(<[_]>::to_vec).collect();
            parts.into_iter().map(move |alerts| Notification { to: to.clone(), alerts })
        });
        letters.collect()
    }

    /// When there will next be something to send, if nothing changes.
    #[must_use]
    pub fn next_due(&self, alerts: &BTreeMap<String, Alert>, routing: &Routing) -> Option<Time> {
        let of = |a: &Alert| {
            let times = addresses(a, routing).into_iter().filter_map(|to| {
                let name = &to.receiver.name;
                let (due, _) = self.owed(a, &to)?;
                Some(due.max(self.lines.get(name).map_or(due, |l| l.not_before)))
            });
            times.min()
        };
        alerts.values().filter_map(of).min()
    }

    /// A letter arrived.
    pub fn sent(&mut self, now: Time, letter: &Notification, alerts: &BTreeMap<String, Alert>) {
        let sent = self.sent.entry(letter.to.clone()).or_default();
        for (id, news) in &letter.alerts {
            let Some(a) = alerts.get(id) else { continue };
            let over = *news == AlertChange::Over;
            sent.insert(id.clone(), LastNotification { at: now, urgency: a.urgency, over });
        }
        self.lines.remove(&letter.to);
    }

    /// A receiver could not be notified: it is tried again, ever more slowly.
    pub fn failed(&mut self, now: Time, receiver: &Label, error: &str) {
        let line = self.lines.entry(receiver.clone()).or_default();
        let pause = PAUSE.0.0.saturating_mul(1 << line.failures.min(20)).min(PAUSE.1.0);
        line.failures = line.failures.saturating_add(1);
        line.not_before = now + Span(pause);
        line.down_since.get_or_insert(now);
        line.error = error.chars().take(ERROR_MAX).collect();
    }

    /// Is there nothing more to report of an alert that is over? Then it can be forgotten.
    #[must_use]
    pub fn is_settled(&self, a: &Alert, routing: &Routing) -> bool {
        let open = |to: &Address<'_>| self.owed(a, to).is_some();
        !a.is_open() && !addresses(a, routing).iter().any(open)
    }

    /// Forgets what was reported of alerts and receivers that are not there any more.
    pub fn tidy(&mut self, alerts: &BTreeMap<String, Alert>, routing: &Routing) {
        let known = |name: &Label| routing.receiver(name).is_some();
        self.sent.retain(|name, sent| {
            sent.retain(|id, _| alerts.contains_key(id));
            known(name) && !sent.is_empty()
        });
        self.lines.retain(|name, _| known(name));
        self.joined.retain(|name, _| known(name));
    }

    /// What waits for each receiver, all of them in the order of the file.
    #[must_use]
    pub fn backlog(
        &self,
        now: Time,
        alerts: &BTreeMap<String, Alert>,
        routing: &Routing,
    ) -> Vec<Backlog> {
        let mut waits: Vec<(&Label, Time)> = Vec::new();
        for a in alerts.values() {
            for to in addresses(a, routing) {
                let name = &to.receiver.name;
                let due = self.owed(a, &to).filter(|(t, _)| *t <= now);
                waits.extend(due.map(|(since, _)| (name, since)));
            }
        }
        waits.sort_unstable();
        let of = |r: &Receiver| {
            let first = waits.partition_point(|w| *w.0 < r.name);
            let end = waits.partition_point(|w| *w.0 <= r.name);
            Backlog {
                receiver: r.name.clone(),
                alerts: (end - first) as u64,
                oldest: waits[first..end].first().map(|w| w.1),
                line: self.lines.get(&r.name).cloned().unwrap_or_default(),
            }
        };
        routing.receivers.iter().map(of).collect()
    }
}

#[cfg(test)]
#[path = "notifications_tests.rs"]
mod tests;
