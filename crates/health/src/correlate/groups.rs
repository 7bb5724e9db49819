//! Groups of nodes that explain hardware findings.

use super::{
    Common, LONG, LocatedFinding, NODES_MIN, WINDOW, densest, describe_hits, ids_of, kinds_of,
    nodes_of, tail, within, worst,
};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::fault::FaultClass;
use muster_model::finding::Severity;
use muster_model::topology::Level;
use muster_model::units::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Findings per node and day that come by themselves, for the question whether chance explains
/// them: three times what large fleets of A100 and H100 report (6.5 and 3.8 per 1,000 node-days:
/// arXiv:2410.21680, arXiv:2407.21783), so that a bad week makes no incidents.
const RATE: f64 = 0.02;
const DAY: f64 = 86_400_000.0;
/// Inside a group hits must be so many times as frequent as outside.
const TIMES: u64 = 5;
/// A place is a part of the fleet where one node for so many of it stands elsewhere. Of one that
/// holds nearly all nodes nobody can say that others are spared.
const ELSEWHERE: u64 = 4;
/// So many nodes are to be hit without a job before what they share with its nodes explains those.
const OTHERS: usize = 2;
/// Causes reported at once.
const CAUSES_MAX: usize = 64;

/// How a group holds its nodes together. A tie goes to the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GroupBond {
    Place,
    Managed,
    Work,
}

impl GroupBond {
    fn span(self) -> Span {
        if self == GroupBond::Place { WINDOW } else { LONG }
    }

    /// Below this, chance does not explain so many findings among so many nodes.
    fn by_rate(self) -> f64 {
        if self == GroupBond::Place { 1e-6 } else { 1e-4 }
    }

    /// Below this, chance does not explain that they fell into one group of this kind. It is
    /// divided by how many such groups there are to fall into.
    fn by_draw(self) -> f64 {
        match self {
            GroupBond::Place => 0.03,
            GroupBond::Managed => 1e-3,
            GroupBond::Work => 1e-2,
        }
    }
}

/// What findings of one place must have in common beside it: a leaf that is lost and a GPU that
/// fails there are two things. A tie goes to the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    /// What nodes are connected to: network, power, cooling, the host itself.
    Surroundings,
    /// GPUs, their memory, links, bus and driver.
    Devices,
    /// Not distinguished: one kind only, or whatever work brings about.
    Any,
}

impl Family {
    /// Heat and power do harm to GPUs as to nodes.
    fn has(self, class: FaultClass) -> bool {
        use FaultClass::{Bus, Driver, Gpu, Link, Memory, Power, Thermal};
        match self {
            Family::Any => true,
            _ if matches!(class, Power | Thermal) => true,
            Family::Devices => matches!(class, Bus | Driver | Gpu | Link | Memory),
            Family::Surroundings => !Family::Devices.has(class),
        }
    }
}

/// A group, the family of findings that counts, and their kind where only one does.
type Key<'a> = (GroupBond, Entity, Family, Option<&'a str>);

struct GroupFit<'a> {
    bond: GroupBond,
    cause: Entity,
    family: Family,
    kind: Option<&'a str>,
    group: Vec<LocatedFinding<'a>>,
    nodes: u32,
    size: u32,
    /// Nodes hit anywhere in the same time.
    all: u32,
}

impl GroupFit<'_> {
    /// Twice the nodes hit inside, over the group's nodes and all nodes hit: a fraction.
    fn dice(&self) -> (u64, u64) {
        (u64::from(self.nodes) * 2, u64::from(self.size) + u64::from(self.all))
    }

    /// Does a place or a version explain what befell nodes under some work? It does where the nodes
    /// of the work have it in common, and others that have it were hit without that work.
    fn explains(&self, work: &GroupFit<'_>) -> bool {
        if self.bond == GroupBond::Work || work.bond != GroupBond::Work {
            return false;
        }
        let (mine, theirs) = (nodes_of(&self.group), nodes_of(&work.group));
        theirs.is_subset(&mine) && mine.len() >= theirs.len() + OTHERS
    }

    fn is_better(&self, than: &GroupFit<'_>) -> bool {
        let ((a, b), (c, d)) = (self.dice(), than.dice());
        let order = (a * d).cmp(&(c * b)).reverse();
        let order = order.then(self.bond.cmp(&than.bond)).then(self.size.cmp(&than.size));
        // Of two families on the same nodes the one that says more of them.
        let order = order.then(than.group.len().cmp(&self.group.len()));
        let order = order.then(self.rank().cmp(&than.rank())).then(self.cause.cmp(&than.cause));
        order.is_lt()
    }

    /// Where places hold the same nodes: what the findings speak of.
    fn rank(&self) -> u8 {
        let network = count(&self.group, |c| c == FaultClass::Network) * 2 > self.group.len();
        let link = count(&self.group, |c| c == FaultClass::Link) * 2 > self.group.len();
        match self.cause {
            Entity::Domain(Level::Leaf, _) if network => 0,
            Entity::Domain(Level::Nvlink, _) if link => 0,
            Entity::Domain(Level::Rack, _) => 1,
            Entity::Domain(Level::Nvlink, _) => 2,
            Entity::Domain(Level::Leaf, _) => 3,
            Entity::Feed(_) => 4,
            Entity::Version(..) | Entity::Job(_) => 5,
            _ => 6,
        }
    }
}

