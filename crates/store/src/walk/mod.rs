//! What both stores do alike, written over their rows. Here: verified reading.

mod check;
mod copy;

pub(crate) use check::check;
pub(crate) use copy::{accept_loss, begin_load, dump, load};

use crate::chain::{self, Link};
use crate::{DumpHeader, Entry, Head, Snapshot, StoreError};
use muster_model::{Epoch, JobId, Seq, Time};

/// The key under which stands what is about to be loaded.
pub(crate) const LOADING: &str = "loading";

/// Rows handled at a time where everything is read.
pub(crate) const CHUNK: usize = 500;

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
    /// What is about to be loaded (see [`LOADING`]).
    fn loading(&mut self) -> Result<Option<String>, StoreError>;
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
    fn set_loading(&mut self, what: Option<&str>) -> Result<(), StoreError>;
}

/// Refuses a store that something was to be loaded into.
pub(crate) fn finished(r: &mut impl Rows) -> Result<(), StoreError> {
    r.loading()?.map_or(Ok(()), |what| Err(StoreError::Unfinished { what }))
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
            "the log has entries {low} to {high} where {} to {} belong",
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

/// The chain at an entry, or at the last archived or the newest one where the log does not have it.
pub(crate) fn chain_at(r: &mut impl Rows, seq: Seq) -> Result<(Seq, Link), StoreError> {
    if let Some(link) = r.chain_at(seq)? {
        return Ok((seq, link));
    }
    let h = r.head_row()?;
    Ok(if seq <= h.base_seq { (h.base_seq, h.base_chain) } else { (h.seq, h.chain) })
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

/// Refuses a snapshot of what is not in the log.
pub(crate) fn snapshot_fits(h: &HeadRow, s: &Snapshot) -> Result<(), StoreError> {
    if s.seq > h.seq || s.seq < h.base_seq {
        return Err(StoreError::other(format!(
            "a snapshot at entry {} does not fit the log, which has {} to {}: take a new one",
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
