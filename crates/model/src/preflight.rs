//! The phase of an attempt before its ranks start, in which the network between its nodes is
//! measured.

use crate::ids::AttemptKey;
use crate::names::NodeName;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// How the preflight of an attempt stands from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreflightSet {
    /// The attempt: no rank of it is ordered to start before its preflight is over.
    pub key: AttemptKey,
    /// Its status.
    pub preflight: AttemptPreflight,
}

/// What came of a preflight. An attempt that is stopped meanwhile has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum PreflightOutcome {
    /// No node is slow.
    Passed,
    /// Nothing was measured.
    NotMeasured {
        /// Why not, for people.
        reason: String,
    },
    /// Nodes are slow, and nothing moved the attempt to others.
    Slow,
    /// Nothing was reported in time.
    TimedOut,
}

impl PreflightOutcome {
    /// The word programs read.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            PreflightOutcome::Passed => "passed",
            PreflightOutcome::NotMeasured { .. } => "not_measured",
            PreflightOutcome::Slow => "slow",
            PreflightOutcome::TimedOut => "timed_out",
        }
    }
}

/// What whoever measures reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreflightReport {
    /// No node is slow.
    Passed,
    /// Nothing could be measured.
    NotMeasured {
        /// Why not, for people.
        reason: String,
    },
    /// These nodes are slow.
    Slow {
        /// Their names.
        nodes: Vec<NodeName>,
    },
}

/// How the preflight of an attempt stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptPreflight {
    /// When it began.
    pub since: Time,
    /// The ranks start then at the latest.
    pub until: Time,
    /// Nodes that were found to be slow. It waits on, because what follows from that finding may
    /// move it to other nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<NodeName>,
    /// What came of it; none while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<PreflightOutcome>,
}

impl AttemptPreflight {
    /// Was it measured, or not, as somebody reported? All else follows from the policy and time.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        match &self.outcome {
            None => !self.slow.is_empty(),
            Some(PreflightOutcome::Passed | PreflightOutcome::NotMeasured { .. }) => true,
            Some(PreflightOutcome::Slow | PreflightOutcome::TimedOut) => false,
        }
    }

    /// What is done among so many nodes, or what came of it.
    #[must_use]
    pub fn words(&self, nodes: usize) -> String {
        let slow = || {
            let names: Vec<&str> = self.slow.iter().map(NodeName::as_str).collect();
            names.join(", ")
        };
        match &self.outcome {
            None if self.slow.is_empty() => format!("measuring the fabric among {nodes} nodes"),
            None => format!("slow nodes: {}; waits for other nodes", slow()),
            Some(PreflightOutcome::Passed) => "passed".into(),
            Some(PreflightOutcome::NotMeasured { reason }) => format!("not measured: {reason}"),
            Some(PreflightOutcome::Slow) => format!("started with slow nodes: {}", slow()),
            Some(PreflightOutcome::TimedOut) => "not over in time; started without it".into(),
        }
    }
}
