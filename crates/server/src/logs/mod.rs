//! The log keeper: what ranks print, kept on the server's disk.
//!
//! A stream (one rank's stdout or stderr) is a row of segments, each a plain file that begins at
//! the offset in its name. What the node had to drop, what the disk had no room for and what fell
//! to the cap are all the same thing: a hole between two segments, which a reader learns of.
//! Offsets are those of the rank's own output, for ever. When each part came is in a file of its own.

mod changes;
mod follow;
mod names;
mod no_space;
mod segments;
mod times;
mod writer;

pub use changes::{OutputChanges, StreamId};
pub use follow::Follow;

use crate::brain::clock;
use bytes::Bytes;
use muster_link::messages::{LogChunk, LogMark, Stream};
use muster_model::ids::AttemptKey;
use muster_model::units::Time;
use segments::Index;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{broadcast, mpsc, oneshot};

/// Whether an attempt still goes on: its output is never removed to make room.
pub type Live = Arc<dyn Fn(AttemptKey) -> bool + Send + Sync>;

/// The life of the log in which an attempt was placed; 0 is the first. Attempts are numbered anew
/// after a restore, and what the lost life printed is not theirs.
pub type LogGenerationOf = Arc<dyn Fn(AttemptKey) -> u64 + Send + Sync>;

/// What operators may choose about kept output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConfig {
    /// Most bytes kept of one stream: the first half of it for ever, the rest for what came last.
    pub per_stream: u64,
    /// Most bytes kept of one attempt for long: beyond it each of its streams has its part, again the
    /// first half of it and what came last.
    pub per_attempt: u64,
    /// Most bytes kept in all; beyond it the output of the oldest finished jobs goes. Where that is not
    /// enough, each attempt that runs has an equal part.
    pub total: u64,
    /// Bytes of the disk that stay free: with less, no output is stored. None where it is 0.
    pub reserve: u64,
    /// Files held open.
    pub open_files: usize,
}

impl Default for LogConfig {
    fn default() -> Self {
        let (per_stream, total) = (64 << 20, 20 << 30);
        LogConfig { per_stream, per_attempt: total / 8, total, reserve: 0, open_files: 256 }
    }
}

impl LogConfig {
    /// What is usual on the file system of a directory: at most a third of it, and 1 GiB stays free (a
    /// quarter where that is less, but 512 MiB, or half of a very small one), long before submissions are
    /// refused.
    #[must_use]
    pub fn usual(dir: &Path) -> LogConfig {
        let most = LogConfig::default();
        let Ok(disk) = rustix::fs::statvfs(dir) else { return most };
        let size = disk.f_blocks.saturating_mul(disk.f_frsize);
        let total = most.total.min(size / 3);
        let reserve = (size / 4).clamp(512 << 20, 1 << 30).min(size / 2);
        LogConfig { per_attempt: total / 8, total, reserve, ..most }
    }
}

/// What can go wrong with kept output.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk said no.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file that was meant.
        path: PathBuf,
        /// Why the system refused it.
        #[source]
        source: io::Error,
    },
    /// The server is going down.
    #[error("the log keeper has stopped")]
    Stopped,
}

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Global rank.
    pub rank: u32,
    /// Stdout or stderr.
    pub stream: Stream,
    /// Bytes before `offset` that were asked for and are not kept.
    pub dropped: u64,
    /// Some of them because free space on the server's disk was short.
    pub no_space: bool,
    /// Offset of the first byte of `data`.
    pub offset: u64,
    /// The bytes, exactly as they were printed. Empty at the end of what is there.
    pub data: Bytes,
    /// From which offset on they came when, to a tenth of a second; no time where it is not known. Empty
    /// where nobody asked.
    pub times: Vec<(u64, Option<Time>)>,
}

