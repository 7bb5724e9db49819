//! Metrics of jobs and of the fleet.

use crate::accounting::Page;
use crate::outcome::{History, Outcome, Prediction, SizeClass, SpareOutcome, Spread, Waterfall};
use crate::simulation::{Simulation, seconds};
use muster_health::{Expect, ettr};
use muster_model::ids::JobId;
use muster_model::units::Span;
use std::collections::BTreeMap;

/// Mean and quantiles; sorts what it is given.
#[must_use]
pub fn spread(values: &mut [f64]) -> Spread {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n == 0 {
        return Spread::default();
    }
    let at = |q: f64| values[((q * n as f64).ceil() as usize).clamp(1, n) - 1];
    Spread {
        mean: values.iter().sum::<f64>() / n as f64,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        count: n as u64,
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A share with its 95% interval (Wilson).
#[must_use]
pub fn share(part: u64, whole: u64) -> (f64, [f64; 2]) {
    if whole == 0 {
        return (0.0, [0.0, 1.0]);
    }
    let (n, z) = (whole as f64, 1.959_963_984_540_054);
    let p = part as f64 / n;
    let mid = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / (1.0 + z * z / n);
    (p, [(mid - half).max(0.0), (mid + half).min(1.0)])
}

/// GPU-milliseconds as GPU-seconds.
fn gpu_s(ms: u128) -> f64 {
    ms as f64 / 1000.0
}

/// What one job had of a run. GPU time is in GPU-milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobUse {
    productive: u128,
    allocated: u128,
    pub(crate) succeeded: bool,
    pub(crate) interruptions: u32,
}

impl JobUse {
    fn of(p: &Page) -> JobUse {
        JobUse {
            productive: p.useful_gpu - p.lost_gpu(p.saved),
            allocated: p.allocated_gpu,
            succeeded: p.succeeded,
            interruptions: p.interruptions,
        }
    }

    /// The goodput of these jobs, as `Outcome` has that of all.
    pub(crate) fn goodput<'a>(jobs: impl Iterator<Item = &'a JobUse>) -> f64 {
        let sum = jobs.fold((0_u128, 0_u128), |(p, a), j| (p + j.productive, a + j.allocated));
        ratio(sum.0 as f64, sum.1 as f64)
    }
}

struct Sums {
    productive: u128,
    lost: u128,
    saving: u128,
    degraded: u128,
    held: u128,
    queued: u128,
    used: f64,
}

fn sums<'p>(pages: impl Iterator<Item = &'p Page>) -> Sums {
    let mut s =
        Sums { productive: 0, lost: 0, saving: 0, degraded: 0, held: 0, queued: 0, used: 0.0 };
    for p in pages {
        let lost = p.lost_gpu(p.saved);
        s.productive += p.useful_gpu - lost;
        s.lost += lost;
        s.saving += p.saving_gpu;
        s.degraded += p.degraded_gpu;
        s.held += p.allocated_gpu;
        s.queued += p.queued_gpu;
        s.used += (p.useful_gpu as f64) * p.load;
    }
    s
}

/// Sizes of gangs that are distinguished, in GPUs.
const SIZES: [u64; 10] = [1, 2, 8, 16, 64, 128, 512, 1024, 4096, 1 << 40];

fn by_size(pages: &BTreeMap<JobId, Page>) -> Vec<SizeClass> {
    let mut out = Vec::new();
    let mut from = 1;
    for to in SIZES {
        let of: Vec<&Page> = pages.values().filter(|p| (from..=to).contains(&p.gpus)).collect();
        let first = std::mem::replace(&mut from, to + 1);
        if of.is_empty() {
            continue;
        }
        let s = sums(of.iter().copied());
        let interruptions: u64 = of.iter().map(|p| u64::from(p.interruptions)).sum();
        let running: f64 = of.iter().map(|p| seconds(p.running)).sum();
        let hit = of.iter().filter(|p| p.interruptions > 0).count();
        let mut waits: Vec<f64> = of.iter().filter_map(|p| wait(p)).collect();
        out.push(SizeClass {
            gpus_from: first,
            gpus_to: of.iter().map(|p| p.gpus).max().unwrap_or(to),
            jobs: of.len() as u64,
            ettr: ratio(s.productive as f64, (s.held + s.queued) as f64),
            interruptions,
            running_s: running,
            mtbi_s: (interruptions > 0).then(|| running / interruptions as f64),
            interrupted_share: ratio(hit as f64, of.len() as f64),
            wait_s: spread(&mut waits),
        });
    }
    out
}

fn wait(p: &Page) -> Option<f64> {
    p.first_start.map(|t| seconds(t.since(p.submitted)))
}

/// Waits that are kept for drawing, of each class.
const DRAWN: usize = 2000;

fn thinned(sorted: &[f64]) -> Vec<f64> {
    let step = sorted.len().div_ceil(DRAWN).max(1);
    let mut out: Vec<f64> = sorted.iter().copied().step_by(step).collect();
    if let Some(last) = sorted.last() {
        out.push(*last);
    }
    out
}

