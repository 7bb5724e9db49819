//! A node that passed its test: what was found before is over, whoever asked for the test.

use super::*;
use crate::common::{crash, gang, replay};
use muster_model::job::{JobState, Verdict};
use muster_model::node::Nic;
use muster_model::placement::GpuSet;
use muster_model::qualification::{Check, Level};
use muster_model::units::Span;

fn open_on(w: &TestSite, n: &NodeName) -> Vec<String> {
    w.engine.state().health.open_on(n).map(|f| f.seen.kind.clone()).collect()
}

/// A GPU fell off the bus, and an operator denied what was to be done about it.
fn denied() -> (TestSite, NodeName) {
    let mut w = able(4);
    w.ok(Command::StopAutomation { reason: "we look ourselves".into() });
    let n = node(1);
    xid79(&mut w, &n);
    see(&mut w, "nvlink-errors", Entity::Gpu(n.clone(), 3), Severity::Critical);
    while let Some(r) = remediation(&w, &n) {
        w.ok(Command::DenyRemediation { id: r.id, reason: "a false alarm".into() });
    }
    assert_eq!(open_on(&w, &n).len(), 2, "{:?}", open_on(&w, &n));
    w.pass(Span::mins(1));
    w.ok(Command::Drain { node: n.clone(), reason: "a look".into(), stop: true });
    (w, n)
}

#[test]
fn a_failed_test_names_the_check_the_part_and_why_the_node_is_out() {
    let mut w = able(16);
    let n = node(1);
    see(&mut w, "thermal", Entity::Gpu(n.clone(), 3), Severity::Critical);
    w.sleep(Span::secs(5));
    assert_eq!(of(&w, &n).stage_why, "thermal: being tested");
    tested(&mut w, &n, Outcome::Failed);
    w.sleep(Span::secs(5));
    let entity = Entity::Node(n.clone());
    let f = w.engine.state().health.open_of(&entity, "failed-qualification").unwrap().clone();
    let said = "it failed its test: gemm-bf16 of GPU 3 is 700 TFLOP/s, not 630, after thermal";
    assert_eq!(f.seen.evidence, [said]);
    let r = remediation(&w, &n).unwrap();
    assert_eq!((r.action, r.gpu, r.words()), (Action::Replace, Some(3), "have the GPU replaced"));
    let out = &of(&w, &n).stage_why;
    assert!(out.starts_with("failed-qualification: have GPU 3 "), "{out}");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_gpu_that_is_off_the_bus_and_missing_is_one_finding() {
    let mut w = able(8);
    let (n, m) = (node(1), node(2));
    xid79(&mut w, &n);
    see(&mut w, "gpu-missing", Entity::Gpu(n.clone(), 3), Severity::Critical);
    assert_eq!(open_on(&w, &n), ["gpu-off-bus"]);
    // And the other way round.
    see(&mut w, "gpu-missing", Entity::Gpu(m.clone(), 3), Severity::Critical);
    xid79(&mut w, &m);
    assert_eq!(open_on(&w, &m), ["gpu-off-bus"], "what the driver says takes over");
    // The GPU is seen again: what the driver said is not over by that.
    let entity = Entity::Gpu(m.clone(), 3);
    let mut over = ObservedFinding::new("gpu-missing", entity, Severity::Critical, w.now);
    over.over = true;
    w.ok(Command::FindingsSeen { findings: vec![over] });
    assert_eq!(open_on(&w, &m), ["gpu-off-bus"]);
    let known = w.engine.state().health.open_on(&m).next().unwrap().clone();
    assert_eq!(known.seen.count, 1, "it was seen once");
    assert!(known.seen.evidence.iter().any(|e| e == "seen by a test"), "{:?}", known.seen);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    w.sleep(Span::mins(3));
    let f = w.engine.state().health.open_on(&n).next().unwrap().clone();
    assert!(f.seen.evidence.iter().any(|e| e == "seen by a test"), "{:?}", f.seen.evidence);
    assert_eq!(f.seen.count, 1, "it was seen once");
}

#[test]
fn a_test_closes_what_was_found_although_the_remediation_was_denied() {
    let (mut w, n) = denied();
    w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
    w.pass(Span::secs(30));
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(open_on(&w, &n), Vec::<String>::new());
    assert!(w.engine.state().health.open_incidents().next().is_none());
    w.ok(Command::Undrain { node: n.clone() });
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    // A failure of the job's own is its own again.
    let job = w.run(gang(4, 8));
    w.pass(Span::mins(5));
    w.report(job, &n, crash(0, 3));
    w.stopped(job);
    w.sleep(Span::secs(10));
    let j = w.job(job);
    assert_eq!((j.state, j.past[0].verdict), (JobState::Failed, Verdict::Application));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_test_says_nothing_of_what_is_seen_after_it_began_or_of_a_gpu_that_is_not_there() {
    let (mut w, n) = denied();
    w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
    w.pass(Span::secs(10));
    see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), 5), Severity::Critical);
    let can = ["qualify", "reset", "reboot"].map(String::from).into();
    let mut left = Inventory { can, ..inventory(8) };
    left.gpus.retain(|g| g.index != 3);
    report_inventory(&mut w, 1, "boot", left, Vec::new());
    let before = open_on(&w, &n);
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(open_on(&w, &n), before);
}

