//! The parts of a life cover it exactly, whatever happened; and known lives have known figures.

use crate::common;

use common::{TimedEvent, job, lives, placed};
use muster_metering::{AttemptObservation, Goodput, JobHistories, Part, goodput};
use muster_model::event::Event;
use muster_model::hold::{HeldBy, Hold};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Job, JobState, StopReason, Verdict};
use muster_model::units::{Span, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const H: u64 = 3_600;
const JOB: JobId = JobId(7);

fn key(attempt: u32) -> AttemptKey {
    AttemptKey { job: JOB, attempt }
}

fn started(no: u32) -> Event {
    Event::AttemptStarted { key: key(no), deadline: None }
}

fn stopped(no: u32, reason: StopReason) -> Event {
    Event::StopOrdered { key: key(no), reason, grace: Span::secs(30), fence_until: None }
}

fn ended(no: u32, verdict: Verdict) -> Event {
    Event::AttemptEnded { key: key(no), verdict, reason: String::new() }
}

fn saved(no: u32, at: Time, blocked_s: u64) -> Event {
    let checkpoint = muster_model::job::Checkpoint {
        attempt: no,
        step: None,
        path: None,
        bytes: None,
        blocked_ms: Some(blocked_s * 1000),
        at,
    };
    Event::CheckpointDone { job: JOB, checkpoint }
}

fn at(s: u64) -> Time {
    common::START + Span::secs(s)
}

fn seconds(g: &Goodput) -> BTreeMap<&'static str, u128> {
    let of = |p: Part| (p.word(), g.time.get(p) / 1000);
    Part::ALL.into_iter().map(of).filter(|(_, s)| *s > 0).collect()
}

fn lost_node() -> StopReason {
    StopReason::NodeLost { node: "n1".parse().unwrap() }
}

/// Queued for an hour, ten hours of work with a checkpoint of a minute at every hour, a node lost
/// half an hour after the last, back after ten minutes, and five hours to the end.
fn eventful() -> (Job, JobHistories) {
    let mut reported: Vec<TimedEvent> = vec![(at(H), placed(key(1), 16)), (at(H + 60), started(1))];
    for n in 1..=10 {
        reported.push((at(H + 60 + n * H), saved(1, at(H + 60 + n * H), 60)));
    }
    let fault = 11 * H + 60 + H / 2;
    reported.extend([
        (at(fault), stopped(1, lost_node())),
        (at(fault + 30), ended(1, Verdict::Infrastructure)),
        (at(fault + 90), placed(key(2), 16)),
        (at(fault + 400), started(2)),
        (at(fault + 600), Event::AttemptProgressed { key: key(2) }),
        (at(fault + 600 + 5 * H), ended(2, Verdict::Success)),
    ]);
    let mut job = job(JOB, 16);
    job.state = JobState::Succeeded;
    job.ended_at = Some(at(fault + 600 + 5 * H));
    (job, lives(&reported))
}

