//! What is wrong with hardware: faults that nodes reported, and tests of nodes.

use crate::Timestamp;
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::qualification as m;
use muster_model::qualification::{Check, Level, Outcome};
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// A fault that a node reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fault {
    /// The node that reported it.
    pub node: String,
    /// When it was written down.
    pub at: Timestamp,
    /// When it was first seen, by the node's clock.
    pub seen_at: Timestamp,
    /// `xid-79`, `oom`, …: stable.
    pub code: String,
    /// The component it is attributed to.
    pub class: FaultClass,
    /// What it asks for.
    pub action: FaultAction,
    /// Where it was read.
    pub source: FaultSource,
    /// How often, since it was reported before.
    pub count: u64,
    /// The GPU, where one is meant.
    pub gpu: Option<u32>,
    /// The attempt it interrupted, as `JOB.ATTEMPT`.
    pub attempt: Option<String>,
    /// The rank it interrupted.
    pub rank: Option<u32>,
    /// The process, where one is named.
    pub pid: Option<i32>,
    /// The line as it was read, cut short.
    pub text: String,
}

impl Fault {
    /// The fault as the API shows it.
    #[must_use]
    pub fn of(node: &str, written: Time, fault: &ObservedFault) -> Fault {
        let ObservedFault { code, at, count, source, class, action, gpu, pid, attempt, rank, text } =
            fault;
        Fault {
            node: node.into(),
            at: written.into(),
            seen_at: (*at).into(),
            code: code.clone(),
            class: *class,
            action: *action,
            source: *source,
            count: *count,
            gpu: *gpu,
            attempt: attempt.map(|a| a.to_string()),
            rank: *rank,
            pid: *pid,
            text: text.clone(),
        }
    }
}

/// A page of faults, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FaultList {
    /// The faults of this page.
    pub items: Vec<Fault>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// `POST /v1/nodes/{name}/qualify`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct QualifyRequest {
    /// How much is tested: quick, standard or full.
    pub level: Level,
}

impl Default for QualifyRequest {
    fn default() -> Self {
        QualifyRequest { level: Level::Quick }
    }
}

/// A test of a node that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Qualifying {
    /// Names this test.
    pub id: String,
    /// How much is tested: quick, standard or full.
    pub level: Level,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// It has failed when nothing was reported about it by then.
    pub until: Timestamp,
    /// How far it is, as far as this server knows.
    pub progress: Option<QualifyProgress>,
}

/// How far a test is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QualifyProgress {
    /// Checks done.
    pub done: u32,
    /// Checks in all.
    pub of: u32,
    /// What is being done.
    pub doing: String,
    /// Seconds it will still take, about.
    pub eta_s: Option<u64>,
    /// When this was reported.
    pub at: Timestamp,
}

/// A test of a node that came to an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Qualified {
    /// Names this test.
    pub id: String,
    /// How much was tested: quick, standard or full.
    pub level: Level,
    /// What came of it.
    pub outcome: Outcome,
    /// When it began, by the node's clock.
    pub started_at: Timestamp,
    /// When its end was written down.
    pub ended_at: Timestamp,
    /// How long it took.
    pub took: Span,
    /// Every check, in order; empty in lists of nodes.
    pub checks: Vec<Check>,
}

impl From<&m::Qualifying> for Qualifying {
    fn from(q: &m::Qualifying) -> Qualifying {
        let m::Qualifying { id, level, asked_at, until } = *q;
        let (asked_at, until) = (asked_at.into(), until.into());
        Qualifying { id: id.to_string(), level, asked_at, until, progress: None }
    }
}

impl Qualified {
    /// The test without its checks, as lists show it.
    #[must_use]
    pub fn brief(q: &m::Qualified) -> Qualified {
        let m::Qualified { id, ended_at, report } = q;
        Qualified {
            id: id.to_string(),
            level: report.level,
            outcome: report.outcome,
            started_at: report.started_at.into(),
            ended_at: (*ended_at).into(),
            took: report.took,
            checks: Vec::new(),
        }
    }
}

impl From<&m::Qualified> for Qualified {
    fn from(q: &m::Qualified) -> Qualified {
        Qualified { checks: q.report.checks.clone(), ..Qualified::brief(q) }
    }
}
