//! Who asks.

use crate::names::{NodeName, ProjectName};
use crate::tenant::Role;

/// Who asks, and with which permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// `user:NAME`, `node:NAME` or `system`.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The one project they are bound to; none means all.
    pub project: Option<ProjectName>,
}

impl Actor {
    /// The server itself.
    #[must_use]
    pub fn system() -> Actor {
        Actor { name: "system".into(), role: Role::Admin, project: None }
    }

    /// The agent of a node.
    #[must_use]
    pub fn agent(node: &NodeName) -> Actor {
        Actor { name: format!("node:{node}"), role: Role::Agent, project: None }
    }

    /// The node whose agent this is.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.name.strip_prefix("node:").filter(|_| self.role == Role::Agent)
    }
}

/// The user behind an actor's name.
#[must_use]
pub fn user_of(actor: &str) -> &str {
    actor.strip_prefix("user:").unwrap_or(actor)
}
