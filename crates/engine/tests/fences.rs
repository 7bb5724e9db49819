//! Fences: no attempt starts while ranks of the one before may still write.

use crate::common;

use crate::health::{able, xid79};
use common::{TestSite, checkpoints, connected, gang, inventory, node, number, replay, said_ahead};
use muster_engine::{Engine, Policy};
use muster_model::command::{Command, Observed, RefusalCode};
use muster_model::event::Event;
use muster_model::hold::HeldBy;
use muster_model::ids::{AttemptKey, Epoch};
use muster_model::job::{JobState, SlotEnd, StopReason};
use muster_model::spec::{CheckpointSpec, FENCE_MARGIN, JobSpec, OnPartition, lease_grace};
use muster_model::units::Span;
use std::sync::Arc;

#[test]
fn with_a_checkpoint_directory_no_new_attempt_starts_before_the_old_one_must_have_stopped() {
    let mut w = TestSite::new(4, 8);
    let mut spec = gang(1, 8);
    spec.checkpoint = Some(CheckpointSpec {
        dir: "/ckpt".into(),
        request: muster_model::spec::CheckpointRequest::default(),
        grace: Some(Span::secs(20)),
        interval: None,
    });
    spec.on_partition = Some(OnPartition::StopAfter(Span::secs(60)));
    let id = w.submit(spec);
    w.start(id);
    let gone = w.nodes_of(id)[0].clone();
    w.pass(Span::secs(30));
    let last_seen = w.now - Span::secs(30);
    w.ok(Command::NodeLost { node: gone, last_seen });
    assert_eq!(w.job(id).state, JobState::Stopping);
    w.pass(Span::secs(49));
    // Of its grace ranks without a server have 10 s at most.
    assert_eq!(w.job(id).state, JobState::Stopping, "fenced until last seen + 60 + 10 + 10 s");
    w.pass(Span::secs(1));
    assert_eq!(w.job(id).state, JobState::Starting);
}

#[test]
fn after_a_lost_node_a_job_that_says_nothing_starts_again_two_minutes_and_twenty_seconds_later() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) });
    assert_eq!(w.job(id).spec.on_partition, Some(OnPartition::StopAfter(Span::mins(2))));
    assert_eq!(w.job(id).spec.restart_delay(), Some(Span::secs(140)), "what its user reads");
    let (gone, last_seen) = (w.nodes_of(id)[0].clone(), w.now);
    w.pass(Span::secs(30));
    w.ok(Command::NodeLost { node: gone, last_seen });
    let stop = w.job(id).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert_eq!(stop.fence_until, Some(last_seen + Span::secs(140)));
    w.pass(Span::secs(109));
    assert_eq!(w.job(id).state, JobState::Stopping, "its ranks may still write");
    w.pass(Span::secs(1));
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    // Who writes no checkpoints has nothing to wait for, and nothing is written down.
    let plain = w.submit(gang(1, 1));
    assert_eq!((w.job(plain).spec.on_partition, w.job(plain).spec.restart_delay()), (None, None));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_job_of_an_older_log_is_fenced_by_the_lease_that_its_ranks_have() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) });
    // As it was written when the default was five minutes and not in the log.
    for r in &mut w.log {
        if let Event::JobSubmitted { spec, .. } = &mut r.event {
            *spec = Arc::new(JobSpec { on_partition: None, ..(**spec).clone() });
        }
    }
    w.engine = Engine::new(replay(&w.log), Policy::default());
    assert_eq!(w.job(id).spec.partition(), OnPartition::StopAfter(Span::mins(5)));
    let (gone, last_seen) = (w.nodes_of(id)[0].clone(), w.now);
    w.ok(Command::NodeLost { node: gone, last_seen });
    let stop = w.job(id).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert_eq!(stop.fence_until, Some(last_seen + Span::mins(5) + Span::secs(20)));
}

