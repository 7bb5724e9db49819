//! Commands about jobs.

use crate::Engine;
use crate::lookup::{check_version, no_job, no_project, task};
use crate::state::State;
use crate::state::dependencies::Depends;
use crate::state::index::spec_demand;
use muster_model::command::{Answer, Refusal, RefusalCode, Request, user_of};
use muster_model::event::Event;
use muster_model::hold::{HeldBy, Hold};
use muster_model::ids::{AttemptKey, Epoch, JobId};
use muster_model::job::{
    Basis, Checkpoint, Dependency, Job, JobState, JobUpdate, ReservedStart, SpecChange, StopReason,
};
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::node::{Node, Stage};
use muster_model::policy::{QUEUED_JOBS, QUEUED_JOBS_PER_PROJECT};
use muster_model::resolve::{AfterRef, resolve};
use muster_model::spec::{Group, JobSpec, OnPartition, Priority};
use muster_model::units::{Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

fn find(e: &Engine, req: &Request, id: JobId) -> Result<Arc<Job>, Refusal> {
    let job = e.state.jobs.get(&id).cloned().ok_or_else(|| no_job(id))?;
    check_version(req, job.version)?;
    Ok(job)
}

pub(super) fn submit(
    e: &mut Engine,
    req: &Request,
    spec: &Arc<JobSpec>,
) -> Result<Answer, Refusal> {
    let r = resolve(spec)?;
    let project = match (&spec.project, &req.actor.project) {
        (Some(p), _) | (None, Some(p)) => p.clone(),
        (None, None) => default_project()?,
    };
    let depends = named_by(&e.state, &project, spec, &r.after)?;
    let user = user_of(&req.actor.name).to_string();
    let count = u32::try_from(r.array.len().max(1)).unwrap_or(u32::MAX);
    let spec = with_lease(admit(&e.state, &project, &user, spec, count)?);
    let payload_bytes = e.payload_bytes;
    e.state.refuse_to_store(&project, payload_bytes)?;
    let groups: Arc<[Group]> = r.groups.into();
    e.refuse_impossible(&spec, &project, &groups)?;
    let id = JobId(e.state.next_job.max(1));
    let name = match &spec.name {
        Some(n) => n.clone(),
        None => {
            "job".parse::<Label>().map_err(|x| Refusal::new(RefusalCode::Invalid, x.to_string()))?
        }
    };
    let event = Event::JobSubmitted {
        id,
        name,
        project: project.clone(),
        user,
        groups,
        depends: depends.into(),
        array: r.array,
        held: spec.hold,
        spec,
        payload_bytes,
    };
    e.emit(Some(&project), event);
    Ok(Answer::Submitted { first: id, count })
}

/// What a spec names must be there: its project, its secrets and the jobs that it waits for, which
/// are the answer. What would be cancelled at once, because one of these can never end as it must
/// any more, is refused. Asked by a dry run too, which must refuse what submitting would refuse.
pub(crate) fn named_by(
    s: &State,
    project: &ProjectName,
    spec: &JobSpec,
    after: &[AfterRef],
) -> Result<Vec<Dependency>, Refusal> {
    if !s.projects.contains_key(project) {
        return Err(no_project(s, project));
    }
    for name in &spec.secrets {
        if !s.secrets.contains(&(project.clone(), name.clone())) {
            return Err(Refusal::new(
                RefusalCode::NotFound,
                format!("project {project} has no secret {name}"),
            )
            .field("secrets")
            .hint(format!("store it with `muster secret set {name}`")));
        }
    }
    let depends: Vec<Dependency> =
        after.iter().map(|a| dependency(s, project, a)).collect::<Result<_, _>>()?;
    if let Depends::Broken(why) = s.index.waits.evaluate_all(s, &depends) {
        let message = format!("it would be cancelled at once: {}", why.words(s));
        return Err(Refusal::new(RefusalCode::Conflict, message)
            .field("after")
            .hint("run the other one again first (`muster requeue`), or leave it out of `after`"));
    }
    Ok(depends)
}

/// Ids of jobs between two lives of the log that were restored under neighbouring epochs.
const IDS_PER_EPOCH: u64 = 1000;

/// The first id of a life that begins after a restore. How many jobs the lost life had is not
/// known, nor whether the same backup was restored before. But the store makes the epoch jump by a
/// random million or more at each restore, and an epoch is never granted twice: ids follow it.
pub(super) fn first_of_generation(next_job: u64, epoch: Epoch) -> JobId {
    JobId((next_job / IDS_PER_EPOCH).saturating_add(epoch.0).saturating_mul(IDS_PER_EPOCH))
}

/// The site's limits on what may wait, and on how long a job may run. Asked by a dry run too.
pub(crate) fn admit(
    s: &State,
    project: &ProjectName,
    user: &str,
    spec: &Arc<JobSpec>,
    count: u32,
) -> Result<Arc<JobSpec>, Refusal> {
    let l = &s.policy.limits;
    // Whatever they wait for: each takes memory of the server.
    let backlog = &s.index.backlog;
    let fits = |waiting: usize, whose: &str, most: u32, limit: &str| {
        if waiting + count as usize <= most as usize {
            return Ok(());
        }
        let what = format!("{waiting} jobs{whose} wait already; the site allows {most}");
        Err(Refusal::new(RefusalCode::Policy, what).field("array").hint(format!(
            "wait until some have started or cancel some; an operator can raise `limits.{limit}` \
             (`muster policy`)"
        )))
    };
    fits(backlog.all(), "", l.queued_jobs.unwrap_or(QUEUED_JOBS), "queued_jobs")?;
    let most = l.queued_jobs_per_project.unwrap_or(QUEUED_JOBS_PER_PROJECT);
    let whose = format!(" of project {project}");
    fits(backlog.of_project(project), &whose, most, "queued_jobs_per_project")?;
    if let Some(most) = l.queued_jobs_per_user {
        let whose = format!(" of {user}");
        fits(backlog.of_user(project, user), &whose, most, "queued_jobs_per_user")?;
    }
    match (l.max_time, spec.time_limit) {
        (_, Some(asked)) => allowed(s, asked).map(|()| spec.clone()),
        (Some(most), None) => Ok(Arc::new(JobSpec { time_limit: Some(most), ..(**spec).clone() })),
        (None, None) => Ok(spec.clone()),
    }
}

/// What its ranks do without a server is written down with the job: their lease stays as it is when a
/// later version has another default, and the fence must not be shorter than that.
fn with_lease(spec: Arc<JobSpec>) -> Arc<JobSpec> {
    let on_partition = spec.partition_written();
    if on_partition == spec.on_partition {
        return spec;
    }
    Arc::new(JobSpec { on_partition, ..(*spec).clone() })
}

/// The longest time limit that the site allows.
fn allowed(s: &State, asked: Span) -> Result<(), Refusal> {
    match s.policy.limits.max_time {
        Some(most) if asked > most => Err(Refusal::new(
            RefusalCode::Policy,
            format!("a time limit of {asked} is more than this site allows ({most})"),
        )
        .field("time_limit")
        .hint("ask for less, and write checkpoints to continue in another job")),
        _ => Ok(()),
    }
}

fn default_project() -> Result<ProjectName, Refusal> {
    "default".parse().map_err(|x: muster_model::names::NameError| {
        Refusal::new(RefusalCode::Invalid, x.to_string())
    })
}

/// `42`, `42_3`, or the newest job of that name in the project; an array stands for all its tasks.
fn dependency(s: &State, project: &ProjectName, a: &AfterRef) -> Result<Dependency, Refusal> {
    // `42_3`. A job may also be called that.
    let one = a.job.split_once('_').and_then(|(array, index)| {
        task(&s.jobs, array.parse().ok()?, index.parse().ok()?).filter(|j| j.project == *project)
    });
    if let Some(job) = one {
        return Ok(Dependency { job: job.id, count: 1, condition: a.condition });
    }
    let number = a.job.parse::<JobId>().ok();
    let by_id = number.and_then(|id| s.jobs.get(&id));
    let found = by_id.or_else(|| {
        let newest = s.index.waits.named(project, &a.job)?;
        s.jobs.get(&newest)
    });
    let Some(job) = found.filter(|j| j.project == *project) else {
        return Err(Refusal::new(
            RefusalCode::NotFound,
            format!("`after` names {}, but project {project} has no such job", a.job),
        )
        .field("after")
        .hint(
            "give a job's id or its name, 42_3 for one task of an array; `muster ps -a` lists them",
        ));
    };
    let (job, count) = match job.array {
        // A task's own number means that task, as everywhere.
        Some(t) if number == Some(job.id) && job.id != t.parent => (job.id, 1),
        Some(t) => (t.parent, t.count),
        None => (job.id, 1),
    };
    Ok(Dependency { job, count, condition: a.condition })
}

pub(super) fn cancel(e: &mut Engine, req: &Request, id: JobId) -> Result<Answer, Refusal> {
    let job = find(e, req, id)?;
    let by = req.actor.name.clone();
    match job.state {
        s if s.is_final() => {}
        JobState::Queued => {
            let reason = format!("cancelled by {by}");
            e.emit(Some(&job.project), Event::JobCancelled { job: id, reason });
            e.withdraw_notices(id);
        }
        // Its ranks have all ended: it keeps its result, and nothing starts it again.
        _ if job.ending_until().is_some() => {
            e.conclude_job_now(id);
            if e.state.jobs.get(&id).is_some_and(|j| j.state == JobState::Queued) {
                let reason = format!("cancelled by {by}");
                e.emit(Some(&job.project), Event::JobCancelled { job: id, reason });
            }
        }
        _ => {
            let stopping = job.attempt.as_ref().and_then(|a| a.stop.as_ref());
            if !stopping.is_some_and(|s| matches!(s.reason, StopReason::Cancelled { .. })) {
                e.order_stop(&job, StopReason::Cancelled { by }, None);
                e.conclude_job(id);
            }
        }
    }
    Ok(Answer::Done)
}

/// What can be done to waiting jobs only: `rule` says so.
fn must_wait(job: &Job, rule: &str) -> Result<(), Refusal> {
    if job.state == JobState::Queued {
        return Ok(());
    }
    let (id, word) = (job.display_id(), job.word());
    let is = match job.state {
        JobState::Cancelled => "was",
        state if state.is_final() => "has",
        _ => "is",
    };
    let message = format!("job {id} {is} {word}: {rule}");
    Err(Refusal::new(RefusalCode::Conflict, message).hint(match job.state.is_final() {
        true => format!("`muster requeue {id}` runs it again"),
        false => format!("`muster requeue {id}` stops it and puts it back into the queue"),
    }))
}

pub(super) fn hold(e: &mut Engine, req: &Request, id: JobId) -> Result<Answer, Refusal> {
    let job = find(e, req, id)?;
    must_wait(&job, "only a waiting job can be held")?;
    if job.held.is_none() {
        e.emit_hold(&job, Hold::asked(&req.actor.name));
        e.withdraw_notices(id);
    }
    Ok(Answer::Done)
}

impl Engine {
    /// A job is held. What is reserved for it would be idle for as long as it is.
    pub(crate) fn emit_hold(&mut self, job: &Job, hold: Hold) {
        if let Some(job) = self.state.jobs.get(&job.id).cloned() {
            self.drop_reserved_start(&job, "it was held");
        }
        let Hold { name: by, by: held_by, .. } = hold;
        let decided = held_by != HeldBy::Somebody;
        let event = Event::JobHeld { job: job.id, by, held_by: Some(held_by), decided };
        self.emit(Some(&job.project), event);
    }
}

pub(super) fn release(e: &mut Engine, req: &Request, id: JobId) -> Result<Answer, Refusal> {
    let job = find(e, req, id)?;
    let Some(hold) = &job.held else { return Ok(Answer::Done) };
    e.refuse_lost_ranks(&job)?;
    refuse_forced(&e.state, hold)?;
    e.emit(Some(&job.project), Event::JobReleased { job: id, decided: false });
    // Who lets a job past a breaker means that. Who ends another hold does not: a breaker may have
    // opened meanwhile, and passed over the job because it was held.
    if hold.by.breaker().is_none() {
        e.held_by_breaker(id);
    }
    Ok(Answer::Done)
}

/// Past a breaker that an operator holds open, nobody lets a job of their own.
fn refuse_forced(s: &State, hold: &Hold) -> Result<(), Refusal> {
    let Some(entity) = s.forced_breaker(hold) else { return Ok(()) };
    let message = format!("an operator forced breaker {entity} open");
    Err(Refusal::new(RefusalCode::Conflict, message).hint(format!(
        "`muster breakers release {entity}` has it probed, and what waits for it is released \
         when it closes; that is for operators"
    )))
}

pub(super) fn requeue(e: &mut Engine, req: &Request, id: JobId) -> Result<Answer, Refusal> {
    let job = find(e, req, id)?;
    let by = req.actor.name.clone();
    if job.state != JobState::Queued {
        refuse_broken(&e.state, &job)?;
    }
    match job.state {
        JobState::Queued => {}
        s if s.is_final() => {
            let not_before = fence_of_last(e, &job)?.max(e.lost_generation_until(&job));
            queue_again(e, &job, by, not_before);
        }
        // Its ranks have all ended, so there is nothing to stop and nothing that still writes.
        _ if job.ending_until().is_some() => {
            e.conclude_job_now(id);
            let ended = e.state.jobs.get(&id).filter(|j| j.state.is_final()).cloned();
            if let Some(ended) = ended {
                queue_again(e, &ended, by, Time(0));
            }
        }
        _ => {
            e.order_stop(&job, StopReason::Requeued { by }, None);
            e.conclude_job(id);
        }
    }
    Ok(Answer::Done)
}

/// A job that ended is queued again, because somebody asked for it.
fn queue_again(e: &mut Engine, job: &Job, by: String, not_before: Time) {
    let (id, reason) = (job.id, job.after_last_end(&format!("requeued by {by}")));
    let (by, unreported) = (Some(by), Vec::new());
    let event = Event::JobRequeued { job: id, reason, not_before, by, unreported };
    e.emit(Some(&job.project), event);
    // Whoever asks for it now wants it to run; only what the site itself holds it for may still be so.
    e.held_by_lost_ranks(id);
    e.held_by_breaker(id);
}

/// What it depends on ended otherwise than it must: back in the queue, it would be cancelled.
fn refuse_broken(s: &State, job: &Job) -> Result<(), Refusal> {
    let Depends::Broken(why) = s.index.waits.evaluate(s, job) else { return Ok(()) };
    let (id, why) = (job.display_id(), why.words(s));
    let message = format!("job {id} would be cancelled, not queued: {why}");
    Err(Refusal::new(RefusalCode::Conflict, message)
        .hint("requeue the other one first, or submit this one anew without it in `after`"))
}

/// With its array a task is queued anew only where there is something to make good.
pub(super) fn requeue_failed(e: &mut Engine, req: &Request, id: JobId) -> Result<Answer, Refusal> {
    let job = find(e, req, id)?;
    if job.failed_or_cancelled() {
        return requeue(e, req, id);
    }
    let (task, state) = (job.display_id(), job.state);
    let message = format!("task {task} is {state}: it neither failed nor was it cancelled");
    Err(Refusal::new(RefusalCode::Conflict, message).hint(format!(
        "`muster requeue {task}` queues this task, `muster requeue --all` every task of the array"
    )))
}

/// When the ranks of a job's last attempt have certainly stopped, on nodes that were lost with it
/// too. A job that was cancelled is over at once; queued anew, it must not write beside itself.
fn fence_of_last(e: &Engine, job: &Job) -> Result<Time, Refusal> {
    let Some(last) = job.past.last().filter(|_| job.spec.fenced()) else { return Ok(Time(0)) };
    let key = AttemptKey { job: job.id, attempt: last.no };
    // Only the first nodes of a large gang are remembered; any of the others may be among them.
    let all = last.nodes.len() >= crate::state::PAST_NODES;
    // Retiring a node is an operator's word that nothing runs there. It is needed where ranks go on
    // for good; where they have a lease, it is not waited for any less.
    let goes_on = job.spec.partition() == OnPartition::Continue;
    let may_run = |n: &&Arc<Node>| {
        let reported = goes_on && n.stage == Stage::Retired;
        let lost = !n.reachable && (last.placed_at..=last.ended_at).contains(&n.changed_at);
        let here = all || last.nodes.contains(&n.name);
        !reported && here && (lost || n.orphans.contains(&key))
    };
    let Some(node) = e.state.nodes.values().filter(may_run).max_by_key(|n| n.changed_at) else {
        return Ok(Time(0));
    };
    let grace = job.spec.checkpoint.as_ref().and_then(|c| c.grace).unwrap_or(e.policy.grace);
    match job.spec.partition() {
        OnPartition::StopAfter(after) => Ok(node.changed_at + job.spec.stopped_after(after, grace)),
        OnPartition::Continue => Err(Refusal::new(
            RefusalCode::Conflict,
            format!("ranks of job {} may still run on node {}", job.id, node.name),
        )
        .hint(format!(
            "wait until the node connects again, or `muster node retire {}`",
            node.name
        ))),
    }
}

pub(super) fn ask_checkpoint(e: &mut Engine, req: &Request, id: JobId) -> Result<Answer, Refusal> {
    let job = find(e, req, id)?;
    let Some(key) = job.attempt_key().filter(|_| job.state == JobState::Running) else {
        return Err(Refusal::new(
            RefusalCode::Conflict,
            format!("job {id} is {}: only a running job can write a checkpoint", job.word()),
        ));
    };
    let asks = job.spec.checkpoint.as_ref().and_then(|c| c.request.signal.as_ref());
    if asks.is_none() {
        return Err(Refusal::new(
            RefusalCode::Policy,
            format!("job {id} does not define how a checkpoint is requested"),
        )
        .field("checkpoint.request.signal")
        .hint("set checkpoint: {dir: …, request: {signal: SIGUSR1}} in its spec"));
    }
    e.emit(Some(&job.project), Event::CheckpointAsked { key });
    Ok(Answer::Done)
}

/// A later one than what is known? Agents repeat their newest when a connection is made anew.
fn newer(known: Option<&Checkpoint>, reported: &Checkpoint) -> bool {
    let Some(known) = known else { return true };
    let same = (known.attempt, known.step, &known.path)
        == (reported.attempt, reported.step, &reported.path);
    !same && (reported.attempt, reported.step) >= (known.attempt, known.step)
}

/// A report about an attempt before the newest, or about a step that is past, changes nothing.
pub(super) fn checkpoint_done(e: &mut Engine, key: AttemptKey, checkpoint: Checkpoint) -> Answer {
    let Some(job) = e.state.jobs.get(&key.job) else { return Answer::Done };
    if job.attempts != key.attempt || !newer(job.checkpoint.as_ref(), &checkpoint) {
        return Answer::Done;
    }
    let reported = job.attempt.as_ref().filter(|a| a.stop.is_none()).and_then(|a| a.notice.clone());
    // The job is not held on to: shared, it would be copied to be changed.
    let project = job.project.clone();
    e.emit(Some(&project), Event::CheckpointDone { job: key.job, checkpoint });
    // The checkpoint that it was given time for is there: nothing is lost by stopping now.
    if let Some(n) = reported
        && let Some(job) = e.state.jobs.get(&key.job).cloned()
    {
        e.order_stop(&job, n.reason, None);
        e.conclude_job(key.job);
    }
    Answer::Done
}

impl Engine {
    /// Asked for every submission, so the answer is remembered until the fleet or the policy changes.
    fn refuse_impossible(
        &mut self,
        spec: &JobSpec,
        project: &ProjectName,
        groups: &Arc<[Group]>,
    ) -> Result<(), Refusal> {
        let mut d = spec_demand(spec, groups.clone());
        if let Some(e) = spec.elastic {
            d = d.resized(e.min_nodes);
        }
        let shape = self.state.index.cluster.fleet.shape();
        // Lemons take work of some tiers and classes only.
        let asked = (d, spec.tier, spec.priority);
        let known = self.possible.binary_search_by(|(of, _)| of.cmp(&asked));
        if known.is_ok_and(|i| self.possible[i].1 == shape) {
            return Ok(());
        }
        let mut w = self.state.spec_work(spec)?;
        w.project = project.clone();
        w.demand = Arc::new(asked.0.clone());
        self.state.refuse_impossible(&w, self.state.now)?;
        // Few sites see more different demands than this between two changes of the fleet.
        match known {
            Ok(i) => self.possible[i].1 = shape,
            Err(_) if self.possible.len() >= 4096 => self.possible = vec![(asked, shape)],
            Err(i) => self.possible.insert(i, (asked, shape)),
        }
        Ok(())
    }
}

/// When an attempt ends by a new limit; nothing where its ranks have not all started.
fn deadline_of(job: &Job, limit: Span, now: Time) -> Result<Option<Time>, Refusal> {
    let Some(started) = job.attempt.as_ref().and_then(|a| a.started_at) else { return Ok(None) };
    let deadline = started + limit;
    if deadline > now {
        return Ok(Some(deadline));
    }
    let (id, ran) = (job.display_id(), now.since(started));
    let message = format!("job {id} has run for {ran}: a time limit of {limit} is over already");
    Err(Refusal::new(RefusalCode::Conflict, message)
        .field("time_limit")
        .hint(format!("ask for more than {ran}, or `muster cancel {id}` to end it now")))
}

/// Reserved starts that rest on an earlier end of this attempt are planned anew.
fn drop_reserved_starts_before(e: &mut Engine, job: &Job, limit: Span) {
    let Some(a) = &job.attempt else { return };
    // Nothing rests on the end of one without a limit, and one that ends sooner is in nobody's way.
    if job.spec.time_limit.is_none_or(|was| limit <= was) {
        return;
    }
    let end = a.started_at.unwrap_or(a.placed_at) + limit;
    let here: BTreeSet<NodeName> = a.placement.slots.iter().map(|s| s.node.clone()).collect();
    let rests =
        |p: &ReservedStart| p.basis == Basis::Limits && p.nodes.iter().any(|n| here.contains(n));
    let waits =
        |j: &&Arc<Job>| j.state == JobState::Queued && j.reserved_start.as_ref().is_some_and(rests);
    let before = e.state.index.reserved_starts.range(..(end, JobId(0)));
    let before = before.filter_map(|(_, id)| e.state.jobs.get(id));
    let resting: Vec<Arc<Job>> = before.filter(waits).cloned().collect();
    for other in resting {
        let reason = "the time limit of what runs on its nodes was extended".to_string();
        e.emit(Some(&other.project), Event::ReservedStartDropped { job: other.id, reason });
    }
}

/// Changes what a waiting job asks for: its class or its limit. Its reserved start is looked for anew. Of a
/// job that runs only the limit changes, and with it when its attempt ends.
pub(super) fn update(
    e: &mut Engine,
    req: &Request,
    id: JobId,
    priority: Option<Priority>,
    time_limit: Option<Span>,
) -> Result<Answer, Refusal> {
    let job = find(e, req, id)?;
    let running = job.runs() && priority.is_none();
    if !running {
        must_wait(
            &job,
            match priority {
                Some(_) => "only a waiting job can be given another priority",
                None => "only a job that waits or runs can be given another time limit",
            },
        )?;
    }
    // Only what is changed is checked: the rest was, and an array has thousands of tasks.
    resolve(&JobSpec { time_limit, ..JobSpec::default() })?;
    let change = SpecChange {
        priority: priority.filter(|p| *p != job.spec.priority),
        time_limit: time_limit.filter(|l| Some(*l) != job.spec.time_limit),
    };
    if change == SpecChange::default() {
        return Ok(Answer::Done);
    }
    if let Some(limit) = time_limit {
        allowed(&e.state, limit)?;
    }
    let deadline = match time_limit.filter(|_| running) {
        Some(limit) => deadline_of(&job, limit, e.state.now)?,
        None => None,
    };
    // What is reserved for one that runs is for its next size, which stays as it is.
    if job.reserved_start.is_some() && !running {
        let reason = "what it asks for was changed".to_string();
        e.emit(Some(&job.project), Event::ReservedStartDropped { job: id, reason });
    }
    e.emit(
        Some(&job.project),
        Event::JobUpdated(JobUpdate { job: id, change, spec: None, deadline }),
    );
    if let Some(limit) = time_limit.filter(|_| running) {
        drop_reserved_starts_before(e, &job, limit);
    }
    // What it asks for now is asked anew, also of those who were to make room for it.
    if !running {
        e.withdraw_notices(id);
    }
    Ok(Answer::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_wait_is_bounded_where_the_policy_says_nothing() {
        let (s, project) = (State::default(), "alpha".parse().unwrap());
        let ask = |tasks: u32| admit(&s, &project, "ann", &Arc::default(), tasks);
        assert!(ask(QUEUED_JOBS_PER_PROJECT).is_ok());
        let e = ask(QUEUED_JOBS_PER_PROJECT + 1).unwrap_err();
        assert_eq!(e.code, RefusalCode::Policy);
        assert!(e.message.contains("the site allows 250000"), "{e}");
        let e = ask(QUEUED_JOBS + 1).unwrap_err();
        assert!(e.message.contains("the site allows 1000000"), "{e}");
    }
}
