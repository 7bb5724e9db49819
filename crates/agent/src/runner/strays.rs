//! Ranks of this agent that no record claims: their directory, or the file in it that says what
//! they are, was lost. The server would hear nothing of them, or that they never started, so they
//! are stopped before it hears anything.

use super::unproven::UnprovenEnd;
use super::{RunnerConfig, start};
use crate::cgroup::Group;
use crate::process::{self, ProcessId};
use crate::shim::SHIM_ARG;
use muster_model::ids::AttemptKey;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at what was killed.
const PAUSE: Duration = Duration::from_millis(20);
/// So long all of them together are looked at: the server waits. After half of it a supervisor that
/// still tidies up is ended too.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long the nodes of one process share a look at all processes of the machine.
const SHARED: Duration = Duration::from_secs(5);

/// What is there of one attempt.
#[derive(Debug, Default)]
struct StrayAttempt {
    supervisors: Vec<ProcessId>,
    group: Option<Group>,
    /// What was found below and in these, by its number.
    others: BTreeMap<i32, ProcessId>,
}

impl StrayAttempt {
    /// Kills everything that is there and all that it started. Whether anything was there.
    fn kill(&mut self, supervisors_too: bool) -> bool {
        let mut pids = self.group.as_ref().map_or_else(Vec::new, Group::pids);
        for s in self.supervisors.iter().filter(|s| s.alive()) {
            pids.extend(process::descendants(s.pid));
        }
        self.others.retain(|_, p| p.alive());
        self.others.extend(pids.into_iter().filter_map(|p| Some((p, ProcessId::of(p)?))));
        self.others.retain(|_, p| p.alive());
        let supervised = self.supervisors.iter().any(ProcessId::alive);
        if self.others.is_empty() && !supervised {
            self.group.iter().for_each(Group::remove);
            return false;
        }
        self.group.iter().for_each(Group::kill);
        self.others.keys().for_each(|p| process::signal(*p, Signal::KILL));
        // A supervisor whose ranks are gone tidies up after them and goes.
        if supervisors_too {
            let alive = self.supervisors.iter().filter(|s| s.alive());
            alive.for_each(|s| process::signal(s.pid, Signal::KILL));
        }
        true
    }

    /// What could not be killed.
    fn into_unproven_end(self) -> UnprovenEnd {
        let supervisors = self.supervisors.into_iter().filter(ProcessId::alive);
        UnprovenEnd::new(self.others.into_values().chain(supervisors).collect(), self.group)
    }
}

/// Stops every attempt that is not `claimed`, which is asked with whether a supervisor was found.
/// All of these, also those that could not be stopped. `first` is what [`first`] says of the node's
/// directory.
///
/// # Errors
/// That of `claimed`; then nothing was stopped.
pub(super) fn stop(
    config: &RunnerConfig,
    runs: &Path,
    first: bool,
    claimed: impl Fn(AttemptKey, bool) -> io::Result<bool>,
) -> io::Result<Vec<(AttemptKey, UnprovenEnd)>> {
    let mut found: BTreeMap<AttemptKey, StrayAttempt> = BTreeMap::new();
    for (key, process) in supervisors(config, runs, first) {
        found.entry(key).or_default().supervisors.push(process);
    }
    let name = start::group_name(config);
    for slot in Group::slots(&config.cgroups, &name) {
        if let Ok(key) = slot.parse::<AttemptKey>() {
            let group = Group::find(&config.cgroups, &name, &slot);
            found.entry(key).or_default().group = Some(group);
        }
    }
    let mut strays = BTreeMap::new();
    for (key, stray) in found {
        if !claimed(key, !stray.supervisors.is_empty())? {
            tracing::warn!(attempt = %key, "ranks that no record claims are stopped");
            strays.insert(key, stray);
        }
    }
    let mut all: BTreeMap<AttemptKey, UnprovenEnd> =
        strays.keys().map(|key| (*key, UnprovenEnd::new(Vec::new(), None))).collect();
    end(&mut strays, PATIENCE);
    all.extend(strays.into_iter().map(|(key, stray)| (key, stray.into_unproven_end())));
    // Some may have gone since the last look.
    for left in all.values_mut() {
        left.check_processes(false);
    }
    Ok(all.into_iter().collect())
}

