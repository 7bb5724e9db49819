//! Who must make room: the work that loses the fewest GPU-seconds, of lower rank only. Elastic
//! gangs shrink before anybody is stopped.

use crate::cluster::{Cluster, Running};
use crate::fleet::Fleet;
use crate::leaving::Search;
use crate::node::{Ask, Entry};
use crate::place::{Query, place_on};
use crate::quota::Ledger;
use crate::work::{FAR, Work};
use muster_model::ids::JobId;
use muster_model::job::Rank;
use muster_model::names::ProjectName;
use muster_model::policy::SitePolicy;
use muster_model::spec::{Priority, Tier};
use muster_model::topology::Level;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Room made by others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreemptionPlan {
    /// Stopped and queued again.
    pub(crate) victims: Vec<(JobId, Rank)>,
    /// Shrunk by these nodes.
    pub(crate) shrinks: Vec<(JobId, Vec<u32>)>,
    /// Nodes for the gang, in the order of its groups.
    pub(crate) nodes: Vec<u32>,
    /// GPU-milliseconds lost, in thousandths.
    pub(crate) cost: u128,
    /// On their way out already, for whatever reason: what they give up is used too.
    pub(crate) coming: Vec<JobId>,
    /// When the last of those is gone at the latest.
    pub(crate) coming_by: Time,
}

impl PreemptionPlan {
    /// Must anybody leave who would not leave anyway?
    pub(crate) fn needs_preemption(&self) -> bool {
        !self.victims.is_empty() || !self.shrinks.is_empty()
    }
}

/// Somebody who could make room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    /// GPU-milliseconds lost, in thousandths of a GPU.
    pub(crate) cost: u128,
    pub(crate) rank: Option<Rank>,
    /// Only slots from here on go (a shrinking gang); all when zero.
    pub(crate) tail: usize,
    /// It leaves anyway, by then.
    pub(crate) gone_by: Option<Time>,
}

impl Candidate {
    /// Somebody who is stopped.
    fn stopped(cost: u128, rank: Rank) -> Candidate {
        Candidate { cost, rank: Some(rank), tail: 0, gone_by: None }
    }

    /// Somebody who is on the way out: that costs nothing more.
    fn leaving(by: Time) -> Candidate {
        Candidate { cost: 0, rank: None, tail: 0, gone_by: Some(by) }
    }
}

/// What stopping a job now loses: the work since its last checkpoint, and the restart.
pub(crate) fn loss(r: &Running, policy: &SitePolicy, now: Time) -> u128 {
    let since = now.since(r.saved).0 + policy.preemption.restart_cost.0;
    u128::from(r.milli()) * u128::from(since)
}

/// Whom a gang ranks above. What is the same for many running jobs is found out once: there may
/// be hundreds of thousands of them.
struct PreemptionRank<'a> {
    c: &'a Cluster,
    w: &'a Work,
    /// By SKU: the quota that may claim, if one may.
    claimants: Vec<(&'a str, Option<usize>)>,
    /// By owner, SKU and tier: do they live on what that quota has lent?
    borrows: Vec<((&'a ProjectName, &'a str, Tier), bool)>,
}

/// What a key stands for, found out where it is not `known`; that is in the order of keys.
fn find_once<K: Ord, V: Copy>(known: &mut Vec<(K, V)>, key: K, find: impl FnOnce() -> V) -> V {
    let at = known.binary_search_by(|(k, _)| k.cmp(&key)).unwrap_or_else(|at| {
        known.insert(at, (key, find()));
        at
    });
    known[at].1
}

impl<'a> PreemptionRank<'a> {
    fn new(c: &'a Cluster, w: &'a Work) -> PreemptionRank<'a> {
        PreemptionRank { c, w, claimants: Vec::new(), borrows: Vec::new() }
    }

    /// Why `w` ranks above the running job, if it does.
    fn rank(&mut self, r: &'a Running) -> Option<Rank> {
        let w = self.w;
        if w.tier != Tier::Spot && r.work.tier == Tier::Spot && w.priority >= r.work.priority {
            return Some(Rank::Spot);
        }
        if w.priority > r.work.priority {
            return Some(Rank::Priority);
        }
        let (sku, c) = (r.sku.as_str(), self.c);
        let claimant = find_once(&mut self.claimants, sku, || c.claimant(w, sku))?;
        let key = (&r.work.project, sku, r.work.tier);
        let borrows = || c.settled().borrows_from(key.0, claimant, sku, key.2);
        find_once(&mut self.borrows, key, borrows).then_some(Rank::Quota)
    }
}

