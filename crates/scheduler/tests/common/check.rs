//! What must always hold, looked at from outside: nothing here asks the scheduler's own counts,
//! but for the check that those counts are right.

use super::{ClusterRun, ReportedStart};
use muster_model::ids::JobId;
use muster_model::job::{Basis, Rank};
use muster_model::names::{NodeName, ProjectName};
use muster_model::node::NodeRole;
use muster_model::placement::{AllocatedPart, GpuSet, Slot};
use muster_model::policy::OverBudget;
use muster_model::reservation::Reservation;
use muster_model::spec::{GpuPart, Tier};
use muster_model::topology::Level;
use muster_model::units::Time;
use muster_scheduler::{FAR, Placed, Plan, Running, StartReservation, Work, mig};
use std::collections::{BTreeMap, BTreeSet};

/// A plan before it is carried out.
pub fn plan(life: &ClusterRun, p: &Plan) {
    let again = muster_scheduler::plan(&mut life.c.clone(), &life.policy, life.now);
    assert_eq!(again, *p, "the same question, another answer");
    let mut seen = BTreeSet::new();
    let starts = p.starts.iter().map(|s| s.job);
    for id in starts.chain(p.reserved_starts.iter().map(|x| x.job)) {
        assert!(seen.insert(id), "{id} is named twice");
        assert!(life.waits(id), "{id} does not wait");
    }
    let mut going: Vec<JobId> = Vec::new();
    for v in &p.victims {
        let (r, by) = (&life.c.running[&v.job], life.c.queue.get(v.by).unwrap());
        assert!(!r.stopping && !going.contains(&v.job), "{} is stopped twice", v.job);
        let ran = life.now.since(r.placed);
        assert!(
            r.work.tier == Tier::Spot || ran >= life.policy.preemption.min_run,
            "{} ran only {ran}",
            v.job
        );
        assert!(life.policy.preemption.enabled);
        let below = match v.rank {
            Rank::Priority => r.work.priority < by.priority,
            Rank::Spot => {
                r.work.tier == Tier::Spot && by.tier != Tier::Spot && r.work.priority <= by.priority
            }
            Rank::Quota => {
                // Projects of one quota share what is theirs.
                let quota =
                    |p: &ProjectName| life.quotas.tree.iter().position(|q| q.projects.contains(p));
                let held = |p: &ProjectName| -> u64 {
                    let all = life.c.running.iter();
                    all.filter(|(id, r)| quota(&r.work.project) == quota(p) && !going.contains(id))
                        .map(|(_, r)| r.milli())
                        .sum()
                };
                held(&r.work.project) > nominal(life, &r.work.project).unwrap_or(u64::MAX)
                    && held(&by.project) + by.demand.milli(&r.sku)
                        <= nominal(life, &by.project).unwrap_or(0)
            }
        };
        assert!(below, "{v:?}: {:?} does not rank below {by:?}", r.work);
        going.push(v.job);
    }
    for x in &p.resizes {
        let r = &life.c.running[&x.job];
        assert!(!r.stopping && !going.contains(&x.job), "{} is resized while it stops", x.job);
        going.push(x.job);
        let (min, max) = r.work.elastic.expect("only elastic gangs are resized");
        let have = u32::try_from(r.slots().len()).unwrap();
        assert!(x.nodes >= min && x.nodes <= max && x.nodes != have, "{x:?} of {have}");
        assert_eq!(x.on.len(), x.nodes as usize, "{x:?}");
        assert!(life.now.since(r.placed) >= life.policy.elastic.settle, "{x:?} did not settle");
        match x.by {
            Some(by) => {
                assert!(x.nodes < have);
                assert!(r.work.priority <= life.c.queue.get(by).unwrap().priority);
                let own: Vec<&NodeName> = r.slots().iter().map(|s| &s.node).collect();
                assert!(x.on.iter().all(|n| own.contains(&n)), "it shrinks on nodes it has");
            }
            None => assert!(x.nodes > have),
        }
    }
}

