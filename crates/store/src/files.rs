//! Files that are there whole or not at all.

use crate::StoreError;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file under another name until it is finished; removed when it never is.
pub(crate) struct Draft {
    path: PathBuf,
    done: bool,
}

impl Draft {
    /// Names a draft beside `target`.
    pub(crate) fn beside(target: &Path) -> Draft {
        let name = target.file_name().map_or_else(Default::default, |n| n.to_string_lossy());
        Draft {
            path: target.with_file_name(format!(".{name}.{}.tmp", std::process::id())),
            done: false,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the draft for writing, readable by its owner alone.
    pub(crate) fn create(&self) -> Result<File, StoreError> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&self.path)
            .map_err(|e| StoreError::io(format!("cannot create {}", self.path.display()), e))
    }

    /// Gives the finished draft its name, in place of an older file.
    pub(crate) fn replace(mut self, target: &Path) -> Result<(), StoreError> {
        std::fs::rename(&self.path, target)
            .map_err(|e| StoreError::io(format!("cannot write {}", target.display()), e))?;
        self.done = true;
        sync_parent(target)
    }

    /// Gives the finished draft its name, unless something has it.
    pub(crate) fn publish(mut self, target: &Path) -> Result<(), StoreError> {
        match std::fs::hard_link(&self.path, target) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(taken(target)),
            // Some file systems have no links.
            Err(_) if !target.exists() => {
                std::fs::rename(&self.path, target)
                    .map_err(|e| StoreError::io(format!("cannot write {}", target.display()), e))?;
                self.done = true;
            }
            Err(_) => return Err(taken(target)),
        }
        sync_parent(target)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.done {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The error for a name that is in use.
pub(crate) fn taken(target: &Path) -> StoreError {
    StoreError::other(format!(
        "{} exists and is never overwritten: name another file or move that one away",
        target.display()
    ))
}

/// Flushes a buffered file down to the disk.
pub(crate) fn finish(writer: BufWriter<File>, path: &Path) -> Result<(), StoreError> {
    let failed = |e| StoreError::io(format!("cannot write {}", path.display()), e);
    let mut file = writer.into_inner().map_err(|e| failed(e.into_error()))?;
    file.flush().map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// Makes a new name in a directory durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), StoreError> {
    let parent = parent(path);
    File::open(parent)
        .and_then(|d| d.sync_all())
        .map_err(|e| StoreError::io(format!("cannot sync the directory {}", parent.display()), e))
}

/// The directory a file is in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}
