//! Why a job waits.

use crate::{Kind, Timestamp};
use serde::{Deserialize, Serialize};

/// Why a job waits, and what would make it start sooner. Also the answer to a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// Always `Explanation`.
    pub kind: Kind,
    /// The job; null for a dry run.
    pub job: Option<String>,
    /// The job's state, or `would start`, `would wait`, `can never start` for a dry run.
    pub state: String,
    /// False when the gang could not start even on an empty fleet.
    pub possible: bool,
    /// One sentence.
    pub summary: String,
    /// Each constraint in the order in which it is applied.
    pub constraints: Vec<Constraint>,
    /// Jobs that go first (the first few).
    pub ahead: Vec<JobAhead>,
    /// How many go first in all.
    pub ahead_count: u64,
    /// Between when and when it starts.
    pub estimated_start: Option<Estimate>,
    /// What would make it start sooner.
    pub suggestions: Vec<String>,
    /// Where it would go if it started now, and what a collective would run over there.
    pub would_go: Option<String>,
}

/// One thing that a gang needs, and what it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Constraint {
    /// Its code: `sku`, `gpus`, `topology`, …
    pub name: String,
    /// What it asks for and what it leaves, for people.
    pub detail: String,
    /// Nodes that are left after it.
    pub nodes_left: u64,
    /// Free GPUs that are left after it.
    pub gpus_left: u64,
    /// Whether this is what the job waits for.
    pub binding: bool,
    /// Whether it is a warning for whoever submits the job: waiting does not change it, or it costs work.
    #[serde(default)]
    pub warning: bool,
}

/// A job that goes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobAhead {
    /// The job's id: `42`, or `42_3`.
    pub id: String,
    /// Its name; null when the caller may not see it.
    pub name: Option<String>,
    /// Why it goes first.
    pub why: String,
}

/// Between when and when a job starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Estimate {
    /// Not before this, by how long past jobs ran of their time limits, or by preemption;
    /// null when too few were seen.
    pub earliest: Option<Timestamp>,
    /// Not after this, by time limits as written.
    pub at: Timestamp,
    /// Whether `at` is a reserved start, which no job that is let in before delays. Otherwise jobs that go
    /// first move it.
    #[serde(default)]
    pub reserved: bool,
    /// What both rest on, and what can move them.
    pub basis: String,
}
