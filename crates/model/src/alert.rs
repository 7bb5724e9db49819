//! What somebody has to be told of: conditions, alerts, silences, and who is told how (O2).

#[cfg(test)]
mod tests;

use crate::entity::Entity;
use crate::ids::JobId;
use crate::names::{Label, ProjectName};
use crate::spec::{SpecProblem, problem};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Members that an alert names; more are counted only.
pub const MEMBERS_MAX: usize = 64;
/// Receivers, routes and silences of a site at most.
pub const ROUTING_MAX: usize = 200;
const TEXT_MAX: usize = 1000;

/// How soon somebody has to look. Ordered: a later one is more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// In working hours.
    Ticket,
    /// Now.
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
    /// An objective whose budget is spent too fast, or is spent.
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
    /// How soon somebody has to look.
    pub urgency: Urgency,
    /// In a sentence.
    pub summary: String,
    /// Since when.
    pub since: Time,
    /// The key of the condition that it is a part of: its incident's.
    pub parent: Option<String>,
    /// It explains what is wrong with everything below its entity.
    pub explains: bool,
    /// The job to blame, where it is a job's own doing.
    pub job: Option<JobId>,
    /// The project it concerns.
    pub project: Option<ProjectName>,
    /// Who answers for it; empty where nobody is named.
    pub owner: String,
    /// What to do.
    pub runbook: String,
    /// Where the evidence is: a path of the console.
    pub link: String,
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

/// Who said that they look after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acknowledgement {
    /// Who.
    pub by: String,
    /// When.
    pub at: Time,
    /// What they said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Something that somebody has to be told of: one cause, however many conditions it has.
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
    /// How soon somebody has to look: the most urgent of its conditions.
    pub urgency: Urgency,
    /// Where it stands.
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
    /// Conditions in all.
    pub count: u64,
    /// When its first condition began.
    pub since: Time,
    /// When it was raised.
    pub raised_at: Time,
    /// When it last changed.
    pub changed_at: Time,
    /// Since when it is not silenced; none while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loud_since: Option<Time>,
    /// The silence that keeps it quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub silenced: Option<Label>,
    /// Since when none of its conditions is there; it is over once that has lasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<Time>,
    /// How often it was passed on because nobody looked after it.
    #[serde(default)]
    pub level: u32,
    /// Who looks after it.
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
    /// This urgency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urgency: Option<Urgency>,
    /// This topic.
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
    /// Whose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// What a matcher looks at.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Its urgency.
    pub urgency: Urgency,
    /// Its topic.
    pub topic: Topic,
    /// Its code.
    pub kind: &'a str,
    /// The thing.
    pub entity: &'a Entity,
    /// What that is part of.
    pub above: &'a [Entity],
    /// Whose.
    pub owner: &'a str,
    /// The project.
    pub project: Option<&'a ProjectName>,
}

impl<'a> From<&'a Alert> for Seen<'a> {
    fn from(a: &'a Alert) -> Seen<'a> {
        Seen {
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
    pub fn fits(&self, seen: &Seen<'_>) -> bool {
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
        Ok(())
    }
}

/// A time in which some alerts are not told, once or again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Silence {
    /// Its name; unique.
    #[cfg_attr(feature = "openapi", schema(value_type = String, max_length = 128))]
    pub name: Label,
    /// Which alerts.
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
    /// Why.
    #[serde(default)]
    pub why: String,
}

impl Silence {
    /// The window that goes on at `t`, or the next one after it.
    #[must_use]
    pub fn window(&self, t: Time) -> Option<(Time, Time)> {
        let mut start = self.start;
        if let Some(every) = self.every.filter(|e| e.0 > 0)
            && t > start
        {
            start = start + Span(t.since(start).0 / every.0 * every.0);
            if t >= start + self.length {
                start = start + every;
            }
        }
        let end = start + self.length;
        (t < end).then_some((start, end))
    }

    /// Does it hold at `t`?
    #[must_use]
    pub fn holds(&self, t: Time) -> bool {
        self.window(t).is_some_and(|(start, _)| start <= t)
    }

    /// Checks what can be judged from the silence alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to mend it.
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
                "say what is meant; `kind: \"*\"` if it really is everything",
            ));
        }
        if self.why.len() > TEXT_MAX {
            return Err(problem("why", "it is too long", format!("at most {TEXT_MAX} bytes")));
        }
        self.matcher.check("match")
    }
}

