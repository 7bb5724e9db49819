//! Gangs that start smaller, shrink before anybody is stopped, and grow into what is idle.

use crate::common::{TestSite, checkpoints, gang, limited, replay};
use muster_model::command::Command;
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::{Basis, JobState, StopReason};
use muster_model::names::NodeName;
use muster_model::spec::{Elastic, JobSpec, Priority};
use muster_model::units::Span;
use std::collections::BTreeSet;

fn elastic(min: u32, nodes: u32, max: u32) -> JobSpec {
    let elastic = Some(Elastic { min_nodes: min, max_nodes: max });
    JobSpec { elastic, checkpoint: checkpoints(true), ..gang(nodes, 8) }
}

fn size(w: &TestSite, id: JobId) -> usize {
    w.job(id).attempt.as_ref().map_or(0, |a| a.placement.slots.len())
}

fn set(nodes: Vec<NodeName>) -> BTreeSet<NodeName> {
    nodes.into_iter().collect()
}

fn resizing(w: &TestSite, id: JobId) -> Option<u32> {
    let a = w.job(id).attempt.as_ref()?;
    let reason = match (&a.stop, &a.notice) {
        (Some(s), _) => &s.reason,
        (None, Some(n)) => &n.reason,
        (None, None) => return None,
    };
    match reason {
        StopReason::Resized { nodes } => Some(*nodes),
        _ => None,
    }
}

fn settle(w: &TestSite) -> Span {
    w.engine.state().policy.elastic.settle
}

#[test]
fn it_starts_with_what_there_is_if_that_is_enough() {
    let mut w = TestSite::new(4, 8);
    w.run(gang(1, 8));
    let id = w.submit(elastic(2, 4, 4));
    assert_eq!(size(&w, id), 3, "three of four are free");
    let second = w.submit(elastic(2, 4, 4));
    assert_eq!(w.job(second).state, JobState::Queued, "none is not two");
}

#[test]
fn it_grows_when_it_has_settled_and_nobody_waits_and_keeps_its_nodes() {
    let mut w = TestSite::new(4, 8);
    let other = w.run(gang(2, 8));
    let id = w.submit(elastic(2, 2, 4));
    w.start(id);
    assert_eq!(size(&w, id), 2);
    let had = set(w.nodes_of(id));
    w.pass(Span::mins(1));
    w.finish(other);
    assert_eq!(resizing(&w, id), None, "it has just begun");
    let n = w.log.len();
    w.sleep(settle(&w));
    assert_eq!(resizing(&w, id), Some(4));
    assert!(w.since(n).any(|e| matches!(e, Event::JobResized { job, nodes: 4 } if *job == id)));
    assert_eq!(w.job(id).reserved_start.as_ref().map(|p| p.basis), Some(Basis::Resize));
    // Whoever comes now may not have what it grows into.
    let late = w.submit(gang(1, 8));
    assert_eq!(w.job(late).state, JobState::Queued);
    w.checkpoint(id, 5);
    w.stopped(id);
    assert_eq!((w.job(id).state, size(&w, id)), (JobState::Starting, 4));
    assert!(set(w.nodes_of(id)).is_superset(&had));
    assert_eq!(w.job(id).preemptions, 0);
}

