//! The server's side of the agent link: who is connected, what is sent to them, what they said.

mod accept;
mod acts;
mod bounds;
mod checkpoints;
mod conn;
mod connections;
mod fabric;
mod faults;
mod hello;
mod identity;
mod idle;
mod join;
mod lookup_cache;
mod newcomers;
mod node_entry;
mod orders;
mod pace;
mod session;
mod steps;
mod sweep;

pub use crate::telemetry::{Columns, Row, Window};
pub use node_entry::{SessionInfo, TestProgress};
pub use steps::RankStep;

use crate::brain::Brain;
use crate::brain::stats::{FINE, Histogram, Timer};
use crate::health::{Health, HealthStats};
use crate::history::{History, HistoryConfig};
use crate::logs::LogKeeper;
use crate::metering::Metering;
use crate::supervise;
use crate::telemetry::Interned;
use muster_link::LinkError;
use muster_link::messages::FromServer;
use muster_link::pki::Authority;
use muster_link::tls;
use muster_model::command::{Actor, Command, Request};
use muster_model::ids::AttemptKey;
use muster_model::inject::Inject;
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::units::{Span, Time};
use node_entry::{NodeEntry, Session};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How long an injected fault may take to be answered.
const INJECT: Duration = Duration::from_secs(10);
/// Bytes of the reason why something cannot be read.
const UNREADABLE: usize = 1024;

/// What operators may choose about the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsConfig {
    /// How often agents say that they are there.
    pub heartbeat: Span,
    /// How often they send telemetry.
    pub telemetry: Span,
    /// Rows of a node that are accepted at once; ten times as many as are asked for after that.
    pub telemetry_burst: u64,
    /// A node that was not heard for this long is lost.
    pub lost_after: Span,
    /// How often the health watch looks at what nodes and ranks reported.
    pub watch: Span,
    /// How long a node's certificate works; agents renew theirs well before.
    pub certificate: Span,
    /// Handshakes under way at once, half as many of addresses that no node was heard from. Few
    /// enough that the API's requests find their turn between them when a whole site comes back, and
    /// enough to fill the processors.
    pub handshakes: usize,
    /// Connections at once whose agent is not let in yet, of known addresses and of others each; half
    /// as many of one address (one /64 of IPv6).
    pub newcomers: usize,
    /// Names and addresses of this server, for its certificate.
    pub names: Vec<String>,
    /// Where the figures of the fleet are written down, so that a start need not read the whole
    /// log again.
    pub figures_file: Option<std::path::PathBuf>,
    /// Where metrics are kept for longer than some minutes; nowhere when absent.
    pub history: Option<HistoryConfig>,
}

impl Default for AgentsConfig {
    fn default() -> Self {
        AgentsConfig {
            heartbeat: Span::secs(10),
            telemetry: Span::secs(10),
            telemetry_burst: 120,
            lost_after: Span::secs(30),
            watch: Span::secs(1),
            certificate: Span::secs(30 * 24 * 3600),
            handshakes: 32,
            newcomers: 1024,
            names: Vec::new(),
            figures_file: None,
            history: None,
        }
    }
}

