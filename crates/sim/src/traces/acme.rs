//! Shanghai AI Lab's Acme (InternLM/AcmeTrace, CC-BY-4.0; Hu et al., NSDI'24): published figures of
//! five clusters, and the large gangs of Kalos.

use super::error::{OnBadRow, Read, TraceError};
use super::job::{Ask, Outcome, TraceJob, rebase};
use super::table::{self, Cells, Layout};
use muster_model::units::Span;
use std::borrow::Cow;

/// Published figures of one cluster's GPU jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSummary {
    /// The cluster's name.
    pub name: Cow<'static, str>,
    /// GPU jobs.
    pub jobs: u32,
    /// Mean run time.
    pub run_mean: Span,
    /// Run time that half of them stay below.
    pub run_median: Span,
    /// The longest run time.
    pub run_max: Span,
    /// Mean wait.
    pub wait_mean: Span,
    /// Wait that half of them stay below.
    pub wait_median: Span,
    /// Thousandths of GPUs in the mean.
    pub gpus_mean_milli: u32,
    /// The most GPUs of one job.
    pub gpus_max: u32,
    /// In thousandths of the jobs: completed, cancelled, failed; none where not published.
    pub ends: Option<[u32; 3]>,
    /// The same, of the GPU time.
    pub ends_by_time: Option<[u32; 3]>,
}

/// Reads `cluster_summary.csv`.
pub fn summary(
    file: &str,
    bytes: &[u8],
    on_bad: OnBadRow,
) -> Result<Read<ClusterSummary>, TraceError> {
    let need = &[
        "id",
        "gpu_job_num",
        "avg_run_time_gpu",
        "avg_que_time_gpu",
        "avg_gpu_num",
        "med_run_time_gpu",
        "med_que_time_gpu",
        "max_run_time_gpu",
        "max_gpu",
        "complete_rate_gpu",
        "cancel_rate_gpu",
        "fail_rate_gpu",
        "complete_rate_gpu_time",
        "cancel_rate_gpu_time",
        "fail_rate_gpu_time",
    ];
    let layout = Layout { cells: Cells::Commas, fixed: None, need, remark: None };
    table::read(file, bytes, on_bad, &layout, |r| {
        let milli = |column| narrow(column, r.thousandths(column)?);
        let ends = |columns: [&str; 3]| -> Result<Option<[u32; 3]>, String> {
            let mut out = [0; 3];
            for (to, column) in out.iter_mut().zip(columns) {
                match r.maybe_thousandths(column)? {
                    Some(n) => *to = narrow(column, n)?,
                    None => return Ok(None),
                }
            }
            Ok(Some(out))
        };
        Ok(ClusterSummary {
            name: r.text("id")?.to_string().into(),
            jobs: r.number("gpu_job_num")?,
            run_mean: r.span("avg_run_time_gpu", 1)?,
            run_median: r.span("med_run_time_gpu", 1)?,
            run_max: r.span("max_run_time_gpu", 1)?,
            wait_mean: r.span("avg_que_time_gpu", 1)?,
            wait_median: r.span("med_que_time_gpu", 1)?,
            gpus_mean_milli: milli("avg_gpu_num")?,
            gpus_max: milli("max_gpu")? / 1000,
            ends: ends(["complete_rate_gpu", "cancel_rate_gpu", "fail_rate_gpu"])?,
            ends_by_time: ends([
                "complete_rate_gpu_time",
                "cancel_rate_gpu_time",
                "fail_rate_gpu_time",
            ])?,
        })
    })
}

fn narrow(column: &str, n: u64) -> Result<u32, String> {
    u32::try_from(n).map_err(|_| format!("`{column}` is too large"))
}

/// Reads `converted_kalos_trace.csv`: 319 of Kalos's jobs, as steps. The steps' computing alone adds
/// up to the run times (the longest is the published 625,740 s); their time on the network comes
/// from the conversion and is left out.
pub fn kalos(file: &str, bytes: &[u8], on_bad: OnBadRow) -> Result<Read<TraceJob>, TraceError> {
    let need = &[
        "job_id",
        "arrival_time",
        "num_iteration",
        "iteration_computing_time",
        "gpu_workers",
        "gpu_per_worker",
    ];
    let layout = Layout { cells: Cells::Commas, fixed: None, need, remark: None };
    let read = table::read(file, bytes, on_bad, &layout, |r| {
        let steps: u64 = r.number("num_iteration")?;
        let step = r.span("iteration_computing_time", 1)?;
        let run = step.0.checked_mul(steps).ok_or("its run time is too large")?;
        let workers: u64 = r.number("gpu_workers")?;
        let gpus = workers
            .checked_mul(r.thousandths("gpu_per_worker")?)
            .ok_or("`gpu_workers` is too large")?;
        Ok(TraceJob {
            row: r.row,
            id: r.text("job_id")?.into(),
            submit: r.span("arrival_time", 1)?,
            wait: None,
            run: Some(Span(run)),
            limit: None,
            deadline: None,
            owner: None,
            ask: Ask::Gpus(narrow("gpu_workers", gpus.div_ceil(1000))?),
            outcome: Outcome::Unknown,
            work: None,
            steps: Some(steps),
        })
    })?;
    Ok(Read { items: rebase(read.items), ..read })
}

#[cfg(test)]
pub(super) const KALOS: &str = "\
job_id,arrival_time,num_iteration,iteration_computing_time,iteration_networking_time,gpu_workers,ps,gpu_per_worker,cpu_per_gpu_worker,cpu_per_ps_worker,tensorsizes,profiled_network
0,0.0,208,0.5,0.25,8,0,8.0,15.0,15.0,10.0,500
1,313.0,156,0.5,0.25,1,0,2.0,60.0,60.0,10.0,500
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gangs_of_kalos() {
        let read = kalos("kalos.csv", KALOS.as_bytes(), OnBadRow::Stop).unwrap();
        let [a, b] = &read.items[..] else { panic!("{read:?}") };
        assert_eq!((a.ask.gpus(), a.run), (64, Some(Span::secs(104))));
        assert_eq!((b.ask.gpus(), b.submit), (2, Span::secs(313)));
    }
}
