//! Moving a store, and bringing it back: export, import, backup, restore.

mod backup;
mod export;
mod import;

pub use backup::{backup, restore};
pub use export::export;
pub use import::import;

use crate::{DumpHeader, DumpItem, Store, StoreError};
use muster_model::Seq;

/// Fills an empty store that is marked meanwhile. After an error it is as empty as before, and says
/// what it said before: an earlier one that was killed is still not done. After a kill the mark is
/// left.
fn marked<T>(
    store: &mut dyn Store,
    what: &str,
    fill: impl FnOnce(&mut dyn Store) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let before = store.begin_load(what)?;
    crate::failpoint::hit("store.load");
    let filled = fill(store);
    if filled.is_err()
        && let Err(e) = store.cancel_load(before.as_deref())
    {
        tracing::warn!(error = %e, "the store stays marked as one that is being loaded");
    }
    filled
}

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyReport {
    /// First entry of the log.
    pub first: Seq,
    /// Last entry of the log.
    pub last: Seq,
    /// How many entries.
    pub entries: u64,
    /// How many snapshots.
    pub snapshots: u64,
    /// How many payloads.
    pub payloads: u64,
    /// How many secrets.
    pub secrets: u64,
    /// Whether the part of the log before `first` is archived and so not included; the copy then
    /// starts from a snapshot.
    pub archived: bool,
}

impl CopyReport {
    fn count(&mut self, item: &DumpItem) {
        match item {
            DumpItem::Header(h) => self.header(h),
            DumpItem::Snapshot(_) => self.snapshots += 1,
            DumpItem::Entry(_) => self.entries += 1,
            DumpItem::Payload(..) => self.payloads += 1,
            DumpItem::Secret { .. } => self.secrets += 1,
        }
    }

    fn header(&mut self, h: &DumpHeader) {
        self.first = h.base_seq.next();
        self.last = h.last_seq;
        self.archived = h.base_seq > Seq(0);
    }
}
