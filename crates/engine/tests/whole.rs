//! Work that is finished is not done again: ranks that ended well before anybody stopped them count,
//! also where their node was lost or the job was to make way for others.

use crate::common::{
    TestSite, checkpoints, connected, crash, gang, inventory, limited, number, replay,
};
use muster_engine::{Engine, Policy};
use muster_metering::{Fleet, JobHistories, Part, Step, goodput, no_observation};
use muster_model::command::{Command, Observed};
use muster_model::event::Event;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{JobState, SlotEnd, Verdict};
use muster_model::names::NodeName;
use muster_model::spec::JobSpec;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

const WELL: Observed = Observed::Ended(SlotEnd::Ok);
const STOPPED: Observed = Observed::Ended(SlotEnd::Stopped);

fn saves(spec: JobSpec) -> JobSpec {
    JobSpec { checkpoint: checkpoints(false), ..spec }
}

/// A node that was lost is heard again, and says what became of an attempt, and when.
fn back(w: &mut TestSite, n: &NodeName, key: AttemptKey, seen: Observed, ago: Option<Span>) {
    let mut hello = connected(number(n), "boot", inventory(8), vec![(key, seen)]);
    if let Command::NodeConnected { ended_ago, .. } = &mut hello {
        ended_ago.extend(ago.map(|ago| (key, ago)));
    }
    w.ok(hello);
}

fn same_when_read_again(w: &TestSite) {
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// A job that writes checkpoints on so many nodes ran for a minute when its first node was lost.
fn fenced(nodes: u32) -> (TestSite, JobId, Vec<NodeName>) {
    let mut w = TestSite::new(4, 8);
    let id = w.run(saves(gang(nodes, 8)));
    let all = w.nodes_of(id);
    w.pass(Span::mins(1));
    w.lose(&all[0]);
    assert_eq!(w.job(id).state, JobState::Stopping);
    (w, id, all)
}

#[test]
fn a_job_whose_ranks_had_ended_well_on_a_lost_node_succeeded() {
    let (mut w, id, all) = fenced(1);
    let next = w.submit(JobSpec { after: vec![format!("{id}:ok")], ..gang(1, 8) });
    let (key, from) = (w.key(id), w.log.len());
    w.pass(Span::secs(50));
    back(&mut w, &all[0], key, WELL, Some(Span::secs(60)));
    let j = w.job(id);
    assert_eq!((j.state, j.exit_code, &j.reason), (JobState::Succeeded, Some(0), &None));
    assert_eq!((j.attempts, j.infrastructure_failures), (1, 0));
    let p = &j.past[0];
    assert_eq!((p.verdict, p.stopped_for.as_ref(), p.stopped_at), (Verdict::Success, None, None));
    assert_eq!(j.ended(), Some(w.now - Span::secs(60)), "not when it was heard");
    assert_eq!(j.recovery, None, "it comes back from nothing");
    assert_eq!(w.job(next).state, JobState::Starting, "who waits for it goes on");
    // What happened to its node stays in the log.
    assert!(w.log.iter().any(|r| matches!(r.event, Event::SlotLost { .. })));
    assert!(!w.since(from).any(|e| matches!(e, Event::JobPlaced { key, .. } if key.job == id)));
    w.sleep(Span::hours(1));
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Succeeded, 1));
    same_when_read_again(&w);
}

#[test]
fn nothing_of_work_that_was_whole_is_counted_as_lost() {
    let (mut w, id, all) = fenced(1);
    let key = w.key(id);
    w.pass(Span::secs(50));
    // Its ranks ended ten seconds after the last heartbeat.
    back(&mut w, &all[0], key, WELL, Some(Span::secs(40)));
    let (mut lives, mut fleet) = (JobHistories::default(), Fleet::default());
    for r in &w.log {
        lives.apply(r);
        fleet.apply(r, &no_observation);
    }
    let had = 8000 * 70_000u128;
    let g = goodput(w.job(id), lives.get(id), &BTreeMap::new(), w.now);
    assert_eq!((g.allocated_gpu, g.gpu.get(Part::Productive)), (had, had), "{g:#?}");
    let report = fleet.report(w.now, (Time(0), w.now), Step::Hour, None, &no_observation);
    let (mut held, mut kept, mut hit) = (0, 0, 0);
    for row in &report.rows {
        held += row.work.held.total();
        kept += row.work.held.get(Part::Productive);
        hit += row.work.interrupted.total();
    }
    assert_eq!((held, kept, hit), (had, had, 0));
}

