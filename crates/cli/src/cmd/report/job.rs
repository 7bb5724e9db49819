//! The report of one job for people: 80 columns, whatever the terminal has.

#[cfg(test)]
pub(crate) mod tests;

use muster_api::{AttemptReport, Efficiency, JobReport, StepsReport};
use muster_model::units::Span;
use muster_terminal::output::bar::part;
use muster_terminal::output::colour::{Style, paint};
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time::length;

/// Cells of a bar.
const BAR: u32 = 32;
/// Columns of a line.
const WIDTH: usize = 80;
/// Attempts that are shown.
const ATTEMPTS: usize = 10;

/// `42ms`, `7.1s`, `45s`, `3m20s`, `2h05m`: short lives are reported exactly.
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
        f.text("no data since the server's start");
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
        // What did not happen takes no room; what counts is always reported.
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
    if r.allocated_gpu_seconds > 0.0 {
        let (good, held) = (gpu_time(r.gpu_seconds.productive), gpu_time(r.allocated_gpu_seconds));
        line(f, "GPU time", &format!("{good} productive of {held} allocated"));
    }
    if let Some(share) = r.goodput {
        line(f, "Goodput", &format!("{:>6}  productive of what was allocated", percent(share)));
    }
    if let Some(share) = r.ettr {
        line(f, "ETTR", &format!("{:>6}  productive of all, waiting included", percent(share)));
    }
    // What the program did itself is no interruption, as in the fleet's report.
    let own = r.ended_by.get("application").copied().unwrap_or(0);
    if let Some(ms) = r.mtbi_ms {
        let n = count(r.interruptions.into(), "interruption");
        line(f, "MTBI", &format!("{:>6}  up between interruptions; {n}", span(ms)));
    }
    if own > 0 {
        line(f, "Failures", &format!("{own:>6}  of the program itself"));
    }
    if let Some(ms) = r.recover_ms {
        line(f, "Recovery", &format!("{:>6}  on average, from its first sign to work", span(ms)));
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
            "It reported no checkpoint, or not all its reports are known: what an attempt \
            that failed had done counts as lost from its start.",
        );
    }
}

/// A column of the attempts' table, and where its time is found.
type Column = (&'static str, fn(&AttemptReport) -> u64);

const COLUMNS: [Column; 5] = [
    ("WAITED", |a| a.time_ms.queued + a.time_ms.held + a.time_ms.starting),
    ("WORKED", |a| a.time_ms.productive + a.time_ms.checkpointing),
    ("RECOVERY", |a| a.time_ms.restarting),
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
        let why = a.reason.as_deref().unwrap_or_default();
        let whose = a.attributed_to.as_deref().unwrap_or_default();
        row.extend([cell(whose), cell(why)]);
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
    // From the first row to the last; one row has no length.
    let seen = match e.until.0.since(e.since.0).0 {
        0 => "seen once".to_owned(),
        long => format!("watched for {}", span(long)),
    };
    f.section(&format!("GPUs of attempt {}, {seen}{}", e.attempt, watched(e.whole)), on);
    if e.shared {
        f.text("others share these GPUs: the numbers are not of this job alone");
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
    let shares = format!("{} of what was allocated; ETTR {}", share(r.goodput), share(r.ettr));
    let said = |(name, ms): (&'static str, u64)| {
        let estimated = if name == "lost" && r.lost_estimated { " (estimated)" } else { "" };
        (ms > 0).then(|| format!("{name} {}{estimated}", span(ms)))
    };
    let parts: Vec<String> = r.time_ms.parts().into_iter().filter_map(said).collect();
    (shares, parts.join(", "))
}
