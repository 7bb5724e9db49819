//! Where a figure stands in a row. Worked out once for each list of names, not for each row.

use std::sync::Arc;

/// Figures of a GPU that the watch reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Col {
    Util,
    Clock,
    Temp,
    Power,
    Sbe,
    Dbe,
    Replay,
    Throttle,
    Sm,
    RemapPending,
    RemapFailed,
    Nvlink,
    Margin,
    Width,
    Gen,
    Remapped,
}

pub(super) const COLS: usize = 16;

const NAMES: [&str; COLS] = [
    "util",
    "sm_clock",
    "temp",
    "power",
    "ecc_sbe",
    "ecc_dbe",
    "replay",
    "throttle",
    "sm_active",
    "remap_pending",
    "remap_failed",
    "nvlink_errors",
    "thermal_margin",
    "pcie_width",
    "pcie_gen",
    "remapped_rows",
];

/// A place that no row has.
const NOWHERE: u16 = u16::MAX;
/// Longer lists of names are cut; no agent sends such.
const NAMES_MAX: usize = 4096;
/// Ports and file systems of one node that are watched.
const THINGS_MAX: usize = 32;
/// Longer names are no ports and mounts.
const NAME_MAX: usize = 128;

fn place(i: usize) -> u16 {
    u16::try_from(i).unwrap_or(NOWHERE)
}

/// A figure of a row; NaN where it has none.
fn at(row: &[f32], place: u16) -> f32 {
    row.get(usize::from(place)).copied().unwrap_or(f32::NAN)
}

/// Names of the columns of GPUs.
#[derive(Debug, Default)]
pub(super) struct GpuLayout {
    names: Vec<String>,
    places: [u16; COLS],
}

impl GpuLayout {
    fn of(names: &[String]) -> GpuLayout {
        let mut places = [NOWHERE; COLS];
        for (i, name) in names.iter().take(NAMES_MAX).enumerate() {
            if let Some(col) = NAMES.iter().position(|n| n == name) {
                places[col] = place(i);
            }
        }
        GpuLayout { names: names.to_vec(), places }
    }

    /// The figures that the watch reads.
    pub(super) fn read(&self, row: &[f32]) -> [f32; COLS] {
        self.places.map(|p| at(row, p))
    }

    pub(super) fn width(&self) -> usize {
        self.names.len()
    }
}

/// Where the figures of a port stand.
#[derive(Debug, Clone)]
pub(super) struct PortCols {
    pub(super) name: String,
    up: u16,
    downed: u16,
    symbols: u16,
    recoveries: u16,
    receive: u16,
}

/// A port in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortRow {
    pub(super) up: f32,
    pub(super) downed: f32,
    pub(super) symbols: f32,
    pub(super) recoveries: f32,
    pub(super) receive: f32,
}

impl PortCols {
    pub(super) fn read(&self, row: &[f32]) -> PortRow {
        PortRow {
            up: at(row, self.up),
            downed: at(row, self.downed),
            symbols: at(row, self.symbols),
            recoveries: at(row, self.recoveries),
            receive: at(row, self.receive),
        }
    }
}

/// Where the figures of a file system stand.
#[derive(Debug, Clone)]
pub(super) struct MountCols {
    pub(super) name: String,
    latency: [u16; 3],
    stalled: u16,
}

impl MountCols {
    /// Latencies of reading, writing and looking up, in milliseconds.
    pub(super) fn latency(&self, row: &[f32]) -> [f32; 3] {
        self.latency.map(|p| at(row, p))
    }

    /// Seconds that the probe under way waits.
    pub(super) fn stalled(&self, row: &[f32]) -> f32 {
        at(row, self.stalled)
    }
}

/// Names of the figures of a host.
#[derive(Debug)]
pub(super) struct HostLayout {
    names: Vec<String>,
    pub(super) ports: Vec<PortCols>,
    pub(super) mounts: Vec<MountCols>,
    dstate: u16,
}

impl HostLayout {
    fn of(names: &[String]) -> HostLayout {
        let mut out = HostLayout {
            names: names.to_vec(),
            ports: Vec::new(),
            mounts: Vec::new(),
            dstate: NOWHERE,
        };
        for (i, name) in names.iter().take(NAMES_MAX).enumerate() {
            if name == "dstate" {
                out.dstate = place(i);
            } else if let Some((port, figure)) = thing(name, "port.") {
                out.port(port, figure, place(i));
            } else if let Some((mount, figure)) = thing(name, "fs.") {
                out.mount(mount, figure, place(i));
            }
        }
        out
    }

