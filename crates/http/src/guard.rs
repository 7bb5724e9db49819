//! What surrounds every request: figures, room, time and falls.

use super::App;
use super::error::Failure;
use super::limits::TokenPlace;
use axum::body::HttpBody as _;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use muster_server::brain::CannotWrite;
use muster_server::slo::ServedRequest;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};
use tracing::Instrument as _;

/// Lets a request in, or says why not; counts it either way.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let name = route.as_ref().map_or("none", MatchedPath::as_str);
    let span = app.traces().request(&request, name);
    let from = super::extract::address(request.extensions());
    let api = request.uri().path().starts_with("/v1/");
    let mut response = handle(&app, name, request, next).instrument(span.clone()).await;
    secure(response.headers_mut(), app.config().https);
    if api {
        keep_private(response.headers_mut());
    }
    let route = name;
    let status = response.status();
    app.traces().answered(&span, status.as_u16());
    drop(span);
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
        tracing::error!(%method, route, status = status.as_u16(), "request failed");
    }
    let took = started.elapsed();
    app.http_metrics().record(&method, route, status.as_u16(), took);
    // A simulation takes as long as its caller allows it: no objective is about that.
    let simulates = matches!(route, "/v1/whatif" | "/v1/scenarios/{name}/run");
    if route.starts_with("/v1/") && !simulates {
        let submits = method == Method::POST && route == "/v1/jobs";
        app.counter().served(ServedRequest { submits, status: status.as_u16(), took });
    }
    // Nothing is held meanwhile but the caller's own connection.
    if let Some(pause) = app.pause_of_refusal(status, from) {
        tokio::time::sleep(pause).await;
    }
    response
}

/// What every answer says to browsers: its type is what it says, and over TLS that this site is
/// never to be asked without.
fn secure(headers: &mut HeaderMap, https: bool) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if https {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
}

/// What the API says is for who asked, with that token and at that moment: nobody on the way keeps
/// it. Where an answer says something else about this, that stands.
fn keep_private(headers: &mut HeaderMap) {
    let never = HeaderValue::from_static("private, no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(never);
}

async fn handle(app: &App, route: &str, mut request: Request, next: Next) -> Response {
    // Held until the head of the answer is known; probes have none.
    let permit = match super::is_probe(route) {
        true => None,
        false => match app.room().try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => return Failure::unavailable("the server is busy").into_response(),
        },
    };
    let place = TokenPlace::default();
    request.extensions_mut().insert(place.clone());
    let writes = may_write(request.method(), route, request.uri().query());
    let work = AssertUnwindSafe(next.run(request)).catch_unwind();
    let done = wait_for(app, writes, work).await;
    drop(permit);
    match done {
        Waited::Done(Ok(mut response)) => {
            // Whoever does not take an answer still has it. Streams have a limit of their own.
            if is_whole(&response) {
                response.extensions_mut().insert(place);
            }
            response
        }
        Waited::Done(Err(panic)) => {
            let why = panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            tracing::error!(panic = %why, "a request handler panicked");
            Failure::internal().into_response()
        }
        Waited::StoreAway(why) => Failure::cannot_write(&why).hint(MAY_HAPPEN).into_response(),
        Waited::TooLong => Failure::unavailable("this took too long and was stopped")
            .hint(if writes { MAY_HAPPEN } else { NOTHING_CHANGED })
            .into_response(),
    }
}

/// Is this an answer that is all there, and no stream?
fn is_whole(response: &Response) -> bool {
    response.extensions().get::<super::CompleteResponse>().is_some()
        || response.body().size_hint().exact().is_some()
}

const MAY_HAPPEN: &str = "a write may still happen: repeat it with the same Idempotency-Key";
const NOTHING_CHANGED: &str = "it changes nothing: ask again, or ask for less";

/// Requests with a body that only ask.
const ASK: [&str; 4] = [
    "/v1/whatif",
    "/v1/scenarios/{name}/run",
    "/v1/remediations/dry-run",
    "/v1/runbooks/{name}/dry-run",
];
/// Requests that only ask with `dry_run=true`. What deletes has no dry run.
const ASK_DRY: [&str; 5] =
    ["/v1/jobs", "/v1/policy", "/v1/quotas", "/v1/routing", "/v1/reservations/{name}"];

