//! Very many nodes that signal: how long it takes from a report to its record, by the server's
//! own measure, and what the server needs for it.

use super::fleet::{self, Api, places};
use crate::Options;
use crate::agents::raise_file_limit;
use crate::load::runtime;
use crate::report::Report;
use crate::stats::{Meter, memory_mib};
use anyhow::{Context, Result, ensure};
use hyper::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use xtask::site::Site;

/// The server's own measure: from a report that was received to its events in the log.
const FIGURE: &str = "muster_signal_commit_seconds";
const SENTINEL: &str = "NVSentinel at 50,000 nodes, as published";

/// A histogram as `/metrics` shows it: upper bounds in seconds, and how many lie below.
#[derive(Debug, Clone, Default, PartialEq)]
struct Histogram(Vec<(f64, f64)>);

impl Histogram {
    fn read(metrics: &str) -> Histogram {
        let mut all = Vec::new();
        for line in metrics.lines() {
            let Some(rest) = line.strip_prefix(FIGURE).and_then(|l| l.strip_prefix("_bucket{"))
            else {
                continue;
            };
            let Some((labels, count)) = rest.split_once("} ") else { continue };
            let bound =
                labels.split(',').find_map(|l| l.trim().strip_prefix("le=\"")?.strip_suffix('"'));
            let bound = match bound {
                Some("+Inf") => f64::INFINITY,
                Some(b) => b.parse().unwrap_or(f64::INFINITY),
                None => continue,
            };
            all.push((bound, count.trim().parse().unwrap_or(0.0)));
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        Histogram(all)
    }

    /// What came after an earlier look.
    fn since(&self, before: &Histogram) -> Histogram {
        let old = |b: f64| before.0.iter().find(|x| x.0 == b).map_or(0.0, |x| x.1);
        Histogram(self.0.iter().map(|(b, n)| (*b, n - old(*b))).collect())
    }

    fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |b| b.1)
    }

    /// Milliseconds below which so many percent lie, straight between two bounds.
    fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let wanted = self.count() * percent / 100.0;
        let (mut low, mut below) = (0.0, 0.0);
        for (bound, n) in &self.0 {
            if *n >= wanted && *n > below {
                if !bound.is_finite() {
                    return Some(low * 1000.0);
                }
                return Some((low + (bound - low) * (wanted - below) / (n - below)) * 1000.0);
            }
            (low, below) = (*bound, *n);
        }
        None
    }
}

pub(super) fn run(options: &Options, binary: &Path, report: &mut Report) -> Result<()> {
    // `--nodes` is the scored fleet's, unless only this part is run.
    let asked = options.nodes.filter(|_| options.part.as_deref() == Some("scale"));
    let nodes = asked.unwrap_or(if options.quick { 1000 } else { 12_500 });
    let (steady, burst_s) = if options.quick { (15.0, 4.0) } else { (60.0, 8.0) };
    let (rate, burst) = (0.03, 2000.0);
    raise_file_limit(u64::from(nodes) + 1000)?;
    let pace = [("MUSTER_HEARTBEAT", "10s"), ("MUSTER_TELEMETRY", "10s")];
    let site = Site::start(binary, &options.scratch(), &["server"], &pace)?;
    let pid = site.pid().context("the server is not running")?;
    let places = places(nodes);
    let life = json!({
        "kind": "signals", "rate": rate, "steady_s": steady, "burst": burst, "burst_s": burst_s,
    });
    let log = site.scratch().join("faultgen.log");
    let (all, bursts, cores) = runtime()?.block_on(async {
        let mut api = Api::new(&site)?;
        fleet::set_topology(&mut api, &places).await?;
        let mut fleet = fleet::start(&site, &places, options.seed, &life, &log)?;
        let mut phase = async |word: &str, within: u64| {
            fleet.wait_ready(Duration::from_secs(within), |d| {
                d.output().contains(word).then_some(())
            })
        };
        phase("phase steady", 960).await?;
        let there = connected_now(&mut api).await?;
        ensure!(there >= u64::from(nodes), "only {there} of {nodes} nodes are connected");
        let (before, meter) = (histogram(&mut api).await?, Meter::start(pid)?);
        phase("phase burst", 240).await?;
        let middle = histogram(&mut api).await?;
        phase("phase over", 240).await?;
        // What the burst left behind is still being written.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let after = histogram(&mut api).await?;
        let cores = meter.cores()?;
        Ok::<_, anyhow::Error>((after.since(&before), after.since(&middle), cores))
    })?;
    ensure!(all.count() > 0.0, "the server has no {FIGURE}, or nothing in it");
    let (rss, highest) = memory_mib(pid)?;
    for (name, h, percent) in [
        ("decide_p50_ms", &all, 50.0),
        ("decide_p99_ms", &all, 99.0),
        ("decide_burst_p99_ms", &bursts, 99.0),
    ] {
        if let Some(v) = h.percentile_ms(percent) {
            report.ours(name, "ms", v);
        }
    }
    report.theirs("decide_p50_ms", "ms", SENTINEL, 26.0, false);
    report.theirs("decide_p99_ms", "ms", SENTINEL, 165.0, false);
    report.ours("rss_mib", "MiB", rss.max(highest));
    report.ours("scale_cpu_cores", "cores", cores);
    report.ours("scale_nodes", "nodes", f64::from(nodes));
    report.ours("scale_signals", "signals", all.count());
    report.note(format!(
        "Scale: {nodes} nodes of 8 GPUs over mutual TLS on the same machine as the server, {rate} \
         signals of a node in a second for {steady} s, then {burst} in a second of all for \
         {burst_s} s; from a report received to its record committed, as the server measures it."
    ));
    Ok(())
}

async fn metrics(api: &mut Api) -> Result<String> {
    let (status, body) = api.raw(Method::GET, "/metrics", &Value::Null).await?;
    ensure!(status == 200, "GET /metrics: {status}");
    Ok(String::from_utf8_lossy(&body).into_owned())
}

async fn histogram(api: &mut Api) -> Result<Histogram> {
    Ok(Histogram::read(&metrics(api).await?))
}

async fn connected_now(api: &mut Api) -> Result<u64> {
    let text = metrics(api).await?;
    text.lines()
        .find_map(|l| l.strip_prefix("muster_agents_connected ")?.trim().parse().ok())
        .context("/metrics has no muster_agents_connected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_read_and_cut() {
        let text = format!(
            "# TYPE {FIGURE} histogram\n{FIGURE}_bucket{{le=\"0.001\"}} 0\n\
             {FIGURE}_bucket{{le=\"0.01\"}} 90\n{FIGURE}_bucket{{le=\"0.1\"}} 100\n\
             {FIGURE}_bucket{{le=\"+Inf\"}} 100\n{FIGURE}_count 100\n"
        );
        let h = Histogram::read(&text);
        assert_eq!(h.count(), 100.0);
        assert!((h.percentile_ms(50.0).unwrap() - 6.0).abs() < 0.1);
        assert!((h.percentile_ms(99.0).unwrap() - 91.0).abs() < 0.1);
        assert_eq!(h.since(&h).percentile_ms(99.0), None);
    }
}
