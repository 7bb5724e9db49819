//! Commits what was decided and only then makes it visible.

use super::{BrainError, Committed, RING, Shared};
use muster_model::event::Record;
use muster_model::ids::{Epoch, JobId, Seq};
use muster_model::names::NodeName;
use muster_store::failpoint::hit;
use muster_store::{Batch, Entry, SecretWrite, Store, StoreError};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;

/// What the engine decided in one round.
#[derive(Default)]
pub(crate) struct Round {
    /// Grows with each reload; rounds of an older memory are void.
    pub(crate) generation: u64,
    pub(crate) records: Vec<Record>,
    pub(crate) payloads: Vec<(JobId, Vec<u8>)>,
    pub(crate) unneeded: Vec<JobId>,
    pub(crate) secrets: Vec<SecretWrite>,
    pub(crate) touched: Vec<NodeName>,
    pub(crate) replies: Vec<Reply>,
}

pub(crate) type Reply =
    (oneshot::Sender<Result<Committed, BrainError>>, Result<Committed, BrainError>);

/// Most records in one transaction: a few megabytes, a few milliseconds.
const MERGE: usize = 4096;

pub(crate) fn run(
    shared: &Shared,
    store: &mut dyn Store,
    epoch: Epoch,
    rounds: &Receiver<Round>,
    failures: &Sender<StoreError>,
) {
    let mut generation = 0;
    while let Ok(mut round) = rounds.recv() {
        if round.generation < generation {
            void(round, "the store failed just now; try again");
            continue;
        }
        // Group commit: whatever was decided while the disk was busy goes in together.
        while round.records.len() < MERGE {
            match rounds.try_recv() {
                Ok(next) if next.generation < generation => {
                    void(next, "the store failed just now; try again");
                }
                Ok(next) => merge(&mut round, next),
                Err(_) => break,
            }
        }
        hit("brain.writer");
        match commit(shared, store, epoch, &mut round) {
            Ok(()) => publish(shared, round),
            Err(e) => {
                tracing::error!(error = %e, "append failed: memory is thrown away");
                generation = round.generation + 1;
                void(round, &e.to_string());
                if failures.send(e).is_err() {
                    return;
                }
            }
        }
    }
}

fn merge(into: &mut Round, mut next: Round) {
    into.records.append(&mut next.records);
    into.payloads.append(&mut next.payloads);
    into.unneeded.append(&mut next.unneeded);
    into.secrets.append(&mut next.secrets);
    into.touched.append(&mut next.touched);
    into.replies.append(&mut next.replies);
}

fn void(round: Round, why: &str) {
    for (reply, _) in round.replies {
        let _ = reply.send(Err(BrainError::Unavailable(why.to_string())));
    }
}

fn commit(
    shared: &Shared,
    store: &mut dyn Store,
    epoch: Epoch,
    round: &mut Round,
) -> Result<(), StoreError> {
    if round.records.is_empty() && round.payloads.is_empty() && round.secrets.is_empty() {
        return Ok(());
    }
    let entries = round
        .records
        .iter()
        .map(|r| {
            let body = r.to_json().map_err(|e| StoreError::other(e.to_string()))?;
            Ok(Entry { seq: r.seq, at: r.at, body })
        })
        .collect::<Result<Vec<_>, StoreError>>()?;
    let batch = Batch {
        epoch,
        entries,
        payloads: std::mem::take(&mut round.payloads),
        unneeded: std::mem::take(&mut round.unneeded),
        secrets: std::mem::take(&mut round.secrets),
    };
    let span = crate::trace::commit(batch.entries.len(), round.replies.len());
    let started = Instant::now();
    // Said before it is tried: a store may also never answer.
    shared.writing();
    let appended = span.in_scope(|| store.append(&batch));
    if appended.is_err() {
        crate::trace::not_committed(&span);
    }
    shared.wrote(appended.as_ref().map(|_| ()));
    appended?;
    shared.stats.append.observe(started.elapsed());
    shared.stats.records.fetch_add(batch.entries.len() as u64, Ordering::Relaxed);
    hit("brain.before_ack");
    Ok(())
}

/// The commit is done: view, answers, followers, orders.
fn publish(shared: &Shared, round: Round) {
    let Round { records, touched, replies, .. } = round;
    let last: Option<Seq> = records.last().map(|r| r.seq);
    if last.is_some() {
        let mut view = shared.view.write().unwrap_or_else(PoisonError::into_inner);
        for r in &records {
            if let Err(e) = view.apply(r) {
                // The engine applied the very same records; a difference is a bug worth dying for.
                tracing::error!(error = %e, "the view does not follow the log");
                std::process::abort();
            }
        }
    }
    if let Some(last) = last {
        let mut ring = shared.ring.write().unwrap_or_else(PoisonError::into_inner);
        ring.extend(records.into_iter().map(Arc::new));
        while ring.len() > RING {
            ring.pop_front();
        }
        drop(ring);
        // Known to whoever asks from here on; those who wait are woken after the callers.
        shared.durable.send_if_modified(|durable| {
            *durable = last;
            false
        });
    }
    // First: each follower that is woken would stand before them in the queue of the runtime.
    for (reply, answer) in replies {
        let _ = reply.send(answer);
    }
    if last.is_some() {
        shared.durable.send_modify(|_| ());
    }
    hit("brain.before_dispatch");
    if !touched.is_empty() {
        let _ = shared.touched.send(Arc::new(touched));
    }
    hit("brain.after_dispatch");
}
