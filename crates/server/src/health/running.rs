//! Which attempts run where, kept up with the log: only those that changed are looked at.

use super::watcher::{RankAt, Running};
use muster_engine::State;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::placement::{GpuSet, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An attempt that runs, and whether its nodes are simulated.
pub(super) type View = (bool, Arc<Running>);

/// What the watch needs of the log.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_job: BTreeMap<JobId, View>,
    /// Grows with every change.
    generation: u64,
    /// Nodes that were lost or retired, until the watch has heard of it.
    gone: Vec<NodeName>,
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while holding it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything and begins anew from the state.
    pub(super) fn rebuild(&self, s: &State) {
        let all = s.jobs.values().filter_map(|j| Some((j.id, view(s, j)?)));
        let all: BTreeMap<JobId, View> = all.collect();
        let mut kept = self.lock();
        kept.by_job = all;
        kept.generation += 1;
    }

    /// Looks at these jobs again.
    pub(super) fn refresh(&self, s: &State, jobs: &BTreeSet<JobId>) {
        let new: Vec<(JobId, Option<View>)> =
            jobs.iter().map(|id| (*id, s.jobs.get(id).and_then(|j| view(s, j)))).collect();
        let mut kept = self.lock();
        for (id, view) in new {
            match view {
                Some(v) => kept.by_job.insert(id, v),
                None => kept.by_job.remove(&id),
            };
        }
        kept.generation += 1;
    }

    pub(super) fn gone(&self, node: &NodeName) {
        self.lock().gone.push(node.clone());
    }

    pub(super) fn take_gone(&self) -> Vec<NodeName> {
        std::mem::take(&mut self.lock().gone)
    }

    /// Everything that runs, when something changed since `generation`.
    pub(super) fn since(&self, generation: &mut u64) -> Option<Vec<View>> {
        let kept = self.lock();
        if *generation == kept.generation {
            return None;
        }
        *generation = kept.generation;
        Some(kept.by_job.values().cloned().collect())
    }
}

/// The attempt of a job that runs, unless it is being stopped.
fn view(s: &State, job: &Job) -> Option<View> {
    let a = job.attempt.as_ref().filter(|a| a.stop.is_none())?;
    let first = a.placement.slots.first()?;
    let simulated = s.nodes.get(&first.node).is_some_and(|n| n.inventory.simulated);
    let key = AttemptKey { job: job.id, attempt: a.no };
    let ranks = a.placement.slots.iter().flat_map(ranks).collect();
    Some((simulated, Arc::new(Running { key, started_at: a.started_at, ranks })))
}

/// Ranks of a slot with their GPUs: each its own share when they can be shared out evenly, all of
/// them otherwise.
fn ranks(slot: &Slot) -> impl Iterator<Item = RankAt> {
    let (n, gpus) = (slot.ranks, slot.gpus);
    let each = if n > 0 && gpus.len().is_multiple_of(n) { gpus.len() / n } else { 0 };
    let (first, node) = (slot.first_rank, slot.node.clone());
    (0..n).map(move |i| {
        let own = || gpus.iter().skip((i * each) as usize).take(each as usize);
        let set = if each == 0 { gpus } else { GpuSet(own().fold(0, |set, g| set | 1u64 << g)) };
        RankAt { rank: first.saturating_add(i), node: node.clone(), gpus: set }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::units::Bytes;

    #[test]
    fn ranks_have_their_own_gpus_when_they_can() {
        let slot = |ranks, gpus| Slot {
            node: "n1".parse().unwrap(),
            group: 0,
            node_rank: 0,
            first_rank: 8,
            ranks,
            gpus: GpuSet(gpus),
            cpus: 1,
            memory: Bytes::gib(1),
            part: None,
        };
        let of = |s: &Slot| ranks(s).map(|r| (r.rank, r.gpus.0)).collect::<Vec<_>>();
        assert_eq!(of(&slot(2, 0b1111)), [(8, 0b0011), (9, 0b1100)]);
        assert_eq!(of(&slot(2, 0b1010)), [(8, 0b0010), (9, 0b1000)]);
        assert_eq!(of(&slot(1, 0b1111)), [(8, 0b1111)]);
        assert_eq!(of(&slot(3, 0b1111)), [(8, 0b1111), (9, 0b1111), (10, 0b1111)]);
        assert_eq!(of(&slot(2, 0)), [(8, 0), (9, 0)]);
    }
}
