//! Takes the lead: lease, load, threads; and the engine's own loop.

use super::store_availability::Space;
use super::writer::{Committer, Round, Rounds};
use super::{
    BACKLOG, Brain, BrainCall, BrainConfig, BrainError, Committed, LoadError, Shared, clock,
    lease_renewal, load, reader, secret_label, snapshots, stats, writer,
};
use crate::{supervise, trace};
use muster_engine::{Engine, State};
use muster_model::command::{Actor, Answer, Command, Request};
use muster_model::ids::{Epoch, Seq};
use muster_store::failpoint::hit;
use muster_store::seal::{SealError, SealKey};
use muster_store::{LeaseAnswer, SecretWrite, Store, StoreError};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, watch};

/// Why the brain did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store failed.
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
    /// The log cannot be lived on.
    #[error("the log cannot be loaded")]
    Load(#[from] LoadError),
    /// The key for secrets cannot be used.
    #[error("the key that seals secrets cannot be used")]
    Seal(#[from] SealError),
    /// A thread could not be started.
    #[error("a thread could not be started")]
    Thread(#[source] std::io::Error),
}

/// Requests decided in one round; more wait for the next, so that the first ones are not held up.
const ROUND: usize = 1024;
/// Rounds that may wait for the disk. Each is a group commit; two keep the disk busy while the
/// engine decides the next.
const AHEAD: usize = 2;
/// The longest time between two looks whether a full disk has space.
const FULL_EVERY: Duration = Duration::from_secs(8);
/// What the log could not take is written to it again after this.
const AGAIN: Duration = Duration::from_millis(500);

impl Brain {
    /// Waits for the lease, loads the log and starts to decide. Blocks: call it from a thread
    /// that may. `standby` learns who leads while this server waits. Waits for free space, too,
    /// while the store's disk is full.
    ///
    /// # Errors
    /// [`StartError`] when the store, the log or the key cannot be used.
    pub fn lead(config: &BrainConfig, mut standby: impl FnMut(&str)) -> Result<Brain, StartError> {
        let space = Space::of(&config.store);
        let attempt = || match space.lacking(false) {
            Some(detail) => Err(StoreError::Full { detail }.into()),
            None => Brain::try_lead(config, &mut standby),
        };
        outlast_full_disk(attempt, std::thread::sleep)
    }

    fn try_lead(config: &BrainConfig, standby: &mut dyn FnMut(&str)) -> Result<Brain, StartError> {
        let seal = Arc::new(SealKey::load_or_create(&config.seal_key)?);
        let mut store = config.open()?;
        // Before the lease: a damaged store is not written to, and a long log must not cost the
        // lease that nobody renews yet.
        store.verify_head()?;
        let (epoch, asked_ms, begun) =
            acquire_lead(config, &mut *store, standby, |store, verified| {
                take_over(config, store, verified)
            })?;
        let Takeover { state, snapshot, took, restored, stores: [reader, keeper, snapshots] } =
            begun;
        if let Some(stores) = store.clock()? {
            super::clock::compare_with_store(stores);
        }
        super::clock::not_before(state.at);
        tracing::info!(seq = %state.seq, epoch = %epoch, took = ?took, "log loaded");
        let (calls, inbox) = sync_channel(BACKLOG);
        let (reads, read_inbox) = sync_channel(4096);
        let shared = Arc::new(Shared {
            calls,
            policy: config.policy.clone(),
            archive: config.archive.clone(),
            durable: watch::Sender::new(state.seq),
            view: RwLock::new(state.clone()),
            copy: super::copy::StateCopy::default(),
            ring: RwLock::new(VecDeque::new()),
            touched: broadcast::Sender::new(1024),
            followed: Mutex::default(),
            reads,
            leading: AtomicBool::new(true),
            lease_until: AtomicI64::new(i64::MIN),
            stopping: AtomicBool::new(false),
            restored,
            epoch: AtomicU64::new(epoch.0),
            stats: stats::Counters::default(),
            seal,
            down: Mutex::new(None),
            stuck: Mutex::new(None),
            reach: super::store_availability::StoreAvailability::default(),
            over: watch::Sender::new(false),
            closed: watch::Sender::new(false),
        });
        shared.leased(asked_ms, config.lease);
        shared.stats.snapshot_seq.store(snapshot.map_or(0, |seq| seq.0), Ordering::Release);
        let engine = Engine::new(state, config.policy.clone());
        let stores = [store, reader, keeper, snapshots];
        start_threads(&shared, config, engine, stores, (epoch, restored), inbox, read_inbox)?;
        Ok(Brain { shared })
    }

    /// Stops deciding: what was acknowledged is durable, the lease is given back.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
    }

    /// Speaks for the server itself.
    ///
    /// # Errors
    /// As [`Brain::call`].
    pub async fn system(&self, command: Command) -> Result<Committed, BrainError> {
        let request =
            Request { actor: Actor::system(), at: clock(), key: None, if_version: None, command };
        self.call(request, super::Attach::default()).await
    }

    /// Writes something to the log, again and again while it cannot be written and this is
    /// `wanted`. True when the log has it, false when nobody wants it any more or it was refused.
    pub(crate) async fn record_command(&self, command: Command, wanted: impl Fn() -> bool) -> bool {
        while wanted() {
            match self.system(command.clone()).await {
                Ok(_) => return true,
                Err(BrainError::Refused(r)) => {
                    tracing::debug!(refusal = %r, "the log does not take what was reported");
                    return false;
                }
                Err(e) => tracing::warn!(error = %e, "what was reported is not in the log yet"),
            }
            tokio::time::sleep(AGAIN).await;
        }
        false
    }
}

/// Waits for the lease and begins to lead, with `begin`, which learns how much of the log is
/// verified. Returns when the lease was last asked for, too.
pub(super) fn acquire_lead<T>(
    config: &BrainConfig,
    store: &mut dyn Store,
    mut standby: impl FnMut(&str),
    mut begin: impl FnMut(&mut dyn Store, Seq) -> Result<T, StartError>,
) -> Result<(Epoch, i64, T), StartError> {
    let mut verified = load::verify(store, Seq(0))?;
    let mut stood_by = false;
    loop {
        match store.acquire_lease(&config.holder, config.lease) {
            Ok(LeaseAnswer::Granted(epoch)) => {
                let begun = keeping_lease(config, epoch, || begin(store, verified));
                // Once more: whoever comes now is let in with a whole lease.
                let asked_ms = super::clock::boot_ms();
                match begun.and_then(|b| Ok((b, store.renew_lease(epoch, config.lease)?))) {
                    Ok((begun, ())) => return Ok((epoch, asked_ms, begun)),
                    Err(StartError::Store(e @ StoreError::StaleLease { .. })) => {
                        tracing::warn!(error = %e, "another server became the leader meanwhile");
                        stood_by = true;
                    }
                    Err(e) => {
                        // Another server may be luckier, and need not wait.
                        let _ = store.release_lease(epoch);
                        if !stood_by {
                            return Err(e);
                        }
                        still_standby(e)?;
                    }
                }
            }
            Ok(LeaseAnswer::Held { holder, expires_in }) => {
                stood_by = true;
                standby(&holder);
                std::thread::sleep(expires_in.to_std().min(Duration::from_millis(500)));
                match load::verify(store, verified) {
                    Ok(seq) => verified = seq,
                    Err(e) => still_standby(e)?,
                }
            }
            Err(e) if stood_by => still_standby(e)?,
            Err(e) => return Err(e.into()),
        }
    }
}

/// Does something while the lease is renewed: a long log takes longer to load than the lease lasts.
fn keeping_lease<T>(
    config: &BrainConfig,
    epoch: Epoch,
    f: impl FnOnce() -> Result<T, StartError>,
) -> Result<T, StartError> {
    std::thread::scope(|scope| {
        let (doing, done) = channel::<()>();
        let renew = move || renew_until(config, epoch, &done);
        let started =
            std::thread::Builder::new().name("muster-lease".into()).spawn_scoped(scope, renew);
        started.map_err(StartError::Thread)?;
        let result = f();
        drop(doing);
        result
    })
}

/// Renews the lease until nobody is at the other end of `done`.
fn renew_until(config: &BrainConfig, epoch: Epoch, done: &Receiver<()>) {
    let every = config.lease.to_std() / 3;
    let mut handle: Option<Box<dyn Store>> = None;
    while let Err(RecvTimeoutError::Timeout) = done.recv_timeout(every) {
        // Opened when it is first needed: most logs are loaded by then.
        let renewed = handle.take().map_or_else(|| config.open(), Ok).and_then(|mut store| {
            store.renew_lease(epoch, config.lease)?;
            handle = Some(store);
            Ok(())
        });
        if let Err(e) = renewed {
            tracing::warn!(error = %e, "the lease could not be renewed while the log is loaded");
        }
    }
}

/// Tries until the disk has space: whoever frees some need not start the server again. What is
/// wrong otherwise is for somebody to look at, and ends the start.
pub(super) fn outlast_full_disk<T>(
    mut attempt: impl FnMut() -> Result<T, StartError>,
    mut pause: impl FnMut(Duration),
) -> Result<T, StartError> {
    let mut wait = Duration::from_secs(1);
    loop {
        let e = match attempt() {
            Err(
                StartError::Store(e @ StoreError::Full { .. })
                | StartError::Load(LoadError::Store(e @ StoreError::Full { .. })),
            ) => e,
            other => return other,
        };
        tracing::error!(error = %e, "the server cannot start yet; trying again in {wait:?}");
        pause(wait);
        wait = (wait * 2).min(FULL_EVERY);
    }
}

/// A store that is away for a moment is no reason for a standby to end: that is when it is needed.
pub(super) fn still_standby(e: impl Into<StartError>) -> Result<(), StartError> {
    let e = e.into();
    match &e {
        StartError::Store(away @ StoreError::Unavailable { .. })
        | StartError::Load(LoadError::Store(away @ StoreError::Unavailable { .. })) => {
            tracing::warn!(error = %away, "this standby cannot reach the store; trying again");
        }
        _ => return Err(e),
    }
    std::thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// What a lead begins with.
struct Takeover {
    state: State,
    /// The last record in the snapshot it was loaded from.
    snapshot: Option<Seq>,
    /// How long it took to load.
    took: Duration,
    /// The store was restored since the last lead.
    restored: bool,
    /// Handles on the store for the threads that read, keep the lease and write snapshots.
    stores: [Box<dyn Store>; 3],
}

fn take_over(
    config: &BrainConfig,
    store: &mut dyn Store,
    verified: Seq,
) -> Result<Takeover, StartError> {
    let started = Instant::now();
    store.verify_head()?;
    load::verify(store, verified)?;
    let restored = store.restored()?.is_some();
    let load::LoadedState { state, snapshot } = load::state(store)?;
    let stores = [config.open()?, config.open()?, config.open()?];
    Ok(Takeover { state, snapshot, took: started.elapsed(), restored, stores })
}

fn start_threads(
    shared: &Arc<Shared>,
    config: &BrainConfig,
    engine: Engine,
    [writer_store, reader_store, mut keeper_store, mut snapshot_store]: [Box<dyn Store>; 4],
    (epoch, restored): (Epoch, bool),
    inbox: Receiver<BrainCall>,
    read_inbox: Receiver<reader::Read>,
) -> Result<(), StartError> {
    let (rounds, round_inbox) = sync_channel(AHEAD);
    let (failures, failure_inbox) = channel();
    let committer = Committer::new(writer_store, epoch, failures);
    let rounds = Rounds::new(rounds, committer.clone());
    let s = shared.clone();
    vital(shared, "muster-writer", move || writer::run(&s, &committer, &round_inbox))?;
    let mut reader_store = Some(reader_store);
    // Without `shared`, which holds the other end of what it waits for.
    let (seal, c) = (shared.seal.clone(), config.clone());
    supervise::thread("muster-reader", move || {
        // Taken: after a panic it is opened anew.
        match reader_store.take().map_or_else(|| c.open(), Ok) {
            Ok(mut store) => reader::run(&seal, &mut *store, &read_inbox),
            Err(e) => panic!("the store cannot be opened again: {e}"),
        }
    })
    .map_err(StartError::Thread)?;
    let (written, all_written) = channel();
    let (s, c) = (shared.clone(), config.clone());
    vital(shared, "muster-snapshots", move || {
        let _written = written;
        if let Some(e) = snapshots::run(&s, &mut *snapshot_store, epoch, &c, clock) {
            end(&s, &e.to_string());
        }
    })?;
    let (s, c) = (shared.clone(), config.clone());
    vital(shared, "muster-keeper", move || {
        let _closed = LeaseRenewalGuard(&s);
        if let Some(e) = lease_renewal::run(&s, &mut *keeper_store, epoch, &c, &all_written) {
            end(&s, &e.to_string());
        }
    })?;
    let (s, c) = (shared.clone(), config.clone());
    vital(shared, "muster-engine", move || {
        let mut thinking =
            LeadState { shared: &s, config: &c, engine, epoch, restored, generation: 0, rounds };
        thinking.run(&inbox, &failure_inbox);
    })?;
    Ok(())
}

/// A thread without which nothing can be decided or the lease would be held for nothing. When it
/// panics, or returns though nobody stopped the server, the lead is over: a standby takes it, or
/// this server when it is started again.
fn vital(
    shared: &Arc<Shared>,
    name: &'static str,
    f: impl FnOnce() + Send + 'static,
) -> Result<(), StartError> {
    let shared = shared.clone();
    let body = move || {
        // What it leaves half done is in memory only, which goes with the lead.
        let why = match catch_unwind(AssertUnwindSafe(f)) {
            Ok(()) if shared.stopping.load(Ordering::Acquire) => return,
            Ok(()) => format!("its thread {name} ended"),
            Err(panic) => format!("its thread {name} panicked: {}", supervise::words(&*panic)),
        };
        end(&shared, &why);
    };
    let started = std::thread::Builder::new().name(name.into()).spawn(body);
    started.map(|_| ()).map_err(StartError::Thread)
}

/// However the keeper ends, nobody waits for it any longer.
struct LeaseRenewalGuard<'a>(&'a Shared);

impl Drop for LeaseRenewalGuard<'_> {
    fn drop(&mut self) {
        self.0.closed.send_replace(true);
    }
}

