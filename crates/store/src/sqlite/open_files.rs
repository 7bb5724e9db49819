//! The files of an open database, by name and by what they are. SQLite goes on writing into a file
//! whose name was removed; nobody finds that again once the process has ended.

use crate::StoreError;
use crate::files::sync_parent;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Whoever creates a file, or looks whether it is there, does so alone: see [`create`].
static CREATING: Mutex<()> = Mutex::new(());

/// Makes the file where there is none. One that is there is not opened: when any handle on a file is
/// closed, the system drops all locks that this process has on it, also those of SQLite's handles.
/// Another process that closes the database would then take itself for the last one, and delete the
/// `-wal` file that is in use here.
///
/// Nothing is made where side files are left: what was committed may be in them alone, and SQLite
/// deletes those that it finds beside an empty file.
pub(super) fn create(path: &Path) -> Result<(), StoreError> {
    let _alone = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    if path.exists() {
        return Ok(());
    }
    let side = ["-wal", "-shm"].map(|ending| with_ending(path, ending));
    if let Some(side) = side.iter().find(|side| side.exists()) {
        // Another process may have made the database since.
        return match path.exists() {
            true => Ok(()),
            false => Err(StoreError::Replaced { detail: moved(path, side) }),
        };
    }
    // Scripts and environments are inside: nobody else may read it. SQLite gives its side files the
    // same mode.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => sync_parent(path),
        // Another process was faster.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(StoreError::io(format!("cannot open the store {}", path.display()), e)),
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn moved(path: &Path, side: &Path) -> String {
    format!(
        "the store's file {} was deleted or replaced, but {} is still there and may have entries \
         that are nowhere else: no new store is created; if the file was moved, move it back; \
         otherwise stop the server, move {} away too and restore the newest backup (`muster store \
         restore`)",
        path.display(),
        side.display(),
        side.display()
    )
}

/// What a file is, whatever it is called.
type Identity = (u64, u64);

fn identity(path: &Path) -> std::io::Result<Identity> {
    path.metadata().map(|m| (m.dev(), m.ino()))
}

/// The files of a database, as they were when it was opened.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(Vec<(PathBuf, Identity)>);

impl OpenFiles {
    /// Those of this database, which is open: SQLite removes none of them until it is closed.
    pub(super) fn of(path: &Path) -> OpenFiles {
        // The side files are beside the file itself, not beside a link to it.
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let named = ["", "-wal", "-shm"].into_iter().map(|ending| with_ending(&real, ending));
        OpenFiles(named.filter_map(|p| identity(&p).ok().map(|id| (p, id))).collect())
    }

    /// Are they still what is called so?
    pub(super) fn verify(&self) -> Result<(), StoreError> {
        for (n, (path, opened)) in self.0.iter().enumerate() {
            let gone = match identity(path) {
                Ok(now) => now != *opened,
                // Anything else, such as a directory that may not be read, is for SQLite to say.
                Err(e) => e.kind() == ErrorKind::NotFound,
            };
            if gone {
                return Err(StoreError::Replaced { detail: replaced(path, n == 0) });
            }
        }
        Ok(())
    }
}

fn replaced(path: &Path, database: bool) -> String {
    let what = format!(
        "the store's file {} was deleted or replaced while it is in use, and what would be written \
         now would be lost: nothing more is written; if it was moved, move it back",
        path.display()
    );
    if database {
        return format!(
            "{what}; otherwise stop the server and restore the newest backup (`muster store \
             restore`), or copy the open files out of `/proc/PID/fd` first"
        );
    }
    format!(
        "{what}; otherwise stop the server with SIGTERM, never with SIGKILL: it then writes what it \
         still has into the database; then start it again"
    )
}