fn count(group: &[LocatedFinding<'_>], which: impl Fn(FaultClass) -> bool) -> usize {
    group.iter().filter(|s| which(s.class)).count()
}

/// What work can bring about. Cables, feeds and disks do not follow from what runs.
fn by_work(class: FaultClass) -> bool {
    use FaultClass::{Bus, Driver, Gpu, Host, Link, Memory, Thermal};
    matches!(class, Bus | Driver | Gpu | Host | Link | Memory | Thermal)
}

/// Every group that a hit's node is in.
fn keys<'a>(s: &LocatedFinding<'a>) -> Vec<Key<'a>> {
    let mut keys = Vec::new();
    if let Some(p) = &s.hit.place {
        let at = p.location;
        // A node that no topology names claims no closeness.
        let mut places = Vec::new();
        if at.is_placed() {
            let levels = [Level::Spine, Level::Leaf, Level::Rack, Level::Nvlink];
            places.extend(levels.map(|level| Entity::domain(level, p.node, at)));
        }
        places.extend(at.known_feed().map(|feed| Entity::Feed(feed.to_owned())));
        for family in [Family::Surroundings, Family::Devices] {
            if family.has(s.class) {
                keys.extend(places.iter().map(|e| (GroupBond::Place, e.clone(), family, None)));
            }
        }
        let kind = Some(s.hit.kind);
        for (c, v) in p.versions {
            let version = Entity::Version(c.clone(), v.clone());
            keys.push((GroupBond::Managed, version, Family::Any, kind));
        }
        if !p.sku.is_empty() {
            keys.push((GroupBond::Managed, Entity::Sku(p.sku.to_owned()), Family::Any, kind));
        }
        if !p.pool.is_empty() {
            keys.push((GroupBond::Managed, Entity::Pool(p.pool.to_owned()), Family::Any, kind));
        }
    }
    if by_work(s.class) && s.hit.severity >= Severity::Degraded {
        let job = s.hit.attempt.map(|a| Entity::Job(a.job));
        for e in [job, s.hit.template.clone(), s.hit.image.clone()].into_iter().flatten() {
            keys.push((GroupBond::Work, e, Family::Any, None));
        }
    }
    keys
}

/// Causes of hardware findings, which are in order of time; the best first.
pub(super) fn explain(hits: &[LocatedFinding<'_>], size: &dyn Fn(&Entity) -> u32) -> Vec<Common> {
    let site = size(&Entity::Site);
    let mut groups: BTreeMap<Key<'_>, Vec<LocatedFinding<'_>>> = BTreeMap::new();
    for s in hits {
        for k in keys(s) {
            groups.entry(k).or_default().push(*s);
        }
    }
    groups.retain(|_, g| nodes_of(g).len() >= NODES_MIN);
    let mut left = hits.to_vec();
    let mut out = Vec::new();
    while out.len() < CAUSES_MAX {
        let fits: Vec<GroupFit<'_>> = groups
            .iter()
            .filter_map(|(key, group)| fit(key, group, &left, size(&key.1), site))
            .collect();
        let own = |f: &usize| !fits.iter().any(|other| other.explains(&fits[*f]));
        let better = |a: usize, b: usize| if fits[b].is_better(&fits[a]) { b } else { a };
        let best = (0..fits.len()).filter(own).reduce(better);
        let Some(mut best) = best.and_then(|i| fits.into_iter().nth(i)) else { break };
        best.group = with_late(&best, &groups);
        let gone: BTreeSet<u64> = best.group.iter().map(|s| s.hit.id).collect();
        left.retain(|s| !gone.contains(&s.hit.id));
        for g in groups.values_mut() {
            g.retain(|s| !gone.contains(&s.hit.id));
        }
        groups.retain(|_, g| nodes_of(g).len() >= NODES_MIN);
        out.push(make_common(&best));
    }
    out
}

/// The group with what came shortly before and after its densest time.
fn with_late<'a>(
    best: &GroupFit<'a>,
    groups: &BTreeMap<Key<'a>, Vec<LocatedFinding<'a>>>,
) -> Vec<LocatedFinding<'a>> {
    let key = (best.bond, best.cause.clone(), best.family, best.kind);
    let ends = best.group.first().zip(best.group.last());
    let Some(((first, last), all)) = ends.zip(groups.get(&key)) else {
        return best.group.clone();
    };
    let (from, to) = (first.hit.at - WINDOW, last.hit.at + WINDOW);
    all.iter().filter(|s| s.hit.at >= from && s.hit.at <= to).copied().collect()
}

