//! Nodes that stand nowhere in particular, for logs that know no topology.

pub(crate) use muster_sim::replay::plain_node as node;
