//! Reservations, and moves that would make room.

use super::auth::{Caller, OperatorWriter, Reader, Writer};
use super::error::{Failure, Reply};
use super::extract::{JsonBody, Query, Segment};
use super::policy::same_version;
use super::{App, answer, gone};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{
    DefragReport, DisplacedJob, Kind, Move, MoveProposal, NodeOutOfService, Reservation,
    ReservationList, SetReservation, SetReservationQuery,
};
use muster_engine::{BookedReservation, State as Site};
use muster_model::names::{Label, NameError};
use muster_model::reservation as m;
use muster_model::tenant::Role;
use muster_model::{Command, JobId, Seq, Time};
use std::sync::Arc;

/// Longest reason.
const REASON_LIMIT: usize = 1000;

fn label(text: &str) -> Reply<Label> {
    text.parse().map_err(|e: NameError| Failure::bad(e.to_string()).field("name"))
}

/// Whose reservations somebody may know of: their own project's, and maintenance.
fn sees(caller: &Caller, b: &BookedReservation) -> bool {
    let r = &b.reservation;
    r.is_maintenance() || r.projects.iter().any(|p| caller.sees(p))
}

fn view(app: &App, site: &Site, caller: &Caller, b: &BookedReservation, now: Time) -> Reservation {
    let nodes = site.reserved_nodes(b).iter().map(ToString::to_string).collect();
    let version = caller.version(app, b.version.0);
    let mut shown = Reservation::of(&b.reservation, version, nodes, now);
    let effect = site.reservation_effect(b, now);
    let stops = effect.stops.iter().filter_map(|id| site.jobs.get(id));
    let stops = stops.filter(|j| caller.sees(&j.project)).map(|j| DisplacedJob {
        job: j.display_id(),
        job_name: j.name.to_string(),
        project: j.project.to_string(),
    });
    shown.stops = stops.collect();
    let gone = effect.not_serving.into_iter();
    let gone = gone.map(|(n, why)| NodeOutOfService { node: n.to_string(), why: why.into() });
    shown.not_serving = gone.collect();
    if let Some(own) = &caller.actor.project {
        shown.projects.retain(|p| p == own.as_str());
    }
    shown
}

fn no_such(name: &Label) -> Failure {
    Failure::not_found(format!("there is no reservation {name}"))
        .hint("`muster reservation` lists them")
}

fn find(app: &App, caller: &Caller, name: &Label) -> Reply<(Seq, Reservation)> {
    let now = app.brain().now();
    let found = app.brain().read(|s| {
        let b = s.reservations.get(name).filter(|b| sees(caller, b))?;
        Some((s.seq, view(app, s, caller, b, now)))
    });
    found.ok_or_else(|| no_such(name))
}

/// List reservations in order of their names.
///
/// A token that is bound to a project sees its project's, and maintenance.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/reservations", tag = "scheduling",
    responses((status = 200, description = "The reservations.", body = ReservationList))))]
pub(crate) async fn list(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let now = app.brain().now();
    let (seq, items) = app.brain().read(|s| {
        let seen = s.reservations.values().filter(|b| sees(&caller, b));
        (s.seq, seen.map(|b| view(&app, s, &caller, b, now)).collect())
    });
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &ReservationList { items, cursor: None }))
}

/// Get a reservation.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/reservations/{name}", tag = "scheduling",
    params(("name" = String, Path, description = "The reservation's name.")),
    responses((status = 200, description = "The reservation.", body = Reservation))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(name): Segment,
) -> Reply {
    let (seq, r) = find(&app, &caller, &label(&name)?)?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, Some(r.version), &r))
}

/// Make a reservation, or replace the one of that name.
///
/// The answer says which jobs of others are stopped when it begins, and which of its nodes take no
/// work now. With `dry_run=true` nothing is made: the answer says what it would be.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/reservations/{name}", tag = "scheduling", request_body = SetReservation,
    params(("name" = String, Path, description = "The reservation's name."), SetReservationQuery),
    responses((status = 200, description = "As it is now.", body = Reservation))))]
pub(crate) async fn set(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(name): Segment,
    Query(q): Query<SetReservationQuery>,
    JsonBody { value, raw }: JsonBody<SetReservation>,
) -> Reply {
    let name = label(&name)?;
    if value.name.as_deref().is_some_and(|n| n != name.as_str()) {
        return Err(Failure::senseless("the name is not the one in the path")
            .field("name")
            .hint("leave it out, or send it to the path of that name"));
    }
    if value.reason.chars().count() > REASON_LIMIT {
        return Err(Failure::senseless("a reason has 1000 characters at most").field("reason"));
    }
    let reservation = value
        .into_model(name.clone())
        .map_err(|e| Failure::senseless(e.to_string()).field("projects"))?;
    let _turn = app.turn().lock().await;
    same_version(&app, &writer, &raw, "reservation", version(&app, &name))?;
    if q.create && !writer.is_repeat(&app, &raw) {
        refuse_other(&app, &reservation)?;
    }
    let reservation = Arc::new(reservation);
    if q.dry_run {
        let (seq, r) = planned(&app, &writer.caller, reservation)?;
        return Ok(answer(&app, &writer.caller, StatusCode::OK, seq, None, &r));
    }
    let command = Command::SetReservation { reservation };
    let done = writer.put(&app, &raw, command).await?;
    // Only a repeat under an old key can find its reservation gone.
    let (_, r) = find(&app, &writer.caller, &name)?;
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, Some(r.version), &r))
}

