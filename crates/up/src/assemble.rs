//! Where the parts that stay are put together: the server, the fleet of this machine, the agent.

use crate::options::{AgentOptions, FleetConfig, MachineOptions, ServerOptions, StartedServer};
use muster_agent::container::{Containers, Pull};
use muster_agent::inventory::GpuSource;
use muster_agent::isolation::Abilities;
use muster_agent::runner::{RunnerTools, ShimCommand};
use muster_link::token::JoinToken;
use muster_machine::TestOrder;
use muster_model::names::NodeName;
use muster_model::qualification::Level;
use muster_model::topology::Topology;
use muster_model::units::Span;
use muster_monitor::exporter::PageConfig;
use muster_serve::{ServeError, Server, ServerConfig, TlsFiles, Waiting};
use muster_simnode::SimConfig;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The GPUs of this machine, by way of the NVIDIA driver; none where there is no driver.
struct NvidiaGpus;

impl GpuSource for NvidiaGpus {
    fn gpus(&self) -> Vec<muster_model::node::Gpu> {
        muster_gpu::nvidia().gpus
    }

    fn versions(&self) -> std::collections::BTreeMap<String, String> {
        muster_gpu::nvidia().versions
    }
}

impl MachineOptions {
    /// Puts everything together that watches, tests and cleans this machine.
    fn start(self, node: &NodeName, dir: &Path) -> Result<muster_machine::Machine, Fail> {
        let page = |addr| {
            let mut page = PageConfig::new(node.as_str());
            page.hostname_label = self.hostname_label;
            page.names = self.names;
            (addr, page)
        };
        let pull = if self.pull { Pull::Missing } else { Pull::Never };
        let runner_tools = RunnerTools {
            isolation: self.isolation,
            abilities: Abilities::of_this_process(&self.accounts),
            accounts: self.accounts,
            hidden: self.hidden,
            containers: Arc::new(Containers::new(pull).with_limits(self.container_limits)),
            ..RunnerTools::default()
        };
        let mut test = TestOrder::of(Level::Quick);
        test.dir = dir.to_path_buf();
        test.want = self.want;
        test.expect = self.expect;
        let options = muster_machine::Options {
            every: self.every,
            exporter: self.exporter.map(page),
            pool: self.pool,
            faults: self.faults,
            dirs: vec![dir.to_path_buf()],
            scrub: self.scrub,
            cut: self.allow_mig,
            test,
            runner_tools,
        };
        let machine =
            muster_machine::start_with(options, self.more).map_err(|e| Fail::failed(chain(&e)))?;
        if let Some(exporter) = &machine.exporter {
            tracing::info!(addr = %exporter.addr(), "metrics for Prometheus");
        }
        Ok(machine)
    }
}

/// How long the fleet of this machine may take to join with its token.
const JOIN: Span = Span::mins(30);

fn chain(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(s) = source {
        text.push_str(&format!(": {s}"));
        source = s.source();
    }
    text
}

/// Reads a topology file.
pub(crate) fn topology_file(path: &Path) -> Result<Topology, Fail> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Fail::usage(format!("cannot read {}: {e}", path.display())))?;
    muster_specs::topology::parse(&text, &path.display().to_string()).map_err(|e| {
        let fail = Fail::usage(&e);
        match e.hint.clone() {
            Some(h) => fail.hint(h),
            None => fail,
        }
    })
}

/// Starts the server and returns once it serves.
pub(crate) async fn start_server(
    options: &ServerOptions,
    topology: Option<Topology>,
    with_fleet: bool,
) -> Result<StartedServer, Fail> {
    let mut config = ServerConfig::new(options.data_dir.clone());
    config.store = options.store.clone();
    config.listen = options.listen;
    config.link_listen = options.link_listen;
    config.topology = topology;
    config.tls = options.tls.clone().map(|(cert, key)| TlsFiles { cert, key });
    config.fabric_every = options.fabric_every;
    config.policy.faults.clone_from(&options.faults);
    config.acts = options.acts.clone();
    config.brand = options.brand.clone();
    config.accept_clock = options.accept_clock;
    config.accept_copy = options.accept_copy;
    config.remote = options.outward.remote();
    config.open_metrics = options.outward.open_metrics();
    config.history = options.history.is_on();
    config.history_bytes = options.history.bytes();
    config.output_search = options.output_search.switch();
    config.output_search_bytes = options.output_search.bytes();
    if let Some(traces) = &options.traces {
        config.traces = muster_server::trace::Traces::to(traces.clone());
    }
    config.tune_from_environment();
    let mut announced = false;
    let waits = move |what: Waiting<'_>| match what {
        Waiting::DataDir(dir) => output::note(&format!(
            "waiting up to 30 s: the server before this one still holds {}",
            dir.display()
        )),
        Waiting::Lead(holder) if !announced => {
            output::note(&format!("standing by: {holder} leads; waiting for its lease to end"));
            announced = true;
        }
        Waiting::Lead(_) => {}
    };
    let server = Server::start(config, waits).await.map_err(|e| {
        let fail = Fail::failed(chain(&e));
        match e {
            ServeError::Io { .. } => fail.hint("`muster doctor` searches for the cause"),
            _ => fail,
        }
    })?;
    let join = match with_fleet {
        true => {
            Some(server.join_token(JOIN).await.map_err(|e| Fail::failed(chain(&e)))?.to_string())
        }
        false => None,
    };
    let url = server.url();
    let link = server.link_listen;
    let (token_file, token_works) = (server.admin_token.clone(), server.admin_token_works);
    let agents = server.agents.clone();
    let brain = server.brain.clone();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let served = tokio::spawn(async move {
        let lost = tokio::select! {
            () = lead_lost(server.brain.over()) => true,
            () = stopped.cancelled() => false,
        };
        server.stop().await;
        if lost {
            let why = server.brain.down().unwrap_or_else(|| "another one has taken over".into());
            return Err(Fail::failed(format!("this server no longer leads: {why}"))
                .hint("start it again; it waits for its turn"));
        }
        Ok(())
    });
    Ok(StartedServer { url, link, token_file, token_works, join, agents, brain, stop, served })
}

