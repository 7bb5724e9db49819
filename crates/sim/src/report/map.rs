//! Where faults were: a block for each leaf, a cell for each node that had one.

use super::words;
use crate::outcome::{FaultMark, History, Outcome};
use std::collections::BTreeMap;

/// Cells that are still described one by one; a larger map has one title for each leaf, which keeps
/// the page of the largest fleets small.
const TITLES: usize = 9_000;
/// Blocks that are still named above.
const NAMES: usize = 48;
/// Colours for one, two, three, and more faults.
const SHADES: usize = 4;

/// Size of a cell with its gap, in pixels; the style has a pattern for each.
fn pitch(nodes: u32) -> u32 {
    match nodes {
        0..=600 => 13,
        601..=3_000 => 9,
        _ => 5,
    }
}

/// Nodes in a row of a block.
fn columns(nodes: u32) -> u32 {
    match nodes {
        0..=128 => 8,
        129..=512 => 16,
        _ => 32,
    }
}

/// The patterns that stand for nodes without faults.
pub(super) fn put_patterns(out: &mut String) {
    out.push_str(r#"<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>"#);
    for p in [5, 9, 13] {
        put!(
            out,
            r#"<pattern id="cells{p}" width="{p}" height="{p}" patternUnits="userSpaceOnUse"><path class="well" d="M0 0h{s}v{s}h-{s}z"/></pattern>"#,
            s = p - 1
        );
    }
    out.push_str("</defs></svg>");
}

/// Leaves with the place of their first node; what no leaf holds goes to a block of its own.
fn blocks(outcome: &Outcome, history: &History) -> Vec<(String, u32, u32)> {
    let mut from = 0_u32;
    let mut blocks = Vec::new();
    for (name, nodes) in &history.leaves {
        blocks.push((name.clone(), from, *nodes));
        from = from.saturating_add(*nodes);
    }
    let last = history.faults.iter().map(|f| f.node.saturating_add(1)).max().unwrap_or(0);
    // A place far outside the fleet is nonsense and must not become a block of its size.
    let all = last.min(outcome.nodes.max(from)).max(outcome.nodes);
    if all > from {
        blocks.push(("other nodes".into(), from, all - from));
    }
    blocks.retain(|(.., nodes)| *nodes > 0);
    blocks
}

/// Writes the map.
pub(super) fn put(out: &mut String, outcome: &Outcome, history: &History, titles: bool) {
    let mut by_node: BTreeMap<u32, Vec<&FaultMark>> = BTreeMap::new();
    for fault in &history.faults {
        by_node.entry(fault.node).or_default().push(fault);
    }
    let blocks = blocks(outcome, history);
    if blocks.is_empty() {
        out.push_str(r#"<p class="dim">The fleet is not known.</p>"#);
        return;
    }
    let pitch = pitch(blocks.iter().map(|(.., n)| *n).sum());
    let titles = titles && by_node.len() <= TITLES;
    let named = blocks.len() <= NAMES;
    out.push_str(r#"<p class="legend">Faults of a node:"#);
    for (class, says) in [("c0", "0"), ("c1", "1"), ("c2", "2"), ("c3", "3"), ("c4", "4 or more")] {
        put!(out, r#"<span><i class="swatch {class}"></i>{says}</span>"#);
    }
    out.push_str(r#"</p><div class="map">"#);
    for (name, from, nodes) in &blocks {
        put_block(out, &Block { name, from: *from, nodes: *nodes, pitch, titles, named }, &by_node);
    }
    out.push_str("</div>");
    let outside = by_node.range(blocks.last().map_or(0, |(_, from, n)| from.saturating_add(*n))..);
    let lost: u64 = outside.map(|(_, f)| f.len() as u64).sum();
    if lost > 0 {
        put!(out, r#"<p class="dim">{} outside the fleet.</p>"#, words::counted(lost, "fault"));
    }
}

struct Block<'a> {
    name: &'a str,
    from: u32,
    nodes: u32,
    pitch: u32,
    titles: bool,
    named: bool,
}

fn put_block(out: &mut String, b: &Block<'_>, by_node: &BTreeMap<u32, Vec<&FaultMark>>) {
    let Block { nodes, pitch, .. } = *b;
    let columns = columns(nodes);
    let (full, rest) = (nodes / columns, nodes % columns);
    let wide = columns.min(nodes) * pitch;
    let high = nodes.div_ceil(columns) * pitch;
    let unhealthy = by_node.range(b.from..b.from.saturating_add(nodes));
    let faults: u64 = unhealthy.clone().map(|(_, f)| f.len() as u64).sum();
    out.push_str(r#"<div class="leaf">"#);
    if b.named {
        put!(out, "<span>{}</span>", words::escape(b.name));
    }
    put!(out, r#"<svg width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">"#);
    put!(
        out,
        r#"<path class="cells{pitch}" d="M0 0h{wide}v{}H{}v{}H0z"><title>{}: {}, {}</title></path>"#,
        full * pitch,
        rest * pitch,
        if rest > 0 { pitch } else { 0 },
        words::escape(b.name),
        words::counted(u64::from(nodes), "node"),
        words::counted(faults, "fault")
    );
    let mut shades: [String; SHADES] = Default::default();
    for (node, faults) in unhealthy {
        let place = node - b.from;
        let (x, y) = (place % columns * pitch, place / columns * pitch);
        let shade = faults.len().min(SHADES);
        let cell = format!("M{x} {y}h{s}v{s}h-{s}z", s = pitch - 1);
        if b.titles {
            let title = describe_faults(faults);
            put!(out, r#"<path class="c{shade}" d="{cell}"><title>{title}</title></path>"#);
        } else {
            shades[shade - 1].push_str(&cell);
        }
    }
    for (i, cells) in shades.iter().enumerate().filter(|(_, cells)| !cells.is_empty()) {
        // The leaf beneath describes itself.
        put!(out, r#"<path class="c{} blind" d="{cells}"/>"#, i + 1);
    }
    out.push_str("</svg></div>");
}

/// A node's faults in words: `node7: nic ×2, gpu`.
fn describe_faults(faults: &[&FaultMark]) -> String {
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for fault in faults {
        *causes.entry(&fault.cause).or_default() += 1;
    }
    let name = faults.first().map_or("", |f| f.name.as_str());
    let mut out = words::escape(name);
    for (i, (cause, n)) in causes.into_iter().enumerate() {
        put!(out, "{} {}", if i == 0 { ":" } else { "," }, words::escape(cause));
        if n > 1 {
            put!(out, " ×{n}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(node: u32, cause: &str) -> FaultMark {
        FaultMark { node, name: format!("n{node}"), cause: cause.into(), ..FaultMark::default() }
    }

    #[test]
    fn cells_lie_in_their_leaf() {
        let history = History {
            leaves: vec![("a".into(), 10), ("b".into(), 10)],
            faults: vec![fault(11, "nic"), fault(11, "nic"), fault(11, "gpu"), fault(99, "x")],
            ..History::default()
        };
        let outcome = Outcome { nodes: 20, ..Outcome::default() };
        let mut out = String::new();
        put(&mut out, &outcome, &history, true);
        assert!(
            out.contains(r#"class="c3" d="M13 0h12v12h-12z"><title>n11: gpu, nic ×2<"#),
            "{out}"
        );
        assert!(out.contains("1 fault outside the fleet"), "{out}");
        assert!(out.contains("M0 0h104v13H26v13H0z"), "{out}");
    }

    #[test]
    fn a_fleet_without_leaves_is_one_block() {
        let history = History { faults: vec![fault(3, "nic")], ..History::default() };
        let mut out = String::new();
        put(&mut out, &Outcome { nodes: 5, ..Outcome::default() }, &history, true);
        assert_eq!(out.matches(r#"class="leaf""#).count(), 1);
        assert!(out.contains("other nodes: 5 nodes, 1 fault"));
    }

    #[test]
    fn without_titles_cells_are_one_path_for_each_shade() {
        let history = History {
            leaves: vec![("a".into(), 64)],
            faults: (0..64).map(|n| fault(n, "nic")).collect(),
            ..History::default()
        };
        let mut out = String::new();
        put(&mut out, &Outcome { nodes: 64, ..Outcome::default() }, &history, false);
        assert_eq!(out.matches("<path").count(), 2);
    }
}
