//! Finds room for one gang: the narrowest domain that holds it, and there the nodes whose loss
//! hurts the others least.

use crate::domain::Domain;
use crate::fleet::{DOMAIN_LEVELS, Fleet, level_ix};
use crate::node::{Ask, Entry, slot};
use crate::pick::pick;
use crate::power::Added;
use crate::windows::Asker;
use crate::work::{Demand, Work};
use muster_model::placement::{Fabric, GpuSet, Slot};
use muster_model::spec::Tier;
use muster_model::topology::Level;
use muster_model::units::Time;
use std::collections::BTreeSet;

/// Room for a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// In rank order.
    pub slots: Vec<Slot>,
    /// The narrowest domain that holds all of it.
    pub domain: String,
    /// The level of that domain.
    pub level: Level,
    /// What a collective runs over.
    pub fabric: Fabric,
    /// Power cap for each GPU, when a budget asks for one.
    pub cap_watts: Option<u32>,
}

/// There is no room now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCapacity;

/// A question about room.
#[derive(Debug, Clone)]
pub(crate) struct Query<'a> {
    pub(crate) demand: &'a Demand,
    pub(crate) asks: Vec<Ask>,
    pub(crate) who: Asker<'a>,
    pub(crate) now: Time,
    /// Over by then, if it starts now.
    pub(crate) end: Time,
    /// Nodes that may fail are avoided where they can be.
    pub(crate) large: bool,
    /// Nodes where something was found will do, and the one that ended its last attempt.
    pub(crate) anywhere: bool,
    /// The node that ended its last attempt.
    pub(crate) tried: Option<u32>,
}

impl<'a> Query<'a> {
    /// What a job asks, starting now. `skus`: those that its quota leaves it.
    pub(crate) fn new(
        fleet: &Fleet,
        w: &'a Work,
        now: Time,
        large_gang: u32,
        skus: u64,
    ) -> Query<'a> {
        let mut asks = fleet.asks(&w.demand, fleet.lemon_will_do(w));
        for a in &mut asks {
            if a.gpus > 0 {
                a.skus &= skus;
            }
        }
        Query {
            demand: &w.demand,
            asks,
            who: Asker::of(w),
            now,
            end: w.ends(now),
            large: w.demand.nodes() >= large_gang,
            anywhere: true,
            tried: fleet.tried_last(w.job),
        }
    }

    /// Can the node carry this share from now on, as long as the job lasts?
    pub(crate) fn passes(&self, f: &Fleet, e: &Entry, a: &Ask) -> bool {
        e.open()
            && (self.anywhere || (!e.facts.avoided && self.tried != Some(e.pos.ix)))
            && f.free_until(e, a, self.who, self.now, self.end)
    }
}

/// Nodes with reserved starts that a small job tries first: what is over by then fits before it.
const HOLES: usize = 64;

/// Levels to try, narrowest first. A gang never leaves its cluster: there is no fabric between.
fn levels(d: &Demand) -> impl Iterator<Item = Level> {
    let widest = d.widest();
    DOMAIN_LEVELS.into_iter().filter(move |l| *l >= widest)
}

/// Finds room for a gang in the fleet as it is. Work without a limit is stopped where a window of
/// others begins: it goes where none does, if it can.
pub(crate) fn place(fleet: &Fleet, q: &Query<'_>) -> Result<Placed, NoCapacity> {
    // Reserved work is inside a window in any case.
    let limitless = q.who.endless && q.who.tier != Tier::Reserved;
    if limitless && fleet.is_any_window_ahead(q.who, q.now) {
        let who = Asker { endless: false, ..q.who };
        let placed = place_preferred(fleet, &Query { who, ..q.clone() });
        if placed.is_ok() {
            return placed;
        }
    }
    place_preferred(fleet, q)
}

/// Finds room on nodes where nothing was found, and not on the one that ended its last attempt, if
/// they do.
fn place_preferred(fleet: &Fleet, q: &Query<'_>) -> Result<Placed, NoCapacity> {
    if fleet.avoided.is_empty() && q.tried.is_none() {
        return place_among(fleet, q);
    }
    place_sound(fleet, q).or_else(|NoCapacity| place_among(fleet, q))
}

