//! Figures for Prometheus. No tenant's names in them: the page is open to whoever reaches it.

use muster_model::job::JobState;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds in microseconds and as Prometheus writes them.
const BUCKETS: [(u64, &str); 13] = [
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (5_000_000, "5"),
    (30_000_000, "30"),
];

#[derive(Default)]
struct Route {
    answers: BTreeMap<(&'static str, u16), u64>,
    buckets: [u64; BUCKETS.len()],
    count: u64,
    micros: u64,
}

/// What the API has done since it started.
#[derive(Default)]
pub(crate) struct HttpMetrics {
    routes: Mutex<HashMap<Box<str>, Route>>,
}

/// Methods that are told apart; the rest share one word, so that strange requests add no series.
fn method_word(m: &axum::http::Method) -> &'static str {
    match m.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        _ => "OTHER",
    }
}

impl HttpMetrics {
    pub(crate) fn record(
        &self,
        method: &axum::http::Method,
        route: &str,
        status: u16,
        took: Duration,
    ) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if !routes.contains_key(route) {
            routes.insert(route.into(), Route::default());
        }
        let Some(r) = routes.get_mut(route) else { return };
        *r.answers.entry((method_word(method), status)).or_default() += 1;
        r.count += 1;
        r.micros = r.micros.saturating_add(micros);
        if let Some(i) = BUCKETS.iter().position(|(b, _)| micros <= *b) {
            r.buckets[i] += 1;
        }
    }

    pub(crate) fn write(&self, out: &mut Text) {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sorted: Vec<_> = routes.iter().collect();
        sorted.sort_by_key(|(name, _)| *name);
        out.head("muster_http_requests_total", "counter", "Requests answered.");
        for (name, r) in &sorted {
            for ((method, status), n) in &r.answers {
                let status = status.to_string();
                out.line(
                    "muster_http_requests_total",
                    &[("method", method), ("route", name), ("status", &status)],
                    n,
                );
            }
        }
        out.head(
            "muster_http_request_seconds",
            "histogram",
            "Time from request to the head of its answer.",
        );
        for (name, r) in &sorted {
            let mut sum = 0;
            for (i, (_, le)) in BUCKETS.iter().enumerate() {
                sum += r.buckets[i];
                out.line("muster_http_request_seconds_bucket", &[("route", name), ("le", le)], sum);
            }
            out.line(
                "muster_http_request_seconds_bucket",
                &[("route", name), ("le", "+Inf")],
                r.count,
            );
            out.line("muster_http_request_seconds_sum", &[("route", name)], seconds(r.micros));
            out.line("muster_http_request_seconds_count", &[("route", name)], r.count);
        }
    }
}

/// Microseconds as seconds, without floating point.
pub(crate) fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// The text format, written line by line.
#[derive(Default)]
pub(crate) struct Text(pub(crate) String);

impl Text {
    pub(crate) fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn line(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: impl std::fmt::Display,
    ) {
        self.0.push_str(name);
        for (i, (key, v)) in labels.iter().enumerate() {
            self.0.push(if i == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{key}=\"");
            for c in v.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    pub(crate) fn one(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        value: impl std::fmt::Display,
    ) {
        self.head(name, kind, help);
        self.line(name, &[], value);
    }
}

/// Every state a job can be in, so that a state without jobs is told as zero.
pub(crate) const JOB_STATES: [JobState; 7] = [
    JobState::Queued,
    JobState::Starting,
    JobState::Running,
    JobState::Stopping,
    JobState::Succeeded,
    JobState::Failed,
    JobState::Cancelled,
];

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Method;

    #[test]
    fn buckets_add_up_and_labels_are_escaped() {
        let m = HttpMetrics::default();
        m.record(&Method::GET, "/v1/jobs", 200, Duration::from_micros(300));
        m.record(&Method::GET, "/v1/jobs", 200, Duration::from_millis(3));
        m.record(&Method::from_bytes(b"BREW").unwrap(), "a\"b\\", 405, Duration::from_secs(60));
        let mut t = Text::default();
        m.write(&mut t);
        let t = t.0;
        assert!(t.contains(
            "muster_http_requests_total{method=\"GET\",route=\"/v1/jobs\",status=\"200\"} 2\n"
        ));
        assert!(t.contains("{method=\"OTHER\",route=\"a\\\"b\\\\\",status=\"405\"} 1\n"));
        assert!(
            t.contains("muster_http_request_seconds_bucket{route=\"/v1/jobs\",le=\"0.0005\"} 1\n")
        );
        assert!(
            t.contains("muster_http_request_seconds_bucket{route=\"/v1/jobs\",le=\"0.005\"} 2\n")
        );
        assert!(t.contains("muster_http_request_seconds_sum{route=\"/v1/jobs\"} 0.003300\n"));
        assert!(
            t.contains("muster_http_request_seconds_bucket{route=\"a\\\"b\\\\\",le=\"+Inf\"} 1\n")
        );
    }
}
