//! Metrics over time, of a node or of a job, for longer than the last minutes.

use super::allocation_window::AllocationWindow;
use super::{FIELDS, USUAL};
use crate::auth::{Caller, Reader};
use crate::console::own_gpus;
use crate::error::{Failure, Reply};
use crate::extract::{Query, shown};
use crate::{App, answer, jobs};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{HistoryMetricList, HistoryQuery, MetricSeries, MetricsHistory, TelemetryField};
use muster_history::{Cell, Points, SeriesQuery};
use muster_model::Seq;
use muster_model::job::PastAttempt;
use muster_model::names::{NameError, NodeName};
use muster_model::units::{Span, Time};
use muster_server::history::{AllocatedGpus, History, NoHistory, STEP_TIME, StepSeries};
use std::collections::BTreeMap;

/// Points of a series when nobody says.
const POINTS: u32 = 600;
const POINTS_MAX: u32 = 2000;
/// Series of one answer (and metrics that may be named for them), and points of all of them.
const LINES_MAX: usize = 256;
const ALL_POINTS_MAX: usize = 300_000;
/// Series that may be read for one answer.
const READ_MAX: usize = 100_000;
/// Bytes of files that may be read for one answer.
const BYTES_MAX: u64 = 1 << 30;
/// GPUs of a job that have a series each.
const ONE_BY_ONE: usize = 16;
/// The longest time: what is kept, and some days.
const LONGEST: Span = Span::hours(24 * 100);
const USUAL_TIME: Span = Span::hours(1);
const SOURCE: &str = "builtin";

/// Metrics that are kept in addition to those of [`FIELDS`].
const MORE: [(&str, &str, &str); 15] = [
    (STEP_TIME, "Step time", "ms"),
    ("energy", "Energy", "J"),
    ("ecc_sbe", "Correctable ECC errors", ""),
    ("ecc_dbe", "Uncorrectable ECC errors", ""),
    ("remapped_rows", "Remapped rows", ""),
    ("remap_pending", "Row remap pending", ""),
    ("remap_failed", "Row remap failed", ""),
    ("replay", "PCIe replays", ""),
    ("nvlink_errors", "NVLink errors", ""),
    ("thermal_margin", "Thermal margin", "°C"),
    ("pcie_width", "PCIe lanes", ""),
    ("pcie_gen", "PCIe generation", ""),
    ("power_limit", "Power limit", "W"),
    ("dstate", "Processes in uninterruptible sleep", ""),
    ("agent.gap_ms", "Longest gap between samples of the agent", "ms"),
];

