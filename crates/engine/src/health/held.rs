//! Jobs behind the breaker of their template or image: they wait, one is let through as a probe,
//! and all go on when it went well.

use crate::Engine;
use crate::state::State;
use muster_health::breaker::{self, should_trip};
use muster_model::FailureMode;
use muster_model::breaker::{Breaker, BreakerState, Probe};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::hold::{HeldBy, Hold};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{CRASHED_WITHIN, Job, JobState, PastAttempt, Verdict};
use muster_model::names::ProjectName;
use muster_model::spec::JobSpec;
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// So many crashes in a row of one job open its template's breaker.
const CRASHES: u32 = 5;
/// Different nodes on which work must have failed: on fewer, it may be the nodes.
const NODES: u32 = 3;
/// Why a breaker about work closes that nothing waits behind.
pub(super) const UNUSED: &str = "no job of it is left";
/// An image's name that is longer cannot be written down as what a breaker is about.
const NAME_MAX: usize = 500;

/// Jobs of one project that were given one name come from one template. One without a name is on
/// its own.
pub(super) fn template(j: &Job) -> Entity {
    let name = match &j.spec.name {
        Some(n) => n.to_string(),
        None => format!("{}/{}", j.name, j.payload),
    };
    Entity::Template(j.project.clone(), name)
}

/// The image that a job runs in.
pub(super) fn image(spec: &JobSpec) -> Option<Entity> {
    let name = spec.run.image.as_ref()?;
    (!name.is_empty() && name.len() <= NAME_MAX).then(|| Entity::Image(name.clone()))
}

/// What a job is one of.
pub(super) fn of_work(j: &Job) -> impl Iterator<Item = Entity> {
    [Some(template(j)), image(&j.spec)].into_iter().flatten()
}

/// Is it about work, and not about machines?
pub(super) fn is_work(e: &Entity) -> bool {
    matches!(e, Entity::Template(..) | Entity::Image(_))
}

/// Did it run until Muster itself lost it, as with an agent that was started again? That says nothing
/// about the work. One that never came up may be the work's own doing.
fn lost_by_platform(verdict: Verdict, came_up: bool) -> bool {
    verdict == Verdict::Platform && came_up
}

/// The job that is let through.
fn probe_job(b: &Breaker) -> Option<JobId> {
    match &b.probe {
        Some(Probe::Attempt { key }) => key.map(|k| k.job),
        _ => None,
    }
}

impl Engine {
    /// An attempt ended: its work may fail again and again, or have recovered, and so may its node.
    pub(crate) fn work_ended(&mut self, job: &Job, verdict: Verdict, why: &str) {
        for entity in of_work(job) {
            let known = self.state.health.breakers.get(&entity).cloned();
            if let Some(b) = known.filter(|b| probe_job(b) == Some(job.id)) {
                self.probe_ended(&b, job, verdict, why);
            }
        }
        if self.crashed(job, verdict) {
            self.maybe_crash_loop(job, why);
        }
        if matches!(verdict, Verdict::Infrastructure | Verdict::Platform) {
            self.maybe_common(job, why);
        }
    }

    fn crashed(&self, job: &Job, verdict: Verdict) -> bool {
        let now = self.state.now;
        let ran = job.attempt.as_ref().and_then(|a| a.started_at).map(|t| now.since(t));
        !matches!(verdict, Verdict::Success | Verdict::Operator | Verdict::Scheduler)
            && !lost_by_platform(verdict, ran.is_some())
            && ran.is_none_or(|r| r < CRASHED_WITHIN)
    }

    fn probe_ended(&mut self, b: &Breaker, job: &Job, verdict: Verdict, why: &str) {
        let now = self.state.now;
        let past = self.state.jobs.get(&job.id).and_then(|j| j.past.last());
        // Unless nodes that become unhealthy under it are what opened it.
        let unhealthy = past.is_some_and(|p| !p.findings.is_empty()) && b.because_of.is_none();
        let own = match b.entity {
            // What it ran came up and failed by itself: that is not the image.
            Entity::Image(_) => {
                !matches!(verdict, Verdict::Application) && self.crashed(job, verdict)
            }
            _ => self.crashed(job, verdict),
        };
        // One that was stopped by others, or by unhealthy hardware, says nothing.
        let says_nothing = match verdict {
            Verdict::Operator | Verdict::Scheduler => true,
            Verdict::Success => false,
            _ => {
                unhealthy || lost_by_platform(verdict, past.is_some_and(|p| p.started_at.is_some()))
            }
        };
        let next = if says_nothing {
            breaker::reopen_after_probe(b, now, why.to_owned())
        } else {
            breaker::probed(b, now, !own, why.to_owned())
        };
        self.set_breaker(next, false);
    }

