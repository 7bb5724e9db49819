//! A GPU's next fault after an operator decided against a remediation of it.

use super::*;
use crate::common::replay;
use muster_model::placement::GpuSet;
use muster_model::remediation::RemediationOutcome;
use muster_model::units::Span;

/// What was to be done about GPU 3 of a node, denied: the number of the remediation.
fn deny(w: &mut TestSite, n: &NodeName) -> u64 {
    let id = remediation(w, n).expect("a remediation goes on").id;
    w.ok(Command::DenyRemediation { id, reason: "vendor is coming".into() });
    assert_eq!(remediation(w, n), None);
    id
}

/// How often something was chosen for a finding.
fn chosen(w: &TestSite, from: usize, finding: u64) -> usize {
    let of_it = |e: &&Event| matches!(e, Event::RemediationChosen { remediation: r } if r.finding == finding);
    w.since(from).filter(of_it).count()
}

#[test]
fn what_was_denied_is_proposed_anew_when_the_fault_occurs_again() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    let finding = remediation(&w, &n).unwrap().finding;
    let denied = deny(&mut w, &n);
    w.pass(Span::mins(10));
    xid79(&mut w, &n);
    let r = remediation(&w, &n).expect("it is proposed anew");
    assert!(r.id > denied, "{r:?}");
    assert_eq!(
        (r.finding, r.gpu),
        (finding, Some(3)),
        "one thing and one failure mode: one finding"
    );
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    let f = w.engine.state().health.findings[&finding].clone();
    assert_eq!((f.seen.count, f.seen.last_seen), (2, w.now), "what it rests on is written down");
    assert_eq!(f.remediation, Some(r.id));
    // One decision has one new proposal, however often the GPU faults.
    let from = w.log.len();
    for _ in 0..20 {
        w.pass(Span::mins(2));
        xid79(&mut w, &n);
    }
    assert_eq!(chosen(&w, from, finding), 0);
    // And the next decision has the next.
    deny(&mut w, &n);
    w.pass(Span::mins(1));
    xid79(&mut w, &n);
    assert_eq!(chosen(&w, from, finding), 1);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn what_was_known_when_it_was_denied_proposes_nothing() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    let mut old = fault("xid-79", 3);
    old.at = w.now;
    w.pass(Span::secs(30));
    let finding = remediation(&w, &n).unwrap().finding;
    deny(&mut w, &n);
    let from = w.log.len();
    // Reported late, and what detectors say again of what goes on.
    w.pass(Span::secs(30));
    report_fault(&mut w, &n, old);
    see(&mut w, "gpu-off-bus", Entity::Gpu(n.clone(), 3), Severity::Critical);
    w.sleep(Span::hours(2));
    assert_eq!((chosen(&w, from, finding), remediation(&w, &n)), (0, None));
    assert!(of(&w, &n).stage_why.contains("remediation denied by "), "{}", of(&w, &n).stage_why);
}

#[test]
fn another_failure_of_the_same_gpu_is_a_finding_of_its_own() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    let finding = remediation(&w, &n).unwrap().finding;
    deny(&mut w, &n);
    w.pass(Span::mins(1));
    let mut f = fault("xid-48", 3);
    f.at = w.now;
    report_fault(&mut w, &n, f);
    let r = remediation(&w, &n).expect("it is proposed");
    assert!(r.finding > finding && r.kind == "ecc-uncorrectable", "{r:?}");
}

#[test]
fn a_finding_that_a_denied_remediation_covered_proposes_its_own() {
    let mut w = able(8);
    let n = node(1);
    let hit = |w: &mut TestSite| {
        let mut f = fault("xid-48", 5);
        f.at = w.now;
        report_fault(w, &n, f);
    };
    xid79(&mut w, &n);
    hit(&mut w);
    let covered = w.engine.state().health.open_of(&Entity::Gpu(n.clone(), 5), "ecc-uncorrectable");
    let covered = covered.expect("it is open").id;
    while let Some(r) = remediation(&w, &n) {
        w.ok(Command::DenyRemediation { id: r.id, reason: "a customer is on it".into() });
    }
    w.pass(Span::mins(1));
    hit(&mut w);
    assert_eq!(remediation(&w, &n).expect("it is proposed").finding, covered);
}

#[test]
fn what_was_undone_is_proposed_anew_when_the_fault_occurs_again() {
    let mut w = able(16);
    let n = node(1);
    xid79(&mut w, &n);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::UndoRemediation { id, reason: "a false alarm".into() });
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    let undone = w.engine.state().health.remediations[&id].outcome;
    assert_eq!(undone, Some(RemediationOutcome::Undone));
    w.pass(Span::mins(1));
    xid79(&mut w, &n);
    assert!(remediation(&w, &n).expect("it is proposed anew").id > id);
    assert_ne!(of(&w, &n).stage, Stage::Ready, "no new work goes there");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn what_was_completed_is_proposed_anew_when_the_fault_occurs_again() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Acting));
    meet(&mut w, 1, "boot-2");
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Probation));
    assert!(w.engine.state().health.open_on(&n).next().is_none(), "its findings are over");
    w.pass(Span::mins(1));
    xid79(&mut w, &n);
    let again = w.engine.state().health.open_on(&n).next().expect("a finding").clone();
    let new = again.remediation.expect("something is proposed for it");
    assert!(new > id, "{again:?}");
}

/// XID 79 of another GPU than the one that is denied or undone in these tests.
fn another_gpu(w: &mut TestSite, n: &NodeName) {
    let mut f = fault("xid-79", 5);
    f.at = w.now;
    report_fault(w, n, f);
}

