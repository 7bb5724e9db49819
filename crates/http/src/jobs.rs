//! Jobs.

pub(crate) mod listing;

use super::auth::{Caller, Reader, UserWriter, Writer};
use super::error::{Failure, Reply};
use super::extract::{JsonBody, OptionalBody, Query, Segment, number, shown};
use super::{App, answer, others};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use muster_api::{
    Explanation, Job, JobArray, Kind, Progress, RequeueQuery, SubmitQuery, Submitted, Timestamp,
    UpdateJob,
};
use muster_engine::{State as Site, may_use_class, task};
use muster_model::job::{Job as ModelJob, JobState, START_DUE, past_reason};
use muster_model::spec::JobSpec;
use muster_model::tenant::Role;
use muster_model::{Answer, Command, JobId, RefusalCode, Seq, Time};
use muster_scheduler::WAITS;
use muster_server::agents::RankStep;
use muster_server::brain::{Attach, Brain, BrainError, Committed};
use serde::Deserialize;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

/// Jobs looked at before others get their turn at the state: a writer waits for whoever looks, and
/// every request that comes after the writer waits too.
pub(super) const SCANNED_AT_ONCE: usize = 2_000;

/// Looks at every job once, at some of them at a time. What changes meanwhile is seen as it is when
/// its turn comes. Takes a while: not on a thread that answers requests.
pub(super) fn each(brain: &Brain, mut look: impl FnMut(&ModelJob)) {
    let mut above: Bound<JobId> = Bound::Unbounded;
    loop {
        let mut last = None;
        brain.read(|s| {
            for (id, job) in s.jobs.range((above, Bound::Unbounded)).take(SCANNED_AT_ONCE) {
                look(job);
                last = Some(*id);
            }
        });
        let Some(last) = last else { return };
        above = Bound::Excluded(last);
    }
}

/// The job as the API shows it, with why it waits: what `barred` said, or else that it is room.
fn view(app: &App, caller: &Caller, job: &ModelJob, barred: Option<&str>) -> Job {
    let mut shown = Job::of(job, app.brain().now());
    shown.version = caller.version(app, shown.version);
    others::hide(app, caller.actor.project.as_ref(), &mut shown);
    if job.state == JobState::Queued {
        let reserved = shown.reserved_start.as_ref().map(|p| p.at);
        shown.waiting = Some(match (&job.held, barred, reserved, job.reason.as_deref()) {
            (_, Some(why), ..) => why.to_owned(),
            (Some(by), ..) => format!("is held by {by}"),
            (None, None, Some(at), _) => format!("reserved start by {at}"),
            (None, None, None, _) if job.reserved_start.is_some() => START_DUE.to_owned(),
            (None, None, None, _) if job.start_withdrawn.is_some() => {
                let words = job.start_withdrawn_words().unwrap_or_default();
                format!("{WAITS}; {words}")
            }
            (None, None, None, Some(why)) if job.attempts > 0 => {
                let why = past_reason(why);
                format!("{WAITS}; its last attempt ended: {why}")
            }
            (None, None, None, _) => {
                format!("{WAITS}; `muster explain {}` says more", job.display_id())
            }
        });
    }
    shown
}

/// The newest step that a rank of the job reported; the lowest rank speaks for those that are
/// level.
fn progress(app: &App, job: &ModelJob) -> Option<Progress> {
    let steps = app.agents().steps(job.attempt_key()?);
    let newest = steps.into_iter().rev().max_by_key(|s| s.step)?;
    let RankStep { rank, at, step, t, loss, .. } = newest;
    Some(Progress { step, rank, t, loss, at: at.into() })
}

/// Submit a job, or an array of jobs.
///
/// With `dry_run=true` nothing is submitted: the answer says whether and when it would start.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/jobs", tag = "jobs", params(SubmitQuery), request_body = JobSpec,
    responses((status = 201, description = "What was made.", body = Submitted),
              (status = 200, description = "What would happen (dry run).", body = Explanation))))]
