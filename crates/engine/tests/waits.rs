//! Jobs that wait for others, and arrays that wait for arrays.

use crate::common;

use common::{TestSite, gang, replay};
use muster_model::command::{Actor, Answer, Command, Observed, RefusalCode, Request};
use muster_model::ids::JobId;
use muster_model::job::{JobState, SlotEnd};
use muster_model::spec::JobSpec;
use std::sync::Arc;

#[test]
fn every_condition_on_an_array_is_judged_by_all_its_tasks() {
    let mut w = TestSite::new(4, 8);
    let mut spec = gang(1, 8);
    spec.array = Some("0-2".into());
    spec.name = Some("prep".parse().unwrap());
    let first = w.submit(spec);
    let after = |w: &mut TestSite, text: &str, array: Option<&str>| {
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
    assert_eq!(w.job(fail).state, JobState::Queued, "another may fail");
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
    let why =
        format!("job {first}_1, which it depends on, did not end as required: it was cancelled");
    assert_eq!(w.job(ok).reason.as_ref(), Some(&why), "as people name the task");
    assert_eq!(w.job(any).state, JobState::Queued, "one is still open");
    assert!(w.engine.state().barred(w.job(fail), w.now).is_some(), "one is still open");
    let third = JobId(first.0 + 2);
    w.start(third);
    w.finish(third);
    assert_eq!(w.job(any).state, JobState::Starting);
    assert_eq!(w.job(fail).state, JobState::Queued);
    assert_eq!(w.engine.state().barred(w.job(fail), w.now), None, "it waits for room alone");
    // A task that is queued anew is waited for again.
    w.ok(Command::Requeue { job: second });
    let why = w.engine.state().explain(JobId(any.0 + 1), w.now).unwrap();
    assert_eq!(why.summary, format!("waits for job {first}_1, which is queued"));
}

#[test]
fn one_task_of_an_array_can_be_waited_for() {
    let mut w = TestSite::new(4, 8);
    let first = w.submit(JobSpec { array: Some("0-2".into()), ..gang(1, 8) });
    let second = JobId(first.0 + 1);
    let after = |w: &mut TestSite, text: String| {
        w.try_as("ann", JobSpec { after: vec![text], ..gang(4, 8) })
    };
    let ok = after(&mut w, format!("{first}_1")).unwrap();
    let head = after(&mut w, format!("{first}_0:any")).unwrap();
    let number = after(&mut w, format!("{second}:ok")).unwrap();
    let fail = after(&mut w, format!("{first}_1:fail")).unwrap();
    let whole = after(&mut w, first.to_string()).unwrap();
    let why =
        |w: &TestSite, id: JobId| w.engine.state().barred(w.job(id), w.now).map(|(_, why)| why);
    for id in [ok, number, fail] {
        assert_eq!(why(&w, id), Some(format!("waits for job {first}_1, which is starting")));
    }
    w.start(second);
    w.finish(second);
    assert_eq!([ok, number].map(|id| why(&w, id)), [None, None], "it waits for room alone");
    assert_eq!(w.job(fail).state, JobState::Cancelled);
    for id in [head, whole] {
        assert_eq!(why(&w, id), Some(format!("waits for job {first}_0, which is starting")));
    }
    w.start(first);
    w.finish(first);
    assert_eq!(why(&w, head), None);
    assert_eq!(why(&w, whole), Some(format!("waits for job {first}_2, which is starting")));
    let refused = after(&mut w, format!("{first}_7")).unwrap_err();
    assert_eq!(refused.code, RefusalCode::NotFound);
    assert!(refused.message.contains(&format!("names {first}_7,")), "{refused:?}");
    // A job may be called like a task, where there is no such task.
    let name = format!("{first}_9");
    let called = w.submit(JobSpec { name: Some(name.parse().unwrap()), ..gang(1, 8) });
    let next = after(&mut w, format!("{name}:any")).unwrap();
    assert_eq!(w.job(next).depends[0].job, called);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_failure_is_waited_for_until_every_task_has_ended_and_nothing_queues_what_it_would_cancel() {
    let mut w = TestSite::new(2, 8);
    let first = w.submit(JobSpec { array: Some("0-1".into()), ..gang(1, 8) });
    let fail = w.submit(JobSpec { after: vec![format!("{first}:fail")], ..gang(1, 1) });
    for id in [first, JobId(first.0 + 1)] {
        assert_eq!(w.job(fail).state, JobState::Queued);
        w.start(id);
        w.finish(id);
    }
    let why = format!(
        "array {first}, which it depends on, did not end as required: no task of it failed"
    );
    let job = w.job(fail);
    assert_eq!((job.state, job.reason.as_ref()), (JobState::Cancelled, Some(&why)));
    let records = w.log.len();
    let refused = w.send(Command::Requeue { job: fail }).unwrap_err();
    assert_eq!(refused.code, RefusalCode::Conflict);
    assert_eq!(refused.message, format!("job {fail} would be cancelled, not queued: {why}"));
    assert_eq!((w.job(fail).state, w.log.len()), (JobState::Cancelled, records), "no trace");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn what_would_be_cancelled_at_once_is_refused_by_a_dry_run_and_by_submit_alike() {
    let mut w = TestSite::new(1, 8);
    let first = w.run(gang(1, 8));
    let spec = Arc::new(JobSpec { after: vec![format!("{first}:fail")], ..gang(1, 1) });
    let ask = |w: &TestSite| w.engine.state().explain_spec(&spec, "user:ann", w.now);
    assert_eq!(ask(&w).unwrap().summary, format!("waits for job {first}, which is running"));
    w.finish(first);
    let asked = ask(&w).unwrap_err();
    let sent = w.send(Command::Submit { spec: spec.clone() }).unwrap_err();
    assert_eq!((sent.code, sent.field.as_deref()), (RefusalCode::Conflict, Some("after")));
    assert!(sent.message.ends_with("did not end as required: it succeeded"), "{}", sent.message);
    assert!(sent.message.contains(&format!("job {first}, ")), "{}", sent.message);
    assert_eq!((asked.code, asked.message), (sent.code, sent.message));
    assert_eq!(w.engine.state().jobs.len(), 1, "nothing was submitted");
}

#[test]
fn a_list_gives_the_reason_that_explain_gives() {
    let mut w = TestSite::new(1, 8);
    let held = w.submit(JobSpec { hold: true, ..gang(1, 1) });
    let waits = w.submit(JobSpec { after: vec![held.to_string()], ..gang(1, 1) });
    for (id, name) in [(held, "hold"), (waits, "dependency")] {
        let e = w.explain(id);
        assert_eq!(w.engine.state().barred(w.job(id), w.now), Some((name, e.summary)));
        assert_eq!(e.constraints[0].name, name);
    }
    assert_eq!(w.explain(waits).summary, format!("waits for job {held}, which is held"));
}

#[test]
fn a_held_job_that_was_cancelled_starts_when_somebody_queues_it_again() {
    let mut w = TestSite::new(1, 8);
    let id = w.submit(JobSpec { hold: true, ..gang(1, 1) });
    w.ok(Command::Cancel { job: id });
    assert_eq!((w.job(id).state, w.job(id).held.as_ref()), (JobState::Cancelled, None));
    w.ok(Command::Requeue { job: id });
    assert_eq!((w.job(id).state, w.job(id).held.as_ref()), (JobState::Starting, None));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// Every task once kept every task that it waited for: a hundred million entries.
#[test]
fn a_large_array_that_waits_for_a_large_array_costs_what_both_have() {
    let mut w = TestSite::new(1, 8);
    let send = |w: &mut TestSite, command: Command| {
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
