//! What objectives count, folded by hand from the log: starts of attempts, ends of first attempts and of jobs, and
//! what hardware ended.

use super::Contradictions;
use super::fold::Fold;
use super::moment::MomentAnswers;
use muster_api::Timestamp;
use muster_model::event::{Event, Record};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{StopReason, Verdict};
use muster_model::units::{Span, Time};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const SLOS: &str = "GET /v1/slos";
const LOG: &str = "the log";
/// Ranks are up in time that are up so long after their placement.
const START: Span = Span::mins(2);
const DAY: i64 = 86_400_000;

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    good: u64,
    bad: u64,
}

/// Is an end good or bad? What people and the scheduler end is neither; what a program does itself is not bad.
fn good(verdict: Verdict) -> Option<bool> {
    match verdict {
        Verdict::Success | Verdict::Application => Some(true),
        Verdict::Infrastructure | Verdict::Platform | Verdict::Unknown => Some(false),
        Verdict::Operator | Verdict::Scheduler => None,
    }
}

impl Count {
    fn note(&mut self, good: bool) {
        *(if good { &mut self.good } else { &mut self.bad }) += 1;
    }

    fn end(&mut self, verdict: Verdict) {
        good(verdict).into_iter().for_each(|good| self.note(good));
    }

    /// An end is attributed to somebody else. What did not count before does not count now.
    fn amend(&mut self, was: Verdict, is: Verdict) {
        match (good(was), good(is)) {
            (Some(true), Some(false)) if self.good > 0 => {
                (self.good, self.bad) = (self.good - 1, self.bad + 1);
            }
            (Some(false), Some(true)) if self.bad > 0 => {
                (self.good, self.bad) = (self.good + 1, self.bad - 1);
            }
            _ => {}
        }
    }
}

#[derive(Debug, Clone)]
struct Active {
    no: u32,
    placed_at: Time,
    started: bool,
    stop: Option<StopReason>,
}

#[derive(Debug, Clone)]
struct Past {
    no: u32,
    verdict: Verdict,
    at: Time,
    /// It ended only because its site did, with which it starts again.
    with_site: bool,
}

#[derive(Debug, Clone, Default)]
struct Job {
    simulated: bool,
    attempt: Option<Active>,
    past: Vec<Past>,
    failed_at: Option<Time>,
}

/// What is counted.
#[derive(Debug, Default)]
pub(super) struct Indicators {
    starts: Count,
    first_attempts: Count,
    ends: Count,
    jobs: BTreeMap<JobId, Job>,
    /// Attempts that hardware ended, as was known at some time.
    hardware: BTreeSet<AttemptKey>,
    /// Objectives were set: counting began in the middle of the log.
    set: bool,
}

impl Indicators {
    pub(super) fn take(&mut self, r: &Record) {
        match &r.event {
            Event::ObjectivesSet { .. } => self.set = true,
            Event::JobSubmitted { id, array, spec, .. } => {
                for n in 0..array.len().max(1) as u64 {
                    let job = Job { simulated: spec.simulate.is_some(), ..Job::default() };
                    self.jobs.insert(JobId(id.0 + n), job);
                }
            }
            Event::JobPlaced { key, .. } => {
                let (no, placed_at) = (key.attempt, r.at);
                let attempt = Active { no, placed_at, started: false, stop: None };
                self.job(key.job).attempt = Some(attempt);
            }
            Event::AttemptStarted { key, .. } => {
                if let Some(a) = self.active(*key) {
                    a.started = true;
                    let late = r.at.since(a.placed_at) > START;
                    self.starts.note(!late);
                }
            }
            Event::StopOrdered { key, reason, .. } => {
                if let Some(a) = self.active(*key) {
                    a.stop = Some(reason.clone());
                }
            }
            Event::AttemptEnded { key, verdict, .. } => self.attempt_ended(*key, *verdict, r.at),
            Event::AttemptAttributed { key, verdict, .. } => {
                self.attributed(*key, *verdict, r.at);
            }
            Event::JobSucceeded { job } => self.ended(*job, Verdict::Success),
            Event::JobFailed { job, .. } => {
                let last = self.job(*job).past.last().map(|p| p.verdict);
                self.ended(*job, last.unwrap_or(Verdict::Application));
                self.job(*job).failed_at = Some(r.at);
            }
            Event::JobCancelled { job, .. } | Event::JobRequeued { job, .. } => {
                self.job(*job).failed_at = None;
            }
            _ => {}
        }
    }

