//! `muster readiness`: is the site ready for its objectives?

use clap::Args;
use muster_api::Readiness;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output::table::{Table, cell, state};

/// Check the site against the operators' checklists: pass or fail, and how to fix it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster readiness\n  muster readiness --missing\n  muster readiness -o json | jq '.checks[] | select(.state == \"missing\")'\n\n\
Exit code 0 when nothing is missing, 1 otherwise. What cannot be known is `unknown` and does not count as missing."
)]
pub(crate) struct ReadinessCmd {
    /// Only what is missing
    #[arg(long)]
    missing: bool,
}

impl ReadinessCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let mut all = ctx.client()?.readiness().await?;
        // All are counted, whichever are shown.
        let totals = totals(&all);
        if self.missing {
            all.checks.retain(|c| c.state == "missing");
        }
        ctx.show(&all, |r| text(r, &totals))?;
        Ok(u8::from(!all.ready))
    }
}

fn totals(r: &Readiness) -> String {
    let count = |word: &str| r.checks.iter().filter(|c| c.state == word).count();
    let said = if r.ready { "ready" } else { "not ready" };
    format!(
        "{said}: {} ok, {} missing, {} unknown",
        count("ok"),
        count("missing"),
        count("unknown")
    )
}

fn text(r: &Readiness, totals: &str) -> String {
    let mut table = Table::new(&["CHECK", "STATE", "WHAT", "FOUND", "HOW TO FIX IT"]);
    for c in &r.checks {
        table.row(vec![
            cell(&c.check),
            state(&c.state),
            cell(&c.what),
            cell(&c.found),
            cell(&c.fix),
        ]);
    }
    format!("{}{totals}\n", table.render())
}
