//! Which nodes a reservation gets, whose work it stops, and how work keeps out of its way.

use crate::common::{TestSite, checkpoints, gang, limited, node, number, read_reservation, replay};
use muster_engine::ReservationEffect;
use muster_model::command::{Answer, Command, Observed, Refusal, RefusalCode};
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::{JobState, SlotEnd};
use muster_model::names::NodeName;
use muster_model::spec::JobSpec;
use muster_model::units::{Span, Time};
use muster_scheduler::Constraint;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Reserves GPUs for two hours from an hour on.
fn reserve_gpus(w: &mut TestSite, name: &str, count: u32) -> Vec<NodeName> {
    let start = (w.now + Span::hours(1)).0;
    let over = json!({"gpus": {"count": count}});
    w.reserve(json!({"name": name, "over": over, "start": start, "length": "2h"}));
    w.engine.state().reservations[name].nodes.clone()
}

/// Reserves nodes for two hours.
fn reserve_nodes(w: &mut TestSite, nodes: &[NodeName], start: Time) {
    let over = json!({"nodes": nodes});
    w.reserve(json!({"name": "window", "over": over, "start": start.0, "length": "2h"}));
}

fn effect(w: &TestSite, name: &str) -> ReservationEffect {
    let state = w.engine.state();
    state.reservation_effect(&state.reservations[name], w.now)
}

#[test]
fn idle_nodes_of_one_rack_are_reserved_before_busy_and_lost_ones() {
    let mut w = TestSite::new(16, 8);
    let job = w.run(gang(2, 8));
    let busy = w.nodes_of(job);
    let lost = (0..16).map(node).find(|n| !busy.contains(n)).unwrap();
    w.lose(&lost);
    let nodes = reserve_gpus(&mut w, "night", 32);
    assert_eq!(nodes.len(), 4, "{nodes:?}");
    assert!(!nodes.contains(&lost) && nodes.iter().all(|n| !busy.contains(n)), "{nodes:?}");
    let racks: BTreeSet<usize> = nodes.iter().map(|n| number(n) / 4).collect();
    assert_eq!(racks.len(), 1, "as near as can be: {nodes:?}");
    assert_eq!(effect(&w, "night"), ReservationEffect::default());
}

#[test]
fn work_that_is_over_before_the_window_is_in_nobodys_way() {
    let mut w = TestSite::new(2, 8);
    let short = w.run(limited(1, 8, 30));
    let endless = w.run(gang(1, 8));
    assert_eq!(reserve_gpus(&mut w, "night", 8), w.nodes_of(short));
    assert!(effect(&w, "night").stops.is_empty());
    assert_eq!(w.job(endless).state, JobState::Running);
}

#[test]
fn where_work_must_stop_the_fewest_jobs_are_hit_and_named() {
    let mut w = TestSite::new(3, 8);
    let wide = w.run(gang(2, 8));
    let small = [w.run(gang(1, 4)), w.run(gang(1, 4))];
    assert_eq!(w.nodes_of(small[0]), w.nodes_of(small[1]), "they share a node");
    let mut want = w.nodes_of(wide);
    want.sort();
    let mut nodes = reserve_gpus(&mut w, "night", 16);
    nodes.sort();
    assert_eq!(nodes, want);
    assert_eq!(effect(&w, "night").stops, BTreeSet::from([wide]));
    // What is being stopped for it is still named when the window has begun.
    w.sleep(Span::hours(1));
    assert_eq!(effect(&w, "night").stops, BTreeSet::from([wide]));
}

#[test]
fn a_node_that_takes_no_work_is_reserved_last_and_named() {
    let mut w = TestSite::new(2, 8);
    w.lose(&node(0));
    assert_eq!(reserve_gpus(&mut w, "first", 8), [node(1)]);
    assert!(effect(&w, "first").not_serving.is_empty());
    assert_eq!(reserve_gpus(&mut w, "second", 8), [node(0)], "nothing else is left");
    assert_eq!(effect(&w, "second").not_serving, [(node(0), "lost")]);
}

/// Tries to reserve the only node that a site has.
fn try_reserve(w: &mut TestSite, name: &str, more: &Value) -> Result<Answer, Refusal> {
    let mut r = json!({"name": name, "over": {"gpus": {"count": 8}}});
    r.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reservation = read_reservation(&r);
    w.send(Command::SetReservation { reservation: Arc::new(reservation) })
}

