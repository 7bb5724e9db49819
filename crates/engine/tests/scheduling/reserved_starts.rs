//! Waiting gangs learn when they start at the latest, and that is kept.

use crate::common::{TestSite, gang, limited, node, number, read_quotas};
use muster_model::command::Command;
use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::job::{Basis, JobState, ReservedStart, START_DUE};
use muster_model::node::NodeRole;
use muster_model::placement::GpuSet;
use muster_model::policy::SitePolicy;
use muster_model::spec::{JobSpec, Priority};
use muster_model::units::{Span, Time};
use serde_json::json;
use std::sync::Arc;

fn reserved_start(w: &TestSite, id: JobId) -> ReservedStart {
    w.job(id).reserved_start.clone().unwrap_or_else(|| panic!("job {id} had nothing reserved"))
}

fn reserved(w: &TestSite, from: usize, id: JobId) -> Vec<ReservedStart> {
    let mine = |e: &Event| match e {
        Event::StartReserved { job, reserved_start } if *job == id => Some(reserved_start.clone()),
        _ => None,
    };
    w.since(from).filter_map(mine).collect()
}

/// Jobs that run past their limit are stopped, and their ranks go away at once.
fn let_time_pass(w: &mut TestSite, span: Span) {
    let end = w.now + span;
    while w.now < end {
        let next = w.engine.next_wake().filter(|t| *t < end).unwrap_or(end);
        w.now = next;
        w.tick();
        let stopping: Vec<JobId> = w
            .engine
            .state()
            .jobs
            .values()
            .filter(|j| j.state == JobState::Stopping)
            .map(|j| j.id)
            .collect();
        for id in stopping {
            w.stopped(id);
        }
    }
}

#[test]
fn a_waiting_gang_has_a_reserved_start_by_the_limits_of_what_runs_and_gets_it() {
    let mut w = TestSite::new(4, 8);
    let a = w.run(limited(2, 8, 60));
    w.pass(Span::mins(10));
    let b = w.run(limited(2, 8, 60));
    let began = w.now;
    let big = w.submit(limited(4, 8, 30));
    let p = reserved_start(&w, big);
    assert_eq!(p.basis, Basis::Limits);
    assert_eq!(p.at, began + Span::mins(60), "when the last of the two is over");
    assert_eq!(p.nodes.len(), 4);
    assert_eq!((p.since, p.moved.clone()), (began, None));
    let_time_pass(&mut w, Span::mins(49));
    assert_eq!(w.job(big).state, JobState::Queued);
    assert_eq!(w.job(a).state, JobState::Running);
    let_time_pass(&mut w, Span::mins(2));
    assert_eq!(w.job(a).state, JobState::Failed, "past its limit");
    assert_eq!(reserved_start(&w, big).at, p.at, "nothing moved it");
    let_time_pass(&mut w, Span::mins(9));
    assert_eq!(w.job(b).state, JobState::Failed);
    assert_eq!(w.job(big).state, JobState::Starting);
    assert_eq!(w.job(big).attempt.as_ref().unwrap().placed_at, p.at);
    assert_eq!(w.job(big).reserved_start, None, "a job that started has no reserved start");
}

#[test]
fn a_reserved_start_never_moves_later_and_work_that_ends_early_lets_it_start_early() {
    let mut w = TestSite::new(4, 8);
    let a = w.run(limited(2, 8, 60));
    let b = w.run(limited(2, 8, 120));
    let c = w.submit(limited(4, 8, 30));
    let d = w.submit(limited(4, 8, 30));
    let (pc, pd) = (reserved_start(&w, c), reserved_start(&w, d));
    assert_eq!(pc.at, w.now + Span::mins(120));
    assert_eq!(pd.at, pc.at + Span::mins(30), "one behind the other");
    w.pass(Span::mins(30));
    w.finish(b);
    assert!(reserved_start(&w, c).at <= pc.at && reserved_start(&w, d).at <= pd.at);
    assert_eq!(reserved_start(&w, c).since, pc.since);
    w.finish(a);
    assert_eq!(w.job(c).state, JobState::Starting, "an hour and a half before its time");
    assert!(reserved_start(&w, d).at <= pd.at);
    w.start(c);
    w.finish(c);
    assert_eq!(w.job(d).state, JobState::Starting);
}

