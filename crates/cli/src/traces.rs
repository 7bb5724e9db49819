//! Spans to a collector (OTLP over HTTP). A collector that is away or slow never holds the
//! server up: what finds no room in a bounded queue is dropped and counted.

use crate::fail::Fail;
use muster_server::trace::{Figures, IDLE, Listener, TARGET};
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter as Otlp, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// Spans that may wait.
const ROOM: usize = 4096;
/// Spans that are sent at once.
const BATCH: usize = 512;
/// The first of them waits at most this long.
const LINGER: Duration = Duration::from_secs(1);
/// A collector that takes longer is away.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What is left at the end is sent within this.
const LAST: Duration = Duration::from_secs(2);
/// A collector that is away is told of so often.
const WARN: Duration = Duration::from_secs(60);

/// What was typed.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TraceArgs {
    /// Send traces of API calls and scheduling cycles to an OpenTelemetry collector here (OTLP over HTTP), such as http://127.0.0.1:4318
    #[arg(long, env = "MUSTER_OTLP", value_name = "URL", hide_env_values = true)]
    otlp: Option<String>,
    /// Which part of traces is sent, from 0 to 1; a caller's own traces follow the caller's choice
    #[arg(long, env = "MUSTER_OTLP_SAMPLE", default_value = "1", value_name = "RATIO", value_parser = ratio)]
    otlp_sample: f64,
}

fn ratio(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|r: &f64| (0.0..=1.0).contains(r));
    number.ok_or_else(|| "write a number from 0 to 1, such as 0.01".into())
}

/// Where spans go: the address with the path that OTLP names, if it has none.
fn endpoint(url: &str) -> Result<String, Fail> {
    let wrong = |what: &str| {
        // The address itself may hold a password, so that it is not repeated.
        Fail::usage(format!("--otlp: {what}")).hint("write it like http://127.0.0.1:4318")
    };
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let rest = rest.ok_or_else(|| wrong("the address begins with neither http:// nor https://"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() || host.starts_with(':') || url.chars().any(char::is_whitespace) {
        return Err(wrong("the address names no host"));
    }
    if host.contains('@') {
        return Err(wrong("a password does not belong into the address")
            .hint("OTEL_EXPORTER_OTLP_HEADERS takes what the collector wants to see"));
    }
    if path.contains(['?', '#']) {
        return Err(wrong("the address has more than a path"));
    }
    let base = url.trim_end_matches('/');
    Ok(if path.is_empty() { format!("{base}/v1/traces") } else { base.to_owned() })
}

/// How many spans became what.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    full: AtomicU64,
    refused: AtomicU64,
}

/// Sends spans until it is stopped.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    counts: Arc<Counts>,
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

impl TraceArgs {
    /// Sets up what sends spans; nothing when nobody asked. Before any runtime starts.
    pub(crate) fn open(&self) -> Result<Option<Arc<Traces>>, Fail> {
        let Some(url) = self.otlp.as_deref().filter(|u| !u.is_empty()) else { return Ok(None) };
        let cannot = |e: &dyn std::fmt::Display| Fail::failed(format!("cannot send traces: {e}"));
        let exporter = Otlp::builder()
            .with_http()
            .with_endpoint(endpoint(url)?)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(|e| cannot(&e))?;
        let counts = Arc::new(Counts::default());
        let queue = Queue::start(exporter, Arc::clone(&counts)).map_err(|e| cannot(&e))?;
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(self.otlp_sample)));
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_resource(resource())
            .with_span_processor(queue)
            .build();
        Ok(Some(Arc::new(Traces { provider, counts })))
    }
}

fn resource() -> Resource {
    Resource::builder()
        .with_service_name("muster")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}

impl Traces {
    /// Hears the server's spans and nothing else.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("muster"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|m| m.is_span() && m.target() == TARGET))
    }

    /// Sends what is left, for a moment.
    pub(crate) fn stop(&self) {
        let _ = self.provider.shutdown_with_timeout(LAST);
    }
}

/// The caller's headers.
struct Headers<'a>(&'a str, Option<&'a str>);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => Some(self.0),
            "tracestate" => self.1,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

impl Listener for Traces {
    fn goes_on(&self, span: &tracing::Span, traceparent: &str, tracestate: Option<&str>) {
        let headers = Headers(traceparent, tracestate);
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        if parent.span().span_context().is_valid() {
            let _ = span.set_parent(parent);
        }
    }

