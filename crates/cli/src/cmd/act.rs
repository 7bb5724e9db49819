//! `muster cancel|hold|release|requeue|checkpoint`.

use super::bulk::Refusals;
use clap::Args;
use muster_api::Job;
use muster_client::{Client, JobAction};
use muster_model::job::{ArrayTask, JobState};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::{Fail, REFUSED};
use muster_terminal::{output, pick};

macro_rules! action {
    ($name:ident, $about:literal, $examples:literal) => {
        #[doc = $about]
        #[derive(Debug, Args)]
        #[command(about = $about, after_help = $examples)]
        pub(crate) struct $name {
            /// Ids or names; an array's id stands for all of its tasks
            #[arg(required = true, value_name = "JOB")]
            jobs: Vec<String>,
        }

        impl $name {
            pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
                act(ctx, &self.jobs, JobAction::$name, false).await
            }
        }
    };
}

action!(
    Cancel,
    "Cancel jobs",
    "Examples:\n  muster cancel 42\n  muster cancel 42_3    one task of an array\n  muster cancel train"
);
action!(
    Hold,
    "Hold waiting jobs: they do not start until released",
    "Examples:\n  muster hold 42\n  muster release 42"
);
action!(Release, "Release held jobs", "Examples:\n  muster release 42");

/// Queue jobs again: running ones are stopped first, ended ones run again
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster requeue 42          stop it, or take it after its end, and queue it \
again\n  muster requeue 42          an array: its tasks that failed or were cancelled\n  \
muster requeue 42_3        one task of an array, however it ended\n  \
muster requeue --all 42    every task of an array"
)]
pub(crate) struct Requeue {
    /// Ids or names; an array's id stands for its tasks that failed or were cancelled
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Every task of an array, also those that succeeded and those that run
    #[arg(long)]
    all: bool,
}

impl Requeue {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        act(ctx, &self.jobs, JobAction::Requeue, self.all).await
    }
}

action!(
    Checkpoint,
    "Ask running jobs for a checkpoint",
    "Examples:\n  muster checkpoint 42 && muster describe job 42"
);

async fn act(ctx: &Ctx, given: &[String], action: JobAction, all: bool) -> Result<u8, Fail> {
    let client = ctx.client()?;
    let mut found: Vec<(&str, Job)> = Vec::new();
    for given in given {
        let job = pick::job(&client, given).await?;
        // Named twice is named once: what was read of it would be old the second time.
        let known = |(word, j): &(&str, Job)| {
            j.id == job.id && pick::array(j, word).is_some() == pick::array(&job, given).is_some()
        };
        if all && pick::array(&job, given).is_none() {
            let message = format!("--all: `{given}` is one job, no array");
            return Err(Fail::usage(message).hint(format!("`muster requeue {given}` takes it")));
        }
        if !found.iter().any(known) {
            found.push((given.as_str(), job));
        }
    }
    let mut after = Vec::new();
    let mut refusals = Refusals::of("job", found.len());
    for (given, before) in found {
        match one(&client, given, before, action, all).await {
            Ok((job, said)) => {
                if ctx.is_table() {
                    output::print(&format!("{said}\n"))?;
                }
                after.push(job);
            }
            // The others are still wanted.
            Err(fail) => refusals.add(given, fail),
        }
    }
    refusals.show(ctx, after)?;
    refusals.end(0)
}

/// Does it to what one word names; how the job is now, and what became of it.
async fn one(
    client: &Client,
    given: &str,
    before: Job,
    action: JobAction,
    all: bool,
) -> Result<(Job, String), Fail> {
    // The plain id of an array means all of its tasks to the server.
    if let Some(array) = pick::array(&before, given) {
        let id = array.parent.to_string();
        let tasks = pick::tasks_in(client, "active", &before, array).await?;
        if all {
            let job = client.requeue_all(&id).await?;
            return Ok((job, format!("array {id}: all of its tasks go back to the queue")));
        }
        if action == JobAction::Cancel && tasks.is_empty() {
            let cancelled = pick::tasks_in(client, "cancelled", &before, array).await?;
            if let Some(said) = cancelled_already(array, cancelled.len()) {
                return Ok((before, said));
            }
        }
        let said = of_array(action, array, &tasks)?;
        let needless = action == JobAction::Release && !tasks.iter().any(|t| t.held.is_some());
        let job = if needless { before } else { client.act(&id, action).await? };
        return Ok((job, said));
    }
    if let Some(said) = already(action, &before) {
        return Ok((before, said?));
    }
    let after = client.act(&before.id, action).await?;
    let said = became(action, &before, &after)?;
    Ok((after, said))
}

