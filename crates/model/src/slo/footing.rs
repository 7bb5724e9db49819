//! Whether a node is in service, and why not.

use super::Cause;
use crate::node::{Node, NodeRole, Stage};
use serde::{Deserialize, Serialize};

/// What of a node decides whether it is in service: one rule for the promise of availability and
/// for the fleet's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footing {
    /// The stage of the node's life.
    pub stage: Stage,
    /// It is heard.
    pub reachable: bool,
    /// What the node is kept for: all work, spare, small work only.
    pub role: NodeRole,
    /// It takes no work by an operator's word.
    pub cordoned: bool,
    /// It is left alone until an operator reconciles it.
    pub protected: bool,
    /// It is being tested.
    pub testing: bool,
}

impl From<&Node> for Footing {
    fn from(n: &Node) -> Footing {
        Footing {
            stage: n.stage,
            reachable: n.reachable,
            role: n.role,
            cordoned: n.cordon.is_some(),
            protected: n.protected,
            testing: n.qualifying.is_some(),
        }
    }
}

impl Footing {
    /// A node that nobody has heard of.
    pub const FRESH: Footing = Footing {
        stage: Stage::Enrolled,
        reachable: false,
        role: NodeRole::Normal,
        cordoned: false,
        protected: false,
        testing: false,
    };

    /// How it counts: not at all before it first serves and after it is retired; otherwise in
    /// service, or out of it and why.
    #[must_use]
    pub fn service(self) -> Option<Result<(), Cause>> {
        let out = |cause| Some(Err(cause));
        match self.stage {
            Stage::Enrolled | Stage::Retired => None,
            Stage::Repairing => out(Cause::Repair),
            Stage::Suspect | Stage::Quarantined => out(Cause::Quarantine),
            _ if !self.reachable => out(Cause::Unreachable),
            _ if self.protected => out(Cause::Platform),
            _ if self.testing => out(Cause::Test),
            Stage::Draining | Stage::Drained => out(Cause::Operator),
            Stage::Ready if self.cordoned => out(Cause::Operator),
            Stage::Ready if self.role == NodeRole::Suspect => out(Cause::Quarantine),
            Stage::Ready => Some(Ok(())),
        }
    }
}
