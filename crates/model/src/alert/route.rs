//! Who is notified of what, and how.

use super::{Matcher, MatcherInput, ROUTING_MAX, TEXT_MAX};
use crate::names::Label;
use crate::resolve::one_line;
use crate::spec::{SpecProblem, problem};
use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How a receiver is reached. Secrets are named, never written here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Channel {
    /// An Alertmanager; notified again and again while the alert lasts, as it expects.
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
    /// Mail, sent to a server of the site's own.
    Smtp {
        /// Host and port.
        server: String,
        /// The address it is sent from.
        from: String,
        /// The addresses it is sent to.
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

/// A receiver of notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// Its name; unique.
    #[cfg_attr(feature = "openapi", schema(value_type = String, max_length = 128))]
    pub name: Label,
    /// How it is reached.
    pub by: Channel,
    /// It is notified when an alert is over, too.
    #[serde(default = "yes")]
    pub resolved: bool,
}

fn yes() -> bool {
    true
}

/// What alerts are put into one message by.
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

/// Who else is notified when nobody acknowledges an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Escalation {
    /// So long after it began to notify.
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
    /// Which alerts; all when nothing is given.
    #[serde(default, rename = "match")]
    pub matcher: Matcher,
    /// Names of receivers.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub to: Vec<Label>,
    /// Alerts that have these in common are one message.
    #[serde(default = "by_alert")]
    pub group_by: BTreeSet<GroupBy>,
    /// Not sent before it has lasted so long: what is over or explained by then was noise.
    #[serde(default = "half_a_minute")]
    pub wait: Span,
    /// Sent again after so long while nobody acknowledges it.
    #[serde(default = "four_hours")]
    pub repeat: Span,
    /// Who else is notified when nobody acknowledges it, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<Escalation>,
    /// Later routes count, too.
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

/// Who is notified of what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// Who can be notified.
    pub receivers: Vec<Receiver>,
    /// Which alerts go to whom; the first that fits, and those after it where it says `go_on`.
    pub routes: Vec<Route>,
}

impl Routing {
    /// The routes that an alert takes.
    pub fn routes_of<'a>(&'a self, seen: &MatcherInput<'_>) -> Vec<&'a Route> {
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
    /// The first thing that is wrong, with the field and how to fix it.
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
            let text = format!("{} is too long to delay a notification", self.wait);
            return Err(problem(&format!("{at}.wait"), text, "write at most 1h"));
        }
        let mut last = Span(0);
        for (i, e) in self.escalate.iter().enumerate() {
            let at = format!("{at}.escalate[{i}]");
            known(format!("{at}.to"), &e.to)?;
            if e.to.is_empty() {
                let hint = "name one of `receivers`, or leave the step out";
                return Err(problem(&format!("{at}.to"), "it notifies nobody", hint));
            }
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
                one_line(&format!("{at}.url"), url)?;
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
