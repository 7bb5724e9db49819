//! What GPUs are to new work: one rule for every place that counts them.

use super::State;
use super::index::block;
use muster_model::names::NodeName;
use muster_model::node::{Node, NodeRole, Stage};
use muster_model::placement::GpuSet;

/// GPUs of a node by what they are to new work. Together they are all GPUs that the node should have; one
/// that is retired should have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuUse {
    /// Allocated to jobs, whatever is wrong there.
    pub used: GpuSet,
    /// Not allocated, and new work may be placed there now.
    pub free: GpuSet,
    /// Not allocated, and reserved to replace those of a node that fails.
    pub spare: GpuSet,
    /// Not allocated, and no new work is placed there now: fallen off the bus, excluded, blocked by an open
    /// breaker, on a node that is out of service or on which ranks of a lost attempt may still run, or in a
    /// maintenance window.
    pub out: GpuSet,
}

impl State {
    /// GPUs of a node that are allocated to jobs: until their ranks have ended there. What a lost node does is
    /// not known, so nothing is free there yet.
    #[must_use]
    pub fn allocated_gpus(&self, node: &NodeName) -> GpuSet {
        let mut held = GpuSet::EMPTY;
        for job in self.attempts_on(node) {
            let Some(attempt) = &job.attempt else { continue };
            let here = self.slots_on(job.id, node).iter();
            let here = here.filter_map(|i| attempt.placement.slots.get(*i));
            held = here.fold(held, |all, slot| all.or(slot.gpus));
        }
        held
    }

    /// GPUs of a node by what they are to new work; those of a retired one are no GPUs of the fleet any more.
    /// `in_maintenance`: the node is one of [`State::nodes_in_maintenance`] now.
    #[must_use]
    pub fn gpu_use(&self, n: &Node, in_maintenance: bool) -> GpuUse {
        if n.stage == Stage::Retired {
            return GpuUse::default();
        }
        let missing = n.missing_set();
        let used = self.allocated_gpus(&n.name);
        let rest = n.gpu_set().or(missing).minus(used);
        // What the scheduler itself is given.
        let able = match block(n) {
            None if !in_maintenance => rest.minus(missing).minus(n.excluded_gpus),
            _ => GpuSet::EMPTY,
        };
        let out = rest.minus(able);
        // New work does not go to a spare.
        match n.role == NodeRole::Spare {
            true => GpuUse { used, free: GpuSet::EMPTY, spare: able, out },
            false => GpuUse { used, free: able, spare: GpuSet::EMPTY, out },
        }
    }
}
