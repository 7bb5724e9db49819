//! Nodes that fail more often than their work explains.

use super::*;
use crate::common::{gang, node, number, replay};
use muster_engine::{Engine, Policy, SNAPSHOT_FORMAT, State};
use muster_model::job::JobState;
use muster_model::node::NodeRole;
use muster_model::qualification::Level;
use muster_model::units::Span;

const DAY: Span = Span::hours(24);

/// Lost nodes are only watched here, so that they are back for the next day.
fn calm(nodes: usize) -> TestSite {
    let mut w = able(nodes);
    w.policy(|p| p.remediations.rules.push(rule("node-lost", &[Action::Watch])));
    w
}

/// A day of work on every node, at the end of which these fall under theirs and are back later.
fn a_day(w: &mut TestSite, lost: &[usize]) {
    let all = w.engine.state().nodes.len();
    let jobs: Vec<JobId> = (0..all).map(|_| w.submit(gang(1, 8))).collect();
    let up = |w: &TestSite| -> Vec<JobId> {
        jobs.iter().copied().filter(|j| w.job(*j).attempt.is_some()).collect()
    };
    for j in up(w) {
        w.start(j);
    }
    w.sleep(DAY);
    for i in lost {
        w.lose(&node(*i));
    }
    w.sleep(Span::mins(2));
    for i in lost {
        meet(w, *i, "boot");
    }
    loop {
        let open: Vec<JobId> =
            jobs.iter().copied().filter(|j| !w.job(*j).state.is_final()).collect();
        if open.is_empty() {
            break;
        }
        for j in open {
            match w.job(j).state {
                JobState::Starting => w.start(j),
                JobState::Running => w.finish(j),
                JobState::Stopping => w.stopped(j),
                _ => w.sleep(Span::mins(2)),
            }
        }
    }
    for _ in 0..15 {
        w.sleep(Span::mins(1));
        let tests = w.engine.state().nodes.values().filter(|n| n.qualifying.is_some());
        for n in tests.map(|n| n.name.clone()).collect::<Vec<_>>() {
            tested(w, &n, Outcome::Passed);
        }
    }
}

fn lemons(w: &TestSite) -> Vec<NodeName> {
    let open = w.engine.state().health.open().filter(|f| f.seen.kind == "lemon");
    open.filter_map(|f| f.seen.entity.node().cloned()).collect()
}

fn restart(w: &mut TestSite) {
    let bytes = w.engine.state().to_bytes().unwrap();
    let state = State::from_bytes(SNAPSHOT_FORMAT, &bytes).unwrap();
    assert_eq!(state.digest(), w.engine.state().digest());
    assert_eq!(replay(&w.log).digest(), state.digest(), "the log says the same");
    w.engine = Engine::new(state, Policy::default());
    w.tick();
}

