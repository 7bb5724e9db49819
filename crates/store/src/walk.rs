//! What both stores do alike, written over their rows: verified reading, the full check, dumping
//! and loading.

use crate::chain::{self, Link};
use crate::{CheckReport, DumpHeader, DumpItem, Entry, Head, LoadMode, Snapshot, StoreError};
use muster_model::{Epoch, JobId, Seq, Time};
use serde::Deserialize;

/// Rows handled at a time where everything is read.
pub(crate) const CHUNK: usize = 500;
/// More problems than this say nothing new.
const MOST_PROBLEMS: usize = 100;

/// The one row that says where the log begins and ends and who leads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadRow {
    pub(crate) base_seq: Seq,
    pub(crate) base_chain: Link,
    pub(crate) seq: Seq,
    pub(crate) at: Time,
    pub(crate) chain: Link,
    pub(crate) epoch: Epoch,
    /// Whether somebody holds an unexpired lease.
    pub(crate) held: bool,
}

impl HeadRow {
    pub(crate) fn to_head(self) -> Head {
        Head {
            first_seq: self.base_seq.next(),
            last_seq: self.seq,
            last_at: self.at,
            epoch: self.epoch,
        }
    }
}

/// An entry as stored.
pub(crate) struct Row {
    pub(crate) entry: Entry,
    pub(crate) chain: Link,
}

/// A payload as stored, with its checksum.
pub(crate) type PayloadRow = (JobId, Vec<u8>, Vec<u8>);

/// A sealed secret as stored.
pub(crate) struct SecretRow {
    pub(crate) project: String,
    pub(crate) name: String,
    pub(crate) value: Vec<u8>,
    pub(crate) sum: Vec<u8>,
}

/// Plain reading, without judgement.
pub(crate) trait Rows {
    fn head_row(&mut self) -> Result<HeadRow, StoreError>;
    /// Lowest and highest entry in the log.
    fn bounds(&mut self) -> Result<Option<(Seq, Seq)>, StoreError>;
    fn rows(&mut self, after: Seq, limit: usize) -> Result<Vec<Row>, StoreError>;
    fn chain_at(&mut self, seq: Seq) -> Result<Option<Link>, StoreError>;
    /// Newest first.
    fn snapshot_seqs(&mut self) -> Result<Vec<Seq>, StoreError>;
    fn snapshot_row(&mut self, seq: Seq) -> Result<Option<(Snapshot, Vec<u8>)>, StoreError>;
    /// Payloads of jobs after `after` (-1 for the first), with their checksums.
    fn payload_rows(&mut self, after: i64, limit: usize) -> Result<Vec<PayloadRow>, StoreError>;
    fn secret_rows(&mut self) -> Result<Vec<SecretRow>, StoreError>;
}

/// Plain writing inside a transaction that the caller ends.
pub(crate) trait Fill: Rows {
    fn insert_rows(&mut self, rows: &[Row]) -> Result<(), StoreError>;
    fn insert_snapshot(&mut self, s: &Snapshot) -> Result<(), StoreError>;
    fn insert_payload(&mut self, job: JobId, body: &[u8]) -> Result<(), StoreError>;
    fn insert_secret(&mut self, project: &str, name: &str, value: &[u8]) -> Result<(), StoreError>;
    /// Sets where the log begins and ends, and leaves the lease free.
    fn set_head(&mut self, h: &DumpHeader) -> Result<(), StoreError>;
    fn set_restored(&mut self, at: Seq) -> Result<(), StoreError>;
}

fn missing(seq: Seq) -> StoreError {
    StoreError::corrupt(format!("entry {seq}"), "it is missing")
}

fn altered(seq: Seq) -> StoreError {
    StoreError::corrupt(
        format!("entry {seq}"),
        "its checksum does not follow from the entry before it: one of the two was altered",
    )
}

/// The head, once it agrees with the log's rows.
pub(crate) fn head(r: &mut impl Rows) -> Result<Head, StoreError> {
    // Two reads may straddle an append or an archiving; a disagreement that stays is real.
    for _ in 0..5 {
        let before = r.head_row()?;
        let bounds = r.bounds()?;
        if bounds_problem(&before, bounds).is_none() {
            return Ok(before.to_head());
        }
        let after = r.head_row()?;
        if (after.seq, after.base_seq) == (before.seq, before.base_seq) {
            let detail = bounds_problem(&before, bounds).unwrap_or_default();
            return Err(StoreError::corrupt("the head of the log", detail));
        }
    }
    Ok(r.head_row()?.to_head())
}

fn bounds_problem(h: &HeadRow, bounds: Option<(Seq, Seq)>) -> Option<String> {
    match bounds {
        None if h.seq == h.base_seq => None,
        Some((low, high)) if low == h.base_seq.next() && high == h.seq => None,
        None => Some(format!("entries {} to {} are missing", h.base_seq.next(), h.seq)),
        Some((low, high)) => Some(format!(
            "the log holds entries {low} to {high} where {} to {} belong",
            h.base_seq.next(),
            h.seq
        )),
    }
}

