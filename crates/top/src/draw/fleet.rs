//! The fleet: sums, the map, the hottest nodes and those that somebody should look at.

use super::fitted_text::{Pen, cut, wide};
use super::map::{Detail, map, row, tone};
use crate::fleet::{Fleet, Glyph, Totals};
use crate::model::Model;
use crate::rows::wanted;
use muster_api::waiting_words;
use muster_terminal::output::bar::part;
use muster_terminal::output::colour::Style as Tone;
use ratatui::text::Line;
use std::collections::BTreeSet;

/// Fewer rows than this are for the map alone.
const LOW: usize = 10;

pub(super) fn lines(model: &Model, pen: Pen, w: usize, rows: usize) -> Vec<Line<'static>> {
    let fleet = &model.fleet;
    if !fleet.known {
        return vec![pen.line("waiting for the first snapshot of the fleet", Tone::Faint)];
    }
    if fleet.nodes.is_empty() {
        return vec![
            pen.line("no nodes; `muster token create --join NAME` lets one in", Tone::Faint),
        ];
    }
    let seen = seen(model);
    let sums = fleet.totals(|n| seen[n]);
    let mut out = totals(&sums, spares(model), &waiting(model, &seen), pen, w, rows);
    let mut below = below(fleet, &sums, pen, w, rows);
    below.extend(reasons(model, pen, w, rows));
    let room = rows.saturating_sub(out.len() + below.len() + 1 + usize::from(rows >= LOW));
    let map = map(fleet, &seen, pen, w, room);
    let from = model.scroll.min(map.lines.len().saturating_sub(room));
    let left = map.lines.len().saturating_sub(from + room);
    let what = match map.detail {
        Detail::Node => "one character a node, by leaf and rack",
        Detail::Rack => "one character a rack (its worst node), by leaf",
        Detail::Leaf => "by leaf, worst first",
    };
    let more = if left > 0 || from > 0 {
        format!(
            "; lines {}-{} of {}",
            from + 1,
            from + room.min(map.lines.len() - from),
            map.lines.len()
        )
    } else {
        String::new()
    };
    out.push(pen.line(cut(&format!("Map: {what}{more}"), w), Tone::Bold));
    out.extend(map.lines.into_iter().skip(from).take(room));
    if rows >= LOW {
        out.push(legend(fleet, &seen, pen, w));
    }
    out.append(&mut below);
    out
}

/// How far the map can be scrolled.
pub(super) fn longest(model: &Model, w: usize, rows: usize) -> usize {
    let pen = Pen { colour: false };
    let seen = seen(model);
    let sums = model.fleet.totals(|n| seen[n]);
    let below = below(&model.fleet, &sums, pen, w, rows).len();
    let above = totals(&sums, spares(model), "", pen, w, rows).len();
    let fixed = above + below + reasons(model, pen, w, rows).len() + 1;
    let fixed = fixed + usize::from(rows >= LOW);
    let room = rows.saturating_sub(fixed);
    map(&model.fleet, &seen, pen, w, room).lines.len().saturating_sub(room)
}

/// Which nodes fit the filter.
fn seen(model: &Model) -> Vec<bool> {
    let all = 0..model.fleet.nodes.len();
    match wanted(model) {
        None => all.map(|_| true).collect(),
        Some(w) => all.map(|n| model.fleet.fits(n, &w)).collect(),
    }
}

/// Spares that could step in now, and all of them, as `muster health` counts them: of the whole
/// site, so not beside the sums of a part.
fn spares(model: &Model) -> Option<(u32, u32)> {
    let health = model.health.as_ref().filter(|h| h.spares > 0 && wanted(model).is_none())?;
    Some((health.spares_left, health.spares))
}

/// What somebody has to approve on the nodes that are shown, and what is delayed there.
fn waiting(model: &Model, seen: &[bool]) -> String {
    let Some(health) = model.health.as_ref().filter(|h| !h.waiting.is_empty()) else {
        return String::new();
    };
    let all: BTreeSet<&str> = health.waiting.iter().map(|r| r.node.as_str()).collect();
    let shown = seen.iter().enumerate().filter(|(_, seen)| **seen);
    let names = shown.map(|(n, _)| model.fleet.name(n));
    let here: BTreeSet<&str> = names.filter(|name| all.contains(name)).collect();
    let on = |delayed: bool| {
        let some = health.waiting.iter().filter(|r| r.delayed == delayed);
        some.filter(|r| here.contains(r.node.as_str())).count()
    };
    waiting_words((on(false), on(true)))
}