#[test]
fn a_node_that_falls_day_after_day_is_kept_for_small_work() {
    let mut w = calm(16);
    let n = node(5);
    a_day(&mut w, &[5]);
    restart(&mut w);
    a_day(&mut w, &[5, 9]);
    assert_eq!(lemons(&w), [], "two are never enough");
    restart(&mut w);
    a_day(&mut w, &[5]);
    assert_eq!(lemons(&w), [node(5)]);
    let f = w.engine.state().health.open_on(&n).find(|f| f.seen.kind == "lemon").unwrap();
    assert!(f.seen.evidence[0].starts_with("3 failures in four weeks"), "{:?}", f.seen.evidence);
    assert!(f.seen.evidence[1].contains("the last jobs"), "{:?}", f.seen.evidence);
    assert!(f.inferred && f.seen.confidence > 800, "{f:?}");
    assert_eq!(of(&w, &n).role, NodeRole::Lemon);
    assert_eq!(of(&w, &n).stage, Stage::Ready, "nothing more is done by default");
    restart(&mut w);
    assert_eq!(lemons(&w), [node(5)], "found once");
    // No large gang is given it.
    let job = w.submit(gang(15, 8));
    assert!(!w.nodes_of(job).contains(&n));
    assert_eq!(w.engine.state().health.records.len(), 16);
    // When its failures are long ago it is a node like others.
    w.start(job);
    w.sleep(Span::hours(29 * 24));
    assert_eq!(lemons(&w), []);
    assert_eq!(of(&w, &n).role, NodeRole::Normal);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_operators_word_clears_a_node() {
    let mut w = calm(16);
    for _ in 0..3 {
        a_day(&mut w, &[5]);
    }
    let n = node(5);
    let id = w.engine.state().health.open_of(&Entity::Node(n.clone()), "lemon").unwrap().id;
    w.ok(Command::CloseFinding { id, reason: "the cable was loose".into() });
    assert_eq!(of(&w, &n).role, NodeRole::Normal);
    a_day(&mut w, &[5]);
    assert_eq!(lemons(&w), [], "it begins anew");
    // Or by its role; and what an operator chose stays.
    for _ in 0..2 {
        a_day(&mut w, &[5]);
    }
    assert_eq!(lemons(&w), [node(5)]);
    let mark = |role| Command::MarkNode { node: n.clone(), role: Some(role), hazard: None };
    w.ok(mark(NodeRole::Normal));
    w.ok(mark(NodeRole::Lemon));
    w.sleep(Span::hours(30 * 24));
    assert_eq!((lemons(&w), of(&w, &n).role), (vec![], NodeRole::Lemon));
}

#[test]
fn who_shares_a_dying_leaf_is_no_lemon() {
    let mut w = calm(32);
    let leaf: Vec<usize> = (8..16).collect();
    for _ in 0..5 {
        a_day(&mut w, &leaf);
    }
    let leaves =
        |e: &Event| matches!(e, Event::IncidentOpened { incident } if incident.kind == "leaf-loss");
    assert!(w.log.iter().filter(|r| leaves(&r.event)).count() >= 4, "the stage is set");
    assert_eq!(lemons(&w), []);
}

#[test]
fn what_is_done_about_a_lemon_is_the_sites_choice_within_its_limits() {
    let mut w = calm(16);
    w.policy(|p| p.remediations.rules.push(rule("lemon", &[Action::Drain])));
    for _ in 0..2 {
        a_day(&mut w, &[5]);
    }
    // The fleet's share for this hour is used up when it is found.
    let jobs: Vec<JobId> = (0..16).map(|_| w.run(gang(1, 8))).collect();
    w.sleep(DAY);
    for i in [0, 8] {
        xid79(&mut w, &node(i));
        w.pass(Span::mins(6));
    }
    w.lose(&node(5));
    w.sleep(Span::mins(12));
    meet(&mut w, 5, "boot");
    assert_eq!(lemons(&w), [node(5)], "{:?}", jobs.len());
    let r = w.engine.state().health.remediations_of(&node(5)).find(|r| r.kind == "lemon").unwrap();
    assert_eq!((r.action, r.step), (Action::Drain, RemediationStep::Proposed), "{}", r.why);
    assert!(r.why.contains("limit of"), "{}", r.why);
    // When the hour is over it is drained and tested.
    w.sleep(Span::hours(1));
    assert_ne!(of(&w, &node(5)).stage, Stage::Ready);
}

#[test]
fn a_test_does_not_clear_a_lemon_and_people_who_repaired_it_do() {
    let n = node(5);
    let found = |steps: &[Action]| {
        let mut w = calm(16);
        w.policy(|p| p.remediations.rules.push(rule("lemon", steps)));
        for _ in 0..3 {
            a_day(&mut w, &[5]);
        }
        assert_eq!((lemons(&w), of(&w, &n).role), (vec![n.clone()], NodeRole::Lemon));
        w
    };
    let w = found(&[Action::Drain]);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Probation), "it passed its test");

    let mut w = found(&[Action::Replace]);
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    w.ok(Command::Repaired { node: n.clone(), note: "a new board".into() });
    tested(&mut w, &n, Outcome::Passed);
    w.sleep(Span::mins(11));
    assert_eq!((lemons(&w), of(&w, &n).role), (vec![], NodeRole::Normal));
    restart(&mut w);
}

#[test]
fn people_who_repaired_a_lemon_and_had_it_tested_clear_it() {
    let (mut w, n) = (calm(16), node(5));
    w.policy(|p| p.remediations.rules.push(rule("lemon", &[Action::Replace])));
    for _ in 0..3 {
        a_day(&mut w, &[5]);
    }
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    let ask = || Command::Qualify { node: n.clone(), level: Level::Quick };
    w.ok(ask());
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(
        stands(&w, &n),
        (Stage::Quarantined, RemediationStep::Approval),
        "no test clears it"
    );
    w.pass(Span::mins(1));
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Repairing));
    w.pass(Span::mins(1));
    w.ok(ask());
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Probation));
    w.sleep(Span::mins(11));
    assert_eq!((lemons(&w), of(&w, &n).role), (vec![], NodeRole::Normal));
    restart(&mut w);
}

#[test]
fn more_lemons_than_are_believed_end_with_a_page() {
    let mut w = calm(16);
    for _ in 0..4 {
        a_day(&mut w, &[1, 7, 12]);
    }
    let marked: Vec<usize> = w
        .engine
        .state()
        .nodes
        .values()
        .filter(|n| n.role == NodeRole::Lemon)
        .map(|n| number(&n.name))
        .collect();
    assert!(lemons(&w).len() > 1, "the stage is set: {:?}", lemons(&w));
    assert_eq!(marked.len(), 1, "{marked:?}");
    assert!(pages(&w) >= 1);
}

#[test]
fn a_history_is_small_however_much_happened() {
    use muster_health::lemon::{Record, WINDOW};
    let now = muster_model::units::Time(1_800_000_000_000);
    let size = |fails: u64, outs: u64| {
        let mut r = Record::default();
        r.busy(now - WINDOW, now, 1000);
        for i in 0..fails {
            r.failed(now - Span::mins(20 * i), JobId(1_000_000 + i), 3);
        }
        for i in 0..outs {
            r.out(now - Span::mins(20 * i));
        }
        serde_json::to_vec(&r).unwrap().len()
    };
    let (usual, most) = (size(2, 1), size(1000, 1000));
    println!("{usual} bytes as JSON, {most} at most; {} for 12,500 nodes", usual * 12_500);
    assert!(usual < 800 && most < 5000, "{usual} {most}");
}
