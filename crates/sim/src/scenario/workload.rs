//! What runs in a scenario.

use super::{Delay, eight};
use muster_model::spec::{Priority, Tier};
use muster_model::units::Span;
use serde::{Deserialize, Serialize};

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
    /// The project that owns the job.
    pub project: Option<String>,
    /// Users, taken in turn.
    pub users: Vec<String>,
    /// The priority class.
    pub priority: Priority,
    /// The price class.
    pub tier: Tier,
}

/// How a job saves its work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Saving {
    /// `auto`, `never`, or how often.
    pub every: String,
    /// How long one blocks the job.
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
    /// How many jobs of this kind there are.
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
    /// Who submits them.
    #[serde(default)]
    pub owner: Owner,
    /// Share of its useful time in which the GPUs wait for data.
    #[serde(default)]
    pub data_loading: f64,
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
    /// Share of their useful time in which the GPUs wait for data.
    #[serde(default)]
    pub data_loading: f64,
    /// How they save their work.
    #[serde(default)]
    pub saving: Saving,
    /// Who submits them.
    #[serde(default)]
    pub owner: Owner,
    /// When the first may come, and the last.
    #[serde(default)]
    pub from: Span,
    /// When no more come; the end of the scenario when absent.
    #[serde(default)]
    pub until: Option<Span>,
}

impl Stream {
    /// One that says no more than it must.
    #[must_use]
    pub fn of(name: &str, per_hour: f64, run: Delay) -> Stream {
        Stream {
            name: name.into(),
            per_hour,
            diurnal: 0.0,
            sizes: Sizes::default(),
            run,
            limit_factor: generous(),
            fails: 0.0,
            data_loading: 0.0,
            saving: Saving::default(),
            owner: Owner::default(),
            from: Span::default(),
            until: None,
        }
    }
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
    /// Who submits them.
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
