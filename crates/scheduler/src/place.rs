//! Finds room for one gang: the narrowest domain that holds it, and there the nodes that are
//! already most used, so that large holes stay whole.

use crate::fleet::{DOMAIN_LEVELS, Domain, Entry, Fleet, Pos, domain_path};
use crate::queue::Demand;
use muster_model::placement::{GpuSet, Slot};
use muster_model::spec::Group;
use muster_model::topology::Level;
use muster_model::units::Bytes;
use std::collections::BTreeMap;

/// Room for a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// In rank order.
    pub slots: Vec<Slot>,
    /// The narrowest domain that holds all of it.
    pub domain: String,
    /// Its level.
    pub level: Level,
}

/// There is no room now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// Could this node ever carry a share of the group, were it empty and in service?
pub(crate) fn capable(e: &Entry, g: &Group, simulated: bool) -> bool {
    e.facts.gpus.len() >= g.gpus
        && e.facts.cpus >= g.cpus
        && e.facts.memory.0 >= g.memory.0
        && g.sku.as_ref().is_none_or(|s| *s == e.facts.sku)
        && (!simulated || e.facts.simulated)
}

/// Can it carry one now?
pub(crate) fn fits(e: &Entry, g: &Group, simulated: bool) -> bool {
    e.usable()
        && capable(e, g, simulated)
        && e.free_gpus().len() >= g.gpus
        && e.free_cpus() >= g.cpus
        && e.free_memory() >= g.memory.0
}

/// Which GPUs of the free ones: an aligned block if there is one (neighbours share a PCIe
/// switch and, on cut-down boards, an NVLink pair), else the lowest.
fn choose(free: GpuSet, n: u32) -> GpuSet {
    if n.is_power_of_two() && n > 1 {
        for start in (0..64 - n + 1).step_by(n as usize) {
            let block = GpuSet(GpuSet::first(n).0 << start);
            if block.minus(free).is_empty() {
                return block;
            }
        }
    }
    free.lowest(n)
}

/// Levels to try, narrowest first. A gang never leaves its cluster: there is no fabric between.
fn levels(required: Option<Level>) -> impl Iterator<Item = Level> {
    let widest = required.unwrap_or(Level::Cluster).max(Level::Cluster);
    DOMAIN_LEVELS.into_iter().filter(move |l| *l >= widest)
}

/// Finds room for a gang in the fleet as it is.
///
/// # Errors
/// [`NoRoom`] when no allowed domain holds all of it now.
pub fn place(fleet: &Fleet, demand: &Demand) -> Result<Placed, NoRoom> {
    if demand.nodes() == 1 {
        return place_one(fleet, demand);
    }
    for level in levels(demand.required) {
        let range = (level, String::new())..;
        let mut best: Option<(u64, &String, Vec<Slot>)> = None;
        for ((l, path), domain) in fleet.domains.range(range) {
            if *l != level {
                break;
            }
            // Best fit: the domain with the least left over; the first by name among equals.
            if best.as_ref().is_some_and(|(free, ..)| domain.free_gpus >= *free) {
                continue;
            }
            if !may_fit(domain, demand) {
                continue;
            }
            if let Some(slots) = fill(fleet, domain, demand) {
                best = Some((domain.free_gpus, path, slots));
            }
        }
        if let Some((_, path, slots)) = best {
            return Ok(Placed { slots, domain: path.clone(), level });
        }
    }
    Err(NoRoom)
}

/// Would it fit if nothing ran: on nodes in service, in a domain that is allowed? A domain is as
/// wide as the demand allows, since a wider one holds at least as much.
#[must_use]
pub fn possible(fleet: &Fleet, demand: &Demand) -> bool {
    most_nodes(fleet, demand, |e, g| e.usable() && capable(e, g, demand.simulated))
        .iter()
        .zip(demand.groups.iter())
        .all(|(have, g)| *have >= g.nodes)
}

