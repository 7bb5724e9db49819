//! The machines of a site, and what changes make of them.

use super::Site;
use crate::SimError;
use crate::fleet::{Fleet, Machine};
use muster_engine::AllocationBlocker;
use muster_model::names::NodeName;
use muster_model::node::{Node, NodeRole, Stage};
use muster_model::topology::{Location, Topology};
use muster_simnode::{SimConfig, Sku};
use std::collections::{BTreeMap, BTreeSet};

/// The kinds that can be simulated.
const KINDS: [Sku; 4] = [Sku::H100Sxm, Sku::H200Sxm, Sku::B200Sxm, Sku::Gb200];

/// Nodes that are left out are named up to this many.
const NAMED: usize = 8;

/// Names of kinds of GPU here, and what stands for each in the twin.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kinds(BTreeMap<String, Sku>);

impl Kinds {
    /// A kind that cannot be simulated is one that the site does not have, so that the two are
    /// distinguished: what matters to a placement is that they differ.
    pub(crate) fn of<'n>(nodes: impl Iterator<Item = &'n str>) -> Kinds {
        let names: BTreeSet<&str> = nodes.filter(|n| *n != "cpu").collect();
        let mut all: BTreeMap<String, Sku> =
            names.iter().filter_map(|n| n.parse().ok().map(|s| ((*n).to_string(), s))).collect();
        for n in names {
            if !all.contains_key(n) {
                let free = KINDS.into_iter().find(|k| all.values().all(|s| s != k));
                all.insert(n.into(), free.unwrap_or_default());
            }
        }
        Kinds(all)
    }

    /// From now on all of them are one.
    pub(crate) fn all_are(&mut self, sku: Sku) {
        self.0.values_mut().for_each(|s| *s = sku);
    }

    pub(crate) fn kind(&self, name: &str) -> Sku {
        self.0.get(name).copied().or_else(|| name.parse().ok()).unwrap_or_default()
    }

    /// A list such as `h100-sxm|a100-sxm` in the twin's names.
    pub(crate) fn names(&self, list: &str) -> String {
        let mut out: Vec<String> = Vec::new();
        for name in list.split('|') {
            let reported = self.0.get(name).map_or_else(|| name.to_string(), ToString::to_string);
            if !out.contains(&reported) {
                out.push(reported);
            }
        }
        out.join("|")
    }

    /// Names that are reported as another kind.
    pub(crate) fn renamed(&self) -> Vec<&str> {
        self.0.iter().filter(|(n, s)| **n != s.to_string()).map(|(n, _)| n.as_str()).collect()
    }
}

fn in_service(n: &Node) -> bool {
    n.stage == Stage::Ready
        && n.reachable
        && n.cordon.is_none()
        && n.breaker.is_none()
        && !n.protected
        && n.role != NodeRole::Suspect
}

/// Machines that may take work now, and the nodes that may not.
pub(crate) fn present<'s>(site: &'s Site, kinds: &Kinds) -> (Vec<Machine>, Vec<&'s Node>) {
    let known = |n: &&Node| n.stage != Stage::Retired && n.stage != Stage::Enrolled;
    let all: Vec<&Node> = site.state.nodes.values().map(AsRef::as_ref).filter(known).collect();
    // A log that was written to its end by a site that was shut down.
    let some = all.iter().any(|n| in_service(n));
    let (chosen, out): (Vec<&Node>, Vec<&Node>) =
        all.into_iter().partition(|n| !some || in_service(n));
    (chosen.into_iter().map(|n| machine(n, kinds)).collect(), out)
}

/// Which nodes are left out, and why.
pub(crate) fn left_out(site: &Site, out: &[&Node]) -> Option<String> {
    let named = |n: &&Node| match site.state.allocation_blocker(n) {
        Some(AllocationBlocker::Always(why)) => format!("{} ({why})", n.name),
        Some(AllocationBlocker::IfOthersFit(_)) | None => n.name.to_string(),
    };
    let mut names: Vec<String> = out.iter().take(NAMED).map(named).collect();
    if out.len() > NAMED {
        names.push(format!("{} more", out.len() - NAMED));
    }
    let (nodes, are) = if out.len() == 1 { ("node takes", "is") } else { ("nodes take", "are") };
    let busy = out.iter().any(|n| site.state.attempts_on(&n.name).next().is_some());
    let moved = if busy { "; what runs there is simulated on the others" } else { "" };
    (!out.is_empty()).then(|| {
        format!("{} {nodes} no work now and {are} left out: {}{moved}", out.len(), names.join(", "))
    })
}

/// Every machine that the log knows.
pub(crate) fn ever(site: &Site, kinds: &Kinds) -> Vec<Machine> {
    let all = site.state.nodes.values().filter(|n| n.stage != Stage::Enrolled);
    all.map(|n| machine(n, kinds)).collect()
}

