//! One slot's group.

use super::bpf;
use super::find::{Cgroups, enable};
use super::rule::Rule;
use crate::back_off::pauses;
use crate::process;
use muster_link::messages::Limits;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directories of one slot, in every tree that matters. Plain data, so that the supervisor
/// and a restarted agent find it again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    dirs: Vec<PathBuf>,
    #[serde(default)]
    memory: Option<PathBuf>,
    #[serde(default)]
    freezer: Option<PathBuf>,
    #[serde(default)]
    unified: Option<PathBuf>,
    /// A container runtime makes groups of its own in it.
    #[serde(default)]
    nested: bool,
    #[serde(default)]
    fenced: bool,
}

/// The group of the container runtime itself.
const RUNTIME: &str = "runtime";

/// The devices that a slot may open.
pub(crate) struct Fence<'a> {
    pub(crate) rules: &'a [Rule],
    /// Whether the slot may run without it.
    pub(crate) required: bool,
}

impl Group {
    /// Makes the group of a slot with its limits; none when this machine has no control groups.
    pub(crate) fn create(
        on: &Cgroups,
        node: &str,
        slot: &str,
        limits: Limits,
        fence: Option<&Fence<'_>>,
    ) -> io::Result<Option<Group>> {
        if !on.usable() {
            return Ok(None);
        }
        let mut group = Group::default();
        // Every directory costs each start and each end: of version 1 only the controllers that
        // have something to limit or to share out, and one to hold the processes together.
        let holds = on.holding();
        for (name, parent) in &on.v1 {
            let fences = *name == "devices" && fence.is_some();
            let needed = limited(name, limits) || *name == "cpu";
            if !needed && holds != Some(*name) && !fences {
                continue;
            }
            let dir = parent.join(node).join(slot);
            make(&dir)?;
            match *name {
                "memory" => group.memory = Some(dir.clone()),
                "freezer" => group.freezer = Some(dir.clone()),
                _ => {}
            }
            limit_v1(&dir, name, limits).map_err(|e| named(&dir, &e))?;
            if let Some(fence) = fence.filter(|_| fences) {
                group.fenced |= fence.put(&dir, fence_v1)?;
            }
            group.dirs.push(dir);
        }
        if let Some((parent, controllers)) = &on.v2 {
            let above = parent.join(node);
            let dir = above.join(slot);
            let fresh = match fs::create_dir(&dir) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => true,
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(named(&dir, &e)),
                _ => false,
            };
            if fresh {
                make(&above)?;
            }
            if fresh || controllers.iter().any(|c| limited(c, limits)) {
                enable(&above, controllers).map_err(|e| named(&above, &e))?;
            }
            if fresh {
                make(&dir)?;
            }
            for c in controllers {
                limit_v2(&dir, c, limits).map_err(|e| named(&dir, &e))?;
            }
            if controllers.contains(&"memory") {
                group.memory = Some(dir.clone());
            }
            if let Some(fence) = fence.filter(|_| on.v1.iter().all(|(n, _)| *n != "devices")) {
                group.fenced |= fence.put(&dir, bpf::fence)?;
            }
            group.unified = Some(dir.clone());
            group.dirs.push(dir);
        }
        Ok(Some(group))
    }

    /// What is there of a slot's group that an earlier agent made.
    pub(crate) fn find(on: &Cgroups, node: &str, slot: &str) -> Group {
        // Whether a container runtime made groups in it is not known.
        let mut group = Group { nested: true, ..Group::default() };
        let v1 = on.v1.iter().map(|(name, parent)| (*name, parent));
        for (name, parent) in v1.chain(on.v2.iter().map(|(parent, _)| ("unified", parent))) {
            let dir = parent.join(node).join(slot);
            if !dir.is_dir() {
                continue;
            }
            match name {
                "freezer" => group.freezer = Some(dir.clone()),
                "unified" => group.unified = Some(dir.clone()),
                _ => {}
            }
            group.dirs.push(dir);
        }
        group
    }

    /// Slots that have a group in any tree.
    pub(crate) fn slots(on: &Cgroups, node: &str) -> BTreeSet<String> {
        let parents = on.v1.iter().map(|(_, p)| p).chain(on.v2.iter().map(|(p, _)| p));
        let dirs = parents.flat_map(|p| below(&p.join(node)).collect::<Vec<PathBuf>>());
        dirs.filter_map(|d| Some(d.file_name()?.to_str()?.to_owned())).collect()
    }

    /// Files into which a process writes `0` to join.
    pub(crate) fn entrances(&self) -> impl Iterator<Item = PathBuf> {
        self.dirs.iter().map(|d| {
            let inner = self.nested && self.unified.as_ref() == Some(d);
            let dir = if inner { d.join(RUNTIME) } else { d.clone() };
            dir.join("cgroup.procs")
        })
    }

    /// Every process in it that can be found now.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        for dir in &self.dirs {
            let _ = collect(dir, self.nested, &mut pids);
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Every process in it.
    ///
    /// # Errors
    /// There may be more that cannot be found now.
    pub(crate) fn find_pids(&self) -> io::Result<Vec<i32>> {
        let mut pids = Vec::new();
        self.dirs.iter().try_for_each(|dir| collect(dir, self.nested, &mut pids))?;
        Ok(pids)
    }

    /// Lets a container runtime make groups in it. In the unified tree a group that hands down
    /// controllers may hold no process itself, so the runtime gets one of its own.
    pub(crate) fn nest(&mut self) -> io::Result<()> {
        self.nested = true;
        match &self.unified {
            Some(dir) => make(&dir.join(RUNTIME)),
            None => Ok(()),
        }
    }

    /// Whether other devices than the slot's cannot be opened in it.
    pub(crate) fn fenced(&self) -> bool {
        self.fenced
    }

    /// Where it is in the trees, as a container runtime wants to hear it.
    pub(crate) fn path(&self) -> Option<String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let dir = self.unified.as_ref().or(self.dirs.first())?;
        below_a_mount(dir, super::find::mounts(&mounts).map(|(_, point, _)| point))
    }

    /// Its directory in the tree that is mounted there.
    pub(crate) fn in_tree(&self, point: &Path) -> Option<&Path> {
        self.dirs.iter().map(PathBuf::as_path).find(|d| d.starts_with(point))
    }

    /// Sends a signal to every process in it.
    pub(crate) fn signal(&self, signal: Signal) {
        for pid in self.pids() {
            process::signal(pid, signal);
        }
    }

    /// Kills everything in it, also what forks meanwhile. Does not wait for the end.
    pub(crate) fn kill(&self) {
        if let Some(dir) = &self.unified
            && fs::write(dir.join("cgroup.kill"), "1").is_ok()
        {
            return;
        }
        // Nothing forks while it is frozen, so one round of signals reaches everybody.
        let frozen = self.freezer.as_ref().map(|d| d.join("freezer.state"));
        if let Some(file) = &frozen
            && fs::write(file, "FROZEN").is_ok()
        {
            for _ in 0..50 {
                if fs::read_to_string(file).is_ok_and(|s| s.trim() == "FROZEN") {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.signal(Signal::KILL);
        if let Some(file) = &frozen {
            let _ = fs::write(file, "THAWED");
        }
    }

    /// Whether no process is left in it, for certain.
    pub(crate) fn is_empty(&self) -> bool {
        self.find_pids().is_ok_and(|pids| pids.is_empty())
    }

    /// Kills until nothing is left or the time is over; says whether it is empty.
    pub(crate) fn kill_and_wait(&self, most: Duration) -> bool {
        for pause in pauses(most) {
            if self.is_empty() {
                return true;
            }
            self.kill();
            std::thread::sleep(pause);
        }
        self.is_empty()
    }

    /// How many processes the kernel killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        let Some(dir) = &self.memory else { return 0 };
        let count = |file: &str| {
            let text = fs::read_to_string(dir.join(file)).ok()?;
            text.lines().find_map(|l| l.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
        };
        count("memory.events").or_else(|| count("memory.oom_control")).unwrap_or(0)
    }

    /// Its path in every tree of this machine: a container runtime uses them all.
    fn in_every_tree(&self) -> Vec<PathBuf> {
        let Some(path) = self.path() else { return Vec::new() };
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = super::find::mounts(&mounts).map(|(_, point, _)| point);
        let dirs = points.map(|p| p.join(path.trim_start_matches('/')));
        dirs.filter(|d| d.is_dir() && !self.dirs.contains(d)).collect()
    }

    /// Takes the directories away. One that still holds a dying process is tried again shortly.
    pub(crate) fn remove(&self) {
        let everywhere = if self.nested { self.in_every_tree() } else { Vec::new() };
        for dir in everywhere.iter().chain(&self.dirs) {
            for pause in pauses(Duration::from_millis(40)) {
                // Those below may be the ones that hold a dying process.
                if self.nested {
                    remove_below(dir);
                }
                match fs::remove_dir(dir) {
                    Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(pause);
                    }
                    _ => break,
                }
            }
            // The node's own directory goes with its last slot.
            if let Some(node) = dir.parent() {
                let _ = fs::remove_dir(node);
            }
        }
    }
}

/// A directory as seen from the mount it is in.
fn below_a_mount(dir: &Path, points: impl Iterator<Item = PathBuf>) -> Option<String> {
    // The deepest one: the trees of both versions may be mounted within another file system.
    let rest = points.filter_map(|p| dir.strip_prefix(&p).ok().map(Path::to_path_buf));
    let rest = rest.min_by_key(|r| r.components().count())?;
    Some(format!("/{}", rest.to_str()?))
}

/// Processes of a group, and of those below it. As many as can be found, also when that is not all.
fn collect(dir: &Path, nested: bool, pids: &mut Vec<i32>) -> io::Result<()> {
    let found = fs::read_to_string(dir.join("cgroup.procs")).map(|text| {
        pids.extend(text.lines().filter_map(|l| l.parse::<i32>().ok()));
    });
    let mut found = known(found);
    if nested {
        match fs::read_dir(dir) {
            Ok(entries) => {
                for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
                    found = found.and(collect(&entry.path(), true, pids));
                }
            }
            Err(e) => found = found.and(known(Err(e))),
        }
    }
    found
}