async fn lead_lost(mut over: tokio::sync::watch::Receiver<bool>) {
    let _ = over.wait_for(|gone| *gone).await;
}

/// Runs the simulated nodes and the local agent until they end.
pub(crate) async fn run_fleet(config: FleetConfig) -> Result<(), Fail> {
    let token: JoinToken = config.join.parse().map_err(Fail::usage)?;
    let shim = ShimCommand::this_executable();
    let sku = config.sku.parse().map_err(Fail::usage)?;
    let mut sim = SimConfig::default();
    sim.sku = sku;
    sim.gpus = config.gpus_per_node;
    sim.mig_gpus = config.mig_gpus.min(config.gpus_per_node);
    let shutdown = CancellationToken::new();
    let fleet = muster_agent::FleetConfig {
        server: config.link.to_string(),
        token: Some(token.clone()),
        state: config.data_dir.join("simulated"),
        nodes: config.names.into_iter().map(|n| (n, sim.clone())).collect(),
        speed: config.speed,
        seed: config.seed,
        shim: shim.clone(),
        most_ranks: None,
        light: config.light,
        end_ranks: false,
        cgroups: None,
        past: crate::demo::past(config.past.as_deref()),
    };
    let none = fleet.nodes.is_empty();
    let simulated = async {
        // A fleet without nodes would end at once, and this process with it.
        if none {
            return std::future::pending().await;
        }
        muster_agent::run_sim_fleet(fleet, shutdown.clone()).await
    };
    let local = async {
        if !config.local_node {
            return std::future::pending().await;
        }
        let (name, dir) = (own_name()?, config.data_dir.join("local"));
        let (exporter, every) = (config.exporter, Duration::from_secs(1));
        let hidden = config.server_dir.into_iter().collect();
        let options = MachineOptions { exporter, every, hidden, ..MachineOptions::default() };
        let machine = options.start(&name, &dir)?;
        let node = muster_agent::NodeConfig {
            server: config.link.to_string(),
            token: Some(token),
            node: name,
            state: dir,
            address: None,
            shim,
            gpus: Arc::new(NvidiaGpus),
            cgroups: None,
            end_ranks: false,
        };
        let hooks = machine.hooks.clone();
        muster_agent::run_node_with(node, hooks, shutdown.clone())
            .await
            .map_err(|e| Fail::failed(chain(&e)))
    };
    tokio::select! {
        r = simulated => r.map_err(|e| Fail::failed(chain(&e))),
        r = local => r,
    }
}

/// Runs this machine's agent until it ends.
pub(crate) async fn run_agent(options: AgentOptions) -> Result<(), Fail> {
    let AgentOptions { link, join, name, address, data_dir, machine } = options;
    let token = join.map(|t| t.parse::<JoinToken>().map_err(Fail::usage)).transpose()?;
    let node = match name {
        Some(n) => n,
        None => own_name()?,
    };
    let shim = ShimCommand::this_executable();
    let machine = machine.start(&node, &data_dir)?;
    let config = muster_agent::NodeConfig {
        server: link,
        token,
        node,
        state: data_dir,
        address,
        shim,
        gpus: Arc::new(NvidiaGpus),
        cgroups: None,
        end_ranks: false,
    };
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        muster_terminal::shutdown_signal().await;
        stop.cancel();
    });
    let hooks = machine.hooks.clone();
    muster_agent::run_node_with(config, hooks, shutdown).await.map_err(|e| Fail::failed(chain(&e)))
}

/// This machine's name as a node: its host name, with what a node name cannot hold replaced.
fn own_name() -> Result<NodeName, Fail> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let text: String = host.chars().map(|c| if ok(c) { c } else { '-' }).collect();
    let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let text = if text.is_empty() { "local" } else { text };
    text.parse().map_err(|e| Fail::usage(format!("{e}")).hint("choose a name with --name"))
}
