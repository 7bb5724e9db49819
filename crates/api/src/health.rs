//! How the site stands, worst first, and what happened to a node.

use crate::{Automation, Breaker, Finding, Incident, Kind, Remediation, Timestamp};
use muster_model::finding::Severity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GET /v1/health`: the status of the site, worst first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HealthSummary {
    /// Always `Health`.
    pub kind: Kind,
    /// `well`, `attention` (something is wrong, and nobody has to act: its remediation is in progress, or none is
    /// needed) or `bad` (somebody has to act).
    pub state: String,
    /// The service itself has a problem: its API, its scheduler or its store. Requests, or starts of jobs,
    /// may then be slow or fail.
    #[serde(default)]
    pub service_affected: bool,
    /// Why, one line each, worst first; empty when all is well.
    pub reasons: Vec<String>,
    /// Incidents that are open, worst first.
    pub incidents: Vec<Incident>,
    /// Open findings that are part of no incident, or whose remediation was denied or undone, worst
    /// first (at most 100).
    pub findings: Vec<Finding>,
    /// Open findings in all.
    pub findings_open: u64,
    /// Remediations that are pending approval, and those that a limit or stopped automation delays,
    /// longest first. An operator may approve each of them.
    pub waiting: Vec<Remediation>,
    /// Open remediations, in all.
    pub remediations_open: u64,
    /// Open remediations of which something is done now: not those that are pending approval or delayed, nor
    /// those that only watch a finding or a node on probation.
    #[serde(default)]
    pub remediations_in_progress: u64,
    /// Nodes that passed the test of their remediation and are in service on probation. They do not change
    /// `state`; none for tokens bound to a project.
    #[serde(default)]
    pub on_probation: u32,
    /// Breakers that are not closed.
    pub breakers: Vec<Breaker>,
    /// The status of automation; null for tokens bound to a project.
    pub automation: Option<Automation>,
    /// Nodes by their state.
    pub nodes: BTreeMap<String, u32>,
    /// Nodes that are out of service. Those that have not joined yet are not among them.
    #[serde(default)]
    pub nodes_out: u32,
    /// Spare nodes that are ready and empty.
    pub spares_left: u32,
    /// Spare nodes in all.
    pub spares: u32,
    /// Alerts that are open and ask for somebody in working hours, without those that are silenced. They do not
    /// change `state`; none for tokens bound to a project.
    #[serde(default)]
    pub tickets_open: u32,
    /// Objectives that an open alert is about: they burn, or have no error budget left. Without those that
    /// are silenced; none for tokens bound to a project.
    #[serde(default)]
    pub burning: Vec<String>,
}

impl HealthSummary {
    /// Its state in the words that people read. A tenant reads of their own work, and whether the
    /// site's operators were paged.
    #[must_use]
    pub fn words(&self) -> &'static str {
        match (self.state.as_str(), self.automation.is_some()) {
            ("well", true) => "healthy",
            ("well", false) => "nothing is known to be wrong with your jobs, and no page is open",
            ("attention", true) if self.remediations_in_progress > 0 => {
                "something is wrong; remediation in progress"
            }
            ("attention", true) => "something is wrong",
            (_, false) => "something is wrong",
            _ => "something needs an operator",
        }
    }

    /// What is open and changes nothing of its state, one line each: tickets, objectives that burn, and nodes
    /// on probation.
    #[must_use]
    pub fn beside(&self) -> Vec<String> {
        let tickets = match self.tickets_open {
            0 => None,
            1 => Some("1 ticket is open".to_owned()),
            n => Some(format!("{n} tickets are open")),
        };
        let names = self.burning.join(", ");
        let burning = match self.burning.len() {
            0 => None,
            1 => Some(format!("1 SLO burns: {names}")),
            n => Some(format!("{n} SLOs burn: {names}")),
        };
        let probation = match self.on_probation {
            0 => None,
            1 => Some("1 node is in service on probation".to_owned()),
            n => Some(format!("{n} nodes are in service on probation")),
        };
        tickets.into_iter().chain(burning).chain(probation).collect()
    }

    /// How many remediations of `waiting` somebody has to approve, and how many are delayed.
    #[must_use]
    pub fn waiting_counts(&self) -> (usize, usize) {
        let delayed = self.waiting.iter().filter(|r| r.delayed).count();
        (self.waiting.len() - delayed, delayed)
    }
}

/// Remediations that wait, in words: `2 to approve, 1 delayed`; empty where none does.
#[must_use]
pub fn waiting_words((to_approve, delayed): (usize, usize)) -> String {
    let some = |n: usize, what: &str| (n > 0).then(|| format!("{n} {what}"));
    let parts = [some(to_approve, "to approve"), some(delayed, "delayed")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What an entry of a timeline is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TimelineKind {
    /// A fault that the node reported.
    Fault,
    /// Something was found, or is over.
    Finding,
    /// A remediation took a step.
    Remediation,
    /// Something was done to it.
    Act,
    /// It entered another stage, or was cordoned, lost, found again.
    Stage,
    /// It was tested.
    Test,
    /// A job there was hit.
    Job,
}

impl TimelineKind {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TimelineKind::Fault => "fault",
            TimelineKind::Finding => "finding",
            TimelineKind::Remediation => "remediation",
            TimelineKind::Act => "act",
            TimelineKind::Stage => "stage",
            TimelineKind::Test => "test",
            TimelineKind::Job => "job",
        }
    }
}

/// Something that happened to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimelineEntry {
    /// When it happened.
    pub at: Timestamp,
    /// What it is.
    pub what: TimelineKind,
    /// The finding, remediation, act or job: its number, `42_3` for a task of an array.
    pub id: Option<String>,
    /// The GPU, where one is meant.
    pub gpu: Option<u32>,
    /// How bad a finding is.
    pub severity: Option<Severity>,
    /// What happened, for people.
    pub text: String,
}

/// What happened to a node, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimelineList {
    /// The entries that are stored.
    pub items: Vec<TimelineEntry>,
    /// Always null: what is older is in the log.
    pub cursor: Option<String>,
}