#[test]
fn nothing_is_reserved_behind_work_without_a_limit() {
    let mut w = TestSite::new(2, 8);
    w.run(gang(1, 8));
    let big = w.submit(limited(2, 8, 30));
    assert_eq!(w.job(big).reserved_start, None);
    assert!(w.explain(big).estimate.is_none());
}

#[test]
fn a_short_job_passes_a_reserved_gang_and_a_long_one_does_not() {
    let mut w = TestSite::new(4, 8);
    w.run(limited(3, 8, 60));
    let big = w.submit(limited(4, 8, 60));
    let at = reserved_start(&w, big).at;
    let long = w.submit(limited(1, 8, 90));
    let endless = w.submit(gang(1, 8));
    let short = w.submit(limited(1, 8, 45));
    assert_eq!(w.job(short).state, JobState::Starting, "it is over before the gang begins");
    assert_eq!(w.job(long).state, JobState::Queued, "it would delay the gang");
    assert_eq!(w.job(endless).state, JobState::Queued);
    assert_eq!(reserved_start(&w, big).at, at);
    let e = w.explain(long);
    assert!(e.constraints.iter().any(|c| c.binding), "{e:?}");
    w.start(short);
    // The reserved start holds whatever comes.
    let_time_pass(&mut w, Span::mins(61));
    assert_eq!(w.job(big).attempt.as_ref().unwrap().placed_at, at);
}

#[test]
fn easy_backfill_reserves_a_start_for_the_head_alone() {
    let mut w = TestSite::new(2, 8);
    w.policy(|p| p.backfill.mode = muster_model::policy::BackfillMode::Easy);
    w.run(limited(2, 8, 60));
    let first = w.submit(limited(2, 8, 60));
    let second = w.submit(limited(2, 8, 60));
    assert!(w.job(first).reserved_start.is_some());
    assert!(w.job(second).reserved_start.is_none());
}

#[test]
fn a_change_of_what_a_job_asks_for_drops_its_reserved_start_and_a_new_one_follows() {
    let mut w = TestSite::new(2, 8);
    w.run(limited(2, 8, 60));
    let first = w.submit(limited(2, 8, 60));
    let second = w.submit(limited(2, 8, 30));
    let begins = w.now + Span::mins(60);
    assert_eq!(reserved_start(&w, first).at, begins);
    assert_eq!(reserved_start(&w, second).at, begins + Span::mins(60));
    let n = w.log.len();
    w.ok(Command::UpdateJob {
        job: first,
        priority: Some(Priority::Low),
        time_limit: Some(Span::mins(90)),
    });
    let dropped =
        |e: &&Event| matches!(e, Event::ReservedStartDropped { job, .. } if *job == first);
    assert_eq!(w.since(n).filter(dropped).count(), 1);
    assert_eq!(w.job(first).spec.time_limit, Some(Span::mins(90)));
    assert_eq!(w.job(first).spec.priority, Priority::Low);
    assert!(reserved_start(&w, second).at <= begins + Span::mins(60), "its reserved start stands");
    let at = reserved_start(&w, first).at;
    let clash = at < reserved_start(&w, second).at + Span::mins(30)
        && reserved_start(&w, second).at < at + Span::mins(90);
    assert!(at >= begins && !clash, "{at:?}");
    // The same again is no change.
    let n = w.log.len();
    w.ok(Command::UpdateJob { job: first, priority: Some(Priority::Low), time_limit: None });
    assert_eq!(w.since(n).count(), 0);
}

#[test]
fn a_shorter_limit_of_what_runs_leaves_reserved_starts_alone_and_a_longer_one_moves_them() {
    let mut w = TestSite::new(1, 8);
    let long = w.run(limited(1, 4, 240));
    let short = w.run(limited(1, 4, 60));
    let waits = w.submit(limited(1, 4, 30));
    let (begins, n) = (w.now + Span::mins(60), w.log.len());
    assert_eq!(reserved_start(&w, waits).at, begins);
    let update =
        |job, mins| Command::UpdateJob { job, priority: None, time_limit: Some(Span::mins(mins)) };
    w.ok(update(long, 120));
    assert!(!w.since(n).any(|e| matches!(e, Event::ReservedStartDropped { .. })));
    assert_eq!(reserved_start(&w, waits).at, begins);
    w.ok(update(short, 90));
    assert!(
        w.since(n).any(|e| matches!(e, Event::ReservedStartDropped { job, .. } if *job == waits))
    );
    assert_eq!(reserved_start(&w, waits).at, begins + Span::mins(30));
}

