//! Service level objectives, and the indicators they are about.
//!
//! Shares are whole numbers of parts per million, lengths of time are whole milliseconds: what is
//! stored is never rounded.

mod check;
mod service_facts;
mod share;
mod sli;
#[cfg(test)]
mod tests;

pub use service_facts::NodeServiceFacts;
pub use share::{Factor, FactorError, Ppm, PpmError};
pub use sli::{Attribution, Scope, Sli, Unit};

use crate::alert::Urgency;
use crate::job::Verdict;
use crate::names::Label;
use crate::units::{Span, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use share::shown;
use std::collections::BTreeSet;
use std::fmt;

/// Objectives of a site at most: what is counted for each takes memory.
pub const OBJECTIVES_MAX: usize = 200;
/// Burn rules of an objective at most.
pub const BURN_MAX: usize = 16;
/// A day (UTC) is final so long after its end: until then what is found out later corrects it.
pub const FINAL_AFTER: Span = Span::hours(24);
/// Windows longer than this are counted in whole hours, others in whole minutes.
pub const FINE_MAX: Span = Span::hours(8);
/// The longest window.
pub const WINDOW_MAX: Span = Span::hours(90 * 24);
const HOUR: u64 = 3_600_000;
const MINUTE: u64 = 60_000;
const TEXT_MAX: usize = 1000;

/// Over what time an objective is judged.
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

/// When the burn rate of an error budget is too high.
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

/// Why a rule does not fire although the burn rate over one of its windows is above its factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NotFiring {
    /// Over its long window it is not, or not yet.
    LongWindow,
    /// Over its short window it is not any more.
    ShortWindow,
    /// Fewer were bad than it asks for.
    TooFewBad,
    /// It was not at every minute that it asks for.
    NotEveryMinute,
    /// The rules are evaluated at whole minutes: it fires at the next one if it stays so.
    NextMinute,
}

fn is_zero(s: &Span) -> bool {
    s.0 == 0
}

fn none_at_all(n: &u64) -> bool {
    *n == 0
}

/// What stops while an error budget is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Remediations that the control plane would take by itself.
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

/// An objective: an indicator, its target, over what time.
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
    /// What it covers: the whole site, a project or a pool.
    #[serde(default, skip_serializing_if = "Scope::is_site")]
    pub scope: Scope,
    /// At least so much of it is good.
    pub target: Ppm,
    /// Over what time.
    #[serde(default)]
    pub window: Window,
    /// When the burn rate is too high; the site's rules when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burn: Option<Vec<BurnRule>>,
    /// What stops while the error budget is exhausted.
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

/// What a bad one is attributed to.
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
    /// There was no free capacity.
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
            Cause::Room => "capacity",
            Cause::Slow => "slow",
            Cause::Starting => "starting",
            Cause::Lost => "lost",
            Cause::Unknown => "unknown",
        }
    }
}

/// Days before this moment are final at `now`: what is found out or lost from now on changes nothing
/// of what is said about them.
#[must_use]
pub fn final_before(now: Time) -> Time {
    const DAY: i64 = 86_400_000;
    Time((now - FINAL_AFTER).0.div_euclid(DAY).saturating_mul(DAY))
}

/// Does all work of an attempt that ended so count? If not, what is in no checkpoint is lost, whoever
/// ended it. The one rule of goodput: for reports and for objectives.
#[must_use]
pub fn all_work_counts(verdict: Option<Verdict>, service: bool) -> bool {
    service || verdict == Some(Verdict::Success)
}

/// What was counted outside of the log: by the server about itself, by services about theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IndicatorCount {
    /// Of which indicator, with the limit it was judged by.
    pub sli: Sli,
    /// What it was counted for: the whole site, a project or a pool.
    #[serde(default, skip_serializing_if = "Scope::is_site")]
    pub scope: Scope,
    /// Good ones.
    pub good: u64,
    /// All of them, good ones included.
    pub total: u64,
    /// Why those that are not good are not, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// When it was counted, by the minute; where it does not say, when it is reported. One record
    /// has many minutes at once, and each counts where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}
