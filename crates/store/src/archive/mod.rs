//! Reads what left the log: its segments, proven by the chain to be those of this log, and snapshots
//! of earlier states, from which a state of the past is replayed.

mod segments;
mod snapshots;
mod thin;

pub use segments::{Archive, ArchiveReader};
pub use snapshots::{ArchivedSnapshot, archive_snapshot, archived_snapshots, thin_snapshots};

use crate::StoreError;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Creates the directory of the archive, where it is not there yet.
pub(crate) fn create_dir(dir: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| StoreError::io(format!("cannot create {}", dir.display()), e))
}

/// The files of the directory, with their names; none where there is no directory.
fn files(dir: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let failed = |e| StoreError::io(format!("cannot read {}", dir.display()), e);
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}
