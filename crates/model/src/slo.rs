//! What was promised: objectives, and the indicators they are about (O1).
//!
//! Shares are whole numbers of parts per million, lengths of time are whole milliseconds: what is
//! stored is never rounded.

mod check;
#[cfg(test)]
mod tests;

use crate::alert::Urgency;
use crate::names::{Label, ProjectName};
use crate::spec::{Priority, Tier};
use crate::units::Span;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Objectives of a site at most: what is counted for each takes memory.
pub const OBJECTIVES_MAX: usize = 200;
/// Burn rules of an objective at most.
pub const BURN_MAX: usize = 16;
/// Windows longer than this are counted in whole hours, others in whole minutes.
pub const FINE_MAX: Span = Span::hours(8);
/// The longest window.
pub const WINDOW_MAX: Span = Span::hours(90 * 24);
const HOUR: u64 = 3_600_000;
const MINUTE: u64 = 60_000;
const TEXT_MAX: usize = 1000;

/// A share in parts per million. Written `99.9%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[0-9]{1,3}([.][0-9]{1,4})?%$", example = "99.9%", max_length = 9))]
pub struct Ppm(pub u32);

impl Ppm {
    /// All of it.
    pub const ONE: Ppm = Ppm(1_000_000);

    /// What is left to one.
    #[must_use]
    pub fn rest(self) -> Ppm {
        Ppm(Ppm::ONE.0.saturating_sub(self.0))
    }

    /// From a decimal number, of which `places` decimals are whole parts per million: 4 for
    /// percent, 6 for a share of one.
    fn decimal(s: &str, places: usize) -> Option<Ppm> {
        let (whole, part) = s.split_once('.').unwrap_or((s, "0"));
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) || whole.len() > 3 {
            return None;
        }
        // Zeros at the end say nothing; more decimals than are kept would be lost.
        let part = part.trim_end_matches('0');
        if part.len() > places {
            return None;
        }
        let unit = 10u32.pow(u32::try_from(places).ok()?);
        let scale = 10u32.pow(u32::try_from(places - part.len()).ok()?);
        let ppm = whole.parse::<u32>().ok()?.checked_mul(unit)?;
        let part = if part.is_empty() { 0 } else { part.parse::<u32>().ok()? * scale };
        let ppm = ppm.checked_add(part)?;
        (ppm <= Ppm::ONE.0).then_some(Ppm(ppm))
    }

    /// From a share of one, like `0.999`.
    #[must_use]
    pub fn from_share(s: &str) -> Option<Ppm> {
        Ppm::decimal(s, 6)
    }

    /// From percent without the sign, like `99.9`.
    #[must_use]
    pub fn from_percent(s: &str) -> Option<Ppm> {
        Ppm::decimal(s, 4)
    }
}

impl fmt::Display for Ppm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 10_000, self.0 % 10_000);
        let text = match part {
            0 => format!("{whole}%"),
            _ => format!("{}%", format!("{whole}.{part:04}").trim_end_matches('0')),
        };
        f.pad(&text)
    }
}

/// Text that is no share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share: write percent with at most 4 decimals, like 99.9%")]
pub struct PpmError(String);

fn shown(s: &str) -> String {
    s.chars().take(60).flat_map(char::escape_debug).collect()
}

impl FromStr for Ppm {
    type Err = PpmError;
    fn from_str(s: &str) -> Result<Ppm, PpmError> {
        let percent = s.trim().strip_suffix('%').map(str::trim_end);
        percent.and_then(Ppm::from_percent).ok_or_else(|| PpmError(shown(s)))
    }
}

