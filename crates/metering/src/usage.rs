//! What an attempt did with its GPUs, from the rows that nodes send: utilisation, activity,
//! memory, power and energy, added up as they come.

use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// A GPU that runs something for fewer thousandths of a row's time does nothing.
const ACTIVE: u32 = 10;
/// Without a word of the job itself, GPUs that do nothing for longer are idle.
const IDLE: Span = Span::mins(5);
/// Rows further apart say nothing of the time between.
const GAP: Span = Span::secs(60);
/// Stretches of idleness that are kept.
const STRETCHES: usize = 256;

/// One row of one GPU. Shares of time in thousandths; what is not reported is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuRow {
    /// Anything ran.
    pub util: Option<u32>,
    /// Processors were active.
    pub sm: Option<u32>,
    /// Tensor cores were.
    pub tensor: Option<u32>,
    /// Its memory was read or written.
    pub dram: Option<u32>,
    /// Memory in use, in MiB.
    pub memory: Option<u64>,
    /// Power, in milliwatts.
    pub power: Option<u64>,
    /// Energy since it was switched on, in joules.
    pub energy: Option<u64>,
}

/// A share of time, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Share {
    n: u64,
    sum: u64,
    peak: u32,
}

impl Share {
    fn add(&mut self, v: Option<u32>) {
        let Some(v) = v.map(|v| v.min(1000)) else { return };
        self.n += 1;
        self.sum += u64::from(v);
        self.peak = self.peak.max(v);
    }
    fn mean(&self) -> Option<u32> {
        self.sum.checked_div(self.n).and_then(|v| u32::try_from(v).ok())
    }
    fn peak(&self) -> Option<u32> {
        (self.n > 0).then_some(self.peak)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Gpu {
    /// Most that it was used, if that was reported.
    util: Option<u32>,
    energy: Option<u64>,
}

/// What an attempt did with its GPUs.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    gpus: BTreeMap<(NodeName, u32), Gpu>,
    rows: u64,
    first: Option<Time>,
    last: Option<Time>,
    active: Option<Time>,
    idle: Vec<(Time, Time)>,
    util: Share,
    sm: Share,
    tensor: Share,
    dram: Share,
    memory: Option<u64>,
    power: (u64, u64),
    energy: Option<u64>,
}

impl Usage {
    /// A node reported GPUs that the attempt holds there, each with its index.
    pub fn row(&mut self, node: &NodeName, at: Time, gpus: &[(u32, GpuRow)]) {
        if gpus.is_empty() {
            return;
        }
        self.first.get_or_insert(at);
        let apart = self.last.is_none_or(|l| at.since(l) > GAP);
        self.last = Some(self.last.map_or(at, |l| l.max(at)));
        // What is not reported may well be activity.
        let active = gpus.iter().any(|(_, r)| r.util.is_none_or(|u| u >= ACTIVE));
        if active {
            if let Some(since) = self.active.filter(|s| !apart && at.since(*s) > IDLE)
                && self.idle.len() < STRETCHES
            {
                self.idle.push((since, at));
            }
            self.active = Some(self.active.map_or(at, |a| a.max(at)));
        } else if apart {
            self.active = Some(at);
        }
        for (index, r) in gpus {
            self.one(node, *index, r);
        }
    }

    fn one(&mut self, node: &NodeName, index: u32, r: &GpuRow) {
        self.rows += 1;
        self.util.add(r.util);
        self.sm.add(r.sm);
        self.tensor.add(r.tensor);
        self.dram.add(r.dram);
        self.memory = self.memory.max(r.memory);
        if let Some(mw) = r.power {
            self.power = (self.power.0 + 1, self.power.1.saturating_add(mw));
        }
        let gpu = self.gpus.entry((node.clone(), index)).or_default();
        gpu.util = gpu.util.max(r.util);
        if let Some(now) = r.energy {
            // The counter begins anew with the driver.
            let used = gpu.energy.map_or(0, |before| now.saturating_sub(before));
            gpu.energy = Some(now);
            self.energy = Some(self.energy.unwrap_or(0).saturating_add(used));
        }
    }

    /// When none of its GPUs did anything, as far as is known at a moment.
    #[must_use]
    pub fn idle(&self, now: Time) -> Vec<(Time, Time)> {
        let mut out = self.idle.clone();
        let fresh = self.last.is_some_and(|l| now.since(l) <= GAP);
        if let Some(since) = self.active.filter(|s| fresh && now.since(*s) > IDLE) {
            out.push((since, now));
        }
        out
    }

