//! How long ranks may go on without a server. The agent writes down when the server was last
//! certain to hear it; each supervisor reads that and stops its ranks when the time is over,
//! whether or not there still is an agent.

use crate::process;
use muster_model::units::Span;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file of the agent's directory in which it writes down renewals.
const FILE: &str = "lease";

/// A moment, in milliseconds since the machine started. Nobody can set this clock, it goes on
/// while the machine sleeps, and all processes of one boot share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BootTime(pub u64);

impl BootTime {
    /// Now.
    #[must_use]
    pub fn now() -> BootTime {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        #[expect(unsafe_code, reason = "this clock has no safe interface in the standard library")]
        // SAFETY: the pointer is to a timespec of this function. The clock exists on every Linux.
        unsafe {
            libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now);
        }
        let (s, ns) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
        BootTime(s.unwrap_or(0).saturating_mul(1000) + ns.unwrap_or(0) / 1_000_000)
    }

    /// So much later.
    #[must_use]
    pub fn after(self, span: Span) -> BootTime {
        BootTime(self.0.saturating_add(span.0))
    }

    /// How long ago `earlier` was; zero when it was not.
    #[must_use]
    pub fn since(self, earlier: BootTime) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// What a supervisor knows of the lease of its ranks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LeaseOrder {
    /// Ranks go on for so long after the last renewal.
    pub(crate) most: Span,
    /// Between SIGTERM and SIGKILL when it has run out.
    pub(crate) grace: Span,
    /// The last renewal when they were started.
    pub(crate) renewed: BootTime,
    /// The directory in which later ones are written down.
    pub(crate) renewals: PathBuf,
}

/// Renewals as the agent writes them. One file for all ranks of a node.
#[derive(Debug)]
pub(crate) struct Renewals {
    dir: PathBuf,
    file: Option<File>,
    last: Option<BootTime>,
}

impl Renewals {
    /// Goes on where an earlier agent of this boot stopped.
    pub(crate) fn open(dir: &Path) -> Renewals {
        Renewals { dir: dir.to_owned(), file: None, last: last_renewal(dir) }
    }

    /// The last renewal, if there was any.
    pub(crate) fn last(&self) -> Option<BootTime> {
        self.last
    }

    /// Where supervisors find them.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The server certainly heard this node at `at` or later. An older renewal changes nothing.
    pub(crate) fn renew(&mut self, at: BootTime) {
        self.last = self.last.max(Some(at));
    }

    /// Writes the last renewal down. Always the same number of bytes at the same place: a disk
    /// that filled up meanwhile keeps nobody's lease from being renewed.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let Some(BootTime(last)) = self.last else { return Ok(()) };
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(false).mode(0o600);
                options.open(self.dir.join(FILE))?
            }
        };
        // Twice, so that a reader knows when it met a write half-way.
        let line = format!("{:<36} {last:020} {last:020}\n", process::boot_id());
        file.write_all_at(line.as_bytes(), 0)?;
        self.file = Some(file);
        Ok(())
    }
}

/// The last renewal of this boot that an agent wrote down in its directory.
pub(crate) fn last_renewal(dir: &Path) -> Option<BootTime> {
    // No file and one of another boot are certain. What cannot be read, or was met half-written,
    // is looked at again: ranks must not stop for want of a descriptor.
    for round in 0..20 {
        if round > 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        let text = match std::fs::read_to_string(dir.join(FILE)) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => continue,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [boot, ..] if *boot != process::boot_id() => return None,
            [_, one, two] if one == two && text.ends_with('\n') => {
                if let Ok(at) = one.parse() {
                    return Some(BootTime(at));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_is_read_back_and_never_goes_back() {
        let tmp = tempfile::tempdir().unwrap();
        let mut r = Renewals::open(tmp.path());
        assert_eq!(r.last(), None);
        r.write().unwrap();
        assert_eq!(last_renewal(tmp.path()), None, "nothing to write down yet");
        r.renew(BootTime(7000));
        r.renew(BootTime(6000));
        r.write().unwrap();
        assert_eq!(last_renewal(tmp.path()), Some(BootTime(7000)));
        assert_eq!(Renewals::open(tmp.path()).last(), Some(BootTime(7000)));
        let before = std::fs::metadata(tmp.path().join(FILE)).unwrap().len();
        r.renew(BootTime(u64::MAX));
        r.write().unwrap();
        assert_eq!(std::fs::metadata(tmp.path().join(FILE)).unwrap().len(), before);
    }

    #[test]
    fn what_is_torn_or_of_another_boot_renews_nothing() {
        let tmp = tempfile::tempdir().unwrap();
        let (boot, write) =
            (process::boot_id(), |text: &str| std::fs::write(tmp.path().join(FILE), text).unwrap());
        write(&format!("{boot} 7000 7000\n"));
        assert_eq!(last_renewal(tmp.path()), Some(BootTime(7000)));
        for bad in [
            format!("{boot} 7000 6999\n"),
            format!("{boot} 7000 7000"),
            format!("{boot} 7000\n"),
            "another 7000 7000\n".into(),
            "\u{0}\u{0}".into(),
            String::new(),
        ] {
            write(&bad);
            assert_eq!(last_renewal(tmp.path()), None, "{bad:?}");
        }
    }

    #[test]
    fn the_clock_goes_forward() {
        let now = BootTime::now();
        assert!(now.0 > 0 && BootTime::now() >= now);
        assert_eq!(now.after(Span(5)).since(now), Span(5));
        assert_eq!(now.since(now.after(Span(5))), Span(0));
    }
}