/// What a project may always have, in thousandths, when its quota says so for all GPUs.
fn nominal(life: &ClusterRun, p: &ProjectName) -> Option<u64> {
    let q = life.quotas.tree.iter().find(|q| q.projects.contains(p))?;
    q.gpus.iter().find(|l| l.sku.is_none() && l.tier.is_none()).map(|l| u64::from(l.nominal) * 1000)
}

/// A reserved start before it is carried out.
pub fn reserved_start(life: &ClusterRun, p: &StartReservation) {
    let w = life.c.queue.get(p.job).unwrap();
    assert_eq!(p.nodes.len(), w.demand.nodes() as usize);
    assert!(p.at >= life.now && p.at < FAR);
    let outranked = p.moved.as_deref().is_some_and(|m| m.contains("higher priority class"));
    let mut others = life.jobs.values();
    assert!(!outranked || others.any(|j| j.work.priority > w.priority), "{p:?}: by whom?");
    if let Some(was) = life.reported.get(&p.job)
        && was.basis == Basis::Limits
        && p.basis == Basis::Limits
        && p.at > was.at
    {
        assert!(p.moved.is_some(), "{p:?} is later than {was:?}, without a word");
        let broke = was.nodes.iter().any(|n| life.failed.contains(n));
        assert!(broke || outranked, "{p:?} is later than {was:?} and no node of it failed");
    }
    // Room that was made may give way to what was reserved before.
    let made = life.reported.get(&p.job).is_some_and(|t| t.basis != Basis::Limits);
    if life.failed.is_empty() && !made && !outranked {
        assert_eq!(p.moved, None);
    }
}

/// A start before it is carried out: the gang is whole and where it may be.
pub fn start(life: &ClusterRun, w: &Work, p: &Placed) {
    if life.reserved_starts_hold
        && let Some(ReportedStart { at, basis: Basis::Limits, .. }) = life.reported.get(&w.job)
    {
        assert!(
            life.now <= *at,
            "{} starts {} after its reserved start",
            w.job,
            life.now.since(*at)
        );
    }
    let swap = life.reported.get(&w.job).is_some_and(|t| t.basis == Basis::Swap);
    let nodes: BTreeSet<&NodeName> = p.slots.iter().map(|s| &s.node).collect();
    assert_eq!(nodes.len(), p.slots.len(), "one slot a node");
    let mut rank = 0;
    for (i, s) in p.slots.iter().enumerate() {
        let f = &life.nodes[&s.node];
        let g = &w.demand.groups[s.group as usize];
        assert_eq!((s.node_rank as usize, s.first_rank, s.ranks), (i, rank, g.ranks));
        rank += s.ranks;
        assert_eq!((s.gpus.len(), s.cpus, s.memory), (g.gpus, g.cpus, g.memory));
        match (&g.part, &s.part) {
            (None, None) => {}
            (Some(GpuPart::Milli(a)), Some(AllocatedPart::Milli(b))) => assert_eq!(a, b),
            (Some(GpuPart::Mig(a)), Some(AllocatedPart::Mig { start, size, .. })) => {
                let p = mig::profile(&f.sku, a).expect("the SKU has this profile");
                assert!(p.memory == *size && p.starts.contains(start), "{p:?} at {start}");
            }
            x => panic!("asked for and given: {x:?}"),
        }
        assert!(g.sku.as_ref().is_none_or(|n| n.split('|').any(|n| n == f.sku)));
        assert!(f.simulated || !w.demand.simulated);
        assert!(f.block.is_none() && f.role != NodeRole::Suspect, "{} takes no work", f.name);
        assert!(f.role != NodeRole::Spare || swap, "{} is a spare", f.name);
        let most = life.policy.hazard.lemon_max_nodes as usize;
        assert!(f.role != NodeRole::Lemon || (w.preemptible() && p.slots.len() <= most));
        for c in life.reservations.iter().filter(|c| c.nodes.contains(&s.node)) {
            window(&c.reservation, w, life.now);
        }
        if w.tier == Tier::Reserved {
            let own = |r: &Reservation| {
                r.projects.contains(&w.project)
                    && r.window(life.now).is_some_and(|(a, _)| a <= life.now)
            };
            let mut all = life.reservations.iter().filter(|c| c.nodes.contains(&s.node));
            assert!(all.any(|c| own(&c.reservation)), "reserved work outside its reservation");
        }
    }
    topology(life, w, &p.slots);
    let elastic = w.elastic.is_some();
    for (i, g) in w.demand.groups.iter().enumerate() {
        let n = p.slots.iter().filter(|s| s.group as usize == i).count();
        assert!(n == g.nodes as usize || elastic, "group {i} has {n} of {} slots", g.nodes);
    }
}