/// Whether a request may change anything. One that cannot is answered while nothing can be written, as
/// reads are, and its end says nothing of writes.
pub(crate) fn may_write(method: &Method, route: &str, query: Option<&str>) -> bool {
    let dry = || {
        *method != Method::DELETE
            && query.is_some_and(|q| q.split('&').any(|p| p == "dry_run=true"))
    };
    !(method.is_safe() || ASK.contains(&route) || ASK_DRY.contains(&route) && dry())
}

/// How often whoever waits for a write looks whether the store is still there.
const LOOK: Duration = Duration::from_millis(250);

/// What came of waiting for a handler.
enum Waited<T> {
    Done(T),
    TooLong,
    StoreAway(CannotWrite),
}

/// Waits for a handler, for as long as it may take; for a write only while the store is there. One
/// timer does for both: all requests enter theirs into one list, under one lock.
async fn wait_for<T>(app: &App, writes: bool, work: impl Future<Output = T>) -> Waited<T> {
    let (began, limit) = (tokio::time::Instant::now(), app.config().request_timeout);
    tokio::pin!(work);
    loop {
        let left = limit.saturating_sub(began.elapsed());
        let wait = if writes { left.min(LOOK) } else { left };
        if let Ok(done) = tokio::time::timeout(wait, work.as_mut()).await {
            return Waited::Done(done);
        }
        if writes && let Some(why) = app.brain().cannot_write(app.config().store_patience) {
            return Waited::StoreAway(why);
        }
        if began.elapsed() >= limit {
            return Waited::TooLong;
        }
    }
}

/// No such path.
pub(crate) async fn no_such_path(request: Request) -> Failure {
    Failure::not_found(format!(
        "there is nothing at {}",
        super::extract::shown(request.uri().path())
    ))
    .hint("GET /openapi.json lists what there is")
}

/// The path is there, the method is not.
pub(crate) async fn no_such_method(request: Request) -> Failure {
    Failure::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("{} is not possible here", super::extract::shown(request.method().as_str())),
    )
    .hint("the Allow header says what is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_asks_is_no_write() {
        let post = |route, query| may_write(&Method::POST, route, query);
        assert!(!may_write(&Method::GET, "/v1/jobs", None));
        for route in ASK {
            assert!(!post(route, None), "{route}");
        }
        assert!(post("/v1/jobs", None) && post("/v1/jobs", Some("dry_run=false")));
        assert!(!post("/v1/jobs", Some("dry_run=true")));
        assert!(!may_write(
            &Method::PUT,
            "/v1/reservations/{name}",
            Some("create=true&dry_run=true")
        ));
        let dry = Some("dry_run=true");
        assert!(may_write(&Method::DELETE, "/v1/reservations/{name}", dry), "it deletes");
        // Who does not know dry runs is not made to have one.
        assert!(post("/v1/nodes/{name}/drain", Some("dry_run=true")));
        assert!(post("/v1/runbooks/{name}/run", None) && post("none", None));
    }

    /// A route that is renamed, or gets a dry run, is to be changed in the lists, too.
    #[test]
    fn the_routes_that_only_ask_are_those_of_the_api() {
        let text = include_str!("../openapi.json");
        let api: serde_json::Value = serde_json::from_str(text).unwrap();
        let paths = api["paths"].as_object().unwrap();
        for route in ASK {
            assert!(paths.get(route).is_some_and(|p| p.get("post").is_some()), "{route}");
        }
        let is_dry = |p: &serde_json::Value| p["name"] == "dry_run";
        let has_dry = |act: &serde_json::Value| {
            act["parameters"].as_array().is_some_and(|all| all.iter().any(is_dry))
        };
        for (route, acts) in paths {
            let dry = acts.as_object().unwrap().iter().filter(|(_, act)| has_dry(act));
            for (method, _) in dry {
                let listed = ASK_DRY.contains(&route.as_str()) && method != "delete";
                assert!(listed, "{method} {route}");
            }
        }
        for route in ASK_DRY {
            let acts = paths[route].as_object().unwrap();
            assert!(acts.values().any(has_dry), "{route}");
        }
    }
}
