//! What the site did over time: panels of lines that share one axis.

use super::axis::{self, HIGH, Plot, WIDE, place};
use super::words;
use crate::outcome::{History, Sample};

/// Stretches of time that a panel distinguishes; each keeps its least and its most, so a line has
/// at most twice as many points.
const STRETCHES: usize = 500;

/// One line of a panel.
struct Line {
    class: &'static str,
    name: &'static str,
    filled: bool,
    value: fn(&Sample) -> f64,
}

/// One panel.
struct Panel {
    title: &'static str,
    height: u32,
    about_ticks: u32,
    lines: &'static [Line],
}

const PANELS: [Panel; 3] = [
    Panel {
        title: "GPUs",
        height: 190,
        about_ticks: 4,
        lines: &[
            Line {
                class: "l-held",
                name: "allocated",
                filled: true,
                value: |s| s.allocated as f64,
            },
            Line {
                class: "l-service",
                name: "in service",
                filled: false,
                value: |s| s.in_service as f64,
            },
        ],
    },
    Panel {
        title: "Queue",
        height: 90,
        about_ticks: 3,
        lines: &[Line {
            class: "l-wait",
            name: "GPUs that waiting jobs ask for",
            filled: true,
            value: |s| s.waiting_gpus as f64,
        }],
    },
    Panel {
        title: "Nodes",
        height: 70,
        about_ticks: 3,
        lines: &[
            Line {
                class: "l-broken",
                name: "broken or drained",
                filled: false,
                value: |s| f64::from(s.broken_nodes),
            },
            Line {
                class: "l-spare",
                name: "spares ready",
                filled: false,
                value: |s| f64::from(s.spares_ready),
            },
        ],
    },
];

/// Writes the three panels.
pub(super) fn put(out: &mut String, history: &History, length_s: f64) {
    let samples: Vec<&Sample> = history.samples.iter().filter(|s| s.at_s.is_finite()).collect();
    if samples.is_empty() {
        out.push_str(r#"<p class="dim">No samples were recorded.</p>"#);
        return;
    }
    let x = axis::time(length_s);
    let each = samples.len().div_ceil(STRETCHES);
    out.push_str(r#"<div class="panels">"#);
    for (i, panel) in PANELS.iter().enumerate() {
        let most = samples
            .iter()
            .flat_map(|s| panel.lines.iter().map(|l| (l.value)(s)))
            .fold(0.0_f64, f64::max);
        let y = axis::counts(most, panel.about_ticks);
        let mut drawing = String::new();
        for line in panel.lines {
            put_line(&mut drawing, line, &samples, each, x.end, y.end);
        }
        put!(out, r#"<p class="legend"><b>{}</b>"#, panel.title);
        for line in panel.lines {
            put!(out, r#"<span><i class="key {}"></i>{}</span>"#, line.class, line.name);
        }
        out.push_str("</p>");
        Plot {
            says: &format!("{} over time", panel.title),
            height: panel.height,
            x: &x,
            y: Some(&y),
            x_labels: i + 1 == PANELS.len(),
            drawing: &drawing,
        }
        .put(out);
    }
    put_hover(out, &samples, each, x.end);
    out.push_str("</div>");
}

fn put_line(
    out: &mut String,
    line: &Line,
    samples: &[&Sample],
    each: usize,
    x_end: f64,
    y_end: f64,
) {
    let points = thin(samples, each, line.value);
    let mut path = String::new();
    for (i, (at_s, value)) in points.iter().enumerate() {
        put!(
            path,
            "{}{} {}",
            if i == 0 { "M" } else { "L" },
            place(at_s / x_end * WIDE),
            place((1.0 - value / y_end) * HIGH)
        );
    }
    if let (true, Some(first), Some(last)) = (line.filled, points.first(), points.last()) {
        put!(
            out,
            r#"<path class="area {}" d="{path}L{} {HIGH}L{} {HIGH}Z"/>"#,
            line.class,
            place(last.0 / x_end * WIDE),
            place(first.0 / x_end * WIDE)
        );
    }
    put!(out, r#"<path class="line {}" d="{path}"/>"#, line.class);
}

/// The least and the most of every stretch, in the order in which they came: spikes stay.
fn thin(samples: &[&Sample], each: usize, value: fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    for stretch in samples.chunks(each.max(1)) {
        let (mut least, mut most) = (0, 0);
        for (i, sample) in stretch.iter().enumerate() {
            if value(sample) < value(stretch[least]) {
                least = i;
            }
            if value(sample) > value(stretch[most]) {
                most = i;
            }
        }
        for i in [least.min(most), least.max(most)] {
            let point = (stretch[i].at_s, value(stretch[i]));
            if points.last() != Some(&point) {
                points.push(point);
            }
        }
    }
    points
}

/// Invisible columns over all panels that say what was at their time.
fn put_hover(out: &mut String, samples: &[&Sample], each: usize, x_end: f64) {
    put!(
        out,
        r#"<svg class="hover" viewBox="0 0 {WIDE} 1" preserveAspectRatio="none" aria-hidden="true">"#
    );
    let stretches: Vec<&[&Sample]> = samples.chunks(each.max(1)).collect();
    for (i, stretch) in stretches.iter().enumerate() {
        let from = stretch[0].at_s / x_end * WIDE;
        let to = stretches.get(i + 1).map_or(WIDE, |next| next[0].at_s / x_end * WIDE);
        put!(
            out,
            r#"<path d="M{} 0H{}V1H{}Z"><title>{}</title></path>"#,
            place(from),
            place(to),
            place(from),
            describe_stretch(stretch)
        );
    }
    out.push_str("</svg>");
}

/// A stretch of time in words.
fn describe_stretch(stretch: &[&Sample]) -> String {
    let range = |value: fn(&Sample) -> u64| {
        let least = stretch.iter().map(|s| value(s)).min().unwrap_or(0);
        let most = stretch.iter().map(|s| value(s)).max().unwrap_or(0);
        if least == most {
            words::count(most)
        } else {
            format!("{}–{}", words::count(least), words::count(most))
        }
    };
    format!(
        "{}: {} GPUs allocated, {} in service; {} jobs wait for {} GPUs; {} nodes broken, {} \
         spares ready",
        words::moment(stretch[0].at_s),
        range(|s| s.allocated),
        range(|s| s.in_service),
        range(|s| s.waiting),
        range(|s| s.waiting_gpus),
        range(|s| u64::from(s.broken_nodes)),
        range(|s| u64::from(s.spares_ready))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_stay_when_points_are_thinned() {
        let mut samples: Vec<Sample> = (0..20_000)
            .map(|i| Sample { at_s: f64::from(i), allocated: 500, ..Sample::default() })
            .collect();
        samples[7_777].allocated = 1_000;
        samples[12_345].allocated = 3;
        let all: Vec<&Sample> = samples.iter().collect();
        let points = thin(&all, all.len().div_ceil(STRETCHES), |s| s.allocated as f64);
        assert!(points.len() <= 2 * STRETCHES);
        assert!(points.contains(&(7_777.0, 1_000.0)));
        assert!(points.contains(&(12_345.0, 3.0)));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn few_samples_are_all_drawn() {
        let samples: Vec<Sample> = (0..10_u32)
            .map(|i| Sample { at_s: f64::from(i), allocated: i.into(), ..Sample::default() })
            .collect();
        let all: Vec<&Sample> = samples.iter().collect();
        assert_eq!(thin(&all, 1, |s| s.allocated as f64).len(), 10);
    }
}
