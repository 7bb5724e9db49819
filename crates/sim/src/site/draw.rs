//! Work for the twin: what runs and waits now, with run times where they are known and guesses
//! where they are not, and what will come, taken from what came.

use super::Site;
use super::facts::{End, SubmittedJob};
use super::machines::Kinds;
use crate::arrivals::{Arrival, Source};
use crate::chance::{Chance, millis};
use crate::scenario::Delay;
use muster_model::ids::JobId;
use muster_model::job::{Job, JobState, StopReason};
use muster_model::names::ProjectName;
use muster_model::spec::{CheckpointRequest, CheckpointSpec, JobSpec, Simulate};
use muster_model::units::Span;
use std::collections::BTreeMap;

/// What waits comes this long after what runs, so that it finds it running.
const AFTER: Span = Span::secs(2);
/// What is assumed of a job of which nothing at all is known.
const UNKNOWN: Delay = Delay { median: Span::hours(2), p95: Some(Span::hours(8)) };
/// Others that a job may name as its condition.
const MOST_CONDITIONS: usize = 60;

/// What a job of the twin stands for, shown by the first letter of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SimulatedJobRole {
    Running,
    Waiting,
    Coming,
}

impl SimulatedJobRole {
    pub(crate) fn of(name: &str) -> SimulatedJobRole {
        match name.as_bytes().first() {
            Some(b'r') => SimulatedJobRole::Running,
            Some(b'w') => SimulatedJobRole::Waiting,
            _ => SimulatedJobRole::Coming,
        }
    }
}

/// A job of the twin by its name, which is the same in every run of a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SimulatedJob {
    pub(crate) role: SimulatedJobRole,
    number: u64,
}

impl SimulatedJob {
    pub(crate) fn of(name: &str) -> SimulatedJob {
        let number = name.get(1..).and_then(|n| n.parse().ok()).unwrap_or(u64::MAX);
        SimulatedJob { role: SimulatedJobRole::of(name), number }
    }

    /// The job of the site that it stands for, if it is there now.
    pub(crate) fn present(self) -> Option<JobId> {
        (self.role != SimulatedJobRole::Coming).then_some(JobId(self.number))
    }

    /// The same, if that one waits.
    pub(crate) fn waiting(self) -> Option<JobId> {
        (self.role == SimulatedJobRole::Waiting).then_some(JobId(self.number))
    }
}

/// Draws work for one plan.
#[derive(Debug)]
pub(crate) struct Draw<'a> {
    site: &'a Site,
    kinds: &'a Kinds,
    /// Every job that saves does so this often.
    checkpoint: Option<Span>,
    pace: f64,
    cost: Span,
    /// Runs of each user's jobs, by how wide they were.
    runs: BTreeMap<(&'a ProjectName, &'a str), Vec<(u64, Span)>>,
}

