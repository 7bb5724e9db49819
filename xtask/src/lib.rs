//! The project's own chores, and the means they share with the benchmarks: processes that are
//! stopped again whatever happens, a temporary PostgreSQL, a temporary site.

pub mod bench;
mod bench_build;
mod bench_stale;
pub mod built;
pub mod fuzz;
pub mod guard;
pub mod install;
pub mod junit;
pub mod layers;
pub mod machine;
pub mod postgres;
pub mod proc;
mod progress;
pub mod site;
pub mod skips;
pub mod soak;
pub mod suite;
mod tee;
pub mod web;
pub mod words;

use std::path::PathBuf;

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    // Cargo says at run time where the manifest is; the path baked in at build time may belong
    // to another clone that shares the target directory.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), std::path::Path::to_path_buf)
}

/// The cargo that runs us.
#[must_use]
pub fn cargo() -> std::process::Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(program);
    command.current_dir(root());
    // Set by the outer `cargo run`; would make an inner cargo believe it is a build script's.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(name);
    }
    command
}

/// Where cargo puts what it builds.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
