//! Figures for Prometheus about the fleet, the queue and what became of both. Their number is
//! bounded by kinds of GPUs, priority classes and projects, never by GPUs, nodes or jobs. Figures
//! by project are only for who shows a token: see [`super::site::metrics`].

use super::registry::Family;
use super::{App, Registry};
use muster_engine::State;
use muster_metering::{Part, Work, wanted_milli};
use muster_model::job::{Job, JobState};
use muster_model::names::{Label, NodeName};
use muster_model::node::Node;
use muster_model::spec::Priority;
use muster_model::units::{Span, Time};
use muster_server::brain::Brain;
use muster_server::metering::{CLASSES, Gauges, OUTCOMES};
use std::collections::BTreeMap;

/// Kinds of GPUs, and projects, that are distinguished.
const NAMES: usize = 64;
/// Under this name the others are listed.
const OTHERS: &str = "(others)";
/// What GPUs are to new work, in the order of [`gpu_uses`].
pub(super) const GPU_USES: [&str; 4] = ["used", "free", "out", "spare"];
/// Shares of those who wait for which their wait is reported.
const QUANTILES: [(usize, &str); 4] = [(50, "0.5"), (90, "0.9"), (99, "0.99"), (100, "1")];

fn named<'a, T: Default>(map: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let known = map.contains_key(name) || map.len() < NAMES;
    map.entry(if known { name } else { OTHERS }.to_owned()).or_default()
}

/// How many GPUs of a node are used, free, out and spare: [`muster_engine::GpuUse`].
pub(super) fn gpu_uses(s: &State, n: &Node, maintenance: &BTreeMap<NodeName, Label>) -> [u64; 4] {
    let all = s.gpu_use(n, maintenance.contains_key(&n.name));
    [all.used, all.free, all.out, all.spare].map(|set| u64::from(set.len()))
}

/// Jobs that wait.
#[derive(Default)]
struct Waiting {
    jobs: u64,
    milli: u64,
}

#[derive(Default)]
struct FleetSnapshot {
    /// By kind of GPU: used, free, out, spare.
    gpus: BTreeMap<String, [u64; 4]>,
    /// By priority class; held ones apart.
    queue: BTreeMap<(Priority, bool), Waiting>,
    /// How long they wait, in seconds.
    waits: BTreeMap<Priority, Vec<u64>>,
    /// By project: GPUs allocated and waited for, in thousandths, and jobs that run and wait.
    projects: BTreeMap<String, [u64; 4]>,
}

fn count_fleet(brain: &Brain, now: muster_model::Time) -> FleetSnapshot {
    let mut out = FleetSnapshot::default();
    brain.read(|s| look_at_nodes(s, now, &mut out));
    super::jobs::each(brain, |j| look_at_job(j, now, &mut out));
    out.waits.values_mut().for_each(|w| w.sort_unstable());
    out
}

fn look_at_nodes(s: &State, now: muster_model::Time, out: &mut FleetSnapshot) {
    let maintenance = s.nodes_in_maintenance(now);
    for n in s.nodes.values() {
        let uses = gpu_uses(s, n, &maintenance);
        if uses == [0; 4] {
            continue;
        }
        let all = named(&mut out.gpus, n.sku());
        all.iter_mut().zip(uses).for_each(|(all, n)| *all += n);
    }
}

