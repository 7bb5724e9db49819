//! `muster up`.

use super::server::{Place, Ways};
use crate::options::ServerOptions;
use crate::traces::Traces;
use crate::up::UpOptions;
use clap::Args;
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
--demo simulates seven days of 64 nodes (the same engine, in virtual time): seconds on an idle\n\
machine, a minute or two on a busy one. Then it continues from there: tenants, faults, repairs,\n\
a rollout and an open incident. It has a data directory of its own, and the same seed gives the\n\
same history.\n\n\
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
    /// So many of them, the last ones, in MIG mode: they are allocated in slices only
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    mig_gpus: u32,
    /// SKU of their GPUs
    #[arg(long, default_value = "h100-sxm")]
    sku: String,
    /// Their topology, from a file instead of the usual tree
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
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
    #[command(flatten)]
    pub(crate) ways: Ways,
}

fn speed(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|x: &f64| x.is_finite() && *x > 0.0 && *x <= 100_000.0)
        .ok_or_else(|| "write a number above 0, at most 100000".into())
}

impl Up {
    pub(crate) async fn run(self, ctx: &Ctx, sent: Option<Arc<Traces>>) -> Result<u8, Fail> {
        let Up { demo, mut place, topology, .. } = self;
        // A demonstration never mixes with somebody's own site.
        place.data_dir = place.data_dir.or_else(|| demo.then(config::demo_data_dir));
        crate::up::run(UpOptions {
            nodes: self.nodes,
            gpus_per_node: self.gpus_per_node,
            mig_gpus: self.mig_gpus,
            sku: self.sku,
            seed: self.seed,
            demo,
            speed: self.speed,
            context: config::user_config(&ctx.global).filter(|_| !self.no_context),
            // Its nodes are all simulated.
            local_node: !self.no_local_node && !demo,
            exporter: self.exporter,
            server: ServerOptions { topology, ..place.options(self.ways, ctx, sent)? },
        })
        .await
    }
}
