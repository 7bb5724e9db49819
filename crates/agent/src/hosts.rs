//! Agents as they are hosted: one for this machine, or many simulated ones in one process.

use crate::body::Body;
use crate::cgroup::Cgroups;
use crate::error::AgentError;
use crate::hooks::Hooks;
use crate::identity::{self, SharedStore, Store};
use crate::inventory::GpuSource;
use crate::real::RealDevices;
use crate::run_dir::RunDir;
use crate::runner::{RankBudget, RunnerConfig, RunnerTools, ShimCommand};
use crate::session::{Servers, Session, SessionConfig};
use crate::simulated::{Gangs, NodeStateFile, SIM_CAN, SimClock, Simulated};
use crate::watch::Watcher;
use muster_link::limits::raise_open_files;
use muster_link::token::JoinToken;
use muster_model::names::NodeName;
use muster_simnode::{NodeHistory, SimConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Most output of one stream that waits on the node.
pub const LOG_CAP: u64 = 256 << 20;

/// An agent for this machine.
#[derive(Clone)]
pub struct NodeConfig {
    /// `HOST:PORT` of the server's agent link, or several separated by commas: they are tried
    /// in turn until one answers that leads.
    pub server: String,
    /// Needed until the node has joined.
    pub token: Option<JoinToken>,
    /// Name of the node.
    pub node: NodeName,
    /// Directory of everything kept; for one agent only.
    pub state: PathBuf,
    /// Address that other ranks reach this machine under; found out when absent.
    pub address: Option<String>,
    /// How supervisors are started.
    pub shim: ShimCommand,
    /// The machine's GPUs.
    pub gpus: Arc<dyn GpuSource>,
    /// Control groups; found out when absent.
    pub cgroups: Option<Arc<Cgroups>>,
    /// Ranks are ended together with the agent instead of going on without it.
    pub end_ranks: bool,
}

/// Many simulated nodes in one process.
#[derive(Clone)]
pub struct FleetConfig {
    /// `HOST:PORT` of the server's agent link, or several separated by commas.
    pub server: String,
    /// Needed until every node has joined.
    pub token: Option<JoinToken>,
    /// Directory of everything kept; for one fleet only.
    pub state: PathBuf,
    /// Each node's name and what it pretends to have.
    pub nodes: Vec<(NodeName, SimConfig)>,
    /// Speed of the nodes' clock.
    pub speed: f64,
    /// Makes devices and failures repeatable.
    pub seed: u64,
    /// How supervisors are started.
    pub shim: ShimCommand,
    /// Most ranks that may run at a time on this machine; 64 for each processor when absent.
    pub most_ranks: Option<u32>,
    /// Keep one file for all nodes and no directory for each: for fleets of thousands.
    pub light: bool,
    /// Ranks are ended together with the fleet instead of going on without it.
    pub end_ranks: bool,
    /// Control groups; found out when absent.
    pub cgroups: Option<Arc<Cgroups>>,
    /// What nodes have behind them when they are switched on; when absent, what the process that
    /// hosted them before kept.
    pub past: BTreeMap<NodeName, NodeHistory>,
}

/// What the simulated nodes of a fleet say about where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimHost {
    /// What comes before a node's name in the identity of its machine, with its dash.
    pub machine: String,
    /// The operating-system instance.
    pub host: String,
    /// Address of all of them.
    pub address: String,
    /// How ranks are kept apart.
    pub isolation: String,
    /// What they can be asked for.
    pub can: BTreeSet<String>,
}

/// What the nodes of the fleet that keeps its things in `state` say about where they are.
///
/// # Errors
/// When the state directory cannot be used.
pub fn sim_host(state: &Path) -> Result<SimHost, AgentError> {
    std::fs::create_dir_all(state).map_err(AgentError::file("create", state))?;
    Ok(SimHost {
        machine: format!("{}-", identity::machine(state)?),
        host: identity::host(),
        address: SIM_ADDRESS.into(),
        isolation: RunnerTools::simulated()
            .separation()
            .in_inventory(Cgroups::detect().isolation()),
        can: SIM_CAN.map(str::to_owned).into(),
    })
}