/// Work with a limit is over before a window that is not its own, and never begins inside one.
fn window(r: &Reservation, w: &Work, now: Time) {
    if r.projects.contains(&w.project) || (r.lend && w.tier == Tier::Spot) {
        return;
    }
    if let Some((from, to)) = r.window(now) {
        let end = w.limit.map_or(now + muster_model::units::Span(1), |l| now + l);
        assert!(end <= from || now >= to, "{} runs into reservation {}", w.job, r.name);
    }
}

fn topology(life: &ClusterRun, w: &Work, slots: &[Slot]) {
    let path = |s: &Slot, l: Level| {
        life.nodes[&s.node].location.path(&s.node, l).iter().map(ToString::to_string).collect()
    };
    let same = |l: Level| {
        let all: BTreeSet<Vec<String>> = slots.iter().map(|s| path(s, l)).collect();
        all.len() <= 1
    };
    assert!(same(Level::Cluster), "a gang never leaves its cluster");
    if let Some(l) = w.demand.required {
        assert!(same(l), "not in one {l}: {slots:?}");
    }
    if let Some(size) = w.demand.segment {
        let mut by: BTreeMap<Vec<String>, u32> = BTreeMap::new();
        for s in slots {
            *by.entry(path(s, Level::Nvlink)).or_default() += 1;
        }
        assert!(by.values().all(|n| n.is_multiple_of(size)), "pieces of {size}: {by:?}");
    }
    for pair in slots.windows(2).filter(|p| p[0].group == p[1].group) {
        let key = |s: &Slot| -> String {
            let all: Vec<String> = path(s, Level::Node);
            all.join("/")
        };
        assert!(key(&pair[0]) < key(&pair[1]), "ranks follow the topology");
    }
}

/// Everything between two plans.
pub fn state(life: &ClusterRun) {
    assert!(life.c.problems().is_empty(), "{:?}", life.c.problems());
    space(life);
    assert_eq!(life.c.ledger.exceeded(), None);
    quotas(life);
    users(life);
    power(life);
    if life.reserved_starts_hold {
        for (id, t) in &life.reported {
            if t.basis == Basis::Limits && life.waits(*id) {
                assert!(
                    t.at > life.now,
                    "{id} has a reserved start at {:?}, and now is {:?}",
                    t,
                    life.now
                );
            }
        }
    }
}

/// Nothing is held twice.
fn space(life: &ClusterRun) {
    let mut by: BTreeMap<&NodeName, Vec<&Slot>> = BTreeMap::new();
    for r in life.c.running.values() {
        assert!(!life.waits(r.work.job), "{} runs and waits", r.work.job);
        for s in r.slots() {
            by.entry(&s.node).or_default().push(s);
        }
    }
    for (name, slots) in by {
        let f = &life.nodes[name];
        let cpus: u32 = slots.iter().map(|s| s.cpus).sum();
        let memory: u64 = slots.iter().map(|s| s.memory.0).sum();
        assert!(cpus <= f.cpus && memory <= f.memory.0, "{name} has too little");
        let mut whole = GpuSet::EMPTY;
        let mut milli: BTreeMap<u32, u32> = BTreeMap::new();
        let mut cut: BTreeMap<u32, u8> = BTreeMap::new();
        for s in slots {
            assert!(s.gpus.minus(f.gpus).is_empty());
            match &s.part {
                None => {
                    assert!(whole.and(s.gpus).is_empty(), "a GPU of {name} is held twice");
                    assert!(s.gpus.and(f.mig).is_empty(), "a cut GPU of {name} is held whole");
                    whole = whole.or(s.gpus);
                }
                Some(AllocatedPart::Milli(m)) => {
                    let g = s.gpus.iter().next().unwrap();
                    assert!(s.gpus.and(f.mig).is_empty());
                    *milli.entry(g).or_default() += m;
                }
                Some(AllocatedPart::Mig { start, size, .. }) => {
                    assert!(s.gpus.minus(f.mig).is_empty() && start + size <= 8);
                    let g = s.gpus.iter().next().unwrap();
                    let used = cut.entry(g).or_default();
                    let mask = mig::slices(*start, *size);
                    assert_eq!(*used & mask, 0, "a slice of {name} is held twice");
                    *used |= mask;
                }
            }
        }
        for (g, m) in milli {
            assert!(m <= 1000, "GPU {g} of {name} is shared {m} times in a thousand");
            assert!(whole.and(GpuSet(1 << g)).is_empty(), "GPU {g} of {name}: whole and shared");
        }
    }
}

