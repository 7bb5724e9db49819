//! What waits for an operator: while automation is stopped, and where the policy says so.

use super::*;
use crate::common::{checkpoints, gang, replay};
use muster_engine::{Engine, Policy};
use muster_model::placement::GpuSet;
use muster_model::remediation::Leave;
use muster_model::units::Span;

/// A site where a GPU with memory errors is taken out, and the others of its node work.
fn isolating(nodes: usize) -> TestSite {
    let mut w = able(nodes);
    w.policy(|p| {
        p.remediations.rules.push(rule("ecc-*", &[Action::IsolateGpu]));
    });
    w
}

fn approves(w: &mut TestSite, action: Action) {
    w.policy(|p| {
        p.remediations.modes.insert(action, Mode::Approve);
    });
}

fn stop(w: &mut TestSite) {
    w.ok(Command::StopAutomation { reason: "works".into() });
}

fn hang(w: &mut TestSite, job: JobId) {
    let mut f = ObservedFinding::new("hang", Entity::Job(job), Severity::Critical, w.now);
    (f.attempt, f.rank) = (Some(w.key(job)), Some(0));
    w.ok(Command::FindingsSeen { findings: vec![f] });
}

fn ecc(w: &mut TestSite, n: &NodeName) {
    see(w, "ecc-uncorrectable", Entity::Gpu(n.clone(), 3), Severity::Critical);
}

fn goes_on(w: &TestSite, job: JobId) -> bool {
    w.job(job).attempt.as_ref().is_some_and(|a| a.stop.is_none())
}

#[test]
fn a_job_that_hangs_is_not_restarted_while_automation_is_stopped() {
    let mut w = able(4);
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    stop(&mut w);
    hang(&mut w, job);
    w.sleep(Span::mins(20));
    hang(&mut w, job);
    assert!(goes_on(&w, job));
    let all: Vec<_> = w.engine.state().health.remediations_of(&n).cloned().collect();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!((all[0].action, all[0].step), (Action::RestartJob, RemediationStep::Proposed));
    assert!(all[0].why.starts_with("automation is stopped: "), "{}", all[0].why);
    assert!(all[0].is_delayed(Mode::Automatic, true));
    assert_eq!(w.engine.state().allocation_blocker(of(&w, &n)), None, "its node is healthy");
    w.ok(Command::ResumeAutomation);
    assert!(!goes_on(&w, job));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_job_that_hangs_is_restarted_when_an_operator_approves_where_the_policy_says_so() {
    let mut w = able(4);
    approves(&mut w, Action::RestartJob);
    let jobs = [w.run(gang(1, 8)), w.run(gang(1, 8))];
    for job in jobs {
        hang(&mut w, job);
    }
    let waits = jobs.map(|job| remediation(&w, &w.nodes_of(job)[0]).expect("it waits"));
    for (job, r) in jobs.into_iter().zip(&waits) {
        assert!(goes_on(&w, job));
        assert_eq!(
            (r.step, &r.why[..]),
            (RemediationStep::Proposed, "pending approval by the policy")
        );
        assert!(r.is_pending() && !r.is_delayed(Mode::Automatic, false));
    }
    w.ok(Command::ApproveRemediation { id: waits[0].id });
    assert!(!goes_on(&w, jobs[0]) && goes_on(&w, jobs[1]));
    // The other one makes steps again: nobody has to decide any more.
    let mut over = ObservedFinding::new("hang", Entity::Job(jobs[1]), Severity::Critical, w.now);
    over.over = true;
    w.ok(Command::FindingsSeen { findings: vec![over] });
    assert_eq!(remediation(&w, &w.nodes_of(jobs[1])[0]), None);
    assert!(goes_on(&w, jobs[1]));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn no_gpu_is_isolated_while_automation_is_stopped() {
    let mut w = isolating(4);
    let n = node(1);
    stop(&mut w);
    ecc(&mut w, &n);
    w.sleep(Span::hours(1));
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet::EMPTY);
    let r = remediation(&w, &n).expect("it waits");
    assert_eq!((r.action, r.step), (Action::IsolateGpu, RemediationStep::Proposed));
    assert!(w.engine.state().allocation_blocker(of(&w, &n)).is_some(), "new work avoids it");
    w.ok(Command::ResumeAutomation);
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet(1 << 3));
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_gpu_is_isolated_when_an_operator_approves_and_its_node_gets_no_new_work_before() {
    let mut w = isolating(4);
    approves(&mut w, Action::IsolateGpu);
    let n = node(1);
    ecc(&mut w, &n);
    assert_eq!(stands(&w, &n), (Stage::Suspect, RemediationStep::Proposed), "at once");
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet::EMPTY);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet(1 << 3));
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None), "seven GPUs work");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn work_leaves_a_gpu_that_is_isolated_although_its_node_gets_new_work_again() {
    let mut w = isolating(4);
    approves(&mut w, Action::IsolateGpu);
    w.policy(|p| {
        for rule in &mut p.remediations.rules {
            rule.leave = Some(Leave::Checkpoint);
        }
    });
    let mut spec = gang(1, 8);
    spec.checkpoint = checkpoints(true);
    let job = w.run(spec);
    let n = w.nodes_of(job)[0].clone();
    ecc(&mut w, &n);
    assert_eq!(stands(&w, &n), (Stage::Suspect, RemediationStep::Proposed));
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Moving), "seven GPUs work");
    assert!(w.job(job).attempt.as_ref().is_some_and(|a| a.notice.is_some()), "it saves first");
    let notice = w.engine.state().policy.preemption.notice;
    w.sleep(notice);
    assert!(!goes_on(&w, job), "it was not let stay on the GPU");
    w.stopped(job);
    assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None));
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet(1 << 3));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn whoever_excludes_another_gpu_returns_no_isolated_one_to_work() {
    let mut w = isolating(4);
    let n = node(1);
    ecc(&mut w, &n);
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet(1 << 3));
    let exclude = |gpus: u64| {
        let reason = "slow".to_owned();
        Command::ExcludeGpus { node: node(1), gpus: GpuSet(gpus), reason }
    };
    let no = w.send(exclude(1 << 5)).unwrap_err();
    assert!(no.hint.is_some_and(|h| h.contains("exclude-gpu n001 3,5")), "{}", no.message);
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet(1 << 3));
    w.ok(exclude(1 << 3 | 1 << 5));
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet(1 << 3 | 1 << 5));
    w.ok(exclude(0));
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet::EMPTY, "who says so means it");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn undoing_what_was_not_begun_gives_no_gpu_back_that_an_operator_excluded() {
    let mut w = isolating(4);
    approves(&mut w, Action::IsolateGpu);
    let n = node(1);
    let (gpus, reason) = (GpuSet(1 << 3), "waits for the part".to_owned());
    w.ok(Command::ExcludeGpus { node: n.clone(), gpus, reason });
    ecc(&mut w, &n);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::UndoRemediation { id, reason: "known".into() });
    assert_eq!(of(&w, &n).excluded_gpus, gpus);
}

