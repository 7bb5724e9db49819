//! What a node saw going wrong, classified on the node and reported as a fact. Plain data: the
//! catalogue that classifies lives in `health`.

use crate::ids::AttemptKey;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// Whom or what it is attributed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// The job's own doing.
    Application,
    /// Driver or firmware of a device.
    Driver,
    /// The GPU itself.
    Gpu,
    /// The GPU's memory.
    Memory,
    /// A link between GPUs, or between a GPU and a switch.
    Link,
    /// The bus between GPU and host.
    Bus,
    /// Heat and cooling.
    Thermal,
    /// Power supply and its limits.
    Power,
    /// Network cards, ports and cables.
    Network,
    /// Processor, memory or kernel of the host.
    Host,
    /// Disks and file systems.
    Storage,
    /// Reported, and of no consequence.
    Notice,
    /// Not known.
    Unknown,
}

impl FaultClass {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FaultClass::Application => "application",
            FaultClass::Driver => "driver",
            FaultClass::Gpu => "gpu",
            FaultClass::Memory => "memory",
            FaultClass::Link => "link",
            FaultClass::Bus => "bus",
            FaultClass::Thermal => "thermal",
            FaultClass::Power => "power",
            FaultClass::Network => "network",
            FaultClass::Host => "host",
            FaultClass::Storage => "storage",
            FaultClass::Notice => "notice",
            FaultClass::Unknown => "unknown",
        }
    }
}

/// What the fault asks for. Ordered: a later one is heavier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultAction {
    /// Nothing has to be done.
    None,
    /// Watch it.
    Watch,
    /// The job is to be restarted, or repaired.
    RestartJob,
    /// The GPU is to be reset once nothing runs on it.
    ResetWhenIdle,
    /// The GPU is to be reset.
    ResetGpu,
    /// The node is to be restarted.
    Reboot,
    /// Somebody has to look: seats, cables, power, cooling.
    Inspect,
    /// The part is to be replaced.
    Replace,
}

impl FaultAction {
    /// What people read for it, as an instruction.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            FaultAction::None => "nothing to do",
            FaultAction::Watch => "watch it",
            FaultAction::RestartJob => "restart the job",
            FaultAction::ResetWhenIdle => "reset the GPU when idle",
            FaultAction::ResetGpu => "reset the GPU",
            FaultAction::Reboot => "reboot the node",
            FaultAction::Inspect => "inspect it",
            FaultAction::Replace => "replace the part",
        }
    }
}

/// Where it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultSource {
    /// The kernel's log.
    Kernel,
    /// The device's driver.
    Driver,
    /// The agent's own look at the machine.
    Agent,
}

/// A fault as the node reports it: one for many repeated lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ObservedFault {
    /// `xid-79`, `sxid-12028`, `oom`, `aer-fatal`: stable, what rules and users name.
    pub code: String,
    /// First seen, by the node's clock.
    pub at: Time,
    /// How often, since it was last reported.
    pub count: u64,
    /// Where it was read.
    pub source: FaultSource,
    /// The component it is attributed to.
    pub class: FaultClass,
    /// What it asks for.
    pub action: FaultAction,
    /// The GPU, where one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// The process, where one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The attempt that process belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptKey>,
    /// The global rank that process is, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The line as it was read, cut short.
    pub text: String,
}

/// Characters of a fault's code that are kept.
const CODE_MAX: usize = 64;
/// Characters of its text that are kept.
const TEXT_MAX: usize = 500;

impl ObservedFault {
    /// The fault with what is too long cut short, so that no node can fill the log.
    #[must_use]
    pub fn bounded(mut self) -> ObservedFault {
        crate::qualification::cut(&mut self.code, CODE_MAX);
        crate::qualification::cut(&mut self.text, TEXT_MAX);
        self
    }
}