pub(crate) async fn submit(
    State(app): State<App>,
    UserWriter(writer): UserWriter,
    Query(q): Query<SubmitQuery>,
    JsonBody { value: mut spec, raw }: JsonBody<JobSpec>,
) -> Reply {
    let caller = &writer.caller;
    // Only those who keep the site running write into the last space.
    if !q.dry_run
        && caller.over_site(Role::Operator).is_err()
        && let Some(why) = app.brain().refuses_submissions()
    {
        return Err(Failure::cannot_write(&why).hint("nothing was submitted; try again later"));
    }
    let project = caller.project(spec.project.as_ref().map(|p| p.as_str()))?;
    spec.project = Some(project);
    muster_model::resolve::check_run(&spec.run, spec.simulate.is_some())
        .map_err(muster_model::Refusal::from)?;
    let secrets = spec.secrets.iter().map(|s| s.as_str());
    muster_model::resolve::check_secrets(secrets, &spec.run)
        .map_err(muster_model::Refusal::from)?;
    // What is wrong with a spec is found here: the engine's thread is everybody's.
    muster_model::resolve::resolve(&spec).map_err(muster_model::Refusal::from)?;
    if q.dry_run {
        return would(&app, caller, spec).await;
    }
    let run = std::mem::take(&mut spec.run);
    // Of what runs the log has the name of the image, and nothing else: breakers are about images.
    spec.run.image.clone_from(&run.image);
    let (payload, bytes) = (Some(run), raw.len() as u64);
    let request = writer.request(&app, &raw, Command::Submit { spec: Arc::new(spec) });
    let Committed { answer: made, seq } =
        app.brain().call(request, Attach { payload, bytes, ..Attach::default() }).await?;
    let Answer::Submitted { first, count } = made else {
        return Err(Failure::conflict("this Idempotency-Key was used for something else"));
    };
    let now = app.brain().now();
    let made = app.brain().read(|s| {
        let head = s.jobs.get(&first)?;
        if head.array.is_none() {
            let has_warnings = s.may_warn(head, now);
            return Some(Submitted::Job(Box::new(Job { has_warnings, ..Job::of(head, now) })));
        }
        let tasks = || s.jobs.range(first..).take(count as usize).map(|(_, j)| &**j);
        let has_warnings = speaker(tasks()).is_some_and(|j| s.may_warn(j, now));
        Some(Submitted::Array(JobArray { has_warnings, ..JobArray::of(tasks())? }))
    });
    // Only a repeat under an old key can find its job gone.
    let mut made = made.ok_or_else(|| {
        Failure::not_found(format!("job {first} was made and has ended long ago"))
    })?;
    let version = match &mut made {
        Submitted::Job(j) => &mut j.version,
        Submitted::Array(a) => &mut a.version,
    };
    *version = caller.version(&app, *version);
    let version = *version;
    Ok(answer(&app, caller, StatusCode::CREATED, seq, Some(version), &made))
}

/// What would come of a spec. Placing a large gang takes a while: done aside.
async fn would(app: &App, caller: &Caller, spec: JobSpec) -> Reply {
    let (brain, asking, spec) = (app.brain().clone(), caller.clone(), Arc::new(spec));
    let (seq, e) = app
        .aside(&caller.token, move || {
            let now = brain.now();
            brain.read_copy(|s| {
                let e = may_use_class(s, &asking.actor, spec.priority)
                    .and_then(|()| s.explain_spec(&spec, &asking.actor.name, now));
                (s.seq, e.map(|e| explanation(s, &asking, None, e)))
            })
        })
        .await?;
    Ok(answer(app, caller, StatusCode::OK, seq, None, &e?))
}

/// Which job a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JobName {
    number: u64,
    /// Index in the array that `number` is the parent of.
    task: Option<u32>,
}

fn job_name(text: &str) -> Reply<JobName> {
    let bad = || {
        Failure::bad(format!("`{}` is not a job id", shown(text)))
            .field("id")
            .hint("a job id is a number such as 42, or 42_3 for a task of an array")
    };
    let (number_text, task) = match text.split_once('_') {
        None => (text, None),
        Some((n, t)) => (n, Some(number(t).and_then(|t| u32::try_from(t).ok()).ok_or_else(bad)?)),
    };
    Ok(JobName { number: number(number_text).ok_or_else(bad)?, task })
}

/// The job of that name, if the caller may know of it.
fn find(site: &Site, caller: &Caller, name: JobName) -> Reply<Arc<ModelJob>> {
    let first = JobId(name.number);
    let found = match name.task {
        // Of an array whose first tasks are forgotten, the others are still meant.
        None => site
            .jobs
            .range(first..)
            .next()
            .map(|(_, j)| j)
            .filter(|j| j.id == first || j.array.is_some_and(|a| a.parent == first)),
        Some(index) => task(&site.jobs, first, index),
    };
    found.filter(|j| caller.sees(&j.project)).cloned().ok_or_else(|| {
        let id = name.task.map_or_else(|| first.to_string(), |t| format!("{first}_{t}"));
        Failure::not_found(format!("there is no job {id}"))
            .hint("`muster ps -a` lists the jobs; those that ended long ago are only in the log: `muster events`")
    })
}