#[test]
fn a_fence_begins_anew_with_a_leader_whose_clock_is_ahead() {
    let mut w = TestSite::new(4, 8);
    let mut spec = gang(1, 8);
    spec.checkpoint = checkpoints(false);
    spec.checkpoint.as_mut().unwrap().grace = Some(Span::secs(20));
    spec.on_partition = Some(OnPartition::StopAfter(Span::secs(60)));
    let id = w.submit(spec);
    w.start(id);
    let gone = w.nodes_of(id)[0].clone();
    let last_seen = w.now;
    w.ok(Command::NodeLost { node: gone, last_seen });
    assert_eq!(w.job(id).state, JobState::Stopping);
    // Seconds later another server leads; the clock was set meanwhile.
    w.now = w.now + Span::hours(1);
    let epoch = Epoch(2);
    w.ok(Command::Lead { epoch, server: "s".into(), restored: false });
    // At the same moment the next one has nothing new to order.
    let (from, epoch) = (w.log.len(), Epoch(3));
    w.ok(Command::Lead { epoch, server: "s".into(), restored: false });
    assert!(!w.since(from).any(|e| matches!(e, Event::StopOrdered { .. })));
    w.pass(Span::secs(79));
    assert_eq!(w.job(id).state, JobState::Stopping, "60 + 10 + 10 s from the new lead on");
    w.pass(Span::secs(1));
    assert_eq!(w.job(id).state, JobState::Starting);
}

