//! The full check: reads everything and lists what is wrong.

use super::{CHUNK, HeadRow, Rows, finished, snapshot, whole_payload, whole_secret};
use crate::{CheckReport, Head, StoreError, chain};
use muster_model::{Epoch, Seq, Time};
use serde::Deserialize;

/// More problems than this say nothing new.
const MOST_PROBLEMS: usize = 100;

/// The part of a record that repeats what the row says.
#[derive(Deserialize)]
struct Stamp {
    seq: Option<u64>,
    at: Option<i64>,
}

/// Keeps what a damaged store says as a problem; anything else stops the check.
fn keep<T>(
    problems: &mut Vec<String>,
    result: Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Corrupt { place, detail }) => {
            problems.push(format!("{place}: {detail}"));
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Reads everything and lists what is wrong, after the `problems` the database itself found.
pub(crate) fn check(
    r: &mut impl Rows,
    mut problems: Vec<String>,
) -> Result<CheckReport, StoreError> {
    let empty = Head { first_seq: Seq(1), last_seq: Seq(0), last_at: Time(0), epoch: Epoch(0) };
    let mut report = CheckReport {
        head: empty,
        entries: 0,
        snapshots: 0,
        payloads: 0,
        secrets: 0,
        problems: Vec::new(),
    };
    if let Some(h) = {
        let found = r.head_row();
        keep(&mut problems, found)?
    } {
        report.head = h.to_head();
        report.entries = check_log(r, &h, &mut problems)?;
        report.snapshots = check_snapshots(r, &h, &mut problems)?;
    }
    match finished(r) {
        Err(e @ StoreError::Unfinished { .. }) => problems.push(e.to_string()),
        other => {
            keep(&mut problems, other)?;
        }
    }
    let mut after = -1;
    while let Some(rows) = {
        let found = r.payload_rows(after, CHUNK);
        keep(&mut problems, found)?
    } {
        let Some(last) = rows.last() else { break };
        after = crate::error::db_int(last.0.0)?;
        for (job, body, sum) in rows {
            report.payloads += 1;
            keep(&mut problems, whole_payload(job, body, &sum))?;
        }
    }
    if let Some(rows) = {
        let found = r.secret_rows();
        keep(&mut problems, found)?
    } {
        for s in rows {
            report.secrets += 1;
            keep(&mut problems, whole_secret(&s.project, &s.name, s.value, &s.sum))?;
        }
    }
    if problems.len() > MOST_PROBLEMS {
        let more = problems.len() - MOST_PROBLEMS;
        problems.truncate(MOST_PROBLEMS);
        problems.push(format!("and {more} more"));
    }
    report.problems = problems;
    Ok(report)
}

fn check_log(
    r: &mut impl Rows,
    h: &HeadRow,
    problems: &mut Vec<String>,
) -> Result<u64, StoreError> {
    let mut count = 0;
    let (mut previous, mut last, mut last_at) = (h.base_chain, h.base_seq, Time(i64::MIN));
    // After damage the stored link of the next entry is all there is to go on with.
    let mut broken = false;
    loop {
        let found = r.rows(last, CHUNK);
        let Some(rows) = keep(problems, found)? else {
            problems.push(format!("the log cannot be read after entry {last}"));
            break;
        };
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let e = &row.entry;
            if e.seq != last.next() {
                problems.push(match e.seq.0 - last.0 {
                    2 => format!("entry {} is missing", last.next()),
                    _ => format!("entries {} to {} are missing", last.next(), e.seq.0 - 1),
                });
                broken = true;
            }
            if !broken && chain::of_entry(&previous, e) != row.chain {
                problems.push(format!(
                    "entry {}: its checksum does not follow from the entry before it",
                    e.seq
                ));
            }
            broken = false;
            if e.at < last_at {
                problems.push(format!("entry {} is dated before entry {last}", e.seq));
            }
            if let Ok(stamp) = serde_json::from_slice::<Stamp>(&e.body)
                && (stamp.seq.is_some_and(|s| s != e.seq.0)
                    || stamp.at.is_some_and(|a| a != e.at.0))
            {
                problems.push(format!("entry {}: its body names another place or time", e.seq));
            }
            (previous, last, last_at) = (row.chain, e.seq, e.at);
            count += 1;
        }
        if problems.len() > MOST_PROBLEMS {
            return Ok(count);
        }
    }
    if last < h.seq {
        problems.push(format!("entries {} to {} are missing at the end", last.next(), h.seq));
    } else if last == h.seq && previous != h.chain {
        problems.push("the head's checksum is not that of the last entry".to_owned());
    }
    Ok(count)
}

fn check_snapshots(
    r: &mut impl Rows,
    h: &HeadRow,
    problems: &mut Vec<String>,
) -> Result<u64, StoreError> {
    let mut whole = 0;
    let mut useful = false;
    let found = r.snapshot_seqs();
    for seq in keep(problems, found)?.unwrap_or_default() {
        let found = snapshot(r, seq);
        if let Some(Some(s)) = keep(problems, found)? {
            whole += 1;
            useful |= s.seq >= h.base_seq;
            if s.seq > h.seq {
                problems.push(format!("snapshot {seq} is past the end of the log ({})", h.seq));
            }
        }
    }
    if h.base_seq > Seq(0) && !useful {
        problems.push(format!(
            "entries up to {} are archived and no whole snapshot covers them",
            h.base_seq
        ));
    }
    Ok(whole)
}
