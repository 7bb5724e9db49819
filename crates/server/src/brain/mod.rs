//! The brain's real body: a clock, a durable log, and threads that never wait for each other
//! longer than they must.
//!
//! - The *engine* thread decides and applies ahead of the disk.
//! - The *writer* thread commits what was decided, several requests at a time, then makes it
//!   visible: view, answers, watchers, orders, in this order and never before the commit. For a
//!   caller who asks alone the engine's thread does the same.
//! - The *reader* thread answers from the store what memory no longer holds, for as long as somebody
//!   has a handle on the brain.
//! - The *keeper* thread renews the lease.
//! - The *snapshots* thread writes snapshots and archives the old log.
//!
//! A failed append throws the engine's memory away and reloads it from the store; a lease that
//! was lost ends the server's lead.

pub mod clock;
mod copy;
pub mod lead;
mod lease_renewal;
mod load;
mod reader;
mod snapshots;
pub(crate) mod stats;
mod steps;
mod store_availability;
#[cfg(test)]
mod tests;
mod writer;

pub use clock::clock;
pub use load::LoadError;
pub(crate) use load::{record as read_record, unpack as read_snapshot};
pub use stats::{BrainStats, Histogram};
pub use store_availability::CannotWrite;

use muster_engine::{Policy, State};
use muster_model::command::{Answer, Command, Refusal, Request};
use muster_model::event::Record;
use muster_model::ids::{Epoch, JobId, Seq};
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::spec::RunSpec;
use muster_model::units::{Span, Time};
use muster_store::seal::SealKey;
use muster_store::{StoreError, StoreUrl};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{broadcast, oneshot, watch};

/// What the brain needs to start.
#[derive(Debug, Clone)]
pub struct BrainConfig {
    /// Where the log is.
    pub store: StoreUrl,
    /// Name of this server in the lease; the same after a restart.
    pub holder: String,
    /// Where old log segments go.
    pub archive: PathBuf,
    /// Key that seals secrets.
    pub seal_key: PathBuf,
    /// The engine's policy.
    pub policy: Policy,
    /// The lease's length; a dead leader is replaced after it.
    pub lease: Span,
    /// Records between two snapshots.
    pub snapshot_every: u64,
    /// Records that stay in the store after a snapshot.
    pub retain: u64,
}

impl BrainConfig {
    /// Where the head of a log outside this machine is kept a second time: in the data directory,
    /// beside the key. That of a SQLite log is beside its file.
    fn head_file(&self) -> PathBuf {
        self.seal_key.with_file_name(muster_store::HEAD_FILE)
    }

    /// A handle on the store, which writes while this server has the lease.
    fn open(&self) -> Result<Box<dyn muster_store::Store>, StoreError> {
        let mut store = muster_store::open_with_head(&self.store, &self.head_file())?;
        store.lead_as(&self.holder);
        Ok(store)
    }
}

/// What a write carries beside its command.
#[derive(Debug, Clone, Default)]
pub struct Attach {
    /// What a submitted job runs.
    pub payload: Option<RunSpec>,
    /// Bytes of the request as it was sent; at least those of the payload are counted.
    pub bytes: u64,
    /// A secret's new value; none deletes it.
    pub secret: Option<(ProjectName, Label, Option<String>)>,
}

/// A request that is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// What came of it.
    pub answer: Answer,
    /// The log up to which it is durable; a later read may demand it.
    pub seq: Seq,
}

/// Why a request was not done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BrainError {
    /// Refused; nothing changed.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// That part of the log is archived; what is kept begins behind this record.
    #[error("records up to {behind} are archived")]
    Archived {
        /// The last record that is not kept any more.
        behind: Seq,
    },
    /// The server cannot decide now. With an idempotency key it is safe to try again.
    #[error("{0}")]
    Unavailable(String),
}

pub(crate) struct BrainCall {
    request: Request,
    attach: Attach,
    /// What a submitted job runs, as it is stored.
    payload: Option<Vec<u8>>,
    reply: oneshot::Sender<Result<Committed, BrainError>>,
    /// Whoever waits for it.
    span: tracing::Span,
}

/// Records kept in memory for followers of the log.
const RING: usize = 65_536;
/// Requests that may wait for the engine; more are asked to come back.
const BACKLOG: usize = 20_000;

