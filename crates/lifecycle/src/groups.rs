//! Groups of nodes by which it is limited how much automation may take: the fleet, and what is
//! used or lost together.

use crate::limits::stoppable;
use muster_model::entity::Entity;
use muster_model::node::{Node, Stage};
use muster_model::remediation::{Limits, Share};
use muster_model::topology::Level;

/// The name of the group that all nodes belong to.
pub const FLEET: &str = "fleet";

/// What a group is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// All nodes.
    Fleet,
    /// The nodes of a pool.
    Pool,
    /// The nodes behind one leaf switch.
    Leaf,
    /// The nodes on one power feed.
    Feed,
}

impl GroupKind {
    /// The share of such a group that automation may hold out of service.
    #[must_use]
    pub fn share(self, limits: &Limits) -> Share {
        match self {
            GroupKind::Fleet => limits.fleet,
            GroupKind::Pool => limits.pool,
            GroupKind::Leaf => limits.leaf,
            GroupKind::Feed => limits.feed,
        }
    }

    /// Nodes of such a group that may be without new work by automation. A leaf or a feed may be
    /// so as a whole: work goes elsewhere.
    #[must_use]
    pub fn at_rest(self, limits: &Limits, nodes: u32) -> u32 {
        match self {
            GroupKind::Fleet | GroupKind::Pool => stoppable(limits, self.share(limits), nodes),
            GroupKind::Leaf | GroupKind::Feed => u32::MAX,
        }
    }
}

/// Groups that a node belongs to. A place that nobody stated is no group.
#[must_use]
pub fn memberships(n: &Node) -> Vec<(String, GroupKind)> {
    let pool = format!("pool:{}", n.pool());
    let mut out = vec![(FLEET.to_owned(), GroupKind::Fleet), (pool, GroupKind::Pool)];
    if n.location.is_placed() {
        let leaf = Entity::domain(Level::Leaf, &n.name, &n.location).to_string();
        out.push((leaf, GroupKind::Leaf));
    }
    if let Some(feed) = n.location.known_feed() {
        out.push((format!("feed:{feed}"), GroupKind::Feed));
    }
    out
}

/// Is it part of the fleet that serves, or would?
#[must_use]
pub fn counts(n: &Node) -> bool {
    !matches!(n.stage, Stage::Enrolled | Stage::Retired)
}
