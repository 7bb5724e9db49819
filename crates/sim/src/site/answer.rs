//! The answer: what a change does to the metrics of a site, and how sure that is.

use super::draw::SimulatedJob;
use super::words::{self, amount};
use super::{Change, Plan, SimulatedPair, SimulatedRun, Site, limit};
use muster_model::ids::JobId;
use muster_model::whatif::{
    WhatIfAnswer, WhatIfEstimate, WhatIfJob, WhatIfMetric, WhatIfNever, WhatIfStart, WhatIfUnit,
};
use std::collections::BTreeSet;

/// Jobs that are named, with their starts or because they could never run.
const NAMED: usize = 50;
/// Fewer pairs than this show nothing that is more than chance.
pub(super) const CERTAIN_PAIRS: u64 = 4;
/// Starts that differ by less are the same, in seconds.
const SAME_S: f64 = 1.0;

/// Quantiles of Student's distribution, 97.5%, from one degree of freedom on.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The mean of what several seeds gave, with its 95% interval, which one seed alone does not have.
pub(crate) fn estimate(values: &[f64]) -> WhatIfEstimate {
    let n = values.len() as f64;
    if values.is_empty() {
        return WhatIfEstimate { mean: 0.0, interval: Some([0.0, 0.0]), at_least: false };
    }
    let mean = values.iter().sum::<f64>() / n;
    if values.len() == 1 {
        return WhatIfEstimate { mean, interval: None, at_least: false };
    }
    let square = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    let t = T.get(values.len() - 2).copied().unwrap_or(1.96);
    let half = t * (square / n).sqrt();
    WhatIfEstimate { mean, interval: Some([mean - half, mean + half]), at_least: false }
}

/// One of a pair.
type PairSelector = fn(&SimulatedPair) -> &SimulatedRun;

/// Both sides, with their names in notes.
const SIDES: [(&str, PairSelector); 2] = [("as it is", |p| &p.base), ("changed", |p| &p.changed)];

fn metric(
    name: &str,
    unit: WhatIfUnit,
    pairs: &[SimulatedPair],
    of: impl Fn(&SimulatedRun) -> f64,
) -> WhatIfMetric {
    let base: Vec<f64> = pairs.iter().map(|p| of(&p.base)).collect();
    let changed: Vec<f64> = pairs.iter().map(|p| of(&p.changed)).collect();
    let differ: Vec<f64> = base.iter().zip(&changed).map(|(b, c)| c - b).collect();
    let change = estimate(&differ);
    // Nothing here is below zero, and no share above one.
    let most = if unit == WhatIfUnit::Share { 1.0 } else { f64::MAX };
    let within = |mut e: WhatIfEstimate| {
        e.interval = e.interval.map(|i| i.map(|x| x.clamp(0.0, most)));
        e
    };
    let certain = differ.len() as u64 >= CERTAIN_PAIRS
        && change.interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
    WhatIfMetric {
        name: name.into(),
        unit,
        base: within(estimate(&base)),
        changed: within(estimate(&changed)),
        change,
        certain,
    }
}

/// Present jobs that are not over in every run take at least as long; how much longer, nobody
/// knows, and nothing is certain about the difference.
fn bounded(mut f: WhatIfMetric, pairs: &[SimulatedPair]) -> WhatIfMetric {
    f.base.at_least = pairs.iter().any(|p| p.base.totals.unfinished > 0);
    f.changed.at_least = pairs.iter().any(|p| p.changed.totals.unfinished > 0);
    if f.base.at_least {
        f.base.interval = None;
    }
    if f.changed.at_least {
        f.changed.interval = None;
    }
    if f.base.at_least || f.changed.at_least {
        f.change.interval = None;
        f.certain = false;
    }
    f
}

/// When a job starts, in the mean over all pairs; nothing where it does not start in each of them.
fn start(pairs: &[SimulatedPair], job: JobId, which: PairSelector) -> Option<f64> {
    let all: Option<Vec<f64>> = pairs.iter().map(|p| which(p).starts.get(&job).copied()).collect();
    all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
}

