//! A cycle follows what may change a plan, and nothing else.

use crate::common::{TestSite, checkpoints, crash, gang, limited, node};
use muster_model::command::{Command, Observed};
use muster_model::event::Event;
use muster_model::ids::AttemptKey;
use muster_model::job::{JobState, StopReason};
use muster_model::spec::JobSpec;
use muster_model::units::Span;
use serde_json::json;

#[test]
fn one_cycle_follows_all_ranks_that_come_up_and_none_a_checkpoint() {
    let mut w = TestSite::new(4, 8);
    let id = w.submit(JobSpec { checkpoint: checkpoints(true), ..gang(4, 8) });
    let next = w.gang(1, 8);
    let (cycles, from) = (w.engine.cycles(), w.log.len());
    w.start(id);
    w.ok(Command::AskCheckpoint { job: id });
    w.checkpoint(id, 7);
    assert_eq!(w.engine.cycles(), cycles + 1, "when the last of four came up");
    let count = |what: fn(&Event) -> bool| w.since(from).filter(|e| what(e)).count();
    assert_eq!(count(|e| matches!(e, Event::SlotStarted { .. })), 4);
    assert_eq!(count(|e| matches!(e, Event::AttemptStarted { .. })), 1);
    assert_eq!(count(|e| matches!(e, Event::CheckpointDone { .. })), 1);
    assert_eq!(w.job(next).state, JobState::Queued);
    w.finish(id);
    assert!(w.engine.cycles() > cycles, "its nodes are free");
    assert_eq!(w.job(next).state, JobState::Starting);
}

#[test]
fn a_plan_that_is_a_minute_old_is_made_anew_with_any_record() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(JobSpec { checkpoint: checkpoints(true), ..gang(1, 8) });
    let cycles = w.engine.cycles();
    w.pass(Span::secs(59));
    w.checkpoint(id, 7);
    assert_eq!(w.engine.cycles(), cycles);
    w.pass(Span::secs(1));
    assert_eq!(w.engine.cycles(), cycles, "time alone is no reason");
    w.checkpoint(id, 8);
    assert_eq!(w.engine.cycles(), cycles + 1);
}

#[test]
fn a_limit_that_counts_from_now_on_lets_a_cycle_follow() {
    let mut w = TestSite::new(1, 8);
    let id = w.submit(limited(1, 8, 30));
    let cycles = w.engine.cycles();
    w.start(id);
    assert!(w.engine.cycles() > cycles);
}

#[test]
fn ranks_that_come_up_shortly_before_a_window_learn_of_it() {
    let mut w = TestSite::new(1, 8);
    let id = w.submit(JobSpec { checkpoint: checkpoints(true), ..gang(1, 8) });
    let (over, start) = (json!({"nodes": [node(0)]}), (w.now + Span::secs(90)).0);
    w.reserve(json!({
        "name": "window", "over": over, "start": start, "length": "2h", "overrun": "stop",
    }));
    // The notice of a minute begins, and there is nobody yet who could write a checkpoint.
    w.sleep(Span::secs(40));
    assert!(w.job(id).attempt.as_ref().unwrap().notice.is_none());
    w.report(id, &node(0), Observed::Running);
    let a = w.job(id).attempt.clone().unwrap();
    let reason = a.notice.map(|n| n.reason);
    assert!(matches!(reason, Some(StopReason::ReservationBegins { .. })), "{reason:?}");
}

#[test]
fn a_job_whose_wait_is_over_starts_although_something_was_noted_of_it_first() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 8);
    spec.retries.application = 5;
    let id = w.submit(spec);
    for _ in 0..2 {
        w.report(id, &node(0), crash(0, 1));
    }
    for _ in 0..10 {
        if w.job(id).state == JobState::Queued {
            break;
        }
        w.now = w.engine.next_wake().unwrap();
        w.tick();
    }
    assert_eq!(w.job(id).state, JobState::Queued);
    assert!(w.job(id).not_before > w.now, "the second retry waits");
    // A late word of the attempt before comes in at the very moment.
    w.now = w.job(id).not_before;
    let key = AttemptKey { job: id, attempt: w.job(id).attempts };
    w.ok(Command::CheckpointDone { key, step: Some(1), path: None, bytes: None, blocked_ms: None });
    assert_eq!(w.job(id).state, JobState::Starting);
}
