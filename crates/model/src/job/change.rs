//! What may be changed of a job that waits or runs.

use super::{SharedSpec, SpecChange};
use crate::ids::JobId;
use crate::spec::JobSpec;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
