//! The server's edge of metering: lives of jobs as the log shows them, and beside them what ranks
//! and GPUs reported since this server began.

mod fleet;
mod read;
mod received;
mod recent;
mod tally;

use crate::brain::{Brain, Histogram};
use crate::follower::Follower;
use crate::telemetry::Columns;
pub use fleet::{Gauges, TelemetryStatus};
use muster_metering::{
    AttemptObservation, Counts, Forecast, Goodput, GpuUsage, Pace, Report, Step, goodput,
};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use received::Attempts;
pub(crate) use received::step_seconds;
pub use recent::Recent;
use recent::Recents;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub use tally::{CLASSES, OUTCOMES};
use tokio_util::sync::CancellationToken;

/// What an attempt reported, and whether from its beginning.
#[derive(Debug, Clone)]
pub struct AttemptMetric<T> {
    /// Number of the attempt.
    pub attempt: u32,
    /// What was reported.
    pub what: T,
    /// It was heard from the attempt's beginning.
    pub whole: bool,
}

/// Figures of one job.
#[derive(Debug, Clone)]
pub struct JobMetrics {
    /// Where its time went.
    pub goodput: Goodput,
    /// Ranks and GPUs of the job were heard from here on only.
    pub since: Option<Time>,
    /// What its GPUs reported.
    pub used: Option<AttemptMetric<GpuUsage>>,
    /// What its ranks reported of their steps.
    pub pace: Option<AttemptMetric<Pace>>,
}

struct Inner {
    brain: Brain,
    /// When this server began: of what was before it has only the log.
    since: Time,
    attempts: Mutex<Attempts>,
    recents: Mutex<Recents>,
    lasts: Mutex<fleet::LastReports>,
    gauges: Mutex<Arc<Gauges>>,
    tally: tally::Tally,
}

