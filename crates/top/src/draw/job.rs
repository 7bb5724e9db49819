//! One job: where it stands, how its attempts ended, where its time went, what it said last.

use super::fitted_text::{Pen, cut, fit, right, wrap};
use crate::model::{JobDetail, Model};
use crate::rows;
use muster_api::{Job, JobReport};
use muster_model::job::Verdict;
use muster_model::spec::GpuPart;
use muster_model::units::Span;
use muster_terminal::output;
use muster_terminal::output::bar::part;
use muster_terminal::output::colour::{self, Style as Tone};
use muster_terminal::output::time::{clock, length, relative};
use ratatui::text::Line;

/// Past attempts that are shown.
const ATTEMPTS: usize = 6;
/// Nodes that are shown.
const SLOTS: usize = 256;

pub(super) fn lines(model: &Model, pen: Pen, w: usize) -> Vec<Line<'static>> {
    let Some(id) = &model.job_id else {
        let none = "no job is chosen: Enter on one in the queue (2), or `muster top --view job:ID`";
        return wrap(none, w, 2).into_iter().map(|l| pen.line(l, Tone::Faint)).collect();
    };
    let Some(detail) = &model.job else {
        return vec![pen.line(format!("reading job {id}"), Tone::Faint)];
    };
    let mut out = state(model, detail, pen, w);
    if let Some(r) = &detail.report {
        out.extend(report(r, pen, w));
    }
    out.extend(attempts(model, &detail.job, pen, w));
    out.extend(slots(detail, pen, w));
    out.extend(output(model, detail, pen, w));
    out
}

fn section(text: &str, pen: Pen, w: usize) -> [Line<'static>; 2] {
    [Line::default(), pen.line(cut(text, w), Tone::Bold)]
}