/// The array that a plain number stands for; none where it means one job.
fn whole_array(head: &ModelJob, name: JobName) -> Option<JobId> {
    let parent = head.array.map(|a| a.parent);
    parent.filter(|p| name.task.is_none() && p.0 == name.number)
}

/// Every job that a name means: all tasks of an array where its plain number is given.
fn meant(site: &Site, head: &Arc<ModelJob>, name: JobName) -> Vec<Arc<ModelJob>> {
    match whole_array(head, name) {
        Some(parent) => site
            .jobs
            .range(parent..)
            .map(|(_, j)| j)
            .take_while(|j| j.array.is_some_and(|a| a.parent == parent))
            .cloned()
            .collect(),
        None => vec![Arc::clone(head)],
    }
}

/// The job a path names: for the other endpoints that hang on jobs.
pub(crate) fn named(app: &App, caller: &Caller, text: &str) -> Reply<Arc<ModelJob>> {
    let name = job_name(text)?;
    app.brain().read(|s| find(s, caller, name))
}

/// Get a job.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/jobs/{id}", tag = "jobs",
    params(("id" = String, Path, description = "`42`, or `42_3` for a task of an array.", pattern = "^[0-9]+(_[0-9]+)?$")),
    responses((status = 200, description = "The job.", body = Job))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(id): Segment,
) -> Reply {
    let name = job_name(&id)?;
    let now = app.brain().now();
    let (seq, job, held) = app.brain().read(|s| {
        let job = find(s, &caller, name)?;
        let held = job.held.as_ref().and_then(|_| s.barred(&job, now));
        Ok::<_, Failure>((s.seq, job, held.map(|(_, why)| why)))
    })?;
    let waiting = match job.state == JobState::Queued && job.held.is_none() {
        true => {
            let (brain, id) = (app.brain().clone(), job.id);
            let why = move || brain.read_copy(|s| why_queued(s, id, now));
            app.aside(&caller.token, why).await?
        }
        false => None,
    };
    let mut shown = view(&app, &caller, &job, held.as_deref());
    shown.progress = progress(&app, &job);
    if waiting.is_some() {
        shown.waiting = waiting;
    }
    Ok(answer(&app, &caller, StatusCode::OK, seq, Some(shown.version), &shown))
}

/// Get what was submitted, with the script and the environment that its ranks get.
///
/// For those who may submit to its project: an environment may hold what only they should read. Of a
/// task of an array it is the spec of that task alone. Can be submitted again as it is.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/jobs/{id}/spec", tag = "jobs",
    params(("id" = String, Path, description = "`42`, or `42_3` for a task of an array.", pattern = "^[0-9]+(_[0-9]+)?$")),
    responses((status = 200, description = "The spec.", body = JobSpec))))]
pub(crate) async fn spec(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(id): Segment,
) -> Reply {
    let name = job_name(&id)?;
    let (seq, job, tasks) = app.brain().read(|s| {
        let job = find(s, &caller, name)?;
        let tasks = whole_array(&job, name).map(|_| meant(s, &job, name));
        Ok::<_, Failure>((s.seq, job, tasks))
    })?;
    caller.at_least(Role::User)?;
    let mut spec = Arc::unwrap_or_clone(job.spec.whole());
    if let Some(task) = job.array {
        let own = task.index.to_string();
        match tasks {
            None => spec.array = Some(own),
            // A task that was changed has its own index only in its spec.
            Some(all) if spec.array.as_ref() == Some(&own) => spec.array = Some(indices(&all)),
            Some(_) => {}
        }
    }
    match app.brain().payload(job.payload).await? {
        Some(run) => spec.run = run,
        None if spec.simulate.is_some() => {}
        None => {
            return Err(Failure::not_found(format!(
                "what job {} runs is not stored any more",
                job.display_id()
            ))
            .hint("submit it again from its file"));
        }
    }
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &spec))
}

