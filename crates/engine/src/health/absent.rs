//! GPUs that are not there although no finding says so: what was closed, by whomever, brings no GPU
//! back. As long as its node does not report it, it is found again.

use crate::{Engine, State};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::placement::GpuSet;
use muster_model::units::Span;

/// So long after a finding about it was closed a GPU that is still missing is found again. A node that
/// has just been repaired connects meanwhile and reports the GPU.
pub(super) const AGAIN: Span = Span::mins(1);

impl State {
    /// GPUs of a node that are missing, and of which no open finding says so. The excluded ones are
    /// among them.
    #[must_use]
    pub fn unexplained_missing(&self, n: &Node) -> GpuSet {
        let modes = [FailureMode::GPU_MISSING, FailureMode::GPU_OFF_BUS];
        let found = |g: u32| {
            let gpu = Entity::Gpu(n.name.clone(), g);
            modes.iter().any(|m| self.health.open_of(&gpu, m.code()).is_some())
        };
        let missing = n.missing_set();
        let alone = missing.iter().filter(|g| !found(*g));
        GpuSet(alone.fold(0, |set, g| set | 1 << g))
    }

    /// Nodes with a missing GPU that no open finding is about and that nobody excluded.
    pub(super) fn nodes_with_missing_gpus(&self) -> impl Iterator<Item = &NodeName> {
        let short = self.nodes.values().filter(|n| !n.missing_gpus.is_empty());
        short.filter(move |n| self.is_short(n)).map(|n| &n.name)
    }

    fn is_short(&self, n: &Node) -> bool {
        let joined = !matches!(n.stage, Stage::Retired | Stage::Enrolled);
        joined && !self.unexplained_missing(n).minus(n.excluded_gpus).is_empty()
    }
}

impl Engine {
    /// Something about a GPU of a node was closed. If the GPU is missing, that is found again, once, after
    /// a while.
    pub(super) fn look_for_absent(&mut self, node: &NodeName) {
        if self.state.nodes.get(node).is_some_and(|n| self.state.is_short(n)) {
            self.work.absent_after(node, self.state.now);
        }
    }

    /// Finds the GPUs of a node that are still missing. A GPU that an operator excluded is not looked for:
    /// the node is to work without it.
    pub(super) fn find_absent(&mut self, node: &NodeName) {
        let Some(n) = self.state.nodes.get(node).cloned() else { return };
        if self.work.assumes_repairs || !self.state.is_short(&n) {
            return;
        }
        for g in self.state.unexplained_missing(&n).minus(n.excluded_gpus).iter() {
            let entity = Entity::Gpu(node.clone(), g);
            let (mode, now) = (FailureMode::GPU_MISSING.code(), self.state.now);
            let uuid = n.missing_gpus.iter().find(|m| m.index == g).map_or("", |m| m.uuid.as_str());
            let line = format!("GPU {g} ({uuid}) is still not there");
            let seen = ObservedFinding::new(mode, entity, Severity::Critical, now);
            self.found(seen.because(line), true);
        }
        // Where more are open than may be, it is tried again.
        self.look_for_absent(node);
    }
}
