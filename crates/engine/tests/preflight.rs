//! Large gangs whose network is measured before their ranks start: a phase of the attempt.

use crate::common::{TestSite, gang, node, replay};
use muster_engine::{Engine, Policy, SNAPSHOT_FORMAT, State};
use muster_model::command::{Actor, Command, Observed, Request};
use muster_model::event::{Event, Origin};
use muster_model::ids::JobId;
use muster_model::job::{JobState, StopReason};
use muster_model::names::NodeName;
use muster_model::preflight::{AttemptPreflight, PreflightOutcome, PreflightReport};
use muster_model::spec::{JobSpec, Preflight, Simulate};
use muster_model::units::Span;

/// Gangs of four nodes and more wait for a minute at most.
fn test_site() -> TestSite {
    let mut w = TestSite::new(6, 8);
    w.policy(|p| {
        p.fabric.preflight_nodes = 4;
        p.fabric.within = Span::secs(60);
    });
    w
}

fn preflight(w: &TestSite, id: JobId) -> AttemptPreflight {
    w.job(id).attempt.as_ref().unwrap().preflight.clone().unwrap()
}

fn waits(w: &TestSite, id: JobId) -> bool {
    w.engine.state().preflights().any(|k| k.job == id)
}

fn report(w: &mut TestSite, id: JobId, report: PreflightReport) {
    let key = w.key(id);
    w.ok(Command::PreflightDone { key, report });
}

/// How often a preflight was written down.
fn written(w: &TestSite) -> usize {
    w.log.iter().filter(|r| matches!(r.event, Event::PreflightSet(_))).count()
}

