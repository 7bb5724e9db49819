//! What this node can run containers with.

use muster_supervise::output_within;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Whether images are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pull {
    /// Only images that are on the node are run.
    #[default]
    Never,
    /// One that is missing is fetched first.
    Missing,
}

/// What runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Podman,
    Containerd,
}

/// What runs containers, and how it is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runtime {
    pub(crate) kind: Kind,
    /// Program and options before every command.
    pub(crate) words: Vec<String>,
    /// How long its commands may take.
    pub(crate) limits: Limits,
}

/// How long the commands of a container runtime may take. One that takes longer is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// To look something up.
    pub look_up: Duration,
    /// To fetch an image.
    pub fetch: Duration,
    /// To start the containers of a slot, once their images are there.
    pub start: Duration,
    /// To end a container and to remove it.
    pub remove: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            look_up: Duration::from_secs(60),
            // Images of hundred gigabytes come through a busy network.
            fetch: Duration::from_secs(2 * 60 * 60),
            // A large image may have to be unpacked, or its files be given to another user.
            start: Duration::from_secs(10 * 60),
            remove: Duration::from_secs(60),
        }
    }
}

impl Runtime {
    /// One that is called so, with the usual limits.
    pub(super) fn new(kind: Kind, words: Vec<String>) -> Runtime {
        Runtime { kind, words, limits: Limits::default() }
    }

    /// Whether it can run a container as a user of our choice. `ctr` learnt that late.
    ///
    /// # Errors
    /// It does not answer now.
    fn knows_users(&self) -> Result<bool, String> {
        if self.kind == Kind::Podman {
            return Ok(true);
        }
        let mut help = muster_supervise::foreign(&self.words[0]);
        let unknown = |why: &dyn std::fmt::Display| {
            format!("{} cannot be asked what it can do: `run --help`: {why}", self.words[0])
        };
        let help = help.args(["run", "--help"]);
        let said = output_within(help, self.limits.look_up).map_err(|e| unknown(&e))?;
        // Who fails has not said that it cannot.
        if !said.status.success() {
            return Err(unknown(&said.status));
        }
        Ok(String::from_utf8_lossy(&said.stdout).contains("--user "))
    }
}

/// How a node runs containers.
#[derive(Debug, Default)]
pub struct Containers {
    pull: Pull,
    limits: Limits,
    /// Looked for once.
    runtime: OnceLock<Option<Runtime>>,
    /// Whether the runtime knows users, once it has said so.
    users: OnceLock<bool>,
}

/// Where containerd listens unless configured otherwise.
const CONTAINERD: &str = "/run/containerd/containerd.sock";

impl Containers {
    /// With the node's own runtime: podman, or containerd where there is none.
    #[must_use]
    pub fn new(pull: Pull) -> Containers {
        Containers { pull, ..Containers::default() }
    }

    /// With the containerd that listens at a socket.
    #[must_use]
    pub fn containerd(pull: Pull, socket: &Path) -> Containers {
        Containers { pull, runtime: OnceLock::from(containerd(socket)), ..Containers::default() }
    }

    /// On a node without a runtime.
    #[must_use]
    pub fn none() -> Containers {
        Containers { runtime: OnceLock::from(None), ..Containers::default() }
    }

    /// With a podman that nobody looks for.
    #[cfg(test)]
    pub(super) fn with_podman() -> Containers {
        Containers::podman(Pull::Never, vec!["podman".to_owned()])
    }

    /// With the podman that these words call: its program, and options before every command.
    #[must_use]
    pub fn podman(pull: Pull, words: Vec<String>) -> Containers {
        let podman = Runtime::new(Kind::Podman, words);
        Containers { pull, runtime: OnceLock::from(Some(podman)), ..Containers::default() }
    }

