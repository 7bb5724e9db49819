//! The way back from a fault is measured from when the trouble began, as far as the log can know.

use super::*;
use crate::common::{crash, gang, replay};
use muster_model::job::{JobState, Recovery, SlotEnd, StopReason, Verdict};
use muster_model::units::{Span, Time};

fn recovery(w: &TestSite, job: JobId) -> Recovery {
    w.job(job).recovery.expect("a way back")
}

fn stops_for(w: &TestSite, job: JobId) -> StopReason {
    w.job(job).attempt.as_ref().unwrap().stop.as_ref().unwrap().reason.clone()
}

/// When it was hit, when that was found and when it was asked to stop.
fn times(r: &Recovery) -> (Time, Time, Time) {
    (r.fault_at, r.found_at, r.decided_at)
}

#[test]
fn a_lost_node_was_lost_when_it_was_last_heard() {
    let mut w = able(4);
    let job = w.run(gang(2, 8));
    w.pass(Span::secs(60));
    let heard = w.now;
    w.pass(Span::secs(31));
    let found = w.now;
    let nodes = w.nodes_of(job);
    w.ok(Command::NodeLost { node: nodes[0].clone(), last_seen: heard });
    assert!(matches!(stops_for(&w, job), StopReason::NodeLost { .. }));
    assert_eq!(times(&recovery(&w, job)), (heard, found, found));
    w.pass(Span::secs(2));
    let observed = Observed::Ended(SlotEnd::Stopped);
    w.ok(Command::SlotReport { node: nodes[1].clone(), key: w.key(job), observed, ago: None });
    assert_eq!(w.job(job).state, JobState::Starting);
    w.pass(Span::secs(3));
    w.start(job);
    let r = recovery(&w, job);
    assert_eq!(times(&r), (heard, found, found));
    assert_eq!(r.started_at.unwrap().since(r.fault_at), Span::secs(31 + 2 + 3));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_node_that_was_silent_before_the_attempt_was_placed_did_not_hit_it_then() {
    let mut w = able(4);
    let before = w.now;
    w.pass(Span::secs(5));
    let placed = w.now;
    let job = w.run(gang(2, 8));
    w.pass(Span::secs(25));
    let node = w.nodes_of(job)[0].clone();
    w.ok(Command::NodeLost { node, last_seen: before });
    assert_eq!(times(&recovery(&w, job)), (placed, w.now, w.now));
}

#[test]
fn a_fault_began_with_its_first_line_of_the_kernel() {
    let mut w = able(4);
    let job = w.run(gang(2, 8));
    w.pass(Span::secs(60));
    let line = w.now;
    let n = w.nodes_of(job)[0].clone();
    w.pass(Span::secs(4));
    let mut f = fault("xid-79", 3);
    f.at = line;
    report_fault(&mut w, &n, f);
    assert!(matches!(stops_for(&w, job), StopReason::Unhealthy { .. }));
    assert_eq!(times(&recovery(&w, job)), (line, w.now, w.now));
}

#[test]
fn a_fault_that_is_known_after_its_rank_died_began_before_that() {
    let mut w = able(4);
    let job = w.run(gang(1, 8));
    w.pass(Span::secs(60));
    let line = w.now;
    let n = w.nodes_of(job)[0].clone();
    w.pass(Span::secs(3));
    let died = w.now;
    w.report(job, &n, crash(0, 1));
    assert_eq!(times(&recovery(&w, job)), (died, died, died), "as far as is known");
    w.pass(Span::secs(2));
    let mut f = fault("xid-79", 3);
    f.at = line;
    report_fault(&mut w, &n, f);
    let j = w.job(job);
    assert_eq!(j.past[0].verdict, Verdict::Infrastructure, "{:?}", j.past);
    let r = recovery(&w, job);
    assert_eq!((r.fault_at, r.decided_at), (line, died));
    assert_eq!(r.finding, j.past[0].findings.first().copied());
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_hang_began_with_the_last_step() {
    let mut w = able(4);
    let job = w.run(gang(2, 8));
    w.pass(Span::secs(60));
    let step = w.now;
    w.pass(Span::secs(300));
    let mut f = ObservedFinding::new("hang", Entity::Job(job), Severity::Critical, w.now);
    (f.first_seen, f.attempt, f.rank) = (step, Some(w.key(job)), Some(1));
    w.ok(Command::FindingsSeen { findings: vec![f] });
    assert!(matches!(stops_for(&w, job), StopReason::Hung { .. }));
    assert_eq!(times(&recovery(&w, job)), (step, w.now, w.now));
}

#[test]
fn a_finding_from_metrics_began_with_its_first_bad_value() {
    let mut w = able(4);
    let job = w.run(gang(2, 8));
    w.pass(Span::secs(60));
    let first = w.now;
    w.pass(Span::secs(20));
    let gpu = Entity::Gpu(w.nodes_of(job)[0].clone(), 3);
    let mut f = ObservedFinding::new("gpu-off-bus", gpu, Severity::Critical, w.now);
    f.first_seen = first;
    w.ok(Command::FindingsSeen { findings: vec![f] });
    assert!(matches!(stops_for(&w, job), StopReason::Unhealthy { .. }));
    assert_eq!(times(&recovery(&w, job)), (first, w.now, w.now));
}

#[test]
fn a_slot_that_its_node_failed_was_hit_when_its_agent_said_so() {
    let mut w = able(4);
    let job = w.run(gang(1, 8));
    w.pass(Span::secs(60));
    let (began, n) = (w.now, w.nodes_of(job)[0].clone());
    w.report(job, &n, Observed::Ended(SlotEnd::fault("the node was restarted")));
    assert_eq!(w.job(job).state, JobState::Starting);
    w.pass(Span::secs(3));
    w.start(job);
    let r = recovery(&w, job);
    assert_eq!(times(&r), (began, began, began), "nothing in the log is older");
    assert_eq!(r.started_at.unwrap().since(r.fault_at), Span::secs(3));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_node_that_came_back_before_it_was_called_lost_was_gone_when_it_was_last_heard() {
    for boot in ["boot", "another"] {
        let mut w = able(4);
        let job = w.run(gang(2, 8));
        w.pass(Span::secs(60));
        let heard = w.now;
        w.pass(Span::secs(30));
        let node = w.nodes_of(job)[0].clone();
        let i = (0..4).find(|i| crate::common::node(*i) == node).unwrap();
        meet_after(&mut w, i, boot, Span::secs(30));
        assert!(matches!(stops_for(&w, job), StopReason::SlotFailed { .. }), "{boot}");
        assert_eq!(times(&recovery(&w, job)), (heard, w.now, w.now), "{boot}");
        // What report says is the same.
        w.pass(Span::secs(1));
        moves_on(&mut w, job);
        let mut lives = muster_metering::JobHistories::default();
        w.log.iter().for_each(|r| lives.apply(r));
        let g = muster_metering::goodput(w.job(job), lives.get(job), &Default::default(), w.now);
        assert_eq!(g.recover, Some(w.now.since(heard)), "{boot}");
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_job_that_ended_and_is_run_again_by_a_person_comes_back_from_nothing() {
    let mut w = able(4);
    let mut spec = gang(1, 8);
    spec.retries.infrastructure = 0;
    let job = w.run(spec);
    w.pass(Span::secs(60));
    let n = w.nodes_of(job)[0].clone();
    xid79(&mut w, &n);
    w.stopped(job);
    assert_eq!(w.job(job).state, JobState::Failed, "no retry is left");
    assert!(w.job(job).recovery.is_some());
    w.pass(Span::mins(10));
    w.ok(Command::Requeue { job });
    assert_eq!(w.job(job).recovery, None);
    assert_eq!(w.job(job).state, JobState::Starting);
    w.start(job);
    assert_eq!(w.job(job).recovery, None);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_recovery_that_is_over_is_not_changed_by_what_happens_to_later_attempts() {
    let mut w = able(4);
    let job = w.run(gang(1, 8));
    w.pass(Span::secs(60));
    let n = w.nodes_of(job)[0].clone();
    xid79(&mut w, &n);
    w.pass(Span::secs(2));
    moves_on(&mut w, job);
    let over = recovery(&w, job);
    assert_eq!((over.attempt, over.started_at), (1, Some(w.now)));
    // An operator drains the node of the next attempt, and one after that makes its first step.
    w.pass(Span::mins(10));
    let node = w.nodes_of(job)[0].clone();
    w.person(Command::Drain { node, reason: "fan".into(), stop: true });
    w.pass(Span::secs(5));
    moves_on(&mut w, job);
    assert_eq!(recovery(&w, job), over);
    w.pass(Span::secs(5));
    w.ok(Command::FirstStep { key: w.key(job) });
    assert_eq!(recovery(&w, job), over);
    // A person's requeue changes nothing of it either.
    w.ok(Command::Requeue { job });
    moves_on(&mut w, job);
    assert_eq!(recovery(&w, job), over);
    // What `report` says is the same.
    let mut lives = muster_metering::JobHistories::default();
    w.log.iter().for_each(|r| lives.apply(r));
    let g = muster_metering::goodput(w.job(job), lives.get(job), &Default::default(), w.now);
    assert_eq!(g.recover, over.started_at.map(|t| t.since(over.fault_at)));
    // What the job then does itself is no recovery and hides none.
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, crash(0, 3));
    w.ok(Command::Requeue { job });
    assert_eq!(recovery(&w, job), over);
    w.start(job);
    assert_eq!(recovery(&w, job), over);
    // The next failure has its own.
    w.lose(&w.nodes_of(job)[0].clone());
    assert_eq!(recovery(&w, job).attempt, 5);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn the_first_step_after_a_failure_ends_the_recovery() {
    let mut w = able(4);
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    xid79(&mut w, &n);
    moves_on(&mut w, job);
    w.pass(Span::secs(3));
    w.ok(Command::FirstStep { key: w.key(job) });
    assert_eq!(recovery(&w, job).working_at, Some(w.now));
}

#[test]
fn the_time_in_which_a_person_holds_the_job_is_no_part_of_its_recovery() {
    let mut w = able(3);
    let other = w.run(gang(1, 8));
    let job = w.run(gang(2, 8));
    w.pass(Span::secs(60));
    let (hit, nodes) = (w.now, w.nodes_of(job));
    w.lose(&nodes[0]);
    w.pass(Span::secs(2));
    let observed = Observed::Ended(SlotEnd::Stopped);
    w.ok(Command::SlotReport { node: nodes[1].clone(), key: w.key(job), observed, ago: None });
    assert_eq!(w.job(job).state, JobState::Queued, "the third node is allocated");
    w.pass(Span::secs(5));
    w.person(Command::Hold { job });
    w.pass(Span::hours(2));
    w.person(Command::Release { job });
    assert_eq!(recovery(&w, job).total(), Span::secs(2), "until its last rank was gone");
    w.pass(Span::secs(3));
    w.finish(other);
    w.start(job);
    let r = recovery(&w, job);
    assert_eq!((r.fault_at, r.started_at), (hit, Some(w.now)));
    assert_eq!(r.held, Some(Span::hours(2)));
    assert_eq!((r.placing(), r.total()), (Some(Span::secs(8)), Span::secs(10)));
    // The report has the same.
    let mut lives = muster_metering::JobHistories::default();
    w.log.iter().for_each(|r| lives.apply(r));
    let g = muster_metering::goodput(w.job(job), lives.get(job), &Default::default(), w.now);
    assert_eq!(g.recover, Some(r.total()));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
