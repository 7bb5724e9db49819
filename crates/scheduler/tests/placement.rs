//! Where gangs land, and that the index never drifts.

use muster_model::ids::JobId;
use muster_model::placement::GpuSet;
use muster_model::spec::{Group, Priority};
use muster_model::topology::{Level, Location};
use muster_model::units::{Bytes, Time};
use muster_scheduler::{Block, Demand, Fleet, NodeFacts, Policy, Queue, Ticket, plan};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn facts(i: usize, gpus: u32) -> NodeFacts {
    NodeFacts {
        name: format!("n{i:03}").parse().unwrap(),
        location: Location {
            region: "r".into(),
            cluster: "c".into(),
            spine: format!("s{}", i / 16),
            leaf: format!("l{}", i / 8),
            rack: format!("k{}", i / 4),
            nvlink: format!("n{i:03}"),
            feed: "A".into(),
            rails: Vec::new(),
        },
        sku: "h100-sxm".into(),
        gpus: GpuSet::first(gpus),
        cpus: 64,
        memory: Bytes::gib(512),
        simulated: false,
        block: None,
    }
}

fn fleet(nodes: usize) -> Fleet {
    let mut f = Fleet::default();
    for i in 0..nodes {
        f.upsert(facts(i, 8));
    }
    f
}

fn group(nodes: u32, gpus: u32) -> Group {
    Group {
        name: "main".into(),
        nodes,
        gpus,
        ranks: gpus.max(1),
        cpus: 1,
        memory: Bytes(0),
        sku: None,
        part: None,
    }
}

fn demand(groups: &[Group], required: Option<Level>) -> Demand {
    Demand { groups: groups.into(), required, preferred: None, simulated: false }
}

fn place(f: &Fleet, groups: &[Group], required: Option<Level>) -> Option<muster_scheduler::Placed> {
    muster_scheduler::place::place(f, &demand(groups, required)).ok()
}

#[test]
fn a_gang_lands_in_the_smallest_domain_that_holds_it() {
    let f = fleet(32);
    assert_eq!(place(&f, &[group(1, 8)], None).unwrap().level, Level::Node);
    assert_eq!(place(&f, &[group(4, 8)], None).unwrap().level, Level::Rack);
    assert_eq!(place(&f, &[group(5, 8)], None).unwrap().level, Level::Leaf);
    assert_eq!(place(&f, &[group(9, 8)], None).unwrap().level, Level::Spine);
    assert_eq!(place(&f, &[group(17, 8)], None).unwrap().level, Level::Cluster);
    assert!(place(&f, &[group(33, 8)], None).is_none());
    assert!(place(&f, &[group(5, 8)], Some(Level::Rack)).is_none(), "a rack has four nodes");
}

#[test]
fn small_work_goes_where_work_already_is_and_leaves_whole_nodes_whole() {
    let mut f = fleet(8);
    let first = place(&f, &[group(1, 2)], None).unwrap();
    f.take(&first.slots[0]);
    let second = place(&f, &[group(1, 4)], None).unwrap();
    assert_eq!(second.slots[0].node, first.slots[0].node);
    assert_eq!(second.slots[0].gpus, GpuSet(0b1111_0000), "an aligned block");
}