pub(crate) struct Shared {
    calls: SyncSender<BrainCall>,
    policy: Policy,
    /// Where the old part of the log is.
    archive: PathBuf,
    view: RwLock<State>,
    copy: copy::StateCopy,
    ring: RwLock<VecDeque<Arc<Record>>>,
    durable: watch::Sender<Seq>,
    touched: broadcast::Sender<Arc<Vec<NodeName>>>,
    /// The last record that each follower of the log has read.
    followed: Mutex<BTreeMap<&'static str, Seq>>,
    reads: SyncSender<reader::Read>,
    leading: AtomicBool,
    /// Nobody else can have the lease before this, in milliseconds since the machine started.
    lease_until: AtomicI64,
    stopping: AtomicBool,
    /// The store was restored, or its loss accepted, since the last lead.
    restored: bool,
    epoch: AtomicU64,
    stats: stats::Counters,
    seal: Arc<SealKey>,
    down: Mutex<Option<String>>,
    stuck: Mutex<Option<Stuck>>,
    reach: store_availability::StoreAvailability,
    over: watch::Sender<bool>,
    closed: watch::Sender<bool>,
}

/// Why a server that leads as far as it knows is not ready.
const UNCERTAIN: &str = "the lease was not renewed in time: another server may lead";

/// Something is to be written and is not.
struct Stuck {
    since: Time,
    /// When it was last tried.
    tried: Time,
    /// What came of it; none while the store has not answered.
    error: Option<String>,
}

/// An append that failed so long ago, and was not tried again since, says nothing about now.
const STALE: Span = Span::secs(5);

impl Shared {
    /// The store granted or renewed the lease when it was asked then. It counts from a later moment,
    /// so it lasts at least until what is noted here.
    fn leased(&self, asked_ms: i64, lease: Span) {
        self.lease_until.store(asked_ms.saturating_add_unsigned(lease.0), Ordering::Release);
    }

    /// The lease is being given up.
    fn lease_over(&self) {
        self.lease_until.store(i64::MIN, Ordering::Release);
    }

    fn stuck(&self) -> MutexGuard<'_, Option<Stuck>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is being written. Since when nothing was stays as it is.
    fn writing(&self) {
        self.reach.appending();
        let mut stuck = self.stuck();
        let now = clock();
        let since = stuck.as_ref().map_or(now, |s| s.since);
        *stuck = Some(Stuck { since, tried: now, error: None });
    }

    /// What came of it.
    fn wrote(&self, result: Result<(), &StoreError>) {
        self.reach.appended(result);
        let mut stuck = self.stuck();
        match result {
            Ok(()) => *stuck = None,
            Err(e) => {
                if let Some(s) = &mut *stuck {
                    s.error = Some(e.to_string());
                }
            }
        }
    }

    /// The store is away although nothing was to be written.
    fn away(&self, e: &StoreError) {
        let mut stuck = self.stuck();
        if stuck.is_none() {
            let now = clock();
            *stuck = Some(Stuck { since: now, tried: now, error: Some(e.to_string()) });
        }
    }

    /// The store took something else: good news where nothing was tried lately.
    fn took(&self) {
        let mut stuck = self.stuck();
        if stuck.as_ref().is_some_and(|s| s.error.is_some() && clock().since(s.tried) > STALE) {
            *stuck = None;
        }
    }
}

/// A handle on the brain. Cheap to clone.
#[derive(Clone)]
pub struct Brain {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Brain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Brain").field("durable", &self.durable()).finish_non_exhaustive()
    }
}

impl Brain {
    /// Asks for something and waits until it is durable.
    ///
    /// # Errors
    /// A refusal, or that the server cannot decide now.
    pub async fn call(
        &self,
        request: Request,
        mut attach: Attach,
    ) -> Result<Committed, BrainError> {
        // Written here: the engine's thread is everybody's.
        let payload = attach.payload.take().map(|run| serde_json::to_vec(&run)).transpose();
        let payload = payload.map_err(|e| BrainError::Unavailable(e.to_string()))?;
        let (reply, answer) = oneshot::channel();
        let span = tracing::Span::current();
        match self.shared.calls.try_send(BrainCall { request, attach, payload, reply, span }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(BrainError::Unavailable(
                    "the server has more requests than it can take; try again shortly".into(),
                ));
            }
            Err(TrySendError::Disconnected(_)) => return Err(self.gone()),
        }
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    fn gone(&self) -> BrainError {
        BrainError::Unavailable(self.down().unwrap_or_else(|| "the server is stopping".into()))
    }