/// Who is connected. Clones share it.
#[derive(Clone)]
pub struct Agents {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agents").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

struct Inner {
    brain: Brain,
    authority: Arc<Authority>,
    keeper: LogKeeper,
    config: AgentsConfig,
    tls: Arc<rustls::ServerConfig>,
    newcomers: newcomers::Newcomers,
    /// One for each node that was heard since the start and is not retired.
    node_entries: RwLock<HashMap<NodeName, Arc<NodeEntry>>>,
    steps: Mutex<steps::Steps>,
    columns: Mutex<Interned>,
    /// Faults that were not written down one by one.
    folded: AtomicU64,
    /// Rows and metrics of nodes that were not accepted.
    unaccepted: AtomicU64,
    /// Reports of nodes about attempts that never ran there.
    foreign: AtomicU64,
    beside: lookup_cache::LookupCache,
    fabric: fabric::Exchange,
    /// What nodes are to do, as the log says.
    acts: acts::NodeActs,
    /// From a report of faults to its events in the log.
    signals: Timer,
    health: Health,
    metering: Metering,
    history: History,
    /// The wall clock may be set at any moment; whether a node is silent is measured from here.
    started: (Instant, Time),
    /// No node is lost because it was not heard before this.
    since: Mutex<Time>,
    next_session: AtomicU64,
    stop: CancellationToken,
}

impl Inner {
    /// A clock that never jumps: the wall clock at the start plus the time since.
    fn clock(&self) -> Time {
        let (at, time) = self.started;
        time + Span(u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn node_entry(&self, node: &NodeName) -> Option<Arc<NodeEntry>> {
        self.node_entries.read().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }

    fn node_entry_or_new(&self, node: &NodeName) -> Arc<NodeEntry> {
        if let Some(node_entry) = self.node_entry(node) {
            return node_entry;
        }
        let mut node_entries = self.node_entries.write().unwrap_or_else(PoisonError::into_inner);
        node_entries.entry(node.clone()).or_default().clone()
    }

    /// Every entry with somebody on it.
    fn live(&self) -> Vec<(Arc<NodeEntry>, Arc<Session>)> {
        let node_entries = self.node_entries.read().unwrap_or_else(PoisonError::into_inner);
        node_entries.values().filter_map(|s| Some((s.clone(), s.session()?))).collect()
    }

    /// A request in a node's name. Only this side of the link makes them, after it has checked
    /// who speaks.
    fn request(&self, node: &NodeName, command: Command) -> Request {
        Request {
            actor: Actor::agent(node),
            at: self.brain.now(),
            key: None,
            if_version: None,
            command,
        }
    }
}

fn refused(code: &str, message: impl Into<String>, retry: bool) -> FromServer {
    FromServer::Refused { code: code.into(), message: message.into(), retry }
}

/// The answer to what is no frame or no message, where that is what is wrong. An agent may try again.
fn unreadable(e: &LinkError) -> Option<FromServer> {
    match e {
        LinkError::Garbled(_) | LinkError::TooLarge { .. } => {
            let mut why = e.to_string();
            muster_model::text::bound(&mut why, UNREADABLE);
            Some(refused("protocol", why, true))
        }
        _ => None,
    }
}

/// Serves agents on `listener` until [`Agents::stop`].
///
/// # Errors
/// When no server identity can be made.
pub fn serve(
    listener: TcpListener,
    brain: Brain,
    authority: Arc<Authority>,
    keeper: LogKeeper,
    config: AgentsConfig,
) -> Result<Agents, LinkError> {
    let now = brain.now();
    let files = muster_link::limits::raise_open_files();
    tracing::debug!(files, "open files allowed: about as many agents can be connected");
    let identity = authority.server_identity(&config.names)?;
    let stop = CancellationToken::new();
    let health =
        Health::start(brain.clone(), config.watch.to_std(), stop.clone()).map_err(LinkError::Io)?;
    let kept = config.history.clone().map(|h| (h, brain.clone()));
    let history = History::start(kept, config.telemetry, stop.clone()).map_err(LinkError::Io)?;
    let newcomers = newcomers::Newcomers::new(config.newcomers, config.handshakes);
    // Before anybody was heard: what the nodes said of themselves.
    brain.read(|s| {
        for n in s.nodes.values().filter(|n| n.stage != Stage::Retired) {
            if let Ok(address) = n.address.parse::<std::net::IpAddr>() {
                newcomers.note_contact(&n.name, address);
            }
        }
    });
    let inner = Arc::new(Inner {
        tls: tls::server_config(&authority, &identity, crate::brain::clock)?,
        newcomers,
        node_entries: RwLock::default(),
        steps: Mutex::default(),
        columns: Mutex::default(),
        folded: AtomicU64::new(0),
        unaccepted: AtomicU64::new(0),
        foreign: AtomicU64::new(0),
        beside: lookup_cache::LookupCache::default(),
        fabric: fabric::Exchange::default(),
        acts: acts::NodeActs::default(),
        signals: Timer::with(&FINE),
        health,
        metering: Metering::start(brain.clone(), config.figures_file.clone(), stop.clone()),
        history,
        since: Mutex::new(now),
        started: (Instant::now(), now),
        next_session: AtomicU64::new(1),
        stop,
        brain,
        authority,
        keeper,
        config,
    });
    let (i, listener) = (inner.clone(), Arc::new(listener));
    supervise::task("agents-accept", move || accept::listen(i.clone(), listener.clone()));
    let i = inner.clone();
    supervise::task("agents-orders", move || sweep::dispatch(i.clone()));
    let i = inner.clone();
    supervise::task("agents-lost", move || sweep::watch(i.clone()));
    let i = inner.clone();
    supervise::task("agents-idle", move || idle::watch(i.clone()));
    let i = inner.clone();
    supervise::task("agents-acts", move || acts::follow(i.clone()));
    Ok(Agents { inner })
}

impl Agents {
    /// Everybody who is connected, by name.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let mut all: Vec<SessionInfo> =
            self.inner.live().iter().map(|(node_entry, s)| s.info(node_entry)).collect();
        all.sort_by(|a, b| a.node.cmp(&b.node));
        all
    }

    /// How many are connected.
    #[must_use]
    pub fn count(&self) -> usize {
        self.inner.live().len()
    }

    /// The agent of a node, when it is connected.
    #[must_use]
    pub fn session(&self, node: &NodeName) -> Option<SessionInfo> {
        let node_entry = self.inner.node_entry(node)?;
        node_entry.session().map(|s| s.info(&node_entry))
    }

    /// When a node was last heard by this server.
    #[must_use]
    pub fn last_heartbeat(&self, node: &NodeName) -> Option<Time> {
        self.inner.node_entry(node)?.last_heartbeat()
    }

    /// The last minutes of a node in numbers.
    #[must_use]
    pub fn telemetry(&self, node: &NodeName) -> Option<Window> {
        self.inner.node_entry(node)?.window()
    }

    /// The newest figures of a node's GPUs, with their names.
    pub(crate) fn newest(&self, node: &NodeName) -> Option<(Columns, Arc<[f32]>)> {
        self.inner.node_entry(node)?.newest()
    }

    /// How old the newest figures of a node are; none while it reported none. A simulated node's
    /// own clock counts.
    pub fn metrics_age(&self, node: &NodeName, now: Time) -> Option<Span> {
        self.inner.node_entry(node)?.metrics_age(now)
    }

    /// How many GPUs of a node reported what they draw, and what that is together, in watts.
    #[must_use]
    pub fn draw(&self, node: &NodeName) -> Option<(u32, f64)> {
        let (columns, figures) = self.inner.node_entry(node)?.newest()?;
        let power = columns.iter().position(|c| c == "power")?;
        let reported = figures.chunks(columns.len().max(1)).filter_map(|g| g.get(power).copied());
        let reported = reported.filter(|w| w.is_finite());
        Some(reported.fold((0, 0.0), |(n, sum), w| (n + 1, sum + f64::from(w))))
    }

    /// The newest step of each rank of an attempt.
    #[must_use]
    pub fn steps(&self, key: AttemptKey) -> Vec<RankStep> {
        self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner).of(key)
    }

