//! What the web console lives on: where every GPU stands, and one stream of what changes.

use super::auth::{Caller, Reader};
use super::error::{Failure, Reply};
use super::extract::{Query, Segment, stream_body};
use super::limits::StreamPermit;
use super::{App, answer, mark};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use bytes::Bytes;
use muster_api::Timestamp;
use muster_engine::State as Site;
use muster_model::names::{NameError, NodeName};
use muster_model::placement::GpuSet;
use muster_model::units::Time;
use muster_server::agents::Row;
use muster_server::console::{NoSnapshot, PastError};
use muster_server::supervise;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

impl From<NoSnapshot> for Failure {
    fn from(e: NoSnapshot) -> Failure {
        Failure::unavailable(e.to_string())
    }
}

impl From<PastError> for Failure {
    fn from(e: PastError) -> Failure {
        match e {
            PastError::Brain(e) => e.into(),
            PastError::Archived | PastError::TooMuch => {
                Failure::new(StatusCode::GONE, "gone", e.to_string())
            }
            PastError::Before => Failure::bad(e.to_string()).field("at"),
            PastError::Broken => {
                tracing::error!("the log does not add up when it is replayed");
                Failure::internal()
            }
        }
    }
}

/// The stream is the console's own and may change with it: the description does not list it.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/console/frames", get(frames))
        .route("/v1/console/past", get(past))
        .route("/v1/console/past-begin", get(past_begin))
}

/// Get which index of the console's frames is which GPU.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/console/layout", tag = "console",
    responses((status = 200, description = "Nodes and racks in order.", body = muster_api::ConsoleLayout))))]
pub(crate) async fn layout(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let (version, json) = app.console().layout().await?;
    let mut response = (StatusCode::OK, json).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(v) = HeaderValue::try_from(format!("\"{version}\"")) {
        headers.insert(header::ETAG, v);
    }
    mark(headers, &app, &caller, app.brain().durable());
    Ok(response)
}

/// The picture as it changes: frames of bytes, as `console::frame` writes them.
async fn frames(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let permit = app.stream_permit(&caller.token)?;
    let seat = app.console().watch(&caller.actor.project).await?;
    // The channel is the only buffer: a reader that does not take what is in it is cut off.
    let (tx, rx) = mpsc::channel::<Result<Bytes, std::io::Error>>(4);
    let stream = tokio_stream::wrappers::ReceiverStream::new(rx);
    let mut response = Response::new(stream_body(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    mark(headers, &app, &caller, app.brain().durable());
    let run = Box::pin(produce(app, caller, seat, tx, permit));
    // One that panics is counted, and who reads it comes again.
    tokio::spawn(async move { supervise::once("console-stream", run).await });
    Ok(response)
}

/// The moment that is asked for.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
struct PastQuery {
    /// The moment whose state is wanted.
    #[cfg_attr(feature = "openapi", param(value_type = String, format = DateTime))]
    at: Timestamp,
}

/// The whole picture of a moment that has passed, as frames.
async fn past(State(app): State<App>, Reader(caller): Reader, Query(q): Query<PastQuery>) -> Reply {
    let bytes = app.console().at(q.at.0, &caller.actor.project).await?;
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    mark(headers, &app, &caller, app.brain().durable());
    Ok(response)
}

/// Since when the past can be shown.
#[derive(Debug, Serialize)]
struct PastBegin {
    /// The time of the oldest record that the server can replay; none where nothing was written.
    at: Option<Timestamp>,
}

/// The oldest moment that [`past`] can show.
async fn past_begin(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let seq = app.brain().durable();
    let body = PastBegin { at: app.console().past_begins_at().await?.map(Timestamp) };
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &body))
}

async fn produce(
    app: App,
    caller: Caller,
    mut seat: muster_server::console::ConsoleSubscription,
    tx: mpsc::Sender<Result<Bytes, std::io::Error>>,
    _permit: StreamPermit,
) {
    let patience = app.config().slow_reader;
    let mut next = seat.first.clone();
    loop {
        if tx.send_timeout(Ok(next), patience).await.is_err() {
            return;
        }
        let frame = tokio::select! {
            frame = seat.frames.recv() => frame,
            () = caller.expired(&app) => return,
            () = tx.closed() => return,
        };
        next = match frame {
            Ok(frame) => frame,
            Err(RecvError::Lagged(_)) => {
                let Ok(new) = app.console().watch(&caller.actor.project).await else { return };
                seat = new;
                seat.first.clone()
            }
            Err(RecvError::Closed) => return,
        };
        if !super::events::still_valid(&app, &caller) {
            return;
        }
    }
}

/// The rows that are asked for.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct TelemetryQuery {
    /// Only rows that were sampled later than this.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    after: Option<Timestamp>,
}

/// Metrics of the last minutes of a node, oldest first. They are stored in memory only: a server
/// that was just started knows little.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(crate) struct NodeTelemetry {
    /// Names of the metrics of a GPU: temperatures in degrees, clocks in MHz, power in watts,
    /// memory in MiB, traffic in MB/s, shares of time in percent.
    gpu_columns: Vec<String>,
    /// Names of the host's metrics.
    host_columns: Vec<String>,
    /// The rows, oldest first.
    rows: Vec<TelemetryRow>,
}

/// One sample of a node. What a device does not report is null.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(crate) struct TelemetryRow {
    /// When, by the node's clock.
    at: Timestamp,
    /// One list per GPU, by index, with one number per column.
    gpus: Vec<Vec<Option<f32>>>,
    /// One number per column of the host.
    host: Vec<Option<f32>>,
}

