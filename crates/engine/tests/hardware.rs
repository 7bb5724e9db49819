//! Faults that nodes report, and tests of nodes.

use crate::common;

use common::{TestSite, connected, fault, gang, inventory, node, replay, report, said_ahead};
use muster_engine::{Engine, Policy, State};
use muster_model::command::{Command, Observed, RefusalCode};
use muster_model::event::{Event, Origin};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{JobState, SlotEnd};
use muster_model::node::Inventory;
use muster_model::policy::OnJoin;
use muster_model::qualification::{Level, Outcome};
use muster_model::units::{Span, Time};

/// Nodes that can be tested.
fn able(nodes: usize) -> TestSite {
    let mut w = TestSite::new(nodes, 8);
    for i in 0..nodes {
        meet(&mut w, i, "boot");
    }
    w
}

fn meet(w: &mut TestSite, i: usize, boot: &str) {
    meets(w, i, boot, Vec::new(), false);
}

fn meets(
    w: &mut TestSite,
    i: usize,
    boot: &str,
    observed: Vec<(AttemptKey, Observed)>,
    ahead: bool,
) {
    let can = ["qualify".to_string()].into();
    w.ok(said_ahead(connected(i, boot, Inventory { can, ..inventory(8) }, observed), ahead));
}

fn ask(w: &mut TestSite, i: usize) -> u64 {
    w.ok(Command::Qualify { node: node(i), level: Level::Quick });
    w.testing(i).unwrap()
}

fn refused(w: &mut TestSite, i: usize, word: &str) {
    let n = w.log.len();
    let no = w.send(Command::Qualify { node: node(i), level: Level::Quick }).unwrap_err();
    assert_eq!(no.code, RefusalCode::Conflict);
    assert!(no.message.contains(word), "{no:?}");
    assert!(no.hint.is_some(), "{no:?}");
    assert_eq!(w.log.len(), n);
}

fn done(w: &mut TestSite, i: usize, id: u64, outcome: Outcome, value: i64) {
    w.ok(Command::QualificationDone { node: node(i), id, report: report(outcome, value) });
}

fn outcome(w: &TestSite, i: usize) -> Option<Outcome> {
    w.engine.state().nodes[&node(i)].qualified.as_ref().map(|q| q.report.outcome)
}

fn cordon(w: &TestSite, i: usize) -> Option<String> {
    w.engine.state().nodes[&node(i)].cordon.as_ref().map(|c| c.reason.clone())
}

/// The engine starts anew from a snapshot.
fn restart(w: &mut TestSite) {
    let bytes = w.engine.state().to_bytes().unwrap();
    let state = State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
    assert_eq!(state.digest(), w.engine.state().digest());
    w.engine = Engine::new(state, Policy::default());
    w.tick();
}

#[test]
fn the_last_faults_of_a_node_are_remembered_and_all_are_counted() {
    let mut w = TestSite::new(2, 8);
    for n in 0..40 {
        let faults = vec![fault("xid-79", n % 8)];
        w.ok(Command::FaultsSeen { node: node(0), faults });
    }
    w.ok(Command::FaultsSeen { node: node(1), faults: vec![fault("xid-31", 0)] });
    restart(&mut w);
    let s = w.engine.state();
    assert_eq!((s.faults_of(&node(0)).count(), s.faults.len()), (32, 33));
    let newest = s.faults_of(&node(0)).next().unwrap();
    assert_eq!(newest.fault.gpu, Some(39 % 8));
    let counts: Vec<u64> = s.fault_counts.values().copied().collect();
    assert_eq!(counts, [1, 40]);
    assert_eq!(replay(&w.log).digest(), s.digest());
    // Nothing else happens to the node.
    assert!(s.nodes.values().all(|n| n.cordon.is_none() && n.excluded_gpus.is_empty()));
}

#[test]
fn a_fault_belongs_to_the_attempt_that_it_hit_and_to_no_other() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(gang(1, 8));
    let (home, key) = (w.nodes_of(id)[0].clone(), w.key(id));
    let other = if home == node(0) { node(1) } else { node(0) };
    let mut hit = fault("xid-31", 2);
    (hit.attempt, hit.rank, hit.text) = (Some(key), Some(2), "é".repeat(5000));
    let stranger = AttemptKey { job: JobId(99), attempt: 1 };
    let mut false_claim = hit.clone();
    false_claim.attempt = Some(stranger);
    w.ok(Command::FaultsSeen { node: home.clone(), faults: vec![hit.clone(), false_claim] });
    w.ok(Command::FaultsSeen { node: other.clone(), faults: vec![hit] });
    let s = w.engine.state();
    let here: Vec<_> = s.faults_of(&home).collect();
    assert_eq!((here[1].fault.attempt, here[1].fault.rank), (Some(key), Some(2)));
    assert_eq!(here[1].fault.text.chars().count(), 500);
    assert!(here[1].project.is_some(), "its owner may see it");
    assert_eq!((here[0].fault.attempt, here[0].project.clone()), (None, None));
    assert_eq!(s.faults_of(&other).next().unwrap().fault.attempt, None, "it did not run there");
    assert_eq!(w.job(id).state, JobState::Running);
}

