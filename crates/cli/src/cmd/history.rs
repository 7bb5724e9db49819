//! `muster history`: metrics over time.

use clap::{Args, Subcommand};
use muster_api::{HistoryMetricList, HistoryQuery, MetricSeries, MetricsHistory, Timestamp};
use muster_model::units::{Span, Time};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time::{full, length};
use muster_terminal::pick;

/// Points of a series that people see; programs get as many as the server gives.
const SHOWN: usize = 60;
const SHOWN_LEAST: usize = 16;
/// What the other columns take of a line.
const OTHER_COLUMNS: usize = 50;
/// From nothing to all, in a line of text.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Show metrics over time, of a node or of a job
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster history node n1                         the last hour\n  \
muster history node n1 --gpu 0 --metric power,temp --since 6h\n  \
muster history job 42                          all of its time\n  \
muster history node n1 --since 90d -o json\n  muster history metrics\n\n\
Steps of 10 s are stored for a day and steps of a minute for 90 days, each with its least, its\n\
mean and its greatest value. A job has the times of its ranks' steps, too (step_time). TREND shows\n\
the means; a blank is a time without samples."
)]
pub(crate) struct HistoryCmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Node(Node),
    Job(Job),
    /// List the metrics of which a history is stored
    Metrics,
}

/// Show metrics of a node and its GPUs
#[derive(Debug, Args)]
struct Node {
    /// The node
    name: String,
    /// Only this GPU
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,
    #[command(flatten)]
    what: HistorySelection,
}

/// Show metrics of a job's GPUs, while they were allocated to it
#[derive(Debug, Args)]
struct Job {
    /// Id or name
    #[arg(value_name = "JOB")]
    id: String,
    #[command(flatten)]
    what: HistorySelection,
}

#[derive(Debug, Args)]
struct HistorySelection {
    /// Only these, such as util,power [default: the usual ones]
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    metric: Vec<String>,
    /// How far back [default: an hour; for a job, its start]
    #[arg(long, value_name = "SPAN")]
    since: Option<Span>,
    /// At most so many points of each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=2000))]
    points: Option<u32>,
}

impl HistorySelection {
    fn query(self, ctx: &Ctx) -> HistoryQuery {
        let to = now();
        HistoryQuery {
            metrics: (!self.metric.is_empty()).then(|| self.metric.join(",")),
            from: self.since.map(|s| (to - s).0.max(0)),
            points: self.points.or_else(|| ctx.is_table().then(|| shown(output::width()))),
            ..HistoryQuery::default()
        }
    }
}

/// As many points as a line has space for: the newest must not be cut off.
fn shown(width: Option<usize>) -> u32 {
    let fits = |w: usize| w.saturating_sub(OTHER_COLUMNS).clamp(SHOWN_LEAST, SHOWN);
    u32::try_from(width.map_or(SHOWN, fits)).unwrap_or(u32::MAX)
}

impl HistoryCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let query = match self.verb {
            Verb::Metrics => {
                ctx.show(&client.history_metrics().await?, names)?;
                return Ok(0);
            }
            Verb::Node(n) => HistoryQuery { node: Some(n.name), gpu: n.gpu, ..n.what.query(ctx) },
            Verb::Job(j) => {
                let job = pick::job(&client, &j.id).await?;
                HistoryQuery { job: Some(job.id), ..j.what.query(ctx) }
            }
        };
        let all = client.metrics_history(&query).await?;
        if ctx.is_table() && all.series.is_empty() {
            output::note("nothing was sampled in that time");
            if let Some(since) = stored_since(&all) {
                output::note(&since);
            }
            return Ok(0);
        }
        ctx.show(&all, render)?;
        Ok(0)
    }
}

fn names(all: &HistoryMetricList) -> String {
    let mut table = Table::new(&["METRIC", "UNIT", "WHAT"]);
    for m in &all.items {
        // Ports and file systems have no words of their own.
        let what = if m.title == m.name { "" } else { m.title.as_str() };
        table.row(vec![cell(&m.name), cell(&m.unit), cell(what)]);
    }
    table.render()
}

/// The means as heights, between the least and the greatest of them.
fn trend(points: &[Option<[f32; 3]>]) -> String {
    let means = || points.iter().flatten().map(|p| p[1]);
    let low = means().fold(f32::INFINITY, f32::min);
    let high = means().fold(f32::NEG_INFINITY, f32::max);
    let height = |v: f32| {
        let share = if high > low { (v - low) / (high - low) } else { 0.5 };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 7")]
        let at = (share * 7.0).round() as usize;
        HEIGHTS[at.min(7)]
    };
    points.iter().map(|p| p.map_or(' ', |p| height(p[1]))).collect()
}

