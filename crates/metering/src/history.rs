//! The histories of jobs by the log: a fold over its records that keeps only what metrics
//! need, and what the state knows where the log was not read from the beginning.

use crate::allocated::{Allocated, mig_milli};
use crate::signs::FailureSigns;
use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::job::{Attempt, Checkpoint, Job, PastAttempt, StopReason, Verdict};
use muster_model::names::NodeName;
use muster_model::spec::{GpuPart, Group};
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// Attempts of one job that are kept; a job with more reports only of the newest.
const KEPT: usize = 4096;

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttemptHistory {
    /// Counts from 1.
    pub no: u32,
    /// GPUs it held, until its ranks ended.
    pub held: Allocated,
    /// When it was placed.
    pub placed_at: Time,
    /// When every rank was up.
    pub started_at: Option<Time>,
    /// When it made its first step, where that is known and it had not saved before.
    pub working_at: Option<Time>,
    /// The first sign of what it is stopped for, where there was one before the order.
    pub sign_at: Option<Time>,
    /// When it was ordered to stop.
    pub stop_at: Option<Time>,
    /// The last heartbeat of the lost node that it is stopped for: nobody knows that all its ranks
    /// were up after that.
    pub lost_at: Option<Time>,
    /// The order is one that ends the job.
    pub stops_job: bool,
    /// When its last rank ended, where that is known: its end may be settled later.
    pub freed_at: Option<Time>,
    /// When its end was settled.
    pub ended_at: Option<Time>,
    /// The job went back to the queue after it: however it ends later, it does not end with this one.
    pub requeued: bool,
    /// What its end is attributed to.
    pub verdict: Option<Verdict>,
    /// Checkpoints it wrote.
    pub checkpoints: u32,
    /// When it reported the first.
    pub first_saved_at: Option<Time>,
    /// When it reported the last.
    pub saved_at: Option<Time>,
    /// How long checkpoints held it up, all before `saved_at`.
    pub blocked: Span,
    /// Only what the state keeps is known of it: its checkpoints and its order to stop may be
    /// missing.
    pub partial: bool,
}

impl AttemptHistory {
    /// When what ended it began: the way back from it is counted from there on.
    pub(crate) fn hit_at(&self) -> Option<Time> {
        // Ranks may have ended before a server heard of it and ordered the rest to stop.
        let reported = [self.stop_at, self.freed_at].into_iter().flatten().min();
        self.sign_at.or(reported).or(self.ended_at)
    }

    /// There was a sign of it so early. What was wrong before it was placed did not hit it yet.
    fn signed(&mut self, at: Time) {
        let at = at.max(self.placed_at);
        self.sign_at = Some(self.hit_at().map_or(at, |t| t.min(at)));
    }

    fn saved(&mut self, c: &Checkpoint) {
        // What is reported late, or twice by several ranks, must not count twice.
        let from = self.saved_at.or(self.started_at).unwrap_or(self.placed_at);
        let most = c.at.since(from);
        let reported = Span(c.blocked_ms.unwrap_or(0));
        self.blocked = Span(self.blocked.0.saturating_add(reported.min(most).0));
        self.first_saved_at.get_or_insert(c.at);
        self.saved_at = Some(self.saved_at.map_or(c.at, |t| t.max(c.at)));
        self.checkpoints = self.checkpoints.saturating_add(1);
    }

    fn of_past(p: &PastAttempt, milli: u64) -> AttemptHistory {
        AttemptHistory {
            no: p.no,
            held: Allocated::until(milli, p.freed()),
            placed_at: p.placed_at,
            started_at: p.started_at,
            lost_at: p.stopped_at,
            freed_at: Some(p.freed()),
            ended_at: Some(p.ended_at),
            verdict: Some(p.verdict),
            partial: true,
            ..AttemptHistory::default()
        }
    }

    fn of_current(a: &Attempt) -> AttemptHistory {
        AttemptHistory {
            no: a.no,
            held: Allocated::of_attempt(a),
            placed_at: a.placed_at,
            started_at: a.started_at,
            stop_at: a.stop.as_ref().map(|s| s.at),
            lost_at: lost_at(a),
            stops_job: a.stop.as_ref().is_some_and(|s| ends_job(&s.reason)),
            freed_at: a.freed_at,
            partial: true,
            ..AttemptHistory::default()
        }
    }
}

/// The last heartbeat of the lost node that an attempt is stopped for.
pub(crate) fn lost_at(a: &Attempt) -> Option<Time> {
    let lost = a.stop.as_ref().is_some_and(|s| is_loss(&s.reason));
    a.lost_at.filter(|_| lost)
}