/// How a receiver is reached. Secrets are named, never written here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Channel {
    /// An Alertmanager; told again and again while the alert lasts, as it expects.
    Alertmanager {
        /// Its address, like `http://alertmanager:9093`.
        url: String,
    },
    /// Any HTTP endpoint; gets JSON.
    Webhook {
        /// Where to.
        url: String,
        /// The secret that the body is signed with (HMAC-SHA-256).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        sign: Option<Label>,
    },
    /// An endpoint that takes Slack's messages.
    Slack {
        /// The secret that holds its address.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        url_secret: Label,
    },
    /// Mail.
    Smtp {
        /// Host and port.
        server: String,
        /// Sender.
        from: String,
        /// Recipients.
        to: Vec<String>,
        /// Name to log in with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// The secret that holds the password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        password_secret: Option<Label>,
    },
}

impl Channel {
    /// The word users read.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Channel::Alertmanager { .. } => "alertmanager",
            Channel::Webhook { .. } => "webhook",
            Channel::Slack { .. } => "slack",
            Channel::Smtp { .. } => "smtp",
        }
    }
}

/// Somebody who is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// Its name; unique.
    #[cfg_attr(feature = "openapi", schema(value_type = String, max_length = 128))]
    pub name: Label,
    /// How it is reached.
    pub by: Channel,
    /// It is told when an alert is over, too.
    #[serde(default = "yes")]
    pub resolved: bool,
}

fn yes() -> bool {
    true
}

/// What messages are held together by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// The same urgency.
    Urgency,
    /// The same topic.
    Topic,
    /// The same code.
    Kind,
    /// The same owner.
    Owner,
    /// The same project.
    Project,
    /// Each alert in a message of its own.
    Alert,
}

/// Who else is told when nobody looks after an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Escalation {
    /// So long after it became loud.
    pub after: Span,
    /// Names of receivers.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub to: Vec<Label>,
}

/// Which alerts go to whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Which alerts; all when nothing is said.
    #[serde(default, rename = "match")]
    pub matcher: Matcher,
    /// Names of receivers.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub to: Vec<Label>,
    /// What one message holds together.
    #[serde(default = "by_alert")]
    pub group_by: BTreeSet<GroupBy>,
    /// Not told before it has lasted so long: what is over or explained by then was noise.
    #[serde(default = "half_a_minute")]
    pub wait: Span,
    /// Told again after so long while nobody looks after it.
    #[serde(default = "four_hours")]
    pub repeat: Span,
    /// Who else is told when nobody looks after it, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<Escalation>,
    /// Later routes are looked at, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub go_on: bool,
}

fn by_alert() -> BTreeSet<GroupBy> {
    BTreeSet::from([GroupBy::Alert])
}

fn half_a_minute() -> Span {
    Span::secs(30)
}

fn four_hours() -> Span {
    Span::hours(4)
}

/// Who is told of what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// Who can be told.
    pub receivers: Vec<Receiver>,
    /// Which alerts go to whom; the first that fits, and those after it where it says `go_on`.
    pub routes: Vec<Route>,
}

impl Routing {
    /// The routes that an alert takes.
    pub fn routes_of<'a>(&'a self, seen: &Seen<'_>) -> Vec<&'a Route> {
        let mut out = Vec::new();
        for route in self.routes.iter().filter(|r| r.matcher.fits(seen)) {
            out.push(route);
            if !route.go_on {
                break;
            }
        }
        out
    }

