//! Who makes room for whom, with which warning, and what becomes of them.

use crate::common::{TestSite, checkpoints, gang, limited};
use muster_model::command::{Command, Observed};
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::{Basis, JobState, Rank, SlotEnd, StopReason, Verdict};
use muster_model::spec::{JobSpec, Priority, Tier};
use muster_model::units::Span;
use serde_json::json;

fn of(priority: Priority, spec: JobSpec) -> JobSpec {
    JobSpec { priority, ..spec }
}

fn spot(spec: JobSpec) -> JobSpec {
    JobSpec { tier: Tier::Spot, ..spec }
}

fn asked(spec: JobSpec) -> JobSpec {
    JobSpec { checkpoint: checkpoints(true), ..spec }
}

fn stopped_for(w: &TestSite, id: JobId) -> Option<(JobId, Rank)> {
    match w.job(id).attempt.as_ref()?.stop.as_ref()?.reason {
        StopReason::Preempted { by, rank } => by.map(|by| (by, rank)),
        _ => None,
    }
}

fn noticed(w: &TestSite, id: JobId) -> bool {
    w.job(id).attempt.as_ref().is_some_and(|a| a.notice.is_some() && a.stop.is_none())
}

/// So long that nobody is spared for having just begun.
fn rest(w: &mut TestSite) {
    w.pass(w.engine.state().policy.preemption.min_run);
}

#[test]
fn work_that_writes_checkpoints_on_request_is_asked_for_one_and_stopped_when_it_is_there() {
    let mut w = TestSite::new(2, 8);
    let low = w.run(of(Priority::Low, asked(gang(2, 8))));
    let submitted = w.job(low).submitted_at;
    rest(&mut w);
    let n = w.log.len();
    let high = w.submit(of(Priority::High, limited(1, 8, 60)));
    let notice = w.engine.state().policy.preemption.notice;
    let given: Vec<_> = w
        .since(n)
        .filter_map(|e| match e {
            Event::NoticeGiven { key, reason, until } => Some((key.job, reason.clone(), *until)),
            _ => None,
        })
        .collect();
    let why = StopReason::Preempted { by: Some(high), rank: Rank::Priority };
    assert_eq!(given, [(low, why, w.now + notice)]);
    assert!(w.since(n).any(|e| matches!(e, Event::CheckpointAsked { key } if key.job == low)));
    assert!(!w.since(n).any(|e| matches!(e, Event::StopOrdered { .. })));
    assert_eq!(w.job(low).state, JobState::Running, "it writes its checkpoint");
    let p = w.job(high).reserved_start.clone().unwrap();
    assert_eq!((p.basis, p.at), (Basis::Preemption, w.now + notice));
    w.pass(Span::secs(20));
    w.checkpoint(low, 40);
    assert_eq!(stopped_for(&w, low), Some((high, Rank::Priority)));
    assert_eq!(w.job(high).state, JobState::Queued, "its ranks are not gone yet");
    w.stopped(low);
    assert_eq!(w.job(high).state, JobState::Starting);
    assert!(p.nodes.contains(&w.nodes_of(high)[0]));
    // It goes back with its age, and is not named as the cause.
    let j = w.job(low);
    assert_eq!((j.state, j.submitted_at), (JobState::Queued, submitted));
    assert_eq!((j.preemptions, j.infrastructure_failures, j.application_failures), (1, 0, 0));
    assert_eq!(j.past.last().unwrap().verdict, Verdict::Scheduler);
    assert!(j.reason.as_deref().unwrap().contains(&format!("job {high}")));
    w.start(high);
    w.finish(high);
    assert_eq!(w.job(low).state, JobState::Starting);
    assert_eq!(w.key(low).attempt, 2);
}