/// Jobs that could never run on one side, in some pair.
fn never(pairs: &[SimulatedPair], which: PairSelector) -> BTreeSet<SimulatedJob> {
    pairs.iter().flat_map(|p| which(p).never.iter().copied()).collect()
}

/// Those of the jobs that are there now.
fn named<'a>(site: &Site, jobs: impl Iterator<Item = &'a SimulatedJob>) -> WhatIfNever {
    let mut out = WhatIfNever::default();
    for job in jobs.filter_map(|j| site.state.jobs.get(&j.present()?)) {
        out.count += 1;
        if out.jobs.len() < NAMED {
            out.jobs.push(WhatIfJob { job: job.display_id(), name: job.name.to_string() });
        }
    }
    out
}

/// Of the jobs that wait now: how many start earlier, later, at about the same time and, as `never`
/// has them, not at all; and those whose start changes most.
fn starts(
    site: &Site,
    pairs: &[SimulatedPair],
    never: &BTreeSet<SimulatedJob>,
) -> ([u64; 4], Vec<WhatIfStart>) {
    let never: BTreeSet<JobId> = never.iter().filter_map(|j| j.waiting()).collect();
    let both = pairs.iter().flat_map(|p| p.base.starts.keys().chain(p.changed.starts.keys()));
    let jobs: BTreeSet<JobId> = both.chain(&never).copied().collect();
    let mut counts = [0; 4];
    let mut differ: Vec<(f64, WhatIfStart)> = Vec::new();
    for id in jobs {
        let [base_s, changed_s] = SIDES.map(|(_, which)| start(pairs, id, which));
        let never = never.contains(&id);
        let later = match (base_s, changed_s) {
            (Some(b), Some(c)) => c - b,
            (None, Some(_)) => f64::NEG_INFINITY,
            (Some(_), None) => f64::INFINITY,
            (None, None) if never => f64::INFINITY,
            (None, None) => 0.0,
        };
        let Some(job) = site.state.jobs.get(&id).filter(|_| later.abs() >= SAME_S) else {
            counts[2] += 1;
            continue;
        };
        counts[if never { 3 } else { usize::from(later > 0.0) }] += 1;
        let (job, name) = (job.display_id(), job.name.to_string());
        differ.push((later.abs(), WhatIfStart { job, name, base_s, changed_s, never }));
    }
    differ.sort_by(|a, b| b.0.total_cmp(&a.0));
    differ.truncate(NAMED);
    (counts, differ.into_iter().map(|(_, s)| s).collect())
}

