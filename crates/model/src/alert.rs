//! Conditions, alerts, silences, and who is notified by which way.

mod route;
#[cfg(test)]
mod tests;

pub use route::{Channel, Escalation, GroupBy, Receiver, Route, Routing};

use crate::entity::Entity;
use crate::finding::Severity;
use crate::ids::JobId;
use crate::names::{Label, NodeName, ProjectName};
use crate::resolve::{one_line, some_lines};
use crate::spec::{SpecProblem, problem};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Members that an alert names; more are counted only.
pub const MEMBERS_MAX: usize = 64;
/// Receivers, routes and silences of a site at most.
pub const ROUTING_MAX: usize = 200;
const TEXT_MAX: usize = 1000;

/// How soon somebody has to act. Ordered: a later one is more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// In working hours.
    Ticket,
    /// Now: somebody is woken.
    Page,
}

impl Urgency {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Urgency::Ticket => "ticket",
            Urgency::Page => "page",
        }
    }
}

/// What a condition was concluded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// A finding about hardware or a job.
    Finding,
    /// Findings with one cause.
    Incident,
    /// An objective whose burn rate is too high, or whose error budget is exhausted.
    Objective,
    /// Too little room, or soon.
    Capacity,
    /// Money or quota.
    Budget,
    /// A certificate that ends.
    Certificate,
    /// A version or setting that is not as it should be.
    Drift,
    /// The control plane stopped itself, or waits for a word.
    Automation,
    /// The control plane itself: it cannot write, or does not lead.
    ControlPlane,
}

impl Topic {
    /// All of them.
    pub const ALL: [Topic; 9] = [
        Topic::Finding,
        Topic::Incident,
        Topic::Objective,
        Topic::Capacity,
        Topic::Budget,
        Topic::Certificate,
        Topic::Drift,
        Topic::Automation,
        Topic::ControlPlane,
    ];

    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Topic::Finding => "finding",
            Topic::Incident => "incident",
            Topic::Objective => "objective",
            Topic::Capacity => "capacity",
            Topic::Budget => "budget",
            Topic::Certificate => "certificate",
            Topic::Drift => "drift",
            Topic::Automation => "automation",
            Topic::ControlPlane => "control_plane",
        }
    }

    /// Is it about things that stand somewhere, so that what is above them may explain it?
    #[must_use]
    pub fn is_physical(self) -> bool {
        matches!(self, Topic::Finding | Topic::Incident | Topic::Drift)
    }

    /// Is it about how fast something happens, so that one look says little? All others are states.
    #[must_use]
    pub fn is_rate(self) -> bool {
        matches!(self, Topic::Objective)
    }
}

/// Something that is so now. The list of all of them is what alerts follow from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Condition {
    /// Names it among all conditions, for as long as it lasts: `finding:1203`.
    pub key: String,
    /// What it was concluded from.
    pub topic: Topic,
    /// A stable code: a failure mode, the name of an objective.
    pub kind: String,
    /// What it is about.
    pub entity: Entity,
    /// How soon somebody has to act.
    pub urgency: Urgency,
    /// In a sentence.
    pub summary: String,
    /// When it began to be so.
    pub since: Time,
    /// The key of the condition that it is a part of: its incident's.
    pub parent: Option<String>,
    /// It explains what is wrong with everything below its entity.
    pub explains: bool,
    /// The job that is the cause, where it is a job's own doing.
    pub job: Option<JobId>,
    /// The project it concerns.
    pub project: Option<ProjectName>,
    /// Who is responsible for it; empty where nobody is named.
    pub owner: String,
    /// What to do.
    pub runbook: String,
    /// Where the evidence is: a path of the console.
    pub link: String,
    /// What it counts was bad because of hardware: it may be a consequence of something broken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hardware: bool,
    /// Nodes that are out of service now; none where it counts no nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeName>>,
    /// So many nodes may be out of service before they alone burn too fast.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nodes_allowed: u64,
    /// Jobs that run on it, or were hit by it, and how many GPUs each of them has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected: Vec<(JobId, u32)>,
    /// How bad it is, where it is a finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