    /// The receiver of this name.
    #[must_use]
    pub fn receiver(&self, name: &Label) -> Option<&Receiver> {
        self.receivers.iter().find(|r| r.name == *name)
    }

    /// Checks what can be judged from the file alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to mend it.
    pub fn check(&self) -> Result<(), SpecProblem> {
        for (field, many) in [("receivers", self.receivers.len()), ("routes", self.routes.len())] {
            if many > ROUTING_MAX {
                return Err(problem(field, "there are too many", format!("at most {ROUTING_MAX}")));
            }
        }
        let mut names = BTreeSet::new();
        for (i, r) in self.receivers.iter().enumerate() {
            if !names.insert(&r.name) {
                let text = format!("two receivers are called {}", r.name);
                return Err(problem(
                    &format!("receivers[{i}].name"),
                    text,
                    "give each its own name",
                ));
            }
            r.by.check(&format!("receivers[{i}].by.{}", r.by.word()))?;
        }
        for (i, r) in self.routes.iter().enumerate() {
            r.check(&format!("routes[{i}]"), &names)?;
        }
        Ok(())
    }
}

impl Route {
    fn check(&self, at: &str, names: &BTreeSet<&Label>) -> Result<(), SpecProblem> {
        self.matcher.check(&format!("{at}.match"))?;
        let known = |field: String, to: &[Label]| match to.iter().find(|n| !names.contains(n)) {
            Some(n) => {
                let text = format!("there is no receiver `{n}`");
                Err(problem(&field, text, "name one of `receivers`"))
            }
            None => Ok(()),
        };
        known(format!("{at}.to"), &self.to)?;
        if self.repeat < Span::mins(1) {
            let text = format!("{} is too often", self.repeat);
            return Err(problem(&format!("{at}.repeat"), text, "write at least 1m"));
        }
        if self.wait > Span::hours(1) {
            let text = format!("{} is too long to keep an alert back", self.wait);
            return Err(problem(&format!("{at}.wait"), text, "write at most 1h"));
        }
        let mut last = Span(0);
        for (i, e) in self.escalate.iter().enumerate() {
            let at = format!("{at}.escalate[{i}]");
            known(format!("{at}.to"), &e.to)?;
            if e.after <= last {
                let text = format!("{} is not after the one before", e.after);
                return Err(problem(&format!("{at}.after"), text, "write them in order of time"));
            }
            last = e.after;
        }
        Ok(())
    }
}

impl Channel {
    fn check(&self, at: &str) -> Result<(), SpecProblem> {
        match self {
            Channel::Alertmanager { url } | Channel::Webhook { url, .. } => {
                let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
                let good = |r: &str| {
                    !r.is_empty()
                        && !r.starts_with('/')
                        && r.len() <= TEXT_MAX
                        && !r.contains(['\n', '\r', ' '])
                };
                if !rest.is_some_and(good) {
                    let hint = "write it like http://host:port/path";
                    return Err(problem(&format!("{at}.url"), "it is no address", hint));
                }
            }
            Channel::Slack { .. } => {}
            Channel::Smtp { server, from, to, .. } => {
                let line =
                    |t: &str| !t.is_empty() && t.len() <= TEXT_MAX && !t.contains(['\n', '\r']);
                let mail = |t: &str| line(t) && t.contains('@') && !t.contains([' ', '<', '>']);
                if !line(server) || server.contains(' ') {
                    let hint = "write host:port, like mail.example.org:587";
                    return Err(problem(&format!("{at}.server"), "it is no address", hint));
                }
                if !mail(from) {
                    let hint = "write it like muster@example.org";
                    return Err(problem(&format!("{at}.from"), "it is no mail address", hint));
                }
                if to.is_empty() || !to.iter().all(|t| mail(t)) {
                    let hint = "write them like [oncall@example.org]";
                    return Err(problem(
                        &format!("{at}.to"),
                        "no mail address, or a wrong one",
                        hint,
                    ));
                }
            }
        }
        Ok(())
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
