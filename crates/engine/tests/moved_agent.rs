//! An agent that runs in another directory of its machine than the one that started ranks: a copy,
//! or what was restored elsewhere. It knows nothing of them, which does not prove that they are gone.

use crate::common;

use common::{TestSite, checkpoints, connected, gang, inventory, number, replay};
use muster_model::command::{Command, Observed, RefusalCode};
use muster_model::event::Event;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{JobState, SlotEnd};
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::spec::{JobSpec, OnPartition};
use muster_model::units::{Span, Time};

/// The agent of a node connects from a directory, in a boot, and knows these.
fn connect(
    w: &mut TestSite,
    n: &NodeName,
    at: (&str, &str),
    observed: Vec<(AttemptKey, Observed)>,
) {
    let (i, (place, boot)) = (number(n), at);
    let mut command = connected(i, boot, inventory(8), observed);
    if let Command::NodeConnected { place: reported, .. } = &mut command {
        *reported = place.into();
    }
    w.ok(command);
}

const FIRST: (&str, &str) = ("first", "boot");
const COPY: (&str, &str) = ("copy", "boot");

fn saving() -> JobSpec {
    JobSpec { checkpoint: checkpoints(false), ..gang(1, 8) }
}

/// A job that runs, started from the first directory, and its node.
fn runs(w: &mut TestSite, spec: JobSpec) -> (JobId, NodeName) {
    let id = w.run(spec);
    let (key, here) = (w.key(id), w.nodes_of(id)[0].clone());
    connect(w, &here, FIRST, vec![(key, Observed::Running)]);
    (id, here)
}

fn fence(w: &TestSite, id: JobId) -> Option<Time> {
    w.job(id).attempt.as_ref().and_then(|a| a.stop.as_ref()).and_then(|s| s.fence_until)
}

fn stands(w: &TestSite, id: JobId) -> (JobState, u32) {
    (w.job(id).state, w.job(id).attempts)
}

