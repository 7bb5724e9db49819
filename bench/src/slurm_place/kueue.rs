//! The shape of Kueue's benchmark of topology-aware scheduling: 640 nodes in 10 racks, 15,000
//! gangs in three sizes, each in one rack, that run for a fraction of a second.
//!
//! Source: kubernetes-sigs/kueue, test/performance/scheduler/configs/tas/{generator,rangespec}.yaml:
//! 2 pods of 0.5 CPU for 200 ms (70%), 4 of 1.25 for 500 ms (20%), 8 of 2.5 for 1 s (10%) on nodes
//! of 96 CPUs, with priorities in that order; 15,000 in 401.472 s on its own machines.

use super::fleet::{Fleet, racks, server_metrics, submit_all};
use super::{PER_SECOND, Size};
use crate::Options;
use crate::http::{Client, Target};
use crate::load::runtime;
use crate::report::Report;
use crate::stats::Meter;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::json;
use std::time::{Duration, Instant};

const CASE: &str = "kueue_tas_gangs_per_s";
const RACKS: u32 = 10;
const NODES: u32 = RACKS * 64;
const PATIENCE: Duration = Duration::from_secs(900);
/// 15,000 gangs in 401.472 s.
const PUBLISHED: f64 = 15_000.0 / 401.472;

/// Nodes, processors on each, run time, priority. A simulated node has 224 processors instead of
/// 96, so each pod asks for the same part of it, in whole ones.
const SMALL: (u32, u32, &str, &str) = (2, 1, "200ms", "low");
const MEDIUM: (u32, u32, &str, &str) = (4, 3, "500ms", "normal");
const LARGE: (u32, u32, &str, &str) = (8, 6, "1s", "high");

/// Gang `i` of many: seven small, two medium, one large, again and again.
fn spec(i: u32) -> Bytes {
    let (nodes, cpus, run, priority) = match i % 10 {
        4 | 9 => MEDIUM,
        7 => LARGE,
        _ => SMALL,
    };
    let spec = json!({
        "kind": "Job",
        "name": "gang",
        "gang": {"nodes": nodes, "cpus_per_node": cpus},
        "topology": {"required": "rack"},
        "priority": priority,
        "simulate": {"run": run},
    });
    Bytes::from(spec.to_string())
}

pub(super) fn measure(options: &Options, size: Size, report: &mut Report) -> Result<()> {
    if options.measures("ours") {
        eprintln!("Muster: {NODES} nodes, {} short gangs", size.gangs);
        let mut fleet = Fleet::start(options, NODES, &racks(RACKS))?;
        let target = fleet.target()?;
        let (server, agents) =
            (Meter::start(fleet.server_pid()?)?, Meter::start(fleet.nodes_pid())?);
        let took = runtime()?.block_on(finish(&target, size.gangs));
        fleet.must_be_running()?;
        let took = took?;
        eprintln!(
            "    {} gangs in {:.3} s; server {:.2} cores, nodes {:.2} cores",
            size.gangs,
            took.as_secs_f64(),
            server.cores()?,
            agents.cores()?
        );
        report.ours(CASE, PER_SECOND, f64::from(size.gangs) / took.as_secs_f64());
    }
    if options.measures("theirs") {
        let peer = "Kueue TAS, published, other hardware";
        report.theirs(CASE, PER_SECOND, peer, PUBLISHED, true);
    }
    Ok(())
}

/// From the first submission until the last gang has ended.
async fn finish(target: &Target, gangs: u32) -> Result<Duration> {
    let mut client = Client::new(target.clone());
    let specs = (0..gangs).map(spec).collect();
    let began = Instant::now();
    let submitting = tokio::spawn({
        let target = target.clone();
        async move { submit_all(&target, specs).await }
    });
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let all_in = submitting.is_finished();
        let now = server_metrics(&mut client).await?;
        let mut left = 0;
        for state in ["queued", "starting", "running", "stopping"] {
            left += now.jobs(state)?;
        }
        if all_in && left == 0 {
            let bad = now.jobs("failed")? + now.jobs("cancelled")?;
            ensure!(bad == 0, "{bad} gangs did not end well");
            break;
        }
        ensure!(began.elapsed() < PATIENCE, "{left} gangs are left after {PATIENCE:?}");
    }
    let took = began.elapsed();
    submitting.await.context("the clients panicked")??;
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_in_ten_are_small_and_one_is_large() {
        let nodes = |i| {
            let spec: serde_json::Value = serde_json::from_slice(&spec(i)).unwrap();
            spec["gang"]["nodes"].as_u64().unwrap()
        };
        let mut all: Vec<u64> = (0..10).map(nodes).collect();
        all.sort_unstable();
        assert_eq!(all, [2, 2, 2, 2, 2, 2, 2, 4, 4, 8]);
    }
}
