//! `muster sim run`.

use super::live::{LoadedScenario, simulate};
use super::log::Log;
use super::progress::Progress;
use super::{formatting, report};
use clap::Args;
use muster_sim::compare::{self, Missed};
use muster_sim::outcome::{Outcome, Spread, Waterfall};
use muster_sim::report::page;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::{bar, colour};
use std::path::PathBuf;

/// Run a scenario and report the result
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster sim run llama3-54d\n  \
muster sim run site.toml --seed 7 -o json | jq .ettr\n  \
muster sim run site.toml --report week.html\n  \
muster sim run site.toml --log site.jsonl && muster store import site.jsonl --store sqlite:site.db\n\n\
The same scenario and seed give the same log, to the byte: `log_digest` is its hash.")]
pub(crate) struct Run {
    /// A scenario's file, or the name of one of the library, such as neocloud-week
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// Another seed than the scenario's own
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write a page with its course over time
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the site's log, for `muster store import`
    #[arg(long, value_name = "FILE.jsonl")]
    log: Option<PathBuf>,
}

impl Run {
    pub(crate) fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let mut loaded = LoadedScenario::read(&self.file)?;
        if let Some(seed) = self.seed {
            loaded.scenario.seed = seed;
        }
        report::can_write(self.report.as_deref())?;
        let mut log = self.log.as_deref().map(Log::create).transpose()?;
        let s = &loaded.scenario;
        let (outcome, history) = {
            let progress = Progress::new(1);
            simulate(s, loaded.dir(), &progress, log.as_mut())?
        };
        if let Some(log) = log {
            log.finish()?;
        }
        if let Some(file) = &self.report {
            let run = muster_sim::report::Run {
                label: &s.name,
                about: &s.about,
                outcome: &outcome,
                history: &history,
            };
            report::write(file, &page(&[run], &report::command()))?;
        }
        if outcome.refusals > 0 {
            let first = outcome.refused.first().map_or("", String::as_str);
            let n = outcome.refusals;
            muster_terminal::output::note(&format!(
                "the engine refused {n} requests; the first: {first}"
            ));
        }
        let missed = compare::missed(&outcome, &s.expect);
        ctx.show(&outcome, |o| text(o, s.expect.len(), &missed))?;
        if missed.is_empty() {
            return Ok(0);
        }
        let names: Vec<&str> = missed.iter().map(|m| m.figure.as_str()).collect();
        muster_terminal::output::note(&format!("not as expected: {}", names.join(", ")));
        Ok(1)
    }
}

/// The page for a terminal.
pub(crate) fn text(o: &Outcome, expected: usize, missed: &[Missed]) -> String {
    let mut t = format!(
        "{}: {}, {}, {}; {}, seed {}\n\n",
        o.scenario,
        formatting::counted(o.nodes.into(), "node"),
        formatting::counted(o.gpus, "GPU"),
        formatting::counted(o.spares.into(), "spare"),
        formatting::seconds(o.makespan_s),
        o.seed,
    );
    for (name, value) in key_metrics(o) {
        t.push_str(&format!("{name:<16}{value}\n"));
    }
    for line in expectations(expected, missed) {
        t.push_str(&line);
    }
    t.push_str("\nWhere the GPU time went\n");
    t.push_str(&waterfall(&o.waterfall));
    if !o.failures.is_empty() {
        t.push_str(&format!("\n{}", causes(o)));
    }
    if o.by_size.len() > 1 || o.interruptions > 0 {
        t.push_str(&format!("\n{}", sizes(o)));
    }
    let took = format!(
        "{}, {}, {:.1} s, {}",
        formatting::counted(o.records, "record"),
        formatting::counted(o.decisions, "plan"),
        o.wall_s,
        muster_terminal::output::size(muster_model::Bytes(o.peak_rss_bytes)),
    );
    let last = format!("log {} ({took})\n", o.log_digest);
    t.push_str(&format!("\n{}", colour::paint(&last, colour::Style::Faint, colour::on())));
    t
}

