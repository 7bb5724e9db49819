//! Everything out of a store, and into an empty one.

use super::{
    CHUNK, Fill, HeadRow, Row, Rows, missing, read, snapshot, whole_payload, whole_secret,
};
use crate::{DumpHeader, DumpItem, LoadMode, StoreError, chain};
use muster_model::{Epoch, Seq};

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

/// Marks an empty store, and says what it was marked with before. The caller's transaction is kept
/// only when this succeeds.
pub(crate) fn begin_load(r: &mut impl Fill, what: &str) -> Result<Option<String>, StoreError> {
    let target = r.head_row()?;
    refuse_unless_empty(r, &target)?;
    let before = r.loading()?;
    r.set_loading(Some(what))?;
    Ok(before)
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
    if mode == LoadMode::Restore {
        // The site may have gone on after the backup. Its agents then know records and epochs that
        // this store will give out anew; a jump that nobody else makes distinguishes the two lives.
        header.epoch = Epoch(header.epoch.0 + jump()?);
    }
    r.set_head(&header)?;
    if mode == LoadMode::Restore {
        r.set_restored(header.last_seq)?;
    }
    r.set_loading(None)?;
    Ok(header)
}

/// Goes on from what is left, as if it had been restored from a backup.
pub(crate) fn accept_loss(r: &mut impl Fill) -> Result<HeadRow, StoreError> {
    let h = r.head_row()?;
    if h.held {
        return Err(StoreError::other(
            "a server holds the lease of this store: stop it; the lease of one that was killed \
             ends by itself within 15 seconds",
        ));
    }
    r.set_head(&DumpHeader {
        base_seq: h.base_seq,
        base_chain: h.base_chain,
        last_seq: h.seq,
        last_at: h.at,
        last_chain: h.chain,
        epoch: Epoch(h.epoch.0 + jump()?),
    })?;
    r.set_restored(h.seq)?;
    Ok(h)
}

/// From a million to about two thousand million: more than restarts ever add up to.
fn jump() -> Result<u64, StoreError> {
    let mut bytes = [0u8; 4];
    getrandom::fill(&mut bytes).map_err(|_| StoreError::other("no randomness available"))?;
    Ok(1_000_000 + u64::from(u32::from_le_bytes(bytes) >> 1))
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
        return no("it has data".into());
    }
    Ok(())
}
