//! `muster node …`: what operators do with nodes.

mod mig;
pub(crate) mod qualify;

use crate::ctx::Ctx;
use crate::fail::{Fail, REFUSED};
use crate::{output, pick};
use clap::{Args, Subcommand, ValueEnum};
use muster_api::{CordonRequest, DrainRequest, Inject, MarkRequest, Node};
use muster_client::{Client, ClientError};
use muster_model::ids::AttemptKey;
use muster_model::node::NodeRole;
use muster_model::units::Span;

/// Steer nodes: cordon, drain, retire, …
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster node drain hgx-0003 --reason 'replace fan'\n  muster node undrain hgx-0003\n  \
muster node cordon hgx-0003 hgx-0004\n  muster node qualify hgx-0003 --wait\n  muster node mark hgx-0016 --role spare\n  muster node inject hgx-0003 crash --down 30s    simulated nodes only"
)]
pub(crate) struct NodeCmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// No new work; what runs is not touched
    Cordon {
        #[command(flatten)]
        nodes: Names,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// New work again after a cordon
    Uncordon(Names),
    /// No new work, and what runs leaves
    Drain {
        #[command(flatten)]
        nodes: Names,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
        /// Stop and requeue what runs instead of letting it end
        #[arg(long)]
        stop: bool,
    },
    /// New work again after a drain
    Undrain(Names),
    /// Forget nodes that will not come back
    Retire(Names),
    /// Decide again about nodes that have seen more than this server (restored from a backup)
    Reconcile(Names),
    /// Say what nodes are kept for, and how likely they are to fail
    Mark {
        #[command(flatten)]
        nodes: Names,
        /// All work, replacing failed nodes, small preemptible work only, or nothing
        #[arg(long, value_enum, required_unless_present = "hazard")]
        role: Option<Role>,
        /// Chance to fail within a month, in thousandths: large gangs keep away
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
        hazard: Option<u32>,
    },
    /// Make a simulated node fail
    Inject {
        /// The node
        node: String,
        #[command(subcommand)]
        fault: Fault,
    },
    Qualify(qualify::Qualify),
    Mig(mig::Mig),
    /// Replace a node by a spare
    Replace(Names),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// All work
    Normal,
    /// Replacing failed nodes of running gangs
    Spare,
    /// Small preemptible work only: it fails more often than others
    Lemon,
    /// Nothing until somebody has looked at it
    Suspect,
}

impl From<Role> for NodeRole {
    fn from(r: Role) -> NodeRole {
        match r {
            Role::Normal => NodeRole::Normal,
            Role::Spare => NodeRole::Spare,
            Role::Lemon => NodeRole::Lemon,
            Role::Suspect => NodeRole::Suspect,
        }
    }
}

#[derive(Debug, Args)]
struct Names {
    /// The nodes
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Fault {
    /// Everything on it dies; it comes back after a while
    Crash {
        /// How long it is away
        #[arg(long, default_value = "30s")]
        down: Span,
    },
    /// It goes on working, but hears and says nothing for a while
    Partition {
        /// How long
        #[arg(long, default_value = "30s")]
        length: Span,
    },
    /// The ranks of one attempt are killed
    KillRanks {
        /// JOB.ATTEMPT, such as 42.1
        attempt: AttemptKey,
    },
    /// A GPU falls off the bus
    LoseGpu {
        /// Its index
        gpu: u32,
    },
    /// A GPU computes more slowly than it should
    SlowGpu {
        /// Its index
        #[arg(long)]
        gpu: u32,
        /// By so many percent; 0 makes it well again
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=99))]
        percent: u32,
    },
    /// A GPU's driver tells of an error
    Xid {
        /// The GPU's index
        #[arg(long)]
        gpu: u32,
        /// The driver's number for it, such as 79
        #[arg(long)]
        code: u32,
    },
}

