//! What a cycle has found out already, so that it asks each different question once: thousands of
//! waiting jobs differ in their owners only.

use crate::cluster::Cluster;
use crate::work::Work;
use muster_model::spec::{Priority, Tier};
use std::collections::BTreeMap;

/// Jobs that fit or fail alike, whoever they belong to: number of the demand, SKUs that the quota
/// leaves, whether a lemon will do, and whose reserved starts they need not heed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FitClass {
    shape: u32,
    skus: u64,
    lemon: bool,
    above: Option<Priority>,
}

/// What a cycle has found out already.
#[derive(Debug, Default)]
pub(crate) struct CycleCache {
    /// Starts of the cycle when the next field was true.
    starts: usize,
    /// By demand: does anything help that became free since a moment of
    /// [`Fleet::freed`](crate::Fleet::freed)?
    helps: BTreeMap<(u32, bool, u64), bool>,
    /// Starts of the cycle when the next field was true.
    skus_at: usize,
    /// By account, demand and tier: SKUs that the quota leaves.
    skus: BTreeMap<(usize, u32, Tier), u64>,
    /// Demands that found no room, with the shortest time that they asked for.
    no_capacity: BTreeMap<FitClass, u64>,
}

fn time(w: &Work) -> u64 {
    w.limit.map_or(u64::MAX, |l| l.0)
}

impl CycleCache {
    /// Whether what became free helps, if that was found out since the last start.
    pub(crate) fn helps(&mut self, starts: usize, key: (u32, bool, u64)) -> Option<bool> {
        if self.starts != starts {
            self.starts = starts;
            self.helps.clear();
        }
        self.helps.get(&key).copied()
    }

    pub(crate) fn note_helps(&mut self, key: (u32, bool, u64), helps: bool) {
        self.helps.insert(key, helps);
    }

    /// What the quota leaves, if that was found out since the last start.
    pub(crate) fn skus(&mut self, starts: usize, key: (usize, u32, Tier)) -> Option<u64> {
        if self.skus_at != starts {
            self.skus_at = starts;
            self.skus.clear();
        }
        self.skus.get(&key).copied()
    }

    pub(crate) fn note_skus(&mut self, key: (usize, u32, Tier), skus: u64) {
        self.skus.insert(key, skus);
    }

    /// Was there no room for one that asked for as long or shorter? Starts only take room.
    pub(crate) fn no_capacity(&self, a: FitClass, w: &Work) -> bool {
        self.no_capacity.get(&a).is_some_and(|shortest| *shortest <= time(w))
    }

    pub(crate) fn note_no_capacity(&mut self, a: FitClass, w: &Work) {
        let shortest = self.no_capacity.entry(a).or_insert(u64::MAX);
        *shortest = (*shortest).min(time(w));
    }

    /// Something that was kept is not kept there any more.
    pub(crate) fn note_released_reservation(&mut self) {
        self.no_capacity.clear();
    }
}

/// Who is like this job. None where more than the demand decides: room that is kept for it,
/// reservations, several sizes or groups.
pub(crate) fn alike(c: &Cluster, w: &Work, shape: u32, skus: u64) -> Option<FitClass> {
    let plain = c.fleet.closed.is_empty()
        && w.tier != Tier::Reserved
        && w.elastic.is_none()
        && w.demand.groups.len() == 1
        && !c.fleet.kept.contains_key(&w.job);
    let above = c.fleet.overruled_by(w.priority);
    plain.then(|| FitClass { shape, skus, lemon: w.preemptible(), above })
}