/// Where an alert stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// It is so, and nobody has said that they look after it.
    Firing,
    /// Somebody looks after it.
    Acknowledged,
    /// It is over.
    Resolved,
}

/// What there is to report of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertChange {
    /// It is so.
    Firing,
    /// It became more urgent.
    Worse,
    /// It is still so.
    Still,
    /// It is over.
    Over,
}

/// That somebody passed an alert on before its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Escalated {
    /// The alert's id.
    pub id: String,
    /// The step it came to, from 1.
    pub level: u32,
    /// Why, for people.
    pub reason: String,
}

/// Who said that they look after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acknowledgement {
    /// The user who acknowledged it.
    pub by: String,
    /// When they acknowledged it.
    pub at: Time,
    /// Their comment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Something that somebody has to be notified of: one cause, however many conditions it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Alert {
    /// Names this alert among all that ever were: its group, and when it began.
    pub id: String,
    /// What holds its conditions together; at most one alert of a group is not resolved.
    pub group: String,
    /// Of the condition that stands for it.
    pub topic: Topic,
    /// Of that condition.
    pub kind: String,
    /// What the trouble is about: the cause, not what suffers from it.
    pub cause: Entity,
    /// What the cause is part of, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<Entity>,
    /// How soon somebody has to act: the most urgent of its conditions.
    pub urgency: Urgency,
    /// Its state.
    pub state: AlertState,
    /// In a sentence.
    pub summary: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// The project it concerns, if it concerns one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub project: Option<ProjectName>,
    /// What to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runbook: String,
    /// Where the evidence is: a path of the console.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub link: String,
    /// What is affected, in order (at most 64 are kept).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Entity>,
    /// It was a page that was not silenced, also where what is left is a ticket.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paged: bool,
    /// Objectives that paged as part of it or burn because of its nodes, by name, also those that
    /// do not burn now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<String>,
    /// Conditions in all.
    pub count: u64,
    /// Jobs that run on what is affected, or were interrupted by it and have not resumed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jobs: u64,
    /// GPUs that those jobs have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gpus: u64,
    /// When its first condition began.
    pub since: Time,
    /// When it was raised.
    pub raised_at: Time,
    /// When it last changed.
    pub changed_at: Time,
    /// Since when it is not silenced; none while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loud_since: Option<Time>,
    /// The silence that matches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub silenced: Option<Label>,
    /// Since when none of its conditions is there; it is over once that has lasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<Time>,
    /// How often it was escalated because nobody acknowledged it.
    #[serde(default)]
    pub level: u32,
    /// Who acknowledged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<Time>,
    /// The group of the alert that it became a part of, if that is how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<String>,
}

impl Alert {
    /// Not over yet?
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state != AlertState::Resolved
    }
}

/// Which alerts are meant: all that is given must fit; nothing given fits all. Texts may hold `*`
/// for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Matcher {
    /// Alerts of this urgency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urgency: Option<Urgency>,
    /// Alerts that were concluded from this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    /// A code, like `gpu-*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The thing itself, like `node:hgx-*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// The thing itself or what it is part of, like `rack:eu/c1/s1/l2/r7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<String>,
    /// Who is responsible for it, as the condition names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The project it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// What a matcher looks at.
#[derive(Debug, Clone, Copy)]
pub struct MatcherInput<'a> {
    /// How soon somebody has to act.
    pub urgency: Urgency,
    /// What it was concluded from.
    pub topic: Topic,
    /// Its stable code: a failure mode, the name of an objective.
    pub kind: &'a str,
    /// What it is about.
    pub entity: &'a Entity,
    /// What that is part of.
    pub above: &'a [Entity],
    /// Who is responsible for it; empty where nobody is named.
    pub owner: &'a str,
    /// The project it concerns, if it concerns one.
    pub project: Option<&'a ProjectName>,
}

impl<'a> From<&'a Alert> for MatcherInput<'a> {
    fn from(a: &'a Alert) -> MatcherInput<'a> {
        MatcherInput {
            urgency: a.urgency,
            topic: a.topic,
            kind: &a.kind,
            entity: &a.cause,
            above: &a.above,
            owner: &a.owner,
            project: a.project.as_ref(),
        }
    }
}