#[test]
fn an_eventful_life_by_hand() {
    let (job, lives) = eventful();
    let g = goodput(&job, lives.get(JOB), &BTreeMap::new(), at(1_000_000));
    let expect = BTreeMap::from([
        ("queued", u128::from(H)),
        ("starting", 60),
        ("productive", u128::from(15 * H - 600)),
        ("checkpointing", 600),
        ("lost", u128::from(H / 2)),
        ("restarting", 600),
    ]);
    assert_eq!(seconds(&g), expect);
    assert_eq!(g.wall, Span::secs(H + 60 + 10 * H + H / 2 + 600 + 5 * H));
    assert!(g.complete && !g.estimated);
    assert_eq!((g.interruptions, g.recover), (1, Some(Span::secs(600))));
    // Up for 10.5 h, then from 400 s after the fault to the end.
    assert_eq!(g.mtbi, Some(Span::secs(10 * H + H / 2 + 200 + 5 * H)));
    let productive = 15.0 * 3600.0 - 600.0;
    let all = g.wall.0 as f64 / 1000.0;
    assert_eq!(g.ettr, Some((productive / all * 1e6) as u32));
    // The minute between the two attempts was waited and not held.
    let held = all - 3600.0 - 60.0;
    assert_eq!(g.goodput, Some((productive / held * 1e6) as u32));
    // The second was placed for 510 s before its work resumed, and then worked for five hours.
    assert_eq!(g.attempts[1].goodput(), Some(972_447));
    assert_eq!(g.verdicts, BTreeMap::from([("infrastructure", 1), ("success", 1)]));
    assert_eq!(g.gpu.total(), u128::from(g.wall.0) * 16_000);
    // 16 GPUs lost half an hour, all of it under the first attempt.
    let lost = |no: u32| g.lost_by(&BTreeSet::from([no]));
    assert_eq!((lost(1), lost(2)), (u128::from(H / 2) * 16_000_000, 0));
}

#[test]
fn work_that_says_nothing_loses_all_of_it_by_estimate() {
    let reported: Vec<TimedEvent> = vec![
        (at(10), placed(key(1), 8)),
        (at(20), started(1)),
        (at(1020), stopped(1, lost_node())),
        (at(1030), ended(1, Verdict::Infrastructure)),
    ];
    let mut job = job(JOB, 8);
    let g = goodput(&job, lives(&reported).get(JOB), &BTreeMap::new(), at(1100));
    assert_eq!(
        seconds(&g),
        BTreeMap::from([("queued", 10), ("starting", 10), ("lost", 1000), ("restarting", 80)])
    );
    assert!(g.estimated && g.attempts[0].estimated && !g.attempts[1].estimated);
    assert_eq!((g.attempts.len(), g.attempts[1].no), (2, 2), "it waits for its second attempt");
    // Cancelled while it waited.
    job.state = JobState::Cancelled;
    job.ended_at = Some(at(1050));
    let g = goodput(&job, lives(&reported).get(JOB), &BTreeMap::new(), at(9000));
    assert_eq!(g.wall, Span::secs(1050));
}

#[test]
fn work_that_goes_on_counts_and_says_what_is_at_risk() {
    let reported: Vec<TimedEvent> =
        vec![(at(0), placed(key(1), 8)), (at(10), started(1)), (at(110), saved(1, at(110), 5))];
    let mut job = job(JOB, 8);
    job.state = JobState::Running;
    let idle = vec![(at(50), at(60)), (at(120), at(150))];
    let heard = BTreeMap::from([(1, AttemptObservation { working_at: Some(at(15)), idle })]);
    let g = goodput(&job, lives(&reported).get(JOB), &heard, at(200));
    assert_eq!(
        seconds(&g),
        BTreeMap::from([("starting", 15), ("checkpointing", 5), ("idle", 40), ("productive", 140)])
    );
    assert_eq!((g.unsaved, g.mtbi, g.recover), (Span::secs(60), None, None));
}

#[test]
fn leaving_after_an_order_that_ends_the_job_is_lost_with_its_work() {
    let cancelled = StopReason::Cancelled { by: "ann".into() };
    let reported: Vec<TimedEvent> = vec![
        (at(0), placed(key(1), 8)),
        (at(10), started(1)),
        (at(110), stopped(1, cancelled)),
        // It saves on its way out.
        (at(120), saved(1, at(120), 10)),
        (at(125), ended(1, Verdict::Operator)),
    ];
    let mut job = job(JOB, 8);
    job.state = JobState::Cancelled;
    job.ended_at = Some(at(125));
    let g = goodput(&job, lives(&reported).get(JOB), &BTreeMap::new(), at(200));
    assert_eq!(
        seconds(&g),
        BTreeMap::from([("starting", 10), ("checkpointing", 10), ("productive", 100), ("lost", 5)])
    );
    assert_eq!((g.interruptions, g.estimated), (0, false));
}

