//! Reservations, and moves that would make room.

use crate::{Kind, Timestamp};
use muster_model::names::{Label, NameError, ProjectName};
use muster_model::reservation as m;
use muster_model::reservation::{Overrun, ReservationTarget};
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// A window of time in which nodes belong to somebody, or to nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reservation {
    /// Its name again: reservations are named by it.
    pub id: String,
    /// Always `Reservation`.
    pub kind: Kind,
    /// Its name, unique in the site.
    pub name: String,
    /// `scheduled`, `active` or `over`.
    pub state: String,
    /// The version: the record that made it; goes into `If-Match`.
    pub version: u64,
    /// Whose work may run in it; empty for maintenance: nobody's.
    pub projects: Vec<String>,
    /// Nobody's work may run in it.
    pub maintenance: bool,
    /// Why, for people.
    pub reason: String,
    /// What was asked for.
    pub over: ReservationTarget,
    /// When it (first) begins.
    pub start: Timestamp,
    /// How long it lasts.
    pub length: Span,
    /// Begins again after so long.
    pub every: Option<Span>,
    /// What happens to work of others that still runs when it begins.
    pub overrun: Overrun,
    /// Spot work of others may use what stays idle in it.
    pub lend: bool,
    /// The active window, or the next one; null when there is none any more.
    pub window: Option<Window>,
    /// Nodes that it covers now.
    pub nodes: Vec<String>,
    /// Jobs of others that are stopped when the window begins, as far as the caller may know of them.
    #[serde(default)]
    pub stops: Vec<DisplacedJob>,
    /// Nodes of it that take no work now.
    #[serde(default)]
    pub not_serving: Vec<NodeOutOfService>,
}

/// A job that a reservation stops when its window begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DisplacedJob {
    /// The job's id: `42`, or `42_3`.
    pub job: String,
    /// What its user calls it.
    pub job_name: String,
    /// Whose it is.
    pub project: String,
}

/// A node that gets no work now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeOutOfService {
    /// The node's name.
    pub node: String,
    /// Why: `lost`, `drained`, `quarantined` and so on.
    pub why: String,
}

/// From when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Window {
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
}

/// The reservations the caller may see, in order of their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReservationList {
    /// The reservations, those that begin later included.
    pub items: Vec<Reservation>,
    /// Always null: there is one page.
    pub cursor: Option<String>,
}

/// `PUT /v1/reservations/{name}`. Accepts what `GET` returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetReservation {
    /// Whose work may run in it; none for maintenance: nobody's.
    #[serde(default)]
    pub projects: Vec<String>,
    /// Why, for people.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub reason: String,
    /// The nodes it covers.
    pub over: ReservationTarget,
    /// When it (first) begins.
    pub start: Timestamp,
    /// How long it lasts.
    pub length: Span,
    /// Begins again after so long, until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// What happens to work of others that still runs when it begins.
    #[serde(default)]
    pub overrun: Overrun,
    /// Spot work of others may use what stays idle in it, and is stopped when it is needed.
    #[serde(default)]
    pub lend: bool,
    /// Its name; the one in the path when it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Always `Reservation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Not looked at.
    #[serde(default, skip_serializing)]
    pub id: Option<String>,
    /// Not looked at.
    #[serde(default, skip_serializing)]
    pub state: Option<String>,
    /// Ignored: the version the caller saw goes into `If-Match`.
    #[serde(default, skip_serializing)]
    pub version: Option<i64>,
    /// Not looked at: it follows from `projects`.
    #[serde(default, skip_serializing)]
    pub maintenance: Option<bool>,
    /// Not looked at.
    #[serde(default, skip_serializing)]
    pub window: Option<Window>,
    /// Not looked at: `over` says which.
    #[serde(default, skip_serializing)]
    pub nodes: Option<Vec<String>>,
    /// Not looked at.
    #[serde(default, skip_serializing)]
    pub stops: Option<Vec<DisplacedJob>>,
    /// Not looked at.
    #[serde(default, skip_serializing)]
    pub not_serving: Option<Vec<NodeOutOfService>>,
}

/// Moves of checkpointable work that would let waiting gangs start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DefragReport {
    /// Always `Defrag`.
    pub kind: Kind,
    /// Whether the policy lets the server make such moves by itself.
    pub enabled: bool,
    /// Most moves in an hour.
    pub moves_per_hour: u32,
    /// The proposals, best first.
    pub proposals: Vec<MoveProposal>,
}

