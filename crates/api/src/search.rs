//! What a search over the site finds, and what one over job output finds.

use crate::logs::LogStream;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// `GET /v1/search`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct SearchQuery {
    /// What is searched for: an id, or a part of a name, a serial number or a UUID; at most 200 characters.
    pub q: Option<String>,
    /// At most so many; 20 when absent.
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

/// `GET /v1/search/output`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct OutputSearchQuery {
    /// Words and `"phrases"` that a line must have, all of them; at most 200 characters.
    pub q: Option<String>,
    /// Only in output of this project's jobs; of all that the caller may read when absent.
    pub project: Option<String>,
    /// Only in output of this job: `42`, or `42_3` for a task of an array.
    pub job: Option<String>,
    /// Only lines of this moment or later; a line whose time is not known counts by its attempt's end.
    pub since: Option<Timestamp>,
    /// At most so many; 50 when absent.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 200))]
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// Lines of job output, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutputHitList {
    /// The lines of this page. It may have fewer than asked for, or none, and a cursor nevertheless.
    pub items: Vec<OutputHit>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
    /// Not all stored output is indexed yet: more may be found later.
    pub indexing: bool,
}

/// A line of job output that has the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutputHit {
    /// The job's id.
    pub job: String,
    /// The job's project.
    pub project: String,
    /// The attempt that printed it.
    pub attempt: u32,
    /// Global rank.
    pub rank: u32,
    /// Stdout or stderr.
    pub stream: LogStream,
    /// Its number in that stream, from 1; null where a part before it was dropped.
    pub line: Option<u64>,
    /// Offset of its first byte in that stream.
    pub offset: u64,
    /// When its first byte came; null where that is not known.
    pub at: Option<Timestamp>,
    /// The line, without colours; control characters and marks of direction are written out.
    pub text: String,
    /// The line is longer than `text`.
    pub cut: bool,
}
