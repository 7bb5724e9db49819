//! Renews the lease, writes snapshots, archives the old log and looks whether the state is as it
//! must be, beside the loop.

use super::reach::Space;
use super::{BrainConfig, Shared};
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_engine::invariants::violations;
use muster_engine::{SNAPSHOT_FORMAT, State};
use muster_model::ids::{Epoch, Seq};
use muster_store::failpoint::hit;
use muster_store::{Snapshot, Store, StoreError};
use std::io::Write;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks at the invariants, where no snapshot comes first.
const LOOK_EVERY: Duration = Duration::from_secs(300);

/// Between two looks whether the store is there.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at the free space, while there is some.
const SPACE_EVERY: Duration = Duration::from_secs(2);

/// Records archived at a time: the lease is renewed between two times.
const ARCHIVED_AT_ONCE: u64 = 50_000;

/// Runs until the server stops or the lease is lost; returns why.
pub(crate) fn run(
    shared: &Shared,
    store: &mut dyn Store,
    epoch: Epoch,
    config: &BrainConfig,
) -> Option<StoreError> {
    let every = config.lease.to_std() / 3;
    let mut renewed = Instant::now();
    let mut last_snapshot = store.latest_snapshot().ok().flatten().map_or(Seq(0), |s| s.seq);
    let mut older_snapshot = last_snapshot;
    let mut archiving = false;
    let mut looked: Option<(Instant, Seq)> = None;
    let space = Space::of(&config.store);
    let (mut checked, mut measured) = (Instant::now(), Instant::now());
    let mut full = false;
    let mut clock_read = Instant::now();
    let mut steps = super::steps::Steps::default();
    let mut restored = store.restored().is_ok_and(|mark| mark.is_some());
    while !shared.stopping.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(100));
        hit("brain.keeper");
        if clock_read.elapsed() >= Duration::from_secs(1) {
            clock_read = Instant::now();
            super::clock::follow();
            steps.look(shared);
        }
        let due = checked.elapsed() >= CHECK_EVERY;
        if measured.elapsed() >= if full { CHECK_EVERY } else { SPACE_EVERY } {
            measured = Instant::now();
            let none = space.lacking(shared.reach.failing());
            full = none.is_some();
            shared.reach.space(none);
        }
        // After a failure only a write says that the store is back, and nobody else may write until then.
        if renewed.elapsed() >= every || (due && shared.reach.failing()) {
            checked = Instant::now();
            shared.reach.asking();
            let asked_ms = super::clock::boot_ms();
            let answer = store.renew_lease(epoch, config.lease);
            shared.reach.took(answer.as_ref().copied());
            match answer {
                Ok(()) => {
                    renewed = Instant::now();
                    shared.leased(asked_ms, config.lease);
                    if !full {
                        shared.took();
                    }
                }
                Err(e @ StoreError::StaleLease { .. }) => return Some(e),
                // Appends are fenced by themselves; a store that is away for a moment is no reason
                // to give up the lead.
                Err(e) => {
                    tracing::warn!(error = %e, "the lease could not be renewed; trying again");
                    shared.away(&e);
                    renewed = Instant::now() - every + Duration::from_secs(1);
                }
            }
        }
        if checked.elapsed() >= CHECK_EVERY {
            checked = Instant::now();
            shared.reach.asking();
            let answer = store.head();
            shared.reach.answered(answer.as_ref().map(|_| ()));
        }
        if restored && new_life(shared, epoch) {
            // The log itself says so now. A mark that stays only begins another life.
            match store.clear_restored() {
                Ok(()) => restored = false,
                Err(e) => tracing::warn!(error = %e, "the mark of the restore stays for now"),
            }
        }
        let durable = *shared.durable.borrow();
        // A large state is written less often: reading half as many records as it has jobs costs a start
        // less than reading the state itself.
        let jobs = shared.view.read().unwrap_or_else(PoisonError::into_inner).jobs.len() as u64;
        if durable.0 >= last_snapshot.0 + config.snapshot_every.max(jobs / 2) {
            match snapshot(shared, store, epoch) {
                Ok(seq) => {
                    older_snapshot = last_snapshot;
                    last_snapshot = seq;
                    shared.stats.snapshots.fetch_add(1, Ordering::Relaxed);
                    looked = Some((Instant::now(), durable));
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
        if looked.is_none_or(|(at, seq)| at.elapsed() >= LOOK_EVERY && seq != durable) {
            let state = shared.view.read().unwrap_or_else(PoisonError::into_inner).clone();
            look(shared, &state);
            looked = Some((Instant::now(), state.seq));
        }
    }
    shared.lease_over();
    let _ = store.release_lease(epoch);
    // Nobody writes without the lease: what is in the file now is all there is.
    if let Err(e) = store.close() {
        tracing::warn!(error = %e, "the store could not be closed; nothing is lost");
    }
    None
}

/// Is it in the durable log that a new life of it began with this lead?
fn new_life(shared: &Shared, epoch: Epoch) -> bool {
    let view = shared.view.read().unwrap_or_else(PoisonError::into_inner);
    view.lives.last().is_some_and(|l| l.epoch == epoch)
}

/// Is everything true of this copy that must be? Told as a metric, and in the server's own log.
fn look(shared: &Shared, state: &State) {
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
fn snapshot(shared: &Shared, store: &mut dyn Store, epoch: Epoch) -> Result<Seq, StoreError> {
    let state = shared.view.read().unwrap_or_else(PoisonError::into_inner).clone();
    look(shared, &state);
    let bytes = state.to_bytes().map_err(|e| StoreError::other(e.to_string()))?;
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(&bytes).map_err(|e| StoreError::other(e.to_string()))?;
    let body = gz.finish().map_err(|e| StoreError::other(e.to_string()))?;
    let s = Snapshot { seq: state.seq, at: state.at, format: SNAPSHOT_FORMAT, body };
    hit("brain.before_snapshot");
    store.put_snapshot(epoch, &s)?;
    hit("brain.after_snapshot");
    tracing::info!(seq = %state.seq, bytes = s.body.len(), "snapshot written");
    Ok(state.seq)
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