#[test]
fn ranks_follow_the_topology() {
    let f = fleet(16);
    let p = place(&f, &[group(8, 8)], None).unwrap();
    let names: Vec<&str> = p.slots.iter().map(|s| s.node.as_str()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    let ranks: Vec<u32> = p.slots.iter().map(|s| s.first_rank).collect();
    assert_eq!(ranks, (0..8).map(|i| i * 8).collect::<Vec<_>>());
}

#[test]
fn groups_of_different_shape_start_together() {
    let mut f = fleet(5);
    let coordinator = Group { name: "driver".into(), cpus: 16, ..group(1, 0) };
    let p = place(&f, &[coordinator.clone(), group(4, 8)], None).unwrap();
    assert_eq!(p.slots.len(), 5);
    assert_eq!(p.slots[0].ranks, 1, "groups keep the order they were written in");
    f.take(&p.slots[3]);
    f.take(&p.slots[4]);
    assert!(place(&f, &[coordinator, group(4, 8)], None).is_none());
}

#[test]
fn blocked_nodes_and_wrong_skus_are_left_alone() {
    let mut f = fleet(2);
    f.upsert(NodeFacts { block: Some(Block::Cordoned), ..facts(0, 8) });
    assert_eq!(place(&f, &[group(1, 1)], None).unwrap().slots[0].node.as_str(), "n001");
    assert!(place(&f, &[group(2, 8)], None).is_none());
    let b200 = Group { sku: Some("b200".into()), ..group(1, 1) };
    assert!(place(&f, &[b200], None).is_none());
}

#[test]
fn an_explanation_names_the_binding_constraint_and_a_change_that_helps() {
    let mut f = fleet(16);
    // One node of each leaf is busy, so no leaf has eight left but the fleet has.
    for i in [0, 8] {
        let name: muster_model::names::NodeName = format!("n{i:03}").parse().unwrap();
        let slot = muster_model::placement::Slot {
            node: name,
            group: 0,
            node_rank: 0,
            first_rank: 0,
            ranks: 8,
            gpus: GpuSet::first(8),
            cpus: 1,
            memory: Bytes(0),
            part: None,
        };
        f.take(&slot);
    }
    let d = demand(&[group(8, 8)], Some(Level::Leaf));
    let e = muster_scheduler::explain::explain(&f, &d, &BTreeMap::new(), Time(0));
    assert!(!e.starts_now && !e.impossible);
    assert!(e.summary.contains("no leaf has room"), "{}", e.summary);
    assert!(e.constraints.last().unwrap().binding);
    assert_eq!(e.constraints.last().unwrap().nodes_left, 7);
    assert!(e.suggestions[0].contains("start now inside one spine"), "{:?}", e.suggestions);
    // The suggestion is true.
    assert!(place(&f, &[group(8, 8)], None).is_some());
    let e = muster_scheduler::explain::explain(
        &f,
        &demand(&[group(99, 8)], None),
        &BTreeMap::new(),
        Time(0),
    );
    assert!(e.impossible);
    assert!(e.suggestions[0].contains("16 nodes"), "{:?}", e.suggestions);
}

#[derive(Debug, Clone)]
struct Ask {
    nodes: u32,
    gpus: u32,
    leaf: bool,
    free: u8,
}

fn ask() -> impl Strategy<Value = Ask> {
    (1u32..10, 0u32..9, any::<bool>(), any::<u8>()).prop_map(|(nodes, gpus, leaf, free)| Ask {
        nodes,
        gpus,
        leaf,
        free,
    })
}

proptest! {
    #[test]
    fn plans_are_repeatable_atomic_and_never_take_a_gpu_twice(
        asks in proptest::collection::vec(ask(), 1..40),
        order in any::<u64>(),
    ) {
        let mut f = Fleet::default();
        // Nodes may join in any order; the plan must not depend on it.
        let mut names: Vec<usize> = (0..24).collect();
        let n = names.len();
        names.rotate_left(usize::try_from(order % 24).unwrap() % n);
        for i in names {
            f.upsert(facts(i, 8));
        }
        let mut g = fleet(24);
        let mut q = Queue::default();
        let mut held = Vec::new();
        for (i, a) in asks.iter().enumerate() {
            let now = Time(i64::try_from(i).unwrap() * 1000);
            let d = demand(&[group(a.nodes, a.gpus)], a.leaf.then_some(Level::Leaf));
            q.insert(Ticket::new(Priority::Normal, now, JobId(i as u64)), d);
            let before = f.freed();
            let p = plan(&mut f, &mut q.clone(), &Policy::default(), now);
            let p2 = plan(&mut g, &mut q.clone(), &Policy::default(), now);
            prop_assert_eq!(&p, &p2);
            prop_assert_eq!(f.freed(), before, "planning leaves the fleet as it was");
            prop_assert!(f.consistent());
            for s in &p.starts {
                let want = &asks[usize::try_from(s.ticket.job.0).unwrap()];
                prop_assert_eq!(s.placed.slots.len(), want.nodes as usize);
                for slot in &s.placed.slots {
                    prop_assert_eq!(slot.gpus.len(), want.gpus);
                    prop_assert!(f.used_gpus(&slot.node).and(slot.gpus).is_empty());
                    f.take(slot);
                    g.take(slot);
                }
                if want.leaf && want.nodes > 1 {
                    let leaves: std::collections::BTreeSet<usize> = s.placed.slots.iter()
                        .map(|x| x.node.as_str()[1..].parse::<usize>().unwrap() / 8).collect();
                    prop_assert_eq!(leaves.len(), 1);
                }
                q.remove(&s.ticket);
                held.push(s.placed.clone());
            }
            // Idempotent: planned and applied, a second plan has nothing to add.
            let again = plan(&mut f, &mut q.clone(), &Policy::default(), now);
            prop_assert!(again.starts.is_empty());
            if a.free % 3 == 0 && !held.is_empty() {
                let p = held.swap_remove(usize::from(a.free) % held.len());
                for slot in &p.slots {
                    f.release(slot);
                    g.release(slot);
                }
            }
            prop_assert!(f.consistent());
        }
    }
}