#[test]
fn a_gang_succeeded_when_the_last_of_its_ranks_is_known_to_have_ended_well() {
    // One rank ended before the loss was noticed, one after it and before the order reached it.
    let mut w = TestSite::new(4, 8);
    let id = w.run(saves(gang(3, 8)));
    let (key, all) = (w.key(id), w.nodes_of(id));
    w.report(id, &all[1], WELL);
    w.lose(&all[0]);
    w.report(id, &all[2], WELL);
    assert_eq!(w.job(id).state, JobState::Stopping, "of one nobody knows");
    w.pass(Span::secs(20));
    back(&mut w, &all[0], key, WELL, None);
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Succeeded, 1));
    same_when_read_again(&w);
}

#[test]
fn a_gang_of_which_one_rank_ended_otherwise_runs_again() {
    // What the lost rank and the other one say.
    let cases = [(STOPPED, WELL), (WELL, STOPPED), (crash(0, 1), WELL), (WELL, crash(1, 1))];
    for (lost, other) in cases {
        let (mut w, id, all) = fenced(2);
        let key = w.key(id);
        w.report(id, &all[1], other.clone());
        assert_eq!(w.job(id).state, JobState::Stopping);
        back(&mut w, &all[0], key, lost.clone(), None);
        let case = format!("{lost:?}, {other:?}");
        assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2), "{case}");
        same_when_read_again(&w);
    }
}

#[test]
fn ranks_that_ended_well_before_their_start_was_heard_succeeded_too() {
    let mut w = TestSite::new(2, 8);
    let id = w.submit(saves(limited(1, 8, 60)));
    let (key, n) = (w.key(id), w.nodes_of(id)[0].clone());
    w.lose(&n);
    w.pass(Span::secs(40));
    back(&mut w, &n, key, WELL, Some(Span::secs(30)));
    let j = w.job(id);
    assert_eq!((j.state, j.attempts, j.recovery), (JobState::Succeeded, 1, None));
    assert_eq!(j.past[0].started_at, Some(w.now), "it ran");
    same_when_read_again(&w);
}

#[test]
fn a_late_word_changes_nothing_once_the_next_attempt_was_placed() {
    let (mut w, id, all) = fenced(1);
    let key = w.key(id);
    w.sleep(Span::mins(3));
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    back(&mut w, &all[0], key, WELL, Some(Span::mins(3)));
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    assert_eq!(w.job(id).past[0].verdict, Verdict::Infrastructure);
    same_when_read_again(&w);
}

#[test]
fn who_cancels_a_job_or_queues_it_anew_is_obeyed_although_its_ranks_had_ended_well() {
    for (cancels, state, attempts) in
        [(true, JobState::Cancelled, 1), (false, JobState::Starting, 2)]
    {
        let (mut w, id, all) = fenced(1);
        let key = w.key(id);
        w.person(if cancels { Command::Cancel { job: id } } else { Command::Requeue { job: id } });
        back(&mut w, &all[0], key, WELL, None);
        assert_eq!((w.job(id).state, w.job(id).attempts), (state, attempts));
        same_when_read_again(&w);
    }
}

#[test]
fn a_job_whose_ranks_had_all_ended_well_when_its_node_was_drained_succeeded() {
    for (last, state) in [(WELL, JobState::Succeeded), (STOPPED, JobState::Starting)] {
        let mut w = TestSite::new(4, 8);
        let id = w.run(gang(2, 8));
        let all = w.nodes_of(id);
        w.report(id, &all[0], WELL);
        w.ok(Command::Drain { node: all[1].clone(), reason: "fans".into(), stop: true });
        assert_eq!(w.job(id).state, JobState::Stopping);
        w.pass(Span::secs(1));
        w.report(id, &all[1], last);
        assert_eq!(w.job(id).state, state);
        let drained = w.engine.state().nodes[&all[1]].stage;
        assert_eq!(drained, muster_model::node::Stage::Drained, "nothing is left there");
        same_when_read_again(&w);
    }
}

