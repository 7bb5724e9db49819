//! What is wrong, worst first: alerts, what is pending approval, incidents, breakers, findings.

use super::fitted_text::{Pen, cut, fit, right};
use crate::model::Model;
use crate::rows::{self, Item, window};
use muster_terminal::output::colour::Style as Tone;
use muster_terminal::output::time;
use ratatui::style::Modifier;
use ratatui::text::Line;

pub(super) fn lines(model: &Model, pen: Pen, w: usize, rows: usize) -> Vec<Line<'static>> {
    let Some(health) = &model.health else {
        return vec![pen.line("reading what is wrong", Tone::Faint)];
    };
    let tone = match health.state.as_str() {
        "well" => Tone::Good,
        "attention" => Tone::Warn,
        _ => Tone::Bad,
    };
    let mut first = match health.reasons.first() {
        Some(why) => format!("The site: {}. {why}", health.words()),
        None => format!("The site: {}.", health.words()),
    };
    if let Some(more) = health.reasons.len().checked_sub(1).filter(|n| *n > 0) {
        first.push_str(&format!(" (and {more} more)"));
    }
    let mut out = vec![pen.line(cut(&first, w), tone)];
    if let Some(a) = health.automation.as_ref().filter(|a| a.state == "stopped") {
        let why = a.reason.as_deref().unwrap_or("no reason given");
        let text = format!("Automation is stopped: {why} (`muster automation resume`)");
        out.push(pen.line(cut(&text, w), Tone::Warn));
    }
    let all = rows::items(model);
    if all.is_empty() {
        let none = "no alert, incident, breaker or finding is open";
        out.push(pen.line(cut(none, w), Tone::Faint));
        return out;
    }
    let at = model.cursors[2].at(all.iter().map(|i| i.key.as_str()));
    // Headings are rows like others, so that what fits is counted once.
    let mut list: Vec<Line<'static>> = Vec::new();
    let mut mark = 0;
    for (n, item) in all.iter().enumerate() {
        if n == 0 || all[n - 1].kind != item.kind {
            let count = all.iter().filter(|i| i.kind == item.kind).count();
            list.push(pen.line(format!("{} ({count})", item.kind.heading()), Tone::Bold));
        }
        let mut line = row(model, item, pen, w);
        if n == at {
            mark = list.len();
            line.style = line.style.add_modifier(Modifier::REVERSED);
            line.spans[0] = pen.put(">", Tone::Bold);
        }
        list.push(line);
    }
    let room = rows.saturating_sub(out.len());
    let seen = window(mark, list.len(), room);
    out.extend(list.drain(seen));
    out
}

fn row(model: &Model, item: &Item, pen: Pen, w: usize) -> Line<'static> {
    let about = match w {
        0..60 => 12,
        60..110 => 24,
        _ => 40,
    };
    let age = time::short(model.now.since(item.since));
    let rest = w.saturating_sub(1 + 10 + 5 + about + 3);
    Line::from(vec![
        pen.put(" ", Tone::Plain),
        pen.put(fit(&item.word, 10), item.style),
        pen.put(right(&age, 4), Tone::Faint),
        " ".into(),
        pen.put(fit(&item.about, about), Tone::Plain),
        "  ".into(),
        pen.put(cut(&item.text, rest), Tone::Plain),
    ])
}