    /// A job that crashes again and again is not started for ever.
    fn maybe_crash_loop(&mut self, job: &Job, why: &str) {
        // This one, and those before it that crashed, newest first.
        let quick = |p: &&PastAttempt| {
            p.started_at.is_none_or(|t| p.freed().since(t) < CRASHED_WITHIN)
                && matches!(
                    p.verdict,
                    Verdict::Application
                        | Verdict::Infrastructure
                        | Verdict::Platform
                        | Verdict::Unknown
                )
        };
        let of_its_own = |p: &&PastAttempt| !lost_by_platform(p.verdict, p.started_at.is_some());
        let row = job.past.iter().rev().filter(of_its_own).take_while(quick).count();
        let row = u32::try_from(row).unwrap_or(u32::MAX).saturating_add(1);
        if row < CRASHES {
            return;
        }
        let reason = format!("{row} attempts of job {} crashed in a row; the last: {why}", job.id);
        let entity = Entity::Job(job.id);
        let seen = ObservedFinding::new(
            FailureMode::CRASH_LOOP.code(),
            entity,
            Severity::Warning,
            self.state.now,
        );
        self.found(seen.because(reason.clone()), true);
        self.open_breaker(template(job), &reason, None);
    }

    /// A job that has ended crashes no more. Its template's breaker is not needed either, where it
    /// is on its own; of one with a name the next job is the probe.
    pub(super) fn end_crash_loops(&mut self) {
        for id in std::mem::take(&mut self.work.ended) {
            let job = self.state.jobs.get(&id).cloned();
            if job.as_ref().is_some_and(|j| !j.state.is_final()) {
                continue;
            }
            let code = FailureMode::CRASH_LOOP.code();
            let found = self.state.health.open_of(&Entity::Job(id), code).map(|f| f.id);
            if let Some(finding) = found {
                self.close_finding(finding, "the job has ended", true);
            }
            let alone = job.filter(|j| j.spec.name.is_none()).map(|j| template(&j));
            let known = alone.and_then(|e| self.state.health.breakers.get(&e)).cloned();
            let shut = |b: &Arc<Breaker>| b.state != BreakerState::Closed && b.pinned.is_none();
            if let Some(b) = known.filter(shut)
                && self.is_unused(&b.entity)
            {
                let now = self.state.now;
                let half = breaker::half_open(&b, now, Probe::Attempt { key: None });
                let next = breaker::probed(&half, now, true, UNUSED.to_owned());
                self.set_breaker(next, false);
            }
        }
    }

    /// Is no job left that a breaker about work could keep from starting?
    pub(super) fn is_unused(&self, entity: &Entity) -> bool {
        let b = self.state.health.breakers.get(entity);
        let concerned = |j: &&Arc<Job>| b.is_none_or(|b| b.concerns(&j.project));
        let left = self.state.jobs.values().filter(|j| !j.state.is_final());
        !left.filter(concerned).any(|j| of_work(j).any(|e| e == *entity))
    }