const SIM_ADDRESS: &str = "127.0.0.1";

fn cgroups(given: Option<Arc<Cgroups>>) -> Arc<Cgroups> {
    let groups = given.unwrap_or_else(|| Arc::new(Cgroups::detect()));
    if let Some(warning) = groups.warning() {
        tracing::warn!(isolation = groups.isolation(), "{warning}");
    }
    groups
}

/// The address by which this machine reaches the server, which is how others reach it too.
fn own_address(servers: &Servers) -> String {
    let mut targets = servers.iter().flat_map(|s| s.to_socket_addrs().into_iter().flatten());
    let local = targets.find_map(|target| {
        let any = if target.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        let socket = UdpSocket::bind(any).ok()?;
        // Nothing is sent: this only asks the kernel which way it would go.
        socket.connect(target).ok()?;
        socket.local_addr().ok()
    });
    local.map_or_else(|| "127.0.0.1".into(), |a| a.ip().to_string())
}

/// Runs the agent of this machine until `shutdown`.
///
/// # Errors
/// When no server is named, the state directory cannot be used, or the server will not have this node.
pub async fn run_node(config: NodeConfig, shutdown: CancellationToken) -> Result<(), AgentError> {
    Box::pin(run_node_with(config, Hooks::default(), shutdown)).await
}

/// Runs the agent of this machine, with those who test, watch and measure it, until `shutdown`.
///
/// # Errors
/// When no server is named, the state directory cannot be used, or the server will not have this node.
pub async fn run_node_with(
    config: NodeConfig,
    hooks: Hooks,
    shutdown: CancellationToken,
) -> Result<(), AgentError> {
    let servers = Servers::parse(&config.server)?;
    let _lock = identity::lock(&config.state)?;
    let runner = RunnerConfig {
        state: config.state.clone(),
        node: config.node.clone(),
        shim: config.shim,
        cgroups: cgroups(config.cgroups),
        log_cap: LOG_CAP,
        budget: RankBudget::unlimited(),
    };
    let devices = Box::new(RealDevices::new(config.gpus, hooks));
    let body = Body::new(devices, runner, Watcher::start(), false)
        .map_err(AgentError::file("open", &config.state))?;
    let session = SessionConfig {
        machine: identity::machine(&config.state)?,
        host: identity::host(),
        place: identity::place(&config.state)?,
        address: config.address.unwrap_or_else(|| own_address(&servers)),
        servers,
        token: config.token,
        node: config.node,
        store: Store::Dir(config.state),
        dials: Arc::new(Semaphore::new(1)),
        end_ranks: config.end_ranks,
    };
    run_session(Session::new(session, body)?, shutdown).await
}

/// Runs all of one node: its connection, its lease, its ranks. A panic there is the agent's end,
/// because nobody else would keep its word to the server.
async fn run_session(session: Session, shutdown: CancellationToken) -> Result<(), AgentError> {
    let ran = muster_supervise::vital(SESSION, Box::pin(session.run(shutdown))).await;
    ran.unwrap_or_else(|said| Err(AgentError::Panicked { part: SESSION, said }))
}

/// What the task of a node is called.
const SESSION: &str = "agent-session";

/// Nodes of a fleet that may be connecting at once.
const DIALS: usize = 64;

