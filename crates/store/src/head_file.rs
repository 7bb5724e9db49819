//! The head of the log, kept a second time outside the database: a log that lost its end shows.
//!
//! It is written after each commit and not synced, so it costs an append one small write. The
//! database has synced the commit by then, so after a crash of the process or of the machine the
//! file says at most what the database holds. A file that is behind is fine. A log that is shorter
//! than the file, or that has another entry at that place, has lost something.

use crate::chain::{self, Link};
use crate::files::sync_parent;
use crate::walk::Rows;
use crate::{StoreError, StoreUrl};
use muster_model::Seq;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The format's name, at the beginning of the line.
const FORMAT: &str = "muster-head-1";

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadRecord {
    pub(crate) seq: Seq,
    pub(crate) chain: Link,
}

/// What is there of the file.
enum HeadFileState {
    Absent,
    /// What it says, and of which store.
    Line(HeadRecord, Link),
    Damaged,
}

/// The file with the second copy of the head of a SQLite log, next to the log: `PATH.head`.
#[must_use]
pub fn head_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".head");
    path.into()
}

/// The file.
pub(crate) struct HeadFile {
    path: PathBuf,
    /// Which store it speaks of.
    store: Link,
    file: Option<File>,
    /// Somebody was notified that it cannot be written.
    warned: bool,
}

impl HeadFile {
    /// That of a SQLite file, beside it: it moves with the file, whatever the file is called.
    pub(crate) fn beside(database: &Path) -> HeadFile {
        HeadFile { path: head_path(database), store: [0; 16], file: None, warned: false }
    }

    /// That of a database elsewhere. One directory may have seen several of them.
    pub(crate) fn of(url: &StoreUrl, path: &Path) -> HeadFile {
        let hash = blake3::hash(url.to_string().as_bytes());
        let mut store = [0; 16];
        store.copy_from_slice(&hash.as_bytes()[..16]);
        HeadFile { path: path.to_owned(), store, file: None, warned: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it says of this store. Nothing when it is not there, speaks of another store, or was
    /// cut by a failing disk: it only ever adds to what the database itself says.
    pub(crate) fn read(&self) -> Result<Option<HeadRecord>, StoreError> {
        match self.found()? {
            HeadFileState::Absent => Ok(None),
            HeadFileState::Line(kept, store) => Ok((store == self.store).then_some(kept)),
            HeadFileState::Damaged => {
                tracing::warn!(
                    file = %self.path.display(),
                    "the second copy of the log's head makes no sense and is not used; it is \
                     written anew"
                );
                Ok(None)
            }
        }
    }

    /// Why it says nothing although it is there, for whoever asks whether all is well.
    pub(crate) fn problem(&self) -> Result<Option<String>, StoreError> {
        Ok(matches!(self.found()?, HeadFileState::Damaged).then(|| {
            format!(
                "{} cannot be read: it is empty, cut or altered, so whether the log lost its end \
                 is unknown (a server writes it anew with its next commit)",
                self.path.display()
            )
        }))
    }

    fn found(&self) -> Result<HeadFileState, StoreError> {
        // A writer may be at it; a line that is cut is read again.
        for _ in 0..5 {
            let text = match std::fs::read(&self.path) {
                Ok(text) => text,
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(HeadFileState::Absent),
                Err(e) => return Err(self.failed("read", e)),
            };
            if let Some((kept, store)) = parse(&text) {
                return Ok(HeadFileState::Line(kept, store));
            }
        }
        Ok(HeadFileState::Damaged)
    }

    /// After a commit. Nothing waits for it, and a disk that refuses it fails no append.
    pub(crate) fn note(&mut self, seq: Seq, chain: Link) {
        match self.write(seq, chain) {
            Ok(()) => self.warned = false,
            Err(e) => {
                self.file = None;
                if !std::mem::replace(&mut self.warned, true) {
                    tracing::warn!(
                        file = %self.path.display(), error = %e,
                        "the second copy of the log's head cannot be written"
                    );
                }
            }
        }
    }

    /// The same, and on the disk when it returns.
    pub(crate) fn keep(&mut self, seq: Seq, chain: Link) -> Result<(), StoreError> {
        let written = self.write(seq, chain).and_then(|()| match &self.file {
            Some(file) => file.sync_all(),
            None => Ok(()),
        });
        written.map_err(|e| self.failed("write", e))?;
        sync_parent(&self.path)
    }

    /// The same at a clean stop. What is kept stays where it says more than the log: it is then all
    /// that shows a loss.
    pub(crate) fn keep_unless_ahead(&mut self, seq: Seq, chain: Link) -> Result<(), StoreError> {
        let follows = |kept: HeadRecord| kept.seq < seq || kept == HeadRecord { seq, chain };
        match self.read()?.is_none_or(follows) {
            true => self.keep(seq, chain),
            false => Ok(()),
        }
    }

    /// Before the log is replaced: a crash in between leaves no word about the old one.
    pub(crate) fn forget(&mut self) -> Result<(), StoreError> {
        self.file = None;
        match std::fs::remove_file(&self.path) {
            Ok(()) => sync_parent(&self.path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(self.failed("remove", e)),
        }
    }

    fn write(&mut self, seq: Seq, chain: Link) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&self.path)?,
        };
        // Always as long as the line it replaces, and one block of any disk.
        let written = file.write_all_at(line(seq, &chain, &self.store).as_bytes(), 0);
        self.file = Some(file);
        written
    }

