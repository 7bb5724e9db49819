//! Which nodes a test is about, and which of them can be tested now.

use crate::agents::Agents;
use muster_engine::State;
use muster_health::fabric::pairs::all_rounds;
use muster_model::entity::Entity;
use muster_model::ids::AttemptKey;
use muster_model::job::{Attempt, Job, SlotState};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::topology::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The class of paths that do not leave a machine.
pub(super) const ONE_MACHINE: &str = "host";
/// Nodes of one test at most.
pub(super) const NODES_MAX: usize = 4096;

/// Pairs of one test at most, before suspects are paired again.
const PAIRS_MAX: usize = 20_000;

/// What somebody wants tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FabricTestRequest {
    /// These nodes; all when there are none and no domain.
    pub nodes: Vec<NodeName>,
    /// All nodes of a part of the site.
    pub domain: Option<Entity>,
    /// Rounds in which everybody is paired; 0 means that all meet all.
    pub rounds: u32,
    /// Seconds that the test of one pair takes.
    pub seconds: u32,
    /// Connections side by side.
    pub streams: u32,
    /// Nodes that have work as well.
    pub busy: bool,
    /// Says who meets whom.
    pub seed: Option<u64>,
    /// The past of these paths does not count any more.
    pub forget: bool,
    /// All nodes of a cluster at once, in a ring.
    pub group: bool,
    /// An attempt that is about to start: it does not count as work.
    pub own: Option<AttemptKey>,
}

impl Default for FabricTestRequest {
    fn default() -> Self {
        FabricTestRequest {
            nodes: Vec::new(),
            domain: None,
            rounds: 1,
            seconds: 3,
            streams: 4,
            busy: false,
            seed: None,
            forget: false,
            group: false,
            own: None,
        }
    }
}

/// Why a test was not begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A node that is not there.
    #[error("there is no node {0}")]
    Unknown(NodeName),
    /// A part of the site that has no nodes, or is of a kind that has none.
    #[error("there are no nodes in {0}")]
    Empty(Entity),
    /// Nobody to pair.
    #[error("fewer than two nodes can be tested now{0}")]
    TooFew(String),
    /// More than a test can hold.
    #[error("{0} nodes are more than one test may have ({NODES_MAX})")]
    TooMany(usize),
    /// More pairs than a test can hold.
    #[error("that is {0} pairs, more than one test may have ({PAIRS_MAX}); ask for fewer rounds")]
    TooLong(usize),
    /// Too many wait.
    #[error("{0} tests wait already")]
    Full(usize),
}

/// Nodes to test by the fabric they are in, and those left out with the reason.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) groups: Vec<Vec<Arc<Node>>>,
    pub(super) skipped: Vec<(NodeName, String)>,
}

/// Why a node cannot be tested now.
pub(super) fn reason_untestable(
    s: &State,
    agents: &Agents,
    node: &Node,
    wish: &FabricTestRequest,
) -> Option<&'static str> {
    if node.stage == Stage::Retired {
        return Some("it is retired");
    }
    if node.protected {
        return Some("it has seen more of the log than this server");
    }
    if !node.reachable || agents.session(&node.name).is_none() {
        return Some("its agent is not connected");
    }
    if node.qualifying.is_some() {
        return Some("it is being tested otherwise");
    }
    if node.stage == Stage::Repairing {
        return Some("it is being repaired");
    }
    let works = |job: &Arc<Job>| {
        let own = wish.own.is_some() && job.attempt_key() == wish.own;
        let up = |a: &Attempt| a.slots.iter().any(|s| !matches!(s, SlotState::Pending));
        !own || job.attempt.as_ref().is_some_and(up)
    };
    (!wish.busy && s.attempts_on(&node.name).any(works)).then_some("it has work")
}

fn inside(node: &Node, of: &Entity) -> bool {
    match of {
        Entity::Site => true,
        Entity::Domain(level, _) => Entity::domain(*level, &node.name, &node.location) == *of,
        Entity::Pool(p) => node.pool() == p,
        Entity::Feed(f) => node.location.feed == *f,
        Entity::Sku(k) => node.sku() == k,
        Entity::Node(n) => node.name == *n,
        _ => false,
    }
}

