//! What takes long to remove is put aside at once and removed by a thread of its own: a job may
//! have left millions of files, and meanwhile the agent must be heard.

use crate::process::random_id;
use std::fs;
use std::io;
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

fn gone(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
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
    fn what_an_earlier_agent_left_is_swept() {
        let tmp = tempfile::tempdir().unwrap();
        fs::create_dir_all(tmp.path().join("one/deep")).unwrap();
        sweep(tmp.path());
        empties(tmp.path());
    }
}
