//! Where gangs go: near each other, in even pieces, on the right kinds of nodes.

use crate::common;

use common::{ClusterRun, fleet, gang, name, node, nvl, with_gpus};
use muster_model::job::Basis;
use muster_model::node::NodeRole;
use muster_model::placement::{Fabric, GpuSet};
use muster_model::policy::Hazard;
use muster_model::spec::Spread;
use muster_model::topology::Level;
use muster_scheduler::{NodeFacts, replacements};
use std::collections::{BTreeMap, BTreeSet};

fn by(
    life: &ClusterRun,
    job: muster_model::ids::JobId,
    key: fn(&NodeFacts) -> String,
) -> Vec<usize> {
    let mut out: BTreeMap<String, usize> = BTreeMap::new();
    for s in life.c.running[&job].slots() {
        *out.entry(key(&life.nodes[&s.node])).or_default() += 1;
    }
    out.into_values().collect()
}

fn rack(f: &NodeFacts) -> String {
    f.location.rack.clone()
}
fn leaf(f: &NodeFacts) -> String {
    f.location.leaf.clone()
}
fn feed(f: &NodeFacts) -> String {
    f.location.feed.clone()
}

#[test]
fn two_nvlink_racks_are_filled_evenly() {
    let mut life = ClusterRun::new(nvl(3, 18));
    let job = life.submit(gang(24, 4));
    assert_eq!(by(&life, job, rack), [12, 12], "not 18 and 6: the slowest piece sets the pace");
    let one = life.submit(gang(18, 4));
    assert_eq!(by(&life, one, rack), [18], "a rack that is still whole");
}

#[test]
fn segments_leave_the_spare_trays() {
    let mut life = ClusterRun::new(nvl(2, 18));
    let job = life.submit(gang(32, 4).segment(16));
    assert_eq!(by(&life, job, rack), [16, 16]);
    let two = life.submit(gang(2, 4).segment(2));
    assert_eq!(by(&life, two, rack), [2], "the trays that are left of a rack");
    let never = life.submit(gang(2, 4).segment(2));
    assert_eq!(by(&life, never, rack), [2]);
    let waits = life.submit(gang(1, 4));
    assert!(life.waits(waits));
}

#[test]
fn a_segment_never_crosses_racks() {
    let mut life = ClusterRun::new(nvl(2, 3));
    let one = life.submit(gang(4, 4).segment(2));
    assert_eq!(by(&life, one, rack), [2, 2]);
    let two = life.submit(gang(2, 4).segment(2));
    assert!(life.waits(two), "one tray is left in each rack");
    let single = life.submit(gang(2, 4));
    assert!(life.running(single), "without the wish they do");
}

#[test]
fn ranks_follow_the_topology() {
    let mut nodes = fleet(2, 4, 8);
    nodes.reverse();
    let mut life = ClusterRun::new(nodes);
    let job = life.submit(gang(6, 8));
    let on = life.on(job);
    let mut sorted = on.clone();
    sorted.sort();
    assert_eq!(on, sorted, "neighbours in the ring are neighbours in the fabric");
    let firsts: Vec<u32> = life.c.running[&job].slots().iter().map(|s| s.first_rank).collect();
    assert_eq!(firsts, [0, 8, 16, 24, 32, 40]);
}

#[test]
fn the_narrowest_domain_that_holds_the_gang() {
    let mut life = ClusterRun::new(fleet(2, 4, 8));
    let pair = life.submit(gang(2, 8));
    assert_eq!(life.c.running[&pair].placement.level, Level::Rack);
    let four = life.submit(gang(4, 8));
    assert_eq!(by(&life, four, leaf), [4], "the other leaf, whole");
    let two = life.submit(gang(2, 8));
    assert_eq!(life.c.running[&two].placement.level, Level::Rack);
}

#[test]
fn small_jobs_do_not_break_empty_leaves() {
    let mut life = ClusterRun::new(fleet(3, 4, 8));
    let mut used = std::collections::BTreeSet::new();
    for i in 0..16 {
        let job = life.submit(gang(1, if i % 2 == 0 { 2 } else { 1 }));
        used.extend(life.on(job));
    }
    assert_eq!(used.len(), 3, "24 GPUs on three nodes");
    let leaves: std::collections::BTreeSet<&str> = used.iter().map(|n| &n[..2]).collect();
    assert_eq!(leaves.len(), 1, "{used:?}");
    let job = life.submit(gang(8, 8));
    assert_eq!(by(&life, job, leaf), [4, 4]);
}

