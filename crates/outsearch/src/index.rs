//! The index as a whole: a directory with one file per project, bounded in bytes.

use crate::file::{FileFacts, ProjectFile, beside};
use crate::lines::{Line, Position};
use crate::{AttemptRef, IndexError, StreamKey};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Files that are held open.
const OPEN: usize = 32;
/// Parts that the whole index has at least, about: what is dropped at once when it is full.
const PARTS: u64 = 20;
/// Text of the smallest part.
const LEAST_PART: u64 = 16 << 10;
/// Text of the largest part: a search that has begun with one goes through all of it.
const MOST_PART: u64 = 32 << 20;
/// The largest write-ahead log of a file. While readers keep a larger one from being emptied, nothing is
/// added to that file.
const MOST_LOG: u64 = 64 << 20;
/// What the name of a file ends with.
const ENDING: &str = ".db";

/// The file of a project. Names of projects are names of files.
pub(crate) fn path_of(dir: &Path, project: &str) -> PathBuf {
    dir.join(format!("{project}{ENDING}"))
}

/// Numbers about the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexStats {
    /// Bytes of all files, with their write-ahead logs.
    pub bytes: u64,
    /// Projects with a file.
    pub projects: u64,
    /// Times that the oldest lines were dropped to stay within the bound.
    pub dropped: u64,
}

/// The index of output, for the one who writes it.
pub struct OutputIndex {
    dir: PathBuf,
    most: u64,
    projects: BTreeMap<String, FileFacts>,
    /// Projects whose files could not be read yet.
    unread: BTreeSet<String>,
    /// The one used last is the last.
    open: Vec<(String, ProjectFile)>,
    /// The last number that a line of any project had.
    last: u64,
    dropped: u64,
    /// The largest write-ahead log of a file.
    most_log: u64,
}

