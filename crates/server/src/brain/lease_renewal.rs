//! Renews the lease and looks whether the store is there, beside the loop. Nothing here takes longer
//! than a lease may wait.

use super::store_availability::Space;
use super::{BrainConfig, Shared};
use muster_model::ids::Epoch;
use muster_store::failpoint::hit;
use muster_store::{Store, StoreError};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Between two looks whether the store is there.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at the free space, while there is some.
const SPACE_EVERY: Duration = Duration::from_secs(2);

/// Runs until the server stops or the lease is lost; returns why. `snapshots` is closed when nobody
/// writes snapshots any longer.
pub(crate) fn run(
    shared: &Shared,
    store: &mut dyn Store,
    epoch: Epoch,
    config: &BrainConfig,
    snapshots: &Receiver<()>,
) -> Option<StoreError> {
    let every = config.lease.to_std() / 3;
    let mut renewed = Instant::now();
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
            steps.check_clock(shared);
        }
        let due = checked.elapsed() >= CHECK_EVERY;
        if measured.elapsed() >= if full { CHECK_EVERY } else { SPACE_EVERY } {
            measured = Instant::now();
            let none = space.lacking(shared.reach.failing());
            full = none.is_some();
            shared.reach.space(none);
            shared.reach.low(space.low());
        }
        // After a failure only a write says that the store is back, and nobody else may write until then.
        if renewed.elapsed() >= every || (due && shared.reach.failing()) {
            checked = Instant::now();
            shared.reach.asking();
            let (began, asked_ms) = (Instant::now(), super::clock::boot_ms());
            let answer = store.renew_lease(epoch, config.lease);
            shared.reach.took(answer.as_ref().copied());
            match answer {
                Ok(()) => {
                    // The lease is certain from when it was asked for: a slow store is asked again sooner.
                    renewed = began;
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
        if restored && is_new_generation(shared, epoch) {
            // The log itself says so now. A mark that stays only begins another life.
            match store.clear_restored() {
                Ok(()) => restored = false,
                Err(e) => tracing::warn!(error = %e, "the mark of the restore stays for now"),
            }
        }
    }
    // A snapshot that is being written still needs the lease, and the file.
    let _ = snapshots.recv();
    shared.lease_over();
    let _ = store.release_lease(epoch);
    // Nobody writes without the lease: what is in the file now is all there is.
    if let Err(e) = store.close() {
        tracing::warn!(error = %e, "the store could not be closed; nothing is lost");
    }
    None
}

/// Is it in the durable log that a new life of it began with this lead?
fn is_new_generation(shared: &Shared, epoch: Epoch) -> bool {
    let view = shared.view.read().unwrap_or_else(PoisonError::into_inner);
    view.lives.last().is_some_and(|l| l.epoch == epoch)
}
