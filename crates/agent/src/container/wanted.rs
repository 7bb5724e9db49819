//! What a slot wants of its containers, whatever runs them.

use crate::isolation::Account;
use muster_link::messages::RunDetail;
use muster_model::contained::check_path;
use muster_model::spec::Volume;
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
    /// Where its secrets will be in the node's memory.
    pub(crate) shared_secrets: &'a Path,
    /// The slot's control group.
    pub(crate) group: Option<String>,
    /// Whether its GPUs are really there.
    pub(crate) gpus: bool,
    /// Most shared memory in bytes.
    pub(crate) shm: u64,
}

/// Something of the node at a place in a container. Both become parts of one argument of the runtime:
/// no other text than what stays a part can be in here.
pub(super) struct BindMount {
    from: String,
    at: String,
    read_only: bool,
}

impl BindMount {
    /// `what` is bound, as whoever reads the refusal knows it.
    fn new(what: &str, from: &str, at: &str, read_only: bool) -> Result<BindMount, String> {
        for path in [from, at] {
            check_path(path).map_err(|why| {
                format!("{what} `{}` cannot be bound into a container: {why}", path.escape_debug())
            })?;
        }
        Ok(BindMount { from: from.to_owned(), at: at.to_owned(), read_only })
    }

    pub(super) fn from(&self) -> &str {
        &self.from
    }

    pub(super) fn at(&self) -> &str {
        &self.at
    }

    pub(super) fn read_only(&self) -> bool {
        self.read_only
    }
}

/// What a rank's container sees of the node.
///
/// # Errors
/// What of it cannot be bound, and why.
pub(super) fn shown(w: &ContainerRequest<'_>, rank: u32) -> Result<Vec<BindMount>, String> {
    let d = w.detail;
    let own = "the agent's directory";
    let report = w.dir.join(format!("{rank}.report")).display().to_string();
    let mut all = vec![BindMount::new(own, &report, &report, false)?];
    let script = w.dir.join("script").display().to_string();
    if w.argv.contains(&script) {
        all.push(BindMount::new(own, &script, &script, true)?);
    }
    if !d.secrets.0.is_empty() {
        let from = w.shared_secrets.display().to_string();
        all.push(BindMount::new(own, &from, &w.secrets_dir.display().to_string(), true)?);
    }
    for (i, v) in d.volumes.iter().enumerate() {
        all.push(BindMount::new(&format!("volumes[{i}]"), &v.from, &v.at, v.read_only)?);
    }
    if let Some(dir) = bound_checkpoints(d.checkpoint.as_ref().map(|c| &*c.dir), &d.volumes) {
        all.push(BindMount::new("checkpoint.dir", dir, dir, false)?);
    }
    Ok(all)
}

/// The directory for checkpoints, unless it is in a volume.
fn bound_checkpoints<'a>(dir: Option<&'a str>, volumes: &[Volume]) -> Option<&'a str> {
    dir.filter(|dir| volumes.iter().all(|v| !Path::new(dir).starts_with(&v.at)))
}
