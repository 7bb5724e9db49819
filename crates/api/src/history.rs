//! Metrics over time, for longer than the last minutes.

use crate::TelemetryField;
use serde::{Deserialize, Serialize};

/// `GET /v1/metrics/history?…`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default, deny_unknown_fields)]
pub struct HistoryQuery {
    /// The metrics of this node.
    pub node: Option<String>,
    /// With `node`: only this GPU.
    pub gpu: Option<u32>,
    /// The metrics of the GPUs of this job, while they were allocated to it.
    pub job: Option<String>,
    /// Names of metrics, separated by commas; the usual ones when absent.
    #[cfg_attr(feature = "openapi", param(example = "util,power"))]
    pub metrics: Option<String>,
    /// The start, in milliseconds since 1970; an hour before `to` when absent.
    pub from: Option<i64>,
    /// The end, in milliseconds since 1970; now when absent.
    pub to: Option<i64>,
    /// At most so many points of each series.
    #[cfg_attr(feature = "openapi", param(minimum = 2, maximum = 2000))]
    pub points: Option<u32>,
}

/// Metrics over time, all series in the same steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MetricsHistory {
    /// When the first point begins, in milliseconds since 1970.
    pub from: i64,
    /// When the last point ends.
    pub to: i64,
    /// Length of each point, in milliseconds.
    pub step_ms: u64,
    /// Where the samples come from: `builtin`, the server's own files.
    pub source: String,
    /// When the first point begins that is stored in such steps, of whatever node, in milliseconds
    /// since 1970: what is older was deleted, or was before there was a history. Absent where nothing is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_from: Option<i64>,
    /// The series.
    pub series: Vec<MetricSeries>,
}

/// One metric over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MetricSeries {
    /// Its name.
    pub metric: String,
    /// The unit of its values, such as `W` or `%`.
    pub unit: String,
    /// The node; null where several GPUs are put together, and for the step times of a job.
    pub node: Option<String>,
    /// The GPU's index on the node; null for a metric of the node itself, and where several GPUs are
    /// put together.
    pub gpu: Option<u32>,
    /// How many GPUs are in it; none in the step times of a job.
    pub gpus: u32,
    /// The least, the mean and the greatest value of each point; null where nothing was sampled.
    pub points: Vec<Option<[f32; 3]>>,
}

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryMetricList {
    /// Where the samples come from: `builtin`, or `off` where none are stored.
    pub source: String,
    /// The metrics, by name.
    pub items: Vec<TelemetryField>,
}
