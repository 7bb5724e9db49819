//! What is wrong with what: findings, and incidents that many findings are part of.

use crate::entity::Entity;
use crate::ids::{AttemptKey, JobId};
use crate::qualification::cut;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// How bad it is. Ordered: a later one is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nothing follows from it.
    Info,
    /// It may become worse.
    Warning,
    /// Work there is slower or at risk.
    Degraded,
    /// Work there dies.
    Critical,
}

impl Severity {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Degraded => "degraded",
            Severity::Critical => "critical",
        }
    }
}

/// What a detector concluded. Bounded: what it saw in telemetry stays outside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ObservedFinding {
    /// The failure mode, a stable code like `gpu-off-bus`; the map of failure modes explains it.
    pub kind: String,
    /// What it is about.
    pub entity: Entity,
    /// How bad it is.
    pub severity: Severity,
    /// How sure the detector is, in thousandths.
    pub confidence: u16,
    /// When it began, as far as is known.
    pub first_seen: Time,
    /// When it was last seen.
    pub last_seen: Time,
    /// How often it was seen.
    pub count: u64,
    /// What it rests on, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The attempt that was interrupted or is the cause, where one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptKey>,
    /// The global rank within that attempt, where one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// It is over: the detector does not see it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
}

/// Lines of evidence kept with a finding.
pub const EVIDENCE_MAX: usize = 8;
/// Characters of a line.
const LINE_MAX: usize = 240;
/// Characters of a kind.
const KIND_MAX: usize = 64;

impl ObservedFinding {
    /// A finding of this moment, seen once.
    #[must_use]
    pub fn new(kind: &str, entity: Entity, severity: Severity, at: Time) -> ObservedFinding {
        ObservedFinding {
            kind: kind.to_owned(),
            entity,
            severity,
            confidence: 1000,
            first_seen: at,
            last_seen: at,
            count: 1,
            evidence: Vec::new(),
            attempt: None,
            rank: None,
            over: false,
        }
    }

    /// The job it is about, or that it interrupted.
    #[must_use]
    pub fn job(&self) -> Option<JobId> {
        match (self.attempt, &self.entity) {
            (Some(attempt), _) => Some(attempt.job),
            (None, Entity::Job(job)) => Some(*job),
            _ => None,
        }
    }

    /// With one more line of evidence.
    #[must_use]
    pub fn because(mut self, line: impl Into<String>) -> ObservedFinding {
        self.evidence.push(line.into());
        self
    }

    /// So sure, in thousandths.
    #[must_use]
    pub fn with_confidence(mut self, permille: u16) -> ObservedFinding {
        self.confidence = permille.min(1000);
        self
    }

    /// With what is too long cut short, so that nobody can fill the log.
    #[must_use]
    pub fn bounded(mut self) -> ObservedFinding {
        cut(&mut self.kind, KIND_MAX);
        self.evidence.truncate(EVIDENCE_MAX);
        self.evidence.iter_mut().for_each(|l| cut(l, LINE_MAX));
        self.confidence = self.confidence.min(1000);
        self
    }
}

/// A finding as the log knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// Its number: that of the record that opened it.
    pub id: u64,
    /// What was concluded.
    #[serde(flatten)]
    pub seen: ObservedFinding,
    /// When it was written down.
    pub opened_at: Time,
    /// It follows from what the log holds, or a detector reported it and says when it is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// The incident it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<u64>,
    /// The remediation that was chosen for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<u64>,
    /// When it was closed, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
}

/// Why something is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Closed {
    /// When it was closed.
    pub at: Time,
    /// Why it was closed, for people.
    pub why: String,
}

/// Findings with one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Incident {
    /// Its number: that of the record that opened it.
    pub id: u64,
    /// What its findings have in common.
    pub cause: Entity,
    /// What happened there: a failure mode.
    pub kind: String,
    /// How bad it is.
    pub severity: Severity,
    /// In a sentence.
    pub summary: String,
    /// When its first finding was seen.
    pub began_at: Time,
    /// When it was opened.
    pub opened_at: Time,
    /// Findings that are part of it, in order (at most 256 are kept).
    pub findings: Vec<u64>,
    /// How many there were in all.
    pub count: u64,
    /// Who it is assigned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// What people wrote down about it, oldest first (the last 256).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// When it was closed, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// The incident of which it became a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<u64>,
}

/// Who took something on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Owner {
    /// The user who took it on.
    pub who: String,
    /// When it was assigned.
    pub at: Time,
}

/// What somebody wrote down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Note {
    /// When it was written.
    pub at: Time,
    /// The user who wrote it.
    pub by: String,
    /// What they wrote, as plain text.
    pub text: String,
}

/// Notes kept with an incident.
pub const NOTES_KEPT: usize = 256;
/// Characters of a note.
pub const NOTE_MAX: usize = 2000;
/// Findings kept with an incident.
pub const INCIDENT_FINDINGS: usize = 256;
