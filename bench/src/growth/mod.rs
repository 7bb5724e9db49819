//! A server whose site has run for long: how soon it is ready, what it needs, how long its answers
//! take, and how many bytes its log has on disk. The log is made first, without a server.

mod make;
mod measure;

use crate::Options;
use crate::agents::{start_fleet, wait_connected};
use crate::http::{Client, Target};
use crate::load::runtime;
use crate::report::Report;
use crate::stats::{memory_mib, percentile};
use anyhow::{Context, Result, bail, ensure};
use make::{Made, Size};
use measure::{burst, lag, paced, page, position, submits_until_snapshot};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use xtask::site::Site;

/// Records between two snapshots, as the server has it by default.
const SNAPSHOT_EVERY: u64 = 50_000;
/// Nodes that are connected while it is measured: with none of them a site takes every job.
const NODES: u32 = 4;
/// Submits that are left for the measurement when a snapshot is near.
const NEAR: u64 = 400;
/// How long readers of the log may take to come to its end.
const READ_WITHIN: Duration = Duration::from_secs(600);

/// Length of one measurement, and how often each page is asked for.
struct Effort {
    quiet: Duration,
    asked: usize,
}

pub(crate) fn run(options: &Options) -> Result<Report> {
    let records = options.records.unwrap_or(if options.quick { 200_000 } else { 10_000_000 });
    ensure!(records >= 10_000, "a log of {records} records is too short; 10,000 are the least");
    let size = Size { records, jobs: records / 10 };
    let effort = match options.quick {
        true => Effort { quiet: Duration::from_secs(5), asked: 50 },
        false => Effort { quiet: Duration::from_secs(30), asked: 500 },
    };
    let mut report = Report::new("growth");
    // Metrics are read to measure: each page is made anew.
    let envs = [("MUSTER_METRICS_EVERY", "0s")];
    let mut site = Site::prepared(&options.muster(), &options.scratch(), &["server"], &envs)?;
    eprintln!("a log of {} records and {} jobs is made", size.records, size.jobs);
    let made = make::log(&site.data_dir(), size)?;
    of_the_log(&made, &site.data_dir(), &mut report)?;

    let began = Instant::now();
    site.start_again()?;
    report.ours("ready_s", "s", began.elapsed().as_secs_f64());
    let pid = site.pid().context("the server is not running")?;
    report.ours("ready_rss_mib", "MiB", memory_mib(pid)?.0);
    let mut fleet = start_fleet(options, &site, NODES)?;
    wait_connected(&site, &mut fleet, NODES, Duration::from_secs(60))?;
    let target =
        Target::new(site.port(), &[("Authorization", &format!("Bearer {}", site.token()))])?;
    let runtime = runtime()?;
    runtime.block_on(read_to_the_end(&target))?;
    report.ours("readers_done_s", "s", began.elapsed().as_secs_f64());
    runtime.block_on(pages(&target, effort.asked, &mut report))?;
    runtime.block_on(submits(&target, &effort, made.jobs_in_state, &mut report))?;
    fleet.must_be_running()?;
    site.must_be_running()?;
    report.ours("rss_mib", "MiB", memory_mib(pid)?.1);

    site.kill_9()?;
    let began = Instant::now();
    site.start_again()?;
    report.ours("ready_after_kill_s", "s", began.elapsed().as_secs_f64());
    report.note(format!(
        "{} records and {} jobs that ended, {} of them in the working state; made in {:.0} s by the \
         engine and the store with the server's own retention, {} snapshots, {} records archived. \
         Arrays of 500 tasks of one GPU with a few checkpoints each.",
        made.records,
        made.jobs,
        made.jobs_in_state,
        made.took.as_secs_f64(),
        made.snapshots,
        made.archived
    ));
    report.note(
        "Server and client share the machine. Submits: one every 20 ms on time, each a held job. Pages \
         have 50 jobs and are asked for one after the other on one connection.",
    );
    Ok(report)
}