/// Reads after `after`, each entry verified. `cache` remembers the last link for the next call.
pub(crate) fn read(
    r: &mut impl Rows,
    cache: &mut Option<(Seq, Link)>,
    after: Seq,
    limit: usize,
) -> Result<Vec<Entry>, StoreError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let mut previous = match *cache {
        Some((seq, link)) if seq == after => link,
        _ => match r.chain_at(after)? {
            Some(link) => link,
            None => {
                let h = r.head_row()?;
                if after < h.base_seq {
                    return Err(StoreError::Archived { oldest: h.base_seq.next() });
                } else if after == h.base_seq {
                    h.base_chain
                } else if after > h.seq {
                    return Ok(Vec::new());
                } else {
                    return Err(missing(after));
                }
            }
        },
    };
    let mut rows = r.rows(after, limit)?;
    if rows.is_empty() {
        let h = r.head_row()?;
        if h.base_seq > after {
            return Err(StoreError::Archived { oldest: h.base_seq.next() });
        }
        if h.seq <= after {
            return Ok(Vec::new());
        }
        // Appended between the two reads, or gone.
        rows = r.rows(after, limit)?;
        if rows.is_empty() {
            return Err(missing(after.next()));
        }
    }
    let mut expected = after.next();
    let mut entries = Vec::with_capacity(rows.len());
    for row in rows {
        if row.entry.seq != expected {
            let h = r.head_row()?;
            if h.base_seq >= expected {
                return Err(StoreError::Archived { oldest: h.base_seq.next() });
            }
            return Err(missing(expected));
        }
        if chain::of_entry(&previous, &row.entry) != row.chain {
            return Err(altered(row.entry.seq));
        }
        previous = row.chain;
        expected = expected.next();
        entries.push(row.entry);
    }
    *cache = entries.last().map(|e| (e.seq, previous));
    Ok(entries)
}

/// The newest whole snapshot. Damaged ones are passed over, with a word in the server's own log.
pub(crate) fn latest_snapshot(r: &mut impl Rows) -> Result<Option<Snapshot>, StoreError> {
    let mut damaged = None;
    for seq in r.snapshot_seqs()? {
        match snapshot(r, seq) {
            Ok(Some(s)) => return Ok(Some(s)),
            Ok(None) => {}
            Err(e @ StoreError::Corrupt { .. }) => {
                tracing::error!(%seq, error = %e, "a snapshot is damaged, falling back to the one before it");
                damaged = Some(e);
            }
            Err(e) => return Err(e),
        }
    }
    match damaged {
        // The whole log is there, so the state can be rebuilt from its beginning.
        Some(_) if r.head_row()?.base_seq == Seq(0) => Ok(None),
        Some(e) => Err(e),
        None => Ok(None),
    }
}

fn snapshot(r: &mut impl Rows, seq: Seq) -> Result<Option<Snapshot>, StoreError> {
    let Some((s, sum)) = r.snapshot_row(seq)? else { return Ok(None) };
    if chain::from_bytes(&sum) != Some(chain::of_snapshot(&s)) {
        return Err(StoreError::corrupt(format!("snapshot {seq}"), "its checksum does not match"));
    }
    Ok(Some(s))
}

/// A payload whose checksum holds.
pub(crate) fn whole_payload(job: JobId, body: Vec<u8>, sum: &[u8]) -> Result<Vec<u8>, StoreError> {
    if chain::from_bytes(sum) == Some(chain::of_payload(job, &body)) {
        Ok(body)
    } else {
        Err(StoreError::corrupt(format!("the payload of job {job}"), "its checksum does not match"))
    }
}

/// A secret whose checksum holds.
pub(crate) fn whole_secret(
    project: &str,
    name: &str,
    value: Vec<u8>,
    sum: &[u8],
) -> Result<Vec<u8>, StoreError> {
    if chain::from_bytes(sum) == Some(chain::of_secret(project, name, &value)) {
        Ok(value)
    } else {
        Err(StoreError::corrupt(
            format!("secret {name} of project {project}"),
            "its checksum does not match",
        ))
    }
}

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

