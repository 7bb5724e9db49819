//! `muster report`.

pub(crate) mod fleet;
pub(crate) mod job;
pub(crate) mod period;

use clap::{Args, Subcommand};
use muster_api::PeriodKind;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::colour;
use muster_terminal::pick;

/// Report where GPU time went: of a job, the fleet, a week or a month
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster report job 42\n  muster report job 42_3\n  muster report job 42 -o json | jq .ettr\n  muster report fleet\n  muster report fleet --days 1 --by hour -o json\n  muster report weekly\n  muster report monthly --back 0"
)]
pub(crate) struct Report {
    #[command(subcommand)]
    what: ReportKind,
}

#[derive(Debug, Subcommand)]
enum ReportKind {
    /// Where a job's time went, what it did with its GPUs, and what would have been enough
    #[command(alias = "jobs")]
    Job {
        /// Id or name
        name: String,
    },
    /// The use of all GPUs by day or hour, and when demand reaches capacity
    Fleet(fleet::FleetArgs),
    /// A week compared with the week before: metrics, SLOs, incidents
    Weekly(period::PeriodArgs),
    /// A month compared with the month before: the same, with versions and capacity
    Monthly(period::PeriodArgs),
}

impl Report {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        match self.what {
            ReportKind::Fleet(args) => {
                let report = client.fleet_report(&args.query()).await?;
                ctx.show(&report, |r| fleet::text(r, colour::on()))?;
            }
            ReportKind::Weekly(args) => {
                let report = client.period_report(args.query(PeriodKind::Week)).await?;
                ctx.show(&report, |r| period::text(r, now(), colour::on()))?;
            }
            ReportKind::Monthly(args) => {
                let report = client.period_report(args.query(PeriodKind::Month)).await?;
                ctx.show(&report, |r| period::text(r, now(), colour::on()))?;
            }
            ReportKind::Job { name } => {
                let job = pick::job(&client, &name).await?;
                let report = client.job_report(&job.id).await?;
                ctx.show(&report, |r| job::text(r, colour::on()))?;
            }
        }
        Ok(0)
    }
}