#[test]
fn a_checkpoint_that_does_not_come_is_not_waited_for_longer_than_the_notice() {
    let mut w = TestSite::new(1, 8);
    let low = w.run(of(Priority::Low, asked(gang(1, 8))));
    rest(&mut w);
    let high = w.submit(of(Priority::High, gang(1, 8)));
    assert!(noticed(&w, low));
    w.sleep(Span(w.engine.state().policy.preemption.notice.0 - 1));
    assert!(noticed(&w, low));
    w.sleep(Span(1));
    assert_eq!(stopped_for(&w, low), Some((high, Rank::Priority)));
    w.stopped(low);
    assert_eq!(w.job(high).state, JobState::Starting);
}

#[test]
fn a_jobs_own_grace_is_its_notice() {
    let mut w = TestSite::new(1, 8);
    let mut spec = asked(gang(1, 8));
    spec.checkpoint.as_mut().unwrap().grace = Some(Span::mins(4));
    let low = w.run(of(Priority::Low, spec));
    rest(&mut w);
    w.submit(of(Priority::High, gang(1, 8)));
    let until = w.job(low).attempt.as_ref().unwrap().notice.as_ref().unwrap().until;
    assert_eq!(until, w.now + Span::mins(4));
}

#[test]
fn work_that_cannot_be_asked_is_stopped_with_its_usual_grace() {
    let mut w = TestSite::new(2, 8);
    let plain = w.run(of(Priority::Low, gang(1, 8)));
    let silent = w.run(JobSpec { checkpoint: checkpoints(false), ..of(Priority::Low, gang(1, 8)) });
    rest(&mut w);
    let n = w.log.len();
    let high = w.submit(of(Priority::High, gang(2, 8)));
    assert!(!w.since(n).any(|e| matches!(e, Event::NoticeGiven { .. })));
    for id in [plain, silent] {
        assert_eq!(stopped_for(&w, id), Some((high, Rank::Priority)));
        w.stopped(id);
    }
    assert_eq!(w.job(high).state, JobState::Starting);
}

#[test]
fn what_was_stopped_does_not_come_back_onto_the_kept_nodes() {
    let mut w = TestSite::new(2, 8);
    let a = w.run(of(Priority::Low, gang(1, 8)));
    let b = w.run(of(Priority::Low, gang(1, 8)));
    rest(&mut w);
    let high = w.submit(of(Priority::High, gang(2, 8)));
    w.stopped(a);
    w.pass(Span::mins(1));
    assert_eq!(w.job(a).state, JobState::Queued, "its node waits for the other one");
    assert_eq!(w.job(high).state, JobState::Queued);
    let other = w.submit(limited(1, 8, 1));
    assert_eq!(w.job(other).state, JobState::Queued, "nor may others have it");
    w.stopped(b);
    assert_eq!(w.job(high).state, JobState::Starting);
}

#[test]
fn nobody_is_stopped_before_having_run_for_a_while() {
    let mut w = TestSite::new(1, 8);
    let low = w.run(of(Priority::Low, gang(1, 8)));
    let min = w.engine.state().policy.preemption.min_run;
    w.pass(Span::mins(1));
    let high = w.submit(of(Priority::High, gang(1, 8)));
    assert_eq!(stopped_for(&w, low), None);
    w.sleep(Span(min.0 - 60_001));
    assert_eq!(stopped_for(&w, low), None);
    w.sleep(min);
    assert_eq!(stopped_for(&w, low), Some((high, Rank::Priority)), "it is looked at again");
}

#[test]
fn equal_priority_never_stops_anybody() {
    for priority in [Priority::Low, Priority::Normal, Priority::High, Priority::Critical] {
        let mut w = TestSite::new(1, 8);
        let first = w.run(of(priority, gang(1, 8)));
        rest(&mut w);
        let n = w.log.len();
        let second = w.submit(of(priority, gang(1, 8)));
        w.sleep(Span::hours(2));
        let stop = |e: &Event| matches!(e, Event::StopOrdered { .. } | Event::NoticeGiven { .. });
        assert!(!w.since(n).any(stop), "{priority:?}");
        assert_eq!(
            (w.job(first).state, w.job(second).state),
            (JobState::Running, JobState::Queued)
        );
    }
}

