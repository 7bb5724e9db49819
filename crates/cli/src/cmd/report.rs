//! `muster report`.

pub(crate) mod fleet;
pub(crate) mod job;
pub(crate) mod period;

use clap::{Args, Subcommand};
use muster_api::PeriodKind;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::{Fail, NOT_FOUND};
use muster_terminal::output::colour;
use muster_terminal::pick;

/// Report where GPU time went: of a job, the fleet, a week or a month
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster report job 42\n  muster report job 42_3\n  muster report job 42 -o json | jq .ettr\n  muster report fleet\n  muster report fleet --days 1 --by hour -o json\n  muster report fleet --project nlp\n  muster report weekly\n  muster report monthly --back 0"
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
                let given = ctx.global.project.as_deref().filter(|p| !p.is_empty());
                args.is_clear(ctx.typed_project())?;
                let report = client.fleet_report(&args.query(given)).await?;
                ctx.show(&report, |r| fleet::text(r, colour::on()))?;
            }
            ReportKind::Weekly(args) => {
                of_the_site(ctx)?;
                let report = client.period_report(args.query(PeriodKind::Week)).await?;
                ctx.show(&report, |r| period::text(r, now(), colour::on()))?;
            }
            ReportKind::Monthly(args) => {
                of_the_site(ctx)?;
                let report = client.period_report(args.query(PeriodKind::Month)).await?;
                ctx.show(&report, |r| period::text(r, now(), colour::on()))?;
            }
            ReportKind::Job { name } => {
                let job = pick::job(&client, &name).await?;
                if let Some(project) = ctx.typed_project().filter(|p| *p != job.project) {
                    let message = format!("project {project} has no job {name}");
                    let hint = format!("job {} is of project {}", job.id, job.project);
                    return Err(Fail::new(NOT_FOUND, message).hint(hint));
                }
                let report = client.job_report(&job.id).await?;
                ctx.show(&report, |r| job::text(r, colour::on()))?;
            }
        }
        Ok(0)
    }
}

/// Reports of a week or a month have incidents and nodes in them, which no project has alone. A project
/// that the environment names for every command is no wish for it here.
fn of_the_site(ctx: &Ctx) -> Result<(), Fail> {
    match ctx.typed_project() {
        None => Ok(()),
        Some(project) => {
            let message = "--project: this report is of the whole site";
            let hint = format!("`muster report fleet --project {project}` reports one project");
            Err(Fail::usage(message).hint(hint))
        }
    }
}