#[test]
fn a_held_or_cancelled_job_gives_its_reserved_start_back() {
    let mut w = TestSite::new(2, 8);
    let runs = w.run(limited(1, 8, 60));
    let big = w.submit(limited(2, 8, 60));
    let small = w.submit(limited(1, 8, 90));
    assert_eq!(w.job(small).state, JobState::Queued);
    w.ok(Command::Hold { job: big });
    assert_eq!(w.job(big).reserved_start, None);
    assert_eq!(w.job(small).state, JobState::Starting, "nothing is kept any more");
    w.ok(Command::Cancel { job: small });
    w.stopped(small);
    w.ok(Command::Release { job: big });
    assert!(w.job(big).reserved_start.is_some());
    let small = w.submit(limited(1, 8, 90));
    assert_eq!(w.job(small).state, JobState::Queued);
    w.ok(Command::Cancel { job: big });
    assert_eq!((w.job(big).state, w.job(big).reserved_start.clone()), (JobState::Cancelled, None));
    assert_eq!(w.job(small).state, JobState::Starting);
    w.finish(runs);
}

#[test]
fn a_node_that_fails_breaks_a_reserved_start_and_the_new_one_says_why() {
    let mut w = TestSite::new(3, 8);
    let a = w.run(limited(1, 8, 30));
    let b = w.run(limited(1, 8, 60));
    let c = w.run(limited(1, 8, 120));
    let big = w.submit(limited(2, 8, 60));
    let p = reserved_start(&w, big);
    assert_eq!(p.at, w.now + Span::mins(60));
    let kept: Vec<usize> = p.nodes.iter().map(number).collect();
    let on = |w: &TestSite, id| number(&w.nodes_of(id)[0]);
    assert!(kept.contains(&on(&w, a)) && kept.contains(&on(&w, b)));
    let n = w.log.len();
    let gone = w.nodes_of(b)[0].clone();
    let until = w.now + Span::mins(120);
    w.lose(&gone);
    let reported = reserved(&w, n, big);
    let last = reported.last().expect("it is reported anew");
    assert_eq!(last.at, until, "the third node is the next to be free");
    assert!(!last.nodes.contains(&gone));
    let why = last.moved.as_deref().expect("why it is later");
    assert!(why.contains(gone.as_str()) && why.contains("is lost"), "{why}");
    let said = w.explain(big).estimate.unwrap();
    assert!(said.basis.contains(why), "{}", said.basis);
    w.finish(a);
    w.start(b);
    w.finish(b);
    w.finish(c);
    assert_eq!(w.job(big).state, JobState::Starting, "and it starts as soon as it can");
}

#[test]
fn a_reserved_start_that_nothing_can_keep_any_more_is_taken_back() {
    let mut w = TestSite::new(2, 8);
    w.run(limited(1, 8, 30));
    w.run(limited(1, 8, 60));
    let big = w.submit(limited(2, 8, 60));
    assert!(w.job(big).reserved_start.is_some());
    w.lose(&node(0));
    assert_eq!(w.job(big).reserved_start, None, "one node is not two");
    w.connect(0, 8, "b2", Vec::new());
    assert!(w.job(big).reserved_start.is_some() || w.job(big).attempt.is_some());
}

#[test]
fn a_job_says_that_its_reserved_start_was_taken_back_until_it_has_another() {
    let mut w = TestSite::new(2, 8);
    w.run(limited(1, 8, 60));
    let wide = w.submit(limited(2, 8, 60));
    assert!(w.job(wide).reserved_start.is_some());
    // Nobody knows when this one ends.
    let high = w.run(JobSpec { priority: Priority::High, ..gang(1, 8) });
    assert_eq!(w.job(wide).reserved_start, None);
    let words = w.job(wide).start_withdrawn_words().expect("why it was taken back");
    assert!(words.contains("work of a higher priority class"), "{words}");
    let said = w.explain(wide).summary;
    assert!(said.contains(&words), "{said}");
    w.finish(high);
    assert!(w.job(wide).reserved_start.is_some());
    assert_eq!(w.job(wide).start_withdrawn_words(), None);
}

