//! Installs what is missing, and says so.

use crate::proc::{check, is_root, which};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

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

/// What the tests run against, by the program that shows it is there, with Debian's package: the
/// exporter is scraped by a real Prometheus, containers are run by real runtimes, links are made
/// slow by the kernel. PostgreSQL is not here: [`crate::postgres::ForTests`] installs it.
const PARTS: &[(&str, &str)] = &[
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("prometheus-alertmanager", "prometheus-alertmanager"),
    ("podman", "podman"),
    ("runc", "runc"),
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    (BUSYBOX, "busybox-static"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("nft", "nftables"),
    ("setpriv", "util-linux"),
    ("fsfreeze", "util-linux"),
    ("mkfs.ext4", "e2fsprogs"),
    ("script", "bsdutils"),
    ("python3", "python3"),
    ("cc", "gcc"),
    ("valgrind", "valgrind"),
];

/// Images of the tests hold nothing else, so it has to be one that needs no library.
const BUSYBOX: &str = "busybox";

fn is_there(program: &str) -> bool {
    if program == BUSYBOX { muster_testkit::busybox().is_some() } else { which(program).is_some() }
}

/// The packages of what is not there, each once.
fn missing(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let absent = PARTS.iter().filter(|(program, _)| !is_there(program));
    let packages: BTreeSet<&str> = absent.map(|(_, package)| *package).collect();
    packages.into_iter().collect()
}

/// Installs what the tests run against. Where that fails, it is an error in CI, whose tests would
/// fail one by one without it, and elsewhere a warning: the tests say that they were skipped.
pub fn components() -> Result<()> {
    let packages = missing(is_there);
    if packages.is_empty() {
        return Ok(());
    }
    let installed = apt(&packages).and_then(|()| match missing(is_there)[..] {
        [] => Ok(()),
        ref left => bail!("{}: installed, and its programs are not found", left.join(" ")),
    });
    match installed {
        Err(error) if !muster_testkit::required() => {
            eprintln!("warning: some tests will be skipped: {error:#}");
            Ok(())
        }
        done => done.context("the tests need it (CI or MUSTER_TEST_REQUIRE_ALL is set)"),
    }
}

/// Whether a program is there, after it was installed where it was not. Where that fails, it is an
/// error in CI, and elsewhere a warning.
pub fn program(name: &str, package: &str) -> Result<bool> {
    if which(name).is_some() {
        return Ok(true);
    }
    let installed = apt(&[package]).and_then(|()| match which(name) {
        Some(_) => Ok(()),
        None => bail!("{package}: installed, and {name} is not found"),
    });
    match installed {
        Err(error) if !muster_testkit::required() => {
            eprintln!("warning: {error:#}");
            Ok(false)
        }
        done => done.map(|()| true).context("it is needed (CI or MUSTER_TEST_REQUIRE_ALL is set)"),
    }
}

/// Installs Debian packages; needs root.
pub fn apt(packages: &[&str]) -> Result<()> {
    // Parts of the suite run beside each other, and dpkg serves one at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let list = packages.join(" ");
    if !is_root() || which("apt-get").is_none() {
        bail!("{list}: missing, and only root can install it here (apt-get install {list})");
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_installed_once_for_all_its_programs_that_are_missing() {
        assert_eq!(missing(|_| true), [""; 0]);
        assert_eq!(missing(|p| p != "ip" && p != "tc"), ["iproute2"]);
        assert_eq!(missing(|p| p != "promtool" && p != "nft"), ["nftables", "prometheus"]);
        assert!(missing(|_| false).contains(&"busybox-static"));
    }
}