impl LogPiece {
    /// Where to go on.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.offset + self.data.len() as u64
    }

    /// Its parts, each with its offset and when it came: one without a time where nobody asked.
    #[must_use]
    pub fn parts(&self) -> Vec<(u64, Option<Time>, Bytes)> {
        let untimed = [(self.offset, None)];
        let times = if self.times.is_empty() { &untimed[..] } else { &self.times[..] };
        let within = |offset: u64| {
            usize::try_from(offset.saturating_sub(self.offset)).unwrap_or(0).min(self.data.len())
        };
        let ends = times.iter().skip(1).map(|(from, _)| *from).chain([self.next()]);
        let part = |(&(from, at), to): (&(u64, Option<Time>), u64)| {
            (from, at, self.data.slice(within(from)..within(to)))
        };
        times.iter().zip(ends).map(part).collect()
    }

    /// What is missing before this piece, and why where that is known; for people.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let why = if self.no_space { ": free space on the server's disk was short" } else { "" };
        (self.dropped > 0).then(|| format!("{} bytes were dropped here{why}", self.dropped))
    }
}

/// Where in a stream output of a moment or later begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSince {
    /// The offset.
    pub offset: u64,
    /// Some of what is kept before that has no time.
    pub untimed: bool,
}

/// What is kept of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStream {
    /// Global rank.
    pub rank: u32,
    /// Stdout or stderr.
    pub stream: Stream,
    /// Offset after the last byte.
    pub end: u64,
    /// Bytes that are not kept.
    pub dropped: u64,
}

/// How the keeper stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogStats {
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes that could not be written since the start (disk full, for example).
    pub lost: u64,
}

/// Keeps job output. Clones share it.
#[derive(Clone)]
pub struct LogKeeper {
    shared: Arc<Shared>,
    to_writer: mpsc::Sender<writer::Job>,
}

impl std::fmt::Debug for LogKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogKeeper").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

struct Shared {
    dir: PathBuf,
    config: LogConfig,
    index: Mutex<Index>,
    followers: Mutex<HashMap<AttemptKey, broadcast::Sender<(u32, Stream)>>>,
    bytes: AtomicU64,
    lost: AtomicU64,
    live: Live,
    life: LogGenerationOf,
    noted: changes::Noted,
}

impl Shared {
    /// Where an attempt's output is.
    fn attempt_dir(&self, key: AttemptKey) -> PathBuf {
        segments::attempt_dir(&self.dir, (self.life)(key), key)
    }
    fn index(&self) -> MutexGuard<'_, Index> {
        // Nothing panics while holding it; a poisoned lock still guards sound data.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn followers(&self) -> MutexGuard<'_, HashMap<AttemptKey, broadcast::Sender<(u32, Stream)>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogKeeper {
    /// Keeps output under `dir`, which is made when it is missing.
    ///
    /// # Errors
    /// When `dir` cannot be made or read.
    pub fn open(dir: &Path, config: LogConfig, live: Live) -> Result<LogKeeper, LogError> {
        LogKeeper::open_generations(dir, config, live, Arc::new(|_| 0))
    }

    /// The same for a log that may have been restored: the output of each of its lives is apart.
    ///
    /// # Errors
    /// As [`LogKeeper::open`].
    pub fn open_generations(
        dir: &Path,
        config: LogConfig,
        live: Live,
        life: LogGenerationOf,
    ) -> Result<LogKeeper, LogError> {
        let failed = |what| move |source| LogError::Io { what, path: dir.into(), source };
        names::make_private(dir).map_err(failed("create"))?;
        // An older version let everybody of the machine read it.
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
            .map_err(failed("protect"))?;
        let shared = Arc::new(Shared {
            dir: dir.into(),
            config,
            index: Mutex::default(),
            followers: Mutex::default(),
            bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            live,
            life,
            noted: changes::Noted::default(),
        });
        let to_writer = writer::start(shared.clone()).map_err(|source| LogError::Io {
            what: "start the writer for",
            path: dir.into(),
            source,
        })?;
        Ok(LogKeeper { shared, to_writer })
    }

    /// Keeps a chunk. One that is already there changes nothing; what the disk does not take is
    /// counted as lost, so the job goes on. The mark says up to where the node may forget.
    ///
    /// # Errors
    /// Only when the keeper has stopped.
    pub async fn append(&self, chunk: LogChunk) -> Result<LogMark, LogError> {
        let (tx, rx) = oneshot::channel();
        // By this server's clock, so that ranks of many nodes can be compared.
        let at = chunk.age.map(|age| clock() - age);
        let job = writer::Job::Append(chunk, at, tx);
        self.to_writer.send(job).await.map_err(|_| LogError::Stopped)?;
        rx.await.map_err(|_| LogError::Stopped)
    }

