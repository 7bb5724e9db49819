//! Nodes and domains are compared by numbers that follow their paths: whoever comes, goes or moves,
//! and whenever the numbers run out, the order is that of the paths.

use crate::common;

use common::shapes::cases;
use common::{ClusterRun, gang, node};
use muster_model::names::NodeName;
use muster_model::policy::SitePolicy;
use muster_model::topology::Level;
use muster_model::units::Time;
use muster_scheduler::{Cluster, NodeFacts, find_capacity};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Names of which one begins another: as paths of nodes they sort otherwise than alone.
const LEAVES: [&str; 4] = ["l", "l-1", "l.2", "m"];

fn path(f: &NodeFacts) -> String {
    f.location.path(&f.name, Level::Node).join("/")
}

/// Nodes in the order in which a gang on all of them has its ranks.
fn ranked(c: &Cluster, nodes: usize) -> Vec<NodeName> {
    let work = gang(u32::try_from(nodes).unwrap(), 8).work;
    let placed = find_capacity(c, &work, &SitePolicy::default(), Time(0)).unwrap();
    placed.slots.into_iter().map(|s| s.node).collect()
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn nodes_stand_in_the_order_of_their_paths(
        acts in prop::collection::vec((0..LEAVES.len(), 0..40u32, 0..4u32), 1..100),
    ) {
        let mut c = Cluster::default();
        let mut known: BTreeMap<NodeName, NodeFacts> = BTreeMap::new();
        for (leaf, n, kind) in acts {
            let f = node(&format!("n{n}"), LEAVES[leaf], &format!("k{}", n % 3));
            if kind == 0 {
                c.fleet.remove(&f.name);
                known.remove(&f.name);
            } else {
                c.fleet.upsert(f.clone());
                known.insert(f.name.clone(), f);
            }
            prop_assert!(c.fleet.consistent());
            if known.is_empty() {
                continue;
            }
            let mut by_path: Vec<&NodeFacts> = known.values().collect();
            by_path.sort_by_key(|f| path(f));
            let expected: Vec<NodeName> = by_path.iter().map(|f| f.name.clone()).collect();
            prop_assert_eq!(ranked(&c, known.len()), expected);
        }
    }
}

/// Two runs of names that grow by turns use up the numbers between their neighbours.
#[test]
fn numbers_that_run_out_are_given_out_anew() {
    let at = |leaf: &str, i: u32| node(&format!("{leaf}-{i:03}"), leaf, "k");
    let mut life = ClusterRun::new([at("a", 0), at("a", 999), at("b", 0), at("b", 999)]);
    let runs = life.submit(gang(2, 8).limit(60));
    let waits = life.submit(gang(4, 8).limit(60));
    assert!(life.running(runs) && !life.running(waits));
    assert!(life.reported.contains_key(&waits), "nodes are reserved while the numbers change");
    for i in 1..=90 {
        for leaf in ["a", "b"] {
            life.upsert(at(leaf, i));
            assert!(life.c.problems().is_empty(), "{leaf} {i}: {:?}", life.c.problems());
        }
    }
    life.finish(runs);
    life.c.fleet.release_reservation(waits);
    let mut by_path: Vec<&NodeFacts> = life.nodes.values().collect();
    by_path.sort_by_key(|f| path(f));
    let expected: Vec<NodeName> = by_path.iter().map(|f| f.name.clone()).collect();
    assert_eq!(ranked(&life.c, life.nodes.len()), expected);
}
