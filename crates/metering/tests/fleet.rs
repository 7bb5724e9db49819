//! Hours and days of a site add up to the lives of its jobs and to the time of its GPUs.

mod lives;

#[allow(dead_code, reason = "other tests need the rest")]
use crate::common;

use common::{START, job, placed};
use muster_metering::days::{DAY, HOUR};
use muster_metering::{
    AttemptObservation, Fleet, JobHistories, Part, Parts, Report, Step, TelemetryTotals, Work,
    goodput, no_observation,
};
use muster_model::event::{Event, Record, SCHEMA};
use muster_model::ids::{AttemptKey, JobId, Seq};
use muster_model::job::{Checkpoint, Job, JobState, SlotEnd, StopReason, Verdict};
use muster_model::node::{Gpu, Inventory, Stage};
use muster_model::placement::GpuSet;
use muster_model::slo::Cause;
use muster_model::topology::Location;
use muster_model::units::{Bytes, Span, Time};
use std::collections::BTreeMap;

const JOB: JobId = JobId(7);
/// A whole hour and day.
const ZERO: Time = Time(20_000 * DAY);

/// A log that is written as it is read.
#[derive(Default)]
struct Log {
    seq: u64,
    fleet: Fleet,
    lives: JobHistories,
    /// What is heard of attempts beside it.
    heard: BTreeMap<u32, AttemptObservation>,
}

impl Log {
    fn record(&mut self, at: Time, event: Event) {
        self.seq += 1;
        let r = Record {
            seq: Seq(self.seq),
            at,
            v: SCHEMA,
            org: "default".into(),
            project: None,
            actor: "test".into(),
            key: None,
            event,
        };
        let heard = |key: AttemptKey| self.heard.get(&key.attempt).cloned();
        self.fleet.apply(&r, &heard);
        // What was read already changes nothing.
        self.fleet.apply(&r, &heard);
        self.lives.apply(&r);
    }

    fn report(&self, now: Time, step: Step) -> Report {
        let heard = |key: AttemptKey| self.heard.get(&key.attempt).cloned();
        self.fleet.report(now, (Time(0), now), step, None, &heard)
    }
}

fn key(attempt: u32) -> AttemptKey {
    AttemptKey { job: JOB, attempt }
}

fn submitted(job: &Job) -> Event {
    Event::JobSubmitted {
        id: job.id,
        name: job.name.clone(),
        project: job.project.clone(),
        user: job.user.clone(),
        spec: job.spec.whole(),
        groups: job.groups.clone(),
        depends: job.depends.clone(),
        array: Vec::new(),
        held: false,
        payload_bytes: 0,
    }
}

fn started(no: u32) -> Event {
    Event::AttemptStarted { key: key(no), deadline: None }
}

fn stopped(no: u32, ends: bool) -> Event {
    let reason = match ends {
        true => StopReason::Cancelled { by: "ann".into() },
        false => StopReason::NodeLost { node: "n1".parse().unwrap() },
    };
    Event::StopOrdered { key: key(no), reason, grace: Span::secs(30), fence_until: None }
}

fn ended(no: u32, verdict: Verdict) -> Event {
    Event::AttemptEnded { key: key(no), verdict, reason: String::new() }
}

fn slot_ended(no: u32, node: &str) -> Event {
    let end = SlotEnd::Stopped;
    Event::SlotEnded { key: key(no), node: node.parse().unwrap(), end, ended_at: None }
}

fn saved(no: u32, at: Time, blocked: u64) -> Event {
    let checkpoint = Checkpoint {
        attempt: no,
        step: None,
        path: None,
        bytes: None,
        blocked_ms: Some(blocked),
        at,
    };
    Event::CheckpointDone { job: JOB, checkpoint }
}

fn requeued() -> Event {
    let (reason, unreported) = (String::new(), Vec::new());
    Event::JobRequeued { job: JOB, reason, not_before: Time(0), by: None, unreported }
}

