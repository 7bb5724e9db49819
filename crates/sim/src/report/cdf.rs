//! How long jobs waited: one curve for each class.

use super::axis::{self, HIGH, Plot, WIDE, log_at, place};
use super::table::Table;
use super::words;
use crate::outcome::{History, Outcome};
use std::collections::BTreeSet;

/// Points that a curve has at most.
const POINTS: usize = 300;
/// Colours and dashes that the style knows.
const COLOURS: usize = 8;

/// Writes the curves, and a table that is also their legend.
pub(super) fn put(out: &mut String, outcome: &Outcome, history: &History) {
    let classes: BTreeSet<&String> =
        history.waits.keys().chain(outcome.wait_by_class.keys()).collect();
    if classes.is_empty() {
        out.push_str(r#"<p class="dim">No waits were recorded.</p>"#);
        return;
    }
    let sorted = |class: &String| {
        let mut waits: Vec<f64> = history
            .waits
            .get(class)
            .into_iter()
            .flatten()
            .copied()
            .filter(|w| w.is_finite())
            .collect();
        waits.sort_by(f64::total_cmp);
        waits
    };
    let curves: Vec<(&String, Vec<f64>)> =
        classes.into_iter().map(|class| (class, sorted(class))).collect();
    let longest = curves.iter().filter_map(|(_, w)| w.last().copied()).fold(0.0_f64, f64::max);
    let x = axis::waits(longest);
    let y = axis::shares();
    let mut drawing = String::new();
    for (i, (class, waits)) in curves.iter().enumerate().filter(|(_, (_, w))| !w.is_empty()) {
        put!(
            drawing,
            r#"<path class="line {}" d="{}"><title>{}</title></path>"#,
            curve_style(i),
            curve(waits, x.end),
            words::escape(class)
        );
    }
    Plot {
        says: "Share of jobs that had started, by how long they had waited",
        height: 230,
        x: &x,
        y: Some(&y),
        x_labels: true,
        drawing: &drawing,
    }
    .put(out);
    out.push_str(
        r#"<p class="dim under">Waits up to a second are drawn at one second; the scale is logarithmic.</p>"#,
    );
    let mut table = Table::new(&["class", "jobs", "mean", "p50", "p95", "p99"]);
    for (i, (class, _)) in curves.iter().enumerate() {
        let name = format!(
            r#"<svg class="sample" viewBox="0 0 24 4" aria-hidden="true"><path class="line {}" d="M0 2H24"/></svg>{}"#,
            curve_style(i),
            words::escape(class)
        );
        let mut cells = vec![name];
        match outcome.wait_by_class.get(*class) {
            Some(s) => {
                cells.push(words::count(s.count));
                cells.extend([s.mean, s.p50, s.p95, s.p99].map(words::span));
            }
            None => cells.extend(std::iter::repeat_n(words::NONE.to_owned(), 5)),
        }
        table.row(&cells);
    }
    table.put(out);
}

/// Colours go round by eight; dashes change with every four, so that no two curves look alike
/// until there are two dozen.
fn curve_style(i: usize) -> String {
    format!("s{} d{}", i % COLOURS, i / 4 % 3)
}

/// A staircase through evenly taken ranks.
fn curve(waits: &[f64], end: f64) -> String {
    let n = waits.len();
    let points = n.min(POINTS);
    let mut path = format!("M0 {HIGH}");
    for k in 1..=points {
        // The last point is the longest wait, whatever was left out between.
        let rank = (k * n).div_ceil(points);
        put!(
            path,
            "H{}V{}",
            place(log_at(waits[rank - 1], end) * WIDE),
            place((1.0 - rank as f64 / n as f64) * HIGH)
        );
    }
    put!(path, "H{WIDE}");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_at_all() {
        assert_eq!(curve(&[0.0, 60.0], 60.0), "M0 100H0V50H1000V0H1000");
        let waits: Vec<f64> = (0..5_000).map(f64::from).collect();
        let path = curve(&waits, 86_400.0);
        assert!(path.ends_with("V0H1000"));
        assert_eq!(path.matches('V').count(), POINTS);
    }
}
