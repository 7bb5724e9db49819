//! Random lives: their hours and days add up, whatever happened.

use super::*;
use proptest::prelude::*;

/// One attempt: the wait, until it is up, until its first step by the log and as it is heard, its work
/// between checkpoints with what each took, until the order to stop, until its end, GPUs, how it ended, and
/// what is found out about its end later.
type Try = (u64, Option<u64>, FirstStep, Vec<(u64, u64)>, u64, Option<Leave>, u32, u8, Late);

/// How long it took to leave, and was its first step reported meanwhile?
type Leave = (u64, bool);

/// After how long its end is judged anew, as what.
type Late = Option<(u64, u8)>;

/// When a first step is in the log, whether that is after the first checkpoint, and when it is heard.
type FirstStep = (Option<u64>, bool, Option<u64>);

fn attempt() -> impl Strategy<Value = Try> {
    // No attempt begins and ends within a millisecond.
    let long = 1u64..9_000_000;
    (
        long.clone(),
        proptest::option::weighted(0.8, 0u64..900_000),
        (
            proptest::option::of(0u64..900_000),
            proptest::bool::ANY,
            proptest::option::of(0u64..1_800_000),
        ),
        proptest::collection::vec((long.clone(), 0u64..100_000), 0..4),
        long,
        proptest::option::of((0u64..200_000, proptest::bool::ANY)),
        0u32..9,
        0u8..7,
        proptest::option::of((0u64..900_000, 0u8..7)),
    )
}

fn verdict(n: u8) -> Verdict {
    [
        Verdict::Success,
        Verdict::Application,
        Verdict::Infrastructure,
        Verdict::Operator,
        Verdict::Scheduler,
        Verdict::Platform,
        Verdict::Unknown,
    ][usize::from(n)]
}

fn judged(no: u32, verdict: Verdict) -> Event {
    Event::AttemptAttributed { key: key(no), verdict, findings: Vec::new(), reason: String::new() }
}

fn live(log: &mut Log, tries: &[Try], fate: u8, tail: u64) -> (Job, Time) {
    let mut job = job(JOB, 3);
    job.submitted_at = ZERO + Span(12_345_678);
    let mut at = job.submitted_at;
    log.record(at, submitted(&job));
    let mut late: Late = None;
    for (n, (wait, up, step, saves, work, leave, gpus, v, anew)) in tries.iter().enumerate() {
        let no = n as u32 + 1;
        let last = n + 1 == tries.len();
        if let Some((after, v)) = late.take() {
            log.record(at + Span(after.min(*wait)), judged(n as u32, verdict(v)));
        }
        at = at + Span(*wait);
        log.record(at, placed(key(no), *gpus));
        if let Some(up) = up {
            at = at + Span(*up);
            log.record(at, started(no));
            let (mut first, late, heard) = *step;
            if let Some(heard) = heard {
                let one = log.heard.entry(no).or_default();
                one.working_at = Some(at + Span(heard));
            }
            let mut progress = |log: &mut Log, at: &mut Time| {
                if let Some(first) = first.take() {
                    *at = *at + Span(first);
                    log.record(*at, Event::AttemptProgressed { key: key(no) });
                }
            };
            if !late {
                progress(log, &mut at);
            }
            for (work, took) in saves {
                at = at + Span(*work);
                log.record(at, saved(no, at, *took));
                progress(log, &mut at);
            }
        }
        at = at + Span(*work);
        if last && fate == 0 {
            return (job, at + Span(tail));
        }
        if let Some((leave, steps)) = leave {
            log.record(at, stopped(no, false));
            at = at + Span(*leave);
            if *steps && up.is_some() && step.0.is_none() {
                log.record(at, Event::AttemptProgressed { key: key(no) });
                at = at + Span(*leave);
            }
        }
        // Its ranks have ended; whose doing that was is looked for a while longer, or not.
        if *v > 2 {
            log.record(at, slot_ended(no, "n1"));
            at = at + Span(u64::from(*v) * 700);
        }
        log.record(at, ended(no, verdict(*v)));
        // The job may end, and somebody may have it run again.
        let over = !last && matches!(*v, 1 | 6);
        if over {
            log.record(at, failed(JOB));
            at = at + Span(*work);
        }
        if !last || matches!(fate, 1 | 4) {
            log.record(at, requeued());
            // What ended well did, and an end with which the job had ended is not found to be none.
            late = anew.filter(|(_, now)| *v != 0 && !(over && *now == 0));
        }
    }
    if let Some((after, v)) = late.take() {
        log.record(at + Span(after.min(tail)), judged(tries.len() as u32, verdict(v)));
    }
    match fate {
        0 | 1 => return (job, at + Span(tail)),
        2 => (job.state, _) = (JobState::Failed, log.record(at, failed(JOB))),
        _ => {
            at = at + Span(if tries.is_empty() || fate == 4 { tail } else { 0 });
            let event = Event::JobCancelled { job: JOB, reason: String::new() };
            (job.state, _) = (JobState::Cancelled, log.record(at, event));
        }
    }
    job.ended_at = Some(at);
    (job, at + Span(tail))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Whatever happens to a job, its hours and its days add up to its life, part by part.
    #[test]
    fn hours_and_days_add_up_to_lives(
        tries in proptest::collection::vec(attempt(), 0..6),
        fate in 0u8..5,
        tail in 0u64..9_000_000,
    ) {
        let mut log = Log::default();
        let (job, now) = live(&mut log, &tries, fate, tail);
        let g = goodput(&job, log.lives.get(JOB), &log.heard, now);
        for step in [Step::Hour, Step::Day] {
            let w = sum(&log.report(now, step));
            prop_assert_eq!(w.parts(), g.gpu, "{:?} {:#?}", step, g);
            prop_assert_eq!(w.held.total(), g.allocated_gpu);
            prop_assert_eq!(u128::from(w.up), u128::from(g.up.0));
            prop_assert_eq!(w.interrupted.interruptions(), u64::from(g.interruptions));
            prop_assert_eq!(w.recover(), g.recover);
        }
    }
}
