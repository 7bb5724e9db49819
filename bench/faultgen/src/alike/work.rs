//! What programs do to themselves.

use crate::fleet::gang::later;
use crate::fleet::{Busy, FaultFleet, RankDeath, Start};
use crate::xid;
use muster_model::ids::AttemptKey;

fn about(key: AttemptKey, length_s: f64) -> Start {
    Start { gang: Some(key), length_s, ..Start::default() }
}

/// A program dies and sprays errors over all its GPUs.
pub(super) fn spray(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let gang = w.gangs.get(&key)?;
    let (nodes, ranks) = (gang.nodes.clone(), gang.first_rank.clone());
    let first = *w.rng.pick(&xid::APP[..3])?;
    for n in &nodes {
        let rank = ranks.get(n).copied().unwrap_or(0);
        for gpu in 0..8 {
            if w.rng.chance(0.6) {
                let line = if w.rng.chance(0.5) { first } else { xid::APP[3] };
                let at = later(w.now, w.rng.range(0.0, 6.0));
                let count = 1 + w.rng.below(20) as u64;
                w.line(at, *n, xid::fault_line(line, at, count, Some(gpu), Some((key, rank))));
            }
        }
        let at = later(w.now, w.rng.range(5.0, 15.0));
        w.death(at, *n, key, RankDeath::Signal(6));
    }
    Some(about(key, 150.0))
}

/// One rank misuses its GPU and dies.
pub(super) fn crash(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, gpu, key, rank } = w.busy_gpu(|_| true)?;
    let line = *w.rng.pick(&xid::APP[..3])?;
    let at = later(w.now, 2.0);
    w.line(at, node, xid::fault_line(line, at, 1, Some(gpu), Some((key, rank))));
    let dies = later(at, w.rng.range(1.0, 8.0));
    let how = if w.rng.chance(0.5) { RankDeath::Code(1) } else { RankDeath::Signal(6) };
    w.death(dies, node, key, how);
    Some(Start { gang: Some(key), length_s: 150.0, ..Start::default() })
}

/// Thousands of lines of a number that means nothing.
pub(super) fn flood(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, gpu, key, rank } = w.busy_gpu(|_| true)?;
    for i in 0..6 {
        let at = later(w.now, f64::from(i) * 20.0);
        let count = w.rng.scale(50.0, 20_000.0) as u64;
        w.line(at, node, xid::fault_line(xid::APP[3], at, count, Some(gpu), Some((key, rank))));
    }
    Some(Start::at(node, 180.0).slows(key).gpu(gpu))
}

pub(super) fn out_of_memory(w: &mut FaultFleet) -> Option<Start> {
    let Busy { node, key, rank, .. } = w.busy_gpu(|_| true)?;
    let at = later(w.now, 2.0);
    w.line(at, node, xid::fault_line(xid::OOM, at, 1, None, Some((key, rank))));
    w.death(later(at, 2.0), node, key, RankDeath::OutOfMemory);
    Some(about(key, 150.0))
}

/// All GPUs draw little together, again and again.
pub(super) fn dips(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let every = w.rng.range(40.0, 120.0);
    w.gangs.get_mut(&key)?.fx.dips_s = every;
    let length = w.rng.range(240.0, 420.0);
    Some(about(key, length).with("every_s", every))
}

/// Each step waits for data.
pub(super) fn loader(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let gang = w.gangs.get_mut(&key)?;
    let by = gang.usual_s() * w.rng.range(0.4, 2.5);
    gang.fx.read_s = by;
    let length = w.rng.range(240.0, 480.0);
    Some(about(key, length).with("read_s", by))
}

/// Nothing moves for a while: the data is not there.
pub(super) fn pause(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let length = w.rng.range(25.0, 110.0);
    let until = later(w.now, length);
    w.gangs.get_mut(&key)?.fx.pause = Some(until);
    Some(about(key, length + 90.0).with("pause_s", length))
}

/// A setting made collectives slower for the whole job.
pub(super) fn nvls_off(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let by = w.rng.range(1.4, 2.6);
    w.gangs.get_mut(&key)?.fx.comm = by;
    let length = w.rng.range(300.0, 540.0);
    Some(about(key, length).with("comm", by))
}

/// Experts get uneven work: another rank is the slowest each time.
pub(super) fn uneven(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let by = w.rng.range(0.15, 0.8);
    w.gangs.get_mut(&key)?.fx.uneven = by;
    let length = w.rng.range(300.0, 540.0);
    Some(about(key, length).with("by", by))
}

/// Longer sequences, another phase: everything takes longer, everywhere.
pub(super) fn slower(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let by = w.rng.scale(1.15, 2.0);
    w.gangs.get_mut(&key)?.fx.slow = by;
    let length = w.rng.range(300.0, 540.0);
    Some(about(key, length).with("by", by))
}

/// A large checkpoint; some report it, some do not.
pub(super) fn checkpoint(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let reports = w.rng.chance(0.6);
    let length = if reports { w.rng.range(30.0, 240.0) } else { w.rng.range(20.0, 80.0) };
    let now = w.now;
    w.gangs.get_mut(&key)?.save_now(now, length, reports);
    let reported = f64::from(u8::from(reports));
    Some(about(key, length + 100.0).with("pause_s", length).with("told", reported))
}

/// A job comes to its end; its GPUs cool.
pub(super) fn ends(w: &mut FaultFleet) -> Option<Start> {
    let key = w.gang(|_| true)?;
    let at = later(w.now, w.rng.range(5.0, 20.0));
    w.gangs.get_mut(&key)?.ends_at = at;
    Some(about(key, 150.0))
}
