//! When faults were: a strip for each cause, of dots or, where they are many, of bars.

use super::axis::{self, WIDE, place, put_x};
use super::words;
use crate::outcome::{FaultMark, History};
use std::collections::BTreeMap;

/// Causes that get a strip of their own.
const STRIPS: usize = 14;
/// Dots that can still be distinguished; more faults become bars that count them.
const DOTS: usize = 1_500;
/// Stretches of time that have a bar.
const STRETCHES: usize = 125;
/// Height of a strip in its own units.
const TALL: u32 = 20;
/// How faults look that hit nothing and that hit work, in the order of drawing.
const LOOKS: [(&str, bool); 2] = [("miss", false), ("hit", true)];

/// Writes the strips.
pub(super) fn put(out: &mut String, history: &History, length_s: f64, titles: bool) {
    let marks: Vec<&FaultMark> = history.faults.iter().filter(|f| f.at_s.is_finite()).collect();
    if marks.is_empty() {
        out.push_str(r#"<p class="dim">No fault happened.</p>"#);
        return;
    }
    let mut by_cause: BTreeMap<&str, Vec<&FaultMark>> = BTreeMap::new();
    for mark in &marks {
        by_cause.entry(&mark.cause).or_default().push(mark);
    }
    let mut strips: Vec<(&str, Vec<&FaultMark>)> = by_cause.into_iter().collect();
    strips.sort_by_key(|(_, marks)| std::cmp::Reverse(marks.len()));
    if strips.len() > STRIPS {
        let rest = strips.split_off(STRIPS - 1).into_iter().flat_map(|(_, marks)| marks).collect();
        strips.push(("other causes", rest));
    }
    let x = axis::time(length_s);
    let dots = marks.len() <= DOTS;
    let highest = strips.iter().map(|(_, marks)| fullest(marks, x.end)).max().unwrap_or(1);
    let what = if dots {
        "A dot is a fault:".to_owned()
    } else {
        format!("Faults over time, the highest bar {}:", words::count(highest))
    };
    put!(
        out,
        r#"<p class="legend">{what}<span><i class="dot hit"></i>work was interrupted</span><span><i class="dot miss"></i>nothing ran there</span></p><div class="strips">"#
    );
    for (cause, marks) in &strips {
        let cause = words::escape(cause);
        put!(
            out,
            r#"<span class="name" title="{cause}">{cause}</span><svg viewBox="0 0 {WIDE} {TALL}" preserveAspectRatio="none" role="img" aria-label="{}">"#,
            words::counted(marks.len() as u64, "fault")
        );
        if dots {
            put!(out, r#"<path class="grid" d="M0 {0}H{WIDE}"/>"#, TALL / 2);
            put_dots(out, marks, x.end, titles);
        } else {
            put!(out, r#"<path class="grid" d="M0 {TALL}H{WIDE}"/>"#);
            put_bars(out, marks, x.end, highest);
        }
        put!(out, r#"</svg><span class="num">{}</span>"#, words::count(marks.len() as u64));
    }
    out.push_str(r#"<span></span><div class="ticks">"#);
    put_x(out, &x);
    out.push_str("</div><span></span></div>");
}

/// Those that hit work lie above the others.
fn put_dots(out: &mut String, marks: &[&FaultMark], end: f64, titles: bool) {
    for (class, hit) in LOOKS {
        for mark in marks.iter().filter(|m| m.hit == hit) {
            put!(
                out,
                r#"<path class="dot {class}" d="M{} {}h0""#,
                place(mark.at_s / end * WIDE),
                TALL / 2
            );
            if titles {
                put!(
                    out,
                    "><title>{}: {} at {}</title></path>",
                    words::escape(&mark.name),
                    words::escape(&mark.cause),
                    words::moment(mark.at_s)
                );
            } else {
                out.push_str("/>");
            }
        }
    }
}

/// How many faults each stretch of time had: that hit nothing, and that hit work.
fn counted(marks: &[&FaultMark], end: f64) -> [[u64; STRETCHES]; 2] {
    let mut counts = [[0; STRETCHES]; 2];
    for mark in marks {
        let at = (mark.at_s.max(0.0) / end * STRETCHES as f64) as usize;
        counts[usize::from(mark.hit)][at.min(STRETCHES - 1)] += 1;
    }
    counts
}

fn fullest(marks: &[&FaultMark], end: f64) -> u64 {
    let [misses, hits] = counted(marks, end);
    misses.iter().zip(hits).map(|(m, h)| m + h).max().unwrap_or(0)
}

/// Hits stand on the ground, the others on them.
fn put_bars(out: &mut String, marks: &[&FaultMark], end: f64, highest: u64) {
    let [misses, hits] = counted(marks, end);
    let wide = WIDE / STRETCHES as f64;
    let height = |n: u64| n as f64 / highest.max(1) as f64 * f64::from(TALL);
    for (class, hit) in LOOKS {
        let mut path = String::new();
        for i in 0..STRETCHES {
            let (n, below) = if hit { (hits[i], 0) } else { (misses[i], hits[i]) };
            if n > 0 {
                put!(
                    path,
                    "M{} {}v-{h}h{w}v{h}z",
                    place(i as f64 * wide),
                    place(f64::from(TALL) - height(below)),
                    h = place(height(n).max(0.1)),
                    w = place(wide * 0.8)
                );
            }
        }
        if !path.is_empty() {
            put!(out, r#"<path class="bar {class}" d="{path}"/>"#);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_dots_become_bars() {
        let faults = (0..50_000)
            .map(|i| FaultMark {
                at_s: f64::from(i),
                cause: format!("cause{}", i % 20),
                hit: i % 3 == 0,
                ..FaultMark::default()
            })
            .collect();
        let mut out = String::new();
        put(&mut out, &History { faults, ..History::default() }, 50_000.0, true);
        assert!(!out.contains("h0") && out.contains("the highest bar 1"));
        assert!(out.len() < 200_000, "{}", out.len());
        assert!(out.contains("other causes"));
        assert_eq!(out.matches("class=\"name\"").count(), STRIPS);
    }
}