#[test]
fn preemption_is_waiting_and_no_failure() {
    let by = StopReason::Preempted { by: Some(JobId(9)), rank: muster_model::job::Rank::Priority };
    let reported: Vec<TimedEvent> = vec![
        (at(0), placed(key(1), 8)),
        (at(10), started(1)),
        (at(100), saved(1, at(100), 0)),
        (at(100), stopped(1, by)),
        (at(105), ended(1, Verdict::Scheduler)),
        (at(205), placed(key(2), 8)),
        (at(215), started(2)),
    ];
    let mut job = job(JOB, 8);
    job.state = JobState::Running;
    let g = goodput(&job, lives(&reported).get(JOB), &BTreeMap::new(), at(300));
    assert_eq!(
        seconds(&g),
        BTreeMap::from([
            ("starting", 20),
            ("productive", 90 + 85),
            ("restarting", 5),
            ("queued", 100)
        ])
    );
    assert_eq!((g.interruptions, g.verdicts.get("scheduler")), (0, Some(&1)));
}

#[test]
fn time_in_which_a_job_had_ended_is_no_part_of_it_and_a_persons_order_no_recovery() {
    let again = || Event::JobRequeued {
        job: JOB,
        reason: "requeued by ann".into(),
        not_before: Time(0),
        by: Some("ann".into()),
        unreported: Vec::new(),
    };
    let end = Event::SlotEnded {
        key: key(1),
        node: "n1".parse().unwrap(),
        end: muster_model::job::SlotEnd::Stopped,
        ended_at: None,
    };
    let failed = Event::JobFailed { job: JOB, reason: String::new(), exit_code: 3 };
    let mut reported: Vec<TimedEvent> = vec![
        (at(10), placed(key(1), 8)),
        (at(12), started(1)),
        (at(112), end),
        // Its cause was looked for.
        (at(117), ended(1, Verdict::Application)),
        (at(117), failed),
        (at(763), again()),
    ];
    let mut job = job(JOB, 8);
    let g = goodput(&job, lives(&reported).get(JOB), &BTreeMap::new(), at(765));
    let waits = BTreeMap::from([("queued", 12), ("starting", 2), ("lost", 100)]);
    assert_eq!((seconds(&g), g.wall), (waits, Span::secs(114)));
    assert_eq!((g.attempts[0].until, g.attempts[1].from), (at(112), at(763)));
    // Cancelled while it waits, and run again once more.
    reported.push((at(773), Event::JobCancelled { job: JOB, reason: String::new() }));
    reported.extend([
        (at(900), again()),
        (at(905), placed(key(2), 8)),
        (at(906), started(2)),
        (at(1006), ended(2, Verdict::Success)),
        (at(1006), Event::JobSucceeded { job: JOB }),
    ]);
    (job.state, job.ended_at) = (JobState::Succeeded, Some(at(1006)));
    let g = goodput(&job, lives(&reported).get(JOB), &BTreeMap::new(), at(9000));
    let parts = [("queued", 25), ("starting", 3), ("lost", 100), ("productive", 100)];
    assert_eq!(seconds(&g), BTreeMap::from(parts));
    assert_eq!((g.wall, g.time.total()), (Span::secs(228), 228_000));
    assert_eq!((g.interruptions, g.recover), (0, None), "nobody came back from a failure");
}