fn sum(r: &Report) -> Work {
    let mut all = Work::default();
    r.rows.iter().for_each(|row| all.add(&row.work));
    all
}

fn gpu_seconds(p: &Parts) -> BTreeMap<&'static str, u128> {
    let of = |part: Part| (part.word(), p.get(part) / 1_000_000);
    Part::ALL.into_iter().map(of).filter(|(_, s)| *s > 0).collect()
}

fn failed(job: JobId) -> Event {
    Event::JobFailed { job, reason: String::new(), exit_code: 1 }
}

#[test]
fn a_life_is_reported_by_the_hour() {
    let (mut log, job) = (Log::default(), job(JOB, 2));
    let at = |min: u64| ZERO + Span::mins(min);
    log.record(at(0), submitted(&job));
    log.record(at(30), placed(key(1), 2));
    log.record(at(40), started(1));
    log.record(at(100), saved(1, at(100), 60_000));
    log.record(at(130), stopped(1, false));
    log.record(at(131), ended(1, Verdict::Infrastructure));
    log.record(at(131), requeued());
    // It waits for its way back now.
    let r = log.report(at(140), Step::Hour);
    let rows: Vec<_> = r.rows.iter().map(|row| gpu_seconds(&row.work.parts())).collect();
    assert_eq!(
        rows,
        [
            BTreeMap::from([("queued", 3600), ("starting", 1200), ("productive", 2400)]),
            BTreeMap::from([("productive", 4680), ("checkpointing", 120), ("lost", 2400)]),
            BTreeMap::from([("lost", 1200), ("restarting", 1200)]),
        ]
    );
    let last = &r.rows[2];
    assert_eq!((last.from, last.to), (at(120), at(140)));
    assert_eq!((last.work.interrupted.infrastructure, last.work.interrupted.total()), (1, 1));
    assert_eq!(last.work.back, 2000 * 9 * 60_000, "was allocated no GPUs on its way back");
    log.record(at(150), placed(key(2), 2));
    log.record(at(152), started(2));
    log.record(at(170), ended(2, Verdict::Success));
    log.record(at(170), Event::JobSucceeded { job: JOB });
    let r = log.report(at(600), Step::Day);
    assert_eq!(r.rows.len(), 1);
    let w = r.rows[0].work;
    assert_eq!((w.submitted, w.succeeded, w.first, w.failed.total()), (1, 1, 0, 0));
    assert_eq!(w.recover(), Some(Span::mins(22)));
    assert_eq!(w.mtbi(), Some(Span::mins(90 + 18)));
    assert_eq!(r.projects, BTreeMap::from([("default".to_owned(), w)]));
    let other =
        log.fleet.report(at(600), (ZERO, at(600)), Step::Day, Some("else"), &no_observation);
    assert_eq!(sum(&other), Work::default());
}

#[test]
fn gpus_are_held_until_the_last_rank_ended_however_late_the_end_is_settled() {
    let (mut log, mut j) = (Log::default(), job(JOB, 8));
    let at = |s: u64| ZERO + Span::secs(s);
    j.submitted_at = at(0);
    log.record(at(0), submitted(&j));
    log.record(at(0), placed(key(1), 8));
    log.record(at(0), started(1));
    log.record(at(100), slot_ended(1, "n1"));
    log.record(at(100), stopped(1, false));
    // While its cause is looked for it holds nothing.
    let held = 8000 * 100_000;
    assert_eq!(sum(&log.report(at(103), Step::Hour)).held.total(), held);
    assert!(log.lives.allocated().is_empty());
    log.record(at(105), ended(1, Verdict::Application));
    log.record(at(105), failed(JOB));
    let w = sum(&log.report(at(200), Step::Hour));
    assert_eq!((w.held.total(), w.held.get(Part::Lost)), (held, held));
    (j.state, j.ended_at, j.attempts) = (JobState::Failed, Some(at(105)), 1);
    let g = goodput(&j, log.lives.get(JOB), &BTreeMap::new(), at(200));
    assert_eq!((g.allocated_gpu, g.gpu.total(), g.wall), (held, held, Span::secs(100)));
    assert_eq!(g.time.total(), 100_000, "and every second until its last rank ended is reported");
    assert_eq!(g.time.get(Part::Lost), 100_000, "seconds of looking for the cause are not lost");
    // The same from what the state keeps.
    j.past = vec![muster_model::job::PastAttempt {
        no: 1,
        nodes: vec![],
        placed_at: at(0),
        started_at: Some(at(0)),
        ended_at: at(105),
        freed_at: Some(at(100)),
        stopped_at: None,
        verdict: Verdict::Application,
        reason: String::new(),
        findings: vec![],
        stopped_for: None,
    }];
    let g = goodput(&j, None, &BTreeMap::new(), at(200));
    assert_eq!((g.allocated_gpu, g.time.total()), (held, 100_000));
}

