//! What is wrong with what: findings, incidents, breakers, and the map of failure modes.

use crate::Timestamp;
use muster_model::breaker as b;
use muster_model::breaker::{BreakerState, Probe};
use muster_model::entity::Entity;
use muster_model::fault::FaultClass;
use muster_model::finding as m;
use muster_model::finding::Severity;
use muster_model::remediation::{Action, Leave};
use muster_model::units::Span;
use serde::{Deserialize, Serialize};

/// Something that was found to be wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// Its number, as text: that of the record that opened it.
    pub id: String,
    /// The failure mode: a stable code like `gpu-off-bus`.
    pub kind: String,
    /// The failure mode in a few words.
    #[serde(default)]
    pub title: String,
    /// `open` or `closed`.
    pub state: String,
    /// What it is about, as `kind:name`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub entity: Entity,
    /// The node it is on, if it is on one.
    pub node: Option<String>,
    /// The GPU, if it is about one.
    pub gpu: Option<u32>,
    /// The job it is about or that it interrupted: its plain number.
    pub job: Option<u64>,
    /// The attempt that was interrupted or that it is attributed to, as `JOB.ATTEMPT`.
    pub attempt: Option<String>,
    /// The global rank within that attempt, where one is meant.
    pub rank: Option<u32>,
    /// How bad it is.
    pub severity: Severity,
    /// How sure the detector is, in thousandths.
    pub confidence: u16,
    /// When it began, as far as is known.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// How often it was seen.
    pub count: u64,
    /// What it rests on, one line each.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// When it was written down.
    pub opened_at: Timestamp,
    /// The incident it is part of.
    pub incident: Option<String>,
    /// The remediation that was chosen for it.
    pub remediation: Option<String>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Why it was closed.
    pub closed_why: Option<String>,
}

impl Finding {
    /// The finding as the API shows it; `title` is what the map of failure modes calls it.
    #[must_use]
    pub fn of(finding: &m::Finding, title: &str) -> Finding {
        let m::Finding { id, seen, opened_at, inferred: _, incident, remediation, closed } =
            finding;
        let m::ObservedFinding {
            kind,
            entity,
            severity,
            confidence,
            first_seen,
            last_seen,
            count,
            evidence,
            attempt,
            rank,
            over: _,
        } = seen;
        Finding {
            id: id.to_string(),
            kind: kind.clone(),
            title: title.into(),
            state: word(closed.as_ref()).into(),
            node: entity.node().map(ToString::to_string),
            gpu: entity.gpu(),
            job: seen.job().map(|j| j.0),
            entity: entity.clone(),
            attempt: attempt.map(|a| a.to_string()),
            rank: *rank,
            severity: *severity,
            confidence: *confidence,
            first_seen: (*first_seen).into(),
            last_seen: (*last_seen).into(),
            count: *count,
            evidence: evidence.clone(),
            opened_at: (*opened_at).into(),
            incident: incident.map(|i| i.to_string()),
            remediation: remediation.map(|r| r.to_string()),
            closed_at: closed.as_ref().map(|c| c.at.into()),
            closed_why: closed.as_ref().map(|c| c.why.clone()),
        }
    }

    /// Has it not been closed?
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.closed_at.is_none()
    }
}

fn word(closed: Option<&m::Closed>) -> &'static str {
    if closed.is_none() { "open" } else { "closed" }
}

/// A page of findings, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FindingList {
    /// The findings of this page.
    pub items: Vec<Finding>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// What somebody wrote down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IncidentNote {
    /// When it was written.
    pub at: Timestamp,
    /// The user who wrote it.
    pub by: String,
    /// What they wrote, as plain text.
    pub text: String,
}

