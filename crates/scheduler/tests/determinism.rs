//! The same input gives the same plan, whatever the order in which things came, and an index
//! built step by step answers like a fresh one.

use crate::common;

use common::shapes::{ALL, Kinds, QUOTAS, act, any_act, any_fleet, any_policy, cases};
use common::{ClusterRun, fleet, gang};
use muster_scheduler::{Cluster, Work, plan};
use proptest::prelude::*;
use std::sync::Arc;

/// The same cluster, built anew with everything in another order.
fn rebuilt(life: &ClusterRun, turn: usize) -> Cluster {
    let mut c = Cluster::default();
    let mut nodes: Vec<_> = life.nodes.values().cloned().collect();
    let mut running: Vec<_> = life.c.running.values().cloned().collect();
    let mut waiting: Vec<_> =
        life.c.queue.jobs().map(|id| life.c.queue.get(id).unwrap().clone()).collect();
    let mut reported: Vec<_> = life.reported.iter().collect();
    let (n, r, w, t) = (nodes.len(), running.len(), waiting.len(), reported.len());
    nodes.rotate_left(turn % n.max(1));
    running.rotate_left(turn % r.max(1));
    waiting.rotate_left(turn % w.max(1));
    reported.rotate_left(turn % t.max(1));
    if turn.is_multiple_of(2) {
        nodes.reverse();
        waiting.reverse();
    }
    // Kinds of GPU are distinguished by when they were first seen; that order is part of the input.
    let mut kinds = std::collections::BTreeMap::new();
    for n in life.nodes.values() {
        kinds.entry(n.sku.clone()).or_insert_with(|| n.clone());
    }
    for n in kinds.into_values().chain(nodes) {
        c.fleet.upsert(n);
    }
    c.set_power(&life.policy.power);
    c.set_quotas(&life.quotas);
    c.fleet.set_reservations(life.reservations.clone());
    for r in running {
        c.run(r, |_| true);
    }
    for w in waiting {
        c.queue.insert(w);
    }
    for (id, t) in reported {
        let w = life.c.queue.get(*id).or_else(|| life.c.running.get(id).map(|r| &r.work));
        let w = w.expect("nothing is kept for those who are gone");
        let n = u32::try_from(t.nodes.len()).unwrap();
        let d = if w.demand.nodes() == n { (*w.demand).clone() } else { w.demand.resized(n) };
        let w = Work { demand: Arc::new(d), ..(**w).clone() };
        c.fleet.keep(&w, &t.nodes, (t.at, w.ends(t.at)), t.basis);
    }
    c
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn order_of_arrival_does_not_matter(
        nodes in any_fleet(),
        policy in any_policy(),
        quota in 0..QUOTAS.len(),
        acts in prop::collection::vec(any_act(ALL), 1..25),
        more in prop::collection::vec(common::shapes::any_job(ALL), 1..8),
        turn in 1..50usize,
    ) {
        let mut life = ClusterRun::new(nodes.it).with_policy(policy.it).with_quotas(QUOTAS[quota]);
        life.strict = false;
        for a in &acts {
            act(&mut life, a);
        }
        for b in more {
            life.add(b);
        }
        let one = plan(&mut rebuilt(&life, 0), &life.policy, life.now);
        let two = plan(&mut rebuilt(&life, turn), &life.policy, life.now);
        prop_assert_eq!(&one, &two);
        let mut c = rebuilt(&life, turn);
        prop_assert!(c.problems().is_empty(), "{:?}", c.problems());
        plan(&mut c, &life.policy, life.now);
        prop_assert!(c.problems().is_empty(), "planning leaves no trace: {:?}", c.problems());
    }

    /// What did not fit is remembered; that never hides what fits. (Without work that has no
    /// limit: gathering nodes for it starts from what earlier cycles saw.)
    #[test]
    fn nothing_is_forgotten(
        nodes in any_fleet(),
        policy in any_policy(),
        quota in 0..QUOTAS.len(),
        acts in prop::collection::vec(any_act(Kinds { endless: false, ..ALL }), 1..30),
        turn in 0..50usize,
    ) {
        let mut policy = policy.it;
        policy.backfill.patience = muster_model::units::Span::hours(9999);
        let mut life = ClusterRun::new(nodes.it).with_policy(policy).with_quotas(QUOTAS[quota]);
        life.strict = false;
        for a in &acts {
            act(&mut life, a);
            let fresh = plan(&mut rebuilt(&life, turn), &life.policy, life.now);
            prop_assert!(fresh.starts.is_empty(), "a fresh index starts {:?}", fresh.starts);
        }
    }
}

#[test]
fn a_plan_that_is_not_carried_out_is_asked_for_again() {
    let mut life = ClusterRun::new(fleet(2, 4, 8));
    for _ in 0..6 {
        life.add(gang(2, 8).limit(60));
    }
    let one = plan(&mut life.c, &life.policy, life.now);
    let two = plan(&mut life.c, &life.policy, life.now);
    let jobs = |p: &muster_scheduler::Plan| p.starts.iter().map(|s| s.job).collect::<Vec<_>>();
    assert_eq!(one.starts.len(), 4);
    assert_eq!(jobs(&one), jobs(&two));
    assert!(life.c.problems().is_empty());
}