fn totals(
    t: &Totals,
    spares: Option<(u32, u32)>,
    waiting: &str,
    pen: Pen,
    w: usize,
    rows: usize,
) -> Vec<Line<'static>> {
    let mut nodes = vec![
        (format!("Nodes {:>6}  ", t.nodes), Tone::Bold),
        (format!("in service {}", t.in_service), Tone::Good),
    ];
    let bad = |n: usize, tone| if n == 0 { Tone::Faint } else { tone };
    if t.cordoned > 0 {
        nodes.push((format!("  cordoned {}", t.cordoned), Tone::Busy));
    }
    nodes.push((format!("  leaving {}", t.leaving), bad(t.leaving, Tone::Busy)));
    nodes.push((format!("  unhealthy {}", t.unhealthy), bad(t.unhealthy, Tone::Warn)));
    nodes.push((format!("  lost {}", t.lost), bad(t.lost, Tone::Bad)));
    if t.other > 0 {
        nodes.push((format!("  other {}", t.other), Tone::Busy));
    }
    if let Some((left, all)) = spares {
        let tone = if left == 0 { Tone::Warn } else { Tone::Plain };
        nodes.push((format!("  spares {left} of {all}"), tone));
    }
    if !waiting.is_empty() {
        nodes.push((format!("  {waiting}"), Tone::Warn));
    }
    let free = t.gpus.saturating_sub(t.held + t.out + t.spare);
    let share = if t.gpus == 0 { 0.0 } else { f64::from(t.held) / f64::from(t.gpus) };
    let cells = if w >= 60 { 12 } else { 4 };
    let spare = if t.spare > 0 { format!("  spare {}", t.spare) } else { String::new() };
    let gpus = vec![
        (format!("GPUs  {:>6}  ", t.gpus), Tone::Bold),
        (part(share, cells), Tone::Good),
        (format!(" allocated {}", t.held), Tone::Plain),
        (format!("  free {free}"), Tone::Plain),
        (spare, Tone::Plain),
        (format!("  blocked {}", t.out), if t.out == 0 { Tone::Faint } else { Tone::Warn }),
        (t.util.map(|u| format!("  busy {u}%")).unwrap_or_default(), Tone::Plain),
    ];
    let mut out = vec![row(nodes, pen, w), row(gpus, pen, w)];
    if rows < LOW {
        return out;
    }
    let drawn = if t.watts_reported == 0 {
        "no data".to_owned()
    } else if t.watts_reported < t.gpus {
        format!("{} (reported by {} of {} GPUs)", power(t.watts), t.watts_reported, t.gpus)
    } else {
        format!("{} drawn by GPUs", power(t.watts))
    };
    out.push(row(vec![("Power         ".into(), Tone::Bold), (drawn, Tone::Plain)], pen, w));
    out
}

/// `742 W`, `212.4 kW`, `3.1 MW`.
fn power(watts: u64) -> String {
    match watts {
        0..1000 => format!("{watts} W"),
        1000..1_000_000 => format!("{}.{} kW", watts / 1000, watts % 1000 / 100),
        _ => format!("{}.{} MW", watts / 1_000_000, watts % 1_000_000 / 100_000),
    }
}

/// What the characters that are there mean.
fn legend(fleet: &Fleet, seen: &[bool], pen: Pen, w: usize) -> Line<'static> {
    let mut pieces = Vec::new();
    for g in Glyph::ALL.into_iter().rev() {
        if fleet.nodes.iter().zip(seen).any(|(n, seen)| *seen && n.glyph == g) {
            pieces.push((g.letter().to_string(), tone(g)));
            pieces.push((format!(" {}  ", g.word()), Tone::Faint));
        }
    }
    row(pieces, pen, w)
}

/// The hottest nodes, and those that somebody should look at.
fn below(fleet: &Fleet, t: &Totals, pen: Pen, w: usize, rows: usize) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    if rows < LOW {
        return out;
    }
    let hot = t.hottest.iter().map(|(temp, n)| {
        let gpu = fleet.hottest_gpu(*n).map(|g| format!("/{g}")).unwrap_or_default();
        (
            format!("{}{gpu} {temp}C", fleet.name(*n)),
            if *temp >= 85 { Tone::Bad } else { Tone::Plain },
        )
    });
    let mut hot: Vec<_> = hot.collect();
    // Which ones fit is enough: that there are cooler ones is no news.
    while wide("Hottest  ") + hot.iter().map(|(t, _)| wide(t) + 2).sum::<usize>() > w + 2 {
        hot.pop();
    }
    out.extend(listed("Hottest  ", hot, pen, w, 1));
    let trouble = t.trouble.iter().map(|n| {
        let g = fleet.nodes[*n].glyph;
        (format!("{} {}", fleet.name(*n), g.word()), tone(g))
    });
    out.extend(listed("Look at  ", trouble.collect(), pen, w, if rows > 28 { 4 } else { 2 }));
    out
}

/// Why all is not well, as far as it is known, and what is open beside that.
fn reasons(model: &Model, pen: Pen, w: usize, rows: usize) -> Vec<Line<'static>> {
    let health = model.health.iter();
    let all = health.flat_map(|h| h.reasons.iter().cloned().chain(h.beside()));
    let well = model.health.as_ref().is_none_or(|h| h.reasons.is_empty());
    let first = if well { "Open     " } else { "Because  " };
    let most = match rows {
        0..10 => 0,
        10..28 => 2,
        _ => 4,
    };
    let line = |(n, why): (usize, String)| {
        let title = if n == 0 { first } else { "         " };
        let why = cut(&why, w.saturating_sub(wide(title)));
        pen.pieces([(title, Tone::Bold), (why.as_str(), Tone::Warn)])
    };
    all.take(most).enumerate().map(line).collect()
}

/// Names in a few lines; how many more there are is said.
fn listed(
    title: &str,
    items: Vec<(String, Tone)>,
    pen: Pen,
    w: usize,
    most: usize,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let indent = wide(title);
    let mut spans = vec![pen.put(title, Tone::Bold)];
    let mut used = indent;
    let total = items.len();
    for (n, (text, tone)) in items.into_iter().enumerate() {
        let text = cut(&text, w.saturating_sub(indent));
        let more = if n + 1 < total { format!("  and {} more", total - n) } else { String::new() };
        let last = lines.len() + 1 == most;
        let need = wide(&text) + if n == 0 || used == indent { 0 } else { 2 };
        let reserve = if last { wide(&more) } else { 0 };
        if used + need + reserve > w {
            if last {
                spans.push(pen.put(format!("  and {} more", total - n), Tone::Faint));
                break;
            }
            lines.push(Line::from(std::mem::take(&mut spans)));
            spans.push(pen.put(" ".repeat(indent), Tone::Plain));
            used = indent;
        }
        if used > indent {
            spans.push("  ".into());
            used += 2;
        }
        used += wide(&text);
        spans.push(pen.put(&text, tone));
    }
    if total > 0 {
        lines.push(Line::from(spans));
    }
    lines
}
