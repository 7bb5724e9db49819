//! A job as its author writes it, and the gang that follows from it.

use crate::names::{Label, ProjectName};
pub use crate::problem::{SpecProblem, problem};
use crate::topology::Level;
pub use crate::topology::MAX_NODES;
use crate::units::{Bytes, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The one kind of workload this version runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Kind {
    /// Work that ends.
    #[default]
    Job,
}

/// The tag that marks a service: see [`JobSpec::is_service`].
pub const SERVICE_TAG: (&str, &str) = ("work", "service");

/// A job spec, as in the file or the request body.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct JobSpec {
    /// Always `Job`.
    pub kind: Kind,
    /// A name for people; need not be unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 128))]
    pub name: Option<Label>,
    /// Project that owns it; the caller's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 63))]
    pub project: Option<ProjectName>,
    /// How much it needs.
    pub gang: GangSpec,
    /// Where it wants to be.
    #[serde(skip_serializing_if = "is_default")]
    pub topology: TopologySpec,
    /// What runs. Stored apart from the log, which has only the name of the image.
    #[serde(skip_serializing_if = "is_default")]
    pub run: RunSpec,
    /// Stopped after this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Span>,
    /// Priority class.
    pub priority: Priority,
    /// Price class.
    pub tier: Tier,
    /// Where and how the job writes checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointSpec>,
    /// How often it is tried again.
    pub retries: Retries,
    /// What its ranks do when their node loses the server; see [`JobSpec::partition`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_partition: Option<OnPartition>,
    /// Jobs that must end first: `ID` or `NAME`, with `:ok` (default), `:fail` or `:any`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Indices of an array: `0-9`, `1,3,5-7`, `0-30:10`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// Directories bound into the ranks' view.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Names of the project's secrets that the ranks may see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub secrets: Vec<Label>,
    /// Smallest and largest size: it grows into idle nodes and shrinks before others are stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elastic: Option<Elastic>,
    /// A simulated workload, on simulated nodes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulate: Option<Simulate>,
    /// Free words for reports.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Submitted on hold.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    /// Whether the network between its nodes is tested before it starts.
    #[serde(skip_serializing_if = "is_default")]
    pub preflight: Preflight,
}

/// Whether the network between a gang's nodes is tested before its ranks start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Preflight {
    /// As the site's policy says.
    #[default]
    Policy,
    /// Not for this job.
    Skip,
}

impl JobSpec {
    /// What its ranks do when their node loses the server. A job that writes checkpoints stops
    /// after a while, so that another attempt may safely write there; any other job goes on.
    #[must_use]
    pub fn partition(&self) -> OnPartition {
        match (self.on_partition, &self.checkpoint) {
            (Some(said), _) => said,
            // Submitted before the default was written down with the job: its ranks may run under
            // the lease that was the default then.
            (None, Some(_)) => OnPartition::UNWRITTEN,
            (None, None) => OnPartition::Continue,
        }
    }

    /// What is written down as `on_partition` when it is submitted: what it says, or the default for
    /// a job that writes checkpoints. Written down, because ranks that run keep their lease when a
    /// later version has another default.
    #[must_use]
    pub fn partition_written(&self) -> Option<OnPartition> {
        self.on_partition.or_else(|| self.checkpoint.is_some().then(OnPartition::default))
    }

    /// How long after their node was last heard its ranks have certainly stopped, where they may go
    /// on without a server for `lease`. That began no later; what is left after its grace is killed,
    /// whatever else they were asked. Those that were being stopped are killed after `grace`.
    #[must_use]
    pub fn stopped_after(&self, lease: Span, grace: Span) -> Span {
        let killed = lease.0.saturating_add(lease_grace(self.checkpoint.as_ref()).0);
        Span(killed.max(grace.0).saturating_add(FENCE_MARGIN.0))
    }

    /// How long after the last heartbeat of a lost node another attempt starts at the earliest; none
    /// where that is not a matter of time.
    #[must_use]
    pub fn restart_delay(&self) -> Option<Span> {
        let grace = self.checkpoint.as_ref().and_then(|c| c.grace).unwrap_or(GRACE);
        match self.partition() {
            OnPartition::StopAfter(lease) => Some(self.stopped_after(lease, grace)),
            OnPartition::Continue => None,
        }
    }