#[test]
fn a_reserved_start_on_a_node_that_carries_less_than_before_is_taken_back() {
    let mark = |role| Command::MarkNode { node: node(0), role: Some(role), hazard: None };
    let exclude = |gpus| Command::ExcludeGpus { node: node(0), gpus, reason: "slow".into() };
    let lemon = (mark(NodeRole::Lemon), mark(NodeRole::Normal), "is marked as a lemon", true);
    let fewer =
        (exclude(GpuSet(1)), exclude(GpuSet::EMPTY), "has less capacity than before", false);
    for (less, back, why, never) in [lemon, fewer] {
        let mut w = TestSite::new(2, 8);
        w.run(limited(1, 8, 30));
        w.run(limited(1, 8, 60));
        let big = w.submit(limited(2, 8, 60));
        assert!(w.job(big).reserved_start.is_some());
        let n = w.log.len();
        w.ok(less);
        assert_eq!(w.job(big).reserved_start, None, "no two nodes satisfy the request any more");
        let dropped = |e: &Event| match e {
            Event::ReservedStartDropped { job, reason } if *job == big => Some(reason.clone()),
            _ => None,
        };
        let reasons: Vec<String> = w.since(n).filter_map(dropped).collect();
        assert_eq!(reasons, [format!("node {} {why}", node(0))]);
        let e = w.explain(big);
        assert!(!e.starts_now && e.estimate.is_none(), "{e:?}");
        assert_eq!(e.impossible, never, "an excluded GPU may come back: {e:?}");
        w.ok(back);
        assert!(w.job(big).reserved_start.is_some(), "{:?}", w.explain(big));
    }
}

#[test]
fn a_reserved_start_stays_where_a_node_carries_more_or_as_much_as_before() {
    let mut w = TestSite::new(1, 8);
    w.ok(Command::MarkNode { node: node(0), role: Some(NodeRole::Lemon), hazard: None });
    w.run(JobSpec { priority: Priority::Low, ..limited(1, 8, 30) });
    let next = w.submit(JobSpec { priority: Priority::Low, ..limited(1, 8, 60) });
    let p = reserved_start(&w, next);
    assert_eq!(&p.nodes[..], [node(0)]);
    let n = w.log.len();
    w.ok(Command::MarkNode { node: node(0), role: Some(NodeRole::Normal), hazard: Some(10) });
    assert_eq!(reserved_start(&w, next), p);
    let dropped = |e: &&Event| matches!(e, Event::ReservedStartDropped { .. });
    assert_eq!(w.since(n).filter(dropped).count(), 0);
}

#[test]
fn a_job_that_can_never_start_by_rules_that_came_later_holds_no_reserved_start() {
    // Two nodes of eight GPUs draw 16,200 W.
    let power: fn(&mut TestSite) = |w| {
        w.policy(|p| {
            p.power.feeds.insert("A".into(), 9_000);
        });
    };
    let limit: fn(&mut TestSite) = |w| w.policy(|p| p.limits.gpus_per_user = Some(8));
    let quota: fn(&mut TestSite) = |w| {
        let gpus = json!([{"nominal": 8, "borrow": 0}]);
        w.quotas(&json!([{"name": "x", "projects": ["default"], "gpus": gpus}]));
    };
    for (set, why) in [
        (power, "more than the power budgets of its racks and feeds carry"),
        (limit, "may have 8 GPUs, and it asks for 16 GPUs"),
        (quota, "the quotas never give project default the 16 GPUs"),
    ] {
        let mut w = TestSite::new(2, 8);
        w.run(limited(1, 8, 60));
        let wide = w.submit(limited(2, 8, 30));
        assert!(w.job(wide).reserved_start.is_some());
        set(&mut w);
        assert_eq!(w.job(wide).reserved_start, None, "{why}");
        let words = w.job(wide).start_withdrawn_words().expect("why it was taken back");
        assert!(words.contains(why), "{words}");
        let n = w.log.len();
        w.sleep(Span::mins(10));
        assert!(reserved(&w, n, wide).is_empty(), "{why}: nor does it get another one");
        w.policy(|p| *p = SitePolicy::default());
        w.quotas(&json!([]));
        assert!(w.job(wide).reserved_start.is_some(), "{why}: it may start again");
        assert_eq!(w.job(wide).start_withdrawn_words(), None);
    }
}