/// A service, as the tag says.
fn service(mut j: Job) -> Job {
    let mut spec = (*j.spec).clone();
    spec.tags.insert("work".into(), "service".into());
    j.spec = spec.into();
    j
}

#[test]
fn what_a_service_served_is_not_lost_when_it_is_started_anew() {
    for (j, part) in [(job(JOB, 4), Part::Lost), (service(job(JOB, 4)), Part::Productive)] {
        let (mut log, mut j) = (Log::default(), j);
        let at = |min: u64| ZERO + Span::mins(min);
        j.submitted_at = at(0);
        log.record(at(0), submitted(&j));
        log.record(at(0), placed(key(1), 4));
        log.record(at(0), started(1));
        log.record(at(300), stopped(1, false));
        log.record(at(300), ended(1, Verdict::Infrastructure));
        log.record(at(300), requeued());
        log.record(at(310), placed(key(2), 4));
        log.record(at(310), started(2));
        let all = 4000 * 300 * 60_000;
        let ran = 4000 * 10 * 60_000;
        let w = sum(&log.report(at(320), Step::Hour));
        let served = if part == Part::Lost { ran } else { all + ran };
        assert_eq!(w.held.get(Part::Productive), served);
        assert_eq!(w.held.get(Part::Lost), all + ran - served);
        (j.attempts, j.state) = (2, JobState::Running);
        let g = goodput(&j, log.lives.get(JOB), &BTreeMap::new(), at(320));
        assert_eq!(g.gpu.get(Part::Productive), served, "and its own report says the same");
        assert_eq!(g.estimated, part == Part::Lost);
        assert_eq!(g.unsaved == Span(0), part == Part::Productive, "nothing is at risk");
    }
}

#[test]
fn a_recovery_is_counted_from_its_first_sign_by_everyone() {
    let (mut log, mut j) = (Log::default(), job(JOB, 4));
    let at = |s: u64| ZERO + Span::secs(s);
    j.submitted_at = at(0);
    log.record(at(0), submitted(&j));
    log.record(at(0), placed(key(1), 4));
    log.record(at(0), started(1));
    // Its node is silent for 30 s before that is noticed; it is up elsewhere in a second.
    log.record(at(130), Event::NodeLost { node: "n1".parse().unwrap(), last_seen: at(100) });
    log.record(at(130), stopped(1, false));
    log.record(at(130), ended(1, Verdict::Infrastructure));
    log.record(at(130), requeued());
    log.record(at(130), placed(key(2), 4));
    // While nothing works again there is no recovery.
    j.attempts = 2;
    let both = |log: &Log, j: &Job, now| {
        let g = goodput(j, log.lives.get(JOB), &BTreeMap::new(), now);
        (sum(&log.report(now, Step::Hour)).recover(), g.recover)
    };
    assert_eq!(both(&log, &j, at(131)), (None, None));
    log.record(at(131), started(2));
    let took = Some(Span::secs(31));
    assert_eq!(both(&log, &j, at(140)), (took, took));
    // Nobody knows that its ranks were up after the last heartbeat.
    let g = goodput(&j, log.lives.get(JOB), &BTreeMap::new(), at(140));
    assert_eq!((g.up, sum(&log.report(at(140), Step::Hour)).up), (Span::secs(109), 109_000));
    // And so when only the state knows when it began.
    j.recovery = Some(muster_model::job::Recovery {
        attempt: 1,
        finding: None,
        fault_at: at(100),
        found_at: at(130),
        decided_at: at(130),
        drained_at: Some(at(130)),
        placed_at: Some(at(130)),
        started_at: Some(at(131)),
        working_at: None,
        held: None,
    });
    assert_eq!(both(&log, &j, at(140)), (took, took));
    // A sign from before an attempt was placed did not hit it.
    log.record(at(200), Event::NodeLost { node: "n1".parse().unwrap(), last_seen: at(50) });
    log.record(at(200), stopped(2, false));
    log.record(at(200), ended(2, Verdict::Infrastructure));
    log.record(at(200), requeued());
    log.record(at(210), placed(key(3), 4));
    log.record(at(211), started(3));
    let mean = Some(Span::secs((31 + 81) / 2));
    assert_eq!(both(&log, &j, at(220)), (mean, mean));
}

