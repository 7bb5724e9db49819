//! Quota that is kept for waiting jobs which others make room for: nobody else takes what is given
//! back for them. It follows from the cluster: who runs, who leaves, and for whom room was made.

use crate::cluster::{Cluster, Running};
use crate::fleet::CapacityReservation;
use crate::plan::Cycle;
use crate::queue::QueuePosition;
use crate::quota::{Kind, Ledger, QuotaShortage};
use crate::windows::Asker;
use crate::work::Work;
use muster_model::ids::JobId;
use muster_model::job::Basis;
use muster_model::spec::Tier;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The quotas as they will be.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    /// Those who are on their way out are gone.
    pub(crate) settled: Ledger,
    /// And those whom others make room for run.
    pub(crate) then: Ledger,
    /// Jobs that wait and are in `then`: the SKU that they get, and how much of it.
    held: BTreeMap<JobId, (String, u64)>,
    /// Others were stopped for them, and yet their quota will leave too little.
    robbed: BTreeSet<JobId>,
}

impl Claims {
    /// As the cluster is now, if there are quotas and others make room for somebody.
    pub(crate) fn if_made(c: &Cluster, now: Time) -> Option<Claims> {
        let made = || c.fleet.kept.values().any(|k| k.basis != Basis::Limits);
        if c.ledger.is_empty() || !made() { None } else { Claims::of(c, now) }
    }

    /// As the cluster is now; none where there are no quotas.
    pub(crate) fn of(c: &Cluster, now: Time) -> Option<Claims> {
        if c.ledger.is_empty() {
            return None;
        }
        let mut settled = c.ledger.clone();
        for r in c.running.values().filter(|r| r.stopping) {
            settled.charge(&r.work.project, &r.sku, r.work.tier, r.milli(), false);
            // One that gets other nodes or another size is back at once.
            if let Some(k) = c.fleet.kept.get(&r.work.job) {
                let again = r.milli_on(k.nodes.len());
                settled.charge(&r.work.project, &r.sku, r.work.tier, again, true);
            }
        }
        let then = settled.clone();
        let mut out = Claims { settled, then, held: BTreeMap::new(), robbed: BTreeSet::new() };
        let made = c.fleet.kept.iter().filter(|(_, k)| k.basis != Basis::Limits);
        let mut turns: Vec<(QueuePosition, &CapacityReservation)> =
            made.filter_map(|(job, k)| Some((c.queue.place(*job)?, k))).collect();
        turns.sort_unstable_by_key(|(t, _)| *t);
        for (t, kept) in turns {
            let Some(w) = c.queue.get(t.job).filter(|w| can_use(c, w, t, kept, now)) else {
                continue;
            };
            let first = kept.nodes.first().and_then(|ix| c.fleet.present(*ix));
            let Some(sku) = first.map(|e| e.facts.sku.as_str()) else { continue };
            if out.then.check(&w.project, sku, w.tier, w.demand.milli(sku)).is_ok() {
                out.hold(w, sku);
            } else if kept.basis == Basis::Preemption {
                out.robbed.insert(t.job);
            }
        }
        Some(out)
    }

    /// Counts what somebody holds, or no longer.
    pub(crate) fn charge(&mut self, r: &Running, milli: u64, up: bool) {
        for l in [&mut self.settled, &mut self.then] {
            l.charge(&r.work.project, &r.sku, r.work.tier, milli, up);
        }
    }

    /// Keeps what a job needs on nodes of this SKU.
    pub(crate) fn hold(&mut self, w: &Work, sku: &str) {
        let milli = w.demand.milli(sku);
        self.then.charge(&w.project, sku, w.tier, milli, true);
        self.held.insert(w.job, (sku.to_string(), milli));
        self.robbed.remove(&w.job);
    }

    /// Nothing is kept for a job any more. Returns what was.
    pub(crate) fn release(&mut self, w: &Work) -> Option<(String, u64)> {
        let (sku, milli) = self.held.remove(&w.job)?;
        self.then.charge(&w.project, &sku, w.tier, milli, false);
        Some((sku, milli))
    }

    /// Is quota kept for it?
    pub(crate) fn holds(&self, job: JobId) -> bool {
        self.held.contains_key(&job)
    }

    /// Waiting jobs that quota is kept for.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = JobId> + '_ {
        self.held.keys().copied()
    }

    /// What is kept for others in the tree of a job's quota.
    pub(crate) fn reserved_for_others(&self, w: &Work, kind: &Kind) -> u64 {
        let tree = |l: &Ledger| l.tree_usage(&w.project, kind).tree;
        let own = self.held.get(&w.job).map_or(0, |(_, milli)| *milli);
        tree(&self.then).saturating_sub(tree(&self.settled)).saturating_sub(own)
    }

    /// Were others stopped for it in vain?
    pub(crate) fn has_preempted_in_vain(&self, job: JobId) -> bool {
        self.robbed.contains(&job)
    }
}