/// The answer, from pairs of lives with the same seeds.
#[must_use]
pub fn answer(
    site: &Site,
    base: &Plan<'_>,
    changed: &Plan<'_>,
    changes: &[Change],
    pairs: &[SimulatedPair],
) -> WhatIfAnswer {
    let goes_on = base.goes_on();
    let (seconds, share, count) = (WhatIfUnit::Seconds, WhatIfUnit::Share, WhatIfUnit::Count);
    let metrics = vec![
        metric("wait_mean_s", seconds, pairs, |l| l.totals.waits.mean),
        metric("wait_p95_s", seconds, pairs, |l| l.totals.waits.p95),
        bounded(metric("queue_makespan_s", seconds, pairs, |l| l.totals.queue_s), pairs),
        metric("goodput", share, pairs, |l| l.totals.goodput),
        metric("gpu_allocation_ratio", share, pairs, |l| l.outcome.gpu_allocation_ratio),
        metric("jobs_completed", count, pairs, |l| l.totals.jobs_completed as f64),
        metric("interruptions", count, pairs, |l| l.totals.interruptions as f64),
    ];
    let mut notes = base.notes.clone();
    notes.extend(changed.notes.iter().filter(|n| !base.notes.contains(n)).cloned());
    let most = |of: fn(&SimulatedRun) -> u64, which: PairSelector| {
        pairs.iter().map(|p| of(which(p))).max().unwrap_or(0)
    };
    for (side, which) in SIDES {
        let refused = most(|l| l.never.len() as u64, which);
        let unstarted = most(|l| l.totals.unstarted, which);
        let open = most(|l| l.totals.unfinished, which);
        if refused > 0 {
            let jobs = if refused == 1 { "job" } else { "jobs" };
            notes.push(format!(
                "{side}: up to {refused} {jobs} could never run; no number counts them, on either \
                 side, but that of the GPUs allocated"
            ));
        }
        if unstarted > 0 {
            notes.push(format!(
                "{side}: up to {unstarted} jobs had not started at the end; they count with the \
                 time that they had waited, so real waits are longer"
            ));
        }
        if open > 0 {
            notes.push(format!(
                "{side}: up to {open} of the jobs that are there now were not over at the end"
            ));
        }
    }
    if (pairs.len() as u64) < CERTAIN_PAIRS {
        notes.push(format!(
            "{}: no difference is certain with fewer than {CERTAIN_PAIRS}",
            if pairs.len() == 1 { "1 pair".to_owned() } else { format!("{} pairs", pairs.len()) }
        ));
    }
    let other = limit::other(site);
    let seen = |which: PairSelector| {
        pairs
            .iter()
            .map(|p| which(p).limits)
            .fold(limit::SaturationCounts::default(), limit::SaturationCounts::and)
    };
    let limits = SIDES.map(|(_, which)| seen(which));
    let (running, waiting) = site.counts();
    let size = |plan: &Plan<'_>| {
        let (nodes, gpus) = plan.size();
        [nodes as u64, gpus]
    };
    let [never_base, never_changed] = SIDES.map(|(_, which)| never(pairs, which));
    let (counts, starts) = starts(site, pairs, &never_changed);
    let [starts_earlier, starts_later, starts_same, starts_never] = counts;
    let mut answer = WhatIfAnswer {
        summary: String::new(),
        changes: changes.iter().map(ToString::to_string).collect(),
        seeds: pairs.len() as u64,
        horizon_s: base.horizon().0 as f64 / 1000.0,
        new_work: goes_on,
        base_size: size(base),
        changed_size: size(changed),
        running: running as u64,
        waiting: waiting as u64,
        arrivals_per_hour: site.arrivals_per_hour(),
        failures_per_1000_node_days: base.failures_per_1000_node_days(),
        metrics,
        starts_earlier,
        starts_later,
        starts_same,
        starts_never,
        starts,
        never_changed: named(site, never_changed.difference(&never_base)),
        never_base: named(site, never_base.difference(&never_changed)),
        limit_base: limits[0].words(other.as_deref(), base.fleet.spares()),
        limit: limits[1].words(other.as_deref(), changed.fleet.spares()),
        notes,
    };
    answer.summary = words::summary(&answer);
    answer
}

/// A metric for a table: as the site is, as it would be, the difference and its interval.
#[must_use]
pub fn cells(f: &WhatIfMetric) -> [String; 4] {
    let interval = f.change.interval.map_or("?".into(), |[low, high]| {
        format!("{} to {}", words::signed(low, f.unit), words::signed(high, f.unit))
    });
    let mean = |e: &WhatIfEstimate| {
        format!("{}{}", if e.at_least { "> " } else { "" }, amount(e.mean, f.unit))
    };
    let change = if f.base.at_least || f.changed.at_least {
        "?".into()
    } else {
        words::signed(f.change.mean, f.unit)
    };
    [mean(&f.base), mean(&f.changed), change, interval]
}

/// What a metric is called in a table.
#[must_use]
pub fn label(f: &WhatIfMetric) -> &str {
    match f.name.as_str() {
        "wait_mean_s" => "mean wait",
        "wait_p95_s" => "95th percentile of waits",
        "queue_makespan_s" => "present queue over after",
        "gpu_allocation_ratio" => "GPUs allocated to jobs",
        "jobs_completed" => "jobs completed",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let e = estimate(&[1.0, 2.0, 3.0, 4.0]);
        assert!((e.mean - 2.5).abs() < 1e-12);
        // Standard deviation 1.290994, of the mean 0.645497, times 3.182.
        let [low, high] = e.interval.unwrap();
        assert!((low - 0.446).abs() < 1e-3 && (high - 4.554).abs() < 1e-3);
        let same = estimate(&[7.0; 8]);
        assert_eq!(same.interval, Some([7.0, 7.0]));
        assert_eq!(estimate(&[1.0]).interval, None);
        assert_eq!(T.len(), 30);
    }
}