#[test]
fn the_first_step_is_the_same_to_everyone_the_one_of_the_log_where_it_has_it() {
    for (logged, began) in [(Some(90), 90), (None, 70)] {
        let (mut log, mut j) = (Log::default(), job(JOB, 4));
        let at = |s: u64| ZERO + Span::secs(s);
        (j.submitted_at, j.attempts) = (at(0), 2);
        log.record(at(0), submitted(&j));
        log.record(at(0), placed(key(1), 4));
        log.record(at(0), started(1));
        log.record(at(50), stopped(1, false));
        log.record(at(50), ended(1, Verdict::Infrastructure));
        log.record(at(50), requeued());
        log.record(at(50), placed(key(2), 4));
        log.record(at(60), started(2));
        // It began well before the log says that it was made.
        log.heard.entry(2).or_default().working_at = Some(at(70));
        if let Some(s) = logged {
            log.record(at(s), Event::AttemptProgressed { key: key(2) });
        }
        let g = goodput(&j, log.lives.get(JOB), &log.heard, at(200));
        let w = sum(&log.report(at(200), Step::Hour));
        assert_eq!(g.time.get(Part::Restarting), 1000 * (began - 50), "{logged:?}");
        assert_eq!(w.parts(), g.gpu, "{logged:?}");
        let took = Some(Span::secs(u64::try_from(began).unwrap() - 50));
        assert_eq!((w.recover(), g.recover), (took, took), "{logged:?}");
    }
}

#[test]
fn what_is_lost_or_found_out_later_changes_no_day_that_is_final() {
    let (mut log, job) = (Log::default(), job(JOB, 4));
    let at = |h: u64| ZERO + Span::hours(h);
    log.record(at(0), submitted(&job));
    log.record(at(0), placed(key(1), 4));
    log.record(at(0), started(1));
    // Nine and a half days without a checkpoint, and all of it in vain.
    let before = log.report(at(9 * 24 + 11), Step::Day).rows;
    log.record(at(9 * 24 + 12), stopped(1, false));
    log.record(at(9 * 24 + 12), ended(1, Verdict::Infrastructure));
    log.record(at(9 * 24 + 12), failed(JOB));
    let after = log.report(at(10 * 24), Step::Day).rows;
    assert_eq!(before[..8], after[..8], "a day is final 24 hours after its end");
    let lost = |n: usize| after[n].work.held.get(Part::Lost);
    let hour = 4000 * HOUR as u128;
    assert_eq!([lost(7), lost(8), lost(9)], [0, 24 * hour, 12 * hour]);
    let before = |n: usize| after[n].work.lost_before;
    assert_eq!(
        [before(7), before(8), before(9)],
        [0, 0, 8 * 24 * hour],
        "the day it was lost says"
    );
    // Nor does who is the cause of the end, when that is found out days later.
    let event = Event::AttemptAttributed {
        key: key(1),
        verdict: Verdict::Application,
        findings: vec![3],
        reason: String::new(),
    };
    log.record(at(13 * 24), event);
    let later = log.report(at(13 * 24), Step::Day).rows;
    assert_eq!(after[..10], later[..10]);
    assert_eq!(later[9].work.failed.infrastructure, 1);
}

