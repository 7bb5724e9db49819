//! The life of one fault.

use super::*;
use crate::common::{crash, gang, node, number, replay};
use muster_engine::{Engine, Policy};
use muster_model::job::{JobState, StopReason, Verdict};
use muster_model::node::NodeRole;
use muster_model::remediation::RemediationOutcome;
use muster_model::units::Span;

#[test]
fn a_gpu_falls_off_the_bus_and_everything_follows() {
    let mut w = able(9);
    w.ok(Command::MarkNode { node: node(8), role: Some(NodeRole::Spare), hazard: None });
    let job = w.run(gang(8, 8));
    w.checkpoint(job, 1000);
    w.pass(Span::secs(60));
    let n = w.nodes_of(job)[2].clone();
    let first = w.log.len();
    xid79(&mut w, &n);

    // Found, out of service, and the gang asked to stop, in one breath.
    let f = w.engine.state().health.open_on(&n).next().unwrap().clone();
    assert_eq!((&f.seen.kind[..], f.seen.severity), ("gpu-off-bus", Severity::Critical));
    assert_eq!(f.seen.entity, Entity::Gpu(n.clone(), 3));
    assert_eq!(stands(&w, &n), (Stage::Draining, RemediationStep::Moving));
    let stop = w.job(job).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert!(matches!(stop.reason, StopReason::Unhealthy { .. }), "{stop:?}");
    let stages: Vec<Stage> = w
        .since(first)
        .filter_map(|e| match e {
            Event::NodeStaged { stage, .. } => Some(*stage),
            _ => None,
        })
        .collect();
    assert_eq!(stages, [Stage::Suspect, Stage::Draining], "every step is in the log");

    // The gang goes on with the spare.
    w.pass(Span::secs(2));
    w.stopped(job);
    assert_eq!(w.job(job).state, JobState::Starting);
    assert!(!w.nodes_of(job).contains(&n));
    assert!(w.nodes_of(job).contains(&node(8)), "the spare stepped in");
    w.pass(Span::secs(1));
    w.start(job);
    w.pass(Span::secs(3));
    let key = w.key(job);
    w.ok(Command::FirstStep { key });
    w.ok(Command::FirstStep { key });
    let j = w.job(job);
    assert_eq!(j.infrastructure_failures, 1);
    assert_eq!(j.application_failures, 0);
    assert_eq!(j.past[0].verdict, Verdict::Infrastructure);
    assert_eq!(j.past[0].findings, [f.id]);
    let r = j.recovery.unwrap();
    assert_eq!(r.finding, Some(f.id));
    assert_eq!(r.drained_at.unwrap().since(r.decided_at), Span::secs(2));
    assert_eq!(r.started_at.unwrap().since(r.placed_at.unwrap()), Span::secs(1));
    assert_eq!(r.working_at.unwrap().since(r.started_at.unwrap()), Span::secs(3));

    // What touches the hardware waits, with a ticket.
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));
    let open = acts(&w, &n);
    assert_eq!(open.iter().map(|a| a.1).collect::<Vec<_>>(), ["ticket"]);
    w.ok(Command::ActDone { id: open[0].0, ok: true, message: "tickets/1.md".into() });
    assert_eq!(stands(&w, &n), (Stage::Quarantined, RemediationStep::Approval));

    // People repaired it: tested, returned, watched, and forgiven.
    w.ok(Command::Repaired { node: n.clone(), note: "reseated".into() });
    assert_eq!(remediation(&w, &n).unwrap().step, RemediationStep::Testing);
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Probation));
    assert!(of(&w, &n).probation.is_some());
    assert_eq!(w.engine.state().health.open_on(&n).count(), 0);
    w.sleep(Span::hours(25));
    assert_eq!(remediation(&w, &n), None);
    assert_eq!(of(&w, &n).probation, None);
    assert_eq!(of(&w, &n).generation, 2);
    let all = &w.engine.state().health.remediations;
    assert_eq!(all.values().last().unwrap().outcome, Some(RemediationOutcome::Resolved));
}

#[test]
fn a_reboot_that_is_approved_is_done_once_and_the_next_step_follows_when_it_did_not_last() {
    let mut w = able(8);
    let n = node(3);
    xid79(&mut w, &n);
    assert_eq!(
        stands(&w, &n),
        (Stage::Quarantined, RemediationStep::Approval),
        "nothing ran there"
    );
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Acting));
    assert!(w.send(Command::ApproveRemediation { id }).is_err(), "it waits for nobody's word now");
    let reboot = acts(&w, &n).into_iter().find(|a| a.1 == "reboot").unwrap();
    w.lose(&n);
    // It is back with another boot: that is the proof.
    meet(&mut w, number(&n), "boot-2");
    let end = w.engine.state().health.acts[&reboot.0].ended.clone().unwrap();
    assert!(end.ok);
    assert_eq!(remediation(&w, &n).unwrap().step, RemediationStep::Testing);
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    // Again during its probation: heavier.
    w.pass(Span::hours(1));
    xid79(&mut w, &n);
    assert_eq!(remediation(&w, &n).unwrap().action, Action::PowerCycle);
}

