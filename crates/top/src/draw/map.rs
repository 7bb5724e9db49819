//! The map of the fleet: one character a node, a rack, or one line a leaf.

use super::fitted_text::{Pen, cut, fit, right, wide};
use crate::fleet::{Fleet, Glyph, Leaf, Rack};
use muster_terminal::output::bar::part;
use muster_terminal::output::colour::Style as Tone;
use ratatui::text::{Line, Span};

/// How much one character stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Node,
    Rack,
    Leaf,
}

/// How a character looks.
pub(super) fn tone(glyph: Glyph) -> Tone {
    match glyph {
        Glyph::Free => Tone::Faint,
        Glyph::Part | Glyph::Full => Tone::Good,
        Glyph::Enrolled | Glyph::Testing | Glyph::Draining => Tone::Busy,
        Glyph::Cordoned | Glyph::Drained | Glyph::Protected | Glyph::Suspect => Tone::Warn,
        Glyph::Excluded | Glyph::Missing | Glyph::Finding => Tone::Warn,
        Glyph::Breaker | Glyph::Repairing => Tone::Warn,
        Glyph::Maintenance | Glyph::Stopping => Tone::Warn,
        Glyph::Quarantined | Glyph::Unknown | Glyph::Lost => Tone::Bad,
    }
}

/// The map as lines.
pub(super) struct Map {
    pub(super) detail: Detail,
    pub(super) lines: Vec<Line<'static>>,
}

/// Pieces for as long as there is room.
pub(super) fn row(pieces: Vec<(String, Tone)>, pen: Pen, w: usize) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut left = w;
    for (text, tone) in pieces {
        let text = cut(&text, left);
        left -= wide(&text);
        spans.push(pen.put(&text, tone));
    }
    Line::from(spans)
}

/// The finest map that fits; leaves in a list when none does.
pub(super) fn map(fleet: &Fleet, seen: &[bool], pen: Pen, w: usize, room: usize) -> Map {
    let label = fleet.leaves.iter().map(|l| wide(&l.name)).max().unwrap_or(0).clamp(4, 16);
    let lines = flow(fleet, seen, label, pen, w);
    if lines.len() <= room {
        return Map { detail: Detail::Node, lines };
    }
    let lines = racks(fleet, seen, label, pen, w);
    if lines.len() <= room {
        return Map { detail: Detail::Rack, lines };
    }
    let lines = leaves(fleet, seen, label, pen, w);
    Map { detail: Detail::Leaf, lines }
}

/// Characters in their colours.
fn glyphs(some: &[Glyph], pen: Pen) -> impl Iterator<Item = Span<'static>> {
    some.chunk_by(|a, b| a == b).map(move |same| {
        let text: String = same.iter().map(|g| g.letter()).collect();
        pen.put(&text, tone(same[0]))
    })
}

/// Groups that follow each other with a gap between them, in as many lines as they need.
fn packed(groups: &[Vec<Glyph>], width: usize, pen: Pen) -> Vec<Vec<Span<'static>>> {
    let mut lines: Vec<Vec<Span<'static>>> = vec![Vec::new()];
    let mut used = 0;
    for piece in groups.iter().flat_map(|g| g.chunks(width)) {
        if used > 0 && used + 1 + piece.len() > width {
            lines.push(Vec::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(" ".into());
                used += 1;
            }
            line.extend(glyphs(piece, pen));
            used += piece.len();
        }
    }
    lines
}

/// One character a node: a line for each leaf, or more, with a gap between racks.
fn flow(fleet: &Fleet, seen: &[bool], label: usize, pen: Pen, w: usize) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    let width = w.saturating_sub(label + 1).max(1);
    for leaf in &fleet.leaves {
        let racks = fleet.racks[leaf.racks.clone()].iter();
        let of = |r: &Rack| -> Vec<Glyph> {
            r.nodes.clone().filter(|n| seen[*n]).map(|n| fleet.nodes[n].glyph).collect()
        };
        let groups: Vec<Vec<Glyph>> = racks.map(of).filter(|g| !g.is_empty()).collect();
        if groups.is_empty() {
            continue;
        }
        for (n, mut spans) in packed(&groups, width, pen).into_iter().enumerate() {
            let name = if n == 0 { leaf.name.as_str() } else { "" };
            spans.insert(0, pen.put(format!("{} ", fit(name, label)), Tone::Plain));
            out.push(Line::from(spans));
        }
    }
    out
}

