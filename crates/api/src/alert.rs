//! What somebody has to be notified of, when not, and who is notified.

use crate::{Kind, Timestamp, Window};
use muster_model::alert::{self as m, Matcher, Topic, Urgency};
use muster_model::names::Label;
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Something that people are notified of: one cause, however many things suffer from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Alert {
    /// Names it among all alerts that ever were.
    pub id: String,
    /// A stable code: a failure mode, the name of an objective.
    pub kind: String,
    /// `firing`, `acknowledged` or `resolved`.
    pub state: String,
    /// What it was concluded from.
    pub topic: Topic,
    /// How soon somebody has to act.
    pub urgency: Urgency,
    /// In a sentence.
    pub summary: String,
    /// What the trouble is about: the cause, not what suffers from it.
    pub cause: String,
    /// What that is part of, nearest first.
    pub above: Vec<String>,
    /// What is affected (at most 64 are named).
    pub members: Vec<String>,
    /// Conditions in all.
    pub count: u64,
    /// Jobs that run on what is affected, or were interrupted by it and have not resumed.
    pub jobs: u64,
    /// GPUs that those jobs have, or ask for while they wait.
    pub gpus: u64,
    /// Who is responsible for it; empty where nobody is named.
    pub owner: String,
    /// The project it concerns, if it concerns one only.
    pub project: Option<String>,
    /// What to do: a page of the console.
    pub runbook: String,
    /// Where the evidence is: a page of the console.
    pub evidence: String,
    /// When it began.
    pub since: Timestamp,
    /// When it was raised.
    pub raised_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// The silence that matches it.
    pub silenced: Option<String>,
    /// How often it was escalated because nobody acknowledged it.
    pub level: u32,
    /// Who acknowledged it.
    pub acknowledged: Option<Acknowledged>,
    /// When it was over.
    pub resolved_at: Option<Timestamp>,
    /// It became a part of another alert, of this group.
    pub merged_into: Option<String>,
    /// Notifications that were sent.
    pub notifications: Vec<NotifiedReceiver>,
}

/// Who acknowledged an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acknowledged {
    /// The user who acknowledged it.
    pub by: String,
    /// When they acknowledged it.
    pub at: Timestamp,
    /// Their comment.
    pub note: String,
}

/// What was last sent to a receiver about an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotifiedReceiver {
    /// The receiver's name.
    pub receiver: String,
    /// When it was last notified of this alert.
    pub at: Timestamp,
    /// That it is over.
    pub over: bool,
}

impl Alert {
    /// As the API shows it.
    #[must_use]
    pub fn of(a: &m::Alert, notifications: Vec<NotifiedReceiver>) -> Alert {
        let words = |all: &[muster_model::entity::Entity]| -> Vec<String> {
            all.iter().map(ToString::to_string).collect()
        };
        Alert {
            id: a.id.clone(),
            kind: a.kind.clone(),
            state: a.state.to_string(),
            topic: a.topic,
            urgency: a.urgency,
            summary: a.summary.clone(),
            cause: a.cause.to_string(),
            above: words(&a.above),
            members: words(&a.members),
            count: a.count,
            jobs: a.jobs,
            gpus: a.gpus,
            owner: a.owner.clone(),
            project: a.project.as_ref().map(ToString::to_string),
            runbook: a.runbook.clone(),
            evidence: a.link.clone(),
            since: a.since.into(),
            raised_at: a.raised_at.into(),
            changed_at: a.changed_at.into(),
            silenced: a.silenced.as_ref().map(ToString::to_string),
            level: a.level,
            acknowledged: a.acknowledged.as_ref().map(|k| Acknowledged {
                by: k.by.clone(),
                at: k.at.into(),
                note: k.note.clone(),
            }),
            resolved_at: a.resolved_at.map(Into::into),
            merged_into: a.merged_into.clone(),
            notifications,
        }
    }
}

/// A page of alerts, worst first: open before over, pages before tickets, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AlertList {
    /// The alerts of this page.
    pub items: Vec<Alert>,
    /// Where the next page begins.
    pub cursor: Option<String>,
}

/// `POST /v1/alerts/{id}/acknowledge`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AcknowledgeRequest {
    /// A comment of the user who acknowledged it.
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub note: String,
}

