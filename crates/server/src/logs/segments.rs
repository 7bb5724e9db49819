//! Which segments there are, in memory as on disk.

use super::names::{TIMES, parse_name, segment_name, times_name};
use super::{LogError, LogPiece, LogSince, LogStream, Shared, no_space, times};
use bytes::Bytes;
use muster_link::messages::Stream;
use muster_model::ids::AttemptKey;
use muster_model::units::Time;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Attempts whose segments are remembered; others are looked up on disk again.
const REMEMBERED: usize = 4096;
/// Jobs in one directory.
const SHARD: u64 = 1000;

/// A file: offset of its first byte and its length. One without data is where a gap ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) len: u64,
    /// Length of the file with its times.
    pub(super) times: u64,
}

impl Segment {
    pub(super) fn end(self) -> u64 {
        self.start + self.len
    }

    /// What it takes of the disk.
    pub(super) fn on_disk(self) -> u64 {
        self.len + self.times
    }
}

/// One rank's stdout or stderr.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamLog {
    /// In order; never overlapping.
    pub(super) segments: Vec<Segment>,
    /// Everything before this was taken, kept or not.
    pub(super) taken: u64,
}

impl StreamLog {
    fn kept(&self) -> u64 {
        self.segments.iter().map(|s| s.len).sum()
    }

    /// What it takes of the disk.
    pub(super) fn on_disk(&self) -> u64 {
        self.segments.iter().map(|s| s.on_disk()).sum()
    }

    /// Where what is stored before an offset ends.
    fn end_before(&self, offset: u64) -> u64 {
        self.segments.iter().map(|s| s.end()).filter(|end| *end <= offset).max().unwrap_or(0)
    }
}

/// All streams of an attempt.
#[derive(Debug, Clone, Default)]
pub(super) struct AttemptLog {
    pub(super) streams: BTreeMap<(u32, Stream), StreamLog>,
    /// What they take of the disk.
    pub(super) bytes: u64,
    used: u64,
}

impl AttemptLog {
    pub(super) fn streams(&self) -> Vec<LogStream> {
        let one = |(&(rank, stream), s): (&(u32, Stream), &StreamLog)| LogStream {
            rank,
            stream,
            end: s.taken,
            dropped: s.taken.saturating_sub(s.kept()),
        };
        self.streams.iter().map(one).collect()
    }

    pub(super) fn tail_start(&self, rank: u32, stream: Stream, max: u64) -> u64 {
        let stored = self.streams.get(&(rank, stream)).map_or(&[][..], |s| &s.segments);
        let last = stored.iter().rev().find(|s| s.len > 0);
        last.map_or(0, |s| s.end().saturating_sub(max).max(s.start))
    }
}

/// The segments of the attempts that were used last.
#[derive(Debug, Default)]
pub(super) struct Index {
    attempts: HashMap<AttemptKey, AttemptLog>,
    clock: u64,
}

impl Index {
    pub(super) fn get(
        &mut self,
        shared: &Shared,
        key: AttemptKey,
    ) -> Result<&mut AttemptLog, LogError> {
        self.clock += 1;
        if !self.attempts.contains_key(&key) {
            let found = load(&shared.attempt_dir(key))?;
            self.evict();
            self.attempts.insert(key, found);
        }
        let log = self.attempts.entry(key).or_default();
        log.used = self.clock;
        Ok(log)
    }

    /// Forgets the quarter that was not used for longest.
    fn evict(&mut self) {
        if self.attempts.len() < REMEMBERED {
            return;
        }
        let mut used: Vec<u64> = self.attempts.values().map(|a| a.used).collect();
        let (_, cut, _) = used.select_nth_unstable(REMEMBERED / 4);
        let cut = *cut;
        self.attempts.retain(|_, a| a.used > cut);
    }

    pub(super) fn forget(&mut self, key: AttemptKey) {
        self.attempts.remove(&key);
    }
}

/// What the directories of later lives begin with.
pub(super) const LIFE: &str = "life-";

pub(super) fn attempt_dir(dir: &Path, life: u64, key: AttemptKey) -> PathBuf {
    let shard = (key.job.0 / SHARD).to_string();
    match life {
        0 => dir.join(shard),
        life => dir.join(format!("{LIFE}{life}")).join(shard),
    }
    .join(key.to_string())
}