/// What a metric is called, and its unit.
fn described(name: &str) -> TelemetryField {
    let known = FIELDS.iter().chain(&MORE).find(|(n, ..)| *n == name);
    let (title, unit) = match known {
        Some((_, title, unit)) => (*title, *unit),
        None if name.ends_with("_ms") => (name, "ms"),
        None if name.ends_with("_s") => (name, "s"),
        None if name.ends_with("_bytes") => (name, "B"),
        None => (name, ""),
    };
    TelemetryField { name: name.into(), title: title.into(), unit: unit.into() }
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HistoryRequest {
    metrics: Vec<String>,
    from: Option<Time>,
    to: Option<Time>,
    points: usize,
}

fn asked(q: &HistoryQuery) -> Reply<HistoryRequest> {
    let mut metrics: Vec<String> = Vec::new();
    let named = q.metrics.as_deref().map(|text| text.split(',').map(str::trim).collect());
    for (n, name) in named.unwrap_or_else(|| USUAL.to_vec()).into_iter().enumerate() {
        if n == LINES_MAX {
            return Err(Failure::bad(format!("more than {LINES_MAX} metrics are named"))
                .field("metrics")
                .hint("name each once; `muster history metrics` lists them"));
        }
        if name.is_empty() {
            return Err(Failure::bad("the name of a metric is empty")
                .field("metrics")
                .hint("write them like util,power; `muster history metrics` lists them"));
        }
        if !metrics.iter().any(|m| m == name) {
            metrics.push(name.to_owned());
        }
    }
    if q.metrics.is_none() && q.job.is_some() {
        metrics.push(STEP_TIME.to_owned());
    }
    let points = q.points.unwrap_or(POINTS);
    if !(2..=POINTS_MAX).contains(&points) {
        return Err(Failure::bad(format!("`points` is from 2 to {POINTS_MAX}")).field("points"));
    }
    for (field, time) in [("from", q.from), ("to", q.to)] {
        if time.is_some_and(|t| t < 0) {
            return Err(Failure::bad("a time is in milliseconds since 1970").field(field));
        }
    }
    let points = usize::try_from(points).unwrap_or(usize::MAX);
    Ok(HistoryRequest { metrics, from: q.from.map(Time), to: q.to.map(Time), points })
}

/// Names that are none are refused by name; those of hosts only by those who may see them.
fn check_names(history: &History, caller: &Caller, metrics: &[String]) -> Reply<()> {
    let kept = history.metrics().map_err(no_history)?;
    let whole = caller.actor.project.is_none();
    let known = |name: &str| {
        FIELDS.iter().chain(&MORE).any(|(n, ..)| *n == name)
            || (whole && kept.iter().any(|k| **k == *name))
    };
    match metrics.iter().find(|m| !known(m)) {
        None => Ok(()),
        Some(m) => Err(Failure::bad(format!("no history is stored of a metric `{}`", shown(m)))
            .field("metrics")
            .hint("`muster history metrics` lists them")),
    }
}

/// The time of an answer; where nobody says, from the first to the last of its sources.
fn time_of(asked: &HistoryRequest, now: Time, sources: &Sources) -> Reply<(Time, Time)> {
    let to = asked.to.or(sources.last).unwrap_or(now);
    let usual = || sources.first.unwrap_or(to - USUAL_TIME).max(to - LONGEST).min(to - Span(1));
    let from = asked.from.unwrap_or_else(usual);
    if from >= to {
        return Err(Failure::bad("`from` is not before `to`").field("from"));
    }
    if to.since(from) > LONGEST {
        return Err(Failure::bad(format!("more than {LONGEST} cannot be asked for at once"))
            .field("from")
            .hint("ask for a shorter time; nothing is stored for longer than 90 days"));
    }
    Ok((from, to))
}

/// A GPU of the answer, or a node itself, and the time of it that may be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    node: NodeName,
    gpu: Option<u32>,
    since: Time,
    until: Time,
}

/// Everything that an answer is made of.
#[derive(Debug, Default)]
struct Sources {
    all: Vec<Source>,
    /// The step times of a job, attempt by attempt.
    steps: Vec<StepSeries>,
    /// Where it begins when nobody says.
    first: Option<Time>,
    /// And where it ends; now when absent.
    last: Option<Time>,
    /// They are put together where they are many.
    gang: bool,
}

const EVER: (Time, Time) = (Time(i64::MIN), Time(i64::MAX));

fn of_node(app: &App, caller: &Caller, name: &str, gpu: Option<u32>) -> Reply<(Seq, Sources)> {
    let node: NodeName =
        name.parse().map_err(|e: NameError| Failure::bad(e.to_string()).field("node"))?;
    let found = app.brain().read(|s| {
        let n = s.nodes.get(&node)?;
        let gpus: Vec<u32> = n.inventory.gpus.iter().map(|g| g.index).collect();
        Some((s.seq, gpus, own_gpus(s, caller, &node)))
    });
    let (seq, gpus, own) = found.ok_or_else(|| {
        Failure::not_found(format!("there is no node {node}")).hint("`muster nodes` lists them")
    })?;
    let wanted = |g: u32| gpu.is_none_or(|only| only == g);
    let source = |g: Option<u32>, (since, until): (Time, Time)| Source {
        node: node.clone(),
        gpu: g,
        since,
        until,
    };
    let mut out = Sources::default();
    match own {
        None => {
            out.all.extend(gpus.iter().filter(|g| wanted(**g)).map(|g| source(Some(*g), EVER)));
            if gpu.is_none() {
                out.all.push(source(None, EVER));
            } else if out.all.is_empty() {
                return Err(Failure::not_found(format!("node {node} has no such GPU")).field("gpu"));
            }
        }
        // Of a node that is shared, a project sees its own GPUs from when they are allocated to it.
        Some(own) => {
            for (set, since) in own {
                let mine = set.iter().filter(|g| wanted(*g));
                out.all.extend(mine.map(|g| source(Some(g), (since, EVER.1))));
            }
            if out.all.is_empty() {
                return Err(Failure::not_allowed(format!(
                    "no such GPU of node {node} is allocated to your project"
                ))
                .hint("ask with job=ID for the GPUs of a job"));
            }
        }
    }
    Ok((seq, out))
}

