//! Devices: the GPUs of this machine, as their driver reports them.
//!
//! The NVIDIA management library is loaded at run time, so the same binary starts on a machine
//! without a driver. What a device does not report is absent, never zero.

pub mod cuda;
pub mod dcgm;
pub mod device;
pub mod nvml;
pub mod qualify;
pub mod sample;
pub mod simulated;
mod sku;

pub use muster_model::mig;
pub use nvml::NvmlDriver;
pub use sku::sku;

use device::{DeviceError, Driver};
use muster_model::node::Gpu;
use std::collections::BTreeMap;

/// What the driver knows: its devices, and the versions that belong to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuInventory {
    /// GPUs in index order, as `CUDA_VISIBLE_DEVICES` counts them with `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    pub gpus: Vec<Gpu>,
    /// `driver`, `cuda` and `nvml`.
    pub versions: BTreeMap<String, String>,
}

/// The driver of this machine's GPUs.
///
/// # Errors
/// When there is none, or its parts do not fit together.
pub fn open() -> Result<Box<dyn Driver>, DeviceError> {
    Ok(Box::new(NvmlDriver::open()?))
}

/// Asks the NVIDIA driver of this machine. A machine without one has no GPUs; a driver that does
/// not answer is reported in the log.
#[must_use]
pub fn nvidia() -> GpuInventory {
    match open() {
        Ok(driver) => found(driver.as_ref()),
        Err(e @ DeviceError::NoDriver(_)) => {
            // Most machines that run the control plane have none.
            tracing::debug!(error = %e, "no NVIDIA driver answers");
            GpuInventory::default()
        }
        Err(e) => {
            tracing::warn!(error = %e, "the NVIDIA driver does not answer");
            GpuInventory::default()
        }
    }
}

/// Everything a driver knows about its devices.
#[must_use]
pub fn found(driver: &dyn Driver) -> GpuInventory {
    let mut found = GpuInventory { gpus: Vec::new(), versions: driver.versions() };
    for (index, device) in driver.devices().into_iter().enumerate() {
        match device.and_then(|d| d.describe()) {
            Ok(gpu) => found.gpus.push(gpu),
            Err(e) => tracing::warn!(index, error = %e, "a GPU does not report what it is"),
        }
    }
    found
}
