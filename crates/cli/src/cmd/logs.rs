//! `muster logs`.

use clap::Args;
use muster_api::LogsQuery;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::follow::{self, Printer};
use muster_terminal::{output, pick};

/// Show what a job's ranks print
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster logs 42\n  muster logs -f 42 --rank 0\n  muster logs 42 --attempt 1 --tail 100\n\n\
With several ranks each line begins with its rank. -o json prints one object a line."
)]
pub(crate) struct Logs {
    /// Id or name
    #[arg(value_name = "JOB")]
    job: String,
    /// Stay and show what comes, until the job has ended
    #[arg(short, long)]
    follow: bool,
    /// Only this rank's
    #[arg(long, value_name = "R")]
    rank: Option<u32>,
    /// This attempt's instead of the newest
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only the last lines of each rank
    #[arg(long, value_name = "N")]
    tail: Option<u32>,
}

impl Logs {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let Logs { job, follow, rank, attempt, tail } = self;
        let client = ctx.client()?;
        let job = pick::job(&client, &job).await?;
        if job.attempts == 0 && !follow {
            let why = job.waiting.as_deref().map(|w| format!(": {w}")).unwrap_or_default();
            output::note(&format!("job {} has not started yet{why}", job.id));
            return Ok(0);
        }
        let many = rank.is_none() && job.ranks() > 1;
        let mut printer = Printer::new(many);
        let query = LogsQuery { rank, attempt, follow, tail };
        let mut pieces = follow::pieces(&client, &job.id, query);
        while let Some(piece) = pieces.recv().await {
            let piece = piece?;
            if ctx.is_table() {
                printer.print(piece)?;
            } else {
                let text = serde_json::json!({
                    "attempt": piece.attempt,
                    "rank": piece.rank,
                    "stream": piece.stream,
                    "text": String::from_utf8_lossy(&piece.bytes),
                    "note": piece.note,
                });
                output::print(&format!("{text}\n"))?;
            }
        }
        printer.finish()?;
        Ok(0)
    }
}