/// The indices of tasks as a spec names them: `0-3,7`.
fn indices(tasks: &[Arc<ModelJob>]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in tasks.iter().filter_map(|j| j.array).map(|a| a.index) {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let word = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(word).collect::<Vec<_>>().join(",")
}

/// Why a job waits, if it still does. Takes a while where the fleet or the queue is large: done aside.
fn why_queued(site: &Site, id: JobId, now: Time) -> Option<String> {
    site.jobs.get(&id).filter(|j| j.state == JobState::Queued)?;
    site.why(id, now).map(|e| e.summary)
}

/// Explain why a job waits, and what would make it start sooner.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/jobs/{id}/explain", tag = "jobs",
    params(("id" = String, Path, description = "`42`, or `42_3` for a task of an array.", pattern = "^[0-9]+(_[0-9]+)?$")),
    responses((status = 200, description = "Why it waits.", body = Explanation))))]
pub(crate) async fn explain(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(id): Segment,
) -> Reply {
    let name = job_name(&id)?;
    let now = app.brain().now();
    let (brain, asking) = (app.brain().clone(), caller.clone());
    let look = move |s: &Site| {
        let head = find(s, &asking, name)?;
        let tasks = meant(s, &head, name);
        let job = speaker(tasks.iter().map(|j| &**j)).unwrap_or(&head);
        let e = s.explain(job.id, now).unwrap_or_else(|| muster_scheduler::Explanation {
            summary: match &job.reason {
                Some(why) if job.state.is_final() => {
                    format!("it does not wait: it {} ({why})", past(job.state))
                }
                _ => format!("it does not wait: it is {}", job.state),
            },
            ..Default::default()
        });
        let mut e = explanation(s, &asking, Some(job), e);
        if let Some(parent) = whole_array(&head, name) {
            let (states, task) = (states(&tasks), job.display_id());
            e.summary = format!("{} tasks: {states}; task {task} {}", tasks.len(), e.summary);
            e.job = Some(parent.to_string());
        }
        Ok::<_, Failure>((s.seq, e))
    };
    let (seq, e) = app.aside(&caller.token, move || brain.read_copy(look)).await??;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &e))
}

/// Tasks of an array wait for the same: the first of those that are least far speaks for all, and once
/// all are over the first of those that ended worst.
fn speaker<'a>(tasks: impl Iterator<Item = &'a ModelJob>) -> Option<&'a ModelJob> {
    tasks.min_by_key(|j| (JobArray::rank(j.state), j.id))
}

/// How many jobs stand where, for people: `3 queued, 2 running`.
fn states(jobs: &[Arc<ModelJob>]) -> String {
    let mut all: Vec<(JobState, &str)> = jobs.iter().map(|j| (j.state, j.word())).collect();
    all.sort_unstable();
    let each = all.chunk_by(|a, b| a == b).map(|of| format!("{} {}", of.len(), of[0].1));
    each.collect::<Vec<_>>().join(", ")
}

/// Get the tasks of an array in short.
///
/// A job that is no array, and a single task, are alone in the answer.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/jobs/{id}/array", tag = "jobs",
    params(("id" = String, Path, description = "`42`, or `42_3` for a task of an array.", pattern = "^[0-9]+(_[0-9]+)?$")),
    responses((status = 200, description = "The tasks.", body = JobArray))))]
pub(crate) async fn array(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(id): Segment,
) -> Reply {
    let name = job_name(&id)?;
    let (seq, tasks) = app.brain().read(|s| {
        let head = find(s, &caller, name)?;
        Ok::<_, Failure>((s.seq, meant(s, &head, name)))
    })?;
    // There may be 10,000 tasks.
    let (asked, asking) = (app.clone(), caller.clone());
    let whole = move || -> Reply {
        let mut array = JobArray::of(tasks.iter().map(|j| &**j))
            .ok_or_else(|| Failure::not_found(format!("there is no job {}", shown(&id))))?;
        array.version = asking.version(&asked, array.version);
        Ok(answer(&asked, &asking, StatusCode::OK, seq, Some(array.version), &array))
    };
    app.aside(&caller.token, whole).await?
}

fn past(state: JobState) -> &'static str {
    match state {
        JobState::Cancelled => "was cancelled",
        other => other.word(),
    }
}

/// Who gives way to a job: those that the caller may know by their names, the others by their number.
fn giving_way(site: &Site, caller: &Caller, jobs: &[JobId]) -> String {
    let seen = |id: &&JobId| site.jobs.get(*id).is_some_and(|j| caller.sees(&j.project));
    let (known, hidden): (Vec<&JobId>, Vec<&JobId>) = jobs.iter().partition(seen);
    let mut words: Vec<String> = known
        .into_iter()
        .filter_map(|id| site.jobs.get(id))
        .map(|j| format!("job {} ({}, project {})", j.display_id(), j.name, j.project))
        .collect();
    match hidden.len() {
        0 => {}
        1 => words.push("1 job of another project".into()),
        n => words.push(format!("{n} jobs of other projects")),
    }
    words.join(", ")
}

