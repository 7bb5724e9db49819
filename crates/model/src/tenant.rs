//! Projects, roles and tokens.

use crate::ids::Seq;
use crate::names::{Label, ProjectName};
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What a node may say about itself and its slots, and nothing else. No token has it: the
    /// agent link gives it to whoever showed the node's certificate.
    #[serde(skip)]
    Agent,
    /// Read within its project.
    Viewer,
    /// Also submit and steer jobs of its project.
    User,
    /// Also every project's jobs and the nodes.
    Operator,
    /// Everything, tokens included.
    Admin,
}

impl Role {
    /// The word users see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Role::Agent => "agent",
            Role::Viewer => "viewer",
            Role::User => "user",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// A project: what owns jobs, secrets and quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Project {
    /// Its name, unique in the site.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: ProjectName,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Sequence number of the last record that changed it.
    pub version: Seq,
}

/// How many accounts the ranks of a site's projects can have on its nodes.
pub const ACCOUNTS: u32 = 65_536;

/// The account that a project has when nobody was there before it: its place among [`ACCOUNTS`].
/// It follows from the name alone, so that a project keeps its account when a site is made anew
/// or an older log is restored.
#[must_use]
pub fn first_choice_of_account(project: &ProjectName) -> u32 {
    let hash = project
        .as_str()
        .bytes()
        .fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    ((hash >> 16) ^ hash) % ACCOUNTS
}

/// What a token is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum TokenUse {
    /// Calls of the API.
    Api {
        /// What it may do.
        role: Role,
        /// The one project it is bound to; none means all.
        project: Option<ProjectName>,
    },
    /// Enrolling agents.
    Join {
        /// How many nodes may still join with it; none means any number until it expires.
        uses_left: Option<u32>,
    },
}

/// A token as the log knows it: never the secret, only its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Public part, also the beginning of the secret.
    pub id: String,
    /// What a person called it.
    pub name: Label,
    /// Hex SHA-256 of the secret.
    pub hash: String,
    /// What it is for.
    pub usage: TokenUse,
    /// When it was made.
    pub created_at: Time,
    /// When it stops working.
    pub expires_at: Option<Time>,
    /// Sequence number of the last record that changed it.
    pub version: Seq,
}