#[test]
fn held_jobs_and_those_that_wait_for_others_are_no_demand() {
    let (mut log, mut j) = (Log::default(), job(JOB, 4));
    let at = |min: u64| ZERO + Span::mins(min);
    log.record(at(0), submitted(&j));
    log.record(
        at(10),
        Event::JobHeld { job: JOB, by: "ann".into(), held_by: None, decided: false },
    );
    log.record(at(40), Event::JobReleased { job: JOB, decided: false });
    let w = sum(&log.report(at(60), Step::Hour));
    let half = 4000 * 30 * 60_000;
    assert_eq!((w.queued, w.barred, w.on_hold), (half, 0, half));
    assert_eq!(gpu_seconds(&w.parts())["held"], 4 * 30 * 60);
    assert_eq!(w.wanted(), 4000 * 30 * 60_000);
    j.id = JobId(8);
    let on = muster_model::job::Dependency {
        job: JOB,
        count: 1,
        condition: muster_model::job::Condition::Ok,
    };
    j.depends = vec![on].into();
    log.record(at(60), submitted(&j));
    let w = sum(&log.report(at(90), Step::Hour));
    assert_eq!(w.barred, 4000 * 30 * 60_000);
}

#[test]
fn what_a_person_holds_after_an_interruption_is_no_recovery() {
    let (mut log, mut job) = (Log::default(), job(JOB, 2));
    let at = |min: u64| ZERO + Span::mins(min);
    let hold = |decided| Event::JobHeld { job: JOB, by: "ann".into(), held_by: None, decided };
    log.record(at(0), submitted(&job));
    log.record(at(0), placed(key(1), 2));
    log.record(at(0), started(1));
    log.record(at(10), stopped(1, false));
    log.record(at(10), ended(1, Verdict::Infrastructure));
    log.record(at(10), requeued());
    log.record(at(15), hold(false));
    log.record(at(75), Event::JobReleased { job: JOB, decided: false });
    // What Muster itself holds is part of the way back.
    log.record(at(80), hold(true));
    log.record(at(85), Event::JobReleased { job: JOB, decided: true });
    log.record(at(90), placed(key(2), 2));
    log.record(at(92), started(2));
    log.record(at(102), ended(2, Verdict::Success));
    log.record(at(102), Event::JobSucceeded { job: JOB });
    (job.state, job.submitted_at) = (JobState::Succeeded, at(0));
    job.ended_at = Some(at(102));
    let g = goodput(&job, log.lives.get(JOB), &BTreeMap::new(), at(200));
    let minutes = |p: Part| g.time.get(p) / 60_000;
    assert_eq!((minutes(Part::Held), minutes(Part::Restarting)), (60, 22));
    assert_eq!(g.recover, Some(Span::mins(22)));
    for step in [Step::Hour, Step::Day] {
        let w = sum(&log.report(at(200), step));
        assert_eq!((w.parts(), w.recover()), (g.gpu, g.recover), "{step:?}");
    }
}

