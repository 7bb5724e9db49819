//! Work that can go on from a checkpoint is moved so that a waiting gang fits.

use crate::common::{TestSite, checkpoints, gang};
use muster_engine::State;
use muster_model::command::Command;
use muster_model::ids::{Epoch, JobId};
use muster_model::job::{Basis, JobState, StopReason};
use muster_model::names::ProjectName;
use muster_model::quota::{Quota, Quotas};
use muster_model::spec::JobSpec;
use muster_model::units::{Span, Time};
use muster_scheduler::fairshare::Usage;
use std::sync::Arc;

/// Two nodes, each half taken by a job that can be moved; nobody has eight GPUs.
fn halves() -> (TestSite, JobId, JobId) {
    let mut w = TestSite::new(2, 8);
    let half = || JobSpec { checkpoint: checkpoints(true), ..gang(1, 4) };
    let all: Vec<JobId> = (0..4).map(|_| w.run(half())).collect();
    let on = |w: &TestSite, id: JobId| w.nodes_of(id)[0].clone();
    let first = all[0];
    let other = *all.iter().find(|j| on(&w, **j) != on(&w, first)).unwrap();
    for id in all {
        if id != first && id != other {
            w.finish(id);
        }
    }
    (w, first, other)
}

#[test]
fn moves_that_are_worth_it_are_proposed_and_nothing_is_done_unless_it_is_turned_on() {
    let (mut w, a, b) = halves();
    w.pass(Span::mins(10));
    let big = w.submit(gang(1, 8));
    let found = w.engine.state().move_proposals(w.now);
    assert_eq!(found.len(), 1);
    let (m, moved) = (&found[0], &found[0].moves[0]);
    assert_eq!((m.gang, m.moves.len()), (big, 1));
    let stays = if moved.job == a { b } else { a };
    assert_eq!(moved.from, w.nodes_of(moved.job));
    assert_eq!(moved.to, w.nodes_of(stays), "beside the other one");
    assert!(m.gain_gpu_s > m.cost_gpu_s);
    w.sleep(Span::hours(1));
    assert_eq!((w.job(a).state, w.job(b).state), (JobState::Running, JobState::Running));
}

#[test]
fn a_move_stops_work_at_a_checkpoint_and_it_goes_on_elsewhere() {
    let (mut w, a, b) = halves();
    w.policy(|p| p.defrag.enabled = true);
    w.pass(Span::mins(10));
    let big = w.submit(gang(1, 8));
    assert_eq!(w.job(big).reserved_start.as_ref().map(|p| p.basis), Some(Basis::Move));
    let warned = |w: &TestSite, id: JobId| {
        let notice = w.job(id).attempt.as_ref().and_then(|a| a.notice.clone());
        notice.is_some_and(|n| n.reason == StopReason::Moved { by: Some(big) })
    };
    let moved = if warned(&w, a) { a } else { b };
    let stays = if moved == a { b } else { a };
    assert!(warned(&w, moved) && !warned(&w, stays));
    w.checkpoint(moved, 3);
    w.stopped(moved);
    assert_eq!(w.job(big).state, JobState::Starting);
    assert_eq!(w.job(moved).state, JobState::Starting);
    assert_eq!(w.nodes_of(moved), w.nodes_of(stays));
    assert_eq!(w.job(moved).preemptions, 0);
}

#[test]
fn a_move_whose_node_is_lost_meanwhile_is_one_move() {
    let (mut w, a, b) = halves();
    w.policy(|p| p.defrag.enabled = true);
    w.pass(Span::mins(10));
    w.submit(gang(1, 8));
    let warned =
        |w: &TestSite, id: JobId| w.job(id).attempt.as_ref().is_some_and(|a| a.notice.is_some());
    let moved = if warned(&w, a) { a } else { b };
    w.checkpoint(moved, 3);
    assert_eq!(w.engine.state().moves.len(), 1);
    let gone = w.nodes_of(moved)[0].clone();
    w.lose(&gone);
    w.pass(Span::secs(1));
    w.ok(Command::Lead { epoch: Epoch(2), server: "s".into(), restored: false });
    assert_eq!(w.job(moved).state, JobState::Stopping, "its fence has not passed");
    assert_eq!(w.engine.state().moves.len(), 1);
}