impl Inner {
    fn lasts(&self) -> MutexGuard<'_, fleet::LastReports> {
        // Nothing panics while holding it.
        self.lasts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of all GPUs, and from when on that is known.
#[derive(Debug, Clone)]
pub struct FleetUsage {
    /// Where GPU time went.
    pub report: Report,
    /// Hardware by where it is on its way into service.
    pub supply: Counts,
    /// When free capacity ends.
    pub forecast: Forecast,
    /// From when on the log was read.
    pub since: Time,
    /// From when on telemetry was heard.
    pub seen_since: Option<Time>,
    /// The moment it is true for.
    pub now: Time,
    /// The log was read to its end.
    pub complete: bool,
}

/// Who used what. Cheap to clone.
#[derive(Clone)]
pub struct Metering {
    inner: Arc<Inner>,
    jobs: Arc<Follower<read::Jobs>>,
    fleet: Arc<Follower<fleet::Reading>>,
}

impl Metering {
    /// Begins to read the log; ends with `stop`. What became of all GPUs is written down in a file.
    pub fn start(brain: Brain, file: Option<PathBuf>, stop: CancellationToken) -> Metering {
        let inner = Arc::new(Inner {
            since: brain.now(),
            attempts: Mutex::default(),
            recents: Mutex::default(),
            lasts: Mutex::default(),
            gauges: Mutex::default(),
            tally: tally::Tally::new(brain.durable()),
            brain,
        });
        let jobs = read::follow(inner.clone(), stop.clone());
        let fleet = fleet::follow(inner.clone(), file, stop);
        Metering { inner, jobs, fleet }
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        // Nothing panics while holding it.
        self.inner.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recents(&self) -> MutexGuard<'_, Recents> {
        self.inner.recents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where an attempt stands when it is heard of for the first time.
    fn note_placement(&self, key: AttemptKey) {
        if self.recents().knows(key) {
            return;
        }
        if let Some(placement) = self.inner.brain.read(|s| recent::placed(s, key)) {
            self.recents().begin(key, placement);
        }
    }

    /// When this server began to hear ranks and GPUs.
    pub fn since(&self) -> Time {
        self.inner.since
    }

    /// The last minutes of a job's attempt: the one that is named, or the newest.
    pub fn recent(&self, job: JobId, attempt: Option<u32>) -> Option<(u32, Recent)> {
        self.recents().of(job, attempt)
    }

    /// A rank made a step.
    pub fn step(
        &self,
        key: AttemptKey,
        rank: u32,
        at: Time,
        step: u64,
        t: Option<f64>,
        stages: &BTreeMap<String, f64>,
    ) {
        self.attempts().step(key, rank, at, step, t, stages);
        self.note_placement(key);
        if let Some(took) = step_seconds(t, stages).and_then(received::micros) {
            self.recents().step(key, rank, at, took);
        }
    }

    /// A checkpoint was written.
    pub fn checkpoint(&self, key: AttemptKey, at: Time, blocked_s: Option<f64>) {
        let blocked = blocked_s.and_then(received::micros).unwrap_or(0) / 1000;
        self.attempts().checkpoint(key, at, Span(blocked));
        self.recents().checkpoint(key, at, Span(blocked));
    }

    /// A node reported its GPUs.
    pub fn row(&self, node: &NodeName, at: Time, columns: &Columns, values: &[f32]) {
        self.inner.lasts().row(node, self.inner.brain.now(), columns, values);
        let held = self.inner.brain.read(|s| received::held(s, node));
        if !held.is_empty() {
            self.attempts().row(node, at, columns, values, &held);
            held.iter().for_each(|(key, _)| self.note_placement(*key));
        }
    }

    /// Where a job's time went, by the log as it stands now.
    pub async fn job_metrics(&self, job: &Job) -> JobMetrics {
        let life = {
            let (jobs, _) = self.jobs.caught_up(usize::MAX).await;
            jobs.lives.get(job.id).cloned()
        };
        let now = self.inner.brain.now();
        let attempts = self.attempts();
        let reported = attempts.of(job.id);
        let began = |no: u32| {
            let current = job.attempt.as_ref().filter(|a| a.no == no).map(|a| a.placed_at);
            let past = || job.past.iter().find(|p| p.no == no).map(|p| p.placed_at);
            let read = || life.as_ref()?.attempts.iter().find(|a| a.no == no).map(|a| a.placed_at);
            current.or_else(past).or_else(read)
        };
        let whole = |no: u32| began(no).is_some_and(|t| t >= self.inner.since);
        let heard = reported.iter().map(|(no, a)| {
            let working_at = a.first().filter(|_| whole(*no));
            (*no, AttemptObservation { working_at, idle: a.idle(now) })
        });
        let heard: BTreeMap<u32, AttemptObservation> = heard.collect();
        let of = |no: u32| whole(no);
        let used = reported.iter().rev().find_map(|(no, a)| {
            Some(AttemptMetric { attempt: *no, what: a.used()?, whole: of(*no) })
        });
        let pace = reported.iter().rev().find_map(|(no, a)| {
            Some(AttemptMetric { attempt: *no, what: a.pace()?, whole: of(*no) })
        });
        drop(attempts);
        let goodput = goodput(job, life.as_ref(), &heard, now);
        // Before its first attempt there was nothing to hear.
        let first = goodput.attempts.first().and_then(|a| began(a.no));
        let since = Some(self.inner.since).filter(|t| first.is_some_and(|f| f < *t));
        JobMetrics { goodput, since, used, pace }
    }

    /// What became of all GPUs between two moments; without an end, up to now.
    pub async fn fleet(
        &self,
        span: impl FnOnce(Time) -> (Time, Time),
        step: Step,
        project: Option<&str>,
    ) -> FleetUsage {
        let (mut reading, complete) = self.fleet.caught_up(fleet::PATIENCE).await;
        if complete {
            reading.look(self.inner.brain.now());
        }
        let fleet = &reading.fleet;
        // What was not read yet did not happen: its time stops there.
        let now = if complete { self.inner.brain.now().max(fleet.at()) } else { fleet.at() };
        let heard = fleet::hearing(&self.inner);
        let report = fleet.report(now, span(now), step, project, &|k| heard.get(&k).cloned());
        FleetUsage {
            report,
            supply: fleet.supply(),
            forecast: fleet.forecast(now),
            since: fleet.since(),
            seen_since: fleet.seen_since(),
            now,
            complete,
        }
    }

    /// What became of GPUs in the last day, as it was when last looked at.
    pub fn gauges(&self) -> Arc<Gauges> {
        self.inner.gauges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Jobs that came and ended since this server began.
    pub fn counts(&self) -> tally::Counts {
        self.inner.tally.counts()
    }

    /// How long jobs waited for their first place, by priority class.
    pub fn waits(&self) -> Vec<(&'static str, Histogram)> {
        self.inner.tally.waits()
    }

    /// How telemetry stands now.
    pub fn telemetry_status(&self) -> TelemetryStatus {
        self.inner.lasts().telemetry_status(self.inner.brain.now())
    }
}