/// What there is to say without doing anything: it is so already, which is no error, or it cannot
/// be, which is one.
fn already(action: JobAction, job: &Job) -> Option<Result<String, Fail>> {
    let (id, state) = (&job.id, job.state);
    match action {
        JobAction::Cancel if state == JobState::Cancelled => {
            Some(Ok(format!("job {id} was cancelled already{}", at(job))))
        }
        JobAction::Cancel if state.is_final() => Some(Err(over(job, "nothing to cancel"))),
        JobAction::Release if state.is_final() => {
            Some(Err(over(job, "nothing to release")
                .hint(format!("`muster requeue {id}` runs it again"))))
        }
        JobAction::Release if job.held.is_none() => {
            Some(Ok(format!("job {id} is not held: it is {state}")))
        }
        JobAction::Hold if state == JobState::Queued => {
            let by = job.held.as_ref()?;
            Some(Ok(format!("job {id} is held already, by {by}")))
        }
        JobAction::Requeue if state == JobState::Queued => {
            Some(Ok(format!("job {id} is queued already{}", held(job))))
        }
        _ => None,
    }
}

/// What became of a job that something was asked for.
fn became(action: JobAction, before: &Job, after: &Job) -> Result<String, Fail> {
    let done = match action {
        // Its ranks had ended before it was asked, and only the cause was still looked for.
        JobAction::Cancel if after.state == JobState::Failed && is_ending(before) => {
            let code = after.exit_code.map(|c| format!(", exit code {c}")).unwrap_or_default();
            let how = format!("job {} had already ended ({}{code})", after.id, after.state);
            return Ok(format!(
                "{how} and keeps that result; its cause is not looked for any more"
            ));
        }
        // It ended by itself while it was asked.
        JobAction::Cancel if matches!(after.state, JobState::Succeeded | JobState::Failed) => {
            return Err(over(after, "nothing to cancel"));
        }
        JobAction::Cancel if after.state == JobState::Cancelled => "is cancelled",
        JobAction::Cancel => "is being cancelled",
        JobAction::Hold => "is held",
        // A breaker may have opened while somebody held it.
        JobAction::Release if after.held.is_some() && after.state == JobState::Queued => {
            return Ok(format!("job {} does not start yet{}", before.id, held(after)));
        }
        JobAction::Release => "may start",
        JobAction::Requeue => {
            return Ok(format!("job {} goes back to the queue{}", before.id, held(after)));
        }
        JobAction::Checkpoint => "was asked for a checkpoint",
    };
    Ok(format!("job {} {done}", before.id))
}

/// The same for an array, of which these tasks have not ended.
fn of_array(action: JobAction, array: ArrayTask, active: &[Job]) -> Result<String, Fail> {
    let id = array.parent;
    let of_all = |n: usize| format!("{n} of {}", output::plural(array.count as usize, "task"));
    let held = active.iter().filter(|t| t.held.is_some()).count();
    Ok(match action {
        JobAction::Cancel if active.is_empty() => {
            let message = format!("all tasks of array {id} have ended; nothing to cancel");
            return Err(Fail::new(REFUSED, message));
        }
        JobAction::Cancel => {
            format!("array {id}: {} being cancelled", of_all(active.len()))
        }
        JobAction::Release if held == 0 => format!("no task of array {id} is held"),
        JobAction::Release => format!("array {id}: {} may start", of_all(held)),
        JobAction::Hold => format!("array {id}: tasks that wait are held"),
        JobAction::Requeue => {
            format!("array {id}: its tasks that failed or were cancelled go back to the queue")
        }
        JobAction::Checkpoint => {
            format!("array {id}: tasks that run were asked for a checkpoint")
        }
    })
}

/// Cancelling an array anew is no error where every task of it was cancelled.
fn cancelled_already(array: ArrayTask, cancelled: usize) -> Option<String> {
    let all = cancelled == array.count as usize;
    all.then(|| format!("array {} was cancelled already", array.parent))
}

/// Have all its ranks ended, and is only the cause still looked for?
fn is_ending(job: &Job) -> bool {
    job.attempt.as_ref().is_some_and(|a| a.is_ending())
}

/// What keeps a queued job from starting although it was asked for. The server says what ends that:
/// not every hold ends by a release.
fn held(job: &Job) -> String {
    let Some(by) = job.held.as_ref().filter(|_| job.state == JobState::Queued) else {
        return String::new();
    };
    match &job.waiting {
        Some(why) => format!("; it {why}"),
        None => format!("; it is held by {by}"),
    }
}

/// Too late for a job that has ended.
fn over(job: &Job, rest: &str) -> Fail {
    let message = format!("job {} ended ({}){}; {rest}", job.id, job.state, at(job));
    Fail::new(REFUSED, message)
}

