//! `muster node …`: what operators do with nodes.

mod inject;
mod mig;
pub(crate) mod qualify;

use super::bulk::Refusals;
use clap::{Args, Subcommand, ValueEnum};
use muster_api::{CordonRequest, DrainRequest, ExcludeRequest, Finding, MarkRequest, Node};
use muster_client::{Client, ClientError};
use muster_model::finding::Severity;
use muster_model::job::JobState;
use muster_model::node::{NodeRole, Stage};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::{Fail, REFUSED};
use muster_terminal::{output, pick};
use std::collections::BTreeSet;

/// Manage nodes: cordon, drain, qualify, retire, …
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster node drain hgx-0003 --reason 'replace fan'\n  muster node undrain hgx-0003\n  \
muster node cordon hgx-0003 hgx-0004\n  muster node qualify hgx-0003 --wait\n  muster node mark hgx-0016 --role spare\n  muster node repaired hgx-0003 --note 'new fan'\n  \
muster node exclude-gpu hgx-0003 3 --reason 'noise'\n  \
muster node inject crash hgx-0003 --for 30s    simulated nodes only"
)]
pub(crate) struct NodeCmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Cordon nodes: no new work is placed there; what runs stays
    Cordon {
        #[command(flatten)]
        nodes: Names,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Uncordon nodes: new work is placed there again
    Uncordon(Names),
    /// Drain nodes: no new work is placed there, and what runs leaves
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
    /// Undrain nodes: new work is placed there again
    Undrain(Names),
    /// Retire nodes that will not return
    Retire(Names),
    /// Decide again about nodes that have seen more than this server (restored from a backup)
    Reconcile(Names),
    /// Set the role of nodes, and how likely they are to fail
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
    /// Report nodes as repaired: they are tested, and return to service when they pass
    Repaired {
        #[command(flatten)]
        nodes: Names,
        /// What was done
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Return nodes to service although they passed no test
    Return {
        #[command(flatten)]
        nodes: Names,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Exclude more GPUs of a node from new work; what is excluded already stays so
    ExcludeGpu {
        /// The node
        node: String,
        /// Indices of the GPUs to exclude
        #[arg(value_name = "GPU", value_delimiter = ',',
            value_parser = clap::value_parser!(u32).range(0..64))]
        gpus: Vec<u32>,
        /// The same as a flag, as other verbs take it
        #[arg(long, value_name = "GPU", value_delimiter = ',', conflicts_with = "gpus",
            value_parser = clap::value_parser!(u32).range(0..64))]
        gpu: Vec<u32>,
        /// Why; needed unless `--none` is given
        #[arg(long, default_value = "", required_unless_present = "none")]
        reason: String,
        /// Return every GPU to service
        #[arg(long, conflicts_with_all = ["gpus", "gpu"])]
        none: bool,
    },
    Inject(Box<inject::Inject>),
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
    /// Nothing until somebody has inspected it
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
            Verb::Repaired { nodes, note } => (nodes, Act::Repaired(note)),
            Verb::Return { nodes, reason } => (nodes, Act::Return(reason)),
            Verb::ExcludeGpu { node, mut gpus, gpu, reason, none } => {
                gpus.extend(gpu);
                if gpus.is_empty() && !none {
                    return Err(Fail::usage("no GPU is named")
                        .hint("give their indices, like 3 or 3,5; --none returns all to service"));
                }
                let body = ExcludeRequest { gpus, reason };
                (Names { nodes: vec![node] }, Act::Exclude(body))
            }
            Verb::Inject(i) => return i.run(ctx).await,
            Verb::Qualify(q) => return q.run(ctx).await,
            Verb::Mig(m) => return m.run(ctx).await,
            Verb::Replace(_) => {
                return Err(not_yet("replace", "`muster node drain` moves work off it"));
            }
        };
        let client = ctx.client()?;
        pick::known_nodes(&client, &names.nodes).await?;
        let mut after = Vec::new();
        let mut refusals = Refusals::of("node", names.nodes.len());
        // A drain that stops what runs does something on a node that drains already.
        let drain = matches!(&verb, Act::Drain(DrainRequest { stop: false, .. }));
        let asks = ctx.is_table()
            && (drain || matches!(verb, Act::Cordon(_) | Act::Uncordon | Act::Undrain));
        for name in &names.nodes {
            // What is wrong with the name is the answer of the act.
            let before = if asks { client.node(name).await.ok().map(|n| n.version) } else { None };
            match act(&client, name, &verb).await {
                Ok(node) => {
                    if ctx.is_table() {
                        output::print(&describe_node(&node, before == Some(node.version)))?;
                        if let Some(warning) = untested(&node) {
                            output::note(&warning);
                        }
                    }
                    after.push(node);
                }
                Err(e) => refusals.add(name, pick::with_node_hint(&client, name, e).await),
            }
        }
        refusals.show(ctx, after)?;
        refusals.end(0)
    }
}