/// A job without checkpoints ran for a minute on so many nodes, which are all that there are, when they
/// were lost. It is back in the queue at once.
fn queued(nodes: u32) -> (TestSite, JobId, AttemptKey, Vec<NodeName>) {
    let mut w = TestSite::new(nodes.try_into().unwrap(), 8);
    let id = w.run(gang(nodes, 8));
    let (key, all) = (w.key(id), w.nodes_of(id));
    w.pass(Span::mins(1));
    for n in &all {
        w.lose(n);
    }
    assert_eq!((w.job(id).state, w.job(id).infrastructure_failures), (JobState::Queued, 1));
    w.pass(Span::mins(1));
    (w, id, key, all)
}

#[test]
fn a_job_that_waits_for_its_next_attempt_succeeded_when_its_last_one_turns_out_to_be_whole() {
    for restarts in [false, true] {
        let (mut w, id, key, all) = queued(1);
        let next = w.submit(JobSpec { after: vec![format!("{id}:ok")], ..gang(1, 8) });
        if restarts {
            w.engine = Engine::new(replay(&w.log), Policy::default());
        }
        let from = w.log.len();
        // On the one node that is there the next attempt could be placed in the same moment.
        back(&mut w, &all[0], key, WELL, Some(Span::secs(90)));
        let j = w.job(id);
        assert_eq!((j.state, j.exit_code, &j.reason), (JobState::Succeeded, Some(0), &None));
        assert_eq!((j.attempts, j.infrastructure_failures, j.recovery), (1, 0, None));
        assert_eq!(j.past[0].verdict, Verdict::Success);
        assert_ne!(w.job(next).state, JobState::Cancelled, "what it waits for came");
        let ends = w.since(from).filter(|e| matches!(e, Event::SlotEnded { .. })).count();
        assert_eq!(ends, 1, "what the node says is written down");
        // It says so again, and nothing changes any more.
        let from = w.log.len();
        w.ok(Command::SlotReport { node: all[0].clone(), key, observed: WELL, ago: None });
        assert_eq!(w.log.len(), from);
        w.sleep(Span::hours(1));
        assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Succeeded, 1));
        same_when_read_again(&w);
    }
}

#[test]
fn what_was_counted_as_lost_of_work_that_turns_out_to_be_whole_is_productive() {
    let (mut w, id, key, all) = queued(1);
    back(&mut w, &all[0], key, WELL, Some(Span::secs(90)));
    let (mut lives, mut fleet) = (JobHistories::default(), Fleet::default());
    for r in &w.log {
        lives.apply(r);
        fleet.apply(r, &no_observation);
    }
    // For as long as it is known that its node had it.
    let had = 8000 * 60_000u128;
    let g = goodput(w.job(id), lives.get(id), &BTreeMap::new(), w.now);
    assert_eq!((g.allocated_gpu, g.gpu.get(Part::Productive)), (had, had), "{g:#?}");
    let report = fleet.report(w.now, (Time(0), w.now), Step::Hour, None, &no_observation);
    let (mut kept, mut lost, mut hit) = (0, 0, 0);
    for row in &report.rows {
        kept += row.work.held.get(Part::Productive);
        lost += row.work.held.get(Part::Lost);
        hit += row.work.interrupted.total();
    }
    assert_eq!((kept, lost, hit), (had, 0, 0));
}

