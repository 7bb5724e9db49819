//! `muster wait`.

use clap::Args;
use muster_api::{Job, JobList};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::{follow, output, pick};

/// Wait until jobs end, and return their exit code
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster wait 42\n  muster wait 42 43 44 && echo all well\n  \
muster wait $(muster submit train.yaml)\n\n\
With several jobs the highest exit code is returned; an array's id stands for all of its tasks.")]
pub(crate) struct Wait {
    /// Ids or names
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
}

impl Wait {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let mut open = Vec::new();
        for given in &self.jobs {
            open.extend(pick::jobs(&client, given).await?);
        }
        let mut ended = Vec::new();
        for job in open {
            let job = follow::until_final(&client, job).await?;
            print_job_end(&job);
            ended.push(job);
        }
        let code = ended.iter().map(follow::exit_code).max().unwrap_or(0);
        if !ctx.is_table() {
            match ended.as_slice() {
                [one] => ctx.show(one, |_| String::new())?,
                _ => ctx.show(&JobList { items: ended, cursor: None }, |_| String::new())?,
            }
        }
        Ok(code)
    }
}

/// How a job ended, on stderr.
pub(crate) fn print_job_end(job: &Job) {
    let why = job.reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
    output::note(&format!("job {} ({}) {}{why}", job.id, job.name, job.state));
    if let Some(hint) = job.hint() {
        output::note(&format!("hint: {hint}"));
    }
}