impl<'a> Draw<'a> {
    pub(crate) fn new(site: &'a Site, kinds: &'a Kinds, checkpoint: Option<Span>) -> Draw<'a> {
        let mut runs: BTreeMap<_, Vec<(u64, Span)>> = BTreeMap::new();
        for j in site.facts.jobs.values() {
            if let Some(run) = j.own_run() {
                runs.entry((&j.project, j.user.as_str())).or_default().push((j.width(), run));
            }
        }
        let blocked = &site.facts.blocked;
        let reported =
            (!blocked.is_empty()).then(|| Span(blocked.iter().sum::<u64>() / blocked.len() as u64));
        Draw {
            site,
            kinds,
            checkpoint,
            pace: site.facts.pace(),
            cost: reported.unwrap_or(site.state.policy.reliability.checkpoint_cost),
            runs,
        }
    }

    /// What is there now: running, then waiting in the order of the queue.
    pub(crate) fn present(&self, seed: u64) -> Vec<Arrival> {
        let state = &self.site.state;
        let going = |j: &&Job| j.state.is_active() && !leaves(j) && !again(j);
        let jobs = || state.jobs.values().map(AsRef::as_ref);
        let mut names: BTreeMap<JobId, String> = BTreeMap::new();
        let mut out = Vec::new();
        for j in jobs().filter(going) {
            names.insert(j.id, format!("r{}", j.id));
            out.push(self.running(j, seed));
        }
        // Those that go back to the queue have been there before the others.
        let back = jobs().filter(|j| again(j) && !leaves(j));
        let queue = state.queue().filter_map(|id| state.jobs.get(&id)).map(AsRef::as_ref);
        let later = jobs().filter(|j| j.state == JobState::Queued && j.held.is_none());
        let (mut first, mut then): (Vec<Arrival>, Vec<Arrival>) = (Vec::new(), Vec::new());
        for j in back.chain(queue).chain(later) {
            if names.insert(j.id, format!("w{}", j.id)).is_some() {
                continue;
            }
            let a = self.waiting(j, seed, &names);
            if a.spec.after.is_empty() { first.push(a) } else { then.push(a) }
        }
        out.extend(first);
        out.extend(then);
        out
    }

    fn running(&self, j: &Job, seed: u64) -> Arrival {
        let since = j.attempt.as_ref().and_then(|a| a.started_at).unwrap_or(self.site.now);
        let elapsed = self.site.now.since(since);
        let mut chance = Chance::new(seed, &["site", "job", &j.id.to_string()]);
        let left = match self.site.facts.jobs.get(&j.id) {
            Some(came) => Span(self.run(came, elapsed, &mut chance).0.saturating_sub(elapsed.0)),
            None => UNKNOWN.median,
        };
        let code = j.spec.simulate.as_ref().map_or(0, |s| s.exit_code);
        let mut spec = self.work(&j.spec.whole(), &j.project, format!("r{}", j.id), left, code);
        let minute = Span::mins(1).0;
        spec.time_limit =
            j.spec.time_limit.map(|l| Span(l.0.saturating_sub(elapsed.0).max(minute)));
        Arrival { at: Span(0), user: j.user.clone(), spec, load: 1.0 }
    }

    fn waiting(&self, j: &Job, seed: u64, names: &BTreeMap<JobId, String>) -> Arrival {
        let mut chance = Chance::new(seed, &["site", "job", &j.id.to_string()]);
        let run = match self.site.facts.jobs.get(&j.id) {
            Some(came) => self.run(came, Span(0), &mut chance),
            None => UNKNOWN.median,
        };
        let code = j.spec.simulate.as_ref().map_or(0, |s| s.exit_code);
        let mut spec = self.work(&j.spec.whole(), &j.project, format!("w{}", j.id), run, code);
        let of = |d: &muster_model::job::Dependency| {
            let how = match d.condition {
                muster_model::job::Condition::Ok => "ok",
                muster_model::job::Condition::Fail if d.count == 1 => "fail",
                // Of an array one failure is enough: here its tasks are jobs of their own, and
                // that they have ended is as much as can be asked of each.
                muster_model::job::Condition::Fail | muster_model::job::Condition::Any => "any",
            };
            let ids = (d.job.0..d.job.0 + u64::from(d.count)).map(JobId);
            ids.filter_map(|id| names.get(&id).map(|n| format!("{n}:{how}"))).collect::<Vec<_>>()
        };
        // What has ended already is no condition any more.
        spec.after = j.depends.iter().flat_map(of).take(MOST_CONDITIONS).collect();
        Arrival { at: AFTER, user: j.user.clone(), spec, load: 1.0 }
    }

    /// What will come: whole days of the log (hours of a short one), drawn by chance, so that
    /// bursts and the rhythm of the day stay as they are.
    pub(crate) fn coming(&self, seed: u64, horizon: Span) -> Vec<Arrival> {
        let (window, jobs) = self.site.recent();
        if jobs.is_empty() {
            return Vec::new();
        }
        let day = Span::hours(24);
        let block = if window.0 >= 3 * day.0 { day } else { Span::hours(1) };
        let blocks = (window.0 / block.0).max(1);
        let mut by_block: Vec<Vec<(u64, &SubmittedJob)>> = Vec::new();
        by_block.resize_with(usize::try_from(blocks).unwrap_or(1), Vec::new);
        for j in jobs {
            let age = self.site.now.since(j.at).0;
            if let Some(b) = by_block.get_mut(usize::try_from(age / block.0).unwrap_or(usize::MAX))
            {
                b.push((block.0 - age % block.0, j));
            }
        }
        let mut chance = Chance::new(seed, &["site", "coming"]);
        let mut out = Vec::new();
        for b in 0..horizon.0.div_ceil(block.0) {
            let drawn = usize::try_from(chance.below(blocks)).unwrap_or(0);
            for (pos, came) in &by_block[drawn] {
                let at = Span(b * block.0 + pos);
                if at < horizon {
                    let mut own = Chance::new(seed, &["site", "comes", &out.len().to_string()]);
                    out.push(self.comes(came, at, out.len(), &mut own));
                }
            }
        }
        out.sort_by_key(|a| a.at);
        out
    }

    fn comes(&self, came: &SubmittedJob, at: Span, n: usize, chance: &mut Chance) -> Arrival {
        let run = match came.end {
            Some(End::Cancelled) if came.last.0 > 0 => came.last,
            _ => came.own_run().unwrap_or_else(|| self.run(came, Span(0), chance)),
        };
        let code = u8::from(came.end == Some(End::Badly));
        let spec = self.work(&came.spec.whole(), &came.project, format!("a{n}"), run, code);
        Arrival { at: Span(at.0.max(AFTER.0 + 1)), user: came.user.clone(), spec, load: 1.0 }
    }

    /// The jobs of the log as they came, each with the run that it had.
    pub(crate) fn again(&self, seed: u64) -> Source {
        let from = self.site.facts.first;
        let one = |(id, came): (&JobId, &SubmittedJob)| {
            let mut chance = Chance::new(seed, &["site", "job", &id.to_string()]);
            let n = usize::try_from(id.0).unwrap_or(0);
            let mut a = self.comes(came, came.at.since(from), n, &mut chance);
            a.at = came.at.since(from);
            a
        };
        Source::Given(self.site.facts.jobs.iter().map(one).collect::<Vec<_>>().into_iter())
    }

    /// How long a job will have run in the end, of which is known that it ran so long already.
    pub(crate) fn run(&self, came: &SubmittedJob, elapsed: Span, chance: &mut Chance) -> Span {
        if let Some(s) = &came.spec.simulate {
            return self.paced(Span(s.run.0 + s.startup.0)).max(Span(elapsed.0 + SECOND.0));
        }
        let limit = came.spec.time_limit;
        let guess = self.guess(came, elapsed, chance).max(Span(elapsed.0 + SECOND.0));
        // Just within its limit: how often jobs run into theirs is not known.
        limit.map_or(guess, |l| guess.min(Span(l.0 / 100 * 98)).max(Span(elapsed.0 + SECOND.0)))
    }

    fn guess(&self, came: &SubmittedJob, elapsed: Span, chance: &mut Chance) -> Span {
        let width = came.width();
        let empty = Vec::new();
        let mine = self.runs.get(&(&came.project, came.user.as_str())).unwrap_or(&empty);
        let longer = |same: bool| -> Vec<Span> {
            let fits = |(w, r): &&(u64, Span)| *r > elapsed && (!same || *w == width);
            mine.iter().filter(fits).map(|(_, r)| *r).collect()
        };
        // One like it, of the same user: the best guess, and the spread comes with it.
        for like in [longer(true), longer(false)] {
            if like.len() >= 3 {
                let i = usize::try_from(chance.below(like.len() as u64)).unwrap_or(0);
                return like[i];
            }
        }
        if let Some(l) = came.spec.time_limit {
            let left = l.0.saturating_sub(elapsed.0);
            return Span(elapsed.0 + millis(left as f64 * chance.even()).0);
        }
        // Of what lasted so long already, some more.
        let drawn = (0..16).map(|_| chance.delay(&UNKNOWN)).find(|d| *d > elapsed);
        drawn.unwrap_or_else(|| Span(elapsed.0 + millis(elapsed.0 as f64 * chance.even()).0))
    }

    fn paced(&self, s: Span) -> Span {
        millis(s.0 as f64 * self.pace)
    }

    /// A job of the log as one of the twin's.
    fn work(
        &self,
        spec: &JobSpec,
        project: &ProjectName,
        name: String,
        run: Span,
        exit_code: u8,
    ) -> JobSpec {
        let old = spec.simulate.clone().unwrap_or_default();
        let simulated = spec.simulate.is_some();
        let saves = spec.checkpoint.is_some() || old.checkpoint.is_some();
        let written = spec.checkpoint.as_ref().and_then(|c| c.interval.as_ref()?.parse().ok());
        let cost = if simulated { self.paced(old.checkpoint_cost) } else { self.cost };
        let every = self
            .checkpoint
            .or_else(|| old.checkpoint.map(|c| self.paced(c)))
            .or(written)
            .filter(|_| saves)
            // More often than it can be done is as often as it can be done.
            .map(|e: Span| Span(e.0.max(2 * cost.0).max(1000)));
        let checkpoint = saves.then(|| CheckpointSpec {
            dir: "/checkpoints".into(),
            request: CheckpointRequest {
                signal: spec.checkpoint.as_ref().and_then(|c| c.request.signal.clone()),
            },
            grace: spec.checkpoint.as_ref().and_then(|c| c.grace),
            interval: Some(every.map_or_else(|| "auto".into(), |e| e.to_string())),
        });
        let startup = self.paced(old.startup).min(Span(run.0 / 2));
        let mut gang = spec.gang.clone();
        let renamed = |s: &Option<String>| s.as_ref().map(|s| self.kinds.names(s));
        gang.sku = renamed(&gang.sku);
        for g in &mut gang.groups {
            g.sku = renamed(&g.sku);
        }
        JobSpec {
            name: name.parse().ok(),
            project: Some(project.clone()),
            gang,
            topology: spec.topology,
            time_limit: spec.time_limit,
            priority: spec.priority,
            tier: spec.tier,
            retries: spec.retries,
            checkpoint,
            on_partition: spec.on_partition,
            elastic: spec.elastic,
            simulate: Some(Simulate {
                run: Span(run.0.saturating_sub(startup.0).max(1000)),
                checkpoint: every,
                startup,
                checkpoint_cost: cost,
                exit_code,
                idle: old.idle,
                step: None,
            }),
            ..JobSpec::default()
        }
    }
}

const SECOND: Span = Span::secs(1);

/// It is being stopped for good.
fn leaves(j: &Job) -> bool {
    let stop = j.attempt.as_ref().and_then(|a| a.stop.as_ref());
    stop.is_some_and(|s| {
        matches!(s.reason, StopReason::Cancelled { .. } | StopReason::TimeLimit { .. })
    })
}

/// It is being stopped, to be started again.
fn again(j: &Job) -> bool {
    j.attempt.as_ref().is_some_and(|a| a.stop.is_some())
}
