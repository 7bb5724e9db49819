//! Alibaba's openb nodes and pods, the orders in which they were offered, and what FGD's authors
//! published (Weng et al., USENIX ATC'23).

use anyhow::{Context, Result};
use muster_sim::replay::{ARRIVED, Mix};
use muster_sim::traces::openb::{nodes as read_nodes, orders, pods};
use muster_sim::traces::{OnBadRow, Read, TraceError, TraceNode, read_file};
use std::collections::BTreeMap;
use std::path::Path;

/// The thirteen mixes, by the name of their pod list.
pub(crate) use muster_sim::traces::openb::LISTS as TRACES;

/// One mix.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) mix: Mix,
    /// By seed: rows of the list in the order of arrival.
    pub(crate) orders: Vec<(u64, Vec<u32>)>,
    /// FGD's GPU allocation at [`ARRIVED`], mean of the published seeds.
    pub(crate) fgd: f64,
}

/// Reads one file; a row that cannot be read is an error.
fn read<T>(
    file: &Path,
    parse: impl FnOnce(&str, &[u8], OnBadRow) -> Result<Read<T>, TraceError>,
) -> Result<Vec<T>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(parse(&file.display().to_string(), &bytes, OnBadRow::Stop)?.items)
}

/// The GPU nodes, in the order of the file.
pub(crate) fn nodes(dir: &Path) -> Result<Vec<TraceNode>> {
    read(&dir.join("fgd-openb/csv/openb_node_list_gpu_node.csv"), read_nodes)
}

/// FGD's published figure for every trace.
pub(crate) fn published(dir: &Path) -> Result<BTreeMap<String, f64>> {
    let file = dir.join("fgd-openb/expected_results/analysis_allo_discrete.csv.gz");
    let text = read_file(&file)?;
    let mut lines = text.lines().map(|l| l.trim_end().split(',').collect::<Vec<_>>());
    let head = lines.next().context("the file is empty")?;
    let column = |name: &str| {
        head.iter().position(|h| *h == name).with_context(|| format!("there is no column {name}"))
    };
    let workload = column("workload")?;
    let policy = column("sc_policy")?;
    let value = column(&ARRIVED.to_string())?;
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for r in lines.filter(|r| r.get(policy).is_some_and(|p| *p == "06-FGD")) {
        let name = r.get(workload).and_then(|w| w.strip_prefix("openb_pod_list_"));
        let sum = sums.entry(name.context("an unknown workload")?.to_string()).or_default();
        let found = r.get(value).and_then(|v| v.parse::<f64>().ok());
        sum.0 += found.with_context(|| format!("no number in {r:?}"))?;
        sum.1 += 1.0;
    }
    Ok(sums.into_iter().map(|(name, (sum, n))| (name, sum / n)).collect())
}

/// Reads one mix.
pub(crate) fn trace(dir: &Path, name: &str, fgd: &BTreeMap<String, f64>) -> Result<Trace> {
    let list = dir.join(format!("fgd-openb/csv/openb_pod_list_{name}.csv.gz"));
    let mix = Mix::new(&read(&list, pods)?);
    let order = dir.join(format!("fgd-openb/arrival_orders/{name}.csv.gz"));
    let orders = read(&order, |file, bytes, bad| orders(file, bytes, bad, mix.rows()))?;
    let fgd = *fgd.get(name).with_context(|| format!("nothing is published for {name}"))?;
    Ok(Trace { mix, orders, fgd })
}

impl Trace {
    /// Another order of arrival: pods drawn from the list with a seed of our own, until as many
    /// GPUs are asked for.
    pub(crate) fn drawn(&self, seed: u64, total_milli: u64) -> Vec<u32> {
        let mut dice = crate::scheduler::mix::Dice(seed);
        let mut asked = 0;
        let mut out = Vec::new();
        // Half a percent beyond the column, to fill it.
        while asked * 1000 < total_milli * (ARRIVED * 10 + 5) {
            let row = u32::try_from(dice.below(u64::from(self.mix.rows()))).unwrap_or(0);
            asked += self.mix.asked(row);
            out.push(row);
        }
        out
    }
}
