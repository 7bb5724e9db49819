//! What is wrong, one entry for each cause.

use crate::{Alert, Breaker, Finding, Incident, Remediation, Timestamp};
use muster_model::alert::Urgency;
use muster_model::finding::Severity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that is open about one cause: alerts, incidents, breakers, findings and remediations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenCause {
    /// Names it for as long as it lasts, such as `node:n1` or `incident:1210`.
    pub id: String,
    /// A stable code: a failure mode, the name of an objective.
    pub kind: String,
    /// The failure mode in a few words; empty where it is none.
    pub title: String,
    /// What it is about, as `kind:name`.
    pub entity: String,
    /// In a sentence.
    pub summary: String,
    /// How bad the worst of its findings, incidents and breakers is; null where there are none.
    pub severity: Option<Severity>,
    /// How soon somebody has to act; null where no alert is open.
    pub urgency: Option<Urgency>,
    /// When it began.
    pub since: Timestamp,
    /// Its open alerts.
    pub alerts: Vec<Alert>,
    /// Its open incidents; empty for tokens bound to a project.
    pub incidents: Vec<Incident>,
    /// Breakers that are not closed: nodes get no new work because of them; empty for tokens bound to
    /// a project.
    #[serde(default)]
    pub breakers: Vec<Breaker>,
    /// Its open findings, worst first (at most 8).
    pub findings: Vec<Finding>,
    /// Open findings in all.
    pub findings_open: u64,
    /// Its remediations that have not ended; empty for tokens bound to a project.
    pub remediations: Vec<Remediation>,
    /// Numbers of those that are pending approval.
    pub pending: Vec<String>,
    /// All jobs on the nodes of those: an approval may stop or move them (at most 64).
    pub pending_jobs: Vec<CauseJob>,
    /// Jobs on those nodes in all.
    pub pending_jobs_count: u64,
    /// Nodes that it is about (at most 64).
    pub nodes: Vec<String>,
    /// Such nodes in all.
    #[serde(default)]
    pub nodes_count: u64,
    /// Jobs that it affects, as its alert counts them (at most 64).
    pub jobs: Vec<CauseJob>,
    /// Such jobs in all.
    pub jobs_affected: u64,
    /// Attempts that it has ended, as `JOB.ATTEMPT` (at most 64): their jobs may run again elsewhere.
    #[serde(default)]
    pub ended_attempts: Vec<String>,
    /// Such attempts in all.
    #[serde(default)]
    pub ended_attempts_count: u64,
    /// Projects of the jobs that it affects.
    pub projects: Vec<String>,
    /// What to do; null where no runbook serves it, and for tokens bound to a project.
    pub runbook: Option<CauseRunbook>,
}

/// A job that a cause affects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CauseJob {
    /// Its number, `42_3` for a task of an array.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The project it belongs to.
    pub project: String,
    /// GPUs that it has, or asks for while it waits.
    pub gpus: u32,
    /// Nodes of the cause that it runs on.
    pub nodes: Vec<String>,
}

/// The runbook of a cause, and where to begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CauseRunbook {
    /// The runbook's name.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// The step that `run` is at, or the first that is left to do, from 1; null where nothing is left to do.
    pub step: Option<u32>,
    /// What that step is about, or why nothing is left to do.
    pub step_title: String,
    /// What the runbook asks for, as far as the cause says it: `node`, `gpu`, `finding` and others.
    pub vars: BTreeMap<String, String>,
    /// The run of it that is active about the same incident, node, job or breaker, or that was given nothing.
    pub run: Option<String>,
}

/// `GET /v1/causes`: what is wrong, worst first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CauseList {
    /// The causes (at most 200).
    pub items: Vec<OpenCause>,
    /// Causes in all.
    pub count: u64,
    /// Always null: there is one page.
    pub cursor: Option<String>,
}
