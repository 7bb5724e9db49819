//! A node: what is in it, and how it stands. The axes are separate on purpose: a node can be
//! ready, unreachable and cordoned at once.

use crate::cordon::Cordon;
use crate::ids::AttemptKey;
use crate::names::NodeName;
use crate::placement::GpuSet;
use crate::qualification::{PastQualification, Qualified, Qualifying};
use crate::topology::Location;
use crate::units::{Bytes, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What [`Inventory::isolation`] ends with where only their users separate ranks.
pub const ACCOUNTS_ONLY: &str = "accounts only";
/// What [`Inventory::isolation`] begins with where no rank is started; the reason comes after it.
pub const REFUSES_RANKS: &str = "refuses ranks: ";

/// What the agent found in the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Inventory {
    /// Processor model.
    pub cpu_model: String,
    /// Logical processors offered to jobs.
    pub cpus: u32,
    /// Processor sockets.
    #[serde(default)]
    pub sockets: u32,
    /// NUMA nodes with their processors as a list such as `0-15,32-47`.
    #[serde(default)]
    pub numa: Vec<Numa>,
    /// Memory offered to jobs.
    pub memory: Bytes,
    /// GPUs in index order.
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    /// Network cards.
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// Its block devices.
    #[serde(default)]
    pub disks: Vec<Disk>,
    /// Kernel release.
    pub kernel: String,
    /// Operating system's pretty name.
    #[serde(default)]
    pub os: String,
    /// Versions by component: driver, cuda, nccl, bios, agent.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// How ranks are isolated here: `cgroup2`, `cgroup1`, `hybrid` or `process-group`; then
    /// `, accounts only` where the kernel makes no namespaces; `refuses ranks: ` and the reason where
    /// none are started.
    #[serde(default)]
    pub isolation: String,
    /// True for a node whose devices are simulated.
    #[serde(default)]
    pub simulated: bool,
    /// The pool it belongs to: nodes that are managed alike. Empty stands for `default`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// What its agent can be asked for besides running work: `qualify`, `mig`, `reset`, `reboot`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub can: BTreeSet<String>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Numa {
    /// The number the kernel gives it.
    pub id: u32,
    /// Its processors, for example `0-15`.
    pub cpus: String,
    /// Memory that is local to its processors, in bytes.
    pub memory: Bytes,
}

/// A GPU. What a device does not report is absent, never zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Gpu {
    /// Index on the node, as in `CUDA_VISIBLE_DEVICES`.
    pub index: u32,
    /// Short SKU name such as `h100-sxm`.
    pub sku: String,
    /// Unique id of the device.
    pub uuid: String,
    /// Serial number of the board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Device memory.
    pub memory: Bytes,
    /// PCI address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// NUMA node it hangs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u32>,
    /// MIG mode, where the device has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<bool>,
    /// More that does not change while it works; an older agent does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Box<GpuFacts>>,
}

/// What a GPU is made of and set to. Only what stays the same while it works: what moves is
/// telemetry. What a device does not report is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct GpuFacts {
    /// The driver's full name of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Board part number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Version of its BIOS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vbios: Option<String>,
    /// Version of its InfoROM image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inforom: Option<String>,
    /// Compute capability, such as `9.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
    /// Memory the host can see through the bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar1: Option<Bytes>,
    /// Fastest generation of the bus that device and slot can both do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_gen: Option<u32>,
    /// Widest bus that device and slot can both do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_width: Option<u32>,
    /// Processors near it, such as `0-15`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Links to other GPUs or switches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<GpuLink>,
    /// Id of the NVLink fabric it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<String>,
    /// Its clique in that fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clique: Option<u32>,
    /// Place in its baseboard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<u32>,
    /// Error correction of its memory is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
    /// The driver stays loaded when nobody uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence: Option<bool>,
    /// Power limit in force, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit: Option<u32>,
    /// Least and most that may be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_range: Option<(u32, u32)>,
    /// Slices it can be cut into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mig_profiles: Vec<MigProfile>,
    /// Slices it is cut into now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mig_slices: Vec<MigSlice>,
}

/// One link of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GpuLink {
    /// The link's number on its GPU, from 0.
    pub link: u32,
    /// Whether it works.
    pub active: bool,
    /// PCI address of the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

