//! Whether a node is in service, and why not.

use super::Cause;
use crate::cordon::CordonedBy;
use crate::node::{Node, NodeRole, Stage};
use serde::{Deserialize, Serialize};

/// What of a node decides whether it is in service: one rule for the objective of availability and
/// for the fleet's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeServiceFacts {
    /// The stage of the node's life.
    pub stage: Stage,
    /// It is heard.
    pub reachable: bool,
    /// What the node is kept for: all work, spare, small work only.
    pub role: NodeRole,
    /// It takes no work by an operator's word, or by the control plane's.
    pub cordoned: bool,
    /// That is the control plane's: it failed a test.
    #[serde(default)]
    pub failed_test: bool,
    /// A remediation drains it, not an operator.
    #[serde(default)]
    pub drained_by_remediation: bool,
    /// It is left alone until an operator reconciles it.
    pub protected: bool,
    /// It is being tested.
    pub testing: bool,
}

impl From<&Node> for NodeServiceFacts {
    fn from(n: &Node) -> NodeServiceFacts {
        NodeServiceFacts {
            stage: n.stage,
            reachable: n.reachable,
            role: n.role,
            cordoned: n.cordon.is_some(),
            failed_test: n.cordon.as_ref().is_some_and(|c| c.by == CordonedBy::FailedTest),
            drained_by_remediation: n.drained_by_remediation,
            protected: n.protected,
            testing: n.qualifying.is_some(),
        }
    }
}

impl NodeServiceFacts {
    /// A node that nobody has heard of.
    pub const FRESH: NodeServiceFacts = NodeServiceFacts {
        stage: Stage::Enrolled,
        reachable: false,
        role: NodeRole::Normal,
        cordoned: false,
        failed_test: false,
        drained_by_remediation: false,
        protected: false,
        testing: false,
    };

    /// Is a node that enters a stage drained by a remediation? `was` is its stage, and whether it
    /// was until now; `by_operator`: an operator has it so.
    #[must_use]
    pub fn drained_by_remediation(was: (Stage, bool), to: Stage, by_operator: bool) -> bool {
        match (was.0, to) {
            (Stage::Draining | Stage::Drained, Stage::Draining | Stage::Drained) => was.1,
            (_, Stage::Draining) => !by_operator,
            _ => false,
        }
    }

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
            Stage::Draining | Stage::Drained if self.drained_by_remediation => {
                out(Cause::Quarantine)
            }
            Stage::Draining | Stage::Drained => out(Cause::Operator),
            Stage::Ready if self.cordoned && self.failed_test => out(Cause::Quarantine),
            Stage::Ready if self.cordoned => out(Cause::Operator),
            Stage::Ready if self.role == NodeRole::Suspect => out(Cause::Quarantine),
            Stage::Ready => Some(Ok(())),
        }
    }

    /// Is it in service?
    #[must_use]
    pub fn is_in_service(self) -> bool {
        self.service() == Some(Ok(()))
    }

    /// Does it count, and is out of service?
    #[must_use]
    pub fn is_out(self) -> bool {
        matches!(self.service(), Some(Err(_)))
    }
}
