//! How a GPU would be cut into MIG slices, and what that would cost.

use crate::{Kind, Timestamp};
use serde::{Deserialize, Serialize};

/// `GET /v1/nodes/{name}/mig`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct MigQuery {
    /// Index of the GPU; the first when absent.
    pub gpu: u32,
    /// Slices that are to be there, separated by commas, such as `3g.71gb,3g.71gb`.
    pub profiles: String,
}

/// A slice of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MigPlanSlice {
    /// Its profile, such as `3g.71gb`.
    pub profile: String,
    /// Its first memory slice.
    pub start: u32,
    /// Its unique id, where it exists and has one.
    pub uuid: Option<String>,
}

/// A job that would have to leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MigLeaver {
    /// `42`, or `42_3`.
    pub job: String,
    /// What its user calls it.
    pub name: String,
    /// Who owns it.
    pub project: String,
    /// GPUs of the whole gang, in thousandths: it is restarted as a whole.
    pub gpus_milli: u64,
    /// What it has done since then would be done again: its last checkpoint, or its start.
    pub since: Timestamp,
    /// GPU-seconds lost.
    pub lost_gpu_seconds: u64,
}

/// What would be done with one GPU. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MigPlan {
    /// Always `MigPlan`.
    pub kind: Kind,
    /// The node the GPU is in.
    pub node: String,
    /// Index of the GPU.
    pub gpu: u32,
    /// MIG mode is turned on or off first; nothing may run on the GPU then.
    pub switch: Option<bool>,
    /// Slices that stay.
    pub keep: Vec<MigPlanSlice>,
    /// Slices that go.
    pub destroy: Vec<MigPlanSlice>,
    /// Slices that come.
    pub create: Vec<MigPlanSlice>,
    /// Jobs that have to leave first.
    pub leave: Vec<MigLeaver>,
    /// GPU-seconds lost by them in all.
    pub lost_gpu_seconds: u64,
}
