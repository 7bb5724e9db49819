//! Breakers of images, templates and nodes: failures that nothing else explains.

use super::*;
use crate::common::{crash, gang, node, replay};
use muster_engine::{Engine, Policy, SNAPSHOT_FORMAT, State};
use muster_model::breaker::{BreakerState, Probe};
use muster_model::command::{Actor, Answer, RefusalCode, Request};
use muster_model::hold::HeldBy;
use muster_model::job::{JobState, SlotEnd};
use muster_model::spec::JobSpec;
use muster_model::tenant::Role;
use muster_model::units::Span;

fn of_image(name: &str, image: Option<&str>) -> JobSpec {
    let mut spec = gang(1, 8);
    spec.name = Some(name.parse().unwrap());
    spec.run.command = vec!["train".into()];
    spec.run.image = image.map(str::to_owned);
    spec
}

fn image(name: &str) -> Entity {
    Entity::Image(name.into())
}

fn state_of(w: &TestSite, e: &Entity) -> BreakerState {
    w.engine.state().health.breakers.get(e).map_or(BreakerState::Closed, |b| b.state)
}

/// What holds a job, as people read it.
fn held(w: &TestSite, id: JobId) -> String {
    w.job(id).held.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// A job cannot be run by its node, and the node is not the cause as far as anybody knows.
fn cannot(w: &mut TestSite, id: JobId) -> NodeName {
    let n = w.nodes_of(id)[0].clone();
    let end = SlotEnd::fault("the runtime gave up");
    w.report(id, &n, Observed::Ended(end));
    n
}

/// The job that is let through.
fn tried(w: &TestSite) -> JobId {
    let b = &w.engine.state().health.breakers[&image("team/x:1")];
    let Some(Probe::Attempt { key: Some(key) }) = &b.probe else { panic!("{b:?}") };
    key.job
}

fn restart(w: &mut TestSite) {
    let bytes = w.engine.state().to_bytes().unwrap();
    let state = State::from_bytes(SNAPSHOT_FORMAT, &bytes).unwrap();
    assert_eq!(replay(&w.log).digest(), state.digest(), "the log says the same");
    w.engine = Engine::new(state, Policy::default());
    w.tick();
}

/// Three jobs of one image that fail on three nodes.
fn broken_image(w: &mut TestSite) {
    let jobs: Vec<JobId> =
        (0..3).map(|i| w.run(of_image(&format!("a{i}"), Some("team/x:1")))).collect();
    let mut nodes: Vec<NodeName> = Vec::new();
    for j in &jobs {
        nodes.push(cannot(w, *j));
    }
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes.len(), 3, "the stage is set");
}

#[test]
fn an_image_that_fails_everywhere_is_kept_waiting_and_tried_again() {
    let mut w = able(8);
    let well = w.run(of_image("well", Some("team/y:1")));
    let x = image("team/x:1");
    let (first, second) =
        (w.run(of_image("a0", Some("team/x:1"))), w.run(of_image("a1", Some("team/x:1"))));
    cannot(&mut w, first);
    restart(&mut w);
    cannot(&mut w, second);
    assert_eq!(state_of(&w, &x), BreakerState::Closed, "two are not enough");
    restart(&mut w);
    let third = w.run(of_image("a2", Some("team/x:1")));
    cannot(&mut w, third);
    assert_eq!(state_of(&w, &x), BreakerState::Open);
    let why = w.engine.state().health.breakers[&x].reason.clone();
    assert!(why.contains("3 failures on 3 nodes") && why.contains("the runtime gave up"), "{why}");

    // Whoever comes now waits, and learns why. Others go on.
    let late = w.submit(of_image("late", Some("team/x:1")));
    assert_eq!(held(&w, late), "breaker image:team/x:1");
    let said = w.explain(late).summary;
    assert!(said.contains("held by breaker image:team/x:1; the breaker is probed in "), "{said}");
    assert_eq!((w.job(third).state, w.job(third).held.is_some()), (JobState::Queued, true));
    for j in [first, second] {
        assert_eq!(w.job(j).state, JobState::Starting, "placed before, and left alone");
    }
    let other = w.run(of_image("other", Some("team/y:1")));
    assert_eq!(w.job(other).state, JobState::Running);

    // One is let through; the others wait on, and so do new ones.
    restart(&mut w);
    w.sleep(Span::mins(11));
    assert_eq!(state_of(&w, &x), BreakerState::HalfOpen);
    let probe = tried(&w);
    let free: Vec<JobId> = [third, late].into_iter().filter(|j| w.job(*j).held.is_none()).collect();
    assert_eq!(free, [probe]);
    // What ran before the breaker opened is no probe.
    w.start(first);
    w.finish(first);
    assert_eq!(state_of(&w, &x), BreakerState::HalfOpen);
    restart(&mut w);
    let newer = w.submit(of_image("newer", Some("team/x:1")));
    assert!(w.job(newer).held.is_some());
    w.start(probe);
    w.pass(Span::secs(20));
    w.finish(probe);
    assert_eq!(state_of(&w, &x), BreakerState::Closed);
    for j in [first, second, third, late, newer] {
        assert_eq!(w.job(j).held, None, "{j}");
    }
    assert_eq!(w.job(well).state, JobState::Running, "it noticed nothing");
    assert!(w.engine.state().nodes.values().all(|n| n.breaker.is_none()));
    restart(&mut w);
}