#[test]
fn undoing_what_was_for_one_gpu_returns_no_node_that_is_out_for_another() {
    let mut w = able(16);
    let n = node(1);
    xid79(&mut w, &n);
    deny(&mut w, &n);
    assert_eq!(of(&w, &n).stage, Stage::Quarantined);
    w.pass(Span::mins(1));
    another_gpu(&mut w, &n);
    let r = remediation(&w, &n).expect("the other GPU has one of its own");
    assert_eq!(r.gpu, Some(5));
    w.ok(Command::UndoRemediation { id: r.id, reason: "a false alarm".into() });
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Quarantined, None));
    assert!(
        of(&w, &n).stage_why.contains("its remediation was denied"),
        "{}",
        of(&w, &n).stage_why
    );
    // As before, an operator returns it.
    w.ok(Command::ReturnUntested { node: n.clone(), reason: "looked at".into() });
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn what_an_undone_remediation_covered_of_another_gpu_gets_its_own() {
    let mut w = able(16);
    let n = node(1);
    xid79(&mut w, &n);
    another_gpu(&mut w, &n);
    let first = remediation(&w, &n).unwrap();
    let open = w.engine.state().health.open_on(&n);
    let other = open.map(|f| f.id).find(|id| *id != first.finding).expect("two findings");
    w.ok(Command::UndoRemediation { id: first.id, reason: "a false alarm".into() });
    let next = remediation(&w, &n).expect("the other GPU has a remediation");
    assert_eq!((next.finding, next.gpu), (other, Some(5)));
    assert_ne!(of(&w, &n).stage, Stage::Ready, "no new work goes there");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn denying_what_was_for_one_gpu_leaves_no_other_gpu_without_a_remediation() {
    let mut w = able(16);
    let n = node(1);
    xid79(&mut w, &n);
    another_gpu(&mut w, &n);
    let first = remediation(&w, &n).unwrap();
    w.ok(Command::DenyRemediation { id: first.id, reason: "vendor is coming".into() });
    let next = remediation(&w, &n).expect("the other GPU has a remediation");
    assert_ne!(next.gpu, first.gpu);
    assert_ne!(of(&w, &n).stage, Stage::Ready);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_storm_gives_no_work_to_a_node_whose_remediation_was_denied() {
    let mut w = able(16);
    let n = node(8);
    for i in [0, 4, 8] {
        xid79(&mut w, &node(i));
    }
    deny(&mut w, &n);
    assert_eq!(of(&w, &n).stage, Stage::Suspect);
    for i in [12, 13, 14] {
        xid79(&mut w, &node(i));
    }
    assert!(w.engine.state().health.automation.stopped.is_some(), "it stopped itself");
    assert_eq!(of(&w, &n).stage, Stage::Suspect, "{}", of(&w, &n).stage_why);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_test_that_fails_at_another_gpu_escalates_nothing_of_the_one_that_was_reset() {
    let mut w = able(16);
    let n = node(1);
    for gpu in [2, 3] {
        see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), gpu), Severity::Critical);
    }
    w.sleep(Span::secs(5));
    let first = remediation(&w, &n).unwrap();
    assert_eq!((first.action, first.gpu), (Action::ResetGpu, Some(2)));
    w.ok(Command::ApproveRemediation { id: first.id });
    let reset = acts(&w, &n).into_iter().find(|(_, what)| *what == "reset_gpu").unwrap().0;
    w.ok(Command::ActDone { id: reset, ok: true, message: "reset".into() });
    w.sleep(Span::secs(5));
    // It fails at GPU 3 alone, which nobody has reset.
    tested(&mut w, &n, Outcome::Failed);
    w.sleep(Span::secs(5));
    let ended = w.engine.state().health.remediations[&first.id].clone();
    assert_eq!(ended.outcome, Some(RemediationOutcome::Resolved), "{ended:?}");
    let next = remediation(&w, &n).expect("the other GPU is next");
    assert_eq!((next.action, next.gpu), (Action::ResetGpu, Some(3)), "{next:?}");
    assert_ne!(of(&w, &n).stage, Stage::Ready);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_node_whose_test_failed_at_another_gpu_serves_again_when_that_one_is_isolated() {
    serves_without_the_gpu_that_failed(Mode::Automatic);
    serves_without_the_gpu_that_failed(Mode::Approve);
}

fn serves_without_the_gpu_that_failed(mode: Mode) {
    let mut w = able(16);
    let n = node(1);
    w.policy(|p| {
        p.remediations.rules.push(rule("ecc-*", &[Action::IsolateGpu]));
        p.remediations.modes.insert(Action::IsolateGpu, mode);
    });
    another_gpu(&mut w, &n);
    see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), 3), Severity::Critical);
    let first = remediation(&w, &n).unwrap();
    assert_eq!((first.action, first.gpu), (Action::Reboot, Some(5)), "which covers the other");
    w.ok(Command::ApproveRemediation { id: first.id });
    w.lose(&n);
    w.pass(Span::mins(1));
    meet(&mut w, 1, "boot-2");
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Testing));
    w.pass(Span::secs(20));
    // It fails at GPU 3 alone.
    tested(&mut w, &n, Outcome::Failed);
    if mode == Mode::Approve {
        assert_ne!(of(&w, &n).stage, Stage::Ready);
        let waits = remediation(&w, &n).expect("it waits for approval");
        assert_eq!((waits.action, waits.step), (Action::IsolateGpu, RemediationStep::Proposed));
        w.ok(Command::ApproveRemediation { id: waits.id });
    }
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet(1 << 3));
    let open = w.engine.state().health.open_on(&n).map(|f| f.seen.kind.clone());
    assert_eq!(open.collect::<Vec<_>>(), ["ecc-uncorrectable"], "GPU 5 passed");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