/// For the allowed domain that comes closest: nodes of each group's kind that pass `test`.
pub(crate) fn most_nodes(
    fleet: &Fleet,
    demand: &Demand,
    test: impl Fn(&Entry, &Group) -> bool,
) -> Vec<u32> {
    let level = demand.required.unwrap_or(Level::Cluster).max(Level::Cluster);
    if level == Level::Node {
        let one = |g: &Group| u32::from(fleet.entries().any(|e| test(e, g)));
        return demand.groups.iter().map(one).collect();
    }
    let mut best: Option<(u64, Vec<u32>)> = None;
    for (_, domain) in
        fleet.domains.range((level, String::new())..).take_while(|((l, _), _)| *l == level)
    {
        let have: Vec<u32> = demand
            .groups
            .iter()
            .map(|g| {
                let n = domain.nodes.iter().filter(|p| test(fleet.entry(p.ix), g)).count();
                u32::try_from(n).unwrap_or(u32::MAX)
            })
            .collect();
        // Closest: fewest nodes missing over all groups.
        let missing: u64 = demand
            .groups
            .iter()
            .zip(&have)
            .map(|(g, h)| u64::from(g.nodes.saturating_sub(*h)))
            .sum();
        if best.as_ref().is_none_or(|(m, _)| missing < *m) {
            best = Some((missing, have));
        }
    }
    best.map_or_else(|| vec![0; demand.groups.len()], |(_, have)| have)
}

/// A cheap test that never says no to a domain that holds the gang.
fn may_fit(domain: &Domain, demand: &Demand) -> bool {
    domain.free_gpus >= demand.gpus()
        && demand.groups.iter().all(|g| domain.with_free(g.gpus) >= g.nodes)
}

/// One node: the fullest that still fits, by way of the index.
fn place_one(fleet: &Fleet, demand: &Demand) -> Result<Placed, NoRoom> {
    let g = demand.groups.iter().find(|g| g.nodes == 1).ok_or(NoRoom)?;
    for nodes in fleet.by_free.range(g.gpus..).map(|(_, n)| n) {
        for pos in nodes {
            let e = fleet.entry(pos.ix);
            if fits(e, g, demand.simulated) {
                let slots = vec![slot(e, 0, g, 0, 0, choose(e.free_gpus(), g.gpus))];
                let domain = domain_path(&e.facts, Level::Node);
                return Ok(Placed { slots, domain, level: Level::Node });
            }
        }
    }
    Err(NoRoom)
}

/// Fills a gang into a domain, or says that it does not fit. Every slot of a gang is on a node of
/// its own: an agent runs one slot of an attempt.
fn fill(fleet: &Fleet, domain: &Domain, demand: &Demand) -> Option<Vec<Slot>> {
    let mut chosen: BTreeMap<&Pos, (usize, GpuSet)> = BTreeMap::new();
    // Groups with many GPUs a node have the fewest places to go, so they choose first.
    let mut order: Vec<usize> = (0..demand.groups.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse((demand.groups[i].gpus, demand.groups[i].memory)));
    for gi in order {
        let g = &demand.groups[gi];
        let mut candidates: Vec<(u32, &Pos)> = domain
            .nodes
            .iter()
            .filter(|pos| !chosen.contains_key(pos))
            .filter(|pos| fits(fleet.entry(pos.ix), g, demand.simulated))
            .map(|pos| (fleet.entry(pos.ix).free_gpus().len(), pos))
            .collect();
        if candidates.len() < g.nodes as usize {
            return None;
        }
        candidates.sort();
        for (_, pos) in candidates.into_iter().take(g.nodes as usize) {
            let gpus = choose(fleet.entry(pos.ix).free_gpus(), g.gpus);
            chosen.insert(pos, (gi, gpus));
        }
    }
    let mut chosen: Vec<(usize, &Pos, GpuSet)> =
        chosen.into_iter().map(|(pos, (gi, gpus))| (gi, pos, gpus)).collect();
    // Ranks follow the groups as written, and within a group the order of the topology, so that
    // neighbours in a ring are near each other.
    chosen.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let mut first_rank = 0;
    let slots = chosen.iter().enumerate().map(|(i, (gi, pos, gpus))| {
        let g = &demand.groups[*gi];
        let node_rank = u32::try_from(i).unwrap_or(u32::MAX);
        let s = slot(fleet.entry(pos.ix), *gi, g, node_rank, first_rank, *gpus);
        first_rank += g.ranks;
        s
    });
    Some(slots.collect())
}

fn slot(e: &Entry, gi: usize, g: &Group, node_rank: u32, first_rank: u32, gpus: GpuSet) -> Slot {
    Slot {
        node: e.facts.name.clone(),
        group: u32::try_from(gi).unwrap_or(u32::MAX),
        node_rank,
        first_rank,
        ranks: g.ranks,
        gpus,
        cpus: g.cpus,
        memory: Bytes(g.memory.0),
        part: None,
    }
}
