//! Which device nodes a slot may open.

use crate::cgroup::Rule;
use muster_model::placement::{AllocatedPart, Slot};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What every program expects.
const USUAL: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// What belongs to nobody in particular: networks and file systems of the slot's own.
const SHARED: [&str; 2] = ["/dev/infiniband", "/dev/fuse"];
/// What a program needs besides the nodes of its GPUs.
const WITH_GPUS: [&str; 4] =
    ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/gdrdrv"];
/// Pseudo-terminals: any of them, in an instance of the slot's own; and its multiplexer.
const TERMINALS: [Rule; 2] = [
    Rule { block: false, major: 136, minor: None },
    Rule { block: false, major: 5, minor: Some(2) },
];

/// All nodes of a slot that exist here: the usual ones, and those of its GPUs.
pub(crate) fn nodes(slot: &Slot, of_gpu: &dyn Fn(u32) -> Vec<PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = USUAL.iter().map(PathBuf::from).collect();
    for path in SHARED.iter().map(Path::new) {
        if path.is_dir() {
            let inside = fs::read_dir(path).into_iter().flatten().flatten();
            all.extend(inside.map(|e| e.path()).filter(|p| Rule::of(p).is_some()));
        } else {
            all.push(path.to_path_buf());
        }
    }
    let gpus: Vec<PathBuf> = slot.gpus.iter().flat_map(of_gpu).collect();
    if !gpus.is_empty() {
        all.extend(WITH_GPUS.iter().map(PathBuf::from));
        all.extend(gpus);
    }
    all.retain(|p| Rule::of(p).is_some());
    all.sort();
    all.dedup();
    all
}

/// How the node of the driver's unified memory is made. The driver does that when somebody who may
/// first uses it, which is nobody in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnifiedMemory {
    /// The node of the driver itself: where there is none, there is no driver.
    pub driver: PathBuf,
    /// The node that is made when it is missing.
    pub node: PathBuf,
    /// The program that makes it, and its arguments.
    pub command: Vec<String>,
    /// How long that may take.
    pub most: Duration,
}

impl Default for UnifiedMemory {
    fn default() -> UnifiedMemory {
        UnifiedMemory {
            driver: "/dev/nvidiactl".into(),
            node: "/dev/nvidia-uvm".into(),
            command: ["nvidia-modprobe", "-u", "-c=0"].map(str::to_owned).into(),
            most: Duration::from_secs(5),
        }
    }
}

impl UnifiedMemory {
    /// Whether it must be made before a slot can use it.
    pub(crate) fn is_missing(&self) -> bool {
        !self.node.exists() && self.driver.exists()
    }

    /// Makes it. A program that hangs is killed; not for a thread that others wait for.
    ///
    /// # Errors
    /// The program did not end in time.
    pub(crate) fn make(&self) -> Result<(), String> {
        let Some((program, args)) = self.command.split_first() else { return Ok(()) };
        let mut command = muster_supervise::foreign(program);
        let done = muster_supervise::output_within(command.args(args), self.most);
        let node = self.node.display();
        match done {
            Ok(done) if done.status.success() => {}
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                let line = self.command.join(" ");
                return Err(format!("{node} is missing, and `{line}` hangs: {e}"));
            }
            done => tracing::warn!(result = ?done, "{node} is missing; CUDA will not start"),
        }
        Ok(())
    }
}