/// Findings with one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Incident {
    /// Its number, as text: that of the record that opened it.
    pub id: String,
    /// What happened there: a failure mode.
    pub kind: String,
    /// The failure mode in a few words.
    #[serde(default)]
    pub title: String,
    /// `open` or `closed`.
    pub state: String,
    /// What its findings have in common, as `kind:name`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cause: Entity,
    /// How bad it is.
    pub severity: Severity,
    /// In a sentence.
    pub summary: String,
    /// When its first finding was seen.
    pub began_at: Timestamp,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// How many findings were part of it in all.
    pub count: u64,
    /// Numbers of its findings that are stored, in order.
    pub finding_ids: Vec<String>,
    /// The findings themselves; empty in lists.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What was changed shortly before it began; empty in lists.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// Who it is assigned to.
    #[serde(default)]
    pub owner: Option<String>,
    /// When it was assigned.
    #[serde(default)]
    pub owned_at: Option<Timestamp>,
    /// What people wrote down about it.
    #[serde(default)]
    pub notes: Vec<IncidentNote>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Why it was closed.
    pub closed_why: Option<String>,
}

/// A change that came shortly before an incident. It may have nothing to do with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    /// When it was made.
    pub at: Timestamp,
    /// The kind of the event in the log, such as `policy_set`.
    pub event: String,
    /// What was changed, for people.
    pub text: String,
    /// Who did it.
    pub actor: String,
}

impl Incident {
    /// The incident as lists show it: without its findings.
    #[must_use]
    pub fn of(incident: &m::Incident, title: &str) -> Incident {
        let m::Incident {
            id,
            cause,
            kind,
            severity,
            summary,
            began_at,
            opened_at,
            findings,
            count,
            owner,
            notes,
            closed,
            // `closed_why` says it.
            part_of: _,
        } = incident;
        Incident {
            id: id.to_string(),
            kind: kind.clone(),
            title: title.into(),
            state: word(closed.as_ref()).into(),
            cause: cause.clone(),
            severity: *severity,
            summary: summary.clone(),
            began_at: (*began_at).into(),
            opened_at: (*opened_at).into(),
            count: *count,
            finding_ids: findings.iter().map(ToString::to_string).collect(),
            findings: Vec::new(),
            changes: Vec::new(),
            owner: owner.as_ref().map(|o| o.who.clone()),
            owned_at: owner.as_ref().map(|o| o.at.into()),
            notes: notes
                .iter()
                .map(|n| IncidentNote { at: n.at.into(), by: n.by.clone(), text: n.text.clone() })
                .collect(),
            closed_at: closed.as_ref().map(|c| c.at.into()),
            closed_why: closed.as_ref().map(|c| c.why.clone()),
        }
    }
}

/// A page of incidents, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IncidentList {
    /// The incidents of this page.
    pub items: Vec<Incident>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// A breaker that is not closed, or that was open before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Breaker {
    /// What it protects work from, as `kind:name`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub entity: Entity,
    /// Its state.
    pub state: BreakerState,
    /// When it entered this state.
    pub since: Timestamp,
    /// Why it entered this state, for people.
    pub reason: String,
    /// When a probe is tried next.
    pub probe_at: Option<Timestamp>,
    /// How long the next wait for a probe is.
    pub back_off: Span,
    /// How often it opened since it last stayed closed for a day.
    pub trips: u32,
    /// Who forced it into its state; null when nobody did.
    pub pinned: Option<String>,
    /// The incident or finding that opened it.
    pub because_of: Option<String>,
    /// What the probe is, while it is half open: `qualification of NODE` or `attempt JOB.ATTEMPT`.
    pub probe: Option<String>,
    /// It blocks only jobs of this project; null: everybody's.
    #[serde(default)]
    pub project: Option<String>,
    /// Nodes that take no work because of it.
    pub nodes: u32,
}