fn key_metrics(o: &Outcome) -> Vec<(&'static str, String)> {
    let ettr = match o.ettr_expected {
        Some(e) => format!("{:.3}, the formula gives {e:.3}", o.ettr),
        None => format!("{:.3}", o.ettr),
    };
    let interruptions = match o.mtbi_s {
        Some(s) => format!(
            "{}, one in {}",
            formatting::group_digits(o.interruptions),
            formatting::seconds(s)
        ),
        None => formatting::group_digits(o.interruptions),
    };
    let mut all = vec![
        ("ETTR", ettr),
        ("goodput", format!("{:.3}", o.goodput)),
        (
            "GPU allocation",
            format!(
                "{}, steps were made in {}",
                formatting::percent(o.gpu_allocation_ratio),
                formatting::percent(o.gpu_utilization)
            ),
        ),
        ("fragmentation", formatting::percent(o.fragmentation)),
        (
            "jobs",
            format!(
                "{}, {} completed",
                formatting::group_digits(o.jobs),
                formatting::group_digits(o.jobs_completed)
            ),
        ),
        ("wait", spread(&o.wait_s)),
        ("completion", spread(&o.jct_s)),
        ("interruptions", interruptions),
        ("lost work", formatting::gpu_hours(o.lost_gpu_seconds)),
        (
            "moved",
            format!(
                "{}, {}",
                formatting::counted(o.preemptions, "preemption"),
                formatting::counted(o.migrations, "migration")
            ),
        ),
    ];
    if let Some(s) = &o.spares_found {
        all.push((
            "spares",
            format!(
                "found within two minutes {} of {} times: {} (95%: {} to {})",
                formatting::group_digits(s.found),
                formatting::group_digits(s.needed),
                formatting::percent(s.share),
                formatting::percent(s.interval[0]),
                formatting::percent(s.interval[1])
            ),
        ));
    }
    if let Some(p) = &o.prediction {
        all.push((
            "precursors",
            format!(
                "{}, precision {}, recall {}",
                formatting::counted(p.signs, "sign"),
                formatting::percent(p.precision),
                formatting::percent(p.recall)
            ),
        ));
    }
    all
}

fn spread(s: &Spread) -> String {
    if s.count == 0 {
        return formatting::NONE.into();
    }
    format!(
        "mean {}, p50 {}, p95 {}, p99 {}",
        formatting::seconds(s.mean),
        formatting::seconds(s.p50),
        formatting::seconds(s.p95),
        formatting::seconds(s.p99)
    )
}

fn expectations(expected: usize, missed: &[Missed]) -> Vec<String> {
    if expected == 0 {
        return Vec::new();
    }
    if missed.is_empty() {
        return vec![format!("{:<16}all {expected} met\n", "expectations")];
    }
    let say = |m: &Missed| {
        let [least, most] = m.expected;
        let value = m.value.map_or("absent".to_owned(), |v| v.to_string());
        format!("{:<16}{} is {value}, not in {least} to {most}\n", "not as expected", m.figure)
    };
    missed.iter().map(say).collect()
}

/// Where the GPU time went, as bars.
pub(crate) fn waterfall(w: &Waterfall) -> String {
    let parts = [
        ("productive", w.productive),
        ("checkpoint", w.checkpoint),
        ("restart", w.restart),
        ("lost", w.lost),
        ("degraded", w.degraded),
        ("queued", w.queued),
        ("idle", w.idle),
        ("spare", w.spare),
        ("broken", w.broken),
    ];
    let whole: f64 = parts.iter().map(|(_, v)| v).sum();
    let mut text = String::new();
    for (name, v) in parts.into_iter().filter(|(_, v)| *v > 0.0) {
        let share = v / whole;
        text.push_str(&format!(
            "{name:<12}{}  {:>6.2}%  {:>16}\n",
            bar::part(share, 40),
            share * 100.0,
            formatting::gpu_hours(v)
        ));
    }
    text
}

/// Most causes that are reported.
const CAUSES: usize = 8;