    /// With other limits than the usual ones.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Containers {
        let Containers { pull, runtime, users, .. } = self;
        let limited = |found: Option<Runtime>| found.map(|r| Runtime { limits, ..r });
        let runtime =
            runtime.into_inner().map_or_else(OnceLock::new, |r| OnceLock::from(limited(r)));
        Containers { pull, limits, runtime, users }
    }

    /// Whether images are fetched.
    #[must_use]
    pub fn pull(&self) -> Pull {
        self.pull
    }

    /// How the runtime is called: its program, and options before every command.
    ///
    /// # Errors
    /// When there is none, with what to install.
    pub fn command(&self) -> Result<&[String], String> {
        self.runtime().map(|r| &r.words[..])
    }

    pub(crate) fn runtime(&self) -> Result<&Runtime, String> {
        let found = self.runtime.get_or_init(|| {
            let found = podman().or_else(|| containerd(CONTAINERD.as_ref()));
            found.map(|r| Runtime { limits: self.limits, ..r })
        });
        found.as_ref().ok_or_else(|| {
            "this node cannot run containers: install podman and runc, or leave `image` out".into()
        })
    }

    /// Whether containers can be run as a user of our choice.
    ///
    /// # Errors
    /// When there is no runtime, with what to install, or it does not answer.
    pub fn knows_users(&self) -> Result<bool, String> {
        if let Some(knows) = self.users.get() {
            return Ok(*knows);
        }
        let knows = self.runtime()?.knows_users()?;
        Ok(*self.users.get_or_init(|| knows))
    }

    /// Whether [`Containers::knows_users`] has to run a program to know that.
    pub(crate) fn must_be_asked(&self) -> bool {
        let asks = self.runtime().is_ok_and(|r| r.kind == Kind::Containerd);
        asks && self.users.get().is_none()
    }

    pub(crate) fn remove_all(&self, names: &[String]) -> Result<(), String> {
        super::remove_all(self.runtime()?, names)
    }
}

fn podman() -> Option<Runtime> {
    let podman = which("podman")?.display().to_string();
    // The slot's groups are ours, not systemd's. Of the low-level runtimes only runc works on
    // hosts with control groups of both versions.
    let mut words = vec![podman, "--cgroup-manager=cgroupfs".to_owned()];
    if let Some(runc) = which("runc") {
        words.extend(["--runtime".to_owned(), runc.display().to_string()]);
    }
    Some(Runtime::new(Kind::Podman, words))
}

fn containerd(socket: &Path) -> Option<Runtime> {
    let ctr = which("ctr").filter(|_| socket.exists())?;
    let words =
        vec![ctr.display().to_string(), "--address".to_owned(), socket.display().to_string()];
    Some(Runtime::new(Kind::Containerd, words))
}

fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let dirs = std::env::split_paths(&path).chain(usual.map(PathBuf::from));
    dirs.map(|d| d.join(name)).find(|p| p.is_file())
}

/// Where the devices of containers are described.
const CDI: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// Whether NVIDIA's GPUs are described for containers on this node.
pub(super) fn gpus_described() -> bool {
    CDI.iter().any(|dir| described_in(Path::new(dir)))
}

fn described_in(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.path()).any(|p| {
        let known = p.extension().is_some_and(|e| e == "json" || e == "yaml" || e == "yml");
        known && std::fs::read_to_string(&p).is_ok_and(|t| t.contains("nvidia.com/gpu"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_of_gpus_is_found_by_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!described_in(dir.path()));
        std::fs::write(dir.path().join("net.yaml"), "kind: example.com/net").unwrap();
        std::fs::write(dir.path().join("notes.txt"), "nvidia.com/gpu").unwrap();
        assert!(!described_in(dir.path()));
        std::fs::write(dir.path().join("nvidia.yaml"), "kind: nvidia.com/gpu").unwrap();
        assert!(described_in(dir.path()));
    }

    #[test]
    fn a_runtime_that_fails_is_asked_again_what_it_can_do() {
        // A shell runs no file called `run`.
        let fails = Runtime::new(Kind::Containerd, vec!["/bin/sh".into()]);
        let runtime = OnceLock::from(Some(fails));
        let containers = Containers { runtime, ..Containers::default() };
        let why = containers.knows_users().unwrap_err();
        assert!(why.contains("`run --help`: exit status"), "{why}");
        assert!(containers.must_be_asked());
    }

    #[test]
    fn without_a_runtime_it_says_what_to_install() {
        assert!(Containers::none().command().unwrap_err().contains("install podman"));
    }
}
