//! Microsoft's Philly: gangs of GPUs in virtual clusters (msr-fiddle/philly-traces, CC-BY-4.0, in
//! the form of the Sia artifact).

use super::error::{OnBadRow, Read, TraceError};
use super::job::{Ask, Outcome, TraceJob, rebase};
use super::table::{self, Cells, Layout};

/// Reads `timestamp,duration,num_gpus,gpu_time,cluster`, in the order of the file, which is not
/// that of submits.
pub fn jobs(file: &str, bytes: &[u8], on_bad: OnBadRow) -> Result<Read<TraceJob>, TraceError> {
    let need = &["timestamp", "duration", "num_gpus", "cluster"];
    let layout = Layout { cells: Cells::Commas, fixed: None, need, remark: None };
    let read = table::read(file, bytes, on_bad, &layout, |r| {
        let at = r.time("timestamp")?;
        Ok(TraceJob {
            row: r.row,
            id: r.row.to_string(),
            submit: at.since(muster_model::units::Time(0)),
            wait: None,
            run: Some(r.span("duration", 1)?),
            limit: None,
            owner: Some(r.text("cluster")?.into()),
            ask: Ask::Gpus(r.number("num_gpus")?),
            outcome: Outcome::Unknown,
            work: None,
            steps: None,
        })
    })?;
    Ok(Read { items: rebase(read.items), ..read })
}

#[cfg(test)]
pub(super) const SAMPLE: &str = "\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,16,47216.0,6214e9
2017-09-29 07:58:32,860662.0,8,6885296.0,6c71a0

";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::by_submit;
    use muster_model::units::Span;

    #[test]
    fn gangs_of_virtual_clusters() {
        let mut read = jobs("philly.csv", SAMPLE.as_bytes(), OnBadRow::Stop).unwrap();
        assert_eq!(read.items[0].submit, Span::secs(9 * 86_400 + 23 * 3600 + 3 * 60 + 23));
        by_submit(&mut read.items);
        let order: Vec<u32> = read.items.iter().map(|j| j.row).collect();
        assert_eq!(order, [2, 1, 0]);
        assert_eq!(read.items[0].submit, Span(0));
        assert_eq!(read.items[1].ask, Ask::Gpus(16));
        assert_eq!(read.items[1].run, Some(Span::secs(2951)));
        assert_eq!(read.items[1].owner.as_deref(), Some("6214e9"));
    }

    #[test]
    fn a_cell_that_is_no_time_is_shown() {
        let text = SAMPLE.replace("2017-10-09 06", "9 Oct 2017 06");
        let e = jobs("philly.csv", text.as_bytes(), OnBadRow::Stop).unwrap_err().to_string();
        assert!(e.contains("row 2 (line 3): `timestamp` is `9 Oct 2017 06:13:03`"), "{e}");
    }
}