#[test]
fn a_probe_that_fails_makes_the_next_wait_longer_and_one_that_lasts_is_good() {
    let mut w = able(8);
    broken_image(&mut w);
    let x = image("team/x:1");
    w.sleep(Span::mins(11));
    let probe = tried(&w);
    w.start(probe);
    cannot(&mut w, probe);
    assert_eq!(state_of(&w, &x), BreakerState::Open);
    let b = &w.engine.state().health.breakers[&x];
    assert_eq!((b.trips, b.probe_at.unwrap().since(b.since)), (2, Span::mins(20)));
    assert!(w.job(probe).held.is_some());
    w.sleep(Span::mins(21));
    let probe = tried(&w);
    w.start(probe);
    w.sleep(Span::mins(12));
    assert_eq!(w.job(probe).state, JobState::Running);
    assert_eq!(state_of(&w, &x), BreakerState::Closed, "it works");
}

#[test]
fn a_probe_that_is_cancelled_says_nothing() {
    let mut w = able(8);
    broken_image(&mut w);
    w.submit(of_image("next", Some("team/x:1")));
    w.sleep(Span::mins(11));
    let probe = tried(&w);
    w.ok(Command::Cancel { job: probe });
    if w.job(probe).state == JobState::Stopping {
        w.stopped(probe);
    }
    w.sleep(Span::mins(2));
    let x = image("team/x:1");
    assert_eq!(state_of(&w, &x), BreakerState::Open);
    assert_eq!(w.engine.state().health.breakers[&x].trips, 1);
    w.sleep(Span::mins(11));
    assert_eq!(state_of(&w, &x), BreakerState::HalfOpen, "the next one is tried");
}

#[test]
fn an_image_that_fails_in_one_project_keeps_nobody_elses_jobs_waiting() {
    let mut w = able(8);
    w.project("other");
    let project = Some("other".parse().unwrap());
    let theirs =
        |name: &str| JobSpec { project: project.clone(), ..of_image(name, Some("team/x:1")) };
    broken_image(&mut w);
    let x = image("team/x:1");
    let b = w.engine.state().health.breakers[&x].clone();
    let project_of =
        |b: &muster_model::breaker::Breaker| b.project.as_ref().map(ToString::to_string);
    assert_eq!((b.state, project_of(&b).as_deref()), (BreakerState::Open, Some("default")));
    assert!(b.reason.contains("all of project default"), "{}", b.reason);
    let own = w.submit(of_image("late", Some("team/x:1")));
    assert_eq!(held(&w, own), "breaker image:team/x:1");
    let others: Vec<JobId> = (0..4).map(|i| w.run(theirs(&format!("other{i}")))).collect();
    for other in &others {
        assert_eq!(w.job(*other).state, JobState::Running);
    }
    let waits = w.submit(theirs("next"));
    assert_eq!(w.job(waits).held, None);
    w.ok(Command::Cancel { job: waits });
    // It fails there more often: from now on it is the image.
    for other in &others {
        assert_eq!(project_of(&w.engine.state().health.breakers[&x]).as_deref(), Some("default"));
        cannot(&mut w, *other);
    }
    assert_eq!(project_of(&w.engine.state().health.breakers[&x]), None);
    let next = w.submit(theirs("last"));
    for id in [own, others[3], next] {
        assert_eq!(held(&w, id), "breaker image:team/x:1");
    }
    restart(&mut w);
}

