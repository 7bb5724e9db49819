//! Work that ends while no server is there: how it ended and when it ended do not depend on when a
//! server hears of it.

#[path = "server_down/late.rs"]
mod late;

use crate::common::{TestSite, crash, gang, limited, node, number, replay};
use muster_engine::{Engine, Policy, State};
use muster_metering::{Fleet, JobHistories, Part, Step, goodput, no_observation};
use muster_model::command::{Command, Observed};
use muster_model::event::Event;
use muster_model::ids::{Epoch, JobId};
use muster_model::job::{JobState, SlotEnd, StopReason, Verdict};
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// The server ends, and another one goes on with what the log says so much later.
fn restart(w: &mut TestSite, away: Span) {
    w.engine = Engine::new(w.engine.state().clone(), Policy::default());
    w.now = w.now + away;
    w.ok(Command::Lead { epoch: Epoch(2), server: "s".into(), restored: false });
}

fn ended(w: &mut TestSite, id: JobId, i: usize, observed: Observed, ago: Option<Span>) {
    let key = w.key(id);
    w.ok(Command::SlotReport { node: node(i), key, observed, ago });
}

/// A job with a limit of ten minutes whose limit is over when the server is back. Its agent has
/// output to send before it says how the ranks ended, so that they seem to run.
fn past_its_limit(w: &mut TestSite) -> JobId {
    let id = w.run(limited(1, 8, 10));
    w.pass(Span::mins(1));
    restart(w, Span::mins(30));
    assert_eq!(w.job(id).state, JobState::Running, "its node was not heard yet");
    let key = w.key(id);
    w.connect(0, 8, "boot", vec![(key, Observed::Running)]);
    id
}

fn same_when_read_again(w: &TestSite) {
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_job_that_ended_well_within_its_limit_while_no_server_was_there_succeeded() {
    let mut w = TestSite::new(1, 8);
    let id = past_its_limit(&mut w);
    let mut spec = gang(1, 8);
    spec.after = vec![format!("{id}:ok")];
    let next = w.submit(spec);
    ended(&mut w, id, 0, Observed::Ended(SlotEnd::Ok), Some(Span::mins(26)));
    let j = w.job(id);
    assert_eq!((j.state, j.exit_code, &j.reason), (JobState::Succeeded, Some(0), &None));
    let p = &j.past[0];
    assert_eq!((p.stopped_for.as_ref(), p.freed()), (None, w.now - Span::mins(26)));
    assert_eq!((j.ended_at, j.ended()), (Some(w.now), Some(p.freed())), "not when it was heard");
    assert_eq!(w.job(next).state, JobState::Starting, "who waits for it goes on");
    let stops = w.log.iter().any(|r| matches!(r.event, Event::StopOrdered { .. }));
    assert!(!stops, "nothing was stopped, and nobody says so");
    same_when_read_again(&w);
}

#[test]
fn what_still_runs_when_its_node_had_time_to_report_its_end_ran_past_its_limit() {
    let mut w = TestSite::new(1, 8);
    let id = past_its_limit(&mut w);
    w.sleep(Span(4_999));
    assert_eq!(w.job(id).state, JobState::Running);
    w.sleep(Span(1));
    assert_eq!(w.job(id).state, JobState::Stopping);
    w.stopped(id);
    assert_eq!((w.job(id).state, w.job(id).exit_code), (JobState::Failed, Some(124)));
    same_when_read_again(&w);
}

#[test]
fn a_job_that_says_how_it_ended_at_once_is_not_ordered_to_stop() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(limited(1, 8, 10));
    restart(&mut w, Span::mins(30));
    let (key, from) = (w.key(id), w.log.len());
    w.connect(0, 8, "boot", vec![(key, Observed::Ended(SlotEnd::Ok))]);
    assert_eq!(w.job(id).state, JobState::Succeeded);
    assert!(!w.since(from).any(|e| matches!(e, Event::StopOrdered { .. })));
    same_when_read_again(&w);
}

