//! Keeping the ranks of one slot to themselves: their own processes, devices and scratch space.
//!
//! The supervisor leaves for a new process namespace, in which the first process is a small init;
//! that one makes the mount namespace which the ranks join just before they become their program.
//! The supervisor itself stays outside and sees its ranks by the numbers that the node knows.

pub(crate) mod account;
mod as_account;
mod caps;
pub(crate) mod checkpoint_dir;
mod decide;
mod dev;
pub mod devices;
mod drop_privileges;
mod filter;
mod groups;
mod hidden;
mod init;
pub(crate) mod mounted;
mod own;
mod passwd;
pub(crate) mod place;
mod plan;
mod probe;
mod run;
mod scope;
pub(crate) mod slot_dir;
pub(crate) mod source;
pub(crate) mod sys;
mod view;

pub(crate) use account::Account;
pub use account::{Accounts, UidRange};
pub(crate) use as_account::as_account;
pub(crate) use caps::KEPT_NAMES;
pub use decide::{Abilities, Separation};
pub(crate) use drop_privileges::TargetAccount;
pub(crate) use filter::filter;
pub(crate) use hidden::hidden;
pub(crate) use init::Inner;
pub(crate) use own::{OWN, grant_access, moved_to};
pub(crate) use place::replaced;
pub(crate) use plan::SlotPlan;
pub(crate) use scope::keep_abstract_sockets;
pub(crate) use view::named;

use muster_model::units::Span;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether ranks may run where they cannot be isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// No: an attempt ends as the node's fault before it begins.
    Required,
    /// As well as this machine can, with a warning where it cannot; never as root.
    #[default]
    Best,
    /// Not at all: ranks see the node as it is, and are whoever the agent is.
    Off,
}

/// Why something could not be done, by whose fault it is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    Job(String),
    Node(String),
    /// The lease was over before they began: so long without a server.
    NoServer(Span),
}

impl Refusal {
    pub(crate) fn node(what: &str, e: &std::io::Error) -> Refusal {
        Refusal::Node(format!("{what}: {e}"))
    }
}

/// What the ranks of a slot are to see of the node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IsolationView {
    /// Why there are no namespaces, where there are none: the account alone separates them then.
    #[serde(default)]
    pub(crate) open: Option<String>,
    /// Who they are.
    pub(crate) account: Account,
    /// Variables of theirs unless the job sets them.
    pub(crate) env: crate::env::Env,
    /// What is the agent's and the server's alone, and nobody else's business.
    pub(crate) hidden: Vec<PathBuf>,
    /// Paths the job names, which stay what they are also where the rest is private.
    pub(crate) named: Vec<PathBuf>,
    /// Made first when it is missing: what is written there is to last.
    pub(crate) lasting: Option<PathBuf>,
    /// Device nodes.
    pub(crate) nodes: Vec<PathBuf>,
    /// Most shared memory in bytes.
    pub(crate) shm: u64,
    /// The node's shared memory and semaphores instead of one's own.
    pub(crate) share_ipc: bool,
    /// How many GPUs there are to be seen; none when they are only simulated.
    pub(crate) gpus: Option<u32>,
}

/// Where a slot's scratch space is, under the attempt's directory.
pub(crate) const SCRATCH: &str = "scratch";

/// All scratch space of a slot, wherever it is.
pub(crate) fn scratch_of(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::iter::once(dir.join(SCRATCH)).chain(slot_dir::of(dir).map(|d| d.join(slot_dir::TMP)))
}

/// Takes a slot's scratch space away; says what was left of it, if anything.
pub(crate) fn remove_scratch(dir: &Path) -> Result<(), String> {
    for scratch in scratch_of(dir) {
        crate::trash::gone(&scratch).map_err(|e| {
            format!("scratch space {} could not be removed: {e}", scratch.display())
        })?;
    }
    Ok(())
}

/// Mounts and namespaces, by its number in `capabilities(7)`.
const SYS_ADMIN: u32 = 21;
/// Limits beyond one's own.
pub(crate) const SYS_RESOURCE: u32 = 24;

/// Whether this process has one of root's powers.
pub(crate) fn has_power(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let powers = status
        .lines()
        .find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok())
        .unwrap_or(0);
    powers >> number & 1 == 1
}

/// The number of the kernel's first user namespace.
const FIRST_USERS: u64 = 0xEFFF_FFFD;

/// Whether programs without powers keep at least the `oom_score_adj` that this process gave them:
/// the kernel sees to that for whoever has this power in its first user namespace.
fn keeps_oom_score() -> bool {
    let first = match std::fs::metadata("/proc/self/ns/user") {
        Ok(users) => users.ino() == FIRST_USERS,
        // A kernel without such namespaces has no other.
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    };
    first && has_power(SYS_RESOURCE)
}

/// Whether this process can isolate ranks.
///
/// # Errors
/// What is missing, and what to do.
pub fn possible() -> Result<(), String> {
    let can = Abilities::of_this_process(&Accounts::default());
    let apart = |why: String| format!("projects are not separated from each other: {why}");
    can.namespaces.and(can.accounts.map_err(apart))
}
