//! The history of metrics: what taking 100,000 GPUs in costs, how many bytes they take, and how long
//! answers take, compared with VictoriaMetrics on the same data.

mod data;
mod theirs;

use crate::Options;
use crate::report::Report;
use crate::stats::percentile;
use anyhow::{Context, Result};
use data::{GPUS, METRICS, value};
use muster_history::{Limits, SeriesId, SeriesQuery, Store};
use std::path::Path;
use std::time::{Duration, Instant};
use theirs::{Peer, RangeQuery, Rows};
use xtask::proc::TempDir;

const STEP: i64 = 10_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Rows that are made before the clock of the store runs.
const CHUNK: u32 = 64;
/// How often each answer is asked for.
const ASKED: usize = 5;
/// Points of an answer, at most.
const POINTS: usize = 600;

/// Processor time of this thread.
fn cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let secs = Duration::from_secs(u64::try_from(t.tv_sec).unwrap_or(0));
    secs + Duration::from_nanos(u64::try_from(t.tv_nsec).unwrap_or(0))
}

fn limits(sample_ms: i64) -> Limits {
    Limits { bytes: u64::MAX, sample_ms, ..Limits::default() }
}

/// Series of nodes, in the order of their rows.
fn series(store: &mut Store, nodes: u32) -> Result<Vec<Vec<SeriesId>>> {
    let mut all = Vec::new();
    for node in 0..nodes {
        let (name, mut row) = (format!("n{node}"), Vec::new());
        for gpu in 0..GPUS {
            for metric in METRICS {
                row.push(store.series(&name, Some(gpu), metric)?);
            }
        }
        all.push(row);
    }
    Ok(all)
}

/// Takes steps in, row by row; the processor time that took.
fn fill(
    store: &mut Store,
    nodes: &[Vec<SeriesId>],
    start: i64,
    step: i64,
    steps: u64,
) -> Result<Duration> {
    let mut used = Duration::ZERO;
    let width = METRICS.len();
    for n in 0..steps {
        let now = start + step * i64::try_from(n)?;
        let of_10_s = n * u64::try_from(step / STEP)?;
        for (first, chunk) in nodes.chunks(CHUNK as usize).enumerate() {
            let mut rows = Vec::with_capacity(chunk.len());
            for (i, ids) in chunk.iter().enumerate() {
                let node = (first * CHUNK as usize + i) as u64;
                let sample = |(at, id): (usize, &SeriesId)| {
                    let gpu = node * u64::from(GPUS) + (at / width) as u64;
                    (*id, value(gpu, at % width, of_10_s))
                };
                rows.push(ids.iter().enumerate().map(sample).collect::<Vec<_>>());
            }
            let began = cpu();
            for row in &rows {
                store.append(now, row)?;
            }
            used += cpu().saturating_sub(began);
        }
        let began = cpu();
        store.advance(now)?;
        used += cpu().saturating_sub(began);
    }
    Ok(used)
}