impl Serialize for Ppm {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ppm {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Ppm, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Whose failures count.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The platform's: hardware, Muster itself, and what nobody could explain.
    #[default]
    Platform,
    /// Everybody's, the job's own too.
    Any,
}

/// What is measured: a share of good ones among all. What each counts is in `docs/observe.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sli {
    /// Submissions that were durably accepted in time. Told by the server.
    Admission {
        /// In time.
        under: Span,
    },
    /// Jobs that were given their nodes in time, from the moment they could have been.
    QueueWait {
        /// In time.
        under: Span,
        /// Of this priority class only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<Priority>,
        /// Of this price class only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<Tier>,
    },
    /// Attempts with every rank up in time, from the moment they were given their nodes.
    Start {
        /// In time.
        under: Span,
    },
    /// Jobs that ended well.
    JobSuccess {
        /// Whose failures count.
        #[serde(default)]
        blame: Blame,
        /// Only first attempts are looked at, so that retries hide nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        first: bool,
    },
    /// Gangs that ran again in time after hardware failed them, from the fault on.
    Recovery {
        /// In time.
        under: Span,
    },
    /// Time that nodes were in service.
    NodeAvailability,
    /// GPU time that ended as progress, of all that was held (the effective training time ratio).
    Goodput,
    /// Time gangs ran, beside a cost for each time the platform interrupted one: a target `t` asks
    /// for a mean time between interruptions of at least `cost * t / (1 - t)`.
    Interruptions {
        /// What each one counts as.
        cost: Span,
    },
    /// Answers of inference services that came in time. Told by the services.
    InferenceLatency {
        /// In time.
        under: Span,
    },
    /// Requests to inference services that were answered. Told by the services.
    InferenceAvailability,
    /// Looks at nodes whose newest telemetry was fresh. Told by the server.
    TelemetryFreshness {
        /// Not older than this.
        under: Span,
    },
    /// API requests that the server did not fail. Told by the server.
    ApiAvailability,
    /// API requests that were answered in time. Told by the server.
    ApiLatency {
        /// In time.
        under: Span,
    },
}

/// What the counts of an indicator are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things that happened: jobs, attempts, requests.
    Events,
    /// Milliseconds of nodes, GPUs or gangs.
    Time,
}

impl Sli {
    /// The words that files and OpenSLO sources name them by.
    pub const WORDS: [&'static str; 13] = [
        "admission",
        "queue_wait",
        "start",
        "job_success",
        "recovery",
        "node_availability",
        "goodput",
        "interruptions",
        "inference_latency",
        "inference_availability",
        "telemetry_freshness",
        "api_availability",
        "api_latency",
    ];

    /// The word in files.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Sli::Admission { .. } => "admission",
            Sli::QueueWait { .. } => "queue_wait",
            Sli::Start { .. } => "start",
            Sli::JobSuccess { .. } => "job_success",
            Sli::Recovery { .. } => "recovery",
            Sli::NodeAvailability => "node_availability",
            Sli::Goodput => "goodput",
            Sli::Interruptions { .. } => "interruptions",
            Sli::InferenceLatency { .. } => "inference_latency",
            Sli::InferenceAvailability => "inference_availability",
            Sli::TelemetryFreshness { .. } => "telemetry_freshness",
            Sli::ApiAvailability => "api_availability",
            Sli::ApiLatency { .. } => "api_latency",
        }
    }

    /// What its counts are.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self {
            Sli::NodeAvailability | Sli::Goodput | Sli::Interruptions { .. } => Unit::Time,
            _ => Unit::Events,
        }
    }

    /// The limit, where there is one.
    #[must_use]
    pub fn under(&self) -> Option<Span> {
        match *self {
            Sli::Admission { under }
            | Sli::QueueWait { under, .. }
            | Sli::Start { under }
            | Sli::Recovery { under }
            | Sli::InferenceLatency { under }
            | Sli::TelemetryFreshness { under }
            | Sli::ApiLatency { under } => Some(under),
            _ => None,
        }
    }

    /// Can it be narrowed to a project? To a pool?
    #[must_use]
    pub fn scopes(&self) -> (bool, bool) {
        match self {
            Sli::Admission { .. } => (true, false),
            Sli::NodeAvailability | Sli::TelemetryFreshness { .. } => (false, true),
            Sli::ApiAvailability | Sli::ApiLatency { .. } => (false, false),
            _ => (true, true),
        }
    }

    /// Who tells it: false for what follows from the log alone.
    #[must_use]
    pub fn is_told(&self) -> bool {
        matches!(
            self,
            Sli::Admission { .. }
                | Sli::InferenceLatency { .. }
                | Sli::InferenceAvailability
                | Sli::TelemetryFreshness { .. }
                | Sli::ApiAvailability
                | Sli::ApiLatency { .. }
        )
    }
}

