//! What goes on working, but too slowly.

use crate::fleet::gang::Reporting;
use crate::fleet::{Busy, FaultFleet, Start};

/// Bits of the driver's mask of reasons.
const SW_THERMAL: u32 = 0x20;
const HW_THERMAL: u32 = 0x40;
const HW_SLOWDOWN: u32 = 0x08;
const POWER_BRAKE: u32 = 0x80;

/// A cold plate that lifts, a filter that clogs: one GPU too hot, and slower for it.
pub(super) fn thermal(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, gpu, key, .. } = w.busy_gpu(|_| true)?;
    let fx = &mut w.nodes[node].gpus[gpu as usize].fx;
    fx.heat = w.rng.range(22.0, 34.0);
    fx.throttle = if w.rng.chance(0.5) { SW_THERMAL } else { HW_THERMAL | HW_SLOWDOWN };
    fx.clock = w.rng.range(0.6, 0.93);
    let (heat, clock) = (fx.heat, fx.clock);
    let length = w.rng.range(360.0, 600.0);
    Some(Start::at(node, length).gpu(gpu).slows(key).with("heat", heat).with("clock", clock))
}

/// A power supply gave up: some or all GPUs of the node are held back.
pub(super) fn power_brake(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, gpu, key, .. } = w.busy_gpu(|_| true)?;
    let clock = w.rng.range(0.3, 0.75);
    let all = w.rng.chance(0.6);
    for (i, g) in w.nodes[node].gpus.iter_mut().enumerate() {
        if all || i == gpu as usize {
            g.fx.throttle = POWER_BRAKE | HW_SLOWDOWN;
            g.fx.clock = clock;
        }
    }
    let length = w.rng.range(300.0, 540.0);
    let start = Start::at(node, length).slows(key).with("clock", clock);
    Some(if all { start } else { start.gpu(gpu) })
}

/// One GPU's clocks stay down, and it names no reason.
pub(super) fn low_clocks(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, gpu, key, .. } = w.busy_gpu(|_| true)?;
    let clock = w.rng.range(0.45, 0.87);
    w.nodes[node].gpus[gpu as usize].fx.clock = clock;
    let length = w.rng.range(360.0, 600.0);
    Some(Start::at(node, length).gpu(gpu).slows(key).with("clock", clock))
}

/// One GPU is slower and shows nothing: its clocks are as high as any.
pub(super) fn slow_compute(w: &mut FaultFleet) -> Option<Start> {
    let factor = w.rng.scale(1.15, 2.0);
    // Who reports nothing can only be seen to wait when there is much to wait for.
    let fits = |v: Reporting| match v {
        Reporting::Stages | Reporting::Sends => true,
        Reporting::Total => factor > 1.3,
        Reporting::Silent => factor > 1.6,
    };
    let Busy { node, gpu, key, .. } = w.busy_gpu(|g| fits(g.reporting))?;
    w.nodes[node].gpus[gpu as usize].fx.slow = factor;
    let reporting = w.gangs.get(&key).map_or(0.0, |g| f64::from(g.reporting as u8));
    let length = w.rng.range(420.0, 660.0);
    let mut start = Start::at(node, length).gpu(gpu).slows(key);
    start.culprit = Some(node);
    Some(start.with("factor", factor).with("reporting", reporting))
}

/// One node sends more slowly than the others.
pub(super) fn slow_nic(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, key, .. } = w.busy_gpu(|g| g.reporting == Reporting::Sends)?;
    let factor = w.rng.scale(2.0, 8.0);
    w.nodes[node].fx.send = factor;
    let length = w.rng.range(420.0, 660.0);
    let mut start = Start::at(node, length).slows(key);
    start.culprit = Some(node);
    Some(start.with("factor", factor))
}