    /// Failures that nothing explains may have an image, a template or a node in common.
    fn maybe_common(&mut self, job: &Job, why: &str) {
        let now = self.state.now;
        let counts = &self.state.health.counts;
        let of =
            |e: &Entity| counts.get(e).map_or((0, 0), |c| (c.failures(e, now), c.nodes(e, now)));
        let (site, _) = of(&Entity::Site);
        let mut open = Vec::new();
        for e in of_work(job) {
            let (failures, nodes) = of(&e);
            // Where other work fails just as much, it is not this.
            let jobs = counts.get(&e).map_or(0, |c| c.failures(&Entity::Site, now));
            if should_trip(&e, failures, 0, 0) && nodes >= NODES && jobs.saturating_mul(2) > site {
                let mut why =
                    format!("{failures} failures on {nodes} nodes that nothing else explains");
                let project = self.only_project_that_failed(&e);
                if let Some(project) = &project {
                    why += &format!(", all of project {project}");
                }
                open.push((e, why, project));
            }
        }
        if open.is_empty()
            && let Some(muster_model::job::StopReason::SlotFailed { node, .. }) =
                job.attempt.as_ref().and_then(|a| a.stop.as_ref()).map(|s| &s.reason)
        {
            let e = Entity::Node(node.clone());
            let (failures, _) = of(&e);
            if should_trip(&e, failures, 0, 0) {
                let why = format!("{failures} jobs failed on it, and no finding says why");
                open.push((e, why, None));
            }
        }
        for (e, what, project) in open {
            self.open_breaker_for(e, &format!("{what}; the last: {why}"), None, project);
        }
    }

    /// The project whose jobs alone failed with an image. One project's failures keep nobody else's
    /// work from starting: what they have in common may be the project's own.
    fn only_project_that_failed(&self, entity: &Entity) -> Option<ProjectName> {
        let (count, now) = (self.state.health.counts.get(entity)?, self.state.now);
        if !matches!(entity, Entity::Image(_)) {
            return None;
        }
        let jobs = count.jobs(entity, now).filter_map(|id| self.state.jobs.get(&id));
        let mut projects = jobs.map(|j| &j.project);
        let first = projects.next()?;
        projects.all(|p| p == first).then(|| first.clone())
    }

    /// A job that is to be started does not, while a breaker keeps its like away.
    pub(crate) fn held_by_breaker(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id).cloned() else { return };
        if job.held.is_some() || job.state != JobState::Queued {
            return;
        }
        match self.state.passes(of_work(&job), &job.project, Some(id)) {
            Passage::Free => {}
            Passage::Probe(b) => self.try_with(&b, &job),
            Passage::Held(entity) => {
                let name = format!("breaker {entity}");
                self.emit_hold(&job, Hold { name, by: HeldBy::Breaker { entity }, since: None });
            }
        }
    }

    fn try_with(&mut self, b: &Breaker, job: &Job) {
        let key = AttemptKey { job: job.id, attempt: job.attempts + 1 };
        let probe = Some(Probe::Attempt { key: Some(key) });
        self.emit(
            None,
            Event::BreakerSet {
                breaker: Box::new(Breaker { probe, ..b.clone() }),
                by_operator: false,
            },
        );
    }

    /// Jobs that were just submitted may be behind a breaker.
    pub(super) fn hold_jobs_behind_breakers(&mut self) {
        for (first, count) in std::mem::take(&mut self.work.arrived) {
            if !self.state.health.breakers.keys().any(is_work) {
                continue;
            }
            for n in 0..u64::from(count) {
                self.held_by_breaker(JobId(first.0 + n));
            }
        }
    }

    /// A breaker about work moved: what waits follows.
    pub(super) fn update_jobs_behind_breaker(&mut self, entity: &Entity) {
        let Some(b) = self.state.health.breakers.get(entity).cloned() else { return };
        match b.state {
            BreakerState::Closed => self.release_all(entity),
            BreakerState::Open => {
                let of_it = |j: &&Arc<Job>| {
                    j.state == JobState::Queued
                        && j.held.is_none()
                        && b.concerns(&j.project)
                        && of_work(j).any(|e| e == *entity)
                };
                let all = self.state.jobs.values().filter(of_it).map(|j| j.id);
                for id in all.collect::<Vec<_>>() {
                    self.held_by_breaker(id);
                }
            }
            BreakerState::HalfOpen => {
                if let Some(job) =
                    self.held_jobs(entity).into_iter().find(|j| self.is_free(j, entity))
                {
                    self.try_with(&b, &job);
                    let released = Event::JobReleased { job: job.id, decided: true };
                    self.emit(Some(&job.project), released);
                }
            }
        }
    }

    /// Does no other breaker keep a job from starting?
    fn is_free(&self, j: &Job, but: &Entity) -> bool {
        let shut = |e: &Entity| {
            let b = self.state.health.breakers.get(e);
            b.is_some_and(|b| b.state != BreakerState::Closed && b.concerns(&j.project))
        };
        !of_work(j).any(|e| e != *but && shut(&e))
    }

    fn held_jobs(&self, entity: &Entity) -> Vec<Arc<Job>> {
        let by_it = |j: &&Arc<Job>| {
            j.held.as_ref().and_then(|h| h.by.breaker()) == Some(entity)
                && j.state == JobState::Queued
        };
        self.state.jobs.values().filter(by_it).cloned().collect()
    }

    fn release_all(&mut self, entity: &Entity) {
        for j in self.held_jobs(entity) {
            self.emit(Some(&j.project), Event::JobReleased { job: j.id, decided: true });
            self.held_by_breaker(j.id);
        }
    }

    /// A probe that has run for so long went well; one that will not run came to nothing.
    pub(super) fn evaluate_probe(&mut self, b: &Breaker) {
        let Some(id) = probe_job(b) else { return };
        let now = self.state.now;
        let job = self.state.jobs.get(&id);
        let goes_on = job.and_then(|j| j.attempt.as_ref()).filter(|a| a.stop.is_none());
        let ran = goes_on.and_then(|a| a.started_at);
        let next = if ran.is_some_and(|t| now.since(t) >= CRASHED_WITHIN) {
            breaker::probed(b, now, true, format!("job {id} works"))
        } else if job.is_none_or(|j| j.state.is_final()) {
            breaker::reopen_after_probe(b, now, format!("job {id} was not tried"))
        } else {
            return;
        };
        self.set_breaker(next, false);
    }
}