impl NodeCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let (names, verb) = match self.verb {
            Verb::Cordon { nodes, reason } => (nodes, Act::Cordon(CordonRequest { reason })),
            Verb::Uncordon(nodes) => (nodes, Act::Uncordon),
            Verb::Drain { nodes, reason, stop } => {
                (nodes, Act::Drain(DrainRequest { reason, stop }))
            }
            Verb::Undrain(nodes) => (nodes, Act::Undrain),
            Verb::Retire(nodes) => (nodes, Act::Retire),
            Verb::Reconcile(nodes) => (nodes, Act::Reconcile),
            Verb::Mark { nodes, role, hazard } => {
                (nodes, Act::Mark(MarkRequest { role: role.map(Into::into), hazard }))
            }
            Verb::Inject { node, fault } => return inject(ctx, &node, fault).await,
            Verb::Qualify(q) => return q.run(ctx).await,
            Verb::Mig(m) => return m.run(ctx).await,
            Verb::Replace(_) => {
                return Err(not_yet("replace", "`muster node drain` moves work off it"));
            }
        };
        let client = ctx.client()?;
        let mut after = Vec::new();
        for name in &names.nodes {
            match act(&client, name, &verb).await {
                Ok(node) => {
                    if ctx.is_table() {
                        output::print(&said(&node))?;
                    }
                    after.push(node);
                }
                Err(e) => return Err(pick::mend_node(&client, name, e).await),
            }
        }
        if !ctx.is_table() {
            match after.as_slice() {
                [one] => ctx.show(one, |_| String::new())?,
                _ => {
                    let list = muster_api::NodeList { items: after, cursor: None };
                    ctx.show(&list, |_| String::new())?;
                }
            }
        }
        Ok(0)
    }
}

/// How a node stands now.
fn said(node: &Node) -> String {
    let role = super::nodes::role(node);
    let role = if role.is_empty() { role } else { format!(", {role}") };
    format!("node {} is {}{role}\n", node.name, node.state)
}

enum Act {
    Cordon(CordonRequest),
    Uncordon,
    Drain(DrainRequest),
    Undrain,
    Retire,
    Reconcile,
    Mark(MarkRequest),
}

async fn act(client: &Client, name: &str, act: &Act) -> Result<Node, ClientError> {
    match act {
        Act::Cordon(body) => client.cordon(name, body).await,
        Act::Uncordon => client.uncordon(name).await,
        Act::Drain(body) => client.drain(name, body).await,
        Act::Undrain => client.undrain(name).await,
        Act::Retire => client.retire(name).await,
        Act::Reconcile => client.reconcile(name).await,
        Act::Mark(body) => client.mark(name, body).await,
    }
}

async fn inject(ctx: &Ctx, name: &str, fault: Fault) -> Result<u8, Fail> {
    let client = ctx.client()?;
    let fault = match fault {
        Fault::Crash { down } => Inject::Crash { down },
        Fault::Partition { length } => Inject::Partition { length },
        Fault::KillRanks { attempt } => Inject::KillRanks { key: attempt },
        Fault::LoseGpu { gpu } => Inject::LoseGpu { gpu },
        Fault::SlowGpu { gpu, percent } => Inject::SlowGpu { gpu, percent },
        Fault::Xid { gpu, code } => Inject::Xid { gpu, code },
    };
    let done = match client.inject(name, &fault).await {
        Ok(done) => done,
        Err(e) => return Err(pick::mend_node(&client, name, e).await),
    };
    ctx.show(&done, |d| format!("node {}: {}\n", d.node, d.message))?;
    Ok(if done.ok { 0 } else { crate::fail::FAILED })
}

fn not_yet(verb: &str, instead: &str) -> Fail {
    Fail::new(REFUSED, format!("`muster node {verb}` is not supported yet")).hint(instead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn a_mark_says_a_role_or_a_hazard() {
        let read = |more: &[&str]| {
            let all = ["muster", "node", "mark", "n1"].iter().chain(more).copied();
            Cli::try_parse_from(all).map(drop).map_err(|e| e.to_string())
        };
        assert!(read(&["--role", "spare"]).is_ok());
        assert!(read(&["--hazard", "30"]).is_ok());
        assert!(read(&[]).is_err_and(|e| e.contains("--role")));
        assert!(read(&["--role", "banana"]).is_err_and(|e| e.contains("lemon")));
        assert!(read(&["--hazard", "1001"]).is_err());
    }

    #[test]
    fn a_node_is_told_with_its_role() {
        let mut node = super::super::nodes::tests::node("n1");
        assert_eq!(said(&node), "node n1 is ready\n");
        node.role = NodeRole::Spare;
        assert_eq!(said(&node), "node n1 is ready, spare\n");
    }
}