/// The group's densest time, if chance does not explain it.
fn fit<'a>(
    key: &Key<'a>,
    hits: &[LocatedFinding<'a>],
    left: &[LocatedFinding<'a>],
    size: u32,
    site: u32,
) -> Option<GroupFit<'a>> {
    let (bond, cause, family, kind) = (key.0, &key.1, key.2, key.3);
    let group = densest(hits, bond.span());
    let (first, last) = group.first().zip(group.last())?;
    let inside = nodes_of(&group);
    let nodes = u32::try_from(inside.len()).unwrap_or(u32::MAX);
    // Work of unknown size may be large: then chance explains much.
    if inside.len() < NODES_MIN || (bond == GroupBond::Work && size == 0) {
        return None;
    }
    let size = size.max(nodes);
    let expected = f64::from(size) * RATE * bond.span().0 as f64 / DAY;
    if tail::poisson(nodes, expected) >= bond.by_rate() {
        return None;
    }
    // Whatever can lie in one window with all of the group.
    let (from, to) = (last.hit.at - bond.span(), first.hit.at + bond.span());
    let mut known = vec![false; left.iter().map(|s| s.no as usize + 1).max().unwrap_or(0)];
    for no in &inside {
        if let Some(k) = known.get_mut(*no as usize) {
            *k = true;
        }
    }
    let mut out = 0;
    for s in left {
        let counts = s.hit.at >= from
            && s.hit.at <= to
            && !known[s.no as usize]
            && kind.is_none_or(|k| s.hit.kind == k)
            && family.has(s.class)
            && (bond != GroupBond::Work || by_work(s.class));
        if counts {
            known[s.no as usize] = true;
            out += 1;
        }
    }
    let site = site.max(size).max(nodes + out);
    let all = nodes + out;
    let fit = || GroupFit { bond, cause: cause.clone(), family, kind, group, nodes, size, all };
    let others = u64::from(site - size);
    if others * ELSEWHERE < u64::from(size) && bond == GroupBond::Place {
        // What nearly everybody has explains nothing, unless everybody fails: all but a tenth.
        return (u64::from(nodes) * 10 >= u64::from(size) * 9).then(fit);
    }
    // Half a hit is added outside, so that a few nodes without any prove nothing.
    let half = u64::from(nodes) * 2 >= u64::from(size) && bond != GroupBond::Managed;
    let times = 2 * u64::from(nodes) * others >= TIMES * (2 * u64::from(out) + 1) * u64::from(size);
    let chance = tail::drawn(nodes, nodes + out, size, site);
    let unlikely = chance < bond.by_draw() * f64::from(size) / f64::from(site);
    let alone = half && out == 0;
    let passes = alone || ((half || (times && others > 0)) && unlikely);
    passes.then(fit)
}

/// Three nodes that work took down. One that only slowed them is not quarantined for it.
fn killed(group: &[LocatedFinding<'_>]) -> bool {
    let dead = group.iter().filter(|s| s.hit.severity == Severity::Critical);
    dead.map(|s| s.no).collect::<BTreeSet<_>>().len() >= NODES_MIN
}

fn make_common(fit: &GroupFit<'_>) -> Common {
    use FaultClass::{Host, Network, Power, Thermal};
    let group = &fit.group;
    let most = kinds_of(group).first().map_or(FailureMode::NODE_LOST.code(), |k| k.0);
    let lost = count(group, |c| matches!(c, Network | Host | Power | Thermal)) * 2 > group.len();
    let kind = match &fit.cause {
        Entity::Domain(Level::Leaf, _) if lost => FailureMode::LEAF_LOSS.code(),
        Entity::Domain(Level::Rack, _) if lost => FailureMode::RACK_LOSS.code(),
        Entity::Feed(_) if lost => FailureMode::FEED_LOSS.code(),
        Entity::Version(..) => FailureMode::BAD_VERSION.code(),
        Entity::Job(_) | Entity::Template(..) if killed(group) => FailureMode::NODE_KILLER.code(),
        _ => most,
    };
    Common {
        cause: fit.cause.clone(),
        kind: kind.to_owned(),
        findings: ids_of(group),
        severity: worst(group),
        summary: summary(fit, kind == FailureMode::NODE_KILLER),
    }
}

/// Which nodes were hit, of how many, within what time, and whether others were.
fn summary(fit: &GroupFit<'_>, killed: bool) -> String {
    let group = &fit.group;
    let (nodes, size, within, hits) = (fit.nodes, fit.size, within(group), describe_hits(group));
    let hit = match &fit.cause {
        Entity::Job(id) if killed => {
            format!("{nodes} nodes failed under job {id} ({size} nodes) {within}")
        }
        cause if killed => format!("{nodes} nodes failed under {cause} ({size} nodes) {within}"),
        cause => format!("{nodes} nodes that share {cause} ({size} nodes), {within}"),
    };
    match fit.all - nodes {
        0 => format!("{hit}: {hits}; none elsewhere"),
        others => format!("{hit}: {hits}; {others} elsewhere"),
    }
}