#[test]
fn what_the_state_keeps_is_enough_for_a_life_whose_log_was_not_read() {
    let (mut job, lives) = eventful();
    let whole = goodput(&job, lives.get(JOB), &BTreeMap::new(), at(0));
    let past = |a: &muster_metering::AttemptHistory| muster_model::job::PastAttempt {
        no: a.no,
        nodes: vec![],
        placed_at: a.placed_at,
        started_at: a.started_at,
        ended_at: a.ended_at.unwrap(),
        freed_at: None,
        stopped_at: None,
        verdict: a.verdict.unwrap(),
        reason: String::new(),
        findings: vec![],
        stopped_for: None,
    };
    let life = lives.get(JOB).unwrap();
    job.past = life.attempts.iter().map(past).collect();
    job.attempts = 2;
    let g = goodput(&job, None, &BTreeMap::new(), at(0));
    assert_eq!(g.wall, whole.wall);
    assert_eq!(g.time.total(), whole.time.total());
    assert!(g.complete && g.estimated, "its checkpoints are not known: its loss is an estimate");
    assert_eq!(g.interruptions, 1);
    // Its first attempt is forgotten: what is reported begins with the second.
    job.past.remove(0);
    let g = goodput(&job, None, &BTreeMap::new(), at(0));
    assert!(!g.complete);
    assert_eq!((g.since, g.time.total()), (life.attempts[1].placed_at, u128::from(g.wall.0)));
}

#[test]
fn work_without_gpus_is_weighed_by_its_time() {
    let reported: Vec<TimedEvent> = vec![
        (at(50), placed(key(1), 0)),
        (at(50), started(1)),
        (at(100), ended(1, Verdict::Success)),
    ];
    let mut job = job(JOB, 0);
    job.state = JobState::Succeeded;
    job.ended_at = Some(at(100));
    let g = goodput(&job, lives(&reported).get(JOB), &BTreeMap::new(), at(100));
    assert_eq!((g.ettr, g.goodput, g.gpu.total()), (Some(500_000), Some(1_000_000), 0));
    assert_eq!(g.attempts[0].goodput(), g.goodput);
}

/// A moment at which something happened, up to some hours away, and what.
fn happening() -> impl Strategy<Value = (u64, u8, u32, u64)> {
    (0u64..20_000_000, 0u8..9, 1u32..6, 0u64..4_000)
}

fn verdict(n: u64) -> Verdict {
    [
        Verdict::Success,
        Verdict::Application,
        Verdict::Infrastructure,
        Verdict::Operator,
        Verdict::Scheduler,
        Verdict::Platform,
        Verdict::Unknown,
    ][usize::try_from(n % 7).unwrap()]
}

fn reported((_, what, no, n): (u64, u8, u32, u64), at: Time) -> Event {
    match what {
        0 | 1 => placed(key(no), u32::try_from(n % 17).unwrap()),
        2 => started(no),
        3 => Event::AttemptProgressed { key: key(no) },
        4 => stopped(no, lost_node()),
        5 => stopped(no, StopReason::Cancelled { by: "x".into() }),
        // Ranks report late, and for how long they like.
        6 => saved(no, at - Span(n * 100), n),
        7 => ended(no, verdict(n)),
        _ => Event::AttemptAttributed {
            key: key(no),
            verdict: verdict(n),
            findings: vec![],
            reason: String::new(),
        },
    }
}

