//! Spans to a collector (OTLP over HTTP). A collector that is away or slow never holds the
//! server up: what finds no room in a bounded queue is dropped and counted.

mod encode;
mod layer;
mod send;

use muster_server::trace::{Listener, SpanCounts, TARGET};
use muster_terminal::fail::Fail;
use send::{Collector, Queue};
use std::sync::Arc;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

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

/// Sends spans until it is stopped.
#[derive(Debug)]
pub(crate) struct Traces {
    queue: Queue,
    ratio: f64,
}

impl TraceArgs {
    /// Sets up what sends spans; nothing when nobody asked.
    pub(crate) fn open(&self) -> Result<Option<Arc<Traces>>, Fail> {
        let Some(url) = self.otlp.as_deref().filter(|u| !u.is_empty()) else { return Ok(None) };
        let cannot = |e: &dyn std::fmt::Display| Fail::failed(format!("cannot send traces: {e}"));
        let collector = Collector::new(endpoint(url)?).map_err(|e| cannot(&e))?;
        let queue = Queue::start(collector).map_err(|e| cannot(&e))?;
        Ok(Some(Arc::new(Traces { queue, ratio: self.otlp_sample })))
    }
}

impl Traces {
    /// Hears the server's spans and nothing else.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        layer::Spans::new(self.queue.clone(), self.ratio)
            .with_filter(filter_fn(|m| m.is_span() && m.target() == TARGET))
    }

    /// Sends what is left, for a moment.
    pub(crate) fn stop(&self) {
        self.queue.flush();
    }
}

impl Listener for Traces {
    fn goes_on(&self, span: &tracing::Span, traceparent: &str, tracestate: Option<&str>) {
        layer::goes_on(span, traceparent, tracestate);
    }

    fn span_counts(&self) -> SpanCounts {
        self.queue.span_counts()
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
