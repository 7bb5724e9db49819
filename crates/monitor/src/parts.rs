//! Small parts that the monitor is put together from.

use crate::faults::seen;
use crate::host::{HostReader, HostSample};
use crate::kmsg::Devices;
use crate::sampler::Shared;
use crate::snapshot::pci_key;
use muster_gpu::device::{Device, DeviceError, Driver, DriverEvent};
use muster_model::fault::SeenFault;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Host figures for the server, by name.
pub(crate) fn figures(h: &HostSample) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(v) = value {
            all.insert(name.to_owned(), v);
        }
    };
    put("cpu_busy_percent", h.busy);
    put("load1", h.load.map(|l| l[0]));
    put("memory_total", h.memory.as_ref().map(|m| m.total as f64));
    put("memory_available", h.memory.as_ref().and_then(|m| m.available).map(|v| v as f64));
    put("oom_kills", h.oom_kills.map(|v| v as f64));
    put("tasks_blocked", h.tasks.as_ref().map(|t| f64::from(t.blocked)));
    put("tasks_zombie", h.tasks.as_ref().map(|t| f64::from(t.zombies)));
    for p in h.pressure.iter().filter(|p| p.kind == "some") {
        put(&format!("pressure_{}", p.resource), Some(p.avg10));
    }
    all
}

/// A driver that does not answer is a fault only where there is something for it to drive.
pub(crate) fn driver_fault(why: &DeviceError, root: &Path, at: Time) -> Option<SeenFault> {
    let on_bus = || HostReader::new(root).look(at).nvidia.len();
    match why {
        DeviceError::Mismatch(_) => Some(seen("driver-mismatch", at, None, why.to_string())),
        DeviceError::NoDriver(_) => {
            let n = on_bus();
            (n > 0).then(|| seen("driver-missing", at, None, format!("{n} on the bus, and {why}")))
        }
        other => Some(seen("gpu-silent", at, None, other.to_string())),
    }
}

/// The devices, for whoever knows a PCI address.
pub(crate) struct OnBus(pub(crate) Arc<Shared>);

impl Devices for OnBus {
    fn at(&self, pci: (u32, u8, u8)) -> Option<u32> {
        let is = |text: &Arc<str>| pci_key(text) == Some(pci);
        self.0.slots().iter().find(|s| s.pci.as_ref().is_some_and(is)).map(|s| s.index)
    }

    fn pci_of(&self, gpu: u32) -> Option<String> {
        let slot = self.0.slots().iter().find(|s| s.index == gpu)?;
        slot.pci.as_deref().map(str::to_owned)
    }

    fn xid(&self, gpu: u32, xid: u32, count: u64) {
        if let Some(slot) = self.0.slots().iter().find(|s| s.index == gpu) {
            slot.xid(self.0.steady.ms(), xid, count);
        }
    }
}

/// Stands where no driver is.
pub(crate) struct NoDriver;

impl Driver for NoDriver {
    fn name(&self) -> &'static str {
        "none"
    }
    fn versions(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>> {
        Vec::new()
    }
    fn wait_event(&self, _: Duration) -> Result<Option<DriverEvent>, DeviceError> {
        Err(DeviceError::NoDriver("there is none".into()))
    }
}
