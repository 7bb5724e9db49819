//! Which attempts run where, kept up with the log: only those that changed are looked at.

use muster_engine::State;
use muster_health::watch::{RankAt, Running};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Job, Recovery};
use muster_model::names::NodeName;
use muster_model::placement::{GpuSet, Slot};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An attempt that runs.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// Its nodes are simulated.
    pub(super) simulated: bool,
    /// It is the way back from a failure, and has not made its first step yet.
    pub(super) recovering: bool,
    pub(super) running: Arc<Running>,
}

/// What changed since the watch last asked.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Nothing that was known before counts any more.
    pub(super) anew: bool,
    /// What runs of a job now, if anything does.
    pub(super) jobs: Vec<(JobId, Option<View>)>,
    /// Nodes that were lost or retired.
    pub(super) gone: Vec<NodeName>,
    /// Nodes that went back into service.
    pub(super) repaired: Vec<NodeName>,
}

/// What the log says of attempts, on its way to the watch.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<Changes>);

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, Changes> {
        // Nothing panics while holding it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything and begins anew from the state.
    pub(super) fn rebuild(&self, s: &State) {
        let all = s.jobs.values().filter_map(|j| Some((j.id, Some(view(s, j)?))));
        let jobs = all.collect();
        *self.lock() = Changes { anew: true, jobs, ..Changes::default() };
    }

    /// Looks at these jobs again.
    pub(super) fn refresh(&self, s: &State, jobs: &BTreeSet<JobId>) {
        let new = jobs.iter().map(|id| (*id, s.jobs.get(id).and_then(|j| view(s, j))));
        let new: Vec<_> = new.collect();
        self.lock().jobs.extend(new);
    }

    pub(super) fn gone(&self, node: &NodeName) {
        self.lock().gone.push(node.clone());
    }

    pub(super) fn repaired(&self, node: &NodeName) {
        self.lock().repaired.push(node.clone());
    }

    pub(super) fn take(&self) -> Changes {
        std::mem::take(&mut self.lock())
    }
}

/// The attempt of a job that runs, unless it is being stopped.
fn view(s: &State, job: &Job) -> Option<View> {
    let a = job.attempt.as_ref().filter(|a| a.stop.is_none())?;
    let first = a.placement.slots.first()?;
    let simulated = s.nodes.get(&first.node).is_some_and(|n| n.inventory.simulated);
    let waits = |r: &Recovery| r.working_at.is_none() && r.started_at == a.started_at;
    let recovering = job.recovery.is_some_and(|r| r.attempt < a.no && waits(&r));
    let key = AttemptKey { job: job.id, attempt: a.no };
    let ranks = a.placement.slots.iter().flat_map(ranks).collect();
    let running = Arc::new(Running { key, started_at: a.started_at, ranks });
    Some(View { simulated, recovering, running })
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
