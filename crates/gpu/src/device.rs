//! What every kind of GPU can be asked, whoever makes it: the one door between the agent and a
//! device. A real device and a simulated one stand behind it as equals.

use crate::mig::MigPlan;
use crate::sample::Sample;
use muster_model::node::Gpu;
use std::collections::BTreeMap;
use std::time::Duration;

/// Why a device did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// It is gone from the bus: nothing it is asked will ever be answered before a restart.
    #[error("the GPU is lost: it does not answer on the bus any more")]
    Lost,
    /// The driver's library and its kernel module are of different versions.
    #[error("the driver's library and its kernel module are of different versions: {0}")]
    Mismatch(String),
    /// There is no driver on this machine.
    #[error("no driver answers on this machine: {0}")]
    NoDriver(String),
    /// This user may not ask.
    #[error("the driver refuses to answer this user")]
    NotAllowed,
    /// It answered with an error of its own.
    #[error("{0}")]
    Failed(String),
}

/// A process that uses a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number, as the host counts.
    pub pid: i32,
    /// Memory it holds on the device, where the driver says.
    pub memory: Option<u64>,
    /// The slice it runs in: GPU instance and compute instance.
    pub slice: Option<(u32, u32)>,
}

/// Something a driver reported by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverEvent {
    /// Index of the device, where the driver says which.
    pub gpu: Option<u32>,
    /// The XID.
    pub xid: u32,
}

/// How a device is wired right now; it changes with load and power saving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BusNow {
    /// Generation in use.
    pub pcie_gen: Option<u32>,
    /// Lanes in use.
    pub pcie_width: Option<u32>,
}

/// What the driver recommends for a GPU after an error, where it says (driver 565 and later).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing to do.
    None,
    /// Reset the GPU.
    ResetGpu,
    /// Restart the node.
    Reboot,
    /// Let peers finish, then reset.
    DrainPeers,
    /// Let everything finish, then reset.
    DrainAndReset,
}

/// One GPU.
pub trait Device: Send + Sync {
    /// Index on the node.
    fn index(&self) -> u32;
    /// Unique id, as it was when the device was found.
    fn uuid(&self) -> &str;
    /// PCI address in the long form, `00000000:18:00.0`.
    fn pci(&self) -> Option<&str>;
    /// Everything about it that does not change while it works.
    ///
    /// # Errors
    /// When it does not answer.
    fn describe(&self) -> Result<Gpu, DeviceError>;
    /// How it is wired right now.
    fn bus(&self) -> BusNow;
    /// Fills in what can be measured now; what it does not have stays absent. `sample` is cleared
    /// first.
    ///
    /// # Errors
    /// When it does not answer at all.
    fn sample(&self, sample: &mut Sample) -> Result<(), DeviceError>;
    /// Samples of its slices: GPU instance, compute instance, figures. Empty when it is not cut.
    ///
    /// # Errors
    /// When it does not answer at all.
    fn sample_slices(&self) -> Result<Vec<(u32, u32, Sample)>, DeviceError>;
    /// Who uses it.
    ///
    /// # Errors
    /// When it does not answer.
    fn processes(&self) -> Result<Vec<Process>, DeviceError>;
    /// What the driver recommends; none when it cannot say.
    fn recovery(&self) -> Option<Recovery>;
}

/// A maker's driver: where devices come from.
pub trait Driver: Send + Sync {
    /// `nvml` or `simulated`.
    fn name(&self) -> &'static str;
    /// `driver`, `cuda`, `nvml` and the like.
    fn versions(&self) -> BTreeMap<String, String>;
    /// Devices in index order. One that is there and does not answer is an error in its place.
    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>>;
    /// Waits until the driver reports something, at most so long.
    ///
    /// # Errors
    /// When the driver cannot report anything; do not ask again.
    fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError>;
    /// Cuts a GPU as planned. Only ever called where an operator allowed it. It stops at the first
    /// step that fails, and what was done before stays done.
    ///
    /// # Errors
    /// When this driver cannot, or a step failed.
    fn apply_mig(&self, gpu: u32, plan: &MigPlan) -> Result<(), DeviceError> {
        let _ = plan;
        Err(DeviceError::Failed(format!("GPU {gpu} cannot be cut into slices by this driver")))
    }
}
