//! Hosts, clocks, air and networks within what is usual.

use crate::fleet::node::{MOUNTS, PORTS};
use crate::fleet::{FaultFleet, Start};

/// Raw errors of a fast link, which coding corrects: a few in an hour.
pub(super) fn few_symbols(w: &mut FaultFleet) -> Option<Start> {
    let (node, _) = w.any_gpu()?;
    let port = w.rng.below(PORTS);
    let per_hour = w.rng.range(4.0, 60.0);
    w.nodes[node].ports[port].fx.symbols_s = per_hour / 3600.0;
    let length = w.rng.range(400.0, 700.0);
    let name = Some(w.nodes[node].ports[port].name.clone());
    Some(Start { port: name, ..Start::at(node, length) }.with("per_hour", per_hour))
}

/// The node's clock is off by seconds.
pub(super) fn skew(w: &mut FaultFleet) -> Option<Start> {
    let (node, _) = w.any_gpu()?;
    let ms = w.rng.range(-25_000.0, 25_000.0);
    w.nodes[node].fx.skew_ms = ms as i64;
    Some(Start::at(node, 240.0).with("ms", ms))
}

/// Rows wait somewhere for a while, and come all at once.
pub(super) fn late(w: &mut FaultFleet) -> Option<Start> {
    let (node, _) = w.any_gpu()?;
    w.nodes[node].fx.late = true;
    let length = w.rng.range(20.0, 45.0);
    Some(Start::at(node, length))
}

/// The air of a rack is warmer; everything there is, and nothing slows down.
pub(super) fn warm_rack(w: &mut FaultFleet) -> Option<Start> {
    let now = w.now;
    let any = w.rng.below(w.nodes.len());
    let rack = w.nodes[any].rack.clone();
    let nodes: Vec<usize> =
        (0..w.nodes.len()).filter(|i| w.nodes[*i].rack == rack && w.nodes[*i].free(now)).collect();
    if nodes.len() < 2 {
        return None;
    }
    let by = w.rng.range(3.0, 8.0);
    nodes.iter().for_each(|n| w.nodes[*n].fx.inlet = by);
    let length_s = w.rng.range(400.0, 600.0);
    Some(Start { nodes, length_s, ..Start::default() }.with("degrees", by))
}

/// The agent is restarted; what runs goes on.
pub(super) fn reconnect(w: &mut FaultFleet) -> Option<Start> {
    let (node, _) = w.any_gpu()?;
    w.reconnect(node);
    Some(Start::at(node, 120.0))
}

/// One node reads a lot: its own probes are a little slower.
pub(super) fn busy_storage(w: &mut FaultFleet) -> Option<Start> {
    let (node, _) = w.any_gpu()?;
    let by = w.rng.range(1.5, 2.5);
    w.nodes[node].fx.slow_fs = Some((w.rng.below(MOUNTS.len()), by));
    Some(Start::at(node, 240.0).with("by", by))
}