#[test]
fn a_node_is_tested_when_it_can_be_and_nothing_runs_there() {
    let mut w = TestSite::new(1, 8);
    refused(&mut w, 0, "does not know how");
    meet(&mut w, 0, "boot");
    let id = w.run(gang(1, 1));
    refused(&mut w, 0, "work runs");
    w.finish(id);
    w.lose(&node(0));
    refused(&mut w, 0, "heartbeat");
    meet(&mut w, 0, "boot");
    ask(&mut w, 0);
    refused(&mut w, 0, "already");
    w.ok(Command::CancelQualification { node: node(0) });
    assert_eq!(w.testing(0), None);
    w.ok(Command::Drain { node: node(0), reason: "x".into(), stop: false });
    ask(&mut w, 0);
    w.ok(Command::Retire { node: node(0) });
    assert_eq!(w.testing(0), None);
    refused(&mut w, 0, "retired");
    assert_eq!(w.engine.next_wake(), None);
}

#[test]
fn a_node_that_is_tested_takes_no_work_and_explain_says_so() {
    let mut w = able(1);
    let test = ask(&mut w, 0);
    let id = w.gang(1, 8);
    assert_eq!(w.job(id).state, JobState::Queued);
    let e = w.explain(id);
    let shown = format!("{} {:?}", e.summary, e.constraints);
    assert!(shown.contains("1 qualifying"), "{shown}");
    done(&mut w, 0, test, Outcome::Passed, 700);
    assert_eq!(w.job(id).state, JobState::Starting);
    assert_eq!((outcome(&w, 0), cordon(&w, 0)), (Some(Outcome::Passed), None));
}

