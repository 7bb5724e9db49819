//! The report of one job for people: 80 columns, whatever the terminal has.

use crate::output::bar::part;
use crate::output::colour::{Style, paint};
use crate::output::facts::Facts;
use crate::output::table::{Table, cell, number};
use crate::output::time::length;
use muster_api::{AttemptReport, Efficiency, JobReport, StepsReport};
use muster_model::job::Verdict;
use muster_model::units::Span;

/// Cells of a bar.
const BAR: u32 = 32;
/// Columns of a line.
const WIDTH: usize = 80;
/// Attempts that are shown.
const ATTEMPTS: usize = 10;

/// `42ms`, `7.1s`, `45s`, `3m20s`, `2h05m`: short lives are told exactly.
fn span(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..10_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        _ => length(Span(ms)),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn float(v: u64) -> f64 {
    v as f64
}

fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn gpus(n: f64) -> String {
    let s = if (n - 1.0).abs() < f64::EPSILON { "" } else { "s" };
    format!("{n} GPU{s}")
}

/// GPU time: seconds as long as they are few.
fn gpu_time(s: f64) -> String {
    if s < 3600.0 { format!("{s:.1} GPU-seconds") } else { format!("{:.1} GPU-hours", s / 3600.0) }
}

/// How a part is looked upon.
fn style(part: &str) -> Style {
    match part {
        "productive" => Style::Good,
        "lost" | "idle" => Style::Bad,
        "restarting" => Style::Warn,
        _ => Style::Busy,
    }
}

/// One line with a bar: `productive     ████████   76.2%    1h42m   note`.
fn bar(f: &mut Facts, name: &str, share: f64, more: &str, style: Style, on: bool) {
    let line = format!(
        "  {name:<15}{}  {:>6}  {more}",
        paint(&part(share, BAR), style, on),
        percent(share)
    );
    f.0.push_str(line.trim_end());
    f.0.push('\n');
}

/// A line of words under a heading.
fn line(f: &mut Facts, name: &str, value: &str) {
    f.0.push_str(&format!("  {name:<15}{value}\n"));
}

/// Words in lines that are not too long.
fn wrapped(f: &mut Facts, first: &str, text: &str) {
    let mut row = first.to_owned();
    let mut begun = false;
    for word in text.split_whitespace() {
        if begun && row.chars().count() + 1 + word.chars().count() > WIDTH {
            f.0.push_str(row.trim_end());
            f.0.push('\n');
            row = " ".repeat(first.chars().count());
            begun = false;
        }
        if begun {
            row.push(' ');
        }
        row.push_str(word);
        begun = true;
    }
    f.0.push_str(row.trim_end());
    f.0.push('\n');
}

pub(super) fn text(r: &JobReport, on: bool) -> String {
    let mut f = Facts::new();
    let head = format!("Job {} ({})", r.id, clean(&r.name));
    f.0.push_str(&format!("{}\n", paint(&head, Style::Bold, on)));
    let user = r.user.strip_prefix("user:").unwrap_or(&r.user);
    let owner = format!("{}, {}, user {}", gpus(r.gpus), clean(&r.project), clean(user));
    f.0.push_str(&format!("  {}, {owner}\n", r.state));
    time(&mut f, r, on);
    attempts(&mut f, r, on);
    if let Some(e) = &r.efficiency {
        efficiency(&mut f, e, on);
    }
    if let Some(s) = &r.steps {
        steps(&mut f, s, on);
    }
    if r.efficiency.is_none() && r.steps.is_none() {
        f.section("GPUs and steps", on);
        f.text("nothing was heard of them since the server's start");
    }
    if !r.advice.is_empty() {
        f.section("Advice", on);
        for a in &r.advice {
            wrapped(&mut f, "  - ", &clean(&a.text));
            wrapped(&mut f, "    ", &format!("({})", clean(&a.because)));
        }
    }
    f.0
}

fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn time(f: &mut Facts, r: &JobReport, on: bool) {
    f.section(&format!("Where {} went", span(r.wall_ms)), on);
    if !r.complete {
        let since = r.since.to_string();
        f.text(&format!("since {since}: its first attempts are not known any more"));
    }
    let wall = float(r.wall_ms.max(1));
    for (name, ms) in r.time_ms.parts() {
        // What did not happen takes no room; what counts is always told.
        if ms == 0 && name != "productive" {
            continue;
        }
        let note = match name {
            "lost" if r.lost_estimated => "estimated",
            _ => "",
        };
        let more = format!("{:>8}  {note}", span(ms));
        bar(f, name, float(ms) / wall, &more, style(name), on);
    }
    f.0.push('\n');
    if r.held_gpu_seconds > 0.0 {
        let (good, held) = (gpu_time(r.gpu_seconds.productive), gpu_time(r.held_gpu_seconds));
        line(f, "GPU time", &format!("{good} productive of {held} held"));
    }
    if let Some(share) = r.goodput {
        line(f, "Goodput", &format!("{:>6}  productive of what was held", percent(share)));
    }
    if let Some(share) = r.ettr {
        line(f, "ETTR", &format!("{:>6}  productive of all, waiting included", percent(share)));
    }
    if let Some(ms) = r.mtbi_ms {
        let n = count(u64::from(r.interruptions), "interruption");
        line(f, "MTBI", &format!("{:>6}  up between interruptions; {n}", span(ms)));
    }
    if let Some(ms) = r.recover_ms {
        line(
            f,
            "Recovery",
            &format!("{:>6}  on average, from the order to stop to work", span(ms)),
        );
    }
    if r.unsaved_ms > 0 {
        line(f, "At risk", &format!("{:>6}  of work in no checkpoint yet", span(r.unsaved_ms)));
    }
    if let Some(since) = r.watched_since {
        let text =
            format!("Idle time and first steps are known since {since} only: the server's start.");
        wrapped(f, "  ", &text);
    }
    if r.time_ms.lost > 0 && r.lost_estimated {
        wrapped(
            f,
            "  ",
            "It told of no checkpoint, or not all it told is known: what an attempt \
            that failed had done counts as lost from its start.",
        );
    }
}

fn ended(v: Option<Verdict>) -> &'static str {
    match v {
        None => "",
        Some(Verdict::Success) => "success",
        Some(Verdict::Application) => "application",
        Some(Verdict::Infrastructure) => "infrastructure",
        Some(Verdict::Operator) => "operator",
        Some(Verdict::Scheduler) => "scheduler",
        Some(Verdict::Platform) => "platform",
        Some(Verdict::Unknown) => "unknown",
    }
}

