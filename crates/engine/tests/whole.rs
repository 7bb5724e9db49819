//! Work that is finished is not done again: ranks that ended well before anybody stopped them count,
//! also where their node was lost or the job was to make way for others.

use crate::common::{
    TestSite, checkpoints, connected, crash, gang, inventory, limited, number, replay,
};
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
