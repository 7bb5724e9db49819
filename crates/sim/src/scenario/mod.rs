//! A scenario: a fleet, what runs on it, what breaks, and what the site does about it.

mod breaks;
mod check;
mod failures;
mod found;
mod known;
mod places;
mod read;
mod schema;
mod tree;
mod units;
mod work;
mod workload;

#[cfg(test)]
mod tests;

pub use check::check;
pub use failures::{
    Cause, Failures, Incident, Infant, JobHazard, Lemons, Mode, Precursor, Preset, Scope,
};
pub use read::{files, parse, read};
pub use workload::{Owner, Saving, Serve, Sizes, Stream, TraceLoad, Train, Workload};

use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::reservation::Reservation;
use muster_model::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a scenario file says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// What it teaches, in a paragraph.
    #[serde(default)]
    pub about: String,
    /// How long it lives.
    pub length: Span,
    /// Seed of every random stream.
    #[serde(default = "one")]
    pub seed: u64,
    /// The nodes, where they stand and how many are spares.
    pub fleet: FleetSpec,
    /// The site's scheduling policy; what is not named is as shipped.
    #[serde(default)]
    pub policy: SitePolicy,
    /// The tree of quotas.
    #[serde(default)]
    pub quotas: Option<Quotas>,
    /// Windows that are kept for somebody. Their `start` is a length of time from the beginning of
    /// the scenario in a file, and milliseconds from it here.
    #[serde(default)]
    pub reservations: Vec<Reservation>,
    /// What the site does about failures.
    #[serde(default)]
    pub operations: Operations,
    /// What breaks, how often and for how long.
    #[serde(default)]
    pub failures: Failures,
    /// The jobs that come.
    #[serde(default)]
    pub workload: Vec<Workload>,
    /// Where the figures must lie, by their names in the result: `[least, most]`.
    #[serde(default)]
    pub expect: BTreeMap<String, [f64; 2]>,
}

impl Scenario {
    /// Every project that somebody in it belongs to.
    pub(crate) fn projects(&self) -> BTreeSet<String> {
        let owner = |w: &Workload| match w {
            Workload::Train(t) => t.owner.project.clone(),
            Workload::Stream(t) => t.owner.project.clone(),
            Workload::Serve(t) => t.owner.project.clone(),
            Workload::Trace(_) => None,
        };
        let mut all: BTreeSet<String> = self.workload.iter().filter_map(owner).collect();
        all.insert("default".into());
        all
    }
}

fn one() -> u64 {
    1
}

/// Where the machines come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FleetSpec {
    /// HGX nodes in racks of four and rail groups.
    Hgx {
        /// Kind of GPU.
        #[serde(default = "h100")]
        sku: String,
        /// How many nodes, the spares among them.
        nodes: u32,
        /// GPUs on each.
        #[serde(default = "eight")]
        gpus_per_node: u32,
        /// Nodes that are held as hot spares.
        #[serde(default)]
        spares: Spares,
    },
    /// NVL72 racks of 18 trays with four GPUs each.
    Nvl72 {
        /// How many racks.
        racks: u32,
        /// Trays that are held as hot spares.
        #[serde(default)]
        spares: Spares,
    },
    /// A topology file of Muster's own, or Lingjun's list of hosts.
    Topology {
        /// The file, from where the scenario lies.
        file: String,
        /// Kind of GPU.
        #[serde(default = "h100")]
        sku: String,
        /// GPUs on each node.
        #[serde(default = "eight")]
        gpus_per_node: u32,
        /// Nodes that are held as hot spares.
        #[serde(default)]
        spares: Spares,
    },
    /// The GPU nodes of the openb list.
    Openb {
        /// The path of the list, beside the scenario.
        file: String,
    },
}

fn h100() -> String {
    "h100-sxm".into()
}

fn eight() -> u32 {
    8
}

/// How many spares are held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Spares {
    /// This many nodes.
    Count(u32),
    /// As many as the target needs at the rates of the scenario.
    Target {
        /// Share of node failures that find a spare at once, such as 0.99.
        share: f64,
    },
}

impl Default for Spares {
    fn default() -> Spares {
        Spares::Count(0)
    }
}

/// What the site does when something breaks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Operations {
    /// How a broken node is answered.
    pub response: Response,
    /// From the fault to the finding when telemetry shows it.
    pub detect: Span,
    /// From the fault to the end of the ranks when nothing shows it but that they hang.
    pub watchdog: Span,
    /// From the order to the last rank being gone, and from the plan to the order.
    pub decide: Span,
    /// Until a broken node is back, unless its cause says otherwise.
    pub repair: Delay,
    /// From a slow node to the finding.
    pub detect_slow: Span,
    /// From wrong results to their discovery.
    pub detect_corruption: Span,
    /// Nodes that failed so often within 28 days are taken out for good.
    pub remove_lemons_after: Option<u32>,
    /// Nodes whose precursors show are drained at their job's next checkpoint.
    pub act_on_precursors: bool,
    /// Checkpoints are written to the log at most so often (each one when zero).
    pub checkpoint_records: Span,
}

impl Default for Operations {
    fn default() -> Operations {
        Operations {
            response: Response::Swap,
            detect: Span::secs(20),
            watchdog: Span::secs(600),
            decide: Span::secs(1),
            repair: Delay { median: Span::hours(4), p95: Some(Span::hours(24)) },
            detect_slow: Span::mins(2),
            detect_corruption: Span::hours(6),
            remove_lemons_after: None,
            act_on_precursors: false,
            checkpoint_records: Span(0),
        }
    }
}

/// How a broken node is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// Found by its telemetry, drained, replaced by a spare; the work goes on from its checkpoint.
    Swap,
    /// Nobody looks: the ranks hang until their watchdog ends them, then the job waits anew.
    Requeue,
}

/// A length of time that differs from case to case: log-normal, or always the median.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// Half are shorter.
    pub median: Span,
    /// 95 of 100 are shorter; none: all are the median.
    #[serde(default)]
    pub p95: Option<Span>,
}
