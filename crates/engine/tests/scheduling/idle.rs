//! Jobs that hold GPUs and do nothing with them are warned, and then ended.

use crate::common::{TestSite, gang};
use muster_model::command::Command;
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::{JobState, StopReason, Verdict};
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};

fn strict() -> TestSite {
    let mut w = TestSite::new(2, 8);
    w.policy(|p| {
        p.idle.warn_after = Some(Span::mins(10));
        p.idle.end_after = Some(Span::mins(30));
    });
    w
}

fn report(w: &mut TestSite, id: JobId, node: &NodeName, since: Option<Time>) {
    let key = w.key(id);
    w.ok(Command::IdleReport { node: node.clone(), key, since });
}

fn warnings(w: &TestSite, id: JobId) -> usize {
    let mine = |e: &&Event| matches!(e, Event::IdleWarned { job, .. } if *job == id);
    w.since(0).filter(mine).count()
}

#[test]
fn an_idle_job_is_warned_once_and_ended_when_it_stays_idle() {
    let mut w = strict();
    let id = w.run(gang(2, 8));
    let first = w.nodes_of(id)[0].clone();
    let began = w.now;
    for min in 1..=29 {
        w.pass(Span::mins(1));
        report(&mut w, id, &first, Some(began));
        assert_eq!(warnings(&w, id), usize::from(min >= 10), "after {min} minutes");
        assert_eq!(w.job(id).state, JobState::Running, "after {min} minutes");
    }
    assert_eq!(w.job(id).idle_warned, Some(began + Span::mins(10)));
    w.pass(Span::mins(1));
    report(&mut w, id, &first, Some(began));
    let stop = w.job(id).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert_eq!(stop.reason, StopReason::Idle { idle: Span::mins(30) });
    w.stopped(id);
    let j = w.job(id);
    assert_eq!((j.state, j.past[0].verdict), (JobState::Failed, Verdict::Application));
    assert!(j.reason.as_deref().unwrap().contains("did nothing"), "{:?}", j.reason);
}

#[test]
fn a_job_that_works_again_begins_anew() {
    let mut w = strict();
    let id = w.run(gang(1, 8));
    let n = w.nodes_of(id)[0].clone();
    let began = w.now;
    w.pass(Span::mins(12));
    report(&mut w, id, &n, Some(began));
    assert_eq!(warnings(&w, id), 1);
    report(&mut w, id, &n, None);
    w.pass(Span::mins(20));
    let again = w.now;
    w.pass(Span::mins(9));
    report(&mut w, id, &n, Some(again));
    assert_eq!(warnings(&w, id), 1);
    w.pass(Span::mins(1));
    report(&mut w, id, &n, Some(again));
    assert_eq!((warnings(&w, id), w.job(id).state), (2, JobState::Running));
}

#[test]
fn nobody_is_ended_without_a_warning_before() {
    let mut w = strict();
    let id = w.run(gang(1, 8));
    let n = w.nodes_of(id)[0].clone();
    let began = w.now;
    w.pass(Span::hours(5));
    report(&mut w, id, &n, Some(began));
    assert_eq!((warnings(&w, id), w.job(id).state), (1, JobState::Running));
}

#[test]
fn reports_of_others_of_the_past_and_without_a_policy_change_nothing() {
    let mut w = strict();
    let id = w.run(gang(2, 8));
    let nodes = w.nodes_of(id);
    let (began, key) = (w.now, w.key(id));
    w.pass(Span::mins(15));
    let n = w.log.len();
    report(&mut w, id, &nodes[1], Some(began));
    w.ok(Command::Requeue { job: id });
    w.stopped(id);
    w.start(id);
    let m = w.log.len();
    w.ok(Command::IdleReport { node: nodes[0].clone(), key, since: Some(began) });
    assert_eq!(w.log.len(), m, "an attempt that is over");
    // Time before it ran is nobody's fault.
    let first = w.nodes_of(id)[0].clone();
    report(&mut w, id, &first, Some(began));
    assert_eq!(w.log.len(), m);
    assert!(!w.since(n).any(|e| matches!(e, Event::IdleWarned { .. })));
    w.policy(|p| p.idle = muster_model::policy::Idle::default());
    w.pass(Span::hours(9));
    report(&mut w, id, &first, Some(began));
    assert_eq!(warnings(&w, id), 0);
}