fn of_job(app: &App, caller: &Caller, text: &str, now: Time) -> Reply<(Seq, Sources)> {
    let job = jobs::named(app, caller, text)?;
    let seq = app.brain().read(|s| s.seq);
    let history = app.agents().history();
    let known = history.allocations(job.id);
    let mut out = Sources { gang: true, ..Sources::default() };
    // A number of a job may have been another's before a restore.
    let its = |s: &StepSeries| {
        let is = |no: u32, at: Time| (no, at) == (s.attempt, s.placed_at);
        job.past.iter().any(|p| is(p.no, p.placed_at))
            || job.attempt.as_ref().is_some_and(|a| is(a.no, a.placed_at))
    };
    out.steps = history.steps_of(job.id).unwrap_or_default();
    out.steps.retain(its);
    let mut placed: Vec<(u32, Vec<AllocatedGpus>)> = Vec::new();
    for p in &job.past {
        let same = known.iter().find(|a| a.attempt == p.no && a.placed_at == p.placed_at);
        placed.extend(same.map(|a| (p.no, a.slots.clone())));
        out.first = Some(out.first.map_or(p.placed_at, |first| first.min(p.placed_at)));
    }
    match &job.attempt {
        Some(a) => {
            let slots = a.placement.slots.iter().map(|s| AllocatedGpus {
                node: s.node.clone(),
                gpus: s.gpus,
                shared: s.part.is_some(),
            });
            placed.push((a.no, slots.collect()));
            out.first = Some(out.first.map_or(a.placed_at, |first| first.min(a.placed_at)));
        }
        None => out.last = job.past.iter().map(PastAttempt::freed).max(),
    }
    for (no, slots) in placed {
        let allocated = AllocationWindow::by(&job, Some(no), now);
        for AllocatedGpus { node, gpus, shared } in &slots {
            // Whoever sees the whole site sees also what a rank that is over left.
            let whole = caller.actor.project.is_none();
            let Some((since, until)) = allocated.time_of(node, whole) else { continue };
            // One rank may end long before the others, and its GPUs go to other work.
            let next = |gpu| history.next_allocation(node, gpu, since).filter(|_| !shared);
            out.all.extend(gpus.iter().map(|gpu| Source {
                node: node.clone(),
                gpu: Some(gpu),
                since,
                until: next(gpu).map_or(until, |at| until.min(at)),
            }));
        }
    }
    Ok((seq, out))
}

/// One line of the answer.
type Line = (String, Option<NodeName>, Option<u32>);
/// A GPU of a node, or the node itself.
type SeriesSubject<'a> = (&'a NodeName, Option<u32>);

