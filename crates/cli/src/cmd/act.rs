//! `muster cancel|hold|release|requeue|checkpoint`.

use clap::Args;
use muster_api::{Job, JobList};
use muster_client::JobAction;
use muster_model::job::JobState;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::{output, pick};

macro_rules! action {
    ($name:ident, $action:expr, $done:literal, $about:literal, $examples:literal) => {
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
                act(ctx, &self.jobs, Ask::One($action), $done).await
            }
        }
    };
}

action!(
    Cancel,
    JobAction::Cancel,
    "is being cancelled",
    "End jobs",
    "Examples:\n  muster cancel 42\n  muster cancel 42_3    one task of an array\n  muster cancel train"
);
action!(
    Hold,
    JobAction::Hold,
    "is held",
    "Keep waiting jobs from starting",
    "Examples:\n  muster hold 42\n  muster release 42"
);
action!(
    Release,
    JobAction::Release,
    "may start",
    "Let held jobs start",
    "Examples:\n  muster release 42"
);
/// Try jobs again from the queue
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
        let ask = if self.all { Ask::RequeueAll } else { Ask::One(JobAction::Requeue) };
        act(ctx, &self.jobs, ask, "goes back to the queue").await
    }
}

action!(
    Checkpoint,
    JobAction::Checkpoint,
    "was asked for a checkpoint",
    "Ask running jobs for a checkpoint",
    "Examples:\n  muster checkpoint 42 && muster describe job 42"
);

/// What is asked of each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    One(JobAction),
    RequeueAll,
}

/// What is said of a job afterwards. A cancel does not rewrite how a job had ended.
fn said(ask: Ask, id: &str, job: &Job, done: &str) -> String {
    let ended = matches!(job.state, JobState::Succeeded | JobState::Failed);
    // Of an array the answer shows one task only.
    if ask != Ask::One(JobAction::Cancel) || !ended || pick::whole_array(job, id).is_some() {
        return format!("job {id} {done}\n");
    }
    let code = job.exit_code.map(|c| format!(", exit code {c}")).unwrap_or_default();
    format!("job {id} had already ended: {}{code}\n", job.state)
}

async fn act(ctx: &Ctx, given: &[String], ask: Ask, done: &str) -> Result<u8, Fail> {
    let client = ctx.client()?;
    let given_many = given.len() > 1;
    let mut after = Vec::new();
    let mut first_failure = None;
    for given in given {
        // The plain id of an array means all of its tasks to the server.
        let id = pick::id(&client, given).await?;
        let answer = match ask {
            Ask::One(action) => client.act(&id, action).await,
            Ask::RequeueAll => client.requeue_all(&id).await,
        };
        match answer {
            Ok(job) => {
                if ctx.is_table() {
                    output::print(&said(ask, &id, &job, done))?;
                }
                after.push(job);
            }
            // The others are still wanted.
            Err(e) => {
                let mut fail = Fail::from(e);
                if given_many {
                    fail.message = format!("job {id}: {}", fail.message);
                }
                if first_failure.is_none() {
                    first_failure = Some(fail);
                } else {
                    eprint!("{}", fail.render(output::is_terminal_err()));
                }
            }
        }
    }
    if !ctx.is_table() {
        match after.as_slice() {
            [one] if first_failure.is_none() => ctx.show(one, |_| String::new())?,
            _ => ctx.show(&JobList { items: after, cursor: None }, |_| String::new())?,
        }
    }
    first_failure.map_or(Ok(0), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_says_how_a_job_had_ended() {
        let ask = Ask::One(JobAction::Cancel);
        let mut job = muster_api::samples::job(42, JobState::Running);
        let done = "is being cancelled";
        assert_eq!(said(ask, "42", &job, done), "job 42 is being cancelled\n");
        (job.state, job.exit_code) = (JobState::Failed, Some(3));
        assert_eq!(said(ask, "42", &job, done), "job 42 had already ended: failed, exit code 3\n");
        assert_eq!(said(Ask::One(JobAction::Requeue), "42", &job, "goes"), "job 42 goes\n");
    }
}