    /// What is to be reported of it.
    #[must_use]
    pub fn used(&self) -> Option<GpuUsage> {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let unused = self.gpus.values().filter(|g| g.util.is_some_and(|u| u < ACTIVE));
        Some(GpuUsage {
            first: self.first?,
            last: self.last?,
            rows: self.rows,
            gpus: count(self.gpus.len()),
            unused: count(unused.count()),
            util: self.util.mean(),
            util_peak: self.util.peak(),
            sm: self.sm.mean(),
            sm_peak: self.sm.peak(),
            tensor: self.tensor.mean(),
            dram: self.dram.mean(),
            memory_peak: self.memory,
            power_mw: self.power.1.checked_div(self.power.0),
            energy_j: self.energy,
        })
    }
}

/// What is to be reported of an attempt's GPUs. Shares in thousandths, over all its GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuUsage {
    /// The first row.
    pub first: Time,
    /// The newest row.
    pub last: Time,
    /// Rows that were heard, of all GPUs together.
    pub rows: u64,
    /// GPUs that were reported.
    pub gpus: u32,
    /// Of them, those on which nothing ever ran.
    pub unused: u32,
    /// Mean share of the time in which anything ran.
    pub util: Option<u32>,
    /// Most of it in one row of one GPU.
    pub util_peak: Option<u32>,
    /// Mean share in which processors were active.
    pub sm: Option<u32>,
    /// Most of it.
    pub sm_peak: Option<u32>,
    /// Mean share in which tensor cores were.
    pub tensor: Option<u32>,
    /// Mean share in which memory was read or written.
    pub dram: Option<u32>,
    /// Most memory that was in use on one GPU, in MiB.
    pub memory_peak: Option<u64>,
    /// Mean power of a GPU, in milliwatts.
    pub power_mw: Option<u64>,
    /// Energy that was drawn between the first row and the last, in joules.
    pub energy_j: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time(1_000_000) + Span::secs(s)
    }
    fn node() -> NodeName {
        "n1".parse().unwrap()
    }
    fn util(u: u32) -> GpuRow {
        GpuRow { util: Some(u), ..GpuRow::default() }
    }

    #[test]
    fn rows_are_added_up_and_what_is_not_reported_stays_unknown() {
        let mut u = Usage::default();
        assert!(u.used().is_none());
        let row = |util, energy| GpuRow {
            util: Some(util),
            memory: Some(u64::from(util)),
            power: Some(500_000),
            energy: Some(energy),
            ..GpuRow::default()
        };
        u.row(&node(), at(0), &[(0, row(800, 100)), (1, row(0, 5))]);
        u.row(&node(), at(10), &[(0, row(1000, 5100)), (1, row(0, 1005))]);
        // The driver was started anew.
        u.row(&node(), at(20), &[(0, row(600, 10)), (1, row(0, 2005))]);
        let got = u.used().unwrap();
        assert_eq!((got.util, got.util_peak), (Some(400), Some(1000)));
        assert_eq!((got.gpus, got.unused, got.rows), (2, 1, 6));
        assert_eq!((got.memory_peak, got.power_mw), (Some(1000), Some(500_000)));
        assert_eq!(got.energy_j, Some(5000 + 1000 + 1000));
        assert_eq!((got.sm, got.tensor, got.sm_peak), (None, None, None));
    }

    #[test]
    fn gpus_that_do_nothing_for_long_are_idle_and_silence_is_not() {
        let mut u = Usage::default();
        for s in 0..10 {
            u.row(&node(), at(s * 10), &[(0, util(900))]);
        }
        for s in 10..60 {
            u.row(&node(), at(s * 10), &[(0, util(0))]);
        }
        assert_eq!(u.idle(at(591)), [(at(90), at(591))]);
        assert_eq!(u.idle(at(700)), [], "the newest row is old");
        u.row(&node(), at(600), &[(0, util(900))]);
        assert_eq!(u.idle(at(600)), [(at(90), at(600))]);
        u.row(&node(), at(2000), &[(0, util(900))]);
        assert_eq!(u.idle(at(2000)).len(), 1, "nobody reported the time between");
    }

    #[test]
    fn a_gpu_that_reports_nothing_is_not_called_idle() {
        let mut u = Usage::default();
        for s in 0..100 {
            u.row(&node(), at(s * 10), &[(0, GpuRow::default())]);
        }
        assert_eq!(u.idle(at(990)), []);
        assert_eq!(u.used().unwrap().unused, 0);
    }
}
