//! Memory of GPUs.

use crate::fleet::gang::later;
use crate::fleet::{FaultFleet, RankDeath, Start};
use crate::xid;

/// An uncorrectable error, reported by a line and mostly by the counter as well.
pub(super) fn fatal(w: &mut FaultFleet) -> Option<Start> {
    let line = *w.rng.pick(xid::ECC)?;
    let (node, gpu) = w.any_gpu()?;
    let whose = w.nodes[node].work.iter().next().map(|(k, r)| (*k, *r));
    let at = later(w.now, w.rng.range(0.0, 8.0));
    w.line(at, node, xid::fault_line(line, at, 1, Some(gpu), whose));
    if w.rng.chance(0.7) {
        w.nodes[node].gpus[gpu as usize].dbe += 1.0;
    }
    if let Some((key, _)) = whose {
        let at = later(at, w.rng.range(2.0, 25.0));
        w.death(at, node, key, RankDeath::Signal(6));
    }
    Some(Start::at(node, 240.0).gpu(gpu))
}

/// Only the counter shows it.
pub(super) fn counter(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = w.any_gpu()?;
    let by = 1 + w.rng.below(5);
    w.nodes[node].gpus[gpu as usize].dbe += by as f64;
    Some(Start::at(node, 300.0).gpu(gpu).with("errors", by as f64))
}

/// Correctable errors, many of them, and more and more.
pub(super) fn rate(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = w.any_gpu()?;
    let rate = w.rng.scale(2.0, 200.0);
    w.nodes[node].gpus[gpu as usize].fx.sbe_s = rate;
    let length = w.rng.range(300.0, 600.0);
    Some(Start::at(node, length).gpu(gpu).with("per_s", rate))
}

pub(super) fn remap_pending(w: &mut FaultFleet) -> Option<Start> {
    remap(w, xid::REMAP_PENDING, false)
}

pub(super) fn remap_failure(w: &mut FaultFleet) -> Option<Start> {
    remap(w, xid::REMAP_FAILURE, true)
}

/// By line, by flag, or by both.
fn remap(w: &mut FaultFleet, line: xid::Line, failed: bool) -> Option<Start> {
    let (node, gpu) = w.any_gpu()?;
    let way = w.rng.below(3);
    if way != 0 {
        let at = later(w.now, w.rng.range(0.0, 8.0));
        w.line(at, node, xid::fault_line(line, at, 1, Some(gpu), None));
    }
    if way != 1 {
        let g = &mut w.nodes[node].gpus[gpu as usize];
        g.remapped += 1.0;
        (g.pending, g.failed) = (!failed, failed);
    }
    Some(Start::at(node, 300.0).gpu(gpu).with("way", way as f64))
}