impl fmt::Display for Sli {
    /// As a promise is worded: `queue wait under 5m (high)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.word().replace('_', " ");
        match self {
            Sli::JobSuccess { blame, first } => {
                let whose =
                    if *blame == Blame::Platform { "platform's failures" } else { "all failures" };
                let which = if *first { ", first attempts" } else { "" };
                text = format!("{text} ({whose}{which})");
            }
            Sli::Interruptions { cost } => text = format!("{text}, {cost} each"),
            _ => {}
        }
        if let Some(under) = self.under() {
            text = format!("{text} under {under}");
        }
        if let Sli::QueueWait { class, tier, .. } = self {
            let class = class.map(|c| format!("{c:?}").to_lowercase());
            let tier = tier.map(|t| match t {
                Tier::Spot => "spot".to_owned(),
                Tier::OnDemand => "on-demand".to_owned(),
                Tier::Reserved => "reserved".to_owned(),
            });
            let words: Vec<String> = class.into_iter().chain(tier).collect();
            if !words.is_empty() {
                text = format!("{text} ({})", words.join(", "));
            }
        }
        f.pad(&text)
    }
}

/// What an objective is narrowed to; nothing for the whole site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Scope {
    /// One project.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 63))]
    pub project: Option<ProjectName>,
    /// One pool of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 128))]
    pub pool: Option<String>,
}

impl Scope {
    /// The whole site?
    #[must_use]
    pub fn is_site(&self) -> bool {
        self.project.is_none() && self.pool.is_none()
    }

    /// Does what happened to this project on this pool belong to it?
    #[must_use]
    pub fn admits(&self, project: Option<&ProjectName>, pool: Option<&str>) -> bool {
        self.project.as_ref().is_none_or(|p| Some(p) == project)
            && self.pool.as_deref().is_none_or(|p| Some(p) == pool)
    }
}

/// Over what time a promise is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Window {
    /// The last so long, at every moment. Whole hours.
    Rolling(Span),
    /// From the first of the month on, in UTC.
    Month,
}

impl Default for Window {
    /// Four weeks: each holds the same weekdays.
    fn default() -> Window {
        Window::Rolling(Span::hours(28 * 24))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Days, not weeks: it is compared with other windows.
            Window::Rolling(s) if s.0.is_multiple_of(24 * HOUR) => {
                f.pad(&format!("{}d", s.0 / 24 / HOUR))
            }
            Window::Rolling(s) => f.pad(&s.to_string()),
            Window::Month => f.pad("month"),
        }
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Window {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        String::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Window {}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Window, D::Error> {
        let text = String::deserialize(d)?;
        match text.as_str() {
            "month" => Ok(Window::Month),
            t => t.parse().map(Window::Rolling).map_err(|_| {
                let t = shown(t);
                serde::de::Error::custom(format!("`{t}` is no window: write 28d, 12h or month"))
            }),
        }
    }
}

/// How many times too fast, in thousandths. Written `14.4x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[0-9]{1,6}([.][0-9]{1,3})?x$", example = "14.4x"))]
pub struct Factor(pub u32);

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        match part {
            0 => f.pad(&format!("{whole}x")),
            _ => f.pad(&format!("{}x", format!("{whole}.{part:03}").trim_end_matches('0'))),
        }
    }
}

impl FromStr for Factor {
    type Err = FactorError;
    fn from_str(s: &str) -> Result<Factor, FactorError> {
        let wrong = || FactorError(shown(s));
        let t = s.trim();
        let t = t.strip_suffix('x').unwrap_or(t);
        let (whole, part) = t.split_once('.').unwrap_or((t, "0"));
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let part = if part.len() > 1 { part.trim_end_matches('0') } else { part };
        let part = if part.is_empty() { "0" } else { part };
        if !digits(whole) || !digits(part) || whole.len() > 6 || part.len() > 3 {
            return Err(wrong());
        }
        let thousandths = format!("{part:0<3}").parse::<u32>().map_err(|_| wrong())?;
        Ok(Factor(whole.parse::<u32>().map_err(|_| wrong())? * 1000 + thousandths))
    }
}

/// Text that is no factor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a factor: write it with at most 3 decimals, like 14.4x")]
pub struct FactorError(String);

