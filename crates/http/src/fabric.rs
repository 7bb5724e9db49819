//! Tests of the network between nodes.

use super::auth::{OperatorWriter, Reader};
use super::error::{Failure, Reply};
use super::extract::{OptionalBody, Segment, number};
use super::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{FabricRequest, FabricTestList};
use muster_model::Command;
use muster_model::entity::EntityError;
use muster_model::names::{NameError, NodeName};
use muster_model::tenant::Role;
use muster_server::fabric::{FabricTestRequest, Refused};

/// Longest test of a pair, in seconds.
const SECONDS_MAX: u32 = 60;
/// Most connections side by side.
const STREAMS_MAX: u32 = 32;

/// Test the network between nodes. The answer comes at once; `GET` says how far it is.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/fabric/tests", tag = "nodes", request_body = Option<FabricRequest>,
    responses((status = 202, description = "The test that was begun.", body = muster_api::FabricTest))))]
pub(crate) async fn test(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    OptionalBody { value, raw }: OptionalBody<FabricRequest>,
) -> Reply {
    let wish = wish(value)?;
    // Nothing goes into the log yet; the key alone is wanted, as any other write would have it.
    let request = writer.request(&app, &raw, Command::FindingsSeen { findings: Vec::new() });
    let key = request.key.map(|k| format!("{} {}", k.key, k.fingerprint));
    let test = app.fabric().begin(wish, &writer.caller.actor.name, key).map_err(refused)?;
    let seq = app.brain().durable();
    Ok(answer(&app, &writer.caller, StatusCode::ACCEPTED, seq, None, &test))
}

fn wish(r: FabricRequest) -> Reply<FabricTestRequest> {
    let usual = FabricTestRequest::default();
    let between = |given: Option<u32>, usual: u32, least: u32, most: u32, field: &str| {
        let v = given.unwrap_or(usual);
        if (least..=most).contains(&v) {
            return Ok(v);
        }
        let message = format!("`{field}` is from {least} to {most}");
        Err(Failure::senseless(message).field(field.to_owned()))
    };
    let name = |n: &String| {
        n.parse::<NodeName>().map_err(|e: NameError| Failure::bad(e.to_string()).field("nodes"))
    };
    let domain = r.domain.as_deref().map(str::parse).transpose();
    Ok(FabricTestRequest {
        nodes: r.nodes.iter().map(name).collect::<Reply<_>>()?,
        domain: domain.map_err(|e: EntityError| Failure::bad(e.to_string()).field("domain"))?,
        rounds: between(r.rounds, usual.rounds, 0, 4096, "rounds")?,
        seconds: between(r.seconds, usual.seconds, 1, SECONDS_MAX, "seconds")?,
        streams: between(r.streams, usual.streams, 1, STREAMS_MAX, "streams")?,
        busy: r.busy,
        seed: r.seed.map(u64::from),
        forget: r.forget,
        group: r.group,
        own: None,
    })
}

fn refused(e: Refused) -> Failure {
    let text = e.to_string();
    match e {
        Refused::Unknown(_) => Failure::not_found(text).hint("`muster nodes` lists them"),
        Refused::Empty(_) => {
            Failure::not_found(text).hint("`muster topology` shows the location of nodes")
        }
        Refused::TooFew(_) => Failure::conflict(text).hint("`busy` takes nodes that have work"),
        Refused::TooMany(_) | Refused::TooLong(_) | Refused::Full(_) => Failure::conflict(text),
    }
}

/// List tests of the network, newest first: the last hundred since the server started.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/fabric/tests", tag = "nodes",
    responses((status = 200, description = "The tests.", body = FabricTestList))))]
pub(crate) async fn list(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Operator)?;
    let items = app.fabric().list();
    let seq = app.brain().durable();
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &FabricTestList { items }))
}

/// Get a test of the network.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/fabric/tests/{id}", tag = "nodes",
    params(("id" = String, Path, description = "The test's number.")),
    responses((status = 200, description = "The test.", body = muster_api::FabricTest))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(id): Segment,
) -> Reply {
    caller.over_site(Role::Operator)?;
    let test = number(&id).and_then(|n| app.fabric().get(n)).ok_or_else(|| {
        Failure::not_found("there is no such test of the network, or it is not stored any more")
            .hint("`muster fabric show` lists them")
    })?;
    Ok(answer(&app, &caller, StatusCode::OK, app.brain().durable(), None, &test))
}