/// This server's lead is over.
fn end(shared: &Shared, why: &str) {
    tracing::error!(why, "this server no longer leads");
    // The first reason is the one that counts: threads end one after the other.
    if !shared.leading.swap(false, Ordering::AcqRel) {
        return;
    }
    *shared.down.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_string());
    shared.stopping.store(true, Ordering::Release);
    shared.over.send_replace(true);
}

struct LeadState<'a> {
    shared: &'a Shared,
    config: &'a BrainConfig,
    engine: Engine,
    epoch: Epoch,
    /// The store was restored since the last lead.
    restored: bool,
    generation: u64,
    rounds: Rounds,
}

impl LeadState<'_> {
    fn run(&mut self, inbox: &Receiver<BrainCall>, failures: &Receiver<StoreError>) {
        self.record_lead();
        let mut more = true;
        // What came while a round was committed.
        let mut came = None;
        while !self.shared.stopping.load(Ordering::Acquire) {
            let mut first = match came.take() {
                None if more => inbox.try_recv().ok(),
                None => self.wait(inbox),
                call => call,
            };
            if let Ok(e) = failures.try_recv()
                && !self.reload(&e, &mut first, inbox)
            {
                return;
            }
            hit("brain.engine");
            let mut round = Round { generation: self.generation, ..Round::default() };
            for call in first.into_iter().chain(inbox.try_iter()).take(ROUND) {
                self.decide(call, &mut round);
            }
            let started = Instant::now();
            let span = trace::cycle(self.engine.state().queue_len(), round.replies.len());
            more = span.in_scope(|| self.engine.tick(clock()));
            round.records = self.engine.take();
            trace::cycled(&span, &round.records, round.replies.len());
            drop(span);
            round.touched = self.engine.take_touched();
            round.unneeded = self.engine.take_unneeded();
            if round.records.is_empty() && round.replies.is_empty() {
                continue;
            }
            self.shared.stats.cycle.observe(started.elapsed());
            let Ok(call) = self.rounds.send(self.shared, round, inbox) else { return };
            came = call;
        }
    }

    /// The first record of a lead, and after a restore of a life of the log.
    fn record_lead(&mut self) {
        let server = self.config.holder.clone();
        let command = Command::Lead { epoch: self.epoch, server, restored: self.restored };
        let request =
            Request { actor: Actor::system(), at: clock(), key: None, if_version: None, command };
        let _ = self.engine.handle(&request);
    }

    /// Until a request comes or the engine has something to do.
    fn wait(&self, inbox: &Receiver<BrainCall>) -> Option<BrainCall> {
        let mut nap = Duration::from_millis(500);
        if let Some(t) = self.engine.next_wake() {
            nap = nap.min(t.since(clock()).to_std());
        }
        match inbox.recv_timeout(nap) {
            Ok(call) => Some(call),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.shared.stopping.store(true, Ordering::Release);
                None
            }
        }
    }

    fn decide(&mut self, call: BrainCall, round: &mut Round) {
        let BrainCall { request, attach, payload, reply, span } = call;
        let _decides = trace::decide(&span).entered();
        self.shared.stats.requests.fetch_add(1, Ordering::Relaxed);
        let before = self.engine.seq();
        let bytes = payload.as_ref().map_or(0, |p| attach.bytes.max(p.len() as u64));
        let result = self.engine.handle_with_payload(&request, bytes);
        let seq = self.engine.seq();
        let answer = result.map_err(BrainError::Refused).and_then(|answer| {
            // A repeat that changed nothing carries nothing.
            if seq > before {
                if let (Some(payload), Answer::Submitted { first, .. }) = (payload, &answer) {
                    round.payloads.push((*first, payload));
                }
                self.attach(attach, round)?;
            }
            Ok(Committed { answer, seq })
        });
        round.replies.push((reply, answer));
    }

    fn attach(&self, attach: super::Attach, round: &mut Round) -> Result<(), BrainError> {
        if let Some((project, name, value)) = attach.secret {
            let label = secret_label(project.as_str(), name.as_str());
            let value = value
                .map(|v| self.shared.seal.seal(v.as_bytes(), &label))
                .transpose()
                .map_err(|e| BrainError::Unavailable(e.to_string()))?;
            let (project, name) = (project.to_string(), name.to_string());
            round.secrets.push(SecretWrite { project, name, value });
        }
        Ok(())
    }

    /// Throws the memory away and reads it anew from the store. The view needs no change: it
    /// never ran ahead. Who asks meanwhile learns why nothing is decided. Returns false when the
    /// lead is over.
    fn reload(
        &mut self,
        cause: &StoreError,
        first: &mut Option<BrainCall>,
        inbox: &Receiver<BrainCall>,
    ) -> bool {
        self.generation += 1;
        self.shared.stats.reloads.fetch_add(1, Ordering::Relaxed);
        if matches!(cause, StoreError::StaleLease { .. }) {
            end(self.shared, &cause.to_string());
            return false;
        }
        self.shared.reach.reloading(true);
        let mut wait = Duration::from_millis(50);
        loop {
            if self.shared.stopping.load(Ordering::Acquire) {
                return false;
            }
            match self.read_anew() {
                Ok(()) => {
                    self.shared.reach.reloading(false);
                    return true;
                }
                Err(e) => {
                    tracing::error!(error = %e, "the log could not be read again; trying on");
                    let why = "the store failed, and the log cannot be read again yet; try again";
                    for call in first.take().into_iter().chain(inbox.try_iter()) {
                        let _ = call.reply.send(Err(BrainError::Unavailable(why.into())));
                    }
                    *self.shared.down.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(e.to_string());
                }
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_secs(2));
        }
    }

    fn read_anew(&mut self) -> Result<(), StartError> {
        let mut store = self.config.open()?;
        // A database that failed over may have lost what was acknowledged.
        store.verify_head()?;
        let state = load::state(&mut *store)?.state;
        // The outcome of the failed append may have been unknown: what did get in is shown now.
        let seq = state.seq;
        let mut view = self.shared.view.write().unwrap_or_else(PoisonError::into_inner);
        let state = state.with_connections_of(&view);
        if seq > view.seq {
            *view = state.clone();
            // Followers read from the store what memory missed.
            self.shared.ring.write().unwrap_or_else(PoisonError::into_inner).clear();
            let nodes: Vec<_> = view.nodes.keys().cloned().collect();
            // Before anybody looks at the view.
            self.shared.durable.send_replace(seq);
            drop(view);
            // Which orders that changed, only the memory knew that was thrown away.
            let _ = self.shared.touched.send(Arc::new(nodes));
        } else {
            drop(view);
        }
        self.engine = self.engine.reloaded(state);
        if self.engine.state().epoch != self.epoch {
            // The very append failed that would have recorded it.
            self.record_lead();
        }
        *self.shared.down.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}