/// The scheduler's words, with the names of others' jobs left out for those who may not know.
fn explanation(
    site: &Site,
    caller: &Caller,
    job: Option<&ModelJob>,
    e: muster_scheduler::Explanation,
) -> Explanation {
    let state = match job {
        Some(j) => j.word(),
        None if e.impossible => "can never start",
        None if e.starts_now || !(e.gives_way.is_empty() || e.gives_way_from.is_some()) => {
            "would start"
        }
        None => "would wait",
    };
    let ahead = e.ahead.into_iter().map(|a| {
        let other = site.jobs.get(&a.job).filter(|j| caller.sees(&j.project));
        muster_api::JobAhead {
            id: other.map_or_else(|| "another project's".into(), |j| j.display_id()),
            name: other.map(|j| j.name.to_string()),
            why: a.why,
        }
    });
    // Who is stopped now is why it starts. Who may be later explains the forecast; why it waits is the
    // same with and without them, here as in every list.
    let others = giving_way(site, caller, &e.gives_way);
    let (mut summary, mut later) = (e.summary, String::new());
    match e.gives_way_from.map(Timestamp) {
        _ if others.is_empty() => {}
        None => summary.push_str(&format!("; it takes the place of {others}")),
        Some(at) => later = format!("; {others}, from {at} on"),
    }
    Explanation {
        kind: Kind::Explanation,
        job: job.map(ModelJob::display_id),
        state: state.into(),
        possible: !e.impossible,
        summary,
        ahead: ahead.collect(),
        ahead_count: e.ahead_count.into(),
        constraints: e
            .constraints
            .into_iter()
            .map(|c| muster_api::Constraint {
                name: c.name,
                detail: c.detail,
                nodes_left: c.nodes_left.into(),
                gpus_left: c.gpus_left,
                binding: c.binding,
                warning: c.warning,
            })
            .collect(),
        estimated_start: e.estimate.map(|e| muster_api::Estimate {
            earliest: e.earliest.map(Into::into),
            at: e.at.into(),
            reserved: e.reserved,
            basis: e.basis + &later,
        }),
        suggestions: e.suggestions,
        would_go: e.would_go,
    }
}

/// A body with nothing in it; `{}` is taken too.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Does the same to a job, or to every task of an array when its plain number is given. The command
/// knows whether it is about a whole array.
async fn steer(
    app: App,
    writer: Writer,
    id: &str,
    body: &[u8],
    command: impl Fn(JobId, bool) -> Command,
) -> Reply {
    writer.caller.at_least(Role::User)?;
    let name = job_name(id)?;
    let (head, whole, rest) = app.brain().read(|s| {
        let head = find(s, &writer.caller, name)?;
        let rest: Vec<JobId> =
            meant(s, &head, name).iter().map(|j| j.id).filter(|id| *id != head.id).collect();
        let whole = whole_array(&head, name).is_some();
        Ok::<_, Failure>((head, whole, rest))
    })?;
    let tasks = rest.len() + 1;
    if tasks > 1
        && let Err(wait) = app.task_changes().take_many(&writer.caller.token, tasks, Instant::now())
    {
        return Err(Failure::too_many_tasks(tasks, wait));
    }
    let call = |job: JobId, task: bool| {
        let mut request = writer.request(&app, body, command(job, whole));
        if task {
            // One key may stand for one record only; a version belongs to the task that was seen.
            request.if_version = None;
            if let Some(key) = &mut request.key {
                key.key = format!("{}/{job}", key.key);
            }
        }
        app.brain().call(request, Attach::default())
    };
    let mut outcome = call(head.id, false).await;
    for chunk in rest.chunks(256) {
        for one in futures::future::join_all(chunk.iter().map(|id| call(*id, true))).await {
            outcome = match (outcome, one) {
                // Tasks that have already ended refuse, and so do those that this caller may not
                // change while they run; one that does not is enough.
                (Err(BrainError::Refused(r)), one) if of_one_task(r.code) => one,
                (kept, Err(BrainError::Refused(r))) if of_one_task(r.code) => kept,
                (Err(e), _) | (_, Err(e)) => Err(e),
                (Ok(a), Ok(b)) => Ok(if b.seq > a.seq { b } else { a }),
            };
        }
    }
    let seq: Seq = outcome?.seq;
    let now = app.brain().now();
    let (job, why) = app.brain().read(|s| {
        let job = s.jobs.get(&head.id).unwrap_or(&head);
        (Arc::clone(job), s.stopped_by(job, &mut s.reasons(now), now))
    });
    let shown = view(&app, &writer.caller, &job, why.as_deref());
    Ok(answer(&app, &writer.caller, StatusCode::OK, seq, Some(shown.version), &shown))
}

