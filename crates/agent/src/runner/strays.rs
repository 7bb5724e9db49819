//! Ranks of this agent that no record claims: their directory, or the file in it that says what
//! they are, was lost. The server would hear nothing of them, or that they never started, so they
//! are stopped before it hears anything.

use super::unproven::UnprovenEnd;
use super::{RunnerConfig, start};
use crate::cgroup::Group;
use crate::process::{self, ProcessId, is_absence};
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
    /// Kills everything that is there and all that it started. Whether anything was or may be there.
    fn kill(&mut self, supervisors_too: bool) -> bool {
        let mut pids = self.group.as_ref().map_or_else(Vec::new, Group::pids);
        // What cannot be looked up now may be there.
        let mut unknown = self.group.as_ref().is_some_and(|g| g.find_pids().is_err());
        // Nobody is killed for the number of somebody who may be another one by now.
        for s in self.supervisors.iter().filter(|s| s.alive()) {
            let below = process::descendants(s.pid);
            unknown |= below.is_err();
            pids.extend(below.unwrap_or_default());
        }
        for pid in pids {
            match ProcessId::of(pid) {
                Ok(found) => self.others.extend(found.map(|p| (pid, p))),
                Err(_) => unknown = true,
            }
        }
        self.others.retain(|_, p| !p.gone());
        let supervised = !self.supervisors.iter().all(ProcessId::gone);
        if self.others.is_empty() && !supervised && !unknown {
            self.group.iter().for_each(Group::remove);
            return false;
        }
        self.group.iter().for_each(Group::kill);
        let certain = self.others.values().filter(|p| p.alive());
        certain.for_each(|p| process::signal(p.pid, Signal::KILL));
        // A supervisor whose ranks are gone tidies up after them and goes.
        if supervisors_too {
            let alive = self.supervisors.iter().filter(|s| s.alive());
            alive.for_each(|s| process::signal(s.pid, Signal::KILL));
        }
        true
    }

    /// What could not be killed.
    fn into_unproven_end(self) -> UnprovenEnd {
        let supervisors = self.supervisors.into_iter().filter(|s| !s.gone());
        UnprovenEnd::new(self.others.into_values().chain(supervisors).collect(), self.group)
    }
}

/// Stops every attempt that is not `claimed`, which is asked with whether a supervisor was found.
/// All of these, also those that could not be stopped. `first` is what [`first`] says of the node's
/// directory.
///
/// # Errors
/// That of `claimed`, or not all processes can be looked up now; then nothing was stopped.
pub(super) fn stop(
    config: &RunnerConfig,
    runs: &Path,
    first: bool,
    claimed: impl Fn(AttemptKey, bool) -> io::Result<bool>,
) -> io::Result<Vec<(AttemptKey, UnprovenEnd)>> {
    let mut found: BTreeMap<AttemptKey, StrayAttempt> = BTreeMap::new();
    for (key, process) in supervisors(config, runs, first)? {
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
fn supervisors(
    config: &RunnerConfig,
    runs: &Path,
    first: bool,
) -> io::Result<Vec<(AttemptKey, ProcessId)>> {
    let Some(ours) = SupervisorMarks::of(config, runs) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for s in machine(first)?.iter() {
        if let Some(key) = ours.attempt(&s.at(), s.log)?
            && !s.process.gone()
        {
            found.push((key, s.process.clone()));
        }
    }
    Ok(found)
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
fn machine(first: bool) -> io::Result<Supervisors> {
    static SEEN: Mutex<Option<(Instant, Supervisors)>> = Mutex::new(None);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, all)) = &*seen
        && first
        && at.elapsed() < SHARED
    {
        return Ok(all.clone());
    }
    let at = Instant::now();
    let all = Arc::new(scan(Path::new("/proc"))?);
    *seen = Some((at, all.clone()));
    Ok(all)
}

/// A supervisor, whoever started it.
#[derive(Debug)]
struct Supervisor {
    process: ProcessId,
    log: Option<File>,
}

impl Supervisor {
    /// Where the kernel reports it.
    fn at(&self) -> PathBuf {
        Path::new("/proc").join(self.process.pid.to_string())
    }
}

/// Looks at all processes of this machine.
fn scan(proc: &Path) -> io::Result<Vec<Supervisor>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(proc)? {
        let at = entry?.path();
        let pid = at.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse::<i32>().ok());
        let Some(pid) = pid else { continue };
        let Some(line) = if_ours(fs::read(at.join("cmdline")))? else { continue };
        let marked = || line.split(|b| *b == 0).any(|word| word == SHIM_ARG.as_bytes());
        // One that shows no words is known by what it has open. The kernel's own run no program.
        let runs = || fs::read_link(at.join("exe")).map(drop);
        let known = marked() || (line.is_empty() && if_ours(runs())?.is_some());
        if !known {
            continue;
        }
        if let Some(process) = if_ours(ProcessId::of(pid))?.flatten() {
            found.push(Supervisor { process, log: File::at(&at.join("fd/2")) });
        }
    }
    Ok(found)
}

