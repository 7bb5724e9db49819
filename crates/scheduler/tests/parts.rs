//! Parts of GPUs, elastic gangs, and the order of the queue.

use crate::common;

use common::{ClusterRun, fleet, gang, node};
use muster_model::ids::JobId;
use muster_model::placement::{AllocatedPart, GpuSet};
use muster_model::policy::{BackfillMode, SitePolicy};
use muster_model::units::Span;
use muster_scheduler::NodeFacts;

fn cut(mig: u64) -> NodeFacts {
    let mut f = node("n", "l", "k");
    f.gpus = GpuSet::first(2);
    f.mig = GpuSet(mig);
    f
}

fn slice(life: &ClusterRun, id: JobId) -> (u32, u8, u8) {
    let s = &life.c.running[&id].slots()[0];
    let Some(AllocatedPart::Mig { start, size, .. }) = s.part else { panic!("not a slice: {s:?}") };
    (s.gpus.iter().next().unwrap(), start, size)
}

#[test]
fn two_halves_fit_on_one_gpu() {
    let mut life = ClusterRun::new(vec![cut(0b1)]);
    let a = life.submit(gang(1, 1).mig("3g.40gb"));
    let b = life.submit(gang(1, 1).mig("3g.40gb"));
    let c = life.submit(gang(1, 1).mig("3g.40gb"));
    assert_eq!((slice(&life, a), slice(&life, b)), ((0, 4, 4), (0, 0, 4)));
    assert!(life.waits(c));
    let whole = life.submit(gang(1, 1));
    assert_eq!(life.c.running[&whole].slots()[0].gpus, GpuSet(0b10), "the GPU that is not cut");
}

#[test]
fn seven_small_slices_fit_on_one_gpu() {
    let mut life = ClusterRun::new(vec![cut(0b1)]);
    let all: Vec<JobId> = (0..8).map(|_| life.submit(gang(1, 1).mig("1g.10gb"))).collect();
    assert!(all[..7].iter().all(|id| life.running(*id)));
    assert!(life.waits(all[7]), "compute has seven slices");
}

#[test]
fn small_slices_keep_a_large_one_possible() {
    let mut life = ClusterRun::new(vec![cut(0b11)]);
    for _ in 0..3 {
        life.submit(gang(1, 1).mig("1g.10gb"));
    }
    let large = life.submit(gang(1, 1).mig("7g.80gb"));
    assert!(life.running(large), "the small ones share the other GPU");
    let half = life.submit(gang(1, 1).mig("3g.40gb"));
    assert!(life.running(half), "and leave half of it whole");
}

#[test]
fn a_share_goes_to_the_fullest_gpu_that_takes_it() {
    let mut life = ClusterRun::new(vec![node("n", "l", "k")]);
    let gpu = |life: &ClusterRun, id: JobId| life.c.running[&id].slots()[0].gpus;
    let a = life.submit(gang(1, 1).milli(500));
    let b = life.submit(gang(1, 1).milli(600));
    let c = life.submit(gang(1, 1).milli(300));
    let d = life.submit(gang(1, 1).milli(500));
    assert_ne!(gpu(&life, a), gpu(&life, b));
    assert_eq!(gpu(&life, c), gpu(&life, b), "400 are left there, 500 on the other");
    assert_eq!(gpu(&life, d), gpu(&life, a));
    let whole = life.submit(gang(1, 6));
    assert!(life.running(whole), "six GPUs are still whole");
}

#[test]
fn a_share_prefers_a_node_that_shares_already() {
    let mut life = ClusterRun::new(fleet(1, 3, 4));
    let a = life.submit(gang(1, 1).milli(400));
    let b = life.submit(gang(1, 1).milli(400));
    assert_eq!(life.on(a), life.on(b));
    let two = life.submit(gang(2, 4));
    assert!(life.running(two), "the other nodes are whole");
}

fn elastic() -> SitePolicy {
    let mut p = SitePolicy::default();
    p.elastic.settle = Span::mins(10);
    p
}

#[test]
fn an_elastic_gang_starts_smaller_and_grows_when_it_has_settled() {
    let mut life = ClusterRun::new(fleet(1, 4, 8)).with_policy(elastic());
    let other = life.submit(gang(2, 8).runs(5));
    let e = life.submit(gang(4, 8).elastic(1, 4));
    assert_eq!(life.on(e).len(), 2, "as many as there are");
    life.pass(Span::mins(6));
    assert!(life.done.contains(&other));
    assert_eq!(life.on(e).len(), 2, "not yet");
    life.pass(Span::mins(6));
    assert_eq!(life.on(e).len(), 4, "nobody waits: it grows");
}

