//! The host: what `/proc` and `/sys` say. Whatever cannot be read is absent, never zero: a
//! machine is not healthier for saying less.

mod basics;
mod disks;
mod files;
mod net;
mod tasks;
pub(crate) mod watch;

#[cfg(test)]
mod tests;

pub use basics::{Cpu, Memory, Pressure};
pub use disks::{DiskIo, Mount, Space, space_of};
pub use net::{IbPort, NicNow};
use tasks::Blocked;
pub use tasks::Tasks;

use muster_model::units::Time;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// One look at the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HostSample {
    /// When, by the wall's clock.
    pub at: Time,
    /// Processor time since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Percent of the processors that was busy since the last look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Load over 1, 5 and 15 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<[f64; 3]>,
    /// The host's memory; none where the kernel does not report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Time lost to waiting for a resource.
    pub pressure: Vec<Pressure>,
    /// Processes killed for want of memory since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// What disks did since boot.
    pub disks: Vec<DiskIo>,
    /// File systems.
    pub mounts: Vec<Mount>,
    /// Network interfaces.
    pub nics: Vec<NicNow>,
    /// InfiniBand ports (RoCE shows here too).
    pub ib: Vec<IbPort>,
    /// Processes, by the states that mean trouble.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Tasks>,
    /// Processes that have been inside the kernel for longer than half a minute without
    /// getting anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<u32>,
    /// PCI addresses of NVIDIA GPUs on the bus, whether or not a driver has them.
    pub nvidia: Vec<String>,
}

/// Reads the host again and again.
#[derive(Debug)]
pub struct HostReader {
    root: PathBuf,
    last_cpu: Option<Cpu>,
    blocked: Blocked,
}

impl HostReader {
    /// Reads below `root`; `/` but in tests.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> HostReader {
        HostReader { root: root.into(), last_cpu: None, blocked: Blocked::default() }
    }

    /// One look. Takes a millisecond or two, most of it for the list of processes.
    #[must_use]
    pub fn sample_host(&mut self, at: Time) -> HostSample {
        let root = self.root.as_path();
        let cpu = basics::cpu(root);
        let busy = match (&self.last_cpu, &cpu) {
            (Some(before), Some(now)) => now.busy_since(before),
            _ => None,
        };
        self.last_cpu.clone_from(&cpu);
        let found = tasks::tasks(root);
        let stuck = found.as_ref().map(|(_, blocked)| self.blocked.count_blocked(at, blocked));
        HostSample {
            at,
            cpu,
            busy,
            load: basics::load(root),
            memory: basics::memory(root),
            pressure: basics::pressure(root),
            oom_kills: basics::oom_kills(root),
            disks: disks::io(root),
            mounts: disks::mounts(root),
            nics: net::nics(root),
            ib: net::infiniband(root),
            tasks: found.map(|(tasks, _)| tasks),
            stuck,
            nvidia: nvidia(root),
        }
    }
}

/// NVIDIA GPUs on the bus.
fn nvidia(root: &Path) -> Vec<String> {
    let dir = root.join("sys/bus/pci/devices");
    let mut found: Vec<String> = files::names(&dir)
        .into_iter()
        .filter(|name| {
            let word = |file| files::word(&dir.join(name).join(file));
            // 0x0300 is a display controller, 0x0302 one without a display.
            word("vendor").as_deref() == Some("0x10de")
                && word("class").is_some_and(|c| c.starts_with("0x0300") || c.starts_with("0x0302"))
        })
        .collect();
    found.sort();
    found
}