#[test]
fn a_test_that_failed_closes_nothing() {
    let (mut w, n) = denied();
    w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
    tested(&mut w, &n, Outcome::Failed);
    assert!(open_on(&w, &n).len() > 2, "{:?}", open_on(&w, &n));
}

#[test]
fn a_node_that_waits_for_approval_returns_when_a_person_had_it_tested() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    w.pass(Span::mins(1));
    w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
    // Lists of nodes show the test, and so does what keeps work away.
    let blocked = w.engine.state().allocation_blocker(of(&w, &n));
    assert!(format!("{blocked:?}").contains("\"qualifying\""), "{blocked:?}");
    w.pass(Span::secs(30));
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(of(&w, &n).stage_why, "passed its test (gpu-off-bus)");
    assert_eq!(open_on(&w, &n), Vec::<String>::new());
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// A node with 8 GPUs that can be tested, as it reports.
fn whole() -> Inventory {
    let can = ["qualify", "reset", "reboot"].map(String::from).into();
    Inventory { can, ..inventory(8) }
}

/// A person has a node tested, a minute later, and it passes.
fn passes(w: &mut TestSite, n: &NodeName, level: Level) {
    w.pass(Span::mins(1));
    w.ok(Command::Qualify { node: n.clone(), level });
    w.pass(Span::secs(30));
    let id = of(w, n).qualifying.expect("it is tested").id;
    let mut report = report(Outcome::Passed, 700);
    report.level = level;
    w.ok(Command::QualificationDone { node: n.clone(), id, report });
}

#[test]
fn a_test_of_the_other_gpus_returns_no_node_whose_gpu_is_gone() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    let mut left = whole();
    left.gpus.retain(|g| g.index != 3);
    report_inventory(&mut w, 1, "boot", left, Vec::new());
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    passes(&mut w, &n, Level::Quick);
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    assert_eq!(open_on(&w, &n), ["gpu-off-bus"]);
    // Back on the bus: the old test did not test it, the next one does.
    report_inventory(&mut w, 1, "boot", whole(), Vec::new());
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    passes(&mut w, &n, Level::Quick);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(open_on(&w, &n), Vec::<String>::new());
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_node_whose_remediation_was_denied_returns_when_it_passes_its_test() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::DenyRemediation { id, reason: "vendor is coming".into() });
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Quarantined, None));
    // Its GPU is gone: the others say nothing of it.
    let mut left = whole();
    left.gpus.retain(|g| g.index != 3);
    report_inventory(&mut w, 1, "boot", left, Vec::new());
    passes(&mut w, &n, Level::Quick);
    assert_eq!(of(&w, &n).stage, Stage::Quarantined);
    assert_eq!(open_on(&w, &n), ["gpu-off-bus"]);
    report_inventory(&mut w, 1, "boot", whole(), Vec::new());
    passes(&mut w, &n, Level::Quick);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(of(&w, &n).stage_why, "passed its test");
    assert!(of(&w, &n).probation.is_some(), "it is watched");
    assert_eq!(open_on(&w, &n), Vec::<String>::new());
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn what_is_found_during_a_persons_test_keeps_the_node_out() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    w.pass(Span::mins(1));
    w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
    w.pass(Span::secs(10));
    see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), 5), Severity::Critical);
    w.pass(Span::secs(20));
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    assert_eq!(open_on(&w, &n), ["ecc-uncorrectable"]);
    passes(&mut w, &n, Level::Quick);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(open_on(&w, &n), Vec::<String>::new());
}

