//! One server per data directory. A process that was killed holds its lock until the kernel has
//! taken it apart, which takes seconds where it had much memory: whoever comes next waits for that.

use crate::{ServeError, io_error};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// What is locked, in the directory. It says who holds it.
const FILE: &str = "server.lock";
/// How long a start waits for a lock whose owner is not known to go on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts.
const EVERY: Duration = Duration::from_millis(100);
/// So many times in a row its owner must be seen alive: between taking the signal that kills it
/// and ending, a process looks as if it went on.
const SURE: u32 = 3;
/// The kernel's mark of a process that ends (`PF_EXITING`).
const EXITING: u64 = 4;
/// SIGKILL in a set of signals.
const KILLED: u64 = 1 << 8;

/// Takes the lock of a data directory. Calls `waits` once when it has to wait for it.
///
/// # Errors
/// [`ServeError::Busy`] when another server holds it and goes on, or for longer than `patience`.
pub(crate) async fn take(
    dir: &Path,
    patience: Duration,
    waits: impl FnOnce(),
) -> Result<File, ServeError> {
    let path = dir.join(FILE);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(io_error(format!("cannot open {}", path.display())))?;
    let until = Instant::now() + patience;
    let (mut waits, mut seen) = (Some(waits), 0);
    loop {
        match file.try_lock() {
            Ok(()) => {
                // Only a help for whoever comes next: on a full disk it is not said.
                let _ = sign(&file);
                return Ok(file);
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => {
                return Err(io_error(format!("cannot lock {}", path.display()))(e));
            }
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        seen = if Owner::parse(&text).is_some_and(|o| o.goes_on()) { seen + 1 } else { 0 };
        if seen >= SURE || Instant::now() >= until {
            return Err(ServeError::Busy(dir.into()));
        }
        if seen == 0
            && let Some(announce) = waits.take()
        {
            announce();
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Writes into the file who holds it.
fn sign(file: &File) -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let Some(stat) = ProcessStat::parse(&stat) else { return Ok(()) };
    let text = format!("{} {}\n", std::process::id(), stat.started);
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// A process, by its number and by when it started: numbers are used again, and mean others in
/// another container.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    pid: u32,
    started: u64,
}

impl Owner {
    fn parse(text: &str) -> Option<Owner> {
        let (pid, started) = text.trim().split_once(' ')?;
        Some(Owner { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Is it there, and not about to end?
    fn goes_on(&self) -> bool {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", self.pid)).ok();
        let stat = read("stat").and_then(|text| ProcessStat::parse(&text));
        let same = stat.is_some_and(|s| s.started == self.started && !s.ends);
        same && !read("status").is_some_and(|text| is_killed(&text))
    }
}

/// What `/proc/PID/stat` says.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    /// It is a zombie, or on its way there.
    ends: bool,
    started: u64,
}

impl ProcessStat {
    fn parse(text: &str) -> Option<ProcessStat> {
        // The name may hold anything, parentheses too.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let state = *fields.first()?;
        let flags: u64 = fields.get(6)?.parse().ok()?;
        let ends = matches!(state, "Z" | "X" | "x") || flags & EXITING != 0;
        Some(ProcessStat { ends, started: fields.get(19)?.parse().ok()? })
    }
}

/// Does `/proc/PID/status` say that it was killed, and has not noticed yet?
fn is_killed(status: &str) -> bool {
    let pending = status.lines().filter_map(|line| {
        let set = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(set.trim(), 16).ok()
    });
    pending.fold(0, |all, set| all | set) & KILLED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(dir: &Path, says: &str) -> File {
        let path = dir.join(FILE);
        std::fs::write(&path, says).unwrap();
        let file = File::open(&path).unwrap();
        file.try_lock().unwrap();
        file
    }

    #[tokio::test]
    async fn a_lock_that_is_let_go_is_waited_for() {
        // One of an older server says nothing; the other process is gone, or another one by now.
        for says in ["", "4294967295 7\n", &format!("{} 0\n", std::process::id())] {
            let dir = tempfile::tempdir().unwrap();
            let other = held(dir.path(), says);
            let mut announced = 0;
            let taken = take(dir.path(), PATIENCE, || {
                announced += 1;
                drop(other);
            });
            let taken = taken.await;
            assert!(taken.is_ok(), "{says:?}: {taken:?}");
            assert_eq!(announced, 1, "{says:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_goes_on_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path(), PATIENCE, || panic!("nobody holds it")).await.unwrap();
        // Long enough for any machine: it is refused because its owner is this process.
        let long = Duration::from_secs(1_000_000);
        let refused = take(dir.path(), long, || panic!("it waits")).await;
        assert!(matches!(refused, Err(ServeError::Busy(_))), "{refused:?}");
        drop(first);
        take(dir.path(), PATIENCE, || panic!("nobody holds it")).await.unwrap();
    }

    #[tokio::test]
    async fn a_lock_that_is_never_let_go_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let _other = held(dir.path(), "");
        let refused = take(dir.path(), Duration::ZERO, || {}).await;
        assert!(matches!(refused, Err(ServeError::Busy(_))), "{refused:?}");
    }

    #[test]
    fn a_process_that_ends_is_distinguished_from_one_that_goes_on() {
        let stat = |state: &str, flags: u64| {
            let rest = "0 0 0 0 0 0 0 0 20 0 9 0 123456 1000 10";
            format!("77 (a) b) {state} 1 77 77 0 -1 {flags} {rest}")
        };
        let parsed = |state, flags| ProcessStat::parse(&stat(state, flags)).unwrap();
        assert_eq!(parsed("S", 0x40_0100), ProcessStat { ends: false, started: 123_456 });
        for (state, flags) in [("Z", 0), ("X", 0), ("R", 0x40_0104)] {
            assert!(parsed(state, flags).ends, "{state} {flags}");
        }
        assert!(ProcessStat::parse("77 (a").is_none());
        assert!(is_killed("Name:\tm\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(is_killed("SigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n"));
        assert!(!is_killed("SigPnd:\t0000000000000000\nSigBlk:\t0000000000000100\n"));
        assert_eq!(Owner::parse("12 34\n"), Some(Owner { pid: 12, started: 34 }));
        assert!(Owner::parse("").is_none() && Owner::parse("12").is_none());
    }
}