fn causes(o: &Outcome) -> String {
    let mut all: Vec<(&String, u64)> = o.failures.iter().map(|(c, n)| (c, *n)).collect();
    all.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let mut t = Table::new(&["CAUSE", "INTERRUPTIONS", "FAULTS"]);
    for (cause, n) in all.iter().take(CAUSES) {
        let faults =
            o.faults.get(*cause).map_or(formatting::NONE.into(), |n| formatting::group_digits(*n));
        t.row(vec![cell(cause), number(formatting::group_digits(*n)), number(faults)]);
    }
    let rest = all.get(CAUSES..).unwrap_or_default();
    if !rest.is_empty() {
        let n: u64 = rest.iter().map(|(_, n)| n).sum();
        let causes = formatting::counted(u64::try_from(rest.len()).unwrap_or(0), "more cause");
        t.row(vec![cell(causes), number(formatting::group_digits(n)), number("")]);
    }
    t.render()
}

fn sizes(o: &Outcome) -> String {
    let mut t = Table::new(&[
        "GPUS",
        "JOBS",
        "ETTR",
        "INTERRUPTIONS",
        "ONE IN",
        "JOBS INTERRUPTED",
        "WAIT P50",
        "WAIT P95",
    ]);
    for c in &o.by_size {
        let gpus = match (c.gpus_from, c.gpus_to) {
            (from, to) if from == to => formatting::group_digits(from),
            (from, to) => {
                format!("{} to {}", formatting::group_digits(from), formatting::group_digits(to))
            }
        };
        t.row(vec![
            number(gpus),
            number(formatting::group_digits(c.jobs)),
            number(format!("{:.3}", c.ettr)),
            number(formatting::group_digits(c.interruptions)),
            number(c.mtbi_s.map_or(formatting::NONE.into(), formatting::seconds)),
            number(formatting::percent(c.interrupted_share)),
            number(formatting::seconds(c.wait_s.p50)),
            number(formatting::seconds(c.wait_s.p95)),
        ]);
    }
    t.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_sim::outcome::SizeClass;

    fn outcome() -> Outcome {
        Outcome {
            scenario: "llama".into(),
            seed: 1,
            nodes: 2048,
            gpus: 16_384,
            spares: 16,
            jobs: 1,
            makespan_s: 54.0 * 86_400.0,
            ettr: 0.9764,
            ettr_expected: Some(0.9761),
            interruptions: 419,
            mtbi_s: Some(11_100.0),
            failures: (0..10).map(|i| (format!("cause-{i}"), i + 1)).collect(),
            waterfall: Waterfall { productive: 950.0, lost: 50.0, ..Waterfall::default() },
            by_size: vec![SizeClass { gpus_from: 16_256, gpus_to: 16_256, ..SizeClass::default() }],
            log_digest: "ab12".into(),
            ..Outcome::default()
        }
    }

    #[test]
    fn the_page_says_what_the_formula_says() {
        let page = text(&outcome(), 0, &[]);
        assert!(page.contains("ETTR            0.976, the formula gives 0.976\n"), "{page}");
        assert!(page.contains("2,048 nodes, 16,384 GPUs, 16 spares; 54d0h, seed 1"), "{page}");
        assert!(page.contains("419, one in 3h05m"), "{page}");
        assert!(page.contains("log ab12"), "{page}");
    }

    #[test]
    fn eight_causes_are_reported_and_the_rest_together() {
        let text = causes(&outcome());
        assert_eq!(text.lines().count(), 1 + 8 + 1, "{text}");
        assert!(text.lines().nth(1).is_some_and(|l| l.starts_with("cause-9 ")), "{text}");
        assert!(text.contains("2 more causes") && text.trim_end().ends_with('3'), "{text}");
    }

    #[test]
    fn bars_leave_out_what_took_no_time() {
        let text = waterfall(&outcome().waterfall);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("95.00%") && text.contains("5.00%"), "{text}");
        assert_eq!(waterfall(&Waterfall::default()), "");
    }

    #[test]
    fn missed_expectations_are_named() {
        assert!(expectations(0, &[]).is_empty());
        assert!(expectations(2, &[])[0].contains("all 2 met"));
        let m = Missed { figure: "ettr".into(), value: Some(0.9), expected: [0.95, 1.0] };
        assert!(expectations(2, &[m])[0].contains("ettr is 0.9, not in 0.95 to 1"));
    }
}
