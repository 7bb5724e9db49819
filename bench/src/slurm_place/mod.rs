//! Jobs placed per second on 1,024 and 4,096 nodes of 8 GPUs, beside a real Slurm that schedules
//! the same jobs on the same tree of switches; and the shape of Kueue's own topology benchmark.

mod fleet;
mod kueue;
mod ours;
mod theirs;

use crate::Options;
use crate::report::Report;
use crate::slurm;
use crate::stats::percentile;
use anyhow::{Context, Result};
use std::time::Duration;

/// Fleets that are scheduled.
const SIZES: [u32; 2] = [1024, 4096];
const GPUS: u32 = 8;
const LEAF: u32 = 32;
const LEAVES_OF_SPINE: u32 = 8;
const SPINE: u32 = LEAF * LEAVES_OF_SPINE;

const PER_SECOND: &str = "1/s";
const MS: &str = "ms";

/// How much is done.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Most time that one run may take; what was placed by then counts.
    bound: Duration,
    /// Gangs of the Kueue shape.
    gangs: u32,
}

/// Jobs of one shape: whole nodes, all their GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    nodes: u32,
    jobs: u32,
}

impl Batch {
    /// The domain that the gang must not leave; a single node is in one anyway.
    fn level(self) -> Option<&'static str> {
        match self.nodes {
            1 => None,
            n if n <= LEAF => Some("leaf"),
            _ => Some("spine"),
        }
    }

    /// Nodes of that domain.
    fn domain(self) -> u32 {
        match self.nodes {
            1 => 1,
            n if n <= LEAF => LEAF,
            _ => SPINE,
        }
    }
}

/// What is submitted to a fleet of so many nodes: half of it in jobs of one node, and behind
/// them a quarter in gangs of 16 and up to 15% in gangs of 64.
fn queue(nodes: u32) -> [Batch; 3] {
    [
        Batch { nodes: 1, jobs: nodes / 2 },
        Batch { nodes: 16, jobs: nodes / 4 / 16 },
        Batch { nodes: 64, jobs: nodes * 15 / 100 / 64 },
    ]
}

fn jobs(queue: &[Batch]) -> usize {
    queue.iter().map(|b| b.jobs as usize).sum()
}

/// What one side did with a queue.
#[derive(Debug, Clone, Default)]
struct Outcome {
    /// Seconds from the start of the run to the placement of each job that was placed.
    placed_s: Vec<f64>,
    /// Milliseconds that each job waited; those that were never placed, the whole run.
    waited_ms: Vec<f64>,
}

impl Outcome {
    /// Placed per second, up to the last placement.
    fn per_s(&self) -> f64 {
        let last = self.placed_s.iter().copied().fold(0.0, f64::max);
        if last > 0.0 { self.placed_s.len() as f64 / last } else { 0.0 }
    }

    /// The figures with their cases' names.
    fn cases(&self, prefix: &str, nodes: u32) -> Result<[(String, &'static str, f64, bool); 3]> {
        let mut waited = self.waited_ms.clone();
        let mut wait = |p| percentile(&mut waited, p).context("no job was submitted");
        Ok([
            (format!("{prefix}placed_per_s_{nodes}"), PER_SECOND, self.per_s(), true),
            (format!("{prefix}wait_ms_p50_{nodes}"), MS, wait(50.0)?, false),
            (format!("{prefix}wait_ms_p99_{nodes}"), MS, wait(99.0)?, false),
        ])
    }
}

/// Both ways of giving the jobs: all waiting and released together, and one by one.
const RELEASED: &str = "";
const STREAMED: &str = "stream_";

pub(crate) fn run(options: &Options) -> Result<Report> {
    let size = if options.quick {
        Size { bound: Duration::from_secs(60), gangs: 1500 }
    } else {
        Size { bound: Duration::from_secs(120), gangs: 15_000 }
    };
    let sizes = options.nodes.map_or_else(|| SIZES.to_vec(), |n| vec![n]);
    let mut report = Report::new("slurm");
    let peer = options.measures("theirs") && {
        let there = slurm::available(options.install)?;
        if !there {
            eprintln!(
                "Slurm is not installed, or we are not root: no peer (--install installs it)"
            );
        }
        there
    };
    for nodes in sizes {
        if peer {
            theirs::measure(options, size, nodes, &mut report)?;
        }
        if options.measures("ours") {
            ours::measure(options, size, nodes, &mut report)?;
        }
    }
    kueue::measure(options, size, &mut report)?;
    notes(&mut report, size);
    Ok(report)
}

fn notes(report: &mut Report, size: Size) {
    report.note("ratio: ours divided by theirs; for times (ms), smaller is better.");
    report.note(format!(
        "Jobs of whole 8-GPU nodes: half of the fleet in jobs of 1 node, behind them a quarter in \
         gangs of 16 (one leaf of {LEAF}) and 15% in gangs of 64 (one spine of {SPINE}). All wait, \
         are released together, and count when placed; `stream_`: submitted one by one instead \
         (ours over 64 connections, Slurm by 4 sbatch at a time). At most {} s each; what was \
         placed by then counts.",
        size.bound.as_secs()
    ));
    report.note(
        "Ours: server, SQLite (synchronous=FULL) and every node's agent session over mutual TLS; \
         simulated nodes start the work. A job counts when its placement is on disk.",
    );
    report.note(format!(
        "Slurm: {}, 8 cores a node (fewer cores make it faster), State=CLOUD nodes: nothing is \
         started and no node answers, its placements alone count, from its log.",
        theirs::PARAMETERS
    ));
    report.note(
        "Kueue: 15,000 gangs of 2 to 8 pods on 640 nodes in 401 s as its repository says \
         (test/performance/scheduler/configs/tas), on its own machines and under quotas that let \
         600 CPUs be used at a time; ours has no quotas, demands one rack of every gang, and \
         includes the agents' work.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_fills_nine_tenths_and_fits_its_domains() {
        for nodes in SIZES {
            let queue = queue(nodes);
            let wanted: u32 = queue.iter().map(|b| b.nodes * b.jobs).sum();
            assert!((86..=91).contains(&(wanted * 100 / nodes)), "{wanted} of {nodes}");
            for batch in queue {
                assert!(batch.nodes <= batch.domain());
            }
        }
    }

    #[test]
    fn what_was_not_placed_waits_for_the_whole_run() {
        let outcome = Outcome { placed_s: vec![1.0, 2.0], waited_ms: vec![1e3, 2e3, 9e3] };
        assert!((outcome.per_s() - 1.0).abs() < 1e-9);
        let cases = outcome.cases(RELEASED, 1024).unwrap();
        assert_eq!(cases[0].0, "placed_per_s_1024");
        assert!((cases[2].2 - 9e3).abs() < 1e-9);
        assert!(Outcome::default().per_s() < 1e-9);
    }
}