#[test]
fn a_breaker_that_an_older_server_let_be_forced_is_released_whatever_its_name_is() {
    let mut w = able(2);
    let e = image("team/\u{202e}x:1");
    let force = |state| Command::ForceBreaker { entity: e.clone(), state, reason: "known".into() };
    let open = Some(BreakerState::Open);
    let no = w.send(force(open)).unwrap_err();
    assert_eq!(no.code, RefusalCode::Invalid, "{no:?}");
    let forced = muster_health::breaker::force(None, e.clone(), open, "user:olga", "known", w.now);
    let event = Event::BreakerSet { breaker: Box::new(forced), by_operator: true };
    w.wrote(event, Policy::default());
    w.ok(force(None));
    assert_eq!(w.engine.state().health.breakers[&e].pinned, None);
}

#[test]
fn where_everything_fails_no_image_is_the_cause() {
    let mut w = able(16);
    for i in 0..4 {
        for image in ["team/x:1", "team/y:1", "team/z:1"] {
            let name = format!("{}{i}", &image[5..6]);
            let j = w.run(of_image(&name, Some(image)));
            cannot(&mut w, j);
            w.ok(Command::Cancel { job: j });
        }
    }
    let open = w.engine.state().health.breakers.keys().filter(|e| matches!(e, Entity::Image(_)));
    assert_eq!(open.count(), 0);
}

#[test]
fn what_unhealthy_nodes_end_is_not_counted_against_the_work() {
    let mut w = able(16);
    for i in 0..4 {
        let j = w.run(of_image(&format!("a{i}"), Some("team/x:1")));
        let n = w.nodes_of(j)[0].clone();
        see(&mut w, "nvlink-errors", Entity::Gpu(n.clone(), 1), Severity::Degraded);
        if w.job(j).attempt.as_ref().is_some_and(|a| a.stop.is_none()) {
            cannot(&mut w, j);
        } else {
            w.stopped(j);
        }
        w.pass(Span::mins(6));
    }
    assert_eq!(state_of(&w, &image("team/x:1")), BreakerState::Closed);
    // Nor what a server that was away ended.
    for i in 0..4 {
        let j = w.run(of_image(&format!("b{i}"), Some("team/x:1")));
        let n = w.nodes_of(j)[0].clone();
        let end = SlotEnd::no_server(Span::mins(5));
        w.report(j, &n, Observed::Ended(end));
    }
    assert_eq!(state_of(&w, &image("team/x:1")), BreakerState::Closed);
    assert!(w.engine.state().health.counts.is_empty());
}

#[test]
fn a_node_on_which_jobs_of_all_kinds_fail_takes_no_more_until_it_was_tested() {
    let mut w = able(16);
    let n = node(3);
    let mut failed = 0;
    for i in 0..64 {
        let j = w.submit(of_image(&format!("job{i}"), None));
        if w.nodes_of(j)[0] == n {
            cannot(&mut w, j);
            failed += 1;
            w.ok(Command::Cancel { job: j });
            if w.job(j).state == JobState::Stopping {
                w.stopped(j);
            }
            restart(&mut w);
            if failed == 3 {
                break;
            }
            w.pass(Span::secs(1));
        } else {
            w.start(j);
        }
        let all: Vec<JobId> = w.engine.state().jobs.values().map(|j| j.id).collect();
        if all.iter().filter(|j| w.job(**j).state == JobState::Running).count() == 15 {
            for j in all {
                if w.job(j).state == JobState::Running {
                    w.finish(j);
                }
            }
        }
    }
    assert_eq!(failed, 3, "the stage is set");
    let e = Entity::Node(n.clone());
    assert_eq!(state_of(&w, &e), BreakerState::Open);
    assert_eq!(of(&w, &n).breaker, Some(e.clone()));
    w.sleep(Span::mins(11));
    assert_eq!(state_of(&w, &e), BreakerState::HalfOpen);
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(state_of(&w, &e), BreakerState::Closed);
    assert_eq!(of(&w, &n).breaker, None);
}

