//! What a runner can do beyond starting and stopping, and what it asks of others.

use super::pids::PidMap;
use crate::container::Containers;
use crate::isolation::devices::{self, UnifiedMemory};
use crate::isolation::{Abilities, Accounts, Isolation, Separation};
use muster_model::ids::AttemptKey;
use muster_model::placement::{AllocatedPart, GpuSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The GPUs that a slot held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotGpus {
    /// Whose they were.
    pub key: AttemptKey,
    /// The GPUs that were allocated, by index.
    pub gpus: GpuSet,
    /// The part of one, when it was not the whole.
    pub part: Option<AllocatedPart>,
    /// Processes that are known to have belonged to the slot; all of them are gone.
    pub pids: Vec<i32>,
}

/// The device nodes of a GPU, by its index.
pub type DeviceNodes = Arc<dyn Fn(u32) -> Vec<PathBuf> + Send + Sync>;
/// A MIG slice as a rank opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Its id, as `CUDA_VISIBLE_DEVICES` takes it.
    pub uuid: String,
    /// Its device nodes, besides those of the GPU itself.
    pub nodes: Vec<PathBuf>,
}

/// Finds a slice of a GPU, or cuts it; an error says why it is not there.
pub type Slices = Arc<dyn Fn(u32, &AllocatedPart) -> Result<Slice, String> + Send + Sync>;
/// Leaves a slot's GPUs as the next one wants to find them; an error says what is left on them.
pub type AfterSlot = Arc<dyn Fn(&SlotGpus) -> Result<(), String> + Send + Sync>;
/// Says what the node knows of the death of these processes.
pub type Explain = Arc<dyn Fn(AttemptKey, &[i32]) -> Option<String> + Send + Sync>;

/// What a runner does its work with. The default isolates as well as it can, gives out the
/// NVIDIA devices of this machine, and asks nobody.
#[derive(Clone)]
pub struct RunnerTools {
    /// Whether ranks may run where they cannot be isolated.
    pub isolation: Isolation,
    /// Which users ranks run as.
    pub accounts: Accounts,
    /// What this process can do to separate ranks.
    pub abilities: Abilities,
    /// Directories that no rank sees, besides the agent's own and that of a server around it.
    pub hidden: Vec<PathBuf>,
    /// The device nodes of a GPU.
    pub device_nodes: DeviceNodes,
    /// How the driver's node for unified memory is made, where slots with GPUs need it.
    pub unified_memory: UnifiedMemory,
    /// Who finds MIG slices; without it a slot that asks for one is refused.
    pub slices: Option<Slices>,
    /// Called in a thread of its own when every process of a slot with GPUs is gone and before
    /// its end is reported, which waits for it. It does not change the end.
    pub after_slot: Option<AfterSlot>,
    /// Asked in a thread of its own when a rank of a slot with GPUs failed, for up to a second,
    /// until it has an answer; the end waits for it.
    pub explain: Option<Explain>,
    /// How containers are run.
    pub containers: Arc<Containers>,
    /// Where it is written down whose process and whose GPU it is.
    pub pids: PidMap,
}

impl RunnerTools {
    /// For a node whose GPUs are not there: its slots are given no devices.
    #[must_use]
    pub fn simulated() -> RunnerTools {
        RunnerTools { device_nodes: Arc::new(|_| Vec::new()), ..RunnerTools::default() }
    }
}

impl RunnerTools {
    /// What separates ranks here.
    #[must_use]
    pub fn separation(&self) -> Separation {
        self.isolation.separation(&self.abilities)
    }
}

impl Default for RunnerTools {
    fn default() -> RunnerTools {
        let accounts = Accounts::default();
        RunnerTools {
            isolation: Isolation::default(),
            abilities: Abilities::of_this_process(&accounts),
            accounts,
            hidden: Vec::new(),
            device_nodes: Arc::new(devices::nvidia_nodes),
            unified_memory: UnifiedMemory::default(),
            slices: None,
            after_slot: None,
            explain: None,
            containers: Arc::default(),
            pids: PidMap::default(),
        }
    }
}

impl fmt::Debug for RunnerTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerTools").field("isolation", &self.isolation).finish_non_exhaustive()
    }
}