/// Which series go into which lines; lines that nothing was ever kept of are left out.
fn lines(
    history: &History,
    sources: &Sources,
    metrics: &[String],
) -> Result<(Vec<Line>, Vec<SeriesQuery>), NoHistory> {
    let mut gpus: Vec<SeriesSubject<'_>> = sources.all.iter().map(|s| (&s.node, s.gpu)).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let together = sources.gang && gpus.len() > ONE_BY_ONE;
    let mut by_place: BTreeMap<SeriesSubject<'_>, Vec<&Source>> = BTreeMap::new();
    for s in &sources.all {
        by_place.entry((&s.node, s.gpu)).or_default().push(s);
    }
    let mut nodes: Vec<&NodeName> = gpus.iter().map(|(node, _)| *node).collect();
    nodes.dedup();
    let mut numbers: BTreeMap<(usize, Option<SeriesSubject<'_>>), usize> = BTreeMap::new();
    let mut wants = Vec::new();
    for node in nodes {
        for (id, key) in history.series_of(node.as_str())? {
            let Some(metric) = metrics.iter().position(|m| **m == *key.metric) else { continue };
            for s in by_place.get(&(node, key.gpu)).into_iter().flatten() {
                let place = (!together).then_some((node, key.gpu));
                let next = numbers.len();
                let line = *numbers.entry((metric, place)).or_insert(next);
                let (since, until) = (s.since.0, s.until.0);
                wants.push(SeriesQuery { series: id, line, since, until, regular: true });
            }
        }
    }
    // Of all ranks together, one attempt after the other.
    for s in &sources.steps {
        let Some(metric) = metrics.iter().position(|m| m == STEP_TIME) else { break };
        let next = numbers.len();
        let line = *numbers.entry((metric, None)).or_insert(next);
        let (since, until) = (s.since.0, s.until.0);
        // A step may take longer than a point.
        wants.push(SeriesQuery { series: s.series, line, since, until, regular: false });
    }
    let mut lines: Vec<(usize, Line)> = Vec::with_capacity(numbers.len());
    for ((metric, place), at) in numbers {
        let line = (
            metrics[metric].clone(),
            place.map(|(node, _)| node.clone()),
            place.and_then(|(_, gpu)| gpu),
        );
        lines.push((at, line));
    }
    // In the order of the metrics asked for, then of nodes and GPUs.
    let mut order = vec![0; lines.len()];
    for (new, (old, _)) in lines.iter().enumerate() {
        order[*old] = new;
    }
    wants.iter_mut().for_each(|w| w.line = order[w.line]);
    Ok((lines.into_iter().map(|(_, line)| line).collect(), wants))
}

fn no_history(why: NoHistory) -> Failure {
    let message = why.to_string();
    match why {
        NoHistory::Off => {
            Failure::conflict(message).hint("start the server with --history on to keep one")
        }
        NoHistory::TooMuch { .. } => Failure::bad(message)
            .field("from")
            .hint("ask for a shorter time, fewer metrics, or one GPU"),
        NoHistory::Opening | NoHistory::Failed(_) => Failure::unavailable(message),
    }
}

fn point(cell: &Cell) -> Option<[f32; 3]> {
    cell.mean().map(|mean| [cell.min, mean, cell.max])
}

fn answer_of(lines: Vec<Line>, counts: &[u32], points: Points) -> MetricsHistory {
    let series = lines.into_iter().zip(counts).zip(&points.lines);
    let series = series.map(|(((metric, node, gpu), gpus), cells)| MetricSeries {
        unit: described(&metric).unit,
        node: node.map(|n| n.to_string()),
        gpu,
        // Steps are of ranks.
        gpus: if metric == STEP_TIME { 0 } else { *gpus },
        metric,
        points: cells.iter().map(point).collect(),
    });
    // Where a job's steps would be is not empty only where its ranks reported some.
    let sampled = |s: &MetricSeries| s.points.iter().any(Option::is_some);
    let series = series.filter(|s| s.metric != STEP_TIME || sampled(s));
    MetricsHistory {
        from: points.from,
        to: points.to,
        step_ms: u64::try_from(points.step_ms).unwrap_or(0),
        source: SOURCE.into(),
        known_from: points.known_from,
        series: series.collect(),
    }
}

/// How many different GPUs are in each line.
fn gpus_of(lines: usize, wants: &[SeriesQuery]) -> Vec<u32> {
    let mut all: Vec<(usize, u32)> = wants.iter().map(|w| (w.line, w.series.0)).collect();
    all.sort_unstable();
    all.dedup();
    let mut out = vec![0u32; lines];
    all.iter().for_each(|(line, _)| out[*line] += 1);
    out
}

/// Get metrics over time, of a node or of the GPUs of a job. The step follows from how far back and
/// how many points; of a job with more than 16 GPUs all are put together, metric by metric. A job has
/// `step_time`, too: what its ranks reported, all of them together.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/metrics/history", tag = "metrics", params(HistoryQuery),
    responses((status = 200, description = "Points at equal distances.", body = MetricsHistory))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<HistoryQuery>,
) -> Reply {
    // Before the job is read: what is allocated to it then was until now.
    let now = app.brain().now();
    let asked = asked(&q)?;
    // All of it aside: whoever writes the history may hold it while the disk is slow.
    let (site, reader) = (app.clone(), caller.clone());
    let work = move || {
        let (seq, sources) = match (&q.node, &q.job) {
            (Some(node), None) => of_node(&site, &reader, node, q.gpu)?,
            (None, Some(_)) if q.gpu.is_some() => {
                return Err(Failure::bad("`gpu` goes with `node`").field("gpu"));
            }
            (None, Some(job)) => of_job(&site, &reader, job, now)?,
            _ => {
                return Err(Failure::bad("pass either `node` or `job`")
                    .field("node")
                    .hint("write node=NAME, with gpu=N for one GPU, or job=ID"));
            }
        };
        let (from, to) = time_of(&asked, now, &sources)?;
        let history = site.agents().history();
        check_names(history, &reader, &asked.metrics)?;
        let (lines, wants) = lines(history, &sources, &asked.metrics).map_err(no_history)?;
        if lines.len() > LINES_MAX
            || lines.len() * asked.points > ALL_POINTS_MAX
            || wants.len() > READ_MAX
        {
            let message =
                format!("these are {} series of up to {} points", lines.len(), asked.points);
            return Err(Failure::bad(message).field("metrics").hint(format!(
                "ask for fewer metrics or points: {LINES_MAX} series and {ALL_POINTS_MAX} points at once"
            )));
        }
        let gpus = gpus_of(lines.len(), &wants);
        let points = history.read(wants, from, to, asked.points, BYTES_MAX).map_err(no_history)?;
        Ok((seq, answer_of(lines, &gpus, points)))
    };
    let (seq, body) = app.aside(&caller.token, work).await??;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &body))
}