#[test]
fn a_failure_that_is_judged_anew_counts_once_and_a_job_may_go_on_after_it() {
    let (mut log, job) = (Log::default(), job(JOB, 1));
    let at = |min: u64| ZERO + Span::mins(min);
    log.record(at(0), submitted(&job));
    log.record(at(0), placed(key(1), 1));
    log.record(at(0), started(1));
    log.record(at(10), ended(1, Verdict::Application));
    log.record(at(10), failed(JOB));
    let w = sum(&log.report(at(11), Step::Hour));
    assert_eq!((w.failed.application, w.interrupted.application), (1, 1));
    let event = Event::AttemptAttributed {
        key: key(1),
        verdict: Verdict::Infrastructure,
        findings: vec![3],
        reason: String::new(),
    };
    log.record(at(12), event);
    let w = sum(&log.report(at(12), Step::Hour));
    assert_eq!((w.failed.application, w.failed.infrastructure), (0, 1));
    assert_eq!((w.interrupted.application, w.interrupted.infrastructure), (0, 1));
    log.record(at(12), requeued());
    let w = sum(&log.report(at(20), Step::Hour));
    assert_eq!((w.failed.total(), w.interrupted.total()), (1, 1), "an end stays an end");
    let waited = 1000 * 8 * 60_000;
    assert_eq!((w.back, w.queued), (0, waited), "somebody runs it again: no way back");
    // Nor when its end is judged once more while it waits.
    let event = Event::AttemptAttributed {
        key: key(1),
        verdict: Verdict::Platform,
        findings: vec![4],
        reason: String::new(),
    };
    log.record(at(20), event);
    let w = sum(&log.report(at(20), Step::Hour));
    assert_eq!((w.interrupted.platform, w.back, w.queued), (1, 0, waited));
}

#[test]
fn a_job_that_was_cancelled_while_it_was_held_is_held_no_more_when_it_is_requeued() {
    let (mut log, mut j) = (Log::default(), job(JOB, 4));
    let at = |min: u64| ZERO + Span::mins(min);
    j.submitted_at = at(0);
    log.record(at(0), submitted(&j));
    log.record(
        at(10),
        Event::JobHeld { job: JOB, by: "ann".into(), held_by: None, decided: false },
    );
    log.record(at(15), Event::JobCancelled { job: JOB, reason: String::new() });
    log.record(at(30), requeued());
    let parts = sum(&log.report(at(40), Step::Hour)).parts();
    let minutes = |n: u128| n * 60_000 * 4000;
    assert_eq!((parts.get(Part::Queued), parts.get(Part::Held)), (minutes(20), minutes(5)));
    let own = goodput(&j, log.lives.get(JOB), &BTreeMap::new(), at(40));
    assert_eq!(own.gpu, parts);
}

#[test]
fn every_end_counts_once_whatever_it_is_and_however_often_its_job_is_run_again() {
    let (mut log, job) = (Log::default(), job(JOB, 1));
    let at = |min: u64| ZERO + Span::mins(min);
    log.record(at(0), submitted(&job));
    for no in 1..=4u32 {
        let begin = u64::from(no) * 10;
        log.record(at(begin), placed(key(no), 1));
        log.record(at(begin), started(no));
        let (verdict, event) = match no {
            1 | 2 => (Verdict::Application, failed(JOB)),
            3 => (Verdict::Operator, Event::JobCancelled { job: JOB, reason: String::new() }),
            _ => (Verdict::Success, Event::JobSucceeded { job: JOB }),
        };
        log.record(at(begin + 4), ended(no, verdict));
        log.record(at(begin + 4), event);
        if no < 4 {
            log.record(at(begin + 9), requeued());
        }
    }
    let w = sum(&log.report(at(60), Step::Hour));
    assert_eq!((w.failed.application, w.failed.total()), (2, 2));
    assert_eq!((w.cancelled, w.succeeded, w.first, w.submitted), (1, 1, 0, 1));
    // Ten minutes before the first, a minute after each order: what lies between is nobody's.
    assert_eq!((w.queued, w.back), (1000 * 13 * 60_000, 0));
    assert_eq!(w.recover(), None);
}

fn gpus(n: u32) -> Box<Inventory> {
    let gpu = |index| Gpu {
        index,
        sku: "h100-sxm".into(),
        uuid: format!("GPU-{index}"),
        memory: Bytes(80 << 30),
        ..Gpu::default()
    };
    Box::new(Inventory { gpus: (0..n).map(gpu).collect(), ..Inventory::default() })
}