#[test]
fn work_that_turns_out_to_be_whole_changes_no_day_that_is_final() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(gang(1, 8));
    let (key, n) = (w.key(id), w.nodes_of(id)[0].clone());
    w.pass(Span::hours(24));
    w.lose(&n);
    w.pass(Span::hours(24));
    let days = |w: &TestSite| {
        let mut fleet = Fleet::default();
        for r in &w.log {
            fleet.apply(r, &no_observation);
        }
        fleet.report(w.now, (Time(0), w.now), Step::Day, None, &no_observation).rows
    };
    let before = days(&w);
    back(&mut w, &n, key, WELL, None);
    assert_eq!(w.job(id).state, JobState::Succeeded);
    let after = days(&w);
    assert_eq!(before[0], after[0], "a day is final 24 hours after its end");
    let of = |part: Part| (before[1].work.held.get(part), after[1].work.held.get(part));
    let (lost, kept) = (of(Part::Lost), of(Part::Productive));
    assert!(lost.0 > 0);
    assert_eq!((lost.1, kept), (0, (0, lost.0)), "the other day is not");
}

#[test]
fn what_a_job_lost_is_remembered_for_as_long_as_it_may_turn_out_to_be_whole() {
    let (mut w, id, ..) = queued(1);
    let remembered = |w: &TestSite| {
        let mut fleet = Fleet::default();
        for r in &w.log {
            fleet.apply(r, &no_observation);
        }
        serde_json::to_string(&fleet).unwrap().contains("pieces")
    };
    assert!(remembered(&w));
    w.person(Command::Cancel { job: id });
    assert!(!remembered(&w));
}

#[test]
fn a_gang_that_waits_succeeded_when_all_of_its_lost_nodes_say_that_theirs_ended_well() {
    for (last, succeeds) in [(WELL, true), (STOPPED, false), (crash(1, 1), false)] {
        let (mut w, id, key, all) = queued(2);
        back(&mut w, &all[0], key, WELL, None);
        assert_eq!(w.job(id).state, JobState::Queued, "of one nobody knows");
        back(&mut w, &all[1], key, last.clone(), None);
        let state = w.job(id).state;
        assert_eq!(state == JobState::Succeeded, succeeds, "{last:?}");
        assert_eq!(state.is_final(), succeeds, "{last:?}: it runs again");
        same_when_read_again(&w);
    }
}

#[test]
fn a_gang_of_which_a_rank_was_stopped_runs_again_whatever_its_lost_node_says() {
    for (other, succeeds) in [(WELL, true), (STOPPED, false)] {
        let mut w = TestSite::new(2, 8);
        let id = w.run(gang(2, 8));
        let (key, all) = (w.key(id), w.nodes_of(id));
        w.lose(&all[0]);
        w.report(id, &all[1], other);
        assert_eq!(w.job(id).state, JobState::Queued);
        back(&mut w, &all[0], key, WELL, None);
        assert_eq!(w.job(id).state == JobState::Succeeded, succeeds);
        assert_eq!(w.job(id).state.is_final(), succeeds);
        same_when_read_again(&w);
    }
}

#[test]
fn a_late_word_changes_nothing_beside_the_next_attempt_or_after_the_end() {
    // The next attempt has begun on another node.
    let mut w = TestSite::new(2, 8);
    let id = w.run(gang(1, 8));
    let (key, n) = (w.key(id), w.nodes_of(id)[0].clone());
    w.lose(&n);
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    let from = w.log.len();
    back(&mut w, &n, key, WELL, None);
    assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
    assert!(!w.since(from).any(|e| matches!(e, Event::SlotEnded { .. })));
    same_when_read_again(&w);
    // It was cancelled while it waited.
    let (mut w, id, key, all) = queued(1);
    w.person(Command::Cancel { job: id });
    back(&mut w, &all[0], key, WELL, None);
    assert_eq!(w.job(id).state, JobState::Cancelled);
    same_when_read_again(&w);
    // No retry was left, and then somebody has it run again: that is what they want.
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 8);
    spec.retries.infrastructure = 0;
    let id = w.run(spec);
    let (key, n) = (w.key(id), w.nodes_of(id)[0].clone());
    w.lose(&n);
    assert_eq!(w.job(id).state, JobState::Failed);
    back(&mut w, &n, key, WELL, None);
    assert_eq!(w.job(id).state, JobState::Failed, "what is over stays so");
    w.lose(&n);
    w.person(Command::Requeue { job: id });
    back(&mut w, &n, key, WELL, None);
    assert!(!w.job(id).state.is_final());
    same_when_read_again(&w);
}
