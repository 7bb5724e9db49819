//! Why a job waits: exactly one reason, which is looked at again from outside, and suggestions
//! that do what they say.

use crate::common;

use common::shapes::{
    ALL, Kinds, QUOTAS, act, any_act, any_fleet, any_policy, cases, mixed, powered,
};
use common::{ClusterRun, closed, fleet, gang, nvl};
use muster_model::node::NodeRole;
use muster_model::quota::Quotas;
use muster_model::spec::{Group, Tier};
use muster_model::topology::Level;
use muster_model::units::{Span, Time};
use muster_scheduler::{Block, Demand, Explanation, Reasons, Work, explain, impossible, plan};
use proptest::prelude::*;
use std::sync::Arc;

fn ask(life: &ClusterRun, w: &Work) -> Explanation {
    explain(&life.c, w, &life.policy, life.now)
}

fn binding(e: &Explanation) -> Option<&str> {
    let all: Vec<&str> =
        e.constraints.iter().filter(|c| c.binding).map(|c| c.name.as_str()).collect();
    assert!(all.len() <= 1, "{all:?}");
    assert_eq!(all.is_empty(), e.starts_now, "{e:?}");
    assert_eq!(e.would_go.is_some(), e.starts_now);
    assert!(!e.summary.is_empty() && (!e.impossible || !e.starts_now));
    all.first().copied()
}

fn with(w: &Work, f: impl FnOnce(&mut Demand)) -> Work {
    let mut d = (*w.demand).clone();
    f(&mut d);
    Work { demand: Arc::new(d), ..w.clone() }
}

/// Every node in service.
fn in_service(life: &ClusterRun) -> ClusterRun {
    let mut out = life.clone();
    for mut n in life.nodes.values().cloned() {
        n.block = None;
        if n.role != NodeRole::Lemon {
            n.role = NodeRole::Normal;
        }
        out.upsert(n);
    }
    out
}

/// Takes away what the reason names, and sees that it was it.
fn recheck(life: &ClusterRun, w: &Work, e: &Explanation) {
    // What refuses a submission says the same with less work.
    let never = impossible(&life.c, w, &life.policy, life.now);
    assert_eq!(never.as_ref(), e.impossible.then_some(e));
    let Some(why) = binding(e) else { return };
    let mut other = life.clone();
    let now = |l: &ClusterRun| binding(&ask(l, w)).map(ToString::to_string);
    match why {
        "hardware" => {
            assert!(e.impossible);
            let mut empty = ClusterRun::new(in_service(life).nodes.into_values());
            empty.c.queue.insert(Arc::new(w.clone()));
            let p = plan(&mut empty.c, &empty.policy, empty.now);
            assert!(p.starts.is_empty(), "it can: {e:?}");
        }
        "service" => {
            let left = now(&in_service(life));
            assert!(left.as_deref() != Some("service") && left.as_deref() != Some("hardware"));
        }
        "quota" => {
            other.c.set_quotas(&Quotas::default());
            assert_ne!(now(&other).as_deref(), Some("quota"));
        }
        "user limit" => {
            other.policy.limits = muster_model::policy::Limits::default();
            assert_ne!(now(&other).as_deref(), Some("user limit"));
        }
        "power" => {
            other.policy.power = muster_model::policy::Power::default();
            other.c.set_power(&other.policy.power);
            assert_ne!(now(&other).as_deref(), Some("power"));
        }
        "tier" => {
            let own = life.reservations.iter().map(|c| &c.reservation);
            let mut own = own.filter(|r| r.projects.contains(&w.project));
            assert!(w.tier == Tier::Reserved && own.all(|r| r.window(life.now).is_none()));
        }
        "reservation" if w.tier == Tier::Reserved => {}
        "reservation" => {
            other.c.fleet.set_reservations(Vec::new());
            assert_ne!(now(&other).as_deref(), Some("reservation"));
        }
        "reserved" => {
            for id in life.reported.keys().filter(|id| **id != w.job) {
                other.c.fleet.release_reservation(*id);
            }
            let left = now(&other);
            assert_ne!(left.as_deref(), Some("reserved"));
            let d = &w.demand;
            if d.required.is_none() && d.segment.is_none() && d.groups.len() == 1 {
                let power = !life.policy.power.feeds.is_empty();
                assert!(left.is_none() || power, "{left:?} without what is kept");
            }
        }
        "topology" => {
            let free = with(w, |d| (d.required, d.segment) = (None, None));
            assert_ne!(binding(&ask(life, &free)), Some("topology"));
        }
        "capacity" => {
            if let [g] = &w.demand.groups[..]
                && g.part.is_none()
            {
                assert!(free_nodes(life, w, g) < g.nodes as usize, "{e:?}");
            }
        }
        "groups" => assert!(w.demand.groups.len() > 1),
        x => panic!("a reason that nobody knows: {x}"),
    }
}

