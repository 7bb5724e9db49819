//! Alibaba's openb nodes and pods, the orders in which they were offered, and what FGD's authors
//! published (Weng et al., USENIX ATC'23).

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The thirteen mixes, by the name of their pod list.
pub(crate) const TRACES: [&str; 13] = [
    "default",
    "cpu050",
    "cpu100",
    "cpu250",
    "gpushare40",
    "gpushare60",
    "gpushare100",
    "gpuspec10",
    "gpuspec20",
    "gpuspec33",
    "multigpu20",
    "multigpu30",
    "multigpu50",
];

/// Column of the published curves: GPUs asked for, in % of what there is.
pub(crate) const ARRIVED: u64 = 130;

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) cpu_milli: u32,
    pub(crate) memory_mib: u64,
    pub(crate) gpus: u32,
    pub(crate) model: String,
}

/// A kind of pod: many are alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pod {
    pub(crate) cpu_milli: u32,
    pub(crate) memory_mib: u64,
    pub(crate) gpus: u32,
    /// On each GPU.
    pub(crate) milli: u32,
    /// Models that will do, as `a|b`.
    pub(crate) models: Option<String>,
}

impl Pod {
    pub(crate) fn asked(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.milli)
    }
}

/// One mix.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) kinds: Vec<Pod>,
    /// Pods of the list, by kind.
    pub(crate) pods: Vec<usize>,
    /// By seed: rows of the list in the order of arrival.
    pub(crate) orders: BTreeMap<u64, Vec<usize>>,
    /// FGD's GPU allocation at [`ARRIVED`], mean of the published seeds.
    pub(crate) fgd: f64,
}

/// A table with a head line.
fn table(file: &Path) -> Result<(Vec<String>, Vec<Vec<String>>)> {
    let mut text = String::new();
    let mut open = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    if file.extension().is_some_and(|e| e == "gz") {
        flate2::read::GzDecoder::new(open).read_to_string(&mut text)
    } else {
        open.read_to_string(&mut text)
    }
    .with_context(|| format!("cannot read {}", file.display()))?;
    let row = |l: &str| l.trim_end().split(',').map(str::to_string).collect::<Vec<_>>();
    let mut lines = text.lines();
    let head = row(lines.next().context("the file is empty")?);
    Ok((head, lines.filter(|l| !l.trim().is_empty()).map(row).collect()))
}

fn column(head: &[String], name: &str) -> Result<usize> {
    head.iter().position(|h| h == name).with_context(|| format!("there is no column {name}"))
}

fn number<T: std::str::FromStr>(row: &[String], at: usize) -> Result<T> {
    row.get(at)
        .and_then(|v| v.parse().ok())
        .with_context(|| format!("no number in field {at} of {row:?}"))
}

/// The GPU nodes, in the order of the file.
pub(crate) fn nodes(dir: &Path) -> Result<Vec<Node>> {
    let (head, rows) = table(&dir.join("fgd-openb/csv/openb_node_list_gpu_node.csv"))?;
    let at = ["cpu_milli", "memory_mib", "gpu", "model"].map(|n| column(&head, n));
    let [cpu, memory, gpu, model] = at;
    let (cpu, memory, gpu, model) = (cpu?, memory?, gpu?, model?);
    rows.iter()
        .map(|r| {
            Ok(Node {
                cpu_milli: number(r, cpu)?,
                memory_mib: number(r, memory)?,
                gpus: number(r, gpu)?,
                model: r.get(model).context("no model")?.to_lowercase(),
            })
        })
        .collect()
}

fn pods(dir: &Path, name: &str) -> Result<(Vec<Pod>, Vec<usize>)> {
    let (head, rows) = table(&dir.join(format!("fgd-openb/csv/openb_pod_list_{name}.csv.gz")))?;
    let at = ["cpu_milli", "memory_mib", "num_gpu", "gpu_milli"];
    let [cpu, memory, gpus, milli] = at.map(|n| column(&head, n));
    let (cpu, memory, gpus, milli) = (cpu?, memory?, gpus?, milli?);
    // Some lists name no models.
    let spec = column(&head, "gpu_spec").ok();
    let mut known: BTreeMap<Pod, usize> = BTreeMap::new();
    let mut kinds = Vec::new();
    let mut list = Vec::new();
    for r in &rows {
        let gpus = number(r, gpus)?;
        // A model binds only those who want a GPU of it.
        let models = spec
            .and_then(|s| r.get(s))
            .filter(|m| gpus > 0 && !m.is_empty())
            .map(|m| m.to_lowercase());
        let pod = Pod {
            cpu_milli: number(r, cpu)?,
            memory_mib: number(r, memory)?,
            gpus,
            milli: number(r, milli)?,
            models,
        };
        let kind = *known.entry(pod.clone()).or_insert_with(|| {
            kinds.push(pod);
            kinds.len() - 1
        });
        list.push(kind);
    }
    Ok((kinds, list))
}

/// FGD's published figure for every trace.
pub(crate) fn published(dir: &Path) -> Result<BTreeMap<String, f64>> {
    let (head, rows) =
        table(&dir.join("fgd-openb/expected_results/analysis_allo_discrete.csv.gz"))?;
    let workload = column(&head, "workload")?;
    let policy = column(&head, "sc_policy")?;
    let value = column(&head, &ARRIVED.to_string())?;
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for r in rows.iter().filter(|r| r.get(policy).is_some_and(|p| p == "06-FGD")) {
        let name = r.get(workload).and_then(|w| w.strip_prefix("openb_pod_list_"));
        let sum = sums.entry(name.context("an unknown workload")?.to_string()).or_default();
        sum.0 += number::<f64>(r, value)?;
        sum.1 += 1.0;
    }
    Ok(sums.into_iter().map(|(name, (sum, n))| (name, sum / n)).collect())
}

/// Reads one mix.
pub(crate) fn trace(dir: &Path, name: &str, fgd: &BTreeMap<String, f64>) -> Result<Trace> {
    let (kinds, pods) = pods(dir, name)?;
    let (_, rows) = table(&dir.join(format!("fgd-openb/arrival_orders/{name}.csv.gz")))?;
    let mut orders = BTreeMap::new();
    for r in rows {
        let list = r.get(1).context("an order without rows")?;
        let order: Result<Vec<usize>, _> = list.split_whitespace().map(str::parse).collect();
        let order = order.context("a row that is no number")?;
        ensure!(order.iter().all(|i| *i < pods.len()), "a row beyond the list of pods");
        orders.insert(number(&r, 0)?, order);
    }
    let fgd = *fgd.get(name).with_context(|| format!("nothing is published for {name}"))?;
    Ok(Trace { kinds, pods, orders, fgd })
}

impl Trace {
    /// Another order of arrival: pods drawn from the list with a seed of our own, until as many
    /// GPUs are asked for.
    pub(crate) fn drawn(&self, seed: u64, total_milli: u64) -> Vec<usize> {
        let mut dice = crate::scheduler::mix::Dice(seed);
        let mut asked = 0;
        let mut out = Vec::new();
        // Half a percent beyond the column, to fill it.
        while asked * 1000 < total_milli * (ARRIVED * 10 + 5) {
            let row = usize::try_from(dice.below(self.pods.len() as u64)).unwrap_or(0);
            asked += self.kinds[self.pods[row]].asked();
            out.push(row);
        }
        out
    }
}
