//! What came of a simulated life.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The figures of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the scenario or trace.
    pub scenario: String,
    /// The seed the run was made from.
    pub seed: u64,
    /// Nodes, and GPUs in them.
    pub nodes: u32,
    /// GPUs.
    pub gpus: u64,
    /// Nodes held as spares.
    pub spares: u32,
    /// Jobs that came.
    pub jobs: u64,
    /// Jobs that reached their end.
    pub jobs_completed: u64,
    /// From the first arrival to the last end, or to the end of the scenario.
    pub makespan_s: f64,
    /// GPU time held by jobs, of the GPU time there was.
    pub gpu_allocation_ratio: f64,
    /// GPU time in which steps were made, of the GPU time there was.
    pub gpu_utilization: f64,
    /// Share of the free GPU time that no whole-node job could have used.
    pub fragmentation: f64,
    /// From the time a job could start to its first start.
    pub wait_s: Spread,
    /// From submission to the end.
    pub jct_s: Spread,
    /// Kept work of the GPU time that jobs held or waited for with a broken gang.
    pub goodput: f64,
    /// Useful time of the time that jobs wanted to run, weighted by GPUs (R / (R + Q + U)).
    pub ettr: f64,
    /// What the formula expects for the largest job, where it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ettr_expected: Option<f64>,
    /// Mean time between interruptions of a running job.
    pub mtbi_s: Option<f64>,
    /// Work that was done and lost.
    pub lost_gpu_seconds: f64,
    /// Jobs stopped for others.
    pub preemptions: u64,
    /// Jobs moved to make room.
    pub migrations: u64,
    /// Interruptions of running work, by cause.
    pub failures: BTreeMap<String, u64>,
    /// Faults that happened in the fleet, whoever they hit, by cause.
    pub faults: BTreeMap<String, u64>,
    /// Interruptions of running work that nobody planned.
    pub interruptions: u64,
    /// Where the GPU time went.
    pub waterfall: Waterfall,
    /// By size of the gang.
    pub by_size: Vec<SizeClass>,
    /// Waits by class: tier and priority.
    pub wait_by_class: BTreeMap<String, Spread>,
    /// Node failures that found a spare at once, of those that needed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spares_found: Option<SpareOutcome>,
    /// How well precursors predicted failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// Requests of the scenario that the engine refused.
    #[serde(default)]
    pub refusals: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Records in the log.
    pub records: u64,
    /// Plans made.
    pub decisions: u64,
    /// Real time that it took.
    pub wall_s: f64,
    /// Most memory that the process held.
    pub peak_rss_bytes: u64,
    /// Hash over every record of the log.
    pub log_digest: String,
}

/// Mean and quantiles.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// The arithmetic mean.
    pub mean: f64,
    /// The median: half are below it.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// How many values that is from.
    pub count: u64,
}

/// Where the GPU time of the fleet went, in GPU-seconds. All parts together are the whole.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Waterfall {
    /// Work that counts in the end.
    pub productive: f64,
    /// Standing still for checkpoints.
    pub checkpoint: f64,
    /// Detecting, stopping, starting again, loading.
    pub restart: f64,
    /// Work done and lost.
    pub lost: f64,
    /// Standing still or slower because of an unhealthy node or link.
    pub degraded: f64,
    /// Free although jobs were waiting.
    pub queued: f64,
    /// Free, and nobody waited.
    pub idle: f64,
    /// Held as spares.
    pub spare: f64,
    /// Broken or drained.
    pub broken: f64,
}

/// Jobs of one size.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SizeClass {
    /// GPUs, from.
    pub gpus_from: u64,
    /// GPUs, up to.
    pub gpus_to: u64,
    /// How many jobs of that size there were.
    pub jobs: u64,
    /// Useful share of the time that they wanted to run.
    pub ettr: f64,
    /// Interruptions nobody planned.
    pub interruptions: u64,
    /// Time that they ran.
    pub running_s: f64,
    /// Mean time between interruptions.
    pub mtbi_s: Option<f64>,
    /// Share of the jobs that were interrupted at least once.
    pub interrupted_share: f64,
    /// How long they waited, in seconds.
    pub wait_s: Spread,
}

/// How spares did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SpareOutcome {
    /// Node failures under running gangs.
    pub needed: u64,
    /// Found within two minutes.
    pub found: u64,
    /// As a share, with its 95% interval.
    pub share: f64,
    /// Least and most of the interval.
    pub interval: [f64; 2],
}

/// How well precursors predicted failures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Prediction {
    /// Signs seen.
    pub signs: u64,
    /// Signs that a failure followed within the lead.
    pub right: u64,
    /// How many failures there were.
    pub failures: u64,
    /// Right signs of all signs.
    pub precision: f64,
    /// Failures that were predicted, of all failures.
    pub recall: f64,
}

/// What a person wants to see over time; kept beside the figures for the report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct History {
    /// Seconds between two samples.
    pub every_s: f64,
    /// Samples in order.
    pub samples: Vec<Sample>,
    /// Every wait in seconds by class, sorted (at most some thousands, evenly taken).
    pub waits: BTreeMap<String, Vec<f64>>,
    /// Faults: when (s), which node (its place in the fleet), which cause, whether work was hit.
    pub faults: Vec<FaultMark>,
    /// Names of the leaves and how many nodes each has, in the order of the fleet.
    pub leaves: Vec<(String, u32)>,
}

/// The site at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the beginning.
    pub at_s: f64,
    /// GPUs allocated by jobs.
    pub allocated: u64,
    /// GPUs in service.
    pub in_service: u64,
    /// Jobs waiting.
    pub waiting: u64,
    /// GPUs that they ask for.
    pub waiting_gpus: u64,
    /// Nodes broken or drained.
    pub broken_nodes: u32,
    /// Spares that are ready.
    pub spares_ready: u32,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FaultMark {
    /// Seconds since the beginning.
    pub at_s: f64,
    /// Place of the node in the fleet.
    pub node: u32,
    /// The node's name.
    pub name: String,
    /// The name of its cause in the scenario.
    pub cause: String,
    /// Whether it hit running work.
    pub hit: bool,
}