/// May the next task of an array be changed although this one was refused?
fn of_one_task(code: RefusalCode) -> bool {
    matches!(code, RefusalCode::Conflict | RefusalCode::NotAllowed)
}

macro_rules! steering {
    ($(#[$doc:meta])* $name:ident, $path:literal, $command:ident) => {
        $(#[$doc])*
        ///
        /// The plain number of an array means every task of it.
        #[cfg_attr(feature = "openapi", utoipa::path(post, path = $path, tag = "jobs",
            params(("id" = String, Path, description = "`42`, or `42_3` for a task of an array.",
                    pattern = "^[0-9]+(_[0-9]+)?$")),
            responses((status = 200, description = "The job as it is now.", body = Job))))]
        pub(crate) async fn $name(
            State(app): State<App>,
            UserWriter(writer): UserWriter,
            Segment(id): Segment,
            OptionalBody { raw, .. }: OptionalBody<Nothing>,
        ) -> Reply<Response> {
            steer(app, writer, &id, &raw, |job, _| Command::$command { job }).await
        }
    };
}

steering!(
    /// End a job.
    cancel, "/v1/jobs/{id}/cancel", Cancel
);
steering!(
    /// Keep a waiting job from starting.
    hold, "/v1/jobs/{id}/hold", Hold
);
steering!(
    /// Let a held job start again.
    release, "/v1/jobs/{id}/release", Release
);
/// Stop the active attempt and try again, or queue an ended job anew.
///
/// Of an array's plain number: tasks that failed or were cancelled; with `all` every task of it.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/jobs/{id}/requeue", tag = "jobs",
    params(RequeueQuery, ("id" = String, Path, description = "`42`, or `42_3` for a task of an array.",
            pattern = "^[0-9]+(_[0-9]+)?$")),
    responses((status = 200, description = "The job as it is now.", body = Job))))]
pub(crate) async fn requeue(
    State(app): State<App>,
    UserWriter(writer): UserWriter,
    Segment(id): Segment,
    Query(q): Query<RequeueQuery>,
    OptionalBody { raw, .. }: OptionalBody<Nothing>,
) -> Reply<Response> {
    let command = |job, whole| match whole && !q.all {
        true => Command::RequeueFailed { job },
        false => Command::Requeue { job },
    };
    steer(app, writer, &id, &raw, command).await
}

steering!(
    /// Ask a running job for a checkpoint.
    checkpoint, "/v1/jobs/{id}/checkpoint", AskCheckpoint
);

/// Change the priority class or the time limit of a waiting job, or the time limit of a running one.
///
/// A longer limit of a running job is for operators: reserved starts of others rest on it. The plain
/// number of an array means every task of it.
#[cfg_attr(feature = "openapi", utoipa::path(patch, path = "/v1/jobs/{id}", tag = "jobs", request_body = UpdateJob,
    params(("id" = String, Path, description = "`42`, or `42_3` for a task of an array.",
            pattern = "^[0-9]+(_[0-9]+)?$")),
    responses((status = 200, description = "The job as it is now.", body = Job))))]
pub(crate) async fn update(
    State(app): State<App>,
    UserWriter(writer): UserWriter,
    Segment(id): Segment,
    JsonBody { value, raw }: JsonBody<UpdateJob>,
) -> Reply {
    let UpdateJob { priority, time_limit } = value;
    if priority.is_none() && time_limit.is_none() {
        return Err(
            Failure::senseless("it changes nothing").hint("send `priority`, `time_limit` or both")
        );
    }
    steer(app, writer, &id, &raw, |job, _| Command::UpdateJob { job, priority, time_limit }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_ids_are_numbers_with_an_optional_task() {
        assert_eq!(job_name("42").unwrap(), JobName { number: 42, task: None });
        assert_eq!(job_name("42_3").unwrap(), JobName { number: 42, task: Some(3) });
        for bad in [
            "",
            "a",
            "-1",
            "+1",
            "4 2",
            "42_",
            "_3",
            "42_3_4",
            "42.1",
            "99999999999999999999",
            "1_4294967296",
        ] {
            assert_eq!(job_name(bad).unwrap_err().status(), 400, "{bad}");
        }
    }
}
