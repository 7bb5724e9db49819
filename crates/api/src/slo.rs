//! The site's objectives and their error budgets.

use crate::{Kind, Timestamp};
use muster_model::alert::Urgency;
use muster_model::slo::{self as m, Cause, Gate, NotFiring, Scope, Sli};
use muster_model::units::Span;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The objectives of the site: `GET /v1/objectives`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
// The model's own document is called `Objectives` in the description.
#[cfg_attr(feature = "openapi", schema(as = SiteObjectives))]
pub struct Objectives {
    /// Always `Objectives`.
    pub kind: Kind,
    /// The version: it changes with the content; goes into `If-Match`.
    pub version: u64,
    /// The site set them itself. Otherwise these are the objectives that come with Muster, and they
    /// stop nothing.
    pub stated: bool,
    /// The whole of it.
    #[cfg_attr(feature = "openapi", schema(value_type = m::Objectives))]
    pub objectives: Arc<m::Objectives>,
}

/// `PUT /v1/objectives`. Accepts what `GET` returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetObjectives {
    /// The whole of it.
    #[cfg_attr(feature = "openapi", schema(value_type = m::Objectives))]
    pub objectives: Arc<m::Objectives>,
    /// Always `Objectives`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Ignored: the version the caller saw goes into `If-Match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Not looked at.
    #[serde(default, skip_serializing)]
    pub stated: Option<bool>,
}

/// An objective and its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Slo {
    /// Its name again: objectives are named by it.
    pub id: String,
    /// Always `Slo`.
    pub kind: Kind,
    /// Its name, unique in the site.
    pub name: String,
    /// `no_data`, `met`, `below_target`, `burning` (its burn rate is too high) or `exhausted`.
    pub state: String,
    /// The moment until which was counted: everything here follows from it.
    pub as_of: Timestamp,
    /// The version, which changes with this objective alone.
    pub version: u64,
    /// Who answers for it.
    pub owner: String,
    /// What it is for.
    pub description: String,
    /// What is measured.
    pub sli: Sli,
    /// For whom; the whole site when empty.
    pub scope: Scope,
    /// `events`: jobs, attempts, requests are counted; `time`: milliseconds of nodes, GPUs, gangs.
    pub unit: String,
    /// At least so much of it is good: `99.9%`.
    pub target: String,
    /// The same in parts per million.
    pub target_ppm: u32,
    /// Over what time: `28d` or `month`.
    pub window: String,
    /// So much of the window was counted; the rest of it counts as good.
    pub counted_for: Span,
    /// Good ones in the window.
    pub good: u64,
    /// All in the window.
    pub total: u64,
    /// Bad ones that the budget of the whole window allows, at the rate until now.
    pub allowed: u64,
    /// The share of good ones; null without data.
    pub good_share: Option<f64>,
    /// The same for people: `99.975%`.
    pub good_text: Option<String>,
    /// The share of the budget that is left, from 1 down to 0; null without data.
    pub budget_left: Option<f64>,
    /// The share of the error budget that is used; more than 1 when the objective is not met.
    pub budget_consumed: Option<f64>,
    /// Its burn rate, over the last hour and each window of a rule.
    pub burn: Vec<BurnRate>,
    /// Rules that are firing now.
    pub firing: Vec<FiringRule>,
    /// Where no rule fires although a burn rate is above the factor of one: that rule, and why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_firing: Option<UnfiredRule>,
    /// Exhausted in so long at the burn rate of the last hour.
    pub exhausted_in: Option<Span>,
    /// Why the bad ones were bad, most first.
    pub causes: Vec<CauseCount>,
    /// What stops while the error budget is exhausted.
    pub gates: Vec<Gate>,
    /// It stops that now.
    pub gating: bool,
    /// For interruptions: the mean time between two of them.
    pub mean_time: Option<Span>,
    /// The alert that is open about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<String>,
    /// Hour by hour; only where one objective is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chart: Vec<ChartPoint>,
}

/// The burn rate of an error budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BurnRate {
    /// Over this long.
    pub window: Span,
    /// One spends it exactly over the objective's window; null without data.
    pub rate: Option<f64>,
}

/// A rule that is firing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FiringRule {
    /// Faster than this.
    pub factor: f64,
    /// Over this long; always longer than the other.
    pub long: Span,
    /// And still over this long.
    pub short: Span,
    /// What it leads to.
    pub urgency: Urgency,
    /// How fast over the long window.
    pub long_rate: f64,
    /// And over the short one.
    pub short_rate: f64,
}

/// A rule that does not fire although the burn rate over one of its windows is above its factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnfiredRule {
    /// Faster than this.
    pub factor: f64,
    /// Over this long; always longer than the other.
    pub long: Span,
    /// And still over this long.
    pub short: Span,
    /// What it would lead to.
    pub urgency: Urgency,
    /// Why it does not fire.
    pub why: NotFiring,
    /// At every minute of the last so long; zero: now is enough.
    pub held: Span,
    /// With at least so many bad ones.
    pub least: u64,
    /// So many were bad.
    pub bad: u64,
}

/// How many were bad for a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CauseCount {
    /// Why they were bad.
    pub cause: Cause,
    /// How many, or how many milliseconds.
    pub count: u64,
}

/// An hour of a chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChartPoint {
    /// The hour that ends then.
    pub at: Timestamp,
    /// Good ones in it.
    pub good: u64,
    /// All in it.
    pub total: u64,
    /// The burn rate in it; in the last 60 minutes where it is not over. Null
    /// without data.
    pub rate: Option<f64>,
    /// The share of the error budget that was left after it (0 to 1), of the budget of the whole window as it
    /// is now. Null without data.
    pub budget_left: Option<f64>,
}

/// Objectives, in order of their names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SloList {
    /// All objectives.
    pub items: Vec<Slo>,
    /// Always null: there is one page.
    pub cursor: Option<String>,
}
