//! Nodes of a gang fail: just those are replaced, by spares that are near.

use crate::common::{TestSite, checkpoints, crash, gang, limited, node, number, replay};
use muster_model::command::{Command, Observed};
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::{Basis, JobState, SlotEnd};
use muster_model::names::NodeName;
use muster_model::node::NodeRole;
use muster_model::spec::{JobSpec, Priority};
use muster_model::units::Span;

fn mark(w: &mut TestSite, i: usize, role: NodeRole) {
    w.ok(Command::MarkNode { node: node(i), role: Some(role), hazard: None });
}

fn leaf(n: &NodeName) -> usize {
    number(n) / 8
}

/// Sixteen nodes in two leaves, with two spares at the end of each.
fn with_spares() -> TestSite {
    let mut w = TestSite::new(16, 8);
    for i in [6, 7, 14, 15] {
        mark(&mut w, i, NodeRole::Spare);
    }
    w
}

fn stop_rest(w: &mut TestSite, id: JobId, gone: &[NodeName]) {
    for n in w.nodes_of(id) {
        if !gone.contains(&n) && w.job(id).state == JobState::Stopping {
            w.report(id, &n, Observed::Ended(SlotEnd::Stopped));
        }
    }
}

#[test]
fn spares_take_no_ordinary_work() {
    let mut w = with_spares();
    let jobs: Vec<JobId> = (0..13).map(|_| w.gang(1, 8)).collect();
    let placed = jobs.iter().filter(|j| w.job(**j).attempt.is_some()).count();
    assert_eq!(placed, 12);
}

#[test]
fn two_nodes_lost_at_once_are_replaced_by_spares_of_the_same_leaf() {
    let mut w = with_spares();
    let id = w.gang(4, 8);
    w.start(id);
    // Nobody else leaves room: only spares can help.
    while w.job(w.engine.state().jobs.keys().copied().last().unwrap()).attempt.is_some() {
        w.gang(1, 8);
    }
    let had = w.nodes_of(id);
    let home = leaf(&had[0]);
    assert!(had.iter().all(|n| leaf(n) == home));
    let gone = [had[1].clone(), had[3].clone()];
    let n = w.log.len();
    for g in &gone {
        w.lose(g);
    }
    let reported = w.since(n).filter_map(|e| match e {
        Event::StartReserved { job, reserved_start } if *job == id => Some(reserved_start.basis),
        _ => None,
    });
    assert_eq!(reported.last(), Some(Basis::Swap));
    stop_rest(&mut w, id, &gone);
    assert_eq!(w.job(id).state, JobState::Starting);
    let now = w.nodes_of(id);
    assert!(now.contains(&had[0]) && now.contains(&had[2]), "the survivors stay: {now:?}");
    assert!(now.iter().all(|n| leaf(n) == home), "in the same leaf: {now:?}");
    let new: Vec<usize> = now.iter().filter(|n| !had.contains(n)).map(number).collect();
    assert_eq!(new, [home * 8 + 6, home * 8 + 7], "the two spares");
    assert_eq!(w.job(id).infrastructure_failures, 1, "one failure, whatever the number of nodes");
}

#[test]
fn a_free_node_in_the_leaf_is_taken_when_it_has_no_spare_left() {
    let mut w = TestSite::new(16, 8);
    mark(&mut w, 15, NodeRole::Spare);
    let id = w.gang(4, 8);
    w.start(id);
    let had = w.nodes_of(id);
    w.lose(&had[0]);
    stop_rest(&mut w, id, &had[..1]);
    let now = w.nodes_of(id);
    assert!(had[1..].iter().all(|n| now.contains(n)));
    assert!(now.iter().all(|n| leaf(n) == leaf(&had[1])), "nearer than the spare: {now:?}");
}

#[test]
fn what_a_swap_keeps_is_not_given_to_others_meanwhile() {
    let mut w = TestSite::new(4, 8);
    mark(&mut w, 3, NodeRole::Spare);
    let id = w.gang(3, 8);
    w.start(id);
    let had = w.nodes_of(id);
    w.lose(&had[2]);
    w.report(id, &had[0], Observed::Ended(SlotEnd::Stopped));
    let other = w.gang(1, 8);
    assert_eq!(w.job(other).state, JobState::Queued, "the first node is free but kept");
    w.report(id, &had[1], Observed::Ended(SlotEnd::Stopped));
    assert_eq!(w.nodes_of(id), [had[0].clone(), had[1].clone(), node(3)]);
}