/// A time in which some alerts send no notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Silence {
    /// Its name again: silences are named by it.
    pub id: String,
    /// Always `Silence`.
    pub kind: Kind,
    /// Its name, unique in the site.
    pub name: String,
    /// `scheduled`, `active` or `over`.
    pub state: String,
    /// The alerts that it silences.
    #[serde(rename = "match")]
    pub matcher: Matcher,
    /// When it (first) begins.
    pub start: Timestamp,
    /// How long it lasts.
    pub length: Span,
    /// Begins again after so long.
    pub every: Option<Span>,
    /// The active window, or the next one.
    pub window: Option<Window>,
    /// Who made it.
    pub by: String,
    /// Why, for people.
    pub why: String,
    /// Open alerts that it silences now.
    pub silences: u64,
}

impl Silence {
    /// As the API shows it.
    #[must_use]
    pub fn of(s: &m::Silence, silences: u64, now: Time) -> Silence {
        let window = s.window(now);
        let state = match window {
            None => "over",
            Some(_) if s.holds(now) => "active",
            Some(_) => "scheduled",
        };
        Silence {
            id: s.name.to_string(),
            kind: Kind::Silence,
            name: s.name.to_string(),
            state: state.to_owned(),
            matcher: s.matcher.clone(),
            start: s.start.into(),
            length: s.length,
            every: s.every,
            window: window.map(|(a, b)| Window { start: a.into(), end: b.into() }),
            by: s.by.clone(),
            why: s.why.clone(),
            silences,
        }
    }
}

/// Silences, in order of their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SilenceList {
    /// All silences, those that begin later included.
    pub items: Vec<Silence>,
    /// Always null: there is one page.
    pub cursor: Option<String>,
}

/// `PUT /v1/silences/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetSilence {
    /// Which alerts: all that is given must fit; `*` stands for any run of characters.
    #[serde(rename = "match")]
    pub matcher: Matcher,
    /// When it (first) begins; now when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// How long it lasts.
    pub length: Span,
    /// Begins again after so long, until it is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// Why, for people.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub why: String,
}

impl SetSilence {
    /// What it means, with its name.
    #[must_use]
    pub fn into_model(self, name: Label, now: Time) -> m::Silence {
        m::Silence {
            name,
            matcher: self.matcher,
            start: self.start.map_or(now, |t| t.0),
            length: self.length,
            every: self.every,
            by: String::new(),
            why: self.why,
        }
    }
}

/// Who is notified of what: `GET /v1/routing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
// The model's own document is called `Routing` in the description.
#[cfg_attr(feature = "openapi", schema(as = SiteRouting))]
pub struct Routing {
    /// Always `Routing`.
    pub kind: Kind,
    /// The version: it changes with the content; goes into `If-Match`.
    pub version: u64,
    /// The whole of it. Secrets are named, never shown.
    #[cfg_attr(feature = "openapi", schema(value_type = m::Routing))]
    pub routing: Arc<m::Routing>,
}

/// `PUT /v1/routing`. Accepts what `GET` returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetRouting {
    /// The whole of it.
    #[cfg_attr(feature = "openapi", schema(value_type = m::Routing))]
    pub routing: Arc<m::Routing>,
    /// Always `Routing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Ignored: the version the caller saw goes into `If-Match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// A receiver of notifications, and what waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ReceiverState))]
pub struct Receiver {
    /// Its name again.
    pub id: String,
    /// Always `Receiver`.
    pub kind: Kind,
    /// Its name, unique in the routing.
    pub name: String,
    /// `ok` or `failing`.
    pub state: String,
    /// `alertmanager`, `webhook`, `slack` or `smtp`.
    pub by: String,
    /// It is notified when an alert is over, too.
    pub resolved: bool,
    /// Alerts that wait to be sent to it.
    pub waiting: u64,
    /// Since when the oldest waits.
    pub oldest: Option<Timestamp>,
    /// Failures in a row.
    pub failures: u32,
    /// Since when it fails.
    pub down_since: Option<Timestamp>,
    /// Its last error.
    pub error: String,
    /// When it is tried again.
    pub next_try: Option<Timestamp>,
}

/// Receivers, in the order of the routing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReceiverList {
    /// All receivers.
    pub items: Vec<Receiver>,
    /// Always null: there is one page.
    pub cursor: Option<String>,
}
