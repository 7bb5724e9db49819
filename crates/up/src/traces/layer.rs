//! From `tracing` spans to what is sent of them.

use super::encode::{Span, Value};
use super::send::Queue;
use muster_server::trace::IDLE;
use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Registry};

/// Where in a trace a span stands, and whether it is sent.
#[derive(Debug, Default)]
struct Open {
    span: Span,
    sampled: bool,
    /// Nothing happened in it that is worth reporting.
    idle: bool,
}

/// Hears spans and hands those that are sampled to the queue when they end.
pub(super) struct Spans {
    queue: Queue,
    /// Traces whose number is below this are sampled.
    bound: u64,
}

impl Spans {
    pub(super) fn new(queue: Queue, ratio: f64) -> Spans {
        // As other tracers do it, so that all of them choose the same traces.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a ratio from 0 to 1"
        )]
        let bound = (ratio * (1u64 << 63) as f64) as u64;
        Spans { queue, bound }
    }

    fn samples(&self, trace: &[u8; 16]) -> bool {
        let [.., a, b, c, d, e, f, g, h] = *trace;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.bound
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // An id of zeros is no id: the collector drops the span, and nothing worse happens.
    let _ = getrandom::fill(&mut bytes);
    bytes
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Spans {
    fn on_new_span(&self, attrs: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Some(here) = ctx.span(id) else { return };
        let mut open = Open::default();
        open.span.id = random();
        open.span.start = now();
        open.span.kind = 1;
        open.span.name = attrs.metadata().name().to_owned();
        let parent = match attrs.parent() {
            Some(parent) => ctx.span(parent),
            None if attrs.is_contextual() => ctx.lookup_current(),
            None => None,
        };
        let joined = parent.is_some_and(|parent| {
            let ext = parent.extensions();
            let Some(above) = ext.get::<Open>() else { return false };
            open.span.trace = above.span.trace;
            open.span.parent = above.span.id;
            open.span.state.clone_from(&above.span.state);
            open.sampled = above.sampled;
            true
        });
        if !joined {
            open.span.trace = random();
            open.sampled = self.samples(&open.span.trace);
        }
        attrs.record(&mut open);
        here.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        if let Some(here) = ctx.span(id)
            && let Some(open) = here.extensions_mut().get_mut::<Open>()
        {
            values.record(open);
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let Some(mut open) = ctx.span(&id).and_then(|s| s.extensions_mut().remove::<Open>()) else {
            return;
        };
        if open.sampled && !open.idle {
            open.span.end = now().max(open.span.start);
            self.queue.put(open.span);
        }
    }
}

impl Open {
    fn set(&mut self, key: &'static str, value: Value) {
        match (key, value) {
            (IDLE, _) => self.idle = true,
            ("otel.name", Value::Text(name)) => self.span.name = name,
            ("otel.kind", Value::Text(kind)) => {
                self.span.kind = if kind == "server" { 2 } else { 1 }
            }
            ("otel.status_code", Value::Text(code)) => self.span.failed = code == "ERROR",
            (key, value) => match self.span.attributes.iter_mut().find(|(k, _)| *k == key) {
                Some(kept) => kept.1 = value,
                None => self.span.attributes.push((key, value)),
            },
        }
    }
}

impl Visit for Open {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), Value::Double(value));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), Value::Int(value));
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), Value::Int(i64::try_from(value).unwrap_or(i64::MAX)));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), Value::Bool(value));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), Value::Text(value.to_owned()));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field.name(), Value::Text(format!("{value:?}")));
    }
}

/// The caller's trace goes on in this span. What makes no sense is ignored.
pub(super) fn goes_on(span: &tracing::Span, traceparent: &str, tracestate: Option<&str>) {
    let Some((trace, parent, sampled)) = parse(traceparent) else { return };
    span.with_subscriber(|(id, dispatch)| {
        let Some(registry) = dispatch.downcast_ref::<Registry>() else { return };
        let Some(here) = registry.span(id) else { return };
        let mut ext = here.extensions_mut();
        let Some(open) = ext.get_mut::<Open>() else { return };
        (open.span.trace, open.span.parent, open.sampled) = (trace, parent, sampled);
        // The longest that W3C asks everybody to hand on.
        open.span.state = tracestate.filter(|s| s.len() <= 512).unwrap_or_default().to_owned();
    });
}

/// `00-<trace>-<span>-<flags>`, as W3C writes it.
fn parse(text: &str) -> Option<([u8; 16], [u8; 8], bool)> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let version = hex::<1>(version)?[0];
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    let (trace, span, [flags]) = (hex::<16>(trace)?, hex::<8>(span)?, hex::<1>(flags)?);
    (trace != [0; 16] && span != [0; 8]).then_some((trace, span, flags & 1 == 1))
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    if text.len() != N * 2 {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_trace_is_read_as_w3c_writes_it() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (trace, span, sampled) = parse(good).expect("a trace");
        assert_eq!((trace[0], span[7], sampled), (0x0a, 0x31, true));
        assert!(parse(&good.replace("-01", "-00")).is_some_and(|(_, _, sampled)| !sampled));
        assert!(parse(&good.replace("00-", "cc-").replace("-01", "-01-more")).is_some());
        for bad in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