fn sums<K: Ord>(life: &ClusterRun, key: impl Fn(&Running) -> K) -> BTreeMap<K, (u32, u64)> {
    let mut out: BTreeMap<K, (u32, u64)> = BTreeMap::new();
    for r in life.c.running.values() {
        let e = out.entry(key(r)).or_default();
        e.0 += 1;
        e.1 += r.milli();
    }
    out
}

/// For trees of one root and projects below it.
fn quotas(life: &ClusterRun) {
    let held = sums(life, |r| r.work.project.clone());
    let all: Vec<_> = life.quotas.tree.iter().filter(|q| !q.projects.is_empty()).collect();
    let limits = |q: &muster_model::quota::Quota| {
        q.gpus.iter().find(|l| l.sku.is_none() && l.tier.is_none()).cloned()
    };
    let mut owned = 0;
    let mut used = 0;
    for q in &all {
        let here: u64 = q.projects.iter().filter_map(|p| held.get(p)).map(|h| h.1).sum();
        used += here;
        let Some(l) = limits(q) else { continue };
        owned += u64::from(l.nominal) * 1000;
        if let Some(b) = l.borrow {
            let most = u64::from(l.nominal + b) * 1000;
            assert!(here <= most, "quota {} holds {here} of {most}", q.name);
        }
    }
    if all.iter().any(|q| limits(q).is_some()) {
        assert!(used <= owned, "{used} of {owned} are held in all");
    }
}

fn users(life: &ClusterRun) {
    let l = &life.policy.limits;
    for (k, (jobs, milli)) in sums(life, |r| (r.work.project.clone(), r.work.user.clone())) {
        assert!(l.running_jobs_per_user.is_none_or(|n| jobs <= n), "{k:?} runs {jobs} jobs");
        assert!(l.gpus_per_user.is_none_or(|n| milli <= u64::from(n) * 1000), "{k:?}: {milli}");
    }
}

fn power(life: &ClusterRun) {
    let p = &life.policy.power;
    if p.over_budget != OverBudget::Refuse || (p.feeds.is_empty() && p.racks.is_empty()) {
        return;
    }
    let mut nodes: BTreeMap<&NodeName, u64> = BTreeMap::new();
    for r in life.c.running.values() {
        for s in r.slots() {
            *nodes.entry(&s.node).or_default() += match &s.part {
                None => u64::from(s.gpus.len()) * 1000,
                Some(AllocatedPart::Milli(m)) => u64::from(*m),
                Some(AllocatedPart::Mig { size, .. }) => u64::from(*size) * 125,
            };
        }
    }
    let mut feeds: BTreeMap<&str, u64> = BTreeMap::new();
    let mut racks: BTreeMap<&str, u64> = BTreeMap::new();
    for (n, milli) in nodes {
        let l = &life.nodes[n].location;
        let watts = u64::from(p.gpu_watts[&life.nodes[n].sku]);
        let draw = u64::from(p.node_watts) + milli * watts / 1000;
        *feeds.entry(&l.feed).or_default() += draw;
        *racks.entry(&l.rack).or_default() += draw;
    }
    for (all, budgets) in [(feeds, &p.feeds), (racks, &p.racks)] {
        for (name, used) in all {
            assert!(budgets.get(name).is_none_or(|b| used <= *b), "{name} draws {used} W");
        }
    }
}
