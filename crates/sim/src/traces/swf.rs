//! The Standard Workload Format of the Parallel Workloads Archive (Feitelson): 18 columns between
//! spaces, times in seconds, -1 for what is not known. Some logs append columns of their own.

use super::error::{OnBadRow, Read, TraceError};
use super::job::{Ask, Outcome, TraceJob, rebase};
use super::table::{self, Cells, Layout, Row, not};
use muster_model::units::Span;

/// The columns, in their order.
const COLUMNS: [&str; 18] = [
    "job",
    "submit",
    "wait",
    "run",
    "procs_used",
    "cpu_used",
    "memory_used",
    "procs_asked",
    "time_asked",
    "memory_asked",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding",
    "think",
];

/// Reads the jobs, in the order of the log.
pub fn jobs(file: &str, bytes: &[u8], on_bad: OnBadRow) -> Result<Read<TraceJob>, TraceError> {
    let layout =
        Layout { cells: Cells::Spaces, fixed: Some(&COLUMNS), need: &[], remark: Some(';') };
    let read = table::read(file, bytes, on_bad, &layout, job)?;
    Ok(Read { items: rebase(read.items), ..read })
}

fn job(r: &Row<'_>) -> Result<TraceJob, String> {
    let procs = |column| match known(r, column)? {
        Some("0") | None => Ok(None),
        Some(_) => r.number(column).map(Some),
    };
    let span = |column| match known(r, column)? {
        Some(_) => r.span(column, 1).map(Some),
        None => Ok(None),
    };
    Ok(TraceJob {
        row: r.row,
        id: r.text("job")?.into(),
        submit: r.span("submit", 1)?,
        wait: span("wait")?,
        run: span("run")?,
        limit: span("time_asked")?.filter(|s| *s > Span(0)),
        owner: known(r, "user")?.map(str::to_string),
        ask: Ask::Procs { asked: procs("procs_asked")?, used: procs("procs_used")? },
        outcome: match r.text("status")? {
            "0" => Outcome::Failed,
            "1" => Outcome::Completed,
            "5" => Outcome::Cancelled,
            // 2 to 4 are about pieces of a job, not about its end.
            "-1" | "2" | "3" | "4" => Outcome::Unknown,
            other => return Err(not("status", other, "one of -1 to 5")),
        },
        work: None,
        steps: None,
    })
}

/// What stands in a column, unless it is negative: not known.
fn known<'a>(r: &'a Row<'_>, column: &str) -> Result<Option<&'a str>, String> {
    let text = r.text(column)?;
    match text.strip_prefix('-') {
        None => Ok(Some(text)),
        Some(n) if n.starts_with(|c: char| c.is_ascii_digit()) => Ok(None),
        Some(_) => Err(not(column, text, "a number")),
    }
}

/// Processors of the machine, from the remark `MaxProcs` of the text.
#[must_use]
pub fn machine(text: &str) -> Option<u32> {
    let remarks = text.lines().take_while(|l| l.starts_with(';') || l.trim().is_empty());
    remarks
        .filter_map(|l| l.trim_start_matches(';').trim().strip_prefix("MaxProcs:"))
        .find_map(|n| n.trim().parse().ok())
}

#[cfg(test)]
pub(super) const SAMPLE: &str = "\
; Computer: IBM SP2
; MaxProcs: 100
    1      100 964980  97225   56     -1    -1   56 210000    -1  1   1   1  -1 -1 -1 -1 -1
    2   327952     -1      0    8     -1    -1   -1     -1    -1  5  -1   2  -1 -1 -1 -1 -1
1 1356996695 71 1164297 12 1 1024 12 1209600 91268055040 0 101 1 1 -1 1 1 1 {1129,1129} q_2w 1:ppn=12
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_is() {
        let read = jobs("kth.swf", SAMPLE.as_bytes(), OnBadRow::Stop).unwrap();
        let [a, b, c] = &read.items[..] else { panic!("{read:?}") };
        assert_eq!(
            (a.submit, a.run, a.limit),
            (Span(0), Some(Span::secs(97_225)), Some(Span::secs(210_000)))
        );
        assert_eq!(
            (a.ask.procs(), a.owner.as_deref(), a.outcome),
            (Some(56), Some("1"), Outcome::Completed)
        );
        assert_eq!(a.wait, Some(Span::secs(964_980)));
        assert_eq!(b.submit, Span::secs(327_852));
        assert_eq!((b.run, b.limit, b.wait), (Some(Span(0)), None, None));
        assert_eq!(b.ask, Ask::Procs { asked: None, used: Some(8) });
        assert_eq!(
            (b.ask.procs(), b.owner.as_deref(), b.outcome),
            (Some(8), None, Outcome::Cancelled)
        );
        assert_eq!((c.row, c.outcome), (2, Outcome::Failed));
        assert_eq!(machine(SAMPLE), Some(100));
    }

    #[test]
    fn a_log_that_ends_in_a_row_says_so() {
        let cut = &SAMPLE[..SAMPLE.len() - 60];
        let e = jobs("kth.swf", cut.as_bytes(), OnBadRow::Stop).unwrap_err().to_string();
        assert!(e.starts_with("kth.swf: row 3 (line 5): ") && e.contains("of 18 columns"), "{e}");
    }
}
