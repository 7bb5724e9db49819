//! What a user may have: limits of the site, quotas, and a fair share.

use crate::common::{TestSite, gang, limited, read_quotas, replay};
use muster_engine::{Engine, Policy, SNAPSHOT_FORMAT, State};
use muster_model::command::{Actor, Answer, Command, Refusal, RefusalCode, Request};
use muster_model::ids::JobId;
use muster_model::job::JobState;
use muster_model::policy::SitePolicy;
use muster_model::spec::{JobSpec, Priority};
use muster_model::tenant::Role;
use muster_model::units::Span;
use serde_json::json;
use std::sync::Arc;

fn by(project: &str, spec: JobSpec) -> JobSpec {
    JobSpec { project: Some(project.parse().unwrap()), ..spec }
}

fn started(w: &TestSite, id: JobId) -> bool {
    w.job(id).attempt.is_some()
}

#[test]
fn more_waiting_jobs_than_a_user_may_have_are_refused_and_leave_no_trace() {
    let mut w = TestSite::new(1, 8);
    w.policy(|p| p.limits.queued_jobs_per_user = Some(2));
    w.run(gang(1, 8));
    w.submit_as("ann", gang(1, 8));
    w.submit_as("ann", gang(1, 8));
    let (n, digest) = (w.log.len(), w.engine.state().digest());
    let e = w.try_as("ann", gang(1, 8)).unwrap_err();
    assert_eq!(e.code, RefusalCode::Policy);
    assert!(e.message.contains("ann") && e.message.contains('2'), "{e}");
    assert_eq!((w.log.len(), w.engine.state().digest()), (n, digest));
    w.submit_as("bob", gang(1, 8));
    // An array counts as many as it has tasks.
    let array = JobSpec { array: Some("0-2".into()), ..gang(1, 8) };
    assert_eq!(w.try_as("cleo", array).unwrap_err().code, RefusalCode::Policy);
    let array = JobSpec { array: Some("0-1".into()), ..gang(1, 8) };
    w.submit_as("cleo", array);
}

#[test]
fn the_queue_as_a_whole_may_be_bounded() {
    let mut w = TestSite::new(1, 8);
    w.run(gang(1, 8));
    w.policy(|p| p.limits.queued_jobs = Some(1));
    w.submit_as("ann", gang(1, 8));
    assert_eq!(w.try_as("bob", gang(1, 8)).unwrap_err().code, RefusalCode::Policy);
}

#[test]
fn held_jobs_count_among_those_that_wait_of_a_project() {
    let mut w = TestSite::new(1, 8);
    w.project("other");
    w.policy(|p| p.limits.queued_jobs_per_project = Some(3));
    let held = JobSpec { array: Some("0-1".into()), hold: true, ..gang(1, 8) };
    let first = w.submit_as("ann", held.clone());
    let e = w.try_as("bob", held.clone()).unwrap_err();
    assert_eq!(e.code, RefusalCode::Policy);
    assert_eq!(e.message, "2 jobs of project default wait already; the site allows 3");
    assert!(e.hint.unwrap().contains("limits.queued_jobs_per_project"));
    w.submit_as("bob", JobSpec { project: Some("other".parse().unwrap()), ..held.clone() });
    w.ok(Command::Cancel { job: first });
    w.submit_as("bob", held.clone());
    // By user they count too.
    w.policy(|p| p.limits.queued_jobs_per_user = Some(2));
    w.policy(|p| p.limits.queued_jobs_per_project = None);
    assert!(w.try_as("bob", held).unwrap_err().message.contains("2 jobs of bob wait already"));
}

/// Submits what runs so many bytes, as the server does.
fn submit_bytes(w: &mut TestSite, spec: JobSpec, bytes: u64) -> Result<JobId, Refusal> {
    let actor = Actor { name: "user:ann".into(), role: Role::User, project: None };
    let command = Command::Submit { spec: Arc::new(spec) };
    let req = Request { actor, at: w.now, key: None, if_version: None, command };
    let answer = w.engine.handle_with_payload(&req, bytes);
    w.tick();
    answer.map(|a| match a {
        Answer::Submitted { first, .. } => first,
        _ => panic!("a submission is answered with a number"),
    })
}

