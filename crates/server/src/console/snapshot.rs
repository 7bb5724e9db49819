//! What one look at the site gave.

use crate::telemetry::Columns;
use muster_model::finding::Severity;
use muster_model::job::Job;
use muster_model::node::Node;
use muster_model::{JobId, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node as it was seen.
pub(super) struct NodeSnapshot {
    pub(super) node: Arc<Node>,
    /// Newest figures of its GPUs, with their names.
    pub(super) figures: Option<(Columns, Arc<[f32]>)>,
    /// Open findings: worst of those about the whole node, and those about one GPU.
    pub(super) findings: Vec<(Option<u32>, Severity)>,
    /// A maintenance window is open on it.
    pub(super) in_maintenance: bool,
    /// Something is being done about it.
    pub(super) remediated: bool,
    /// What is to be done about it waits for approval.
    pub(super) waits: bool,
}

/// Everything, in the order of the map.
pub(super) struct SiteSnapshot {
    pub(super) at: Time,
    pub(super) nodes: Vec<NodeSnapshot>,
    /// Jobs that hold something.
    pub(super) jobs: BTreeMap<JobId, Arc<Job>>,
}