fn hours(r: &Report) -> Vec<BTreeMap<&'static str, u128>> {
    let whole = |v: u128| v / 1000 / HOUR as u128;
    let of = |row: &muster_metering::Row| {
        let mut out = BTreeMap::new();
        for s in row.supply.values() {
            *out.entry("in").or_default() += whole(s.in_service);
            for (cause, v) in &s.out {
                *out.entry(cause.word()).or_default() += whole(*v);
            }
        }
        out.retain(|_, v| *v > 0);
        out
    };
    r.rows.iter().map(of).collect()
}

#[test]
fn gpus_are_in_service_or_out_of_it_for_a_reason() {
    let mut log = Log::default();
    let at = |h: u64| ZERO + Span::hours(h);
    let node = || "n1".parse().unwrap();
    log.record(
        at(0),
        Event::NodeEnrolled {
            node: node(),
            machine: "m".into(),
            token: "t".into(),
            location: Location::unplaced(&node()),
            key: None,
        },
    );
    log.record(at(0), Event::NodeInventoried { node: node(), inventory: gpus(8) });
    let back = Event::NodeBack {
        node: node(),
        boot: "b".into(),
        address: String::new(),
        host: String::new(),
        orphans: Default::default(),
        protected: false,
        place: String::new(),
    };
    log.record(at(0), back.clone());
    // It serves from its second hour on.
    log.record(at(1), Event::NodeReady { node: node(), reason: String::new() });
    log.record(at(2), Event::NodeLost { node: node(), last_seen: at(2) });
    log.record(at(3), back);
    log.record(
        at(4),
        Event::GpusExcluded {
            node: node(),
            gpus: GpuSet(0b11),
            reason: String::new(),
            by_operator: false,
        },
    );
    log.record(at(5), Event::NodeInventoried { node: node(), inventory: gpus(7) });
    log.record(at(6), Event::DrainStarted { node: node(), reason: String::new() });
    log.record(at(7), Event::NodeRetired { node: node() });
    let r = log.report(at(9), Step::Hour);
    assert_eq!(
        hours(&r),
        [
            BTreeMap::new(),
            BTreeMap::from([("in", 8)]),
            BTreeMap::from([("unreachable", 8)]),
            BTreeMap::from([("in", 8)]),
            BTreeMap::from([("in", 6), ("quarantine", 2)]),
            BTreeMap::from([("in", 5), ("quarantine", 2), ("hardware", 1)]),
            BTreeMap::from([("operator", 7), ("hardware", 1)]),
            BTreeMap::new(),
            BTreeMap::new(),
        ]
    );
    let day = log.report(at(9), Step::Day);
    assert_eq!(day.rows[0].supply["h100-sxm"].total(), 48_000 * HOUR as u128);
    assert!(log.fleet.supply().is_empty());
    assert_eq!(day.rows[0].supply["h100-sxm"].out[&Cause::Operator], 7_000 * HOUR as u128);
}

#[test]
fn gpus_that_an_operator_excludes_are_not_counted_by_automation() {
    let mut log = Log::default();
    let at = |h: u64| ZERO + Span::hours(h);
    let node = || "n1".parse().unwrap();
    let exclude = |gpus: u64, by_operator: bool| {
        let (gpus, reason) = (GpuSet(gpus), String::new());
        Event::GpusExcluded { node: node(), gpus, reason, by_operator }
    };
    log.record(
        at(0),
        Event::NodeEnrolled {
            node: node(),
            machine: "m".into(),
            token: "t".into(),
            location: Location::unplaced(&node()),
            key: None,
        },
    );
    log.record(at(0), Event::NodeInventoried { node: node(), inventory: gpus(8) });
    let back = Event::NodeBack {
        node: node(),
        boot: "b".into(),
        address: String::new(),
        host: String::new(),
        orphans: Default::default(),
        protected: false,
        place: String::new(),
    };
    log.record(at(0), back);
    log.record(at(0), Event::NodeReady { node: node(), reason: String::new() });
    log.record(at(1), exclude(0b1, true));
    log.record(at(2), exclude(0b11, false));
    log.record(at(3), exclude(0b10, true));
    let r = log.report(at(4), Step::Hour);
    assert_eq!(
        hours(&r),
        [
            BTreeMap::from([("in", 8)]),
            BTreeMap::from([("in", 7), ("operator", 1)]),
            BTreeMap::from([("in", 6), ("operator", 1), ("quarantine", 1)]),
            BTreeMap::from([("in", 7), ("quarantine", 1)]),
        ]
    );
}