#[test]
fn a_failed_test_leads_to_the_next_step_and_to_people() {
    let mut w = able(8);
    automatic(&mut w, Action::Reboot);
    let n = node(1);
    xid79(&mut w, &n);
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Acting), "automatic");
    meet(&mut w, 1, "boot-2");
    tested(&mut w, &n, Outcome::Failed);
    let r = remediation(&w, &n).unwrap();
    assert_eq!((r.action, r.step), (Action::PowerCycle, RemediationStep::Approval));
    assert_eq!(of(&w, &n).stage, Stage::Quarantined);
    assert_eq!(of(&w, &n).cordon, None, "the remediation holds it, not a cordon");
}

#[test]
fn an_act_of_which_nothing_is_heard_has_failed() {
    let mut w = able(8);
    automatic(&mut w, Action::Reboot);
    let n = node(1);
    xid79(&mut w, &n);
    w.lose(&n);
    w.sleep(Span::mins(21));
    let r = remediation(&w, &n).unwrap();
    assert_eq!((r.action, r.step), (Action::PowerCycle, RemediationStep::Approval));
}

#[test]
fn a_rank_that_dies_of_its_gpu_is_no_failure_of_the_job() {
    for fault_first in [true, false] {
        let mut w = able(4);
        let job = w.run(gang(2, 8));
        let n = w.nodes_of(job)[0].clone();
        if fault_first {
            xid79(&mut w, &n);
            w.report(job, &n, crash(0, 1));
        } else {
            w.report(job, &n, crash(0, 1));
            w.stopped(job);
            assert_eq!(w.job(job).state, JobState::Stopping, "its cause is looked for");
            w.pass(Span::secs(3));
            xid79(&mut w, &n);
        }
        if w.job(job).state == JobState::Stopping {
            w.stopped(job);
        }
        let j = w.job(job);
        assert!(j.attempt.is_some(), "it runs again: {:?} {:?}", j.state, j.past);
        assert_eq!(j.past[0].verdict, Verdict::Infrastructure, "fault first: {fault_first}");
        assert_eq!((j.application_failures, j.infrastructure_failures), (0, 1));
        assert!(!w.nodes_of(job).contains(&n));
    }
}

#[test]
fn errors_of_the_application_touch_no_node() {
    let mut w = able(8);
    let job = w.run(gang(8, 8));
    for n in w.nodes_of(job) {
        for code in ["xid-31", "xid-45", "xid-13", "xid-43"] {
            let mut f = fault(code, 1);
            f.class = muster_model::fault::FaultClass::Application;
            f.action = muster_model::fault::FaultAction::RestartJob;
            (f.attempt, f.rank) = (Some(w.key(job)), Some(1));
            report_fault(&mut w, &n, f);
        }
    }
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, crash(0, 1));
    w.stopped(job);
    w.pass(Span::secs(5));
    assert_eq!(w.job(job).state, JobState::Failed);
    assert_eq!(w.job(job).past[0].verdict, Verdict::Application);
    assert!(w.engine.state().nodes.values().all(|n| n.stage == Stage::Ready));
}

#[test]
fn a_hang_restarts_the_job_and_leaves_the_node() {
    let mut w = able(4);
    let job = w.run(gang(2, 8));
    let key = w.key(job);
    let mut f = ObservedFinding::new("hang", Entity::Job(job), Severity::Critical, w.now);
    (f.attempt, f.rank) = (Some(key), Some(1));
    w.ok(Command::FindingsSeen { findings: vec![f] });
    assert!(matches!(
        w.job(job).attempt.as_ref().unwrap().stop.as_ref().unwrap().reason,
        StopReason::Hung { .. }
    ));
    moves_on(&mut w, job);
    assert_ne!(w.key(job), key);
    assert!(w.engine.state().nodes.values().all(|n| n.stage == Stage::Ready));
    w.pass(Span::secs(2));
    assert_eq!(w.engine.state().health.live_remediations().count(), 0);
}

