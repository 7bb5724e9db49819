//! Operators' words: approve, deny, undo, return, exclude, force; and modes of the policy.

use super::*;
use crate::common::{gang, node, replay};
use muster_model::breaker::BreakerState;
use muster_model::command::RefusalCode;
use muster_model::placement::GpuSet;
use muster_model::remediation::RemediationOutcome;
use muster_model::topology::Level;
use muster_model::units::Span;

fn refused(w: &mut TestSite, c: Command, code: RefusalCode) -> String {
    let n = w.log.len();
    let no = w.send(c).unwrap_err();
    assert_eq!(no.code, code, "{no:?}");
    assert!(no.hint.is_some(), "{no:?}");
    assert_eq!(w.log.len(), n, "nothing changed");
    no.message
}

#[test]
fn what_was_done_can_be_undone() {
    let mut w = able(8);
    let mut spec = gang(2, 8);
    spec.checkpoint = crate::common::checkpoints(true);
    let job = w.run(spec);
    let n = w.nodes_of(job)[0].clone();
    see(&mut w, "straggler", Entity::Node(n.clone()), Severity::Degraded);
    assert!(w.job(job).attempt.as_ref().unwrap().notice.is_some());
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::UndoRemediation { id, reason: "I know better".into() });
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    assert!(w.job(job).attempt.as_ref().unwrap().notice.is_none(), "it may stay");
    let r = w.engine.state().health.remediations[&id].clone();
    assert_eq!(r.outcome, Some(RemediationOutcome::Undone));
    assert!(r.why.contains("I know better"));
    refused(&mut w, Command::UndoRemediation { id, reason: "again".into() }, RefusalCode::Conflict);
    refused(&mut w, Command::ApproveRemediation { id: 999_999 }, RefusalCode::NotFound);
}

/// A node whose reboot is under way, and the remediation that reboots it.
fn rebooting() -> (TestSite, NodeName, u64) {
    let mut w = able(8);
    automatic(&mut w, Action::Reboot);
    let n = node(1);
    xid79(&mut w, &n);
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Acting));
    let id = remediation(&w, &n).unwrap().id;
    (w, n, id)
}

#[test]
fn an_undo_during_a_reboot_keeps_the_node_out_until_its_test_passed() {
    let (mut w, n, id) = rebooting();
    w.ok(Command::UndoRemediation { id, reason: "a false alarm".into() });
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Acting), "it is being rebooted");
    let undone = w.engine.state().health.remediations[&id].clone();
    assert_eq!(undone.outcome, Some(RemediationOutcome::Undone));
    assert!(undone.why.contains("a false alarm; no further step"), "{}", undone.why);
    assert!(undone.why.contains("until that is over and its test passed"), "{}", undone.why);
    let rest = remediation(&w, &n).unwrap();
    assert_eq!(rest.action, Action::Drain);
    let again = Command::UndoRemediation { id: rest.id, reason: "now".into() };
    refused(&mut w, again, RefusalCode::Conflict);
    // What is not testable yet is not in service either.
    w.lose(&n);
    w.pass(Span::mins(1));
    assert_eq!(of(&w, &n).stage, Stage::Repairing);
    meet(&mut w, 1, "boot-2");
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Testing));
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Probation));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_node_is_not_returned_in_the_middle_of_a_reboot() {
    let (mut w, n, id) = rebooting();
    let back = |reason: &str| Command::ReturnUntested { node: n.clone(), reason: reason.into() };
    let no = refused(&mut w, back("now"), RefusalCode::Conflict);
    assert!(no.contains("n001 is being rebooted"), "{no}");
    // Nor is it tested, which would return it.
    let fixed = Command::Repaired { node: n.clone(), note: "reseated".into() };
    refused(&mut w, fixed, RefusalCode::Conflict);
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Acting));
    // The same after an undo: it is one reboot.
    w.ok(Command::UndoRemediation { id, reason: "a false alarm".into() });
    refused(&mut w, back("now"), RefusalCode::Conflict);
    let job = w.run(gang(1, 8));
    assert_ne!(w.nodes_of(job), std::slice::from_ref(&n), "no work goes there");
    // It is over: the word counts, and the test that began with it does not.
    w.lose(&n);
    meet(&mut w, 1, "boot-2");
    assert!(of(&w, &n).qualifying.is_some());
    w.ok(back("I looked at it"));
    assert_eq!((of(&w, &n).stage, of(&w, &n).qualifying), (Stage::Ready, None));
    assert_eq!(remediation(&w, &n), None);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_heavier_remediation_during_a_reboot_does_not_bring_the_node_back_before_its_end() {
    let (mut w, n, first) = rebooting();
    w.policy(|p| {
        p.remediations.rules.push(rule("ecc-*", &[Action::Replace]));
    });
    see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), 2), Severity::Critical);
    let heavier = remediation(&w, &n).unwrap();
    assert_eq!(heavier.action, Action::Replace);
    let ended = w.engine.state().health.remediations[&first].outcome;
    assert_eq!(ended, Some(RemediationOutcome::Superseded), "but its reboot goes on");
    let undo = Command::UndoRemediation { id: heavier.id, reason: "a false alarm".into() };
    let no = refused(&mut w, undo.clone(), RefusalCode::Conflict);
    assert!(no.contains("is being rebooted"), "{no}");
    w.lose(&n);
    meet(&mut w, 1, "boot-2");
    w.ok(undo);
    // What was undone was for GPU 2: what was found of the first one is not over.
    assert_ne!(of(&w, &n).stage, Stage::Ready);
    assert_eq!(remediation(&w, &n).unwrap().gpu, Some(3));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn the_act_of_a_remediation_that_a_heavier_one_follows_is_ended_by_that_ones_act() {
    let mut w = able(8);
    automatic(&mut w, Action::Reboot);
    w.policy(|p| {
        let of_kind = rule("ecc-*", &[Action::ResetGpu]);
        p.remediations.rules.push(Rule { mode: Some(Mode::Automatic), ..of_kind });
    });
    let n = node(1);
    see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), 2), Severity::Critical);
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Acting));
    let reset = acts(&w, &n).into_iter().find(|a| a.1 == "reset_gpu").expect("a reset").0;
    xid79(&mut w, &n);
    assert_eq!(
        remediation(&w, &n).map(|r| (r.action, r.step)),
        Some((Action::Reboot, RemediationStep::Acting))
    );
    let open: Vec<&str> = acts(&w, &n).into_iter().map(|a| a.1).collect();
    assert_eq!(open, ["reboot"], "nobody resets a GPU after the reboot, in the middle of the test");
    let end = w.engine.state().health.acts[&reset].ended.clone().expect("an end");
    assert!(!end.ok && end.message.contains("reboot the node"), "{end:?}");
    // Whoever did it all the same is too late to say so.
    w.ok(Command::ActDone { id: reset, ok: true, message: "reset".into() });
    assert_eq!(w.engine.state().health.acts[&reset].ended.as_ref(), Some(&end));
    meet(&mut w, 1, "boot-2");
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Probation));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_undo_during_the_test_after_a_reboot_waits_for_that_test() {
    let (mut w, n, id) = rebooting();
    meet(&mut w, 1, "boot-2");
    let test = of(&w, &n).qualifying.unwrap().id;
    w.ok(Command::UndoRemediation { id, reason: "a false alarm".into() });
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Testing));
    assert_eq!(of(&w, &n).qualifying.unwrap().id, test, "the same test counts");
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Probation));
}