/// Moves that would let one waiting gang start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MoveProposal {
    /// The gang that would start.
    pub gang: String,
    /// What its user calls it; null when the job is not known any more.
    pub gang_name: Option<String>,
    /// Jobs that would be moved.
    pub moves: Vec<Move>,
    /// GPU-seconds that the moves lose.
    pub cost_gpu_s: u64,
    /// GPU-seconds that the gang gains by starting now.
    pub gain_gpu_s: u64,
}

/// One job that would be moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Move {
    /// The job's id: `42`, or `42_3`.
    pub job: String,
    /// What its user calls it; null when the job is not known any more.
    pub job_name: Option<String>,
    /// Nodes it is on.
    pub from: Vec<String>,
    /// Nodes it would go to.
    pub to: Vec<String>,
}

impl Reservation {
    /// The reservation as the API shows it at a moment, with the nodes that it covers.
    #[must_use]
    pub fn of(r: &m::Reservation, version: u64, nodes: Vec<String>, now: Time) -> Reservation {
        let m::Reservation { name, projects, reason, over, start, length, every, overrun, lend } =
            r;
        let window = r.window(now);
        let state = match window {
            Some((begin, _)) if begin <= now => "active",
            Some(_) => "scheduled",
            None => "over",
        };
        Reservation {
            id: name.to_string(),
            kind: Kind::Reservation,
            name: name.to_string(),
            state: state.into(),
            version,
            projects: projects.iter().map(ToString::to_string).collect(),
            maintenance: r.is_maintenance(),
            reason: reason.clone(),
            over: over.clone(),
            start: (*start).into(),
            length: *length,
            every: *every,
            overrun: *overrun,
            lend: *lend,
            window: window.map(|(start, end)| Window { start: start.into(), end: end.into() }),
            nodes,
            stops: Vec::new(),
            not_serving: Vec::new(),
        }
    }
}

impl SetReservation {
    /// The reservation that this asks for under a name.
    ///
    /// # Errors
    /// When a project's name is none.
    pub fn into_model(self, name: Label) -> Result<m::Reservation, NameError> {
        let projects: Result<Vec<ProjectName>, NameError> =
            self.projects.iter().map(|p| p.parse()).collect();
        Ok(m::Reservation {
            name,
            projects: projects?,
            reason: self.reason,
            over: self.over,
            start: self.start.into(),
            length: self.length,
            every: self.every,
            overrun: self.overrun,
            lend: self.lend,
        })
    }

    /// The body that asks for a reservation.
    #[must_use]
    pub fn from_model(r: &m::Reservation) -> SetReservation {
        let m::Reservation { name, projects, reason, over, start, length, every, overrun, lend } =
            r;
        SetReservation {
            projects: projects.iter().map(ToString::to_string).collect(),
            reason: reason.clone(),
            over: over.clone(),
            start: (*start).into(),
            length: *length,
            every: *every,
            overrun: *overrun,
            lend: *lend,
            name: Some(name.to_string()),
            kind: Some(Kind::Reservation),
            id: None,
            state: None,
            version: None,
            maintenance: None,
            window: None,
            nodes: None,
            stops: None,
            not_serving: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_can_be_sent_back_and_means_the_same() {
        let r = m::Reservation {
            name: "night".parse().expect("a valid name"),
            projects: vec!["nlp".parse().expect("a valid name")],
            reason: "retraining".into(),
            over: ReservationTarget::Gpus { count: 16, sku: None },
            start: Time(60_000),
            length: Span::hours(1),
            every: Some(Span::hours(24)),
            overrun: Overrun::Finish,
            lend: true,
        };
        let mut shown = Reservation::of(&r, 7, vec!["n1".into()], Time(0));
        shown.stops.push(DisplacedJob {
            job: "42".into(),
            job_name: "train".into(),
            project: "vision".into(),
        });
        shown.not_serving.push(NodeOutOfService { node: "n1".into(), why: "drained".into() });
        assert_eq!((shown.state.as_str(), shown.maintenance), ("scheduled", false));
        let text = serde_json::to_string(&shown).expect("plain data");
        let back: SetReservation = serde_json::from_str(&text).expect("what GET gave");
        let name = "night".parse().expect("a valid name");
        assert_eq!(back.into_model(name).expect("valid names"), r);
        assert_eq!(Reservation::of(&r, 7, Vec::new(), Time(60_000)).state, "active");
        let once = m::Reservation { every: None, ..r };
        let over = Reservation::of(&once, 7, Vec::new(), Time(60_000 + 3_600_000));
        assert_eq!((over.state.as_str(), over.window), ("over", None));
    }
}