#[test]
fn gpus_that_a_remediation_drains_are_not_the_operators() {
    let mut log = Log::default();
    let at = |h: u64| ZERO + Span::hours(h);
    let node = || "n1".parse().unwrap();
    let staged = |stage| Event::NodeStaged {
        node: node(),
        stage,
        reason: String::new(),
        until: None,
        by_operator: false,
    };
    let ready = || Event::NodeReady { node: node(), reason: String::new() };
    let enrolled = Event::NodeEnrolled {
        node: node(),
        machine: "m".into(),
        token: "t".into(),
        location: Location::unplaced(&node()),
        key: None,
    };
    let back = Event::NodeBack {
        node: node(),
        boot: "b".into(),
        address: String::new(),
        host: String::new(),
        orphans: Default::default(),
        protected: false,
        place: String::new(),
    };
    let inventoried = Event::NodeInventoried { node: node(), inventory: gpus(8) };
    for event in [enrolled, inventoried, back, ready()] {
        log.record(at(0), event);
    }
    log.record(at(1), staged(Stage::Draining));
    log.record(at(2), Event::NodeDrained { node: node() });
    log.record(at(3), ready());
    // The next drain is an operator's.
    log.record(at(3), Event::DrainStarted { node: node(), reason: String::new() });
    log.record(at(4), Event::NodeDrained { node: node() });
    let all = |how: &'static str| BTreeMap::from([(how, 8u128)]);
    let want = ["in", "quarantine", "quarantine", "operator", "operator"].map(all);
    assert_eq!(hours(&log.report(at(5), Step::Hour)), want);
}

#[test]
fn it_is_written_down_and_taken_up_again() {
    let (mut log, j) = (Log::default(), job(JOB, 2));
    let at = |min: u64| ZERO + Span::mins(min);
    log.record(at(0), submitted(&j));
    log.record(at(5), placed(key(1), 2));
    log.record(at(6), started(1));
    log.fleet.saw(
        at(7),
        &TelemetryTotals { looks: 1, util_gpus: 2, util: 1800, power_gpus: 2, power: 900_000 },
    );
    let text = serde_json::to_string(&log.fleet).unwrap();
    let again: Fleet = serde_json::from_str(&text).unwrap();
    let ask = |f: &Fleet| f.report(at(90), (ZERO, at(90)), Step::Hour, None, &no_observation);
    assert_eq!(ask(&again), ask(&log.fleet));
    log.fleet = again;
    log.record(at(80), ended(1, Verdict::Success));
    log.record(at(80), Event::JobSucceeded { job: JOB });
    let r = log.report(at(90), Step::Hour);
    assert_eq!(sum(&r).first, 1);
    assert_eq!(
        (r.rows[0].seen.busy(), r.rows[0].seen.total_power_mw()),
        (Some(900), Some(900_000))
    );
    assert_eq!(log.fleet.seen_since(), Some(at(7)));
}

#[test]
fn a_site_that_was_there_before_is_reported_from_then_on() {
    let mut j = job(JOB, 2);
    j.submitted_at = START;
    let f = Fleet::begin(Seq(9), ZERO, [&j], []);
    assert_eq!((f.seq(), f.since()), (Seq(9), ZERO));
    let now = ZERO + Span::hours(2);
    let r = f.report(now, (Time(0), now), Step::Hour, None, &no_observation);
    assert_eq!(r.rows.len(), 2);
    assert_eq!(sum(&r).queued, 2000 * 2 * HOUR as u128);
}
