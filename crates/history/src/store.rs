//! All tiers together: samples in, files out, never more than the limit.

mod query;

pub use query::{Plan, Points, SeriesQuery};

use crate::HistoryError;
use crate::block::SHARD;
use crate::cell::Cell;
use crate::names::{Names, SeriesId, SeriesKey};
use crate::open::{Open, SampleFit};
use crate::segment::Segment;
use crate::share::{self, Space, Used};
use crate::tier::{Limits, Tier};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the store is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Different series.
    pub series: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files of blocks.
    pub files: usize,
    /// Samples taken in.
    pub samples: u64,
    /// Samples that came too late for the step that they belong to.
    pub late: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Files deleted because newer ones needed the space.
    pub dropped_files: u64,
    /// Files deleted because they were old.
    pub expired_files: u64,
    /// Files whose torn end was cut off, and files that could not be read at all.
    pub damaged_files: u64,
    /// Blocks that could not be written.
    pub lost_blocks: u64,
}

/// How a tier is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierStats {
    /// Length of a step, in milliseconds.
    pub step_ms: i64,
    /// How long it is to be kept.
    pub keep_ms: i64,
    /// Bytes of its files.
    pub bytes: u64,
    /// When its first step begins; none where nothing is stored.
    pub known_from: Option<i64>,
    /// Files deleted because the space was needed, since the store was opened.
    pub dropped_files: u64,
}

impl TierStats {
    /// Whether it reaches back less far than it is to, because the space was needed.
    #[must_use]
    pub fn is_short(&self, now: i64) -> bool {
        let due = now.saturating_sub(self.keep_ms);
        self.dropped_files > 0 && self.known_from.is_none_or(|known| known > due)
    }
}

/// One tier with its files.
#[derive(Debug)]
pub(crate) struct TierFiles {
    pub(crate) tier: Tier,
    dir: PathBuf,
    pub(crate) segments: BTreeMap<i64, Segment>,
    pub(crate) open: Vec<Option<Open>>,
    /// Most steps have several samples.
    pub(crate) several: bool,
    /// Files deleted because the space was needed.
    dropped: u64,
}

/// Metrics over time.
#[derive(Debug)]
pub struct Store {
    limits: Limits,
    pub(crate) tiers: Vec<TierFiles>,
    names: Names,
    /// The newest time that was heard.
    pub(crate) newest: i64,
    stats: Stats,
}

/// In which shard a series is, and where there.
pub(crate) fn place(id: SeriesId) -> (u32, u32) {
    (id.0 / SHARD, id.0 % SHARD)
}