#[test]
fn a_job_that_failed_while_no_server_was_there_keeps_its_exit_code() {
    let mut w = TestSite::new(1, 8);
    let id = past_its_limit(&mut w);
    ended(&mut w, id, 0, crash(0, 3), Some(Span::mins(25)));
    assert!(w.job(id).ending_until().is_some(), "its cause is looked for as ever");
    w.sleep(Span::secs(5));
    let j = w.job(id);
    assert_eq!((j.state, j.exit_code), (JobState::Failed, Some(3)), "{:?}", j.reason);
    assert!(matches!(j.past[0].stopped_for, Some(StopReason::SlotFailed { .. })));
    same_when_read_again(&w);
}

#[test]
fn what_a_node_stopped_before_the_limit_is_tried_again_and_later_it_is_the_limit() {
    let lease = || SlotEnd::no_server(Span::mins(5));
    for (ago, code) in [(25, None), (15, Some(124))] {
        let mut w = TestSite::new(1, 8);
        let id = past_its_limit(&mut w);
        // It started 31 minutes ago, and its limit was over 21 minutes ago.
        ended(&mut w, id, 0, Observed::Ended(lease()), Some(Span::mins(ago)));
        let j = w.job(id);
        assert_eq!((j.exit_code, j.state.is_final()), (code, code.is_some()), "{ago} minutes ago");
        assert_eq!(j.infrastructure_failures, u32::from(code.is_none()));
        same_when_read_again(&w);
    }
}

#[test]
fn a_gang_of_which_one_rank_ran_past_the_limit_ran_past_it() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(limited(2, 8, 10));
    w.pass(Span::mins(10));
    assert_eq!(w.job(id).state, JobState::Stopping);
    ended(&mut w, id, 0, Observed::Ended(SlotEnd::Ok), None);
    ended(&mut w, id, 1, Observed::Ended(SlotEnd::Stopped), None);
    assert_eq!((w.job(id).state, w.job(id).exit_code), (JobState::Failed, Some(124)));
    same_when_read_again(&w);
}

#[test]
fn a_limit_waits_for_a_silent_node_until_that_is_lost_and_never_for_long() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(limited(1, 8, 10));
    restart(&mut w, Span::mins(30));
    w.pass(Span::secs(30));
    w.lose(&node(0));
    let j = w.job(id);
    assert_eq!((j.state, j.infrastructure_failures), (JobState::Queued, 1), "{:?}", j.reason);
    same_when_read_again(&w);
    let mut w = TestSite::new(1, 8);
    let id = w.run(limited(1, 8, 10));
    restart(&mut w, Span::mins(30));
    w.sleep(Span::secs(59));
    assert_eq!(w.job(id).state, JobState::Running);
    w.sleep(Span::secs(1));
    assert_eq!(w.job(id).state, JobState::Stopping, "neither heard nor lost");
    same_when_read_again(&w);
}

/// What the log is when the next append fails: its records, and what follows from them.
fn durable(w: &TestSite) -> (usize, State) {
    (w.log.len(), w.engine.state().clone())
}

/// An append fails: what was decided since is thrown away, and the engine goes on with the log.
fn append_fails(w: &mut TestSite, (records, state): (usize, State)) {
    w.engine = w.engine.reloaded(state);
    w.log.truncate(records);
    w.tick();
}

#[test]
fn a_limit_waits_for_a_silent_node_after_a_failed_append_too() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(limited(1, 8, 10));
    restart(&mut w, Span::mins(30));
    w.sleep(Span::secs(20));
    let log = durable(&w);
    append_fails(&mut w, log);
    w.sleep(Span::secs(39));
    assert_eq!(w.job(id).state, JobState::Running, "its node was not heard yet");
    w.sleep(Span::secs(1));
    assert_eq!(w.job(id).state, JobState::Stopping, "no longer than without the failure");
    same_when_read_again(&w);
}