/// Could a job start with quota that is kept for it? Not when it may only start in a reservation,
/// when others of its quota go first, or when its nodes are gone or closed to it.
fn can_use(c: &Cluster, w: &Work, t: QueuePosition, kept: &CapacityReservation, now: Time) -> bool {
    let f = &c.fleet;
    if w.tier == Tier::Reserved || f.is_broken(w.job) {
        return false;
    }
    let strict = c.ledger.strict(&w.project);
    let quota = |h: QueuePosition| c.queue.get(h.job).and_then(|w| c.ledger.strict(&w.project));
    if strict.is_some() && c.queue.heads().take_while(|h| *h < t).any(|h| quota(h) == strict) {
        return false;
    }
    let (who, end) = (Asker::of(w), w.ends(now));
    let mut nodes = kept.nodes.iter().filter_map(|ix| f.present(*ix));
    !nodes.any(|e| f.closed_times(e, who, now).iter().any(|(s, t)| *s < end && *t > now))
}

impl Cycle<'_> {
    /// Those whom quota is kept for are asked each for itself: others like them may have no quota
    /// left, and then nobody asks for the group.
    pub(crate) fn start_held(&mut self) {
        let held = self.c.claims.iter().flat_map(Claims::waiting);
        let mut turns: Vec<QueuePosition> =
            held.filter_map(|job| self.c.queue.place(job)).collect();
        turns.sort_unstable();
        for t in turns {
            if self.full() {
                self.out.more = true;
                return;
            }
            self.start_on_kept(t.job);
            if !self.started.contains(&t.job) {
                self.ask(t);
            }
        }
    }
}

impl Cluster {
    /// The quotas when those who leave are gone, as far as a cycle has looked.
    pub(crate) fn settled(&self) -> &Ledger {
        self.claims.as_ref().map_or(&self.ledger, |c| &c.settled)
    }

    /// The same when those whom others make room for run.
    pub(crate) fn then(&self) -> &Ledger {
        self.claims.as_ref().map_or(&self.ledger, |c| &c.then)
    }

    /// Whose claim a job makes on nodes of this SKU: it is within its own now, and beside all
    /// claims before it.
    pub(crate) fn claimant(&self, w: &Work, sku: &str) -> Option<usize> {
        let milli = w.demand.milli(sku);
        self.then().find_entitled_quota(&w.project, sku, w.tier, milli)?;
        self.ledger.find_entitled_quota(&w.project, sku, w.tier, milli)
    }

    /// SKUs of which the quota leaves enough for the whole demand, as a mask.
    pub(crate) fn quota_skus(&self, w: &Work) -> u64 {
        self.skus_by(w, |sku| self.quota_left(w, sku, self.claims.as_ref()))
    }

    /// The same for any job like this one, for which nothing is kept.
    pub(crate) fn quota_skus_like(&self, w: &Work) -> u64 {
        self.skus_by(w, |sku| self.quota_left_like(w, sku, self.claims.as_ref()))
    }

    /// Does the quota leave a job enough of this SKU, now and beside what is kept for others?
    pub(crate) fn quota_left(
        &self,
        w: &Work,
        sku: &str,
        claims: Option<&Claims>,
    ) -> Result<(), QuotaShortage> {
        let Some(own) = claims.filter(|c| c.holds(w.job)) else {
            return self.quota_left_like(w, sku, claims);
        };
        let mut others = own.clone();
        others.release(w);
        self.quota_left_like(w, sku, Some(&others))
    }

    fn quota_left_like(
        &self,
        w: &Work,
        sku: &str,
        claims: Option<&Claims>,
    ) -> Result<(), QuotaShortage> {
        let milli = w.demand.milli(sku);
        self.ledger.check(&w.project, sku, w.tier, milli)?;
        claims.map_or(Ok(()), |c| c.then.check(&w.project, sku, w.tier, milli))
    }

    /// SKUs of which enough is left, as a mask.
    pub(crate) fn skus_by(
        &self,
        w: &Work,
        left: impl Fn(&str) -> Result<(), QuotaShortage>,
    ) -> u64 {
        if self.ledger.is_empty() {
            return u64::MAX;
        }
        // Nodes without GPUs count against no quota, and are of no use to those who want some.
        let skus = self.fleet.skus.iter().enumerate().take(64);
        let skus = skus.filter(|(_, s)| w.demand.gpus() == 0 || s.as_str() != "cpu");
        skus.filter(|(_, s)| left(s).is_ok()).fold(0, |m, (i, _)| m | 1 << i)
    }
}