fn state(model: &Model, d: &JobDetail, pen: Pen, w: usize) -> Vec<Line<'static>> {
    let (job, now) = (&d.job, model.now);
    let word = rows::job_state_label(job);
    let user = job.user.strip_prefix("user:").unwrap_or(&job.user);
    let head = format!("Job {} {}  ", job.id, job.name);
    let gpus = match (job.groups.iter().find_map(|g| g.part.as_ref()), job.gpu_milli()) {
        (Some(GpuPart::Mig(profile)), _) => profile.clone(),
        (_, 1000) => "1 GPU".to_owned(),
        (_, milli) => format!("{} GPUs", output::gpus(milli)),
    };
    let nodes = output::plural(usize::try_from(job.nodes()).unwrap_or(usize::MAX), "node");
    let of = format!("  {nodes}, {gpus}  project {}  user {user}", job.project);
    let head = cut(&head, w.saturating_sub(14));
    let rest = w.saturating_sub(super::fitted_text::wide(&head) + word.len());
    let mut out = vec![pen.pieces([
        (head.as_str(), Tone::Bold),
        (word, colour::of_state(word)),
        (cut(&of, rest).as_str(), Tone::Plain),
    ])];
    let mut say = |text: String, tone: Tone| {
        out.extend(wrap(&text, w, 2).into_iter().map(|l| pen.line(l, tone)));
    };
    if let Some(e) = &d.explain {
        say(format!("Waits: {}", e.summary), Tone::Warn);
    } else if let Some(why) = job.waiting.as_ref().filter(|_| !job.state.is_final()) {
        say(format!("Waits: {why}"), Tone::Warn);
    }
    if let Some(p) = &job.reserved_start {
        let nodes = muster_specs::hostlist::compress(p.nodes.iter().map(String::as_str));
        say(format!("Starts by {} on {nodes}", clock(now, p.at, &model.zone)), Tone::Plain);
    } else if let Some(s) = d.explain.as_ref().and_then(|e| e.estimated_start.as_ref()) {
        let by = clock(now, s.at, &model.zone);
        let when = match s.earliest.filter(|t| t.0 < s.at.0) {
            Some(t) => format!("between {} and {by}", clock(now, t, &model.zone)),
            None => format!("by {by}"),
        };
        let starts = if s.reserved { "Starts" } else { "Expected to start" };
        say(format!("{starts} {when} ({})", s.basis), Tone::Plain);
    }
    if let Some(e) = &d.explain {
        for s in e.suggestions.iter().take(2) {
            say(format!("Would help: {s}"), Tone::Busy);
        }
    }
    if let Some(a) = &job.attempt {
        let since = a.started_at.unwrap_or(a.placed_at);
        let ends = a.deadline.map(|t| format!(", ends by {}", clock(now, t, &model.zone)));
        let fabric = a.fabric_shown().map(|f| format!(" ({f})")).unwrap_or_default();
        say(
            format!(
                "Attempt {} on {}{fabric}, {} {}{}",
                a.no,
                a.domain,
                if a.started_at.is_some() { "up since" } else { "placed" },
                relative(now, since),
                ends.unwrap_or_default()
            ),
            Tone::Plain,
        );
        if let Some(p) = a.in_preflight() {
            say(muster_terminal::jobs::preflight(p, now), Tone::Warn);
        }
        if let Some(s) = &a.stop {
            say(format!("Stops: {}", s.message), Tone::Warn);
        }
        if let Some(n) = &a.notice {
            let until = clock(now, n.until, &model.zone);
            say(format!("Will be stopped by {until}: {}", n.message), Tone::Warn);
        }
    }
    if job.state.is_final() {
        let ended = job.ended_at.map(|t| relative(now, t)).unwrap_or_default();
        let code = job.exit_code.map(|c| format!(", exit code {c}")).unwrap_or_default();
        let why = job.reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default();
        say(format!("Ended {ended}{code}{why}"), colour::of_state(word));
    }
    if let Some(p) = &job.progress {
        let t = p.t.map(|t| format!(", {t:.2} s a step")).unwrap_or_default();
        let loss = p.loss.map(|l| format!(", loss {l:.4}")).unwrap_or_default();
        say(
            format!(
                "Step {}{t}{loss}, reported by rank {} {}",
                p.step,
                p.rank,
                relative(now, p.at)
            ),
            Tone::Plain,
        );
    }
    if let Some(c) = &job.checkpoint {
        let step = c.step.map(|s| format!(" of step {s}")).unwrap_or_default();
        say(format!("Checkpoint{step} written {}", relative(now, c.at)), Tone::Plain);
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn report(r: &JobReport, pen: Pen, w: usize) -> Vec<Line<'static>> {
    let share = |s: Option<f64>| s.map_or("-".into(), |s| format!("{:.1}%", s * 100.0));
    let head = format!(
        "Where {} went: goodput {}, ETTR {}",
        length(Span(r.wall_ms)),
        share(r.goodput),
        share(r.ettr)
    );
    let mut out = section(&head, pen, w).to_vec();
    let wall = r.wall_ms.max(1) as f64;
    // Two beside each other where there is room for both.
    let columns = if w >= 72 { 2 } else { 1 };
    let parts: Vec<(&str, u64)> = r.time_ms.parts().into_iter().filter(|(_, ms)| *ms > 0).collect();
    for some in parts.chunks(columns) {
        let mut spans = Vec::new();
        for (name, ms) in some {
            let tone = match *name {
                "productive" => Tone::Good,
                "lost" | "idle" => Tone::Bad,
                "restarting" => Tone::Warn,
                _ => Tone::Busy,
            };
            let share = *ms as f64 / wall;
            spans.push(pen.put(format!("  {}", fit(name, 14)), Tone::Plain));
            spans.push(pen.put(part(share, 8), tone));
            let reported = format!(" {:>5.1}% {}", share * 100.0, right(&length(Span(*ms)), 6));
            spans.push(pen.put(reported, Tone::Plain));
        }
        out.push(Line::from(spans));
    }
    if let Some(s) = &r.steps {
        let mut text = format!("  step {}", s.step);
        if let Some(ms) = s.step_ms {
            text.push_str(&format!(", {ms:.0} ms a step"));
        }
        if let (Some(rank), Some(ms)) = (s.slowest_rank, s.slowest_rank_ms) {
            let median = s.median_rank_ms.map(|m| format!(" (median {m:.0} ms)"));
            text.push_str(&format!(
                ", slowest rank {rank} {ms:.0} ms{}",
                median.unwrap_or_default()
            ));
        }
        out.push(pen.line(cut(&text, w), Tone::Plain));
    }
    for a in r.advice.iter().take(2) {
        let lines = wrap(&format!("Advice: {}", a.text), w.saturating_sub(2), 2);
        out.extend(lines.into_iter().map(|l| pen.line(format!("  {l}"), Tone::Busy)));
    }
    out
}

fn verdict(v: Verdict) -> (&'static str, Tone) {
    match v {
        Verdict::Success => ("success", Tone::Good),
        Verdict::Application => ("application", Tone::Bad),
        Verdict::Infrastructure => ("infrastructure", Tone::Bad),
        Verdict::Operator => ("operator", Tone::Warn),
        Verdict::Scheduler => ("scheduler", Tone::Busy),
        Verdict::Platform => ("platform", Tone::Bad),
        Verdict::Unknown => ("unexplained", Tone::Bad),
    }
}

