//! Which index of a frame of the console is which GPU.

use serde::{Deserialize, Serialize};

/// The place of every GPU in a frame. A node's GPUs follow each other by index; a node without
/// GPUs takes one place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConsoleLayout {
    /// Frames carry the version of the layout they are for.
    pub version: u64,
    /// What the numbers of the column `state` mean: the states of nodes, `excluded` and `missing` of single GPUs, and of
    /// a node that is ready `maintenance` where a maintenance window of it is open, and `stopping` where ranks of an
    /// attempt that was given up may still run. A GPU is free where its state is `ready`, no job has it, no breaker is
    /// open and its node is no spare: new work may be placed there now.
    pub states: Vec<String>,
    /// Racks, in order.
    pub racks: Vec<LayoutRack>,
    /// SKUs of GPUs.
    pub skus: Vec<String>,
    /// Nodes, in order.
    pub nodes: Vec<LayoutNode>,
}

/// A rack and its place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LayoutRack {
    /// The region it is in.
    pub region: String,
    /// The cluster it is in: one fabric.
    pub cluster: String,
    /// Group of leaves under the same spines.
    pub spine: String,
    /// The leaf that serves it.
    pub leaf: String,
    /// The rack itself.
    pub rack: String,
    /// Its power feed.
    pub feed: String,
}

/// A node in its rack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LayoutNode {
    /// Its name, unique in the site.
    pub name: String,
    /// Its rack, as an index.
    pub rack: u32,
    /// Its NVLink domain; null when NVLink ends at the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<String>,
    /// GPUs it has or had: the places of those that fell off the bus stay.
    pub gpus: u32,
    /// Their SKU, as an index; null without GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sku: Option<u32>,
}
