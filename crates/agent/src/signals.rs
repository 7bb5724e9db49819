//! Reaching the processes of a slot.

use crate::cgroup::Group;
use crate::container;
use crate::process::{self, ProcessId};
use rustix::process::{Pid, Signal};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where the processes of a slot can be found.
pub(crate) struct SignalTargets<'a> {
    pub(crate) group: Option<&'a Group>,
    pub(crate) shim: Option<&'a ProcessId>,
    /// The ranks, each the leader of its process group.
    pub(crate) ranks: &'a [i32],
    /// The ranks run in containers, and their processes here are the runtime's.
    pub(crate) contained: bool,
}

impl SignalTargets<'_> {
    pub(crate) fn all_pids(&self) -> Vec<i32> {
        let mut pids = match (self.group, self.shim) {
            (Some(group), _) => group.pids(),
            (None, Some(shim)) if shim.alive() => {
                process::descendants(shim.pid).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        if self.contained {
            pids.retain(|p| !container::is_runtime(*p));
        }
        pids
    }

    /// SIGTERM to everything in the containers. The first process of one is spared by the kernel
    /// unless it has a handler; alone, it is killed, which is what SIGTERM would do outside.
    fn terminate_contained(&self) {
        let mut containers: BTreeMap<PathBuf, Vec<i32>> = BTreeMap::new();
        for pid in self.all_pids() {
            let namespace = std::fs::read_link(format!("/proc/{pid}/ns/pid"));
            containers.entry(namespace.unwrap_or_default()).or_default().push(pid);
        }
        for pids in containers.into_values() {
            let alone = |p: &i32| container::is_first(*p) && !handles(*p, Signal::TERM);
            let signal = if pids.iter().all(alone) { Signal::KILL } else { Signal::TERM };
            pids.into_iter().for_each(|p| process::signal(p, signal));
        }
    }

    /// SIGTERM once to every process: by the ranks' groups, and one by one to whoever left them.
    pub(crate) fn terminate(&self) {
        if self.contained {
            return self.terminate_contained();
        }
        for rank in self.ranks {
            process::signal_group(*rank, Signal::TERM);
        }
        for pid in self.all_pids() {
            let group = Pid::from_raw(pid).and_then(|p| rustix::process::getpgid(Some(p)).ok());
            if group.is_some_and(|g| !self.ranks.contains(&g.as_raw_nonzero().get())) {
                process::signal(pid, Signal::TERM);
            }
        }
    }

    /// Kills everything at once.
    pub(crate) fn kill(&self) {
        if let Some(group) = self.group {
            group.kill();
            return;
        }
        let everybody = self.all_pids();
        if self.shim.is_some_and(ProcessId::alive) {
            for rank in self.ranks {
                process::signal_group(*rank, Signal::KILL);
            }
        }
        for pid in everybody {
            process::signal(pid, Signal::KILL);
        }
    }

    /// Sends a signal to every process that has a handler for it, and says to how many. The
    /// shell around a training script has none and would die of it.
    pub(crate) fn signal_handlers(&self, signal: Signal) -> usize {
        let mut sent = 0;
        for pid in self.all_pids() {
            if handles(pid, signal) {
                process::signal(pid, signal);
                sent += 1;
            }
        }
        sent
    }
}

fn handles(pid: i32, signal: Signal) -> bool {
    let mask = process::status(pid)
        .lines()
        .find_map(|l| l.strip_prefix("SigCgt:"))
        .and_then(|m| u64::from_str_radix(m.trim(), 16).ok())
        .unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}
