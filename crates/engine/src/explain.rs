//! Why a job waits, with holds, dependencies and the queue on top of the scheduler's answer.

use crate::decide::jobs::{admit, named_by};
use crate::state::index::{spec_demand, work};
use crate::state::saves::dir_of;
use crate::state::{BookedReservation, State};
use muster_model::command::{Refusal, RefusalCode, user_of};
use muster_model::hold::HeldBy;
use muster_model::ids::JobId;
use muster_model::job::{Basis, Job, JobState, Rank, ReservedStart, START_DUE, StopReason};
use muster_model::names::ProjectName;
use muster_model::resolve::resolve;
use muster_model::spec::{JobSpec, Tier};
use muster_model::units::{Span, Time};
use muster_scheduler::forecast::{PlannedPreemption, planned_preemption};
use muster_scheduler::{
    Constraint, Estimate, Explanation, FAR, JobAhead, Reasons, WAITS, Work, explain, impossible,
    window_words,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Puts what stops a job before everything else, whatever the fleet has.
fn bind_first(out: &mut Explanation, name: &str, text: String) {
    // It does not start now: no window stops it.
    out.constraints.retain(|c| c.name != "window");
    for c in &mut out.constraints {
        c.binding = false;
    }
    let c = Constraint {
        name: name.into(),
        detail: text.clone(),
        nodes_left: 0,
        gpus_left: 0,
        binding: true,
        warning: false,
    };
    out.constraints.insert(0, c);
    out.summary = text;
    out.starts_now = false;
    out.estimate = None;
    out.suggestions.clear();
    out.would_go = None;
}

/// That the job will be stopped by a window: nothing keeps it from starting.
fn note_window(out: &mut Explanation, detail: String) {
    let name = "window".into();
    out.constraints.push(Constraint {
        name,
        detail,
        nodes_left: 0,
        gpus_left: 0,
        binding: false,
        warning: true,
    });
}

/// Says that others make room for a job, why they have to, and by when it starts.
fn explain_preemption(out: &mut Explanation, room: &PlannedPreemption, now: Time) {
    for c in &mut out.constraints {
        c.binding = false;
    }
    let by = |rank: Rank| room.victims.iter().any(|v| v.rank == rank);
    let why: Vec<&str> = [
        (by(Rank::Quota), "GPUs that others have borrowed are reclaimed"),
        (by(Rank::Priority), "work of a lower priority is stopped"),
        (by(Rank::Spot), "spot work is stopped"),
        (!room.shrinks.is_empty(), "elastic work shrinks"),
    ]
    .into_iter()
    .filter_map(|(so, words)| so.then_some(words))
    .collect();
    let wait = Span::secs(room.at.since(now).0.div_ceil(1000));
    out.summary = format!("starts within {wait}: {}", why.join(", "));
    out.gives_way = room.victims.iter().map(|v| v.job).chain(room.shrinks.clone()).collect();
    // It starts as it is: nothing else is advised.
    out.suggestions.clear();
    let basis = "others would be stopped for it".into();
    out.estimate = Some(Estimate { earliest: None, at: room.at, reserved: false, basis });
}

/// Can a job write over what another one saves? Not once it is over; and whoever waits for others
/// goes on where they stopped.
fn may_share(job: &Job) -> bool {
    !job.state.is_final() && job.depends.is_empty()
}

/// What moves a reserved start that waits for the end of others.
const UNLESS_OVERRULED: &str = "unless jobs of a higher priority class take that capacity";

/// Said of a job ahead that nobody needs to wait for.
const NEVER_GIVEN: &str = ", but its quota never gives it that many GPUs";

/// Jobs ahead that are named one by one.
const AHEAD_SHOWN: usize = 5;

/// Whole seconds: nobody reads the rest.
fn seconds(span: Span) -> Span {
    Span::secs(span.0 / 1000)
}

/// The path of a domain. A node that is an NVLink domain of its own is named once in it.
fn shown_path(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((above, node)) if above.rsplit('/').next() == Some(node) => above,
        _ => path,
    }
}

