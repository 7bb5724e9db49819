//! What is in this machine, as the kernel reports it. What cannot be read is left out.

mod devices;
mod patient;

pub(crate) use patient::PatientSource;

use crate::cgroup::Cgroups;
use muster_model::node::{Gpu, Inventory, Numa};
use muster_model::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where the GPUs of a machine are learnt from.
pub trait GpuSource: Send + Sync {
    /// Every GPU, in index order.
    fn gpus(&self) -> Vec<Gpu>;

    /// Versions that belong to them, by component.
    fn versions(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

/// A machine without GPUs, or without a driver to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGpus;

impl GpuSource for NoGpus {
    fn gpus(&self) -> Vec<Gpu> {
        Vec::new()
    }
}

pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Looks at this machine.
#[must_use]
pub fn collect(gpus: &dyn GpuSource, cgroups: &Cgroups) -> Inventory {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let sockets: BTreeSet<&str> = fields(&cpuinfo, "physical id").collect();
    // Not every architecture writes a model name; what it does write comes second.
    let model = fields(&cpuinfo, "model name").next().or(fields(&cpuinfo, "Hardware").next());
    Inventory {
        cpu_model: model.unwrap_or("unknown").to_owned(),
        cpus: cpus(&cpuinfo),
        sockets: u32::try_from(sockets.len()).unwrap_or(1).max(1),
        numa: numa(),
        memory: memory(&read("/proc/meminfo").unwrap_or_default(), "MemTotal").unwrap_or_default(),
        gpus: gpus.gpus(),
        nics: devices::nics(),
        disks: devices::disks(),
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
        os: os(&read("/etc/os-release").unwrap_or_default()),
        versions: {
            let mut all = gpus.versions();
            all.insert("agent".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
            all
        },
        isolation: cgroups.isolation().to_owned(),
        simulated: false,
        pool: String::new(),
        can: BTreeSet::new(),
    }
}

/// Values of a `name : value` list.
fn fields<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |l| {
        let (key, value) = l.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Processors this process may run on.
fn cpus(cpuinfo: &str) -> u32 {
    let allowed = rustix::thread::sched_getaffinity(None).map(|set| set.count());
    allowed.unwrap_or_else(|_| u32::try_from(fields(cpuinfo, "processor").count()).unwrap_or(1))
}

/// A value of `/proc/meminfo`.
pub(crate) fn memory(meminfo: &str, name: &str) -> Option<Bytes> {
    let kib: u64 = fields(meminfo, name).next()?.strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024).map(Bytes)
}

fn numa() -> Vec<Numa> {
    let mut nodes = Vec::new();
    for entry in fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|n| n.strip_prefix("node")?.parse::<u32>().ok());
        let Some(id) = id else { continue };
        let cpus = read(entry.path().join("cpulist")).unwrap_or_default();
        let meminfo = read(entry.path().join("meminfo")).unwrap_or_default();
        // `Node 0 MemTotal:  123 kB`
        let plain = meminfo.replace(&format!("Node {id} "), "");
        let Some(memory) = memory(&plain, "MemTotal") else { continue };
        nodes.push(Numa { id, cpus, memory });
    }
    nodes.sort_by_key(|n| n.id);
    nodes
}

fn os(release: &str) -> String {
    let pretty = release.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="));
    pretty.unwrap_or("").trim_matches('"').to_owned()
}

/// A few figures of the host.
pub(crate) fn host_metrics() -> BTreeMap<String, f64> {
    let mut out = BTreeMap::new();
    if let Some(load) = read("/proc/loadavg").and_then(|l| l.split(' ').next()?.parse().ok()) {
        out.insert("load1".to_owned(), load);
    }
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    for (name, key) in [("memory_total", "MemTotal"), ("memory_available", "MemAvailable")] {
        if let Some(b) = memory(&meminfo, key) {
            #[expect(clippy::cast_precision_loss, reason = "telemetry is approximate by nature")]
            out.insert(name.to_owned(), b.0 as f64);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processors_memory_and_a_kernel() {
        let i = collect(&NoGpus, &Cgroups::none());
        assert!(i.cpus > 0 && i.memory.0 > 1 << 20 && !i.kernel.is_empty(), "{i:?}");
        assert_eq!((i.isolation.as_str(), i.simulated, i.gpus.len()), ("process-group", false, 0));
    }

    #[test]
    fn files_of_the_kernel_are_read_as_they_are() {
        assert_eq!(memory("MemTotal:       16 kB\nMemFree: 1 kB", "MemTotal"), Some(Bytes(16384)));
        assert_eq!(memory("MemTotal: lots", "MemTotal"), None);
        assert_eq!(os("A=b\nPRETTY_NAME=\"Some Linux 12\"\n"), "Some Linux 12");
    }
}