/// Kills all of them at a time; leaves those that are still there then.
fn end(strays: &mut BTreeMap<AttemptKey, StrayAttempt>, patience: Duration) {
    let from = Instant::now();
    loop {
        let late = from.elapsed() >= patience / 2;
        strays.retain(|_, stray| stray.kill(late));
        if strays.is_empty() || from.elapsed() >= patience {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Supervisors of this agent, also those whose directory was removed.
fn supervisors(config: &RunnerConfig, runs: &Path, first: bool) -> Vec<(AttemptKey, ProcessId)> {
    let Some(ours) = SupervisorMarks::of(config, runs) else { return Vec::new() };
    let all = machine(first);
    let found = all.iter().filter_map(|s| Some((ours.attempt(&s.at(), s.log)?, s.process.clone())));
    found.filter(|(_, process)| process.alive()).collect()
}

/// Whether this process opens the directory of a node for the first time: then it has started
/// nobody who works for that node.
pub(super) fn first(state: &Path) -> bool {
    static OPENED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.insert(state.to_owned())
}

type Supervisors = Arc<Vec<Supervisor>>;

/// Every supervisor of this machine. With `first` also as another node of this process just saw
/// them: thousands that start at a time would each look at all processes.
fn machine(first: bool) -> Supervisors {
    static SEEN: Mutex<Option<(Instant, Supervisors)>> = Mutex::new(None);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, all)) = &*seen
        && first
        && at.elapsed() < SHARED
    {
        return all.clone();
    }
    let at = Instant::now();
    let all = Arc::new(scan());
    *seen = Some((at, all.clone()));
    all
}

/// A supervisor, whoever started it.
#[derive(Debug)]
struct Supervisor {
    process: ProcessId,
    log: Option<File>,
}

impl Supervisor {
    /// Where the kernel tells of it.
    fn at(&self) -> PathBuf {
        Path::new("/proc").join(self.process.pid.to_string())
    }
}

/// Looks at all processes of this machine.
fn scan() -> Vec<Supervisor> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok());
        let Some(pid) = pid else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if !line.split(|b| *b == 0).any(|word| word == SHIM_ARG.as_bytes()) {
            continue;
        }
        if let Some(process) = ProcessId::of(pid) {
            found.push(Supervisor { process, log: File::at(&entry.path().join("fd/2")) });
        }
    }
    found
}

/// A file for certain: paths mean something else to whoever has other mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct File {
    device: u64,
    inode: u64,
}

impl File {
    /// The file at a path. None when it was removed: then a new one may have its path, or its number.
    fn at(path: &Path) -> Option<File> {
        let about = fs::metadata(path).ok().filter(|m| m.nlink() > 0)?;
        Some(File { device: about.dev(), inode: about.ino() })
    }
}

/// What tells supervisors of this agent from those of another one, which may work at the same path
/// in another view of the machine's files.
#[derive(Debug)]
struct SupervisorMarks {
    runs: PathBuf,
    device: u64,
    /// What our supervisors have as their stderr.
    log: Option<File>,
    mounts: Option<PathBuf>,
}

impl SupervisorMarks {
    fn of(config: &RunnerConfig, runs: &Path) -> Option<SupervisorMarks> {
        let runs = runs.canonicalize().ok()?;
        let device = fs::metadata(&runs).ok()?.dev();
        let log = File::at(&config.state.join(start::LOG));
        Some(SupervisorMarks { runs, device, log, mounts: mounts(Path::new("/proc/self")) })
    }

    /// The attempt of a supervisor that is ours for certain.
    fn attempt(&self, process: &Path, log: Option<File>) -> Option<AttemptKey> {
        let proven = match (log, self.log) {
            (Some(log), Some(ours)) if log == ours => true,
            (Some(_), Some(_)) => return None,
            // One of the two logs was removed. A path means the same to those who share mounts.
            _ if self.mounts.is_some() && self.mounts == mounts(process) => false,
            _ => return None,
        };
        let open = fs::read_dir(process.join("fd")).ok()?.flatten().map(|fd| fd.path());
        let here = |fd: &PathBuf| fs::metadata(fd).is_ok_and(|m| m.dev() == self.device);
        let mut ours = open.filter(|fd| proven || here(fd));
        ours.find_map(|fd| key_of(&self.runs, &fs::read_link(fd).ok()?))
    }
}

/// The mount namespace of a process.
fn mounts(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/mnt")).ok()
}

