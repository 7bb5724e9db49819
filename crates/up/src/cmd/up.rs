//! `muster up`.

use crate::traces::Traces;
use crate::up::UpOptions;
use clap::Args;
use muster_store::StoreUrl;
use muster_terminal::config;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Start a cluster on this machine: server, store, simulated nodes, its own GPUs
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster up\n  muster up --nodes 64 --sku h100-sxm\n  muster up --topology site.toml --seed 7\n  \
muster up --nodes 0 --data-dir ./data    this machine only\n  \
muster up --demo                         a fleet with a week of history\n  \
muster up --demo --seed 7 --data-dir ./seven    another history\n\n\
--demo simulates seven days of 64 nodes in some seconds (the same engine, in virtual\n\
time) and then continues from there: tenants, faults, repairs, a rollout and an open incident.\n\
 It has a data directory of its own, and the same seed gives the same history.\n\n\
Programs continue while it is stopped, simulated workloads start anew; with the same data\n\
directory it resumes where it was."
)]
pub struct Up {
    /// A fleet with a week of jobs, faults and repairs, and an incident in progress
    #[arg(long, conflicts_with_all = ["nodes", "gpus_per_node", "mig_gpus", "sku", "topology", "speed"])]
    demo: bool,
    /// Simulated nodes
    #[arg(long, default_value_t = 16, value_name = "N")]
    nodes: u32,
    /// GPUs of each
    #[arg(long, default_value_t = 8, value_name = "G", value_parser = clap::value_parser!(u32).range(0..=64))]
    gpus_per_node: u32,
    /// So many of them, the last ones, in MIG mode: they are given away in slices only
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    mig_gpus: u32,
    /// SKU of their GPUs
    #[arg(long, default_value = "h100-sxm")]
    sku: String,
    /// Their topology, from a file instead of the usual tree
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Address of the API and the web page
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDR")]
    listen: SocketAddr,
    /// Address that agents connect to
    #[arg(long, default_value = "127.0.0.1:7071", value_name = "ADDR")]
    link_listen: SocketAddr,
    /// Where everything is stored [default: the user's data directory]
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where the log is stored [default: sqlite:DATA_DIR/muster.db]
    #[arg(long, env = "MUSTER_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<StoreUrl>,
    /// Makes the simulated nodes, and the history of --demo, repeatable [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How fast the simulated nodes' clock runs
    #[arg(long, default_value_t = 1.0, value_name = "X", value_parser = speed)]
    speed: f64,
    /// Leave the user's settings alone
    #[arg(long)]
    no_context: bool,
    /// Do not make this machine a node
    #[arg(long)]
    no_local_node: bool,
    /// Serve this machine's metrics to Prometheus here, such as 127.0.0.1:9400
    #[arg(long, value_name = "ADDR")]
    exporter: Option<SocketAddr>,
    /// What the web console is called and looks like: a file with [brand]
    #[arg(long, env = "MUSTER_BRAND", value_name = "FILE")]
    brand: Option<PathBuf>,
    /// Trust this machine's clock although it was set since it started: limits and expiries move with it
    #[arg(long)]
    accept_clock: bool,
    /// Continue in a data directory that was copied or moved: nothing uses the one that it comes from any more
    #[arg(long)]
    accept_copy: bool,
    #[command(flatten)]
    outward: crate::outward::OutboundArgs,
    #[command(flatten)]
    history: crate::history::HistoryArgs,
    #[command(flatten)]
    output_search: crate::output_search::OutputSearchArgs,
    #[command(flatten)]
    pub(crate) traces: crate::traces::TraceArgs,
}

fn speed(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|x: &f64| x.is_finite() && *x > 0.0 && *x <= 100_000.0)
        .ok_or_else(|| "write a number above 0, at most 100000".into())
}

impl Up {
    pub(crate) async fn run(self, ctx: &Ctx, sent: Option<Arc<Traces>>) -> Result<u8, Fail> {
        let Up {
            demo,
            nodes,
            gpus_per_node,
            mig_gpus,
            sku,
            topology,
            listen,
            link_listen,
            data_dir,
            store,
            seed,
            speed,
            no_context,
            no_local_node,
            exporter,
            brand,
            accept_clock,
            accept_copy,
            outward,
            history,
            output_search,
            traces: _,
        } = self;
        let brand = crate::brand::load(&ctx.global, brand.as_deref())?;
        // A demonstration never mixes with somebody's own site.
        let own = demo.then(config::demo_data_dir);
        let data_dir = config::data_dir(data_dir.or(own))?;
        let store = store.unwrap_or_else(|| StoreUrl::in_data_dir(&data_dir));
        crate::up::run(UpOptions {
            nodes,
            gpus_per_node,
            mig_gpus,
            sku,
            topology,
            listen,
            link_listen,
            data_dir,
            store,
            seed,
            demo,
            speed,
            context: config::user_config(&ctx.global).filter(|_| !no_context),
            // Its nodes are all simulated.
            local_node: !no_local_node && !demo,
            exporter,
            brand,
            accept_clock,
            accept_copy,
            outward,
            history,
            output_search,
            traces: sent,
        })
        .await
    }
}
