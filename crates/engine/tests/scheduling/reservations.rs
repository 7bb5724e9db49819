//! Nodes kept for maintenance or for one tenant, in windows that come once or again and again.

use crate::common::{TestSite, checkpoints, gang, limited, node, read_reservation};
use muster_model::command::{Command, RefusalCode};
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::{JobState, StopReason};
use muster_model::spec::{JobSpec, Tier};
use muster_model::units::{Span, Time};
use serde_json::{Value, json};
use std::sync::Arc;

fn by(project: &str, spec: JobSpec) -> JobSpec {
    JobSpec { project: Some(project.parse().unwrap()), ..spec }
}

/// A window over the first node that begins in an hour and lasts two.
fn window(w: &TestSite, more: &Value) -> Value {
    let mut r = json!({
        "name": "window",
        "over": {"nodes": [node(0)]},
        "start": (w.now + Span::hours(1)).0,
        "length": "2h",
    });
    let all = r.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    r
}

fn begins(w: &TestSite, id: JobId) -> bool {
    let a = w.job(id).attempt.as_ref().unwrap();
    let reason = match (&a.stop, &a.notice) {
        (Some(s), _) => Some(&s.reason),
        (None, Some(n)) => Some(&n.reason),
        (None, None) => None,
    };
    matches!(reason, Some(StopReason::ReservationBegins { .. }))
}

fn until(w: &mut TestSite, t: Time) {
    let span = t.since(w.now);
    w.sleep(span);
}

#[test]
fn maintenance_keeps_work_off_that_would_run_into_it() {
    let mut w = TestSite::new(1, 8);
    let r = window(&w, &json!({}));
    w.reserve(r);
    let start = w.now + Span::hours(1);
    let long = w.submit(limited(1, 8, 90));
    assert_eq!(w.job(long).state, JobState::Queued);
    let short = w.submit(limited(1, 8, 30));
    assert_eq!(w.job(short).state, JobState::Starting, "it is over before");
    w.start(short);
    w.finish(short);
    let p = w.job(long).reserved_start.clone().unwrap();
    assert_eq!(p.at, start + Span::hours(2), "after the window");
    let e = w.explain(long);
    let binding = e.constraints.iter().find(|c| c.binding).unwrap();
    assert_eq!(binding.name, "reservation", "{e:?}");
    assert!(e.summary.contains("window"), "{}", e.summary);
    let basis = e.estimate.unwrap().basis;
    assert!(basis.starts_with("reserved from the end of reservation `window`"), "{basis}");
    until(&mut w, start);
    let tiny = w.submit(limited(1, 1, 1));
    assert_eq!(w.job(tiny).state, JobState::Queued, "nobody's work in it");
    until(&mut w, p.at);
    assert_eq!(w.job(long).state, JobState::Starting);
}

#[test]
fn unlimited_work_is_asked_for_a_checkpoint_in_time_and_stopped_at_the_beginning() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(JobSpec { checkpoint: checkpoints(true), ..gang(1, 8) });
    let r = window(&w, &json!({"overrun": "stop"}));
    w.reserve(r);
    let start = w.now + Span::hours(1);
    let notice = w.engine.state().policy.preemption.notice;
    until(&mut w, start - notice - Span(1));
    assert!(!begins(&w, id));
    let n = w.log.len();
    until(&mut w, start - notice);
    assert!(begins(&w, id), "reported in time");
    assert!(w.since(n).any(|e| matches!(e, Event::CheckpointAsked { .. })));
    assert_eq!(w.job(id).state, JobState::Running);
    until(&mut w, start);
    assert_eq!(w.job(id).state, JobState::Stopping, "its time is up");
    w.stopped(id);
    assert_eq!(w.job(id).state, JobState::Queued);
    until(&mut w, start + Span::hours(2));
    assert_eq!(w.job(id).state, JobState::Starting, "it goes on afterwards");
    assert_eq!(w.job(id).infrastructure_failures, 0);
}

#[test]
fn unlimited_work_without_checkpoints_runs_until_the_window_begins() {
    let mut w = TestSite::new(1, 8);
    let r = window(&w, &json!({"overrun": "stop"}));
    w.reserve(r);
    let start = w.now + Span::hours(1);
    let id = w.run(gang(1, 8));
    until(&mut w, start - Span(1));
    assert_eq!(w.job(id).state, JobState::Running);
    until(&mut w, start);
    assert!(begins(&w, id));
    w.stopped(id);
    assert_eq!(w.job(id).state, JobState::Queued);
}

