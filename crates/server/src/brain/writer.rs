//! Commits what was decided and only then makes it visible.

use super::{BrainCall, BrainError, Committed, RING, Shared};
use muster_model::event::Record;
use muster_model::ids::{Epoch, JobId, Seq};
use muster_model::names::NodeName;
use muster_store::failpoint::hit;
use muster_store::{Batch, Entry, SecretWrite, Store, StoreError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// Rounds that go through the writer's thread after somebody had to wait for the engine's.
const CROWDED: u32 = 32;

/// What a commit needs.
struct Writer {
    store: Box<dyn Store>,
    epoch: Epoch,
    /// Rounds of an older memory than this are void.
    generation: u64,
    failures: Sender<StoreError>,
}

impl Writer {
    /// Was a round decided from a memory that is thrown away?
    fn is_void(&self, round: &Round) -> bool {
        round.generation < self.generation
    }

    /// Commits a round and makes it visible. `committed` is called in between. False when there is
    /// no engine any more that could hear of a failure.
    fn write(&mut self, shared: &Shared, mut round: Round, committed: impl FnOnce()) -> bool {
        if self.is_void(&round) {
            void(round, FAILED);
            return true;
        }
        hit("brain.writer");
        match commit(shared, &mut *self.store, self.epoch, &mut round) {
            Ok(()) => {
                committed();
                publish(shared, round);
                true
            }
            Err(e) => {
                tracing::error!(error = %e, "append failed: memory is thrown away");
                self.generation = round.generation + 1;
                void(round, &e.to_string());
                self.failures.send(e).is_ok()
            }
        }
    }
}

/// The one place where rounds are committed, one after the other.
pub(crate) struct Committer {
    writer: Mutex<Writer>,
    /// Rounds that the writer's thread was given and has not made visible.
    given: AtomicUsize,
}

impl Committer {
    pub(crate) fn new(
        store: Box<dyn Store>,
        epoch: Epoch,
        failures: Sender<StoreError>,
    ) -> Arc<Committer> {
        let writer = Writer { store, epoch, generation: 0, failures };
        Arc::new(Committer { writer: Mutex::new(writer), given: AtomicUsize::new(0) })
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// There is no writer any more.
pub(crate) struct Gone;

/// The engine's end of it.
pub(crate) struct Rounds {
    queue: SyncSender<Round>,
    committer: Arc<Committer>,
    /// So many rounds more are given to the writer's thread.
    crowded: u32,
}

impl Rounds {
    pub(crate) fn new(queue: SyncSender<Round>, committer: Arc<Committer>) -> Rounds {
        Rounds { queue, committer, crowded: 0 }
    }

    /// Has a round committed. To wake the writer's thread takes a good part of the time that one
    /// caller waits, and gains nothing while nobody else asks: then it is done here and now. Who asks
    /// meanwhile waits for the disk in any case, but could have been decided upon; when somebody did,
    /// the next rounds are given to the writer's thread. The answer is what was found in the inbox.
    pub(crate) fn send(
        &mut self,
        shared: &Shared,
        round: Round,
        inbox: &Receiver<BrainCall>,
    ) -> Result<Option<BrainCall>, Gone> {
        // Only the engine gives rounds away, so with none under way all before this one are visible.
        let idle = self.committer.given.load(Ordering::Acquire) == 0;
        if !idle || self.crowded > 0 || round.replies.len() != 1 {
            self.crowded = self.crowded.saturating_sub(1);
            self.committer.given.fetch_add(1, Ordering::AcqRel);
            return self.queue.send(round).map(|()| None).map_err(|_| Gone);
        }
        let mut came = None;
        // Looked at before the answer: its caller may have the next request ready.
        let look = || came = inbox.try_recv().ok();
        if !self.committer.writer().write(shared, round, look) {
            return Err(Gone);
        }
        if came.is_some() {
            self.crowded = CROWDED;
        }
        Ok(came)
    }
}

/// The writer's thread.
pub(crate) fn run(shared: &Shared, committer: &Committer, rounds: &Receiver<Round>) {
    while let Ok(mut round) = rounds.recv() {
        let mut writer = committer.writer();
        let mut taken = 1;
        // Group commit: whatever was decided while the disk was busy goes in together.
        while !writer.is_void(&round) && round.records.len() < MERGE {
            let Ok(next) = rounds.try_recv() else { break };
            taken += 1;
            match writer.is_void(&next) {
                true => void(next, FAILED),
                false => merge(&mut round, next),
            }
        }
        let goes_on = writer.write(shared, round, || ());
        drop(writer);
        committer.given.fetch_sub(taken, Ordering::AcqRel);
        if !goes_on {
            return;
        }
    }
}

/// The answer to whoever asked of a memory that is thrown away.
const FAILED: &str = "the store failed just now; try again";

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
    let records: Vec<Arc<Record>> = records.into_iter().map(Arc::new).collect();
    let last: Option<Seq> = records.last().map(|r| r.seq);
    if let Some(last) = last {
        let mut view = shared.view.write().unwrap_or_else(PoisonError::into_inner);
        for r in &records {
            if let Err(e) = view.apply(r) {
                // The engine applied the very same records; a difference is a bug worth dying for.
                tracing::error!(error = %e, "the view does not follow the log");
                std::process::abort();
            }
        }
        // Nobody looks at the view before all of this is so: whoever has seen something there finds
        // its records, and the log ends no earlier.
        let mut ring = shared.ring.write().unwrap_or_else(PoisonError::into_inner);
        ring.extend(records);
        let over = ring.len().saturating_sub(RING);
        let old: Vec<Arc<Record>> = ring.drain(..over).collect();
        drop(ring);
        // Known to whoever asks from here on; those who wait are woken after the callers.
        shared.durable.send_if_modified(|durable| {
            *durable = last;
            false
        });
        drop(view);
        // Here nobody waits until they are freed.
        drop(old);
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