#[test]
fn a_node_whose_word_was_not_written_is_waited_for_again() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(limited(1, 8, 10));
    restart(&mut w, Span::mins(30));
    let (log, key) = (durable(&w), w.key(id));
    w.connect(0, 8, "boot", vec![(key, Observed::Ended(SlotEnd::Ok))]);
    assert_eq!(w.job(id).state, JobState::Succeeded);
    append_fails(&mut w, log);
    w.sleep(Span::secs(10));
    assert_eq!(w.job(id).state, JobState::Running, "it says so again");
    w.connect(0, 8, "boot", vec![(key, Observed::Ended(SlotEnd::Ok))]);
    assert_eq!((w.job(id).state, w.job(id).exit_code), (JobState::Succeeded, Some(0)));
    same_when_read_again(&w);
}

#[test]
fn a_node_whose_word_was_written_is_not_waited_for_again() {
    let mut w = TestSite::new(1, 8);
    let id = past_its_limit(&mut w);
    w.sleep(Span::secs(4));
    w.project("later");
    let log = durable(&w);
    w.sleep(Span::secs(1));
    assert_eq!(w.job(id).state, JobState::Stopping);
    append_fails(&mut w, log);
    assert_eq!(w.job(id).state, JobState::Stopping);
    same_when_read_again(&w);
}

#[test]
fn what_ran_is_counted_until_it_ended_and_not_until_that_was_heard() {
    let mut w = TestSite::new(1, 8);
    let from = w.now;
    let id = w.run(gang(1, 8));
    w.pass(Span::secs(2));
    restart(&mut w, Span::secs(10));
    let key = w.key(id);
    w.connect(0, 8, "boot", vec![(key, Observed::Running)]);
    ended(&mut w, id, 0, Observed::Ended(SlotEnd::Ok), Some(Span::secs(7)));
    let j = w.job(id);
    assert_eq!((j.state, j.past[0].freed()), (JobState::Succeeded, from + Span::secs(5)));
    // Reports of the job and of the fleet, fair share.
    let (mut lives, mut fleet) = (JobHistories::default(), Fleet::default());
    for r in &w.log {
        lives.apply(r);
        fleet.apply(r, &no_observation);
    }
    let had = 8000 * 5000u128;
    for read in [lives.get(id), None] {
        let g = goodput(j, read, &BTreeMap::new(), w.now);
        assert_eq!((g.allocated_gpu, g.gpu.get(Part::Productive)), (had, had), "{g:#?}");
    }
    let report = fleet.report(w.now, (Time(0), w.now), Step::Hour, None, &no_observation);
    assert_eq!(report.rows.iter().map(|r| r.work.held.total()).sum::<u128>(), had);
    let (s, half) = (w.engine.state(), Span::hours(7 * 24));
    let used: u128 = s.usage.values().map(|u| u.at(w.now, half)).sum();
    // Steps of a half-life are rounded, here by 0.01% and upwards: twelve seconds are a step and a rest, the
    // seven that are taken back are less than a step.
    assert!(used.abs_diff(had) < had / 5000, "{used} of {had}");
    assert!(s.usage.values().all(|u| u.rate == 0));
    same_when_read_again(&w);
}

#[test]
fn no_clock_of_a_node_invents_an_end_before_the_start_or_in_the_future() {
    let hour = Span::hours(1);
    for (ago, ran) in [(Some(Span(u64::MAX)), Span(0)), (Some(Span(0)), hour), (None, hour)] {
        let mut w = TestSite::new(1, 8);
        let id = w.run(gang(1, 8));
        w.pass(hour);
        ended(&mut w, id, 0, Observed::Ended(SlotEnd::Ok), ago);
        let p = &w.job(id).past[0];
        assert_eq!(p.freed().since(p.started_at.unwrap()), ran, "{ago:?}");
        same_when_read_again(&w);
    }
}

