//! What the agent tells the supervisor, through a pipe: it may hold secrets.

use crate::cgroup::Group;
use crate::env::Env;
use muster_model::spec::Volume;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything needed to start one slot's ranks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    /// The attempt's directory.
    pub(crate) dir: PathBuf,
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    pub(crate) workdir: Option<String>,
    /// Variables of every rank.
    pub(crate) env: Env,
    pub(crate) ranks: Vec<RankOrder>,
    pub(crate) volumes: Vec<Volume>,
    /// Secrets as files, by name.
    pub(crate) secrets: Env,
    pub(crate) secrets_dir: PathBuf,
    pub(crate) group: Option<Group>,
}

/// One rank.
#[derive(Serialize, Deserialize)]
pub(crate) struct RankOrder {
    pub(crate) rank: u32,
    pub(crate) env: Env,
}