fn force(entity: &Entity, state: BreakerState) -> Command {
    Command::ForceBreaker { entity: entity.clone(), state: Some(state), reason: "known".into() }
}

#[test]
fn releasing_what_somebody_held_lets_no_job_past_a_breaker_that_opened_meanwhile() {
    let mut w = able(8);
    let mut spec = of_image("mine", Some("team/x:1"));
    spec.hold = true;
    let mine = w.submit(spec);
    broken_image(&mut w);
    assert_eq!(state_of(&w, &image("team/x:1")), BreakerState::Open);
    assert_eq!(w.job(mine).held.as_ref().unwrap().by, HeldBy::Somebody);
    w.ok(Command::Release { job: mine });
    let by = &w.job(mine).held.as_ref().unwrap().by;
    assert_eq!(by.breaker(), Some(&image("team/x:1")));
    // A log of an older version has the name alone of what holds a job.
    let mut old = w.log.clone();
    for r in &mut old {
        if let Event::JobHeld { held_by, .. } = &mut r.event {
            *held_by = None;
        }
    }
    assert_eq!(replay(&old).digest(), w.engine.state().digest());
    // Who releases it now means the breaker.
    w.ok(Command::Release { job: mine });
    assert_eq!((w.job(mine).state, w.job(mine).held.as_ref()), (JobState::Starting, None));
    restart(&mut w);
}

#[test]
fn nobody_lets_a_job_past_a_breaker_that_an_operator_holds_open() {
    let mut w = able(2);
    let x = image("team/x:1");
    w.ok(force(&x, BreakerState::Open));
    let job = w.submit(of_image("k", Some("team/x:1")));
    let why = w.explain(job).summary;
    assert!(why.contains("held by breaker image:team/x:1; an operator forced that open"), "{why}");
    let refused = w.send(Command::Release { job }).unwrap_err();
    assert_eq!(refused.code, RefusalCode::Conflict);
    assert!(refused.hint.unwrap().contains("muster breakers release image:team/x:1"));
    assert_eq!(held(&w, job), "breaker image:team/x:1");
    w.ok(force(&x, BreakerState::Closed));
    assert_eq!(w.job(job).state, JobState::Starting);
}

#[test]
fn a_job_that_ended_behind_a_breaker_is_held_no_more_and_again_when_it_is_queued_again() {
    let mut w = able(2);
    let x = image("team/x:1");
    w.ok(force(&x, BreakerState::Open));
    let job = w.submit(of_image("k", Some("team/x:1")));
    assert_eq!(held(&w, job), "breaker image:team/x:1");
    w.ok(Command::Cancel { job });
    assert_eq!((w.job(job).state, held(&w, job).as_str()), (JobState::Cancelled, ""));
    w.ok(Command::Requeue { job });
    assert_eq!((w.job(job).state, held(&w, job)), (JobState::Queued, format!("breaker {x}")));
    restart(&mut w);
}

#[test]
fn a_job_that_is_queued_again_while_the_cause_of_its_end_is_looked_for_passes_no_breaker() {
    let mut w = able(2);
    let x = image("team/x:1");
    let job = w.run(of_image("k", Some("team/x:1")));
    w.ok(force(&x, BreakerState::Open));
    let n = w.nodes_of(job)[0].clone();
    w.pass(Span::secs(100));
    w.report(job, &n, crash(0, 3));
    assert!(w.job(job).ending_until().is_some(), "{:?}", w.job(job).state);
    w.ok(Command::Requeue { job });
    assert_eq!((w.job(job).state, held(&w, job)), (JobState::Queued, format!("breaker {x}")));
    restart(&mut w);
}

