//! Nodes that stand nowhere in particular, for logs that know no topology.

use muster_model::NodeName;
use muster_model::topology::Location;
use muster_model::units::Bytes;
use muster_scheduler::NodeFacts;

/// The `i`th node of one leaf; names keep the order.
pub(crate) fn node(i: usize, sku: &str, gpus: u32, rest: (u32, Bytes)) -> NodeFacts {
    let name: NodeName = format!("n{i:05}").parse().expect("a letter and digits are a name");
    let location = Location {
        region: "r".into(),
        cluster: "c".into(),
        spine: "s".into(),
        leaf: "l".into(),
        rack: "k".into(),
        nvlink: name.to_string(),
        feed: "f".into(),
        rails: Vec::new(),
    };
    NodeFacts::plain(name, location, sku, gpus, rest)
}
