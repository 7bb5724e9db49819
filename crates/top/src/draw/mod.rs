//! One picture of what `top` knows, for a screen of any size.

mod fitted_text;
mod fleet;
mod incidents;
mod item;
mod job;
mod map;
mod queue;

use super::model::{Link, Model, View};
use super::rows;
use fitted_text::{Pen, cut, fit, wide};
use muster_terminal::output::colour::Style as Tone;
use muster_terminal::output::time;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;
use ratatui::widgets::Widget;

/// Rows around the body: the head, the views, the foot.
const AROUND: usize = 3;

/// Draws everything.
pub(super) fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let (w, h) = (usize::from(area.width), usize::from(area.height));
    if w < 20 || h < 5 {
        Line::from("too small").render(area, buf);
        return;
    }
    let pen = Pen { colour: model.colour };
    let mut lines = vec![head(model, pen, w), views(model, pen, w)];
    let rows = h - AROUND;
    let mut body = body(model, pen, w, rows);
    body.truncate(rows);
    body.resize(rows, Line::default());
    lines.append(&mut body);
    lines.push(foot(model, pen, w));
    for (y, line) in (area.y..).zip(lines.iter().take(h)) {
        line.render(Rect { y, height: 1, ..area }, buf);
    }
}

fn body(model: &Model, pen: Pen, w: usize, rows: usize) -> Vec<Line<'static>> {
    if let Some(page) = page(model, pen, w) {
        let from = model.scroll.min(page.len().saturating_sub(rows));
        return page.into_iter().skip(from).take(rows).collect();
    }
    match model.view {
        View::Fleet => fleet::lines(model, pen, w, rows),
        View::Queue => queue::lines(model, pen, w, rows),
        View::Incidents | View::Job => incidents::lines(model, pen, w, rows),
    }
}

/// What is read like a page: all of its lines, however many there are.
fn page(model: &Model, pen: Pen, w: usize) -> Option<Vec<Line<'static>>> {
    match (model.help, model.view, &model.opened) {
        (true, ..) => Some(help(pen)),
        (_, View::Job, _) => Some(job::lines(model, pen, w)),
        (_, View::Incidents, Some(key)) => Some(item::lines(model, key, pen, w)),
        _ => None,
    }
}

/// How far a page can be scrolled.
pub(super) fn longest(model: &Model) -> usize {
    let (w, h) = (usize::from(model.size.0), usize::from(model.size.1));
    let rows = h.saturating_sub(AROUND).max(1);
    let pen = Pen { colour: false };
    let lines = match page(model, pen, w) {
        Some(page) => page.len(),
        None if model.view == View::Fleet => return fleet::longest(model, w, rows),
        None => 0,
    };
    lines.saturating_sub(rows)
}

/// `muster top  site-ab12  ops (admin)              live  03:12:45 UTC`.
fn head(model: &Model, pen: Pen, w: usize) -> Line<'static> {
    let at = jiff::Timestamp::from_millisecond(model.now.0).unwrap_or_default();
    let clock = at.to_zoned(model.zone.clone()).strftime("%H:%M:%S %Z").to_string();
    let (link, tone) = match &model.link {
        Link::Connecting => ("connecting".to_owned(), Tone::Busy),
        Link::Live => ("live".to_owned(), Tone::Good),
        Link::Away { since, why } => {
            let for_ = time::length(model.now.since(*since));
            let room = w.saturating_sub(60);
            let why = if room > 8 { format!(" ({})", cut(why, room)) } else { String::new() };
            (format!("reconnecting, {for_}{why}"), Tone::Bad)
        }
    };
    let who = model.me.as_ref().map(|me| {
        let role = format!("{:?}", me.role).to_lowercase();
        let name = me.name.strip_prefix("user:").unwrap_or(&me.name);
        match &me.project {
            Some(p) => format!("  {}  {name} ({role}, project {p})", me.site),
            None => format!("  {}  {name} ({role})", me.site),
        }
    });
    let right = wide(&link) + 2 + wide(&clock);
    let room = w.saturating_sub(right + 2);
    let title = cut("muster top", room);
    let rest = room.saturating_sub(wide(&title));
    let who = fit(&who.unwrap_or_default(), rest);
    pen.pieces([
        (title.as_str(), Tone::Bold),
        (who.as_str(), Tone::Faint),
        ("  ", Tone::Plain),
        (link.as_str(), tone),
        ("  ", Tone::Plain),
        (clock.as_str(), Tone::Plain),
    ])
}

