//! What a week or a month was like: the report that operators read on Mondays, and leadership once
//! a month.

pub use muster_model::calendar::Period as PeriodKind;

use crate::{CapacityForecast, CauseCount, FleetMetrics, FleetProject, FleetSku, Kind, Timestamp};
use muster_model::entity::Entity;
use muster_model::finding::Severity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GET /v1/reports/period`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct PeriodQuery {
    /// A week or a month.
    pub period: PeriodKind,
    /// So many of them back; 0 is the one that is not over. The last whole one when not given.
    #[cfg_attr(feature = "openapi", param(minimum = 0, maximum = 60))]
    pub back: Option<u32>,
}

/// What a week or a month was like. What is not known is null; nothing is made up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PeriodReport {
    /// Always `PeriodReport`.
    pub kind: Kind,
    /// `2026-W46`, `2026-11`.
    pub name: String,
    /// A week or a month.
    pub period: PeriodKind,
    /// Where it begins.
    pub from: Timestamp,
    /// Where it ends: now, for one that is not over.
    pub to: Timestamp,
    /// It is over.
    pub over: bool,
    /// What was before this is not known.
    pub since: Timestamp,
    /// What GPUs reported is known from here on; null when they never did.
    pub telemetry_since: Option<Timestamp>,
    /// The log was read to its end.
    pub complete: bool,
    /// What became of all GPUs.
    pub fleet: FleetMetrics,
    /// The same of the week or month before; null when nothing is known of it.
    pub before: Option<FleetMetrics>,
    /// By project, the most GPU time first.
    pub projects: Vec<FleetProject>,
    /// The objectives, and how they were met in this time.
    pub objectives: Vec<PeriodObjective>,
    /// Incidents that began in this time, or were open in it, the worst first.
    pub incidents: Vec<PeriodIncident>,
    /// Older incidents or findings are not stored any more: there may have been more.
    pub cut: bool,
    /// Findings that were opened, by kind, the most first; as far as they are stored.
    pub findings: Vec<KindCount>,
    /// Nodes with the most findings, the most first.
    pub nodes: Vec<NodeCount>,
    /// Alerts that were raised.
    pub alerts: PeriodAlerts,
    /// Remediations by how they ended.
    pub remediations: BTreeMap<String, u64>,
    /// Versions as they are now, to be looked at: drivers, firmware, kernels.
    pub versions: Vec<VersionCount>,
    /// GPUs as they are now, by kind.
    pub inventory: Vec<FleetSku>,
    /// When demand reaches the GPUs in service, by the forecast of now.
    pub forecast: Option<CapacityForecast>,
}

/// How an objective was met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PeriodObjective {
    /// The objective's name.
    pub name: String,
    /// The target: `99.5%`.
    pub target: String,
    /// Good ones.
    pub good: u64,
    /// Of so many.
    pub total: u64,
    /// The share that was reached; null without data, and for a time that is not stored by the hour any
    /// more (90 days).
    pub met_text: Option<String>,
    /// Was it met?
    pub met: Option<bool>,
    /// Why those that were bad were bad, the most first.
    pub causes: Vec<CauseCount>,
}

/// An incident of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PeriodIncident {
    /// The incident's number.
    pub id: u64,
    /// What happened: a failure mode.
    pub kind: String,
    /// What its findings have in common.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cause: Entity,
    /// How bad it was.
    pub severity: Severity,
    /// In a sentence.
    pub summary: String,
    /// When it began.
    pub began_at: Timestamp,
    /// When it was over.
    pub closed_at: Option<Timestamp>,
    /// Who it is assigned to.
    pub owner: Option<String>,
    /// Findings that are part of it.
    pub findings: u64,
}

/// So many of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KindCount {
    /// The failure mode.
    pub kind: String,
    /// Findings of that kind.
    pub count: u64,
}

/// So many about a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeCount {
    /// The node's name.
    pub node: String,
    /// Findings about it.
    pub count: u64,
}

/// So many nodes with a version of something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VersionCount {
    /// Of what: `driver`, `kernel`, …
    pub what: String,
    /// The version, as the node reports it.
    pub version: String,
    /// On so many nodes.
    pub nodes: u64,
}

/// Alerts of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PeriodAlerts {
    /// Those that paged somebody.
    pub pages: u64,
    /// Those that could wait.
    pub tickets: u64,
    /// Pages that somebody acknowledged.
    pub acknowledged: u64,
    /// The median time until then, in milliseconds.
    pub acknowledged_median_ms: Option<u64>,
    /// Those that were silenced.
    pub silenced: u64,
}