/// A kind of slice a GPU can be cut into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MigProfile {
    /// Such as `3g.71gb`.
    pub name: String,
    /// The driver's number for it.
    pub id: u32,
    /// Most of them on one GPU.
    pub most: u32,
    /// Memory of one.
    pub memory: Bytes,
    /// Multiprocessors of one.
    pub sms: u32,
    /// First memory slices where one can be.
    pub starts: Vec<u32>,
    /// Memory slices it takes.
    pub size: u32,
}

/// A slice that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MigSlice {
    /// Unique id, as `CUDA_VISIBLE_DEVICES` takes it.
    pub uuid: String,
    /// The name of its profile, such as `3g.71gb`.
    pub profile: String,
    /// Number of its GPU instance.
    pub gpu_instance: u32,
    /// Number of its compute instance.
    pub compute_instance: u32,
    /// First memory slice.
    pub start: u32,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Nic {
    /// Interface name.
    pub name: String,
    /// `ethernet` or `infiniband`.
    pub kind: String,
    /// Hardware address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Speed in megabits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u64>,
    /// Link state as the kernel says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Rail it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail: Option<String>,
}

/// A block device of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Disk {
    /// Device name.
    pub name: String,
    /// Its capacity in bytes.
    pub size: Bytes,
    /// Model, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Spinning or not, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}

/// The stage of a node's life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Has joined, never been reported yet.
    Enrolled,
    /// May take work.
    Ready,
    /// Gets no new work; what runs may finish or is being moved.
    Draining,
    /// Drained: holds no work.
    Drained,
    /// Something was found there: it gets no new work until that is settled.
    Suspect,
    /// Taken out of service by a finding; waits for what is to be done.
    Quarantined,
    /// Something is being done to it: a reset, a restart, a repair.
    Repairing,
    /// Gone for good.
    Retired,
}

/// What an operator may do with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeAction {
    /// Give it work again that a cordon kept away.
    Uncordon,
    /// Give it no new work.
    Cordon,
    /// Give it work again after it was drained.
    Undrain,
    /// Give it no new work, and let what runs there end.
    Drain,
    /// End its test.
    CancelQualification,
    /// Test it.
    Qualify,
    /// Report that people repaired it: it is tested, and returns.
    Repaired,
    /// Return it to service without a test.
    Return,
    /// Give no new work to one of its GPUs.
    Exclude,
    /// Give work again to a GPU that was excluded.
    Include,
    /// Remove it from the site.
    Retire,
}

impl NodeAction {
    /// All of them, in the order in which they are offered.
    pub const ALL: [NodeAction; 11] = [
        NodeAction::Uncordon,
        NodeAction::Cordon,
        NodeAction::Undrain,
        NodeAction::Drain,
        NodeAction::CancelQualification,
        NodeAction::Qualify,
        NodeAction::Repaired,
        NodeAction::Return,
        NodeAction::Exclude,
        NodeAction::Include,
        NodeAction::Retire,
    ];
}

/// What a node is reserved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// Work of every kind.
    #[default]
    Normal,
    /// Replacing failed nodes of running gangs.
    Spare,
    /// Small preemptible work only: it fails more often than others.
    Lemon,
    /// Nothing until somebody has inspected it.
    Suspect,
}

impl NodeRole {
    /// The word users write.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            NodeRole::Normal => "normal",
            NodeRole::Spare => "spare",
            NodeRole::Lemon => "lemon",
            NodeRole::Suspect => "suspect",
        }
    }
}