impl Serialize for Factor {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Factor {
    /// Also from a plain number, as people write it.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Factor, D::Error> {
        struct V;
        impl serde::de::Visitor<'_> for V {
            type Value = Factor;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a factor like 14.4x")
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Factor, E> {
                v.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Factor, E> {
                v.to_string().parse().map_err(E::custom)
            }
            fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Factor, E> {
                // The shortest text of the number is what was written.
                v.to_string().parse().map_err(E::custom)
            }
        }
        d.deserialize_any(V)
    }
}

/// When a budget is spent too fast.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BurnRule {
    /// So many times as fast as spends the budget exactly over its window.
    pub factor: Factor,
    /// Over this long.
    pub long: Span,
    /// And still over this long, so that it ends soon after the cause.
    pub short: Span,
    /// At every minute of the last so long.
    #[serde(default, rename = "for", skip_serializing_if = "is_zero")]
    pub held: Span,
    /// With at least so many bad ones in the long window: a single failure on a quiet site is a
    /// large share. Not for indicators that count time.
    #[serde(default, skip_serializing_if = "none_at_all")]
    pub least: u64,
    /// What it leads to.
    pub urgency: Urgency,
}

fn is_zero(s: &Span) -> bool {
    s.0 == 0
}

fn none_at_all(n: &u64) -> bool {
    *n == 0
}

/// What stops while a budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Remedies that the control plane would take by itself.
    Automation,
    /// Changes of versions.
    Rollouts,
}

impl Gate {
    /// The word in files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Gate::Automation => "automation",
            Gate::Rollouts => "rollouts",
        }
    }
}

/// A promise: an indicator, how much of it, over what time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// Its name; unique.
    #[cfg_attr(feature = "openapi", schema(value_type = String, max_length = 128))]
    pub name: Label,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What is measured.
    pub sli: Sli,
    /// For whom.
    #[serde(default, skip_serializing_if = "Scope::is_site")]
    pub scope: Scope,
    /// At least so much of it is good.
    pub target: Ppm,
    /// Over what time.
    #[serde(default)]
    pub window: Window,
    /// When the budget is spent too fast; the site's rules when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burn: Option<Vec<BurnRule>>,
    /// What stops while the budget is spent.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gates: BTreeSet<Gate>,
}

/// The newest set of objectives that comes with Muster.
pub const DEFAULTS: u32 = 1;

/// The objectives of a site: those that come with Muster, and its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Objectives {
    /// Version of the set that comes with Muster; 0 for none of it. A newer Muster changes nothing
    /// until this is changed.
    pub defaults: u32,
    /// Names of that set that do not apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub without: Vec<Label>,
    /// The site's own. One with the name of a default stands in its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<Objective>,
}

impl Default for Objectives {
    fn default() -> Self {
        Objectives { defaults: 1, without: Vec::new(), objectives: Vec::new() }
    }
}

/// Whose doing a bad one was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Hardware failed.
    Hardware,
    /// Muster itself failed.
    Platform,
    /// The job's own.
    Application,
    /// An operator's word: cordoned, drained, held back.
    Operator,
    /// Its room was wanted for others.
    Scheduler,
    /// A node was not heard.
    Unreachable,
    /// A node was suspected or taken out by a finding.
    Quarantine,
    /// A node was being repaired.
    Repair,
    /// A node was being tested.
    Test,
    /// There was no room.
    Room,
    /// It took too long; why is not known.
    Slow,
    /// Starting up.
    Starting,
    /// Work since the last checkpoint was lost.
    Lost,
    /// Nobody knows.
    Unknown,
}

impl Cause {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Cause::Hardware => "hardware",
            Cause::Platform => "platform",
            Cause::Application => "application",
            Cause::Operator => "operator",
            Cause::Scheduler => "scheduler",
            Cause::Unreachable => "unreachable",
            Cause::Quarantine => "quarantine",
            Cause::Repair => "repair",
            Cause::Test => "test",
            Cause::Room => "room",
            Cause::Slow => "slow",
            Cause::Starting => "starting",
            Cause::Lost => "lost",
            Cause::Unknown => "unknown",
        }
    }
}

/// What was counted outside of the log: by the server about itself, by services about theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counted {
    /// Of which indicator, with the limit it was judged by.
    pub sli: Sli,
    /// For whom.
    #[serde(default, skip_serializing_if = "Scope::is_site")]
    pub scope: Scope,
    /// Good ones.
    pub good: u64,
    /// All.
    pub total: u64,
    /// Why those that are not good are not, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}
