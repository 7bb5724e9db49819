//! Figures for Prometheus. No tenant's names in them: every token sees the page, and a site may open it to
//! whoever reaches it.

use super::{App, Registry};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_engine::State;
use muster_health::modes;
use muster_model::breaker::BreakerState;
use muster_model::finding::Severity;
use muster_model::node::Stage;
use muster_model::remediation::RemediationStep;
use muster_server::brain::Histogram;
use muster_server::health::{HealthStats, PARTS};
use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Upper bounds in microseconds.
const BUCKETS: [u64; 13] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    5_000_000, 30_000_000,
];

#[derive(Default)]
struct Route {
    answers: BTreeMap<(&'static str, u16), u64>,
    buckets: [u64; BUCKETS.len()],
    count: u64,
    micros: u64,
}

impl Route {
    fn times(&self) -> Histogram {
        let seconds = |micros| Duration::from_micros(micros).as_secs_f64();
        let mut sum = 0;
        let mut cumulative = Vec::with_capacity(BUCKETS.len());
        for (micros, n) in BUCKETS.into_iter().zip(self.buckets) {
            sum += n;
            cumulative.push((seconds(micros), sum));
        }
        Histogram { cumulative, count: self.count, sum: seconds(self.micros) }
    }
}

/// What the API has done since it started.
#[derive(Default)]
pub(crate) struct HttpMetrics {
    routes: Mutex<HashMap<Box<str>, Route>>,
}

/// A page as it is, and packed with gzip as Prometheus asks for it.
#[derive(Debug, Clone)]
pub(crate) struct RenderedPage {
    pub(crate) plain: Bytes,
    pub(crate) packed: Bytes,
}

impl RenderedPage {
    fn of(text: String) -> std::io::Result<RenderedPage> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(text.as_bytes())?;
        Ok(RenderedPage { plain: text.into(), packed: packed.finish()?.into() })
    }
}

type Page = tokio::sync::Mutex<Option<(Instant, RenderedPage)>>;

/// The pages as they were last made: without figures by project, and with them. Making one looks at
/// every job, and packing it takes as long again, so that many who ask share it.
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
    ) -> Option<RenderedPage> {
        let page = if by_project { &self.by_project } else { &self.plain };
        let mut page = page.lock().await;
        if let Some((at, made)) = &*page
            && at.elapsed() < every
        {
            return Some(made.clone());
        }
        let made =
            tokio::task::spawn_blocking(move || RenderedPage::of(make())).await.ok()?.ok()?;
        *page = Some((Instant::now(), made.clone()));
        Some(made)
    }
}

/// Methods that are distinguished; the rest share one word, so that strange requests add no series.
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
        if let Some(i) = BUCKETS.iter().position(|b| micros <= *b) {
            r.buckets[i] += 1;
        }
    }

    pub(crate) fn write(&self, out: &mut Registry) {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sorted: Vec<_> = routes.iter().collect();
        sorted.sort_by_key(|(name, _)| *name);
        let mut m = out.counter("muster_http_requests_total", "Requests answered.");
        for (name, r) in &sorted {
            for ((method, status), n) in &r.answers {
                let status = status.to_string();
                m.put(&[("method", method), ("route", name), ("status", &status)], n);
            }
        }
        let help = "Time from request to the head of its answer.";
        let mut m = out.histogram("muster_http_request_seconds", help);
        for (name, r) in &sorted {
            m.times(&[("route", name)], &r.times());
        }
    }
}

/// Microseconds as seconds, without floating point.
pub(crate) fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
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

/// Steps of a remediation that goes on, with their words.
const STEPS: [(RemediationStep, &str); 7] = [
    (RemediationStep::Proposed, "proposed"),
    (RemediationStep::Moving, "moving"),
    (RemediationStep::Approval, "approval"),
    (RemediationStep::Acting, "acting"),
    (RemediationStep::Repairing, "repairing"),
    (RemediationStep::Testing, "testing"),
    (RemediationStep::Probation, "probation"),
];

