//! The thread that sends spans.

use super::encode::{self, Span};
use muster_server::trace::SpanCounts;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

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
/// A collector that is away is reported so often.
const WARN: Duration = Duration::from_secs(60);

/// How many spans became what.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    full: AtomicU64,
    refused: AtomicU64,
}

enum Item {
    Span(Box<Span>),
    /// Everything before this is to be sent; then say so.
    Flush(SyncSender<()>),
}

/// Spans on their way to the thread that sends them.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    tx: SyncSender<Item>,
    counts: Arc<Counts>,
}

impl Queue {
    pub(super) fn start(collector: Collector) -> std::io::Result<Queue> {
        let (tx, rx) = sync_channel(ROOM);
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        std::thread::Builder::new()
            .name("muster-traces".into())
            .spawn(move || send(&collector, &rx, &counted))?;
        Ok(Queue { tx, counts })
    }

    pub(super) fn put(&self, span: Span) {
        if self.tx.try_send(Item::Span(Box::new(span))).is_err() {
            self.counts.full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits, for a moment, until what is there is sent.
    pub(super) fn flush(&self) {
        let (done, over) = sync_channel(1);
        // A full queue is no reason to wait for ever.
        if self.tx.try_send(Item::Flush(done)).is_ok() {
            let _ = over.recv_timeout(LAST);
        }
    }

    pub(super) fn span_counts(&self) -> SpanCounts {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let c = &self.counts;
        SpanCounts { sent: of(&c.sent), full: of(&c.full), refused: of(&c.refused) }
    }
}

/// Where spans go.
pub(super) struct Collector {
    url: String,
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    resource: Vec<(String, String)>,
}

impl Collector {
    /// The environment may name headers that the collector wants to see and more about this
    /// process, by the names that OpenTelemetry gave them.
    pub(super) fn new(url: String) -> Result<Collector, String> {
        let env = |name: &str| pairs(&std::env::var(name).unwrap_or_default());
        let mut headers = reqwest::header::HeaderMap::new();
        for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
            for (key, value) in env(name) {
                let key = reqwest::header::HeaderName::try_from(key.to_lowercase());
                let value = reqwest::header::HeaderValue::try_from(value);
                // The value may be a secret, so that it is not repeated.
                let (Ok(key), Ok(mut value)) = (key, value) else {
                    return Err(format!(
                        "{name} has something that is no header; write NAME=VALUE,…"
                    ));
                };
                value.set_sensitive(true);
                headers.insert(key, value);
            }
        }
        let mut resource = vec![
            ("service.name".to_owned(), "muster".to_owned()),
            ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        for (key, value) in env("OTEL_RESOURCE_ATTRIBUTES") {
            resource.retain(|(k, _)| *k != key);
            resource.push((key, value));
        }
        if let Ok(name) = std::env::var("OTEL_SERVICE_NAME")
            && !name.is_empty()
        {
            resource.retain(|(k, _)| k != "service.name");
            resource.push(("service.name".into(), name));
        }
        muster_link::tls::install();
        let client = reqwest::Client::builder().default_headers(headers).timeout(TIMEOUT).build();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Collector {
            url,
            client: client.map_err(|e| e.to_string())?,
            runtime: runtime.map_err(|e| e.to_string())?,
            resource,
        })
    }

    fn export(&self, spans: &[Span]) -> Result<(), String> {
        let request = self
            .client
            .post(&self.url)
            .header(reqwest::header::CONTENT_TYPE, "application/x-protobuf")
            .body(encode::request(&self.resource, spans));
        // Sending sets a timer at once, before anything is waited for.
        let _inside = self.runtime.enter();
        let answer = self.runtime.block_on(request.send()).map_err(|e| {
            // Its own text begins with the address.
            let mut cause: &dyn std::error::Error = &e.without_url();
            while let Some(next) = cause.source() {
                cause = next;
            }
            cause.to_string()
        })?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    }
}

/// `a=1,b=2`, with values that may be percent-encoded.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        let key = key.trim();
        (!key.is_empty()).then(|| (key.to_owned(), decoded(value.trim())))
    };
    text.split(',').filter_map(pair).collect()
}

fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        let hex = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
        match more.get(..2).and_then(hex).filter(|_| byte == b'%') {
            Some(value) => {
                out.push(value);
                rest = &more[2..];
            }
            None => {
                out.push(byte);
                rest = more;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

/// Collects spans and sends them, for as long as there is somebody who makes them.
fn send(collector: &Collector, rx: &Receiver<Item>, counts: &Counts) {
    let mut warned: Option<Instant> = None;
    let mut batch: Vec<Span> = Vec::new();
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
            let n = batch.len() as u64;
            match collector.export(&batch) {
                Ok(()) => {
                    counts.sent.fetch_add(n, Ordering::Relaxed);
                }
                Err(error) => {
                    let lost = counts.refused.fetch_add(n, Ordering::Relaxed) + n;
                    if warned.is_none_or(|at| at.elapsed() >= WARN) {
                        warned = Some(Instant::now());
                        tracing::warn!(%error, lost, "the collector accepts no traces");
                    }
                }
            }
            batch.clear();
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
    fn headers_of_the_environment_are_read() {
        let two = [("a", "1"), ("authorization", "Bearer x=y")];
        let two = two.map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(pairs("a=1, authorization=Bearer%20x=y"), two);
        assert!(pairs("").is_empty() && pairs("novalue,=x").is_empty());
        assert_eq!(decoded("50%"), "50%");
    }
}