fn look_at_job(j: &Job, now: muster_model::Time, out: &mut FleetSnapshot) {
    if j.state.is_final() {
        return;
    }
    let project = named(&mut out.projects, j.project.as_str());
    if j.state == JobState::Queued {
        let milli = wanted_milli(j);
        let held = j.held.is_some();
        let w = out.queue.entry((j.spec.priority, held)).or_default();
        w.jobs += 1;
        w.milli += milli;
        if !held {
            let waited = now.since(j.submitted_at).0 / 1000;
            out.waits.entry(j.spec.priority).or_default().push(waited);
            project[1] += milli;
            project[3] += 1;
        }
    } else if let Some(a) = &j.attempt {
        // One whose ranks have all ended has no GPUs any more, and does not run.
        project[0] += muster_metering::allocated_milli(a);
        project[2] += u64::from(a.freed_at.is_none());
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for a graph")]
fn gpus(milli: u64) -> f64 {
    milli as f64 / 1e3
}

#[allow(clippy::cast_precision_loss, reason = "a figure for a graph")]
fn gpu_seconds(v: u128) -> f64 {
    v as f64 / 1e6
}

/// Writes them; those by project only where they may be seen.
pub(crate) fn write(app: &App, projects: bool, out: &mut Registry) {
    let now = app.brain().now();
    let l = count_fleet(app.brain(), now);
    fleet(&l, out);
    queue(&l, out);
    let metering = app.agents().metering();
    jobs(metering, out);
    let gauges = metering.gauges();
    lately(&gauges, out);
    telemetry(metering, out);
    if let Some(h) = app.agents().history().stats() {
        history(&h, now, out);
    }
    if projects {
        by_project(&l, &gauges, out);
    }
}

fn fleet(l: &FleetSnapshot, out: &mut Registry) {
    let help =
        "GPUs by kind and use; new work may be placed on free ones now, not on those that are out.";
    let mut m = out.gauge("muster_sku_gpus", help);
    for (sku, counts) in &l.gpus {
        for (state, n) in GPU_USES.iter().zip(counts) {
            m.put(&[("sku", sku), ("state", state)], n);
        }
    }
}

fn queue(l: &FleetSnapshot, out: &mut Registry) {
    let m = out.gauge("muster_queue_jobs", "Jobs that wait, by priority; held ones apart.");
    put_queue(l, m, |w| w.jobs.to_string());
    let m = out.gauge("muster_queue_gpus", "GPUs that are waited for.");
    put_queue(l, m, |w| gpus(w.milli).to_string());
    let help = "How long jobs that wait now have waited, for shares of them.";
    let mut m = out.gauge("muster_queue_wait_seconds", help);
    for (class, word) in CLASSES {
        let waits = l.waits.get(&class).map_or(&[][..], Vec::as_slice);
        for (percent, quantile) in QUANTILES {
            let at = (waits.len() * percent).div_ceil(100).saturating_sub(1);
            let v = waits.get(at).copied().unwrap_or(0);
            m.put(&[("priority", word), ("share", quantile)], v);
        }
    }
}

fn put_queue(l: &FleetSnapshot, mut m: Family<'_>, f: impl Fn(&Waiting) -> String) {
    let none = Waiting::default();
    for (class, word) in CLASSES {
        for (held, is) in [(false, "false"), (true, "true")] {
            let w = l.queue.get(&(class, held)).unwrap_or(&none);
            m.put(&[("priority", word), ("held", is)], f(w));
        }
    }
}

fn jobs(metering: &muster_server::metering::Metering, out: &mut Registry) {
    let c = metering.counts();
    out.counter("muster_jobs_submitted_total", "Jobs that came.").set(c.submitted);
    let help = "Jobs that ended, by attribution.";
    let mut m = out.counter("muster_jobs_ended_total", help);
    for outcome in OUTCOMES {
        m.put(&[("outcome", outcome)], c.ended.get(outcome).copied().unwrap_or(0));
    }
    let help = "Jobs that succeeded at their first attempt.";
    out.counter("muster_jobs_succeeded_first_total", help).set(c.first);
    let help = "Attempts that were interrupted, by attribution: not by the job itself.";
    let mut m = out.counter("muster_interruptions_total", help);
    for cause in &OUTCOMES[2..5] {
        m.put(&[("cause", cause)], c.interrupted.get(cause).copied().unwrap_or(0));
    }
    let help = "Attempts that were stopped for others.";
    out.counter("muster_preemptions_total", help).set(c.preempted);
    let help = "Time from a job's submission to its first place.";
    let mut m = out.histogram("muster_job_wait_seconds", help);
    for (class, h) in metering.waits() {
        m.times(&[("priority", class)], &h);
    }
}

/// What became of GPUs in the last day.
fn lately(g: &Gauges, out: &mut Registry) {
    let w = &g.day;
    let help =
        "Where GPU time of the last 24 h went; queued was waited for, held kept from starting.";
    let mut m = out.gauge("muster_gpu_seconds_1d", help);
    let parts = w.parts();
    for part in Part::ALL {
        m.put(&[("part", part.word())], gpu_seconds(parts.get(part)));
    }
    let ratio = |v: Option<u32>| v.map_or(f64::NAN, |v| f64::from(v) / 1e6);
    for (name, help, v) in [
        (
            "muster_goodput_1d",
            "Productive of all GPU time that was allocated in 24 h.",
            ratio(w.goodput()),
        ),
        (
            "muster_ettr_1d",
            "Productive of all GPU time of 24 h, waiting included.",
            ratio(w.ettr()),
        ),
        (
            "muster_allocation_1d",
            "Allocated of all GPU time in service in 24 h.",
            ratio(w.allocation(&g.supply)),
        ),
        (
            "muster_availability_1d",
            "In service of all GPU time there was in 24 h.",
            ratio(g.supply.availability()),
        ),
    ] {
        out.gauge(name, help).set(shown(v));
    }
    let seconds = |v: Option<muster_model::Span>| {
        v.map_or_else(|| "NaN".into(), |s| super::metrics::seconds(s.0 * 1000))
    };
    let help = "Mean time between interruptions of a job in 24 h.";
    out.gauge("muster_mtbi_seconds_1d", help).set(seconds(w.mtbi()));
    let help = "Mean time from an interruption until the work resumed in 24 h. What Muster ended itself is counted, too.";
    out.gauge("muster_recovery_mean_seconds_1d", help).set(seconds(w.recover()));
    let help = "GPUs in service as reports and objectives count them, by kind: allocated, free and on spare nodes. A \
                maintenance window and an open breaker keep new work away from them and leave them in service; \
                muster_sku_gpus has what may take new work now.";
    let mut m = out.gauge("muster_gpus_in_service", help);
    for (sku, hows) in &g.counts {
        m.put(&[("sku", sku)], hows.get(&None).copied().unwrap_or(0));
    }
    let help = "GPUs that are not in service, and why; a maintenance window is no reason.";
    let mut m = out.gauge("muster_gpus_out_of_service", help);
    for (sku, hows) in &g.counts {
        for (how, n) in hows {
            if let Some(cause) = how {
                m.put(&[("sku", sku), ("cause", cause.word())], n);
            }
        }
    }
}

fn shown(v: f64) -> String {
    if v.is_nan() { "NaN".into() } else { format!("{v:.6}") }
}

fn telemetry(metering: &muster_server::metering::Metering, out: &mut Registry) {
    let t = metering.telemetry_status();
    let help = "Nodes that report their GPUs, and that did and do not any more.";
    let mut m = out.gauge("muster_telemetry_nodes", help);
    for (state, n) in [("fresh", t.nodes), ("silent", t.silent)] {
        m.put(&[("state", state)], n);
    }
    let oldest = super::metrics::seconds(t.oldest.0 * 1000);
    let help = "Age of the oldest of what fresh nodes reported.";
    out.gauge("muster_telemetry_oldest_seconds", help).set(oldest);
    let busy = t.seen.busy().map_or(f64::NAN, gpus);
    let help = "How busy GPUs are, as they report (0 to 1).";
    out.gauge("muster_gpu_utilisation", help).set(shown(busy));
    let drew = t.seen.total_power_mw().map_or(0, |mw| mw / 1000);
    out.gauge("muster_gpu_power_watts", "What all GPUs draw, as they report.").set(drew);
}

fn history(h: &muster_server::history::HistoryStats, now: Time, out: &mut Registry) {
    let help = "Bytes of the files with the history of metrics.";
    out.gauge("muster_history_bytes", help).set(h.store.bytes);
    out.gauge("muster_history_series", "Series of the history of metrics.").set(h.store.series);
    let help = "Rows of telemetry for the history: accepted, dropped because the queue was full, or lost to \
                an error.";
    let mut m = out.counter("muster_history_rows_total", help);
    for (result, n) in [("taken", h.taken), ("dropped", h.dropped), ("failed", h.failed)] {
        m.put(&[("result", result)], n);
    }
    let help = "Samples that came too late for the history.";
    out.counter("muster_history_late_samples_total", help).set(h.store.late);
    let help = "Files of the history that were deleted: too old, or over the limit of bytes.";
    let mut m = out.counter("muster_history_deleted_files_total", help);
    for (why, n) in [("age", h.store.expired_files), ("bytes", h.store.dropped_files)] {
        m.put(&[("why", why)], n);
    }
    // By their steps: 10s, 1m.
    let step = |ms: i64| Span(u64::try_from(ms).unwrap_or(0)).to_string();
    let help = "How far back the history of metrics reaches, by the length of its steps.";
    let mut m = out.gauge("muster_history_reach_seconds", help);
    for t in &h.tiers {
        let reach = t.known_from.map_or(0, |at| now.since(Time(at)).0);
        m.put(&[("step", &step(t.step_ms))], reach / 1000);
    }
    let help = "Whether steps of this length reach back less far than they are to, because the limit of \
                bytes left no space (1), or not (0).";
    let mut m = out.gauge("muster_history_short", help);
    for t in &h.tiers {
        m.put(&[("step", &step(t.step_ms))], u8::from(t.is_short(now.0)));
    }
    let help =
        "Files of the history that were found damaged, and blocks that could not be written.";
    let mut m = out.counter("muster_history_damage_total", help);
    for (what, n) in [("file", h.store.damaged_files), ("block", h.store.lost_blocks)] {
        m.put(&[("what", what)], n);
    }
}

fn by_project(l: &FleetSnapshot, g: &Gauges, out: &mut Registry) {
    for (name, help, n) in [
        ("muster_project_gpus_allocated", "GPUs allocated to a project.", 0),
        ("muster_project_gpus_queued", "GPUs that a project waits for.", 1),
    ] {
        let mut m = out.gauge(name, help);
        for (project, v) in &l.projects {
            m.put(&[("project", project)], gpus(v[n]));
        }
    }
    let help = "Jobs of a project with allocated resources, and those that wait.";
    let mut m = out.gauge("muster_project_jobs", help);
    for (project, v) in &l.projects {
        for (state, n) in [("placed", v[2]), ("queued", v[3])] {
            m.put(&[("project", project), ("state", state)], n);
        }
    }
    let help = "Where GPU time of a project went in the last 24 h.";
    let mut m = out.gauge("muster_project_gpu_seconds_1d", help);
    for (project, w) in &g.projects {
        let parts = w.parts();
        for part in Part::ALL {
            let labels = [("project", project.as_str()), ("part", part.word())];
            m.put(&labels, gpu_seconds(parts.get(part)));
        }
    }
    let help = "Jobs of a project that ended in the last 24 h.";
    let mut m = out.gauge("muster_project_jobs_ended_1d", help);
    for (project, w) in &g.projects {
        for (outcome, n) in outcomes(w) {
            m.put(&[("project", project), ("outcome", outcome)], n);
        }
    }
}

fn outcomes(w: &Work) -> [(&'static str, u64); 6] {
    let f = &w.failed;
    [
        ("succeeded", w.succeeded),
        ("application", f.application),
        ("infrastructure", f.infrastructure),
        ("platform", f.platform),
        ("unknown", f.unknown),
        ("cancelled", w.cancelled),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_metering::Supply;

    /// Nodes that drain may still have work, so that more is allocated than is in service.
    #[test]
    fn never_more_is_allocated_than_is_in_service() {
        let mut g = Gauges::default();
        let page = |g: &Gauges| Registry::page(|out| lately(g, out));
        assert!(page(&g).contains("\nmuster_allocation_1d NaN\n"), "{}", page(&g));
        g.day.held.add(Part::Productive, 2000);
        g.supply = Supply { in_service: 1000, ..Supply::default() };
        assert!(page(&g).contains("\nmuster_allocation_1d 1.000000\n"), "{}", page(&g));
        assert!(page(&g).contains("\nmuster_availability_1d 1.000000\n"), "{}", page(&g));
    }
}