/// How health stands, as far as the log says.
#[derive(Default)]
struct HealthCounts {
    /// Open findings by failure mode and severity: never more than the map has.
    findings: BTreeMap<(&'static str, Severity), u64>,
    incidents: u64,
    /// By state and by what kind of thing they protect work from.
    breakers: BTreeMap<(BreakerState, &'static str), u64>,
    remediations: BTreeMap<RemediationStep, u64>,
    stages: BTreeMap<Stage, u64>,
    stopped: bool,
}

impl HealthCounts {
    fn of(s: &State) -> HealthCounts {
        let mut out =
            HealthCounts { stopped: s.health.automation.stopped.is_some(), ..Self::default() };
        for f in s.health.open() {
            let kind = modes::mode(&f.seen.kind).map_or("other", |m| m.code);
            *out.findings.entry((kind, f.seen.severity)).or_default() += 1;
        }
        out.incidents = s.health.open_incidents().count() as u64;
        for b in s.health.breakers.values() {
            *out.breakers.entry((b.state, b.entity.word())).or_default() += 1;
        }
        for r in s.health.live_remediations() {
            *out.remediations.entry(r.step).or_default() += 1;
        }
        for n in s.nodes.values() {
            *out.stages.entry(n.stage).or_default() += 1;
        }
        out
    }

    fn write(&self, out: &mut Registry) {
        let mut m = out.gauge("muster_findings_open", "Findings that are open.");
        for ((kind, severity), n) in &self.findings {
            m.put(&[("kind", kind), ("severity", severity.word())], n);
        }
        out.gauge("muster_incidents_open", "Incidents that are open.").set(self.incidents);
        let mut m = out.gauge("muster_breakers", "Breakers by state and what they are about.");
        for ((state, level), n) in &self.breakers {
            m.put(&[("state", state.word()), ("level", level)], n);
        }
        let mut m = out.gauge("muster_remediations", "Open remediations, by step.");
        for (step, word) in STEPS {
            m.put(&[("step", word)], self.remediations.get(&step).copied().unwrap_or(0));
        }
        // A name of its own: under `muster_nodes` every node would count twice in a sum.
        let mut m = out.gauge("muster_nodes_by_stage", "Nodes by the stage of their life cycle.");
        for (stage, word) in STAGES {
            m.put(&[("stage", word)], self.stages.get(&stage).copied().unwrap_or(0));
        }
        let help = "Whether remediations wait because automation was stopped.";
        out.gauge("muster_automation_stopped", help).set(u8::from(self.stopped));
    }
}

/// Figures about what is wrong, what is done about it, and how long that takes.
pub(crate) fn health_metrics(app: &App, out: &mut Registry) {
    app.brain().read(HealthCounts::of).write(out);
    let help = "Time from a report of faults to its events in the log.";
    let mut m = out.histogram("muster_signal_commit_seconds", help);
    m.times(&[], &app.agents().signal_commit());
    watch_metrics(&app.agents().health(), out);
}

fn watch_metrics(h: &HealthStats, out: &mut Registry) {
    let mut m = out.counter("muster_findings_total", "Findings since this server started.");
    for (kind, n) in &h.opened {
        m.put(&[("kind", kind)], n);
    }
    let help = "Time from a fault of hardware until the work resumed, by part. What Muster ended itself is not counted.";
    let mut m = out.histogram("muster_recovery_seconds", help);
    for (part, times) in PARTS.iter().zip(&h.parts) {
        m.times(&[("part", part)], times);
    }
    // A name that dashboards of other makers know.
    let name = "fault_quarantine_node_mtbi_seconds";
    let help = "Time that a node was in service before it was taken out.";
    out.histogram(name, help).times(&[], &h.between);
    let help = "Time of one evaluation of everything reported.";
    out.histogram("muster_watch_evaluation_seconds", help).times(&[], &h.look);
    for (name, help, n) in [
        ("muster_watch_accepted_total", "Rows, steps and heartbeats that were accepted.", h.taken),
        ("muster_watch_dropped_total", "Those that found no space.", h.dropped),
        ("muster_watch_findings_reported_total", "Findings reported to the log.", h.reported),
        (
            "muster_watch_findings_lost_total",
            "Findings dropped because the log accepted none for too long.",
            h.lost,
        ),
        ("muster_watch_failures_total", "Times that a detector failed.", h.failures),
    ] {
        out.counter(name, help).set(n);
    }
    let help = "Time used to read what was reported.";
    out.counter("muster_watch_busy_seconds_total", help).set(h.rows_busy.as_secs_f64());
}

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
        let plain = |page: Option<RenderedPage>| page.unwrap().plain;
        let long = Duration::from_secs(3600);
        let all = futures::future::join_all((0..16).map(|_| ask(false, long))).await;
        for page in all {
            assert_eq!(plain(page), "0");
        }
        assert_eq!(plain(ask(true, long).await), "1", "a page of its own");
        assert_eq!(plain(ask(false, Duration::ZERO).await), "2", "it grew old");
    }

    #[test]
    fn buckets_add_up_and_labels_are_escaped() {
        let m = HttpMetrics::default();
        m.record(&Method::GET, "/v1/jobs", 200, Duration::from_micros(300));
        m.record(&Method::GET, "/v1/jobs", 200, Duration::from_millis(3));
        m.record(&Method::from_bytes(b"BREW").unwrap(), "a\"b\\", 405, Duration::from_secs(60));
        let t = Registry::page(|out| m.write(out));
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
        assert!(t.contains("muster_http_request_seconds_sum{route=\"/v1/jobs\"} 0.0033\n"));
        assert!(
            t.contains("muster_http_request_seconds_bucket{route=\"a\\\"b\\\\\",le=\"+Inf\"} 1\n")
        );
    }
}
