//! Snapshots that the archive has: `state-SEQ-AT.snapshot`. The first line says what it is, with the
//! chain of the log at its last entry; its body follows as it is.

use super::thin::{self, Known};
use crate::chain::{self, hex, unhex};
use crate::files::{Draft, finish};
use crate::{Snapshot, StoreError};
use muster_model::{Seq, Time};
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// The format's name, on the first line.
const FORMAT: &str = "muster-snapshot-1";

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    seq: Seq,
    at: Time,
    /// Shape of the body.
    state: u32,
    /// Of the log, at the entry `seq`.
    chain: String,
    /// Of this snapshot.
    sum: String,
}

/// A snapshot in the archive, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedSnapshot {
    /// The last entry it includes.
    pub seq: Seq,
    /// The time of that entry.
    pub at: Time,
    /// The size of its file.
    pub bytes: u64,
    /// Its file.
    pub path: PathBuf,
}

impl ArchivedSnapshot {
    /// Reads it. The log that has this chain at its last entry is the one that it belongs to.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn read(&self) -> Result<(Snapshot, [u8; 16]), StoreError> {
        let place = || self.path.display().to_string();
        let mut body = std::fs::read(&self.path)
            .map_err(|e| StoreError::io(format!("cannot read {}", place()), e))?;
        let damaged = |what: &str| StoreError::corrupt(place(), what);
        let end =
            body.iter().position(|b| *b == b'\n').ok_or_else(|| damaged("it is not a snapshot"))?;
        let header: Header =
            serde_json::from_slice(&body[..end]).map_err(|_| damaged("it is not a snapshot"))?;
        body.drain(..=end);
        let snapshot = Snapshot { seq: header.seq, at: header.at, format: header.state, body };
        let link = unhex(&header.chain).ok_or_else(|| damaged("its first line is damaged"))?;
        let sum = chain::of_snapshot(&snapshot);
        if header.format != FORMAT
            || unhex(&header.sum) != Some(sum)
            || (header.seq, header.at) != (self.seq, self.at)
        {
            return Err(damaged("its checksum does not match"));
        }
        Ok((snapshot, link))
    }
}

/// Puts a snapshot of the log into the archive, durable under its name; `link` is the log's chain at the
/// snapshot's last entry. One that is there stays as it is.
///
/// # Errors
/// When it cannot be written.
pub fn archive_snapshot(dir: &Path, s: &Snapshot, link: [u8; 16]) -> Result<(), StoreError> {
    super::create_dir(dir)?;
    let target = dir.join(format!("state-{}-{}.snapshot", s.seq, s.at.0));
    if target.exists() {
        return Ok(());
    }
    let failed = |e| StoreError::io(format!("cannot write {}", target.display()), e);
    let header = Header {
        format: FORMAT.to_owned(),
        seq: s.seq,
        at: s.at,
        state: s.format,
        chain: hex(&link),
        sum: hex(&chain::of_snapshot(s)),
    };
    let mut line = serde_json::to_vec(&header)
        .map_err(|e| StoreError::other(format!("a snapshot cannot be described: {e}")))?;
    line.push(b'\n');
    let draft = Draft::beside(&target);
    let mut out = BufWriter::new(draft.create()?);
    out.write_all(&line).and_then(|()| out.write_all(&s.body)).map_err(failed)?;
    finish(out, draft.path())?;
    draft.replace(&target)
}

/// The snapshots in the archive, oldest first; those of a log that a restore gave up, too.
///
/// # Errors
/// When the directory cannot be read.
pub fn archived_snapshots(dir: &Path) -> Result<Vec<ArchivedSnapshot>, StoreError> {
    let mut found: Vec<ArchivedSnapshot> = super::files(dir)?
        .into_iter()
        .filter_map(|(name, path)| {
            let (seq, at) = parse(&name)?;
            // One that is gone meanwhile is none.
            let bytes = path.metadata().ok()?.len();
            Some(ArchivedSnapshot { seq, at, bytes, path })
        })
        .collect();
    found.sort_by_key(|s| (s.at, s.seq));
    Ok(found)
}

fn parse(name: &str) -> Option<(Seq, Time)> {
    let (seq, at) = name.strip_prefix("state-")?.strip_suffix(".snapshot")?.split_once('-')?;
    Some((Seq(seq.parse().ok()?), Time(at.parse().ok()?)))
}

/// Deletes the snapshots that are not needed any more, so that those that stay have at most so many
/// bytes; the newest one always stays.
///
/// # Errors
/// When the directory cannot be read or a file not deleted.
pub fn thin_snapshots(dir: &Path, now: Time, most_bytes: u64) -> Result<(), StoreError> {
    let all = archived_snapshots(dir)?;
    let known: Vec<Known> =
        all.iter().map(|s| Known { seq: s.seq, at: s.at, bytes: s.bytes }).collect();
    for n in thin::superfluous(&known, now, most_bytes) {
        let Some(s) = all.get(n) else { continue };
        std::fs::remove_file(&s.path)
            .map_err(|e| StoreError::io(format!("cannot delete {}", s.path.display()), e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(seq: u64) -> Snapshot {
        let at = Time(1000 * i64::try_from(seq).unwrap());
        Snapshot { seq: Seq(seq), at, format: 3, body: b"one\ntwo\n\xff".to_vec() }
    }

    #[test]
    fn a_snapshot_is_read_back_and_damage_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("archive");
        assert!(archived_snapshots(&archive).unwrap().is_empty());
        for seq in [20, 3] {
            archive_snapshot(&archive, &snapshot(seq), [7; 16]).unwrap();
        }
        std::fs::write(archive.join("log-1-2.jsonl.gz"), "").unwrap();
        let all = archived_snapshots(&archive).unwrap();
        assert_eq!(all.iter().map(|s| s.seq.0).collect::<Vec<_>>(), [3, 20]);
        assert_eq!(all[0].read().unwrap(), (snapshot(3), [7; 16]));
        let mut bytes = std::fs::read(&all[1].path).unwrap();
        *bytes.last_mut().unwrap() = 0;
        std::fs::write(&all[1].path, bytes).unwrap();
        assert!(matches!(all[1].read(), Err(StoreError::Corrupt { .. })));
    }

    #[test]
    fn what_is_not_needed_any_more_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        for seq in 1..=9 {
            archive_snapshot(dir.path(), &snapshot(seq), [7; 16]).unwrap();
        }
        thin_snapshots(dir.path(), Time(10_000), u64::MAX).unwrap();
        let left = || -> Vec<u64> {
            archived_snapshots(dir.path()).unwrap().iter().map(|s| s.seq.0).collect()
        };
        assert_eq!(left(), [1, 5, 6, 7, 8, 9]);
        thin_snapshots(dir.path(), Time(10_000), 1).unwrap();
        assert_eq!(left(), [9]);
    }
}