/// A group that was removed has no processes, also where it was removed just now.
fn known(found: io::Result<()>) -> io::Result<()> {
    match found {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => Ok(()),
        found => found,
    }
}

fn below(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path())
}

fn remove_below(dir: &Path) {
    for d in below(dir) {
        remove_below(&d);
        let _ = fs::remove_dir(&d);
    }
}

impl Fence<'_> {
    /// Puts it up; says whether it stands.
    fn put(&self, dir: &Path, how: fn(&Path, &[Rule]) -> io::Result<()>) -> io::Result<bool> {
        match how(dir, self.rules).map_err(|e| named(dir, &e)) {
            Err(e) if !self.required => {
                static WARNED: std::sync::Once = std::sync::Once::new();
                WARNED.call_once(|| {
                    tracing::warn!(error = %e, "devices are not fenced by control groups here");
                });
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }
}

fn fence_v1(dir: &Path, rules: &[Rule]) -> io::Result<()> {
    fs::write(dir.join("devices.deny"), "a")?;
    for r in rules {
        let kind = if r.block { 'b' } else { 'c' };
        let minor = r.minor.map_or_else(|| "*".into(), |m| m.to_string());
        fs::write(dir.join("devices.allow"), format!("{kind} {}:{minor} rw", r.major))?;
    }
    Ok(())
}

fn named(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

fn make(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir).map_err(|e| named(dir, &e))
}

/// Whether there is anything for a controller to enforce.
fn limited(controller: &str, limits: Limits) -> bool {
    match controller {
        "memory" => limits.memory.is_some_and(|m| m.0 > 0),
        "cpu" => limits.cpus.is_some_and(|c| c > 0),
        "pids" => limits.pids.is_some_and(|p| p > 0),
        _ => false,
    }
}

const PERIOD_US: u64 = 100_000;
/// The largest values that the kernel takes for a part of the processors.
const MOST_SHARES: u64 = 262_144;
const MOST_WEIGHT: u64 = 10_000;

/// A slot's part of the processors where there are not enough for all: that of as many processes of
/// others as it has processors, and of one where nothing was asked for. It is no maximum.
fn weight(limits: Limits) -> u64 {
    limits.cpus.filter(|c| *c > 0).map_or(1, u64::from)
}

/// Without it a slot has the part that every group has: that is no reason not to start.
fn put_weight(file: &Path, weight: u64) {
    if let Err(e) = fs::write(file, weight.to_string()) {
        static WARNED: std::sync::Once = std::sync::Once::new();
        WARNED.call_once(|| {
            tracing::warn!(file = %file.display(), error = %e,
                "processors are not shared out by what ranks asked for here");
        });
    }
}

fn limit_v1(dir: &Path, controller: &str, limits: Limits) -> io::Result<()> {
    match controller {
        "memory" => {
            if let Some(m) = limits.memory.filter(|m| m.0 > 0) {
                fs::write(dir.join("memory.limit_in_bytes"), m.0.to_string())?;
                // Swap would only make a job that is too large slow; not every kernel counts it.
                let _ = fs::write(dir.join("memory.memsw.limit_in_bytes"), m.0.to_string());
                let _ = fs::write(dir.join("memory.swappiness"), "0");
            }
        }
        "cpu" => {
            put_weight(&dir.join("cpu.shares"), (1024 * weight(limits)).min(MOST_SHARES));
            if let Some(c) = limits.cpus.filter(|c| *c > 0) {
                fs::write(dir.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                fs::write(dir.join("cpu.cfs_quota_us"), (u64::from(c) * PERIOD_US).to_string())?;
            }
        }
        "pids" => {
            if let Some(p) = limits.pids.filter(|p| *p > 0) {
                fs::write(dir.join("pids.max"), p.to_string())?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn limit_v2(dir: &Path, controller: &str, limits: Limits) -> io::Result<()> {
    match controller {
        "memory" => {
            if let Some(m) = limits.memory.filter(|m| m.0 > 0) {
                fs::write(dir.join("memory.max"), m.0.to_string())?;
                let _ = fs::write(dir.join("memory.swap.max"), "0");
            }
        }
        "cpu" => {
            put_weight(&dir.join("cpu.weight"), (100 * weight(limits)).min(MOST_WEIGHT));
            if let Some(c) = limits.cpus.filter(|c| *c > 0) {
                let quota = u64::from(c) * PERIOD_US;
                fs::write(dir.join("cpu.max"), format!("{quota} {PERIOD_US}"))?;
            }
        }
        "pids" => {
            if let Some(p) = limits.pids.filter(|p| *p > 0) {
                fs::write(dir.join("pids.max"), p.to_string())?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::units::Bytes;

    #[test]
    fn a_slot_without_limits_has_a_part_of_the_processors_and_is_held_together() {
        let dir = tempfile::tempdir().unwrap();
        let v1 = ["memory", "cpu", "pids", "freezer"].map(|c| (c, dir.path().join(c)));
        let on = Cgroups { v1: v1.to_vec(), ..Cgroups::none() };
        let g = Group::create(&on, "n1", "5.1", Limits::default(), None).unwrap().unwrap();
        assert_eq!(g.dirs, ["cpu/n1/5.1", "freezer/n1/5.1"].map(|d| dir.path().join(d)));
        let shares = |slot: &str| {
            fs::read_to_string(dir.path().join("cpu/n1").join(slot).join("cpu.shares")).unwrap()
        };
        assert_eq!(shares("5.1"), "1024");
        assert!(!dir.path().join("cpu/n1/5.1/cpu.cfs_quota_us").exists(), "there is no maximum");
        let limits = Limits { pids: Some(9), cpus: Some(8), ..Limits::default() };
        let g = Group::create(&on, "n1", "5.2", limits, None).unwrap().unwrap();
        assert_eq!(g.dirs.len(), 3);
        assert_eq!(shares("5.2"), "8192");
        // Where the unified tree can kill, nothing else is needed to hold them together.
        let unified = dir.path().join("unified");
        fs::create_dir(&unified).unwrap();
        fs::write(unified.join("cgroup.kill"), "").unwrap();
        let on = Cgroups { v2: Some((unified.clone(), vec![])), ..on };
        let g = Group::create(&on, "n1", "5.3", Limits::default(), None).unwrap().unwrap();
        assert_eq!(g.dirs, [dir.path().join("cpu/n1/5.3"), unified.join("n1/5.3")]);
    }

    #[test]
    fn a_group_is_named_by_its_place_in_its_tree() {
        let points = || ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from).into_iter();
        let at = |d: &str| below_a_mount(Path::new(d), points());
        assert_eq!(at("/sys/fs/cgroup/unified/muster/n/5.1").as_deref(), Some("/muster/n/5.1"));
        let service = "/sys/fs/cgroup/system.slice/agent.service/muster/n/5.1";
        assert_eq!(at(service).as_deref(), service.strip_prefix("/sys/fs/cgroup"));
        assert_eq!(at("/elsewhere/n"), None);
    }

    #[test]
    fn a_group_is_found_again_in_whatever_trees_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let v1 = ["memory", "freezer"].map(|c| (c, dir.path().join(c)));
        let v2 = Some((dir.path().join("unified"), vec![]));
        let on = Cgroups { v1: v1.to_vec(), v2, ..Cgroups::none() };
        assert!(Group::slots(&on, "n1").is_empty());
        for made in ["memory/n1/5.1", "freezer/n1/5.2", "unified/n1/5.2"] {
            fs::create_dir_all(dir.path().join(made)).unwrap();
        }
        assert_eq!(Group::slots(&on, "n1"), ["5.1", "5.2"].map(str::to_owned).into());
        let g = Group::find(&on, "n1", "5.2");
        let at = |tree: &str| dir.path().join(tree).join("n1/5.2");
        assert_eq!((g.freezer, g.unified), (Some(at("freezer")), Some(at("unified"))));
        assert_eq!(g.dirs, [at("freezer"), at("unified")]);
    }

    #[test]
    fn limits_are_written_as_version_2_wants_them() {
        let dir = tempfile::tempdir().unwrap();
        let on = Cgroups {
            v2: Some((dir.path().to_path_buf(), vec!["memory", "cpu", "pids"])),
            ..Cgroups::none()
        };
        let limits = Limits { cpus: Some(3), memory: Some(Bytes::mib(64)), pids: Some(7) };
        let g = Group::create(&on, "n1", "5.1", limits, None).unwrap().unwrap();
        let at = |f: &str| fs::read_to_string(dir.path().join("n1/5.1").join(f)).unwrap();
        assert_eq!(at("memory.max"), (64 << 20).to_string());
        assert_eq!(at("memory.swap.max"), "0");
        assert_eq!(at("cpu.max"), "300000 100000");
        assert_eq!(at("cpu.weight"), "300");
        assert_eq!(at("pids.max"), "7");
        fs::write(dir.path().join("n1/5.1/memory.events"), "low 0\noom 2\noom_kill 2\n").unwrap();
        assert_eq!(g.oom_kills(), 2);
        Group::create(&on, "n1", "5.2", Limits::default(), None).unwrap().unwrap();
        let none = dir.path().join("n1/5.2");
        assert_eq!(fs::read_to_string(none.join("cpu.weight")).unwrap(), "100");
        assert!(!none.join("cpu.max").exists(), "there is no maximum");
    }
}