#[test]
fn work_that_may_finish_finishes() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(gang(1, 8));
    let r = window(&w, &json!({"overrun": "finish"}));
    w.reserve(r);
    let start = w.now + Span::hours(1);
    until(&mut w, start + Span::mins(30));
    assert_eq!(w.job(id).state, JobState::Running);
    w.finish(id);
    let next = w.submit(gang(1, 8));
    assert_eq!(w.job(next).state, JobState::Queued, "the window has the node now");
    until(&mut w, start + Span::hours(2));
    assert_eq!(w.job(next).state, JobState::Starting);
}

#[test]
fn a_tenants_window_admits_its_project_alone() {
    let mut w = TestSite::new(1, 8);
    w.project("blue");
    let r = window(&w, &json!({"projects": ["blue"]}));
    w.reserve(r);
    let start = w.now + Span::hours(1);
    let stranger = w.run(gang(1, 8));
    until(&mut w, start);
    w.stopped(stranger);
    assert_eq!(w.job(stranger).state, JobState::Queued);
    let own = w.submit(by("blue", limited(1, 8, 60)));
    assert_eq!(w.job(own).state, JobState::Starting, "although the other one is older");
    w.start(own);
    w.finish(own);
    assert_eq!(w.job(stranger).state, JobState::Queued);
    // Work of its own that still runs at the beginning is left alone.
    let mut w = TestSite::new(1, 8);
    w.project("blue");
    let own = w.run(by("blue", gang(1, 8)));
    let r = window(&w, &json!({"projects": ["blue"]}));
    w.reserve(r);
    w.sleep(Span::hours(4));
    assert_eq!(w.job(own).state, JobState::Running);
}

#[test]
fn spot_work_may_have_what_is_lent_and_leaves_when_it_is_wanted() {
    let mut w = TestSite::new(1, 8);
    w.project("blue");
    let r = window(&w, &json!({"projects": ["blue"], "lend": true}));
    w.reserve(r);
    w.sleep(Span::hours(1));
    let plain = w.submit(gang(1, 8));
    let spot = w.submit(JobSpec { tier: Tier::Spot, ..limited(1, 8, 90) });
    assert_eq!(w.job(plain).state, JobState::Queued);
    assert_eq!(w.job(spot).state, JobState::Starting);
    w.start(spot);
    w.sleep(Span::mins(5));
    assert_eq!(w.job(spot).state, JobState::Running);
    let own = w.submit(by("blue", limited(1, 8, 60)));
    assert_eq!(w.job(spot).state, JobState::Stopping);
    w.stopped(spot);
    assert_eq!(w.job(own).state, JobState::Starting);
}

#[test]
fn who_waits_for_the_end_of_a_window_alone_is_asked_again_then() {
    use muster_model::policy::BackfillMode::{Aggressive, Conservative, Easy};
    for mode in [Conservative, Easy, Aggressive] {
        let mut w = TestSite::new(2, 8);
        w.policy(|p| p.backfill.mode = mode);
        w.ok(Command::Cordon { node: node(1), reason: "fan".into() });
        let r = window(&w, &json!({}));
        w.reserve(r);
        let end = w.now + Span::hours(3);
        w.sleep(Span::mins(61));
        let wide = w.submit(gang(2, 8));
        let small = w.submit(limited(1, 8, 10));
        until(&mut w, end - Span(1));
        assert_eq!(w.job(small).state, JobState::Queued, "{mode:?}");
        until(&mut w, end);
        assert_eq!(w.job(small).state, JobState::Starting, "{mode:?}");
        assert_eq!(w.job(wide).state, JobState::Queued, "{mode:?}");
    }
}

#[test]
fn a_recurring_window_comes_again() {
    let mut w = TestSite::new(1, 8);
    let r = window(&w, &json!({"every": "1d", "length": "1h"}));
    w.reserve(r);
    let first = w.now + Span::hours(1);
    for day in 0..3 {
        let start = first + Span::hours(24 * day);
        until(&mut w, start - Span::mins(30));
        let before = w.submit(limited(1, 8, 29));
        assert_eq!(w.job(before).state, JobState::Starting, "day {day}");
        w.start(before);
        w.finish(before);
        until(&mut w, start + Span::mins(1));
        let inside = w.submit(limited(1, 8, 10));
        assert_eq!(w.job(inside).state, JobState::Queued, "day {day}");
        until(&mut w, start + Span::hours(1));
        assert_eq!(w.job(inside).state, JobState::Starting, "day {day}");
        w.start(inside);
        w.finish(inside);
    }
}

