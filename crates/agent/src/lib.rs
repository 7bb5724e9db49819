//! A node's eyes and hands: inventory, running ranks, logs, the job's voice.

pub mod cgroup;
mod env;
mod hostlist;
mod logs;
mod process;
mod run_dir;
pub mod runner;
pub mod shim;
#[doc(hidden)]
pub mod testing;
mod voice;
mod watch;