/// Whoever makes a new one does not mean to replace another; the very same is no conflict.
fn refuse_other(app: &App, wanted: &m::Reservation) -> Reply<()> {
    let name = &wanted.name;
    let other =
        app.brain().read(|s| s.reservations.get(name).is_some_and(|b| *b.reservation != *wanted));
    if !other {
        return Ok(());
    }
    Err(Failure::conflict(format!("there is another reservation {name} already"))
        .field("name")
        .hint(format!(
            "change it with `muster reservation apply FILE`, or delete it first: \
             `muster reservation delete {name}`"
        )))
}

/// The reservation as it would be made now.
fn planned(
    app: &App,
    caller: &Caller,
    reservation: Arc<m::Reservation>,
) -> Reply<(Seq, Reservation)> {
    let now = app.brain().now();
    app.brain().read(|s| {
        let present = s.reservations.get(&reservation.name);
        // What stays as it is keeps its nodes.
        let same = present.filter(|b| b.reservation == reservation);
        let nodes = match same {
            Some(b) => b.nodes.clone(),
            None => s.plan_reservation(&reservation, now)?,
        };
        let version = present.map_or(Seq(0), |b| b.version);
        let booked = BookedReservation { reservation, nodes, version };
        Ok((s.seq, view(app, s, caller, &booked, now)))
    })
}

fn version(app: &App, name: &Label) -> Option<u64> {
    app.brain().read(|s| s.reservations.get(name).map(|b| b.version.0))
}

/// Delete a reservation.
#[cfg_attr(feature = "openapi", utoipa::path(delete, path = "/v1/reservations/{name}", tag = "scheduling",
    params(("name" = String, Path, description = "The reservation's name.")),
    responses((status = 204, description = "It is gone."))))]
pub(crate) async fn delete(
    State(app): State<App>,
    writer: Writer,
    Segment(name): Segment,
) -> Reply {
    writer.caller.over_site(Role::Operator)?;
    let name = label(&name)?;
    let _turn = app.turn().lock().await;
    same_version(&app, &writer, b"", "reservation", version(&app, &name))?;
    let done = writer.put(&app, b"", Command::DeleteReservation { name }).await?;
    Ok(gone(&app, &writer.caller, done.seq))
}

/// List moves of checkpointable work that would let waiting gangs start.
///
/// Nothing is moved by asking; the policy says whether the server makes such moves by itself.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/defrag", tag = "scheduling",
    responses((status = 200, description = "The proposals, best first.", body = DefragReport))))]
pub(crate) async fn defrag(State(app): State<App>, Reader(caller): Reader) -> Reply {
    // Moves concern jobs of every project.
    caller.over_site(Role::Viewer)?;
    let brain = app.brain().clone();
    // Looking for moves takes a while; the writer must not wait for it.
    let look = move || {
        let site = brain.read_copy(Site::clone);
        (site.seq, proposals(&site, brain.now()))
    };
    let (seq, report) = app.aside(&caller.token, look).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &report))
}

fn proposals(site: &Site, now: Time) -> DefragReport {
    let id = |j: JobId| site.jobs.get(&j).map_or_else(|| j.to_string(), |j| j.display_id());
    let name = |j: JobId| site.jobs.get(&j).map(|j| j.name.to_string());
    let words = |n: &[muster_model::NodeName]| n.iter().map(ToString::to_string).collect();
    let proposals = site.move_proposals(now).into_iter().map(|p| MoveProposal {
        gang: id(p.gang),
        gang_name: name(p.gang),
        moves: p
            .moves
            .iter()
            .map(|m| Move {
                job: id(m.job),
                job_name: name(m.job),
                from: words(&m.from),
                to: words(&m.to),
            })
            .collect(),
        cost_gpu_s: p.cost_gpu_s,
        gain_gpu_s: p.gain_gpu_s,
    });
    DefragReport {
        kind: Kind::Defrag,
        enabled: site.policy.defrag.enabled,
        moves_per_hour: site.policy.defrag.moves_per_hour,
        proposals: proposals.collect(),
    }
}
