//! The archived part of a log, read segment by segment. Files of a log that a restore gave up may be
//! there, too, and some that a crash left: the chain says which ones lead up to the log.

use crate::chain::{self, Link, unhex};
use crate::lines::{self, Line, SEGMENT};
use crate::{DumpItem, Entry, StoreError};
use flate2::read::GzDecoder;
use muster_model::Seq;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// A segment that is there by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    from: Seq,
    to: Seq,
    path: PathBuf,
}

/// The part of a segment that belongs to the log.
#[derive(Debug, Clone)]
struct Stretch {
    path: PathBuf,
    /// The entry before it, and the chain there.
    base: (Seq, Link),
    /// Its last entry, and the chain there.
    end: (Seq, Link),
}

/// Segments that follow each other up to an entry of the log.
#[derive(Debug, Clone)]
pub struct Archive {
    /// Oldest first.
    stretches: VecDeque<Stretch>,
    /// The entry before all of them, and the chain there.
    base: (Seq, Link),
}

impl Archive {
    /// Finds the segments in `dir` that lead up to an entry with this chain, back to the one with the
    /// entry behind `after`, or as far as they go.
    ///
    /// # Errors
    /// When the directory cannot be read. A segment that cannot be read counts as missing.
    pub fn find(dir: &Path, end: (Seq, [u8; 16]), after: Seq) -> Result<Archive, StoreError> {
        let named: Vec<Named> =
            super::files(dir)?.into_iter().filter_map(|(name, path)| parse(&name, path)).collect();
        let (mut stretches, mut base) = (VecDeque::new(), end);
        while base.0 > after {
            let Some(stretch) = leading_to(&named, base) else { break };
            base = stretch.base;
            stretches.push_front(stretch);
        }
        Ok(Archive { stretches, base })
    }

    /// The entry behind which it begins: 0 where nothing is missing.
    #[must_use]
    pub fn begins_behind(&self) -> Seq {
        self.base.0
    }

    /// Begins to read behind an entry; also says what the chain is at that entry.
    ///
    /// # Errors
    /// When the entry is not in it, or a segment cannot be read.
    pub fn reader(mut self, after: Seq) -> Result<(ArchiveReader, [u8; 16]), StoreError> {
        if after < self.base.0 {
            return Err(StoreError::Archived { oldest: self.base.0.next() });
        }
        let mut link = self.base.1;
        while let Some(stretch) = self.stretches.front() {
            if after < stretch.end.0 {
                break;
            }
            link = stretch.end.1;
            self.stretches.pop_front();
        }
        let mut open = None;
        if let Some(stretch) = self.stretches.pop_front() {
            let mut segment = OpenSegment::new(&stretch)?;
            link = segment.link;
            while segment.seq < after && segment.next_entry()?.is_some() {
                link = segment.link;
            }
            open = Some(segment);
        }
        Ok((ArchiveReader { open, rest: self.stretches }, link))
    }
}

/// Reads entries of the archive, in their order, each verified against the chain.
pub struct ArchiveReader {
    open: Option<OpenSegment>,
    rest: VecDeque<Stretch>,
}

impl std::fmt::Debug for ArchiveReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchiveReader").field("segments", &self.rest.len()).finish_non_exhaustive()
    }
}

impl ArchiveReader {
    /// The next entries, at most so many; none at the end of the archive.
    ///
    /// # Errors
    /// When a segment cannot be read or is damaged.
    pub fn read(&mut self, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        while entries.len() < limit {
            if self.open.is_none() {
                let Some(stretch) = self.rest.pop_front() else { break };
                self.open = Some(OpenSegment::new(&stretch)?);
            }
            let Some(segment) = &mut self.open else { break };
            match segment.next_entry()? {
                Some(entry) => entries.push(entry),
                None => self.open = None,
            }
        }
        Ok(entries)
    }
}

/// `log-FROM-TO.jsonl.gz`, or the same with an epoch before `.jsonl.gz`.
fn parse(name: &str, path: PathBuf) -> Option<Named> {
    let range = name.strip_prefix("log-")?.strip_suffix(".jsonl.gz")?;
    let (from, to) = range.split('.').next()?.split_once('-')?;
    let (from, to) = (Seq(from.parse().ok()?), Seq(to.parse().ok()?));
    (Seq(0) < from && from <= to).then_some(Named { from, to, path })
}

/// The segment that has this entry, with this chain at it. One that ends with it is found by what it
/// says of itself; one that goes on behind it is read up to there.
fn leading_to(named: &[Named], end: (Seq, Link)) -> Option<Stretch> {
    let mut having: Vec<&Named> =
        named.iter().filter(|n| n.from <= end.0 && end.0 <= n.to).collect();
    having.sort_by_key(|n| (n.to != end.0, n.from));
    having.into_iter().find_map(|n| match leads_to(n, end) {
        Ok(stretch) => stretch,
        Err(error) => {
            tracing::warn!(%error, "a segment of the archive cannot be used");
            None
        }
    })
}