/// When each of those that rank below has run long enough to make room, later than now.
pub(crate) fn preemptible_at<'a>(
    c: &'a Cluster,
    w: &'a Work,
    policy: &'a SitePolicy,
    now: Time,
) -> impl Iterator<Item = Time> + 'a {
    let mut above = PreemptionRank::new(c, w);
    c.running.values().filter(|r| !r.stopping).flat_map(move |r| {
        let shrinks = r.work.elastic.is_some_and(|(min, _)| r.slots().len() > min as usize);
        let settled = r.placed + policy.elastic.settle;
        let smaller = policy.elastic.enabled && shrinks && r.work.priority <= w.priority;
        let rested = r.placed + policy.preemption.min_run;
        let stopped = policy.preemption.enabled && rested > now && above.rank(r).is_some();
        let settled = (smaller && settled > now).then_some(settled);
        [settled, stopped.then_some(rested)].into_iter().flatten()
    })
}

/// When the next of those that rank below has run long enough to make room; [`FAR`] when nobody
/// will have.
pub(crate) fn next_preemptible_at(c: &Cluster, w: &Work, policy: &SitePolicy, now: Time) -> Time {
    preemptible_at(c, w, policy, now).min().unwrap_or(FAR)
}

/// Finds the cheapest way to make room for a gang, or none. Where those who leave anyway give up
/// enough in time, nobody else has to.
///
/// `busy`: who is started, stopped or resized by this cycle; `going`: those of them who are stopped.
pub(crate) fn find_preemption(
    c: &Cluster,
    w: &Work,
    q: &Query<'_>,
    policy: &SitePolicy,
    (busy, going): (&BTreeSet<JobId>, &[JobId]),
) -> Option<PreemptionPlan> {
    let now = q.now;
    let mut coming: BTreeMap<JobId, Candidate> = BTreeMap::new();
    let mut shrinking: BTreeMap<JobId, Candidate> = BTreeMap::new();
    let mut all: BTreeMap<JobId, Candidate> = BTreeMap::new();
    let mut above = PreemptionRank::new(c, w);
    for (id, r) in &c.running {
        if r.stopping || busy.contains(id) {
            // Who should be gone by now is not counted on any more.
            if r.stopping && r.until > now && r.until < FAR {
                coming.insert(*id, Candidate::leaving(r.until));
            } else if going.contains(id) {
                coming.insert(*id, Candidate::leaving(now + policy.preemption.notice));
            }
            continue;
        }
        if policy.elastic.enabled
            && let Some((min, _)) = r.work.elastic
            && r.slots().len() > min as usize
            && r.work.priority <= w.priority
            && now.since(r.placed) >= policy.elastic.settle
        {
            let cost = loss(r, policy, now);
            let shrink = Candidate { cost, rank: None, tail: min as usize, gone_by: None };
            shrinking.insert(*id, shrink);
            all.insert(*id, shrink);
        }
        let rested = r.work.tier == Tier::Spot || now.since(r.placed) >= policy.preemption.min_run;
        if policy.preemption.enabled
            && rested
            && let Some(rank) = above.rank(r)
        {
            all.insert(*id, Candidate::stopped(loss(r, policy, now), rank));
        }
    }
    if !coming.is_empty() {
        let enough = search(c, w, q, policy, coming.clone());
        if enough.is_some() {
            return enough;
        }
        for able in [&mut shrinking, &mut all].into_iter().filter(|able| !able.is_empty()) {
            able.extend(coming.iter().map(|(id, cand)| (*id, *cand)));
        }
    }
    let first = (!shrinking.is_empty()).then(|| search(c, w, q, policy, shrinking)).flatten();
    first.or_else(|| (!all.is_empty()).then(|| search(c, w, q, policy, all)).flatten())
}

