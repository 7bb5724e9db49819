//! One thread writes, so that a slow disk never holds up the network or the API.

mod limits;

use super::Shared;
use super::changes::StreamId;
use super::names::{make_private, segment_name, times_name};
use super::segments::{LIFE, Segment, StreamLog};
use super::times::Times;
use limits::Limits;
use muster_link::messages::{LogChunk, LogMark};
use muster_model::ids::AttemptKey;
use muster_model::units::Time;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Chunks that may wait; then the agents' connections wait.
const QUEUE: usize = 256;
/// Segments of the rolling tail of a stream.
const TAIL_SEGMENTS: u64 = 8;
/// Segments a stream may have, however many holes it has.
const MOST_SEGMENTS: usize = 64;
/// How often a full disk is complained about.
const COMPLAIN: Duration = Duration::from_secs(30);

pub(super) enum Job {
    /// A chunk, and when it was seen.
    Append(LogChunk, Option<Time>, oneshot::Sender<LogMark>),
    Settle(oneshot::Sender<()>),
}

/// The segment of a stream that is written to.
struct OpenSegment {
    file: File,
    start: u64,
    /// When it was last used, by the writer's count.
    used: u64,
    times: Times,
}

struct Writer {
    shared: Arc<Shared>,
    files: HashMap<StreamId, OpenSegment>,
    clock: u64,
    complained: Option<Instant>,
    /// Room is not looked for again before this much more has been written.
    prune_at: u64,
    limits: Limits,
}

pub(super) fn start(shared: Arc<Shared>) -> io::Result<mpsc::Sender<Job>> {
    let (tx, mut rx) = mpsc::channel(QUEUE);
    let prune_at = shared.config.total;
    let used = disk_use(&shared.dir);
    shared.bytes.fetch_add(used, Ordering::Relaxed);
    crate::supervise::thread("log-keeper", move || {
        let shared = shared.clone();
        let (files, limits) = (HashMap::new(), Limits::default());
        let mut w = Writer { shared, files, clock: 0, complained: None, prune_at, limits };
        // Ends with the last keeper.
        while let Some(job) = rx.blocking_recv() {
            match job {
                Job::Append(chunk, at, done) => {
                    let _ = done.send(w.append(&chunk, at));
                }
                Job::Settle(done) => {
                    let _ = done.send(());
                }
            }
        }
    })?;
    Ok(tx)
}

impl Writer {
    fn append(&mut self, chunk: &LogChunk, at: Option<Time>) -> LogMark {
        let LogChunk { key, rank, stream, offset, data, .. } = chunk;
        let end = offset.saturating_add(data.len() as u64);
        let mark = |offset| LogMark { key: *key, rank: *rank, stream: *stream, offset };
        // Before anything is read of this attempt: what has ended may be removed.
        let short = self.is_short(data.len());
        let known = self
            .shared
            .index()
            .get(&self.shared, *key)
            .map(|a| a.streams.get(&(*rank, *stream)).cloned().unwrap_or_default());
        let mut log = match known {
            Ok(log) => log,
            Err(e) => {
                self.lose(data.len(), &e);
                return mark(end);
            }
        };
        if end <= log.taken {
            return mark(log.taken);
        }
        let skip = usize::try_from(log.taken.saturating_sub(*offset)).unwrap_or(0);
        let (from, fresh) = (offset + skip as u64, &data[skip.min(data.len())..]);
        let (id, before, cap) = ((*key, *rank, *stream), log.on_disk(), self.cap_of(*key));
        if short {
            self.note_short(id, &log);
            self.lose(fresh.len(), &"free space is short");
        } else if let Err(e) = self.write(id, &mut log, from, fresh, at, cap) {
            let kept = log.segments.last().map_or(0, |s| s.end()).saturating_sub(from);
            self.lose(fresh.len().saturating_sub(usize::try_from(kept).unwrap_or(0)), &e);
            self.files.remove(&id);
        }
        log.taken = end;
        self.trim(id, &mut log, cap);
        let after = log.on_disk();
        let bytes = &self.shared.bytes;
        bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        if let Ok(a) = self.shared.index().get(&self.shared, *key) {
            let old = a.streams.insert((*rank, *stream), log).map_or(0, |old| old.on_disk());
            a.bytes = a.bytes.saturating_add(after).saturating_sub(old);
        }
        self.shared.noted.grew((*key, *rank, *stream));
        let mut followers = self.shared.followers();
        if let Some(f) = followers.get(key)
            && f.send((*rank, *stream)).is_err()
        {
            followers.remove(key);
        }
        drop(followers);
        if self.must_prune() {
            self.prune();
        }
        mark(end)
    }

    /// Writes at the end of the stream, in a new segment where there is a hole or the last one
    /// is full. `log` always says what really is on disk.
    fn write(
        &mut self,
        id: StreamId,
        log: &mut StreamLog,
        mut from: u64,
        mut data: &[u8],
        at: Option<Time>,
        cap: u64,
    ) -> io::Result<()> {
        let shared = self.shared.clone();
        let half = (cap / 2).max(1);
        let step = (half / TAIL_SEGMENTS).max(1);
        if data.is_empty() {
            return self.write_gap(id, log, from);
        }
        while !data.is_empty() {
            let room = match log.segments.last() {
                Some(s) if s.end() == from => {
                    // The first segment is the head; the rest roll.
                    let most = if log.segments.len() == 1 && s.start == 0 { half } else { step };
                    // Times count the bytes of a segment in 32 bits.
                    most.min(u64::from(u32::MAX)).saturating_sub(s.len)
                }
                _ => 0,
            };
            if room == 0 {
                self.create(id, from)?;
                log.segments.push(Segment { start: from, len: 0, times: 0 });
                continue;
            }
            let n = data.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            let Some(last) = log.segments.last_mut() else { continue };
            let open = self.open(id, last.start)?;
            let (start, (key, rank, stream)) = (last.start, id);
            let times = || shared.attempt_dir(key).join(times_name(rank, stream, start));
            last.times = open.times.note(last.len, at, times);
            let wrote = match open.file.write_at(&data[..n], last.len) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(wrote) => wrote,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            last.len += wrote as u64;
            from += wrote as u64;
            data = &data[wrote..];
        }
        Ok(())
    }