fn optional_values(figures: &[f32]) -> Vec<Option<f32>> {
    figures.iter().map(|f| Some(*f).filter(|f| f.is_finite())).collect()
}

/// GPUs of a node that a caller's project holds, and since when.
pub(crate) type OwnGpus = Vec<(GpuSet, Time)>;

/// What a caller's project holds of a node; none for those who see the whole site.
pub(crate) fn own_gpus(site: &Site, caller: &Caller, node: &NodeName) -> Option<OwnGpus> {
    caller.actor.project.as_ref()?;
    let mut own = OwnGpus::new();
    for job in site.attempts_on(node).filter(|j| caller.sees(&j.project)) {
        let Some(attempt) = &job.attempt else { continue };
        let slots = site.slots_on(job.id, node).iter();
        let gpus = slots.filter_map(|i| Some(attempt.placement.slots.get(*i)?.gpus));
        own.extend(gpus.filter(|g| !g.is_empty()).map(|g| (g, attempt.placed_at)));
    }
    Some(own)
}

/// One look of a node as a caller may see it. Of a node that is shared, a project sees the GPUs that
/// it holds, from when it holds them, and nothing of the host.
fn row(r: &Row, width: usize, own: Option<&[(GpuSet, Time)]>) -> TelemetryRow {
    let seen = |i: usize| {
        own.is_none_or(|own| {
            let mut held = own.iter().filter(|(_, since)| *since <= r.heard);
            held.any(|(gpus, _)| gpus.iter().any(|g| g as usize == i))
        })
    };
    let gpus = r.gpus.chunks(width).enumerate();
    TelemetryRow {
        at: r.at.into(),
        gpus: gpus
            .map(|(i, g)| if seen(i) { optional_values(g) } else { vec![None; g.len()] })
            .collect(),
        host: if own.is_none() { optional_values(&r.host) } else { vec![None; r.host.len()] },
    }
}

/// Get metrics of the last minutes of a node.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/nodes/{name}/telemetry", tag = "nodes", params(TelemetryQuery,
    ("name" = String, Path, description = "The node's name.")),
    responses((status = 200, description = "Metrics, oldest first.", body = NodeTelemetry))))]
pub(crate) async fn telemetry(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(name): Segment,
    Query(q): Query<TelemetryQuery>,
) -> Reply {
    let name: NodeName =
        name.parse().map_err(|e: NameError| Failure::bad(e.to_string()).field("name"))?;
    let found = app
        .brain()
        .read(|s| s.nodes.contains_key(&name).then(|| (s.seq, own_gpus(s, &caller, &name))));
    let (seq, own) = found.ok_or_else(|| {
        Failure::not_found(format!("there is no node {name}")).hint("`muster nodes` lists them")
    })?;
    if own.as_ref().is_some_and(Vec::is_empty) {
        return Err(Failure::not_allowed(format!("your project has no GPU of node {name}"))
            .hint("`muster top --view job:ID` shows a job's own ranks"));
    }
    let window = app.agents().telemetry(&name).unwrap_or_default();
    let width = window.gpu_columns.len().max(1);
    let newer = |at: Timestamp| q.after.is_none_or(|after| at > after);
    let rows = window.rows.iter().filter(|r| newer(r.at.into()));
    let rows = rows.map(|r| row(r, width, own.as_deref()));
    let body = NodeTelemetry {
        gpu_columns: window.gpu_columns.to_vec(),
        host_columns: window.host_columns.to_vec(),
        rows: rows.collect(),
    };
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{PATIENCE, site};
    use muster_model::units::Span;
    use serde_json::json;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_project_sees_figures_of_its_gpus_from_when_it_holds_them() {
        let s = site().await;
        let node: NodeName = "n1".parse().unwrap();
        let spec = json!({"name": "train", "gang": {"gpus": 2}, "run": {"command": ["train"]}});
        assert_eq!(s.post(&s.user, "/v1/jobs", &spec).await.status, 201);
        let who = |project: Option<&str>| Caller {
            actor: muster_model::Actor {
                name: "user:ann".into(),
                role: muster_model::tenant::Role::User,
                project: project.map(|p| p.parse().unwrap()),
            },
            token: String::new(),
            expires_at: None,
            session_until: None,
            min_seq: muster_model::Seq(0),
        };
        let own = |project| s.brain.read(|st| own_gpus(st, &who(project), &node));
        let mut durable = s.brain.watch();
        while own(Some("alpha")).unwrap().is_empty() {
            tokio::time::timeout(PATIENCE, durable.changed()).await.unwrap().unwrap();
        }
        let held = own(Some("alpha")).unwrap();
        let [(gpus, since)] = held[..] else { panic!("{held:?}") };
        assert_eq!(gpus.len(), 2);
        assert_eq!((own(Some("beta")), own(None)), (Some(OwnGpus::new()), None));
        let figures = |heard: Time, own: Option<&[(GpuSet, Time)]>| {
            let gpus = vec![50.0f32; 8].into();
            let reported = row(&Row { at: heard, heard, gpus, host: vec![1.0f32].into() }, 1, own);
            (reported.gpus.iter().flatten().flatten().count(), reported.host[0].is_some())
        };
        let before = since - Span(1);
        assert_eq!(figures(since, Some(&held[..])), (2, false));
        assert_eq!(figures(before, Some(&held[..])), (0, false), "it was somebody else's");
        assert_eq!(figures(before, None), (8, true), "who sees the site sees it all");
    }
}