/// The same search over any set of jobs that may leave (used for moves too).
pub(crate) fn find_capacity_by_leaving(
    c: &Cluster,
    w: &Work,
    q: &Query<'_>,
    policy: &SitePolicy,
    may_leave: &BTreeSet<JobId>,
) -> Option<PreemptionPlan> {
    let all = may_leave
        .iter()
        .filter_map(|id| c.running.get(id).map(|r| (*id, r)))
        .map(|(id, r)| (id, Candidate::stopped(loss(r, policy, q.now), Rank::Priority)))
        .collect();
    search(c, w, q, policy, all)
}

fn search(
    c: &Cluster,
    w: &Work,
    q: &Query<'_>,
    policy: &SitePolicy,
    mut able: BTreeMap<JobId, Candidate>,
) -> Option<PreemptionPlan> {
    // Only one group at a time is searched for; gangs of several shapes take their own way
    // through reservations.
    let [a] = &q.asks[..] else { return None };
    // Who gives back what was borrowed borrows no more: the rest of its work is then its own.
    for _ in 0..MOST_TRIES {
        let mut room = cheapest(c, q, a, &able)?;
        let owners = not_borrowing(c, w, &room);
        if owners.is_empty() {
            let enough = quota_too(c, w, policy, &able, &mut room, q.now);
            // When nobody would have to leave, room is not what is missing.
            let anybody = room.needs_preemption() || !room.coming.is_empty();
            return (enough && anybody && within_budgets(c, q, &room)).then_some(room);
        }
        // Of those whose work would be their own then, only what was found to be borrowed.
        let project = |j: &JobId| c.running.get(j).map(|r| &r.work.project);
        let mut spent: Vec<&ProjectName> = owners.iter().filter_map(project).collect();
        spent.sort_unstable();
        let taken: BTreeSet<JobId> =
            room.victims.iter().map(|v| v.0).filter(|j| !owners.contains(j)).collect();
        able.retain(|j, cand| {
            cand.rank != Some(Rank::Quota)
                || taken.contains(j)
                || project(j).is_some_and(|p| spent.binary_search(&p).is_err())
        });
    }
    None
}

/// Do the power budgets carry the gang once the others have left?
fn within_budgets(c: &Cluster, q: &Query<'_>, room: &PreemptionPlan) -> bool {
    if !c.fleet.meter.on() {
        return true;
    }
    let mut f = c.fleet.clone();
    let leave = |f: &mut Fleet, j: &JobId, given: Option<&Vec<u32>>| {
        for s in c.running.get(j).map_or(&[][..], Running::slots) {
            let there = |g: &Vec<u32>| f.find(&s.node).is_some_and(|ix| g.contains(&ix));
            if given.is_none_or(there) {
                f.release(*j, s);
            }
        }
    };
    for j in room.victims.iter().map(|(j, _)| j).chain(&room.coming) {
        leave(&mut f, j, None);
    }
    for (j, given) in &room.shrinks {
        leave(&mut f, j, Some(given));
    }
    place_on(&f, q, &room.nodes).is_ok()
}

/// Searches made until the victims of a claim are all borrowers.
const MOST_TRIES: usize = 32;

fn cheapest(
    c: &Cluster,
    q: &Query<'_>,
    a: &Ask,
    able: &BTreeMap<JobId, Candidate>,
) -> Option<PreemptionPlan> {
    let f = &c.fleet;
    let mut search = Search::new(c, q, a, able);
    let mut best: Option<PreemptionPlan> = None;
    let mut consider = |nodes: &mut dyn Iterator<Item = &Entry>| {
        if let Some(m) = search.in_domain(nodes)
            && best.as_ref().is_none_or(|b| m.cost < b.cost)
        {
            best = Some(m);
        }
    };
    match q.demand.widest() {
        Level::Node => consider(&mut f.entries()),
        level => {
            for d in f.level(level).filter(|d| d.nodes.len() >= a.nodes as usize) {
                consider(&mut d.nodes.iter().map(|p| f.entry(p.ix)));
            }
        }
    }
    best
}

