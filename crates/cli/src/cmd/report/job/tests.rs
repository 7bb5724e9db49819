//! A report for people, held to its 80 columns.

use super::*;
use muster_api::{AdviceLine, GpuParts, Kind, StageReport, TimeParts};
use muster_model::job::JobState;
use muster_model::units::Time;

fn attempt(no: u32, time_ms: TimeParts, verdict: Option<Verdict>) -> AttemptReport {
    AttemptReport {
        no,
        from: Time(0).into(),
        until: Time(1000).into(),
        gpus: 16.0,
        time_ms,
        gpu_seconds: GpuParts::default(),
        verdict,
        reason: verdict.map(|_| "node hgx-0003 was lost while it was very busy indeed".into()),
        checkpoints: 2,
        lost_estimated: false,
    }
}

pub(crate) fn report() -> JobReport {
    let time_ms = TimeParts {
        queued: 60_000,
        starting: 9_420,
        productive: 5_400_000,
        checkpointing: 24_000,
        restarting: 192_000,
        lost: 812_000,
        idle: 0,
    };
    let wall_ms = time_ms.parts().iter().map(|(_, ms)| ms).sum();
    let stage = |name: &str, ms, share| StageReport {
        name: name.into(),
        ms,
        share,
        advice: "do less of it".into(),
    };
    JobReport {
        id: "42".into(),
        number: 42,
        kind: Kind::JobReport,
        name: "train".into(),
        state: JobState::Running,
        version: 9,
        project: "default".into(),
        user: "user:alice".into(),
        gpus: 16.0,
        attempts_made: 2,
        since: Time(0).into(),
        until: Time(7_000_000).into(),
        complete: true,
        watched_since: None,
        wall_ms,
        time_ms,
        gpu_seconds: GpuParts { productive: 86_400.0, ..GpuParts::default() },
        held_gpu_seconds: 100_000.0,
        up_ms: 6_236_000,
        unsaved_ms: 250_000,
        ettr: Some(0.831),
        goodput: Some(0.864),
        interruptions: 1,
        mtbi_ms: Some(6_236_000),
        recover_ms: Some(192_000),
        ended_by: [("infrastructure".to_string(), 1)].into(),
        lost_estimated: false,
        attempts: vec![
            attempt(1, time_ms, Some(Verdict::Infrastructure)),
            attempt(2, TimeParts { productive: 250_000, ..TimeParts::default() }, None),
        ],
        efficiency: Some(Efficiency {
            attempt: 2,
            since: Time(0).into(),
            until: Time(250_000).into(),
            whole: false,
            gpus: 16,
            gpus_unused: 2,
            rows: 400,
            shared: false,
            utilisation: Some(0.813),
            utilisation_peak: Some(0.99),
            sm_active: Some(0.62),
            sm_active_peak: None,
            tensor_active: None,
            memory_active: Some(0.411),
            memory_peak_mib: Some(62_669),
            memory_mib: Some(81_920),
            power_watts: Some(512.3),
            energy_joules: Some(2_048_000),
        }),
        steps: Some(StepsReport {
            attempt: 2,
            since: Time(0).into(),
            whole: true,
            step: 1200,
            reports: 812,
            step_ms: Some(412.0),
            stages: vec![
                stage("compute", 321.4, 0.78),
                stage("comm", 61.8, 0.15),
                stage("read", 12.4, 0.03),
            ],
            ranks: 16,
            slowest_rank: Some(11),
            slowest_rank_ms: Some(360.0),
            median_rank_ms: Some(350.0),
        }),
        advice: vec![AdviceLine {
            about: "fewer_gpus".into(),
            text: "14 GPUs would do instead of 16".into(),
            because: "nothing ever ran on 2 of them, in 4m10s, and this is a long reason \
                      that needs more than one line to be told in full"
                .into(),
        }],
    }
}

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
        "  GPU time       24.0 GPU-hours productive of 27.8 GPU-hours held\n",
        "  Goodput         86.4%  productive of what was held\n",
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
fn estimates_and_missing_beginnings_are_said() {
    let mut r = report();
    (r.lost_estimated, r.complete) = (true, false);
    r.watched_since = Some(Time(5000).into());
    (r.efficiency, r.steps, r.advice) = (None, None, Vec::new());
    let text = text(&r, false);
    assert!(text.contains("13m32s  estimated\n"), "{text}");
    assert!(text.contains("first steps are known since 1970-01-01T00:00:05.000Z only"), "{text}");
    assert!(text.contains("its first attempts are not known any more"), "{text}");
    assert!(text.contains("nothing was heard of them since the server's start"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
    assert!(!text.contains("Advice"), "{text}");
}

#[test]
fn a_job_that_never_ran_has_a_report_too() {
    let mut r = report();
    r.time_ms = TimeParts { queued: 4_200, ..TimeParts::default() };
    (r.wall_ms, r.goodput, r.ettr, r.held_gpu_seconds) = (4_200, None, Some(0.0), 0.0);
    r.attempts.truncate(1);
    (r.efficiency, r.steps, r.mtbi_ms, r.recover_ms, r.unsaved_ms) = (None, None, None, None, 0);
    let text = text(&r, false);
    assert!(
        text.contains("  queued         ████████████████████████████████  100.0%      4.2s\n"),
        "{text}"
    );
    assert!(!text.contains("Attempts") && !text.contains("GPU time"), "{text}");
    assert_eq!(brief(&r), ("unknown of what was held; ETTR 0.0%".into(), "queued 4.2s".into()));
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
