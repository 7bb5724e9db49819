//! Installs what is missing, and says so.

use crate::proc::{check, is_root, which};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// What the peers of the submit benchmark need.
pub const SLURM_PACKAGES: &[&str] = &[
    "slurmctld",
    "slurmd",
    "slurmrestd",
    "slurm-client",
    "munge",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-jwt-plugin",
];

/// What the tests run against, by the program that shows it is there: the exporter is scraped by a
/// real Prometheus, containers are run by real runtimes.
const PARTS: &[(&str, &[&str])] = &[
    ("prometheus", &["prometheus"]),
    ("prometheus-alertmanager", &["prometheus-alertmanager"]),
    ("podman", &["podman", "runc"]),
    ("ctr", &["containerd"]),
];

/// Installs what the tests run against. Where that cannot be, they say that they were skipped.
pub fn parts() {
    let missing = PARTS.iter().filter(|(program, _)| which(program).is_none());
    let packages: Vec<&str> = missing.flat_map(|(_, packages)| *packages).copied().collect();
    if packages.is_empty() {
        return;
    }
    if let Err(error) = apt(&packages) {
        eprintln!("warning: some tests will be skipped: {error:#}");
    }
}

/// Installs Debian packages; needs root.
pub fn apt(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !is_root() || which("apt-get").is_none() {
        bail!("{list}: missing, and only root can install it here (apt-get install {list})");
    }
    eprintln!("installing {list} (apt-get)");
    check(Command::new("apt-get").args(["update", "-qq"]))?;
    check(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "-q", "--no-install-recommends"])
            .args(packages),
    )?;
    Ok(())
}

/// The API fuzzer, in its own virtual environment under the target directory.
pub fn schemathesis() -> Result<PathBuf> {
    let venv = crate::target_dir().join("venv");
    let program = venv.join("bin/st");
    if program.is_file() {
        return Ok(program);
    }
    if which("python3").is_none() || !has_venv() {
        apt(&["python3", "python3-venv"])?;
    }
    eprintln!("installing schemathesis (pip, into {})", venv.display());
    check(Command::new("python3").args(["-m", "venv"]).arg(&venv))
        .context("cannot make a virtual environment")?;
    check(Command::new(venv.join("bin/pip")).args(["-q", "install", "schemathesis>=4.32,<5"]))
        .context("cannot install schemathesis")?;
    Ok(program)
}

fn has_venv() -> bool {
    check(Command::new("python3").args(["-c", "import venv, ensurepip"])).is_ok()
}