    /// Why nothing can be decided; none while something can.
    #[must_use]
    pub fn down(&self) -> Option<String> {
        self.shared.down.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the durable state. Keep the closure short: it holds up the writer. For what takes
    /// long there is [`Brain::read_copy`].
    pub fn read<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        f(&self.shared.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The connection of a node's agent began or ended: the engine plans with that from now on, and
    /// whoever reads sees it. Nothing is written for it.
    ///
    /// # Errors
    /// That the server cannot decide now.
    pub(crate) async fn note_connection(
        &self,
        node: &NodeName,
        connected: bool,
    ) -> Result<(), BrainError> {
        self.system(Command::AgentConnection { node: node.clone(), connected }).await?;
        self.show_connection(node, connected);
        Ok(())
    }

    /// The same for those who read alone.
    pub(crate) fn show_connection(&self, node: &NodeName, connected: bool) {
        // Mostly it is known: a whole site that connects must not hold up the writer.
        if self.read(|s| s.is_disconnected(node)) != connected {
            return;
        }
        let mut view = self.shared.view.write().unwrap_or_else(PoisonError::into_inner);
        view.note_connection(node, connected);
    }

    /// What the engine was started with: whoever rehearses goes by the same.
    #[must_use]
    pub fn engine_policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// Durable end of the log.
    #[must_use]
    pub fn durable(&self) -> Seq {
        *self.shared.durable.borrow()
    }

    /// Leader's fencing token.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.shared.epoch.load(Ordering::Acquire))
    }

    /// Now, as this server's clock goes.
    #[must_use]
    pub fn now(&self) -> Time {
        clock()
    }

    /// Since when nothing could be written although something was to be, and why; none while
    /// writing works.
    #[must_use]
    pub fn stuck(&self) -> Option<(Time, String)> {
        let none = || "the store does not answer".to_owned();
        self.shared.stuck().as_ref().map(|s| (s.since, s.error.clone().unwrap_or_else(none)))
    }

    /// Why nothing can be written now; none when it can. A store that has not answered for
    /// `patience` counts as away.
    #[must_use]
    pub fn cannot_write(&self, patience: Duration) -> Option<CannotWrite> {
        if !self.is_leading() {
            return Some(CannotWrite::plain("this server does not lead (yet)"));
        }
        self.shared.reach.cannot_write(patience)
    }

    /// Why nobody is to be sent to this server now; none while it is certain that it leads, goes on
    /// leading, and can write. Whoever asks for a write all the same is answered by
    /// [`Brain::cannot_write`]: the store itself refuses what is written under another's lease.
    #[must_use]
    pub fn not_ready(&self, patience: Duration) -> Option<CannotWrite> {
        let stopping = self.shared.stopping.load(Ordering::Acquire);
        let certain = self.is_certain_leader();
        self.cannot_write(patience)
            .or_else(|| stopping.then(|| CannotWrite::plain("this server is stopping")))
            .or_else(|| self.shared.reach.unrenewed())
            .or_else(|| (!certain).then(|| CannotWrite::plain(UNCERTAIN)))
    }

    /// Why no jobs are accepted of those who are no operators, although the log can be written.
    #[must_use]
    pub fn refuses_submissions(&self) -> Option<CannotWrite> {
        self.shared.reach.low_space()
    }

    /// Does this server decide?
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.shared.leading.load(Ordering::Acquire)
    }

    /// Is it certain that nobody else leads? Not while the lease could not be renewed for so long
    /// that it may have ended: a standby may have it then, though this server has not heard of it.
    #[must_use]
    pub fn is_certain_leader(&self) -> bool {
        self.is_leading() && clock::boot_ms() < self.shared.lease_until.load(Ordering::Acquire)
    }

    /// Does this lead begin with a store that was restored from a backup, or whose loss was
    /// accepted?
    #[must_use]
    pub fn is_restored(&self) -> bool {
        self.shared.restored
    }

