//! Runbooks and runs for people.

use muster_api::{Runbook, RunbookDryRun, RunbookRun, RunbookStep};
use muster_model::runbook::StepOutcome;
use muster_model::units::Time;
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time::{full, relative};

pub(super) fn books(items: &[Runbook]) -> Table {
    let mut t = Table::new(&["NAME", "URGENCY", "STEPS", "ABOUT", "TITLE"]);
    for b in items {
        let own = if b.version.is_some() { " (own)" } else { "" };
        t.row(vec![
            cell(format!("{}{own}", b.name)),
            cell(&b.urgency),
            number(b.length),
            cell(b.needs.join(",")),
            cell(&b.title),
        ]);
    }
    t
}

/// A text with links of Markdown as their words: `[name](name.md)` leads nowhere in a terminal.
fn without_links(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, (words, after))) = first_link(rest) {
        out.push_str(before);
        out.push_str(words);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// What is before the first link, its words, and what is after it.
fn first_link(text: &str) -> Option<(&str, (&str, &str))> {
    let middle = text.find("](")?;
    let begin = text[..middle].rfind('[')?;
    let end = middle + text[middle..].find(')')?;
    Some((&text[..begin], (&text[begin + 1..middle], &text[end + 1..])))
}

pub(super) fn step(f: &mut Facts, s: &RunbookStep, on: bool) {
    f.section(&format!("{}. {}: {}", s.no, s.kind, s.title), on);
    for line in without_links(&s.text).lines().filter(|l| !l.trim().is_empty()) {
        f.text(line);
    }
    f.text(&format!("{}: {}", s.kind, s.says));
    for c in &s.choices {
        f.text(&format!("- {} (then {})", c.text, c.goto));
    }
    if s.choices.is_empty() {
        f.text(&format!("then {}, otherwise {}", s.then, s.otherwise));
    }
}

pub(super) fn book(b: &Runbook, on: bool) -> String {
    let mut f = Facts::new();
    f.line("Runbook", &b.name);
    f.line("Title", &b.title);
    f.line("Serves", [b.modes.clone(), b.topics.clone()].concat().join(", "));
    f.line("Urgency", &b.urgency);
    f.line("Owner", &b.owner);
    let may: Vec<String> = b.takes.iter().map(|v| format!("{v} (may be left out)")).collect();
    f.line("About", [b.needs.clone(), may].concat().join(", "));
    f.line("Version", b.version.map(|v| format!("the site's own, record {v}")).unwrap_or_default());
    f.0.push('\n');
    for line in without_links(&b.intro).lines() {
        f.text(line);
    }
    for s in &b.steps {
        step(&mut f, s, on);
    }
    f.0
}

pub(super) fn plan(p: &RunbookDryRun, on: bool) -> String {
    let mut f = Facts::new();
    f.section("Nothing was done. A run would:", on);
    for s in &p.steps {
        let outcome = match s.outcome {
            StepOutcome::Done => "would be done",
            other => other.word(),
        };
        f.text(&format!("{}. {}: {}: {outcome}", s.step, s.kind, s.title));
        for more in [&s.would, &s.saw].into_iter().filter(|t| !t.is_empty()) {
            f.text(&format!("     {more}"));
        }
    }
    let unknown = p.steps.iter().any(|s| s.outcome == StepOutcome::Assumed);
    let proviso = if unknown { ", if what cannot be known yet passes" } else { "" };
    f.text(&format!("and be {}{proviso}", p.outcome.word()));
    f.0
}

pub(super) fn runs(items: &[RunbookRun], now: Time) -> Table {
    let mut t = Table::new(&["RUN", "BEGAN", "STATE", "STEP", "RUNBOOK", "ABOUT", "BY"]);
    for r in items {
        t.row(vec![
            number(&r.id),
            cell(relative(now, r.started_at)),
            state(&r.state),
            number(r.step),
            cell(&r.runbook),
            cell(about(r)),
            cell(&r.by),
        ]);
    }
    t
}

fn about(r: &RunbookRun) -> String {
    r.vars.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
}

pub(super) fn run(r: &RunbookRun, now: Time, on: bool) -> String {
    let mut f = Facts::new();
    f.line("Run", format!("{} of {}", r.id, r.runbook));
    f.line("Title", &r.title);
    f.line("State", &r.state);
    f.line("Because", r.why.as_deref().unwrap_or_default());
    f.line("About", about(r));
    f.line("By", format!("{}{}", r.by, if r.auto { ", automatic" } else { "" }));
    f.line("Began", full(now, r.started_at));
    f.line("Ended", r.ended_at.map(|t| full(now, t)).unwrap_or_default());
    if !r.done.is_empty() {
        f.section("Completed steps", on);
        for d in &r.done {
            let what = d.chose.as_deref().unwrap_or(d.outcome.word());
            f.text(&format!("{}. {}: {what} ({})", d.step, d.title, d.by));
            for more in [&d.did, &d.saw, &d.note].into_iter().filter(|t| !t.is_empty()) {
                f.text(&format!("     {more}"));
            }
        }
    }
    if let Some(s) = &r.now {
        step(&mut f, s, on);
        f.line("Sees now", r.sees.as_deref().unwrap_or_default());
        f.line("Until", r.until.map(|t| full(now, t)).unwrap_or_default());
        f.line("Waits", r.waits.as_deref().unwrap_or_default());
        let answer = if s.choices.is_empty() { "go|yes|no|skip" } else { "--choose 'WORDS'" };
        f.text(&format!("answer: muster runbook answer {} --step {} {answer}", r.id, s.no));
    }
    f.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_written_as_their_words() {
        let text =
            "It closes ([breaker-open](breaker-open.md)), see\n[the page](https://a.example/b).";
        assert_eq!(without_links(text), "It closes (breaker-open), see\nthe page.");
        for plain in ["", "a [b] (c)", "x](y", "[x](y"] {
            assert_eq!(without_links(plain), plain);
        }
    }
}