/// Hands everything out, verified. The caller holds one consistent view.
pub(crate) fn dump(
    r: &mut impl Rows,
    sink: &mut dyn FnMut(DumpItem) -> Result<(), StoreError>,
) -> Result<DumpHeader, StoreError> {
    let h = r.head_row()?;
    let header = DumpHeader {
        base_seq: h.base_seq,
        base_chain: h.base_chain,
        last_seq: h.seq,
        last_at: h.at,
        last_chain: h.chain,
        epoch: h.epoch,
    };
    sink(DumpItem::Header(header.clone()))?;
    for seq in r.snapshot_seqs()?.into_iter().rev() {
        if let Some(s) = snapshot(r, seq)? {
            sink(DumpItem::Snapshot(s))?;
        }
    }
    let (mut cache, mut last) = (Some((h.base_seq, h.base_chain)), h.base_seq);
    while last < h.seq {
        let entries = read(r, &mut cache, last, CHUNK)?;
        let Some(end) = entries.last() else { return Err(missing(last.next())) };
        last = end.seq;
        for entry in entries {
            sink(DumpItem::Entry(entry))?;
        }
    }
    if cache.is_some_and(|(_, link)| link != h.chain) {
        return Err(StoreError::corrupt(
            "the head of the log",
            "its checksum is not that of the last entry",
        ));
    }
    let mut after = -1;
    loop {
        let rows = r.payload_rows(after, CHUNK)?;
        let Some(end) = rows.last() else { break };
        after = crate::error::db_int(end.0.0)?;
        for (job, body, sum) in rows {
            sink(DumpItem::Payload(job, whole_payload(job, body, &sum)?))?;
        }
    }
    for s in r.secret_rows()? {
        let value = whole_secret(&s.project, &s.name, s.value, &s.sum)?;
        sink(DumpItem::Secret { project: s.project, name: s.name, value })?;
    }
    Ok(header)
}

/// Fills an empty store. The caller's transaction is kept only when this succeeds.
pub(crate) fn load(
    r: &mut impl Fill,
    items: &mut dyn Iterator<Item = Result<DumpItem, StoreError>>,
    mode: LoadMode,
) -> Result<DumpHeader, StoreError> {
    let bad = |detail: String| StoreError::bad("the data to load", detail);
    let target = r.head_row()?;
    refuse_unless_empty(r, &target)?;
    let mut header = match items.next().transpose()? {
        Some(DumpItem::Header(h)) => h,
        _ => return Err(bad("it does not begin with a header".into())),
    };
    let (mut previous, mut last) = (header.base_chain, header.base_seq);
    let mut rows: Vec<Row> = Vec::new();
    for item in items {
        match item? {
            DumpItem::Header(_) => return Err(bad("it has a second header".into())),
            DumpItem::Snapshot(s) => r.insert_snapshot(&s)?,
            DumpItem::Entry(entry) => {
                if entry.seq != last.next() {
                    return Err(bad(format!("entry {} follows entry {last}", entry.seq)));
                }
                previous = chain::of_entry(&previous, &entry);
                last = entry.seq;
                rows.push(Row { entry, chain: previous });
                if rows.len() >= CHUNK {
                    r.insert_rows(&rows)?;
                    rows.clear();
                }
            }
            DumpItem::Payload(job, body) => r.insert_payload(job, &body)?,
            DumpItem::Secret { project, name, value } => {
                r.insert_secret(&project, &name, &value)?;
            }
        }
    }
    r.insert_rows(&rows)?;
    if last != header.last_seq {
        return Err(bad(format!("it ends at entry {last} and announced {}", header.last_seq)));
    }
    if previous != header.last_chain {
        return Err(bad("its entries do not add up to the checksum it announced".into()));
    }
    // A fencing token is never granted twice, whichever of the two stores granted more.
    header.epoch = header.epoch.max(target.epoch);
    r.set_head(&header)?;
    if mode == LoadMode::Restore {
        r.set_restored(header.last_seq)?;
    }
    Ok(header)
}

fn refuse_unless_empty(r: &mut impl Rows, target: &HeadRow) -> Result<(), StoreError> {
    let no = |detail: String| Err(StoreError::NotEmpty { detail });
    if target.seq > Seq(0) {
        return no(format!("its log reaches entry {}", target.seq));
    }
    if target.held {
        return no("a server holds its lease".into());
    }
    if r.bounds()?.is_some()
        || !r.snapshot_seqs()?.is_empty()
        || !r.payload_rows(-1, 1)?.is_empty()
        || !r.secret_rows()?.is_empty()
    {
        return no("it holds data".into());
    }
    Ok(())
}

/// Refuses a snapshot of what is not in the log.
pub(crate) fn snapshot_fits(h: &HeadRow, s: &Snapshot) -> Result<(), StoreError> {
    if s.seq > h.seq || s.seq < h.base_seq {
        return Err(StoreError::other(format!(
            "a snapshot at entry {} does not fit the log, which holds {} to {}: take a new one",
            s.seq,
            h.base_seq.next(),
            h.seq
        )));
    }
    Ok(())
}

/// Refuses a holder without a name: the empty name means that nobody holds the lease.
pub(crate) fn holder_fits(holder: &str) -> Result<(), StoreError> {
    if holder.is_empty() {
        return Err(StoreError::other("the holder of a lease needs a name"));
    }
    Ok(())
}

/// Reads the mark that a restore left.
pub(crate) fn restored_mark(text: &str) -> Result<Seq, StoreError> {
    text.parse().map(Seq).map_err(|_| {
        StoreError::corrupt("the restore mark", format!("`{text}` is not an entry's number"))
    })
}