fn leads_to(n: &Named, end: (Seq, Link)) -> Result<Option<Stretch>, StoreError> {
    let (_, header) = open(&n.path)?;
    let damaged = |what: &str| StoreError::corrupt(n.path.display().to_string(), what);
    if (header.first, header.last) != (n.from, n.to) {
        return Err(damaged("it has other entries than its name says"));
    }
    let base_chain = unhex(&header.base_chain).ok_or_else(|| damaged("its header is damaged"))?;
    let last_chain = unhex(&header.last_chain).ok_or_else(|| damaged("its header is damaged"))?;
    let base = (Seq(n.from.0 - 1), base_chain);
    let stretch = Stretch { path: n.path.clone(), base, end };
    if n.to == end.0 {
        return Ok((last_chain == end.1).then_some(stretch));
    }
    let mut segment = OpenSegment::new(&stretch)?;
    loop {
        match segment.next_entry() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Some(stretch)),
            // Of a log that a restore gave up.
            Err(StoreError::Corrupt { .. }) if segment.seq == end.0 => return Ok(None),
            Err(e) => return Err(e),
        }
    }
}

type Lines = BufReader<GzDecoder<BufReader<File>>>;

/// Opens a segment behind its first line.
fn open(path: &Path) -> Result<(Lines, lines::HeaderLine), StoreError> {
    let failed = |e| StoreError::io(format!("cannot read {}", path.display()), e);
    let file = File::open(path).map_err(failed)?;
    let mut lines = BufReader::new(GzDecoder::new(BufReader::new(file)));
    let mut text = Vec::new();
    lines.read_until(b'\n', &mut text).map_err(failed)?;
    match serde_json::from_slice::<Line<'_>>(&text) {
        Ok(Line::Header(h)) if h.format == SEGMENT => Ok((lines, h)),
        _ => Err(StoreError::corrupt(path.display().to_string(), "it is not a segment of a log")),
    }
}

/// A segment that is being read.
struct OpenSegment {
    lines: Lines,
    text: Vec<u8>,
    path: PathBuf,
    /// The entry that was read last, and the chain there.
    seq: Seq,
    link: Link,
    end: (Seq, Link),
}

impl OpenSegment {
    fn new(stretch: &Stretch) -> Result<OpenSegment, StoreError> {
        let (lines, _) = open(&stretch.path)?;
        let (seq, link) = stretch.base;
        let path = stretch.path.clone();
        Ok(OpenSegment { lines, text: Vec::new(), path, seq, link, end: stretch.end })
    }

    /// The next entry; none behind the last one that belongs to the log.
    fn next_entry(&mut self) -> Result<Option<Entry>, StoreError> {
        if self.seq >= self.end.0 {
            return Ok(None);
        }
        let damaged = |what: &str| StoreError::corrupt(self.path.display().to_string(), what);
        self.text.clear();
        let failed = |e| StoreError::io(format!("cannot read {}", self.path.display()), e);
        self.lines.read_until(b'\n', &mut self.text).map_err(failed)?;
        let line = serde_json::from_slice::<Line<'_>>(&self.text)
            .map_err(|_| damaged("a line of it cannot be read"))?;
        let entry = match lines::to_item(line) {
            Ok(DumpItem::Entry(entry)) if entry.seq == self.seq.next() => entry,
            _ => return Err(damaged("an entry of it is missing")),
        };
        let link = chain::of_entry(&self.link, &entry);
        if entry.seq == self.end.0 && link != self.end.1 {
            self.seq = entry.seq;
            return Err(StoreError::corrupt(
                self.path.display().to_string(),
                "its entries do not add up to the checksum of its last one",
            ));
        }
        (self.seq, self.link) = (entry.seq, link);
        Ok(Some(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_known_by_their_names() {
        let range = |name: &str| parse(name, PathBuf::new()).map(|n| (n.from.0, n.to.0));
        assert_eq!(range("log-1-50000.jsonl.gz"), Some((1, 50_000)));
        assert_eq!(range("log-1-50000.77.jsonl.gz"), Some((1, 50_000)));
        for other in ["log-0-5.jsonl.gz", "log-9-5.jsonl.gz", "log-1.jsonl.gz", "log-1-5.gz"] {
            assert_eq!(range(other), None, "{other}");
        }
        assert_eq!(range(".log-1-5.jsonl.gz.12.tmp"), None);
    }
}