#[test]
fn what_is_left_of_a_wait_begins_anew_with_a_leader_whose_clock_is_ahead() {
    let mut w = TestSite::new(2, 8);
    let first = w.run(gang(2, 8));
    let id = w.submit(JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) });
    restore(&mut w);
    w.sleep(Span::mins(10));
    let key = AttemptKey { job: id, attempt: 1 };
    let observed = vec![(w.key(first), Observed::Running), (key, Observed::Running)];
    w.connect(1, 8, "boot", observed);
    w.finish(first);
    w.ok(Command::SlotReport { node: node(1), key, observed: unseen(), ago: None });
    assert_eq!(w.job(id).not_before, w.now + Span::secs(140), "its ranks may still write");
    let since = w.engine.state().at;
    let left = w.job(id).not_before.since(since);
    // Seconds later another server leads; its clock is an hour ahead.
    w.now = w.now + Span::hours(1);
    w.ok(Command::Lead { epoch: Epoch(5_000_001), server: "s".into(), restored: false });
    assert_eq!((w.job(id).state, w.job(id).not_before), (JobState::Queued, w.now + left));
    // At the same moment the next one has nothing new to say.
    let from = w.log.len();
    w.ok(Command::Lead { epoch: Epoch(5_000_002), server: "s".into(), restored: false });
    assert!(!w.since(from).any(|e| matches!(e, Event::JobRequeued { .. })));
    w.pass(Span(left.0 - 1));
    assert_eq!(w.job(id).state, JobState::Queued, "no second attempt beside the first");
    w.pass(Span(1));
    assert_eq!(w.job(id).state, JobState::Starting);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_order_that_only_gets_another_fence_is_counted_once() {
    let mut w = able(8);
    let mut spec = gang(1, 8);
    spec.checkpoint = checkpoints(false);
    let id = w.run(spec);
    w.pass(Span::secs(60));
    let gone = w.nodes_of(id)[0].clone();
    xid79(&mut w, &gone);
    let (first, stopped) = (w.job(id).recovery.unwrap(), w.now);
    let stop = |w: &TestSite| w.job(id).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert!(matches!(stop(&w).reason, StopReason::Unhealthy { .. }), "{:?}", stop(&w));
    assert_eq!(first.decided_at, stopped);
    // Its node is lost on top of it, and then the server.
    w.pass(Span::secs(10));
    w.lose(&gone);
    let fence = stop(&w).fence_until.expect("its ranks may write for a while");
    w.pass(Span::secs(10));
    w.ok(Command::Lead { epoch: Epoch(2), server: "s".into(), restored: false });
    assert!(stop(&w).fence_until > Some(fence), "begun anew");
    assert_eq!((stop(&w).at, w.job(id).recovery), (stopped, Some(first)));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_fence_is_never_before_ranks_without_a_server_have_been_killed() {
    // Of the site and of the job, in seconds.
    let graces =
        [(30, None), (30, Some(0)), (1, None), (0, Some(60)), (1, Some(0)), (30, Some(300))];
    for (site, own) in graces {
        let mut w = TestSite::new(2, 8);
        let policy = Policy { grace: Span::secs(site), ..Policy::default() };
        w.engine = Engine::new(w.engine.state().clone(), policy);
        let mut spec = gang(1, 8);
        spec.checkpoint = checkpoints(false);
        spec.checkpoint.as_mut().unwrap().grace = own.map(Span::secs);
        let after = Span::secs(60);
        spec.on_partition = Some(OnPartition::StopAfter(after));
        let killed = after.0 + lease_grace(spec.checkpoint.as_ref()).0;
        let id = w.submit(spec);
        w.start(id);
        let (gone, last_seen) = (w.nodes_of(id)[0].clone(), w.now);
        w.pass(Span::secs(30));
        w.ok(Command::NodeLost { node: gone, last_seen });
        let job = w.job(id).clone();
        let stop = job.attempt.as_ref().unwrap().stop.clone().unwrap();
        let fence = stop.fence_until.unwrap().since(last_seen);
        // Those that were being stopped when it was heard last may have had all of their grace.
        let killed = killed.max(stop.grace.0);
        assert_eq!(fence.0, killed + FENCE_MARGIN.0, "{site} {own:?}: {fence} after it was heard");
    }
}

#[test]
fn a_lost_node_is_not_retired_while_its_ranks_may_still_write() {
    let mut w = TestSite::new(2, 8);
    let mut spec = gang(1, 8);
    spec.checkpoint = checkpoints(false);
    spec.on_partition = Some(OnPartition::StopAfter(Span::secs(60)));
    let id = w.submit(spec);
    w.start(id);
    let gone = w.nodes_of(id)[0].clone();
    w.ok(Command::NodeLost { node: gone.clone(), last_seen: w.now });
    let e = w.send(Command::Retire { node: gone.clone() }).unwrap_err();
    assert_eq!(e.code, RefusalCode::Conflict);
    assert!(e.message.contains(&format!("ranks of job {id} may write there for")), "{}", e.message);
    assert_eq!(w.job(id).state, JobState::Stopping, "no second attempt beside the first");
    w.pass(Span::mins(10));
    w.ok(Command::Retire { node: gone });
}

/// Saves to a directory, and its ranks stop a minute after they have lost the server.
fn saving() -> JobSpec {
    let on_partition = Some(OnPartition::StopAfter(Span::secs(60)));
    JobSpec { checkpoint: checkpoints(false), on_partition, ..gang(1, 8) }
}

#[test]
fn a_cancelled_job_is_over_when_its_ranks_on_a_lost_node_have_certainly_stopped() {
    for requeued in [false, true] {
        let mut w = TestSite::new(2, 8);
        let id = w.run(saving());
        let gone = w.nodes_of(id)[0].clone();
        w.lose(&gone);
        if requeued {
            w.ok(Command::Requeue { job: id });
        }
        w.ok(Command::Cancel { job: id });
        assert_eq!(w.job(id).state, JobState::Stopping, "its ranks may still write");
        let why = w.explain(id).summary;
        assert!(why.contains(&format!("its ranks on {gone} may still write, for")), "{why}");
        let e = w.send(Command::Retire { node: gone.clone() }).unwrap_err();
        assert!(e.message.contains(&format!("ranks of job {id} may write there")), "{e:?}");
        // Who would write beside them hears of it.
        let other = w.submit(saving());
        let note = w.explain(other).constraints.into_iter().find(|c| c.name == "checkpoint");
        assert!(note.is_some_and(|c| c.detail.contains(&format!("job {id}, which is stopping"))));
        w.pass(Span::secs(79));
        assert_eq!(w.job(id).state, JobState::Stopping);
        w.pass(Span::secs(1));
        assert_eq!(w.job(id).state, JobState::Cancelled);
        w.pass(Span::secs(1));
        w.ok(Command::Retire { node: gone });
        w.start(other);
        w.finish(other);
        w.ok(Command::Requeue { job: id });
        assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_node_that_is_lost_while_its_job_is_being_cancelled_is_waited_for_too() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(saving());
    w.ok(Command::Cancel { job: id });
    let gone = w.nodes_of(id)[0].clone();
    w.lose(&gone);
    assert_eq!(w.job(id).state, JobState::Stopping, "its ranks may still write");
    w.pass(Span::secs(80));
    assert_eq!(w.job(id).state, JobState::Cancelled);
    // Who saves nowhere is over at once.
    let plain = w.run(gang(1, 8));
    w.ok(Command::Cancel { job: plain });
    let gone = w.nodes_of(plain)[0].clone();
    w.lose(&gone);
    assert_eq!(w.job(plain).state, JobState::Cancelled);
}

#[test]
fn a_job_without_a_retry_is_over_when_its_ranks_on_a_lost_node_have_certainly_stopped() {
    let mut w = TestSite::new(2, 8);
    let mut spec = saving();
    spec.retries.infrastructure = 0;
    let id = w.run(spec);
    let gone = w.nodes_of(id)[0].clone();
    w.lose(&gone);
    assert_eq!(w.job(id).state, JobState::Stopping, "its ranks may still write");
    w.pass(Span::secs(80));
    assert_eq!(w.job(id).state, JobState::Failed);
}

#[test]
fn a_cancelled_job_whose_ranks_go_on_for_good_is_over_when_its_lost_node_is_heard() {
    let mut w = TestSite::new(2, 8);
    let on_partition = Some(OnPartition::Continue);
    let id = w.run(JobSpec { on_partition, ..saving() });
    let (key, gone) = (w.key(id), w.nodes_of(id)[0].clone());
    w.lose(&gone);
    w.ok(Command::Cancel { job: id });
    w.pass(Span::hours(10));
    assert_eq!(w.job(id).state, JobState::Stopping, "nobody knows whether they still write");
    let why = w.explain(id).summary;
    assert!(why.contains("may still run, until it connects again"), "{why}");
    let ended = Observed::Ended(SlotEnd::Stopped);
    w.connect(number(&gone), 8, "boot", vec![(key, ended)]);
    assert_eq!(w.job(id).state, JobState::Cancelled);
}

/// What an agent says that gives ranks up without having seen them end.
fn unseen() -> Observed {
    Observed::Ended(SlotEnd::unproven("the agent's directory is a copy"))
}

#[test]
fn an_end_that_its_agent_did_not_see_is_waited_for_like_a_lost_node() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) });
    let (key, here, asked_at) = (w.key(id), w.nodes_of(id)[0].clone(), w.now);
    w.report(id, &here, unseen());
    let stop = w.job(id).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert_eq!(stop.fence_until, Some(asked_at + Span::secs(140)), "its lease is 2 minutes");
    assert!(stop.reason.to_string().contains("may still run"), "{}", stop.reason);
    assert!(w.engine.state().is_lost_on(&here, key), "its agent must not forget it");
    // However often that is reported.
    w.pass(Span::secs(100));
    w.connect(number(&here), 8, "boot", vec![(key, unseen())]);
    w.ok(Command::SlotReport { node: here, key, observed: unseen(), ago: None });
    w.pass(Span::secs(39));
    assert_eq!(w.job(id).state, JobState::Stopping, "its ranks may still write");
    w.pass(Span::secs(1));
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    w.start(id);
    w.finish(id);
    // Who writes no checkpoints has nothing to wait for.
    let plain = w.run(gang(1, 8));
    let here = w.nodes_of(plain)[0].clone();
    w.report(plain, &here, unseen());
    assert_eq!((w.job(plain).state, w.job(plain).attempts), (JobState::Starting, 2));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn ranks_that_were_given_up_unseen_and_then_seen_to_end_are_waited_for_no_longer() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) });
    let (key, here) = (w.key(id), w.nodes_of(id)[0].clone());
    w.report(id, &here, unseen());
    assert_eq!(w.job(id).state, JobState::Stopping);
    // The agent of the first directory is back, and has stopped them.
    w.connect(number(&here), 8, "boot", vec![(key, Observed::Running)]);
    assert_eq!(w.job(id).state, JobState::Stopping);
    let observed = Observed::Ended(SlotEnd::Stopped);
    w.ok(Command::SlotReport { node: here, key, observed, ago: None });
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_cancelled_job_whose_ranks_were_not_seen_to_end_is_over_with_their_lease() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) });
    let here = w.nodes_of(id)[0].clone();
    w.report(id, &here, unseen());
    w.ok(Command::Cancel { job: id });
    w.pass(Span::secs(139));
    assert_eq!(w.job(id).state, JobState::Stopping, "queued anew, it would write beside them");
    w.pass(Span::secs(1));
    assert_eq!(w.job(id).state, JobState::Cancelled);
    w.ok(Command::Requeue { job: id });
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// Ranks of it go on without a server for good.
fn goes_on(nodes: u32) -> JobSpec {
    JobSpec { on_partition: Some(OnPartition::Continue), ..gang(nodes, 8) }
}