#[test]
fn work_whose_ranks_had_all_ended_well_before_the_order_to_make_way_is_not_done_again() {
    for (last, state) in [
        (SlotEnd::Ok, JobState::Succeeded),
        // It was not finished, and goes on when there is room.
        (SlotEnd::Stopped, JobState::Queued),
    ] {
        let mut w = TestSite::new(2, 8);
        let low = w.run(of(Priority::Low, gang(2, 8)));
        rest(&mut w);
        let nodes = w.nodes_of(low);
        let high = w.submit(of(Priority::High, gang(2, 8)));
        assert_eq!(stopped_for(&w, low), Some((high, Rank::Priority)));
        w.report(low, &nodes[0], Observed::Ended(SlotEnd::Ok));
        w.report(low, &nodes[1], Observed::Ended(last.clone()));
        assert_eq!((w.job(low).state, w.job(low).attempts), (state, 1), "{last:?}");
        assert_eq!(w.job(low).preemptions, u32::from(last == SlotEnd::Stopped));
        assert_eq!(w.job(high).state, JobState::Starting, "it has its room either way");
    }
}

#[test]
fn preemption_can_be_turned_off() {
    let mut w = TestSite::new(1, 8);
    w.policy(|p| p.preemption.enabled = false);
    let low = w.run(of(Priority::Low, gang(1, 8)));
    rest(&mut w);
    w.submit(of(Priority::Critical, gang(1, 8)));
    w.sleep(Span::hours(1));
    assert_eq!(w.job(low).state, JobState::Running);
}

#[test]
fn a_notice_is_withdrawn_when_nobody_wants_the_room_any_more() {
    type Undo = fn(&mut TestSite, JobId);
    let undos: [(&str, Undo); 3] = [
        ("cancelled", |w, id| {
            w.ok(Command::Cancel { job: id });
        }),
        ("held", |w, id| {
            w.ok(Command::Hold { job: id });
        }),
        ("made low itself", |w, id| {
            let (job, priority) = (id, Some(Priority::Low));
            w.ok(Command::UpdateJob { job, priority, time_limit: None });
        }),
    ];
    for (what, undo) in undos {
        let mut w = TestSite::new(1, 8);
        let low = w.run(of(Priority::Low, asked(gang(1, 8))));
        rest(&mut w);
        let high = w.submit(of(Priority::High, gang(1, 8)));
        assert!(noticed(&w, low));
        let n = w.log.len();
        undo(&mut w, high);
        assert!(!noticed(&w, low), "{what}");
        let withdrawn =
            |e: &Event| matches!(e, Event::NoticeWithdrawn { key, .. } if key.job == low);
        assert!(w.since(n).any(withdrawn), "{what}");
        w.checkpoint(low, 7);
        w.sleep(Span::hours(1));
        assert_eq!(w.job(low).state, JobState::Running, "{what}: it goes on");
    }
}

#[test]
fn a_notice_is_withdrawn_when_the_other_one_finds_room_elsewhere() {
    let mut w = TestSite::new(2, 8);
    let other = w.run(of(Priority::High, gang(1, 8)));
    let low = w.run(of(Priority::Low, asked(gang(1, 8))));
    rest(&mut w);
    let high = w.submit(of(Priority::High, gang(1, 8)));
    assert!(noticed(&w, low));
    w.finish(other);
    assert_eq!(w.job(high).state, JobState::Starting);
    assert!(!noticed(&w, low), "nobody needs its room");
    w.sleep(Span::hours(1));
    assert_eq!(w.job(low).state, JobState::Running);
}

#[test]
fn spot_work_is_evicted_first_and_has_no_time_of_grace_for_having_just_begun() {
    let mut w = TestSite::new(3, 8);
    let low = w.run(of(Priority::Low, gang(1, 8)));
    let normal = w.run(gang(1, 8));
    rest(&mut w);
    let cheap = w.run(spot(gang(1, 8)));
    let wants = w.submit(gang(1, 8));
    assert_eq!(stopped_for(&w, cheap), Some((wants, Rank::Spot)));
    assert_eq!(w.job(low).state, JobState::Running, "spot goes before a lower class");
    assert_eq!(w.job(normal).state, JobState::Running);
    w.stopped(cheap);
    assert_eq!(w.job(wants).state, JobState::Starting);
    // Spot work never evicts spot work.
    let n = w.log.len();
    w.submit(spot(gang(1, 8)));
    w.sleep(Span::hours(1));
    assert!(!w.since(n).any(|e| matches!(e, Event::StopOrdered { .. })));
}

