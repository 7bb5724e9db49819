//! All that the scheduler knows: the fleet, who waits, who runs, who may have how much.

use crate::claims::Claims;
use crate::fleet::Fleet;
use crate::power::Meter;
use crate::queue::Queue;
use crate::quota::Ledger;
use crate::work::{Work, group_milli};
use muster_model::ids::JobId;
use muster_model::names::ProjectName;
use muster_model::placement::{Placement, Slot};
use muster_model::policy::{Hazard, Limits, Power};
use muster_model::quota::Quotas;
use muster_model::spec::{Priority, Tier};
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job that holds resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The job that holds them.
    pub work: Arc<Work>,
    /// What it was given.
    pub placement: Arc<Placement>,
    /// When it was given them.
    pub placed: Time,
    /// Nothing before this is lost when it is stopped.
    pub saved: Time,
    /// Over by then; [`FAR`](crate::FAR) when nobody knows.
    pub until: Time,
    /// On its way out: it counts on nothing any more.
    pub stopping: bool,
    /// SKU of its first GPU.
    pub sku: String,
}

impl Running {
    /// Its share of each node, in rank order.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.placement.slots
    }

    /// GPUs in thousandths.
    #[must_use]
    pub fn milli(&self) -> u64 {
        let groups = &self.work.demand.groups;
        self.slots()
            .iter()
            .filter_map(|s| groups.get(s.group as usize))
            .map(|g| group_milli(g, &self.sku))
            .sum()
    }

    /// The same on so many of its nodes: elastic gangs have one group.
    pub(crate) fn milli_on(&self, nodes: usize) -> u64 {
        self.milli() / (self.slots().len() as u64).max(1) * nodes as u64
    }
}

/// What a user holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserUsage {
    /// How many jobs hold something.
    pub jobs: u32,
    /// GPUs in thousandths.
    pub milli: u64,
}

/// All that the scheduler knows.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// Nodes and what is free on them.
    pub fleet: Fleet,
    /// Jobs that wait, in the order they are asked in.
    pub queue: Queue,
    /// Jobs that hold resources, by number.
    pub running: BTreeMap<JobId, Running>,
    /// Who may have how much.
    pub ledger: Ledger,
    users: BTreeMap<(ProjectName, Arc<str>), UserUsage>,
    /// Running jobs by tier and class, to know at once whether anybody ranks below.
    ranks: BTreeMap<(Tier, Priority), u32>,
    /// Grows whenever somebody holds less than before.
    charged: u64,
    /// Running jobs that can shrink.
    elastic: u32,
    /// The quotas as they will be, while a cycle looks who starts and who claims.
    pub(crate) claims: Option<Claims>,
}

/// A limit of the site that stops a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserLimit {
    /// So many jobs at once.
    Jobs(u32),
    /// So many GPUs at once.
    Gpus(u32),
}

impl Cluster {
    /// A copy to look ahead in for a job, under these places in fair share. Of a queue that is longer than `most` it has
    /// the first so many, the job, and those for whom room is kept.
    #[must_use]
    pub fn copy_for(&self, job: JobId, most: usize, ranks: Vec<u32>) -> Cluster {
        if self.queue.len() <= most {
            let mut c = self.clone();
            c.queue.set_ranks(ranks);
            return c;
        }
        let also = self.fleet.kept.keys().copied().chain([job]);
        Cluster {
            fleet: self.fleet.clone(),
            queue: self.queue.cut(most, ranks, also),
            running: self.running.clone(),
            ledger: self.ledger.clone(),
            users: self.users.clone(),
            ranks: self.ranks.clone(),
            charged: self.charged,
            elastic: self.elastic,
            claims: self.claims.clone(),
        }
    }

    /// A job holds its slots; those for which `live` is false are free already.
    pub fn run(&mut self, r: Running, live: impl Fn(usize) -> bool) {
        for (i, s) in r.slots().iter().enumerate() {
            if live(i) {
                self.fleet.take(r.work.job, s, r.until);
            }
        }
        self.count(&r, true);
        self.running.insert(r.work.job, r);
    }

    /// A job holds nothing any more.
    pub fn end(&mut self, job: JobId, live: impl Fn(usize) -> bool) {
        let Some(r) = self.running.remove(&job) else { return };
        for (i, s) in r.slots().iter().enumerate() {
            if live(i) {
                self.fleet.release(job, s);
            }
        }
        self.count(&r, false);
        self.charged += 1;
    }

