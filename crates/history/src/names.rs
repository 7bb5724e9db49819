//! Which series is which: a file that only grows, one record for each.
//!
//! A number is never given to another series, even where this file was lost: blocks would give one
//! series the values of another.

use crate::HistoryError;
use crate::block::{SHARD, checksum};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

/// The number of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub u32);

/// What a series is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesKey {
    /// The node.
    pub node: Arc<str>,
    /// The index of a GPU; none for the node itself.
    pub gpu: Option<u32>,
    /// The name of the metric.
    pub metric: Arc<str>,
}

/// Longer names are not kept.
const MOST_NAME: usize = 1024;
/// Series of one node: 64 metrics of 64 GPUs, and those of the host. A node that names ever new
/// metrics takes no place from the others.
const MOST_OF_NODE: usize = 64 * 64 + 512;
/// Length and checksum.
const HEAD: usize = 8;
const NO_GPU: u32 = u32::MAX;

/// One series, its names by number.
#[derive(Debug, Clone, Copy)]
struct Name {
    node: u32,
    gpu: Option<u32>,
    metric: u32,
}

/// Texts that many series share.
#[derive(Debug, Default)]
struct Texts {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(n) = self.numbers.get(text) {
            return *n;
        }
        let n = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let text: Arc<str> = text.into();
        self.all.push(text.clone());
        self.numbers.insert(text, n);
        n
    }

    fn text(&self, number: u32) -> Option<&Arc<str>> {
        self.all.get(usize::try_from(number).ok()?)
    }
}

/// All series.
#[derive(Debug)]
pub(crate) struct Names {
    file: File,
    /// Bytes of the file.
    bytes: u64,
    /// Something was written and is perhaps not on the disk yet.
    dirty: bool,
    nodes: Texts,
    metrics: Texts,
    names: HashMap<SeriesId, Name>,
    by_node: HashMap<u32, Vec<SeriesId>>,
    next: u32,
}

