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
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Set by the outer `cargo run` for the package that it runs. An inner cargo would believe it is a
/// build script's; and build scripts that look at them (ring's does) would run again, with all that
/// depends on them, whenever this and a plain cargo take turns.
fn is_of_a_package(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Where cargo puts what it builds.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cargo_that_we_start_knows_nothing_of_the_package_that_we_are() {
        // Cargo sets these for every test, as it does for what it runs.
        assert!(std::env::vars_os().any(|(name, _)| is_of_a_package(&name)));
        let command = cargo();
        let removed: Vec<_> =
            command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_package(name)) {
            assert!(removed.contains(&name.as_os_str()), "{}", name.display());
        }
        assert!(!is_of_a_package("CARGO_TARGET_DIR".as_ref()));
        assert!(!is_of_a_package("CARGO_HOME".as_ref()));
    }

    #[test]
    fn the_page_of_what_works_counts_its_own_rows() {
        let page = std::fs::read_to_string(root().join("docs/capabilities.md")).expect("a page");
        let states: Vec<&str> = page
            .lines()
            .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
            .filter(|cells| cells.len() > 4 && cells[1].ends_with(|c: char| c.is_ascii_digit()))
            .map(|cells| cells[3])
            .collect();
        let count = |state: &str| states.iter().filter(|s| **s == state).count();
        let [works, part, not_yet] = ["**works**", "part", "not yet"].map(count);
        assert_eq!(works + part + not_yet, states.len(), "{states:?}");
        let said = format!(
            "Of {} requirements {works} work, {part} work in part, and {not_yet} are not there yet.",
            states.len()
        );
        assert!(page.contains(&said), "it should say: {said}");
    }
}