/// Finds room for a gang without the nodes where something was found.
fn place_sound(fleet: &Fleet, q: &Query<'_>) -> Result<Placed, NoCapacity> {
    place_among(fleet, &Query { anywhere: false, ..q.clone() })
}

fn place_among(fleet: &Fleet, q: &Query<'_>) -> Result<Placed, NoCapacity> {
    let n = q.demand.nodes();
    if n == 1 {
        return place_one(fleet, q);
    }
    // A spread gang wants many domains, not the narrowest one.
    let spread = q.demand.spread.is_some();
    for level in levels(q.demand) {
        if fleet.largest[level_ix(level)] < n as usize || (spread && level != q.demand.widest()) {
            continue;
        }
        // Best fit: the domain with the least free; the first by name among equals.
        for id in fleet.free_by_level[level_ix(level)].with_at_least(whole_gpus(q)) {
            let domain = &fleet.domains[id as usize];
            if !domain.nodes.is_empty()
                && may_fit(domain, q)
                && let Some(placed) = fill(fleet, domain, level, q)
            {
                return Ok(placed);
            }
        }
    }
    Err(NoCapacity)
}

/// A cheap test that never says no to a domain that holds the gang.
pub(crate) fn may_fit(domain: &Domain, q: &Query<'_>) -> bool {
    q.asks.iter().all(|a| domain.with_free(a.skus, whole(a)) >= a.nodes)
        && domain.free_gpus >= whole_gpus(q)
}

/// Whole GPUs that a share takes of a node.
fn whole(a: &Ask) -> u32 {
    if a.part.is_some() { 0 } else { a.gpus }
}

/// Whole GPUs that the gang takes.
fn whole_gpus(q: &Query<'_>) -> u64 {
    q.asks.iter().map(|a| u64::from(a.nodes * whole(a))).sum()
}

/// One node: the kind of node whose choice leaves least that nobody can use, then one in a leaf
/// that is broken up already.
fn place_one(fleet: &Fleet, q: &Query<'_>) -> Result<Placed, NoCapacity> {
    let a = q.asks.iter().find(|a| a.nodes == 1).ok_or(NoCapacity)?;
    let good = |e: &Entry| q.passes(fleet, e, a) && Added::default().allow(&fleet.meter, e, a);
    let booked = fleet.booked.iter().take(HOLES).map(|p| fleet.entry(p.ix));
    let holes: Vec<&Entry> = booked.filter(|e| good(e)).collect();
    let found = fleet.best(a, |class, members| {
        let hole = holes.iter().copied().find(|e| members.contains(&e.pos));
        if hole.is_some() {
            hole
        } else if class.empty {
            fleet.in_broken_leaf(members, &good)
        } else {
            members.iter().map(|p| fleet.entry(p.ix)).find(|e| good(e))
        }
    });
    let e = found.ok_or(NoCapacity)?;
    let g = q.demand.groups.iter().find(|g| g.nodes == 1).ok_or(NoCapacity)?;
    let s = slot(e, g, (0, 0, 0), e.choose(fleet, a, GpuSet(u64::MAX)));
    let mut added = Added::default();
    added.allow(&fleet.meter, e, a);
    Ok(Placed {
        slots: vec![s],
        domain: e.path.to_string(),
        level: Level::Node,
        fabric: Fabric::Nvlink,
        cap_watts: fleet.cap(&added, e),
    })
}

/// Fills a gang into a domain, or says that it does not fit. Every slot of a gang is on a node of
/// its own: an agent runs one slot of an attempt.
pub(crate) fn fill(fleet: &Fleet, domain: &Domain, level: Level, q: &Query<'_>) -> Option<Placed> {
    let mut chosen: Vec<(usize, u32)> = Vec::new();
    let mut added = Added::default();
    // Groups with many GPUs a node have the fewest places to go, so they choose first.
    let mut order: Vec<usize> = (0..q.asks.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse((q.asks[i].gpus, q.asks[i].memory)));
    for gi in order {
        let a = &q.asks[gi];
        let mut able: Vec<&Entry> = domain
            .nodes
            .iter()
            .map(|p| fleet.entry(p.ix))
            .filter(|e| q.passes(fleet, e, a))
            .filter(|e| !chosen.iter().any(|(_, ix)| *ix == e.pos.ix))
            .collect();
        if fleet.meter.on() {
            able = within_budget(fleet, able, a, &mut added);
        }
        let picked = pick(fleet, q, &able, a.nodes as usize, level)?;
        chosen.extend(picked.into_iter().map(|ix| (gi, ix)));
    }
    Some(build(fleet, q, chosen, level, domain.path.to_string(), &added))
}