    /// Notes where a gap ends, by an empty segment: a restarted server reports the gap too.
    fn write_gap(&mut self, id: StreamId, log: &mut StreamLog, end: u64) -> io::Result<()> {
        if let Some(gap) = log.segments.pop_if(|s| s.len == 0) {
            self.files.remove(&id);
            fs::remove_file(self.path(id, gap.start))?;
        }
        self.create(id, end)?;
        log.segments.push(Segment { start: end, len: 0, times: 0 });
        Ok(())
    }

    fn path(&self, (key, rank, stream): StreamId, start: u64) -> PathBuf {
        self.shared.attempt_dir(key).join(segment_name(rank, stream, start))
    }

    fn create(&mut self, id: StreamId, start: u64) -> io::Result<()> {
        let path = self.path(id, start);
        let make =
            || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = match make() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                make_private(&self.shared.attempt_dir(id.0))?;
                make()?
            }
            other => other?,
        };
        self.cache(id, file, start);
        Ok(())
    }

    fn open(&mut self, id: StreamId, start: u64) -> io::Result<&mut OpenSegment> {
        self.clock += 1;
        let clock = self.clock;
        if self.files.get(&id).is_none_or(|f| f.start != start) {
            let file = OpenOptions::new().write(true).open(self.path(id, start))?;
            self.cache(id, file, start);
        }
        match self.files.get_mut(&id) {
            Some(f) => {
                f.used = clock;
                Ok(f)
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn cache(&mut self, id: StreamId, file: File, start: u64) {
        if self.files.len() >= self.shared.config.open_files.max(1)
            && !self.files.contains_key(&id)
            && let Some(oldest) = self.files.iter().min_by_key(|(_, f)| f.used).map(|(id, _)| *id)
        {
            self.files.remove(&oldest);
        }
        let times = Times::default();
        self.files.insert(id, OpenSegment { file, start, used: self.clock, times });
    }

    /// Keeps the head and as much of the tail as the cap allows.
    fn trim(&mut self, id: StreamId, log: &mut StreamLog, cap: u64) {
        let mut sum = log.on_disk();
        while log.segments.len() > 2 && (sum > cap || log.segments.len() > MOST_SEGMENTS) {
            let second = log.segments.remove(1);
            sum -= second.on_disk();
            let mut gone = vec![self.path(id, second.start)];
            if second.times > 0 {
                let (key, rank, stream) = id;
                let dir = self.shared.attempt_dir(key);
                gone.push(dir.join(times_name(rank, stream, second.start)));
            }
            for path in gone {
                if let Err(e) = fs::remove_file(&path) {
                    tracing::warn!(path = %path.display(), error = %e, "cannot remove old output");
                }
            }
        }
        if sum > cap {
            self.shorten_head(id, log, (cap / 2).max(1));
        }
    }

    /// The head was written when there was more for each stream of its attempt.
    fn shorten_head(&mut self, id: StreamId, log: &mut StreamLog, most: u64) {
        let Some(head) = log.segments.first_mut().filter(|s| s.start == 0 && s.len > most) else {
            return;
        };
        self.files.remove(&id);
        let path = self.path(id, 0);
        match OpenOptions::new().write(true).open(&path).and_then(|f| f.set_len(most)) {
            Ok(()) => head.len = most,
            Err(e) => tracing::warn!(path = %path.display(), error = %e, "cannot shorten output"),
        }
    }

    fn lose(&mut self, bytes: usize, why: &dyn std::fmt::Display) {
        self.shared.lost.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.complained.is_none_or(|at| at.elapsed() > COMPLAIN) {
            self.complained = Some(Instant::now());
            tracing::error!(
                bytes, error = %why, dir = %self.shared.dir.display(),
                "job output cannot be stored and is lost; jobs continue. Free space on the disk"
            );
        }
    }
}

/// Every attempt with output, of every life of the log.
pub(super) fn attempts(dir: &Path) -> Vec<(AttemptKey, PathBuf)> {
    let list = |d: &Path| {
        fs::read_dir(d).into_iter().flatten().flatten().map(|e| e.path()).collect::<Vec<_>>()
    };
    let name = |p: &Path| p.file_name().and_then(|n| n.to_str()).map(str::to_owned);
    let mut found = Vec::new();
    for shard in list(dir) {
        if name(&shard).is_some_and(|n| n.starts_with(LIFE)) {
            found.extend(attempts(&shard));
            continue;
        }
        for path in list(&shard) {
            if let Some(key) = name(&path).and_then(|n| n.parse().ok()) {
                found.push((key, path));
            }
        }
    }
    found
}

/// Bytes in the files below a directory.
pub(super) fn disk_use(dir: &Path) -> u64 {
    let mut sum = 0;
    let mut todo = vec![dir.to_path_buf()];
    while let Some(d) = todo.pop() {
        for e in fs::read_dir(&d).into_iter().flatten().flatten() {
            match e.file_type() {
                Ok(t) if t.is_dir() => todo.push(e.path()),
                Ok(t) if t.is_file() => sum += e.metadata().map_or(0, |m| m.len()),
                _ => {}
            }
        }
    }
    sum
}
