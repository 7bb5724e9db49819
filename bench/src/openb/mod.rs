//! How much of the GPUs is in use when more is asked for than there is: FGD's experiment on
//! Alibaba's openb nodes, placed by the scheduler of the product, beside what FGD's authors
//! published.

mod data;

use crate::Options;
use crate::report::Report;
use crate::scheduler::traces;
use anyhow::{Context, Result};
use data::{TRACES, Trace};
use muster_sim::replay::{offer, total};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a short run looks at.
const QUICK: [&str; 3] = ["default", "gpushare60", "gpuspec33"];
const QUICK_SEEDS: usize = 2;

/// One order of arrival of one trace.
struct Task {
    trace: usize,
    order: Vec<u32>,
    /// Drawn with a seed of our own.
    drawn: bool,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new("openb");
    let Some(dir) = traces::folder() else {
        eprintln!("SKIPPED: no traces (MUSTER_TRACES): nothing was measured");
        report.note("SKIPPED: no traces found, nothing was measured.");
        return Ok(report);
    };
    let names: &[&str] = if options.quick { &QUICK } else { &TRACES };
    let nodes = data::nodes(&dir)?;
    let published = data::published(&dir)?;
    let mixes: Vec<Trace> =
        names.iter().map(|n| data::trace(&dir, n, &published)).collect::<Result<_>>()?;
    let mut tasks = Vec::new();
    for (i, t) in mixes.iter().enumerate() {
        let seeds = if options.quick { QUICK_SEEDS } else { usize::MAX };
        for (_, order) in t.orders.iter().take(seeds) {
            tasks.push(Task { trace: i, order: order.clone(), drawn: false });
        }
        for seed in 0..options.shuffle {
            let order = t.drawn(1000 + seed, total(&nodes));
            tasks.push(Task { trace: i, order, drawn: true });
        }
    }
    let found = all(&tasks, if options.quick { 1 } else { 2 }, |task| {
        offer(&nodes, &mixes[task.trace].mix, &task.order)
            .map(|o| o.allocation * 100.0)
            .with_context(|| format!("on {}", names[task.trace]))
    })?;
    let mut gains = Vec::new();
    let mut drawn = Vec::new();
    for (i, (name, t)) in names.iter().zip(&mixes).enumerate() {
        let of = |own: bool| {
            let picked = tasks.iter().zip(&found).filter(|(k, _)| k.trace == i && k.drawn == own);
            mean(&picked.map(|(_, v)| *v).collect::<Vec<_>>())
        };
        let value = of(false);
        report.ours(name, "% of GPUs in use", value);
        report.theirs(name, "% of GPUs in use", "FGD as published", t.fgd, true);
        gains.push(value - t.fgd);
        if options.shuffle > 0 {
            drawn.push(of(true) - t.fgd);
        }
    }
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    report.ours("mean_gain", "points over FGD", mean(&gains));
    report.note(format!(
        "Mean over {} orders of arrival a trace. Least gain {least:+.2} points; above FGD on {} of \
         {} traces: {}.",
        tasks.iter().filter(|t| !t.drawn).count() / names.len(),
        gains.iter().filter(|g| **g > 0.0).count(),
        gains.len(),
        if least > 0.0 { "met" } else { "MISSED" },
    ));
    if options.shuffle > 0 {
        let by: BTreeMap<&str, String> =
            names.iter().zip(&drawn).map(|(n, g)| (*n, format!("{g:+.2}"))).collect();
        report.note(format!(
            "{} orders of our own a trace (pods drawn from the list): mean gain {:+.2} over FGD's \
             published orders: {by:?}",
            options.shuffle,
            mean(&drawn)
        ));
    }
    Ok(report)
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// Does every task, several at once; answers in the order of the tasks.
fn all<T: Sync>(
    tasks: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<f64> + Sync,
) -> Result<Vec<f64>> {
    let next = AtomicUsize::new(0);
    let found: Mutex<BTreeMap<usize, Result<f64>>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                while let Some((i, task)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    tasks.get(i).map(|t| (i, t))
                } {
                    let value = work(task);
                    if let Ok(mut found) = found.lock() {
                        found.insert(i, value);
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_tasks() {
        let tasks: Vec<u32> = (0..50).collect();
        let found = all(&tasks, 3, |t| Ok(f64::from(*t))).unwrap();
        assert_eq!(found.len(), 50);
        assert!(found.windows(2).all(|w| w[0] < w[1]));
        assert!(all(&tasks, 2, |_| anyhow::bail!("no")).is_err());
    }
}