fn as_index(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

impl Store {
    /// Opens the files under `dir`, or begins there. Files that are damaged are cut at their last
    /// good block.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub fn open(dir: &Path, limits: Limits) -> Result<Store, HistoryError> {
        let make = |dir: &Path| {
            let what = format!("cannot create {}", dir.display());
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)
                // An older version let everybody of the machine read it.
                .and_then(|()| fs::set_permissions(dir, fs::Permissions::from_mode(0o700)))
                .map_err(HistoryError::io(what))
        };
        make(dir)?;
        let mut names = Names::open(&dir.join("series"))?;
        let mut stats = Stats::default();
        let mut tiers = Vec::new();
        let wanted = limits.tiers();
        remove_other_steps(dir, &wanted);
        for tier in wanted {
            let dir = dir.join(tier.dir());
            make(&dir)?;
            let mut files = TierFiles {
                tier,
                dir,
                segments: BTreeMap::new(),
                open: Vec::new(),
                several: tier.step_ms >= limits.sample_ms.saturating_mul(2),
                dropped: 0,
            };
            files.load(&mut stats)?;
            // Blocks may have series that the file of names may have lost.
            let last = files.segments.values().filter_map(Segment::last_shard).max();
            if let Some(shard) = last {
                names.begin_after(shard);
            }
            tiers.push(files);
        }
        Ok(Store { limits, tiers, names, newest: i64::MIN, stats })
    }

    /// The number of a series, a new one where it has none.
    ///
    /// # Errors
    /// When there are too many, or its name cannot be written.
    pub fn series(
        &mut self,
        node: &str,
        gpu: Option<u32>,
        metric: &str,
    ) -> Result<SeriesId, HistoryError> {
        self.names.id(node, gpu, metric, self.limits.series)
    }

    /// The series of a node.
    #[must_use]
    pub fn series_of(&self, node: &str) -> Vec<(SeriesId, SeriesKey)> {
        self.names.of_node(node)
    }

    /// The names of all metrics.
    #[must_use]
    pub fn metrics(&self) -> Vec<Arc<str>> {
        self.names.metrics()
    }

    /// How it is doing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let files = self.tiers.iter().map(|t| t.segments.len()).sum();
        let bytes = self.tiers.iter().map(TierFiles::bytes).sum::<u64>() + self.names.bytes();
        let dropped_files = self.tiers.iter().map(|t| t.dropped).sum();
        Stats { series: self.names.len(), bytes, files, dropped_files, ..self.stats }
    }

    /// How its tiers are doing, finest first.
    #[must_use]
    pub fn tier_stats(&self) -> Vec<TierStats> {
        let of = |files: &TierFiles| TierStats {
            step_ms: files.tier.step_ms,
            keep_ms: files.tier.keep_ms,
            bytes: files.bytes(),
            known_from: files.known_from(),
            dropped_files: files.dropped,
        };
        self.tiers.iter().map(of).collect()
    }

    /// Takes samples in that were heard at `time`. What is not finite is no sample.
    ///
    /// # Errors
    /// When a block that is full cannot be written: it is lost, the samples are in all the same.
    pub fn append(&mut self, time: i64, samples: &[(SeriesId, f32)]) -> Result<(), HistoryError> {
        let finite = samples.iter().filter(|(_, value)| value.is_finite());
        self.take(time, &finite.map(|(id, value)| (*id, Cell::of(*value))))
    }

    /// Takes samples in that were put together before, all of them heard at `time`.
    ///
    /// # Errors
    /// As those of [`Store::append`].
    pub fn merge(&mut self, time: i64, cells: &[(SeriesId, Cell)]) -> Result<(), HistoryError> {
        self.take(time, &cells.iter().copied().filter(|(_, cell)| !cell.is_gap()))
    }

    /// Puts cells into all tiers.
    fn take(
        &mut self,
        time: i64,
        cells: &(impl Iterator<Item = (SeriesId, Cell)> + Clone),
    ) -> Result<(), HistoryError> {
        self.newest = self.newest.max(time);
        let mut failed = Ok(());
        for t in 0..self.tiers.len() {
            let slot = self.tiers[t].tier.slot(time);
            for (id, cell) in cells.clone() {
                if let Err(e) = self.put(t, id, slot, &cell) {
                    failed = Err(e);
                }
            }
        }
        failed
    }

    /// Puts samples into the block of their shard, and that on the disk when it is full.
    fn put(&mut self, t: usize, id: SeriesId, slot: i64, cell: &Cell) -> Result<(), HistoryError> {
        let (shard, index) = place(id);
        // They count once, whatever the tiers.
        let samples = if t == 0 { u64::from(cell.count) } else { 0 };
        let files = &mut self.tiers[t];
        let at = as_index(shard);
        if files.open.len() <= at {
            files.open.resize_with(at + 1, || None);
        }
        let (tier, several) = (files.tier, files.several);
        let open = files.open[at].get_or_insert_with(|| Open::new(&tier, shard, slot, several));
        match open.merge(index, slot, cell) {
            SampleFit::In => {
                self.stats.samples += samples;
                return Ok(());
            }
            // A clock that was set back for good begins anew.
            SampleFit::Before if open.start() - slot <= i64::from(tier.block) => {
                self.stats.late += samples;
                return Ok(());
            }
            SampleFit::Before | SampleFit::After => {}
        }
        let full = std::mem::replace(open, Open::new(&tier, shard, slot, several));
        open.merge(index, slot, cell);
        let written = self.write(t, &full, i64::MAX);
        self.stats.samples += if written.is_ok() { samples } else { 0 };
        written
    }

    /// Time goes on although nothing may come: writes full blocks, ends full files, deletes old ones.
    ///
    /// # Errors
    /// The last thing that failed; the rest was done.
    pub fn advance(&mut self, time: i64) -> Result<(), HistoryError> {
        self.newest = self.newest.max(time);
        let mut failed = Ok(());
        for t in 0..self.tiers.len() {
            let now = self.tiers[t].tier.slot(time);
            for shard in 0..self.tiers[t].open.len() {
                let full = self.tiers[t].open[shard].take_if(|o| o.end() <= now);
                if let Some(full) = full
                    && let Err(e) = self.write(t, &full, i64::MAX)
                {
                    failed = Err(e);
                }
            }
            if let Err(e) = self.expire(t, time).and_then(|()| self.seal_full(t, time)) {
                failed = Err(e);
            }
        }
        failed
    }

    /// Writes everything that is in memory, as before an end. What follows goes into new blocks.
    ///
    /// # Errors
    /// The last thing that failed; the rest was done.
    pub fn flush(&mut self, time: i64) -> Result<(), HistoryError> {
        let mut failed = self.advance(time);
        for t in 0..self.tiers.len() {
            let until = self.tiers[t].tier.slot(time).saturating_add(1);
            for shard in 0..self.tiers[t].open.len() {
                let open = self.tiers[t].open[shard].take();
                if let Some(open) = open
                    && let Err(e) = self.write(t, &open, until)
                {
                    failed = Err(e);
                }
            }
            for segment in self.tiers[t].segments.values() {
                if let Err(e) = segment.sync() {
                    failed = Err(e);
                }
            }
        }
        failed
    }

    /// Writes a block, and makes space for it first.
    fn write(&mut self, t: usize, open: &Open, until: i64) -> Result<(), HistoryError> {
        let bytes = open.encode(until);
        if bytes.is_empty() {
            return Ok(());
        }
        let written = self.write_bytes(t, open.start(), &bytes);
        match &written {
            Ok(()) => self.stats.blocks += 1,
            Err(_) => self.stats.lost_blocks += 1,
        }
        written
    }

    fn write_bytes(&mut self, t: usize, start: i64, bytes: &[u8]) -> Result<(), HistoryError> {
        self.names.sync()?;
        self.make_space(t, bytes.len() as u64)?;
        let files = &mut self.tiers[t];
        let bucket = files.tier.bucket(start);
        let segment = match files.segments.entry(bucket) {
            std::collections::btree_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::btree_map::Entry::Vacant(e) => {
                e.insert(Segment::open(&files.dir.join(format!("{bucket}.seg")))?)
            }
        };
        segment.append(bytes)
    }

    /// Deletes files until there is space for so many bytes more of a tier.
    fn make_space(&mut self, t: usize, more: u64) -> Result<(), HistoryError> {
        let bytes = self.limits.bytes.saturating_sub(self.names.bytes());
        let used = |(i, files): (usize, &TierFiles)| Used {
            bytes: files.bytes().saturating_add(if i == t { more } else { 0 }),
            files: files.segments.len(),
        };
        loop {
            let all: Vec<Used> = self.tiers.iter().enumerate().map(used).collect();
            let oldest = match share::next(&all, bytes) {
                Space::Enough => return Ok(()),
                Space::OldestOf(t) => {
                    self.tiers[t].segments.keys().next().map(|bucket| (t, *bucket))
                }
                Space::None => None,
            };
            let Some((t, bucket)) = oldest else {
                let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
                return Err(HistoryError::io("the limit of bytes leaves no space for a block")(
                    source,
                ));
            };
            self.delete(t, bucket)?;
            self.tiers[t].dropped += 1;
        }
    }

    /// Deletes a file.
    fn delete(&mut self, t: usize, bucket: i64) -> Result<(), HistoryError> {
        let Some(segment) = self.tiers[t].segments.get(&bucket) else { return Ok(()) };
        segment.remove()?;
        self.tiers[t].segments.remove(&bucket);
        Ok(())
    }

    fn expire(&mut self, t: usize, time: i64) -> Result<(), HistoryError> {
        let tier = self.tiers[t].tier;
        let old = |bucket: i64| tier.bucket_end(bucket).saturating_add(tier.keep_ms) <= time;
        while let Some(bucket) = self.tiers[t].segments.keys().next().copied().filter(|b| old(*b)) {
            self.delete(t, bucket)?;
            self.stats.expired_files += 1;
        }
        Ok(())
    }

    /// Ends files that no block can come for any more.
    fn seal_full(&mut self, t: usize, time: i64) -> Result<(), HistoryError> {
        let tier = self.tiers[t].tier;
        let full = |(bucket, s): &(&i64, &Segment)| {
            let last = tier.bucket_end(**bucket).saturating_add(tier.block_ms());
            !s.is_sealed() && last.saturating_add(tier.step_ms) <= time
        };
        let due: Vec<(i64, u64)> = self.tiers[t]
            .segments
            .iter()
            .filter(full)
            .map(|(bucket, s)| (*bucket, s.end_size()))
            .collect();
        for (bucket, more) in due {
            self.make_space(t, more)?;
            // It may have been the oldest.
            if let Some(segment) = self.tiers[t].segments.get_mut(&bucket) {
                segment.seal()?;
            }
        }
        Ok(())
    }

    /// What to read for an answer: the tier, its blocks, and what is in memory. Reading them needs no
    /// lock on the store. One that needs more than `most` bytes is not whole, and not to be read.
    #[must_use]
    pub fn plan(
        &self,
        wants: Vec<SeriesQuery>,
        from: i64,
        to: i64,
        max_points: usize,
        most: u64,
    ) -> Plan {
        query::plan(self, wants, from, to, max_points, most)
    }

    /// The points of some series from `from` to `to`, at most so many of each.
    #[must_use]
    pub fn query(&self, series: &[SeriesId], from: i64, to: i64, max_points: usize) -> Points {
        let whole = |(line, id): (usize, &SeriesId)| SeriesQuery::whole(*id, line);
        let wants = series.iter().enumerate().map(whole).collect();
        self.plan(wants, from, to, max_points, u64::MAX).read()
    }
}

