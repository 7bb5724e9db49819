//! Circuit breakers on allocation: what is open takes no work.

use crate::entity::Entity;
use crate::names::ProjectName;
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Work passes.
    Closed,
    /// One probe passes; what comes of it decides.
    HalfOpen,
    /// No work passes.
    Open,
}

impl BreakerState {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::HalfOpen => "half-open",
            BreakerState::Open => "open",
        }
    }
}

/// A breaker that is not closed, or that was open before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Breaker {
    /// What it protects work from.
    pub entity: Entity,
    /// Its state.
    pub state: BreakerState,
    /// When it entered this state.
    pub since: Time,
    /// Why it entered this state, for people.
    pub reason: String,
    /// When a probe is tried next, while it is open and not pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_at: Option<Time>,
    /// How long the next wait for a probe is.
    pub back_off: Span,
    /// How often it opened since it last stayed closed for a day.
    pub trips: u32,
    /// Who forced it into its state; null when nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// The incident or finding that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because_of: Option<u64>,
    /// What the probe is, while it is half open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// It blocks only jobs of this project, since only its jobs failed; none: everybody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub project: Option<ProjectName>,
}

impl Breaker {
    /// Does it keep jobs of this project from starting, where it is not closed?
    #[must_use]
    pub fn concerns(&self, project: &ProjectName) -> bool {
        self.project.as_ref().is_none_or(|own| own == project)
    }
}

/// What decides whether a half-open breaker closes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// The test of a node.
    Qualification {
        /// The node that is tested.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        node: crate::names::NodeName,
        /// The test's number, from `QualificationAsked`.
        id: u64,
    },
    /// One attempt that is let through.
    Attempt {
        /// Which; none before it was placed.
        #[serde(default)]
        key: Option<crate::ids::AttemptKey>,
    },
}
