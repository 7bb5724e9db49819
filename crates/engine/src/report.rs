//! Readings of the state for people: entitlement against what was received, and moves that
//! would make room.

use crate::state::State;
use muster_model::ids::JobId;
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::quota::QueueOrder;
use muster_model::spec::Tier;
use muster_model::units::Time;
use serde::{Deserialize, Serialize};

/// Who is entitled to what, and has had how much.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QuotaReport {
    /// Nodes of the tree, parents before their children.
    pub quotas: Vec<QuotaRow>,
    /// Projects and their users.
    pub accounts: Vec<AccountRow>,
}

/// One node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRow {
    /// Its name.
    pub name: Label,
    /// The node above it.
    pub parent: Option<Label>,
    /// How deep it stands; 0 for a root.
    pub depth: u32,
    /// Its weight among its siblings.
    pub shares: u32,
    /// May jobs pass each other here?
    pub order: QueueOrder,
    /// Projects that hang on it.
    pub projects: Vec<ProjectName>,
    /// Each limit, and how it is used.
    pub limits: Vec<LimitRow>,
    /// GPUs that its jobs and those below hold now, in thousandths.
    pub used_milli: u64,
    /// Its part among its siblings, in thousandths.
    pub entitled_milli: u32,
    /// What it has had of what they all have had, in thousandths.
    pub received_milli: u32,
    /// Past use that still counts, in GPU-seconds.
    pub usage_gpu_s: u64,
}

/// A limit and how it is used; GPUs in thousandths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitRow {
    /// Which SKU.
    pub sku: Option<String>,
    /// Which tier.
    pub tier: Option<Tier>,
    /// May always have.
    pub nominal_milli: u64,
    /// May borrow.
    pub borrow_milli: Option<u64>,
    /// May lend.
    pub lend_milli: Option<u64>,
    /// Held now.
    pub used_milli: u64,
    /// Of it, beyond nominal.
    pub borrowed_milli: u64,
}

/// A project, or one of its users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRow {
    /// The project.
    pub project: ProjectName,
    /// The user; none for the project as a whole.
    pub user: Option<String>,
    /// The node of the tree it hangs on.
    pub quota: Option<Label>,
    /// GPUs held now, in thousandths.
    pub used_milli: u64,
    /// Jobs that hold resources.
    pub running: u32,
    /// Jobs that wait.
    pub waiting: u32,
    /// Its part among its siblings, in thousandths.
    pub entitled_milli: u32,
    /// What it has had of what they all have had, in thousandths.
    pub received_milli: u32,
    /// Past use that still counts, in GPU-seconds.
    pub usage_gpu_s: u64,
    /// Place in the order of fair share; 1 goes first.
    pub rank: u32,
}

/// A move that would let a waiting gang start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveProposal {
    /// The gang that would start.
    pub gang: JobId,
    /// Jobs that would be moved, with where they are and where they would go.
    pub moves: Vec<Move>,
    /// GPU-seconds that the moves lose.
    pub cost_gpu_s: u64,
    /// GPU-seconds that the gang gains by starting now.
    pub gain_gpu_s: u64,
}

/// One job that would be moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Which.
    pub job: JobId,
    /// Nodes it is on.
    pub from: Vec<NodeName>,
    /// Nodes it would go to.
    pub to: Vec<NodeName>,
}

impl State {
    /// Who is entitled to what, and has had how much.
    #[must_use]
    pub fn quota_report(&self, _now: Time) -> QuotaReport {
        QuotaReport::default()
    }

    /// Moves of checkpointable work that would let waiting gangs start, best first.
    #[must_use]
    pub fn move_proposals(&self, _now: Time) -> Vec<MoveProposal> {
        Vec::new()
    }
}