/// Nodes that could take a share now, counted from what runs.
fn free_nodes(life: &ClusterRun, w: &Work, g: &Group) -> usize {
    life.nodes
        .values()
        .filter(|f| f.block.is_none())
        .filter(|f| match f.role {
            NodeRole::Normal => true,
            NodeRole::Lemon => w.preemptible() && w.demand.nodes() == 1,
            _ => false,
        })
        .filter(|f| g.sku.as_ref().is_none_or(|s| s.split('|').any(|s| s == f.sku)))
        .filter(|f| {
            let here = life.c.running.values().flat_map(|r| r.slots());
            let here: Vec<_> = here.filter(|s| s.node == f.name).collect();
            let gpus = here.iter().fold(f.gpus.minus(f.mig), |m, s| m.minus(s.gpus));
            let cpus: u32 = here.iter().map(|s| s.cpus).sum();
            let memory: u64 = here.iter().map(|s| s.memory.0).sum();
            gpus.len() >= g.gpus && f.cpus - cpus >= g.cpus && f.memory.0 - memory >= g.memory.0
        })
        .count()
}

/// Does what a suggestion says; none for those that only speak of quotas or hardware.
fn follow(w: &Work, s: &str) -> Option<Work> {
    let one = |f: &dyn Fn(&mut Group)| {
        with(w, |d| {
            let mut g = d.groups.to_vec();
            f(&mut g[0]);
            d.groups = g.into();
        })
    };
    let number = |s: &str| s.split(' ').next().unwrap().parse::<u32>().unwrap();
    if s.starts_with("drop `topology.required") {
        return Some(with(w, |d| d.required = None));
    }
    if s.starts_with("drop `topology.segment") {
        return Some(with(w, |d| d.segment = None));
    }
    if let Some(rest) = s.strip_prefix("set a time limit of at most ") {
        let limit: Span = rest.split(':').next().unwrap().parse().unwrap();
        return Some(Work { limit: Some(limit), ..w.clone() });
    }
    if s.starts_with("leave `sku` out") {
        return Some(one(&|g| g.sku = None));
    }
    if s.contains("instead of") {
        let n = number(s.strip_prefix("ask for ").unwrap());
        return Some(if s.contains("GPU") {
            one(&|g| (g.gpus, g.ranks) = (n, g.ranks.min(n)))
        } else {
            Work { demand: Arc::new(w.demand.resized(n)), elastic: None, ..w.clone() }
        });
    }
    // A nearest name says what there is, not that it has room.
    let hardware = ["ask for at most", "ask for SKU ", "ask for MIG profile "]
        .iter()
        .any(|w| s.starts_with(w));
    assert!(hardware, "an unknown suggestion: {s}");
    None
}

/// A list says the same, unless it is for want of room.
fn listed(reasons: &mut Reasons<'_>, w: &Work, e: &Explanation) {
    let short = matches!(binding(e), Some("tier" | "user limit" | "quota" | "service"));
    let said = (e.impossible || short).then(|| e.summary.clone());
    assert_eq!(reasons.stop(w), said, "{e:?}");
    assert_eq!(reasons.never(w).is_some(), e.impossible, "{e:?}");
}