fn covers(g: &Goodput) {
    assert_eq!(g.time.total(), u128::from(g.wall.0), "{g:#?}");
    assert_eq!(g.wall, g.until.since(g.since));
    let of_attempts: u128 = g.attempts.iter().map(|a| a.time.total()).sum();
    assert_eq!(of_attempts, g.time.total());
    let held: u128 = g.attempts.iter().map(|a| a.allocated_gpu).sum();
    assert_eq!(held, g.allocated_gpu);
    let mut from = g.since;
    for a in &g.attempts {
        assert_eq!(a.from, from, "one after the other: {g:#?}");
        assert_eq!(a.time.total(), u128::from(a.until.since(a.from).0));
        assert_eq!(a.gpu.total(), a.time.total() * u128::from(a.milli));
        from = a.until;
    }
    assert!(g.attempts.is_empty() || from == g.until);
    assert!(g.allocated_gpu <= g.gpu.total());
    assert!(u128::from(g.up.0) <= g.time.total());
    assert!(u128::from(g.unsaved.0) <= g.time.get(Part::Productive));
    if let (Some(ettr), Some(goodput)) = (g.ettr, g.goodput) {
        assert!(ettr <= goodput, "{g:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Any order of any events: senseless ones, too.
    #[test]
    fn parts_cover_every_life(
        mut what in proptest::collection::vec(happening(), 0..40),
        rest in proptest::collection::vec((0u64..20_000_000, 1u64..5_000_000), 0..6),
        state in 0u8..4,
        now in 0u64..30_000_000,
    ) {
        what.sort_unstable();
        let at = |ms: u64| common::START + Span(ms);
        let all: Vec<TimedEvent> = what.iter().map(|w| (at(w.0), reported(*w, at(w.0)))).collect();
        let lives = lives(&all);
        let mut job = job(JOB, 8);
        job.state = [JobState::Queued, JobState::Running, JobState::Succeeded, JobState::Failed]
            [usize::from(state)];
        job.ended_at = job.state.is_final().then(|| at(now));
        let mut heard: BTreeMap<u32, AttemptObservation> = BTreeMap::new();
        for (n, (from, long)) in rest.iter().enumerate() {
            let one = heard.entry(1 + n as u32 % 3).or_default();
            one.working_at = Some(at(*from));
            let stretches = &mut one.idle;
            let from = stretches.last().map_or(at(*from), |(_, to)| at(*from).max(*to));
            stretches.push((from, from + Span(*long)));
        }
        covers(&goodput(&job, lives.get(JOB), &heard, at(now)));
        covers(&goodput(&job, None, &heard, at(now)));
        let mut unread = job.clone();
        unread.past = lives.get(JOB).map(|l| l.attempts.as_slice()).unwrap_or_default()
            .iter()
            .filter_map(|a| Some(muster_model::job::PastAttempt {
                no: a.no,
                nodes: vec![],
                placed_at: a.placed_at,
                started_at: a.started_at,
                ended_at: a.ended_at?,
                freed_at: None,
                stopped_at: None,
                verdict: a.verdict?,
                reason: String::new(),
                findings: vec![],
                stopped_for: None,
            }))
            .collect();
        covers(&goodput(&unread, None, &heard, at(now)));
        covers(&goodput(&unread, lives.get(JOB), &heard, at(now)));
    }
}

#[test]
fn what_a_job_did_itself_is_a_failure_and_no_recovery() {
    let reported: Vec<TimedEvent> = vec![
        (at(10), placed(key(1), 8)),
        (at(12), started(1)),
        (at(112), ended(1, Verdict::Application)),
        (at(120), placed(key(2), 8)),
        (at(130), started(2)),
    ];
    let g = goodput(&job(JOB, 8), lives(&reported).get(JOB), &BTreeMap::new(), at(200));
    assert_eq!((g.interruptions, g.mtbi, g.recover), (0, None, None), "it was not interrupted");
    assert_eq!(g.verdicts, BTreeMap::from([("application", 1)]));
    assert_eq!(g.time.get(Part::Restarting), 18_000);
}

#[test]
fn a_hold_from_before_the_reading_is_no_wait_for_a_turn() {
    let mut held = job(JOB, 8);
    held.held = Some(Hold::asked("user:ann").at(at(60)));
    let parts = |j: &Job| seconds(&goodput(j, None, &BTreeMap::new(), at(H)));
    assert_eq!(parts(&held), BTreeMap::from([("held", 3540), ("queued", 60)]));
    // What the control plane holds waits for its turn. Older snapshots do not say since when.
    held.held = Some(Hold { by: HeldBy::Suspicion, ..Hold::asked("muster: x").at(at(60)) });
    assert_eq!(parts(&held), BTreeMap::from([("queued", 3600)]));
    held.held = Some(Hold::asked("user:ann"));
    assert_eq!(parts(&held), BTreeMap::from([("queued", 3600)]));
}
