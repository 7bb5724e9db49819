//! One build for all tests: every command names the same packages, because another choice gives
//! dependencies other features, and they are all built again.

use crate::guard::PROGRAM;
use crate::{cargo, proc, root, target_dir};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// The packages that are built and tested together. The benchmarks are not among them: nothing
/// that a change must pass needs them built. Clippy checks them, `cargo xtask soak benches` runs
/// their tests.
pub const SELECTION: &[&str] = &["--workspace", "--exclude", "muster-bench"];
/// The package whose tests run the `muster` binary: to build the ones is to build the other.
const RUNS_MUSTER: &str = "muster-cli";

/// `cargo nextest run` or, where that is not installed, `cargo test`, of the selection.
///
/// # Errors
/// When it is not installed and everything is required: without it no test has a limit.
pub fn test_command() -> Result<(Command, Runner)> {
    let runner = runner(proc::which("cargo-nextest").is_some(), muster_testkit::required())?;
    let mut command = cargo();
    match runner {
        Runner::Nextest => command.args(["nextest", "run"]).args(SELECTION),
        Runner::Libtest => command.arg("test").args(SELECTION).args(["--tests", "--no-fail-fast"]),
    };
    // Colours would be in the way of reading the counts.
    command.args(["--color", "never"]);
    Ok((command, runner))
}

fn runner(nextest: bool, required: bool) -> Result<Runner> {
    const HOW: &str = "cargo install cargo-nextest --locked";
    match (nextest, required) {
        (true, _) => Ok(Runner::Nextest),
        (false, true) => bail!("cargo-nextest is missing: {HOW}"),
        (false, false) => {
            eprintln!("cargo-nextest is missing, so no test has a limit ({HOW})");
            Ok(Runner::Libtest)
        }
    }
}

/// Who runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// One process for each test.
    Nextest,
    /// What comes with Rust.
    Libtest,
}

/// Builds all tests, and with them the `muster` binary.
pub fn tests() -> Result<()> {
    let (mut command, _) = test_command()?;
    done(command.arg("--no-run"))
}

/// The `muster` binary of that build. It is built here when it is not there or old, with the same
/// choice of packages: a moment's work after the tests.
pub fn muster() -> Result<PathBuf> {
    done(&mut binary_command())?;
    binary(RUNS_MUSTER, "muster")
}

/// The program whose cost is counted, of the same build. What is kept between compilations changes
/// the code that comes out, so it is built without, as in `.ci/run`.
pub fn guard() -> Result<PathBuf> {
    done(binary_command().env("CARGO_INCREMENTAL", "0"))?;
    binary(PROGRAM, PROGRAM)
}

fn binary(package: &str, name: &str) -> Result<PathBuf> {
    // It may be started in another directory, so the path has to be whole.
    let binary = root().join(target_dir()).join("debug").join(name);
    if !binary.is_file() {
        bail!("cargo built the tests of {package} and no {}", binary.display());
    }
    Ok(binary)
}

/// Builds the binaries that the integration tests run. All packages are named: `-p muster-cli` alone
/// would give tokio, axum and everything above them other features, and build them a second time.
fn binary_command() -> Command {
    let mut command = cargo();
    command.arg("test").args(SELECTION).args(["--test", "it", "--no-run"]);
    command
}

fn done(command: &mut Command) -> Result<()> {
    let (status, _) = proc::tee(command)?;
    if !status.success() {
        bail!("it does not compile");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_nextest_nothing_is_tested_where_everything_is_required() {
        assert_eq!(runner(true, true).unwrap(), Runner::Nextest);
        assert_eq!(runner(false, false).unwrap(), Runner::Libtest);
        let why = runner(false, true).unwrap_err().to_string();
        assert!(why.contains("cargo install cargo-nextest"), "{why}");
    }

    #[test]
    fn the_binary_is_built_from_the_same_packages_as_the_tests() {
        let given: Vec<_> = binary_command().get_args().map(|a| a.to_owned()).collect();
        assert!(given.windows(SELECTION.len()).any(|w| w == SELECTION), "{given:?}");
    }
}
