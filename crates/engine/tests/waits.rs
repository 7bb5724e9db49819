//! Jobs that wait for others, and arrays that wait for arrays.

use crate::common;

use common::{World, gang};
use muster_model::command::{Actor, Answer, Command, Observed, Request};
use muster_model::ids::JobId;
use muster_model::job::{JobState, SlotEnd};
use std::sync::Arc;

#[test]
fn every_condition_on_an_array_is_judged_by_all_its_tasks() {
    let mut w = World::new(4, 8);
    let mut spec = gang(1, 8);
    spec.array = Some("0-2".into());
    spec.name = Some("prep".parse().unwrap());
    let first = w.submit(spec);
    let after = |w: &mut World, text: &str, array: Option<&str>| {
        let mut spec = gang(4, 8);
        spec.after = vec![text.into()];
        spec.array = array.map(Into::into);
        w.submit(spec)
    };
    let any = after(&mut w, "prep:any", Some("0-1"));
    let ok = after(&mut w, "prep:ok", Some("0-1"));
    let fail = after(&mut w, "prep:fail", None);
    // Whoever waits for what can never be is over too, whole arrays at once.
    let chained = after(&mut w, &format!("{ok}:ok"), None);
    w.start(first);
    w.finish(first);
    w.tick();
    assert_eq!(w.job(fail).state, JobState::Cancelled, "one has succeeded");
    assert_eq!(w.job(ok).state, JobState::Queued);
    let second = JobId(first.0 + 1);
    w.ok(Command::Cancel { job: second });
    let placed = w.job(second).attempt.as_ref().map(|a| a.placement.slots[0].node.clone());
    if let Some(n) = placed {
        w.report(second, &n, Observed::Ended(SlotEnd::Stopped));
    }
    w.tick();
    for id in [ok, JobId(ok.0 + 1), chained] {
        let job = w.job(id);
        assert_eq!(job.state, JobState::Cancelled);
        assert!(job.reason.as_deref().unwrap().contains("depends"), "{:?}", job.reason);
    }
    assert_eq!(w.job(any).state, JobState::Queued, "one is still open");
    let third = JobId(first.0 + 2);
    w.start(third);
    w.finish(third);
    assert_eq!(w.job(any).state, JobState::Starting);
    // A task that is queued anew is waited for again.
    w.ok(Command::Requeue { job: second });
    let why = w.engine.state().explain(JobId(any.0 + 1), w.now).unwrap();
    assert!(why.summary.contains(&format!("waits for job {second}")), "{}", why.summary);
}

/// Every task once kept every task that it waited for: a hundred million entries.
#[test]
fn a_large_array_that_waits_for_a_large_array_costs_what_both_have() {
    let mut w = World::new(1, 8);
    let send = |w: &mut World, command: Command| {
        let (actor, at) = (Actor::system(), w.now);
        w.engine.handle(&Request { actor, at, key: None, if_version: None, command }).unwrap()
    };
    let array = |after: &[String]| {
        let mut spec = gang(1, 0);
        spec.array = Some("0-9999".into());
        spec.hold = after.is_empty();
        spec.after = after.to_vec();
        Command::Submit { spec: Arc::new(spec) }
    };
    let Answer::Submitted { first, .. } = send(&mut w, array(&[])) else { panic!() };
    let Answer::Submitted { first: next, .. } = send(&mut w, array(&[format!("{first}:ok")]))
    else {
        panic!()
    };
    assert_eq!(w.engine.state().explain(next, w.now).unwrap().constraints[0].name, "dependency");
    // Each end is looked at by ten thousand who wait, unless nothing changes for them.
    for n in 0..200 {
        send(&mut w, Command::Cancel { job: JobId(first.0 + n) });
    }
    w.engine.tick(w.now);
    assert_eq!(w.engine.state().jobs[&JobId(next.0 + 9999)].state, JobState::Cancelled);
    assert_eq!(w.engine.state().problems(), Vec::<String>::new());
}