pub(super) fn choose(
    s: &State,
    agents: &Agents,
    wish: &FabricTestRequest,
) -> Result<Chosen, Refused> {
    let mut wanted: Vec<&Arc<Node>> = Vec::new();
    for name in wish.nodes.iter().cloned().collect::<BTreeSet<NodeName>>() {
        wanted.push(s.nodes.get(&name).ok_or(Refused::Unknown(name))?);
    }
    if let Some(domain) = &wish.domain {
        let named = !wish.nodes.is_empty();
        let all = s.nodes.values().filter(|n| inside(n, domain));
        match named {
            true => wanted.retain(|n| inside(n, domain)),
            false => wanted = all.collect(),
        }
        if wanted.is_empty() {
            return Err(Refused::Empty(domain.clone()));
        }
    } else if wish.nodes.is_empty() {
        wanted = s.nodes.values().filter(|n| n.stage != Stage::Retired).collect();
    }
    let mut chosen = Chosen::default();
    let mut clusters: BTreeMap<Vec<&str>, Vec<Arc<Node>>> = BTreeMap::new();
    for node in wanted {
        match reason_untestable(s, agents, node, wish) {
            Some(why) => chosen.skipped.push((node.name.clone(), why.into())),
            // No collective leaves its cluster, so no target holds between two.
            None => {
                let cluster = node.location.path(&node.name, Level::Cluster);
                clusters.entry(cluster).or_default().push(Arc::clone(node));
            }
        }
    }
    for group in clusters.into_values() {
        if let [alone] = &group[..] {
            chosen.skipped.push((
                alone.name.clone(),
                "there is no other in its cluster to test it with".into(),
            ));
        } else {
            chosen.groups.push(group);
        }
    }
    chosen.skipped.sort();
    let n: usize = chosen.groups.iter().map(Vec::len).sum();
    let rounds = |n: usize| match wish.rounds as usize {
        0 => all_rounds(n),
        r => r.min(all_rounds(n)),
    };
    let pairs: usize = chosen.groups.iter().map(|g| rounds(g.len()) * (g.len() / 2)).sum();
    match n {
        0 => Err(Refused::TooFew(reasons(&chosen.skipped))),
        n if n > NODES_MAX => Err(Refused::TooMany(n)),
        _ if pairs > PAIRS_MAX => Err(Refused::TooLong(pairs)),
        _ => Ok(chosen),
    }
}

/// The first few, for people.
fn reasons(skipped: &[(NodeName, String)]) -> String {
    let first: Vec<String> = skipped.iter().take(3).map(|(n, why)| format!("{n}: {why}")).collect();
    if first.is_empty() { String::new() } else { format!(" ({})", first.join("; ")) }
}

/// What two nodes have in common: paths of one class are peers.
pub(super) fn class(a: &Node, b: &Node) -> String {
    if a.address == b.address {
        return ONE_MACHINE.into();
    }
    let place = |n: &Node, l: Level| Entity::domain(l, &n.name, &n.location);
    // Where nobody said where they stand, no closeness is claimed.
    let known = |n: &Node| n.location.is_placed();
    let levels = Level::ALL.into_iter().rev().filter(|_| known(a) && known(b));
    let common = levels.into_iter().find(|l| place(a, *l) == place(b, *l));
    common.map_or("site", Level::word).into()
}

/// What a slow node's finding is about: its port where it has one only.
pub(super) fn entity(node: &Node) -> Entity {
    match &node.inventory.nics[..] {
        [nic] => Entity::Port(node.name.clone(), nic.name.clone()),
        _ => Entity::Node(node.name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::topology::Location;

    fn node(name: &str, at: Option<(&str, &str)>) -> Node {
        let name: NodeName = name.parse().unwrap();
        let mut location = Location::unplaced(&name);
        if let Some((leaf, rack)) = at {
            (location.spine, location.leaf, location.rack) =
                ("s1".into(), leaf.into(), rack.into());
        }
        let json = serde_json::json!({
            "name": name, "stage": "ready", "reachable": true, "cordon": null, "location": location,
            "inventory": {"cpu_model": "", "cpus": 1, "memory": "1GiB", "kernel": ""},
            "address": format!("10.0.0.{name}"), "host": "h", "machine": "m", "boot": "b",
            "enrolled_at": 0, "changed_at": 0, "version": 1,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_class_is_what_two_nodes_have_in_common() {
        let (a, b) = (node("a", Some(("l1", "r1"))), node("b", Some(("l1", "r1"))));
        let (c, d) = (node("c", Some(("l1", "r2"))), node("d", Some(("l2", "r1"))));
        assert_eq!(class(&a, &b), "rack");
        assert_eq!(class(&a, &c), "leaf");
        assert_eq!(class(&a, &d), "spine");
        assert_eq!(class(&node("x", None), &node("y", None)), "site");
        let mut twin = b.clone();
        twin.address.clone_from(&a.address);
        assert_eq!(class(&a, &twin), ONE_MACHINE);
        assert!(inside(&a, &"leaf:default/default/s1/l1".parse().unwrap()));
        assert!(!inside(&d, &"leaf:default/default/s1/l1".parse().unwrap()));
        assert!(inside(&a, &"pool:default".parse().unwrap()));
    }
}