#[test]
fn a_reboot_that_was_undone_and_failed_leads_to_a_test_and_to_nothing_heavier() {
    let (mut w, n, id) = rebooting();
    w.ok(Command::UndoRemediation { id, reason: "a false alarm".into() });
    let act = acts(&w, &n).into_iter().find(|a| a.1 == "reboot").unwrap().0;
    w.ok(Command::ActDone { id: act, ok: false, message: "it refused".into() });
    let rest = remediation(&w, &n).unwrap();
    assert_eq!((rest.action, rest.step), (Action::Drain, RemediationStep::Testing));
    // It is not well: that is a finding of its own.
    tested(&mut w, &n, Outcome::Failed);
    assert_ne!(of(&w, &n).stage, Stage::Ready);
    let health = &w.engine.state().health;
    assert!(health.open_on(&n).any(|f| f.seen.kind == "failed-qualification"));
}

#[test]
fn a_node_returns_untested_by_an_operators_word_only() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    let m = refused(&mut w, Command::Undrain { node: n.clone() }, RefusalCode::Conflict);
    assert!(m.contains("remediation"), "{m}");
    let open: Vec<u64> = w.engine.state().health.open_on(&n).map(|f| f.id).collect();
    let back = w.ok(Command::ReturnUntested { node: n.clone(), reason: "swapped".into() });
    let is_closed = |id: &u64| w.engine.state().health.findings[id].closed.is_some();
    let findings: Vec<u64> = open.into_iter().filter(is_closed).collect();
    assert!(!findings.is_empty());
    assert_eq!(back, muster_model::Answer::Closed { findings }, "the answer names what it closed");
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    assert!(of(&w, &n).probation.is_some());
    assert!(of(&w, &n).stage_why.contains("without a test by"), "{}", of(&w, &n).stage_why);
    let again = Command::ReturnUntested { node: n.clone(), reason: "x".into() };
    refused(&mut w, again, RefusalCode::Conflict);
    refused(&mut w, Command::Repaired { node: n, note: "x".into() }, RefusalCode::Conflict);
}

#[test]
fn a_denied_remediation_leaves_the_node_where_it_is() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::DenyRemediation { id, reason: "vendor is coming".into() });
    assert_eq!(of(&w, &n).stage, Stage::Quarantined);
    assert_eq!(remediation(&w, &n), None);
    let why = &of(&w, &n).stage_why;
    assert!(why.contains("remediation denied by ") && why.ends_with(": vendor is coming"), "{why}");
    assert!(of(&w, &n).stage_until.is_some(), "too long there is still too long");
    w.ok(Command::ReturnUntested { node: n.clone(), reason: "they came".into() });
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    // Who gives no reason leaves no colon behind.
    let mut w = able(8);
    xid79(&mut w, &n);
    let id = remediation(&w, &n).unwrap().id;
    w.ok(Command::DenyRemediation { id, reason: String::new() });
    let why = &w.engine.state().health.remediations[&id].why;
    assert!(why.starts_with("by ") && !why.contains(": "), "{why}");
    let late = refused(&mut w, Command::ApproveRemediation { id }, RefusalCode::Conflict);
    assert!(late.contains(&format!("remediation {id} has ended (denied): by ")), "{late}");
}

