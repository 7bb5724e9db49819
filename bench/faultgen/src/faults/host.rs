//! Hosts, their agents, and work that stands still.

use crate::fleet::gang::later;
use crate::fleet::{Busy, FaultFleet, RankDeath, Start};
use crate::xid;

fn line(w: &mut FaultFleet, lines: &[xid::Line], dies: f64, length_s: f64) -> Option<Start> {
    let line = *w.rng.pick(lines)?;
    let (node, _) = w.any_gpu()?;
    let at = later(w.now, w.rng.range(0.0, 8.0));
    let count = 1 + w.rng.below(3) as u64;
    w.line(at, node, xid::fault_line(line, at, count, None, None));
    if let Some(key) = w.nodes[node].work.keys().next().copied()
        && w.rng.chance(dies)
    {
        let dies = later(at, w.rng.range(2.0, 30.0));
        w.death(dies, node, key, RankDeath::Signal(7));
    }
    Some(Start::at(node, length_s))
}

pub(super) fn machine_check(w: &mut FaultFleet) -> Option<Start> {
    line(w, xid::MACHINE, 0.5, 240.0)
}

pub(super) fn lockup(w: &mut FaultFleet) -> Option<Start> {
    line(w, xid::STUCK, 0.3, 240.0)
}

pub(super) fn disk(w: &mut FaultFleet) -> Option<Start> {
    line(w, xid::DISK, 0.3, 240.0)
}

/// Processes that wait in the kernel for ever.
pub(super) fn dstate(w: &mut FaultFleet) -> Option<Start> {
    let (node, _) = w.any_gpu()?;
    let many = w.rng.scale(2.0, 60.0).round();
    w.nodes[node].fx.dstate = many;
    let length = w.rng.range(300.0, 540.0);
    Some(Start::at(node, length).with("processes", many))
}

/// Power, kernel, or the way to it: nothing is heard of the node.
pub(super) fn node_loss(w: &mut FaultFleet) -> Option<Start> {
    let (node, _) = w.any_gpu()?;
    let length = w.rng.range(300.0, 480.0);
    w.hang_up(node, length);
    Some(Start::at(node, length + 30.0))
}

/// The agent answers and reports nothing of its machine.
pub(super) fn agent_hang(w: &mut FaultFleet) -> Option<Start> {
    let (node, _) = w.any_gpu()?;
    w.nodes[node].fx.mute = true;
    let length = w.rng.range(300.0, 480.0);
    Some(Start::at(node, length))
}

/// One rank stops; all others wait for it in a collective.
pub(super) fn hang(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, gpu, key, .. } = w.busy_gpu(|_| true)?;
    let gang = w.gangs.get_mut(&key)?;
    let at = gang.nodes.iter().position(|n| *n == node)?;
    gang.fx.hung = Some((at, gpu as usize));
    let (usual, reporting) = (gang.usual_s(), f64::from(gang.reporting as u8));
    // Long enough for whoever waits a good many steps before saying so.
    let length = (usual * 40.0).max(600.0);
    let mut start = Start::at(node, length).gpu(gpu).slows(key);
    start.culprit = Some(node);
    Some(start.with("step_s", usual).with("reporting", reporting))
}

/// A node under which one attempt after another dies, and nothing else is seen.
pub(super) fn lemon(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, .. } = w.busy_gpu(|_| true)?;
    let length = 2400.0;
    for i in 0..4 {
        let at = later(w.now, 5.0 + f64::from(i) * w.rng.range(300.0, 550.0));
        w.lemon_dies(at, node);
    }
    Some(Start::at(node, length))
}