/// A column of the attempts' table, and where its time is found.
type Column = (&'static str, fn(&AttemptReport) -> u64);

const COLUMNS: [Column; 5] = [
    ("WAITED", |a| a.time_ms.queued + a.time_ms.starting),
    ("WORKED", |a| a.time_ms.productive + a.time_ms.checkpointing),
    ("BACK", |a| a.time_ms.restarting),
    ("LOST", |a| a.time_ms.lost),
    ("IDLE", |a| a.time_ms.idle),
];

fn attempts(f: &mut Facts, r: &JobReport, on: bool) {
    if r.attempts.len() < 2 {
        return;
    }
    let more = r.attempts.len().saturating_sub(ATTEMPTS);
    let title =
        if more > 0 { format!("Attempts, the newest {ATTEMPTS}") } else { "Attempts".into() };
    f.section(&title, on);
    let shown = &r.attempts[more..];
    // What happened to none of them takes no room.
    let used = |c: &&Column| shown.iter().any(|a| c.1(a) > 0);
    let columns: Vec<&Column> = COLUMNS.iter().filter(used).collect();
    let saves = shown.iter().any(|a| a.checkpoints > 0);
    let mut head = vec!["NO"];
    head.extend(columns.iter().map(|c| c.0));
    head.extend(saves.then_some("SAVES"));
    head.extend(["ENDED BY", "WHY"]);
    let mut t = Table::new(&head);
    for a in shown {
        let some = |n: u64, text: String| number(if n == 0 { String::new() } else { text });
        let mut row = vec![number(a.no)];
        row.extend(columns.iter().map(|c| some(c.1(a), span(c.1(a)))));
        row.extend(saves.then(|| some(a.checkpoints.into(), a.checkpoints.to_string())));
        row.extend([cell(ended(a.verdict)), cell(a.reason.as_deref().unwrap_or_default())]);
        t.row(row);
    }
    for line in t.render_for(Some(WIDTH - 2), on).lines() {
        f.0.push_str(&format!("  {line}\n"));
    }
}

/// From when on something was watched, in words.
fn watched(whole: bool) -> &'static str {
    if whole { "" } else { ", since the server's start" }
}

