//! The key figures of a run, and of several runs beside each other.

use super::table::Table;
use super::{Run, bars, words};
use crate::outcome::Outcome;

/// Writes the key figures as tiles.
pub(super) fn put(out: &mut String, o: &Outcome) {
    out.push_str(r#"<div class="tiles">"#);
    let tile = |out: &mut String, name: &str, value: &str, note: &str| {
        put!(
            out,
            r#"<div class="tile"><span>{name}</span><b>{value}</b><small>{note}</small></div>"#
        );
    };
    let expected =
        o.ettr_expected.map_or("useful share of the time jobs ran or waited".into(), |e| {
            format!("formula expects {}", words::percent(e))
        });
    tile(out, "ETTR", &words::percent(o.ettr), &expected);
    tile(out, "Goodput", &words::percent(o.goodput), "productive work of the GPU time of jobs");
    let used = format!("{} made steps", words::percent(o.gpu_utilization));
    tile(out, "GPU allocation", &words::percent(o.gpu_allocation_ratio), &used);
    let faults = format!("{} in the fleet", words::counted(o.faults.values().sum(), "fault"));
    tile(out, "Interruptions", &words::count(o.interruptions), &faults);
    let mtbi = o.mtbi_s.map_or(words::NONE.into(), words::span);
    tile(out, "MTBI", &mtbi, "mean time between interruptions");
    let waits = format!(
        r#"<span class="two">{} / {}</span>"#,
        words::span(o.wait_s.p50),
        words::span(o.wait_s.p95)
    );
    tile(out, "Wait p50 / p95", &waits, &format!("p99 {}", words::span(o.wait_s.p99)));
    let whole = bars::total_gpu_seconds(&o.waterfall);
    let lost = if whole > 0.0 {
        format!("GPU-hours; {} of the fleet", words::percent(o.waterfall.lost / whole))
    } else {
        "GPU-hours".into()
    };
    tile(out, "Lost work", &words::gpu_hours(o.lost_gpu_seconds), &lost);
    let moved = format!(
        "of {}; {}, {}",
        words::count(o.jobs),
        words::counted(o.preemptions, "preemption"),
        words::counted(o.migrations, "migration")
    );
    tile(out, "Jobs done", &words::count(o.jobs_completed), &moved);
    if let Some(s) = &o.spares_found {
        let note = format!(
            "{} of {}; 95% interval {}–{}",
            words::count(s.found),
            words::count(s.needed),
            words::percent(s.interval[0]),
            words::percent(s.interval[1])
        );
        tile(out, "Spare found at once", &words::percent(s.share), &note);
    }
    if let Some(p) = &o.prediction {
        let note = format!(
            "precision; recall {}, {}",
            words::percent(p.recall),
            words::counted(p.signs, "sign")
        );
        tile(out, "Precursors", &words::percent(p.precision), &note);
    }
    let digest = if o.log_digest.is_empty() {
        words::NONE.to_owned()
    } else {
        format!(
            r#"<code title="{}">{}</code>"#,
            words::escape(&o.log_digest),
            words::escape(&words::short(&o.log_digest))
        )
    };
    tile(out, "Log digest", &digest, &words::counted(o.records, "record"));
    out.push_str("</div>");
}

/// A figure that runs are compared by.
struct Metric {
    name: &'static str,
    value: fn(&Outcome) -> Option<f64>,
    says: fn(f64) -> String,
}

const METRICS: [Metric; 11] = [
    Metric { name: "ETTR", value: |o| Some(o.ettr), says: words::percent },
    Metric { name: "by formula", value: |o| o.ettr_expected, says: words::percent },
    Metric { name: "goodput", value: |o| Some(o.goodput), says: words::percent },
    Metric { name: "allocation", value: |o| Some(o.gpu_allocation_ratio), says: words::percent },
    Metric { name: "interruptions", value: |o| Some(o.interruptions as f64), says: words::number },
    Metric { name: "MTBI", value: |o| o.mtbi_s, says: words::span },
    Metric { name: "wait p50", value: |o| Some(o.wait_s.p50), says: words::span },
    Metric { name: "wait p95", value: |o| Some(o.wait_s.p95), says: words::span },
    Metric { name: "lost GPU-hours", value: |o| Some(o.lost_gpu_seconds), says: words::gpu_hours },
    Metric { name: "jobs done", value: |o| Some(o.jobs_completed as f64), says: words::number },
    Metric { name: "makespan", value: |o| Some(o.makespan_s), says: words::span },
];

/// Writes one row for each run and one for their mean.
pub(super) fn put_comparison(out: &mut String, runs: &[Run<'_>]) {
    let mut heads = vec!["run", "seed"];
    heads.extend(METRICS.iter().map(|f| f.name));
    heads.push("log digest");
    let mut table = Table::new(&heads);
    for run in runs {
        let mut cells = vec![words::escape(run.label), run.outcome.seed.to_string()];
        cells.extend(
            METRICS.iter().map(|f| (f.value)(run.outcome).map_or(words::NONE.into(), f.says)),
        );
        let digest = words::escape(&words::short(&run.outcome.log_digest));
        cells.push(format!("<code>{digest}</code>"));
        table.row(&cells);
    }
    let mut cells = vec![format!("mean of {}", runs.len()), String::new()];
    cells.extend(METRICS.iter().map(|f| mean(runs, f.value).map_or(words::NONE.into(), f.says)));
    cells.push(String::new());
    table.sum(&cells);
    table.put(out);
}

/// The mean over those runs that have the figure.
fn mean(runs: &[Run<'_>], value: fn(&Outcome) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> =
        runs.iter().filter_map(|r| value(r.outcome)).filter(|v| v.is_finite()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::History;

    #[test]
    fn the_mean_leaves_out_runs_without_the_figure() {
        let h = History::default();
        let with = |mtbi_s| Outcome { mtbi_s, ..Outcome::default() };
        let outcomes = [with(Some(3_600.0)), with(None), with(Some(7_200.0))];
        let runs: Vec<Run<'_>> = outcomes
            .iter()
            .map(|outcome| Run { label: "", about: "", outcome, history: &h })
            .collect();
        assert_eq!(mean(&runs, |o| o.mtbi_s), Some(5_400.0));
        assert_eq!(mean(&runs, |o| o.ettr_expected), None);
    }
}