impl Simulation<'_> {
    /// What each job had of it.
    pub(crate) fn job_uses(&self) -> BTreeMap<JobId, JobUse> {
        self.accounting.pages.iter().map(|(id, p)| (*id, JobUse::of(p))).collect()
    }

    /// Everything there is to report.
    pub(crate) fn outcome(&mut self) -> (Outcome, History) {
        let s = self.s;
        let lived = self.end.since(self.start);
        let accounting = &self.accounting;
        let whole = u128::from(self.faults.total_milli / 1000) * u128::from(lived.0);
        let total = sums(accounting.pages.values());
        let mut waits: Vec<f64> = accounting.pages.values().filter_map(wait).collect();
        let done = |p: &&Page| p.succeeded;
        let mut jct: Vec<f64> = accounting
            .pages
            .values()
            .filter(done)
            .filter_map(|p| p.ended.map(|e| seconds(e.since(p.submitted))))
            .collect();
        let mut classes: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for p in accounting.pages.values() {
            classes.entry(p.class.into()).or_default().extend(wait(p));
        }
        let interruptions: u64 = accounting.interruptions.values().sum();
        let running: f64 = accounting.pages.values().map(|p| seconds(p.running)).sum();
        let f = &self.free;
        let free_milli = (f.queued + f.idle) as f64;
        let waterfall = Waterfall {
            productive: gpu_s(total.productive),
            checkpoint: gpu_s(total.saving),
            restart: gpu_s(
                total.held - total.productive - total.lost - total.saving - total.degraded,
            ),
            lost: gpu_s(total.lost),
            degraded: gpu_s(total.degraded),
            queued: gpu_s(f.queued / 1000),
            idle: gpu_s(f.idle / 1000),
            spare: gpu_s(f.spare / 1000),
            broken: gpu_s(f.broken / 1000),
        };
        let text = |m: &BTreeMap<crate::accounting::InterruptionCause, u64>| {
            m.iter().map(|(k, v)| (k.to_string(), *v)).collect()
        };
        let (found, interval) = share(self.gangs.found, self.gangs.needed);
        let [signs, right, failures, predicted] = self.faults.signs;
        let last_end = accounting.pages.values().filter_map(|p| p.ended).max();
        let outcome = Outcome {
            scenario: s.name.clone(),
            seed: s.seed,
            nodes: u32::try_from(self.fleet.machines.len()).unwrap_or(u32::MAX),
            gpus: self.fleet.gpus(),
            spares: self.fleet.spares(),
            jobs: accounting.pages.len() as u64,
            jobs_completed: accounting.pages.values().filter(done).count() as u64,
            makespan_s: last_end.map_or(seconds(lived), |t| {
                let open = accounting.pages.values().any(|p| p.ended.is_none());
                if open { seconds(lived) } else { seconds(t.since(self.start)) }
            }),
            gpu_allocation_ratio: ratio(total.held as f64, whole as f64),
            gpu_utilization: ratio(total.used, whole as f64),
            fragmentation: ratio(f.broken_up as f64, free_milli),
            wait_s: spread(&mut waits),
            jct_s: spread(&mut jct),
            goodput: ratio(total.productive as f64, total.held as f64),
            ettr: ratio(total.productive as f64, (total.held + total.queued) as f64),
            ettr_expected: self.expected(),
            mtbi_s: (interruptions > 0).then(|| running / interruptions as f64),
            lost_gpu_seconds: gpu_s(total.lost),
            preemptions: accounting.preemptions,
            migrations: accounting.migrations,
            failures: text(&accounting.interruptions),
            faults: text(&accounting.faults),
            interruptions,
            waterfall,
            by_size: by_size(&accounting.pages),
            wait_by_class: classes.iter_mut().map(|(k, v)| (k.clone(), spread(v))).collect(),
            spares_found: (self.gangs.needed > 0).then_some(SpareOutcome {
                needed: self.gangs.needed,
                found: self.gangs.found,
                share: found,
                interval,
            }),
            prediction: (signs > 0).then(|| Prediction {
                signs,
                right,
                failures,
                precision: ratio(right as f64, signs as f64),
                recall: ratio(predicted as f64, failures as f64),
            }),
            refusals: self.refusals,
            refused: std::mem::take(&mut self.refused),
            records: self.records,
            decisions: self.ticks,
            wall_s: 0.0,
            peak_rss_bytes: 0,
            log_digest: String::new(),
        };
        let history = History {
            every_s: self.samples.get(1).map_or(0.0, |s| s.at_s),
            samples: std::mem::take(&mut self.samples),
            waits: classes.iter().map(|(k, v)| (k.clone(), thinned(v))).collect(),
            faults: std::mem::take(&mut self.marks),
            leaves: self.leaves(),
        };
        (outcome, history)
    }

    /// What the formula says of the largest gang, when the scenario is one that it speaks of:
    /// one training job that fills the fleet.
    fn expected(&self) -> Option<f64> {
        let [crate::scenario::Workload::Train(t)] = &self.s.workload[..] else { return None };
        if t.count != 1 {
            return None;
        }
        let (nodes, every) = self.gangs.chosen.last_key_value()?;
        let o = &self.s.operations;
        let detect = match o.response {
            crate::scenario::Response::Swap => o.detect,
            crate::scenario::Response::Requeue => o.watchdog,
        };
        Some(ettr(&Expect {
            nodes: *nodes,
            rate: crate::causes::rate(&self.s.failures),
            restart: Span(detect.0 + o.decide.0 + t.saving.startup.0),
            queue: Span(0),
            cost: t.saving.cost,
            every: *every,
        }))
    }

    fn leaves(&self) -> Vec<(String, u32)> {
        let mut out: Vec<(String, u32)> = Vec::new();
        for m in &self.fleet.machines {
            match out.last_mut() {
                Some((leaf, n)) if *leaf == m.location.leaf => *n += 1,
                _ => out.push((m.location.leaf.clone(), 1)),
            }
        }
        out
    }
}
