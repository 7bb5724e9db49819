//! Reserved starts are kept: nobody starts later than was reserved, whatever comes after.

use crate::common;

use common::shapes::{ALL, Act, Kinds, Named, act, any_act, any_fleet, any_policy, cases};
use common::{ClusterRun, fleet, gang};
use muster_model::job::Basis;
use muster_model::node::NodeRole;
use muster_model::placement::GpuSet;
use muster_model::policy::{BackfillMode, Hazard, SitePolicy};
use muster_model::units::Span;
use muster_scheduler::NodeFacts;
use proptest::prelude::*;

/// Everything has a limit and ends at or before it, and no node fails.
const SOUND: Kinds =
    Kinds { endless: false, failures: false, reservations: false, parts: false, ..ALL };

fn live(nodes: Named<Vec<NodeFacts>>, policy: Named<SitePolicy>, acts: &[Act]) {
    let mut life = ClusterRun::new(nodes.it).with_policy(policy.it);
    life.reserved_starts_hold = true;
    for a in acts {
        act(&mut life, a);
    }
    life.drain();
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn reserved_starts_are_kept(
        nodes in any_fleet(),
        policy in any_policy(),
        acts in prop::collection::vec(any_act(Kinds { ranks: false, elastic: false, ..SOUND }), 1..40),
    ) {
        live(nodes, policy, &acts);
    }

    #[test]
    fn reserved_starts_are_kept_while_others_are_stopped_and_resized(
        nodes in any_fleet(),
        policy in any_policy(),
        acts in prop::collection::vec(any_act(SOUND), 1..40),
    ) {
        live(nodes, policy, &acts);
    }

    #[test]
    fn reserved_starts_are_kept_for_parts_of_gpus(
        nodes in any_fleet(),
        policy in any_policy(),
        acts in prop::collection::vec(any_act(Kinds { parts: true, ..SOUND }), 1..40),
    ) {
        live(nodes, policy, &acts);
    }

    #[test]
    fn a_reserved_start_moves_only_when_a_node_fails(
        nodes in any_fleet(),
        policy in any_policy(),
        acts in prop::collection::vec(any_act(Kinds { failures: true, ..SOUND }), 1..40),
    ) {
        // `check::reserved_start` looks at every move.
        let mut life = ClusterRun::new(nodes.it).with_policy(policy.it);
        for a in &acts {
            act(&mut life, a);
        }
    }
}

#[test]
fn small_jobs_pass_a_big_one_only_if_they_do_not_delay_it() {
    let mut life = ClusterRun::new(fleet(1, 4, 8));
    life.reserved_starts_hold = true;
    let first = life.submit(gang(3, 8).limit(60).runs(60));
    let big = life.submit(gang(4, 8).limit(60).runs(60));
    assert!(life.running(first) && life.waits(big));
    let reported = life.reported[&big].clone();
    assert_eq!((reported.at, reported.basis), (life.now + Span::mins(60), Basis::Limits));
    let long = life.submit(gang(1, 8).limit(61).runs(5));
    assert!(life.waits(long), "it could run into the reserved start");
    let short = life.submit(gang(1, 8).limit(60).runs(60));
    assert!(life.running(short), "it is over in time");
    life.pass(Span::mins(60));
    assert!(life.running(big));
}

#[test]
fn a_failed_node_moves_a_reserved_start_and_says_why() {
    let mut life = ClusterRun::new(fleet(1, 4, 8));
    let a = life.submit(gang(2, 8).limit(60));
    let b = life.submit(gang(2, 8).limit(120));
    let big = life.submit(gang(4, 8).limit(60));
    let spare = life.submit(gang(2, 8).limit(60));
    assert!(life.running(a) && life.running(b) && life.waits(big) && life.waits(spare));
    assert_eq!(life.reported[&spare].at, life.now + Span::mins(60));
    let gone = life.reported[&spare].nodes[0].clone();
    life.fail(&gone);
    let p = life.cycle();
    let moved = p.reserved_starts.iter().find(|p| p.job == spare).expect("it is reported");
    assert!(moved.moved.as_ref().unwrap().contains("is lost"), "{moved:?}");
}

