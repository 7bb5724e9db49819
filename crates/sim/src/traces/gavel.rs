//! Gavel's form of a trace (stanford-futuredata/gavel, MIT): seven columns between tabs, no head.
//! It names the training job and its steps, not how long it runs: that follows from the GPU.

use super::error::{OnBadRow, Read, TraceError};
use super::job::{Ask, Outcome, TraceJob, rebase};
use super::table::{self, Cells, Layout};

const COLUMNS: [&str; 7] = [
    "job_type",
    "command",
    "steps_argument",
    "needs_data",
    "total_steps",
    "arrival",
    "scale_factor",
];

/// Reads the jobs of one virtual cluster.
pub fn jobs(file: &str, bytes: &[u8], on_bad: OnBadRow) -> Result<Read<TraceJob>, TraceError> {
    let layout = Layout { cells: Cells::Tabs, fixed: Some(&COLUMNS), need: &[], remark: None };
    let read = table::read(file, bytes, on_bad, &layout, |r| {
        Ok(TraceJob {
            row: r.row,
            id: r.row.to_string(),
            submit: r.span("arrival", 1)?,
            wait: None,
            run: None,
            limit: None,
            owner: None,
            ask: Ask::Gpus(r.number("scale_factor")?),
            outcome: Outcome::Unknown,
            work: Some(r.text("job_type")?.into()),
            steps: Some(r.number("total_steps")?),
        })
    })?;
    Ok(Read { items: rebase(read.items), ..read })
}

#[cfg(test)]
pub(super) const SAMPLE: &str = "\
Transformer (batch size 128)\tcd %s/translation && python3 train.py -batch_size 128\t-step\t1\t246378\t0.000000\t1
ResNet-18 (batch size 32)\tcd %s/cifar10 && python3 main.py --batch_size 32 \t--num_steps\t1\t197547\t79955.000000\t8
";

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::units::Span;

    #[test]
    fn steps_and_gangs() {
        let read = jobs("51b7ef.trace", SAMPLE.as_bytes(), OnBadRow::Stop).unwrap();
        let [a, b] = &read.items[..] else { panic!("{read:?}") };
        assert_eq!((a.ask.gpus(), a.steps, a.run), (1, Some(246_378), None));
        assert_eq!((b.ask.gpus(), b.submit), (8, Span::secs(79_955)));
        assert_eq!(b.work.as_deref(), Some("ResNet-18 (batch size 32)"));
    }
}