#[test]
fn a_rule_that_asks_for_approval_holds_a_drain() {
    let mut w = able(8);
    w.policy(|p| {
        let of_kind = rule("thermal", &[Action::Drain]);
        p.remediations.rules.push(Rule { mode: Some(Mode::Approve), ..of_kind });
    });
    let n = node(1);
    see(&mut w, "thermal", Entity::Gpu(n.clone(), 3), Severity::Degraded);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Proposed));
    let r = remediation(&w, &n).unwrap();
    assert_eq!(r.why, "pending approval by the policy");
    assert!(!r.is_delayed(Mode::Automatic, false));
    w.ok(Command::ApproveRemediation { id: r.id });
    assert_eq!(stands(&w, &n).1, RemediationStep::Testing);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_node_that_was_taken_is_not_restarted_after_automation_was_stopped() {
    let ends: [fn(&mut TestSite, &NodeName); 2] = [
        |w, _| {
            w.ok(Command::ResumeAutomation);
        },
        |w, n| {
            let id = remediation(w, n).unwrap().id;
            w.ok(Command::ApproveRemediation { id });
        },
    ];
    for goes_on in ends {
        let mut w = able(8);
        automatic(&mut w, Action::Reboot);
        let n = node(1);
        let job = w.run(gang(8, 8));
        xid79(&mut w, &n);
        assert_eq!(stands(&w, &n), (Stage::Draining, RemediationStep::Moving));
        stop(&mut w);
        w.stopped(job);
        let reboots = |w: &TestSite| acts(w, &n).into_iter().any(|(_, what)| what == "reboot");
        for _ in 0..2 {
            assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
            assert!(!reboots(&w), "{:?}", acts(&w, &n));
            let why = remediation(&w, &n).unwrap().why.clone();
            assert!(why.starts_with("automation is stopped: "), "{why}");
            w.sleep(Span::hours(1));
        }
        goes_on(&mut w, &n);
        assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Acting));
        assert!(reboots(&w));
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_node_that_is_taken_counts_once_with_the_gpus_that_were_isolated_on_it() {
    // Whether it is taken before another node or after it.
    for turn in [[0, 8], [8, 0]] {
        let mut w = isolating(16);
        for gpu in 0..4 {
            see(&mut w, "ecc-uncorrectable", Entity::Gpu(node(0), gpu), Severity::Critical);
        }
        assert_eq!(of(&w, &node(0)).excluded_gpus, GpuSet(0xf));
        // Two nodes at once: as many as may be taken within an hour.
        let nodes = turn.map(node);
        let gone = |n: &NodeName| {
            let gpu = Entity::Gpu(n.clone(), 7);
            let f = ObservedFinding::new("gpu-off-bus", gpu, Severity::Critical, w.now);
            f.because("seen by a test")
        };
        let findings = nodes.iter().map(gone).collect();
        w.ok(Command::FindingsSeen { findings });
        for n in &nodes {
            let r = remediation(&w, n).unwrap();
            assert_ne!(r.step, RemediationStep::Proposed, "{}", r.why);
        }
        let held = w.engine.state().held_by_automation(w.now);
        assert_eq!((held.out, held.hour, held.parts, held.parts_hour), (2, 2, 0, 0));
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn isolated_gpus_count_in_the_limits_as_their_part_of_a_node() {
    let mut w = isolating(16);
    // The GPUs of two nodes, one after another: as much as may be taken within an hour.
    for n in [0, 8].map(node) {
        for gpu in 0..8 {
            see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), gpu), Severity::Critical);
        }
        assert_eq!(of(&w, &n).excluded_gpus, GpuSet(0xff));
    }
    let limit = "limit of fleet: 2 of 16 nodes were taken out of service within an hour, 2 may be";
    ecc(&mut w, &node(4));
    xid79(&mut w, &node(12));
    for n in [4, 12].map(node) {
        assert_eq!(stands(&w, &n), (Stage::Suspect, RemediationStep::Proposed));
        assert_eq!(remediation(&w, &n).unwrap().why, limit);
    }
    assert_eq!(of(&w, &node(4)).excluded_gpus, GpuSet::EMPTY);
    // A server that starts anew counts the same.
    let again = w.engine.state().held_by_automation(w.now);
    assert_eq!((again.parts, again.parts_hour, again.out), (2000, 2000, 0));
    w.sleep(Span::mins(62));
    assert_eq!(of(&w, &node(4)).excluded_gpus, GpuSet(1 << 3));
    assert_eq!((of(&w, &node(4)).stage, remediation(&w, &node(4))), (Stage::Ready, None));
    assert_eq!(stands(&w, &node(12)), (Stage::Quarantined, RemediationStep::Approval));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// A site where a GPU that gets too hot has its node drained, and alerts are made.
