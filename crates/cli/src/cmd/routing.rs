//! `muster routing`: who is notified of which alerts, and what waits for them.

use clap::{Args, Subcommand};
use muster_api::ReceiverList;
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time::relative;
use std::path::PathBuf;
use std::sync::Arc;

/// Show or set who is notified of alerts, and what is queued for them
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster routing\n  muster routing show -o yaml > routing.yaml\n  \
muster routing apply routing.yaml --dry-run\n  muster routing apply routing.yaml\n\n\
Secrets are named in the file and stored in the project `operators`:\n  \
muster project create operators\n  muster secret set hook-key --project operators"
)]
pub(crate) struct RoutingCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Receivers, how each is doing and what waits for it; with -o yaml the whole document
    Show,
    /// Make a file's receivers and routes the site's
    Apply {
        /// YAML or JSON of `kind: Routing`
        file: PathBuf,
        /// Only let the server check it
        #[arg(long)]
        dry_run: bool,
    },
}

impl RoutingCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        match self.verb {
            None | Some(Verb::Show) if ctx.is_table() => {
                let list = client.receivers().await?;
                if list.items.is_empty() {
                    output::note("nobody is notified of anything; `muster routing apply --help`");
                    return Ok(0);
                }
                output::print(&table(&list, now()).render())?;
            }
            None | Some(Verb::Show) => {
                let all = client.routing().await?;
                ctx.show(&all, |_| String::new())?;
            }
            Some(Verb::Apply { file, dry_run }) => {
                let origin = file.display().to_string();
                let text = output::read_text(&file)?;
                let wanted = Arc::new(muster_specs::objectives::routing(&text, &origin)?);
                let seen = Some(client.routing().await?.version);
                let (after, how) = if dry_run {
                    (client.check_routing(&wanted, seen).await?, "would be in force")
                } else {
                    (client.set_routing(&wanted, seen).await?, "in force now")
                };
                ctx.show(&after, |r| {
                    let (a, b) = (r.routing.receivers.len(), r.routing.routes.len());
                    format!(
                        "{} and {} {how}\n",
                        output::plural(a, "receiver"),
                        output::plural(b, "route")
                    )
                })?;
            }
        }
        Ok(0)
    }
}

fn table(list: &ReceiverList, now: Time) -> Table {
    let mut table = Table::new(&["NAME", "BY", "STATE", "WAITING", "OLDEST", "FAILURES", "ERROR"]);
    for r in &list.items {
        table.row(vec![
            cell(&r.name),
            cell(&r.by),
            state(&r.state),
            number(r.waiting),
            cell(r.oldest.map(|t| relative(now, t)).unwrap_or_default()),
            number(r.failures),
            cell(&r.error),
        ]);
    }
    table
}
