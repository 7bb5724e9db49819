//! What takes long to remove is put aside at once and removed by a thread of its own: a job may
//! have left millions of files, and meanwhile the agent must be heard.

use crate::process::random_id;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Leads to the thread that removes; started by the first that has something for it.
static REMOVER: Mutex<Option<Sender<PathBuf>>> = Mutex::new(None);

/// Moves a directory into `trash`, which is on the same file system, and has it removed there.
///
/// # Errors
/// It could neither be moved nor removed.
pub(crate) fn discard(trash: &Path, path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    let aside = trash.join(random_id());
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(trash);
    match made.and_then(|()| fs::rename(path, &aside)) {
        Ok(()) => {
            later(aside);
            Ok(())
        }
        Err(_) => gone(path),
    }
}

/// Removes what an earlier agent did not get to.
pub(crate) fn sweep(trash: &Path) {
    for entry in fs::read_dir(trash).into_iter().flatten().flatten() {
        later(entry.path());
    }
}

/// Removes a directory with everything in it, however deep a job made that: what is below is moved
/// up to the top and removed from there, so that neither open files nor the stack run out. Follows
/// no link. What is not there is removed.
///
/// # Errors
/// Something in it cannot be removed.
pub(crate) fn gone(path: &Path) -> io::Result<()> {
    let top = match directory(CWD, path) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return fs::remove_file(path),
        Err(e) => return Err(e.into()),
    };
    // Nobody can have made the same names before.
    let (id, mut moved) = (random_id(), 0u64);
    loop {
        let mut found = remove_files(&top)?;
        if found.is_empty() {
            return fs::remove_dir(path);
        }
        // What was moved up last is removed next: the top stays small, and is not read again for
        // every level.
        while let Some(name) = found.pop() {
            let below = directory(&top, &name)?;
            for deeper in remove_files(&below)? {
                let aside = CString::new(format!("{id}-{moved}"))?;
                renameat(&below, &deeper, &top, &aside)?;
                found.push(aside);
                moved += 1;
            }
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
}

fn directory(at: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

/// Removes what is no directory; the names of what is one.
fn remove_files(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut directories = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => directories.push(name.to_owned()),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(directories)
}

/// Where no thread can be had it stays until the next sweep.
fn later(path: PathBuf) {
    let mut remover = REMOVER.lock().unwrap_or_else(PoisonError::into_inner);
    if remover.is_none() {
        match start() {
            Ok(started) => *remover = Some(started),
            Err(e) => tracing::warn!(error = %e, "no thread that removes what jobs left"),
        }
    }
    if remover.as_ref().is_some_and(|r| r.send(path).is_err()) {
        *remover = None;
    }
}

fn start() -> io::Result<Sender<PathBuf>> {
    let (sender, paths) = channel::<PathBuf>();
    let body = move || {
        for path in paths {
            if let Err(e) = gone(&path) {
                tracing::warn!(path = %path.display(), error = %e,
                    "what a job left cannot be removed; tried again when the agent starts");
            }
        }
    };
    std::thread::Builder::new().name("remove".into()).spawn(body)?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn empties(trash: &Path) {
        let from = Instant::now();
        while fs::read_dir(trash).unwrap().next().is_some() {
            assert!(from.elapsed() < Duration::from_secs(60), "never removed");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn what_is_discarded_is_away_at_once_and_removed_in_the_end() {
        let tmp = tempfile::tempdir().unwrap();
        let (trash, dir) = (tmp.path().join("trash"), tmp.path().join("scratch"));
        discard(&trash, &dir).unwrap();
        assert!(!trash.exists(), "there was nothing");
        fs::create_dir_all(dir.join("a/b")).unwrap();
        discard(&trash, &dir).unwrap();
        assert!(!dir.exists());
        empties(&trash);
    }

    #[test]
    fn a_directory_is_removed_however_deep_it_is_and_no_link_is_followed() {
        let tmp = tempfile::tempdir().unwrap();
        let (top, other) = (tmp.path().join("scratch"), tmp.path().join("other"));
        fs::create_dir_all(other.join("kept")).unwrap();
        fs::create_dir_all(top.join("wide/a")).unwrap();
        fs::create_dir_all(top.join("wide/b")).unwrap();
        fs::write(top.join("wide/a/file"), "").unwrap();
        std::os::unix::fs::symlink(&other, top.join("wide/link")).unwrap();
        // More than the 1,024 files that a process usually may have open, and far more than the
        // stack below has room for. Each level costs a busy file system milliseconds.
        let mut at = directory(CWD, &top).unwrap();
        for _ in 0..2_000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = directory(&at, "d").unwrap();
        }
        drop(at);
        std::thread::scope(|scope| {
            let small = std::thread::Builder::new().stack_size(128 << 10);
            small.spawn_scoped(scope, || gone(&top)).unwrap().join().unwrap().unwrap();
        });
        assert!(!top.exists());
        assert!(other.join("kept").exists());
        gone(&top).unwrap();
        std::os::unix::fs::symlink(&other, &top).unwrap();
        gone(&top).unwrap();
        assert!(fs::symlink_metadata(&top).is_err() && other.join("kept").exists());
    }

    #[test]
    fn what_an_earlier_agent_left_is_swept() {
        let tmp = tempfile::tempdir().unwrap();
        fs::create_dir_all(tmp.path().join("one/deep")).unwrap();
        sweep(tmp.path());
        empties(tmp.path());
    }
}