/// When it ended.
fn at(job: &Job) -> String {
    job.ended_at.map(|t| format!(" at {t}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::samples::{job, running};
    use muster_model::JobId;
    use muster_model::units::Time;

    fn ended(state: JobState) -> Job {
        let mut job = job(7, state);
        job.ended_at = Some(Time(60_000).into());
        job
    }

    #[test]
    fn a_job_that_has_ended_is_not_said_to_be_cancelled_or_to_start() {
        for state in [JobState::Failed, JobState::Succeeded] {
            let fail = already(JobAction::Cancel, &ended(state)).unwrap().unwrap_err();
            let want =
                format!("job 7 ended ({state}) at 1970-01-01T00:01:00.000Z; nothing to cancel");
            assert_eq!((fail.code, fail.message), (REFUSED, want));
            let fail = already(JobAction::Release, &ended(state)).unwrap().unwrap_err();
            assert_eq!(fail.code, REFUSED);
            // It ended while it was asked.
            assert!(became(JobAction::Cancel, &running(7), &ended(state)).is_err());
        }
    }

    #[test]
    fn what_is_so_already_is_no_error() {
        let said = |action, job: &Job| already(action, job).unwrap().unwrap();
        let cancelled = ended(JobState::Cancelled);
        assert_eq!(
            said(JobAction::Cancel, &cancelled),
            "job 7 was cancelled already at 1970-01-01T00:01:00.000Z"
        );
        assert_eq!(said(JobAction::Release, &running(7)), "job 7 is not held: it is running");
        let mut waits = job(7, JobState::Queued);
        assert_eq!(said(JobAction::Requeue, &waits), "job 7 is queued already");
        assert!(already(JobAction::Hold, &waits).is_none());
        waits.held = Some("user:alice".into());
        assert_eq!(said(JobAction::Hold, &waits), "job 7 is held already, by user:alice");
        assert!(already(JobAction::Release, &waits).is_none());
        let said_held = said(JobAction::Requeue, &waits);
        assert_eq!(said_held, "job 7 is queued already; it is held by user:alice");
        // It was somebody's, and a breaker opened meanwhile.
        let mut behind = job(7, JobState::Queued);
        behind.held = Some("breaker image:x".into());
        // The server knows that a release would be refused.
        behind.waiting = Some("is held by breaker image:x; an operator forced that open".into());
        for (action, before) in [(JobAction::Release, &waits), (JobAction::Requeue, &running(7))] {
            let now = became(action, before, &behind).unwrap();
            assert!(!now.contains("muster release"), "{now}");
            assert!(now.ends_with("; it is held by breaker image:x; an operator forced that open"));
        }
        behind.waiting = Some("is held by user:bob; `muster release 7` releases it".into());
        let now = became(JobAction::Requeue, &running(7), &behind).unwrap();
        let want = "job 7 goes back to the queue; it is held by user:bob; `muster release 7` \
                    releases it";
        assert_eq!(now, want);
        behind.held = None;
        assert_eq!(became(JobAction::Release, &waits, &behind).unwrap(), "job 7 may start");
        let gone = ended(JobState::Cancelled);
        let now = became(JobAction::Cancel, &waits, &gone).unwrap();
        assert_eq!(now, "job 7 is cancelled");
    }

    #[test]
    fn a_cancel_while_the_cause_is_looked_for_says_what_it_did() {
        let mut ending = running(7);
        ending.state = JobState::Stopping;
        let attempt = ending.attempt.as_mut().expect("it runs");
        attempt.stop = Some(muster_api::job::Stop {
            reason: muster_model::job::StopReason::Cancelled { by: "nobody".into() },
            message: "ending, looking for the cause: rank 0 exited with code 5".into(),
            at: Time(50_000).into(),
            grace: muster_model::units::Span::secs(30),
            fence_until: None,
        });
        for slot in &mut attempt.slots {
            slot.state = "ended".into();
        }
        let mut failed = ended(JobState::Failed);
        failed.exit_code = Some(5);
        let said = became(JobAction::Cancel, &ending, &failed).expect("it did something");
        assert!(said.starts_with("job 7 had already ended (failed, exit code 5)"), "{said}");
        // A cancel that finds it ended changes nothing.
        assert!(already(JobAction::Cancel, &failed).is_some_and(|said| said.is_err()));
    }

    #[test]
    fn an_array_says_how_many_tasks_it_was_about() {
        let four = ArrayTask { parent: JobId(4), index: 0, count: 3 };
        let fail = of_array(JobAction::Cancel, four, &[]).unwrap_err();
        assert!(fail.code == REFUSED && fail.message.contains("nothing to cancel"));
        assert_eq!(cancelled_already(four, 2), None, "one ended by itself");
        assert_eq!(cancelled_already(four, 3).unwrap(), "array 4 was cancelled already");
        let mut tasks = [running(4), job(5, JobState::Queued)];
        let said = of_array(JobAction::Cancel, four, &tasks).unwrap();
        assert_eq!(said, "array 4: 2 of 3 tasks being cancelled");
        let said = of_array(JobAction::Release, four, &tasks).unwrap();
        assert_eq!(said, "no task of array 4 is held");
        tasks[1].held = Some("user:alice".into());
        let said = of_array(JobAction::Release, four, &tasks).unwrap();
        assert_eq!(said, "array 4: 1 of 3 tasks may start");
    }
}
