//! GPUs, their links and their bus.

use crate::fleet::gang::later;
use crate::fleet::{Busy, FaultFleet, RankDeath, Start};
use crate::xid;

/// A GPU reports an error; often the program that used it dies of it.
fn report_lines(w: &mut FaultFleet, lines: &[xid::Line], dies: f64) -> Option<(usize, u32)> {
    let line = *w.rng.pick(lines)?;
    let (node, gpu) = w.any_gpu()?;
    let whose = w.nodes[node].work.iter().next().map(|(k, r)| (*k, *r));
    let at = later(w.now, w.rng.range(0.0, 8.0));
    let count = 1 + w.rng.below(4) as u64;
    w.line(at, node, xid::fault_line(line, at, count, Some(gpu), whose));
    if let Some((key, _)) = whose
        && w.rng.chance(dies)
    {
        let at = later(at, w.rng.range(2.0, 25.0));
        w.death(at, node, key, RankDeath::Signal(6));
    }
    Some((node, gpu))
}

/// XID 79, after which the device answers nothing.
pub(super) fn off_bus(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = report_lines(w, &[xid::OFF_BUS], 0.9)?;
    if w.rng.chance(0.8) {
        w.nodes[node].gpus[gpu as usize].fx.gone = true;
    }
    Some(Start::at(node, 240.0).gpu(gpu))
}

/// A device answers nothing, and no line says why.
pub(super) fn vanished(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = w.any_gpu()?;
    w.nodes[node].gpus[gpu as usize].fx.gone = true;
    let length = w.rng.range(240.0, 420.0);
    Some(Start::at(node, length).gpu(gpu))
}

pub(super) fn needs_reset(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = report_lines(w, xid::RESET, 0.8)?;
    Some(Start::at(node, 240.0).gpu(gpu))
}

pub(super) fn verdict(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = report_lines(w, xid::VERDICT, 0.8)?;
    Some(Start::at(node, 240.0).gpu(gpu))
}

pub(super) fn driver_hang(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = report_lines(w, xid::HANG, 0.6)?;
    Some(Start::at(node, 240.0).gpu(gpu))
}

pub(super) fn nvlink_fatal(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = report_lines(w, xid::NVLINK, 0.6)?;
    w.nodes[node].gpus[gpu as usize].fx.nvlink_s = w.rng.scale(0.2, 20.0);
    Some(Start::at(node, 240.0).gpu(gpu))
}

/// Counters of errors and recoveries climb; nobody says a word.
pub(super) fn nvlink_counters(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, gpu, .. } = w.busy_gpu(|_| true)?;
    let rate = w.rng.scale(1.0, 60.0);
    w.nodes[node].gpus[gpu as usize].fx.nvlink_s = rate;
    let length = w.rng.range(300.0, 540.0);
    Some(Start::at(node, length).gpu(gpu).with("per_s", rate))
}

pub(super) fn nvswitch(w: &mut FaultFleet) -> Option<Start> {
    let line = *w.rng.pick(xid::SWITCH)?;
    let (node, _) = w.any_gpu()?;
    let at = later(w.now, w.rng.range(0.0, 8.0));
    w.line(at, node, xid::fault_line(line, at, 1, None, None));
    if let Some(key) = w.nodes[node].work.keys().next().copied() {
        w.death(later(at, 15.0), node, key, RankDeath::Signal(6));
    }
    Some(Start::at(node, 240.0))
}

/// The bus repeats packets, far more than a good one.
pub(super) fn replay(w: &mut FaultFleet) -> Option<Start> {
    let (node, gpu) = w.any_gpu()?;
    let rate = w.rng.scale(80.0, 3000.0);
    w.nodes[node].gpus[gpu as usize].fx.replay_min = rate;
    let length = w.rng.range(300.0, 540.0);
    Some(Start::at(node, length).gpu(gpu).with("per_min", rate))
}

/// The bus under a working GPU trained narrower or slower.
pub(super) fn downgrade(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, gpu, key, .. } = w.busy_gpu(|_| true)?;
    let fx = &mut w.nodes[node].gpus[gpu as usize].fx;
    if w.rng.chance(0.6) {
        fx.width = [8.0, 4.0, 1.0][w.rng.below(3)];
    } else {
        fx.generation = [3.0, 2.0, 1.0][w.rng.below(3)];
    }
    fx.slow = w.rng.range(1.0, 1.25);
    let (width, generation) = (fx.width, fx.generation);
    let length = w.rng.range(300.0, 540.0);
    let start = Start::at(node, length).gpu(gpu).slows(key);
    Some(start.with("width", width).with("generation", generation))
}