#[test]
fn an_end_that_its_agent_did_not_see_is_waited_for_by_the_clock_where_ranks_go_on_for_good() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(goes_on(1));
    let (key, here, asked_at) = (w.key(id), w.nodes_of(id)[0].clone(), w.now);
    w.report(id, &here, unseen());
    let fence =
        |w: &TestSite| w.job(id).attempt.as_ref().unwrap().stop.as_ref().unwrap().fence_until;
    assert_eq!(fence(&w), Some(asked_at + Span::secs(140)), "nobody will say more");
    // However often that is reported.
    w.pass(Span::secs(100));
    w.connect(number(&here), 8, "boot", vec![(key, unseen())]);
    w.ok(Command::SlotReport { node: here, key, observed: unseen(), ago: None });
    assert_eq!(fence(&w), Some(asked_at + Span::secs(140)));
    w.pass(Span::secs(39));
    assert_eq!(w.job(id).state, JobState::Stopping, "its ranks may still write");
    w.pass(Span::secs(1));
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_cancelled_job_that_goes_on_for_good_is_over_when_its_unseen_ranks_were_waited_for() {
    for cancelled_first in [false, true] {
        let mut w = TestSite::new(2, 8);
        let id = w.run(goes_on(1));
        let here = w.nodes_of(id)[0].clone();
        if cancelled_first {
            w.ok(Command::Cancel { job: id });
        }
        w.report(id, &here, unseen());
        if !cancelled_first {
            w.ok(Command::Cancel { job: id });
        }
        w.pass(Span::secs(139));
        assert_eq!(w.job(id).state, JobState::Stopping, "queued anew, it would write beside them");
        w.pass(Span::secs(1));
        assert_eq!(w.job(id).state, JobState::Cancelled);
        w.ok(Command::Requeue { job: id });
        assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_lost_node_that_comes_back_without_having_seen_the_end_is_waited_for_no_longer_than_others() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(goes_on(1));
    let (key, gone) = (w.key(id), w.nodes_of(id)[0].clone());
    w.lose(&gone);
    w.pass(Span::hours(10));
    assert_eq!(w.job(id).state, JobState::Stopping, "nobody knows whether it still runs");
    w.connect(number(&gone), 8, "boot", vec![(key, unseen())]);
    w.pass(Span::secs(139));
    assert_eq!(w.job(id).state, JobState::Stopping, "its ranks may still write");
    w.pass(Span::secs(1));
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn beside_an_unseen_end_a_lost_node_is_waited_for_until_it_is_heard_where_ranks_go_on_for_good() {
    let mut w = TestSite::new(4, 8);
    let id = w.run(goes_on(2));
    let (key, nodes) = (w.key(id), w.nodes_of(id));
    w.report(id, &nodes[0], unseen());
    w.lose(&nodes[1]);
    w.sleep(Span::mins(10));
    assert_eq!(w.job(id).state, JobState::Stopping, "there it may still run");
    let ended = Observed::Ended(SlotEnd::Stopped);
    w.connect(number(&nodes[1]), 8, "boot", vec![(key, ended)]);
    w.sleep(Span::secs(140));
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_end_that_its_agent_did_not_see_is_no_failure_of_its_node() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) });
    let here = w.nodes_of(id)[0].clone();
    w.report(id, &here, unseen());
    w.pass(Span::secs(140));
    assert_eq!(w.job(id).past.len(), 1, "it is over");
    let record = w.engine.state().health.records.get(&here);
    let hit: Vec<_> = record.into_iter().flat_map(|r| r.jobs(w.now)).collect();
    assert!(hit.is_empty(), "nothing is wrong with the hardware: {hit:?}");
}

