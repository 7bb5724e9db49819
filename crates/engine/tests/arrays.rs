//! What is asked of an array is asked of its tasks.

use crate::common::{TestSite, crash, gang, replay};
use muster_engine::{Engine, Policy};
use muster_model::command::{Command, RefusalCode};
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::{JobState, SpecChange};
use muster_model::spec::{JobSpec, Priority, Volume};
use muster_model::units::Span;
use std::sync::Arc;

#[test]
fn only_tasks_that_failed_or_were_cancelled_are_queued_again_with_their_array() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 1);
    spec.array = Some("0-4".into());
    spec.retries.infrastructure = 0;
    let first = w.submit(spec);
    let task = |n: u64| JobId(first.0 + n);
    for n in 0..4 {
        w.start(task(n));
    }
    // One succeeds, one fails, one is cancelled, one runs and one has not come up.
    w.finish(task(0));
    let n = w.nodes_of(task(1))[0].clone();
    w.report(task(1), &n, crash(0, 3));
    w.ok(Command::Cancel { job: task(2) });
    w.stopped(task(2));
    let states = |w: &TestSite| -> Vec<JobState> { (0..5).map(|n| w.job(task(n)).state).collect() };
    use JobState::{Cancelled, Failed, Running, Starting, Succeeded};
    assert_eq!(states(&w), [Succeeded, Failed, Cancelled, Running, Starting]);
    for n in 0..5 {
        let got = w.send(Command::RequeueFailed { job: task(n) });
        let refused = got.err().map(|r| (r.code, r.hint.unwrap_or_default()));
        match refused {
            None => assert!([1, 2].contains(&n), "task {n}"),
            Some((code, hint)) => {
                assert!([0, 3, 4].contains(&n), "task {n}: {hint}");
                assert_eq!(code, RefusalCode::Conflict);
                assert!(hint.contains("--all"), "{hint}");
            }
        }
    }
    assert_eq!(states(&w), [Succeeded, Starting, Starting, Running, Starting]);
    let attempts: Vec<u32> = (0..5).map(|n| w.job(task(n)).attempts).collect();
    assert_eq!(attempts, [1, 2, 2, 1, 1]);
    // One task by itself is queued again however it ended.
    w.ok(Command::Requeue { job: task(0) });
    assert_eq!((w.job(task(0)).state, w.job(task(0)).attempts), (Starting, 2));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn tasks_share_their_spec_also_after_each_was_changed_in_a_way_of_its_own() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 8);
    spec.hold = true;
    spec.array = Some("0-49".into());
    let volume = |n: usize| Volume {
        from: format!("/data/{n}/{}", "x".repeat(400)),
        at: format!("/mnt/{n}"),
        read_only: true,
    };
    spec.volumes = (0..50).map(volume).collect();
    let first = w.submit(spec);
    let from = w.log.len();
    let limit = |n: u64| Some(Span::mins(n + 1));
    for n in 0..50 {
        let (job, time_limit) = (JobId(first.0 + n), limit(n));
        w.ok(Command::UpdateJob { job, priority: None, time_limit });
    }
    let text: usize = w.log[from..].iter().map(|r| r.to_json().unwrap().len()).sum();
    assert!(text < 20_000, "the log has {text} bytes of a change of one number");
    // Earlier versions wrote the whole spec of each into the log.
    let mut old = w.log.clone();
    for r in &mut old {
        if let Event::JobUpdated(u) = &mut r.event {
            (u.spec, u.change) = (Some(w.job(u.job).spec.whole()), SpecChange::default());
        }
    }
    for state in [w.engine.state(), &replay(&w.log), &replay(&old)] {
        let spec = |n: u64| &state.jobs[&JobId(first.0 + n)].spec;
        assert!((0..50).all(|n| spec(n).time_limit == limit(n)));
        assert!((0..50).all(|n| spec(n).whole().time_limit == limit(n)));
        let shared = |n: u64| Arc::ptr_eq(spec(0).shared(), spec(n).shared());
        assert!((1..50).all(shared), "each has a copy");
        assert_eq!(state.digest(), w.engine.state().digest());
    }
    // What has ended has no copy either.
    for n in 0..50 {
        w.ok(Command::Cancel { job: JobId(first.0 + n) });
    }
    let spec = |n: u64| w.job(JobId(first.0 + n)).spec.shared();
    assert!((1..50).all(|n| Arc::ptr_eq(spec(0), spec(n))), "each has a copy");
}

fn is_change(e: &Event) -> bool {
    matches!(e, Event::JobHeld { .. } | Event::JobReleased { .. } | Event::JobUpdated(_))
}

#[test]
fn a_change_of_an_array_writes_a_short_record_for_each_task_that_it_changes() {
    let mut w = TestSite::new(1, 8);
    w.run(gang(1, 8));
    let mut spec = gang(1, 8);
    spec.hold = true;
    spec.array = Some("0-49".into());
    let first = w.submit(spec);
    // How many records the change wrote, and the longest of them.
    let change = |w: &mut TestSite, command: &dyn Fn(JobId) -> Command| -> (usize, usize) {
        let from = w.log.len();
        for n in 0..50 {
            w.ok(command(JobId(first.0 + n)));
        }
        let own = w.log[from..].iter().filter(|r| is_change(&r.event));
        let sizes: Vec<usize> = own.map(|r| r.to_json().unwrap().len()).collect();
        (sizes.len(), sizes.into_iter().max().unwrap_or(0))
    };
    let hold: &dyn Fn(JobId) -> Command = &|job| Command::Hold { job };
    let release: &dyn Fn(JobId) -> Command = &|job| Command::Release { job };
    let (priority, time_limit) = (Some(Priority::Low), Some(Span::mins(7)));
    let update: &dyn Fn(JobId) -> Command = &|job| Command::UpdateJob { job, priority, time_limit };
    assert_eq!(change(&mut w, hold), (0, 0), "they are held already");
    for command in [update, release, hold] {
        let (records, longest) = change(&mut w, command);
        assert_eq!(records, 50);
        assert!(longest < 300, "{longest} bytes for one task");
        // The same again leaves everything as it is, and so does the log.
        let from = w.log.len();
        assert_eq!(change(&mut w, command), (0, 0));
        assert_eq!(w.log.len(), from, "{:?}", w.log.last());
    }
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_project_that_ends_many_jobs_forgets_its_own_and_nobody_elses() {
    let mut w = TestSite::new(1, 8);
    let policy = Policy { keep_ended: 20, ..Policy::default() };
    w.engine = Engine::new(w.engine.state().clone(), policy);
    let of = |project: &str| JobSpec { project: Some(project.parse().unwrap()), ..gang(1, 1) };
    w.project("alpha");
    w.project("beta");
    let beta = w.run(of("beta"));
    w.finish(beta);
    let alpha = w.run(of("alpha"));
    w.finish(alpha);
    for _ in 0..4 {
        w.pass(Span::secs(1));
        let first = w.submit(JobSpec { array: Some("0-9".into()), hold: true, ..of("alpha") });
        for n in 0..10 {
            w.ok(Command::Cancel { job: JobId(first.0 + n) });
        }
    }
    let jobs = &w.engine.state().jobs;
    assert!((20..=22).contains(&jobs.len()), "{}", jobs.len());
    assert!(jobs.contains_key(&beta), "its project has but one");
    assert!(!jobs.contains_key(&alpha), "the oldest of the project that has most");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
