//! Whether the log can be written now, as the threads that use the store see it. `/readyz` and every
//! write of the API ask here first, so that nobody waits for a store that is away. `/readyz` asks for
//! more: that the lease is renewed, too.

use muster_store::{StoreError, StoreUrl};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why nothing can be written now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CannotWrite {
    /// What is wrong, without the database's own words: whoever asks may read it.
    pub summary: &'static str,
    /// What is wrong in full, and how to fix it.
    pub reason: String,
}

impl CannotWrite {
    fn because(e: &StoreError) -> CannotWrite {
        let summary = match e {
            StoreError::Full { .. } => FULL,
            StoreError::Unavailable { .. } => "the store cannot be reached",
            StoreError::Corrupt { .. } => "the store is damaged",
            StoreError::StaleLease { .. } => "this server no longer leads",
            StoreError::Replaced { .. } => "a file of the store was deleted or replaced",
            _ => "the store refuses writes",
        };
        CannotWrite { summary, reason: e.to_string() }
    }

    pub(crate) fn plain(summary: &'static str) -> CannotWrite {
        CannotWrite { summary, reason: summary.to_owned() }
    }
}

const FULL: &str = "the store's disk is full";
const LOW: &str = "the store's disk is almost full";
const SILENT: &str = "the store does not answer";
const RELOADING: &str = "the store failed and the log is being read again";

#[derive(Default)]
struct StoreWriteState {
    /// An append has begun and is not answered.
    appending: Option<Instant>,
    /// The keeper asked the store something and has no answer.
    asking: Option<Instant>,
    /// What failed last, and when; none once the store has taken a later write.
    failed: Option<(Instant, CannotWrite)>,
    /// Why the lease was not renewed when that was last tried.
    unrenewed: Option<CannotWrite>,
    /// There is no free space on the store's disk.
    full: Option<String>,
    /// So much is left on the store's disk, where that is less than the reserve.
    low: Option<u64>,
    /// The engine has thrown its memory away and reads the log.
    reloading: bool,
}

/// What is known about the store.
#[derive(Default)]
pub(crate) struct StoreAvailability(Mutex<StoreWriteState>);

fn failure(result: Result<(), &StoreError>) -> Option<(Instant, CannotWrite)> {
    result.err().map(|e| (Instant::now(), CannotWrite::because(e)))
}

impl StoreAvailability {
    fn seen(&self) -> MutexGuard<'_, StoreWriteState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer appends.
    pub(crate) fn appending(&self) {
        self.seen().appending = Some(Instant::now());
    }

    /// What came of it.
    pub(crate) fn appended(&self, result: Result<(), &StoreError>) {
        let mut seen = self.seen();
        seen.appending = None;
        seen.failed = failure(result);
    }

    /// The keeper asks the store something.
    pub(crate) fn asking(&self) {
        self.seen().asking = Some(Instant::now());
    }

    /// The store answered a question; that it can be read does not say that it can be written.
    pub(crate) fn answered(&self, result: Result<(), &StoreError>) {
        let mut seen = self.seen();
        seen.asking = None;
        if result.is_err() {
            seen.failed = failure(result);
        }
    }

    /// The store took the keeper's renewal of the lease, or did not.
    pub(crate) fn took(&self, result: Result<(), &StoreError>) {
        let mut seen = self.seen();
        let asked = seen.asking.take();
        seen.unrenewed = result.err().map(CannotWrite::because);
        // An append may have failed after this write was begun: then it says nothing.
        let later = seen.failed.as_ref().is_some_and(|(at, _)| asked.is_some_and(|a| a < *at));
        if result.is_err() || !later {
            seen.failed = failure(result);
        }
    }

    /// The engine reads the log again, or has done so.
    pub(crate) fn reloading(&self, now: bool) {
        self.seen().reloading = now;
    }

    /// Whether there is free space: what was said when there is none.
    pub(crate) fn space(&self, none: Option<String>) {
        self.seen().full = none;
    }

    /// Whether less than the reserve is left on the disk, and how much.
    pub(crate) fn low(&self, left: Option<u64>) {
        self.seen().low = left;
    }

    /// Why no more jobs are to be accepted; none while there is more than the reserve.
    pub(crate) fn low_space(&self) -> Option<CannotWrite> {
        let left = self.seen().low? >> 20;
        let reason = format!(
            "{LOW}: {left} MiB are free, and the last {} MiB are reserved for operators and for \
             what runs; free space on it",
            RESERVE >> 20
        );
        Some(CannotWrite { summary: LOW, reason })
    }