/// The log is restored from a backup.
fn restore(w: &mut TestSite) {
    w.pass(Span::mins(1));
    w.ok(Command::Lead { epoch: Epoch(5_000_000), server: "s".into(), restored: true });
}

#[test]
fn what_a_restored_log_holds_is_not_started_before_ranks_of_the_lost_life_have_stopped() {
    let mut w = TestSite::new(3, 8);
    let saves = |spec: JobSpec| JobSpec { checkpoint: checkpoints(false), ..spec };
    let runs = w.run(saves(gang(1, 8)));
    let waits = w.submit(saves(gang(3, 8)));
    let plain = w.submit(gang(3, 8));
    restore(&mut w);
    // The lost life had given it up on its node.
    let here = w.nodes_of(runs)[0].clone();
    w.connect(number(&here), 8, "boot", Vec::new());
    assert_eq!(w.job(plain).state, JobState::Starting, "it writes nowhere");
    w.start(plain);
    w.finish(plain);
    for id in [runs, waits] {
        let job = w.job(id);
        assert_eq!(job.state, JobState::Queued, "it may have been started elsewhere");
        assert!(job.not_before > w.now + Span::mins(2), "{:?}", job.not_before);
    }
    w.sleep(Span::mins(10));
    assert_eq!((w.job(runs).state, w.job(runs).attempts), (JobState::Starting, 2));
    w.start(runs);
    w.finish(runs);
    assert_eq!(w.job(waits).state, JobState::Starting);
    // Nothing of a later submission can be of a lost life.
    w.start(waits);
    w.finish(waits);
    let new = w.submit(saves(gang(1, 8)));
    assert_eq!(w.job(new).state, JobState::Starting);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_job_whose_ranks_of_a_lost_life_still_run_is_held_until_they_are_gone() {
    let mut w = TestSite::new(2, 8);
    let first = w.run(gang(2, 8));
    let id = w.submit(JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) });
    restore(&mut w);
    let key = AttemptKey { job: id, attempt: 1 };
    let observed = vec![(w.key(first), Observed::Running), (key, Observed::Running)];
    w.ok(said_ahead(connected(1, "boot", inventory(8), observed), true));
    let held = w.job(id).held.clone().expect("it runs there");
    assert!(held.name.contains("muster node reconcile n001"), "{held}");
    assert_eq!(held.by, HeldBy::LostRanks);
    let refused = w.send(Command::Release { job: id }).unwrap_err();
    assert!(refused.message.contains("still run on node n001"), "{refused:?}");
    w.finish(first);
    w.sleep(Span::hours(1));
    assert_eq!(w.job(id).state, JobState::Queued, "however long, and although a node is free");
    w.ok(Command::Reconcile { node: node(1) });
    assert_eq!(w.job(id).state, JobState::Queued, "they are being stopped");
    let observed = Observed::Ended(SlotEnd::Stopped);
    w.ok(Command::SlotReport { node: node(1), key, observed, ago: None });
    assert_eq!((w.job(id).state, w.job(id).held.clone()), (JobState::Starting, None));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_job_whose_ranks_of_a_lost_life_were_given_up_unseen_waits_as_long_as_they_may_go_on() {
    for connects in [true, false] {
        let mut w = TestSite::new(2, 8);
        let first = w.run(gang(2, 8));
        let id = w.submit(JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) });
        restore(&mut w);
        w.sleep(Span::mins(10));
        let key = AttemptKey { job: id, attempt: 1 };
        let observed = vec![(w.key(first), Observed::Running), (key, Observed::Running)];
        w.connect(1, 8, "boot", observed);
        assert_eq!(w.job(id).held.as_ref().map(|h| h.by.clone()), Some(HeldBy::LostRanks));
        w.finish(first);
        assert_eq!(w.job(id).state, JobState::Queued, "it runs there");
        if connects {
            w.connect(1, 8, "boot", vec![(key, unseen())]);
        } else {
            w.ok(Command::SlotReport { node: node(1), key, observed: unseen(), ago: None });
        }
        assert_eq!((w.job(id).state, w.job(id).held.clone()), (JobState::Queued, None));
        assert_eq!(w.job(id).not_before, w.now + Span::secs(140), "they may still write");
        w.sleep(Span::secs(140));
        assert_eq!(w.job(id).state, JobState::Starting);
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_job_that_goes_on_in_a_partition_is_not_started_beside_itself_nor_again() {
    let mut w = TestSite::new(2, 8);
    let mut spec = gang(1, 8);
    spec.on_partition = Some(OnPartition::Continue);
    let id = w.submit(spec);
    w.start(id);
    let key = w.key(id);
    let gone = w.nodes_of(id)[0].clone();
    w.ok(Command::NodeLost { node: gone.clone(), last_seen: w.now });
    w.pass(Span::mins(600));
    assert_eq!(w.job(id).state, JobState::Stopping, "nobody knows whether it still runs");
    w.connect(
        gone.as_str()[1..].parse().unwrap(),
        8,
        "boot",
        vec![(key, Observed::Ended(SlotEnd::Ok))],
    );
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Succeeded, 1), "its work is done");
}
