//! Metrics over time: rows go from sessions to files, by one thread that nobody waits for.

mod allocations;
mod steps;
mod writer;

pub use allocations::{AllocatedGpus, Allocation, StepLine};
pub use steps::STEP_TIME;

use crate::brain::{Brain, clock};
use crate::telemetry::Columns;
use muster_history::{Limits, Points, SeriesId, SeriesKey, SeriesQuery, Stats, TierStats};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::units::{Bytes, Span, Time};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use steps::{StepCells, WaitingSteps};
use tokio_util::sync::CancellationToken;
use writer::Writer;

/// Rows that may wait to be written: some seconds of a very large site.
const WAITING: usize = 16_384;
/// How often full blocks are written.
const TICK: Duration = Duration::from_secs(1);
/// How often new allocations are noted.
const NOTE: Duration = Duration::from_secs(5);
/// How often files that could not be opened are tried again.
const OPEN_AGAIN: Duration = Duration::from_secs(30);
/// How often a failure is logged.
const COMPLAIN: Duration = Duration::from_secs(30);

/// Where the history of metrics is kept, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryConfig {
    /// The directory, which is its own.
    pub dir: PathBuf,
    /// Bytes of all its files.
    pub bytes: Bytes,
}

impl HistoryConfig {
    /// What it may take where nobody says: 5 GiB, or a tenth of the file system of `dir`.
    #[must_use]
    pub fn usual_bytes(dir: &Path) -> Bytes {
        let tenth = rustix::fs::statvfs(dir).map(|d| d.f_blocks.saturating_mul(d.f_frsize) / 10);
        Bytes::gib(5).min(tenth.map_or(Bytes::gib(5), Bytes))
    }
}

/// A summary of a node as it came in. A value that a device does not have is `NaN`.
#[derive(Debug, Clone)]
pub struct HistoryRow {
    /// The node.
    pub node: NodeName,
    /// When it was heard, by this server's clock.
    pub at: Time,
    /// Names of the metrics of a GPU.
    pub gpu_columns: Columns,
    /// GPU after GPU, each with one value per column.
    pub gpus: Arc<[f32]>,
    /// Names of the host's metrics.
    pub host_columns: Columns,
    /// One value per host column.
    pub host: Arc<[f32]>,
}

/// The step times of an attempt, of all its ranks together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSeries {
    /// Which attempt.
    pub attempt: u32,
    /// When it was placed; with this it is the same attempt for certain.
    pub placed_at: Time,
    /// The series.
    pub series: SeriesId,
    /// Since when it is this attempt's.
    pub since: Time,
    /// And until when.
    pub until: Time,
}

/// Why there is no history to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoHistory {
    /// The server was started without one.
    #[error("this server stores no history of metrics: it was started with --history off")]
    Off,
    /// Its files are being read.
    #[error("the history of metrics is being opened")]
    Opening,
    /// The answer would need too much of them.
    #[error(
        "at least {bytes} bytes would be read for this, more than the {most} that one answer may take"
    )]
    TooMuch {
        /// What would be read, as far as it was counted.
        bytes: u64,
        /// What may be.
        most: u64,
    },
    /// Its files cannot be used.
    #[error("the history of metrics cannot be used: {0}")]
    Failed(String),
}

/// Numbers about the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryStats {
    /// The files and what is in them.
    pub store: Stats,
    /// Its tiers, finest first.
    pub tiers: Vec<TierStats>,
    /// Rows that were handed to the thread that writes.
    pub taken: u64,
    /// Rows that found no place on the way to it.
    pub dropped: u64,
    /// Rows and ticks that met an error.
    pub failed: u64,
}

enum State {
    None(NoHistory),
    Open(Box<Writer>),
}

struct Inner {
    state: Mutex<State>,
    steps: WaitingSteps,
    /// Held while allocations are noted: what is read first is settled first.
    noting: Mutex<()>,
    taken: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The history of metrics. Clones share it.
#[derive(Clone)]
pub struct History {
    inner: Arc<Inner>,
    /// None while there is no thread.
    tx: Option<SyncSender<HistoryRow>>,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").field("on", &self.tx.is_some()).finish_non_exhaustive()
    }
}