impl TierFiles {
    /// Bytes of its files.
    fn bytes(&self) -> u64 {
        self.segments.values().map(Segment::len).sum()
    }

    /// When its first step begins; none where nothing is stored.
    pub(crate) fn known_from(&self) -> Option<i64> {
        let written = self.segments.values().find_map(Segment::first);
        let open = self.open.iter().flatten().map(Open::start).min();
        written.into_iter().chain(open).min().map(|slot| self.tier.start(slot))
    }

    /// When the first step begins that it has from a moment on; none where it has none.
    pub(crate) fn first_from(&self, from: i64) -> Option<i64> {
        let slot = self.tier.slot(from);
        // A block may reach over the end of its file's time.
        let early = self.tier.bucket(slot.saturating_sub(i64::from(self.tier.block)));
        let written = self.segments.range(early..).find_map(|(_, s)| s.first_from(slot));
        let open = self.open.iter().flatten().map(|o| o.start().max(slot)).min();
        written.into_iter().chain(open).min().map(|slot| self.tier.start(slot))
    }

    /// Opens the files that are there. One that cannot be opened is left alone.
    fn load(&mut self, stats: &mut Stats) -> Result<(), HistoryError> {
        let what = || format!("cannot read {}", self.dir.display());
        let entries = fs::read_dir(&self.dir).map_err(HistoryError::io(what()))?;
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            let name = path.file_name().and_then(|n| n.to_str());
            let bucket = name.and_then(|n| n.strip_suffix(".seg")).and_then(|n| n.parse().ok());
            let Some(bucket) = bucket else { continue };
            match Segment::open(&path) {
                Ok(segment) => {
                    stats.damaged_files += u64::from(segment.torn > 0);
                    self.segments.insert(bucket, segment);
                }
                Err(_) => stats.damaged_files += 1,
            }
        }
        Ok(())
    }
}

/// Steps of another rate of samples: nobody would read them or count their bytes.
fn remove_other_steps(dir: &Path, tiers: &[Tier]) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = tiers.iter().any(|t| t.dir() == name);
        if !ours && name.starts_with("step-") && name.ends_with("ms") {
            // What cannot be deleted stays; it is not read.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