/// Nodes that the budgets of their racks and feeds still carry, one after the other.
fn within_budget<'f>(
    fleet: &'f Fleet,
    able: Vec<&'f Entry>,
    a: &Ask,
    added: &mut Added,
) -> Vec<&'f Entry> {
    let mut out = Vec::with_capacity(able.len());
    let mut need = a.nodes;
    for e in able {
        if need == 0 && fleet.meter.refuses() {
            break;
        }
        if added.allow(&fleet.meter, e, a) {
            out.push(e);
            need = need.saturating_sub(1);
        }
    }
    out
}

/// Slots in rank order: groups as written, and within a group the order of the topology, so that
/// neighbours in a ring are near each other.
pub(crate) fn build(
    fleet: &Fleet,
    q: &Query<'_>,
    mut chosen: Vec<(usize, u32)>,
    level: Level,
    domain: String,
    added: &Added,
) -> Placed {
    chosen.sort_by_key(|(gi, ix)| (*gi, fleet.entry(*ix).pos));
    // The same GPUs on every node, if they are free everywhere: rank r of each node then sits on
    // the same rail.
    let common = chosen
        .iter()
        .map(|(_, ix)| fleet.entry(*ix).room.whole)
        .fold(GpuSet(u64::MAX), GpuSet::and);
    let mut first_rank = 0;
    let mut slots = Vec::with_capacity(chosen.len());
    for (i, (gi, ix)) in chosen.iter().enumerate() {
        let (e, g) = (fleet.entry(*ix), &q.demand.groups[*gi]);
        slots.push(slot(e, g, (*gi, i, first_rank), e.choose(fleet, &q.asks[*gi], common)));
        first_rank += g.ranks;
    }
    let fabric = fabric(fleet, &slots, &chosen, level);
    let cap = chosen.first().and_then(|(_, ix)| fleet.cap(added, fleet.entry(*ix)));
    Placed { slots, domain, level, fabric, cap_watts: cap }
}

fn fabric(fleet: &Fleet, slots: &[Slot], chosen: &[(usize, u32)], level: Level) -> Fabric {
    match level {
        Level::Node | Level::Nvlink => Fabric::Nvlink,
        Level::Rack | Level::Leaf => {
            let rails = |ix: u32| &fleet.entry(ix).facts.location.rails;
            let first = chosen.first().map(|(_, ix)| rails(*ix));
            let same_rails = first
                .is_some_and(|r| !r.is_empty() && chosen.iter().all(|(_, ix)| rails(*ix) == r));
            let gpus: Vec<GpuSet> =
                slots.iter().map(|s| s.gpus).filter(|g| !g.is_empty()).collect();
            let same_gpus = gpus.windows(2).all(|w| w[0] == w[1]);
            if same_rails && same_gpus { Fabric::Rail } else { Fabric::Leaf }
        }
        Level::Spine => Fabric::Spine,
        Level::Cluster | Level::Region => Fabric::Core,
    }
}

/// Is there room on exactly these nodes? The group of each, and the power they would add.
pub(crate) fn find_capacity_on(
    fleet: &Fleet,
    q: &Query<'_>,
    nodes: &[u32],
) -> Option<(Vec<usize>, Added)> {
    let groups: Vec<usize> = q
        .asks
        .iter()
        .enumerate()
        .flat_map(|(i, a)| std::iter::repeat_n(i, a.nodes as usize))
        .collect();
    // An agent runs one slot of an attempt: no node may be named twice.
    let once = nodes.iter().copied().collect::<BTreeSet<u32>>().len() == nodes.len();
    if groups.len() != nodes.len() || !once {
        return None;
    }
    let mut added = Added::default();
    for (gi, ix) in groups.iter().zip(nodes) {
        let (e, a) = (fleet.entry(*ix), &q.asks[*gi]);
        let good = e.serving()
            && fleet.free_until(e, a, q.who, q.now, q.end)
            && added.allow(&fleet.meter, e, a);
        if !good {
            return None;
        }
    }
    Some((groups, added))
}

