//! The agent of a node: inventory, running ranks, logs, progress reporting.

mod acts;
mod body;
pub mod cgroup;
mod clock;
pub mod container;
mod devices;
mod env;
mod error;
mod fabric;
pub mod hooks;
mod hostlist;
mod hosts;
mod identity;
pub mod inventory;
pub mod isolation;
mod lease;
mod logs;
mod process;
mod progress;
mod rank_file;
mod real;
mod run_dir;
pub mod runner;
mod secrets;
mod session;
pub mod shim;
mod signals;
mod simulated;
mod tester;
#[doc(hidden)]
pub mod testing;
mod trash;
mod watch;

pub use error::AgentError;
pub use hooks::Hooks;
pub use hosts::{
    FleetConfig, LOG_CAP, NodeConfig, SimHost, run_node, run_node_with, run_sim_fleet, sim_host,
};
pub use lease::BootTime;
