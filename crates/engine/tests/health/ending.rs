//! Between the end of a job's last rank and the end of the job its cause is looked for, for seconds.
//! Nothing is allocated to it then, and nothing that is asked of it changes what happened.

use super::ended::no_odd_steps;
use super::*;
use crate::common::{crash, gang, replay};
use muster_metering::{Fleet, JobHistories, Step, goodput, no_observation};
use muster_model::command::RefusalCode;
use muster_model::job::{JobState, StopReason, Verdict};
use muster_model::spec::Priority;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// A job on a node of eight GPUs that has just ended with exit code 3.
fn ending(w: &mut TestSite) -> (JobId, NodeName) {
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    w.pass(Span::secs(100));
    w.report(job, &n, crash(0, 3));
    assert!(w.job(job).ending_until().is_some(), "{:?}", w.job(job).state);
    (job, n)
}

fn held_now(w: &TestSite) -> (u32, u64) {
    let report = w.engine.state().quota_report(w.now);
    let all = report.accounts.iter().filter(|a| a.user.is_none());
    all.fold((0, 0), |sum, a| (sum.0 + a.running, sum.1 + a.used_milli))
}

#[test]
fn what_is_allocated_ends_with_the_last_rank_for_everybody_who_counts() {
    let mut w = able(1);
    let from = w.now;
    let (first, n) = ending(&mut w);
    let freed = w.now;
    assert_eq!(w.job(first).attempt.as_ref().unwrap().freed_at, Some(freed));
    // Quotas, fair share and the node itself count nothing.
    assert_eq!(held_now(&w), (0, 0));
    assert!(w.engine.state().usage.values().all(|u| u.rate == 0));
    assert!(w.engine.state().used_gpus(&n).is_empty());
    let second = w.run(gang(1, 8));
    assert_eq!(held_now(&w), (1, 8000));
    w.pass(Span::secs(5));
    let j = w.job(first);
    assert_eq!((j.state, j.exit_code), (JobState::Failed, Some(3)));
    let p = &j.past[0];
    assert_eq!((p.ended_at, p.freed()), (freed + Span::secs(5), freed));
    assert_eq!(j.ended_at, Some(freed + Span::secs(5)), "it is settled later");
    assert_eq!(j.ended(), Some(freed), "it ended with its ranks");
    w.pass(Span::secs(95));
    w.finish(second);
    assert_eq!(w.job(second).state, JobState::Succeeded);
    // Each had the node for 100 s, one after the other: 200 s of 8 GPUs in all.
    let (mut lives, mut fleet) = (JobHistories::default(), Fleet::default());
    for r in &w.log {
        lives.apply(r);
        fleet.apply(r, &no_observation);
    }
    let each = 8000 * 100_000u128;
    for id in [first, second] {
        for read in [lives.get(id), None] {
            let g = goodput(w.job(id), read, &BTreeMap::new(), w.now);
            assert_eq!(g.allocated_gpu, each, "{id}: {g:#?}");
            assert_eq!(g.time.total(), u128::from(g.wall.0), "{id}");
        }
    }
    let report = fleet.report(w.now, (Time(0), w.now), Step::Hour, None, &no_observation);
    let held: u128 = report.rows.iter().map(|r| r.work.held.total()).sum();
    assert_eq!(held, 2 * each);
    assert_eq!(held, u128::from(w.now.since(from).0) * 8000, "all the node had");
    assert!(lives.allocated().is_empty());
    no_odd_steps(&w);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// What may be asked of a job, whether it is refused, and how the job stands after it.
type Row = (&'static str, fn(JobId) -> Command, Option<RefusalCode>, JobState);

const ASKED: [Row; 6] = [
    ("hold", |job| Command::Hold { job }, Some(RefusalCode::Conflict), JobState::Stopping),
    ("release", |job| Command::Release { job }, None, JobState::Stopping),
    (
        "extend its limit",
        |job| Command::UpdateJob { job, priority: None, time_limit: Some(Span::mins(9)) },
        Some(RefusalCode::Conflict),
        JobState::Stopping,
    ),
    (
        "checkpoint",
        |job| Command::AskCheckpoint { job },
        Some(RefusalCode::Conflict),
        JobState::Stopping,
    ),
    ("cancel", |job| Command::Cancel { job }, None, JobState::Failed),
    ("requeue", |job| Command::Requeue { job }, None, JobState::Starting),
];

#[test]
fn what_is_asked_of_a_job_that_is_ending_does_not_rewrite_how_it_ended() {
    for (what, command, refused, after) in ASKED {
        let mut w = able(2);
        let (job, _) = ending(&mut w);
        let before = w.log.len();
        let got = w.send(command(job));
        assert_eq!(got.as_ref().err().map(|r| r.code), refused, "{what}: {got:?}");
        let j = w.job(job);
        assert_eq!(j.state, after, "{what}");
        if after == JobState::Stopping {
            assert_eq!(w.log.len(), before, "{what} leaves no trace");
            assert!(j.ending_until().is_some(), "{what}: its cause is still looked for");
            if let Err(r) = got {
                assert!(r.message.contains("is ending"), "{what}: {}", r.message);
            }
            w.pass(Span::secs(5));
        }
        let j = w.job(job);
        let p = &j.past[0];
        assert_eq!(p.verdict, Verdict::Application, "{what}");
        assert!(p.reason.contains("rank 0") && !p.reason.contains("by"), "{what}: {}", p.reason);
        if what == "requeue" {
            assert_eq!((j.attempts, j.exit_code), (2, None));
        } else {
            assert_eq!(
                (j.state, j.exit_code, j.attempts),
                (JobState::Failed, Some(3), 1),
                "{what}"
            );
        }
        let stops = w.since(0).filter(|e| matches!(e, Event::StopOrdered { .. })).count();
        assert_eq!(stops, 1, "{what}: nothing is stopped that has ended");
        no_odd_steps(&w);
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn nothing_that_happens_around_a_job_that_is_ending_stops_it_again() {
    let mut w = able(1);
    let (job, n) = ending(&mut w);
    // Somebody who ranks higher needs the node, and gets it: it is free.
    let mut urgent = gang(1, 8);
    urgent.priority = Priority::High;
    let urgent = w.submit(urgent);
    assert_eq!(w.nodes_of(urgent), std::slice::from_ref(&n));
    w.ok(Command::Drain { node: n.clone(), reason: "fan".into(), stop: true });
    let stop = w.job(job).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert!(matches!(stop.reason, StopReason::SlotFailed { .. }), "{stop:?}");
    w.pass(Span::secs(5));
    let j = w.job(job);
    assert_eq!((j.state, j.exit_code, j.preemptions), (JobState::Failed, Some(3), 0));
    no_odd_steps(&w);
}

#[test]
fn a_job_that_is_queued_again_keeps_its_first_result_and_a_late_cause_leaves_the_new_attempt_alone()
{
    let mut w = able(4);
    let (job, n) = ending(&mut w);
    w.pass(Span::secs(5));
    let first = w.job(job).past[0].clone();
    assert_eq!((w.job(job).state, first.no), (JobState::Failed, 1));
    w.ok(Command::Cordon { node: n.clone(), reason: "look".into() });
    w.ok(Command::Requeue { job });
    w.start(job);
    let key = w.key(job);
    assert_eq!((key.attempt, w.job(job).state), (2, JobState::Running), "a number of its own");
    assert_ne!(w.nodes_of(job), std::slice::from_ref(&n));
    assert_eq!(
        w.job(job).past,
        std::slice::from_ref(&first),
        "what became of the first is still known"
    );
    assert!(first.reason.contains('3'), "{}", first.reason);
    // Why the first one ended is learnt while the second one runs.
    let before = w.log.len();
    xid79(&mut w, &n);
    w.sleep(Span::mins(1));
    let j = w.job(job);
    assert_eq!((j.past[0].no, j.past[0].verdict), (1, Verdict::Infrastructure));
    assert_eq!((j.state, j.attempt_key(), j.attempts), (JobState::Running, Some(key), 2));
    let of_new = |e: &&Event| match e {
        Event::StopOrdered { key: k, .. }
        | Event::AttemptEnded { key: k, .. }
        | Event::AttemptAttributed { key: k, .. } => *k == key,
        _ => false,
    };
    assert!(!w.since(before).any(|e| of_new(&e)));
    w.finish(job);
    let j = w.job(job);
    assert_eq!((j.state, j.exit_code, j.past.len()), (JobState::Succeeded, Some(0), 2));
    no_odd_steps(&w);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_fault_on_any_node_of_a_large_gang_explains_its_end() {
    let mut w = able(20);
    let job = w.run(gang(20, 8));
    let last = w.nodes_of(job)[19].clone();
    w.report(job, &last, crash(19, 3));
    w.stopped(job);
    w.sleep(Span::secs(30));
    assert_eq!(w.job(job).state, JobState::Failed);
    assert_eq!(w.job(job).past[0].verdict, Verdict::Application);
    xid79(&mut w, &last);
    let p = &w.job(job).past[0];
    assert_eq!(p.verdict, Verdict::Infrastructure, "{p:?}");
    assert!(p.reason.contains("gpu-off-bus"), "{p:?}");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
