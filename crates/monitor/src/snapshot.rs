//! What the node knows of itself at one moment.

use crate::host::HostSample;
use muster_gpu::device::Process;
use muster_gpu::sample::Sample;
use muster_model::node::Gpu;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the node knows of itself at one moment. Cheap to hand on: everything large is shared.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// When it was put together, by the wall's clock.
    pub at: Time,
    /// Name of the driver; empty while it has not been asked.
    pub driver: &'static str,
    /// Versions that the driver reports.
    pub versions: Arc<BTreeMap<String, String>>,
    /// Devices in index order.
    pub gpus: Vec<GpuNow>,
    /// Why there is no driver, where there is none.
    pub no_driver: Option<String>,
    /// Calls into the driver that have not come back.
    pub stuck: usize,
    /// The host, once it was looked at.
    pub host: Option<Arc<HostSample>>,
    /// How the kernel's log is read.
    pub log: LogNow,
    /// Faults reported so far, and those that were dropped because nobody took them.
    pub faults: (u64, u64),
}

/// One device at one moment.
#[derive(Debug, Clone)]
pub struct GpuNow {
    /// Index on the node.
    pub index: u32,
    /// Unique id; empty when it never answered.
    pub uuid: Arc<str>,
    /// PCI address, in the long form.
    pub pci: Option<Arc<str>>,
    /// What it is, once it said so.
    pub gpu: Option<Arc<Gpu>>,
    /// It answers.
    pub up: bool,
    /// A call to it has not come back.
    pub hung: bool,
    /// It is gone from the bus.
    pub lost: bool,
    /// Why it does not answer.
    pub why: Option<String>,
    /// When its sample was taken.
    pub at: Time,
    /// Its figures; none when it does not answer.
    pub sample: Option<Arc<Sample>>,
    /// Its slices: GPU instance, compute instance, figures.
    pub slices: Arc<Vec<(u32, u32, Sample)>>,
    /// Who uses it.
    pub processes: Arc<Vec<Process>>,
    /// Its last XID since the agent started.
    pub xid: Option<u32>,
    /// XIDs seen on it within [`XID_WINDOW_MS`]: code and how often.
    pub xids: Vec<(u32, u64)>,
}

/// How long an XID counts as recent; the window that dcgm-exporter uses by default.
pub const XID_WINDOW_MS: u64 = 300_000;

/// How the kernel's log is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogNow {
    /// Where from: `/dev/kmsg`, `journalctl`; none when it is not read.
    pub from: Option<String>,
    /// Why it is not read.
    pub why_not: Option<String>,
    /// Records read.
    pub records: u64,
    /// Records that the kernel overwrote before they were read, as far as it is known.
    pub missed: u64,
    /// Faults found in it, by code. Bounded by the number of codes there are.
    pub codes: BTreeMap<String, u64>,
}

/// Domain, bus and device of a PCI address in any of its forms: `00000000:18:00.0`,
/// `0000:18:00`, `PCI:0000:18:00`. The function is left out: kernel lines mostly do.
#[must_use]
pub fn pci_key(text: &str) -> Option<(u32, u8, u8)> {
    let text = text.trim().trim_start_matches("PCI:");
    let mut parts = text.rsplitn(3, ':');
    let device = parts.next()?.split('.').next()?;
    let bus = parts.next()?;
    let domain = parts.next().unwrap_or("0");
    Some((
        u32::from_str_radix(domain, 16).ok()?,
        u8::from_str_radix(bus, 16).ok()?,
        u8::from_str_radix(device, 16).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::pci_key;

    #[test]
    fn pci_addresses_of_driver_and_kernel_are_the_same() {
        let nvml = pci_key("00000000:00:06.0");
        assert_eq!(nvml, Some((0, 0, 6)));
        assert_eq!(pci_key("PCI:0000:00:06"), nvml);
        assert_eq!(pci_key("0000:00:06.0"), nvml);
        assert_eq!(pci_key("00:06"), nvml);
        assert_ne!(pci_key("0001:00:06"), nvml);
        assert_eq!(pci_key(""), None);
        assert_eq!(pci_key("0000:zz:00"), None);
    }
}