/// Bytes of the files below a directory.
fn size(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

/// The median of some tries, in milliseconds.
fn median_ms(mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut all = Vec::new();
    for _ in 0..ASKED {
        let began = Instant::now();
        once()?;
        all.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    percentile(&mut all, 50.0).context("nothing was asked")
}

pub(crate) fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new("history");
    let scratch = TempDir::in_dir(&options.scratch(), "history")?;
    if options.measures("ours") {
        ingest(options, &scratch, &mut report)?;
    }
    quarter(options, &scratch, &mut report)?;
    day(options, &scratch, &mut report)?;
    same_data(options, &scratch, &mut report)?;
    report.note(
        "Targets: 100,000 GPUs with 20 metrics every 10 s in less than one core. Answers are read from files \
         that the system has in memory. Made-up data: bytes of real GPUs differ.",
    );
    Ok(report)
}

/// Midnight so many days ago: the peer takes nothing that is older than what it keeps.
fn days_ago(days: u64) -> Result<i64> {
    let today = jiff::Timestamp::now().as_millisecond() / DAY;
    Ok((today - i64::try_from(days)?) * DAY)
}

/// An hour of the largest site.
fn ingest(options: &Options, scratch: &TempDir, report: &mut Report) -> Result<()> {
    let nodes = options.nodes.unwrap_or(if options.quick { 625 } else { 12_500 });
    let steps: u64 = if options.quick { 90 } else { 360 };
    let gpus = f64::from(nodes * GPUS);
    eprintln!("{gpus} GPUs with {} metrics, {steps} steps of 10 s", METRICS.len());
    let dir = scratch.sub("ingest")?;
    let mut store = Store::open(&dir, limits(STEP))?;
    let ids = series(&mut store, nodes)?;
    // A whole day: files begin with it.
    let start = 20_000 * DAY;
    let used = fill(&mut store, &ids, start, STEP, steps)?;
    let began = cpu();
    store.flush(start + STEP * i64::try_from(steps)?)?;
    let used = (used + cpu().saturating_sub(began)).as_secs_f64();
    let seconds = steps as f64 * 10.0;
    let samples = gpus * METRICS.len() as f64 * steps as f64;
    report.ours("ingest_cores", "cores", used / seconds);
    report.ours("ingest_cores_100k_gpus", "cores", used / seconds * 100_000.0 / gpus);
    report.ours("ingest_samples", "million samples/cpu s", samples / used / 1e6);
    let a_day = 86_400.0 / seconds / gpus;
    for (tier, name) in [(STEP, "bytes_gpu_day_10s"), (MINUTE, "bytes_gpu_day_1m")] {
        let bytes = size(&dir.join(format!("step-{tier}ms")))? as f64;
        report.ours(name, "bytes", bytes * a_day);
        let points = samples * STEP as f64 / tier as f64;
        report.ours(&format!("{name}_point"), "bytes", bytes / points);
    }
    drop(store);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// One node over 90 days.
fn quarter(options: &Options, scratch: &TempDir, report: &mut Report) -> Result<()> {
    let days: u64 = if options.quick { 9 } else { 90 };
    let start = days_ago(days)?;
    let end = start + i64::try_from(days)? * DAY;
    let rows = Rows { nodes: 8, start, step: MINUTE, steps: days * 1440 };
    let all = format!("node_{days}_days_160_series");
    let one = format!("node_{days}_days_1_series");
    if options.measures("ours") {
        let mut store = Store::open(&scratch.sub("quarter")?, limits(MINUTE))?;
        let ids = series(&mut store, rows.nodes)?;
        fill(&mut store, &ids, start, MINUTE, rows.steps)?;
        let taken = median_ms(|| {
            let points = store.query(&ids[3], start, end, POINTS);
            anyhow::ensure!(points.damaged_blocks == 0 && points.lines.len() == ids[3].len());
            Ok(())
        })?;
        report.ours(&all, "ms", taken);
        let taken = median_ms(|| {
            anyhow::ensure!(store.query(&ids[3][..1], start, end, POINTS).lines.len() == 1);
            Ok(())
        })?;
        report.ours(&one, "ms", taken);
    }
    if options.measures("theirs")
        && let Some(mut peer) = Peer::start(options, scratch, "quarter")?
    {
        peer.import(rows)?;
        let step = (end - start) / i64::try_from(POINTS)?;
        let node = METRICS.len() * GPUS as usize;
        for (name, of, series) in
            [(&all, "node=\"n3\"", node), (&one, "__name__=\"util\",node=\"n3\",gpu=\"0\"", 1)]
        {
            let window = step / 1000;
            let query = format!("avg_over_time({{{of}}}[{window}s]) keep_metric_names");
            let asked = RangeQuery { query: &query, from: start, to: end, step, series };
            report.theirs(name, "ms", theirs::NAME, peer.ask(&asked)?, false);
        }
    }
    Ok(())
}

/// One metric of 2,048 GPUs over a day, put together.
fn day(options: &Options, scratch: &TempDir, report: &mut Report) -> Result<()> {
    let (nodes, hours): (u32, i64) = if options.quick { (32, 6) } else { (256, 24) };
    let start = days_ago(2)?;
    let end = start + hours * HOUR;
    let rows = Rows { nodes, start, step: STEP, steps: u64::try_from(hours * 360)? };
    let name = format!("gpus_{}_{hours}_hours", nodes * GPUS);
    let disk = "disk_bytes_gpu_day";
    // Of a whole day, also where less of it was filled.
    let of_day = |bytes: u64| bytes as f64 / f64::from(nodes * GPUS) * 24.0 / hours as f64;
    if options.measures("ours") {
        let dir = scratch.sub("day")?;
        let mut store = Store::open(&dir, limits(STEP))?;
        let ids = series(&mut store, nodes)?;
        fill(&mut store, &ids, start, STEP, rows.steps)?;
        let wants: Vec<SeriesQuery> = ids
            .iter()
            .flat_map(|row| row.iter().step_by(METRICS.len()))
            .map(|id| SeriesQuery::whole(*id, 0))
            .collect();
        let taken = median_ms(|| {
            let points = store.plan(wants.clone(), start, end, POINTS, u64::MAX).read();
            anyhow::ensure!(points.damaged_blocks == 0 && points.lines.len() == 1);
            Ok(())
        })?;
        report.ours(&name, "ms", taken);
        store.flush(end)?;
        report.ours(disk, "bytes", of_day(size(&dir)?));
    }
    if options.measures("theirs")
        && let Some(mut peer) = Peer::start(options, scratch, "day")?
    {
        let cost = peer.import(rows)?;
        report.theirs(disk, "bytes", theirs::NAME, of_day(cost.bytes), false);
        let step = (end - start) / i64::try_from(POINTS)?;
        let query = format!("avg(avg_over_time(util[{}s]))", step / 1000);
        let asked = RangeQuery { query: &query, from: start, to: end, step, series: 1 };
        report.theirs(&name, "ms", theirs::NAME, peer.ask(&asked)?, false);
    }
    Ok(())
}

/// The same hour of a smaller site in both.
fn same_data(options: &Options, scratch: &TempDir, report: &mut Report) -> Result<()> {
    let nodes = if options.quick { 16 } else { 125 };
    let steps = 360u64;
    let gpus = f64::from(nodes * GPUS);
    let samples = gpus * METRICS.len() as f64 * steps as f64;
    // In the past, where the peer takes them.
    let now = jiff::Timestamp::now().as_millisecond();
    let start = (now - 6 * HOUR) / HOUR * HOUR;
    if options.measures("ours") {
        let dir = scratch.sub("same")?;
        let mut store = Store::open(&dir, limits(STEP))?;
        let ids = series(&mut store, nodes)?;
        let used = fill(&mut store, &ids, start, STEP, steps)?;
        let began = cpu();
        store.flush(start + HOUR)?;
        let used = (used + cpu().saturating_sub(began)).as_secs_f64();
        report.ours("same_data_cpu", "s/million samples", used / samples * 1e6);
        report.ours("same_data_bytes", "bytes/sample", size(&dir)? as f64 / samples);
        let taken = median_ms(|| {
            anyhow::ensure!(store.query(&ids[3], start, start + HOUR, 360).lines.len() == 160);
            Ok(())
        })?;
        report.ours("same_data_node_1_hour", "ms", taken);
    }
    if options.measures("theirs") {
        match Peer::start(options, scratch, "same")? {
            Some(mut peer) => {
                let cost = peer.import(Rows { nodes, start, step: STEP, steps })?;
                let cpu = cost.cpu.as_secs_f64() / samples * 1e6;
                report.theirs("same_data_cpu", "s/million samples", theirs::NAME, cpu, false);
                let bytes = cost.bytes as f64 / samples;
                report.theirs("same_data_bytes", "bytes/sample", theirs::NAME, bytes, false);
                let asked = RangeQuery {
                    query: "{node=\"n3\"}",
                    from: start,
                    to: start + HOUR,
                    step: STEP,
                    series: METRICS.len() * GPUS as usize,
                };
                let taken = peer.ask(&asked)?;
                report.theirs("same_data_node_1_hour", "ms", theirs::NAME, taken, false);
                report.note(
                    "Ours has two tiers in its bytes and no HTTP in its times; VictoriaMetrics has one tier, \
                     and its processor time includes reading JSON over HTTP. Ours answers with the mean, the \
                     least and the greatest value of each point, VictoriaMetrics with the mean, without its cache \
                     of answers.",
                );
            }
            None => report.note("VictoriaMetrics: not installed (--install installs it)."),
        }
    }
    Ok(())
}
