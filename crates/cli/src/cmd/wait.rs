//! `muster wait`.

use clap::Args;
use muster_api::{Job, JobList};
use muster_model::units::Span;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::{follow, output, pick};
use std::time::Duration;
use tokio::time::Instant;

/// Wait until jobs end, and return their exit code
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster wait 42\n  muster wait 42 43 44 && echo all succeeded\n  \
muster wait $(muster submit train.yaml)\n  muster wait 42 --timeout 2h\n\n\
With several jobs the highest exit code is returned; an array's id stands for all of its tasks.\n\
After --timeout it is 124, as timeout(1) has it, and the jobs continue."
)]
pub(crate) struct Wait {
    /// Ids or names
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Give up after so long, such as 2h; the jobs continue
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
}

/// Exit code where the time is over, as `timeout` has it.
const TIMED_OUT: u8 = 124;

impl Wait {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        // So far ahead that no clock has it is no limit.
        let limit = |t: Span| Some((Instant::now().checked_add(Duration::from_millis(t.0))?, t));
        let limit = self.timeout.and_then(limit);
        let mut open = Vec::new();
        for given in &self.jobs {
            open.extend(pick::jobs(&client, given).await?);
        }
        let mut ended = Vec::new();
        for job in open {
            let id = job.id.clone();
            let end = follow::until_final(&client, job);
            let job = match limit {
                None => end.await?,
                Some((at, t)) => tokio::time::timeout_at(at, end).await.map_err(|_| {
                    Fail::new(TIMED_OUT, format!("job {id} is not over after {t}"))
                        .hint("it continues; `muster cancel` ends it")
                })??,
            };
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
