//! `muster cancel|hold|release|requeue|checkpoint`.

use clap::Args;
use muster_api::JobList;
use muster_client::JobAction;
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
                act(ctx, &self.jobs, $action, $done).await
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
action!(
    Requeue,
    JobAction::Requeue,
    "goes back to the queue",
    "Try jobs again from the queue",
    "Examples:\n  muster requeue 42    stop it, or take it after its end, and queue it again"
);
action!(
    Checkpoint,
    JobAction::Checkpoint,
    "was asked for a checkpoint",
    "Ask running jobs for a checkpoint",
    "Examples:\n  muster checkpoint 42 && muster describe job 42"
);

async fn act(ctx: &Ctx, given: &[String], action: JobAction, done: &str) -> Result<u8, Fail> {
    let client = ctx.client()?;
    let given_many = given.len() > 1;
    let mut after = Vec::new();
    let mut first_failure = None;
    for given in given {
        // The plain id of an array means all of its tasks to the server.
        let id = pick::id(&client, given).await?;
        match client.act(&id, action).await {
            Ok(job) => {
                if ctx.is_table() {
                    output::print(&format!("job {id} {done}\n"))?;
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