/// Room on exactly these nodes, given in the order of the groups: spares too.
pub(crate) fn place_on(fleet: &Fleet, q: &Query<'_>, nodes: &[u32]) -> Result<Placed, NoCapacity> {
    let (groups, added) = find_capacity_on(fleet, q, nodes).ok_or(NoCapacity)?;
    let level = fleet.common_level(nodes);
    let domain = nodes.first().map_or_else(String::new, |ix| {
        let e = fleet.entry(*ix);
        match level {
            Level::Node => e.path.to_string(),
            l => fleet.domain_of(e, l).path.to_string(),
        }
    });
    let chosen = groups.into_iter().zip(nodes.iter().copied()).collect();
    Ok(build(fleet, q, chosen, level, domain, &added))
}

/// Room on the nodes that are kept for a job. Where something was found on one of them since, or one
/// ended its last attempt, others do better, if they fit now.
pub(crate) fn place_on_kept(
    fleet: &Fleet,
    q: &Query<'_>,
    nodes: &[u32],
) -> Result<Placed, NoCapacity> {
    let doubtful = |ix: &u32| fleet.avoided.contains(ix) || q.tried == Some(*ix);
    let sound = nodes.iter().any(doubtful).then(|| place_sound(fleet, q).ok()).flatten();
    sound.map_or_else(|| place_on(fleet, q, nodes), Ok)
}

/// Room for a job now, as the next cycle would find it: for questions before submission, and for
/// measuring placement alone.
///
/// # Errors
/// [`NoCapacity`] when there is none.
pub fn find_capacity(
    c: &crate::Cluster,
    w: &Work,
    policy: &muster_model::policy::SitePolicy,
    now: Time,
) -> Result<Placed, NoCapacity> {
    let skus = c.quota_skus(w);
    place(&c.fleet, &Query::new(&c.fleet, w, now, policy.hazard.large_gang, skus))
}

impl Fleet {
    /// Watts each GPU may draw when a budget caps a gang.
    fn cap(&self, added: &Added, e: &Entry) -> Option<u32> {
        let milli = added.cap_milli?;
        let full = u64::from(
            self.meter
                .policy()
                .gpu_watts
                .get(&e.facts.sku)
                .copied()
                .unwrap_or_else(|| crate::power::rated(&e.facts.sku)),
        );
        u32::try_from(full * milli / 1000).ok()
    }

    /// The narrowest level at which the nodes share a domain.
    pub(crate) fn common_level(&self, nodes: &[u32]) -> Level {
        let [first, rest @ ..] = nodes else { return Level::Node };
        if rest.iter().all(|ix| ix == first) {
            return Level::Node;
        }
        let a = self.entry(*first).domains;
        DOMAIN_LEVELS
            .into_iter()
            .enumerate()
            .find(|(i, _)| rest.iter().all(|ix| self.entry(*ix).domains[*i] == a[*i]))
            .map_or(Level::Region, |(_, l)| l)
    }

    /// A node of an empty kind, in the leaf with the fewest empty nodes: whole leaves stay whole.
    fn in_broken_leaf<'f>(
        &'f self,
        members: &'f BTreeSet<crate::node::Pos>,
        good: &impl Fn(&Entry) -> bool,
    ) -> Option<&'f Entry> {
        let leaf = level_ix(Level::Leaf);
        for (_, _, id) in &self.leaves {
            let d = &self.domains[*id as usize];
            let Some(first) = d.nodes.first() else { continue };
            let found = members
                .range(*first..)
                .map(|p| self.entry(p.ix))
                .take_while(|e| e.domains[leaf] == *id)
                .find(|e| good(e));
            if found.is_some() {
                return found;
            }
        }
        None
    }
}
