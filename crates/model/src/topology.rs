//! Where a node stands: the tree of the fabric, and the power feed beside it.

use crate::names::{NodeName, turns_text};
use crate::problem::{SpecProblem, problem};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Largest gang, in nodes: more than any site has.
pub const MAX_NODES: u32 = 200_000;

/// A level of the tree, from the widest to the narrowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A place on the map.
    Region,
    /// One fabric; a collective never leaves it.
    Cluster,
    /// A group of leaves under the same spines.
    Spine,
    /// Nodes that reach each other over one tier of switches.
    Leaf,
    /// A cabinet of nodes with its own power and cooling.
    Rack,
    /// GPUs joined by NVLink: an NVL72 rack, or one HGX node.
    Nvlink,
    /// One machine.
    Node,
}

impl Level {
    /// All levels, widest first.
    pub const ALL: [Level; 7] = [
        Level::Region,
        Level::Cluster,
        Level::Spine,
        Level::Leaf,
        Level::Rack,
        Level::Nvlink,
        Level::Node,
    ];

    /// The word users write.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Level::Region => "region",
            Level::Cluster => "cluster",
            Level::Spine => "spine",
            Level::Leaf => "leaf",
            Level::Rack => "rack",
            Level::Nvlink => "nvlink",
            Level::Node => "node",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Level {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Level::ALL.into_iter().find(|l| l.word() == s).ok_or_else(|| {
            format!("`{s}` is not a level: use region, cluster, spine, leaf, rack, nvlink or node")
        })
    }
}

/// Spine and leaf of a node that nobody placed, as logs hold it for ever. Nothing outside this
/// file compares with it: see [`Location::is_placed`].
const UNPLACED: &str = "unplaced";
/// The feed of a node whose feed nobody reported, likewise: see [`Location::known_feed`].
const UNKNOWN: &str = "unknown";

/// The place of one node. Domain names are unique per level within their parent; the full path
/// distinguishes two leaves called `l1` in different spines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Location {
    /// The place on the map.
    pub region: String,
    /// The cluster: one fabric.
    pub cluster: String,
    /// Spine group.
    pub spine: String,
    /// Leaf (or the group of rail switches that serves the same nodes).
    pub leaf: String,
    /// The cabinet it is in.
    pub rack: String,
    /// NVLink domain; the node's own name when NVLink ends at the node.
    pub nvlink: String,
    /// Power feed of the rack.
    pub feed: String,
    /// Rails of the node's NICs, in order; empty when there is one network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<String>,
}

impl Location {
    /// A place for a node that no topology file mentions: alone in its own rack, so that no
    /// closeness is claimed that nobody stated.
    #[must_use]
    pub fn unplaced(node: &NodeName) -> Location {
        Location {
            region: "default".into(),
            cluster: "default".into(),
            spine: UNPLACED.into(),
            leaf: UNPLACED.into(),
            rack: format!("{UNPLACED}-{node}"),
            nvlink: node.to_string(),
            feed: Location::no_feed(),
            rails: Vec::new(),
        }
    }

    /// What stands for the feed where nobody stated one.
    #[must_use]
    pub fn no_feed() -> String {
        UNKNOWN.to_owned()
    }

    /// Whether somebody stated where the node stands.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        self.spine != UNPLACED || self.leaf != UNPLACED
    }

    /// The power feed, where somebody stated it.
    #[must_use]
    pub fn known_feed(&self) -> Option<&str> {
        Some(self.feed.as_str()).filter(|f| !f.is_empty() && *f != UNKNOWN)
    }

    /// Names from the widest level down to `level`, which together name one domain.
    #[must_use]
    pub fn path<'a>(&'a self, node: &'a NodeName, level: Level) -> Vec<&'a str> {
        let all = [
            self.region.as_str(),
            &self.cluster,
            &self.spine,
            &self.leaf,
            &self.rack,
            &self.nvlink,
            node.as_str(),
        ];
        all[..=level as usize].to_vec()
    }
}

/// The whole tree, as imported: where every known node stands, and the names of the SKUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Place of each node.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, Location>))]
    pub nodes: BTreeMap<NodeName, Location>,
}

/// Longest name of a domain or a rail.
const MAX_NAME: usize = 256;
/// Most rails of a node.
const MAX_RAILS: usize = 64;

impl Topology {
    /// Checks what can be judged from the tree alone: how much of it there is. Every node repeats
    /// its place, in the log, in answers and in memory.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to fix it.
    pub fn check(&self) -> Result<(), SpecProblem> {
        if self.nodes.len() > MAX_NODES as usize {
            let message = format!("{} nodes are more than {MAX_NODES}", self.nodes.len());
            return Err(problem("nodes", message, "leave out nodes that are gone"));
        }
        for (node, l) in &self.nodes {
            if l.rails.len() > MAX_RAILS {
                let message = format!("{} rails are more than {MAX_RAILS}", l.rails.len());
                return Err(problem(
                    &format!("nodes.{node}.rails"),
                    message,
                    "name each rail once",
                ));
            }
            let places =
                [&l.region, &l.cluster, &l.spine, &l.leaf, &l.rack, &l.nvlink, &l.feed].into_iter();
            let bad = |name: &&String| {
                name.len() > MAX_NAME || name.contains(|c: char| c.is_control() || turns_text(c))
            };
            if let Some(name) = places.chain(&l.rails).find(bad) {
                let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
                return Err(problem(
                    &format!("nodes.{node}"),
                    format!("`{shown}` is not the name of a domain or a rail"),
                    format!("use at most {MAX_NAME} bytes, and characters that are seen"),
                ));
            }
        }
        Ok(())
    }
}