/// Does a text fit a pattern in which `*` stands for any run of characters?
#[must_use]
pub fn fits(pattern: &str, text: &str) -> bool {
    let (p, t) = (pattern.as_bytes(), text.as_bytes());
    let (mut i, mut j) = (0, 0);
    // Where to take up again after the last star, with one more character given to it.
    let mut again: Option<(usize, usize)> = None;
    while j < t.len() {
        if i < p.len() && p[i] == b'*' {
            again = Some((i + 1, j));
            i += 1;
        } else if i < p.len() && p[i] == t[j] {
            (i, j) = (i + 1, j + 1);
        } else if let Some((star, from)) = again {
            again = Some((star, from + 1));
            (i, j) = (star, from + 1);
        } else {
            return false;
        }
    }
    p[i..].iter().all(|b| *b == b'*')
}

impl Matcher {
    /// Does it fit?
    #[must_use]
    pub fn fits(&self, seen: &MatcherInput<'_>) -> bool {
        let text = |p: &Option<String>, t: &str| p.as_ref().is_none_or(|p| fits(p, t));
        let under = |p: &String| {
            fits(p, &seen.entity.to_string()) || seen.above.iter().any(|e| fits(p, &e.to_string()))
        };
        self.urgency.is_none_or(|u| u == seen.urgency)
            && self.topic.is_none_or(|t| t == seen.topic)
            && text(&self.kind, seen.kind)
            && (self.entity.is_none() || text(&self.entity, &seen.entity.to_string()))
            && self.under.as_ref().is_none_or(under)
            && text(&self.owner, seen.owner)
            && text(&self.project, seen.project.map_or("", ProjectName::as_str))
    }

    fn check(&self, field: &str) -> Result<(), SpecProblem> {
        let texts = [&self.kind, &self.entity, &self.under, &self.owner, &self.project];
        let long = |t: &&Option<String>| t.as_ref().is_some_and(|t| t.len() > TEXT_MAX);
        if texts.iter().any(long) {
            return Err(problem(field, "a text is too long", format!("at most {TEXT_MAX} bytes")));
        }
        texts.into_iter().flatten().try_for_each(|t| one_line(field, t))
    }
}

/// A time in which some alerts are not sent, once or again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Silence {
    /// Its name; unique.
    #[cfg_attr(feature = "openapi", schema(value_type = String, max_length = 128))]
    pub name: Label,
    /// The alerts that it silences.
    #[serde(rename = "match")]
    pub matcher: Matcher,
    /// When it (first) begins.
    pub start: Time,
    /// How long it lasts.
    pub length: Span,
    /// Begins again after so long, until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// Who made it.
    #[serde(default)]
    pub by: String,
    /// Why, for people.
    #[serde(default)]
    pub why: String,
}

impl Silence {
    /// The window that goes on at `t`, or the next one after it.
    #[must_use]
    pub fn window(&self, t: Time) -> Option<(Time, Time)> {
        self.start.window(self.length, self.every, t)
    }

    /// Does it hold at `t`?
    #[must_use]
    pub fn holds(&self, t: Time) -> bool {
        self.window(t).is_some_and(|(start, _)| start <= t)
    }

    /// Checks what can be judged from the silence alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to fix it.
    pub fn check(&self) -> Result<(), SpecProblem> {
        if self.length.0 == 0 {
            return Err(problem("length", "it is zero", "write how long, like 2h"));
        }
        if self.every.is_some_and(|e| e.0 < self.length.0) {
            return Err(problem(
                "every",
                "it begins again before it is over",
                "make `every` at least as long as `length`",
            ));
        }
        if self.matcher == Matcher::default() {
            return Err(problem(
                "match",
                "it would silence everything",
                "name what is meant; `kind: \"*\"` if it really is everything",
            ));
        }
        if self.why.len() > TEXT_MAX {
            return Err(problem("why", "it is too long", format!("at most {TEXT_MAX} bytes")));
        }
        some_lines("why", &self.why)?;
        self.matcher.check("match")
    }
}

impl fmt::Display for AlertState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AlertState::Firing => "firing",
            AlertState::Acknowledged => "acknowledged",
            AlertState::Resolved => "resolved",
        })
    }
}