impl std::fmt::Debug for OutputIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputIndex").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl OutputIndex {
    /// Opens the index in a directory of its own, of at most so many bytes. A file that is damaged is
    /// removed: what was in it is indexed anew. One that cannot be read now is read when it is used.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub fn open(dir: &Path, most: u64) -> Result<OutputIndex, IndexError> {
        let failed = |what| move |source| IndexError::Io { what, path: dir.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed("create"))?;
        // An older version let everybody of the machine read it.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(failed("protect"))?;
        let mut index = OutputIndex {
            dir: dir.to_owned(),
            most,
            projects: BTreeMap::new(),
            unread: BTreeSet::new(),
            open: Vec::new(),
            last: 0,
            dropped: 0,
            most_log: MOST_LOG,
        };
        for entry in fs::read_dir(dir).map_err(failed("list"))? {
            let name = entry.map_err(failed("list"))?.file_name();
            let Some(project) = name.to_str().and_then(|n| n.strip_suffix(ENDING)) else {
                continue;
            };
            match index.refresh(project) {
                Ok(()) => {}
                Err(e) if e.is_damaged() => index.discard(project)?,
                Err(_) => {
                    index.unread.insert(project.to_owned());
                }
            }
        }
        Ok(index)
    }

    /// The project's file, opened or made where it was not.
    fn file(&mut self, project: &str) -> Result<&mut ProjectFile, IndexError> {
        match self.open.iter().position(|(name, _)| name == project) {
            Some(at) => self.open[at..].rotate_left(1),
            None => {
                let file = ProjectFile::open(&path_of(&self.dir, project))?;
                if self.open.len() >= OPEN {
                    self.open.remove(0);
                }
                self.open.push((project.to_owned(), file));
            }
        }
        let last = self.open.len() - 1;
        Ok(&mut self.open[last].1)
    }

    fn refresh(&mut self, project: &str) -> Result<(), IndexError> {
        let facts = self.file(project)?.facts()?;
        self.last = self.last.max(facts.last_line);
        self.projects.insert(project.to_owned(), facts);
        self.unread.remove(project);
        Ok(())
    }

    /// Is something of the project indexed? What could not be read is read now: nothing may be added to
    /// a file before it is known how far it has come.
    fn is_indexed(&mut self, project: &str) -> Result<bool, IndexError> {
        if self.unread.contains(project) {
            self.refresh(project)?;
        }
        Ok(self.projects.contains_key(project))
    }

    /// How far a stream is indexed; none of one that is not.
    ///
    /// # Errors
    /// When the project's file cannot be used.
    pub fn position(
        &mut self,
        project: &str,
        key: &StreamKey,
    ) -> Result<Option<Position>, IndexError> {
        if !self.is_indexed(project)? {
            return Ok(None);
        }
        self.file(project)?.position(key)
    }

    /// Every project that has a file.
    #[must_use]
    pub fn projects(&self) -> Vec<String> {
        self.projects.keys().chain(&self.unread).cloned().collect()
    }

    /// Every attempt of a project of which something is indexed.
    ///
    /// # Errors
    /// When the project's file cannot be used.
    pub fn attempts(&mut self, project: &str) -> Result<Vec<AttemptRef>, IndexError> {
        if !self.is_indexed(project)? {
            return Ok(Vec::new());
        }
        self.file(project)?.attempts()
    }

    /// Adds lines of a stream and how far it is indexed now. Then the oldest lines go, as far as the
    /// bound demands it. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    /// When the project's file cannot be used: nothing was added.
    pub fn add(
        &mut self,
        project: &str,
        key: &StreamKey,
        position: Position,
        lines: &[Line],
        now: i64,
    ) -> Result<(), IndexError> {
        self.is_indexed(project)?;
        let (last, part) = (self.last, (self.most / PARTS).clamp(LEAST_PART, MOST_PART));
        self.last = self.file(project)?.add(key, position, lines, (last, now), part)?;
        self.refresh(project)?;
        self.can_add(project)?;
        self.enforce_bound();
        Ok(())
    }

    /// Does the project's file take lines now? Not while readers keep its write-ahead log from being
    /// emptied and that is too large: ask again later.
    ///
    /// # Errors
    /// When the project's file cannot be used.
    pub fn can_add(&mut self, project: &str) -> Result<bool, IndexError> {
        if self.is_log_full(project) {
            self.empty_log(project)?;
        }
        Ok(!self.is_log_full(project))
    }

    fn is_log_full(&self, project: &str) -> bool {
        self.projects.get(project).is_some_and(|f| f.log > self.most_log)
    }

    fn empty_log(&mut self, project: &str) -> Result<(), IndexError> {
        self.file(project)?.empty_log()?;
        self.refresh(project)
    }

    /// Takes out a stream, to be indexed anew.
    ///
    /// # Errors
    /// When the project's file cannot be used.
    pub fn remove_stream(&mut self, project: &str, key: &StreamKey) -> Result<(), IndexError> {
        self.file(project)?.remove_stream(key)?;
        self.after_removal(project)
    }

    /// Takes out an attempt whose output is gone.
    ///
    /// # Errors
    /// When the project's file cannot be used.
    pub fn remove_attempt(&mut self, project: &str, of: AttemptRef) -> Result<(), IndexError> {
        self.file(project)?.remove_attempt(of)?;
        self.after_removal(project)
    }

    fn after_removal(&mut self, project: &str) -> Result<(), IndexError> {
        self.refresh(project)?;
        match self.projects.get(project) {
            Some(facts) if !facts.has_streams => self.discard(project),
            _ => Ok(()),
        }
    }

    /// Removes a project's file, whatever is in it.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn discard(&mut self, project: &str) -> Result<(), IndexError> {
        self.open.retain(|(name, _)| name != project);
        self.projects.remove(project);
        self.unread.remove(project);
        let path = path_of(&self.dir, project);
        for ending in ["", "-wal", "-shm"] {
            let path = beside(&path, ending);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(IndexError::Io { what: "remove", path, source: e });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Drops oldest parts until the files are within their bound. A write-ahead log that a reader keeps
    /// from being emptied costs no part: dropping one would only make it larger.
    fn enforce_bound(&mut self) {
        if self.stats().bytes <= self.most {
            return;
        }
        let with_log = self.projects.iter().filter(|(_, f)| f.log > 0);
        let with_log: Vec<String> = with_log.map(|(name, _)| name.clone()).collect();
        for project in &with_log {
            if self.empty_log(project).is_err() {
                self.set_aside(project);
            }
        }
        while self.projects.values().map(|f| f.bytes).sum::<u64>() > self.most {
            let parts = self.projects.iter().filter_map(|(name, f)| Some((f.oldest?, name)));
            let Some((_, project)) = parts.min() else { return };
            let project = project.clone();
            let dropped = self.file(&project).and_then(ProjectFile::drop_oldest);
            if dropped.and_then(|()| self.empty_log(&project)).is_err() {
                self.set_aside(&project);
                continue;
            }
            self.dropped += 1;
        }
    }

    /// A file that cannot be used now is read when it is used again: what is wrong with it is no error of
    /// the project that needs its space.
    fn set_aside(&mut self, project: &str) {
        self.open.retain(|(name, _)| name != project);
        self.projects.remove(project);
        self.unread.insert(project.to_owned());
    }

    /// Numbers about it.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        IndexStats {
            bytes: self.projects.values().map(|f| f.bytes + f.log).sum(),
            projects: self.projects.len() as u64,
            dropped: self.dropped,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