impl State {
    /// Why a job waits (or that it does not), and when it starts. `None` when there is no such job.
    #[must_use]
    pub fn explain(&self, id: JobId, now: Time) -> Option<Explanation> {
        let mut out = self.why(id, now)?;
        let job = self.jobs.get(&id)?;
        let basis = job.reserved_start.as_ref().map(|p| p.basis);
        // Room that others make is there when they are gone: no duration says when.
        if basis.is_none_or(|b| b == Basis::Limits) {
            let preempts = job.state == JobState::Queued
                && !out.starts_now
                && !out.impossible
                && self.barred(job, now).is_none();
            self.look_ahead(&mut out, work(job), preempts, now);
        }
        if may_share(job) {
            self.warn_shared(&mut out, &job.project, &job.spec, Some(job.payload));
        }
        Some(out)
    }

    /// Says it where another job saves to the same directory: nothing stops either of them, and each
    /// would write over what the other saved.
    fn warn_shared(
        &self,
        out: &mut Explanation,
        project: &ProjectName,
        spec: &JobSpec,
        own: Option<JobId>,
    ) {
        let Some((dir, other)) = self.other_saver(project, spec, own) else { return };
        let (id, state) = (other.payload, other.state);
        let detail = format!(
            "job {id}, which is {state}, saves to `{dir}` too, and each writes over the other's: \
             use another `checkpoint.dir`, or let one wait for the other (`--after`)"
        );
        let left = out.constraints.last().map_or((0, 0), |c| (c.nodes_left, c.gpus_left));
        let (nodes_left, gpus_left) = left;
        out.constraints.push(Constraint {
            name: "checkpoint".into(),
            detail,
            nodes_left,
            gpus_left,
            binding: false,
            warning: true,
        });
    }