#[test]
fn reserved_work_runs_inside_a_reservation_of_its_project_only() {
    let mut w = TestSite::new(2, 8);
    w.project("blue");
    let r = window(&w, &json!({"projects": ["blue"]}));
    w.reserve(r);
    let start = w.now + Span::hours(1);
    let spec = JobSpec { tier: Tier::Reserved, ..by("blue", limited(1, 8, 60)) };
    let id = w.submit(spec);
    assert_eq!(w.job(id).state, JobState::Queued, "two nodes are free, but not reserved yet");
    assert!(!w.engine.state().may_warn(w.job(id), w.now), "its project has a reservation");
    until(&mut w, start);
    assert_eq!(w.job(id).state, JobState::Starting);
    assert_eq!(w.nodes_of(id), [node(0)]);
    let without = w.submit(JobSpec { tier: Tier::Reserved, ..limited(1, 8, 60) });
    assert!(w.explain(without).constraints.iter().any(|c| c.name == "tier" && c.warning));
    assert!(w.engine.state().may_warn(w.job(without), w.now));
}

#[test]
fn a_reservation_of_gpus_chooses_whole_nodes_that_no_other_one_covers() {
    let mut w = TestSite::new(3, 8);
    let r = window(&w, &json!({}));
    w.reserve(r.clone());
    let mut second = r.clone();
    second["name"] = json!("second");
    second["over"] = json!({"gpus": {"count": 12}});
    w.reserve(second.clone());
    let booked = &w.engine.state().reservations["second"];
    assert_eq!(booked.nodes, [node(1), node(2)]);
    let mut third = second.clone();
    third["name"] = json!("third");
    third["over"] = json!({"gpus": {"count": 1}});
    let reservation = read_reservation(&third);
    let n = w.log.len();
    let e = w.send(Command::SetReservation { reservation: Arc::new(reservation) }).unwrap_err();
    assert_eq!((e.code, w.log.len()), (RefusalCode::Policy, n), "{e}");
    // At another time there is room.
    third["start"] = json!((w.now + Span::hours(9)).0);
    w.reserve(third);
}

#[test]
fn a_reservation_over_a_domain_covers_nodes_that_join_later() {
    let mut w = TestSite::empty();
    w.ok(Command::SetTopology { topology: Arc::new(crate::common::topology(4)) });
    for i in 0..4 {
        w.ok(Command::Enroll {
            node: node(i),
            machine: format!("m{i}"),
            token: "t".into(),
            key: None,
        });
        if i < 3 {
            w.connect(i, 8, "boot", Vec::new());
        }
    }
    let mut r = window(&w, &json!({}));
    r["over"] = json!({"domain": {"level": "rack", "path": "k0"}});
    w.reserve(r);
    w.connect(3, 8, "boot", Vec::new());
    let id = w.submit(limited(1, 8, 90));
    assert_eq!(w.job(id).state, JobState::Queued);
}

#[test]
fn a_deleted_reservation_gives_its_nodes_back_at_once() {
    let mut w = TestSite::new(1, 8);
    let r = window(&w, &json!({}));
    w.reserve(r);
    let id = w.submit(limited(1, 8, 90));
    assert_eq!(w.job(id).state, JobState::Queued);
    w.ok(Command::DeleteReservation { name: "window".parse().unwrap() });
    assert_eq!(w.job(id).state, JobState::Starting);
    let name = "window".parse().unwrap();
    let e = w.send(Command::DeleteReservation { name }).unwrap_err();
    assert_eq!(e.code, RefusalCode::NotFound);
}

#[test]
fn senseless_reservations_are_refused() {
    let mut w = TestSite::new(1, 8);
    let good = window(&w, &json!({}));
    let bad = [
        json!({"projects": ["nobody"]}),
        json!({"over": {"nodes": ["n999"]}}),
        json!({"over": {"domain": {"level": "leaf", "path": "l9"}}}),
        json!({"start": 5, "length": "1s"}),
        json!({"length": "0s"}),
        json!({"every": "1h"}),
    ];
    for more in bad {
        let mut r = good.clone();
        r.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reservation = read_reservation(&r);
        let n = w.log.len();
        let sent = w.send(Command::SetReservation { reservation: Arc::new(reservation) });
        assert!(sent.is_err(), "{more}");
        assert_eq!(w.log.len(), n);
    }
}