/// A node as the log knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name, unique in the site.
    pub name: NodeName,
    /// Stage of its life cycle.
    pub stage: Stage,
    /// True while its agent's heartbeats come.
    pub reachable: bool,
    /// No new work, running work untouched.
    pub cordon: Option<Cordon>,
    /// What is in it.
    pub inventory: Inventory,
    /// Where it is.
    pub location: Location,
    /// Address that other ranks reach it under.
    pub address: String,
    /// The operating-system instance it runs on: nodes that share it also share ports.
    pub host: String,
    /// Identity of the machine that enrolled, as it says itself: a copied state directory is
    /// noticed by it. It is no proof of anything.
    pub machine: String,
    /// Hex SHA-256 of the key that it was enrolled with: only certificates of this enrolment are
    /// this node's. None: it was let in before keys were noted, and has not connected since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<String>,
    /// Boot id last reported; a new one means that nothing survived.
    pub boot: String,
    /// Which directory of its machine the agent keeps its records in, as last reported. An agent in
    /// another one knows nothing of the ranks that were started from here. Empty: it does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Attempts that still run there although the log has given up on them; they are stopped
    /// before the node takes new work.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub orphans: BTreeSet<AttemptKey>,
    /// True while the agent has seen more of the log than the server has (restored backup):
    /// nothing is started or stopped there until an operator says so.
    #[serde(default)]
    pub protected: bool,
    /// GPUs that it had and does not report any more, until they are back or replaced: who repairs
    /// it has to know which board that was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_gpus: Vec<Gpu>,
    /// GPUs that no job may use (set by health; none in this version).
    #[serde(default)]
    pub excluded_gpus: GpuSet,
    /// Those of them that an operator excluded.
    #[serde(default, skip_serializing_if = "no_gpus")]
    pub excluded_by_operator: GpuSet,
    /// What it is reserved for.
    #[serde(default)]
    pub role: NodeRole,
    /// How likely it is to fail, in thousandths a month; large gangs keep away.
    #[serde(default)]
    pub hazard: u32,
    /// When it entered its stage.
    #[serde(default)]
    pub stage_since: Time,
    /// Why it is in this state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stage_why: String,
    /// It has been there for too long after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_until: Option<Time>,
    /// A remediation drains it, not an operator; so also when it is drained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drained_by_remediation: bool,
    /// How often it came into service.
    #[serde(default)]
    pub generation: u32,
    /// It is watched until then, after its return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probation: Option<Time>,
    /// The open breaker of a group that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<crate::entity::Entity>,
    /// The remediation that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<u64>,
    /// The test that runs; it gets no work meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qualifying: Option<Qualifying>,
    /// The last test that came to an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qualified: Option<Arc<Qualified>>,
    /// Figures of its last tests, oldest first: what it is compared with later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub past_figures: Vec<Arc<PastQualification>>,
    /// When it joined.
    pub enrolled_at: Time,
    /// When its agent was last lost or came back.
    pub changed_at: Time,
    /// Sequence number of the last record that changed it.
    pub version: crate::ids::Seq,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn no_gpus(set: &GpuSet) -> bool {
    set.is_empty()
}

/// The excluded GPUs of a node that an operator excluded, once `now` are: those that were theirs
/// before (`was`: all, theirs), and what they added.
#[must_use]
pub fn excluded_by_operator(was: (GpuSet, GpuSet), now: GpuSet, by_operator: bool) -> GpuSet {
    let (all, theirs) = was;
    let added = if by_operator { now.minus(all) } else { GpuSet::EMPTY };
    theirs.and(now).or(added)
}

impl Node {
    /// It reports what is in it now.
    pub fn inventoried(&mut self, inventory: Inventory) {
        let before = std::mem::replace(&mut self.inventory, inventory);
        self.missing_gpus.extend(before.gpus);
        let now = &self.inventory.gpus;
        self.missing_gpus.retain(|g| now.iter().all(|n| n.index != g.index && n.uuid != g.uuid));
    }

    /// It is gone for good. Who it was and which GPUs it had is remembered for ever; its tests and
    /// the details of its parts are not.
    pub fn forget_details(&mut self) {
        self.qualified = None;
        self.past_figures = Vec::new();
        let i = &mut self.inventory;
        (i.numa, i.nics, i.disks) = (Vec::new(), Vec::new(), Vec::new());
        (i.versions, i.can) = (BTreeMap::new(), BTreeSet::new());
        for g in i.gpus.iter_mut().chain(&mut self.missing_gpus) {
            g.facts = None;
        }
    }

    /// All GPUs the machine has, as a set.
    #[must_use]
    pub fn gpu_set(&self) -> GpuSet {
        // One that fell off the bus leaves a gap.
        let bits = self.inventory.gpus.iter().filter(|g| g.index < 64);
        GpuSet(bits.fold(0, |set, g| set | 1 << g.index))
    }

    /// The GPUs that it should have and that are not there, as a set.
    #[must_use]
    pub fn missing_set(&self) -> GpuSet {
        let bits = self.missing_gpus.iter().filter(|g| g.index < 64);
        GpuSet(bits.fold(0, |set, g| set | 1 << g.index)).minus(self.gpu_set())
    }

    /// The pool it belongs to.
    #[must_use]
    pub fn pool(&self) -> &str {
        if self.inventory.pool.is_empty() { "default" } else { &self.inventory.pool }
    }

    /// The SKU of its GPUs, or `cpu`.
    #[must_use]
    pub fn sku(&self) -> &str {
        self.inventory.gpus.first().map_or("cpu", |g| g.sku.as_str())
    }
}