#[test]
fn who_loses_least_is_stopped() {
    let mut w = TestSite::new(2, 8);
    let a = w.run(of(Priority::Low, asked(gang(1, 8))));
    let b = w.run(of(Priority::Low, asked(gang(1, 8))));
    w.pass(Span::hours(3));
    w.checkpoint(b, 1000);
    w.pass(Span::mins(1));
    w.submit(of(Priority::High, gang(1, 8)));
    assert!(noticed(&w, b), "a minute is lost and not three hours");
    assert!(!noticed(&w, a));
}

/// Two projects with eight GPUs each, of sixteen.
fn two_tenants() -> TestSite {
    tenants_on(2)
}

/// The same on so many nodes of eight.
fn tenants_on(nodes: usize) -> TestSite {
    let mut w = TestSite::new(nodes, 8);
    w.project("blue");
    w.project("red");
    w.quotas(&json!([
        {"name": "site"},
        {"name": "blue", "parent": "site", "projects": ["blue"], "gpus": [{"nominal": 8}]},
        {"name": "red", "parent": "site", "projects": ["red"], "gpus": [{"nominal": 8}]},
    ]));
    w
}

fn by(project: &str, spec: JobSpec) -> JobSpec {
    JobSpec { project: Some(project.parse().unwrap()), ..spec }
}