#[test]
fn what_ended_jobs_ran_counts_until_it_is_not_stored_any_more() {
    const BYTES: u64 = 900 << 10;
    let mut w = TestSite::new(1, 8);
    w.project("other");
    w.policy(|p| p.limits.stored_mib_per_project = Some(2));
    let held = JobSpec { hold: true, ..gang(1, 8) };
    let tasks = JobSpec { array: Some("0-1".into()), ..held.clone() };
    // The tasks of an array share what they run.
    let first = submit_bytes(&mut w, tasks, BYTES).unwrap();
    w.ok(Command::Cancel { job: first });
    w.ok(Command::Cancel { job: JobId(first.0 + 1) });
    let second = submit_bytes(&mut w, held.clone(), BYTES).unwrap();
    w.ok(Command::Cancel { job: second });
    let e = submit_bytes(&mut w, held.clone(), BYTES).unwrap_err();
    assert_eq!(e.code, RefusalCode::Policy);
    assert!(e.message.contains("takes 1 MiB of the store"), "{e}");
    assert!(e.message.contains("the site allows 2 MiB"), "{e}");
    assert!(e.hint.unwrap().contains("limits.stored_mib_per_project"));
    let other = JobSpec { project: Some("other".parse().unwrap()), ..held.clone() };
    submit_bytes(&mut w, other, BYTES).unwrap();
    // A state that was read from a snapshot counts the same.
    let body = w.engine.state().to_bytes().unwrap();
    let read = State::from_bytes(SNAPSHOT_FORMAT, &body).unwrap();
    w.engine = Engine::new(read, Policy::default());
    assert!(submit_bytes(&mut w, held.clone(), BYTES).is_err());
    // After an hour what ended first leaves, with what it ran.
    w.pass(Span::hours(1));
    assert_eq!(w.engine.take_unneeded(), [first]);
    assert!(w.engine.state().jobs.contains_key(&second), "half of the limit is enough");
    submit_bytes(&mut w, held, BYTES).unwrap();
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_project_has_so_many_secrets_and_no_more() {
    let mut w = TestSite::new(1, 8);
    w.project("other");
    w.policy(|p| p.limits.secrets_per_project = Some(2));
    let set = |project: &str, name: &str| Command::SetSecret {
        project: project.parse().unwrap(),
        name: name.parse().unwrap(),
    };
    w.ok(set("default", "a"));
    w.ok(set("default", "b"));
    let before = w.log.len();
    let e = w.send(set("default", "c")).unwrap_err();
    assert_eq!((e.code, e.field.as_deref()), (RefusalCode::Policy, Some("name")));
    assert_eq!(e.message, "project default has 2 secrets already; the site allows 2");
    assert!(e.hint.unwrap().contains("limits.secrets_per_project"));
    assert_eq!(w.log.len(), before, "nothing has changed");
    // A new value for one that is there, another project, and a place that became free.
    w.ok(set("default", "a"));
    w.ok(set("other", "c"));
    let (project, name) = ("default".parse().unwrap(), "b".parse().unwrap());
    w.ok(Command::DeleteSecret { project, name });
    w.ok(set("default", "c"));
    // Where the policy does not say there is a limit too.
    w.policy(|p| p.limits.secrets_per_project = None);
    for i in 2..muster_model::policy::SECRETS_PER_PROJECT {
        w.ok(set("default", &format!("s{i}")));
    }
    assert_eq!(w.send(set("default", "more")).unwrap_err().code, RefusalCode::Policy);
}

#[test]
fn the_longest_time_is_a_default_and_a_limit() {
    let mut w = TestSite::new(1, 8);
    w.policy(|p| p.limits.max_time = Some(Span::hours(2)));
    let id = w.submit(gang(1, 8));
    assert_eq!(w.job(id).spec.time_limit, Some(Span::hours(2)));
    w.start(id);
    let started = w.job(id).started_at.unwrap();
    assert_eq!(w.job(id).attempt.as_ref().unwrap().deadline, Some(started + Span::hours(2)));
    let short = w.submit(limited(1, 8, 30));
    assert_eq!(w.job(short).spec.time_limit, Some(Span::mins(30)));
    let e = w.try_as("ann", limited(1, 8, 121)).unwrap_err();
    assert_eq!((e.code, e.field.as_deref()), (RefusalCode::Policy, Some("time_limit")));
    let n = w.log.len();
    let longer =
        Command::UpdateJob { job: short, priority: None, time_limit: Some(Span::hours(3)) };
    assert_eq!(w.send(longer).unwrap_err().code, RefusalCode::Policy, "nor by a change");
    assert_eq!(w.log.len(), n);
}

#[test]
fn the_limit_of_a_job_that_runs_is_extended_by_an_operator_and_shortened_by_its_user() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(limited(1, 8, 60));
    let started = w.job(id).started_at.unwrap();
    let waits = w.submit(limited(1, 8, 30));
    let reserved = |w: &TestSite| w.job(waits).reserved_start.as_ref().unwrap().at;
    assert_eq!(reserved(&w), started + Span::hours(1));
    let ask = |w: &mut TestSite, role, job, mins| {
        let actor = Actor { name: "user:ann".into(), role, project: None };
        let time_limit = Some(Span::mins(mins));
        let (at, command) = (w.now, Command::UpdateJob { job, priority: None, time_limit });
        w.request(&Request { actor, at, key: None, if_version: None, command })
    };
    w.pass(Span::mins(20));
    let n = w.log.len();
    let e = ask(&mut w, Role::User, id, 240).unwrap_err();
    assert_eq!((e.code, w.log.len()), (RefusalCode::NotAllowed, n), "{e}");
    let e = ask(&mut w, Role::Operator, id, 20).unwrap_err();
    assert_eq!((e.code, e.field.as_deref()), (RefusalCode::Conflict, Some("time_limit")));
    assert!(e.message.contains("has run for 20m"), "{e}");
    let priority = Some(Priority::High);
    let higher = Command::UpdateJob { job: id, priority, time_limit: Some(Span::hours(4)) };
    assert_eq!(w.send(higher).unwrap_err().code, RefusalCode::Conflict);
    assert_eq!(w.log.len(), n, "what is refused leaves no trace");

    ask(&mut w, Role::Operator, id, 240).unwrap();
    let deadline = |w: &TestSite| w.job(id).attempt.as_ref().unwrap().deadline;
    assert_eq!(deadline(&w), Some(started + Span::hours(4)));
    assert_eq!(w.job(id).spec.time_limit, Some(Span::hours(4)));
    assert_eq!(reserved(&w), started + Span::hours(4), "no start is reserved before that");
    w.pass(Span::mins(60));
    assert_eq!(w.job(id).state, JobState::Running, "the first limit is past");
    // What comes sooner harms nobody.
    ask(&mut w, Role::User, id, 90).unwrap();
    assert_eq!(deadline(&w), Some(started + Span::mins(90)));
    ask(&mut w, Role::User, waits, 600).unwrap();
    w.pass(Span::mins(11));
    assert_eq!(w.job(id).state, JobState::Stopping);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_user_runs_so_many_jobs_at_once_and_no_more() {
    let mut w = TestSite::new(4, 8);
    w.policy(|p| p.limits.running_jobs_per_user = Some(2));
    let mine: Vec<JobId> = (0..3).map(|_| w.submit_as("ann", gang(1, 8))).collect();
    let other = w.submit_as("bob", gang(1, 8));
    let up: Vec<bool> = mine.iter().map(|j| started(&w, *j)).collect();
    assert_eq!(up, [true, true, false]);
    assert!(started(&w, other), "others are not held up");
    let e = w.explain(mine[2]);
    assert!(e.summary.contains("2 of 2 jobs"), "{}", e.summary);
    w.start(mine[0]);
    w.finish(mine[0]);
    assert!(started(&w, mine[2]));
}

#[test]
fn a_user_holds_so_many_gpus_at_once_and_no_more() {
    let mut w = TestSite::new(4, 8);
    w.policy(|p| p.limits.gpus_per_user = Some(10));
    let a = w.submit_as("ann", gang(1, 8));
    let b = w.submit_as("ann", gang(1, 4));
    let c = w.submit_as("ann", gang(1, 2));
    assert_eq!((started(&w, a), started(&w, b), started(&w, c)), (true, false, true));
    let e = w.explain(b);
    assert!(e.summary.contains("10 of 10 GPUs"), "{}", e.summary);
    w.policy(|p| p.limits.gpus_per_user = None);
    assert!(started(&w, b), "a limit that is lifted is lifted at once");
}

#[test]
fn a_quota_that_is_used_up_holds_its_project_back_and_says_so() {
    let mut w = TestSite::new(4, 8);
    w.project("blue");
    w.quotas(&json!([
        {"name": "blue", "projects": ["blue"], "gpus": [{"nominal": 8, "borrow": 0}]},
    ]));
    let a = w.submit(by("blue", gang(1, 8)));
    let b = w.submit(by("blue", gang(1, 8)));
    let other = w.submit(gang(1, 8));
    assert_eq!((started(&w, a), started(&w, b), started(&w, other)), (true, false, true));
    let e = w.explain(b);
    let binding = e.constraints.iter().find(|c| c.binding).unwrap();
    assert_eq!(binding.name, "quota");
    assert!(e.summary.contains("quota blue"), "{}", e.summary);
    assert_eq!(w.job(b).reserved_start, None, "no limit of what runs frees quota");
    w.quotas(&json!([]));
    assert!(started(&w, b));
}

#[test]
fn quotas_name_projects_that_exist() {
    let mut w = TestSite::new(1, 8);
    let tree = json!({"tree": [{"name": "x", "projects": ["nobody"], "gpus": [{"nominal": 1}]}]});
    let quotas = Arc::new(read_quotas(&tree));
    let n = w.log.len();
    let e = w.send(Command::SetQuotas { quotas }).unwrap_err();
    assert_eq!((e.code, w.log.len()), (RefusalCode::NotFound, n));
}

#[test]
fn a_strict_quota_lets_nobody_pass() {
    for (order, passes) in [("strict", false), ("best-effort", true)] {
        let mut w = TestSite::new(2, 8);
        w.project("blue");
        w.quotas(&json!([
            {"name": "blue", "projects": ["blue"], "order": order, "gpus": [{"nominal": 16}]},
        ]));
        w.run(by("blue", gang(1, 8)));
        let wide = w.submit(by("blue", gang(2, 8)));
        let small = w.submit(by("blue", limited(1, 8, 1)));
        assert!(!started(&w, wide));
        assert_eq!(started(&w, small), passes, "{order}");
    }
}

#[test]
fn who_has_had_less_goes_first_and_old_use_fades() {
    let mut w = TestSite::new(1, 8);
    // Ann has had the machine for a day.
    let id = w.submit_as("ann", gang(1, 8));
    w.start(id);
    w.pass(Span::hours(24));
    let ann = w.submit_as("ann", gang(1, 8));
    let bob = w.submit_as("bob", gang(1, 8));
    let e = w.explain(ann);
    assert_eq!((e.ahead_count, e.ahead[0].job), (1, bob));
    assert!(e.ahead[0].why.contains("fair share"), "{:?}", e.ahead);
    w.finish(id);
    assert!(started(&w, bob) && !started(&w, ann), "although ann was first");
    // Bob has it for an hour, long after. Ann's day has faded to less than that.
    w.start(bob);
    w.finish(bob);
    w.start(ann);
    w.finish(ann);
    let half = w.engine.state().policy.fair_share.half_life;
    w.pass(Span(half.0 * 10));
    let id = w.submit_as("bob", gang(1, 8));
    w.start(id);
    w.pass(Span::hours(1));
    let bob = w.submit_as("bob", gang(1, 8));
    let ann = w.submit_as("ann", gang(1, 8));
    w.finish(id);
    assert!(started(&w, ann) && !started(&w, bob), "a day long ago weighs less than an hour now");
}

#[test]
fn fair_share_never_passes_a_class_and_can_be_turned_off() {
    let mut w = TestSite::new(1, 8);
    let id = w.submit_as("ann", gang(1, 8));
    w.start(id);
    w.pass(Span::hours(24));
    let ann = w.submit_as("ann", JobSpec { priority: Priority::High, ..gang(1, 8) });
    let bob = w.submit_as("bob", gang(1, 8));
    w.finish(id);
    assert!(started(&w, ann) && !started(&w, bob));
    let mut w = TestSite::new(1, 8);
    w.policy(|p| p.fair_share.enabled = false);
    let id = w.submit_as("ann", gang(1, 8));
    w.start(id);
    w.pass(Span::hours(24));
    let ann = w.submit_as("ann", gang(1, 8));
    let bob = w.submit_as("bob", gang(1, 8));
    w.finish(id);
    assert!(started(&w, ann) && !started(&w, bob), "age alone");
}

#[test]
fn a_policy_that_makes_no_sense_is_refused_and_the_same_one_again_changes_nothing() {
    let mut w = TestSite::new(1, 8);
    let n = w.log.len();
    let mut bad = SitePolicy::default();
    bad.fair_share.half_life = Span(1);
    let e = w.send(Command::SetPolicy { policy: Arc::new(bad) }).unwrap_err();
    assert_eq!((e.code, e.field.as_deref()), (RefusalCode::Invalid, Some("fair_share.half_life")));
    w.ok(Command::SetPolicy { policy: Arc::new(SitePolicy::default()) });
    assert_eq!(w.log.len(), n);
}

#[test]
fn starts_are_staggered_where_the_policy_says_so() {
    let mut w = TestSite::new(4, 8);
    w.policy(|p| {
        p.power.stagger_gpus = 8;
        p.power.stagger_window = Span::secs(10);
    });
    let jobs: Vec<JobId> = (0..3).map(|_| w.gang(1, 8)).collect();
    let up = |w: &TestSite| jobs.iter().filter(|j| started(w, **j)).count();
    assert_eq!(up(&w), 1);
    w.sleep(Span::secs(10));
    assert_eq!(up(&w), 2);
    w.sleep(Span::secs(10));
    assert_eq!(up(&w), 3);
}

#[test]
fn a_power_budget_is_not_passed() {
    let mut w = TestSite::new(4, 8);
    // One node of eight at 700 W each and its host draws 8,100 W.
    w.policy(|p| {
        p.power.feeds.insert("A".into(), 17_000);
    });
    let jobs: Vec<JobId> = (0..3).map(|_| w.gang(1, 8)).collect();
    let up: Vec<bool> = jobs.iter().map(|j| started(&w, *j)).collect();
    assert_eq!(up, [true, true, false]);
    assert!(w.explain(jobs[2]).summary.contains("power"), "{:?}", w.explain(jobs[2]));
}