/// What was made, and its bytes on disk.
fn of_the_log(made: &Made, data_dir: &Path, report: &mut Report) -> Result<()> {
    report.ours("records", "records", made.records as f64);
    report.ours("jobs", "jobs", made.jobs as f64);
    let archive = bytes_below(&data_dir.join("archive"))?;
    let store = bytes_below(data_dir)?.saturating_sub(archive);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    report.ours("store_mib", "MiB", mib(store));
    report.ours("archive_mib", "MiB", mib(archive));
    let in_store = made.records.saturating_sub(made.archived).max(1);
    report.ours("store_bytes_record", "bytes", store as f64 / in_store as f64);
    if made.archived > 0 {
        report.ours("archive_bytes_record", "bytes", archive as f64 / made.archived as f64);
    }
    let all = (store + archive) as f64 / made.records.max(1) as f64;
    report.ours("disk_bytes_record", "bytes", all);
    Ok(())
}

/// The bytes of all files below a directory; none where it is not there.
fn bytes_below(dir: &Path) -> Result<u64> {
    if !dir.exists() {
        return Ok(0);
    }
    let mut bytes = 0;
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        let is = entry.metadata()?;
        bytes += if is.is_dir() { bytes_below(&entry.path())? } else { is.len() };
    }
    Ok(bytes)
}

/// Waits until those who read the log have come to its end.
async fn read_to_the_end(target: &Target) -> Result<()> {
    let until = Instant::now() + READ_WITHIN;
    loop {
        let left = lag(target).await?;
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{left} records were not read within {READ_WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Reports both percentiles of some samples.
fn percentiles(report: &mut Report, name: &str, mut samples: Vec<f64>) -> Result<()> {
    for percent in [50.0, 99.0] {
        let value = percentile(&mut samples, percent).context("nothing was measured")?;
        report.ours(&format!("{name}_p{percent:.0}_ms"), "ms", value);
    }
    Ok(())
}

async fn pages(target: &Target, asked: usize, report: &mut Report) -> Result<()> {
    let (project, name) = (make::PROJECTS[0], make::array_name(7));
    for (case, path) in [
        ("jobs_newest", "/v1/jobs?limit=50".to_string()),
        ("jobs_project", format!("/v1/jobs?project={project}&limit=50")),
        ("jobs_sorted", "/v1/jobs?sort=-duration&limit=50".to_string()),
        ("jobs_name", format!("/v1/jobs?name={name}&limit=50")),
        // Nobody has this name: every job is looked at.
        ("jobs_none", "/v1/jobs?user=nobody-at-all&limit=50".to_string()),
        ("search", format!("/v1/search?q={name}")),
    ] {
        percentiles(report, case, page(target, &path, asked).await?)?;
    }
    Ok(())
}

/// Submits while nothing else happens, and while a snapshot is written. `jobs` are those in the
/// working state.
async fn submits(target: &Target, effort: &Effort, jobs: u64, report: &mut Report) -> Result<()> {
    let mut client = Client::new(target.clone());
    let quiet = paced(target, effort.quiet, false).await?;
    percentiles(report, "submit_quiet", quiet.all_ms())?;
    let mut jobs = jobs + quiet.sent();
    // A burst may go too far: then the next snapshot is waited for.
    for _ in 0..3 {
        let before = position(&mut client).await?;
        let near = submits_until_snapshot(before, jobs, SNAPSHOT_EVERY).saturating_sub(NEAR);
        eprintln!("  {near} submits until a snapshot is near");
        burst(target, near).await?;
        jobs += near;
        if position(&mut client).await?.snapshot > before.snapshot {
            continue;
        }
        let under = paced(target, Duration::from_secs(120), true).await?;
        jobs += under.sent();
        if let Some((samples, took)) = under.under_snapshot() {
            report.ours("snapshot_s", "s", took.as_secs_f64());
            report.ours("submits_under_snapshot", "submits", samples.len() as f64);
            return percentiles(report, "submit_snapshot", samples);
        }
    }
    bail!("no snapshot was written while submits were measured")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_all_files_below() {
        let dir = xtask::proc::TempDir::new("growth-bytes").unwrap();
        fs::create_dir(dir.path().join("archive")).unwrap();
        fs::write(dir.path().join("a"), [0; 10]).unwrap();
        fs::write(dir.path().join("archive/b"), [0; 5]).unwrap();
        assert_eq!(bytes_below(dir.path()).unwrap(), 15);
        assert_eq!(bytes_below(&dir.path().join("none")).unwrap(), 0);
    }
}