#[test]
fn a_warning_that_may_be_wrong_lets_work_finish_until_it_is_surer() {
    for worse in [false, true] {
        let mut w = able(4);
        let job = w.run(gang(2, 8));
        let n = w.nodes_of(job)[1].clone();
        let gpu = Entity::Gpu(n.clone(), 3);
        let hot = |w: &mut TestSite, severity, sure| {
            let f = ObservedFinding::new("thermal", gpu.clone(), severity, w.now);
            w.ok(Command::FindingsSeen { findings: vec![f.with_confidence(sure)] });
        };
        let leaves = |w: &TestSite| {
            let a = w.job(job).attempt.as_ref().unwrap();
            a.stop.is_some() || a.notice.is_some()
        };
        hot(&mut w, Severity::Warning, 500);
        assert_eq!(stands(&w, &n), (Stage::Draining, RemediationStep::Moving), "no new work");
        w.sleep(Span::mins(59));
        assert!(!leaves(&w), "it may finish");
        if worse {
            hot(&mut w, Severity::Degraded, 800);
        } else {
            w.sleep(Span::secs(61));
        }
        assert!(leaves(&w), "it is moved: {worse}");
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_slow_node_is_left_with_a_checkpoint() {
    let mut w = able(4);
    let mut spec = gang(2, 8);
    spec.checkpoint = crate::common::checkpoints(true);
    let job = w.run(spec);
    let n = w.nodes_of(job)[1].clone();
    see(&mut w, "straggler", Entity::Node(n.clone()), Severity::Degraded);
    let a = w.job(job).attempt.clone().unwrap();
    assert!(a.stop.is_none() && a.notice.is_some(), "it is asked for a checkpoint first");
    w.checkpoint(job, 77);
    moves_on(&mut w, job);
    assert!(!w.nodes_of(job).contains(&n));
    // Only a test follows: the detector may be wrong.
    assert_eq!(remediation(&w, &n).unwrap().step, RemediationStep::Testing);
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(of(&w, &n).stage, Stage::Ready);
}

#[test]
fn a_server_that_starts_anew_anywhere_finishes_it_once() {
    // The life with its answers; cut after every record, read back, and lived on.
    let play = |cut: Option<usize>| -> Vec<String> {
        let mut w = able(8);
        automatic(&mut w, Action::Reboot);
        let n = node(2);
        let mut cut = cut;
        let mut again = |w: &mut TestSite| {
            if cut.is_some_and(|c| w.log.len() >= c) {
                cut = None;
                let state = replay(&w.log);
                let bytes = state.to_bytes().unwrap();
                let state =
                    muster_engine::State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes)
                        .unwrap();
                w.engine = Engine::new(state, Policy::default());
                w.tick();
            }
        };
        let job = w.run(gang(1, 8));
        let n = if w.nodes_of(job)[0] == n { n } else { w.nodes_of(job)[0].clone() };
        again(&mut w);
        xid79(&mut w, &n);
        again(&mut w);
        if w.job(job).attempt.as_ref().is_some_and(|a| a.stop.is_some()) {
            w.stopped(job);
        }
        again(&mut w);
        let ticket = acts(&w, &n).into_iter().find(|a| a.1 == "ticket");
        if let Some(t) = ticket {
            w.ok(Command::ActDone { id: t.0, ok: true, message: "t".into() });
        }
        again(&mut w);
        meet(&mut w, number(&n), "boot-2");
        again(&mut w);
        tested(&mut w, &n, Outcome::Passed);
        again(&mut w);
        w.sleep(Span::hours(25));
        again(&mut w);
        assert_eq!(remediation(&w, &n), None);
        assert_eq!(of(&w, &n).stage, Stage::Ready);
        let asked = |e: &Event| match e {
            Event::ActAsked { act } => Some(act.act.word().to_string()),
            Event::QualificationAsked { .. } => Some("test".into()),
            Event::RemediationEnded { outcome, .. } => Some(format!("{outcome:?}")),
            _ => None,
        };
        w.log.iter().filter_map(|r| asked(&r.event)).collect()
    };
    let whole = play(None);
    assert_eq!(whole, ["reboot", "test", "Resolved"]);
    for cut in 1..80 {
        assert_eq!(play(Some(cut)), whole, "cut at {cut}");
    }
}

#[test]
fn a_gpu_that_does_not_answer_is_remembered_until_it_is_back_or_replaced() {
    let mut w = able(2);
    let has = |w: &mut TestSite, gpus: &[(u32, &str)]| {
        let mut all = inventory(8);
        all.gpus.retain(|g| gpus.iter().any(|(i, _)| *i == g.index));
        for g in &mut all.gpus {
            let own = gpus.iter().find(|(i, _)| *i == g.index).map_or("", |(_, uuid)| *uuid);
            g.uuid = own.to_owned();
        }
        super::report_inventory(w, 1, "boot", all, Vec::new());
    };
    let missing = |w: &TestSite| -> Vec<(u32, String)> {
        let all = &of(w, &node(1)).missing_gpus;
        all.iter().map(|g| (g.index, g.uuid.clone())).collect()
    };
    let three = [(0, "a"), (1, "b"), (2, "c")];
    has(&mut w, &three);
    w.now = w.now + muster_model::units::Span::secs(1);
    has(&mut w, &[(0, "a"), (2, "c")]);
    assert_eq!(missing(&w).last(), Some(&(1, "b".to_owned())));
    has(&mut w, &[(0, "a")]);
    assert_eq!(missing(&w).len(), 5 + 2, "those of the first inventory, and these two");
    has(&mut w, &three);
    assert!(missing(&w).iter().all(|(i, _)| *i > 2), "they are back");
    has(&mut w, &[(0, "a"), (2, "c")]);
    has(&mut w, &[(0, "a"), (1, "new"), (2, "c")]);
    assert!(missing(&w).iter().all(|(i, _)| *i > 2), "it was replaced");
}