#[test]
fn a_spread_gang_is_even_over_feeds() {
    let mut nodes = fleet(1, 8, 8);
    for (i, n) in nodes.iter_mut().enumerate() {
        n.location.feed = if i < 5 { "f1" } else { "f2" }.into();
    }
    let mut life = ClusterRun::new(nodes);
    let job = life.submit(gang(4, 8).spread(Spread::Feed));
    assert_eq!(by(&life, job, feed), [2, 2]);
    let job = life.submit(gang(4, 8).spread(Spread::Feed));
    assert_eq!(by(&life, job, feed), [3, 1], "as even as what is left allows");
}

#[test]
fn a_leaf_spread_is_even() {
    let mut life = ClusterRun::new(fleet(2, 4, 8));
    let job = life.submit(gang(4, 8).spread(Spread::Leaf));
    assert_eq!(by(&life, job, leaf), [2, 2]);
}

#[test]
fn the_same_gpus_on_every_node_are_one_rail() {
    let rails: Vec<String> = (0..8).map(|i| format!("rail{i}")).collect();
    let mut nodes = fleet(1, 2, 8);
    for n in &mut nodes {
        n.location.rails.clone_from(&rails);
    }
    let mut life = ClusterRun::new(nodes.clone());
    let job = life.submit(gang(2, 4));
    let r = &life.c.running[&job];
    assert_eq!(r.placement.fabric, Fabric::Rail);
    assert_eq!(r.slots()[0].gpus, r.slots()[1].gpus);
    // GPU 0 of one node is taken: four others are free on both.
    let mut life = ClusterRun::new(nodes);
    let one = life.submit(gang(1, 1));
    let job = life.submit(gang(2, 4));
    let r = &life.c.running[&job];
    assert_eq!(r.placement.fabric, Fabric::Rail, "{:?} {:?}", life.on(one), r.slots());
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    let job = life.submit(gang(2, 4));
    assert_eq!(life.c.running[&job].placement.fabric, Fabric::Leaf, "one network, no rails");
    let mut life = ClusterRun::new(fleet(2, 1, 8));
    let job = life.submit(gang(2, 4));
    assert_eq!(life.c.running[&job].placement.fabric, Fabric::Spine);
}

#[test]
fn whole_gpus_come_in_blocks() {
    let mut life = ClusterRun::new(vec![node("n", "l", "k")]);
    let one = life.submit(gang(1, 1));
    let four = life.submit(gang(1, 4));
    let two = life.submit(gang(1, 2));
    let gpus = |id| life.c.running[&id].slots()[0].gpus;
    assert_eq!(gpus(one), GpuSet(0b1));
    assert_eq!(gpus(four), GpuSet(0b1111_0000), "behind one switch");
    assert_eq!(gpus(two), GpuSet(0b1100));
}

#[test]
fn spares_lemons_and_suspects_take_no_gangs() {
    for role in [NodeRole::Spare, NodeRole::Lemon, NodeRole::Suspect] {
        let mut nodes = fleet(1, 3, 8);
        nodes[1].role = role;
        let mut life = ClusterRun::new(nodes);
        let gang_ = life.submit(gang(3, 8));
        assert!(life.waits(gang_), "{role:?}");
        let two = life.submit(gang(2, 8).limit(60));
        assert!(life.running(two) && !life.on(two).contains(&"n001".to_string()), "{role:?}");
        let normal = life.submit(gang(1, 1));
        assert!(life.waits(normal), "{role:?}");
        let low = life.submit(gang(1, 1).low());
        assert_eq!(life.running(low), role == NodeRole::Lemon, "{role:?}");
    }
}

#[test]
fn the_policy_says_how_large_a_gang_lemons_take() {
    let most = |nodes: u32| {
        let mut all = fleet(1, 3, 8);
        all.iter_mut().for_each(|n| n.role = NodeRole::Lemon);
        let mut life = ClusterRun::new(all);
        life.policy.hazard = Hazard { lemon_max_nodes: nodes, ..Hazard::default() };
        life.c.set_hazard(&life.policy.hazard);
        (1..=3)
            .filter(|n| {
                let id = life.submit(gang(*n, 2).low());
                life.running(id)
            })
            .count()
    };
    assert_eq!((most(0), most(1), most(2), most(3)), (0, 1, 2, 3));
}