    pub(crate) fn count(&mut self, r: &Running, up: bool) {
        let milli = r.milli();
        self.charge(r, up);
        let key = (r.work.project.clone(), r.work.user.clone());
        let held = self.users.entry(key.clone()).or_default();
        let rank = self.ranks.entry((r.work.tier, r.work.priority)).or_default();
        if up {
            held.jobs += 1;
            held.milli += milli;
            *rank += 1;
            self.elastic += u32::from(r.work.elastic.is_some());
        } else {
            held.jobs = held.jobs.saturating_sub(1);
            held.milli = held.milli.saturating_sub(milli);
            *rank = rank.saturating_sub(1);
            self.elastic -= u32::from(r.work.elastic.is_some());
            if held.jobs == 0 {
                self.users.remove(&key);
            }
        }
    }

    /// Counts in the quotas what a job holds, or no longer.
    pub(crate) fn charge(&mut self, r: &Running, up: bool) {
        let milli = r.milli();
        self.ledger.charge(&r.work.project, &r.sku, r.work.tier, milli, up);
        if let Some(claims) = &mut self.claims {
            claims.charge(r, milli, up);
        }
    }

    /// Grows whenever somebody holds less than before, or the rules changed.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.charged
    }

    /// The quotas are these now.
    pub fn set_quotas(&mut self, q: &Quotas) {
        self.ledger = Ledger::new(q);
        for r in self.running.values() {
            self.ledger.charge(&r.work.project, &r.sku, r.work.tier, r.milli(), true);
        }
        self.charged += 1;
        self.fleet.note_rules();
        self.queue.forget_failures();
    }

    /// The power budgets are these now.
    pub fn set_power(&mut self, p: &Power) {
        let mut meter = Meter::new(p);
        for e in self.fleet.entries() {
            meter.count(e, true);
        }
        self.fleet.meter = meter;
        self.charged += 1;
        self.fleet.note_rules();
        self.queue.forget_failures();
        self.fleet.forget_failures();
    }

    /// What lemons are still good for is this now.
    pub fn set_hazard(&mut self, h: &Hazard) {
        self.fleet.set_lemon_max(h.lemon_max_nodes);
        self.queue.forget_failures();
        self.fleet.forget_failures();
    }

    /// What a user holds.
    #[must_use]
    pub fn held(&self, project: &ProjectName, user: &Arc<str>) -> UserUsage {
        self.users.get(&(project.clone(), user.clone())).copied().unwrap_or_default()
    }

    /// Does anybody run whose rank may be below this work's?
    pub(crate) fn has_lower_ranked_jobs(&self, w: &Work) -> bool {
        let claims =
            |sku: &String| self.ledger.may_reclaim(&w.project, sku, w.tier, w.demand.milli(sku));
        (!self.ledger.is_empty() && self.fleet.skus.iter().any(claims))
            || self.ranks.iter().any(|((tier, p), n)| {
                *n > 0
                    && (*p < w.priority
                        || (*tier == Tier::Spot && w.tier != Tier::Spot && *p <= w.priority))
            })
    }

    pub(crate) fn has_elastic_jobs(&self) -> bool {
        self.elastic > 0
    }

    /// The limit on users that stops this work, if one does.
    pub(crate) fn user_limit(&self, w: &Work, l: &Limits) -> Option<UserLimit> {
        // Who holds what need not be looked up then.
        if l.running_jobs_per_user.is_none() && l.gpus_per_user.is_none() {
            return None;
        }
        limit_on(w, l, self.held(&w.project, &w.user))
    }

    /// Checks the counts against a fresh count. Returns what differs, in words.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        if !self.fleet.consistent() {
            out.push("the index of free nodes differs from a fresh one".to_string());
        }
        let mut users: BTreeMap<(ProjectName, Arc<str>), UserUsage> = BTreeMap::new();
        for r in self.running.values() {
            let h = users.entry((r.work.project.clone(), r.work.user.clone())).or_default();
            h.jobs += 1;
            h.milli += r.milli();
        }
        if users != self.users {
            out.push("what users hold differs from a fresh count".into());
        }
        let mut ledger = self.ledger.emptied();
        for r in self.running.values() {
            ledger.charge(&r.work.project, &r.sku, r.work.tier, r.milli(), true);
        }
        if ledger != self.ledger {
            out.push("what quotas hold differs from a fresh count".into());
        }
        out
    }
}

/// The limit of the site that stops work of a user who has so much, if one does.
pub(crate) fn limit_on(w: &Work, l: &Limits, has: UserUsage) -> Option<UserLimit> {
    if let Some(n) = l.running_jobs_per_user
        && has.jobs >= n
    {
        return Some(UserLimit::Jobs(n));
    }
    if let Some(n) = l.gpus_per_user
        && has.milli + w.demand.gpus() * 1000 > u64::from(n) * 1000
    {
        return Some(UserLimit::Gpus(n));
    }
    None
}