/// A value with as many decimals as help.
fn value(v: f32) -> String {
    match v.abs() {
        a if a == 0.0 || a >= 100.0 => format!("{v:.0}"),
        a if a >= 1.0 => format!("{v:.1}"),
        _ => format!("{v:.3}"),
    }
}

fn row(s: &MetricSeries) -> [String; 6] {
    let sampled = || s.points.iter().flatten();
    let n = sampled().count();
    let place = match (&s.node, s.gpu) {
        (Some(node), Some(gpu)) => format!("{node} GPU {gpu}"),
        (Some(node), None) => node.clone(),
        (None, _) if s.gpus == 0 => "its ranks".to_owned(),
        (None, _) => output::plural(usize::try_from(s.gpus).unwrap_or(usize::MAX), "GPU"),
    };
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let mean = sampled().map(|p| p[1]).sum::<f32>() / n.max(1) as f32;
    let text = |v: f32| if n == 0 { "-".to_owned() } else { value(v) };
    [
        s.metric.clone(),
        place,
        s.unit.clone(),
        text(sampled().map(|p| p[0]).fold(f32::INFINITY, f32::min)),
        text(mean),
        text(sampled().map(|p| p[2]).fold(f32::NEG_INFINITY, f32::max)),
    ]
}

/// Since when samples are stored, where that is later than what was asked for.
fn stored_since(all: &MetricsHistory) -> Option<String> {
    // The first point may begin before the first sample, by less than its length.
    let from = all.from.saturating_add(i64::try_from(all.step_ms).unwrap_or(i64::MAX));
    let known = all.known_from.filter(|known| *known > from)?;
    let known = full(now(), Timestamp(Time(known)));
    Some(format!("nothing is stored from before {known}"))
}

fn render(all: &MetricsHistory) -> String {
    let mut table = Table::new(&["METRIC", "OF", "UNIT", "MIN", "MEAN", "MAX", "TREND"]);
    for s in &all.series {
        let [metric, place, unit, min, mean, max] = row(s);
        table.row(vec![
            cell(metric),
            cell(place),
            cell(unit),
            number(min),
            number(mean),
            number(max),
            cell(trend(&s.points)),
        ]);
    }
    let whole = Span(u64::try_from(all.to.saturating_sub(all.from)).unwrap_or(0));
    let step = Span(all.step_ms);
    let since = stored_since(all).map_or_else(String::new, |text| format!("; {text}"));
    format!("{}\n{} in steps of {}{since}\n", table.render(), length(whole), length(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: &[Option<[f32; 3]>]) -> MetricSeries {
        MetricSeries {
            metric: "power".into(),
            unit: "W".into(),
            node: Some("n1".into()),
            gpu: Some(3),
            gpus: 1,
            points: points.to_vec(),
        }
    }

    #[test]
    fn a_series_is_a_line_with_its_least_its_mean_and_its_greatest() {
        let s = series(&[Some([100.0, 200.0, 300.0]), None, Some([300.0, 400.0, 700.0])]);
        assert_eq!(row(&s), ["power", "n1 GPU 3", "W", "100", "300", "700"]);
        assert_eq!(trend(&s.points), "▁ █");
        let none = series(&[None, None]);
        assert_eq!(row(&none)[3..], ["-", "-", "-"]);
        assert_eq!((trend(&none.points), trend(&[Some([1.0; 3])])), ("  ".into(), "▅".into()));
        let gang = MetricSeries { node: None, gpu: None, gpus: 64, ..s };
        assert_eq!(row(&gang)[1], "64 GPUs");
        assert_eq!(row(&MetricSeries { gpus: 0, ..gang.clone() })[1], "its ranks");
        let all = MetricsHistory {
            from: 0,
            to: 180_000,
            step_ms: 60_000,
            source: "builtin".into(),
            known_from: Some(-90_000),
            series: vec![gang],
        };
        let text = render(&all);
        assert!(text.contains("▁ █") && text.contains("in steps of"), "{text}");
        assert!(!text.contains("before"), "{text}");
        let short = render(&MetricsHistory { known_from: Some(90_000), ..all });
        assert!(short.contains("nothing is stored from before 1970-01-01"), "{short}");
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_points() {
        assert_eq!([None, Some(200), Some(80), Some(10)].map(shown), [60, 60, 30, 16]);
    }

    #[test]
    fn values_have_the_decimals_that_help() {
        assert_eq!([0.0, 1234.56, 12.34, 0.01234].map(value), ["0", "1235", "12.3", "0.012"]);
    }
}