/// The fence around a slot with these nodes.
pub(crate) fn rules(nodes: &[PathBuf]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = nodes.iter().filter_map(|p| Rule::of(p)).collect();
    rules.extend(TERMINALS);
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// Whether the slot talks to CUDA's multi-process service of this node, which reaches it through
/// shared memory.
pub(crate) fn shares_mps(slot: &Slot) -> bool {
    matches!(slot.part, Some(AllocatedPart::Milli(_))) && Path::new(MPS).is_dir()
}

/// Where the multi-process service listens unless configured otherwise.
pub(crate) const MPS: &str = "/tmp/nvidia-mps";

/// The nodes of a GPU of this machine by its index, as the NVIDIA driver numbers them: indices
/// go by bus address, minors by the order in which the driver found the cards.
#[must_use]
pub fn nvidia_nodes(index: u32) -> Vec<PathBuf> {
    nvidia_nodes_in(Path::new("/proc/driver/nvidia/gpus"), index)
}

fn nvidia_nodes_in(gpus: &Path, index: u32) -> Vec<PathBuf> {
    let mut cards: Vec<(String, u32)> = Vec::new();
    for entry in fs::read_dir(gpus).into_iter().flatten().flatten() {
        let about = fs::read_to_string(entry.path().join("information")).unwrap_or_default();
        let minor = about.lines().find_map(|l| {
            let (key, value) = l.split_once(':')?;
            (key.trim() == "Device Minor").then(|| value.trim().parse::<u32>().ok())?
        });
        if let (Some(address), Some(minor)) = (entry.file_name().to_str(), minor) {
            cards.push((address.to_owned(), minor));
        }
    }
    cards.sort();
    let card = usize::try_from(index).ok().and_then(|i| cards.get(i));
    card.map(|(_, minor)| PathBuf::from(format!("/dev/nvidia{minor}"))).into_iter().collect()
}

/// The nodes by which a MIG slice is opened: those of GPU instance `gi` and of compute instance
/// `ci` in it, on the GPU with this minor.
#[must_use]
pub fn mig_nodes(minor: u32, gi: u32, ci: u32) -> Vec<PathBuf> {
    mig_nodes_in(Path::new("/proc/driver/nvidia/capabilities"), minor, gi, ci)
}

fn mig_nodes_in(capabilities: &Path, minor: u32, gi: u32, ci: u32) -> Vec<PathBuf> {
    let gi = capabilities.join(format!("gpu{minor}/mig/gi{gi}"));
    let node = |file: PathBuf| {
        let text = fs::read_to_string(file).ok()?;
        let minor = text.lines().find_map(|l| l.strip_prefix("DeviceFileMinor:"))?;
        Some(PathBuf::from(format!("/dev/nvidia-caps/nvidia-cap{}", minor.trim())))
    };
    let ci = gi.join(format!("ci{ci}/access"));
    [gi.join("access"), ci].into_iter().filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::detail;
    use muster_model::placement::GpuSet;

    #[test]
    fn an_index_goes_by_bus_address_and_a_node_by_minor() {
        let dir = tempfile::tempdir().unwrap();
        for (address, minor) in [("0000:9a:00.0", 0), ("0000:1b:00.0", 2), ("0000:43:00.0", 1)] {
            let card = dir.path().join(address);
            fs::create_dir(&card).unwrap();
            let text = format!("Model: \t\t NVIDIA H200\nDevice Minor: \t {minor}\nBlocked: No\n");
            fs::write(card.join("information"), text).unwrap();
        }
        let at = |i| nvidia_nodes_in(dir.path(), i);
        assert_eq!(at(0), [Path::new("/dev/nvidia2")]);
        assert_eq!(at(2), [Path::new("/dev/nvidia0")]);
        assert!(at(3).is_empty());
    }

    #[test]
    fn a_slice_is_opened_by_its_instances() {
        let dir = tempfile::tempdir().unwrap();
        let gi = dir.path().join("gpu0/mig/gi3");
        fs::create_dir_all(gi.join("ci0")).unwrap();
        let text = |n| format!("DeviceFileMinor: {n}\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
        fs::write(gi.join("access"), text(30)).unwrap();
        fs::write(gi.join("ci0/access"), text(31)).unwrap();
        let caps = [30, 31].map(|n| PathBuf::from(format!("/dev/nvidia-caps/nvidia-cap{n}")));
        assert_eq!(mig_nodes_in(dir.path(), 0, 3, 0), caps);
        assert!(mig_nodes_in(dir.path(), 0, 4, 0).is_empty());
    }

    #[test]
    fn a_slot_has_the_nodes_of_its_own_gpus_only() {
        let mut slot = detail("").slot;
        let of = |i: u32| vec![PathBuf::from(["/dev/kmsg", "/dev/mem"][i as usize % 2])];
        assert!(!nodes(&slot, &of).contains(&PathBuf::from("/dev/kmsg")));
        slot.gpus = GpuSet(1);
        let with = nodes(&slot, &of);
        assert_eq!(with.contains(&PathBuf::from("/dev/kmsg")), Path::new("/dev/kmsg").exists());
        assert!(!with.contains(&PathBuf::from("/dev/mem")));
        let rules = rules(&with);
        assert!(rules.contains(&Rule { block: false, major: 1, minor: Some(3) }), "{rules:?}");
        assert!(rules.contains(&Rule { block: false, major: 136, minor: None }));
    }
}