#[test]
fn large_gangs_keep_off_nodes_that_may_fail() {
    let mut nodes = fleet(1, 12, 8);
    for i in [0, 3, 7] {
        nodes[i].hazard = 200;
    }
    let mut life = ClusterRun::new(nodes);
    let job = life.submit(gang(9, 8));
    let on = life.on(job);
    for n in ["n000", "n003", "n007"] {
        assert!(!on.contains(&n.to_string()), "{n} may fail");
    }
}

#[test]
fn new_work_avoids_doubtful_nodes_while_any_other_fits() {
    let mut nodes = fleet(1, 4, 8);
    for i in [0, 2] {
        nodes[i].avoided = true;
    }
    let mut life = ClusterRun::new(nodes);
    let one = life.submit(gang(1, 1));
    let two = life.submit(gang(1, 8));
    let mut on = [life.on(one), life.on(two)].concat();
    on.sort();
    assert_eq!(on, ["n001", "n003"], "also where a doubtful one is the tighter fit");
    let small = life.submit(gang(1, 7));
    assert_eq!(life.on(small), life.on(one), "there is still a sound one");
    let last = life.submit(gang(2, 8));
    assert_eq!(life.on(last), ["n000", "n002"], "rather than nothing");
    // A gang goes to another rack rather than onto one.
    let mut nodes = fleet(1, 3, 8);
    nodes[1].avoided = true;
    let mut life = ClusterRun::new(nodes);
    let gang_ = life.submit(gang(2, 8));
    assert_eq!(life.on(gang_), ["n000", "n002"]);
}

#[test]
fn failed_nodes_are_replaced_by_spares_nearby() {
    let mut nodes = fleet(2, 5, 8);
    for i in [3, 4, 8, 9] {
        nodes[i].role = NodeRole::Spare;
    }
    let mut life = ClusterRun::new(nodes);
    let job = life.submit(gang(3, 8));
    let r = life.c.running[&job].clone();
    let leaf = life.on(job)[0][..2].to_string();
    for n in [&r.slots()[0].node, &r.slots()[2].node] {
        let mut f = life.nodes[n].clone();
        f.block = Some(muster_scheduler::Block::Unreachable);
        life.upsert(f);
    }
    let on = replacements(&life.c.fleet, &r.work, r.slots(), life.now).expect("there are spares");
    assert_eq!(on[1], r.slots()[1].node, "the healthy one stays");
    let spares = [name(&format!("{leaf}03")), name(&format!("{leaf}04"))];
    assert_eq!([on[0].clone(), on[2].clone()], spares, "both at once, in the same leaf");
}

#[test]
fn kinds_of_gpu_are_honoured() {
    let mut nodes = fleet(1, 4, 8);
    nodes[2].sku = "h200".into();
    nodes[3].sku = "h200".into();
    let mut life = ClusterRun::new(nodes);
    let h200 = life.submit(gang(2, 8).sku("h200"));
    assert_eq!(life.on(h200), ["n002", "n003"]);
    let more = life.submit(gang(1, 1).sku("h200"));
    assert!(life.waits(more));
    let either = life.submit(gang(2, 8).sku("h200|h100"));
    assert_eq!(life.on(either), ["n000", "n001"]);
}

#[test]
fn groups_of_a_gang_start_together() {
    let mut cpu = with_gpus(node("cpu", "l0", "k"), 0);
    cpu.sku = "cpu".into();
    let mut nodes = fleet(1, 2, 8);
    nodes.push(cpu);
    let mut life = ClusterRun::new(nodes);
    let job = life.submit(gang(2, 8).and(1, 0));
    let r = &life.c.running[&job];
    let groups: Vec<u32> = r.slots().iter().map(|s| s.group).collect();
    assert_eq!(groups, [0, 0, 1]);
    assert_eq!(r.slots()[2].node, name("cpu"));
}

#[test]
fn a_reserved_start_that_names_a_node_twice_starts_nothing_there() {
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    let job = life.add(gang(1, 4).and(1, 4));
    let w = life.c.queue.get(job).unwrap().clone();
    // A log may say anything; what a node cannot run is not planned.
    let twice = [name("n000"), name("n000")];
    let times = (life.now, w.ends(life.now));
    life.c.fleet.keep(&w, &twice, times, Basis::Swap);
    life.cycle();
    let on = life.on(job);
    assert_eq!((on.len(), on.iter().collect::<BTreeSet<_>>().len()), (2, 2), "{on:?}");
}
