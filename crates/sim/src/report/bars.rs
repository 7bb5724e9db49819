//! Where the GPU time went and how jobs of each size fared, as bars. Bars are plain elements, so
//! that their words never shrink.

use super::words;
use crate::outcome::{SizeClass, Waterfall};

/// A part of the GPU time.
struct Part {
    class: &'static str,
    name: &'static str,
    what: &'static str,
    value: fn(&Waterfall) -> f64,
}

/// Productive first, then what jobs lost, then what they never had.
const PARTS: [Part; 9] = [
    Part {
        class: "p-productive",
        name: "productive",
        what: "work that counts in the end",
        value: |w| w.productive,
    },
    Part {
        class: "p-checkpoint",
        name: "checkpoints",
        what: "blocked by checkpoints",
        value: |w| w.checkpoint,
    },
    Part {
        class: "p-lost",
        name: "lost work",
        what: "done, and lost with a failure",
        value: |w| w.lost,
    },
    Part {
        class: "p-restart",
        name: "restarts",
        what: "detecting, stopping, starting, loading",
        value: |w| w.restart,
    },
    Part {
        class: "p-degraded",
        name: "degraded",
        what: "slowed or stalled by an unhealthy node or link",
        value: |w| w.degraded,
    },
    Part {
        class: "p-queued",
        name: "free, jobs waiting",
        what: "free although jobs waited",
        value: |w| w.queued,
    },
    Part { class: "p-idle", name: "idle", what: "free, and nobody waited", value: |w| w.idle },
    Part { class: "p-spare", name: "spares", what: "reserved as spares", value: |w| w.spare },
    Part { class: "p-broken", name: "broken", what: "broken or drained", value: |w| w.broken },
];

/// How many of the parts are in jobs' hands.
const WITH_JOBS: usize = 5;

/// Least share that gets its figure written into its piece of the stacked bar.
const ROOM_FOR_WORDS: f64 = 0.12;

fn size(part: &Part, w: &Waterfall) -> f64 {
    let x = (part.value)(w);
    if x.is_finite() { x.max(0.0) } else { 0.0 }
}

/// All GPU time there was, in GPU-seconds.
pub(super) fn total_gpu_seconds(w: &Waterfall) -> f64 {
    PARTS.iter().map(|p| size(p, w)).sum()
}

/// One bar with all parts side by side.
pub(super) fn put_stack(out: &mut String, w: &Waterfall) {
    let whole = total_gpu_seconds(w);
    out.push_str(r#"<div class="stack">"#);
    for part in &PARTS {
        let value = size(part, w);
        if value == 0.0 {
            continue;
        }
        let share = value / whole;
        put!(
            out,
            r#"<i class="{}" style="width:{:.3}%" title="{}: {}, {} GPU-hours">{}</i>"#,
            part.class,
            share * 100.0,
            part.name,
            words::percent(share),
            words::gpu_hours(value),
            if share >= ROOM_FOR_WORDS { words::percent(share) } else { String::new() }
        );
    }
    out.push_str("</div>");
}

/// What the colours of stacked bars mean.
pub(super) fn put_legend(out: &mut String) {
    out.push_str(r#"<p class="legend">"#);
    for part in &PARTS {
        put!(out, r#"<span><i class="swatch {}"></i>{}</span>"#, part.class, part.name);
    }
    out.push_str("</p>");
}

/// From the whole down to what was productive.
pub(super) fn put_waterfall(out: &mut String, w: &Waterfall) {
    let whole = total_gpu_seconds(w);
    if whole == 0.0 {
        out.push_str(r#"<p class="dim">No GPU time was counted.</p>"#);
        return;
    }
    put_stack(out, w);
    out.push_str(r#"<div class="rows falls">"#);
    let row = |out: &mut String, class: &str, name: &str, what: &str, from: f64, value: f64| {
        put!(
            out,
            r#"<div class="row"><span class="name"><i class="swatch {class}"></i><span>{name} <small>{what}</small></span></span><span class="track"><i class="{class}" style="left:{:.3}%;width:{:.3}%"></i></span><span class="num">{}<small>{} GPU-hours</small></span></div>"#,
            from / whole * 100.0,
            value / whole * 100.0,
            words::percent(value / whole),
            words::gpu_hours(value)
        );
    };
    row(out, "p-whole", "all GPU time", "", 0.0, whole);
    let mut left = whole;
    let mut nothing = Vec::new();
    for (i, part) in PARTS.iter().enumerate().rev() {
        if i + 1 == WITH_JOBS {
            row(out, "p-whole", "with jobs", "", 0.0, left.max(0.0));
        }
        let value = size(part, w);
        if value == 0.0 {
            nothing.push(part.name);
            continue;
        }
        left -= value;
        // What is left at the end is the productive part itself, but for rounding.
        let from = if i == 0 { 0.0 } else { left.max(0.0) };
        row(out, part.class, part.name, part.what, from, value);
    }
    out.push_str("</div>");
    if !nothing.is_empty() {
        put!(out, r#"<p class="dim">Nothing went to: {}.</p>"#, nothing.join("; "));
    }
}

/// The useful share of each size of job.
pub(super) fn put_sizes(out: &mut String, sizes: &[SizeClass]) {
    out.push_str(r#"<div class="rows">"#);
    for class in sizes {
        let share = if class.ettr.is_finite() { class.ettr.clamp(0.0, 1.0) } else { 0.0 };
        let mtbi = class.mtbi_s.map_or_else(
            || "no interruption".to_owned(),
            |s| format!("interrupted every {}", words::span(s)),
        );
        put!(
            out,
            r#"<div class="row"><span class="name">{}</span><span class="track"><i class="p-productive" style="left:0;width:{:.3}%"></i></span><span class="num">{}<small>{mtbi}</small></span></div>"#,
            gpus(class),
            share * 100.0,
            words::percent(class.ettr)
        );
    }
    out.push_str("</div>");
}

/// The sizes of a class in words.
pub(super) fn gpus(class: &SizeClass) -> String {
    match (class.gpus_from, class.gpus_to) {
        (from, u64::MAX) => format!("{}+ GPUs", words::count(from)),
        (from, to) if from >= to => words::counted(from, "GPU"),
        (from, to) => format!("{}–{} GPUs", words::count(from), words::count(to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_parts_are_listed_and_not_drawn() {
        let mut out = String::new();
        let w = Waterfall { productive: 90.0, lost: 10.0, ..Waterfall::default() };
        put_waterfall(&mut out, &w);
        assert!(out.contains("left:90.000%;width:10.000%"), "{out}");
        assert!(!out.contains("p-spare"));
        assert!(out.contains("Nothing went to: broken; spares; idle;"), "{out}");
    }

    #[test]
    fn a_waterfall_of_nothing_says_so() {
        let mut out = String::new();
        put_waterfall(&mut out, &Waterfall { idle: f64::NAN, ..Waterfall::default() });
        assert!(out.contains("No GPU time") && !out.contains("NaN"));
    }

    #[test]
    fn sizes_are_reported_in_words() {
        let class = |gpus_from, gpus_to| SizeClass { gpus_from, gpus_to, ..SizeClass::default() };
        assert_eq!(gpus(&class(1, 1)), "1 GPU");
        assert_eq!(gpus(&class(1_025, 2_048)), "1,025–2,048 GPUs");
        assert_eq!(gpus(&class(4_096, u64::MAX)), "4,096+ GPUs");
    }
}
