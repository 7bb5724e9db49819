//! Figures for Prometheus. No tenant's names in them: every token sees the page, and a site may open it to
//! whoever reaches it.

use super::App;
use bytes::Bytes;
use muster_engine::State;
use muster_health::modes;
use muster_model::breaker::BreakerState;
use muster_model::finding::Severity;
use muster_model::job::JobState;
use muster_model::node::Stage;
use muster_model::remedy::RemedyStep;
use muster_server::brain::Histogram;
use muster_server::health::{HealthStats, PARTS};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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

type Page = tokio::sync::Mutex<Option<(Instant, Bytes)>>;

/// The pages as they were last made: without figures by project, and with them. Making one looks at
/// every job, so that many who ask share it.
#[derive(Default)]
pub(crate) struct Pages {
    plain: Page,
    by_project: Page,
}

impl Pages {
    /// The page, made anew when the last one is older than `every`. Whoever asks meanwhile waits for it.
    pub(crate) async fn get(
        &self,
        by_project: bool,
        every: Duration,
        make: impl FnOnce() -> String + Send + 'static,
    ) -> Option<Bytes> {
        let page = if by_project { &self.by_project } else { &self.plain };
        let mut page = page.lock().await;
        if let Some((made, bytes)) = &*page
            && made.elapsed() < every
        {
            return Some(bytes.clone());
        }
        let bytes = Bytes::from(tokio::task::spawn_blocking(make).await.ok()?);
        *page = Some((Instant::now(), bytes.clone()));
        Some(bytes)
    }
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

/// One figure with its labels, among them `__name__`.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// Figures, one by one: a page in the text format, or as they are sent.
#[derive(Default)]
pub(crate) struct Text {
    pub(crate) page: String,
    /// Where they go instead of onto the page.
    pub(crate) samples: Option<Vec<Sample>>,
}

impl Text {
    pub(crate) fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn line(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: impl std::fmt::Display,
    ) {
        if let Some(samples) = &mut self.samples {
            let all = [("__name__", name)].into_iter().chain(labels.iter().copied());
            let labels = all.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            let value = value.to_string().parse().unwrap_or(f64::NAN);
            return samples.push(Sample { labels, value });
        }
        self.page.push_str(name);
        for (i, (key, v)) in labels.iter().enumerate() {
            self.page.push(if i == 0 { '{' } else { ',' });
            let _ = write!(self.page, "{key}=\"");
            for c in v.chars() {
                match c {
                    '\\' => self.page.push_str("\\\\"),
                    '"' => self.page.push_str("\\\""),
                    '\n' => self.page.push_str("\\n"),
                    c => self.page.push(c),
                }
            }
            self.page.push('"');
        }
        if !labels.is_empty() {
            self.page.push('}');
        }
        let _ = writeln!(self.page, " {value}");
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

impl Text {
    /// A histogram, with labels that all its lines have.
    pub(crate) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], h: &Histogram) {
        let bucket = format!("{name}_bucket");
        for (le, n) in &h.cumulative {
            let le = le.to_string();
            self.line(&bucket, &[labels, &[("le", &le)]].concat(), n);
        }
        self.line(&bucket, &[labels, &[("le", "+Inf")]].concat(), h.count);
        self.line(&format!("{name}_sum"), labels, h.sum);
        self.line(&format!("{name}_count"), labels, h.count);
    }
}

/// Stages of a node's life, with their words.
const STAGES: [(Stage, &str); 8] = [
    (Stage::Enrolled, "enrolled"),
    (Stage::Ready, "ready"),
    (Stage::Draining, "draining"),
    (Stage::Drained, "drained"),
    (Stage::Suspect, "suspect"),
    (Stage::Quarantined, "quarantined"),
    (Stage::Repairing, "repairing"),
    (Stage::Retired, "retired"),
];

/// Steps of a remedy that goes on, with their words.
const STEPS: [(RemedyStep, &str); 7] = [
    (RemedyStep::Proposed, "proposed"),
    (RemedyStep::Moving, "moving"),
    (RemedyStep::Approval, "approval"),
    (RemedyStep::Acting, "acting"),
    (RemedyStep::Repairing, "repairing"),
    (RemedyStep::Testing, "testing"),
    (RemedyStep::Probation, "probation"),
];

/// How health stands, as far as the log says.
#[derive(Default)]
struct Standing {
    /// Open findings by failure mode and severity: never more than the map has.
    findings: BTreeMap<(&'static str, Severity), u64>,
    incidents: u64,
    /// By state and by what kind of thing they protect work from.
    breakers: BTreeMap<(BreakerState, &'static str), u64>,
    remedies: BTreeMap<RemedyStep, u64>,
    stages: BTreeMap<Stage, u64>,
    stopped: bool,
}

impl Standing {
    fn of(s: &State) -> Standing {
        let mut out =
            Standing { stopped: s.health.automation.stopped.is_some(), ..Self::default() };
        for f in s.health.open() {
            let kind = modes::mode(&f.seen.kind).map_or("other", |m| m.code);
            *out.findings.entry((kind, f.seen.severity)).or_default() += 1;
        }
        out.incidents = s.health.open_incidents().count() as u64;
        for b in s.health.breakers.values() {
            *out.breakers.entry((b.state, b.entity.word())).or_default() += 1;
        }
        for r in s.health.live_remedies() {
            *out.remedies.entry(r.step).or_default() += 1;
        }
        for n in s.nodes.values() {
            *out.stages.entry(n.stage).or_default() += 1;
        }
        out
    }

    fn write(&self, out: &mut Text) {
        out.head("muster_findings_open", "gauge", "Findings that are open.");
        for ((kind, severity), n) in &self.findings {
            let labels = [("kind", *kind), ("severity", severity.word())];
            out.line("muster_findings_open", &labels, n);
        }
        out.one("muster_incidents_open", "gauge", "Incidents that are open.", self.incidents);
        out.head("muster_breakers", "gauge", "Breakers by state and what they are about.");
        for ((state, level), n) in &self.breakers {
            out.line("muster_breakers", &[("state", state.word()), ("level", level)], n);
        }
        out.head("muster_remedies", "gauge", "Remedies that go on, by where they stand.");
        for (step, word) in STEPS {
            let n = self.remedies.get(&step).copied().unwrap_or(0);
            out.line("muster_remedies", &[("step", word)], n);
        }
        // A name of its own: under `muster_nodes` every node would count twice in a sum.
        out.head("muster_nodes_by_stage", "gauge", "Nodes by the stage of their life.");
        for (stage, word) in STAGES {
            let n = self.stages.get(&stage).copied().unwrap_or(0);
            out.line("muster_nodes_by_stage", &[("stage", word)], n);
        }
        out.one(
            "muster_automation_stopped",
            "gauge",
            "Whether remedies wait because automation was stopped.",
            u8::from(self.stopped),
        );
    }
}

/// Figures about what is wrong, what is done about it, and how long that takes.
pub(crate) fn health_figures(app: &App, out: &mut Text) {
    app.brain().read(Standing::of).write(out);
    out.head(
        "muster_signal_commit_seconds",
        "histogram",
        "Time from a report of faults to its events in the log.",
    );
    out.histogram("muster_signal_commit_seconds", &[], &app.agents().signal_commit());
    watch_figures(&app.agents().health(), out);
}

fn watch_figures(h: &HealthStats, out: &mut Text) {
    out.head("muster_findings_total", "counter", "Findings since this server started.");
    for (kind, n) in &h.opened {
        out.line("muster_findings_total", &[("kind", kind)], n);
    }
    out.head(
        "muster_recovery_seconds",
        "histogram",
        "Time from a fault of hardware until the work went on, by part.",
    );
    for (part, times) in PARTS.iter().zip(&h.parts) {
        out.histogram("muster_recovery_seconds", &[("part", part)], times);
    }
    // A name that dashboards of other makers know.
    let name = "fault_quarantine_node_mtbi_seconds";
    out.head(name, "histogram", "Time that a node was in service before it was taken out.");
    out.histogram(name, &[], &h.between);
    out.head("muster_watch_look_seconds", "histogram", "Time of one look at everything told.");
    out.histogram("muster_watch_look_seconds", &[], &h.look);
    for (name, help, n) in [
        ("muster_watch_taken_total", "Rows, steps and signs of life that were taken in.", h.taken),
        ("muster_watch_dropped_total", "Those that found no room.", h.dropped),
        ("muster_watch_findings_told_total", "Findings told to the log.", h.told),
        (
            "muster_watch_findings_lost_total",
            "Findings dropped because the log took none for too long.",
            h.lost,
        ),
        ("muster_watch_failures_total", "Times that a detector fell over.", h.failures),
    ] {
        out.one(name, "counter", help, n);
    }
    out.one(
        "muster_watch_busy_seconds_total",
        "counter",
        "Time spent on taking in what was told.",
        h.rows_busy.as_secs_f64(),
    );
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

    #[tokio::test]
    async fn many_who_ask_share_one_page() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering};
        let (pages, made) = (Pages::default(), Arc::new(AtomicU32::new(0)));
        let ask = |by_project, every| {
            let made = made.clone();
            pages.get(by_project, every, move || made.fetch_add(1, Ordering::SeqCst).to_string())
        };
        let long = Duration::from_secs(3600);
        let all = futures::future::join_all((0..16).map(|_| ask(false, long))).await;
        assert!(all.iter().all(|p| p.as_deref() == Some(&b"0"[..])), "{all:?}");
        assert_eq!(ask(true, long).await.as_deref(), Some(&b"1"[..]), "a page of its own");
        assert_eq!(ask(false, Duration::ZERO).await.as_deref(), Some(&b"2"[..]), "it grew old");
    }

    #[test]
    fn buckets_add_up_and_labels_are_escaped() {
        let m = HttpMetrics::default();
        m.record(&Method::GET, "/v1/jobs", 200, Duration::from_micros(300));
        m.record(&Method::GET, "/v1/jobs", 200, Duration::from_millis(3));
        m.record(&Method::from_bytes(b"BREW").unwrap(), "a\"b\\", 405, Duration::from_secs(60));
        let mut t = Text::default();
        m.write(&mut t);
        let t = t.page;
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