/// Looks at everybody who waits.
fn look(life: &ClusterRun) {
    let mut reasons = Reasons::new(&life.c, &life.policy, life.now);
    for id in life.c.queue.jobs() {
        let w = life.c.queue.get(id).unwrap();
        let e = ask(life, w);
        recheck(life, w, &e);
        listed(&mut reasons, w, &e);
        let strict = life.c.ledger.strict(&w.project).is_some();
        assert!(!e.starts_now || strict, "{id} could start, and was not started");
        if let Some(est) = &e.estimate {
            assert!(est.at > life.now && est.at < Time(i64::MAX / 8));
        }
        for s in &e.suggestions {
            if let Some(changed) = follow(w, s) {
                let then = ask(life, &changed);
                assert!(then.starts_now, "{s:?} does not help: {}", then.summary);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn every_reason_holds(
        nodes in any_fleet(),
        policy in any_policy(),
        quota in 0..QUOTAS.len(),
        power in prop::option::of((6..20u64, 4..9u64)),
        limit in prop::option::of(2..10u32),
        acts in prop::collection::vec(any_act(Kinds { ..ALL }), 1..30),
    ) {
        let mut policy = policy.it;
        // Who gathers nodes is not in the state that is explained.
        policy.backfill.patience = Span::hours(99_999);
        policy.limits.gpus_per_user = limit;
        if let Some((feed, rack)) = power {
            policy = powered(policy, feed * 1500, rack * 1500);
        }
        let mut life = ClusterRun::new(nodes.it).with_policy(policy).with_quotas(QUOTAS[quota]);
        life.strict = false;
        for a in &acts {
            act(&mut life, a);
            look(&life);
        }
    }
}

fn why(life: &ClusterRun, b: common::Build) -> Explanation {
    let mut life = life.clone();
    let id = life.add(b);
    let w = life.c.queue.get(id).unwrap().clone();
    let e = ask(&life, &w);
    recheck(&life, &w, &e);
    listed(&mut Reasons::new(&life.c, &life.policy, life.now), &w, &e);
    e
}

#[test]
fn each_reason_has_its_name() {
    let mut life = ClusterRun::new(fleet(2, 2, 8));
    assert_eq!(binding(&why(&life, gang(5, 8))), Some("hardware"));
    assert!(why(&life, gang(1, 9)).impossible);
    assert_eq!(binding(&why(&life, gang(3, 8).required(Level::Leaf))), Some("hardware"));
    let one = life.submit(gang(1, 8).limit(60));
    life.submit(gang(1, 8).limit(60).required(Level::Leaf));
    let e = why(&life, gang(4, 8));
    assert_eq!(binding(&e), Some("capacity"));
    assert!(e.suggestions.iter().any(|s| s.contains("2 nodes instead of 4")), "{e:?}");
    life.finish(one);
    let mut spread = ClusterRun::new(fleet(2, 2, 8));
    spread.submit(gang(2, 8).spread(muster_model::spec::Spread::Leaf));
    let e = why(&spread, gang(2, 8).required(Level::Leaf));
    assert_eq!(binding(&e), Some("topology"));
    assert!(e.suggestions[0].starts_with("drop `topology.required: leaf`"), "{e:?}");
}

#[test]
fn time_is_a_reason_too() {
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    life.submit(gang(1, 8).limit(60));
    life.submit(gang(2, 8).limit(60));
    let e = why(&life, gang(1, 8).limit(90));
    assert_eq!(binding(&e), Some("reserved"));
    assert!(e.suggestions.iter().any(|s| s.starts_with("set a time limit of at most 1h")), "{e:?}");
    assert_eq!(e.estimate.unwrap().at, life.now + Span::mins(120));
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    life.reserve(closed("fix", &["n000", "n001"], &[], life.now + Span::mins(30), 60));
    let e = why(&life, gang(1, 8).limit(90));
    assert_eq!(binding(&e), Some("reservation"));
    assert!(e.summary.contains("fix"), "{}", e.summary);
    // The longest that would do, and not the next usual one below it.
    for mins in [57, 30, 5] {
        let mut life = ClusterRun::new(fleet(1, 2, 8));
        let start = life.now + Span::mins(mins) + Span::secs(20);
        life.reserve(closed("fix", &["n000", "n001"], &[], start, 60));
        let said = format!("set a time limit of at most {mins}m: it would start now");
        for limit in [90, 180] {
            let e = why(&life, gang(1, 8).limit(limit));
            assert!(e.suggestions.iter().any(|s| s.starts_with(&said)), "{e:?}");
        }
    }
}

#[test]
fn a_reservation_of_another_project_is_counted_and_not_named() {
    let mut life = ClusterRun::new(fleet(1, 3, 8));
    life.reserve(closed("merger", &["n000"], &["p1"], life.now, 60));
    let e = why(&life, gang(3, 8));
    assert!(e.summary.ends_with("reserved for others (1 of another project)"), "{e:?}");
    life.reserve(closed("fans", &["n001"], &[], life.now, 60));
    life.reserve(closed("launch", &["n002"], &["p1"], life.now, 60));
    let e = why(&life, gang(3, 8));
    assert!(e.summary.ends_with("reserved for others (fans, 2 of other projects)"), "{e:?}");
    assert!(!format!("{e:?}").contains("merger"), "{e:?}");
    // Where it may start, it is stopped later.
    let mut life = ClusterRun::new(fleet(1, 1, 8));
    life.reserve(closed("merger", &["n000"], &["p1"], life.now + Span::mins(60), 60));
    let e = format!("{:?}", why(&life, gang(1, 8)));
    assert!(e.contains("a reservation of another project begins on node n000"), "{e}");
    assert!(!e.contains("merger"), "{e}");
}

#[test]
fn only_reservations_that_keep_a_free_node_are_named() {
    let mut life = ClusterRun::new(fleet(1, 4, 8));
    life.reserve(closed("late", &["n000"], &[], life.now + Span::mins(60), 60));
    life.reserve(closed("now", &["n001"], &[], life.now, 60));
    life.reserve(closed("out", &["n002"], &[], life.now, 60));
    let mut out = life.nodes.values().find(|n| n.name.as_str() == "n002").unwrap().clone();
    out.block = Some(Block::Cordoned);
    life.upsert(out);
    // It has no limit: the later window stops it, and is not in its way.
    let e = why(&life, gang(3, 8));
    assert_eq!(binding(&e), Some("reservation"), "{e:?}");
    assert!(e.summary.ends_with("1 node free but reserved for others (now)"), "{}", e.summary);
}

#[test]
fn work_of_tier_reserved_learns_whether_its_project_has_a_reservation() {
    let mut life = ClusterRun::new(fleet(1, 3, 8));
    let own = || gang(1, 8).of("p1", "u1").limit(30).tier(Tier::Reserved);
    life.reserve(closed("theirs", &["n000"], &["p2"], life.now, 60));
    let e = why(&life, own());
    assert_eq!(binding(&e), Some("tier"), "{e:?}");
    assert!(e.summary.starts_with("project p1 has no reservation, "), "{}", e.summary);
    assert!(e.summary.contains("`muster reservation create`"), "{}", e.summary);
    life.reserve(closed("ours", &["n001"], &["p1"], life.now + Span::mins(60), 60));
    let e = why(&life, own());
    assert_eq!(binding(&e), Some("reservation"), "{e:?}");
    let there = "0 nodes free in a reservation of project p1 for as long as it may run";
    assert!(e.summary.ends_with(there), "{}", e.summary);
    life.reserve(closed("open", &["n002"], &["p1"], life.now, 60));
    assert!(why(&life, own()).starts_now);
}

#[test]
fn pieces_that_never_fit_are_impossible() {
    let life = ClusterRun::new(nvl(2, 3));
    let e = why(&life, gang(4, 4).segment(4));
    assert!(e.impossible);
    let most = "more than 0 nodes in such pieces: the largest NVLink domain has 3 such nodes";
    assert!(e.summary.ends_with(most), "{}", e.summary);
    assert!(why(&life, gang(4, 4).segment(2)).starts_now);
    let e = why(&life, gang(6, 4).segment(2));
    assert!(e.impossible, "three pieces, two racks of three");
    assert!(e.summary.contains("more than 4 nodes in such pieces"), "{}", e.summary);
}

#[test]
fn what_never_fits_says_the_most_that_there_is_and_the_nearest_name() {
    fn first(e: &Explanation) -> Option<&str> {
        e.suggestions.first().map(String::as_str)
    }
    // Nodes of SKU h100 and h200, two of them with GPUs in MIG mode.
    let life = ClusterRun::new(mixed());
    let e = why(&life, gang(1, 1).mig("3g.45gb"));
    assert!(e.impossible, "{e:?}");
    assert!(e.summary.contains("has the profile 3g.45gb: there is "), "{}", e.summary);
    assert!(e.summary.contains("3g.40gb"), "{}", e.summary);
    assert_eq!(first(&e), Some("ask for MIG profile 3g.40gb"));
    let none = ClusterRun::new(fleet(1, 2, 8));
    let e = why(&none, gang(1, 1).mig("3g.40gb"));
    assert!(e.summary.ends_with("no node of this fleet has a GPU in MIG mode"), "{}", e.summary);
    let e = why(&none, gang(1, 1).sku("h101"));
    assert!(e.summary.ends_with("is of SKU h101: there is h100"), "{}", e.summary);
    assert_eq!(first(&e), Some("ask for SKU h100"));
    // Feeds of 7 kW carry one node with eight GPUs of 700 W.
    let policy = powered(none.policy.clone(), 7_000, 1_000_000);
    let e = why(&none.with_policy(policy), gang(2, 8));
    assert!(e.impossible, "{e:?}");
    assert!(e.summary.ends_with("racks and feeds carry: at most 1 node of it"), "{}", e.summary);
}

#[test]
fn what_can_never_start_goes_before_limits_and_limits_before_service() {
    let mut life = ClusterRun::new(fleet(1, 3, 8));
    life.submit(gang(1, 8));
    life.policy.limits.gpus_per_user = Some(8);
    let mut last = life.nodes.values().next_back().unwrap().clone();
    last.block = Some(Block::Cordoned);
    life.upsert(last.clone());
    let e = why(&life, gang(4, 8));
    assert!(e.impossible, "{e:?}");
    let never = "no cluster of this fleet has more than 3 nodes that satisfy the per-node request";
    assert!(e.summary.ends_with(never), "{}", e.summary);
    let e = why(&life, gang(3, 8));
    assert_eq!(binding(&e), Some("user limit"));
    assert!(e.summary.ends_with("already has 8 of 8 GPUs and requests 24 more"), "{}", e.summary);
    life.policy.limits.gpus_per_user = None;
    let e = why(&life, gang(3, 8));
    assert_eq!(binding(&e), Some("service"));
    let out = "3 nodes satisfy the per-node request, but only 2 are in service";
    assert!(e.summary.ends_with(out), "{}", e.summary);
    last.block = None;
    life.upsert(last);
    assert_eq!(binding(&why(&life, gang(3, 8))), Some("capacity"));
}

#[test]
fn power_that_nodes_out_of_service_would_have_is_not_never() {
    // A rack in each leaf, which carries one of its two nodes with eight GPUs of 700 W.
    let mut life = ClusterRun::new(fleet(2, 2, 8));
    let policy = powered(life.policy.clone(), 1_000_000, 7_000);
    life = life.with_policy(policy);
    assert!(why(&life, gang(2, 8)).starts_now);
    for mut n in life.nodes.clone().into_values().filter(|n| n.location.leaf == "l1") {
        n.block = Some(Block::Cordoned);
        life.upsert(n);
    }
    let e = why(&life, gang(2, 8));
    assert_eq!((binding(&e), e.impossible), (Some("service"), false), "{e:?}");
    assert!(e.summary.ends_with("on the nodes in service: at most 1 node of it"), "{}", e.summary);
}

#[test]
fn groups_that_would_have_to_share_a_node_are_impossible_and_the_answer_says_so() {
    let life = ClusterRun::new(fleet(1, 1, 8));
    let e = why(&life, gang(1, 4).and(1, 4));
    assert!(e.impossible, "{e:?}");
    assert_eq!(binding(&e), Some("hardware"));
    assert!(e.summary.contains("a node runs one group of a gang only"), "{}", e.summary);
    let life = ClusterRun::new(fleet(1, 2, 8));
    assert!(why(&life, gang(1, 4).and(1, 4)).starts_now, "on two nodes");
    let e = why(&life, gang(1, 4).and(1, 4).required(Level::Node));
    assert!(e.impossible, "{e:?}");
    let e = why(&life, gang(2, 4).and(1, 0));
    assert!(e.impossible, "{e:?}");
    // They fit, but not while one of the nodes is taken.
    let mut busy = ClusterRun::new(fleet(1, 2, 8));
    busy.submit(gang(1, 8));
    let e = why(&busy, gang(1, 4).and(1, 4));
    assert!(!e.impossible && !e.starts_now, "{e:?}");
    assert_eq!(binding(&e), Some("groups"));
}
