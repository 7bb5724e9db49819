//! Alibaba's openb (cluster-trace-gpu-v2023, Apache-2.0): nodes, thirteen pod lists, and the orders
//! in which FGD's authors (Weng et al., USENIX ATC'23) offered them.

use super::error::{OnBadRow, Read, TraceError};
use super::job::{Ask, Outcome, TraceJob, TraceNode, rebase};
use super::table::{self, Cells, Layout, Row, not};
use muster_model::units::Span;

/// The thirteen lists, as in `openb_pod_list_NAME.csv.gz` and `arrival_orders/NAME.csv.gz`.
pub const LISTS: [&str; 13] = [
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

/// Reads a node list.
pub fn nodes(file: &str, bytes: &[u8], on_bad: OnBadRow) -> Result<Read<TraceNode>, TraceError> {
    let need = &["sn", "cpu_milli", "memory_mib", "gpu", "model"];
    let layout = Layout { cells: Cells::Commas, fixed: None, need, remark: None };
    table::read(file, bytes, on_bad, &layout, |r| {
        let gpus = r.number("gpu")?;
        Ok(TraceNode {
            name: r.text("sn")?.into(),
            cpus_milli: r.number("cpu_milli")?,
            memory_mib: r.number("memory_mib")?,
            gpus,
            model: (gpus > 0).then(|| r.text("model").map(str::to_lowercase)).transpose()?,
        })
    })
}

/// Reads a pod list. Three of the thirteen have neither models nor times: their pods are all
/// submitted at zero.
pub fn pods(file: &str, bytes: &[u8], on_bad: OnBadRow) -> Result<Read<TraceJob>, TraceError> {
    let need = &["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"];
    let layout = Layout { cells: Cells::Commas, fixed: None, need, remark: None };
    let read = table::read(file, bytes, on_bad, &layout, pod)?;
    Ok(Read { items: rebase(read.items), ..read })
}

fn pod(r: &Row<'_>) -> Result<TraceJob, String> {
    let gpus = r.number("num_gpu")?;
    // A model binds only those who want a GPU of it.
    let models = r.get("gpu_spec").filter(|_| gpus > 0).map_or_else(Vec::new, |m| {
        m.split('|').map(|m| m.trim().to_lowercase()).filter(|m| !m.is_empty()).collect()
    });
    let created = r.maybe_span("creation_time", 1)?;
    let started = r.maybe_span("scheduled_time", 1)?;
    let ended = r.maybe_span("deletion_time", 1)?;
    let between = |a: Option<Span>, b: Option<Span>| Some(Span(b?.0.saturating_sub(a?.0)));
    Ok(TraceJob {
        row: r.row,
        id: r.text("name")?.into(),
        submit: created.unwrap_or_default(),
        wait: between(created, started),
        run: between(started, ended),
        limit: None,
        owner: None,
        ask: Ask::Pod {
            cpu_milli: r.number("cpu_milli")?,
            memory_mib: r.number("memory_mib")?,
            gpus,
            gpu_milli: r.number("gpu_milli")?,
            models,
        },
        outcome: match r.get("pod_phase") {
            Some("Running") => Outcome::Running,
            Some("Succeeded") => Outcome::Completed,
            Some("Failed") => Outcome::Failed,
            Some("Pending") => Outcome::Pending,
            None => Outcome::Unknown,
            Some(other) => return Err(not("pod_phase", other, "a phase of a pod")),
        },
        work: None,
        steps: None,
    })
}

/// Reads the orders of arrival of a list of so many pods: for each seed, rows of the list from 0
/// ([`TraceJob::row`]). A pod may come more than once.
pub fn orders(
    file: &str,
    bytes: &[u8],
    on_bad: OnBadRow,
    pods: u32,
) -> Result<Read<(u64, Vec<u32>)>, TraceError> {
    let need = &["seed", "row_indices_space_separated"];
    let layout = Layout { cells: Cells::Commas, fixed: None, need, remark: None };
    table::read(file, bytes, on_bad, &layout, |r| {
        let rows: Result<Vec<u32>, String> = r
            .text("row_indices_space_separated")?
            .split_whitespace()
            .map(|n| match n.parse() {
                Ok(row) if row < pods => Ok(row),
                Ok(row) => Err(format!("it names row {row} of a list of {pods} pods")),
                Err(_) => Err(not("row_indices_space_separated", n, "a row number")),
            })
            .collect();
        Ok((r.number("seed")?, rows?))
    })
}

#[cfg(test)]
pub(super) const NODES: &str = "\
sn,cpu_milli,memory_mib,gpu,model
openb-node-0000,64000,262144,2,P100
openb-node-0001,32000,262144,0,
";

#[cfg(test)]
pub(super) const PODS: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0001,6000,12288,1,460,V100M16|V100M32,LS,Running,427061,12902960,427065
openb-pod-0061,11908,47104,8,1000,,BE,Pending,10001278,10001403,
openb-pod-0062,8000,30517,0,0,,BE,Succeeded,11811762,11827364,11811762
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_and_without_gpus() {
        let read = nodes("nodes.csv", NODES.as_bytes(), OnBadRow::Stop).unwrap();
        assert_eq!(read.items[0].model.as_deref(), Some("p100"));
        assert_eq!((read.items[0].gpus, read.items[0].cpus_milli), (2, 64_000));
        assert_eq!((read.items[1].gpus, read.items[1].model.clone()), (0, None));
    }

    #[test]
    fn pods_share_wait_and_name_models() {
        let read = pods("pods.csv", PODS.as_bytes(), OnBadRow::Stop).unwrap();
        let [a, b, c] = &read.items[..] else { panic!("{read:?}") };
        let Ask::Pod { models, gpu_milli: 460, .. } = &a.ask else { panic!("{a:?}") };
        assert_eq!(*models, ["v100m16", "v100m32"]);
        assert_eq!((a.submit, a.wait), (Span(0), Some(Span::secs(4))));
        assert_eq!(a.run, Some(Span::secs(12_902_960 - 427_065)));
        assert_eq!((b.run, b.wait, b.outcome), (None, None, Outcome::Pending));
        assert_eq!(b.ask.gpu_milli(), 8000);
        assert_eq!((c.ask.gpus(), c.outcome), (0, Outcome::Completed));
        let short = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,12000,16384,1,1000\n";
        let read = pods("multi.csv", short.as_bytes(), OnBadRow::Stop).unwrap();
        assert_eq!((read.items[0].submit, read.items[0].run), (Span(0), None));
    }

    #[test]
    fn orders_stay_within_the_list() {
        let text = b"seed,row_indices_space_separated\n42,2 0 1 1\n43,0 3\n";
        let read = orders("o.csv", text, OnBadRow::Skip, 3).unwrap();
        assert_eq!(read.items, [(42, vec![2, 0, 1, 1])]);
        assert_eq!(read.skipped[0].message, "it names row 3 of a list of 3 pods");
    }
}
