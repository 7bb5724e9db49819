//! What became of all GPUs, by the hour and by the day: a fold over the log with a fixed bound, that
//! can be written down and taken up again.

use crate::allocated::Allocated;
use crate::days::{Bucket, Calendar, Step, Supply, TelemetryTotals, Work};
use crate::goodput::AttemptObservation;
use crate::history::{ends_job, gang_milli, is_loss, node_milli};
use crate::running::ActiveJob;
use crate::signs::FailureSigns;
use crate::supply::{Counts, Nodes};
use muster_model::event::{Event, Record};
use muster_model::ids::{AttemptKey, JobId, Seq};
use muster_model::job::{AttributionCounts, Job, Verdict};
use muster_model::node::Node;
use muster_model::slo::final_before;
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Jobs that are over and may still be judged anew.
const OVER_KEPT: usize = 20_000;

/// What is known of attempts beside the log.
pub type ObservationLookup<'a> = &'a dyn Fn(AttemptKey) -> Option<AttemptObservation>;

/// Nothing is.
#[must_use]
pub fn no_observation(_: AttemptKey) -> Option<AttemptObservation> {
    None
}

/// A job that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EndedJob {
    going: ActiveJob,
    at: Time,
    /// It failed, and whose doing that was.
    failed: Option<Verdict>,
}

/// What became of all GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fleet {
    /// Read up to here.
    seq: Seq,
    /// The time of that.
    at: Time,
    /// What was before this is not known.
    since: Time,
    /// What GPUs reported before this is not known.
    seen_since: Option<Time>,
    calendar: Calendar,
    jobs: BTreeMap<JobId, ActiveJob>,
    over: BTreeMap<JobId, EndedJob>,
    nodes: Nodes,
    #[serde(default)]
    signs: FailureSigns,
}

/// One hour or day of a report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// Where it begins.
    pub from: Time,
    /// Where it ends: the last one now.
    pub to: Time,
    /// All projects that were asked for together.
    pub work: Work,
    /// By kind of GPU.
    pub supply: BTreeMap<String, Supply>,
    /// What GPUs reported.
    pub seen: TelemetryTotals,
}

/// What became of all GPUs in some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Hours or days, oldest first.
    pub rows: Vec<Row>,
    /// All rows by project.
    pub projects: BTreeMap<String, Work>,
}