    /// Waits until every chunk given before is kept.
    ///
    /// # Errors
    /// Only when the keeper has stopped.
    pub async fn settled(&self) -> Result<(), LogError> {
        let (tx, rx) = oneshot::channel();
        self.to_writer.send(writer::Job::Settle(tx)).await.map_err(|_| LogError::Stopped)?;
        rx.await.map_err(|_| LogError::Stopped)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Shared) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let shared = self.shared.clone();
        tokio::task::spawn_blocking(move || f(&shared)).await.map_err(|_| LogError::Stopped)?
    }

    /// At most `max` bytes from `offset` on. Stops at a hole; reading on from `next` reports it.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub async fn read(
        &self,
        key: AttemptKey,
        rank: u32,
        stream: Stream,
        offset: u64,
        max: usize,
    ) -> Result<LogPiece, LogError> {
        self.read_with(key, rank, stream, offset, max, false).await
    }

    async fn read_with(
        &self,
        key: AttemptKey,
        rank: u32,
        stream: Stream,
        offset: u64,
        max: usize,
        timed: bool,
    ) -> Result<LogPiece, LogError> {
        self.blocking(move |s| segments::read(s, key, rank, stream, offset, max, timed)).await
    }

    /// Where in a stream output of a moment or later begins; its end where there is none.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub async fn since(
        &self,
        key: AttemptKey,
        rank: u32,
        stream: Stream,
        moment: Time,
    ) -> Result<LogSince, LogError> {
        self.blocking(move |s| segments::since(s, key, rank, stream, moment)).await
    }

    /// The last `max` bytes that are kept without a hole.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub async fn tail(
        &self,
        key: AttemptKey,
        rank: u32,
        stream: Stream,
        max: usize,
    ) -> Result<LogPiece, LogError> {
        self.blocking(move |s| {
            let from = s.index().get(s, key)?.tail_start(rank, stream, max as u64);
            segments::read(s, key, rank, stream, from, max, false)
        })
        .await
    }

    /// Every stream of an attempt, by rank.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub async fn ranks(&self, key: AttemptKey) -> Result<Vec<LogStream>, LogError> {
        self.blocking(move |s| Ok(s.index().get(s, key)?.streams())).await
    }

    /// Follows an attempt's output from its beginning, all ranks or one.
    #[must_use]
    pub fn follow(&self, key: AttemptKey, rank: Option<u32>) -> Follow {
        Follow::new(self.clone(), key, rank)
    }

    /// The same as [`LogKeeper::read`], with times, on this thread.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn read_here(
        &self,
        (key, rank, stream): StreamId,
        offset: u64,
        max: usize,
    ) -> Result<LogPiece, LogError> {
        segments::read(&self.shared, key, rank, stream, offset, max, true)
    }

    /// The streams of an attempt as they are on disk, read on this thread and not remembered.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn ranks_here(&self, key: AttemptKey) -> Result<Vec<LogStream>, LogError> {
        Ok(segments::load(&self.shared.attempt_dir(key))?.streams())
    }

    /// Offset after the last byte of a stream; 0 of one that is not there.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn end_here(&self, (key, rank, stream): StreamId) -> Result<u64, LogError> {
        let mut index = self.shared.index();
        let log = index.get(&self.shared, key)?;
        Ok(log.streams.get(&(rank, stream)).map_or(0, |s| s.taken))
    }

    /// Every attempt with output, of the present life of the log, in order. Reads the disk, here.
    #[must_use]
    pub fn attempts_here(&self) -> Vec<AttemptKey> {
        let own = |(key, dir): (AttemptKey, PathBuf)| {
            (dir == self.shared.attempt_dir(key)).then_some(key)
        };
        let mut all: Vec<AttemptKey> =
            writer::attempts(&self.shared.dir).into_iter().filter_map(own).collect();
        all.sort_unstable();
        all
    }

    /// Whether an attempt still runs: more of its output may come.
    #[must_use]
    pub fn is_live(&self, key: AttemptKey) -> bool {
        (self.shared.live)(key)
    }

    /// The life of the log in which an attempt was placed.
    #[must_use]
    pub fn generation_of(&self, key: AttemptKey) -> u64 {
        (self.shared.life)(key)
    }

    /// How it stands.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        LogStats {
            bytes: self.shared.bytes.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