impl Breaker {
    /// The breaker as the API shows it; `nodes` follow it.
    #[must_use]
    pub fn of(breaker: &b::Breaker, nodes: u32) -> Breaker {
        let b::Breaker {
            entity,
            state,
            since,
            reason,
            probe_at,
            back_off,
            trips,
            pinned,
            because_of,
            probe,
            project,
        } = breaker;
        Breaker {
            entity: entity.clone(),
            state: *state,
            since: (*since).into(),
            reason: reason.clone(),
            probe_at: probe_at.map(Into::into),
            back_off: *back_off,
            trips: *trips,
            pinned: pinned.clone(),
            because_of: because_of.map(|i| i.to_string()),
            probe: probe.as_ref().map(|p| match p {
                Probe::Qualification { node, .. } => format!("qualification of {node}"),
                Probe::Attempt { key: Some(k) } => format!("attempt {k}"),
                Probe::Attempt { key: None } => "the next attempt".into(),
            }),
            project: project.as_ref().map(ToString::to_string),
            nodes,
        }
    }
}

/// All breakers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BreakerList {
    /// The breakers: open ones first.
    pub items: Vec<Breaker>,
    /// Always null: there are few.
    pub cursor: Option<String>,
}

/// `POST /v1/breakers/force`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ForceBreaker {
    /// Which, as `kind:name`.
    #[cfg_attr(feature = "openapi", schema(max_length = 600))]
    pub entity: String,
    /// Forced into this state; null: it follows its own rules again.
    #[serde(default)]
    pub state: Option<BreakerState>,
    /// Why, for people.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub reason: String,
}

/// `POST` with nothing but a reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ReasonRequest {
    /// Why, for people.
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub reason: String,
}

/// A way of failing: how it is found, and what is done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureMode {
    /// Stable code.
    pub code: String,
    /// In a few words.
    pub title: String,
    /// The component it is attributed to.
    pub class: FaultClass,
    /// How bad it usually is.
    pub severity: Severity,
    /// How it is found.
    pub detector: String,
    /// What is done, from the lightest to the heaviest, unless the policy says otherwise.
    pub steps: Vec<Action>,
    /// How work leaves.
    pub leave: Leave,
    /// The drill for it.
    pub drill: String,
    /// What a false alarm costs.
    pub false_alarm: String,
    /// What people do about it.
    pub runbook: String,
    /// Runbooks that say it step by step, by name.
    #[serde(default)]
    pub runbooks: Vec<String>,
    /// Open findings of this kind that the caller may see.
    pub open: u64,
    /// Findings of this kind that are stored and the caller may see.
    pub count: u64,
    /// When one was last seen.
    pub last_seen: Option<Timestamp>,
}

/// The map of failure modes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureModeList {
    /// The failure modes.
    pub items: Vec<FailureMode>,
    /// Always null: all of them are there.
    pub cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::{AttemptKey, JobId};
    use muster_model::units::Time;

    #[test]
    fn a_finding_says_where_it_is_and_whom_it_hit() {
        let entity: Entity = "gpu:n1/3".parse().expect("an entity");
        let mut seen = m::ObservedFinding::new("gpu-off-bus", entity, Severity::Critical, Time(5));
        seen.attempt = Some(AttemptKey { job: JobId(42), attempt: 2 });
        let mut f = m::Finding {
            id: 7,
            seen,
            opened_at: Time(9),
            inferred: true,
            incident: Some(8),
            remediation: None,
            closed: None,
        };
        let shown = Finding::of(&f, "A GPU fell off the bus");
        assert_eq!((shown.node.as_deref(), shown.gpu, shown.job), (Some("n1"), Some(3), Some(42)));
        assert_eq!((shown.state.as_str(), shown.incident.as_deref()), ("open", Some("8")));
        f.closed = Some(m::Closed { at: Time(11), why: "over".into() });
        let shown = Finding::of(&f, "");
        assert_eq!((shown.state.as_str(), shown.closed_why.as_deref()), ("closed", Some("over")));
        let json = serde_json::to_value(&shown).expect("plain data");
        assert_eq!(json["entity"], "gpu:n1/3");
        let back: Finding = serde_json::from_value(json).expect("its own shape");
        assert_eq!(back, shown);
    }
}
