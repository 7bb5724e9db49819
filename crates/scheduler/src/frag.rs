//! Which kind of node a small job should go to: the one whose choice leaves least that nobody
//! can use, given the mix of work that the site has seen.

use crate::fleet::{Class, Fleet};
use crate::mig;
use crate::mix::{GpuAsk, NodeView, Score, Task, WHOLE};
use crate::node::{Ask, Part, shape};
use crate::work::Demand;

/// How good a kind of node is for a share: lower is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeFit {
    /// Whole GPUs, shares, or none: what the choice loses.
    Mix(Score),
    /// MIG: what could be placed there and no longer can.
    Mig(u32, u8),
}

impl Fleet {
    /// SKUs that will do, by number; empty for any.
    pub(crate) fn allowed(&self, a: &Ask) -> Vec<u16> {
        if a.skus == u64::MAX {
            return Vec::new();
        }
        (0..64).filter(|i| a.skus >> i & 1 == 1).collect()
    }

    /// How good a kind of node is for a share, if it fits there.
    pub(crate) fn fit(
        &self,
        c: &Class,
        a: &Ask,
        skus: &[u16],
        gpus: &mut Vec<u16>,
    ) -> Option<NodeFit> {
        if !able(c, a) {
            return None;
        }
        if let Some(Part::Mig(g, m)) = a.part {
            let p = shape(g, m)?;
            let loss = |u: &u8| {
                mig::place(*u, p)
                    .map(|s| mig::packing_value(*u) - mig::packing_value(*u | mig::slices(s, m)))
            };
            return c.mig.iter().filter_map(loss).min().map(|l| NodeFit::Mig(l, c.whole));
        }
        gpus.clear();
        gpus.extend(std::iter::repeat_n(WHOLE, usize::from(c.whole)));
        gpus.extend_from_slice(&c.shared);
        let node =
            NodeView { cpu_free: c.cpus, mem_free: c.memory >> 20, gpu_free: gpus, sku: c.sku };
        self.mix.score(&node, &task(a, skus)).map(NodeFit::Mix)
    }

    /// Which GPU of a node a share of one should go to.
    pub(crate) fn best_gpu(&self, e: &crate::node::Entry, a: &Ask) -> Option<u8> {
        let mut at: Vec<u8> = e.room.whole.iter().map(crate::node::gpu).collect();
        let mut gpus = vec![WHOLE; at.len()];
        at.extend(e.room.shared.iter().map(|(g, _)| *g));
        gpus.extend(e.room.shared.iter().map(|(_, left)| *left));
        let node = NodeView {
            cpu_free: e.room.cpus,
            mem_free: e.room.memory >> 20,
            gpu_free: &gpus,
            sku: e.sku,
        };
        let chosen = self.mix.choose_gpu(&node, &task(a, &[]))?;
        at.get(chosen).copied()
    }

    /// Work has arrived, whether it finds room or not: the site sees more of its like.
    pub fn arrived(&mut self, d: &Demand) {
        let asks = self.asks(d, false);
        let mut due = false;
        for a in asks.iter().filter(|a| !matches!(a.part, Some(Part::Mig(..)))) {
            let skus = self.allowed(a);
            due |= self.mix.arrived(&task(a, &skus));
        }
        if due {
            let mut capacity = vec![0u64; self.skus.len()];
            for e in self.entries() {
                if let Some(c) = capacity.get_mut(usize::from(e.sku)) {
                    *c += u64::from(e.facts.gpus.len()) * 1000;
                }
            }
            self.mix.refresh(&capacity);
            self.scores.forget();
        }
    }
}

fn task<'a>(a: &Ask, skus: &'a [u16]) -> Task<'a> {
    let ask = match a.part {
        Some(Part::Milli(m)) => GpuAsk::Share(m),
        _ if a.gpus == 0 => GpuAsk::None,
        _ => GpuAsk::Whole(a.gpus),
    };
    Task { cpu: a.cpus, mem: a.memory >> 20, ask, skus }
}

pub(crate) fn able(c: &Class, a: &Ask) -> bool {
    a.skus >> c.sku & 1 == 1
        && c.cpus >= a.cpus
        && c.memory >= a.memory
        && (!a.simulated || c.simulated)
        && (!c.lemon || a.lemon)
        && match a.part {
            None => u32::from(c.whole) >= a.gpus,
            Some(Part::Milli(m)) => c.whole > 0 || c.shared.iter().any(|s| *s >= m),
            Some(Part::Mig(..)) => !c.mig.is_empty(),
        }
}