/// The attempt to which an open file or directory belongs.
fn key_of(runs: &Path, open: &Path) -> Option<AttemptKey> {
    let name = open.strip_prefix(runs).ok()?.components().next()?;
    let name = name.as_os_str().to_str()?;
    // What the kernel adds to the name of a directory that is gone.
    name.strip_suffix(" (deleted)").unwrap_or(name).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::JobId;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn an_open_file_names_its_attempt_also_when_that_is_gone() {
        let at = |open: &str| key_of(Path::new("/a/runs"), Path::new(open)).map(|k| k.to_string());
        assert_eq!(at("/a/runs/7.1").as_deref(), Some("7.1"));
        assert_eq!(at("/a/runs/7.1/record").as_deref(), Some("7.1"));
        assert_eq!(at("/a/runs/7.1 (deleted)").as_deref(), Some("7.1"));
        assert_eq!(at("/a/runs/7.1/record (deleted)").as_deref(), Some("7.1"));
        assert_eq!(at("/a/runs"), None);
        assert_eq!(at("/b/runs/7.1"), None);
        assert_eq!(at("socket:[7]"), None);
    }

    #[test]
    fn all_strays_are_killed_at_a_time() {
        let sleep = |_| Command::new("sleep").arg("1000").spawn().unwrap();
        let mut children = [1, 2].map(sleep);
        let mut strays = BTreeMap::new();
        for (job, child) in (1..).zip(&children) {
            let process = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
            let stray = StrayAttempt { supervisors: vec![process], ..StrayAttempt::default() };
            strays.insert(AttemptKey { job: JobId(job), attempt: 1 }, stray);
        }
        // One round, after which nobody can be known to be gone.
        end(&mut strays, Duration::ZERO);
        for child in &mut children {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        end(&mut strays, PATIENCE);
        assert!(strays.is_empty(), "{strays:?}");
    }

    #[test]
    fn only_the_first_opening_of_a_directory_shares_a_look() {
        let tmp = tempfile::tempdir().unwrap();
        assert!(first(tmp.path()));
        assert!(!first(tmp.path()), "it may have started somebody since");
        let last = machine(false);
        assert!(!Arc::ptr_eq(&last, &machine(false)));
    }

    /// What the kernel would tell of a supervisor: its log, a directory that it has open, its mounts.
    fn fake_supervisor(at: &Path, log: &Path, open: &Path, mounts: &str) -> Option<File> {
        let _ = fs::remove_dir_all(at);
        fs::create_dir_all(at.join("fd")).unwrap();
        fs::create_dir_all(at.join("ns")).unwrap();
        symlink(log, at.join("fd/2")).unwrap();
        symlink(open, at.join("fd/5")).unwrap();
        symlink(mounts, at.join("ns/mnt")).unwrap();
        File::at(&at.join("fd/2"))
    }

    #[test]
    fn a_supervisor_of_another_agent_at_the_same_path_is_left_alone() {
        let tmp = tempfile::tempdir().unwrap();
        let at = |name: &str| tmp.path().canonicalize().unwrap().join(name);
        let (process, open) = (at("process"), at("state/runs/7.1"));
        fs::create_dir_all(&open).unwrap();
        for log in ["state/shim.log", "theirs.log", "removed.log"] {
            fs::write(at(log), "").unwrap();
        }
        let removed = fs::File::open(at("removed.log")).unwrap();
        fs::remove_file(at("removed.log")).unwrap();
        let removed = format!("/proc/self/fd/{}", removed.as_raw_fd());
        let device = fs::metadata(&open).unwrap().dev();
        let log = File::at(&at("state/shim.log"));
        let mounts = Some("mnt:[1]".into());
        let mut ours = SupervisorMarks { runs: at("state/runs"), device, log, mounts };
        let attempt = |ours: &SupervisorMarks, log: &Path, mounts: &str| {
            let log = fake_supervisor(&process, log, &open, mounts);
            ours.attempt(&process, log).map(|k| k.to_string())
        };
        let ok = Some("7.1".to_string());
        assert_eq!(attempt(&ours, &at("state/shim.log"), "mnt:[2]"), ok, "it has volumes");
        assert_eq!(attempt(&ours, &at("theirs.log"), "mnt:[2]"), None);
        assert_eq!(attempt(&ours, &at("theirs.log"), "mnt:[1]"), None);
        // Where the logs say nothing, mounts and device do.
        assert_eq!(attempt(&ours, Path::new(&removed), "mnt:[1]"), ok);
        assert_eq!(attempt(&ours, Path::new(&removed), "mnt:[2]"), None);
        ours.log = None;
        assert_eq!(attempt(&ours, &at("theirs.log"), "mnt:[1]"), ok);
        assert_eq!(attempt(&ours, &at("theirs.log"), "mnt:[2]"), None);
        ours.device += 1;
        assert_eq!(attempt(&ours, &at("theirs.log"), "mnt:[1]"), None);
        ours.mounts = None;
        fs::remove_file(process.join("ns/mnt")).unwrap();
        assert_eq!(ours.attempt(&process, None), None);
    }
}