    /// Is its work to serve? What a service served is done when it is served: a service that is started
    /// again lost nothing of it. Said by the tag `work: service`.
    #[must_use]
    pub fn is_service(&self) -> bool {
        let (key, value) = SERVICE_TAG;
        self.tags.get(key).is_some_and(|v| v == value)
    }

    /// Must a new attempt wait until the ranks on a lost node have certainly stopped?
    #[must_use]
    pub fn fenced(&self) -> bool {
        self.checkpoint.is_some() || self.on_partition.is_some()
    }
}

fn is_default<T: Default + PartialEq>(v: &T) -> bool {
    *v == T::default()
}

/// Size of a gang. Either the flat fields (one group), or `groups`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct GangSpec {
    /// Nodes; 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Whole GPUs on each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<u32>,
    /// Short for one node with so many GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Processes on each node; one per GPU when absent, or one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks_per_node: Option<u32>,
    /// Logical processors on each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_per_node: Option<u32>,
    /// Memory on each node; also the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_per_node: Option<Bytes>,
    /// SKU of the GPUs; several that will do are written `h100-sxm|h200-sxm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// One MIG slice of this profile, like `3g.40gb`, on one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<String>,
    /// A share of one GPU, in thousandths, on one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_milli: Option<u32>,
    /// Several groups of different shape that start together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSpec>,
}

/// One group of a gang as written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct GroupSpec {
    /// What it is called.
    pub name: String,
    /// Nodes; 1 when absent.
    pub nodes: Option<u32>,
    /// Whole GPUs on each node.
    pub gpus_per_node: Option<u32>,
    /// Processes on each node.
    pub ranks_per_node: Option<u32>,
    /// Logical processors on each node.
    pub cpus_per_node: Option<u32>,
    /// Memory on each node.
    pub memory_per_node: Option<Bytes>,
    /// SKU of the GPUs.
    pub sku: Option<String>,
}

/// Where a gang wants to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TopologySpec {
    /// The whole gang inside one domain of this level, or it waits. `none` is the default.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "level_or_none")]
    pub required: Option<Level>,
    /// The same, but it does not wait for it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "level_or_none")]
    pub preferred: Option<Level>,
    /// Cut the gang into pieces of so many nodes, each inside one NVLink domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 200_000))]
    pub segment: Option<u32>,
    /// Spread the nodes evenly over the domains of this kind, so that the loss of one takes as
    /// few of them as can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// What must not fail as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// A power feed.
    Feed,
    /// A leaf: the switches that its nodes share.
    Leaf,
    /// A rack: its nodes share power distribution and cooling.
    Rack,
}

fn level_or_none<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Level>, D::Error> {
    match Option::<String>::deserialize(d)?.as_deref() {
        None | Some("none") => Ok(None),
        Some(word) => word.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

/// What runs. Either `script` (a shell script) or `command` (a program and its arguments).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RunSpec {
    /// Run by `/bin/sh`, or by its `#!` line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Program and arguments, started without a shell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Container image, as the node's own runtime names it; the ranks run in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Environment of every rank.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Directory the ranks start in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
}

/// Priority classes, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Runs when nothing else wants to.
    Low,
    /// Ordinary work; what jobs get that name none.
    #[default]
    Normal,
    /// Before normal work.
    High,
    /// Before everything.
    Critical,
}

impl Priority {
    /// What people write for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
            Priority::Critical => "critical",
        }
    }
}

/// Price classes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Cheapest; first to go.
    Spot,
    /// Ordinary work; what jobs get that name none.
    #[default]
    OnDemand,
    /// Bought ahead.
    Reserved,
}

/// Checkpoints of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckpointSpec {
    /// Where they are written; `MUSTER_CHECKPOINT_DIR` for the ranks.
    pub dir: String,
    /// How one is asked for.
    #[serde(default)]
    pub request: CheckpointRequest,
    /// How long the ranks get to write one before they are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// `auto`, or how often the job writes one by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

/// How a checkpoint is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointRequest {
    /// A signal such as `SIGUSR1`, sent to every rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

/// How often a job is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Retries {
    /// After the platform failed it.
    #[cfg_attr(feature = "openapi", schema(maximum = 10000))]
    pub infrastructure: u32,
    /// After it failed by itself.
    #[cfg_attr(feature = "openapi", schema(maximum = 10000))]
    pub application: u32,
}

impl Default for Retries {
    fn default() -> Self {
        Retries { infrastructure: 20, application: 0 }
    }
}

