//! Nodes that are set up differently from their peers.
//!
//! Peers are nodes of one pool with the same GPUs. What most of them have is taken for what is
//! meant: nobody has to write down a set of versions first. While a rollout is half way there is
//! no such majority, and nothing is said.

use muster_model::entity::Entity;
use muster_model::names::NodeName;
use std::collections::BTreeMap;

/// Nodes that are named of those that share a difference.
const NAMED: usize = 12;
/// With fewer peers there is no majority to speak of.
const PEERS_MIN: usize = 4;
/// So many of a hundred must agree.
const AGREE_PERCENT: usize = 75;

/// A node and what runs on it.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The node's name.
    pub node: &'a NodeName,
    /// The pool it is managed in; nodes of others are no peers.
    pub pool: &'a str,
    /// What its GPUs are called; nodes with others are no peers.
    pub sku: &'a str,
    /// Versions by component.
    pub versions: &'a BTreeMap<String, String>,
}

/// What a node has and most of its peers have not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The component whose version differs, such as `driver`.
    pub component: String,
    /// What the node has.
    pub has: String,
    /// What most have.
    pub most: String,
    /// So many peers have that.
    pub agree: usize,
    /// Of so many.
    pub peers: usize,
}

impl Drift {
    /// The difference as a sentence, for people.
    #[must_use]
    pub fn words(&self) -> String {
        let Drift { component, has, most, agree, peers } = self;
        format!("{component} {has}; {agree} of {peers} like it have {most}")
    }
}

/// Nodes that are set up differently, with how. A component that a node does not report is no
/// difference.
///
/// A false alarm costs nothing: it is a remark to operators.
#[must_use]
pub fn drift<'a>(nodes: impl IntoIterator<Item = Setup<'a>>) -> BTreeMap<NodeName, Vec<Drift>> {
    // Who has which version of what, by group and component.
    let mut held: Vec<((&str, &str, &str), &str, &NodeName)> = Vec::new();
    for n in nodes {
        for (component, version) in n.versions.iter().filter(|(_, v)| !v.is_empty()) {
            held.push(((n.pool, n.sku, component.as_str()), version.as_str(), n.node));
        }
    }
    held.sort_by_key(|(group, version, _)| (*group, *version));
    let mut out: BTreeMap<NodeName, Vec<Drift>> = BTreeMap::new();
    for group in held.chunk_by(|a, b| a.0 == b.0) {
        let peers = group.len();
        let versions = group.chunk_by(|a, b| a.1 == b.1).map(|of| (of[0].1, of.len()));
        let Some((most, agree)) = versions.max_by_key(|v| v.1) else { continue };
        if peers < PEERS_MIN || agree * 100 < peers * AGREE_PERCENT {
            continue;
        }
        for ((_, _, component), has, node) in group.iter().filter(|one| one.1 != most) {
            out.entry((*node).clone()).or_default().push(Drift {
                component: (*component).to_owned(),
                has: (*has).to_owned(),
                most: most.to_owned(),
                agree,
                peers,
            });
        }
    }
    out
}

