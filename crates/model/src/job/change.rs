//! What may be changed of a job that waits or runs.

use super::SharedSpec;
use crate::ids::JobId;
use crate::spec::{JobSpec, Priority};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is other in a job's spec. The log has this alone: the spec may be large, and an array of
/// thousands of tasks is changed with one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecChange {
    /// The priority, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The time limit, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Span>,
}

/// What a job asks for was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobUpdate {
    /// The job, which waits or runs.
    pub job: JobId,
    /// What is other in its spec from now on.
    #[serde(default)]
    pub change: SpecChange,
    /// The whole spec, in logs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Arc<JobSpec>>,
    /// When its running attempt reaches the new time limit; nothing where none runs yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
}

impl JobUpdate {
    /// Changes the spec of its job.
    pub fn apply(&self, spec: &mut SharedSpec) {
        match &self.spec {
            Some(whole) => spec.replace(whole),
            None => spec.change(self.change),
        }
    }
}