/// What ranks do when their node has lost the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnPartition {
    /// Stop after so long, so that another attempt may safely start elsewhere.
    StopAfter(Span),
    /// Go on; then no other attempt starts until the node sends heartbeats again or is removed.
    Continue,
}

impl OnPartition {
    /// What jobs with a checkpoint directory do that were submitted when their default was not
    /// written down with them.
    const UNWRITTEN: OnPartition = OnPartition::StopAfter(Span::mins(5));

    /// How long ranks go on without a server, as far as another attempt waits for them by the clock.
    /// Those that go on for good are given the default where only that is left to wait for.
    #[must_use]
    pub fn lease(self) -> Span {
        match self {
            OnPartition::StopAfter(after) => after,
            OnPartition::Continue => LEASE,
        }
    }
}

/// What [`OnPartition`] is by default.
// Longer than the longest failover to a standby: 15 s until an agent notices that its server is
// silent (the standby leads by then), 60 s until it gives up a handshake with one that hangs, 5 s
// until it tries the other one. Every second more is a second later that a job starts again when it
// was its node that was lost.
const LEASE: Span = Span::mins(2);

impl Default for OnPartition {
    fn default() -> Self {
        OnPartition::StopAfter(LEASE)
    }
}

/// Between SIGTERM and SIGKILL when a job is stopped and does not say.
pub const GRACE: Span = Span::secs(30);

/// Added to the moment at which ranks without a server have stopped: for a supervisor that is late
/// (the kernel kills it after 2 s), and for clocks that do not go alike.
pub const FENCE_MARGIN: Span = Span::secs(10);

/// Between SIGTERM and SIGKILL for ranks that stop because they have no server, at most.
pub const LEASE_GRACE: Span = Span::secs(10);

/// Between SIGTERM and SIGKILL for ranks that stop because they have no server: what the job asks
/// for, as far as that is not more than others may have to wait for.
#[must_use]
pub fn lease_grace(checkpoint: Option<&CheckpointSpec>) -> Span {
    checkpoint.and_then(|c| c.grace).map_or(LEASE_GRACE, |g| g.min(LEASE_GRACE))
}

/// A directory bound into the ranks' view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Path on the node.
    pub from: String,
    /// Path the ranks see.
    pub at: String,
    /// Whether they may only read.
    #[serde(default)]
    pub read_only: bool,
}

/// Smallest and largest number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Elastic {
    /// The fewest nodes it can run on.
    pub min_nodes: u32,
    /// The most nodes it can use.
    pub max_nodes: u32,
}

/// A simulated workload: it follows the simulated node's clock and starts no process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Simulate {
    /// How long it runs.
    pub run: Span,
    /// Time of a step; reported when set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Span>,
    /// How often it writes a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Span>,
    /// Exit code at the end.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 255))]
    pub exit_code: u8,
    /// Allocate the GPUs and do nothing with them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle: bool,
    /// From the start of the ranks to the first step: rendezvous, loading.
    #[serde(default, skip_serializing_if = "is_default")]
    pub startup: Span,
    /// How long a checkpoint blocks it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub checkpoint_cost: Span,
}

/// One group of a gang with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// How many nodes it has.
    pub nodes: u32,
    /// GPUs on each.
    pub gpus: u32,
    /// Processes on each.
    pub ranks: u32,
    /// Processors on each.
    pub cpus: u32,
    /// Memory on each; zero reserves nothing.
    pub memory: Bytes,
    /// SKU of the GPUs, when it matters; several that will do are joined by `|`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// Only a part of one GPU (then `gpus` is 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<GpuPart>,
}

/// A part of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GpuPart {
    /// So many thousandths, shared in time with others.
    Milli(u32),
    /// A MIG slice of this profile.
    Mig(String),
}

/// Largest number of processes of a gang.
pub const MAX_RANKS: u64 = 4_000_000;
/// Largest array.
pub const MAX_ARRAY: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_may_be_named_or_none() {
        let read = |t: &str| serde_json::from_str::<TopologySpec>(t);
        assert_eq!(read(r#"{"required":"leaf"}"#).unwrap().required, Some(Level::Leaf));
        assert_eq!(read(r#"{"required":"none"}"#).unwrap().required, None);
        assert_eq!(read(r#"{"preferred":null}"#).unwrap().preferred, None);
        let e = read(r#"{"required":"room"}"#).unwrap_err().to_string();
        assert!(e.contains("room") && e.contains("leaf"), "{e}");
    }
}