#[test]
fn recurring_windows_that_meet_only_later_do_not_get_the_same_nodes() {
    let mut w = TestSite::new(1, 8);
    let start = w.now + Span::hours(1);
    let nightly = json!({"start": start.0, "length": "1h", "every": "24h"});
    try_reserve(&mut w, "nightly", &nightly).unwrap();
    let at = |after: Span, every: Option<&str>| {
        let start = (start + after).0;
        json!({"start": start, "length": "1h", "every": every})
    };
    let two_later = |every: &str| at(Span::hours(2), Some(every));
    // An hour after each other, and nearer by half a minute a day: they meet after four months.
    let e = try_reserve(&mut w, "nearer", &two_later("86370s")).unwrap_err();
    assert_eq!(e.code, RefusalCode::Policy, "{e}");
    // They meet first when the later one has come round.
    let e = try_reserve(&mut w, "farther", &two_later("86460s")).unwrap_err();
    assert_eq!(e.code, RefusalCode::Policy, "{e}");
    // One that comes once, after a hundred others.
    let once = at(Span::hours(24 * 300), None);
    let e = try_reserve(&mut w, "once", &once).unwrap_err();
    assert_eq!(e.code, RefusalCode::Policy, "{e}");
    // Those that never meet do, the one right after the other too.
    try_reserve(&mut w, "after", &at(Span::hours(1), Some("12h"))).unwrap();
    try_reserve(&mut w, "weekly", &at(Span::hours(3), Some("168h"))).unwrap();
    let once = at(Span::hours(24 * 300 + 4), None);
    try_reserve(&mut w, "once", &once).unwrap();
    // What is there already may be sent again, and keeps its node.
    let n = w.log.len();
    try_reserve(&mut w, "nightly", &nightly).unwrap();
    assert_eq!(w.log.len(), n);
    assert_eq!(w.engine.state().reservations["nightly"].nodes, [node(0)]);
}

#[test]
fn windows_that_are_over_are_in_nobodys_way() {
    let mut w = TestSite::new(1, 8);
    let start = w.now + Span::hours(1);
    try_reserve(&mut w, "first", &json!({"start": start.0, "length": "1h"})).unwrap();
    let daily = json!({"start": start.0, "length": "1h", "every": "24h"});
    try_reserve(&mut w, "daily", &daily).unwrap_err();
    w.sleep(Span::hours(2));
    try_reserve(&mut w, "daily", &daily).unwrap();
}

#[test]
fn unlimited_work_goes_where_no_window_begins_and_is_warned_where_it_cannot() {
    let mut w = TestSite::new(2, 8);
    let start = w.now + Span::hours(1);
    reserve_nodes(&mut w, &[node(0)], start);
    let first = w.run(gang(1, 8));
    assert_eq!(w.nodes_of(first), [node(1)]);
    assert!(!w.explain(first).summary.contains("window"));
    let may_warn = |w: &TestSite, id| w.engine.state().may_warn(w.job(id), w.now);
    assert!(!may_warn(&w, first), "there is nothing to ask for");
    // As before, it may have the reserved node until the window begins; nobody is surprised.
    let second = w.run(gang(1, 8));
    assert_eq!(w.nodes_of(second), [node(0)]);
    let e = w.explain(second);
    let words = "reservation window begins on node n000 in 1h: the job is stopped then";
    assert!(e.summary.contains(words), "{}", e.summary);
    let reported = |c: &Constraint| c.name == "window" && c.warning && c.detail.contains(words);
    assert!(e.constraints.iter().any(reported), "{e:?}");
    assert!(may_warn(&w, second));
    // While it waits, nobody knows yet where it goes.
    let waits = w.submit(gang(1, 8));
    assert!(may_warn(&w, waits));
    let timed = w.submit(JobSpec { time_limit: Some(Span::hours(4)), ..gang(1, 8) });
    assert!(!may_warn(&w, timed), "work with a limit never runs into a window");
}

#[test]
fn a_gang_without_a_limit_keeps_off_nodes_with_a_window_ahead() {
    let mut w = TestSite::new(4, 8);
    let start = w.now + Span::hours(1);
    reserve_nodes(&mut w, &[node(0), node(2)], start);
    let id = w.submit(gang(2, 8));
    assert_eq!(w.nodes_of(id), [node(1), node(3)]);
}

/// A gang of two with checkpoints that lost its first node, and when its other rank stopped.
fn fenced(w: &mut TestSite) -> (JobId, NodeName, Time) {
    let id = w.run(JobSpec { checkpoint: checkpoints(true), ..gang(2, 8) });
    w.pass(Span::mins(2));
    let nodes = w.nodes_of(id);
    w.lose(&nodes[0]);
    w.pass(Span::secs(1));
    w.report(id, &nodes[1], Observed::Ended(SlotEnd::Stopped));
    assert_eq!(w.job(id).state, JobState::Stopping, "its ranks on the lost node may still run");
    (id, nodes[0].clone(), w.now)
}