/// How a node stands now, and that it did before.
fn describe_node(node: &Node, already: bool) -> String {
    let role = super::nodes::role(node);
    let role = if role.is_empty() { role } else { format!(", {role}") };
    let why = match node.state.as_str() {
        "cordoned" => node.cordon.as_deref().filter(|w| !w.is_empty()),
        // That of a stage belongs to no other state: `lost` says nothing of a drain before it, and
        // `retired` nothing of how the node came.
        "draining" | "drained" | "suspect" | "quarantined" | "repairing" => {
            node.stage_why.as_deref().filter(|_| node.stage != Stage::Ready)
        }
        _ => None,
    };
    let why = why.map(|w| format!(" ({w})")).unwrap_or_default();
    let already = if already { " already" } else { "" };
    let out: Vec<String> = node.gpus_excluded.iter().map(ToString::to_string).collect();
    let out =
        if out.is_empty() { String::new() } else { format!(", without GPU {}", out.join(",")) };
    let closed = closed(&node.findings_closed);
    let waits = waits(node);
    format!("node {} is {}{already}{why}{role}{out}{closed}{waits}\n", node.name, node.state)
}

/// Jobs of a node that are named one by one.
const JOBS_SHOWN: usize = 8;

/// What a node that drains waits for.
fn waits(node: &Node) -> String {
    if node.state != "draining" || node.jobs.is_empty() {
        return String::new();
    }
    let mut ids: Vec<&str> = node.jobs.iter().take(JOBS_SHOWN).map(|j| j.id.as_str()).collect();
    if node.jobs.len() > JOBS_SHOWN {
        ids.push("…");
    }
    let jobs = output::plural(node.jobs.len(), "job");
    let stopping = node.jobs.iter().all(|j| j.state == JobState::Stopping);
    let how = if stopping { "" } else { " (--stop requeues them)" };
    format!("; it waits for {jobs} to end: {}{how}", ids.join(", "))
}

/// Findings of a node that are named one by one.
const CLOSED_SHOWN: usize = 8;

/// What no longer counts against a node after what was done with it.
fn closed(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut named: Vec<String> = findings.iter().take(CLOSED_SHOWN).map(finding).collect();
    let rest = findings.len().saturating_sub(CLOSED_SHOWN);
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    format!("; closed {}: {}", output::plural(findings.len(), "finding"), named.join(", "))
}

fn finding(f: &Finding) -> String {
    match f.gpu {
        Some(gpu) => format!("{} of GPU {gpu}", f.kind),
        None => f.kind.clone(),
    }
}

/// That no test says that what was critical is over.
fn untested(node: &Node) -> Option<String> {
    let critical = node.findings_closed.iter().filter(|f| f.severity == Severity::Critical).count();
    let test = format!("`muster node qualify {}` tests the node", node.name);
    (critical > 0 && node.stage == Stage::Ready).then(|| {
        let found = output::plural(critical, "critical finding");
        format!("warning: {found} closed, and no test passed; {test}")
    })
}

enum Act {
    Cordon(CordonRequest),
    Uncordon,
    Drain(DrainRequest),
    Undrain,
    Retire,
    Reconcile,
    Mark(MarkRequest),
    Repaired(String),
    Return(String),
    Exclude(ExcludeRequest),
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
        Act::Repaired(note) => client.repaired(name, note).await,
        Act::Return(reason) => client.return_node(name, reason).await,
        Act::Exclude(body) => {
            let mut body = body.clone();
            // The server takes the whole set. Here GPUs are added to it; with none, all are back.
            if !body.gpus.is_empty() {
                body.gpus = with_excluded(&body.gpus, &client.node(name).await?);
            }
            client.exclude_gpus(name, &body).await
        }
    }
}