#[test]
fn ranks_that_another_directory_started_are_waited_for_like_those_of_a_lost_node() {
    let mut w = TestSite::new(2, 8);
    let (id, here) = runs(&mut w, saving());
    let (key, since) = (w.key(id), w.now);
    connect(&mut w, &here, COPY, Vec::new());
    assert_eq!(fence(&w, id), Some(since + Span::secs(140)), "their lease is 2 minutes");
    let stop = w.job(id).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert!(stop.reason.to_string().contains("another data directory"), "{}", stop.reason);
    // However often it connects, and whatever it says of what it does not know.
    w.pass(Span::secs(100));
    connect(&mut w, &here, COPY, Vec::new());
    let observed = Observed::Ended(SlotEnd::Stopped);
    w.ok(Command::SlotReport { node: here, key, observed, ago: None });
    w.pass(Span::secs(39));
    assert_eq!(stands(&w, id), (JobState::Stopping, 1), "they may still write");
    w.pass(Span::secs(1));
    assert_eq!(stands(&w, id), (JobState::Starting, 2));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn who_started_the_ranks_or_a_restart_of_the_machine_proves_that_they_are_gone() {
    let proofs = [
        (FIRST, None),
        (FIRST, Some(SlotEnd::Stopped)),
        (("copy", "another boot"), None),
        // It found them on its machine, and ended them.
        (COPY, Some(SlotEnd::agent_anew())),
    ];
    for (at, end) in proofs {
        let mut w = TestSite::new(2, 8);
        let (id, here) = runs(&mut w, saving());
        let key = w.key(id);
        connect(&mut w, &here, COPY, Vec::new());
        assert_eq!(stands(&w, id), (JobState::Stopping, 1));
        let seen = end.map(|end| (key, Observed::Ended(end)));
        connect(&mut w, &here, at, seen.into_iter().collect());
        assert_eq!(stands(&w, id), (JobState::Starting, 2), "{at:?}");
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn the_same_directory_still_proves_that_its_ranks_are_gone() {
    let mut w = TestSite::new(2, 8);
    let (id, here) = runs(&mut w, saving());
    connect(&mut w, &here, FIRST, Vec::new());
    assert_eq!(stands(&w, id), (JobState::Starting, 2));
}

#[test]
fn ranks_of_another_directory_that_go_on_for_good_are_not_waited_for_by_the_clock() {
    for cancelled in [false, true] {
        let mut w = TestSite::new(2, 8);
        let on_partition = Some(OnPartition::Continue);
        let (id, here) = runs(&mut w, JobSpec { on_partition, ..saving() });
        connect(&mut w, &here, COPY, Vec::new());
        if cancelled {
            w.ok(Command::Cancel { job: id });
        }
        w.pass(Span::hours(10));
        assert_eq!((stands(&w, id), fence(&w, id)), ((JobState::Stopping, 1), None));
        connect(&mut w, &here, ("copy", "another boot"), Vec::new());
        let over = if cancelled { (JobState::Cancelled, 1) } else { (JobState::Starting, 2) };
        assert_eq!(stands(&w, id), over, "nothing outlives a restart");
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn an_order_that_another_directory_may_have_taken_is_not_given_twice_to_who_writes() {
    let mut w = TestSite::new(1, 8);
    let here = common::node(0);
    connect(&mut w, &here, FIRST, Vec::new());
    let plain = w.submit(gang(1, 1));
    let saves = w.submit(JobSpec { checkpoint: checkpoints(false), ..gang(1, 1) });
    connect(&mut w, &here, COPY, Vec::new());
    assert_eq!(stands(&w, plain), (JobState::Starting, 1), "the order goes out again");
    assert_eq!(stands(&w, saves), (JobState::Stopping, 1), "it may have been started");
    // It is the agent of the copy that starts it now, and whose word counts.
    w.start(plain);
    connect(&mut w, &here, COPY, Vec::new());
    assert_eq!(w.job(plain).past.len(), 1, "its ranks are gone");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn ranks_that_the_agent_of_a_copy_took_over_end_by_its_word() {
    // The data directory was copied and the copy put in its place: the agent finds the ranks there.
    for cancelled in [false, true] {
        let mut w = TestSite::new(2, 8);
        let (id, here) = runs(&mut w, saving());
        let key = w.key(id);
        let from = w.log.len();
        for _ in 0..3 {
            connect(&mut w, &here, COPY, vec![(key, Observed::Running)]);
        }
        let started = |e: &&Event| matches!(e, Event::SlotStarted { .. });
        assert_eq!(w.since(from).filter(started).count(), 1, "taken over once");
        assert_eq!(stands(&w, id), (JobState::Running, 1));
        let over = if cancelled {
            w.ok(Command::Cancel { job: id });
            w.report(id, &here, Observed::Ended(SlotEnd::Stopped));
            (JobState::Cancelled, 1)
        } else {
            connect(&mut w, &here, COPY, Vec::new());
            (JobState::Starting, 2)
        };
        assert_eq!(stands(&w, id), over, "nothing is left to wait for");
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_connected_node_whose_ranks_are_lost_is_drained_and_retired() {
    for cancelled in [false, true] {
        let mut w = TestSite::new(2, 8);
        let on_partition = Some(OnPartition::Continue);
        let (id, here) = runs(&mut w, JobSpec { on_partition, ..gang(1, 8) });
        connect(&mut w, &here, COPY, Vec::new());
        if cancelled {
            w.ok(Command::Cancel { job: id });
        }
        w.pass(Span::hours(1));
        assert_eq!(stands(&w, id), (JobState::Stopping, 1));
        let words = w.job(id).fence(w.now).expect("it waits for them").words(w.now);
        assert!(words.contains("drained and retired"), "{words}");
        let retire = Command::Retire { node: here.clone() };
        let n = w.log.len();
        assert_eq!(w.send(retire.clone()).unwrap_err().code, RefusalCode::Conflict, "in service");
        assert_eq!(w.log.len(), n);
        w.person(Command::Drain { node: here.clone(), reason: "moved".into(), stop: false });
        assert_eq!(w.engine.state().nodes[&here].stage, Stage::Draining, "nobody saw them end");
        w.ok(retire);
        assert_eq!(w.engine.state().nodes[&here].stage, Stage::Retired);
        let over = if cancelled { (JobState::Cancelled, 1) } else { (JobState::Starting, 2) };
        assert_eq!(stands(&w, id), over);
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_node_is_not_retired_in_a_drain_before_the_fence_of_its_lost_ranks() {
    let mut w = TestSite::new(2, 8);
    let (id, here) = runs(&mut w, saving());
    connect(&mut w, &here, COPY, Vec::new());
    w.person(Command::Drain { node: here.clone(), reason: "moved".into(), stop: false });
    let e = w.send(Command::Retire { node: here }).unwrap_err();
    assert!(e.message.contains("may write there for"), "{e}");
    assert_eq!(stands(&w, id), (JobState::Stopping, 1));
}
