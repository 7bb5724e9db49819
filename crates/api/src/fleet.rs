//! What became of all GPUs, by the hour or by the day, and when demand meets what is there.

pub use muster_model::job::AttributionCounts as FleetAttribution;

use crate::{GpuParts, Kind, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How long each row of a report is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FleetStep {
    /// An hour; those of the last 31 days are kept.
    Hour,
    /// A day from midnight to midnight UTC; those of the last 400 are kept.
    #[default]
    Day,
}

/// `GET /v1/reports/fleet`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct FleetQuery {
    /// From here on; a week before the end when not given. Rows are whole hours or days.
    pub from: Option<Timestamp>,
    /// Up to here; now when not given.
    pub to: Option<Timestamp>,
    /// How long each row is.
    pub step: FleetStep,
    /// Only the jobs of this project.
    pub project: Option<String>,
}

/// What became of all GPUs. What is not known is null; nothing is made up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetReport {
    /// Always `FleetReport`.
    pub kind: Kind,
    /// Whose jobs; null for all.
    pub project: Option<String>,
    /// How long each row is.
    pub step: FleetStep,
    /// Where the rows begin.
    pub from: Timestamp,
    /// Where they end.
    pub to: Timestamp,
    /// What was before this is not known: the site began, or its older log is archived.
    pub since: Timestamp,
    /// What GPUs reported is known from here on; null when they never did.
    pub telemetry_since: Option<Timestamp>,
    /// The log was read to its end. False for a while after a server's start on a long log.
    pub complete: bool,
    /// All rows together.
    pub total: FleetMetrics,
    /// Hours or days, oldest first.
    pub rows: Vec<FleetRow>,
    /// All rows together by project, the most GPU time first.
    pub projects: Vec<FleetProject>,
    /// GPUs as they are now, by kind. Empty for who may see one project only.
    pub inventory: Vec<FleetSku>,
    /// When demand meets what is in service; null for who may see one project only.
    pub forecast: Option<CapacityForecast>,
}

/// One hour or day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetRow {
    /// Where it begins.
    pub from: Timestamp,
    /// Where it ends: the last one now.
    pub to: Timestamp,
    /// What happened in that time.
    #[serde(flatten)]
    pub metrics: FleetMetrics,
}

/// The jobs of one project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetProject {
    /// Its name; `(others)` for those that are counted together.
    pub name: String,
    /// Its numbers. Those of the fleet itself are null.
    #[serde(flatten)]
    pub metrics: FleetMetrics,
}

/// What happened in some time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetMetrics {
    /// Where GPU time went; `queued` is waited for, `held` is kept from starting by a person, and
    /// `restarting` holds GPUs only in part. The other parts with `restarting_waiting_gpu_seconds` taken off are `allocated_gpu_seconds`.
    pub gpu_seconds: GpuParts,
    /// GPUs that jobs were allocated.
    pub allocated_gpu_seconds: f64,
    /// Of `restarting`, what was waited for without holding GPUs.
    pub restarting_waiting_gpu_seconds: f64,
    /// Work of days that were final by then that was lost in this time; null when none was.
    pub lost_before_gpu_seconds: Option<f64>,
    /// GPUs that were allocated, or waited for by jobs that could have started.
    pub wanted_gpu_seconds: f64,
    /// GPUs in service; a maintenance window or an open breaker takes none out of it.
    pub in_service_gpu_seconds: Option<f64>,
    /// GPUs that could not, by why.
    pub out_of_service_gpu_seconds: Option<BTreeMap<String, f64>>,
    /// All there were.
    pub inventory_gpu_seconds: Option<f64>,
    /// Allocated of those in service (0 to 1).
    pub allocation: Option<f64>,
    /// In service of all there were (0 to 1).
    pub availability: Option<f64>,
    /// Productive GPU time of all that was allocated (0 to 1).
    pub goodput: Option<f64>,
    /// Effective training time ratio: productive GPU time of all, waiting included (0 to 1).
    pub ettr: Option<f64>,
    /// Jobs that came and ended.
    pub jobs: FleetJobs,
    /// Jobs that succeeded of those that succeeded or failed (0 to 1). Those that were cancelled are
    /// not counted; null when none ended.
    pub success_rate: Option<f64>,
    /// Jobs that succeeded at their first attempt, of the same jobs (0 to 1).
    pub first_attempt_success_rate: Option<f64>,
    /// Jobs that neither the infrastructure nor the platform made fail, of the same jobs (0 to 1).
    pub not_failed_by_site_rate: Option<f64>,
    /// Attempts that were interrupted, by attribution; `application` is 0: what a job did itself is no
    /// interruption.
    pub interruptions: FleetAttribution,
    /// Attempts that ended by a failure of the job itself.
    #[serde(default)]
    pub own_failures: u64,
    /// Mean time between them of a job with all ranks up, in milliseconds.
    pub mtbi_ms: Option<u64>,
    /// Mean time from a failure until the work resumed, in milliseconds.
    pub recover_ms: Option<u64>,
    /// How busy GPUs were, as they reported (0 to 1).
    pub utilisation: Option<f64>,
    /// What all GPUs drew together, in watts, as they reported.
    pub power_watts: Option<f64>,
}

/// Jobs that came and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetJobs {
    /// Jobs that were submitted.
    pub submitted: u64,
    /// Succeeded.
    pub succeeded: u64,
    /// Of them, those that did at their first attempt.
    pub succeeded_first: u64,
    /// Ended by somebody.
    pub cancelled: u64,
    /// Failed, by what that is attributed to.
    pub failed: FleetAttribution,
}

/// GPUs of one kind, as they are now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetSku {
    /// The kind of GPU, such as `h100-sxm`.
    pub sku: String,
    /// All there are.
    pub gpus: u64,
    /// Those in service.
    pub in_service: u64,
    /// Those that are not in service, by why.
    pub out_of_service: BTreeMap<String, u64>,
}

/// When demand meets what is in service, by a straight line through the last days.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapacityForecast {
    /// In a sentence.
    pub summary: String,
    /// Whole days that it rests on; at least 3 are needed, and the last 60 are looked at.
    pub days: u64,
    /// GPUs in service, as the mean of the last whole day.
    pub capacity_gpus: f64,
    /// GPUs that were allocated or could be used at once, as the mean of the newest day from its
    /// midnight UTC on. Where this is not less than `newest_in_service_gpus`, demand is at what is in
    /// service, whatever the line says.
    #[serde(default)]
    pub newest_demand_gpus: Option<f64>,
    /// GPUs in service, as the mean of the same time.
    #[serde(default)]
    pub newest_in_service_gpus: Option<f64>,
    /// GPUs that are allocated or could be used at once, by the line, at the end of the last whole
    /// day. Null with too few days, as is all that follows.
    pub demand_gpus: Option<f64>,
    /// More of them every day.
    pub growth_gpus_per_day: Option<f64>,
    /// The standard deviation of the days from the line, in GPUs.
    pub spread_gpus: Option<f64>,
    /// Demand has met what is in service already.
    pub met: Option<bool>,
    /// When the line meets what is in service; null when not within a year.
    pub meets_at: Option<Timestamp>,
    /// As early as this when demand lies above the line by its spread.
    pub meets_earliest: Option<Timestamp>,
    /// As late as this when it lies below; null when not within a year.
    pub meets_latest: Option<Timestamp>,
}