#[test]
fn a_report_counts_once_and_only_for_the_test_that_goes_on() {
    let mut w = able(2);
    let first = ask(&mut w, 0);
    let n = w.log.len();
    done(&mut w, 0, first + 1, Outcome::Failed, 1);
    done(&mut w, 1, first, Outcome::Failed, 1);
    assert_eq!(w.log.len(), n, "not the test that goes on");
    // The node goes away in the middle, and the server starts anew; then it reports twice.
    w.lose(&node(0));
    restart(&mut w);
    meet(&mut w, 0, "another boot");
    assert_eq!(w.testing(0), Some(first), "it is to be done all the same");
    done(&mut w, 0, first, Outcome::Passed, 700);
    done(&mut w, 0, first, Outcome::Failed, 1);
    let ends = w.since(n).filter(|e| matches!(e, Event::QualificationEnded { .. })).count();
    assert_eq!((ends, outcome(&w, 0)), (1, Some(Outcome::Passed)));
    let second = ask(&mut w, 0);
    assert_ne!(first, second);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_node_that_fails_is_cordoned_in_the_same_step() {
    let mut w = able(1);
    let id = ask(&mut w, 0);
    let n = w.log.len();
    let job = w.gang(1, 8);
    done(&mut w, 0, id, Outcome::Failed, 500);
    let why = "failed qualification: gemm-bf16 of GPU 3 is 500 TFLOP/s, not 630";
    assert_eq!(cordon(&w, 0).as_deref(), Some(why));
    assert_eq!(w.job(job).state, JobState::Queued);
    let decided: Vec<_> =
        w.since(n).filter(|e| matches!(e, Event::NodeCordoned { .. })).map(Event::origin).collect();
    assert_eq!(decided, [Origin::Decision]);
    // Passing later changes nothing about it; an operator's word does.
    let id = ask(&mut w, 0);
    done(&mut w, 0, id, Outcome::Passed, 700);
    assert_eq!((outcome(&w, 0), cordon(&w, 0).as_deref()), (Some(Outcome::Passed), Some(why)));
    w.ok(Command::Cordon { node: node(0), reason: "mine".into() });
    let id = ask(&mut w, 0);
    done(&mut w, 0, id, Outcome::Failed, 400);
    assert_eq!(cordon(&w, 0).as_deref(), Some("mine"), "an operator's reason stays");
    let n = w.log.len();
    w.ok(Command::Cordon { node: node(0), reason: String::new() });
    assert_eq!(cordon(&w, 0).as_deref(), Some("mine"), "no reason is not another one");
    assert!(!w.since(n).any(|e| matches!(e, Event::NodeCordoned { .. })));
    // Whoever it was is written down, not read from the words.
    let mine = "failed qualification, says its maker";
    w.ok(Command::Cordon { node: node(0), reason: mine.into() });
    let id = ask(&mut w, 0);
    done(&mut w, 0, id, Outcome::Failed, 400);
    assert_eq!(cordon(&w, 0).as_deref(), Some(mine));
}

#[test]
fn a_test_that_nothing_is_heard_of_has_failed() {
    for (level, limit) in [
        (Level::Quick, Span::mins(10)),
        (Level::Standard, Span::mins(30)),
        (Level::Full, Span::hours(24)),
    ] {
        let mut w = able(1);
        w.ok(Command::Qualify { node: node(0), level });
        let end = w.now + limit;
        assert_eq!(w.engine.next_wake(), Some(end));
        w.sleep(Span(limit.0 - 1));
        assert!(w.testing(0).is_some());
        restart(&mut w);
        w.sleep(Span(1));
        assert_eq!((w.testing(0), outcome(&w, 0)), (None, Some(Outcome::Failed)));
        assert!(cordon(&w, 0).unwrap().contains("did not report within"), "{:?}", cordon(&w, 0));
        let last = w.log.iter().rev().find(|r| matches!(r.event, Event::QualificationEnded { .. }));
        assert_eq!(last.unwrap().event.origin(), Origin::Decision);
    }
}

#[test]
fn one_that_was_better_before_or_is_behind_its_like_is_shown_and_stays_in_service() {
    let mut w = able(6);
    for i in 0..5 {
        let id = ask(&mut w, i);
        done(&mut w, i, id, Outcome::Passed, 698 + i64::try_from(i).unwrap());
        assert_eq!(outcome(&w, i), Some(Outcome::Passed));
    }
    let id = ask(&mut w, 5);
    done(&mut w, 5, id, Outcome::Passed, 650);
    assert_eq!((outcome(&w, 5), cordon(&w, 5)), (Some(Outcome::Degraded), None));
    let note = |w: &TestSite, i: usize| {
        let q = w.engine.state().nodes[&node(i)].qualified.clone().unwrap();
        q.report.checks[0].note.clone()
    };
    assert!(note(&w, 5).contains("5 nodes of its kind"), "{}", note(&w, 5));
    let id = ask(&mut w, 0);
    done(&mut w, 0, id, Outcome::Passed, 650);
    assert!(note(&w, 0).contains("its own best of 698"), "{}", note(&w, 0));
    // The history is bounded.
    for _ in 0..20 {
        let id = ask(&mut w, 1);
        done(&mut w, 1, id, Outcome::Passed, 700);
    }
    assert_eq!(w.engine.state().nodes[&node(1)].past_figures.len(), 8);
    restart(&mut w);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_node_that_joins_is_tested_first_where_the_policy_says_so() {
    let mut w = able(1);
    w.policy(|p| p.qualification.on_join = OnJoin::Quick);
    assert_eq!(w.testing(0), None, "those that are there are left alone");
    let (name, machine) = (node(1), "m1".to_string());
    w.ok(Command::Enroll { node: name, machine, token: "t".into(), key: None });
    w.run(gang(1, 8));
    let big = w.submit(gang(1, 8));
    let n = w.log.len();
    meet(&mut w, 1, "boot");
    let id = w.testing(1).unwrap();
    assert_eq!(w.job(big).state, JobState::Queued, "it takes no work before");
    let asked = w.since(n).find(|e| matches!(e, Event::QualificationAsked { .. })).unwrap();
    assert_eq!(asked.origin(), Origin::Decision);
    done(&mut w, 1, id, Outcome::Passed, 700);
    assert_eq!(w.job(big).state, JobState::Starting);
    // Coming back is not joining.
    w.lose(&node(1));
    meet(&mut w, 1, "boot 2");
    assert_eq!(w.testing(1), None);
    // One that cannot be tested is taken as it is.
    w.ok(Command::Enroll { node: node(2), machine: "m2".into(), token: "t".into(), key: None });
    w.connect(2, 8, "boot", Vec::new());
    assert_eq!(w.testing(2), None);
    assert!(w.now > Time(0));
}

#[test]
fn a_node_that_joined_while_it_was_held_is_tested_once_it_is_let_go() {
    let mut w = able(1);
    w.policy(|p| p.qualification.on_join = OnJoin::Quick);
    w.run(gang(1, 8));
    let waits = w.submit(gang(1, 8));
    w.ok(Command::Enroll { node: node(1), machine: "m1".into(), token: "t".into(), key: None });
    let lost = AttemptKey { job: JobId(999), attempt: 1 };
    meets(&mut w, 1, "boot", vec![(lost, Observed::Running)], true);
    assert_eq!(w.testing(1), None, "nothing is begun on a node that is held");
    w.ok(Command::Reconcile { node: node(1) });
    let id = w.testing(1).expect("it is tested now");
    // Its agent is informed when the ranks of the lost life are gone.
    w.engine.take_touched();
    let observed = Observed::Ended(SlotEnd::Stopped);
    w.ok(Command::SlotReport { node: node(1), key: lost, observed, ago: None });
    assert!(w.engine.take_touched().contains(&node(1)));
    assert_eq!(w.job(waits).state, JobState::Queued, "it takes no work before");
    done(&mut w, 1, id, Outcome::Passed, 700);
    assert_eq!(w.job(waits).state, JobState::Starting);
    // What passed is not tested again, and what has work is left alone.
    w.start(waits);
    let key = w.key(waits);
    meets(&mut w, 1, "boot", vec![(key, Observed::Running)], true);
    w.ok(Command::Reconcile { node: node(1) });
    assert_eq!((w.testing(1), w.job(waits).state), (None, JobState::Running));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
