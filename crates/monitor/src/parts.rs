//! Small parts that the monitor is put together from.

use crate::faults::agent_fault;
use crate::host::{HostReader, HostSample, IbPort};
use crate::kmsg::Devices;
use crate::sampler::Shared;
use crate::snapshot::pci_key;
use muster_gpu::device::{Device, DeviceError, Driver, DriverEvent};
use muster_model::fault::ObservedFault;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Host figures for the server, by name.
pub(crate) fn metrics(h: &HostSample) -> BTreeMap<String, f64> {
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
    put("dstate", h.stuck.map(f64::from));
    all
}

/// Names of the ports of a host that have a link.
pub(crate) fn linked(h: &HostSample) -> impl Iterator<Item = String> + '_ {
    let ib = h.ib.iter().filter(|p| p.state.as_deref() == Some("ACTIVE")).map(port_name);
    ib.chain(h.nics.iter().filter(|n| n.up == Some(true)).map(|n| n.name.clone()))
}

/// A card has one port as a rule; then it is enough to name the card.
fn port_name(p: &IbPort) -> String {
    if p.port == 1 { p.device.clone() } else { format!("{}/{}", p.device, p.port) }
}

/// Ports that are reported; a card can be split into very many.
const MOST_IB: usize = 16;
const MOST_NICS: usize = 8;

/// Figures of network ports, by name. A port that never had a link since the agent started is not
/// in use: it is left out.
pub(crate) fn ports(h: &HostSample, used: &BTreeSet<String>) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let mut put = |port: &str, what: &str, value: Option<u64>| {
        if let Some(v) = value {
            all.insert(format!("port.{port}.{what}"), v as f64);
        }
    };
    for (name, p) in
        h.ib.iter().map(|p| (port_name(p), p)).filter(|(n, _)| used.contains(n)).take(MOST_IB)
    {
        let of =
            |counter: &str| p.counters.iter().find(|(n, _)| n == counter).map(|(_, value)| *value);
        put(&name, "up", p.state.as_deref().map(|s| u64::from(s == "ACTIVE")));
        put(&name, "downed", of("link_downed"));
        put(&name, "symbol_errors", of("symbol_error"));
        put(&name, "recoveries", of("link_error_recovery"));
        put(&name, "rcv_errors", of("port_rcv_errors"));
        put(&name, "discards", of("port_xmit_discards"));
    }
    for n in h.nics.iter().filter(|n| used.contains(&n.name)).take(MOST_NICS) {
        let of = |counter: &str| {
            n.counters.iter().find(|(name, _)| *name == counter).map(|(_, value)| *value)
        };
        put(&n.name, "up", n.up.map(u64::from));
        // It counts both ways, and the first is up.
        put(&n.name, "downed", n.carrier_changes.map(|c| c / 2));
        put(&n.name, "rcv_errors", of("rx_errors"));
        put(&n.name, "discards", of("tx_dropped"));
    }
    all
}

/// A driver that does not answer is a fault only where there is something for it to drive.
pub(crate) fn driver_fault(why: &DeviceError, root: &Path, at: Time) -> Option<ObservedFault> {
    let on_bus = || HostReader::new(root).sample_host(at).nvidia.len();
    match why {
        DeviceError::Mismatch(_) => Some(agent_fault("driver-mismatch", at, None, why.to_string())),
        DeviceError::NoDriver(_) => {
            let n = on_bus();
            (n > 0).then(|| {
                agent_fault("driver-missing", at, None, format!("{n} on the bus, and {why}"))
            })
        }
        other => Some(agent_fault("gpu-silent", at, None, other.to_string())),
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