fn draining(mut w: TestSite) -> TestSite {
    let policy = Policy { objectives: true, ..Policy::default() };
    w.engine = Engine::new(w.engine.state().clone(), policy);
    w.policy(|p| p.remediations.rules.push(rule("thermal", &[Action::Drain])));
    w
}

/// Is an alert open about what is pending approval?
fn alerted(w: &mut TestSite) -> bool {
    w.sleep(Span::secs(10));
    let open = |a: &muster_model::alert::Alert| a.kind == "approvals-wait";
    w.engine.state().slo.open().any(|a| open(a) && a.gone_since.is_none())
}

/// People are sent to the runbook about approvals: that one counts the same remediations.
#[test]
fn an_alert_is_open_while_an_operator_has_to_decide_that_something_begins() {
    let mut w = draining(able(16));
    let n = node(1);
    stop(&mut w);
    see(&mut w, "thermal", Entity::Gpu(n.clone(), 3), Severity::Degraded);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Proposed));
    assert!(!alerted(&mut w), "it is delayed");
    w.ok(Command::ResumeAutomation);
    assert_eq!(stands(&w, &n).1, RemediationStep::Testing);
    // Of another node the policy has an operator decide.
    approves(&mut w, Action::Drain);
    let n = node(9);
    see(&mut w, "thermal", Entity::Gpu(n.clone(), 3), Severity::Degraded);
    let r = remediation(&w, &n).unwrap();
    assert_eq!((r.step, &r.why[..]), (RemediationStep::Proposed, "pending approval by the policy"));
    assert!(alerted(&mut w));
    w.ok(Command::ApproveRemediation { id: r.id });
    assert!(!alerted(&mut w), "somebody decided");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// Lists show that it is pending approval: somebody has to look at the node.
#[test]
fn an_alert_is_open_while_a_node_cannot_be_tested_after_a_drain_that_was_approved() {
    let mut w = draining(TestSite::new(16, 8));
    approves(&mut w, Action::Drain);
    let n = node(1);
    see(&mut w, "thermal", Entity::Gpu(n.clone(), 3), Severity::Degraded);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    assert!(alerted(&mut w));
    w.ok(Command::ReturnUntested { node: n.clone(), reason: "looked at".into() });
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    assert!(!alerted(&mut w));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