    /// How far the test of a node is, as its agent last reported.
    #[must_use]
    pub fn test_progress(&self, node: &NodeName) -> Option<TestProgress> {
        self.inner.node_entry(node)?.progress().clone()
    }

    /// Rows and metrics of nodes that were not accepted since the start: too many, or with names that
    /// are none.
    #[must_use]
    pub fn unaccepted_metrics(&self) -> u64 {
        self.inner.unaccepted.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Reports of nodes since the start about attempts that never ran there: they change nothing.
    #[must_use]
    pub fn foreign_reports(&self) -> u64 {
        self.inner.foreign.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Faults that were folded into others or only counted since the start.
    #[must_use]
    pub fn folded_faults(&self) -> u64 {
        self.inner.folded.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Time from a report of faults to its events in the log.
    #[must_use]
    pub fn signal_commit(&self) -> Histogram {
        self.inner.signals.read()
    }

    /// Who used what.
    pub fn metering(&self) -> &Metering {
        &self.inner.metering
    }

    /// Metrics over time.
    pub fn history(&self) -> &History {
        &self.inner.history
    }

    /// Figures about detection and recovery.
    #[must_use]
    pub fn health(&self) -> HealthStats {
        self.inner.health.stats()
    }

    /// Makes a simulated node fail, and says what came of it.
    ///
    /// # Errors
    /// In words, when the node is not there or cannot do it.
    pub async fn inject(&self, node: &NodeName, fault: Inject) -> Result<String, String> {
        let session = self
            .inner
            .node_entry(node)
            .and_then(|s| s.session())
            .ok_or_else(|| format!("the agent of node {node} is not connected"))?;
        let (tx, rx) = oneshot::channel();
        session.ask_injected(FromServer::Inject { fault }, tx);
        match tokio::time::timeout(INJECT, rx).await {
            Ok(Ok(answer)) => answer,
            // A crash or a partition takes the answer with it.
            Ok(Err(_)) => Ok(format!("the agent of node {node} went away")),
            Err(_) => Err(format!("the agent of node {node} did not answer within {INJECT:?}")),
        }
    }

    /// Ends every session and takes no new ones. Agents keep their work and look for a server.
    pub fn stop(&self) {
        self.inner.stop.cancel();
        for (_, s) in self.inner.live() {
            s.close();
        }
    }
}

#[cfg(test)]
mod tests;