#[test]
fn a_reserved_start_survives_a_restart_of_the_server() {
    let mut w = TestSite::new(4, 8);
    w.run(limited(3, 8, 60));
    let big = w.submit(limited(4, 8, 60));
    let at = reserved_start(&w, big).at;
    let bytes = w.engine.state().to_bytes().unwrap();
    let state = muster_engine::State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
    w.engine = muster_engine::Engine::new(state, muster_engine::Policy::default());
    w.pass(Span::mins(1));
    assert_eq!(reserved_start(&w, big).at, at);
    let long = w.submit(limited(1, 8, 90));
    assert_eq!(w.job(long).state, JobState::Queued, "what is kept is still kept");
    assert!(w.engine.next_wake().is_some_and(|t| t <= at && t > Time(0)));
}

#[test]
fn a_reserved_start_that_has_passed_is_not_said_to_come() {
    let mut w = TestSite::new(1, 8);
    w.run(limited(1, 8, 60));
    let next = w.submit(limited(1, 8, 30));
    let at = reserved_start(&w, next).at;
    let said = w.explain(next).estimate.unwrap();
    assert_eq!((said.at, said.reserved), (at, true));
    assert_eq!(w.job(next).reserved_ahead(at).map(|p| p.at), Some(at));
    // The server is down at that moment, and asked before it plans again.
    let bytes = w.engine.state().to_bytes().unwrap();
    let state = muster_engine::State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
    w.engine = muster_engine::Engine::new(state, muster_engine::Policy::default());
    w.now = at + Span::secs(1);
    assert_eq!(w.job(next).reserved_ahead(w.now), None);
    let e = w.explain(next);
    assert_eq!(e.estimate, None, "{e:?}");
    assert!(e.summary.ends_with(START_DUE), "{}", e.summary);
    // Where a quota binds as well, free nodes alone do not let it start.
    let tree = json!([{"name": "x", "projects": ["default"], "gpus": [{"nominal": 8}]}]);
    let quotas = Arc::new(read_quotas(&json!({ "tree": tree })));
    let mut state = w.engine.state().clone();
    let set = Record {
        seq: state.seq.next(),
        at: w.now,
        v: 1,
        org: String::new(),
        project: None,
        actor: String::new(),
        key: None,
        event: Event::QuotasSet { quotas },
    };
    state.apply(&set).unwrap();
    let why = state.stopped_by(&state.jobs[&next], &mut state.reasons(w.now), w.now);
    assert!(why.is_some(), "the quota has no GPU left");
    let e = state.explain(next, w.now).unwrap();
    assert!(!e.summary.contains(START_DUE), "{}", e.summary);
}

#[test]
fn nodes_are_gathered_for_a_big_gang_that_has_no_reserved_start() {
    let mut w = TestSite::new(4, 8);
    let mut small: Vec<JobId> = (0..4).map(|_| w.run(gang(1, 8))).collect();
    let big = w.submit(gang(3, 8));
    w.pass(w.engine.state().policy.backfill.patience);
    // Small jobs keep coming; each that ends would make room for the next one.
    let mut waiting = Vec::new();
    for _ in 0..8 {
        waiting.push(w.submit(gang(1, 8)));
    }
    for _ in 0..4 {
        if w.job(big).state != JobState::Queued {
            break;
        }
        let done = small.remove(0);
        w.finish(done);
        w.pass(Span::secs(1));
        let new: Vec<JobId> =
            waiting.iter().copied().filter(|j| w.job(*j).attempt.is_some()).collect();
        for j in new {
            waiting.retain(|x| *x != j);
            w.start(j);
            small.push(j);
        }
    }
    assert_eq!(w.job(big).state, JobState::Starting, "{:?}", w.explain(big));
}

#[test]
fn a_reserved_gang_starts_when_its_nodes_are_free_though_others_like_it_do_not_fit() {
    let mut w = TestSite::new(4, 8);
    let a = w.run(limited(2, 8, 60));
    let b = w.run(limited(2, 8, 60));
    let c = w.submit(gang(2, 8));
    let d = w.submit(gang(2, 8));
    let e = w.submit(gang(2, 8));
    assert!(w.job(c).reserved_start.is_some() && w.job(d).reserved_start.is_some());
    assert_eq!(w.job(e).reserved_start, None, "those before it have no limit");
    w.finish(a);
    let started =
        |w: &TestSite| [c, d].iter().filter(|j| w.job(**j).state == JobState::Starting).count();
    assert_eq!(started(&w), 1, "half of the fleet is free");
    w.finish(b);
    assert_eq!(started(&w), 2);
    w.start(c);
    w.finish(c);
    assert_eq!(w.job(e).state, JobState::Starting);
}
