//! Indicators: what an objective can be about.

use crate::names::ProjectName;
use crate::spec::{Priority, Tier};
use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whose failures count.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// The platform's: hardware, Muster itself, and what nobody could explain.
    #[default]
    Platform,
    /// Everybody's, the job's own too.
    Any,
}

/// What is measured: a share of good ones among all. What each counts is in `docs/observe.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sli {
    /// Submissions that were durably accepted in time. Reported by the server.
    Admission {
        /// Accepted within this time.
        under: Span,
    },
    /// Jobs that were given their nodes in time, from the moment they could have been.
    QueueWait {
        /// Given their nodes within this time.
        under: Span,
        /// Of this priority class only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<Priority>,
        /// Of this price class only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<Tier>,
    },
    /// Attempts with every rank up in time, from the moment they were given their nodes.
    Start {
        /// All ranks up within this time.
        under: Span,
    },
    /// Jobs that succeeded.
    JobSuccess {
        /// Whose failures count.
        #[serde(default)]
        attribution: Attribution,
        /// Only first attempts count, so that retries hide nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        first: bool,
    },
    /// Gangs that ran again in time after hardware failed them, from the fault on.
    Recovery {
        /// Running again within this time after the fault.
        under: Span,
    },
    /// Time that nodes were in service.
    NodeAvailability,
    /// GPU time that ended as progress, of all that was allocated (the effective training time ratio).
    Goodput,
    /// Time gangs ran, against a cost for each time the platform interrupted one: a target `t` asks
    /// for a mean time between interruptions of at least `cost * t / (1 - t)`.
    Interruptions {
        /// What each one counts as.
        cost: Span,
    },
    /// Answers of inference services that came in time. Reported by the services.
    InferenceLatency {
        /// Answered within this time.
        under: Span,
    },
    /// Requests to inference services that were answered. Reported by the services.
    InferenceAvailability,
    /// Samples of nodes whose newest telemetry was fresh. Reported by the server.
    TelemetryFreshness {
        /// Not older than this.
        under: Span,
    },
    /// API requests that the server did not fail. Reported by the server.
    ApiAvailability,
    /// API requests that were answered in time. Reported by the server.
    ApiLatency {
        /// Answered within this time.
        under: Span,
    },
}

/// What the counts of an indicator are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things that happened: jobs, attempts, requests.
    Events,
    /// Milliseconds of nodes, GPUs or gangs.
    Time,
}

impl Sli {
    /// The words that files and OpenSLO sources name them by.
    pub const WORDS: [&'static str; 13] = [
        "admission",
        "queue_wait",
        "start",
        "job_success",
        "recovery",
        "node_availability",
        "goodput",
        "interruptions",
        "inference_latency",
        "inference_availability",
        "telemetry_freshness",
        "api_availability",
        "api_latency",
    ];

    /// Is it about the service itself, its API and its scheduler, and not about hardware or what ran
    /// there?
    #[must_use]
    pub fn is_of_service(&self) -> bool {
        match self {
            Sli::Admission { .. }
            | Sli::QueueWait { .. }
            | Sli::Start { .. }
            | Sli::ApiAvailability
            | Sli::ApiLatency { .. } => true,
            Sli::JobSuccess { .. }
            | Sli::Recovery { .. }
            | Sli::NodeAvailability
            | Sli::Goodput
            | Sli::Interruptions { .. }
            | Sli::InferenceLatency { .. }
            | Sli::InferenceAvailability
            | Sli::TelemetryFreshness { .. } => false,
        }
    }

    /// The word in files.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Sli::Admission { .. } => "admission",
            Sli::QueueWait { .. } => "queue_wait",
            Sli::Start { .. } => "start",
            Sli::JobSuccess { .. } => "job_success",
            Sli::Recovery { .. } => "recovery",
            Sli::NodeAvailability => "node_availability",
            Sli::Goodput => "goodput",
            Sli::Interruptions { .. } => "interruptions",
            Sli::InferenceLatency { .. } => "inference_latency",
            Sli::InferenceAvailability => "inference_availability",
            Sli::TelemetryFreshness { .. } => "telemetry_freshness",
            Sli::ApiAvailability => "api_availability",
            Sli::ApiLatency { .. } => "api_latency",
        }
    }

    /// What its counts are.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self {
            Sli::NodeAvailability | Sli::Goodput | Sli::Interruptions { .. } => Unit::Time,
            _ => Unit::Events,
        }
    }

    /// The limit, where there is one.
    #[must_use]
    pub fn under(&self) -> Option<Span> {
        match *self {
            Sli::Admission { under }
            | Sli::QueueWait { under, .. }
            | Sli::Start { under }
            | Sli::Recovery { under }
            | Sli::InferenceLatency { under }
            | Sli::TelemetryFreshness { under }
            | Sli::ApiLatency { under } => Some(under),
            _ => None,
        }
    }

    /// Can it be narrowed to a project? To a pool?
    #[must_use]
    pub fn scopes(&self) -> (bool, bool) {
        match self {
            Sli::Admission { .. } => (true, false),
            Sli::NodeAvailability | Sli::TelemetryFreshness { .. } => (false, true),
            Sli::ApiAvailability | Sli::ApiLatency { .. } => (false, false),
            _ => (true, true),
        }
    }
}

impl fmt::Display for Sli {
    /// As an objective is worded: `queue wait under 5m (high)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.word().replace('_', " ");
        match self {
            Sli::JobSuccess { attribution, first } => {
                let whose = if *attribution == Attribution::Platform {
                    "platform's failures"
                } else {
                    "all failures"
                };
                let which = if *first { ", first attempts" } else { "" };
                text = format!("{text} ({whose}{which})");
            }
            Sli::Interruptions { cost } => text = format!("{text}, {cost} each"),
            _ => {}
        }
        if let Some(under) = self.under() {
            text = format!("{text} under {under}");
        }
        if let Sli::QueueWait { class, tier, .. } = self {
            let class = class.map(|c| format!("{c:?}").to_lowercase());
            let tier = tier.map(|t| match t {
                Tier::Spot => "spot".to_owned(),
                Tier::OnDemand => "on-demand".to_owned(),
                Tier::Reserved => "reserved".to_owned(),
            });
            let words: Vec<String> = class.into_iter().chain(tier).collect();
            if !words.is_empty() {
                text = format!("{text} ({})", words.join(", "));
            }
        }
        f.pad(&text)
    }
}

/// What an objective is narrowed to; nothing for the whole site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Scope {
    /// One project.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 63))]
    pub project: Option<ProjectName>,
    /// One pool of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 128))]
    pub pool: Option<String>,
}

impl Scope {
    /// The whole site?
    #[must_use]
    pub fn is_site(&self) -> bool {
        self.project.is_none() && self.pool.is_none()
    }

    /// Does what happened to this project on this pool belong to it?
    #[must_use]
    pub fn admits(&self, project: Option<&ProjectName>, pool: Option<&str>) -> bool {
        self.project.as_ref().is_none_or(|p| Some(p) == project)
            && self.pool.as_deref().is_none_or(|p| Some(p) == pool)
    }
}
