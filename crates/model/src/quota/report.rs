//! The tree of quotas as it is used: entitlement against what was received.

use super::QueueOrder;
use crate::spec::Tier;
use serde::{Deserialize, Serialize};

/// Who is entitled to what, and has had how much.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaReport {
    /// Nodes of the tree, parents before their children.
    pub quotas: Vec<QuotaRow>,
    /// Projects and their users.
    pub accounts: Vec<AccountRow>,
}

/// One node of the tree. GPUs and parts are in thousandths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaRow {
    /// Its name, unique in the tree.
    pub name: String,
    /// The node above it; null for a root.
    pub parent: Option<String>,
    /// How deep it is; 0 for a root.
    pub depth: u32,
    /// Its weight among its siblings.
    pub shares: u32,
    /// May jobs pass each other here?
    pub order: QueueOrder,
    /// Projects that belong to it.
    pub projects: Vec<String>,
    /// Each limit, and how it is used.
    pub limits: Vec<LimitRow>,
    /// GPUs allocated to its jobs and those below; null for a token that is bound to a project: its
    /// own use is among the accounts.
    pub used_milli: Option<u64>,
    /// Its part among its siblings.
    pub entitled_milli: u32,
    /// What it has had of what they all have had; null for a token that is bound to a project.
    pub received_milli: Option<u32>,
    /// Past use that still counts, in GPU-seconds; null for a token that is bound to a project.
    pub usage_gpu_s: Option<u64>,
}

/// A limit and how it is used; GPUs in thousandths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitRow {
    /// Which SKU; null for all.
    pub sku: Option<String>,
    /// Which tier; null for all.
    pub tier: Option<Tier>,
    /// May always have.
    pub nominal_milli: u64,
    /// The same with what the quotas below it may always have.
    pub owned_milli: u64,
    /// May borrow; null for any number. A root, which has nobody to borrow from, may borrow 0.
    pub borrow_milli: Option<u64>,
    /// May lend; null for all.
    pub lend_milli: Option<u64>,
    /// Allocated now.
    pub used_milli: u64,
    /// Of it, beyond what it and the quotas below it own.
    pub borrowed_milli: u64,
    /// May be allocated to its own projects now beyond what is, borrowed GPUs included; what quotas
    /// below it do not lend is not counted.
    pub left_milli: u64,
}

/// A project, or one of its users. GPUs and parts are in thousandths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccountRow {
    /// The project's name.
    pub project: String,
    /// The user; null for the project as a whole.
    pub user: Option<String>,
    /// The node of the tree it belongs to.
    pub quota: Option<String>,
    /// GPUs allocated now.
    pub used_milli: u64,
    /// Jobs with allocated resources.
    pub running: u32,
    /// Jobs that wait.
    pub waiting: u32,
    /// Its part among its siblings.
    pub entitled_milli: u32,
    /// What it has had of what they all have had; a token that is bound to a project sees it of users
    /// only, of its project it is null.
    pub received_milli: Option<u32>,
    /// Past use that still counts, in GPU-seconds.
    pub usage_gpu_s: u64,
    /// Place in the order of fair share; 1 goes first.
    pub rank: u32,
}
