//! `muster topology`.

use clap::{Args, Subcommand};
use muster_api::Node;
use muster_model::topology::{Level, Topology};
use muster_specs::draw;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Draw, check or set the topology: where nodes are
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster topology\n  muster topology --depth rack\n  \
muster topology check site.toml    without a server\n  muster topology apply site.toml")]
pub(crate) struct TopologyCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The narrowest level that gets lines of its own [default: node]
    #[arg(long, value_name = "LEVEL")]
    depth: Option<Level>,
    /// Only ASCII
    #[arg(long)]
    ascii: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a file's topology the site's
    Apply {
        /// TOML or YAML
        file: PathBuf,
    },
    /// Check a file, without a server
    Check {
        /// TOML or YAML
        file: PathBuf,
    },
}

impl TopologyCmd {
    /// Is only a file checked? That asks no server.
    pub(crate) fn is_check(&self) -> bool {
        matches!(self.verb, Some(Verb::Check { .. }))
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let depth = self.depth.unwrap_or(Level::Node);
        let options = draw::Options { ascii: self.ascii, depth, ..draw::Options::default() };
        match self.verb {
            None => {
                let client = ctx.client()?;
                let topology = client.topology().await?;
                let nodes = client.all_nodes(None).await?;
                ctx.show(&topology, |t| {
                    draw::tree(&whole(t, &nodes), |n| words(&nodes, n.as_str()), options)
                })?;
            }
            Some(Verb::Check { file }) => {
                let topology = read(&file)?;
                ctx.show(&topology, |t| draw::tree(t, |_| String::new(), options))?;
                output::note(&format!(
                    "{}: {} nodes, no problem found",
                    file.display(),
                    topology.nodes.len()
                ));
            }
            Some(Verb::Apply { .. }) if self.ascii || self.depth.is_some() => {
                return Err(Fail::usage(
                    "--depth and --ascii are for drawing, `apply` draws nothing",
                )
                .hint("`muster topology check FILE` draws what a file says"));
            }
            Some(Verb::Apply { file }) => {
                let topology = read(&file)?;
                let client = ctx.client()?;
                let before = client.topology().await?;
                let after = client.set_topology(&topology, Some(before.version)).await?;
                ctx.show(&after, |t| {
                    format!("the site now has places for {} nodes\n", t.nodes.len())
                })?;
            }
        }
        Ok(0)
    }
}

/// Nodes that joined without a place stand where the server put them.
fn whole(topology: &muster_api::Topology, nodes: &[Node]) -> Topology {
    let known = topology.nodes.iter().map(|(name, place)| (name.as_str(), place));
    let joined = nodes.iter().map(|n| (n.name.as_str(), &n.location));
    let nodes: BTreeMap<_, _> = known
        .chain(joined)
        .filter_map(|(name, place)| Some((name.parse().ok()?, place.clone())))
        .collect();
    Topology { nodes }
}

/// A few words about a node beside its name.
fn words(nodes: &[Node], name: &str) -> String {
    // The server lists nodes in order of their names.
    let found = match nodes.binary_search_by(|n| n.name.as_str().cmp(name)) {
        Ok(i) => nodes.get(i),
        Err(_) => nodes.iter().find(|n| n.name == name),
    };
    match found {
        None => "not joined".into(),
        Some(n) if n.state == "ready" => super::nodes::gpus(n),
        Some(n) => format!("{} {}", super::nodes::gpus(n), n.state),
    }
}

fn read(file: &std::path::Path) -> Result<Topology, Fail> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Fail::usage(format!("cannot read {}: {e}", file.display())))?;
    Ok(muster_specs::topology::parse(&text, &file.display().to_string())?)
}
