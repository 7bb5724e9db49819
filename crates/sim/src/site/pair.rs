//! Two runs of the same seed, counted over the same jobs.

use super::draw::{SimulatedJob, SimulatedJobRole};
use super::limit;
use crate::job_metrics::JobUse;
use crate::outcome::{History, Outcome, Spread};
use crate::spread;
use muster_model::ids::JobId;
use std::collections::{BTreeMap, BTreeSet};

/// What came of one life of a site.
#[derive(Debug, Clone)]
pub struct SimulatedRun {
    /// What came of it: the metrics, over all jobs.
    pub outcome: Outcome,
    /// Its course over time.
    pub history: History,
    /// What is compared, over all jobs; in a pair over those that can run in both.
    pub totals: JobTotals,
    /// Of the jobs that wait now, when those started that did, in seconds from now.
    pub starts: BTreeMap<JobId, f64>,
    /// Jobs that could never run there.
    pub(crate) never: BTreeSet<SimulatedJob>,
    pub(crate) jobs: BTreeMap<SimulatedJob, JobResult>,
    pub(crate) limits: limit::SaturationCounts,
}

/// What is counted over jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobTotals {
    /// Waits from now on, in seconds, of what waits now and what came.
    pub waits: Spread,
    /// Until the last job that is there now was over, in seconds.
    pub queue_s: f64,
    /// Work that counts in the end, of the GPU time that the jobs had.
    pub goodput: f64,
    /// Jobs that reached their end.
    pub jobs_completed: u64,
    /// Interruptions of running work that nobody planned.
    pub interruptions: u64,
    /// Jobs that had not started when it ended; they count with the time that they had waited.
    pub unstarted: u64,
    /// Jobs that were there at the beginning and not over at the end.
    pub unfinished: u64,
}

/// What became of one job of a run, in seconds from its submission and from now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobResult {
    /// Until it started, or until the end of the run.
    pub(crate) waited_s: f64,
    /// Until it was over, or until the end of the run.
    pub(crate) over_s: f64,
    pub(crate) started: bool,
    pub(crate) over: bool,
    pub(crate) used: Option<JobUse>,
}

impl JobTotals {
    pub(crate) fn of(jobs: &BTreeMap<SimulatedJob, JobResult>) -> JobTotals {
        let count = |f: &dyn Fn(&SimulatedJob, &JobResult) -> bool| {
            jobs.iter().filter(|&(j, r)| f(j, r)).count() as u64
        };
        let here = |j: &SimulatedJob| j.role != SimulatedJobRole::Coming;
        let waited = jobs.iter().filter(|(j, _)| j.role != SimulatedJobRole::Running);
        let mut waits: Vec<f64> = waited.map(|(_, r)| r.waited_s).collect();
        let present = jobs.iter().filter(|&(j, _)| here(j));
        let used = || jobs.values().filter_map(|r| r.used.as_ref());
        JobTotals {
            waits: spread(&mut waits),
            queue_s: present.map(|(_, r)| r.over_s).fold(0.0, f64::max),
            goodput: JobUse::goodput(used()),
            jobs_completed: used().filter(|u| u.succeeded).count() as u64,
            interruptions: used().map(|u| u64::from(u.interruptions)).sum(),
            unstarted: count(&|_, r| !r.started && !r.over),
            unfinished: count(&|j, r| here(j) && !r.over),
        }
    }
}

/// The site as it is and as it would be, with the same seed.
#[derive(Debug, Clone)]
pub struct SimulatedPair {
    /// As it is.
    pub base: SimulatedRun,
    /// With the change.
    pub changed: SimulatedRun,
}

impl SimulatedPair {
    /// A job that can never run in one of them is counted in neither: a mean without it would look
    /// better for its loss.
    #[must_use]
    pub fn of(mut base: SimulatedRun, mut changed: SimulatedRun) -> SimulatedPair {
        if base.never != changed.never {
            base.jobs.retain(|j, _| !changed.never.contains(j));
            changed.jobs.retain(|j, _| !base.never.contains(j));
            base.totals = JobTotals::of(&base.jobs);
            changed.totals = JobTotals::of(&changed.jobs);
        }
        // They are only for this: many runs with all their jobs take much memory.
        base.jobs.clear();
        changed.jobs.clear();
        SimulatedPair { base, changed }
    }
}
