//! Which index of a frame is which GPU: nodes in the order of where they stand.

use super::snapshot::NodeSnapshot;
use bytes::Bytes;
use muster_api::{ConsoleLayout, LayoutNode, LayoutRack};
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::topology::Location;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// States of a GPU beside those of its node.
pub(super) const EXCLUDED: &str = "excluded";
pub(super) const MISSING: &str = "missing";
/// Of a node that is ready and gets no new work while a maintenance window is open: whoever counts by the
/// state of a GPU does not take it for free.
pub(super) const MAINTENANCE: &str = "maintenance";
/// Of a node that is ready and gets no new work because ranks of an attempt that was given up may still run there.
pub(super) const STOPPING: &str = "stopping";

/// States in the order of their numbers: those of nodes, then the others.
pub(super) fn states() -> impl Iterator<Item = &'static str> {
    muster_api::node::NODE_STATES.iter().copied().chain([EXCLUDED, MISSING, MAINTENANCE, STOPPING])
}

/// The layout as it is sent, and what is needed to fill frames.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) version: u64,
    pub(super) json: Bytes,
    /// First place of each node, in order; one more at the end.
    pub(super) first: Vec<u32>,
    /// What it was made from.
    pub(super) made_of: Vec<NodeLayoutKey>,
}

/// All of a node that the layout depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeLayoutKey {
    name: NodeName,
    location: Location,
    gpus: u32,
    sku: Option<String>,
}

/// Places of a node's GPUs, also of those that it does not report any more.
pub(super) fn slots(node: &Node) -> u32 {
    let ends = node.inventory.gpus.iter().chain(&node.missing_gpus).map(|g| g.index + 1);
    ends.max().unwrap_or(0).min(64)
}

fn place(node: &Node) -> NodeLayoutKey {
    let sku = node.inventory.gpus.first().or(node.missing_gpus.first()).map(|g| g.sku.clone());
    NodeLayoutKey {
        name: node.name.clone(),
        location: node.location.clone(),
        gpus: slots(node),
        sku,
    }
}

impl Layout {
    /// The layout of these nodes; the one of before when nothing moved.
    pub(super) fn of(nodes: &[NodeSnapshot], before: Option<Arc<Layout>>) -> Arc<Layout> {
        if let Some(old) = before
            && old.made_of.len() == nodes.len()
            && old.made_of.iter().zip(nodes).all(|(p, n)| p.is(&n.node))
        {
            return old;
        }
        Arc::new(Layout::made(nodes.iter().map(|n| place(&n.node)).collect()))
    }

    fn made(made_of: Vec<NodeLayoutKey>) -> Layout {
        let mut shown = ConsoleLayout {
            version: 0,
            states: states().map(str::to_owned).collect(),
            racks: Vec::new(),
            skus: Vec::new(),
            nodes: Vec::with_capacity(made_of.len()),
        };
        let mut first = vec![0];
        let mut end = 0;
        for p in &made_of {
            let l = p.location.clone();
            let own = l.nvlink == p.name.as_str();
            let Location { region, cluster, spine, leaf, rack, nvlink, feed, rails: _ } = l;
            let rack = LayoutRack { region, cluster, spine, leaf, rack, feed };
            if shown.racks.last() != Some(&rack) {
                shown.racks.push(rack);
            }
            let sku = p.sku.as_ref().map(|sku| {
                shown.skus.iter().position(|s| s == sku).unwrap_or_else(|| {
                    shown.skus.push(sku.clone());
                    shown.skus.len() - 1
                })
            });
            shown.nodes.push(LayoutNode {
                name: p.name.to_string(),
                rack: small(shown.racks.len() - 1),
                nvlink: (!own).then_some(nvlink),
                gpus: p.gpus,
                sku: sku.map(small),
            });
            end += p.gpus.max(1);
            first.push(end);
        }
        let digest = Sha256::digest(serde_json::to_vec(&shown).unwrap_or_default());
        // Small enough for a browser's numbers.
        shown.version = digest.iter().take(6).fold(0, |v, b| v << 8 | u64::from(*b));
        let json = serde_json::to_vec(&shown).unwrap_or_default().into();
        Layout { version: shown.version, json, first, made_of }
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl NodeLayoutKey {
    fn is(&self, node: &Node) -> bool {
        let sku = node.inventory.gpus.first().or(node.missing_gpus.first()).map(|g| &g.sku);
        self.name == node.name
            && self.gpus == slots(node)
            && self.sku.as_ref() == sku
            && self.location == node.location
    }
}