    fn figures(&self) -> Figures {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let c = &self.counts;
        Figures { sent: of(&c.sent), full: of(&c.full), refused: of(&c.refused) }
    }
}

enum Item {
    Span(Box<SpanData>),
    /// Everything before this is to be sent; then say so.
    Flush(SyncSender<()>),
}

/// Spans on their way to the thread that sends them.
#[derive(Debug)]
struct Queue {
    tx: SyncSender<Item>,
    counts: Arc<Counts>,
}

impl Queue {
    fn start<E: SpanExporter + 'static>(
        mut exporter: E,
        counts: Arc<Counts>,
    ) -> std::io::Result<Queue> {
        exporter.set_resource(&resource());
        let (tx, rx) = sync_channel(ROOM);
        let told = Arc::clone(&counts);
        std::thread::Builder::new()
            .name("muster-traces".into())
            .spawn(move || send(&exporter, &rx, &told))?;
        Ok(Queue { tx, counts })
    }

    fn flush(&self, timeout: Duration) -> OTelSdkResult {
        let (done, over) = sync_channel(1);
        // A full queue is no reason to wait for ever.
        if self.tx.try_send(Item::Flush(done)).is_err() {
            return Err(OTelSdkError::Timeout(timeout));
        }
        over.recv_timeout(timeout).map_err(|_| OTelSdkError::Timeout(timeout))
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _span: &mut Span, _cx: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.attributes.iter().any(|a| a.key.as_str() == IDLE) {
            return;
        }
        if self.tx.try_send(Item::Span(Box::new(span))).is_err() {
            self.counts.full.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.flush(TIMEOUT)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.flush(timeout)
    }
}

/// Collects spans and sends them, for as long as there is somebody who makes them.
fn send<E: SpanExporter>(exporter: &E, rx: &Receiver<Item>, counts: &Counts) {
    let mut warned: Option<Instant> = None;
    let mut batch: Vec<SpanData> = Vec::new();
    let mut since = Instant::now();
    loop {
        let wait = if batch.is_empty() { WARN } else { LINGER.saturating_sub(since.elapsed()) };
        let mut flush = None;
        let over = match rx.recv_timeout(wait) {
            Ok(Item::Span(span)) => {
                if batch.is_empty() {
                    since = Instant::now();
                }
                batch.push(*span);
                false
            }
            Ok(Item::Flush(done)) => {
                flush = Some(done);
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        let due = batch.len() >= BATCH || since.elapsed() >= LINGER || flush.is_some() || over;
        if due && !batch.is_empty() {
            let full = std::mem::take(&mut batch);
            let n = full.len() as u64;
            // This thread is for waiting.
            match futures::executor::block_on(exporter.export(full)) {
                Ok(()) => {
                    counts.sent.fetch_add(n, Ordering::Relaxed);
                }
                Err(error) => {
                    let lost = counts.refused.fetch_add(n, Ordering::Relaxed) + n;
                    if warned.is_none_or(|at| at.elapsed() >= WARN) {
                        warned = Some(Instant::now());
                        tracing::warn!(%error, lost, "the collector takes no traces");
                    }
                }
            }
        }
        if let Some(done) = flush {
            let _ = done.send(());
        }
        if over {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_path_of_otlp_and_hold_no_password() {
        for (url, want) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/", "https://otel.example/v1/traces"),
            ("http://c:4318/v1/traces", "http://c:4318/v1/traces"),
            ("http://c/custom/", "http://c/custom"),
        ] {
            assert_eq!(endpoint(url).expect(url), want);
        }
        for bad in
            ["127.0.0.1:4318", "http://", "http://:1", "grpc://c", "http://a b", "http://c?x=1"]
        {
            let e = endpoint(bad).err();
            assert!(e.is_none_or(|e| e.code == 2 && e.hint.is_some()), "{bad}");
        }
        let e = endpoint("https://me:hunter2@c").expect_err("a password");
        assert!(!e.render(false).contains("hunter2"), "{e:?}");
        assert!(ratio("0.25").is_ok() && ratio("1").is_ok());
        for bad in ["-1", "1.1", "NaN", "much"] {
            assert!(ratio(bad).is_err(), "{bad}");
        }
    }
}