#[test]
fn a_move_is_called_off_when_the_gang_is_gone() {
    let (mut w, a, b) = halves();
    w.policy(|p| p.defrag.enabled = true);
    w.pass(Span::mins(10));
    let big = w.submit(gang(1, 8));
    w.ok(Command::Cancel { job: big });
    w.sleep(Span::hours(1));
    assert_eq!((w.job(a).state, w.job(b).state), (JobState::Running, JobState::Running));
}

#[test]
fn the_report_says_who_is_entitled_to_what_and_has_had_how_much() {
    let mut w = TestSite::new(2, 8);
    w.project("blue");
    w.project("red");
    w.quotas(&serde_json::json!([
        {"name": "site", "gpus": [{"nominal": 0}]},
        {"name": "b", "parent": "site", "shares": 3, "projects": ["blue"], "gpus": [{"nominal": 8}]},
        {"name": "r", "parent": "site", "shares": 1, "projects": ["red"], "gpus": [{"nominal": 8}]},
    ]));
    let spec = |p: &str| JobSpec { project: Some(p.parse().unwrap()), ..gang(1, 8) };
    let a = w.submit_as("ann", spec("red"));
    let b = w.submit_as("ann", spec("red"));
    w.start(a);
    w.start(b);
    w.pass(Span::hours(1));
    let r = w.engine.state().quota_report(w.now);
    let names: Vec<(&str, u32)> = r.quotas.iter().map(|q| (q.name.as_str(), q.depth)).collect();
    assert_eq!(names, [("site", 0), ("b", 1), ("r", 1)]);
    let red = &r.quotas[2];
    assert_eq!(
        (red.entitled_milli, red.received_milli, red.used_milli),
        (250, Some(1000), Some(16_000))
    );
    assert_eq!((red.limits[0].used_milli, red.limits[0].borrowed_milli), (16_000, 8000));
    assert_eq!((red.limits[0].left_milli, red.limits[0].borrow_milli), (0, None), "b lent all");
    let site = &r.quotas[0].limits[0];
    assert_eq!((site.nominal_milli, site.owned_milli, site.borrowed_milli), (0, 16_000, 0));
    assert_eq!((site.left_milli, site.borrow_milli), (0, Some(0)), "nobody lends to a root");
    // Two nodes of eight for an hour, but for what has faded.
    assert!(red.usage_gpu_s.is_some_and(|s| (57_000..=57_600).contains(&s)), "{red:?}");
    let ann = r.accounts.iter().find(|a| a.user.as_deref() == Some("ann")).unwrap();
    assert_eq!((ann.running, ann.waiting, ann.used_milli), (2, 0, 16_000));
}

/// Whoever asks for it has the state locked: with the square of these it would be minutes.
#[test]
fn the_report_of_thousands_of_projects_looks_at_each_once() {
    let count = 4000;
    let mut state = State::default();
    let named = |n: u32| -> ProjectName { format!("p{n}").parse().unwrap() };
    let mut tree: Vec<Quota> =
        serde_json::from_value(serde_json::json!([{"name": "site"}])).unwrap();
    for n in 0..count {
        let q = serde_json::json!({"name": format!("q{n}"), "parent": "site", "projects": [format!("p{n}")]});
        tree.push(serde_json::from_value(q).unwrap());
        let usage = Usage { value: 1_000_000_000, at: Time(0), rate: 0 };
        for user in ["ann", "bob"] {
            state.usage.insert((named(n), user.to_owned()), usage);
        }
    }
    state.quotas = Arc::new(Quotas { tree });
    let r = state.quota_report(Time(0));
    assert_eq!((r.quotas.len(), r.accounts.len()), (count as usize + 1, count as usize * 3));
    let (site, one) = (&r.quotas[0], &r.quotas[1]);
    assert_eq!((site.usage_gpu_s, site.received_milli), (Some(8_000_000), Some(1000)));
    assert_eq!((one.depth, one.usage_gpu_s, one.received_milli), (1, Some(2000), Some(0)));
    let (whole, ann) = (&r.accounts[0], &r.accounts[1]);
    assert_eq!((whole.entitled_milli, whole.received_milli), (1000, Some(1000)));
    assert_eq!((ann.entitled_milli, ann.received_milli, ann.usage_gpu_s), (500, Some(500), 1000));
    // Without a tree all of them are together.
    state.quotas = Arc::default();
    let r = state.quota_report(Time(0));
    assert_eq!((r.quotas.len(), r.accounts[0].received_milli), (0, Some(0)));
}