#[test]
fn an_elastic_gang_does_not_grow_while_others_wait() {
    let mut life = ClusterRun::new(fleet(1, 4, 8)).with_policy(elastic());
    life.submit(gang(2, 8).runs(5));
    let e = life.submit(gang(4, 8).elastic(1, 4));
    let big = life.submit(gang(4, 8).required(muster_model::topology::Level::Rack));
    assert!(life.waits(big));
    life.pass(Span::mins(30));
    assert_eq!(life.on(e).len(), 2);
}

#[test]
fn elastic_gangs_shrink_before_anybody_is_stopped() {
    let mut life = ClusterRun::new(fleet(1, 4, 8)).with_policy(elastic());
    let e = life.submit(gang(3, 8).elastic(1, 3));
    let low = life.submit(gang(1, 8).low());
    life.pass(Span::mins(15));
    let high = life.add(gang(2, 8).high());
    let p = life.cycle();
    assert!(p.victims.is_empty(), "{:?}", p.victims);
    assert_eq!((p.resizes[0].job, p.resizes[0].nodes, p.resizes[0].by), (e, 1, Some(high)));
    life.pass(Span::mins(1));
    assert!(life.running(high) && life.running(low));
    assert_eq!(life.on(e).len(), 1);
}

#[test]
fn an_elastic_gang_of_a_higher_class_does_not_shrink() {
    let mut life = ClusterRun::new(fleet(1, 2, 8)).with_policy(elastic());
    let e = life.submit(gang(2, 8).elastic(1, 2).high());
    life.pass(Span::mins(15));
    let normal = life.submit(gang(1, 8));
    life.pass(Span::mins(5));
    assert!(life.waits(normal));
    assert_eq!(life.on(e).len(), 2);
}

const ORDERS: &str = r#"{"tree":[{"name":"co"},
    {"name":"a","parent":"co","projects":["p0"],"gpus":[{"nominal":64}],"order":"ORDER"},
    {"name":"b","parent":"co","projects":["p1"],"gpus":[{"nominal":64}]}]}"#;

#[test]
fn a_strict_queue_lets_nobody_pass() {
    for (order, passes) in [("strict", false), ("best-effort", true)] {
        for mode in [BackfillMode::Conservative, BackfillMode::Easy] {
            let quotas = ORDERS.replace("ORDER", order);
            let mut policy = SitePolicy::default();
            policy.backfill.mode = mode;
            let mut life = ClusterRun::new(fleet(1, 2, 8)).with_policy(policy).with_quotas(&quotas);
            let busy = life.submit(gang(1, 8).limit(60));
            let first = life.submit(gang(2, 8).limit(60));
            let short = life.submit(gang(1, 8).limit(10));
            let other = life.submit(gang(1, 4).limit(10).of("p1", "u1"));
            assert!(life.running(busy) && life.waits(first));
            assert_eq!(life.running(short), passes, "{order}");
            assert_eq!(life.running(other), !passes, "{order}: it may pass those of another quota");
        }
    }
}

#[test]
fn a_strict_queue_keeps_its_order_behind_others() {
    let quotas = ORDERS.replace("ORDER", "strict");
    let mut life = ClusterRun::new(fleet(1, 2, 8)).with_quotas(&quotas);
    life.submit(gang(2, 8).limit(60).runs(30).of("p1", "u1"));
    life.submit(gang(2, 8).limit(60).high().of("p1", "u1"));
    let long = life.submit(gang(1, 8).limit(600));
    let short = life.submit(gang(2, 8).limit(5));
    life.pass(Span::mins(30));
    assert!(life.waits(long) && life.waits(short));
    life.drain();
    assert!(life.started[&long] <= life.started[&short], "the shorter one does not pass");
}

#[test]
fn who_had_less_goes_first() {
    let mut life = ClusterRun::new(fleet(1, 1, 8));
    life.submit(gang(1, 8).runs(10));
    let a = life.submit(gang(1, 8).of("p0", "u0").runs(10));
    let b = life.submit(gang(1, 8).of("p1", "u1").runs(10));
    let urgent = life.submit(gang(1, 8).of("p0", "u0").runs(10).high());
    let mut ranks = vec![0; 2];
    for ((project, _), i) in life.c.queue.accounts() {
        ranks[i] = u32::from(project.as_str() == "p0");
    }
    life.c.queue.set_ranks(ranks);
    let order: Vec<JobId> = life.c.queue.iter().map(|t| t.job).collect();
    assert_eq!(order, [urgent, b, a], "first by class, then by share, then by age");
    life.drain();
    assert!(life.started[&urgent] < life.started[&b] && life.started[&b] < life.started[&a]);
}
