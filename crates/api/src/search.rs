//! What a search over the site finds.

use serde::{Deserialize, Serialize};

/// `GET /v1/search`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(default)]
pub struct SearchQuery {
    /// What is searched for: an id, or a part of a name, a serial number or a UUID; at most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// At most so many; 20 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 100))]
    pub limit: Option<u32>,
}

/// What was found, best match first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchHitList {
    /// Exact matches first, then beginnings, then beginnings of words, then the rest.
    pub items: Vec<SearchHit>,
    /// There may be more than is listed here: type more of what is searched for.
    pub more: bool,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchHit {
    /// What it is.
    pub kind: SearchKind,
    /// Its id or name; of a GPU `NODE/INDEX`.
    pub id: String,
    /// What people call it.
    pub title: String,
    /// More about it, in a few words.
    pub detail: String,
    /// Its state, where it has one.
    pub state: Option<String>,
    /// What a finding or an incident is about, such as `gpu:hgx-01/3`.
    pub entity: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchKind {
    /// A job, or an array of jobs by its number.
    Job,
    /// A node by its name.
    Node,
    /// A GPU by its serial number or UUID.
    Gpu,
    /// Somebody who submitted jobs that are still listed.
    User,
    /// A project.
    Project,
    /// An incident.
    Incident,
    /// A finding.
    Finding,
    /// A runbook.
    Runbook,
}

impl SearchKind {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            SearchKind::Job => "job",
            SearchKind::Node => "node",
            SearchKind::Gpu => "gpu",
            SearchKind::User => "user",
            SearchKind::Project => "project",
            SearchKind::Incident => "incident",
            SearchKind::Finding => "finding",
            SearchKind::Runbook => "runbook",
        }
    }
}