#[test]
fn who_makes_way_for_a_reservation_of_another_project_does_not_read_its_name() {
    let mut w = TestSite::new(3, 8);
    w.project("blue");
    let reserve = |w: &mut TestSite, nodes: &[NodeName], projects: &[&str]| {
        let start = (w.now + Span::secs(10)).0;
        let over = json!({"nodes": nodes});
        w.reserve(json!({"name": "merger", "over": over, "projects": projects, "start": start,
            "length": "2h"}));
    };
    // One that runs on its nodes when it begins.
    let stopped = w.run(gang(1, 8));
    let nodes = w.nodes_of(stopped);
    reserve(&mut w, &nodes, &["blue"]);
    let n = w.log.len();
    w.sleep(Span::secs(10));
    let summary = w.explain(stopped).summary;
    assert!(summary.starts_with("is stopping: a reservation begins"), "{summary}");
    w.stopped(stopped);
    let texts = |w: &TestSite, n: usize| -> Vec<String> {
        let reason = |e: &Event| match e {
            Event::AttemptEnded { reason, .. }
            | Event::JobRequeued { reason, .. }
            | Event::ReservedStartDropped { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        w.since(n).filter_map(reason).collect()
    };
    let ends = texts(&w, n);
    assert!(ends.len() >= 2 && ends.iter().all(|t| !t.contains("merger")), "{ends:?}");
    // And one whose next start was reserved where it begins.
    for (projects, named) in [(&["blue"][..], false), (&[][..], true)] {
        let mut w = TestSite::new(3, 8);
        w.project("blue");
        let (id, ..) = fenced(&mut w);
        let kept = w.job(id).reserved_start.as_ref().unwrap().nodes.to_vec();
        reserve(&mut w, &kept, projects);
        let n = w.log.len();
        w.sleep(Span::mins(30));
        assert_eq!(w.job(id).state, JobState::Queued);
        let dropped =
            texts(&w, n).into_iter().filter(|t| t.contains(" is in ")).collect::<Vec<_>>();
        assert!(!dropped.is_empty() && dropped.iter().all(|t| t.contains("merger") == named));
        let basis = w.explain(id).estimate.unwrap().basis;
        assert_eq!(basis.contains("merger"), named, "{basis}");
    }
}

#[test]
fn a_fence_is_explained_with_its_node_and_its_end() {
    let mut w = TestSite::new(4, 8);
    let (id, lost, _) = fenced(&mut w);
    let summary = w.explain(id).summary;
    for words in ["next attempt in ", "at the earliest", lost.as_str(), "have certainly stopped"] {
        assert!(summary.contains(words), "{summary}");
    }
}

#[test]
fn an_attempt_has_run_until_its_node_was_last_heard_however_long_its_fence_lasts() {
    let mut w = TestSite::new(4, 8);
    let (id, _, stopped) = fenced(&mut w);
    w.pass(Span::secs(30));
    let attempt = w.job(id).attempt.as_ref().unwrap();
    let heard = attempt.lost_at;
    assert_eq!((attempt.stopped_at(), attempt.up_until()), (Some(stopped), heard));
    assert!(heard.is_some_and(|t| t < stopped), "its other rank ended later");
    w.sleep(Span::mins(30));
    let past = w.job(id).past.last().unwrap();
    assert_eq!((past.freed_at, past.stopped_at), (None, heard));
    assert!(past.ended_at > stopped, "its end was settled when the fence was over");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_replacement_inside_a_window_of_others_is_not_waited_for() {
    let mut w = TestSite::new(6, 8);
    let (id, ..) = fenced(&mut w);
    let kept = w.job(id).reserved_start.as_ref().unwrap().nodes.to_vec();
    let start = w.now + Span::secs(10);
    reserve_nodes(&mut w, &kept, start);
    w.sleep(Span::mins(30));
    assert_eq!(w.job(id).state, JobState::Starting, "others are free");
    assert!(w.nodes_of(id).iter().all(|n| !kept.contains(n)));
    // Where no others are, its start is after the window.
    let mut w = TestSite::new(3, 8);
    let (id, ..) = fenced(&mut w);
    let kept = w.job(id).reserved_start.as_ref().unwrap().nodes.to_vec();
    let start = w.now + Span::secs(10);
    reserve_nodes(&mut w, &kept, start);
    w.sleep(Span::mins(30));
    assert_eq!(w.job(id).state, JobState::Queued);
    assert_eq!(w.job(id).reserved_start.as_ref().unwrap().at, start + Span::hours(2));
    assert_eq!(w.explain(id).estimate.unwrap().at, start + Span::hours(2));
    w.sleep(Span::hours(2));
    assert_eq!(w.job(id).state, JobState::Starting);
}
