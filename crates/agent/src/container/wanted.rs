//! What a slot wants of its containers, whatever runs them.

use crate::isolation::Account;
use crate::secrets;
use muster_link::messages::RunDetail;
use std::path::{Path, PathBuf};

/// Stands for the file of variables, which is known only when it is made.
pub(crate) const VARIABLES: &str = "{variables}";

/// What a slot wants to run, and where.
pub(crate) struct ContainerRequest<'a> {
    pub(crate) detail: &'a RunDetail,
    /// Names what differs between agents of one machine.
    pub(crate) prefix: String,
    /// Program and arguments inside.
    pub(crate) argv: &'a [String],
    /// The attempt's directory.
    pub(crate) dir: &'a Path,
    /// What is the agent's and the server's alone.
    pub(crate) hidden: &'a [PathBuf],
    /// Who runs inside; root when absent.
    pub(crate) account: Option<&'a Account>,
    pub(crate) secrets_dir: &'a Path,
    /// The slot's control group.
    pub(crate) group: Option<String>,
    /// Whether its GPUs are really there.
    pub(crate) gpus: bool,
    /// Most shared memory in bytes.
    pub(crate) shm: u64,
}

/// Something of the node at a place in a container.
pub(super) struct BindMount {
    pub(super) from: String,
    pub(super) at: String,
    pub(super) read_only: bool,
}

/// What a rank's container sees of the node.
pub(super) fn shown(w: &ContainerRequest<'_>, rank: u32) -> Vec<BindMount> {
    let d = w.detail;
    let same =
        |path: String, read_only: bool| BindMount { from: path.clone(), at: path, read_only };
    let mut all = vec![same(w.dir.join(format!("{rank}.report")).display().to_string(), false)];
    let script = w.dir.join("script").display().to_string();
    if w.argv.contains(&script) {
        all.push(same(script, true));
    }
    if !d.secrets.0.is_empty() {
        let from = secrets::shared(w.dir).display().to_string();
        all.push(BindMount { from, at: w.secrets_dir.display().to_string(), read_only: true });
    }
    all.extend(d.volumes.iter().map(|v| BindMount {
        from: v.from.clone(),
        at: v.at.clone(),
        read_only: v.read_only,
    }));
    if let Some(c) = &d.checkpoint
        && d.volumes.iter().all(|v| !Path::new(&c.dir).starts_with(&v.at))
    {
        all.push(same(c.dir.clone(), false));
    }
    all
}