fn machine(n: &Node, kinds: &Kinds) -> Machine {
    let usable = n.inventory.gpus.len() - n.excluded_gpus.len().min(64) as usize;
    let mut config = SimConfig::of(kinds.kind(n.sku()), u32::try_from(usable).unwrap_or(0));
    config.cpus = n.inventory.cpus;
    config.memory = n.inventory.memory;
    let mig = n.inventory.gpus.iter().filter(|g| g.mig == Some(true)).count();
    config.mig_gpus = u32::try_from(mig).unwrap_or(0);
    Machine {
        name: n.name.clone(),
        config,
        location: n.location.clone(),
        spare: n.role == NodeRole::Spare,
    }
}

/// How many of the machines in each domain, at most.
fn most<'m>(machines: &'m [Machine], of: impl Fn(&'m Location) -> Vec<&'m str>) -> usize {
    let mut count: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for m in machines.iter().filter(|m| m.config.gpus > 0) {
        *count.entry(of(&m.location)).or_default() += 1;
    }
    count.into_values().max().unwrap_or(1)
}

/// Adds machines like the ones there are, in leaves and racks as large as the largest of them.
pub(crate) fn add(machines: &mut Vec<Machine>, by: u32, sku: Option<Sku>) -> Result<(), SimError> {
    let like = machines
        .iter()
        .filter(|m| m.config.gpus > 0)
        .max_by_key(|m| (m.config.gpus, std::cmp::Reverse(&m.name)))
        .cloned()
        .ok_or_else(|| SimError::new("no node has a GPU: there is nothing to have more of"))?;
    let leaf = most(machines, |l| vec![&l.cluster, &l.spine, &l.leaf]).max(4);
    let rack = most(machines, |l| vec![&l.cluster, &l.spine, &l.leaf, &l.rack]).max(1);
    let joined = like.location.nvlink != like.name.as_str();
    let feeds: BTreeSet<String> = machines.iter().map(|m| m.location.feed.clone()).collect();
    let feeds: Vec<String> = feeds.into_iter().collect();
    let taken: BTreeSet<NodeName> = machines.iter().map(|m| m.name.clone()).collect();
    let mut config = like.config.clone();
    if let Some(sku) = sku {
        config = SimConfig::of(sku, if sku == Sku::Gb200 { 4 } else { 8 });
    }
    let free = (1u32..)
        .filter_map(|i| format!("added-{i:04}").parse::<NodeName>().ok())
        .filter(|n| !taken.contains(n));
    for (i, name) in (0usize..).zip(free.take(by as usize)) {
        let rack = i / rack;
        let rack_name = format!("added-rack-{}", rack + 1);
        let location = Location {
            leaf: format!("added-leaf-{}", i / leaf + 1),
            nvlink: if joined { rack_name.clone() } else { name.to_string() },
            rack: rack_name,
            feed: feeds[rack % feeds.len()].clone(),
            rails: Vec::new(),
            ..like.location.clone()
        };
        machines.push(Machine { name, config: config.clone(), location, spare: false });
    }
    Ok(())
}

/// Takes machines away: those without work first, from the last name on.
pub(crate) fn remove(
    machines: &mut Vec<Machine>,
    by: usize,
    busy: &BTreeSet<NodeName>,
) -> Result<(), SimError> {
    let mut order: Vec<(bool, std::cmp::Reverse<NodeName>)> = machines
        .iter()
        .filter(|m| m.config.gpus > 0)
        .map(|m| (busy.contains(&m.name), std::cmp::Reverse(m.name.clone())))
        .collect();
    if by >= order.len() {
        return Err(SimError::new(format!(
            "there are {} nodes with GPUs: at most {} can go",
            order.len(),
            order.len().saturating_sub(1)
        )));
    }
    order.sort();
    let go: BTreeSet<NodeName> = order.into_iter().take(by).map(|(_, n)| n.0).collect();
    machines.retain(|m| !go.contains(&m.name));
    Ok(())
}

/// Makes so many nodes spares: those that are already, then others evenly among the rest.
pub(crate) fn set_spares(machines: &mut [Machine], wanted: u32) -> Result<(), SimError> {
    let with = |m: &Machine| m.config.gpus > 0;
    let all = machines.iter().filter(|m| with(m)).count();
    let wanted = wanted as usize;
    if wanted >= all {
        let most = all.saturating_sub(1);
        return Err(SimError::new(format!(
            "of {all} nodes with GPUs at most {most} can be spares"
        )));
    }
    let mut now = machines.iter().filter(|m| with(m) && m.spare).count();
    for m in machines.iter_mut().rev().filter(|m| m.spare) {
        if now <= wanted {
            break;
        }
        m.spare = false;
        now -= 1;
    }
    let (rest, more) = (all - now, wanted - now);
    let others = machines.iter_mut().filter(|m| m.config.gpus > 0 && !m.spare);
    for (i, m) in others.enumerate() {
        m.spare = i * more / rest != (i + 1) * more / rest;
    }
    Ok(())
}

/// All of them as a fleet.
pub(crate) fn fleet(mut machines: Vec<Machine>) -> Fleet {
    machines.sort_by(|a, b| a.name.cmp(&b.name));
    let places = machines.iter().map(|m| (m.name.clone(), m.location.clone()));
    let topology = Topology { nodes: places.collect() };
    Fleet::of(machines, topology)
}
