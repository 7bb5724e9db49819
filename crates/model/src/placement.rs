//! What a gang was given: which ranks on which GPUs of which node.

use crate::names::NodeName;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A set of GPU indices of one node (at most 64).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct GpuSet(pub u64);

impl GpuSet {
    /// No GPU.
    pub const EMPTY: GpuSet = GpuSet(0);

    /// Indices 0 to n-1.
    #[must_use]
    pub fn first(n: u32) -> GpuSet {
        if n >= 64 { GpuSet(u64::MAX) } else { GpuSet((1 << n) - 1) }
    }
    /// How many GPUs are in the set.
    #[must_use]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }
    /// None at all?
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// The GPUs that are in both sets.
    #[must_use]
    pub fn and(self, o: GpuSet) -> GpuSet {
        GpuSet(self.0 & o.0)
    }
    /// The GPUs that are in either set.
    #[must_use]
    pub fn or(self, o: GpuSet) -> GpuSet {
        GpuSet(self.0 | o.0)
    }
    /// In this one but not in the other.
    #[must_use]
    pub fn minus(self, o: GpuSet) -> GpuSet {
        GpuSet(self.0 & !o.0)
    }
    /// The lowest n of them.
    #[must_use]
    pub fn lowest(self, n: u32) -> GpuSet {
        let mut out = 0u64;
        for i in self.iter().take(n as usize) {
            out |= 1 << i;
        }
        GpuSet(out)
    }
    /// The indices in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |i| self.0 >> i & 1 == 1)
    }
}

impl fmt::Display for GpuSet {
    /// `0,1,2`, as `CUDA_VISIBLE_DEVICES` wants it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, i) in self.iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            write!(f, "{i}")?;
        }
        Ok(())
    }
}

/// A gang's share of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Slot {
    /// The node it is on.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub node: NodeName,
    /// Index of the group in the gang.
    pub group: u32,
    /// Index of this slot in the gang, in rank order.
    pub node_rank: u32,
    /// First global rank that runs here.
    pub first_rank: u32,
    /// How many ranks run here.
    pub ranks: u32,
    /// GPUs allocated.
    pub gpus: GpuSet,
    /// Logical processors allocated.
    pub cpus: u32,
    /// Memory allocated.
    pub memory: Bytes,
    /// Only this part of the one GPU named in `gpus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<AllocatedPart>,
}

/// A part of a GPU that is allocated to a slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AllocatedPart {
    /// So many thousandths, shared in time with others.
    Milli(u32),
    /// A MIG slice.
    Mig {
        /// The name of its profile, such as `3g.71gb`.
        profile: String,
        /// First memory slice.
        start: u8,
        /// Memory slices.
        size: u8,
    },
}

/// What a collective of the gang runs over, the fastest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fabric {
    /// One node or one NVLink domain: NVLink all the way.
    Nvlink,
    /// One leaf, and the same GPU of every node on the same rail: one switch hop.
    Rail,
    /// One leaf.
    Leaf,
    /// Several leaves under one spine.
    Spine,
    /// Several spines.
    #[default]
    Core,
}

impl Fabric {
    /// What people read for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Fabric::Nvlink => "NVLink",
            Fabric::Rail => "one leaf, rail-aligned",
            Fabric::Leaf => "one leaf",
            Fabric::Spine => "one spine, several leaves",
            Fabric::Core => "several spines",
        }
    }
}

/// The whole of what an attempt was given. Slots are in rank order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Placement {
    /// One entry per node and group.
    pub slots: Vec<Slot>,
    /// Port of the first rank's rendezvous, free on every host of the gang.
    pub port: u16,
    /// The narrowest domain that holds the whole gang, as a readable path.
    pub domain: String,
    /// The level of that domain.
    pub level: crate::topology::Level,
    /// What a collective of the whole gang runs over.
    #[serde(default)]
    pub fabric: Fabric,
    /// Power cap for each GPU in watts, when a budget asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_watts: Option<u32>,
    /// How often the gang should write a checkpoint, where it leaves that to the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<crate::units::Span>,
}

impl Placement {
    /// Ranks in all.
    #[must_use]
    pub fn world_size(&self) -> u32 {
        self.slots.iter().map(|s| s.ranks).sum()
    }
}
