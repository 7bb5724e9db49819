//! `muster agent`: this machine as a node, and what can be asked of it without any server.

mod check;
mod drill;
mod gpus;
mod inventory;
mod join;
mod metrics;
mod qualify;
mod slurm;

use clap::{Args, Subcommand};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;

/// Run this machine as a node of a cluster, or check its GPUs without one
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  muster agent --link muster.example:7071 --join TOKEN    the first time\n  \
muster agent --link muster.example:7071                  afterwards: it has its own certificate\n  \
muster agent check                                       is this machine fit for work? no server\n  \
muster agent qualify                                     measure this machine's GPUs; no server\n\n\
`muster token create --join NAME` on the server makes the token."
)]
pub struct Agent {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    #[command(flatten)]
    join: join::Join,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    Check(Box<check::Check>),
    Inventory(inventory::Inventory),
    Metrics(metrics::Metrics),
    Qualify(Box<qualify::Qualify>),
    Drill(drill::Drill),
}

impl Agent {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        match self.command {
            None => self.join.run().await,
            Some(AgentCommand::Check(c)) => c.run(ctx),
            Some(AgentCommand::Inventory(i)) => i.run(ctx),
            Some(AgentCommand::Metrics(m)) => m.run(ctx).await,
            Some(AgentCommand::Qualify(q)) => q.run(ctx),
            Some(AgentCommand::Drill(d)) => d.run(ctx),
        }
    }
}
