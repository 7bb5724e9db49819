//! Time passes: jobs arrive, wait in one queue, run as long as they did, and end.

use super::GPUS;
use super::peers::Placer;
use crate::scheduler::traces::TraceJob;
use anyhow::{Result, ensure};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Whoever has waited longer than this is passed by nobody.
const PATIENCE_S: f64 = 6.0 * 3600.0;

/// What came of it, after the first quarter.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) gangs: usize,
    pub(crate) in_one_leaf_pct: f64,
    pub(crate) leaf_crossings: f64,
    pub(crate) gang_wait_s: f64,
    pub(crate) wait_s: f64,
    /// Mean part of the GPUs that are allocated.
    pub(crate) busy: f64,
}

/// Milliseconds order well.
fn milli(t: f64) -> u64 {
    (t * 1000.0) as u64
}

struct Run<'a> {
    jobs: &'a [TraceJob],
    placer: &'a mut dyn Placer,
    waiting: BTreeSet<usize>,
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    given: Vec<Vec<usize>>,
    started: Vec<Option<f64>>,
    /// Free GPUs of each host, to check the placers.
    free: Vec<u32>,
}

impl Run<'_> {
    /// Starts what fits, the oldest first.
    fn serve(&mut self, now: f64, only: Option<usize>) -> Result<()> {
        let turn: Vec<usize> = match only {
            Some(i) => vec![i],
            None => self.waiting.iter().copied().collect(),
        };
        // What failed once fails again for the same shape until something ends.
        let mut failed: BTreeSet<(u32, u32)> = BTreeSet::new();
        for i in turn {
            let j = &self.jobs[i];
            if failed.contains(&(j.nodes, j.gpus)) {
                continue;
            }
            match self.placer.place(i, j) {
                Some(hosts) => {
                    ensure!(hosts.len() == j.nodes as usize, "a gang has too few hosts");
                    for h in &hosts {
                        ensure!(self.free[*h] >= j.gpus, "a GPU is allocated twice");
                        self.free[*h] -= j.gpus;
                    }
                    self.waiting.remove(&i);
                    self.started[i] = Some(now);
                    self.ends.push(Reverse((milli(now + j.run.max(1.0)), i)));
                    self.given[i] = hosts;
                }
                None => {
                    failed.insert((j.nodes, j.gpus));
                    if now - j.at > PATIENCE_S {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn impatient(&self, now: f64) -> bool {
        self.waiting.first().is_some_and(|i| now - self.jobs[*i].at > PATIENCE_S)
    }
}

/// Lives the arrivals with one placer.
pub(crate) fn replay(jobs: &[TraceJob], hosts: usize, placer: &mut dyn Placer) -> Result<Outcome> {
    let mut r = Run {
        jobs,
        placer,
        waiting: BTreeSet::new(),
        ends: BinaryHeap::new(),
        given: vec![Vec::new(); jobs.len()],
        started: vec![None; jobs.len()],
        free: vec![GPUS; hosts],
    };
    let last = jobs.last().map_or(0.0, |j| j.at);
    let warm = last / 4.0;
    let mut next = 0;
    let mut held = 0u64;
    let (mut area, mut at) = (0.0, warm);
    while next < jobs.len() || !r.waiting.is_empty() {
        let arrival = jobs.get(next).map(|j| milli(j.at));
        let end = r.ends.peek().map(|Reverse((t, _))| *t);
        let ends = end.is_some_and(|e| arrival.is_none_or(|a| e <= a));
        let Some(now) = (if ends { end } else { arrival }) else { break };
        let now = now as f64 / 1000.0;
        let until = now.min(last);
        if until > at {
            area += held as f64 * (until - at);
            at = until;
        }
        if ends {
            while let Some(Reverse((t, i))) = r.ends.peek().copied() {
                if Some(t) != end {
                    break;
                }
                r.ends.pop();
                r.placer.end(i);
                for h in std::mem::take(&mut r.given[i]) {
                    r.free[h] += jobs[i].gpus;
                }
            }
            r.serve(now, None)?;
        } else {
            r.waiting.insert(next);
            let behind = r.impatient(now);
            next += 1;
            if !behind {
                r.serve(now, Some(next - 1))?;
            }
        }
        held = r.free.iter().map(|f| u64::from(GPUS - f)).sum();
    }
    let crossings = r.placer.crossings();
    let counted = |i: &usize| jobs[*i].at >= warm && r.started[*i].is_some();
    let all: Vec<usize> = (0..jobs.len()).filter(counted).collect();
    let gangs: Vec<usize> = all.iter().copied().filter(|i| jobs[*i].nodes > 1).collect();
    let wait = |of: &[usize]| {
        let sum: f64 =
            of.iter().filter_map(|i| r.started[*i].map(|s| (s - jobs[*i].at).max(0.0))).sum();
        sum / of.len().max(1) as f64
    };
    let crossed: Vec<u32> = gangs.iter().filter_map(|i| crossings.get(i).copied()).collect();
    let n = crossed.len().max(1) as f64;
    Ok(Outcome {
        gangs: crossed.len(),
        in_one_leaf_pct: crossed.iter().filter(|c| **c == 0).count() as f64 / n * 100.0,
        leaf_crossings: f64::from(crossed.iter().sum::<u32>()) / n,
        gang_wait_s: wait(&gangs),
        wait_s: wait(&all),
        busy: area / ((last - warm) * hosts as f64 * f64::from(GPUS)),
    })
}