#[test]
fn a_withdrawn_notice_names_no_job_of_another_project() {
    for own in [true, false] {
        let mut w = TestSite::new(1, 8);
        w.project("blue");
        w.project("red");
        let low = w.run(by("blue", of(Priority::Low, asked(gang(1, 8)))));
        rest(&mut w);
        let project = if own { "blue" } else { "red" };
        let high = w.submit(by(project, of(Priority::High, gang(1, 8))));
        assert!(noticed(&w, low));
        let n = w.log.len();
        w.ok(Command::Cancel { job: high });
        let reason = w.since(n).find_map(|e| match e {
            Event::NoticeWithdrawn { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        let who = if own { format!("job {high}") } else { "another job".to_owned() };
        assert_eq!(reason, Some(format!("{who} no longer waits for its capacity")));
    }
}

#[test]
fn what_is_idle_is_lent_and_reclaimed_from_borrowers_alone() {
    let mut w = two_tenants();
    let own = w.run(by("blue", gang(1, 8)));
    w.pass(Span::mins(1));
    let lent = w.run(by("blue", gang(1, 8)));
    rest(&mut w);
    let claim = w.submit(by("red", gang(1, 8)));
    let stopped: Vec<JobId> =
        [own, lent].into_iter().filter(|j| stopped_for(&w, *j).is_some()).collect();
    assert_eq!(stopped.len(), 1, "one of blue's two, which is what it borrows");
    assert_eq!(stopped_for(&w, stopped[0]), Some((claim, Rank::Quota)));
    w.stopped(stopped[0]);
    assert_eq!(w.job(claim).state, JobState::Starting);
    w.start(claim);
    // Now both have their own: neither may take from the other.
    let n = w.log.len();
    let more = w.submit(by("red", gang(1, 8)));
    w.sleep(Span::hours(2));
    assert!(!w.since(n).any(|e| matches!(e, Event::StopOrdered { .. })), "blue holds its own");
    assert_eq!(w.job(more).state, JobState::Queued);
    assert_eq!(w.job(stopped[0]).state, JobState::Queued);
}

#[test]
fn quota_that_spot_work_borrowed_is_reclaimed_although_nodes_are_free() {
    let mut w = tenants_on(4);
    let cheap = [0, 1].map(|_| w.run(spot(of(Priority::Low, by("blue", gang(1, 8))))));
    let claim = w.submit(by("red", gang(1, 8)));
    let stopped: Vec<JobId> = cheap.into_iter().filter(|j| stopped_for(&w, *j).is_some()).collect();
    assert_eq!(stopped.len(), 1, "two nodes are free, and blue holds all quota");
    assert_eq!(stopped_for(&w, stopped[0]), Some((claim, Rank::Quota)));
    let more = w.submit(by("blue", gang(1, 8)));
    let why = w.explain(more).summary;
    let short = "quota blue leaves 0 of the 8 GPUs it asks for: 8 owned, 8 borrowed, 16 used";
    let kept = "8 of what is given back are reserved for jobs that others are preempted for";
    assert_eq!(why, format!("{short}; {kept}; it may borrow what others do not use now"));
    let state = w.engine.state();
    let listed = state.stopped_by(w.job(more), &mut state.reasons(w.now), w.now);
    assert_eq!(listed, Some(why), "a list gives the reason that explain gives");
    w.stopped(stopped[0]);
    assert_eq!(w.job(claim).state, JobState::Starting);
    assert_eq!(w.job(stopped[0]).state, JobState::Queued, "it does not take its quota back");
    assert_eq!(w.job(more).state, JobState::Queued);
}

#[test]
fn a_claim_beyond_what_is_ones_own_reclaims_nothing() {
    let mut w = two_tenants();
    let a = w.run(by("blue", gang(1, 8)));
    let b = w.run(by("blue", gang(1, 8)));
    rest(&mut w);
    let n = w.log.len();
    let wide = w.submit(by("red", gang(2, 8)));
    w.sleep(Span::hours(1));
    assert!(!w.since(n).any(|e| matches!(e, Event::StopOrdered { .. })));
    assert_eq!(w.job(wide).state, JobState::Queued, "16 GPUs are more than red's 8");
    assert_eq!((w.job(a).state, w.job(b).state), (JobState::Running, JobState::Running));
}

#[test]
fn a_victim_that_ends_by_itself_is_not_requeued() {
    let mut w = TestSite::new(1, 8);
    let low = w.run(of(Priority::Low, asked(gang(1, 8))));
    rest(&mut w);
    let high = w.submit(of(Priority::High, gang(1, 8)));
    assert!(noticed(&w, low));
    w.finish(low);
    assert_eq!(w.job(low).state, JobState::Succeeded);
    assert_eq!(w.job(high).state, JobState::Starting);
}

#[test]
fn a_reserved_start_of_a_lower_class_shields_nobody() {
    let low = |w: &mut TestSite| {
        let runs = w.run(of(Priority::Low, limited(2, 8, 15)));
        rest(w);
        let waits = w.submit(of(Priority::Low, limited(2, 8, 60)));
        assert_eq!(w.job(waits).reserved_start.as_ref().map(|p| p.basis), Some(Basis::Limits));
        (runs, waits)
    };
    let mut w = TestSite::new(2, 8);
    let (runs, waits) = low(&mut w);
    let reported = w.job(waits).reserved_start.clone().unwrap();
    let critical = w.submit(of(Priority::Critical, limited(2, 8, 30)));
    assert_eq!(stopped_for(&w, runs), Some((critical, Rank::Priority)));
    let p = w.job(waits).reserved_start.clone().unwrap();
    assert!(p.at > reported.at && p.since == reported.since, "{p:?}");
    assert!(p.moved.as_deref().is_some_and(|m| m.contains("higher priority class")), "{p:?}");
    w.stopped(runs);
    assert_eq!(w.job(critical).state, JobState::Starting);
    // Where nobody knows when the other one ends, nothing can be reserved behind it.
    let mut w = TestSite::new(2, 8);
    let (runs, waits) = low(&mut w);
    let n = w.log.len();
    let endless = w.submit(of(Priority::Critical, gang(2, 8)));
    assert_eq!(stopped_for(&w, runs), Some((endless, Rank::Priority)));
    assert_eq!(w.job(waits).reserved_start, None);
    let dropped = |e: &Event| match e {
        Event::ReservedStartDropped { job, reason } => {
            *job == waits && reason.contains("higher priority class")
        }
        _ => false,
    };
    assert!(w.since(n).any(dropped));
}

#[test]
fn nobody_is_stopped_while_a_cancelled_gang_gives_up_enough() {
    let mut w = TestSite::new(5, 8);
    let gone = w.run(of(Priority::Critical, gang(3, 8)));
    let others = [0, 1].map(|_| w.run(gang(1, 8)));
    rest(&mut w);
    let waits = w.submit(of(Priority::Critical, gang(3, 8)));
    let n = w.log.len();
    w.ok(Command::Cancel { job: gone });
    // Its ranks end one after the other.
    for node in w.nodes_of(gone) {
        assert_eq!(w.job(waits).state, JobState::Queued);
        w.report(gone, &node, Observed::Ended(SlotEnd::Stopped));
    }
    assert_eq!(w.job(waits).state, JobState::Starting);
    let stopped = w.since(n).filter(|e| matches!(e, Event::StopOrdered { .. })).count();
    assert_eq!(stopped, 1, "the one that was cancelled");
    assert!(others.iter().all(|id| w.job(*id).state == JobState::Running));
}

#[test]
fn a_gang_that_does_not_stop_in_time_is_counted_on_no_longer() {
    let mut w = TestSite::new(5, 8);
    let stuck = w.run(of(Priority::Critical, gang(2, 8)));
    let others = [0, 1].map(|_| w.run(gang(1, 8)));
    rest(&mut w);
    w.ok(Command::Cancel { job: stuck });
    let waits = w.submit(of(Priority::Critical, gang(3, 8)));
    assert!(others.iter().all(|id| stopped_for(&w, *id).is_none()), "its two are enough");
    w.sleep(Span::hours(1));
    for id in others {
        assert_eq!(stopped_for(&w, id), Some((waits, Rank::Priority)));
    }
}

#[test]
fn room_that_others_make_is_not_given_up_before_they_have_left() {
    let start = |w: &TestSite, id: JobId| w.job(id).reserved_start.clone().unwrap();
    let mut w = TestSite::new(2, 8);
    let short = w.run(of(Priority::Critical, limited(1, 8, 6)));
    let leaves = w.run(of(Priority::High, asked(gang(1, 5))));
    rest(&mut w);
    w.pass(Span::secs(30));
    // When a start is reserved on both nodes; a notice that is given now is over later.
    let ends = w.now + Span::secs(30);
    let pair = w.submit(of(Priority::Critical, limited(2, 2, 60)));
    let normal = w.submit(limited(1, 5, 10));
    assert_eq!((start(&w, pair).at, start(&w, normal).at), (ends, ends));
    let n = w.log.len();
    let single = w.submit(of(Priority::Critical, limited(1, 2, 60)));
    // Two of its GPUs are free now, and reserved for others until the notice is over.
    let p = start(&w, single);
    let made = (Basis::Preemption, w.now + w.engine.state().policy.preemption.notice);
    assert_eq!((p.basis, p.at), made);
    assert!(p.nodes.iter().eq(&w.nodes_of(leaves)), "{p:?}");
    assert!(noticed(&w, leaves));
    w.pass(Span::secs(10));
    w.checkpoint(leaves, 40);
    assert_eq!(stopped_for(&w, leaves), Some((single, Rank::Priority)));
    let count = |what: fn(&Event) -> bool| w.since(n).filter(|e| what(e)).count();
    assert_eq!(count(|e| matches!(e, Event::NoticeGiven { .. })), 1);
    assert_eq!(count(|e| matches!(e, Event::NoticeWithdrawn { .. })), 0);
    assert_eq!((start(&w, pair).at, start(&w, normal).at), (ends, ends));
    w.stopped(leaves);
    assert_eq!(w.job(single).state, JobState::Starting);
    assert!(p.nodes.iter().eq(&w.nodes_of(single)), "where room was made for it");
    w.finish(short);
    assert_eq!(w.job(pair).state, JobState::Starting);
}