/// What differs, by cause, with lines of evidence. A version that several nodes have is one cause,
/// such as a rollout that has begun or is nearly over; what one node has alone is its own.
#[must_use]
pub fn by_cause(all: &BTreeMap<NodeName, Vec<Drift>>) -> BTreeMap<Entity, Vec<String>> {
    let found = all.iter().flat_map(|(n, found)| found.iter().map(move |d| (n, d)));
    let mut found: Vec<(&NodeName, &Drift)> = found.collect();
    found.sort_by_key(|(_, d)| (&d.component, &d.has));
    let mut out: BTreeMap<Entity, Vec<String>> = BTreeMap::new();
    let same = |a: &Drift, b: &Drift| a.component == b.component && a.has == b.has;
    for of in found.chunk_by(|a, b| same(a.1, b.1)) {
        let Drift { component, has, .. } = of[0].1;
        let version = Entity::Version(component.clone(), has.clone());
        // A name that could not be read back from the log is none.
        let readable = version.to_string().parse::<Entity>().is_ok_and(|read| read == version);
        match of {
            [(_, first), _, ..] if readable => {
                let Drift { most, agree, peers, .. } = first;
                let nodes = of.len();
                let named: Vec<&str> = of.iter().take(NAMED).map(|(n, _)| n.as_str()).collect();
                let more = nodes.saturating_sub(NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let line = format!(
                    "{component} {has} on {nodes} nodes ({}{more}); {agree} of {peers} like them \
                     have {most}",
                    named.join(", ")
                );
                out.insert(version, vec![line]);
            }
            _ => {
                for (node, d) in of {
                    out.entry(Entity::Node((*node).clone())).or_default().push(d.words());
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fleet(drivers: &[&str]) -> Vec<(NodeName, BTreeMap<String, String>)> {
        let of = |(i, v): (usize, &&str)| {
            let versions = [("driver", *v), ("cuda", "13.0")];
            let versions = versions.map(|(c, v)| (c.to_owned(), v.to_owned())).into();
            (format!("n{i}").parse().expect("a name"), versions)
        };
        drivers.iter().enumerate().map(of).collect()
    }

    fn of(fleet: &[(NodeName, BTreeMap<String, String>)], sku: &str) -> Vec<String> {
        let setups = fleet.iter().map(|(node, versions)| Setup { node, pool: "", sku, versions });
        let all = drift(setups);
        all.into_iter()
            .flat_map(|(n, d)| d.into_iter().map(move |d| format!("{n}: {}", d.words())))
            .collect()
    }

    #[test]
    fn nodes_that_share_a_version_have_one_cause() {
        let f = fleet(&["580", "580", "580", "575", "580", "580", "575", "580"]);
        let setups = f.iter().map(|(node, versions)| Setup { node, pool: "", sku: "", versions });
        let all = by_cause(&drift(setups));
        let line = "driver 575 on 2 nodes (n3, n6); 6 of 8 like them have 580".to_owned();
        let one: Entity = "version:driver/575".parse().expect("an entity");
        assert_eq!(all, BTreeMap::from([(one, vec![line])]));
        // One alone is the node's own, and so is what no name can be made of.
        let mut odd = fleet(&["580", "580", "580", "575", "580"]);
        for (i, (_, versions)) in odd.iter_mut().enumerate() {
            versions.insert("a/b".into(), if i < 2 { "2" } else { "1" }.into());
        }
        odd.extend((5..9).map(|i| {
            let versions = [("driver", "580"), ("a/b", "1")];
            let versions = versions.map(|(c, v)| (c.to_owned(), v.to_owned())).into();
            (format!("n{i}").parse().expect("a name"), versions)
        }));
        let setups = odd.iter().map(|(node, versions)| Setup { node, pool: "", sku: "", versions });
        let all: Vec<String> = by_cause(&drift(setups)).keys().map(ToString::to_string).collect();
        assert_eq!(all, ["node:n0", "node:n1", "node:n3"]);
    }

    #[test]
    fn the_odd_one_is_named_with_what_the_others_have() {
        let f = fleet(&["580", "580", "580", "575", "580"]);
        assert_eq!(of(&f, "h200"), ["n3: driver 575; 4 of 5 like it have 580"]);
        assert_eq!(of(&fleet(&["580"; 6]), "h200"), [""; 0]);
    }

    #[test]
    fn a_rollout_that_is_half_way_and_a_handful_of_nodes_say_nothing() {
        assert_eq!(of(&fleet(&["580", "580", "575", "575"]), "h200"), [""; 0]);
        assert_eq!(of(&fleet(&["580", "580", "575"]), "h200"), [""; 0]);
        assert_eq!(of(&fleet(&["580", "", "580", "580", ""]), "h200"), [""; 0], "no data");
    }

    #[test]
    fn nodes_of_other_pools_and_with_other_gpus_are_no_peers() {
        let f = fleet(&["580", "580", "580", "580", "575"]);
        let setups = f.iter().enumerate().map(|(i, (node, versions))| Setup {
            node,
            pool: if i == 4 { "lab" } else { "" },
            sku: "h200",
            versions,
        });
        assert!(drift(setups).is_empty());
    }

    proptest! {
        #[test]
        fn fewer_than_half_are_ever_said_to_differ(versions in prop::collection::vec("[ab]{1,2}", 0..40)) {
            let words: Vec<&str> = versions.iter().map(String::as_str).collect();
            prop_assert!(of(&fleet(&words), "x").len() * 2 <= words.len());
        }
    }
}