#[test]
fn another_time_limit_leaves_it_what_it_grows_into() {
    let mut w = TestSite::new(4, 8);
    let other = w.run(gang(2, 8));
    let id = w.submit(JobSpec { time_limit: Some(Span::hours(9)), ..elastic(2, 2, 4) });
    w.start(id);
    w.pass(Span::mins(1));
    w.finish(other);
    // Within its notice.
    w.sleep(Span(settle(&w).0 - Span::mins(1).0));
    assert_eq!(resizing(&w, id), Some(4));
    let n = w.log.len();
    for hours in [12, 6] {
        let time_limit = Some(Span::hours(hours));
        w.ok(Command::UpdateJob { job: id, priority: None, time_limit });
        assert_eq!(w.job(id).reserved_start.as_ref().map(|p| p.basis), Some(Basis::Resize));
        assert_eq!(resizing(&w, id), Some(4));
    }
    assert!(!w.since(n).any(|e| matches!(e, Event::ReservedStartDropped { .. })));
    let late = w.submit(gang(1, 8));
    assert_eq!(w.job(late).state, JobState::Queued);
    w.checkpoint(id, 5);
    w.stopped(id);
    assert_eq!((w.job(id).state, size(&w, id)), (JobState::Starting, 4));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn it_does_not_grow_while_somebody_waits() {
    let mut w = TestSite::new(4, 8);
    let other = w.run(limited(1, 8, 600));
    let id = w.submit(elastic(2, 2, 4));
    w.start(id);
    let big = w.submit(limited(4, 8, 60));
    assert_eq!(w.job(big).state, JobState::Queued);
    w.sleep(settle(&w));
    w.sleep(Span::mins(1));
    assert_ne!(resizing(&w, id), Some(3), "the free node is the waiting gang's to count on");
    w.finish(other);
}

#[test]
fn it_shrinks_before_anybody_is_stopped_and_keeps_its_first_nodes() {
    let mut w = TestSite::new(4, 8);
    let id = w.submit(elastic(1, 3, 3));
    w.start(id);
    let low = w.run(JobSpec { priority: Priority::Low, ..gang(1, 8) });
    let had = w.nodes_of(id);
    w.sleep(settle(&w));
    let n = w.log.len();
    let wants = w.submit(gang(2, 8));
    assert_eq!(resizing(&w, id), Some(1), "two of its three nodes");
    assert_eq!(w.job(low).state, JobState::Running, "although it is of a lower class");
    assert!(
        !w.since(n)
            .any(|e| matches!(e, Event::StopOrdered { reason: StopReason::Preempted { .. }, .. }))
    );
    w.checkpoint(id, 9);
    w.stopped(id);
    assert_eq!((size(&w, id), size(&w, wants)), (1, 2));
    assert_eq!(w.nodes_of(id), had[..1], "it goes on where it was");
    assert_eq!(w.job(wants).state, JobState::Starting);
}

#[test]
fn it_does_not_shrink_below_its_smallest_size_nor_for_a_lower_class() {
    let mut w = TestSite::new(3, 8);
    let id = w.submit(elastic(2, 3, 3));
    w.start(id);
    w.sleep(settle(&w));
    let two = w.submit(gang(2, 8));
    w.sleep(Span::mins(30));
    assert_eq!((resizing(&w, id), w.job(two).state), (None, JobState::Queued));
    let mut w = TestSite::new(3, 8);
    let id = w.submit(elastic(1, 3, 3));
    w.start(id);
    w.sleep(settle(&w));
    w.submit(JobSpec { priority: Priority::Low, ..gang(1, 8) });
    w.sleep(Span::mins(30));
    assert_eq!(resizing(&w, id), None);
}

#[test]
fn resizing_can_be_turned_off() {
    let mut w = TestSite::new(4, 8);
    w.policy(|p| p.elastic.enabled = false);
    let id = w.submit(elastic(1, 2, 4));
    w.start(id);
    w.sleep(Span::hours(2));
    assert_eq!((size(&w, id), resizing(&w, id)), (2, None));
}

#[test]
fn one_that_cannot_be_asked_for_a_checkpoint_is_resized_all_the_same() {
    let mut w = TestSite::new(2, 8);
    let id = w.submit(JobSpec { checkpoint: checkpoints(false), ..elastic(1, 1, 2) });
    w.start(id);
    w.sleep(settle(&w));
    assert_eq!(w.job(id).state, JobState::Stopping);
    w.stopped(id);
    assert_eq!(size(&w, id), 2);
    w.start(id);
    w.sleep(Span::hours(5));
    assert_eq!(w.key(id).attempt, 2, "it has all it may have");
}