/// What was looked up of a process. None when it is gone, or another user's that shows nothing: a
/// supervisor is whoever its agent is.
fn if_ours<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(e) if is_absence(&e) || e.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(e) => Err(e),
    }
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

/// What distinguishes supervisors of this agent from those of another one, which may work at the
/// same path in another view of the machine's files.
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
    ///
    /// # Errors
    /// It cannot be looked up now.
    fn attempt(&self, process: &Path, log: Option<File>) -> io::Result<Option<AttemptKey>> {
        let proven = match (log, self.log) {
            (Some(log), Some(ours)) if log == ours => true,
            (Some(_), Some(_)) => return Ok(None),
            // One of the two logs was removed. A path means the same to those who share mounts.
            _ if self.mounts.is_some() && self.mounts == mounts(process) => false,
            _ => return Ok(None),
        };
        let Some(open) = if_ours(fs::read_dir(process.join("fd")))? else { return Ok(None) };
        for fd in open {
            let Some(fd) = if_ours(fd)?.map(|fd| fd.path()) else { continue };
            let here = || fs::metadata(&fd).is_ok_and(|m| m.dev() == self.device);
            if !(proven || here()) {
                continue;
            }
            if let Some(key) = if_ours(fs::read_link(&fd))?.and_then(|to| key_of(&self.runs, &to)) {
                return Ok(Some(key));
            }
        }
        Ok(None)
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
            let process = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap().unwrap();
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
    fn whoever_shows_no_words_or_cannot_be_read_is_not_passed_over() {
        let tmp = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let at = tmp.path().join(child.id().to_string());
        let seen = |line: Option<&[u8]>| {
            let _ = fs::remove_dir_all(&at);
            fs::create_dir_all(&at).unwrap();
            symlink("/bin/sleep", at.join("exe")).unwrap();
            if let Some(line) = line {
                fs::write(at.join("cmdline"), line).unwrap();
            }
            scan(tmp.path()).unwrap().len()
        };
        let marked = [&b"\xff\0"[..], SHIM_ARG.as_bytes(), b"\0"].concat();
        assert_eq!(seen(Some(&marked[..])), 1, "any bytes are words");
        assert_eq!(seen(Some(&b""[..])), 1);
        assert_eq!(seen(Some(&b"sleep\x001000\0"[..])), 0);
        fs::remove_file(at.join("exe")).unwrap();
        fs::write(at.join("cmdline"), "").unwrap();
        assert_eq!(scan(tmp.path()).unwrap().len(), 0, "the kernel's own");
        assert_eq!(seen(None), 0, "it is gone");
        // What cannot be read now: this fails as an open file too many would.
        fs::create_dir(at.join("cmdline")).unwrap();
        assert!(scan(tmp.path()).is_err());
        assert!(scan(&tmp.path().join("none")).is_err());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn only_the_first_opening_of_a_directory_shares_a_look() {
        let tmp = tempfile::tempdir().unwrap();
        assert!(first(tmp.path()));
        assert!(!first(tmp.path()), "it may have started somebody since");
        let last = machine(false).unwrap();
        assert!(!Arc::ptr_eq(&last, &machine(false).unwrap()));
    }

    /// What the kernel would show of a supervisor: its log, a directory that it has open, its
    /// mounts.
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
            ours.attempt(&process, log).unwrap().map(|k| k.to_string())
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
        assert_eq!(ours.attempt(&process, None).unwrap(), None);
    }
}
