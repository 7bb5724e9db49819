//! `muster report`.

pub(crate) mod job;

use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::output::colour;
use crate::pick;
use clap::{Args, Subcommand};

/// Say where the time went
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster report job 42\n  muster report job 42_3\n  muster report job 42 -o json | jq .ettr"
)]
pub(crate) struct Report {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Where a job's time went, what it did with its GPUs, and what would have been enough
    #[command(alias = "jobs")]
    Job {
        /// Id or name
        name: String,
    },
}

impl Report {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        match self.what {
            What::Job { name } => {
                let job = pick::job(&client, &name).await?;
                let report = client.job_report(&job.id).await?;
                ctx.show(&report, |r| job::text(r, colour::on()))?;
            }
        }
        Ok(0)
    }
}