/// Runs many simulated nodes until `shutdown`. A node that the server refuses for good ends
/// alone; the first such error is returned once all have ended.
///
/// # Errors
/// When no server is named, the state directory cannot be used, or the server will not have a node.
pub async fn run_sim_fleet(
    config: FleetConfig,
    shutdown: CancellationToken,
) -> Result<(), AgentError> {
    let servers = Servers::parse(&config.server)?;
    let _lock = identity::lock(&config.state)?;
    // Every node is a connection, and every connection a file.
    let _ = raise_open_files();
    let groups = cgroups(config.cgroups.clone());
    let machine = identity::machine(&config.state)?;
    let host = identity::host();
    // Nodes that go on with a simulated past started no processes there that another directory
    // could know of.
    let place = match config.past.is_empty() {
        true => identity::place(&config.state)?,
        false => String::new(),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most = config.most_ranks.unwrap_or(u32::try_from(cores * 64).unwrap_or(64));
    let budget = RankBudget::new(most);
    // Whatever a node was enrolled with is found again, however the fleet is kept now.
    let file = config.state.join("fleet.json");
    let shared = (config.light || file.exists()).then(|| SharedStore::open(file));
    let store_of = |node: &NodeName| {
        let dir = config.state.join(node.as_str());
        match &shared {
            Some(s) if !dir.join("node.key").exists() && (config.light || s.knows(node)) => {
                Store::Shared(s.clone(), node.clone())
            }
            _ => Store::Dir(dir),
        }
    };
    let dials = Arc::new(Semaphore::new(DIALS));
    let clock = SimClock::new(config.speed);
    let gangs = Arc::new(Gangs::default());
    let watcher = Watcher::start();
    let mut sessions = JoinSet::new();
    if let Some(shared) = &shared {
        // All keys at once, before the first node joins with its own.
        for store in config.nodes.iter().map(|(node, _)| store_of(node)) {
            if matches!(store, Store::Shared(..)) {
                store.key()?;
            }
        }
        shared.flush(false);
    }
    for (node, sim) in config.nodes {
        let state = config.state.join(node.as_str());
        if !config.light {
            RunDir(state.clone()).create().map_err(AgentError::file("create", &state))?;
        }
        let store = store_of(&node);
        let runner = RunnerConfig {
            state,
            node: node.clone(),
            shim: config.shim.clone(),
            cgroups: groups.clone(),
            log_cap: LOG_CAP,
            budget: budget.clone(),
        };
        // What ran before is found again even in a light fleet.
        let lazy = config.light && !runner.state.join("runs").exists();
        let mut simulated = Simulated::new(config.seed, sim, node.as_str(), clock, gangs.clone());
        simulated.restore_state(
            NodeStateFile::of(&config.state, &node),
            config.past.get(&node).cloned(),
        );
        let body = Body::new(Box::new(simulated), runner, watcher.clone(), lazy)
            .map_err(AgentError::file("open", &config.state))?;
        let session = SessionConfig {
            servers: servers.clone(),
            token: config.token.clone(),
            machine: format!("{machine}-{node}"),
            host: host.clone(),
            place: place.clone(),
            address: SIM_ADDRESS.into(),
            store,
            dials: dials.clone(),
            end_ranks: config.end_ranks,
            node,
        };
        sessions.spawn(Box::pin(Session::new(session, body)?.run(shutdown.clone())));
    }
    let mut first = Ok(());
    let mut save = tokio::time::interval(Duration::from_secs(5));
    loop {
        tokio::select! {
            ended = sessions.join_next() => match ended {
                None => break,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(e))) => {
                    tracing::error!(error = %e, "a node of the fleet ended");
                    if first.is_ok() {
                        first = Err(e);
                    }
                }
                Some(Err(ended)) => {
                    if let Ok(panic) = ended.try_into_panic() {
                        let said = muster_supervise::words(&*panic);
                        tracing::error!(part = SESSION, said, "a node of the fleet panicked");
                        // What starts the process again starts all of its nodes again.
                        first = Err(AgentError::Panicked { part: SESSION, said });
                        break;
                    }
                }
            },
            _ = save.tick() => if let Some(shared) = &shared { shared.flush(false) },
        }
    }
    if let Some(shared) = &shared {
        shared.flush(true);
    }
    first
}
