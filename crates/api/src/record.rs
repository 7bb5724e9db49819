//! The record of an incident: what happened, what it cost, what people wrote.

use crate::finding::Incident;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// `POST /v1/incidents/{id}/note`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NoteRequest {
    /// The text of the note.
    #[cfg_attr(feature = "openapi", schema(max_length = 2000))]
    pub text: String,
}

/// `POST /v1/incidents/{id}/own`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct OwnRequest {
    /// Who it is assigned to; null: whoever asks.
    #[cfg_attr(feature = "openapi", schema(max_length = 128))]
    pub owner: Option<String>,
    /// Nobody any more.
    pub release: bool,
}

/// Everything about an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IncidentRecord {
    /// The incident, with its findings and what was changed before it.
    pub incident: Incident,
    /// Runbooks that serve it.
    pub runbooks: Vec<String>,
    /// What it cost so far.
    pub impact: IncidentImpact,
    /// What happened, oldest first.
    pub timeline: Vec<IncidentEntry>,
    /// Older parts of the log are archived, or there was more than is shown.
    pub cut: bool,
}

/// What an incident cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IncidentImpact {
    /// From its first signal to its end, or until now, in seconds.
    pub seconds: u64,
    /// Seconds from the first signal until it was known as one incident.
    pub seconds_to_detect: u64,
    /// Nodes that are part of it.
    pub nodes: Vec<String>,
    /// GPU-hours in which they were out of service, in thousandths. It grows until they are back or the
    /// incident ends.
    pub gpu_milli_hours: u64,
    /// GPU-hours of work that the interrupted attempts lost, in thousandths: the sum of `lost` in the
    /// reports of their jobs. It is final once those attempts have ended.
    #[serde(default)]
    pub lost_gpu_milli_hours: u64,
    /// Jobs that were interrupted.
    pub jobs: Vec<u64>,
    /// Projects they belong to: whom to notify.
    pub projects: Vec<String>,
    /// How often somebody was paged.
    pub pages: u32,
}

impl IncidentImpact {
    /// Its jobs for people: a number alone would read as how many there are.
    #[must_use]
    pub fn job_words(&self) -> Vec<String> {
        self.jobs.iter().map(|id| format!("job {id}")).collect()
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IncidentEntry {
    /// When it happened.
    pub at: Timestamp,
    /// `incident`, `finding`, `fault`, `remediation`, `act`, `stage`, `test`, `job`, `breaker`,
    /// `runbook`, `note`, `page`, `change` or `automation`.
    pub what: String,
    /// The node, where one is meant.
    pub node: Option<String>,
    /// Who caused it.
    pub actor: String,
    /// What happened, for people.
    pub text: String,
}
