//! A job as the scheduler sees it.

use muster_model::ids::JobId;
use muster_model::names::ProjectName;
use muster_model::spec::{GpuPart, Group, Priority, Spread, Tier};
use muster_model::topology::Level;
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// What a gang asks for. Equal demands fit or fail alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand {
    /// Groups of the gang.
    pub groups: Arc<[Group]>,
    /// The whole gang in one domain of this level, or not at all.
    pub required: Option<Level>,
    /// The same, but it does not wait for it.
    pub preferred: Option<Level>,
    /// Pieces of so many nodes, each inside one NVLink domain.
    pub segment: Option<u32>,
    /// Spread evenly over these.
    pub spread: Option<Spread>,
    /// Only on nodes that can pretend.
    pub simulated: bool,
}

impl Demand {
    /// Nodes in all.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.groups.iter().map(|g| g.nodes).sum()
    }

    /// GPUs in all; a part of a GPU counts as one.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.groups.iter().map(|g| u64::from(g.nodes) * u64::from(g.gpus)).sum()
    }

    /// GPUs in all in thousandths, MIG slices by their share on a GPU of that SKU.
    #[must_use]
    pub fn milli(&self, sku: &str) -> u64 {
        self.groups.iter().map(|g| u64::from(g.nodes) * group_milli(g, sku)).sum()
    }

    /// The widest level that the gang may span.
    #[must_use]
    pub fn widest(&self) -> Level {
        self.required.unwrap_or(Level::Cluster).max(Level::Cluster)
    }

    /// The same gang with another number of nodes (elastic gangs have one group).
    #[must_use]
    pub fn resized(&self, nodes: u32) -> Demand {
        let mut groups = self.groups.to_vec();
        if let [g] = &mut groups[..] {
            g.nodes = nodes;
        }
        Demand { groups: groups.into(), ..self.clone() }
    }
}

/// GPUs of one node's share in thousandths.
#[must_use]
pub fn group_milli(g: &Group, sku: &str) -> u64 {
    match &g.part {
        None => u64::from(g.gpus) * 1000,
        Some(GpuPart::Milli(m)) => u64::from(*m),
        Some(GpuPart::Mig(p)) => {
            crate::mig::profile(sku, p).map_or(1000, |p| u64::from(crate::mig::milli(p)))
        }
    }
}

/// All that a cycle must know of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The job's number.
    pub job: JobId,
    /// What it asks for.
    pub demand: Arc<Demand>,
    /// Its priority class.
    pub priority: Priority,
    /// Its price class.
    pub tier: Tier,
    /// The project that owns it.
    pub project: ProjectName,
    /// The user who submitted it.
    pub user: Arc<str>,
    /// Its age counts from here.
    pub since: Time,
    /// Stopped after so long.
    pub limit: Option<Span>,
    /// Can be stopped without losing what it did before its last checkpoint.
    pub checkpoints: bool,
    /// Smallest and largest number of nodes.
    pub elastic: Option<(u32, u32)>,
}

impl Work {
    /// May it be stopped by anybody's on-demand work?
    #[must_use]
    pub fn preemptible(&self) -> bool {
        self.tier == Tier::Spot || self.priority == Priority::Low
    }

    /// GPUs it takes, or nodes when it takes none: what history compares.
    #[must_use]
    pub fn width(&self) -> u32 {
        let gpus = u32::try_from(self.demand.gpus()).unwrap_or(u32::MAX);
        if gpus > 0 { gpus } else { self.demand.nodes() }
    }

    /// Its time limit in milliseconds; a month stands for none.
    #[must_use]
    pub fn limit_ms(&self) -> u64 {
        self.limit.map_or(ENDLESS_MS, |l| l.0)
    }

    /// When it is over if it starts at `t`: far away for work without a limit.
    #[must_use]
    pub fn ends(&self, t: Time) -> Time {
        self.limit.map_or(FAR, |l| t + l)
    }
}

/// What stands for no limit where lengths are compared: a month.
pub(crate) const ENDLESS_MS: u64 = 30 * 24 * 3_600_000;

/// Later than everything: what has no limit ends here.
pub const FAR: Time = Time(i64::MAX / 4);