fn record(id: u32, node: &str, gpu: Option<u32>, metric: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(10 + node.len() + metric.len());
    body.extend(id.to_le_bytes());
    body.extend(gpu.unwrap_or(NO_GPU).to_le_bytes());
    body.extend(u16::try_from(node.len()).unwrap_or(u16::MAX).to_le_bytes());
    body.extend(node.as_bytes());
    body.extend(metric.as_bytes());
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(HEAD + body.len());
    out.extend(len.to_le_bytes());
    out.extend(checksum(&body).to_le_bytes());
    out.extend(body);
    out
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The body of the record at the front.
fn body(bytes: &[u8]) -> Option<&[u8]> {
    let len = usize::try_from(word(bytes, 0)?).ok().filter(|n| *n <= 10 + 2 * MOST_NAME)?;
    let body = bytes.get(HEAD..HEAD + len)?;
    (checksum(body) == word(bytes, 4)?).then_some(body)
}

fn parse(body: &[u8]) -> Option<(u32, &str, Option<u32>, &str)> {
    let (id, gpu) = (word(body, 0)?, word(body, 4)?);
    let len = usize::from(u16::from_le_bytes(body.get(8..10)?.try_into().ok()?));
    let node = std::str::from_utf8(body.get(10..10 + len)?).ok()?;
    let metric = std::str::from_utf8(body.get(10 + len..)?).ok()?;
    Some((id, node, Some(gpu).filter(|g| *g != NO_GPU), metric))
}

impl Names {
    /// Reads the file; what follows the last good record is cut off.
    pub(crate) fn open(path: &Path) -> Result<Names, HistoryError> {
        let what = || format!("cannot open {}", path.display());
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .append(true)
            .open(path)
            .map_err(HistoryError::io(what()))?;
        let mut all = Vec::new();
        file.read_to_end(&mut all).map_err(HistoryError::io(what()))?;
        let mut names = Names {
            file,
            bytes: 0,
            dirty: false,
            nodes: Texts::default(),
            metrics: Texts::default(),
            names: HashMap::new(),
            by_node: HashMap::new(),
            next: 0,
        };
        let mut rest = &all[..];
        while let Some(body) = body(rest) {
            let Some((id, node, gpu, metric)) = parse(body) else { break };
            names.note(SeriesId(id), node, gpu, metric);
            rest = &rest[HEAD + body.len()..];
        }
        names.bytes = (all.len() - rest.len()) as u64;
        if !rest.is_empty() {
            names.file.set_len(names.bytes).map_err(HistoryError::io(what()))?;
        }
        Ok(names)
    }

    fn note(&mut self, id: SeriesId, node: &str, gpu: Option<u32>, metric: &str) {
        let (node, metric) = (self.nodes.number(node), self.metrics.number(metric));
        self.names.insert(id, Name { node, gpu, metric });
        self.by_node.entry(node).or_default().push(id);
        self.next = self.next.max(id.0.saturating_add(1));
    }

    /// There are blocks up to this shard, and names may have been lost: none of its numbers is given
    /// to a new series.
    pub(crate) fn begin_after(&mut self, shard: u32) {
        self.next = self.next.max(shard.saturating_add(1).saturating_mul(SHARD));
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// What a series is of.
    pub(crate) fn key(&self, id: SeriesId) -> Option<SeriesKey> {
        let name = self.names.get(&id)?;
        let node = self.nodes.text(name.node)?.clone();
        Some(SeriesKey { node, gpu: name.gpu, metric: self.metrics.text(name.metric)?.clone() })
    }

    /// The series of a node.
    pub(crate) fn of_node(&self, node: &str) -> Vec<(SeriesId, SeriesKey)> {
        let ids = self.nodes.numbers.get(node).and_then(|n| self.by_node.get(n));
        ids.into_iter().flatten().filter_map(|id| Some((*id, self.key(*id)?))).collect()
    }

    /// The names of all metrics, in order.
    pub(crate) fn metrics(&self) -> Vec<Arc<str>> {
        let mut all = self.metrics.all.clone();
        all.sort();
        all
    }

    fn find(&self, node: &str, gpu: Option<u32>, metric: &str) -> Option<SeriesId> {
        let metric = self.metrics.numbers.get(metric)?;
        let ids = self.by_node.get(self.nodes.numbers.get(node)?)?;
        let is = |id: &&SeriesId| {
            self.names.get(*id).is_some_and(|n| n.gpu == gpu && n.metric == *metric)
        };
        ids.iter().find(is).copied()
    }

    /// The number of a series; a new one where it has none, unless there are `most`.
    pub(crate) fn id(
        &mut self,
        node: &str,
        gpu: Option<u32>,
        metric: &str,
        most: usize,
    ) -> Result<SeriesId, HistoryError> {
        if let Some(id) = self.find(node, gpu, metric) {
            return Ok(id);
        }
        if node.len() > MOST_NAME || metric.len() > MOST_NAME {
            return Err(HistoryError::LongName(MOST_NAME));
        }
        if self.names.len() >= most || self.next == u32::MAX {
            return Err(HistoryError::TooManySeries(self.names.len()));
        }
        let of_node = self.nodes.numbers.get(node).and_then(|n| self.by_node.get(n));
        let of_node = of_node.map_or(0, Vec::len);
        if of_node >= MOST_OF_NODE {
            return Err(HistoryError::TooManySeries(of_node));
        }
        let id = SeriesId(self.next);
        let record = record(id.0, node, gpu, metric);
        if let Err(e) = self.file.write_all(&record) {
            // Half a record would hide all that follow it.
            let _ = self.file.set_len(self.bytes);
            return Err(HistoryError::io("cannot write the names of series")(e));
        }
        self.bytes += record.len() as u64;
        self.dirty = true;
        self.note(id, node, gpu, metric);
        Ok(id)
    }

    /// Before a block is written that needs them.
    pub(crate) fn sync(&mut self) -> Result<(), HistoryError> {
        if self.dirty {
            let what = "cannot write the names of series to the disk";
            self.file.sync_data().map_err(HistoryError::io(what))?;
            self.dirty = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_and_a_torn_record_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("series");
        let mut names = Names::open(&path).unwrap();
        let a = names.id("n1", Some(0), "util", 10).unwrap();
        let b = names.id("n1", None, "load", 10).unwrap();
        assert_eq!(names.id("n1", Some(0), "util", 10).unwrap(), a);
        drop(names);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], &[9, 0, 0]].concat()).unwrap();
        let mut names = Names::open(&path).unwrap();
        assert_eq!(names.bytes(), whole.len() as u64);
        assert_eq!(names.id("n1", None, "load", 10).unwrap(), b);
        let key = names.key(a).unwrap();
        assert_eq!((&*key.node, key.gpu, &*key.metric), ("n1", Some(0), "util"));
        assert_eq!(names.of_node("n1").len(), 2);
        assert!(names.of_node("n2").is_empty());
        names.begin_after(0);
        assert_eq!(names.id("n2", None, "load", 10).unwrap(), SeriesId(512));
        assert!(matches!(names.id("n3", None, "x", 3), Err(HistoryError::TooManySeries(3))));
        for i in 0..u32::try_from(MOST_OF_NODE).unwrap() {
            names.note(SeriesId(10_000 + i), "n4", Some(i), "x");
        }
        let refused = names.id("n4", None, "y", usize::MAX);
        assert!(matches!(refused, Err(HistoryError::TooManySeries(MOST_OF_NODE))));
        assert!(names.id("n4", Some(7), "x", usize::MAX).is_ok(), "what it has goes on");
        names.id("n5", None, "y", usize::MAX).unwrap();
        let long = "x".repeat(MOST_NAME + 1);
        assert!(matches!(names.id("n3", None, &long, 9), Err(HistoryError::LongName(_))));
    }
}