#[test]
fn a_node_that_carries_less_than_before_moves_a_reserved_start_and_says_why() {
    let less: [fn(&mut NodeFacts); 3] =
        [|n| n.role = NodeRole::Lemon, |n| n.gpus = GpuSet::first(7), |n| n.mig = GpuSet::first(1)];
    for less in less {
        let mut life = ClusterRun::new(fleet(1, 2, 8));
        // What runs keeps GPUs that the node has lost.
        life.strict = false;
        life.submit(gang(1, 8).limit(60));
        life.submit(gang(1, 8).limit(120));
        let next = life.submit(gang(1, 8).limit(60));
        assert_eq!(life.reported[&next].at, life.now + Span::mins(60));
        let mut node = life.nodes[&life.reported[&next].nodes[0]].clone();
        less(&mut node);
        let name = node.name.clone();
        life.upsert(node);
        let p = life.cycle();
        let moved = p.reserved_starts.iter().find(|p| p.job == next).expect("it is planned anew");
        assert_eq!(moved.at, life.now + Span::mins(120));
        assert!(moved.moved.as_ref().unwrap().contains(name.as_str()), "{moved:?}");
    }
}

#[test]
fn lemons_that_take_less_than_before_move_a_reserved_start() {
    let mut lemons = fleet(1, 2, 8);
    lemons.iter_mut().for_each(|n| n.role = NodeRole::Lemon);
    let mut life = ClusterRun::new(lemons);
    life.policy.hazard = Hazard { lemon_max_nodes: 2, ..Hazard::default() };
    life.c.set_hazard(&life.policy.hazard);
    life.submit(gang(2, 8).low().limit(60));
    let next = life.submit(gang(2, 8).low().limit(60));
    assert!(life.reported.contains_key(&next));
    assert_eq!(life.c.fleet.broken().count(), 0);
    life.c.set_hazard(&Hazard { lemon_max_nodes: 3, ..Hazard::default() });
    assert_eq!(life.c.fleet.broken().count(), 0, "more is no loss");
    life.c.set_hazard(&Hazard { lemon_max_nodes: 1, ..Hazard::default() });
    assert_eq!(life.c.fleet.broken().collect::<Vec<_>>(), [next]);
}

#[test]
fn a_reserved_start_gets_earlier_when_others_end_early() {
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    let a = life.submit(gang(2, 8).limit(600).runs(30));
    let b = life.submit(gang(2, 8).limit(60));
    assert_eq!(life.reported[&b].at, life.now + Span::mins(600));
    life.pass(Span::mins(30));
    assert!(life.done.contains(&a) && life.running(b), "it starts as soon as it can");
}

#[test]
fn nothing_is_reserved_for_a_gang_that_no_power_budget_ever_carries() {
    for mode in [BackfillMode::Conservative, BackfillMode::Easy, BackfillMode::Aggressive] {
        let mut policy = SitePolicy::default();
        policy.backfill.mode = mode;
        policy.power.gpu_watts.insert("h100".into(), 700);
        // One node of eight GPUs draws 8,100 W.
        policy.power.feeds.insert("f1".into(), 9_000);
        let mut life = ClusterRun::new(fleet(1, 2, 8)).with_policy(policy);
        let first = life.submit(gang(1, 8).limit(60));
        let wide = life.submit(gang(2, 8).limit(30));
        assert!(life.running(first) && life.waits(wide));
        assert!(!life.reported.contains_key(&wide), "{mode:?}: {:?}", life.reported);
        // Not after long waiting either.
        life.pass(life.policy.backfill.hasten_after);
        life.cycle();
        assert!(!life.reported.contains_key(&wide), "{mode:?}: {:?}", life.reported);
    }
}
