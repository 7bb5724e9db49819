//! Ranks of this agent that no record claims: their directory, or the file in it that says what
//! they are, was lost. The server would hear nothing of them, or that they never started, so they
//! are stopped before it hears anything.

use super::{RunnerConfig, start};
use crate::cgroup::Group;
use crate::process::{self, ProcessId};
use crate::shim::SHIM_ARG;
use muster_model::ids::AttemptKey;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Between two looks at what was killed.
const PAUSE: Duration = Duration::from_millis(20);
/// So many looks are taken; after half of them a supervisor that still tidies up is ended too.
const LOOKS: u32 = 500;

/// What is there of one attempt.
#[derive(Debug, Default)]
struct Stray {
    supervisors: Vec<ProcessId>,
    group: Option<Group>,
}

/// Stops every attempt that is not `claimed`, which is asked with whether a supervisor was found.
/// Those that could not be stopped, and what is left.
pub(super) fn stop(
    config: &RunnerConfig,
    runs: &Path,
    claimed: impl Fn(AttemptKey, bool) -> bool,
) -> Vec<(AttemptKey, String)> {
    let mut found: BTreeMap<AttemptKey, Stray> = BTreeMap::new();
    for (key, process) in supervisors(runs) {
        found.entry(key).or_default().supervisors.push(process);
    }
    let name = start::group_name(config);
    for slot in Group::slots(&config.cgroups, &name) {
        if let Ok(key) = slot.parse::<AttemptKey>() {
            let group = Group::find(&config.cgroups, &name, &slot);
            found.entry(key).or_default().group = Some(group);
        }
    }
    let mut left = Vec::new();
    for (key, stray) in found {
        if claimed(key, !stray.supervisors.is_empty()) {
            continue;
        }
        tracing::warn!(attempt = %key, "ranks that no record claims are stopped");
        left.extend(end(&stray).map(|what| (key, what)));
        if let Some(group) = &stray.group {
            group.remove();
        }
    }
    left
}

/// Supervisors that work in a directory below `runs`, also in one that was removed.
fn supervisors(runs: &Path) -> Vec<(AttemptKey, ProcessId)> {
    let Ok(runs) = runs.canonicalize() else { return Vec::new() };
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok());
        let Some(pid) = pid else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if !line.split(|b| *b == 0).any(|word| word == SHIM_ARG.as_bytes()) {
            continue;
        }
        let open = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let mut keys = open.filter_map(|fd| key_of(&runs, &fs::read_link(fd.path()).ok()?));
        if let (Some(key), Some(process)) = (keys.next(), ProcessId::of(pid)) {
            found.push((key, process));
        }
    }
    found
}

/// The attempt to which an open file or directory belongs.
fn key_of(runs: &Path, open: &Path) -> Option<AttemptKey> {
    let name = open.strip_prefix(runs).ok()?.components().next()?;
    let name = name.as_os_str().to_str()?;
    // What the kernel adds to the name of a directory that is gone.
    name.strip_suffix(" (deleted)").unwrap_or(name).parse().ok()
}

/// Kills everything that is there and all that it started; says what is left of it.
fn end(stray: &Stray) -> Option<String> {
    let mut seen: BTreeMap<i32, ProcessId> = BTreeMap::new();
    for look in 0..LOOKS {
        let mut pids = stray.group.as_ref().map_or_else(Vec::new, Group::pids);
        for s in stray.supervisors.iter().filter(|s| s.alive()) {
            pids.extend(process::descendants(s.pid));
        }
        seen.retain(|_, p| p.alive());
        seen.extend(pids.into_iter().filter_map(|p| Some((p, ProcessId::of(p)?))));
        seen.retain(|_, p| p.alive());
        let supervised = stray.supervisors.iter().any(ProcessId::alive);
        if seen.is_empty() && !supervised {
            return None;
        }
        stray.group.iter().for_each(Group::kill);
        seen.keys().for_each(|p| process::signal(*p, Signal::KILL));
        // A supervisor whose ranks are gone tidies up after them and goes.
        if look >= LOOKS / 2 {
            let alive = stray.supervisors.iter().filter(|s| s.alive());
            alive.for_each(|s| process::signal(s.pid, Signal::KILL));
        }
        std::thread::sleep(PAUSE);
    }
    let left = stray.supervisors.iter().filter(|s| s.alive()).map(|s| s.pid);
    let left: Vec<String> = seen.into_keys().chain(left).map(|p| p.to_string()).collect();
    Some(format!("processes that cannot be killed: {}", left.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
