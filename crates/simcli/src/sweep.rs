//! `muster sim sweep`.

use super::compare::seeds;
use super::grid::{self, Point};
use super::live::{LoadedScenario, simulate};
use super::progress::Progress;
use super::{formatting, pool, report};
use clap::{ArgGroup, Args};
use muster_sim::compare::{self, Interval, METRICS, Metric, by_name};
use muster_sim::outcome::{History, Outcome};
use muster_sim::report::{ReportSheet, page_with};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell, number};
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Run a scenario with many settings and report what each does
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("points").required(true).args(["sets", "list"]),
    after_help = "Examples:\n  muster sim sweep site.toml --set fleet.spares=0..32/8\n  \
muster sim sweep site.toml --set workload.0.saving.every=auto,10m,30m --set failures.scale=1,2\n  \
muster sim sweep site.toml --set policy.backfill.mode=easy,conservative --seeds 10 -o json\n  \
muster sim sweep site.toml --list points.txt --report sweep.html\n\n\
Keys are paths in the scenario's file; one of a list is named by its number from 0 or its name.\n\
A range is FIRST..LAST/STEP. Several --set make a grid. A list has one point a line:\n  \
fleet.spares=8 failures.scale=2\n\
Every point is simulated with the same seeds, and `±` is half of the 95% interval of the mean."
)]
pub(crate) struct Sweep {
    /// A scenario's file, or the name of one of the library, such as neocloud-week
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// A key and the values it takes
    #[arg(long = "set", value_name = "KEY=V1,V2,…", action = clap::ArgAction::Append)]
    sets: Vec<String>,
    /// Take the points from a file
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// How many seeds each point is run with
    #[arg(long, value_name = "N", default_value = "3")]
    seeds: NonZeroUsize,
    /// The first of the seeds [default: the scenario's own]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write a page with all points
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Threads to use [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// What a sweep says.
#[derive(Debug, Serialize)]
struct SweepResult {
    file: String,
    scenario: String,
    seeds: Vec<u64>,
    points: Vec<PointResult>,
}

/// One point of it.
#[derive(Debug, Serialize)]
struct PointResult {
    set: BTreeMap<String, toml::Value>,
    #[serde(skip)]
    label: String,
    figures: BTreeMap<String, Interval>,
    runs: Vec<Outcome>,
}

/// Points whose course the page shows; the metrics of all are in its table.
const IN_FULL: usize = 16;

/// Metrics that have a column.
const COLUMNS: [(&str, &str); 5] = [
    ("ettr", "ETTR"),
    ("goodput", "GOODPUT"),
    ("gpu_allocation_ratio", "ALLOCATION"),
    ("wait_s.p95", "WAIT P95"),
    ("interruptions", "INTERRUPTIONS"),
];

impl Sweep {
    pub(crate) fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let base = LoadedScenario::read(&self.file)?;
        report::can_write(self.report.as_deref())?;
        let sets = match &self.list {
            Some(file) => grid::list(&output::read_text(file)?, &file.display().to_string())?,
            None => grid::grid(&self.sets)?,
        };
        let points = grid::points(&base, sets)?;
        let seeds = seeds(self.seed.unwrap_or(base.scenario.seed), self.seeds);
        let work: Vec<(usize, u64)> =
            (0..points.len()).flat_map(|p| seeds.iter().map(move |s| (p, *s))).collect();
        let mut lived = {
            let progress = Progress::new(work.len());
            pool::each(&work, pool::threads(self.threads), |(p, seed)| {
                let mut s = points[*p].scenario.clone();
                s.seed = *seed;
                let (outcome, history) = simulate(&s, base.dir(), &progress, None)?;
                let kept = self.report.is_some() && *p < IN_FULL && seeds.first() == Some(seed);
                Ok::<_, Fail>((outcome, kept.then_some(history)))
            })?
        };
        let histories: Vec<Option<History>> = lived.iter_mut().map(|(_, h)| h.take()).collect();
        let outcomes: Vec<Outcome> = lived.into_iter().map(|(o, _)| o).collect();
        let figures: Vec<PointResult> = points
            .iter()
            .zip(outcomes.chunks(seeds.len()))
            .map(|(p, runs)| point_result(p, runs))
            .collect();
        if let Some(file) = &self.report {
            let runs: Vec<_> = histories
                .iter()
                .zip(&outcomes)
                .zip(&work)
                .filter_map(|((history, outcome), (p, _))| {
                    let (label, about) = (figures[*p].label.as_str(), base.scenario.about.as_str());
                    let history = history.as_ref()?;
                    Some(muster_sim::report::Run { label, about, outcome, history })
                })
                .collect();
            let sheet = sheet(&figures, seeds.len());
            report::write(file, &page_with(&runs, &report::command(), Some(&sheet)))?;
        }
        let swept = SweepResult {
            file: base.file.display().to_string(),
            scenario: base.scenario.name.clone(),
            seeds,
            points: figures,
        };
        ctx.show(&swept, text)?;
        Ok(0)
    }
}

fn point_result(point: &Point, runs: &[Outcome]) -> PointResult {
    let all: Vec<&Outcome> = runs.iter().collect();
    let figure = |m: &'static Metric| Some((m.name.to_owned(), compare::figure(&all, m)?));
    PointResult {
        set: point.set.iter().map(|a| (a.key.clone(), a.value.clone())).collect(),
        label: point.label(),
        figures: METRICS.iter().filter_map(figure).collect(),
        runs: runs.to_vec(),
    }
}

fn cells(p: &PointResult) -> impl Iterator<Item = String> + '_ {
    COLUMNS.iter().map(|(name, _)| match (by_name(name), p.figures.get(*name)) {
        (Some(m), Some(i)) => formatting::with_half(m.unit, i),
        _ => formatting::NONE.into(),
    })
}

fn text(s: &SweepResult) -> String {
    let heads: Vec<&'static str> =
        std::iter::once("POINT").chain(COLUMNS.iter().map(|(_, head)| *head)).collect();
    let mut t = Table::new(&heads);
    for p in &s.points {
        t.row(std::iter::once(cell(&p.label)).chain(cells(p).map(number)).collect());
    }
    format!(
        "{} ({}): {} with {} each\n\n{}",
        s.scenario,
        s.file,
        output::plural(s.points.len(), "point"),
        output::plural(s.seeds.len(), "seed"),
        t.render()
    )
}

fn sheet(points: &[PointResult], seeds: usize) -> ReportSheet {
    let row = |p: &PointResult| std::iter::once(p.label.clone()).chain(cells(p)).collect();
    let shown = if points.len() > IN_FULL {
        format!("the first {IN_FULL} points are shown below")
    } else {
        "all points are shown below".into()
    };
    ReportSheet {
        title: output::plural(points.len(), "point"),
        note: format!(
            "Means of {} with half of their 95% interval; {shown}, each with the first seed.",
            output::plural(seeds, "seed")
        ),
        heads: std::iter::once("point")
            .chain(COLUMNS.iter().map(|(name, head)| by_name(name).map_or(*head, |m| m.label)))
            .map(Into::into)
            .collect(),
        rows: points.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_a_known_figure() {
        assert!(COLUMNS.iter().all(|(name, _)| by_name(name).is_some()));
    }
}