#[test]
fn a_hold_is_no_breakers_because_its_name_reads_so() {
    let mut w = able(2);
    let mut spec = of_image("k", Some("team/x:1"));
    spec.hold = true;
    let name = "breaker image:team/x:1".to_owned();
    let actor = Actor { name, role: Role::User, project: None };
    let (at, command) = (w.now, Command::Submit { spec: Arc::new(spec) });
    let asked = Request { actor, at, key: None, if_version: None, command };
    let Ok(Answer::Submitted { first: job, .. }) = w.request(&asked) else { panic!("{asked:?}") };
    for state in [BreakerState::Open, BreakerState::Closed] {
        w.ok(force(&image("team/x:1"), state));
        let hold = w.job(job).held.as_ref().expect("only somebody ends it");
        assert_eq!(hold.by, HeldBy::Somebody, "{state:?}");
    }
    restart(&mut w);
}

#[test]
fn a_template_is_held_as_a_whole_and_a_job_without_a_name_is_on_its_own() {
    let mut w = able(16);
    let mut spec = of_image("nightly", None);
    spec.retries.infrastructure = 0;
    for _ in 0..5 {
        let j = w.run(spec.clone());
        // Something else runs there next, so that the nodes differ.
        cannot(&mut w, j);
        w.run(of_image("filler", None));
    }
    let e = Entity::Template("default".parse().unwrap(), "nightly".into());
    assert_eq!(state_of(&w, &e), BreakerState::Open);
    let j = w.submit(spec);
    assert_eq!(held(&w, j), "breaker template:default/nightly");
    // An operator's word lets all of them go, or none.
    w.ok(force(&e, BreakerState::Closed));
    assert_eq!(w.job(j).held, None);
    let x = image("team/x:1");
    w.ok(force(&x, BreakerState::Open));
    let k = w.submit(of_image("k", Some("team/x:1")));
    w.sleep(Span::hours(5));
    assert_eq!(held(&w, k), "breaker image:team/x:1");
    let plain = w.submit(gang(1, 1));
    assert_eq!(w.job(plain).held, None);
    w.ok(force(&x, BreakerState::Closed));
    assert_eq!(w.job(k).held, None);
}

#[test]
fn an_image_under_which_nodes_become_unhealthy_is_one_incident() {
    let mut w = able(64);
    for i in 0..3 {
        let j = w.run(of_image(&format!("a{i}"), Some("team/x:1")));
        let n = w.nodes_of(j)[0].clone();
        let key = w.key(j);
        let mut f = fault("xid-79", 0);
        f.at = w.now;
        f.attempt = Some(key);
        report_fault(&mut w, &n, f);
        if w.job(j).state == JobState::Stopping {
            w.stopped(j);
        }
        w.sleep(Span::mins(2));
    }
    let x = image("team/x:1");
    assert_eq!(state_of(&w, &x), BreakerState::Open, "{:#?}", w.engine.state().health.incidents);
    let open: Vec<_> = w.engine.state().health.open_incidents().map(|i| &i.cause).collect();
    assert_eq!(open, [&x]);
}

/// What a breaker counts is in the log and in snapshots, and nowhere else.
#[test]
fn breakers_and_what_they_count_are_the_same_after_a_restart_at_any_record() {
    let mut w = able(8);
    let first = w.log.len();
    broken_image(&mut w);
    w.sleep(Span::mins(20));
    w.run(of_image("b0", Some("team/y:1")));
    let whole = w.engine.state();
    assert!(whole.health.breakers[&image("team/x:1")].trips > 0);
    for cut in first..=w.log.len() {
        let bytes = replay(&w.log[..cut]).to_bytes().unwrap();
        let mut s = State::from_bytes(SNAPSHOT_FORMAT, &bytes).unwrap();
        for r in &w.log[cut..] {
            s.apply(r).unwrap();
        }
        assert_eq!(s.health.counts, whole.health.counts, "restarted after record {cut}");
        assert_eq!(s.health.breakers, whole.health.breakers, "restarted after record {cut}");
        assert_eq!(s.digest(), whole.digest(), "restarted after record {cut}");
    }
}
