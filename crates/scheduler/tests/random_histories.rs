//! Random lives: what must always hold holds after every step, and in the end everybody who can
//! run has run.

use crate::common;

use common::ClusterRun;
use common::shapes::{ALL, Kinds, QUOTAS, act, any_act, any_fleet, any_policy, cases, powered};
use muster_model::units::Span;
use muster_scheduler::explain;
use proptest::prelude::*;

/// Everything that failed comes back, and nothing new is submitted: who still waits in the end
/// could never start, and the answer says so.
fn all_run_in_the_end(mut life: ClusterRun) {
    let names: Vec<_> = life.nodes.keys().cloned().collect();
    for n in &names {
        life.heal(n);
    }
    life.cycle();
    let left = life.drain();
    assert!(life.c.running.is_empty(), "{:?} never ended", life.c.running.keys());
    for id in left {
        let w = life.c.queue.get(id).unwrap();
        let e = explain(&life.c, w, &life.policy, life.now);
        // One that never fits stops all behind it where nobody may pass.
        if life.c.ledger.strict(&w.project).is_some() {
            continue;
        }
        assert!(!e.starts_now, "{id} could start, and nobody looks");
        let never = e.impossible || e.constraints.iter().any(|c| c.binding && c.warning);
        let spare = e.constraints.iter().any(|c| c.binding && c.name == "service");
        let own = w.tier == muster_model::spec::Tier::Reserved;
        let limit = e.constraints.iter().any(|c| c.binding && c.name == "user limit");
        let power = w.demand.spread.is_some()
            && e.constraints.iter().any(|c| c.binding && c.name == "power");
        let apart = e.constraints.iter().any(|c| c.binding && c.name == "groups");
        let piece = w.demand.segment.is_some();
        assert!(
            never || spare || own || limit || power || apart || piece,
            "{id} waits on an empty fleet: {} {:?}",
            e.summary,
            e.constraints
        );
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn everything_at_once(
        nodes in any_fleet(),
        policy in any_policy(),
        quota in 0..QUOTAS.len(),
        acts in prop::collection::vec(any_act(ALL), 1..40),
    ) {
        let mut life = ClusterRun::new(nodes.it).with_policy(policy.it).with_quotas(QUOTAS[quota]);
        for a in &acts {
            act(&mut life, a);
        }
        all_run_in_the_end(life);
    }

    #[test]
    fn under_budgets_of_power(
        nodes in any_fleet(),
        policy in any_policy(),
        feed in 3..20u64,
        rack in 3..9u64,
        acts in prop::collection::vec(any_act(Kinds { reservations: false, ..ALL }), 1..30),
    ) {
        let policy = powered(policy.it, feed * 1500, rack * 1500);
        let mut life = ClusterRun::new(nodes.it).with_policy(policy);
        for a in &acts {
            act(&mut life, a);
        }
        all_run_in_the_end(life);
    }

    #[test]
    fn under_limits_for_users(
        nodes in any_fleet(),
        policy in any_policy(),
        jobs in 1..4u32,
        gpus in 1..12u32,
        stagger in 0..5u32,
        acts in prop::collection::vec(any_act(Kinds { reservations: false, ..ALL }), 1..30),
    ) {
        let mut policy = policy.it;
        policy.limits.running_jobs_per_user = Some(jobs);
        policy.limits.gpus_per_user = Some(gpus);
        policy.power.stagger_gpus = stagger;
        policy.power.stagger_window = Span::mins(3);
        let mut life = ClusterRun::new(nodes.it).with_policy(policy);
        for a in &acts {
            act(&mut life, a);
        }
        all_run_in_the_end(life);
    }
}