fn attempts(model: &Model, job: &Job, pen: Pen, w: usize) -> Vec<Line<'static>> {
    if job.past.is_empty() {
        return Vec::new();
    }
    let mut out = section(&format!("Attempts that are over ({})", job.past.len()), pen, w).to_vec();
    for p in job.past.iter().rev().take(ATTEMPTS) {
        let ran = p.started_at.map_or("-".into(), |s| length(p.ended_at.0.since(s.0)));
        let (word, tone) = match p.attributed_to.as_str() {
            "user" => ("user", Tone::Warn),
            _ => verdict(p.verdict),
        };
        let when = relative(model.now, p.ended_at);
        let head = format!("  {:>3} {} {} ", p.no, right(&when, 8), right(&ran, 6));
        let rest = w.saturating_sub(super::fitted_text::wide(&head) + 15);
        out.push(pen.pieces([
            (head.as_str(), Tone::Plain),
            (fit(word, 14).as_str(), tone),
            (" ", Tone::Plain),
            (cut(&p.reason, rest).as_str(), Tone::Plain),
        ]));
    }
    out
}

/// `0-3,6`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let words = runs.map(|r| match r {
        [one] => one.to_string(),
        [from, .., to] => format!("{from}-{to}"),
        [] => String::new(),
    });
    words.collect::<Vec<_>>().join(",")
}

fn slots(d: &JobDetail, pen: Pen, w: usize) -> Vec<Line<'static>> {
    let Some(a) = &d.job.attempt else { return Vec::new() };
    let mut out = section(&format!("Ranks on {} nodes", a.slots.len()), pen, w).to_vec();
    let steps = d.report.as_ref().and_then(|r| r.steps.as_ref());
    // Some rank is always the slowest; it is named when it holds the others up.
    let slowest = steps.and_then(|s| {
        let (slow, median) = (s.slowest_rank_ms?, s.median_rank_ms?);
        s.slowest_rank.filter(|_| slow > median * 1.05)
    });
    // Those of which something is to be said come first.
    let reported = |s: &muster_api::Slot| {
        let has = slowest.is_some_and(|r| (s.first_rank..s.first_rank + s.ranks).contains(&r));
        (s.state != "running", has)
    };
    let mut all: Vec<&muster_api::Slot> = a.slots.iter().collect();
    all.sort_by_key(|s| std::cmp::Reverse(reported(s)));
    for s in all.iter().take(SLOTS) {
        let ranks = match s.ranks {
            0 | 1 => format!("rank {}", s.first_rank),
            n => format!("ranks {}-{}", s.first_rank, s.first_rank + n - 1),
        };
        let gpus = ranges(&s.gpus);
        let slow = if reported(s).1 { "  slowest rank" } else { "" };
        let text = format!("  {} {} GPUs {} ", fit(&s.node, 20), fit(&ranks, 16), fit(&gpus, 10));
        out.push(pen.pieces([
            (cut(&text, w).as_str(), Tone::Plain),
            (s.state.as_str(), colour::of_state(&s.state)),
            (slow, Tone::Warn),
        ]));
    }
    if all.len() > SLOTS {
        out.push(pen.line(format!("  and {} more nodes", all.len() - SLOTS), Tone::Faint));
    }
    out
}

fn output(model: &Model, d: &JobDetail, pen: Pen, w: usize) -> Vec<Line<'static>> {
    if d.output.is_empty() {
        return Vec::new();
    }
    let many = d.output.iter().any(|(r, _)| *r != d.output[0].0);
    let title = if many {
        "Last lines of output".to_owned()
    } else {
        format!("Last lines of rank {} (`muster logs {}` has all)", d.output[0].0, d.job.id)
    };
    let mut out = section(&title, pen, w).to_vec();
    // A screen's worth: the rest is what `muster logs` is for.
    let most = usize::from(model.size.1).max(12) / 2;
    let mut ranks: Vec<u32> = d.output.iter().map(|(r, _)| *r).collect();
    ranks.sort_unstable();
    ranks.dedup();
    // Every rank has its last word.
    let each = (most / ranks.len().max(1)).max(1);
    for rank in ranks {
        let of: Vec<&String> =
            d.output.iter().filter(|(r, _)| *r == rank).map(|(_, line)| line).collect();
        for line in &of[of.len().saturating_sub(each)..] {
            let text = if many { format!("  [{rank}] {line}") } else { format!("  {line}") };
            out.push(pen.line(cut(&text, w), Tone::Plain));
        }
    }
    out
}
