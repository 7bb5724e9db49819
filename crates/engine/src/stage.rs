//! The stage of a node's life, folded in.

use muster_model::node::{Node, Stage};
use muster_model::units::Time;

/// A node enters a stage of its life. The reason of what came before is kept when none is given.
pub(crate) fn enter(n: &mut Node, at: Time, stage: Stage, why: &str, until: Option<Time>) {
    if stage == Stage::Ready && n.stage != Stage::Ready {
        n.generation = n.generation.saturating_add(1);
    }
    if n.stage != stage {
        n.stage_since = at;
    }
    n.stage = stage;
    n.drained_by_remediation &= matches!(stage, Stage::Draining | Stage::Drained);
    if !why.is_empty() {
        why.clone_into(&mut n.stage_why);
    }
    n.stage_until = until;
}