#[test]
fn detect_only_writes_down_and_does_nothing() {
    let mut w = able(8);
    w.policy(|p| {
        p.remediations.modes.insert(Action::Drain, Mode::DetectOnly);
    });
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    xid79(&mut w, &n);
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    assert!(w.job(job).attempt.as_ref().unwrap().stop.is_none());
    let r = w.engine.state().health.remediations.values().last().unwrap().clone();
    assert_eq!(r.outcome, Some(RemediationOutcome::Noted));
    assert!(r.why.contains("would reboot"), "{}", r.why);
    // The same with approval: it waits before anything is stopped.
    w.policy(|p| {
        p.remediations.modes.insert(Action::Drain, Mode::Approve);
    });
    let other = node(if n == node(5) { 6 } else { 5 });
    xid79(&mut w, &other);
    assert_eq!(stands(&w, &other), (Stage::Ready, RemediationStep::Proposed));
    let id = remediation(&w, &other).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    assert_eq!(stands(&w, &other), (Stage::Repairing, RemediationStep::Acting), "one word for all");
}

#[test]
fn one_of_eight_gpus_is_isolated_where_the_policy_says_so() {
    let mut w = able(4);
    w.policy(|p| {
        let of_kind = rule("ecc-*", &[Action::IsolateGpu, Action::Replace]);
        p.remediations.rules.push(Rule { sku: Some("h100-sxm".into()), ..of_kind });
    });
    let (a, b) = (w.run(gang(1, 4)), w.run(gang(1, 4)));
    let n = w.nodes_of(a)[0].clone();
    assert_eq!(w.nodes_of(b)[0], n, "they share a node");
    let gpu = w.job(a).attempt.as_ref().unwrap().placement.slots[0].gpus.iter().next().unwrap();
    see(&mut w, "ecc-uncorrectable", Entity::Gpu(n.clone(), gpu), Severity::Critical);
    assert!(w.job(a).attempt.as_ref().unwrap().stop.is_some());
    assert!(w.job(b).attempt.as_ref().unwrap().stop.is_none(), "its neighbour goes on");
    w.stopped(a);
    assert_eq!(of(&w, &n).stage, Stage::Ready);
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet(1 << gpu));
    w.pass(Span::secs(2));
    assert_eq!(remediation(&w, &n), None, "done");
    let gpus = GpuSet(1 << 63);
    let c = Command::ExcludeGpus { node: n.clone(), gpus, reason: "x".into() };
    refused(&mut w, c, RefusalCode::Invalid);
    let c = Command::ExcludeGpus { node: n.clone(), gpus: GpuSet::EMPTY, reason: "swapped".into() };
    w.ok(c);
    assert_eq!(of(&w, &n).excluded_gpus, GpuSet::EMPTY);
}

#[test]
fn a_breaker_can_be_forced_and_let_go() {
    let mut w = able(16);
    let n = node(0);
    let leaf = Entity::domain(Level::Leaf, &n, &of(&w, &n).location.clone());
    let force =
        |state| Command::ForceBreaker { entity: leaf.clone(), state, reason: "works".into() };
    refused(&mut w, force(None), RefusalCode::Conflict);
    w.ok(force(Some(BreakerState::Open)));
    let blocked = w.engine.state().nodes.values().filter(|n| n.breaker.is_some()).count();
    assert_eq!(blocked, 8, "the nodes of the leaf");
    let job = w.run(gang(8, 8));
    assert!(!w.nodes_of(job).contains(&n));
    w.sleep(Span::hours(20));
    assert!(of(&w, &n).breaker.is_some(), "held by a word, it stays");
    w.ok(force(Some(BreakerState::Closed)));
    assert!(of(&w, &n).breaker.is_none());
    w.ok(force(None));
    let gpu = Command::ForceBreaker {
        entity: Entity::Gpu(n, 1),
        state: Some(BreakerState::Open),
        reason: "x".into(),
    };
    refused(&mut w, gpu, RefusalCode::Unsupported);
    let none = Command::ForceBreaker {
        entity: Entity::Sku("cray-1".into()),
        state: Some(BreakerState::Open),
        reason: "x".into(),
    };
    refused(&mut w, none, RefusalCode::NotFound);
}

#[test]
fn a_node_does_not_rot_unseen() {
    let mut w = able(8);
    let n = node(1);
    xid79(&mut w, &n);
    assert_eq!(pages(&w), 0);
    w.sleep(Span::hours(25));
    assert_eq!(pages(&w), 1, "quarantined for a day");
    w.sleep(Span::hours(24));
    assert_eq!(pages(&w), 2, "and reported again");
}