impl History {
    /// Starts the thread that writes; it ends with `stop`. Without a config nothing is kept.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        config: Option<(HistoryConfig, Brain)>,
        sample: Span,
        stop: CancellationToken,
    ) -> std::io::Result<History> {
        let why = if config.is_some() { NoHistory::Opening } else { NoHistory::Off };
        let inner = Arc::new(Inner {
            state: Mutex::new(State::None(why)),
            steps: WaitingSteps::default(),
            noting: Mutex::new(()),
            taken: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let Some((config, brain)) = config else { return Ok(History { inner, tx: None }) };
        let (tx, inbox) = sync_channel(WAITING);
        let limits = Limits {
            bytes: config.bytes.0,
            sample_ms: i64::try_from(sample.0).unwrap_or(i64::MAX),
            ..Limits::default()
        };
        let own = inner.clone();
        crate::supervise::thread("history", move || {
            while !own.open(&config, limits) {
                if !own.drop_rows(&inbox, &stop) {
                    return;
                }
            }
            own.run(&inbox, &brain, &stop);
        })?;
        Ok(History { inner, tx: Some(tx) })
    }

    /// Hands a row on; one that finds no place is counted and left out.
    pub(crate) fn push(&self, row: HistoryRow) {
        let Some(tx) = &self.tx else { return };
        let counter = match tx.try_send(row) {
            Ok(()) => &self.inner.taken,
            Err(_) => &self.inner.dropped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a row in at once.
    ///
    /// # Errors
    /// When there is no history.
    pub fn take(&self, row: &HistoryRow) -> Result<(), NoHistory> {
        self.inner.with(|w| w.take(row).map_err(|e| NoHistory::Failed(e.to_string())))?
    }

    /// A rank made a step, which took so many seconds.
    pub(crate) fn step(&self, key: AttemptKey, seconds: f64) {
        if self.tx.is_some() {
            self.inner.steps.note(key, seconds);
        }
    }

    /// Takes a step in at once.
    ///
    /// # Errors
    /// When there is no history.
    pub fn take_step(&self, key: AttemptKey, at: Time, seconds: f64) -> Result<(), NoHistory> {
        let steps: StepCells = steps::cell(seconds).map(|cell| (key, cell)).into_iter().collect();
        self.inner
            .with(|w| w.take_steps(at, &steps).map_err(|e| NoHistory::Failed(e.to_string())))?
    }

    /// The step times of the attempts of a job.
    ///
    /// # Errors
    /// When there is no history.
    pub fn steps_of(&self, job: JobId) -> Result<Vec<StepSeries>, NoHistory> {
        self.inner.with(|w| w.steps_of(job))
    }

    /// The series of a node.
    ///
    /// # Errors
    /// When there is no history.
    pub fn series_of(&self, node: &str) -> Result<Vec<(SeriesId, SeriesKey)>, NoHistory> {
        self.inner.with(|w| w.store.series_of(node))
    }

    /// Which GPUs the attempts of a job had; empty where that is not known.
    #[must_use]
    pub fn allocations(&self, job: JobId) -> Vec<Arc<Allocation>> {
        self.inner.with(|w| w.allocations.of(job)).unwrap_or_default()
    }

    /// When a GPU was next allocated after this; none where that is not known.
    #[must_use]
    pub fn next_allocation(&self, node: &NodeName, gpu: u32, after: Time) -> Option<Time> {
        self.inner.with(|w| w.allocations.next_after(node, gpu, after)).ok()?
    }

    /// Notes new allocations at once.
    pub fn note_allocations(&self, brain: &Brain) {
        self.inner.note_allocations(brain);
    }

    /// The names of all metrics that were ever kept.
    ///
    /// # Errors
    /// When there is no history.
    pub fn metrics(&self) -> Result<Vec<Arc<str>>, NoHistory> {
        self.inner.with(|w| w.store.metrics())
    }

    /// The points of some series; reads files, up to `most` bytes, and so takes its time.
    ///
    /// # Errors
    /// When there is no history, or too much of it.
    pub fn read(
        &self,
        wants: Vec<SeriesQuery>,
        from: Time,
        to: Time,
        max_points: usize,
        most: u64,
    ) -> Result<Points, NoHistory> {
        let plan = self.inner.with(|w| w.store.plan(wants, from.0, to.0, max_points, most))?;
        let bytes = plan.bytes();
        if bytes > most {
            return Err(NoHistory::TooMuch { bytes, most });
        }
        // Without the lock: rows go on to come in.
        Ok(plan.read())
    }

    /// Numbers about it; none where nothing is kept.
    #[must_use]
    pub fn stats(&self) -> Option<HistoryStats> {
        let (store, tiers) = self.inner.with(|w| (w.store.stats(), w.store.tier_stats())).ok()?;
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let Inner { taken, dropped, failed, .. } = &*self.inner;
        Some(HistoryStats {
            store,
            tiers,
            taken: read(taken),
            dropped: read(dropped),
            failed: read(failed),
        })
    }

    /// Writes what is in memory, before an end.
    pub fn flush(&self) {
        let steps = self.inner.steps.take();
        let flushed = self.inner.with(|w| {
            let now = clock();
            w.take_steps(now, &steps).and(w.store.flush(now.0))
        });
        if let Ok(Err(e)) = flushed {
            tracing::warn!(error = %e, "the history of metrics was not written to its end");
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Writer) -> T) -> Result<T, NoHistory> {
        match &mut *self.state() {
            State::Open(writer) => Ok(f(writer)),
            State::None(why) => Err(why.clone()),
        }
    }

    /// Opens the files, unless an earlier run did. Says whether there is something to write to.
    fn open(&self, config: &HistoryConfig, limits: Limits) -> bool {
        if matches!(*self.state(), State::Open(_)) {
            return true;
        }
        let (state, fine) = match Writer::open(&config.dir, limits) {
            Ok(writer) => (State::Open(Box::new(writer)), true),
            Err(e) => {
                let dir = config.dir.display();
                tracing::error!(%dir, error = %e, "no history of metrics is stored; trying again");
                (State::None(NoHistory::Failed(e.to_string())), false)
            }
        };
        *self.state() = state;
        fine
    }

    fn note_allocations(&self, brain: &Brain) {
        let _one = self.noting.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody waits for the disk: neither those who read the state, nor for long those who ask
        // for metrics.
        let mut placed: Vec<Arc<Job>> =
            brain.read(|s| s.jobs.values().filter(|j| j.attempt.is_some()).cloned().collect());
        let settled = self.with(|w| {
            w.allocations.settle(&placed);
            placed.retain(|j| w.allocations.is_missing_attempt(j));
        });
        if settled.is_err() {
            return;
        }
        for job in placed {
            if let Ok(Err(e)) = self.with(|w| w.allocations.note(&job, clock())) {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(error = %e, "which GPUs a job has is not noted for its history");
                return;
            }
        }
    }

    /// While there is nothing to write to. Says whether to go on.
    fn drop_rows(&self, inbox: &Receiver<HistoryRow>, stop: &CancellationToken) -> bool {
        let since = Instant::now();
        while since.elapsed() < OPEN_AGAIN && !stop.is_cancelled() {
            match inbox.recv_timeout(TICK) {
                Ok(_) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        !stop.is_cancelled()
    }

    fn run(&self, inbox: &Receiver<HistoryRow>, brain: &Brain, stop: &CancellationToken) {
        let mut ticked = Instant::now();
        let mut noted: Option<Instant> = None;
        let mut complained: Option<Instant> = None;
        while !stop.is_cancelled() {
            let taken = match inbox.recv_timeout(TICK) {
                Ok(row) => self.with(|w| w.take(&row)),
                Err(RecvTimeoutError::Timeout) => Ok(Ok(())),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let due = ticked.elapsed() >= TICK;
            let advanced = match due {
                true => self.with(|w| w.store.advance(clock().0)),
                false => Ok(Ok(())),
            };
            let stepped = match due {
                true => {
                    let steps = self.steps.take();
                    self.with(|w| w.take_steps(clock(), &steps))
                }
                false => Ok(Ok(())),
            };
            if due {
                ticked = Instant::now();
                let _ = self.with(Writer::report_short);
            }
            if noted.is_none_or(|at| at.elapsed() >= NOTE) {
                self.note_allocations(brain);
                noted = Some(Instant::now());
            }
            for e in [taken, advanced, stepped].into_iter().filter_map(|r| r.ok()?.err()) {
                self.failed.fetch_add(1, Ordering::Relaxed);
                if complained.is_none_or(|at| at.elapsed() >= COMPLAIN) {
                    tracing::warn!(error = %e, "a part of the history of metrics is lost");
                    complained = Some(Instant::now());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Columns {
        names.iter().map(ToString::to_string).collect::<Vec<_>>().into()
    }

    fn row(at: i64, gpus: &[f32]) -> HistoryRow {
        HistoryRow {
            node: "n1".parse().unwrap(),
            at: Time(at),
            gpu_columns: columns(&["util", "throttle"]),
            gpus: gpus.into(),
            host_columns: columns(&["load"]),
            host: vec![0.5].into(),
        }
    }

    #[test]
    fn rows_become_series_of_gpus_and_of_the_host_without_masks() {
        let dir = tempfile::tempdir().unwrap();
        let mut w = Writer::open(dir.path(), Limits::default()).unwrap();
        let start = clock().0 / 60_000 * 60_000;
        for i in 0..6 {
            w.take(&row(start + i * 10_000, &[50.0, 1.0, f32::NAN, 1.0])).unwrap();
        }
        // A GPU more: new series, the old ones go on.
        w.take(&row(start + 60_000, &[70.0, 1.0, 1.0, 1.0, 2.0, 1.0])).unwrap();
        let series = w.store.series_of("n1");
        let mut names: Vec<_> = series.iter().map(|(_, k)| (k.gpu, k.metric.to_string())).collect();
        names.sort();
        let util = |gpu| (Some(gpu), "util".to_owned());
        assert_eq!(names, [(None, "load".to_owned()), util(0), util(1), util(2)]);
        let first = series.iter().find(|(_, k)| k.gpu == Some(0)).unwrap().0;
        let points = w.store.query(&[first], start, start + 70_000, 100);
        let means: Vec<_> = points.lines[0].iter().filter_map(muster_history::Cell::mean).collect();
        assert_eq!(means, [50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 70.0]);
    }

    #[test]
    fn without_a_history_everything_says_so_and_rows_go_nowhere() {
        let stop = CancellationToken::new();
        let off = History::start(None, Span::secs(10), stop).unwrap();
        off.push(row(0, &[]));
        assert_eq!(off.series_of("n1"), Err(NoHistory::Off));
        assert_eq!(off.take(&row(0, &[])), Err(NoHistory::Off));
        assert_eq!(off.stats(), None);
        off.flush();
    }
}
