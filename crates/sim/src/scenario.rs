//! A scenario: a fleet, what runs on it, what breaks, and what the site does about it.

use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::reservation::Reservation;
use muster_model::spec::{Priority, Tier};
use muster_model::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// The machines.
    pub fleet: FleetSpec,
    /// The site's scheduling policy; what is not named is as shipped.
    #[serde(default)]
    pub policy: SitePolicy,
    /// The tree of quotas.
    #[serde(default)]
    pub quotas: Option<Quotas>,
    /// Windows that are kept for somebody.
    #[serde(default)]
    pub reservations: Vec<Reservation>,
    /// What the site does about failures.
    #[serde(default)]
    pub operations: Operations,
    /// What breaks.
    #[serde(default)]
    pub failures: Failures,
    /// What runs.
    #[serde(default)]
    pub workload: Vec<Workload>,
    /// Where the figures must lie, by their names in the result: `[least, most]`.
    #[serde(default)]
    pub expect: BTreeMap<String, [f64; 2]>,
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
        /// The file.
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
    /// So many.
    Count(u32),
    /// As many as the promise needs at the rates of the scenario.
    Promise {
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

/// What breaks, and how often.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Failures {
    /// Published causes and rates to begin with.
    pub preset: Option<Preset>,
    /// All rates of the preset and of `causes` times this.
    pub scale: Option<f64>,
    /// Further causes.
    pub causes: Vec<Cause>,
    /// Young machines fail more often.
    pub infant: Option<Infant>,
    /// A few nodes fail again and again.
    pub lemons: Option<Lemons>,
    /// Jobs fail for reasons that are not the nodes'.
    pub jobs: Option<JobHazard>,
    /// Things that happen once, at a given time.
    pub incidents: Vec<Incident>,
    /// Lifetimes of Titan's GPUs as a stream of failures: the file.
    pub titan: Option<String>,
}

/// Published failure rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Llama 3 405B: 419 in 54 days of 2,048 nodes, by cause.
    Llama3,
    /// Meta's RSC-1: 6.5 in a thousand node-days.
    Rsc1,
    /// Meta's RSC-2: 2.34 in a thousand node-days.
    Rsc2,
    /// Delta's H100 part: uncorrectable memory errors and failed remaps.
    DeltaH100,
}

/// One cause of failures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// What it is called.
    pub name: String,
    /// How often, in a thousand node-days.
    pub per_1000_node_days: f64,
    /// What it does.
    #[serde(default)]
    pub mode: Mode,
    /// What it takes with it.
    #[serde(default)]
    pub scope: Scope,
    /// Until it is repaired, where that differs.
    #[serde(default)]
    pub repair: Option<Delay>,
    /// A sign of it that shows beforehand.
    #[serde(default)]
    pub precursor: Option<Precursor>,
}

/// What a failure does.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// What runs there stops.
    #[default]
    FailStop,
    /// What runs there goes on at this share of its speed.
    FailSlow(f64),
    /// Results are wrong until somebody notices.
    Corruption,
    /// What runs there stands still for a moment.
    Flap(Span),
    /// The job's own software fails: the node is fine.
    Software,
}

/// What a failure takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One node.
    #[default]
    Node,
    /// Every node of its rack or NVLink domain.
    Rack,
    /// Every node of its leaf.
    Leaf,
    /// Every node of its power feed within its rack row (spine).
    Feed,
}

/// A sign that shows before a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precursor {
    /// Share of the failures that show it.
    pub share: f64,
    /// How long before.
    pub lead: Delay,
    /// False signs in a thousand node-days.
    #[serde(default)]
    pub false_per_1000_node_days: f64,
}

/// Young machines fail more often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Infant {
    /// How much more often at the beginning.
    pub factor: f64,
    /// How long until half of the excess is gone.
    pub half_life: Span,
}

/// A few nodes fail again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lemons {
    /// Share of the nodes.
    pub share: f64,
    /// How much more often they fail.
    pub factor: f64,
}

/// Jobs fail for reasons that are not the nodes'.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobHazard {
    /// Failures in a day of running, whatever the size.
    pub per_day: f64,
}

/// Something that happens once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// When.
    pub at: Span,
    /// Its name in the figures.
    pub name: String,
    /// Which nodes, racks, leaves or feeds: their names. Empty: chosen by the seed.
    #[serde(default)]
    pub on: Vec<String>,
    /// What it takes with it.
    #[serde(default)]
    pub scope: Scope,
    /// What it does.
    #[serde(default)]
    pub mode: Mode,
    /// Share of the fleet's nodes that it hits, instead of one place.
    #[serde(default)]
    pub share: Option<f64>,
    /// Until it is repaired.
    #[serde(default)]
    pub repair: Option<Delay>,
    /// From then on the failures of these nodes come so many times as often (a bad driver).
    #[serde(default)]
    pub rate_factor: Option<f64>,
    /// How long that lasts.
    #[serde(default)]
    pub lasts: Option<Span>,
}