    /// Why the lease is not renewed, although other writes may be taken; none when the last renewal
    /// was.
    pub(crate) fn unrenewed(&self) -> Option<CannotWrite> {
        self.seen().unrenewed.clone()
    }

    /// Something failed since the store last took a write.
    pub(crate) fn failing(&self) -> bool {
        let seen = self.seen();
        seen.failed.is_some() || seen.full.is_some()
    }

    /// Why nothing can be written; none when it can. A store that has not answered for `patience`
    /// counts as away.
    pub(crate) fn cannot_write(&self, patience: Duration) -> Option<CannotWrite> {
        let seen = self.seen();
        if let Some(detail) = &seen.full {
            let reason = format!("{FULL} ({detail}): free space on it");
            return Some(CannotWrite { summary: FULL, reason });
        }
        if let Some((_, failed)) = &seen.failed {
            return Some(failed.clone());
        }
        let silent = |since: Option<Instant>| since.is_some_and(|at| at.elapsed() >= patience);
        if silent(seen.appending) || silent(seen.asking) {
            return Some(CannotWrite::plain(SILENT));
        }
        seen.reloading.then(|| CannotWrite::plain(RELOADING))
    }
}

/// What must fit onto the disk: as much as a round of requests writes at most times.
const SPACE: usize = 512 * 1024;

/// A disk with this much free space is not written to: it is not full before the next look, and a
/// limit that the system does not report (a quota) shows when something cannot be written.
const ENOUGH: u64 = 1 << 30;
/// The same for files that can still be made.
const ENOUGH_FILES: u64 = 16;
/// With less than this left, jobs are accepted of operators alone: what runs must still be
/// recorded, and whoever cancels, drains or revokes must still be able to.
const RESERVE: u64 = 256 << 20;

/// Finds out whether the disk of an embedded store has free space, before a write needs it.
pub(crate) struct Space {
    /// What is written to see whether it fits.
    probe: Option<PathBuf>,
    enough: u64,
    reserve: u64,
}

impl Space {
    /// The disk of this store; a database server's disk is its own affair, and it says so itself.
    pub(crate) fn of(store: &StoreUrl) -> Space {
        let probe = match store {
            StoreUrl::Sqlite(path) => {
                let mut name = path.clone().into_os_string();
                name.push(".space");
                Some(name.into())
            }
            StoreUrl::Postgres(_) => None,
        };
        Space { probe, enough: ENOUGH, reserve: RESERVE }
    }

    /// What the system says when there is none. `failing`: something could not be written.
    pub(crate) fn lacking(&self, failing: bool) -> Option<String> {
        let path = self.probe.as_deref()?;
        // A probe that failed is still there.
        if !failing && !is_there(path) && self.is_ample(path) {
            return None;
        }
        let full = |e: &io::Error| {
            matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        };
        // Anything else, such as a file that may not be made, is for the append to find out.
        write(path).err().filter(full).map(|e| e.to_string())
    }

    /// How many bytes are left, where that is less than the reserve.
    pub(crate) fn low(&self) -> Option<u64> {
        free_on(self.probe.as_deref()?).map(|(left, _)| left).filter(|left| *left < self.reserve)
    }

    /// Whether the system says that there is plenty; not when it says nothing.
    fn is_ample(&self, path: &Path) -> bool {
        free_on(path).is_some_and(|(bytes, files)| bytes >= self.enough && files >= ENOUGH_FILES)
    }
}