    fn failed(&self, what: &str, e: io::Error) -> StoreError {
        StoreError::io(format!("cannot {what} {}", self.path.display()), e)
    }
}

fn line(seq: Seq, chain: &Link, store: &Link) -> String {
    let text = format!("{FORMAT} {:020} {} {}", seq.0, chain::hex(chain), chain::hex(store));
    let sum = chain::hex(&blake3::hash(text.as_bytes()).as_bytes()[..8]);
    format!("{text} {sum}\n")
}

fn parse(text: &[u8]) -> Option<(HeadRecord, Link)> {
    let text = std::str::from_utf8(text).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let [FORMAT, seq, chain, store, _] = words[..] else { return None };
    let (seq, chain, store) = (Seq(seq.parse().ok()?), chain::unhex(chain)?, chain::unhex(store)?);
    (line(seq, &chain, &store) == text).then_some((HeadRecord { seq, chain }, store))
}

/// Is everything there that was once committed? `kept` was read before this is asked: the log only
/// grows meanwhile.
pub(crate) fn reaches(
    r: &mut impl Rows,
    kept: Option<HeadRecord>,
    file: &Path,
) -> Result<(), StoreError> {
    let Some(kept) = kept else { return Ok(()) };
    let h = r.head_row()?;
    if h.seq < kept.seq {
        let first = h.seq.next();
        return Err(StoreError::Lost {
            detail: match first == kept.seq {
                true => format!("entry {first} was committed and is missing at the end of the log"),
                false => format!(
                    "entries {first} to {} were committed and are missing at the end of the log",
                    kept.seq
                ),
            } + &format!(" ({} has entry {})", file.display(), kept.seq),
        });
    }
    if kept.seq < h.base_seq {
        return Ok(());
    }
    let here = if kept.seq == h.base_seq { Some(h.base_chain) } else { r.chain_at(kept.seq)? };
    // An entry that is missing in the middle is somebody else's finding, or was archived just now.
    match here {
        Some(link) if link != kept.chain => Err(StoreError::Lost {
            detail: format!(
                "entry {} is not the one that was committed: this is an older copy of the log, or \
                 another one ({} has the entry's checksum)",
                kept.seq,
                file.display()
            ),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_and_a_cut_or_altered_one_is_nothing() {
        let (chain, store) = ([7; 16], [9; 16]);
        let text = line(Seq(31_218), &chain, &store);
        let kept = HeadRecord { seq: Seq(31_218), chain };
        assert_eq!(parse(text.as_bytes()), Some((kept, store)));
        assert_eq!(text.len(), line(Seq(u64::MAX), &chain, &store).len());
        for cut in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..cut]), None, "cut at {cut}");
        }
        assert_eq!(parse(text.replace("31218", "31219").as_bytes()), None);
        assert_eq!(parse(b"\xff"), None);
    }
}
