//! Processes: who they are beyond their number, and how they are signalled.

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// A process for certain: numbers are used again, start times within one boot are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    pub(crate) start: u64,
    pub(crate) boot: String,
}

impl ProcessId {
    /// This process.
    pub(crate) fn me() -> ProcessId {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        ProcessId { pid, start: stat(pid).map_or(0, |s| s.start), boot: boot_id() }
    }

    /// The process that has this number now.
    pub(crate) fn of(pid: i32) -> Option<ProcessId> {
        stat(pid).map(|s| ProcessId { pid, start: s.start, boot: boot_id() })
    }

    /// Whether this very process still runs. A zombie does not.
    pub(crate) fn alive(&self) -> bool {
        self.boot == boot() && stat(self.pid).is_some_and(|s| s.start == self.start && !s.dead)
    }
}

struct Stat {
    parent: i32,
    start: u64,
    dead: bool,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything, even brackets: count from the last one.
    let rest = text.get(text.rfind(')')? + 2..)?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Stat {
        dead: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// Random for each boot of the kernel.
pub(crate) fn boot_id() -> String {
    boot().to_owned()
}

/// It cannot change while this process lives, so it is read once.
fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
    })
}

/// A fresh random id, from the kernel.
pub(crate) fn random_id() -> String {
    match fs::read_to_string("/proc/sys/kernel/random/uuid") {
        Ok(id) => id.trim().to_owned(),
        // Without /proc nothing else here works either; still, two agents must differ.
        Err(_) => format!("{:x}-{:p}", std::process::id(), &raw const UNIQUE),
    }
}
static UNIQUE: u8 = 0;

/// The parent of a process.
pub(crate) fn parent(of: i32) -> Option<i32> {
    stat(of).map(|s| s.parent)
}

/// Everything below a process, children before grandchildren.
pub(crate) fn descendants(of: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        if let Some(s) = stat(pid).filter(|s| !s.dead) {
            children.entry(s.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        next.extend(below);
    }
    found
}

/// Lets every signal through to the calling thread; the program that it becomes keeps that. For
/// between fork and exec: nothing is allocated.
pub(crate) fn unblock_signals() -> io::Result<()> {
    #[expect(unsafe_code, reason = "signal sets have no safe interface")]
    // SAFETY: the set is initialised by sigemptyset before it is used, and outlives the calls.
    let result = unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What ranks have as `oom_score_adj`: when memory is short the kernel ends them before the agent, the
/// server and what watches them.
pub(crate) const RANK_OOM_SCORE: i32 = 500;

/// Whether what this process starts has a lower score than ranks are to have.
pub(crate) fn has_lower_oom_score() -> bool {
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    own.trim().parse::<i32>().is_ok_and(|own| own < RANK_OOM_SCORE)
}

/// Gives the calling process the score of a rank. Everybody may raise it; where it cannot be done it
/// stays as it is. For between fork and exec: nothing is allocated.
pub(crate) fn raise_oom_score() {
    let score = b"500";
    #[expect(unsafe_code, reason = "files that are opened otherwise may allocate")]
    // SAFETY: the path ends with a NUL, the text is as long as is said, both live for ever, and the
    // descriptor is nobody else's.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CLOEXEC;
        let fd = libc::open(c"/proc/self/oom_score_adj".as_ptr(), flags);
        if fd >= 0 {
            libc::write(fd, score.as_ptr().cast(), score.len());
            libc::close(fd);
        }
    }
}

/// Waits for one child to end.
pub(crate) fn reap(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        while matches!(
            rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()),
            Err(rustix::io::Errno::INTR)
        ) {}
    }
}

/// Sends a signal to one process; one that is gone is none of our concern.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|p| p.as_raw_nonzero().get() > 1) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Sends a signal to a process group.
pub(crate) fn signal_group(group: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(group).filter(|p| p.as_raw_nonzero().get() > 1) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// The signal of a name such as `SIGUSR1` or `usr1`.
pub(crate) fn signal_named(name: &str) -> Option<Signal> {
    let upper = name.trim().to_ascii_uppercase();
    Some(match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "TERM" => Signal::TERM,
        "CONT" => Signal::CONT,
        "URG" => Signal::URG,
        "ALRM" => Signal::ALARM,
        "WINCH" => Signal::WINCH,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_an_older_one_with_its_number_is_not() {
        let me = ProcessId::me();
        assert!(me.alive());
        assert!(!ProcessId { start: me.start + 1, ..me.clone() }.alive());
        assert!(!ProcessId { boot: "another".into(), ..me }.alive());
    }

    #[test]
    fn signals_are_known_by_name_with_or_without_prefix() {
        assert_eq!(signal_named("SIGUSR1"), Some(Signal::USR1));
        assert_eq!(signal_named("usr2"), Some(Signal::USR2));
        assert_eq!(signal_named("SIGKILLALL"), None);
    }
}