fn same_when_replayed(w: &TestSite) {
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_large_gang_begins_with_a_preflight_and_starts_when_it_has_passed() {
    let mut w = test_site();
    let id = w.gang(4, 2);
    let p = preflight(&w, id);
    assert_eq!((p.since, p.until), (w.now, w.now + Span::secs(60)));
    assert_eq!((w.job(id).state, waits(&w, id)), (JobState::Starting, true));
    w.sleep(Span::secs(12));
    let why = w.explain(id).summary;
    let want =
        "is in preflight: measuring the fabric among 4 nodes since 12s ago, until 48s from now";
    assert!(why.starts_with(want), "{why}");
    w.engine.take_touched();
    report(&mut w, id, PreflightReport::Passed);
    assert_eq!(preflight(&w, id).outcome, Some(PreflightOutcome::Passed));
    assert!(!waits(&w, id));
    let mut nodes = w.nodes_of(id);
    nodes.sort();
    assert_eq!(w.engine.take_touched(), nodes, "they are informed");
    // Said once more, it changes nothing.
    let before = w.log.len();
    report(&mut w, id, PreflightReport::Slow { nodes });
    assert_eq!(w.log.len(), before);
    w.start(id);
    assert_eq!(w.job(id).state, JobState::Running);
    w.sleep(Span::mins(5));
    assert_eq!((written(&w), w.job(id).state), (2, JobState::Running));
    let of = |i: usize| w.log.iter().filter(|r| matches!(r.event, Event::PreflightSet(_))).nth(i);
    assert_eq!(of(0).unwrap().event.origin(), Origin::Decision);
    assert_eq!(of(1).unwrap().event.origin(), Origin::Input);
    same_when_replayed(&w);
}

#[test]
fn who_is_small_says_no_or_only_pretends_to_work_starts_at_once() {
    let mut w = test_site();
    let skip = JobSpec { preflight: Preflight::Skip, ..gang(4, 1) };
    let work = Simulate { run: Span::hours(1), ..Simulate::default() };
    let simulated = JobSpec { simulate: Some(work), ..gang(4, 1) };
    for spec in [gang(3, 1), skip, simulated] {
        let id = w.submit(spec);
        assert!(w.job(id).attempt.as_ref().unwrap().preflight.is_none());
    }
    w.policy(|p| p.fabric.preflight_nodes = 0);
    let id = w.gang(4, 1);
    assert_eq!((w.job(id).state, waits(&w, id), written(&w)), (JobState::Starting, false, 0));
    same_when_replayed(&w);
}

#[test]
fn what_cannot_be_measured_or_is_not_measured_in_time_starts() {
    let mut w = test_site();
    let first = w.gang(4, 2);
    let reason = "fewer than two nodes can be tested now".to_string();
    report(&mut w, first, PreflightReport::NotMeasured { reason: reason.clone() });
    assert_eq!(preflight(&w, first).outcome, Some(PreflightOutcome::NotMeasured { reason }));
    let second = w.gang(4, 2);
    w.sleep(Span::secs(59));
    assert!(waits(&w, second));
    w.engine.take_touched();
    w.sleep(Span::secs(1));
    assert_eq!(preflight(&w, second).outcome, Some(PreflightOutcome::TimedOut));
    assert_eq!(w.engine.take_touched().len(), 4, "they are informed");
    w.start(second);
    assert_eq!(w.job(second).state, JobState::Running);
    same_when_replayed(&w);
}

#[test]
fn slow_nodes_give_the_gang_a_moment_to_be_moved_and_then_it_starts() {
    let mut w = test_site();
    let id = w.gang(4, 2);
    w.sleep(Span::secs(20));
    let slow = vec![w.nodes_of(id)[1].clone()];
    report(&mut w, id, PreflightReport::Slow { nodes: slow.clone() });
    let p = preflight(&w, id);
    assert_eq!((&p.slow, p.until, &p.outcome), (&slow, w.now + Span::secs(5), &None));
    assert!(!waits(&w, id), "nobody measures it again");
    assert!(w.explain(id).summary.contains("slow nodes"), "{}", w.explain(id).summary);
    // What was measured does not become better by saying so.
    report(&mut w, id, PreflightReport::Passed);
    assert_eq!(preflight(&w, id), p);
    w.sleep(Span::secs(5));
    assert_eq!(preflight(&w, id).outcome, Some(PreflightOutcome::Slow));
    // Never longer than the policy allows.
    let late = w.gang(4, 2);
    w.sleep(Span::secs(58));
    report(&mut w, late, PreflightReport::Slow { nodes: slow });
    let p = preflight(&w, late);
    assert_eq!(p.until, p.since + Span::secs(60));
    same_when_replayed(&w);
}

#[test]
fn a_gang_that_leaves_its_slow_node_begins_anew_elsewhere() {
    let mut w = test_site();
    let id = w.gang(4, 8);
    let slow: NodeName = w.nodes_of(id)[0].clone();
    report(&mut w, id, PreflightReport::Slow { nodes: vec![slow.clone()] });
    w.ok(Command::Drain { node: slow.clone(), reason: "slow".into(), stop: true });
    assert_eq!((w.job(id).state, waits(&w, id)), (JobState::Stopping, false));
    w.stopped(id);
    assert_eq!((w.job(id).attempts, waits(&w, id)), (2, true));
    assert!(!w.nodes_of(id).contains(&slow));
    same_when_replayed(&w);
}

#[test]
fn one_that_is_cancelled_meanwhile_never_starts() {
    let mut w = test_site();
    let id = w.gang(4, 2);
    let key = w.key(id);
    w.ok(Command::Cancel { job: id });
    assert_eq!((w.job(id).state, waits(&w, id)), (JobState::Stopping, false));
    assert!(w.explain(id).summary.starts_with("is stopping"), "{}", w.explain(id).summary);
    // The measurement ends, and its time is up: neither starts it.
    w.ok(Command::PreflightDone { key, report: PreflightReport::Passed });
    w.sleep(Span::mins(2));
    assert_eq!((written(&w), w.job(id).state), (1, JobState::Stopping));
    w.stopped(id);
    assert_eq!(w.job(id).state, JobState::Cancelled);
    w.ok(Command::PreflightDone { key, report: PreflightReport::Passed });
    assert_eq!(written(&w), 1);
    same_when_replayed(&w);
}

#[test]
fn a_node_that_is_lost_meanwhile_ends_the_attempt_and_the_next_one_is_measured_anew() {
    let mut w = test_site();
    let id = w.gang(4, 8);
    let lost = w.nodes_of(id)[2].clone();
    let began = w.now;
    w.sleep(Span::secs(10));
    w.lose(&lost);
    let stop = w.job(id).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert_eq!(stop.reason, StopReason::NodeLost { node: lost.clone() });
    assert!(!waits(&w, id));
    w.stopped(id);
    w.sleep(Span::secs(1));
    assert_eq!((w.job(id).attempts, waits(&w, id)), (2, true));
    assert!(!w.nodes_of(id).contains(&lost));
    assert!(preflight(&w, id).since > began);
    same_when_replayed(&w);
}

#[test]
fn it_is_in_the_log_so_a_new_server_goes_on_with_it() {
    let mut w = test_site();
    let id = w.gang(4, 2);
    let (key, p) = (w.key(id), preflight(&w, id));
    w.sleep(Span::secs(10));
    // From the log, and from a snapshot.
    let (bytes, before) = (w.engine.state().to_bytes().unwrap(), w.log.len());
    for state in [replay(&w.log), State::from_bytes(SNAPSHOT_FORMAT, &bytes).unwrap()] {
        w.engine = Engine::new(state, Policy::default());
        w.tick();
        assert_eq!(w.engine.state().preflights().collect::<Vec<_>>(), [key]);
        assert_eq!((preflight(&w, id), w.log.len()), (p.clone(), before));
    }
    // The new one measures in time.
    report(&mut w, id, PreflightReport::Passed);
    assert_eq!(preflight(&w, id).outcome, Some(PreflightOutcome::Passed));
    // Nobody was there when the time of another was up: it starts as soon as somebody is.
    let other = w.gang(4, 2);
    w.engine = Engine::new(replay(&w.log), Policy::default());
    w.pass(Span::mins(10));
    assert_eq!(preflight(&w, other).outcome, Some(PreflightOutcome::TimedOut));
    same_when_replayed(&w);
}

#[test]
fn ranks_that_are_up_do_not_wait_for_a_measurement() {
    let mut w = test_site();
    let id = w.gang(4, 2);
    let first = w.nodes_of(id)[0].clone();
    // A log that was restored may not know that it was over.
    w.report(id, &first, Observed::Running);
    let outcome = preflight(&w, id).outcome;
    assert!(matches!(outcome, Some(PreflightOutcome::NotMeasured { .. })), "{outcome:?}");
    w.start(id);
    assert_eq!(w.job(id).state, JobState::Running);
    same_when_replayed(&w);
}

#[test]
fn only_the_server_says_what_was_measured() {
    let mut w = test_site();
    let id = w.gang(4, 2);
    let (key, at) = (w.key(id), w.now);
    let actor = Actor::agent(&node(0));
    let command = Command::PreflightDone { key, report: PreflightReport::Passed };
    let said = w.request(&Request { actor, at, key: None, if_version: None, command });
    assert!(said.is_err() && waits(&w, id));
}