    /// Where a job saves, and another one that saves there too.
    fn other_saver<'a>(
        &'a self,
        project: &ProjectName,
        spec: &'a JobSpec,
        own: Option<JobId>,
    ) -> Option<(&'a str, &'a Job)> {
        let dir = dir_of(spec)?;
        let id = self.index.saves.other(project, dir, own)?;
        let other: &Job = self.jobs.get(&id)?;
        Some((dir, other))
    }

    /// Whether [`explain`](State::explain) may warn whoever submitted a job: another one saves to the
    /// same directory, a window stops it, its tier has no reservation, or its quota never gives that
    /// many GPUs. True wherever it does. Costs what the job names, what is reserved and the quotas, not
    /// what the fleet has: each submission is answered with it.
    #[must_use]
    pub fn may_warn(&self, job: &Job, now: Time) -> bool {
        let own = Some(job.payload);
        if may_share(job) && self.other_saver(&job.project, &job.spec, own).is_some() {
            return true;
        }
        let cluster = &self.index.cluster;
        // A site without quotas pays nothing for the question.
        let limited = job.state == JobState::Queued && !cluster.ledger.is_empty();
        if limited && cluster.is_beyond_quota(&work(job)) {
            return true;
        }
        if self.reservations.is_empty() && job.spec.tier != Tier::Reserved {
            return false;
        }
        match job.state {
            JobState::Queued => cluster.fleet.may_warn(&work(job), now),
            _ => self.window_ahead(job, now).is_some(),
        }
    }

    /// That a window of others stops an attempt where it is, unless it is over before or has notice
    /// already.
    fn window_ahead(&self, job: &Job, now: Time) -> Option<String> {
        let a = job.attempt.as_ref().filter(|a| a.stop.is_none() && a.notice.is_none())?;
        let end = a.deadline.or(job.spec.time_limit.map(|l| a.placed_at + l)).unwrap_or(FAR);
        let nodes = a.placement.slots.iter().map(|s| &s.node);
        let ahead = self.index.cluster.fleet.window_ahead(&work(job), nodes, (now, end))?;
        Some(window_words(&ahead, now))
    }

    /// Why a job waits (or that it does not); of its start only the late end, which costs little.
    #[must_use]
    pub fn why(&self, id: JobId, now: Time) -> Option<Explanation> {
        let job = self.jobs.get(&id)?;
        if job.state != JobState::Queued {
            let mut summary = match (&job.attempt, job.state) {
                (Some(a), _) => match &a.stop {
                    Some(s) if job.ending_until().is_some() => {
                        let why = self.reason_words(&s.reason, &job.project);
                        format!("is ending, looking for the cause: {why}")
                    }
                    Some(s) => {
                        format!("is stopping: {}", self.reason_words(&s.reason, &job.project))
                    }
                    None => match a.in_preflight() {
                        Some(p) => format!(
                            "is in preflight: {} since {} ago, until {} from now; then its ranks start",
                            p.words(a.node_count()),
                            seconds(now.since(p.since)),
                            seconds(p.until.since(now))
                        ),
                        None => format!("is {} on {}", job.state, shown_path(&a.placement.domain)),
                    },
                },
                (None, s @ JobState::Cancelled) => format!("was {s}"),
                (None, s) => format!("has {s}"),
            };
            if job.state.is_final()
                && let Some(r) = &job.reason
            {
                summary += &format!(": {r}");
            }
            if let Some(p) = job.excused_attempt() {
                let (why, id) = (p.verdict.word(), job.display_id());
                summary += &format!("; attributed to {why}: `muster requeue {id}` runs it again");
            }
            if let Some(fence) = job.fence(now) {
                summary += &format!("; {}", fence.words(now));
            }
            let mut out = Explanation { summary, ..Explanation::default() };
            if let Some(words) = self.window_ahead(job, now) {
                out.summary += &format!("; {words}");
                note_window(&mut out, words);
            }
            return Some(out);
        }
        let w = work(job);
        let mut out = explain(&self.index.cluster, &w, &self.policy, now);
        if let Some(p) = job.reserved_ahead(now) {
            let window = self.window_before(p, &job.project, now);
            let limits = match window {
                Some(what) => format!("reserved from the end of {what}"),
                None => "reserved by the time limits of what runs".to_owned(),
            };
            // Work of a higher class takes capacity that is only waited for.
            let limits = format!("{limits}, {UNLESS_OVERRULED}");
            let basis = match p.basis {
                Basis::Limits => limits.as_str(),
                Basis::Preemption if self.is_preempted_for(id) => "others are being stopped for it",
                Basis::Preemption => "others were stopped for it",
                Basis::Swap => "healthy nodes it had, and replacements for those that failed",
                Basis::Resize => "it is being resized",
                Basis::Move => "it is being moved",
            };
            if p.basis == Basis::Preemption {
                out.suggestions.clear();
            }
            let moved = p.moved.as_ref().map(|m| format!("; later than before: {m}"));
            let basis = format!("{basis}{}", moved.unwrap_or_default());
            out.estimate = Some(Estimate { earliest: None, at: p.at, reserved: true, basis });
        } else if job.reserved_start.is_some() {
            // The moment has passed: nobody can say another one before what is there is gone.
            out.estimate = None;
            let stopped = self.stopped_by(job, &mut self.reasons(now), now);
            if !out.starts_now && stopped.is_none() {
                out.summary += &format!("; its {START_DUE}");
            }
        } else if let Some(words) = job.start_withdrawn_words()
            && !out.starts_now
            && self.stopped_by(job, &mut self.reasons(now), now).is_none()
        {
            out.summary += &format!("; {words}");
        }
        if let Some((name, text)) = self.barred(job, now) {
            bind_first(&mut out, name, text);
            return Some(out);
        }
        let ranks = self.ranks(now);
        let queue = &self.index.cluster.queue;
        // Who is ahead in the queue and has a later reserved start is passed, not waited for.
        let passed: BTreeSet<JobId> = job.reserved_start.as_ref().map_or_else(BTreeSet::new, |p| {
            let later = self.index.reserved_starts.range((p.at, JobId(u64::MAX))..);
            later.map(|(_, o)| *o).filter(|o| queue.is_ahead(*o, id, &ranks)).collect()
        });
        let (count, first) = queue.ahead(id, &ranks, AHEAD_SHOWN + passed.len());
        out.ahead_count = u32::try_from(count.saturating_sub(passed.len())).unwrap_or(u32::MAX);
        out.ahead = first
            .into_iter()
            .filter(|o| !passed.contains(o))
            .take(AHEAD_SHOWN)
            .map(|o| {
                let other = self.jobs.get(&o);
                let higher = other.is_some_and(|j| j.spec.priority > job.spec.priority);
                let why = if higher {
                    "higher priority"
                } else if other.is_some_and(|j| (j.submitted_at, o) > (job.submitted_at, id)) {
                    "its owner has had less of a fair share"
                } else {
                    "submitted earlier"
                };
                // How far the quotas of other projects go is not shown.
                let own = other.filter(|j| j.project == job.project);
                let never = own.is_some_and(|j| self.index.cluster.is_beyond_quota(&work(j)));
                let but = if never { NEVER_GIVEN } else { "" };
                JobAhead { job: o, why: format!("{why}{but}") }
            })
            .collect();
        if out.starts_now && out.ahead_count > 0 {
            out.starts_now = false;
            out.summary = format!(
                "{WAITS}: there is some, but {} ahead of it in the queue",
                match out.ahead_count {
                    1 => "1 job is".into(),
                    n => format!("{n} jobs are"),
                }
            );
        }
        Some(out)
    }

    /// Why an attempt is stopped, in words that its project may read: a job of another one has no
    /// number there, and a reservation of others no name.
    pub(crate) fn reason_words(&self, reason: &StopReason, project: &ProjectName) -> String {
        let other = |id| self.jobs.get(&id).is_some_and(|j| j.project != *project);
        let hidden = |name| self.may_name_reservation(name, project) != Some(true);
        if reason.preempted_for().is_some_and(other) || reason.reservation().is_some_and(hidden) {
            reason.unnamed().to_string()
        } else {
            reason.to_string()
        }
    }

    /// The reservation whose end a reserved start waits for: it ends at that very moment on one of
    /// the nodes, and nothing that runs on them does.
    fn window_before(&self, p: &ReservedStart, project: &ProjectName, now: Time) -> Option<String> {
        let ends = |b: &&BookedReservation| {
            let r = &b.reservation;
            r.window(now).is_some_and(|(_, end)| end == p.at)
                && !r.projects.contains(project)
                && self.reserved_nodes(b).iter().any(|n| p.nodes.contains(n))
        };
        let found = self.reservations.values().find(ends)?;
        let running = &self.index.cluster.running;
        let mut here = p.nodes.iter().flat_map(|n| self.attempts_on(n));
        let by_limit = here.any(|j| running.get(&j.id).is_some_and(|r| r.until == p.at));
        let what = || match found.reservation.name_for(project) {
            Some(name) => format!("reservation `{name}`"),
            None => "a reservation of another project".to_owned(),
        };
        (!by_limit).then(what)
    }

    /// What would happen to a spec of this actor's, without submitting it.
    ///
    /// # Errors
    /// The refusal that submitting it would give.
    pub fn explain_spec(
        &self,
        spec: &Arc<JobSpec>,
        actor: &str,
        now: Time,
    ) -> Result<Explanation, Refusal> {
        let r = resolve(spec)?;
        let mut w = self.spec_work(spec)?;
        let project = w.project.clone();
        let depends = named_by(self, &w.project, spec, &r.after)?;
        let count = u32::try_from(r.array.len().max(1)).unwrap_or(u32::MAX);
        // A job without a time limit gets the site's.
        w.limit = admit(self, &w.project, user_of(actor), spec, count)?.time_limit;
        let run = serde_json::to_vec(&spec.run).map_or(0, |run| run.len() as u64);
        self.refuse_to_store(&w.project, run)?;
        let mut out = explain(&self.index.cluster, &w, &self.policy, now);
        // A fleet without nodes refuses nobody: see `refuse_impossible`.
        out.impossible &= !self.index.cluster.fleet.is_empty();
        if out.impossible {
            return Ok(out);
        }
        let w = Work { user: user_of(actor).into(), since: now, ..w };
        let (mut made, mut barred) = (None, true);
        if spec.hold {
            bind_first(&mut out, "hold", "would be held until it is released".into());
        } else if let Some(entity) = self.breaker_ahead(&project, spec) {
            bind_first(&mut out, "hold", format!("would be held by breaker {entity}"));
        } else if let Some(text) = self.index.waits.evaluate_all(self, &depends).words(self) {
            bind_first(&mut out, "dependency", text);
        } else if !out.starts_now {
            // The predicates say what is there; whether others make room is the plan's to say.
            made = planned_preemption(self.queued(w.clone(), now), w.job, &self.policy, now);
            barred = false;
        }
        if let Some(room) = &made {
            explain_preemption(&mut out, room, now);
        } else {
            self.look_ahead(&mut out, w, !barred, now);
        }
        if depends.is_empty() {
            self.warn_shared(&mut out, &project, spec, None);
        }
        Ok(out)
    }

    /// What keeps a waiting job from starting whatever the fleet has: the constraint, and in words.
    /// Costs what the job names, not what the fleet or the queue has: lists ask it for every row.
    #[must_use]
    pub fn barred(&self, job: &Job, now: Time) -> Option<(&'static str, String)> {
        if job.state != JobState::Queued {
            return None;
        }
        if let Some(hold) = &job.held {
            let id = job.display_id();
            let then = match (&hold.by, self.forced_breaker(hold)) {
                // Its name says what ends it.
                (HeldBy::LostRanks, _) => String::new(),
                (_, Some(_)) => "; an operator forced that open".to_owned(),
                _ => {
                    let probe = self.probe_words(hold, now).map(|p| format!("; {p}"));
                    format!("{}; `muster release {id}` releases it", probe.unwrap_or_default())
                }
            };
            return Some(("hold", format!("is held by {hold}{then}")));
        }
        if let Some(text) = self.index.waits.evaluate(self, job).words(self) {
            return Some(("dependency", text));
        }
        let wait = Span::secs(job.not_before.since(now).0.div_ceil(1000));
        let after = job.reason.as_deref().unwrap_or("a failure");
        (job.not_before > now)
            .then(|| ("back-off", format!("is tried again in {wait} after: {after}")))
    }

    /// Why jobs do not start as things are: made once for a whole list.
    #[must_use]
    pub fn reasons(&self, now: Time) -> Reasons<'_> {
        Reasons::new(&self.index.cluster, &self.policy, now)
    }

    /// Why a waiting job does not start, if it is not for want of room: what bars it, that it never
    /// can, what its owner may not have, what is not in service. The words of
    /// [`explain`](State::explain).
    #[must_use]
    pub fn stopped_by(&self, job: &Job, reasons: &mut Reasons<'_>, now: Time) -> Option<String> {
        if let Some((_, why)) = self.barred(job, now) {
            return Some(why);
        }
        if job.state != JobState::Queued {
            return None;
        }
        // One whose back-off is just over is not in the queue yet.
        let queued = self.index.cluster.queue.get(job.id).cloned();
        let w = queued.unwrap_or_else(|| Arc::new(work(job)));
        // A reserved start says more, unless it cannot be kept or has passed: then it is what stops
        // the job that matters.
        if job.reserved_ahead(now).is_some() { reasons.never(&w) } else { reasons.stop(&w) }
    }

    /// Is anybody being stopped for a job, or warned that they will be?
    fn is_preempted_for(&self, id: JobId) -> bool {
        self.index.cluster.running.keys().filter_map(|other| self.jobs.get(other)).any(|j| {
            let a = j.attempt.as_ref();
            let stop = a.and_then(|a| a.stop.as_ref()).map(|s| &s.reason);
            let notice = a.and_then(|a| a.notice.as_ref()).map(|n| &n.reason);
            stop.or(notice).and_then(StopReason::preempted_for) == Some(id)
        })
    }

    /// A spec as the scheduler would see it, behind everybody else.
    pub(crate) fn spec_work(&self, spec: &JobSpec) -> Result<Work, Refusal> {
        let r = resolve(spec)?;
        let project: ProjectName = match &spec.project {
            Some(p) => p.clone(),
            None => "default".parse().map_err(|e: muster_model::names::NameError| {
                Refusal::new(RefusalCode::Invalid, e.to_string())
            })?,
        };
        Ok(Work {
            job: JobId(u64::MAX),
            demand: Arc::new(spec_demand(spec, r.groups.into())),
            priority: spec.priority,
            tier: spec.tier,
            project,
            user: "".into(),
            since: Time(i64::MAX),
            limit: spec.time_limit,
            checkpoints: spec.checkpoint.is_some(),
            elastic: spec.elastic.map(|e| (e.min_nodes, e.max_nodes)),
        })
    }

    /// Refuses a gang that could not start even on the empty fleet. A fleet without nodes refuses
    /// nobody: it is still being built.
    pub(crate) fn refuse_impossible(&self, w: &Work, now: Time) -> Result<(), Refusal> {
        if self.index.cluster.fleet.is_empty() {
            return Ok(());
        }
        let Some(e) = impossible(&self.index.cluster, w, &self.policy, now) else {
            return Ok(());
        };
        let mut refusal = Refusal::new(RefusalCode::Policy, e.summary).field("gang");
        refusal.hint = e
            .suggestions
            .into_iter()
            .next()
            .or_else(|| Some("`muster nodes` shows what there is".into()));
        Err(refusal)
    }
}
