//! One file: blocks one after the other, and where each is at the end once it is full.
//!
//! ```text
//! block … block | for each block: shard u32, first step i64, steps u32, offset u64, length u32 |
//! offset of that list u64 | its checksum u32 | magic u32
//! ```
//! A file without that end is read from its front; what follows the last good block is cut off.

use crate::HistoryError;
use crate::block::{self, HEAD};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `MHE1`
const END: u32 = u32::from_le_bytes(*b"MHE1");
const ENTRY: usize = 28;
const TRAILER: usize = 16;
/// More than any list of blocks: what says more is damaged.
const MOST_LIST: u64 = 256 << 20;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRef {
    pub(crate) start: i64,
    pub(crate) steps: u16,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// A file of blocks.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    file: Arc<File>,
    /// Where the next block goes.
    end: u64,
    /// Length of the file.
    len: u64,
    sealed: bool,
    blocks: BTreeMap<u32, Vec<BlockRef>>,
    /// The first step of all blocks.
    first: Option<i64>,
    /// Bytes that were cut off when it was opened.
    pub(crate) torn: u64,
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

impl Segment {
    /// Opens a file, or makes a new one.
    pub(crate) fn open(path: &Path) -> Result<Segment, HistoryError> {
        let what = || format!("cannot open {}", path.display());
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(HistoryError::io(what()))?;
        let len = file.metadata().map_err(HistoryError::io(what()))?.len();
        let mut s = Segment {
            path: path.into(),
            file: Arc::new(file),
            end: len,
            len,
            sealed: true,
            blocks: BTreeMap::new(),
            first: None,
            torn: 0,
        };
        if s.read_list().is_none() {
            s.blocks.clear();
            s.first = None;
            s.sealed = false;
            s.scan();
            if s.end < len {
                s.torn = len - s.end;
                s.file.set_len(s.end).map_err(HistoryError::io(what()))?;
            }
            s.len = s.end;
        }
        Ok(s)
    }

    /// Reads where the blocks are from the end of the file.
    fn read_list(&mut self) -> Option<()> {
        let at = self.len.checked_sub(TRAILER as u64)?;
        let mut trailer = [0; TRAILER];
        self.file.read_exact_at(&mut trailer, at).ok()?;
        let list = u64::from_le_bytes(field(&trailer, 0)?);
        let size = at.checked_sub(list).filter(|n| *n <= MOST_LIST)?;
        if u32::from_le_bytes(field(&trailer, 12)?) != END {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.file.read_exact_at(&mut bytes, list).ok()?;
        if block::checksum(&bytes) != u32::from_le_bytes(field(&trailer, 8)?) {
            return None;
        }
        for e in bytes.chunks_exact(ENTRY) {
            let shard = u32::from_le_bytes(field(e, 0)?);
            let block = BlockRef {
                start: i64::from_le_bytes(field(e, 4)?),
                steps: u16::try_from(u32::from_le_bytes(field(e, 12)?)).ok()?,
                offset: u64::from_le_bytes(field(e, 16)?),
                len: u32::from_le_bytes(field(e, 24)?),
            };
            self.keep(shard, block);
        }
        self.end = list;
        Some(())
    }

    /// Reads block after block up to the first that is not whole.
    fn scan(&mut self) {
        self.end = 0;
        let mut bytes = Vec::new();
        while let Some(head) = self.read_next(&mut bytes) {
            let len = HEAD + head.len;
            self.note(&head, len);
            self.end += len as u64;
        }
    }

    fn read_next(&self, bytes: &mut Vec<u8>) -> Option<block::Head> {
        bytes.resize(HEAD, 0);
        self.file.read_exact_at(bytes, self.end).ok()?;
        let head = block::head(bytes)?;
        // A length that is damaged must not take memory.
        let left = self.len.checked_sub(self.end)?;
        usize::try_from(left).ok().filter(|left| HEAD + head.len <= *left)?;
        bytes.resize(HEAD + head.len, 0);
        self.file.read_exact_at(bytes, self.end).ok()?;
        block::checked(bytes)
    }

    fn note(&mut self, head: &block::Head, len: usize) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let block = BlockRef { start: head.start, steps: head.steps, offset: self.end, len };
        self.keep(head.shard, block);
    }

    fn keep(&mut self, shard: u32, block: BlockRef) {
        self.first = Some(self.first.map_or(block.start, |first| first.min(block.start)));
        self.blocks.entry(shard).or_default().push(block);
    }

    /// Writes a block behind the others.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), HistoryError> {
        let Some(head) = block::head(bytes) else { return Ok(()) };
        let what = || format!("cannot write {}", self.path.display());
        if self.sealed {
            self.file.set_len(self.end).map_err(HistoryError::io(what()))?;
            (self.sealed, self.len) = (false, self.end);
        }
        if let Err(e) = self.file.write_all_at(bytes, self.end) {
            // A part of it may be there: it is written over, or cut off at the next start.
            let _ = self.file.set_len(self.end);
            return Err(HistoryError::io(what())(e));
        }
        self.note(&head, bytes.len());
        self.end += bytes.len() as u64;
        self.len = self.end;
        Ok(())
    }

    /// Bytes that its end will take.
    pub(crate) fn end_size(&self) -> u64 {
        let blocks: usize = self.blocks.values().map(Vec::len).sum();
        (blocks * ENTRY + TRAILER) as u64
    }

    /// Writes the end: nothing more is expected.
    pub(crate) fn seal(&mut self) -> Result<(), HistoryError> {
        if self.sealed {
            return Ok(());
        }
        let mut list = Vec::new();
        for (shard, blocks) in &self.blocks {
            for b in blocks {
                list.extend(shard.to_le_bytes());
                list.extend(b.start.to_le_bytes());
                list.extend(u32::from(b.steps).to_le_bytes());
                list.extend(b.offset.to_le_bytes());
                list.extend(b.len.to_le_bytes());
            }
        }
        let sum = block::checksum(&list);
        list.extend(self.end.to_le_bytes());
        list.extend(sum.to_le_bytes());
        list.extend(END.to_le_bytes());
        let what = || format!("cannot write {}", self.path.display());
        let written = self.file.write_all_at(&list, self.end).and_then(|()| self.file.sync_data());
        if let Err(e) = written {
            let _ = self.file.set_len(self.end);
            return Err(HistoryError::io(what())(e));
        }
        self.len = self.end + list.len() as u64;
        self.sealed = true;
        Ok(())
    }

    /// Puts what was written on the disk.
    pub(crate) fn sync(&self) -> Result<(), HistoryError> {
        let what = || format!("cannot write {}", self.path.display());
        if self.sealed { Ok(()) } else { self.file.sync_data().map_err(HistoryError::io(what())) }
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Bytes on the disk.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The first step of all its blocks; none where it has none.
    pub(crate) fn first(&self) -> Option<i64> {
        self.first
    }

    /// The first step of all its blocks that is not before this one; none where it has none.
    pub(crate) fn first_from(&self, slot: i64) -> Option<i64> {
        if self.first.is_some_and(|first| first >= slot) {
            return self.first;
        }
        let reach = |b: &&BlockRef| slot < b.start.saturating_add(i64::from(b.steps));
        self.blocks.values().flatten().filter(reach).map(|b| b.start.max(slot)).min()
    }

    /// The highest shard with a block.
    pub(crate) fn last_shard(&self) -> Option<u32> {
        self.blocks.keys().next_back().copied()
    }

    /// The blocks of a shard that have steps from `from` to `to`, which is not in it.
    pub(crate) fn blocks(&self, shard: u32, from: i64, to: i64) -> impl Iterator<Item = BlockRef> {
        let all = self.blocks.get(&shard).into_iter().flatten().copied();
        all.filter(move |b| b.start < to && from < b.start.saturating_add(i64::from(b.steps)))
    }

    /// Deletes the file. Whoever reads it now can still do so.
    pub(crate) fn remove(&self) -> Result<(), HistoryError> {
        let what = || format!("cannot delete {}", self.path.display());
        match std::fs::remove_file(&self.path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(HistoryError::io(what())),
        }
    }
}

/// Reads a block; none where it is damaged or gone.
pub(crate) fn read(file: &File, b: BlockRef, bytes: &mut Vec<u8>) -> Option<()> {
    bytes.resize(usize::try_from(b.len).ok()?, 0);
    file.read_exact_at(bytes, b.offset).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;

    fn block(shard: u32, start: i64) -> Vec<u8> {
        block::encode(shard, start, 2, [(1, vec![Cell::of(1.0); 2])].into_iter())
    }

    #[test]
    fn a_file_is_the_same_with_and_without_its_end_and_goes_on_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.seg");
        let mut s = Segment::open(&path).unwrap();
        for start in [10, 12, 14] {
            s.append(&block(0, start)).unwrap();
            s.append(&block(4, start)).unwrap();
        }
        let starts = |s: &Segment| s.blocks(4, 13, 15).map(|b| b.start).collect::<Vec<_>>();
        assert_eq!((starts(&s), s.last_shard(), s.first()), (vec![12, 14], Some(4), Some(10)));
        let open = Segment::open(&path).unwrap();
        assert_eq!(open.first(), Some(10));
        assert_eq!((starts(&open), open.is_sealed(), open.torn), (vec![12, 14], false, 0));
        let whole = s.len() + s.end_size();
        s.seal().unwrap();
        assert_eq!(s.len(), whole);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), whole);
        let mut sealed = Segment::open(&path).unwrap();
        assert_eq!((starts(&sealed), sealed.is_sealed()), (vec![12, 14], true));
        assert_eq!(sealed.first(), Some(10));
        sealed.append(&block(4, 16)).unwrap();
        let again = Segment::open(&path).unwrap();
        assert_eq!(again.blocks(4, 0, 99).count(), 4);
        let mut bytes = Vec::new();
        let last = again.blocks(4, 16, 17).next().unwrap();
        read(again.file(), last, &mut bytes).unwrap();
        assert_eq!(bytes, block(4, 16));
    }

    #[test]
    fn a_torn_end_is_cut_at_the_last_good_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.seg");
        let mut s = Segment::open(&path).unwrap();
        s.append(&block(0, 10)).unwrap();
        let good = s.len();
        s.append(&block(0, 12)).unwrap();
        s.seal().unwrap();
        let whole = std::fs::read(&path).unwrap();
        for n in 0..whole.len() {
            std::fs::write(&path, &whole[..n]).unwrap();
            let cut = Segment::open(&path).unwrap();
            assert!(cut.len() <= n as u64 && cut.len().is_multiple_of(good));
            assert_eq!(cut.blocks(0, 0, 99).count() as u64, cut.len() / good);
        }
        // The list is whole and wrong: the blocks count.
        let mut bad = whole.clone();
        let at = bad.len() - TRAILER - 3;
        bad[at] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        let s = Segment::open(&path).unwrap();
        assert_eq!((s.blocks(0, 0, 99).count(), s.is_sealed()), (2, false));
        assert!(s.torn > 0);
    }
}