/// What breakers do with work that is to be started.
enum Passage {
    /// None keeps it away.
    Free,
    /// Nobody has been tried yet behind this one: it is let through.
    Probe(Arc<Breaker>),
    /// It waits until the breaker about this is closed.
    Held(Entity),
}

impl State {
    fn passes(
        &self,
        work: impl Iterator<Item = Entity>,
        project: &ProjectName,
        job: Option<JobId>,
    ) -> Passage {
        let own = |b: &Breaker| job.is_some() && probe_job(b) == job;
        let shut: Vec<&Arc<Breaker>> = work
            .filter_map(|e| self.health.breakers.get(&e))
            .filter(|b| b.state != BreakerState::Closed && b.concerns(project) && !own(b))
            .collect();
        let waits = |b: &Breaker| {
            b.state == BreakerState::HalfOpen && probe_job(b).is_none() && b.pinned.is_none()
        };
        match &shut[..] {
            [] => Passage::Free,
            [only] if waits(only) => Passage::Probe(Arc::clone(only)),
            [first, ..] => Passage::Held(first.entity.clone()),
        }
    }

    /// What the breaker is about that would hold a job of this spec, if it were submitted now. One
    /// without a name is of no template that there is.
    pub(crate) fn breaker_ahead(&self, project: &ProjectName, spec: &JobSpec) -> Option<Entity> {
        let named = spec.name.as_ref();
        let template = named.map(|n| Entity::Template(project.clone(), n.to_string()));
        match self.passes([template, image(spec)].into_iter().flatten(), project, None) {
            Passage::Held(entity) => Some(entity),
            Passage::Free | Passage::Probe(_) => None,
        }
    }

    /// When the breaker that holds a job lets one through, to see whether the others may follow.
    pub(crate) fn probe_words(&self, hold: &Hold, now: Time) -> Option<String> {
        let b = self.health.breakers.get(hold.by.breaker()?)?;
        match (b.state, b.probe_at.filter(|at| *at > now)) {
            (BreakerState::Closed, _) => None,
            (BreakerState::HalfOpen, _) => Some("the breaker is being probed".to_owned()),
            (BreakerState::Open, None) => Some("the breaker is probed next".to_owned()),
            (BreakerState::Open, Some(at)) => {
                let wait = Span::secs(at.since(now).0.div_ceil(1000));
                Some(format!("the breaker is probed in {wait}"))
            }
        }
    }

    /// What the breaker is about that holds a job, where an operator holds it open.
    pub(crate) fn forced_breaker<'h>(&self, hold: &'h Hold) -> Option<&'h Entity> {
        hold.by.breaker().filter(|e| {
            let b = self.health.breakers.get(*e);
            b.is_some_and(|b| b.pinned.is_some() && b.state != BreakerState::Closed)
        })
    }
}
