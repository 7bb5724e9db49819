//! What the parts that stay are asked for, and a server that was started.

use muster_agent::container::Limits;
use muster_agent::isolation::{Accounts, Isolation};
use muster_machine::{Scrub, WantOrder};
use muster_model::NodeName;
use muster_model::units::Span;
use muster_monitor::exporter::{HostnameLabel, Names};
use muster_store::StoreUrl;
use muster_terminal::fail::Fail;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What `muster server` was asked for.
#[derive(Debug, Clone)]
pub(crate) struct ServerOptions {
    pub(crate) listen: SocketAddr,
    pub(crate) link_listen: SocketAddr,
    pub(crate) data_dir: PathBuf,
    pub(crate) store: StoreUrl,
    pub(crate) topology: Option<PathBuf>,
    /// Certificate and key of the API.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// How often the network between idle nodes is tested.
    pub(crate) fabric_every: Option<Span>,
    /// How this site judges faults, where the operator has a file of verdicts.
    pub(crate) faults: Option<std::sync::Arc<muster_health::faults::Catalogue>>,
    /// What is plugged in for remediations.
    pub(crate) acts: muster_server::acts::ActsConfig,
    /// The console's name and colours.
    pub(crate) brand: muster_brand::Brand,
    /// Go by the machine's clock although it was set.
    pub(crate) accept_clock: bool,
    /// Go on in a directory that was copied or moved.
    pub(crate) accept_copy: bool,
    /// What is sent to others.
    pub(crate) outward: crate::outbound::OutboundArgs,
    /// What is kept of metrics.
    pub(crate) history: crate::history::HistoryArgs,
    /// What is indexed of job output.
    pub(crate) output_search: crate::output_search::OutputSearchArgs,
    /// What sends traces.
    pub(crate) traces: Option<std::sync::Arc<crate::traces::Traces>>,
}

/// What `muster agent` was asked for.
#[derive(Debug, Clone)]
pub(crate) struct AgentOptions {
    pub(crate) link: String,
    pub(crate) join: Option<String>,
    pub(crate) name: Option<NodeName>,
    pub(crate) address: Option<String>,
    pub(crate) data_dir: PathBuf,
    pub(crate) machine: MachineOptions,
}

/// What `muster __fleet` gets on its stdin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FleetConfig {
    /// Process that it must not outlive.
    pub(crate) parent: u32,
    /// Where agents connect to.
    pub(crate) link: SocketAddr,
    /// Join token.
    pub(crate) join: String,
    /// Names of the simulated nodes.
    pub(crate) names: Vec<NodeName>,
    /// GPUs of each.
    pub(crate) gpus_per_node: u32,
    /// So many of them, the last ones, in MIG mode.
    #[serde(default)]
    pub(crate) mig_gpus: u32,
    /// SKU of their GPUs.
    pub(crate) sku: String,
    /// Makes them repeatable.
    pub(crate) seed: u64,
    /// How fast their clock runs.
    pub(crate) speed: f64,
    /// Whether this machine is a node too.
    pub(crate) local_node: bool,
    /// Where Prometheus finds this machine's figures.
    #[serde(default)]
    pub(crate) exporter: Option<SocketAddr>,
    /// Keep next to nothing for each node: for fleets of thousands.
    #[serde(default)]
    pub(crate) light: bool,
    /// Where the agents keep their things.
    pub(crate) data_dir: PathBuf,
    /// A file with what the simulated nodes have behind them.
    #[serde(default)]
    pub(crate) past: Option<PathBuf>,
    /// The server's data directory, which no rank sees.
    #[serde(default)]
    pub(crate) server_dir: Option<PathBuf>,
}

/// A server that serves.
pub(crate) struct StartedServer {
    /// Where the API is.
    pub(crate) url: String,
    /// Where agents connect to.
    pub(crate) link: SocketAddr,
    /// File with the administrator's token.
    pub(crate) token_file: PathBuf,
    /// False when that token was revoked.
    pub(crate) token_works: bool,
    /// A join token for the fleet of this machine.
    pub(crate) join: Option<String>,
    /// Who is connected.
    pub(crate) agents: muster_server::agents::Agents,
    /// What decides; the demonstration gets the tokens of its people from it.
    pub(crate) brain: muster_server::brain::Brain,
    /// Stops the server.
    pub(crate) stop: CancellationToken,
    /// Ends when the server does.
    pub(crate) served: tokio::task::JoinHandle<Result<(), Fail>>,
}

/// How this machine is watched, tested and cleaned.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineOptions {
    pub(crate) exporter: Option<SocketAddr>,
    pub(crate) hostname_label: HostnameLabel,
    pub(crate) names: Names,
    pub(crate) every: Duration,
    /// The operator's verdicts on faults, as a file's text.
    pub(crate) faults: Option<String>,
    pub(crate) pool: String,
    pub(crate) isolation: Isolation,
    /// Which users ranks run as.
    pub(crate) accounts: Accounts,
    /// Directories that no rank sees.
    pub(crate) hidden: Vec<std::path::PathBuf>,
    pub(crate) scrub: Scrub,
    pub(crate) pull: bool,
    /// How long commands of the container runtime may take.
    pub(crate) container_limits: Limits,
    pub(crate) allow_mig: bool,
    /// What the machine must have when it is tested.
    pub(crate) want: WantOrder,
    /// The operator's bars, as a file's text.
    pub(crate) expect: Option<String>,
    /// What is done only on demand.
    pub(crate) more: muster_machine::OptionalDuties,
}
