//! Devices that behave as they should.

use crate::fleet::gang::later;
use crate::fleet::{Busy, FaultFleet, Start};
use crate::xid;

/// One to three corrected errors.
pub(super) fn few_correctable(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = w.any_gpu()?;
    let n = 1 + w.rng.below(3);
    w.nodes[node].gpus[gpu as usize].sbe += n as f64;
    Some(Start::at(node, 180.0).gpu(gpu).with("errors", n as f64))
}

/// A few packets were repeated.
pub(super) fn few_replays(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = w.any_gpu()?;
    let n = 1 + w.rng.below(8);
    w.nodes[node].gpus[gpu as usize].replay += n as f64;
    Some(Start::at(node, 180.0).gpu(gpu).with("replays", n as f64))
}

/// An operator capped the power of one node: slower, and by intent.
pub(super) fn power_cap(w: &mut FaultFleet) -> Option<Start> {
    // Half of the nodes of small gangs are enough to slow them down: that is the job's loss.
    let Busy { node, key, .. } = w.busy_gpu(|g| g.nodes.len() <= 2)?;
    cap(w, &[node], 0.9, 0.98).map(|s| s.slows(key))
}

/// The same for all nodes of a job.
pub(super) fn power_cap_job(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let nodes = w.gangs.get(&key)?.nodes.clone();
    cap(w, &nodes, 0.6, 0.9).map(|s| Start { gang: Some(key), ..s })
}

fn cap(w: &mut FaultFleet, nodes: &[usize], from: f64, to: f64) -> Option<Start> {
    let watts = 560.0 * w.rng.range(from, to);
    for n in nodes {
        w.nodes[*n].gpus.iter_mut().for_each(|g| g.fx.cap = watts);
    }
    let length = w.rng.range(300.0, 480.0);
    Some(Start { nodes: nodes.to_vec(), length_s: length, ..Start::default() }.with("watts", watts))
}

/// The bus of an idle GPU goes to its slowest speed to save power.
pub(super) fn bus_rests(w: &mut FaultFleet) -> Option<Start> {
    let node = w.idle_node()?;
    w.nodes[node].gpus.iter_mut().for_each(|g| g.fx.rests = true);
    let length = w.rng.range(180.0, 400.0);
    Some(Start::at(node, length))
}

/// A line that asks for nothing, on a GPU without work.
pub(super) fn notices(w: &mut FaultFleet) -> Option<Start> {
    let node = w.idle_node()?;
    let gpu = w.rng.below(8) as u32;
    let line = xid::APP[2 + w.rng.below(2)];
    let at = later(w.now, 2.0);
    w.line(at, node, xid::fault_line(line, at, 1, Some(gpu), None));
    Some(Start::at(node, 150.0).gpu(gpu))
}
