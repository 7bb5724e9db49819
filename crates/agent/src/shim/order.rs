//! What the agent passes to the supervisor, through a pipe: it may hold secrets.

use crate::cgroup::Group;
use crate::container::ContainerOrder;
use crate::env::Env;
use crate::isolation::{Account, IsolationView, SlotPlan};
use crate::lease::LeaseOrder;
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
    /// How long they may go on without a server; for ever when absent.
    #[serde(default)]
    pub(crate) lease: Option<LeaseOrder>,
    pub(crate) volumes: Vec<Volume>,
    /// Secrets as files, by name.
    pub(crate) secrets: Env,
    pub(crate) secrets_dir: PathBuf,
    /// Where they are in the node's memory when nothing can be mounted for them.
    pub(crate) shared_secrets: PathBuf,
    pub(crate) group: Option<Group>,
    /// What the ranks are to see of the node; everything when absent.
    pub(crate) inside: Option<IsolationView>,
    /// How the ranks run in containers, when they do.
    #[serde(default)]
    pub(crate) container: Option<ContainerOrder>,
    /// Variables of what runs the containers.
    #[serde(default)]
    pub(crate) base: Env,
    /// Who the ranks are in their containers; whoever the agent is when absent.
    #[serde(default)]
    pub(crate) contained_as: Option<Account>,
}

impl Order {
    /// Whose ranks these are; whoever the agent is when absent.
    pub(crate) fn account(&self) -> Option<&Account> {
        self.inside.as_ref().map(|i| &i.account).or(self.contained_as.as_ref())
    }

    /// What isolating the ranks needs of it.
    pub(crate) fn plan(&self) -> SlotPlan<'_> {
        SlotPlan {
            dir: &self.dir,
            workdir: self.workdir.as_deref(),
            ranks: self.ranks.iter().map(|r| r.rank).collect(),
            volumes: &self.volumes,
            secrets: &self.secrets,
            secrets_dir: &self.secrets_dir,
            group: self.group.as_ref(),
        }
    }
}

/// One rank.
#[derive(Serialize, Deserialize)]
pub(crate) struct RankOrder {
    pub(crate) rank: u32,
    pub(crate) env: Env,
    /// Instead of the program that all ranks share: what runs the rank's container.
    #[serde(default)]
    pub(crate) argv: Vec<String>,
}