/// How many bytes are free on the disk of a file, and how many files can still be made.
fn free_on(path: &Path) -> Option<(u64, u64)> {
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(dir).ok()?;
    // Some file systems do not count files.
    let files = if disk.f_files == 0 { u64::MAX } else { disk.f_favail };
    Some((disk.f_bavail.saturating_mul(disk.f_frsize), files))
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn write(path: &Path) -> io::Result<()> {
    // It stays while the disk is full, and is as private as the store beside it.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    let wrote = file.write_all(&vec![0x5a; SPACE]);
    if wrote.is_err() {
        // Whatever was written of it must not take the last space.
        let _ = file.set_len(0);
        return wrote;
    }
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> StoreError {
        StoreError::Unavailable { detail: "connection refused".into(), outcome_unknown: false }
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_store_that_failed_is_away_until_it_takes_a_write() {
        let reach = StoreAvailability::default();
        assert_eq!(reach.cannot_write(LONG), None);
        reach.appending();
        assert_eq!(reach.cannot_write(LONG), None, "an append under way is no trouble");
        assert_eq!(reach.cannot_write(Duration::ZERO).unwrap().summary, SILENT);
        reach.appended(Err(&away()));
        let why = reach.cannot_write(LONG).unwrap();
        assert_eq!(why.summary, "the store cannot be reached");
        assert!(why.reason.contains("connection refused"), "{}", why.reason);
        reach.asking();
        reach.answered(Ok(()));
        assert!(reach.cannot_write(LONG).is_some(), "reading is not writing");
        reach.asking();
        reach.took(Ok(()));
        assert_eq!(reach.cannot_write(LONG), None);
    }

    #[test]
    fn a_keeper_without_an_answer_and_a_reload_are_noticed() {
        let reach = StoreAvailability::default();
        reach.asking();
        assert!(reach.cannot_write(LONG).is_none());
        assert_eq!(reach.cannot_write(Duration::ZERO).unwrap().summary, SILENT);
        reach.answered(Err(&away()));
        assert!(reach.failing() && reach.cannot_write(LONG).is_some());
        reach.appending();
        reach.appended(Ok(()));
        assert!(!reach.failing());
        reach.reloading(true);
        assert_eq!(reach.cannot_write(LONG).unwrap().summary, RELOADING);
        reach.reloading(false);
        assert!(reach.cannot_write(LONG).is_none());
    }

    #[test]
    fn a_write_does_not_stand_for_a_renewal_of_the_lease() {
        let reach = StoreAvailability::default();
        assert_eq!(reach.unrenewed(), None);
        reach.asking();
        reach.took(Err(&away()));
        reach.appending();
        reach.appended(Ok(()));
        assert_eq!(reach.cannot_write(LONG), None);
        assert_eq!(reach.unrenewed().unwrap().summary, "the store cannot be reached");
        reach.asking();
        reach.answered(Ok(()));
        assert!(reach.unrenewed().is_some(), "reading is not renewing");
        reach.asking();
        reach.took(Ok(()));
        assert_eq!(reach.unrenewed(), None);
    }

    #[test]
    fn a_disk_without_space_is_found_by_writing_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut space = Space::of(&StoreUrl::Sqlite(dir.path().join("muster.db")));
        space.enough = u64::MAX;
        assert_eq!(space.lacking(false), None);
        let probe = dir.path().join("muster.db.space");
        assert!(!probe.exists(), "nothing is left behind");
        std::os::unix::fs::symlink("/dev/full", &probe).unwrap();
        space.enough = 0;
        let detail = space.lacking(false).expect("no space: what failed is tried again");
        let reach = StoreAvailability::default();
        reach.space(Some(detail));
        assert_eq!(reach.cannot_write(LONG).unwrap().summary, FULL);
        reach.took(Ok(()));
        assert!(reach.cannot_write(LONG).is_some(), "a small write says nothing about a large one");
        reach.space(None);
        assert!(reach.cannot_write(LONG).is_none());
    }

    #[test]
    fn the_last_space_is_not_for_new_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let mut space = Space::of(&StoreUrl::Sqlite(dir.path().join("muster.db")));
        space.reserve = u64::MAX;
        let reach = StoreAvailability::default();
        reach.low(space.low());
        let why = reach.low_space().expect("less than the reserve is left");
        assert_eq!(why.summary, LOW);
        assert!(why.reason.contains("256 MiB are reserved"), "{}", why.reason);
        assert_eq!(reach.cannot_write(LONG), None, "everything else is still written");
        space.reserve = 0;
        reach.low(space.low());
        assert_eq!(reach.low_space(), None);
    }

    #[test]
    fn what_is_written_to_find_out_is_for_the_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let space = Space::of(&StoreUrl::Sqlite(dir.path().join("muster.db")));
        // Behind a link it is not removed.
        let written = dir.path().join("written");
        std::os::unix::fs::symlink(&written, dir.path().join("muster.db.space")).unwrap();
        assert_eq!(space.lacking(true), None);
        let mode = std::os::unix::fs::MetadataExt::mode(&written.metadata().unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_disk_with_plenty_of_space_is_written_to_only_when_something_failed() {
        let dir = tempfile::tempdir().unwrap();
        let mut space = Space::of(&StoreUrl::Sqlite(dir.path().join("muster.db")));
        // Whoever makes and removes a file changes the directory.
        let old = std::time::SystemTime::UNIX_EPOCH;
        let wrote = |space: &Space, failing: bool| {
            std::fs::File::open(dir.path()).unwrap().set_modified(old).unwrap();
            assert_eq!(space.lacking(failing), None);
            dir.path().metadata().unwrap().modified().unwrap() != old
        };
        space.enough = 0;
        assert!(!wrote(&space, false));
        assert!(wrote(&space, true));
        space.enough = u64::MAX;
        assert!(wrote(&space, false), "there is little");
    }
}