#[test]
fn a_drained_node_is_replaced_the_same_way() {
    let mut w = with_spares();
    let id = w.gang(4, 8);
    w.start(id);
    let had = w.nodes_of(id);
    w.ok(Command::Drain { node: had[0].clone(), reason: "fan".into(), stop: true });
    w.stopped(id);
    let now = w.nodes_of(id);
    assert!(had[1..].iter().all(|n| now.contains(n)) && !now.contains(&had[0]));
    assert_eq!(w.job(id).infrastructure_failures, 0);
}

#[test]
fn nodes_that_a_critical_gang_leaves_one_by_one_go_to_no_lower_class_before_it_is_queued_again() {
    for (priority, kept) in [(Priority::Critical, true), (Priority::Normal, false)] {
        let mut w = TestSite::new(2, 8);
        let id = w.run(JobSpec { priority, ..gang(2, 8) });
        let low = w.submit(JobSpec { priority: Priority::Low, ..gang(1, 8) });
        let had = w.nodes_of(id);
        w.ok(Command::Requeue { job: id });
        w.report(id, &had[0], Observed::Ended(SlotEnd::Stopped));
        assert_eq!(w.job(id).state, JobState::Stopping);
        assert_eq!(w.job(low).state == JobState::Queued, kept, "{priority:?}");
        w.report(id, &had[1], Observed::Ended(SlotEnd::Stopped));
        if kept {
            assert_eq!((w.job(id).state, w.nodes_of(id)), (JobState::Starting, had));
        }
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn the_node_of_a_critical_job_whose_cause_is_looked_for_goes_to_no_lower_class_meanwhile() {
    let ends = |queued_again: bool| {
        let mut w = TestSite::new(1, 8);
        let id = w.run(JobSpec { priority: Priority::Critical, ..gang(1, 8) });
        let low = w.submit(gang(1, 8));
        let had = w.nodes_of(id);
        w.report(id, &had[0], crash(0, 3));
        assert!(w.job(id).ending_until().is_some());
        assert_eq!(w.job(low).state, JobState::Queued, "the node is free, and reserved");
        if queued_again {
            w.ok(Command::Requeue { job: id });
            assert_eq!((w.job(id).state, w.nodes_of(id)), (JobState::Starting, had));
        } else {
            w.sleep(Span::secs(5));
            assert_eq!(w.job(id).state, JobState::Failed);
            assert_eq!(w.job(low).state, JobState::Starting, "nobody waits for it any more");
        }
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    };
    ends(true);
    ends(false);
}

#[test]
fn a_critical_gang_whose_retry_has_to_wait_leaves_its_nodes_to_others() {
    let mut w = TestSite::new(2, 8);
    let mut spec = JobSpec { priority: Priority::Critical, ..gang(2, 8) };
    spec.retries.application = 10;
    let id = w.run(spec);
    let had = w.nodes_of(id);
    w.report(id, &had[0], crash(0, 1));
    assert!(w.job(id).reserved_start.is_some(), "its first retry follows at once");
    w.stopped(id);
    w.start(id);
    let low = w.submit(JobSpec { priority: Priority::Low, ..gang(2, 8) });
    w.report(id, &had[0], crash(0, 1));
    assert_eq!(w.job(id).reserved_start, None);
    w.stopped(id);
    assert_eq!((w.job(id).state, w.job(low).state), (JobState::Queued, JobState::Starting));
    assert!(w.job(id).not_before > w.now, "it waits for its back-off");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn without_a_replacement_the_gang_waits_like_any_other() {
    let mut w = TestSite::new(2, 8);
    let id = w.gang(2, 8);
    w.start(id);
    let had = w.nodes_of(id);
    w.lose(&had[0]);
    w.report(id, &had[1], Observed::Ended(SlotEnd::Stopped));
    assert_eq!((w.job(id).state, w.job(id).reserved_start.clone()), (JobState::Queued, None));
    let small = w.gang(1, 8);
    assert_eq!(w.job(small).state, JobState::Starting, "nothing is kept in vain");
    w.connect(number(&had[0]), 8, "b2", Vec::new());
    w.start(small);
    w.finish(small);
    assert_eq!(w.job(id).state, JobState::Starting);
}

#[test]
fn a_replacement_that_fails_too_is_replaced_again() {
    let mut w = with_spares();
    let id = w.submit(gang(4, 8));
    w.start(id);
    let had = w.nodes_of(id);
    w.lose(&had[0]);
    let first = w.job(id).reserved_start.clone().unwrap();
    let spare = first.nodes.iter().find(|n| !had.contains(n)).unwrap().clone();
    w.lose(&spare);
    stop_rest(&mut w, id, &had[..1]);
    w.pass(Span::secs(1));
    assert_eq!(w.job(id).state, JobState::Starting);
    let now = w.nodes_of(id);
    assert!(!now.contains(&spare) && !now.contains(&had[0]), "{now:?}");
}

#[test]
fn a_spare_that_comes_back_steps_in_for_the_node_that_a_waiting_gang_lost() {
    let mut w = TestSite::new(4, 8);
    mark(&mut w, 3, NodeRole::Spare);
    let drain = |w: &mut TestSite, i: usize| {
        w.ok(Command::Drain { node: node(i), reason: "broken".into(), stop: true });
    };
    drain(&mut w, 3);
    let id = w.gang(3, 8);
    w.start(id);
    drain(&mut w, 0);
    w.stopped(id);
    assert_eq!(w.job(id).state, JobState::Queued, "the only spare is away too");
    w.pass(Span::mins(1));
    w.ok(Command::Undrain { node: node(3) });
    assert_eq!(w.job(id).state, JobState::Starting);
    let role = |w: &TestSite, i: usize| w.engine.state().nodes[&node(i)].role;
    assert_eq!((role(&w, 3), role(&w, 0)), (NodeRole::Normal, NodeRole::Spare));
}

#[test]
fn a_gang_and_the_job_that_has_its_nodes_reserved_do_not_wait_for_each_other() {
    let mut w = TestSite::new(5, 8);
    let id = w.run(limited(4, 8, 240));
    let had = w.nodes_of(id);
    let other = w.submit(limited(3, 8, 10));
    let reserved = w.job(other).reserved_start.clone().unwrap();
    assert!(reserved.nodes.iter().all(|n| had[1..].contains(n)), "{reserved:?}");
    w.pass(Span::mins(5));
    w.lose(&had[0]);
    assert_eq!(w.job(id).reserved_start.as_ref().map(|p| p.basis), Some(Basis::Swap));
    stop_rest(&mut w, id, &had[..1]);
    // A whole time limit more would not be over when the other has its reserved start.
    assert_eq!(w.job(other).state, JobState::Starting, "nothing stands in its way");
    assert_eq!(w.job(id).reserved_start.as_ref().map(|p| p.basis), Some(Basis::Limits));
    w.start(other);
    w.finish(other);
    assert_eq!(w.job(id).state, JobState::Starting);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_gang_that_its_fence_makes_late_goes_before_whoever_came_meanwhile() {
    let mut w = TestSite::new(4, 8);
    let id = w.run(JobSpec { checkpoint: checkpoints(false), ..limited(3, 8, 60) });
    let had = w.nodes_of(id);
    w.lose(&had[0]);
    stop_rest(&mut w, id, &had[..1]);
    assert_eq!(w.job(id).state, JobState::Stopping, "its fence has not passed");
    let other = w.submit(limited(3, 8, 10));
    let reserved = w.job(other).reserved_start.clone().expect("after the gang");
    w.sleep(Span::mins(10));
    assert_eq!((w.job(id).state, w.job(other).state), (JobState::Starting, JobState::Queued));
    assert!(
        w.job(other).reserved_start.as_ref().is_some_and(|p| p.at <= reserved.at),
        "and it is kept"
    );
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn one_that_gives_way_gets_another_reserved_start_wherever_it_stands_in_the_queue() {
    let mut w = TestSite::new(5, 8);
    w.policy(|p| (p.backfill.reserved_starts, p.preemption.enabled) = (1, false));
    let id = w.run(JobSpec { priority: Priority::Low, ..limited(4, 8, 240) });
    let had = w.nodes_of(id);
    let other = w.submit(limited(3, 8, 10));
    let reserved = w.job(other).reserved_start.clone().unwrap();
    assert!(reserved.nodes.iter().all(|n| had[1..].contains(n)), "{reserved:?}");
    w.pass(Span::mins(5));
    w.lose(&had[0]);
    stop_rest(&mut w, id, &had[..1]);
    assert_eq!(w.job(other).state, JobState::Starting);
    let p = w.job(id).reserved_start.clone().expect("it keeps no room that it cannot use");
    assert_eq!(p.basis, Basis::Limits);
    assert!(p.moved.as_deref().is_some_and(|m| m.contains("reserved start")), "{p:?}");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
