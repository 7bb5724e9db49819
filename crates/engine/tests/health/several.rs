//! Nodes with several critical findings: the end of one returns no node.

use super::*;
use crate::common::{gang, node, replay};
use muster_model::breaker::BreakerState;
use muster_model::topology::Level;
use muster_model::units::Span;

/// A node of which a limit delays what is to be done about GPU 3, and the first finding there.
fn delayed(w: &mut TestSite) -> (NodeName, u64) {
    for i in [0, 4, 8] {
        xid79(w, &node(i));
    }
    let n = node(8);
    assert_eq!(stands(w, &n), (Stage::Suspect, RemediationStep::Proposed));
    let first = remediation(w, &n).unwrap().finding;
    (n, first)
}

fn ecc(w: &mut TestSite, n: &NodeName) -> u64 {
    let gpu = Entity::Gpu(n.clone(), 5);
    see(w, "ecc-uncorrectable", gpu.clone(), Severity::Critical);
    w.engine.state().health.open_of(&gpu, "ecc-uncorrectable").expect("it is open").id
}

fn close(w: &mut TestSite, id: u64) {
    w.ok(Command::CloseFinding { id, reason: "looked at".into() });
}

#[test]
fn a_node_with_two_critical_findings_gets_no_new_work_when_the_first_is_over() {
    let mut w = able(16);
    let (n, first) = delayed(&mut w);
    let second = ecc(&mut w, &n);
    assert_eq!(remediation(&w, &n).unwrap().finding, first, "which covers the second");
    close(&mut w, first);
    assert_eq!(stands(&w, &n), (Stage::Suspect, RemediationStep::Proposed));
    assert_eq!(remediation(&w, &n).unwrap().finding, second, "it has its own now");
    close(&mut w, second);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_node_of_which_one_finding_was_denied_gets_no_new_work_when_another_is_over() {
    let mut w = able(16);
    let (n, first) = delayed(&mut w);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::DenyRemediation { id, reason: "a customer is on it".into() });
    let second = ecc(&mut w, &n);
    assert_eq!(remediation(&w, &n).map(|r| r.finding), Some(second));
    close(&mut w, second);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Suspect, None));
    close(&mut w, first);
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_drain_that_is_taken_back_gives_no_work_to_a_node_with_a_critical_finding() {
    for denied in [false, true] {
        let mut w = able(16);
        let (n, _) = delayed(&mut w);
        if denied {
            let id = remediation(&w, &n).unwrap().id;
            w.ok(Command::DenyRemediation { id, reason: "a customer is on it".into() });
        }
        w.ok(Command::Drain { node: n.clone(), reason: "a look".into(), stop: false });
        assert_eq!(of(&w, &n).stage, Stage::Drained);
        // Two are out, this one is drained: no other node is free.
        for _ in 0..13 {
            w.run(gang(1, 8));
        }
        let waits = w.gang(1, 8);
        w.ok(Command::Undrain { node: n.clone() });
        assert_eq!(of(&w, &n).stage, Stage::Suspect, "denied: {denied}");
        assert!(w.job(waits).attempt.is_none(), "denied: {denied}");
        w.sleep(Span::mins(2));
        assert!(w.job(waits).attempt.is_none(), "denied: {denied}");
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

/// A port of a node has no link.
fn no_link(w: &TestSite, n: &NodeName) -> ObservedFinding {
    let port = Entity::Port(n.clone(), "mlx5_0".into());
    ObservedFinding::new("link-down", port, Severity::Critical, w.now)
}

#[test]
fn a_node_stays_out_when_a_cause_elsewhere_explains_the_first_of_its_findings() {
    let mut w = able(32);
    // Two that are taken, and two that a limit of their leaf delays; of each two, one GPU is slow.
    for i in [8, 9, 12, 13] {
        let n = node(i);
        let mut findings = vec![no_link(&w, &n)];
        if [9, 12].contains(&i) {
            let gpu = Entity::Gpu(n, 3);
            findings.push(ObservedFinding::new("clocks-low", gpu, Severity::Critical, w.now));
        }
        w.ok(Command::FindingsSeen { findings });
        w.pass(Span::secs(20));
    }
    let leaf = Entity::domain(Level::Leaf, &node(8), &of(&w, &node(8)).location.clone());
    let book = &w.engine.state().health;
    assert!(book.open_incidents().any(|i| i.cause == leaf), "the links are the leaf's");
    assert_eq!(book.breakers[&leaf].state, BreakerState::Open);
    for n in [8, 13].map(node) {
        assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None), "left alone");
    }
    for n in [9, 12].map(node) {
        let r = remediation(&w, &n).expect("its GPU is slow, whatever its leaf does");
        assert_eq!(r.kind, "clocks-low");
        assert_ne!(of(&w, &n).stage, Stage::Ready);
    }
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
