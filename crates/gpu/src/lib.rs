//! Devices: the GPUs of this machine, as their driver tells them.
//!
//! The NVIDIA management library is loaded at run time, so the same binary starts on a machine
//! without a driver. What a device does not tell is absent, never zero.

pub mod device;
pub mod sample;
mod sku;

pub use sku::sku;

use muster_model::node::Gpu;
use muster_model::units::Bytes;
use nvml_wrapper::{Device, Nvml};
use std::collections::BTreeMap;

/// What the driver knows: its devices, and the versions that belong to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// GPUs in index order, as `CUDA_VISIBLE_DEVICES` counts them with `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    pub gpus: Vec<Gpu>,
    /// `driver` and `cuda`.
    pub versions: BTreeMap<String, String>,
}

/// Asks the NVIDIA driver of this machine. A machine without one has no GPUs; a driver that does
/// not answer is told in the log.
#[must_use]
pub fn nvidia() -> Found {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(e) => {
            // Most machines that run the control plane have none.
            tracing::debug!(error = %e, "no NVIDIA driver answers");
            return Found::default();
        }
    };
    let mut found = Found::default();
    if let Ok(v) = nvml.sys_driver_version() {
        found.versions.insert("driver".into(), v);
    }
    if let Ok(v) = nvml.sys_cuda_driver_version() {
        let text = format!("{}.{}", v / 1000, v % 1000 / 10);
        found.versions.insert("cuda".into(), text);
    }
    let count = nvml.device_count().unwrap_or_else(|e| {
        tracing::warn!(error = %e, "the NVIDIA driver does not say how many GPUs there are");
        0
    });
    for index in 0..count {
        match nvml.device_by_index(index) {
            Ok(device) => match gpu(index, &device) {
                Ok(gpu) => found.gpus.push(gpu),
                Err(e) => tracing::warn!(index, error = %e, "a GPU does not tell what it is"),
            },
            Err(e) => tracing::warn!(index, error = %e, "a GPU cannot be reached"),
        }
    }
    found
}

fn gpu(index: u32, d: &Device<'_>) -> Result<Gpu, nvml_wrapper::error::NvmlError> {
    Ok(Gpu {
        index,
        sku: sku(&d.name()?),
        uuid: d.uuid()?,
        serial: d.serial().ok(),
        memory: Bytes(d.memory_info()?.total),
        pci: d.pci_info().ok().map(|p| p.bus_id),
        numa: d.numa_node_id().ok(),
        mig: d.mig_mode().ok().map(|m| m.current != 0),
        facts: None,
    })
}
