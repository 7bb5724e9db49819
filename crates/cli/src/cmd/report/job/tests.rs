//! A report for people, held to its 80 columns.

use super::*;
use muster_api::TimeParts;
use muster_api::samples::report;
use muster_model::units::Time;

#[test]
fn a_report_fits_80_columns_and_lines_up() {
    let text = text(&report(), false);
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{line:?}\n{text}");
        assert_eq!(line, line.trim_end());
    }
    for part in [
        "Job 42 (train)\n  running, 16 GPUs, default, user alice\n",
        "Where 1h48m went\n",
        "  productive     ██████████████████████████▋        83.1%     1h30m\n",
        "  starting       ▏                                   0.1%      9.4s\n",
        "  GPU time       24.0 GPU-hours productive of 27.8 GPU-hours allocated\n",
        "  Goodput         86.4%  productive of what was allocated\n",
        "  MTBI            1h43m  up between interruptions; 1 interruption\n",
        "GPUs of attempt 2, watched for 4m10s, since the server's start\n",
        "  power          512 W a GPU, 0.57 kWh in all\n",
        "  compute        █████████████████████████          78.0%   321.4 ms  slowest\n",
        "  slowest rank   11: 360.0 ms of own work in a step, 3% above the median\n",
        "  - 14 GPUs would do instead of 16\n    (nothing ever ran on 2 of them",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(!text.contains("idle  "), "what did not happen is not shown:\n{text}");
}

#[test]
fn what_a_program_did_itself_is_no_interruption() {
    let mut r = report();
    r.ended_by = [("application".to_owned(), 1)].into();
    (r.interruptions, r.mtbi_ms) = (0, None);
    let alone = text(&r, false);
    assert!(alone.contains("  Failures            1  of the program itself\n"), "{alone}");
    assert!(!alone.contains("MTBI"), "{alone}");
    (r.interruptions, r.mtbi_ms) = (1, Some(6_236_000));
    let both = text(&r, false);
    assert!(both.contains("MTBI            1h43m  up between interruptions; 1 inter"), "{both}");
}

#[test]
fn one_row_of_figures_was_not_watched_for_no_time() {
    let mut r = report();
    let e = r.efficiency.as_mut().unwrap();
    (e.until, e.whole) = (e.since, true);
    let text = text(&r, false);
    assert!(text.contains("GPUs of attempt 2, seen once\n"), "{text}");
}

#[test]
fn estimates_and_missing_beginnings_are_said() {
    let mut r = report();
    (r.lost_estimated, r.complete) = (true, false);
    r.watched_since = Some(Time(5000).into());
    (r.efficiency, r.steps, r.advice) = (None, None, Vec::new());
    let text = text(&r, false);
    assert!(text.contains("13m32s  estimated\n"), "{text}");
    assert!(text.contains("first steps are known since 1970-01-01T00:00:05.000Z only"), "{text}");
    assert!(text.contains("its first attempts are not known any more"), "{text}");
    assert!(text.contains("no data since the server's start"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
    assert!(!text.contains("Advice"), "{text}");
}

#[test]
fn a_job_that_never_ran_has_a_report_too() {
    let mut r = report();
    r.time_ms = TimeParts { queued: 4_200, ..TimeParts::default() };
    (r.wall_ms, r.goodput, r.ettr, r.allocated_gpu_seconds) = (4_200, None, Some(0.0), 0.0);
    r.attempts.truncate(1);
    (r.efficiency, r.steps, r.mtbi_ms, r.recover_ms, r.unsaved_ms) = (None, None, None, None, 0);
    let text = text(&r, false);
    assert!(
        text.contains("  queued         ████████████████████████████████  100.0%      4.2s\n"),
        "{text}"
    );
    assert!(!text.contains("Attempts") && !text.contains("GPU time"), "{text}");
    assert_eq!(
        brief(&r),
        ("unknown of what was allocated; ETTR 0.0%".into(), "queued 4.2s".into())
    );
}

#[test]
fn nothing_from_outside_reaches_the_terminal_raw() {
    let mut r = report();
    r.name = "a\u{1b}[31m\nb".into();
    r.user = "x\u{7}".into();
    let s = r.steps.as_mut().unwrap();
    s.stages[0].name = "\u{1b}[2Jcompute-with-a-very-long-name".into();
    r.attempts[0].reason = Some("\u{1b}c".into());
    let text = text(&r, false);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
}
