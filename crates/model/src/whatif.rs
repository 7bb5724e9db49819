//! The answer to what a change would do to a site: simulated runs of the site as it is, compared
//! with runs that have the change.

use serde::{Deserialize, Serialize};

/// What a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WhatIfUnit {
    /// A time, in seconds.
    Seconds,
    /// A share of one.
    Share,
    /// A number of things.
    Count,
}

/// A mean over seeds with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIfEstimate {
    /// The mean over all seeds.
    pub mean: f64,
    /// Least and most of the interval; null when there was one seed, or it is a lower bound.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<f64>>))]
    pub interval: Option<[f64; 2]>,
    /// In some run it was not reached by the end: the mean is a lower bound, and there is no
    /// interval.
    #[serde(default)]
    pub at_least: bool,
}

/// One metric, as the site is and as it would be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIfMetric {
    /// The metric's name.
    pub name: String,
    /// What it counts.
    pub unit: WhatIfUnit,
    /// As the site is.
    pub base: WhatIfEstimate,
    /// As it would be.
    pub changed: WhatIfEstimate,
    /// The difference, seed by seed.
    pub change: WhatIfEstimate,
    /// Whether the difference is more than chance makes.
    pub certain: bool,
}

/// A job that waits now, and when it would start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIfStart {
    /// The job's id.
    pub job: String,
    /// The job's name.
    pub name: String,
    /// Seconds from now to its start as the site is, the mean over all seeds; null where it does not
    /// start in each of them.
    pub base_s: Option<f64>,
    /// The same with the change.
    pub changed_s: Option<f64>,
    /// With the change it could never start.
    #[serde(default)]
    pub never: bool,
}

/// Jobs that are there now and that only one side can run. No number about jobs counts them, on
/// either side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIfNever {
    /// How many there are.
    pub count: u64,
    /// The first of them (at most 50).
    pub jobs: Vec<WhatIfJob>,
}

/// A job that is there now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIfJob {
    /// The job's id.
    pub job: String,
    /// The job's name.
    pub name: String,
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIfAnswer {
    /// The answer in a few sentences, for people.
    pub summary: String,
    /// What was changed, in words.
    pub changes: Vec<String>,
    /// Pairs of simulated runs.
    pub seeds: u64,
    /// How long each was simulated at most, in seconds.
    pub horizon_s: f64,
    /// Whether new work came.
    pub new_work: bool,
    /// Nodes and GPUs as it is.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<u64>))]
    pub base_size: [u64; 2],
    /// Nodes and GPUs as it would be.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<u64>))]
    pub changed_size: [u64; 2],
    /// Jobs that run now.
    pub running: u64,
    /// Jobs that wait now.
    pub waiting: u64,
    /// Jobs that came in an hour, lately.
    pub arrivals_per_hour: Option<f64>,
    /// Failures in a thousand node-days, as it is.
    pub failures_per_1000_node_days: f64,
    /// The metrics that were compared.
    pub metrics: Vec<WhatIfMetric>,
    /// Jobs that wait now and would start earlier.
    pub starts_earlier: u64,
    /// Jobs that wait now and would start later.
    pub starts_later: u64,
    /// Jobs that wait now and would start at about the same time.
    pub starts_same: u64,
    /// Jobs that wait now and could never start with the change.
    #[serde(default)]
    pub starts_never: u64,
    /// Those whose start changes most (at most 50).
    pub starts: Vec<WhatIfStart>,
    /// Jobs that are there now and could never run with the change, while they can as it is.
    #[serde(default)]
    pub never_changed: WhatIfNever,
    /// Jobs that are there now and can never run as it is, while they could with the change.
    #[serde(default)]
    pub never_base: WhatIfNever,
    /// What binds first, as it is.
    pub limit_base: String,
    /// What binds first, as it would be.
    pub limit: String,
    /// What must be known to read it.
    pub notes: Vec<String>,
}

impl WhatIfAnswer {
    /// A metric by its name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&WhatIfMetric> {
        self.metrics.iter().find(|f| f.name == name)
    }
}