/// These GPUs and those of the node that are excluded already.
fn with_excluded(asked: &[u32], node: &Node) -> Vec<u32> {
    let all: BTreeSet<u32> = asked.iter().chain(&node.gpus_excluded).copied().collect();
    all.into_iter().collect()
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
    fn gpus_are_named_to_be_taken_out_and_none_to_be_put_back() {
        let read = |more: &[&str]| {
            let all = ["muster", "node", "exclude-gpu", "n1"].iter().chain(more).copied();
            Cli::try_parse_from(all).map(drop).map_err(|e| e.to_string())
        };
        assert!(read(&["3", "5", "--reason", "x"]).is_ok());
        assert!(read(&["3,5", "--reason", "x"]).is_ok());
        assert!(read(&["--gpu", "3,5", "--reason", "x"]).is_ok());
        assert!(read(&["4", "--gpu", "3", "--reason", "x"]).is_err());
        assert!(read(&["--gpu", "3", "--none"]).is_err());
        assert!(read(&["3"]).is_err_and(|e| e.contains("--reason")));
        assert!(read(&["--none"]).is_ok());
        assert!(read(&["3", "--none"]).is_err());
        assert!(read(&["64", "--reason", "x"]).is_err());
        let read = |more: &[&str]| {
            let all = ["muster", "node"].iter().chain(more).copied();
            Cli::try_parse_from(all).map(drop).map_err(|e| e.to_string())
        };
        assert!(read(&["repaired", "n1", "n2", "--note", "new fan"]).is_ok());
        assert!(read(&["return", "n1"]).is_err_and(|e| e.contains("--reason")));
    }

    #[test]
    fn another_gpu_is_excluded_beside_those_that_are() {
        let mut node = super::super::nodes::tests::node("n1");
        assert_eq!(with_excluded(&[4], &node), [4]);
        node.gpus_excluded = vec![3, 5];
        assert_eq!(with_excluded(&[4, 3], &node), [3, 4, 5]);
    }

    #[test]
    fn a_node_is_reported_with_its_role() {
        let mut node = super::super::nodes::tests::node("n1");
        assert_eq!(describe_node(&node, false), "node n1 is ready\n");
        assert_eq!(describe_node(&node, true), "node n1 is ready already\n");
        (node.state, node.cordon) = ("cordoned".into(), Some("fan".into()));
        assert_eq!(describe_node(&node, true), "node n1 is cordoned already (fan)\n");
        (node.state, node.cordon) = ("draining".into(), None);
        let waits = "node n1 is draining; it waits for 1 job to end: 42 (--stop requeues them)\n";
        assert_eq!(describe_node(&node, false), waits);
        node.state = "ready".into();
        node.role = NodeRole::Spare;
        assert_eq!(describe_node(&node, false), "node n1 is ready, spare\n");
        (node.role, node.stage) = (NodeRole::Normal, Stage::Quarantined);
        (node.state, node.stage_why) = ("quarantined".into(), Some("gpu-off-bus".into()));
        assert_eq!(describe_node(&node, false), "node n1 is quarantined (gpu-off-bus)\n");
        node.gpus_excluded = vec![3, 5];
        assert_eq!(
            describe_node(&node, false),
            "node n1 is quarantined (gpu-off-bus), without GPU 3,5\n"
        );
        node.gpus_excluded.clear();
        (node.state, node.stage) = ("drained".into(), Stage::Drained);
        node.stage_why = Some("fan".into());
        assert_eq!(describe_node(&node, false), "node n1 is drained (fan)\n");
        node.state = "lost".into();
        assert_eq!(describe_node(&node, false), "node n1 is lost\n", "not for the drain");
        (node.state, node.stage) = ("retired".into(), Stage::Retired);
        node.stage_why = Some("joined and reported its inventory".into());
        assert_eq!(describe_node(&node, false), "node n1 is retired\n");
    }

    #[test]
    fn a_node_is_reported_with_the_findings_that_were_closed() {
        let mut node = super::super::nodes::tests::node("n1");
        assert_eq!(untested(&node), None);
        let first = muster_api::samples::finding(1);
        let mut second = muster_api::samples::finding(2);
        (second.kind, second.gpu) = ("node-lost".into(), None);
        second.severity = Severity::Warning;
        node.findings_closed = vec![first.clone(), second];
        assert_eq!(
            describe_node(&node, false),
            "node n1 is ready; closed 2 findings: gpu-off-bus of GPU 3, node-lost\n"
        );
        let warning = untested(&node).expect("one is critical");
        assert!(warning.starts_with("warning: 1 critical finding closed, and no"), "{warning}");
        node.findings_closed = vec![first; 10];
        assert!(describe_node(&node, false).ends_with(", gpu-off-bus of GPU 3, 2 more\n"));
    }
}
