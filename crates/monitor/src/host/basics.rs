//! Processors, memory, pressure.

use super::files;
use serde::Serialize;
use std::path::Path;

/// Processor time since boot, seconds over all processors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cpu {
    /// How many logical processors there are.
    pub count: u32,
    /// Time by kind, in the kernel's order; kinds it does not know are not there.
    pub seconds: Vec<(&'static str, f64)>,
}

const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

impl Cpu {
    fn sum(&self, idle: bool) -> f64 {
        let is_idle = |m: &str| matches!(m, "idle" | "iowait");
        self.seconds.iter().filter(|(m, _)| is_idle(m) == idle).map(|(_, s)| s).sum()
    }

    /// Percent that was busy between two looks; none when nothing passed or counters fell.
    #[must_use]
    pub fn busy_since(&self, before: &Cpu) -> Option<f64> {
        let busy = self.sum(false) - before.sum(false);
        let idle = self.sum(true) - before.sum(true);
        (busy >= 0.0 && idle >= 0.0 && busy + idle > 0.0).then(|| 100.0 * busy / (busy + idle))
    }
}

pub(super) fn cpu(root: &Path) -> Option<Cpu> {
    let text = files::text(&root.join("proc/stat"))?;
    let mut lines = text.lines();
    let mut words = lines.next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let seconds: Vec<(&'static str, f64)> = MODES
        .iter()
        .map_while(|m| Some((*m, words.next()?.parse::<u64>().ok()? as f64 / ticks)))
        .collect();
    let count = lines.take_while(|l| l.starts_with("cpu")).count();
    (!seconds.is_empty()).then(|| Cpu { count: u32::try_from(count).unwrap_or(u32::MAX), seconds })
}

pub(super) fn load(root: &Path) -> Option<[f64; 3]> {
    let text = files::text(&root.join("proc/loadavg"))?;
    let mut words = text.split_ascii_whitespace().map(|w| w.parse::<f64>().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// Memory in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// All memory of the host.
    pub total: u64,
    /// What programs can have without swapping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
    /// Waits to be written to disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty: Option<u64>,
    /// Swap in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_total: Option<u64>,
    /// Swap that is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_free: Option<u64>,
    /// Taken out of use by the kernel for hardware errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupted: Option<u64>,
}

pub(super) fn memory(root: &Path) -> Option<Memory> {
    let text = files::text(&root.join("proc/meminfo"))?;
    let of = |name: &str| -> Option<u64> {
        let line = text.lines().find(|l| l.split(':').next() == Some(name))?;
        let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
        kib.checked_mul(1024)
    };
    Some(Memory {
        total: of("MemTotal")?,
        available: of("MemAvailable"),
        dirty: of("Dirty"),
        swap_total: of("SwapTotal"),
        swap_free: of("SwapFree"),
        corrupted: of("HardwareCorrupted"),
    })
}

/// Time in which work waited for a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pressure {
    /// `cpu`, `memory` or `io`.
    pub resource: &'static str,
    /// `some`: at least one task waited; `full`: all did.
    pub kind: &'static str,
    /// Percent over the last ten seconds.
    pub avg10: f64,
    /// Seconds since boot.
    pub seconds: f64,
}

pub(super) fn pressure(root: &Path) -> Vec<Pressure> {
    let mut all = Vec::new();
    for resource in ["cpu", "memory", "io"] {
        let Some(text) = files::text(&root.join("proc/pressure").join(resource)) else { continue };
        for line in text.lines() {
            let kind = match line.split(' ').next() {
                Some("some") => "some",
                Some("full") => "full",
                _ => continue,
            };
            let of = |name: &str| line.split(' ').find_map(|w| w.strip_prefix(name));
            let (Some(avg10), Some(total)) = (
                of("avg10=").and_then(|v| v.parse().ok()),
                of("total=").and_then(|v| v.parse::<u64>().ok()),
            ) else {
                continue;
            };
            all.push(Pressure { resource, kind, avg10, seconds: total as f64 / 1e6 });
        }
    }
    all
}

pub(super) fn oom_kills(root: &Path) -> Option<u64> {
    let text = files::text(&root.join("proc/vmstat"))?;
    text.lines().find_map(|l| l.strip_prefix("oom_kill ")?.trim().parse().ok())
}
