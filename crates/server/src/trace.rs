//! Spans of what the server does: requests, decisions, scheduling cycles, commits.
//!
//! They are `tracing` spans of one target. Without a listener for that target they are never
//! made: a disabled span costs one look at a flag. Who listens, and where it is sent, is not
//! this crate's business. No span holds a token, a secret, a query, a body or a name that a
//! caller chose, other than those of projects and jobs.

use http::{Method, Request};
use muster_model::event::{Event, Record};
use std::sync::Arc;
use tracing::Span;
use tracing::field::Empty;

/// Target of every span made here. Filters match targets by how they begin, so that no module's
/// name may begin with it.
pub const TARGET: &str = "muster::otlp";
/// Set on a span of which nothing is worth reporting.
pub const IDLE: &str = "muster.idle";

/// Whoever listens.
pub trait Listener: Send + Sync {
    /// The caller's own trace goes on in this span: `traceparent` and `tracestate` as W3C writes
    /// them. What makes no sense is ignored.
    fn goes_on(&self, span: &Span, traceparent: &str, tracestate: Option<&str>);
    /// What became of the spans.
    fn span_counts(&self) -> SpanCounts;
}

/// What became of the spans since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Taken by the collector.
    pub sent: u64,
    /// Dropped because too many waited.
    pub full: u64,
    /// Dropped because the collector did not take them.
    pub refused: u64,
}

/// Nobody listens, or somebody.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<dyn Listener>>);

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Traces").field(&self.0.is_some()).finish()
    }
}

impl Traces {
    /// Somebody listens.
    #[must_use]
    pub fn to(listener: Arc<dyn Listener>) -> Traces {
        Traces(Some(listener))
    }

    /// What became of the spans; none when nobody listens.
    pub fn span_counts(&self) -> Option<SpanCounts> {
        self.0.as_ref().map(|l| l.span_counts())
    }

    /// Does somebody listen?
    pub fn on(&self) -> bool {
        self.0.is_some()
    }

    /// The span of a request. `route` is the pattern of its path, never the path.
    pub fn request(&self, request: &Request<impl Sized>, route: &str) -> Span {
        let Some(listener) = &self.0 else { return Span::none() };
        let method = word(request.method());
        let span = tracing::info_span!(
            target: TARGET,
            "request",
            otel.name = format_args!("{method} {route}"),
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = method,
            http.route = route,
            http.response.status_code = Empty,
            muster.project = Empty,
            muster.request_id = Empty,
        );
        let header = |name: &str| request.headers().get(name).and_then(|v| v.to_str().ok());
        if let Some(parent) = header("traceparent") {
            listener.goes_on(&span, parent, header("tracestate"));
        }
        // An id that could be anything could be a secret: only what looks like one is reported.
        if let Some(id) = header("x-request-id").filter(|id| plain(id)) {
            span.record("muster.request_id", id);
        }
        span
    }

    /// How the request was answered.
    pub fn answered(&self, span: &Span, status: u16) {
        if self.on() {
            span.record("http.response.status_code", status);
            if status >= 500 {
                span.record("otel.status_code", "ERROR");
            }
        }
    }

    /// Who asks turned out to be bound to a project. Recorded on the request's span, which is
    /// the one that is entered.
    pub fn project(&self, project: Option<&muster_model::names::ProjectName>) {
        if let Some(project) = project.filter(|_| self.on()) {
            Span::current().record("muster.project", project.as_str());
        }
    }
}

/// A method that a caller made up is not reported.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}

fn plain(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// One request is decided, as a part of the caller's span; nothing for whoever has none.
pub fn decide(caller: &Span) -> Span {
    if caller.is_disabled() {
        return Span::none();
    }
    tracing::info_span!(target: TARGET, parent: caller, "decide")
}

/// One round of the engine: what waits for it, and what came of it.
pub fn cycle(waiting: usize, requests: usize) -> Span {
    tracing::info_span!(
        target: TARGET,
        parent: None,
        "cycle",
        muster.jobs_waiting = waiting,
        muster.requests = requests,
        muster.records = Empty,
        muster.jobs_started = Empty,
        muster.starts_reserved = Empty,
        muster.stops_ordered = Empty,
        muster.idle = Empty,
    )
}

/// Placements that get a span of their own in one cycle.
const PLACED: usize = 64;

/// What came of a cycle.
pub fn cycled(span: &Span, records: &[Record], requests: usize) {
    if span.is_disabled() {
        return;
    }
    if records.is_empty() && requests == 0 {
        span.record(IDLE, true);
        return;
    }
    let (mut started, mut reserved, mut stopped) = (0u64, 0u64, 0u64);
    for r in records {
        match &r.event {
            Event::JobPlaced { key, placement } => {
                started += 1;
                if started <= PLACED as u64 {
                    let gpus: u64 = placement.slots.iter().map(|s| u64::from(s.gpus.len())).sum();
                    let _reported = tracing::info_span!(
                        target: TARGET,
                        parent: span,
                        "place",
                        muster.job = key.job.0,
                        muster.attempt = key.attempt,
                        muster.nodes = placement.slots.len(),
                        muster.gpus = gpus,
                        muster.project = r.project.as_ref().map(|p| p.as_str()),
                    );
                }
            }
            Event::StartReserved { .. } => reserved += 1,
            Event::StopOrdered { .. } => stopped += 1,
            _ => {}
        }
    }
    span.record("muster.records", records.len());
    span.record("muster.jobs_started", started);
    span.record("muster.starts_reserved", reserved);
    span.record("muster.stops_ordered", stopped);
}

/// What was decided is written.
pub fn commit(records: usize, requests: usize) -> Span {
    tracing::info_span!(
        target: TARGET,
        parent: None,
        "commit",
        muster.records = records,
        muster.requests = requests,
        otel.status_code = Empty,
    )
}

/// The store did not take it.
pub fn not_committed(span: &Span) {
    span.record("otel.status_code", "ERROR");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_makes_up_is_not_reported() {
        assert_eq!(word(&Method::GET), "GET");
        let odd = Method::from_bytes(b"TOKEN-abc").expect("a method");
        assert_eq!(word(&odd), "_OTHER");
        for (id, fine) in [
            ("4bf92f35-77b3.4da6_a3ce", true),
            ("", false),
            ("Bearer secret", false),
            (&"x".repeat(65), false),
        ] {
            assert_eq!(plain(id), fine, "{id}");
        }
    }

    #[test]
    fn nobody_listens_and_no_span_is_made() {
        let traces = Traces::default();
        let request = Request::new(());
        assert!(traces.request(&request, "/v1/jobs").is_disabled());
        assert!(cycle(3, 1).is_disabled() && commit(1, 1).is_disabled());
        assert!(decide(&Span::none()).is_disabled());
        assert_eq!(traces.span_counts(), None);
    }
}
