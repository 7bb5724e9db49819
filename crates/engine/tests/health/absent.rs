//! A GPU that is not there is found again, whoever closed what was found about it.

use super::*;
use crate::common::replay;
use muster_engine::{Engine, Policy, State};
use muster_model::placement::GpuSet;
use muster_model::qualification::Level;
use muster_model::units::Span;

fn open_on(w: &TestSite, n: &NodeName) -> Vec<String> {
    w.engine.state().health.open_on(n).map(|f| f.seen.kind.clone()).collect()
}

/// A node with 8 GPUs that can be tested, without the third or with it.
fn has(w: &mut TestSite, all: bool) {
    let can = ["qualify", "reset", "reboot"].map(String::from).into();
    let mut reported = Inventory { can, ..inventory(8) };
    reported.gpus.retain(|g| all || g.index != 3);
    report_inventory(w, 1, "boot", reported, Vec::new());
}

/// GPU 3 fell off the bus, and what was to be done about it was denied.
fn off_the_bus() -> (TestSite, NodeName) {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    has(&mut w, false);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::DenyRemediation { id, reason: "we look ourselves".into() });
    w.pass(Span::mins(1));
    (w, n)
}

fn returned(w: &mut TestSite, n: &NodeName) {
    w.ok(Command::ReturnUntested { node: n.clone(), reason: "test".into() });
    assert_eq!((of(w, n).stage, open_on(w, n)), (Stage::Ready, Vec::new()));
}

#[test]
fn a_gpu_that_is_still_missing_when_its_node_returned_untested_is_found_again() {
    let (mut w, n) = off_the_bus();
    w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
    tested(&mut w, &n, Outcome::Failed);
    assert!(of(&w, &n).cordon.is_some());
    returned(&mut w, &n);
    assert!(of(&w, &n).cordon.is_none(), "its operator returned it from the failed test, too");
    w.sleep(Span::mins(2));
    assert_eq!(open_on(&w, &n), ["gpu-missing"]);
    assert_ne!(of(&w, &n).stage, Stage::Ready, "and automation treats it as such");
    // Once: what is open is not found again.
    let written = w.log.len();
    w.sleep(Span::mins(30));
    let opened = |e: &&Event| matches!(e, Event::FindingOpened { .. });
    assert_eq!(w.since(written).filter(opened).count(), 0);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_finding_that_is_closed_while_the_gpu_is_missing_is_opened_again() {
    let mut w = able(8);
    let n = node(1);
    has(&mut w, false);
    let id = w.engine.state().health.open_on(&n).next().unwrap().id;
    w.ok(Command::CloseFinding { id, reason: "a false alarm".into() });
    assert_eq!(open_on(&w, &n), Vec::<String>::new());
    w.sleep(Span::mins(2));
    assert_eq!(open_on(&w, &n), ["gpu-missing"]);
}

#[test]
fn a_gpu_that_is_back_or_excluded_is_not_looked_for() {
    let (mut w, n) = off_the_bus();
    returned(&mut w, &n);
    has(&mut w, true);
    w.sleep(Span::mins(5));
    assert_eq!((of(&w, &n).stage, open_on(&w, &n)), (Stage::Ready, Vec::new()));

    let (mut w, n) = off_the_bus();
    let exclude = |gpus: u64| Command::ExcludeGpus {
        node: n.clone(),
        gpus: GpuSet(gpus),
        reason: "it works with seven".into(),
    };
    w.ok(exclude(1 << 3));
    returned(&mut w, &n);
    w.sleep(Span::mins(5));
    assert_eq!((of(&w, &n).stage, open_on(&w, &n)), (Stage::Ready, Vec::new()));
    // Work is to use it again: then it has to be there.
    w.ok(exclude(0));
    w.sleep(Span::mins(2));
    assert_eq!(open_on(&w, &n), ["gpu-missing"]);
}

#[test]
fn a_server_that_starts_anew_finds_a_gpu_that_is_missing() {
    let (mut w, n) = off_the_bus();
    returned(&mut w, &n);
    let bytes = w.engine.state().to_bytes().unwrap();
    let state = State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
    w.engine = Engine::new(state, Policy::default());
    w.sleep(Span::mins(2));
    assert_eq!(open_on(&w, &n), ["gpu-missing"]);
}

#[test]
fn no_work_is_placed_on_a_gpu_that_is_missing() {
    let (mut w, n) = off_the_bus();
    returned(&mut w, &n);
    for i in (0..8).filter(|i| *i != 1) {
        w.ok(Command::Cordon { node: node(i), reason: "only one is left".into() });
    }
    let job = w.gang(1, 7);
    let slot = &w.job(job).attempt.as_ref().unwrap().placement.slots[0];
    assert_eq!((&slot.node, slot.gpus), (&n, GpuSet(0xff).minus(GpuSet(1 << 3))));
}

#[test]
fn a_node_that_failed_its_test_and_is_in_service_otherwise_can_be_returned() {
    let mut w = able(4);
    let n = node(1);
    w.ok(Command::StopAutomation { reason: "we look ourselves".into() });
    w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
    tested(&mut w, &n, Outcome::Failed);
    assert!(of(&w, &n).cordon.is_some());
    w.ok(Command::ReturnUntested { node: n.clone(), reason: "the test was wrong".into() });
    assert_eq!((of(&w, &n).stage, of(&w, &n).cordon.is_some()), (Stage::Ready, false));
    // What an operator cordoned stays cordoned, and there is nothing to return.
    w.ok(Command::Cordon { node: n.clone(), reason: "mine".into() });
    let again = Command::ReturnUntested { node: n.clone(), reason: "x".into() };
    assert!(w.send(again).is_err());
    assert!(of(&w, &n).cordon.is_some());
}