pub(super) fn load(dir: &Path) -> Result<AttemptLog, LogError> {
    let failed = |source| LogError::Io { what: "list", path: dir.into(), source };
    let mut log = AttemptLog::default();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(log),
        Err(e) => return Err(failed(e)),
    };
    let mut times = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let of = name.strip_suffix(TIMES);
        let Some((rank, stream, start)) = parse_name(of.unwrap_or(name)) else { continue };
        let len = entry.metadata().map_err(failed)?.len();
        if of.is_some() {
            times.push(((rank, stream), start, len));
            continue;
        }
        let segments = &mut log.streams.entry((rank, stream)).or_default().segments;
        segments.push(Segment { start, len, times: 0 });
    }
    for (stream, start, len) in times {
        let segments = log.streams.get_mut(&stream).map(|s| &mut s.segments);
        let segment = segments.and_then(|all| all.iter_mut().find(|s| s.start == start));
        if let Some(segment) = segment {
            segment.times = len;
        }
    }
    for s in log.streams.values_mut() {
        s.segments.sort_unstable();
        s.taken = s.segments.last().map_or(0, |l| l.end());
    }
    log.bytes = log.streams.values().map(StreamLog::on_disk).sum();
    Ok(log)
}

pub(super) fn read(
    shared: &Shared,
    key: AttemptKey,
    rank: u32,
    stream: Stream,
    offset: u64,
    max: usize,
    timed: bool,
) -> Result<LogPiece, LogError> {
    let mut asked = offset;
    loop {
        let (found, taken, before) = {
            let mut index = shared.index();
            let log = index.get(shared, key)?.streams.get(&(rank, stream));
            let segment =
                log.and_then(|s| s.segments.iter().find(|s| s.end() > asked && s.len > 0));
            let before = log.map_or(0, |s| s.end_before(offset));
            (segment.copied(), log.map_or(0, |s| s.taken), before)
        };
        let dir = shared.attempt_dir(key);
        let Some(segment) = found else {
            // A loss at the very end is reported too.
            let dropped = taken.saturating_sub(offset);
            let no_space = dropped > 0 && no_space::noted(&dir, rank, stream, &(before..taken));
            let offset = offset.max(taken);
            let (data, times) = (Bytes::new(), Vec::new());
            return Ok(LogPiece { rank, stream, dropped, no_space, offset, data, times });
        };
        let from = asked.max(segment.start);
        let want = usize::try_from(segment.end() - from).unwrap_or(usize::MAX).min(max);
        let path = dir.join(segment_name(rank, stream, segment.start));
        let data = match read_at(&path, from - segment.start, want) {
            Ok(data) => data,
            // It fell to the cap since we looked.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                asked = segment.end();
                continue;
            }
            Err(source) => return Err(LogError::Io { what: "read", path, source }),
        };
        // Read after the bytes: their times were written before them.
        let times = if timed && !data.is_empty() {
            let path = dir.join(times_name(rank, stream, segment.start));
            times_of(&path, segment, from, data.len())
        } else {
            Vec::new()
        };
        let dropped = from - offset;
        let no_space = dropped > 0 && no_space::noted(&dir, rank, stream, &(before..from));
        return Ok(LogPiece { rank, stream, dropped, no_space, offset: from, data, times });
    }
}

fn times_of(path: &Path, segment: Segment, from: u64, len: usize) -> Vec<times::Stretch> {
    let within = from - segment.start;
    let found = times::stretches(path, within, within + len as u64).unwrap_or_else(|e| {
        tracing::warn!(path = %path.display(), error = %e, "cannot read the times of output");
        vec![(within, None)]
    });
    found.into_iter().map(|(at, time)| (segment.start + at, time)).collect()
}

/// Where output of a moment or later begins.
pub(super) fn since(
    shared: &Shared,
    key: AttemptKey,
    rank: u32,
    stream: Stream,
    moment: Time,
) -> Result<LogSince, LogError> {
    let log = shared.index().get(shared, key)?.streams.get(&(rank, stream)).cloned();
    let log = log.unwrap_or_default();
    let dir = shared.attempt_dir(key);
    let mut untimed = false;
    for segment in log.segments.iter().filter(|s| s.len > 0) {
        let path = dir.join(times_name(rank, stream, segment.start));
        let (found, before) = times::since(&path, moment).map_err(|source| LogError::Io {
            what: "read",
            path,
            source,
        })?;
        untimed |= before;
        if let Some(from) = found {
            return Ok(LogSince { offset: segment.start + from, untimed });
        }
    }
    Ok(LogSince { offset: log.taken, untimed })
}

fn read_at(path: &Path, at: u64, len: usize) -> io::Result<Bytes> {
    let file = File::open(path)?;
    let mut data = vec![0; len];
    let mut have = 0;
    while have < len {
        match file.read_at(&mut data[have..], at + have as u64) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    data.truncate(have);
    Ok(data.into())
}