/// `[1 Fleet]  2 Queue 12+3   3 Incidents 2   4 Job 42`.
fn views(model: &Model, pen: Pen, w: usize) -> Line<'static> {
    let mut spans = Vec::new();
    let mut used = 0;
    for (n, view) in View::ALL.iter().enumerate() {
        let text = match view {
            View::Fleet => "1 Fleet".to_owned(),
            View::Queue if model.jobs_feed.read_at.is_none() => "2 Queue".to_owned(),
            View::Queue => {
                let more = if model.jobs.more { "+" } else { "" };
                let (runs, waits) = (model.jobs.running.len(), model.jobs.waiting.len());
                format!("2 Queue {runs} run, {waits}{more} wait")
            }
            View::Incidents => match model.health.as_ref().map_or(0, |h| h.incidents.len()) {
                0 => "3 Incidents".to_owned(),
                n => format!("3 Incidents {n}"),
            },
            View::Job => {
                model.job_id.as_ref().map_or_else(|| "4 Job".to_owned(), |id| format!("4 Job {id}"))
            }
        };
        // On a narrow screen the numbers are left out before the names are.
        let text =
            if w < 64 { text.split(' ').take(2).collect::<Vec<_>>().join(" ") } else { text };
        let here = *view == model.view;
        let text = if here { format!("[{text}]") } else { format!(" {text} ") };
        let text = cut(&text, w.saturating_sub(used));
        used += wide(&text) + 1;
        let tone = match (here, n) {
            (true, _) => Tone::Bold,
            (false, 2) if wrong(model) > 0 => Tone::Warn,
            _ => Tone::Plain,
        };
        let mut span = pen.put(&text, tone);
        if here && model.colour {
            span.style = span.style.add_modifier(Modifier::REVERSED);
        }
        spans.push(span);
        spans.push(" ".into());
    }
    Line::from(spans)
}

/// How much is wrong and not yet acknowledged: alerts and what is pending approval, too.
fn wrong(model: &Model) -> usize {
    let alerts = model.alerts.iter();
    let open = alerts.filter(|a| a.silenced.is_none() && a.acknowledged.is_none()).count();
    let health = model.health.as_ref().map_or(0, |h| h.incidents.len() + h.waiting_counts().0);
    open + health
}

/// The filter while there is one; otherwise which keys there are.
fn foot(model: &Model, pen: Pen, w: usize) -> Line<'static> {
    if model.typing {
        let text = format!("/{}_  Enter applies it, Esc clears it", model.filter);
        return pen.line(cut(&text, w), Tone::Bold);
    }
    let failed = match model.view {
        View::Queue => model.jobs_feed.failed.as_ref(),
        View::Job => model.job_feed.failed.as_ref(),
        _ => model.health_feed.failed.as_ref(),
    };
    if let Some(why) = failed.filter(|_| model.link == Link::Live) {
        return pen.line(cut(&format!("cannot read: {why}"), w), Tone::Bad);
    }
    if let Some(wanted) = rows::wanted(model) {
        return pen.line(cut(&format!("only what fits /{wanted}   Esc shows all"), w), Tone::Warn);
    }
    let keys = match (model.help, model.view, &model.opened) {
        (true, ..) => "Esc back   j/k scroll   q quit",
        (_, View::Fleet, _) => "Tab views   / filter   ? help   q quit",
        (_, View::Incidents, Some(_)) => "Esc back   j/k scroll   ? help   q quit",
        (_, View::Queue | View::Incidents, _) => {
            "Tab views   j/k move   Enter open   / filter   ? help   q quit"
        }
        (_, View::Job, _) => "Esc queue   j/k scroll   Tab views   ? help   q quit",
    };
    pen.line(cut(keys, w), Tone::Faint)
}

fn help(pen: Pen) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    let keys = [
        ("1 2 3 4, Tab", "fleet, queue, incidents, a job; Shift-Tab goes back"),
        ("j k, arrows", "move or scroll; Space, PgUp, PgDn by a page; g, G to the ends"),
        ("Enter, Esc", "open what is chosen; out of it again"),
        ("/", "show only what fits: a name, node, project, user, state, rack"),
        ("Ctrl-Z, q", "to the shell for a while; quit"),
    ];
    out.push(pen.line("Keys", Tone::Bold));
    for (key, what) in keys {
        out.push(pen.pieces([(fit(key, 16).as_str(), Tone::Busy), (what, Tone::Plain)]));
    }
    out.push(Line::default());
    out.push(pen.line("One character a node, rack or leaf", Tone::Bold));
    let all: Vec<_> = super::fleet::Glyph::ALL.into_iter().collect();
    for four in all.chunks(4) {
        let words = four.iter().map(|g| fit(&format!("{} {}", g.letter(), g.word()), 16));
        out.push(pen.line(words.collect::<String>(), Tone::Plain));
    }
    out.push(Line::default());
    out.push(pen.line("This only looks. To act, at a shell:", Tone::Bold));
    for (command, what) in [
        ("muster explain ID", "why a job waits, and what would help"),
        ("muster cancel ID", "cancel a job; hold, release, requeue likewise"),
        ("muster node drain NAME", "drain a node; undrain returns it"),
        ("muster remediations approve ID", "run a remediation that is pending approval"),
        ("muster alerts ack ID", "acknowledge an alert"),
        ("muster runbook run NAME", "follow a runbook, step by step"),
    ] {
        out.push(pen.pieces([(fit(command, 32).as_str(), Tone::Busy), (what, Tone::Plain)]));
    }
    out
}

/// The picture as plain text.
pub(super) fn text(model: &Model, w: u16, h: u16) -> String {
    let area = Rect::new(0, 0, w, h);
    let mut buf = Buffer::empty(area);
    draw(model, area, &mut buf);
    let mut out = String::new();
    for y in 0..h {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..w {
            let symbol = buf[(x, y)].symbol();
            // The second half of a wide character is no character of its own.
            if skip > 0 {
                skip -= 1;
                continue;
            }
            skip = wide(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
