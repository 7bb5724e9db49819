//! The same pods in several orders of arrival, and the means.

use super::openb::{ArrivalResult, Mix, offer, total};
use crate::SimError;
use crate::outcome::Spread;
use crate::traces::TraceNode;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What came of openb's pods. Figures that need time are null: there is none in the experiment.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct OpenbReplay {
    /// Always `openb`.
    pub format: &'static str,
    /// Name of the list of pods.
    pub scenario: String,
    /// Nodes with GPUs.
    pub nodes: u32,
    /// GPUs in them.
    pub gpus: u64,
    /// Pods offered, on average over the runs as all that follows.
    pub jobs: f64,
    /// Pods that found room; none of them ends.
    pub jobs_completed: f64,
    /// Always null: no pod ends here.
    pub makespan_s: Option<f64>,
    /// GPUs in use of those there are, when 130% of them have been asked for.
    pub gpu_allocation_ratio: f64,
    /// Always null: no pod ends here.
    pub gpu_utilization: Option<f64>,
    /// Share of the GPU left over at the end that the pods of the list cannot use, on average:
    /// FGD's measure.
    pub fragmentation: f64,
    /// Always null: no pod ends here.
    pub wait_s: Option<Spread>,
    /// Always null: no pod ends here.
    pub jct_s: Option<Spread>,
    /// Always null: no pod ends here.
    pub goodput: Option<f64>,
    /// Always null: no pod ends here.
    pub ettr: Option<f64>,
    /// Always null: no pod ends here.
    pub mtbi_s: Option<f64>,
    /// Always null: no pod ends here.
    pub lost_gpu_seconds: Option<f64>,
    /// None happen.
    pub preemptions: u64,
    /// None happen.
    pub migrations: u64,
    /// None happen.
    pub failures: BTreeMap<String, u64>,
    /// Pods decided on, in all runs.
    pub decisions: u64,
    /// Real time that it took.
    pub wall_s: f64,
    /// Most memory that the process held.
    pub peak_rss_bytes: u64,
    /// Hash over every decision of every run.
    pub log_digest: String,
    /// What is not in the files.
    pub assumptions: Vec<String>,
    /// Rows of the files that could not be read.
    pub rows_skipped: u64,
    /// Each order of arrival.
    pub runs: Vec<OpenbRun>,
}

/// One order of arrival.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct OpenbRun {
    /// The seed of the order.
    pub seed: u64,
    /// Pods offered.
    pub jobs: u64,
    /// Pods that found room.
    pub jobs_completed: u64,
    /// Arrivals of rows that could not be read.
    pub unknown: u64,
    /// GPUs in use of those there are, when 130% of them have been asked for.
    pub gpu_allocation_ratio: f64,
    /// FGD's measure, at the end.
    pub fragmentation: f64,
    /// Hash over every decision.
    pub log_digest: String,
}

/// Offers the pods of `mix` in every order of `orders`, with so many threads. The answer does not
/// depend on their number.
///
/// # Errors
/// The first of the orders that cannot be offered says why.
pub fn seeds(
    nodes: &[TraceNode],
    mix: &Mix,
    orders: &[(u64, Vec<u32>)],
    threads: usize,
) -> Result<OpenbReplay, SimError> {
    if orders.is_empty() {
        return Err(SimError::new("there is no order of arrival to replay"));
    }
    let found = all(orders, threads, |(_, order)| offer(nodes, mix, order));
    let mut runs = Vec::with_capacity(orders.len());
    for ((seed, _), offered) in orders.iter().zip(found) {
        runs.push(run(*seed, offered?));
    }
    let n = runs.len() as f64;
    let mean = |of: &dyn Fn(&OpenbRun) -> f64| runs.iter().map(of).sum::<f64>() / n;
    let log_digest = if let [only] = &runs[..] {
        only.log_digest.clone()
    } else {
        let mut hash = blake3::Hasher::new();
        for r in &runs {
            hash.update(format!("{} {}\n", r.seed, r.log_digest).as_bytes());
        }
        hash.finalize().to_hex().to_string()
    };
    Ok(OpenbReplay {
        format: "openb",
        nodes: u32::try_from(nodes.iter().filter(|n| n.gpus > 0).count()).unwrap_or(u32::MAX),
        gpus: total(nodes) / 1000,
        jobs: mean(&|r| r.jobs as f64),
        jobs_completed: mean(&|r| r.jobs_completed as f64),
        gpu_allocation_ratio: mean(&|r| r.gpu_allocation_ratio),
        fragmentation: mean(&|r| r.fragmentation),
        decisions: runs.iter().map(|r| r.jobs).sum(),
        log_digest,
        runs,
        ..OpenbReplay::default()
    })
}

fn run(seed: u64, o: ArrivalResult) -> OpenbRun {
    OpenbRun {
        seed,
        jobs: o.pods,
        jobs_completed: o.placed,
        unknown: o.unknown,
        gpu_allocation_ratio: o.allocation,
        fragmentation: o.fragmentation,
        log_digest: o.digest,
    }
}

/// Does every task, several at once; answers in the order of the tasks.
#[allow(clippy::disallowed_methods, reason = "the answers come in the order of the tasks")]
pub(super) fn all<T: Sync, R: Send>(
    tasks: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let found: Mutex<BTreeMap<usize, R>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|s| {
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            s.spawn(|| {
                while let Some((i, task)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    tasks.get(i).map(|t| (i, t))
                } {
                    let value = work(task);
                    found
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .insert(i, value);
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
}