impl Fleet {
    /// Begins where a log is not read from its beginning, with the site as it stands there.
    pub fn begin<'a>(
        seq: Seq,
        at: Time,
        jobs: impl IntoIterator<Item = &'a Job>,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> Fleet {
        let open = jobs.into_iter().filter(|j| !j.state.is_final());
        Fleet {
            seq,
            at,
            since: at,
            jobs: open.map(|j| (j.id, ActiveJob::of(j, at))).collect(),
            nodes: Nodes::begin(at, nodes),
            ..Fleet::default()
        }
    }

    /// Read up to here.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The time of the newest record that was read.
    #[must_use]
    pub fn at(&self) -> Time {
        self.at
    }

    /// What was before this is not known.
    #[must_use]
    pub fn since(&self) -> Time {
        self.since
    }

    /// What GPUs reported is known from here on.
    #[must_use]
    pub fn seen_since(&self) -> Option<Time> {
        self.seen_since
    }

    /// GPUs as they stand now, by kind and by why they are out of service.
    #[must_use]
    pub fn supply(&self) -> Counts {
        self.nodes.counts()
    }

    /// GPUs reported about themselves.
    pub fn saw(&mut self, at: Time, seen: &TelemetryTotals) {
        self.seen_since.get_or_insert(at);
        self.calendar.at(at, |b| b.seen.add(seen));
    }

    /// Folds one record in. One that was read already is left out.
    pub fn apply(&mut self, r: &Record, heard: ObservationLookup<'_>) {
        if r.seq <= self.seq {
            return;
        }
        if self.since == Time(0) {
            self.since = r.at;
        }
        self.finish_days(r.at, heard);
        (self.seq, self.at) = (r.seq, self.at.max(r.at));
        self.nodes.apply(r, &mut self.calendar);
        self.signs.apply(r);
        self.apply_job(r, heard);
    }

    /// Reports open jobs' time in days that become final, before anything can change it.
    fn finish_days(&mut self, now: Time, heard: ObservationLookup<'_>) {
        let before = final_before(now);
        if before <= final_before(self.at) {
            return;
        }
        for (id, g) in &mut self.jobs {
            let key = g.attempt.as_ref().map(|a| AttemptKey { job: *id, attempt: a.no });
            g.finish(&mut self.calendar, before, key.and_then(heard).as_ref());
        }
    }

    fn apply_job(&mut self, r: &Record, heard: ObservationLookup<'_>) {
        let (at, c) = (r.at, &mut self.calendar);
        match &r.event {
            Event::JobSubmitted { id, project, spec, groups, depends, array, held, .. } => {
                let tasks = array.len().max(1) as u64;
                let unit = match &**groups {
                    [g] => Some(node_milli(g)),
                    _ => None,
                };
                let one = ActiveJob::new(project.to_string(), gang_milli(groups), unit, at)
                    .barred(*held, *held, !depends.is_empty())
                    .serving(spec.is_service());
                c.at(at, |b| b.work(&one.project).submitted += tasks);
                for n in 0..tasks {
                    self.jobs.insert(JobId(id.0.saturating_add(n)), one.clone());
                }
            }
            Event::JobHeld { job, decided, .. } => {
                self.on(*job, |g, c| g.hold(c, at, true, !*decided));
            }
            Event::JobReleased { job, .. } => self.on(*job, |g, c| g.hold(c, at, false, false)),
            Event::JobResized { job, nodes } => self.on(*job, |g, _| g.resize(*nodes)),
            Event::JobPlaced { key, placement } => {
                let held = Allocated::of(placement);
                self.on(key.job, |g, c| g.place(c, at, key.attempt, held));
            }
            Event::AttemptStarted { key, .. } => self.on_attempt(*key, |g, c| g.start(c, at)),
            Event::SlotEnded { key, node, ended_at, .. } => {
                self.on_attempt(*key, |g, _| g.free(node, ended_at.unwrap_or(at)));
            }
            Event::AttemptProgressed { key } => {
                self.on_attempt(*key, |g, c| g.progress(c, at));
            }
            Event::CheckpointDone { job, checkpoint } => {
                let key = AttemptKey { job: *job, attempt: checkpoint.attempt };
                let heard = heard(key);
                self.on_attempt(key, |g, c| g.save(c, checkpoint, heard.as_ref()));
            }
            Event::StopOrdered { key, reason, .. } => {
                let sign = self.signs.behind(reason);
                self.on_attempt(*key, |g, _| g.stop(at, ends_job(reason), is_loss(reason), sign));
            }
            Event::AttemptEnded { key, verdict, .. } => {
                let heard = heard(*key);
                self.on_attempt(*key, |g, c| g.end(c, at, Some(*verdict), heard.as_ref()));
            }
            Event::AttemptAttributed { key, verdict, findings, .. } => {
                let sign = self.signs.explained(*verdict, findings);
                self.judged(*key, *verdict, sign, at);
            }
            Event::JobRequeued { job, .. } => self.requeued(*job, at),
            Event::JobSucceeded { job } => self.ended(*job, at, Verdict::Success),
            Event::JobFailed { job, .. } => {
                let last = self.jobs.get(job).and_then(|g| g.last).map(|l| l.1);
                // One that failed before it ran was the user's: what it waits for cannot come.
                self.ended(*job, at, last.unwrap_or(Verdict::Application));
            }
            Event::JobCancelled { job, .. } => self.ended(*job, at, Verdict::Operator),
            Event::JobsForgotten { jobs } => {
                for job in jobs {
                    self.jobs.remove(job);
                    self.over.remove(job);
                }
            }
            _ => {}
        }
    }

    fn on(&mut self, job: JobId, f: impl FnOnce(&mut ActiveJob, &mut Calendar)) {
        if let Some(g) = self.jobs.get_mut(&job) {
            f(g, &mut self.calendar);
        }
    }

    fn on_attempt(&mut self, key: AttemptKey, f: impl FnOnce(&mut ActiveJob, &mut Calendar)) {
        self.on(key.job, |g, c| {
            if g.attempt.as_ref().is_some_and(|a| a.no == key.attempt) {
                f(g, c);
            }
        });
    }

    fn ended(&mut self, job: JobId, at: Time, verdict: Verdict) {
        let Some(mut g) = self.jobs.remove(&job) else { return };
        let c = &mut self.calendar;
        g.over(c, at);
        let first = g.attempts <= 1;
        c.at(at, |b| {
            let w = b.work(&g.project);
            match verdict {
                Verdict::Success => {
                    w.succeeded += 1;
                    w.first += u64::from(first);
                }
                Verdict::Operator | Verdict::Scheduler => w.cancelled += 1,
                v => w.failed.of(v).into_iter().for_each(|n| *n += 1),
            }
        });
        let mut none = Work::default();
        let failed = Some(verdict).filter(|v| none.failed.of(*v).is_some());
        if self.over.len() >= OVER_KEPT {
            self.over.pop_first();
        }
        self.over.insert(job, EndedJob { going: g, at, failed });
    }

    /// A job goes on: after an attempt, or after it had ended. An end that was counted stays so.
    fn requeued(&mut self, job: JobId, at: Time) {
        let Some(mut over) = self.over.remove(&job) else {
            self.on(job, |g, c| g.requeue(c));
            return;
        };
        over.going.again(at);
        self.jobs.insert(job, over.going);
    }

    /// An attempt was judged anew; with it the job that it ended.
    fn judged(&mut self, key: AttemptKey, now: Verdict, sign: Option<Time>, reported: Time) {
        let c = &mut self.calendar;
        let (going, over) = match self.over.get_mut(&key.job) {
            Some(o) => (&mut o.going, Some((o.at, &mut o.failed))),
            None => match self.jobs.get_mut(&key.job) {
                Some(g) => (g, None),
                None => return,
            },
        };
        let Some((no, was, at)) = going.last.filter(|l| l.0 == key.attempt) else { return };
        if was == now {
            going.evaluate(no, now, sign);
            return;
        }
        let open_from = final_before(reported);
        let open = |at: Time| at >= open_from;
        if open(at) {
            shift(c, at, &going.project, was, now, |w| &mut w.interrupted);
            if now == Verdict::Success {
                going.was_whole(c, open_from);
            }
        }
        if let Some((at, failed)) = over
            && *failed == Some(was)
            && open(at)
        {
            shift(c, at, &going.project, was, now, |w| &mut w.failed);
            *failed = Some(now);
        }
        going.evaluate(no, now, sign);
    }

    /// What became of all GPUs between two moments, in whole hours or days, up to now.
    #[must_use]
    pub fn report(
        &self,
        now: Time,
        (from, to): (Time, Time),
        step: Step,
        project: Option<&str>,
        heard: ObservationLookup<'_>,
    ) -> Report {
        let now = now.max(self.at);
        // What is not reported yet is reported as it looks now.
        let mut rest = Calendar::default();
        self.nodes.spread(now, &mut rest);
        for (id, g) in &self.jobs {
            if project.is_none_or(|p| g.project == p) {
                let key = g.attempt.as_ref().map(|a| AttemptKey { job: *id, attempt: a.no });
                g.until_now(&mut rest, now, key.and_then(heard).as_ref());
            }
        }
        let ms = step.ms();
        let last = (to.min(now).0.saturating_sub(1)).div_euclid(ms);
        let oldest = now.0.div_euclid(ms) - step.kept() + 1;
        let first = from.max(self.since).0.div_euclid(ms).max(oldest);
        let mut out = Report::default();
        for n in first..=last {
            let mut b = Bucket::default();
            for c in [&self.calendar, &rest] {
                if let Some(part) = c.of(step).get(&n) {
                    b.add(part);
                }
            }
            let mut row = Row {
                from: Time(n.saturating_mul(ms)),
                to: Time(n.saturating_add(1).saturating_mul(ms)).min(now),
                supply: b.supply,
                seen: b.seen,
                ..Row::default()
            };
            for (name, w) in b.work {
                if project.is_none_or(|p| name == p) {
                    row.work.add(&w);
                    out.projects.entry(name).or_default().add(&w);
                }
            }
            out.rows.push(row);
        }
        out
    }
}

/// Counts an end under another verdict.
fn shift(
    c: &mut Calendar,
    at: Time,
    project: &str,
    was: Verdict,
    now: Verdict,
    of: impl Fn(&mut Work) -> &mut AttributionCounts,
) {
    c.at(at, |b| {
        let attribution = of(b.work(project));
        if let Some(n) = attribution.of(was) {
            *n = n.saturating_sub(1);
        }
        if let Some(n) = attribution.of(now) {
            *n += 1;
        }
    });
}
