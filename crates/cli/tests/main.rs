//! Every integration test of the crate in one program: it is linked once.

mod agent_local;
mod crash;
mod demo;
mod export;
mod fabric;
mod first_minutes;
mod gameday;
mod hardware;
mod history;
mod minutes;
mod output_search;
mod panics;
mod policy;
mod report;
mod sim;
mod slurm_script;
/// A SQLite file, or a database on a real PostgreSQL server.
#[path = "../../store/tests/common/mod.rs"]
mod stores;
mod straggler;
mod top;
mod traces;
mod verbs;

use std::process::{Child, Command};

/// The muster binary: the one of this build, or the one that `MUSTER_BIN` names where this program
/// was copied to another machine.
fn muster_binary() -> std::path::PathBuf {
    let named = std::env::var_os("MUSTER_BIN").filter(|path| !path.is_empty());
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_muster").into()).into()
}

/// A command of it, without the settings of whoever runs the tests.
fn muster() -> Command {
    let mut command = Command::new(muster_binary());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|n| n.starts_with("MUSTER_")) {
            command.env_remove(name);
        }
    }
    command
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
