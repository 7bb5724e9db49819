//! cargo-deny by `deny.toml`. Every change is checked by the same file without it (`cargo xtask layers`): it
//! takes minutes to build, and needs a database that a machine may be unable to fetch.

use super::Outcome;
use crate::{cargo, proc, target_dir};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// What needs nothing that is not in the repository.
const ALWAYS: [&str; 3] = ["bans", "licenses", "sources"];

/// Installs it where it is missing, and runs it.
pub(super) fn check() -> Result<Outcome> {
    let program = installed()?;
    let advisories = has_database();
    let mut command = std::process::Command::new(&program);
    command.current_dir(crate::root()).args(["--offline", "check"]).args(ALWAYS);
    if advisories {
        command.arg("advisories");
    }
    let (status, _) = proc::tee(&mut command)?;
    if !status.success() {
        return Ok(Err("a dependency is not allowed by deny.toml".into()));
    }
    let checked = ALWAYS.join(", ");
    Ok(Ok(if advisories {
        format!("{checked} and advisories")
    } else {
        format!("{checked}; no advisories: `cargo deny fetch db` brings their database")
    }))
}

fn installed() -> Result<PathBuf> {
    if let Some(there) = proc::which("cargo-deny") {
        return Ok(there);
    }
    let tools = target_dir().join("tools");
    let program = tools.join("bin/cargo-deny");
    if !program.is_file() {
        eprintln!("installing cargo-deny (cargo, into {})", tools.display());
        let mut command = cargo();
        command.args(["install", "--locked", "cargo-deny", "--root"]).arg(&tools);
        proc::check(&mut command).context("cannot install cargo-deny")?;
    }
    Ok(program)
}

fn has_database() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    home.is_some_and(|home| home.join("advisory-dbs").is_dir())
}