    fn job(&mut self, id: JobId) -> &mut Job {
        self.jobs.entry(id).or_default()
    }

    fn active(&mut self, key: AttemptKey) -> Option<&mut Active> {
        self.job(key.job).attempt.as_mut().filter(|a| a.no == key.attempt)
    }

    fn attempt_ended(&mut self, key: AttemptKey, verdict: Verdict, at: Time) {
        let job = self.job(key.job);
        let Some(a) = job.attempt.take_if(|a| a.no == key.attempt) else { return };
        let anew = |s: &StopReason| match s {
            StopReason::SlotFailed { end, .. } => end.is_agent_anew(),
            _ => false,
        };
        let with_site = job.simulated && a.stop.as_ref().is_some_and(anew);
        job.past.push(Past { no: a.no, verdict, at, with_site });
        if a.no == 1 && !with_site {
            self.first_attempts.end(verdict);
        }
        if verdict == Verdict::Infrastructure {
            self.hardware.insert(key);
        }
    }

    fn ended(&mut self, id: JobId, verdict: Verdict) {
        let job = self.job(id);
        job.failed_at = None;
        if !job.past.last().is_some_and(|p| p.with_site) {
            self.ends.end(verdict);
        }
    }

    fn attributed(&mut self, key: AttemptKey, verdict: Verdict, reported: Time) {
        let job = self.job(key.job);
        let (last, failed_at) = (job.past.last().map(|p| p.no), job.failed_at);
        let Some(past) = job.past.iter_mut().find(|p| p.no == key.attempt) else { return };
        let (was, at, with_site) = (past.verdict, past.at, past.with_site);
        past.verdict = verdict;
        if verdict == Verdict::Infrastructure {
            self.hardware.insert(key);
        }
        // Days before yesterday are final.
        let open = |at: Time| at.0 >= (reported.0 - DAY).div_euclid(DAY) * DAY;
        if key.attempt == 1 && !with_site && open(at) {
            self.first_attempts.amend(was, verdict);
        }
        if last == Some(key.attempt) && !with_site && failed_at.is_some_and(open) {
            self.ends.amend(was, verdict);
        }
    }

    /// Starts, and what is late already.
    fn starts(&self, now: Time) -> Count {
        let active = self.jobs.values().filter_map(|j| j.attempt.as_ref());
        let late = active.filter(|a| !a.started && now.since(a.placed_at) > START);
        Count { bad: self.starts.bad + late.count() as u64, ..self.starts }
    }

    /// Attempts that jobs may come back from that hardware ended.
    fn interrupted(&self) -> usize {
        let stops = |j: &&Job| j.attempt.as_ref().is_some_and(|a| a.stop.is_some());
        self.hardware.len() + self.jobs.values().filter(stops).count()
    }
}

/// Objectives have as many good ones, and as many in all, as the log.
pub(super) fn counts(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let known = &log.indicators;
    if known.set {
        return;
    }
    for slo in &said.slos {
        let name = slo["id"].as_str().unwrap_or_default();
        let at = slo["as_of"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
        let count = match (name, at) {
            ("start", Some(at)) => known.starts(at.0),
            ("first-attempts", _) => known.first_attempts,
            ("job-success", _) => known.ends,
            ("recovery", _) => {
                // Each way back counts once, and there is none from what hardware did not end.
                let most = known.interrupted() as u64;
                let few = slo["total"].as_u64().is_some_and(|total| total <= most);
                let what = format!("objective recovery: hardware ended {most} attempts at most");
                wrong.holds(few, what, SLOS, slo);
                continue;
            }
            _ => continue,
        };
        let shown = json!([slo["good"], slo["total"]]);
        let counted = json!([count.good, count.good + count.bad]);
        let what = format!("objective {name}: how many are good, and how many there are");
        wrong.same(what, (SLOS, shown), (LOG, counted));
    }
}