/// Is an attempt that is stopped for this one that lost a node?
pub(crate) fn is_loss(reason: &StopReason) -> bool {
    matches!(reason, StopReason::NodeLost { .. })
}

/// Does an attempt that is stopped for this leave no other behind?
pub(crate) fn ends_job(reason: &StopReason) -> bool {
    matches!(reason, StopReason::Cancelled { .. } | StopReason::TimeLimit { .. })
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobHistory {
    /// Its attempts that were read, oldest first.
    pub attempts: Vec<AttemptHistory>,
    /// Stretches in which it had ended, each up to the order to run it again.
    pub gaps: Vec<(Time, Time)>,
    /// When it ended, while it has.
    pub over_at: Option<Time>,
    /// Stretches in which a person held it.
    pub holds: Vec<(Time, Time)>,
    /// Since when a person holds it.
    pub held_at: Option<Time>,
}

impl JobHistory {
    /// It is not held any more.
    fn release(&mut self, at: Time) {
        if let Some(from) = self.held_at.take() {
            if self.holds.len() >= KEPT {
                self.holds.remove(0);
            }
            self.holds.push((from, at));
        }
    }

    fn attempt(&mut self, no: u32) -> Option<&mut AttemptHistory> {
        self.attempts.iter_mut().rev().find(|a| a.no == no)
    }

    /// What was read of a job together with what the state knows of it: attempts from before the
    /// reading began, and what happened since it last went on.
    #[must_use]
    pub fn with(mut self, job: &Job) -> JobHistory {
        let first = self.attempts.first().map_or(u32::MAX, |a| a.no);
        let wanted = wanted_milli(job);
        let earlier = job.past.iter().filter(|p| p.no < first);
        let mut all: Vec<AttemptHistory> =
            earlier.map(|p| AttemptHistory::of_past(p, wanted)).collect();
        let before = all.len();
        all.append(&mut self.attempts);
        for p in job.past.iter().filter(|p| p.no >= first) {
            match all[before..].iter_mut().find(|a| a.no == p.no) {
                Some(a) => {
                    a.ended_at = a.ended_at.or(Some(p.ended_at));
                    a.freed_at = a.freed_at.or(Some(p.freed()));
                    // It may have been judged again.
                    a.verdict = Some(p.verdict);
                }
                None => all.push(AttemptHistory::of_past(p, wanted)),
            }
        }
        if let Some(a) = &job.attempt
            && all.last().is_none_or(|l| l.no < a.no)
        {
            all.push(AttemptHistory::of_current(a));
        }
        if let Some(r) = &job.recovery
            && let Some(a) = all.iter_mut().find(|a| a.no == r.attempt)
        {
            a.sign_at = Some(r.fault_at);
        }
        if let Some(r) = &job.recovery
            && let Some(at) = r.working_at
            && let Some(a) = all.iter_mut().find(|a| a.no > r.attempt && a.started_at.is_some())
            && a.first_saved_at.is_none_or(|s| at < s)
        {
            a.working_at = a.working_at.or(Some(at));
        }
        if let Some(c) = &job.checkpoint
            && let Some(a) = all.iter_mut().find(|a| a.no == c.attempt)
            && a.saved_at.is_none_or(|t| t < c.at)
        {
            a.saved(c);
        }
        // It may have been held before the reading began.
        self.held_at = self.held_at.or(job.held_since());
        JobHistory { attempts: all, ..self }
    }
}

/// The lives of all jobs that had an attempt or an end, or were held.
#[derive(Debug, Clone, Default)]
pub struct JobHistories {
    jobs: BTreeMap<JobId, JobHistory>,
    signs: FailureSigns,
}

impl JobHistories {
    /// Folds one record in.
    pub fn apply(&mut self, r: &Record) {
        let at = r.at;
        self.signs.apply(r);
        match &r.event {
            Event::JobSubmitted { id, array, held: true, .. } => {
                for n in 0..array.len().max(1) as u64 {
                    let job = JobId(id.0.saturating_add(n));
                    self.jobs.entry(job).or_default().held_at = Some(at);
                }
            }
            // What the control plane holds is part of the way back.
            Event::JobHeld { job, decided: false, .. } => {
                self.jobs.entry(*job).or_default().held_at.get_or_insert(at);
            }
            Event::JobReleased { job, .. } => {
                if let Some(life) = self.jobs.get_mut(job) {
                    life.release(at);
                }
            }
            Event::JobPlaced { key, placement } => {
                let life = self.jobs.entry(key.job).or_default();
                life.release(at);
                if life.attempts.len() >= KEPT {
                    life.attempts.remove(0);
                }
                life.attempts.push(AttemptHistory {
                    no: key.attempt,
                    held: Allocated::of(placement),
                    placed_at: at,
                    ..AttemptHistory::default()
                });
            }
            Event::AttemptStarted { key, .. } => {
                self.on(key.job, key.attempt, |a| a.started_at = Some(at));
            }
            Event::AttemptProgressed { key } => self.on(key.job, key.attempt, |a| {
                // One that saved had worked.
                if a.first_saved_at.is_none() {
                    a.working_at.get_or_insert(at);
                }
            }),
            Event::StopOrdered { key, reason, .. } => {
                let sign = self.signs.behind(reason);
                self.on(key.job, key.attempt, |a| {
                    if a.stop_at.is_none() {
                        a.stop_at = Some(at);
                        a.lost_at = sign.filter(|_| is_loss(reason));
                        sign.into_iter().for_each(|t| a.signed(t));
                    }
                    a.stops_job = ends_job(reason);
                });
            }
            Event::SlotEnded { key, node, ended_at, .. } => {
                self.on(key.job, key.attempt, |a| {
                    // What a lost node says of an attempt that is over changes nothing of what it held.
                    if a.ended_at.is_none() {
                        a.held.free(node, ended_at.unwrap_or(at));
                        a.freed_at = a.held.freed_at();
                    }
                });
            }
            Event::AttemptEnded { key, verdict, .. } => self.on(key.job, key.attempt, |a| {
                a.ended_at = Some(at);
                a.held.close();
                a.verdict = Some(*verdict);
            }),
            Event::AttemptAttributed { key, verdict, findings, .. } => {
                let sign = self.signs.explained(*verdict, findings);
                self.on(key.job, key.attempt, |a| {
                    a.verdict = Some(*verdict);
                    sign.into_iter().for_each(|t| a.signed(t));
                });
            }
            Event::CheckpointDone { job, checkpoint } => {
                self.on(*job, checkpoint.attempt, |a| a.saved(checkpoint));
            }
            Event::JobSucceeded { job }
            | Event::JobFailed { job, .. }
            | Event::JobCancelled { job, .. } => {
                let life = self.jobs.entry(*job).or_default();
                life.release(at);
                life.over_at = Some(at);
            }
            Event::JobRequeued { job, .. } => {
                let Some(life) = self.jobs.get_mut(job) else { return };
                if let Some(from) = life.over_at.take() {
                    if life.gaps.len() >= KEPT {
                        life.gaps.remove(0);
                    }
                    life.gaps.push((from, at));
                } else if let Some(a) = life.attempts.last_mut().filter(|a| a.ended_at.is_some()) {
                    // One with which the job had ended before stays so.
                    a.requeued |= life.gaps.last().is_none_or(|(from, _)| a.ended_at > Some(*from));
                }
            }
            Event::JobsForgotten { jobs } => {
                for job in jobs {
                    self.jobs.remove(job);
                }
            }
            _ => {}
        }
    }

    fn on(&mut self, job: JobId, no: u32, f: impl FnOnce(&mut AttemptHistory)) {
        // Attempts that were placed before the reading began are the state's to report.
        if let Some(a) = self.jobs.get_mut(&job).and_then(|l| l.attempt(no)) {
            f(a);
        }
    }

    /// What was read of a job.
    #[must_use]
    pub fn get(&self, job: JobId) -> Option<&JobHistory> {
        self.jobs.get(&job)
    }

    /// What is counted as allocated on each node now, in thousandths of GPUs.
    #[must_use]
    pub fn allocated(&self) -> BTreeMap<&NodeName, u64> {
        let mut out = BTreeMap::new();
        // Attempts of a job follow each other; only the last can have anything.
        for (node, milli) in
            self.jobs.values().filter_map(|l| l.attempts.last()).flat_map(|a| a.held.slots())
        {
            *out.entry(node).or_default() += milli;
        }
        out
    }
}

/// GPUs that a job waits for, in thousandths.
#[must_use]
pub fn wanted_milli(job: &Job) -> u64 {
    match (&*job.groups, job.size) {
        // An elastic gang has one group.
        ([g], Some(nodes)) => u64::from(nodes) * node_milli(g),
        (all, _) => gang_milli(all),
    }
}

/// GPUs of a whole gang as it is written, in thousandths.
pub(crate) fn gang_milli(groups: &[Group]) -> u64 {
    groups.iter().map(|g| u64::from(g.nodes) * node_milli(g)).sum()
}

/// GPUs of one node of a group, in thousandths.
pub(crate) fn node_milli(g: &Group) -> u64 {
    match &g.part {
        None => u64::from(g.gpus) * 1000,
        Some(GpuPart::Milli(m)) => u64::from(*m),
        Some(GpuPart::Mig(profile)) => mig_milli(profile, 0),
    }
}