/// List the metrics of which a history is stored.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/metrics/history/metrics", tag = "metrics",
    responses((status = 200, description = "The metrics, by name.", body = HistoryMetricList))))]
pub(crate) async fn metrics(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let seq = app.brain().read(|s| s.seq);
    let history = app.agents().history().clone();
    let kept = app.aside(&caller.token, move || history.metrics()).await?;
    let source = if kept == Err(NoHistory::Off) { "off" } else { SOURCE };
    let mut names: Vec<String> = FIELDS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    names.push(STEP_TIME.to_owned());
    // Names of hosts' metrics have paths of file systems in them.
    if caller.actor.project.is_none() {
        names.extend(kept.iter().flatten().map(ToString::to_string));
    }
    names.sort();
    names.dedup();
    let items = names.iter().map(|n| described(n)).collect();
    let body = HistoryMetricList { source: source.into(), items };
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::history::{row, take};
    use crate::tests::site;

    #[tokio::test(flavor = "multi_thread")]
    async fn many_gpus_of_a_job_are_one_series_a_metric() {
        let s = site().await;
        let start = Time(s.brain.now().0 / 600_000 * 600_000);
        for i in 0..6 {
            for (node, util) in [("n1", 10.0), ("n2", 20.0), ("n3", 60.0)] {
                take(&s, &row(node, start + Span(i * 10_000), util)).await;
            }
        }
        let source = |node: &str, gpu: u32| Source {
            node: node.parse().unwrap(),
            gpu: Some(gpu),
            since: start,
            until: start + Span(40_000),
        };
        let of = |nodes: &[&str]| {
            let mut all = Vec::new();
            for node in nodes {
                all.extend((0..8).map(|gpu| source(node, gpu)));
            }
            Sources { all, gang: true, ..Sources::default() }
        };
        let history = s.app.agents().history();
        let metrics = ["power".to_owned(), "util".to_owned()];
        let end = start + Span(60_000);
        let (many, wants) = lines(history, &of(&["n3", "n1", "n2"]), &metrics).unwrap();
        assert_eq!(many, [("util".to_owned(), None, None)], "nobody has power");
        let gpus = gpus_of(many.len(), &wants);
        let points = history.read(wants, start, end, 600, BYTES_MAX).unwrap();
        let answer = answer_of(many, &gpus, points);
        assert_eq!((answer.series.len(), answer.series[0].gpus), (1, 24));
        let points = &answer.series[0].points;
        assert_eq!((points.len(), points[0]), (6, Some([10.0, 30.0, 60.0])));
        assert_eq!(points[4], None, "after it");
        // Sixteen have a series each, in order.
        let (few, wants) = lines(history, &of(&["n3", "n1"]), &metrics).unwrap();
        let n1: NodeName = "n1".parse().unwrap();
        assert_eq!((few.len(), &few[0]), (16, &("util".to_owned(), Some(n1), Some(0))));
        let points = history.read(wants, start, end, 600, BYTES_MAX).unwrap();
        assert_eq!(points.lines[15][0].mean(), Some(60.0));
    }

    #[test]
    fn what_nobody_says_follows_from_the_job() {
        let asked = HistoryRequest { metrics: Vec::new(), from: None, to: None, points: 2 };
        let now = Time(1_000_000_000_000);
        let time = |first, last| {
            let sources = Sources { first, last, ..Sources::default() };
            time_of(&asked, now, &sources).unwrap()
        };
        assert_eq!(time(None, None), (now - USUAL_TIME, now));
        assert_eq!(time(Some(now), None), (now - Span(1), now), "placed this very moment");
        let (old, end) = (now - Span::hours(48), now - Span::hours(24));
        assert_eq!(time(Some(old), Some(end)), (old, end));
        assert_eq!(time(Some(Time(0)), None), (now - LONGEST, now));
    }

    #[test]
    fn metrics_have_units() {
        let unit = |name: &str| described(name).unit;
        assert_eq!([unit("util"), unit("energy"), unit("agent.gap_ms")], ["%", "J", "ms"]);
        assert_eq!(described("fs./data.stalled_s").title, "fs./data.stalled_s");
    }
}
