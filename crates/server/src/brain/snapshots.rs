//! Writes snapshots, archives the old log and looks whether the state is as it must be. On a thread
//! of its own: a large state or a slow disk takes longer than the lease may wait for its renewal.

use super::{BrainConfig, Shared};
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_engine::invariants::violations;
use muster_engine::{SNAPSHOT_FORMAT, SnapshotError, State};
use muster_model::ids::{Epoch, Seq};
use muster_model::units::{Span, Time};
use muster_store::failpoint::hit;
use muster_store::{
    Snapshot, Store, StoreError, archive_snapshot, archived_snapshots, thin_snapshots,
};
use std::io::{BufWriter, IntoInnerError};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two looks at the invariants: all that is derived from the state is built for each.
const LOOK_EVERY: Span = Span::mins(5);

/// Records archived at a time: a server that stops waits for no more than these.
const ARCHIVED_AT_ONCE: u64 = 50_000;

/// What the snapshots of the archive may need of the disk, at most; and what part of all of it.
const ARCHIVED_BYTES: u64 = 2 << 30;
const ARCHIVED_PART: u64 = 20;
/// With less than this free (or a tenth of a smaller disk) none is added.
const FREE_BYTES: u64 = 1 << 30;

/// Bytes that are packed at a time.
const PIECE: usize = 64 * 1024;

/// When the invariants were last looked at, and at which record.
#[derive(Debug, Clone, Copy, Default)]
struct LastLook(Option<(Time, Seq)>);

impl LastLook {
    /// Is it time for another one? Not where nothing was written since.
    fn is_over(self, now: Time, durable: Seq) -> bool {
        self.0.is_none_or(|(at, seq)| now.since(at) >= LOOK_EVERY && seq != durable)
    }
}

/// Runs until the server stops or the lease is lost; returns why. `clock` is the server's.
pub(crate) fn run(
    shared: &Shared,
    store: &mut dyn Store,
    epoch: Epoch,
    config: &BrainConfig,
    clock: fn() -> Time,
) -> Option<StoreError> {
    let mut last_snapshot = Seq(shared.stats.snapshot_seq.load(Ordering::Acquire));
    let mut older_snapshot = last_snapshot;
    let mut archiving = false;
    archive_newest(store, config, last_snapshot, clock());
    let mut looked = LastLook::default();
    while !shared.stopping.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(100));
        hit("brain.snapshots");
        shared.copy.tidy();
        let durable = *shared.durable.borrow();
        // A large state is written less often: reading half as many records as it has jobs costs a start
        // less than reading the state itself.
        let jobs = shared.view.read().unwrap_or_else(PoisonError::into_inner).jobs.len() as u64;
        if durable.0 >= last_snapshot.0 + config.snapshot_every.max(jobs / 2) {
            match snapshot(shared, store, epoch, config, clock()) {
                Ok(seq) => {
                    older_snapshot = last_snapshot;
                    last_snapshot = seq;
                    shared.stats.snapshot_seq.store(seq.0, Ordering::Release);
                    shared.stats.snapshots.fetch_add(1, Ordering::Relaxed);
                    archiving = true;
                }
                Err(e @ StoreError::StaleLease { .. }) => return Some(e),
                Err(e) => {
                    tracing::error!(error = %e, "the snapshot could not be written");
                    // Try again after as many records as usual, not at once.
                    last_snapshot = durable;
                }
            }
        }
        if archiving {
            archiving = archive(store, epoch, config, durable, older_snapshot);
        }
        if looked.is_over(clock(), durable) {
            let state = packed(shared).indexed();
            check_invariants(shared, &state);
            looked = LastLook(Some((clock(), state.seq)));
        }
    }
    None
}

/// The durable state as it is now, without what is derived from it: nothing can be published while it
/// is copied.
fn packed(shared: &Shared) -> State {
    shared.view.read().unwrap_or_else(PoisonError::into_inner).without_index()
}

/// Is everything true of this copy that must be? Reported as a metric, and in the server's own log.
/// What is derived from the state was built for the copy: that the view's own has gone astray is not
/// seen here (`index_is_fresh` in the tests looks for it).
fn check_invariants(shared: &Shared, state: &State) {
    let found = violations(state);
    for (invariant, problems) in &found {
        if let Some(first) = problems.first() {
            let count = problems.len();
            tracing::error!(invariant, count, first, "the state is not as it must be");
        }
    }
    let counts = found.iter().map(|(name, p)| (*name, p.len() as u64)).collect();
    *shared.stats.violations.lock().unwrap_or_else(PoisonError::into_inner) = counts;
}