/// One character a rack: leaves follow each other, and every line says with which it begins.
fn racks(fleet: &Fleet, seen: &[bool], label: usize, pen: Pen, w: usize) -> Vec<Line<'static>> {
    let width = w.saturating_sub(label + 1).max(1);
    let mut out: Vec<Line<'static>> = Vec::new();
    let mut used = 0;
    for leaf in &fleet.leaves {
        let racks = fleet.racks[leaf.racks.clone()].iter();
        let group: Vec<Glyph> =
            racks.filter_map(|r| fleet.together(r.nodes.clone().filter(|n| seen[*n]))).collect();
        for piece in group.chunks(width) {
            if out.is_empty() || used + 1 + piece.len() > width {
                out.push(pen.line(format!("{} ", fit(&leaf.name, label)), Tone::Plain));
                used = 0;
            } else {
                used += 1;
            }
            if let Some(line) = out.last_mut() {
                if used > 0 {
                    line.push_span(" ");
                }
                line.spans.extend(glyphs(piece, pen));
                used += piece.len();
            }
        }
    }
    out
}

/// One line a leaf: how full it is, and what is wrong in it.
fn leaves(fleet: &Fleet, seen: &[bool], label: usize, pen: Pen, w: usize) -> Vec<Line<'static>> {
    let nodes = |l: &Leaf| {
        let racks = &fleet.racks[l.racks.clone()];
        racks.iter().flat_map(|r| r.nodes.clone()).filter(|n| seen[*n]).collect::<Vec<usize>>()
    };
    let mut all: Vec<(&Leaf, Vec<usize>, usize)> = fleet
        .leaves
        .iter()
        .map(|l| {
            let nodes = nodes(l);
            let wrong = nodes.iter().filter(|n| fleet.nodes[**n].glyph.trouble()).count();
            (l, nodes, wrong)
        })
        .filter(|(_, nodes, _)| !nodes.is_empty())
        .collect();
    all.sort_by_key(|(_, nodes, wrong)| {
        let worst = fleet.together(nodes.iter().copied());
        (std::cmp::Reverse(*wrong), std::cmp::Reverse(worst))
    });
    all.into_iter().map(|(l, nodes, _)| leaf_line(fleet, l, &nodes, label, pen, w)).collect()
}

fn leaf_line(
    fleet: &Fleet,
    leaf: &Leaf,
    nodes: &[usize],
    label: usize,
    pen: Pen,
    w: usize,
) -> Line<'static> {
    let (mut serve, mut held, mut gpus) = (0, 0, 0);
    for n in nodes.iter().map(|n| &fleet.nodes[*n]) {
        serve += usize::from(n.glyph.in_service());
        held += n.held;
        gpus += n.gpus;
    }
    let share = if gpus == 0 { 0.0 } else { f64::from(held) / f64::from(gpus) };
    let mut pieces = vec![
        (fit(&leaf.name, label), Tone::Plain),
        (
            right(&format!("{serve}/{}", nodes.len()), 10),
            if serve == nodes.len() { Tone::Plain } else { Tone::Warn },
        ),
        (" nodes  ".into(), Tone::Faint),
        (part(share, 8), Tone::Good),
        (format!(" {held}/{gpus}"), Tone::Plain),
        (" GPUs".into(), Tone::Faint),
    ];
    for g in Glyph::ALL.into_iter().rev().filter(|g| g.trouble()) {
        let count = nodes.iter().filter(|n| fleet.nodes[**n].glyph == g).count();
        if count > 0 {
            pieces.push((format!("  {count} {}", g.word()), tone(g)));
        }
    }
    row(pieces, pen, w)
}