/// Something that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Workload {
    /// Training jobs of one shape.
    Train(Train),
    /// Jobs that come by chance.
    Stream(Stream),
    /// Inference services.
    Serve(Serve),
    /// Jobs of a public trace.
    Trace(TraceLoad),
}

/// Who a job belongs to and how it ranks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Owner {
    /// The project.
    pub project: Option<String>,
    /// Users, taken in turn.
    pub users: Vec<String>,
    /// Class.
    pub priority: Priority,
    /// Tier.
    pub tier: Tier,
}

/// How a job saves its work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Saving {
    /// `auto`, `never`, or how often.
    pub every: String,
    /// How long the job stands still for one.
    pub cost: Span,
    /// From the start of the ranks to the first step: rendezvous, loading, warming up.
    pub startup: Span,
}

impl Default for Saving {
    fn default() -> Saving {
        Saving { every: "auto".into(), cost: Span::secs(10), startup: Span::secs(120) }
    }
}

/// Training jobs of one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// What they are called.
    pub name: String,
    /// How many.
    #[serde(default = "one_job")]
    pub count: u32,
    /// Nodes of each; `0` takes every node that is no spare.
    pub nodes: u32,
    /// GPUs on each node.
    #[serde(default = "eight")]
    pub gpus_per_node: u32,
    /// Useful time of each; `0s` goes on to the end.
    #[serde(default)]
    pub run: Span,
    /// When the first comes.
    #[serde(default)]
    pub at: Span,
    /// How long after it the next one comes.
    #[serde(default)]
    pub apart: Span,
    /// Where it must fit, such as `leaf`.
    #[serde(default)]
    pub topology: Option<String>,
    /// How it saves its work.
    #[serde(default)]
    pub saving: Saving,
    /// Whose.
    #[serde(default)]
    pub owner: Owner,
    /// Fewest and most nodes, when it may shrink and grow.
    #[serde(default)]
    pub elastic: Option<[u32; 2]>,
}

fn one_job() -> u32 {
    1
}

/// Jobs that come by chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// What they are called.
    pub name: String,
    /// How many an hour, on average.
    pub per_hour: f64,
    /// How much more come at noon than on average, 0 to 1.
    #[serde(default)]
    pub diurnal: f64,
    /// Sizes: a known mix, or GPUs and their weights.
    #[serde(default)]
    pub sizes: Sizes,
    /// How long they run.
    pub run: Delay,
    /// Their time limits are at most so many times their run times.
    #[serde(default = "generous")]
    pub limit_factor: f64,
    /// Share of them that ends in a failure of its own.
    #[serde(default)]
    pub fails: f64,
    /// How they save their work.
    #[serde(default)]
    pub saving: Saving,
    /// Whose.
    #[serde(default)]
    pub owner: Owner,
    /// When the first may come, and the last.
    #[serde(default)]
    pub from: Span,
    /// When no more come; the end of the scenario when absent.
    #[serde(default)]
    pub until: Option<Span>,
}

fn generous() -> f64 {
    3.0
}

/// How large jobs are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sizes {
    /// `philly` or `acme`.
    Mix(String),
    /// GPUs, and how often in comparison.
    Weights(Vec<(u32, u32)>),
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes::Mix("philly".into())
    }
}

/// An inference service: replicas that stay, with a load that comes and goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// What it is called.
    pub name: String,
    /// How many replicas.
    pub replicas: u32,
    /// GPUs of each.
    #[serde(default = "one_job")]
    pub gpus: u32,
    /// Average share of what it could do that is asked of it.
    #[serde(default = "half")]
    pub load: f64,
    /// How much more at noon, 0 to 1.
    #[serde(default)]
    pub diurnal: f64,
    /// From the start of the ranks to the first answer.
    #[serde(default = "two_minutes")]
    pub startup: Span,
    /// Whose.
    #[serde(default)]
    pub owner: Owner,
}

fn half() -> f64 {
    0.5
}

fn two_minutes() -> Span {
    Span::mins(2)
}

/// Jobs of a public trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceLoad {
    /// `swf`, `philly` or `gavel`.
    pub format: String,
    /// The file, from where the scenario lies.
    pub file: String,
    /// At most so many jobs, from the first.
    #[serde(default)]
    pub jobs: Option<u32>,
    /// How they save their work.
    #[serde(default)]
    pub saving: Saving,
    /// What is done with rows that cannot be read: `stop` or `skip`.
    #[serde(default = "stop")]
    pub bad_rows: String,
}

fn stop() -> String {
    "stop".into()
}