#[test]
fn a_gang_ends_with_its_last_rank_in_whatever_order_that_is_heard() {
    let mut w = TestSite::new(2, 8);
    let from = w.now;
    let id = w.run(gang(2, 8));
    w.pass(Span::secs(20));
    ended(&mut w, id, 0, Observed::Ended(SlotEnd::Ok), None);
    w.pass(Span::secs(10));
    ended(&mut w, id, 1, Observed::Ended(SlotEnd::Ok), Some(Span::secs(25)));
    assert_eq!(w.job(id).past[0].freed(), from + Span::secs(20));
    let mut lives = JobHistories::default();
    w.log.iter().for_each(|r| lives.apply(r));
    let g = goodput(w.job(id), lives.get(id), &BTreeMap::new(), w.now);
    assert_eq!(g.allocated_gpu, 8000 * (20_000 + 5000), "{g:#?}");
    same_when_read_again(&w);
}

#[test]
fn what_goes_with_its_agent_while_no_server_is_there_is_no_failure_of_hardware() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(gang(1, 8));
    let n = w.nodes_of(id)[0].clone();
    w.report(id, &n, Observed::Ended(SlotEnd::fault("no room on its disk")));
    w.pass(Span::secs(60));
    w.start(id);
    let (killed, i) = (w.now, number(&w.nodes_of(id)[0]));
    restart(&mut w, Span::secs(33));
    let heard = w.now;
    // The same machine, and its agent knows nothing of the attempt: it started with the server.
    w.connect(i, 8, "boot", Vec::new());
    let j = w.job(id);
    let p = j.past.last().unwrap();
    assert_eq!((p.no, p.verdict, p.freed()), (2, Verdict::Platform, killed), "{p:?}");
    assert_eq!(j.state, JobState::Starting, "its place is not given to others meanwhile");
    let r = j.recovery.expect("it comes back");
    assert_eq!((r.fault_at, r.found_at), (killed, heard), "with the time without a server");
    w.pass(Span::secs(2));
    w.start(id);
    let (mut lives, mut fleet) = (JobHistories::default(), Fleet::default());
    for r in &w.log {
        lives.apply(r);
        fleet.apply(r, &no_observation);
    }
    let g = goodput(w.job(id), lives.get(id), &BTreeMap::new(), w.now);
    // The first took a minute.
    assert_eq!(g.recover, Some(Span((60_000 + 35_000) / 2)));
    let report = fleet.report(w.now, (Time(0), w.now), Step::Hour, None, &no_observation);
    let all = report.rows.iter().fold((0, 0), |(i, p), r| {
        let n = &r.work.interrupted;
        (i + n.infrastructure, p + n.platform)
    });
    assert_eq!(all, (1, 1));
    same_when_read_again(&w);
}

#[test]
fn what_goes_with_its_machine_is_a_failure_of_hardware() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(gang(1, 8));
    let i = number(&w.nodes_of(id)[0]);
    restart(&mut w, Span::secs(33));
    w.connect(i, 8, "another boot", Vec::new());
    assert_eq!(w.job(id).past[0].verdict, Verdict::Infrastructure);
    same_when_read_again(&w);
}

#[test]
fn the_cause_is_looked_for_from_the_end_of_a_rank_and_not_from_when_that_was_heard() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(gang(1, 8));
    w.pass(Span::secs(10));
    restart(&mut w, Span::secs(9));
    let key = w.key(id);
    w.connect(0, 8, "boot", vec![(key, Observed::Running)]);
    ended(&mut w, id, 0, crash(0, 3), Some(Span::secs(6)));
    // Its node may have more to say about it.
    w.pass(Span(1_999));
    assert_eq!(w.job(id).state, JobState::Stopping);
    w.pass(Span(1));
    assert_eq!((w.job(id).state, w.job(id).exit_code), (JobState::Failed, Some(3)));
    same_when_read_again(&w);
}