    fn port(&mut self, name: &str, figure: &str, place: u16) {
        if !matches!(figure, "up" | "downed" | "symbol_errors" | "recoveries" | "rcv_errors") {
            return;
        }
        let known = self.ports.iter().position(|p| p.name == name);
        let i = match known {
            Some(i) => i,
            None if self.ports.len() < THINGS_MAX => {
                let none = NOWHERE;
                self.ports.push(PortCols {
                    name: name.to_owned(),
                    up: none,
                    downed: none,
                    symbols: none,
                    recoveries: none,
                    receive: none,
                });
                self.ports.len() - 1
            }
            None => return,
        };
        let port = &mut self.ports[i];
        match figure {
            "up" => port.up = place,
            "downed" => port.downed = place,
            "symbol_errors" => port.symbols = place,
            "recoveries" => port.recoveries = place,
            _ => port.receive = place,
        }
    }

    fn mount(&mut self, name: &str, figure: &str, place: u16) {
        if !matches!(figure, "read_ms" | "write_ms" | "meta_ms" | "stalled_s") {
            return;
        }
        let known = self.mounts.iter().position(|m| m.name == name);
        let i = match known {
            Some(i) => i,
            None if self.mounts.len() < THINGS_MAX => {
                let name = name.to_owned();
                self.mounts.push(MountCols { name, latency: [NOWHERE; 3], stalled: NOWHERE });
                self.mounts.len() - 1
            }
            None => return,
        };
        let mount = &mut self.mounts[i];
        match figure {
            "read_ms" => mount.latency[0] = place,
            "write_ms" => mount.latency[1] = place,
            "meta_ms" => mount.latency[2] = place,
            _ => mount.stalled = place,
        }
    }

    pub(super) fn dstate(&self, row: &[f32]) -> f32 {
        at(row, self.dstate)
    }
}

fn thing<'a>(name: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    let (thing, figure) = name.strip_prefix(prefix)?.rsplit_once('.')?;
    (!thing.is_empty() && thing.len() <= NAME_MAX).then_some((thing, figure))
}

/// Layouts that nodes share: most nodes of a fleet send the same names.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    gpus: Vec<Arc<GpuLayout>>,
    hosts: Vec<Arc<HostLayout>>,
}

/// From so many layouts on, those that nobody uses any more are looked for.
const SHARED_MAX: usize = 256;

impl Layouts {
    /// The layout of these names; `old` is what the node had.
    pub(super) fn gpu(&mut self, names: &[String], old: Option<&Arc<GpuLayout>>) -> Arc<GpuLayout> {
        if let Some(old) = old.filter(|o| o.names == names) {
            return Arc::clone(old);
        }
        if let Some(known) = self.gpus.iter().find(|l| l.names == names) {
            return Arc::clone(known);
        }
        let made = Arc::new(GpuLayout::of(names));
        if self.gpus.len() >= SHARED_MAX {
            self.gpus.retain(|l| Arc::strong_count(l) > 1);
        }
        // Where everybody differs, sharing is given up and not memory.
        if self.gpus.len() < SHARED_MAX {
            self.gpus.push(Arc::clone(&made));
        }
        made
    }

    /// The same for hosts.
    pub(super) fn host(
        &mut self,
        names: &[String],
        old: Option<&Arc<HostLayout>>,
    ) -> Arc<HostLayout> {
        if let Some(old) = old.filter(|o| o.names == names) {
            return Arc::clone(old);
        }
        if let Some(known) = self.hosts.iter().find(|l| l.names == names) {
            return Arc::clone(known);
        }
        let made = Arc::new(HostLayout::of(names));
        if self.hosts.len() >= SHARED_MAX {
            self.hosts.retain(|l| Arc::strong_count(l) > 1);
        }
        if self.hosts.len() < SHARED_MAX {
            self.hosts.push(Arc::clone(&made));
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn figures_are_found_by_name_in_any_order() {
        let mut l = Layouts::default();
        let gpu = l.gpu(&names(&["power", "what", "util"]), None);
        let row = gpu.read(&[300.0, 1.0, 99.0]);
        assert_eq!((row[Col::Power as usize], row[Col::Util as usize]), (300.0, 99.0));
        assert!(row[Col::Temp as usize].is_nan());
        assert!(gpu.read(&[300.0])[Col::Util as usize].is_nan(), "a row that is too short");
        assert!(Arc::ptr_eq(&gpu, &l.gpu(&names(&["power", "what", "util"]), None)));
    }

    #[test]
    fn ports_and_mounts_are_taken_from_names() {
        let mut l = Layouts::default();
        let given = names(&[
            "port.mlx5_0.up",
            "fs./data/a.b.read_ms",
            "dstate",
            "port.eth0.100.symbol_errors",
            "fs./data/a.b.stalled_s",
            "port..up",
            "load",
        ]);
        let host = l.host(&given, None);
        let ports: Vec<&str> = host.ports.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(ports, ["mlx5_0", "eth0.100"]);
        assert_eq!(host.mounts[0].name, "/data/a.b");
        let row = [1.0, 3.0, 2.0, 7.0, 40.0, 0.0, 0.0];
        assert_eq!(host.dstate(&row), 2.0);
        assert_eq!(host.mounts[0].stalled(&row), 40.0);
        assert_eq!(host.ports[1].read(&row).symbols, 7.0);
    }
}