/// A GPU fell off the bus; its node was rebooted for that and is tested.
fn tested_after_a_reboot() -> (TestSite, NodeName) {
    let mut w = able(16);
    let n = node(1);
    xid79(&mut w, &n);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    w.lose(&n);
    w.pass(Span::mins(1));
    meet(&mut w, 1, "boot-2");
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Testing));
    w.pass(Span::secs(10));
    (w, n)
}

#[test]
fn what_is_found_during_the_test_of_a_remediation_keeps_the_node_out() {
    let (mut w, n) = tested_after_a_reboot();
    see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), 5), Severity::Critical);
    w.pass(Span::secs(20));
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    assert_eq!(remediation(&w, &n).unwrap().kind, "ecc-uncorrectable");
    assert_eq!(open_on(&w, &n), ["ecc-uncorrectable"], "the rest is over");
    passes(&mut w, &n, Level::Quick);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(open_on(&w, &n), Vec::<String>::new());
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn the_same_fault_during_the_test_of_a_remediation_leads_to_the_next_step() {
    let (mut w, n) = tested_after_a_reboot();
    xid79(&mut w, &n);
    w.pass(Span::secs(20));
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    assert_eq!(remediation(&w, &n).unwrap().action, Action::PowerCycle);
    assert_eq!(open_on(&w, &n), ["gpu-off-bus"]);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn all_that_is_found_during_the_test_of_a_remediation_gets_its_own() {
    let (mut w, n) = tested_after_a_reboot();
    w.policy(|p| p.remediations.rules.push(rule("ecc-*", &[Action::IsolateGpu])));
    for gpu in [5, 6] {
        see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), gpu), Severity::Critical);
    }
    w.pass(Span::secs(20));
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet(1 << 5 | 1 << 6), "no work comes to either");
    assert!(of(&w, &n).probation.is_some(), "it is watched as after any return");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_test_that_is_lighter_than_the_policys_ends_no_repair() {
    let mut w = able(8);
    w.policy(|p| {
        p.remediations.requalify = Level::Full;
        p.remediations.rules.push(rule("gpu-off-bus", &[Action::Replace]));
    });
    let n = node(1);
    xid79(&mut w, &n);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Repairing));
    passes(&mut w, &n, Level::Quick);
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Repairing));
    assert_eq!(open_on(&w, &n), ["gpu-off-bus"]);
    passes(&mut w, &n, Level::Full);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Probation));
    assert_eq!(open_on(&w, &n), Vec::<String>::new());
}

#[test]
fn a_test_says_nothing_of_a_network_card_that_is_gone() {
    let mut w = able(8);
    let n = node(1);
    let nic = Nic {
        name: "mlx5_3".into(),
        kind: "infiniband".into(),
        address: None,
        speed_mbps: None,
        state: None,
        rail: None,
    };
    let carded = Inventory { nics: vec![nic], ..whole() };
    report_inventory(&mut w, 1, "boot", carded.clone(), Vec::new());
    report_inventory(&mut w, 1, "boot", whole(), Vec::new());
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    passes(&mut w, &n, Level::Quick);
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    assert_eq!(open_on(&w, &n), ["nic-missing"]);
    report_inventory(&mut w, 1, "boot", carded, Vec::new());
    passes(&mut w, &n, Level::Quick);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(open_on(&w, &n), Vec::<String>::new());
}

#[test]
fn a_real_gpu_whose_multiprocessors_disagree_computes_wrong_results() {
    for name in [Check::SM_AGREE, Check::GEMM_REPEAT] {
        let mut w = able(4);
        let n = node(1);
        w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
        let id = of(&w, &n).qualifying.expect("it is tested").id;
        let mut report = report(Outcome::Failed, 700);
        report.checks = vec![Check::plain(name, Some(2), Outcome::Failed, "wrong answers")];
        w.ok(Command::QualificationDone { node: n.clone(), id, report });
        assert_eq!(open_on(&w, &n), ["wrong-results"], "{name}");
    }
}
