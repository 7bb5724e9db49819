//! The last minutes of a job in metrics, each rank with the others.

use crate::{Kind, Timestamp};
use serde::{Deserialize, Serialize};

/// `GET /v1/jobs/{id}/telemetry?…`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default, deny_unknown_fields)]
pub struct JobTelemetryQuery {
    /// Names of metrics, separated by commas; the usual ones when absent.
    #[cfg_attr(feature = "openapi", param(example = "util,mem_used,power"))]
    pub fields: Option<String>,
    /// Which attempt; the newest that sent reports when absent.
    pub attempt: Option<u32>,
    /// `rank` (the default), or `slow`: slowest first.
    pub order: Option<String>,
    /// So many ranks of that order are left out.
    pub from: Option<u32>,
    /// So many ranks are reported one by one.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 256))]
    pub ranks: Option<u32>,
}

/// The last minutes of an attempt, rank by rank, all in the same stretches of time. What is not
/// reported is null. They are stored in memory only: a server that was just started knows little.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobTelemetry {
    /// Always `JobTelemetry`.
    pub kind: Kind,
    /// The job's id: `42`, or `42_3`.
    pub id: String,
    /// The attempt; null when none sent reports lately.
    pub attempt: Option<u32>,
    /// Nothing older than this is stored.
    pub since: Timestamp,
    /// When it was asked.
    pub until: Timestamp,
    /// This server has reports of ranks and GPUs since then.
    pub reporting_since: Timestamp,
    /// Length of one stretch, in milliseconds.
    pub width_ms: u64,
    /// When each stretch begins.
    pub at: Vec<Timestamp>,
    /// Ranks of the attempt.
    pub ranks: u32,
    /// GPUs of the attempt.
    pub gpus: u32,
    /// The metrics, in the order of each GPU's lists.
    pub fields: Vec<TelemetryField>,
    /// The ranks of this page, in the order that was asked for.
    pub lines: Vec<RankLine>,
    /// Where the next page begins; null on the last one.
    pub next: Option<u32>,
    /// Lengths of steps over all ranks, in milliseconds.
    pub step_band: TelemetryBand,
    /// The metrics over all GPUs, in the order of `fields`.
    pub bands: Vec<TelemetryBand>,
    /// The slowest rank of those that reported steps.
    pub slowest: Option<u32>,
    /// The fastest rank of those that reported steps.
    pub fastest: Option<u32>,
    /// What happened meanwhile, oldest first.
    pub marks: Vec<TelemetryMark>,
}

/// A metric of GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TelemetryField {
    /// A stable name, for programs.
    pub name: String,
    /// What it is called.
    pub title: String,
    /// The unit of its values, such as `W` or `%`.
    pub unit: String,
}

/// One rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RankLine {
    /// Global rank.
    pub rank: u32,
    /// Where it runs.
    pub node: String,
    /// Mean length of its steps, in milliseconds.
    pub mean_ms: Option<f32>,
    /// Mean length of its steps by stretch, in milliseconds; empty when it reported none.
    pub step_ms: Vec<Option<f32>>,
    /// Its GPUs.
    pub gpus: Vec<GpuLine>,
}

/// One GPU of a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GpuLine {
    /// Its index on the node.
    pub gpu: u32,
    /// One list by metric, each with one mean by stretch; an empty list where the device does not
    /// report that metric.
    pub metrics: Vec<Vec<Option<f32>>>,
}

/// The least, the median and the most, by stretch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TelemetryBand {
    /// The least value of each stretch.
    pub low: Vec<Option<f32>>,
    /// As many are above as below.
    pub median: Vec<Option<f32>>,
    /// The greatest value of each stretch.
    pub high: Vec<Option<f32>>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TelemetryMark {
    /// When it happened.
    pub at: Timestamp,
    /// `attempt`, `checkpoint`, `finding` or `fault`.
    pub what: String,
    /// What happened, for people.
    pub text: String,
    /// How bad a finding is.
    pub severity: Option<String>,
    /// The node, where one is meant.
    pub node: Option<String>,
    /// Which GPU.
    pub gpu: Option<u32>,
    /// The global rank, where one is meant.
    pub rank: Option<u32>,
}