/// Victims of a claim that would not be borrowers any more once those before them are gone.
fn not_borrowing(c: &Cluster, w: &Work, room: &PreemptionPlan) -> BTreeSet<JobId> {
    let mut ledger = c.settled().clone();
    let mut out = BTreeSet::new();
    // Whose claim it is does not change while it is met.
    let mut claimants: Vec<(&str, Option<usize>)> = Vec::new();
    for (j, rank) in &room.victims {
        let Some(r) = c.running.get(j) else { continue };
        let sku = r.sku.as_str();
        if *rank == Rank::Quota {
            let claimant = find_once(&mut claimants, sku, || c.claimant(w, sku));
            let good =
                claimant.is_some_and(|i| ledger.borrows_from(&r.work.project, i, sku, r.work.tier));
            if !good {
                out.insert(*j);
                continue;
            }
        }
        ledger.charge(&r.work.project, sku, r.work.tier, r.milli(), false);
    }
    out
}

/// A claim may also need quota back that borrowers hold elsewhere, whatever else ranks them lower:
/// nodes may be free where only the quota is missing. Spot work goes first, then the lowest class,
/// then what loses least.
fn quota_too(
    c: &Cluster,
    w: &Work,
    policy: &SitePolicy,
    able: &BTreeMap<JobId, Candidate>,
    room: &mut PreemptionPlan,
    now: Time,
) -> bool {
    if c.ledger.is_empty() {
        return true;
    }
    let sku = room.nodes.first().map_or("", |ix| c.fleet.entry(*ix).facts.sku.as_str());
    let milli = w.demand.milli(sku);
    let back = |l: &mut Ledger, r: &Running, milli: u64| {
        l.charge(&r.work.project, &r.sku, r.work.tier, milli, false);
    };
    let given = |l: &Ledger| {
        let mut l = l.clone();
        for r in room.victims.iter().filter_map(|(j, _)| c.running.get(j)) {
            back(&mut l, r, r.milli());
        }
        for (j, nodes) in &room.shrinks {
            if let Some(r) = c.running.get(j) {
                back(&mut l, r, r.milli_on(nodes.len()));
            }
        }
        l
    };
    let short = |l: &Ledger| l.check(&w.project, sku, w.tier, milli).is_err();
    let (mut settled, mut then) = (given(c.settled()), given(c.then()));
    if !short(&then) {
        return true;
    }
    let Some(claimant) = c.claimant(w, sku) else { return false };
    let mut more: Vec<(bool, Priority, u128, &Running)> = able
        .iter()
        .filter(|(j, cand)| cand.rank.is_some() && !room.victims.iter().any(|v| v.0 == **j))
        .filter_map(|(j, cand)| Some((cand.cost, c.running.get(j)?)))
        .map(|(cost, r)| (r.work.tier != Tier::Spot, r.work.priority, cost, r))
        .collect();
    more.sort_by_key(|(kind, priority, cost, r)| (*kind, *priority, *cost, r.work.job));
    let mut give: Vec<&Running> = Vec::new();
    for (.., r) in more {
        if !short(&then) {
            break;
        }
        if settled.borrows_from(&r.work.project, claimant, &r.sku, r.work.tier) {
            back(&mut settled, r, r.milli());
            back(&mut then, r, r.milli());
            give.push(r);
        }
    }
    if short(&then) {
        return false;
    }
    // Nobody leaves for nothing: the last gave back enough, and those before may not be needed.
    for i in (0..give.len().saturating_sub(1)).rev() {
        let r = give[i];
        then.charge(&r.work.project, &r.sku, r.work.tier, r.milli(), true);
        if short(&then) {
            back(&mut then, r, r.milli());
        } else {
            give.remove(i);
        }
    }
    for r in give {
        room.cost += loss(r, policy, now);
        room.victims.push((r.work.job, Rank::Quota));
    }
    true
}