/// Writes the durable state as it is now. The view is only held for the copy, whose jobs and
/// nodes are shared.
fn snapshot(
    shared: &Shared,
    store: &mut dyn Store,
    epoch: Epoch,
    config: &BrainConfig,
    now: Time,
) -> Result<Seq, StoreError> {
    let state = packed(shared);
    let body = pack(&state).map_err(|e| StoreError::other(e.to_string()))?;
    let s = Snapshot { seq: state.seq, at: state.at, format: SNAPSHOT_FORMAT, body };
    hit("brain.before_snapshot");
    store.put_snapshot(epoch, &s)?;
    hit("brain.after_snapshot");
    tracing::info!(seq = %state.seq, bytes = s.body.len(), "snapshot written");
    archive_copy(store, &s, config, now);
    Ok(state.seq)
}

/// The snapshot that the store has is in the archive, too: an older version did not put it there.
fn archive_newest(store: &mut dyn Store, config: &BrainConfig, newest: Seq, now: Time) {
    let archived = archived_snapshots(&config.archive);
    if newest == Seq(0) || archived.is_ok_and(|all| all.iter().any(|a| a.seq == newest)) {
        return;
    }
    match store.latest_snapshot() {
        Ok(Some(s)) => archive_copy(store, &s, config, now),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the newest snapshot cannot be read"),
    }
}

/// Puts a snapshot into the archive, too, for whoever looks at the past, and deletes those that are not
/// needed any more. Nothing else depends on it.
fn archive_copy(store: &mut dyn Store, s: &Snapshot, config: &BrainConfig, now: Time) {
    let dir = &config.archive;
    let Some((free, whole)) = space_of(dir) else { return };
    let mut put = || -> Result<(), StoreError> {
        let (place, chain) = store.chain_at(s.seq)?;
        if place == s.seq && free >= FREE_BYTES.min(whole / 10) {
            archive_snapshot(dir, s, chain)?;
        }
        thin_snapshots(dir, now, ARCHIVED_BYTES.min(whole / ARCHIVED_PART))
    };
    if let Err(error) = put() {
        tracing::warn!(%error, "the archive could not take a snapshot or delete an old one");
    }
}

/// How many bytes are free on the disk of a directory, which need not be there yet, and how many it has.
fn space_of(dir: &Path) -> Option<(u64, u64)> {
    let there = dir.ancestors().find(|d| d.is_dir())?;
    let disk = rustix::fs::statvfs(there).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some((bytes(disk.f_bavail), bytes(disk.f_blocks)))
}

/// The state, packed while it is written: its text is never in memory as a whole.
fn pack(state: &State) -> Result<Vec<u8>, SnapshotError> {
    let gz = GzEncoder::new(Vec::new(), Compression::fast());
    let mut out = BufWriter::with_capacity(PIECE, gz);
    state.write_to(&mut out)?;
    let gz = out.into_inner().map_err(IntoInnerError::into_error)?;
    Ok(gz.finish()?)
}

/// Archives the oldest records, and says whether there are more to archive.
fn archive(
    store: &mut dyn Store,
    epoch: Epoch,
    config: &BrainConfig,
    durable: Seq,
    older: Seq,
) -> bool {
    let all = Seq(durable.0.saturating_sub(config.retain).min(older.0));
    if all.0 == 0 {
        return false;
    }
    let archived = store.head().and_then(|head| {
        let upto = all.min(Seq(head.first_seq.0.saturating_add(ARCHIVED_AT_ONCE - 1)));
        store.archive(epoch, upto, &config.archive)
    });
    match archived {
        Ok(r) if r.entries() > 0 => {
            tracing::info!(from = %r.from, to = %r.to, "old records archived");
            r.to < all
        }
        Ok(_) => false,
        Err(e) => {
            tracing::error!(error = %e, "old records could not be archived");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invariants_are_looked_at_every_five_minutes_of_the_clock_where_something_was_written() {
        let begin = Time(1_000_000);
        let later = |ms: u64| begin + Span(ms);
        assert!(LastLook::default().is_over(begin, Seq(7)), "at the start");
        let looked = LastLook(Some((begin, Seq(7))));
        assert!(!looked.is_over(later(LOOK_EVERY.0 - 1), Seq(8)));
        assert!(looked.is_over(later(LOOK_EVERY.0), Seq(8)));
        assert!(!looked.is_over(later(LOOK_EVERY.0), Seq(7)), "it is the same state");
        assert!(!looked.is_over(Time(0), Seq(8)), "the clock was set back");
    }
}