    /// Follows the durable end of the log.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Seq> {
        self.shared.durable.subscribe()
    }

    /// Nodes whose orders may have changed, after each commit.
    #[must_use]
    pub fn touched(&self) -> broadcast::Receiver<Arc<Vec<NodeName>>> {
        self.shared.touched.subscribe()
    }

    /// A follower of the log has read up to there.
    pub(crate) fn followed(&self, part: &'static str, upto: Seq) {
        self.shared.followed.lock().unwrap_or_else(PoisonError::into_inner).insert(part, upto);
    }

    /// Records that each follower of the log has still to read.
    #[must_use]
    pub fn follower_lags(&self) -> Vec<(&'static str, u64)> {
        let all = self.shared.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let end = self.durable();
        all.iter().map(|(part, upto)| (*part, end.0.saturating_sub(upto.0))).collect()
    }

    /// Figures about itself.
    #[must_use]
    pub fn stats(&self) -> BrainStats {
        self.shared.stats.read()
    }

    /// The last record in the newest snapshot; none where there is none.
    #[must_use]
    pub fn snapshot_seq(&self) -> Option<Seq> {
        let seq = self.shared.stats.snapshot_seq.load(Ordering::Acquire);
        (seq > 0).then_some(Seq(seq))
    }

    /// Becomes true when the server has lost its lead or its store for good; not when it is stopped.
    #[must_use]
    pub fn over(&self) -> watch::Receiver<bool> {
        self.shared.over.subscribe()
    }

    /// After [`Brain::stop`]: waits until the lease is given back and the store is closed.
    pub async fn closed(&self) {
        // An error would mean that nobody is left who could close it.
        let _ = self.shared.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// Waits until this server decides nothing any more: it was stopped, or has lost its lead.
    pub async fn ended(&self) {
        let mut over = self.over();
        tokio::select! {
            _ = over.wait_for(|over| *over) => {}
            () = self.closed() => {}
        }
    }

    /// Records after `after`, at most `limit`, all of them durable.
    ///
    /// # Errors
    /// When the store cannot be read, or the range was archived.
    pub async fn records(&self, after: Seq, limit: usize) -> Result<Vec<Arc<Record>>, BrainError> {
        let durable = self.durable();
        if after >= durable {
            return Ok(Vec::new());
        }
        if let Some(records) = self.in_memory(after, limit) {
            return Ok(records);
        }
        self.ask(|reply| reader::Read::Records { after, limit, reply }).await
    }

    /// The same from memory; none where that does not reach back so far.
    fn in_memory(&self, after: Seq, limit: usize) -> Option<Vec<Arc<Record>>> {
        let ring = self.shared.ring.read().unwrap_or_else(PoisonError::into_inner);
        let first = ring.front()?.seq;
        let skip = usize::try_from(after.next().0.checked_sub(first.0)?).unwrap_or(usize::MAX);
        Some(ring.iter().skip(skip).take(limit).cloned().collect())
    }

    /// Where the old part of the log is, with snapshots.
    pub(crate) fn archive_dir(&self) -> &Path {
        &self.shared.archive
    }

    /// The chain of the log at a record, or at the one next to it that the store has (see
    /// [`muster_store::Store::chain_at`]).
    pub(crate) async fn chain_at(&self, seq: Seq) -> Result<(Seq, [u8; 16]), BrainError> {
        self.ask(|reply| reader::Read::Chain { seq, reply }).await
    }

    /// What a job runs.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn payload(&self, job: JobId) -> Result<Option<RunSpec>, BrainError> {
        self.ask(|reply| reader::Read::Payload { job, reply }).await
    }

    /// A secret's value.
    ///
    /// # Errors
    /// When the store cannot be read or the seal does not open.
    pub async fn secret(
        &self,
        project: &ProjectName,
        name: &str,
    ) -> Result<Option<String>, BrainError> {
        let (project, name) = (project.to_string(), name.to_string());
        self.ask(|reply| reader::Read::Secret { project, name, reply }).await
    }

    async fn ask<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<T, BrainError>>) -> reader::Read,
    ) -> Result<T, BrainError> {
        let (reply, answer) = oneshot::channel();
        if self.shared.reads.try_send(make(reply)).is_err() {
            return Err(BrainError::Unavailable("the store's reader is busy; try again".into()));
        }
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }
}

/// Text under which a secret is sealed: it opens only for this project and name.
pub(crate) fn secret_label(project: &str, name: &str) -> Vec<u8> {
    format!("secret\0{project}\0{name}").into_bytes()
}
