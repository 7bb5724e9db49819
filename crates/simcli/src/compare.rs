//! `muster sim compare`.

use super::live::{LoadedScenario, simulate};
use super::progress::Progress;
use super::{formatting, pool, report};
use clap::Args;
use muster_sim::compare::{self, Difference, METRICS, Metric, Verdict};
use muster_sim::outcome::{History, Outcome};
use muster_sim::report::{ReportSheet, page_with};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output::colour::Style;
use muster_terminal::output::table::{Table, cell, number};
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Run two scenarios with the same seeds and report how the second differs from the first
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster sim compare scenarios/llama3-54d-naive.toml scenarios/llama3-54d.toml\n  \
muster sim compare now.toml new.toml --seeds 30 --report difference.html\n  \
muster sim compare now.toml new.toml -o json | jq .differences.ettr\n\n\
Each seed is run with both, and the interval is that of the differences: what one seed's luck\n\
does to both alike is not in it. `better` and `worse` mean that the 95% interval leaves out zero."
)]
pub(crate) struct Compare {
    /// The first scenario
    #[arg(value_name = "A.toml")]
    a: PathBuf,
    /// The second scenario
    #[arg(value_name = "B.toml")]
    b: PathBuf,
    /// How many seeds each is run with
    #[arg(long, value_name = "N", default_value = "10")]
    seeds: NonZeroUsize,
    /// The first of the seeds [default: the first scenario's own]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write a page with both
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Threads to use [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// What a comparison says.
#[derive(Debug, Serialize)]
struct Comparison {
    a: ScenarioMeans,
    b: ScenarioMeans,
    differences: BTreeMap<String, Difference>,
    runs: Vec<OneRun>,
}

/// The means of one scenario.
#[derive(Debug, Serialize)]
struct ScenarioMeans {
    file: String,
    scenario: String,
    #[serde(flatten)]
    means: BTreeMap<String, f64>,
}

/// One run of one scenario.
#[derive(Debug, Serialize)]
struct OneRun {
    side: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
}

const SIDES: [&str; 2] = ["a", "b"];

impl Compare {
    pub(crate) fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let both = [LoadedScenario::read(&self.a)?, LoadedScenario::read(&self.b)?];
        report::can_write(self.report.as_deref())?;
        let seeds = seeds(self.seed.unwrap_or(both[0].scenario.seed), self.seeds);
        // Seed by seed, so that both sides have come equally far when it is stopped.
        let work: Vec<(usize, u64)> =
            seeds.iter().flat_map(|seed| [(0, *seed), (1, *seed)]).collect();
        let first = seeds.first().copied();
        let lived: Vec<(usize, Outcome, Option<History>)> = {
            let progress = Progress::new(work.len());
            pool::each(&work, pool::threads(self.threads), |(side, seed)| {
                let mut s = both[*side].scenario.clone();
                s.seed = *seed;
                let (outcome, history) = simulate(&s, both[*side].dir(), &progress, None)?;
                let kept = self.report.is_some() && Some(*seed) == first;
                Ok::<_, Fail>((*side, outcome, kept.then_some(history)))
            })?
        };
        let of = |side: usize| -> Vec<&Outcome> {
            lived.iter().filter(|(s, ..)| *s == side).map(|(_, o, _)| o).collect()
        };
        let differences = differences(&of(0), &of(1));
        if let Some(file) = &self.report {
            let sheet = sheet(&of(0), &of(1), seeds.len());
            let labels = [0, 1].map(|i| format!("{}: {}", ["A", "B"][i], both[i].file.display()));
            let runs: Vec<_> = lived
                .iter()
                .filter_map(|(side, outcome, history)| {
                    let about = &both[*side].scenario.about;
                    let label = labels[*side].as_str();
                    let history = history.as_ref()?;
                    Some(muster_sim::report::Run { label, about, outcome, history })
                })
                .collect();
            report::write(file, &page_with(&runs, &report::command(), Some(&sheet)))?;
        }
        let side = |i: usize| ScenarioMeans {
            file: both[i].file.display().to_string(),
            scenario: both[i].scenario.name.clone(),
            means: compare::means(&of(i)),
        };
        let (a, b) = (side(0), side(1));
        let runs = lived
            .into_iter()
            .map(|(side, outcome, _)| OneRun { side: SIDES[side], outcome })
            .collect();
        ctx.show(&Comparison { a, b, differences, runs }, text)?;
        Ok(0)
    }
}

/// So many seeds from `first` on.
pub(crate) fn seeds(first: u64, count: NonZeroUsize) -> Vec<u64> {
    (first..=u64::MAX).take(count.get()).collect()
}

fn differences(a: &[&Outcome], b: &[&Outcome]) -> BTreeMap<String, Difference> {
    METRICS
        .iter()
        .filter_map(|m| Some((m.name.to_owned(), compare::difference(a, b, m)?)))
        .collect()
}

/// What never happens on either side is not worth a line.
fn nothing(a: f64, b: f64) -> bool {
    a == 0.0 && b == 0.0
}

fn style(v: Verdict) -> Style {
    match v {
        Verdict::Better => Style::Good,
        Verdict::Worse => Style::Bad,
        Verdict::More | Verdict::Less => Style::Plain,
        Verdict::NoDifferenceSeen | Verdict::OnePair => Style::Faint,
    }
}

fn between(m: &Metric, d: &Difference) -> String {
    match d.low.zip(d.high) {
        Some((low, high)) => {
            format!("{} to {}", formatting::change(m.unit, low), formatting::change(m.unit, high))
        }
        None => formatting::NONE.into(),
    }
}

fn text(c: &Comparison) -> String {
    let pairs = c.runs.len() / 2;
    let mut t = Table::new(&["METRIC", "A", "B", "B - A", "95% INTERVAL", "B IS"]);
    for m in METRICS {
        let (Some(a), Some(b)) = (c.a.means.get(m.name), c.b.means.get(m.name)) else { continue };
        let Some(d) = c.differences.get(m.name) else { continue };
        if nothing(*a, *b) {
            continue;
        }
        t.row(vec![
            cell(m.label),
            number(formatting::figure(m.unit, *a)),
            number(formatting::figure(m.unit, *b)),
            number(formatting::change(m.unit, d.mean)),
            number(between(m, d)),
            cell(d.verdict.word()).style(style(d.verdict)),
        ]);
    }
    format!(
        "A: {} ({})\nB: {} ({})\n{}\n\n{}",
        c.a.scenario,
        c.a.file,
        c.b.scenario,
        c.b.file,
        if pairs == 1 { "1 pair of runs".to_owned() } else { format!("{pairs} pairs of runs") },
        t.render()
    )
}

fn sheet(a: &[&Outcome], b: &[&Outcome], pairs: usize) -> ReportSheet {
    let row = |m: &'static Metric| {
        let (fa, fb) = (compare::figure(a, m)?, compare::figure(b, m)?);
        let d = compare::difference(a, b, m)?;
        if nothing(fa.mean, fb.mean) {
            return None;
        }
        Some(vec![
            m.label.to_owned(),
            formatting::with_half(m.unit, &fa),
            formatting::with_half(m.unit, &fb),
            formatting::change(m.unit, d.mean),
            between(m, &d),
            d.verdict.word().to_owned(),
        ])
    };
    ReportSheet {
        title: "A and B".into(),
        note: format!(
            "Means of {pairs} seeds, each run with both. The interval is that of the differences \
             seed by seed; the runs below are those of the first seed."
        ),
        heads: ["metric", "A", "B", "B - A", "95% interval", "B is"].map(Into::into).into(),
        rows: METRICS.iter().filter_map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(seed: u64, ettr: f64) -> Outcome {
        Outcome { seed, ettr, ..Outcome::default() }
    }

    #[test]
    fn seeds_follow_each_other() {
        let n = NonZeroUsize::new(3).expect("three");
        assert_eq!(seeds(7, n), [7, 8, 9]);
        assert_eq!(seeds(u64::MAX, n), [u64::MAX]);
    }

    #[test]
    fn the_table_says_which_is_better() {
        let a = [outcome(1, 0.90), outcome(2, 0.92)];
        let b = [outcome(1, 0.95), outcome(2, 0.971)];
        let (ra, rb): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
        let side = |file: &str, runs: &[&Outcome]| ScenarioMeans {
            file: file.into(),
            scenario: "s".into(),
            means: compare::means(runs),
        };
        let c = Comparison {
            a: side("a.toml", &ra),
            b: side("b.toml", &rb),
            differences: differences(&ra, &rb),
            runs: [("a", &a), ("b", &b)]
                .into_iter()
                .flat_map(|(side, all)| {
                    all.iter().map(move |o| OneRun { side, outcome: o.clone() })
                })
                .collect(),
        };
        let said = text(&c);
        assert!(said.contains("A: s (a.toml)\nB: s (b.toml)\n2 pairs of runs\n"), "{said}");
        let ettr = said.lines().find(|l| l.starts_with("ETTR")).expect("a line for it");
        assert!(ettr.contains("0.9100  0.9605  +0.0505") && ettr.ends_with("better"), "{said}");
        assert!(!said.contains("preemptions"), "neither side had any: {said}");
        let json = serde_json::to_value(&c).expect("it is JSON");
        assert_eq!(json["differences"]["ettr"]["pairs"], 2);
        assert_eq!(json["differences"]["ettr"]["verdict"], "better");
        assert_eq!(json["runs"][3]["side"], "b");
        assert!(json["a"]["ettr"].is_number());
    }
}