fn efficiency(f: &mut Facts, e: &Efficiency, on: bool) {
    let long = span(e.until.0.since(e.since.0).0);
    f.section(
        &format!("GPUs of attempt {}, watched for {long}{}", e.attempt, watched(e.whole)),
        on,
    );
    if e.shared {
        f.text("others share these GPUs: the figures are not the job's alone");
    }
    let peak = |v: Option<f64>| v.map_or_else(String::new, |p| format!("peak {}", percent(p)));
    for (name, mean, note) in [
        ("utilisation", e.utilisation, peak(e.utilisation_peak)),
        ("SMs active", e.sm_active, peak(e.sm_active_peak)),
        ("tensor cores", e.tensor_active, String::new()),
        ("memory traffic", e.memory_active, String::new()),
    ] {
        if let Some(mean) = mean {
            bar(f, name, mean, &note, Style::Busy, on);
        }
    }
    match (e.memory_peak_mib, e.memory_mib) {
        (Some(used), Some(of)) if of > 0 => {
            let gib = |mib: u64| format!("{:.1}", float(mib) / 1024.0);
            let note = format!("{} of {} GiB", gib(used), gib(of));
            bar(f, "memory peak", float(used) / float(of), &note, Style::Busy, on);
        }
        (Some(used), _) => line(f, "memory peak", &format!("{:.1} GiB", float(used) / 1024.0)),
        _ => {}
    }
    let energy = e.energy_joules.map(|j| match j {
        0..36_000 => format!("{:.1} kJ in all", float(j) / 1e3),
        _ => format!("{:.2} kWh in all", float(j) / 3.6e6),
    });
    let power = e.power_watts.map(|w| format!("{w:.0} W a GPU"));
    let power: Vec<String> = power.into_iter().chain(energy).collect();
    if !power.is_empty() {
        line(f, "power", &power.join(", "));
    }
    if e.gpus_unused > 0 {
        line(f, "never used", &format!("{} of {}", e.gpus_unused, gpus(e.gpus.into())));
    }
}

fn steps(f: &mut Facts, s: &StepsReport, on: bool) {
    let heard = count(s.reports, "report");
    f.section(&format!("Steps of attempt {}, {heard}{}", s.attempt, watched(s.whole)), on);
    let ms = |v: f64| if v < 1000.0 { format!("{v:.1} ms") } else { format!("{:.2} s", v / 1e3) };
    let length = s.step_ms.map(|v| format!("; one takes {}", ms(v))).unwrap_or_default();
    line(f, "newest", &format!("{}{length}", s.step));
    for (n, stage) in s.stages.iter().enumerate() {
        let slowest = if n == 0 && s.stages.len() > 1 { "  slowest" } else { "" };
        let name: String = clean(&stage.name).chars().take(14).collect();
        let style = if n == 0 { Style::Warn } else { Style::Busy };
        bar(f, &name, stage.share, &format!("{:>9}{slowest}", ms(stage.ms)), style, on);
    }
    if let (Some(rank), Some(own), Some(median)) =
        (s.slowest_rank, s.slowest_rank_ms, s.median_rank_ms)
    {
        let above = if median > 0.0 { (own / median - 1.0) * 100.0 } else { 0.0 };
        let words = if above >= 1.0 {
            format!("{rank}: {} of own work in a step, {above:.0}% above the median", ms(own))
        } else {
            format!("none: all {} within 1% of the median", count(s.ranks.into(), "rank"))
        };
        line(f, "slowest rank", &words);
    }
}

/// Two lines for the description of a job: shares, and where the time went.
pub(crate) fn brief(r: &JobReport) -> (String, String) {
    let share = |v: Option<f64>| v.map_or_else(|| "unknown".into(), percent);
    let shares = format!("{} of what was held; ETTR {}", share(r.goodput), share(r.ettr));
    let said = |(name, ms): (&'static str, u64)| {
        let estimated = if name == "lost" && r.lost_estimated { " (estimated)" } else { "" };
        (ms > 0).then(|| format!("{name} {}{estimated}", span(ms)))
    };
    let parts: Vec<String> = r.time_ms.parts().into_iter().filter_map(said).collect();
    (shares, parts.join(", "))
}

#[cfg(test)]
mod tests {
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

    fn report() -> JobReport {
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
        assert!(
            text.contains("first steps are known since 1970-01-01T00:00:05.000Z only"),
            "{text}"
        );
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
        (r.efficiency, r.steps, r.mtbi_ms, r.recover_ms, r.unsaved_ms) =
            (None, None, None, None, 0);
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
}
