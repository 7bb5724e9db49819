//! The report of the whole fleet for people.

use clap::{Args, ValueEnum};
use muster_api::{FleetMetrics, FleetQuery, FleetReport, FleetRow, FleetStep, Timestamp};
use muster_model::units::{Span, Time};
use muster_terminal::fail::Fail;
use muster_terminal::output::colour::{Style, paint};
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Cell, Table, cell, number};
use muster_terminal::output::time::length;

/// Which time, in which steps.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster report fleet\n  muster report fleet --days 1 --by hour\n  muster report fleet --days 30 --project nlp -o json | jq .total.goodput\n\n\
Hours of the last 31 days and days of the last 400 are stored. GPU time is in GPU-hours.\n\
OK and FAILED count ends: a job that is requeued after its end may end again, and each end counts once."
)]
pub(super) struct FleetArgs {
    /// The last so many days
    #[arg(long, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u32).range(1..=400))]
    days: u32,
    /// How long each row is; days, or hours for one day
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Only the jobs of this project, as --project; all projects when neither is given
    #[arg(long, value_name = "PROJECT")]
    only: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Hour,
    Day,
}

impl FleetArgs {
    /// Refuses two projects of which one would be ignored.
    pub(super) fn is_clear(&self, typed: Option<&str>) -> Result<(), Fail> {
        match (self.only.as_deref(), typed) {
            (Some(only), Some(typed)) if only != typed => {
                Err(Fail::usage(format!("--only {only} and --project {typed} name two projects"))
                    .hint("give one of them"))
            }
            _ => Ok(()),
        }
    }

    /// `given` is the project of `--project`.
    pub(super) fn query(&self, given: Option<&str>) -> FleetQuery {
        let step = match self.by {
            Some(By::Hour) => FleetStep::Hour,
            Some(By::Day) => FleetStep::Day,
            None if self.days == 1 => FleetStep::Hour,
            None => FleetStep::Day,
        };
        let ms = jiff::Timestamp::now().as_millisecond();
        let from = Time(ms) - Span::hours(u64::from(self.days) * 24);
        let project = self.only.as_deref().or(given).map(str::to_owned);
        FleetQuery { from: Some(Timestamp(from)), to: None, step, project }
    }
}

pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |s| format!("{:.1}%", s * 100.0))
}

pub(super) fn hours(gpu_seconds: f64) -> String {
    format!("{:.1}", gpu_seconds / 3600.0)
}

fn kilowatts(watts: Option<f64>) -> String {
    watts.map_or_else(|| "-".into(), |w| format!("{:.1} kW", w / 1000.0))
}

fn when(at: Timestamp, step: FleetStep) -> String {
    let text = at.to_string();
    match step {
        FleetStep::Day => text.chars().take(10).collect(),
        FleetStep::Hour => text.chars().take(16).collect::<String>().replace('T', " "),
    }
}

/// One row of the table, without its name.
fn cells(f: &FleetMetrics) -> Vec<Cell> {
    let failed = f.jobs.failed.total();
    vec![
        number(f.in_service_gpu_seconds.map_or_else(|| "-".into(), hours)),
        number(hours(f.allocated_gpu_seconds)),
        number(percent(f.allocation)),
        number(percent(f.goodput)),
        number(percent(f.ettr)),
        number(hours(f.gpu_seconds.lost)),
        number(hours(f.gpu_seconds.queued)),
        number(f.jobs.succeeded),
        number(failed).style(if failed > 0 { Style::Warn } else { Style::default() }),
        number(f.interruptions.interruptions()),
        number(percent(f.utilisation)),
        number(kilowatts(f.power_watts)),
    ]
}

const HEAD: [&str; 12] = [
    "IN SERVICE",
    "ALLOCATED",
    "ALLOC%",
    "GOODPUT",
    "ETTR",
    "LOST",
    "QUEUED",
    "OK",
    "FAILED",
    "INTERR",
    "BUSY",
    "POWER",
];

fn table(first: &'static str, rows: Vec<(String, &FleetMetrics)>) -> String {
    let head: Vec<&'static str> = [first].into_iter().chain(HEAD).collect();
    let mut table = Table::new(&head);
    for (name, f) in rows {
        table.row([vec![cell(name)], cells(f)].concat());
    }
    table.render()
}

pub(super) fn text(r: &FleetReport, on: bool) -> String {
    let mut f = Facts::new();
    let whose =
        r.project.as_ref().map_or_else(|| "All projects".into(), |p| format!("Project {p}"));
    f.0.push_str(&format!("{}\n", paint(&whose, Style::Bold, on)));
    f.0.push_str(&format!("  from {} to {}, in GPU-hours\n", r.from, r.to));
    f.0.push_str("  OK and FAILED count ends of jobs: one that is requeued can end again\n");
    if r.since > r.from {
        f.0.push_str(&format!("  known since {}\n", r.since));
    }
    if let Some(text) = telemetry(r) {
        f.0.push_str(&format!("  {text}\n"));
    }
    if !r.complete {
        f.0.push_str("  the server still reads its log: these numbers are not complete yet\n");
    }
    f.0.push('\n');
    let row = |row: &'_ FleetRow| when(row.from, r.step);
    let mut rows: Vec<(String, &FleetMetrics)> =
        r.rows.iter().map(|x| (row(x), &x.metrics)).collect();
    rows.push(("total".into(), &r.total));
    f.0.push_str(&table(if r.step == FleetStep::Day { "DAY" } else { "HOUR" }, rows));
    if r.projects.len() > 1 {
        f.0.push('\n');
        let rows = r.projects.iter().map(|p| (p.name.clone(), &p.metrics)).collect();
        f.0.push_str(&table("PROJECT", rows));
    }
    summary(&mut f, r, on);
    f.0
}

/// From when on the metrics that GPUs report are known, where that is not all of the time.
fn telemetry(r: &FleetReport) -> Option<String> {
    // Who sees one project gets no GPUs of the fleet.
    let whole = r.project.is_none() && !r.inventory.is_empty();
    match r.telemetry_since {
        // GPUs are looked at once a minute: the first few are no gap.
        Some(at) if at.0.since(r.from.max(r.since).0) > Span::mins(5) => {
            Some(format!("BUSY and POWER are known from {at} on"))
        }
        None if whole => Some("BUSY and POWER: no data, no GPU has reported yet".into()),
        _ => None,
    }
}

/// Why GPUs are out of service. A node that a remediation drains is not quarantined yet.
pub(super) fn out_by(cause: &str) -> &str {
    if cause == "quarantine" { "by automation" } else { cause }
}

/// A mean time to recover. None where nothing had to.
pub(super) fn mean(ms: Option<u64>) -> String {
    match ms {
        None | Some(0) => "-".into(),
        Some(1..1000) => "under 1s".into(),
        Some(ms) => length(Span(ms)),
    }
}

fn summary(f: &mut Facts, r: &FleetReport, on: bool) {
    let t = &r.total;
    f.section("Together", on);
    let span = |ms: Option<u64>| ms.map_or_else(|| "-".into(), |ms| length(Span(ms)));
    let (b, i) = (&t.jobs.failed, &t.interruptions);
    if let Some(lost) = t.lost_before_gpu_seconds {
        f.text(&format!("lost besides: {} GPU-hours of work of days that were final", hours(lost)));
    }
    f.text(&format!("MTBI {}, MTTR {} (means)", span(t.mtbi_ms), mean(t.recover_ms)));
    let causes =
        |a, i, p, u| format!("{a} application, {i} infrastructure, {p} platform, {u} unknown");
    let interrupted = causes(t.own_failures, i.infrastructure, i.platform, i.unknown);
    f.text("MTBI: time with all ranks up, divided by interruptions that were not the job's own");
    f.text(&format!("attempts that failed: {interrupted}"));
    let failed = causes(b.application, b.infrastructure, b.platform, b.unknown);
    f.text(&format!("ends of jobs, failed: {failed}"));
    f.text(&format!(
        "ends of jobs, succeeded: {}, {} of them at once; cancelled: {}",
        t.jobs.succeeded, t.jobs.succeeded_first, t.jobs.cancelled
    ));
    for s in &r.inventory {
        let out: Vec<String> =
            s.out_of_service.iter().map(|(cause, n)| format!("{n} {}", out_by(cause))).collect();
        let out = if out.is_empty() { "none out".into() } else { out.join(", ") };
        f.text(&format!("{} {}: {} in service, {out}", s.gpus, s.sku, s.in_service));
    }
    if let Some(c) = &r.forecast {
        f.section("Forecast", on);
        f.text(&c.summary);
        if let (Some(demand), Some(service)) = (c.newest_demand_gpus, c.newest_in_service_gpus) {
            let now = format!("demand {demand:.0} GPUs, in service {service:.0}");
            f.text(&format!("{now} (means of the newest day, from midnight UTC on)"));
        }
        if let (Some(demand), Some(growth), Some(spread)) =
            (c.demand_gpus, c.growth_gpus_per_day, c.spread_gpus)
        {
            let trend = if growth < 0.0 { "falling" } else { "rising" };
            let trend = format!("{trend} by {:.1} a day", growth.abs());
            // Where a line that falls ends is not what is wanted.
            let end =
                if growth < 0.0 { String::new() } else { format!("{demand:.1} GPUs at its end, ") };
            let days = c.days;
            f.text(&format!("the line through the last {days} whole days: {end}{trend}, standard"));
            f.text(&format!("deviation {spread:.1}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{FleetSku, Kind};

    #[test]
    fn it_is_said_from_when_on_gpus_reported_about_themselves() {
        let sku = FleetSku {
            sku: "h100-sxm".into(),
            gpus: 8,
            in_service: 8,
            out_of_service: std::collections::BTreeMap::new(),
        };
        let mut r = FleetReport {
            kind: Kind::FleetReport,
            project: None,
            step: FleetStep::Day,
            from: Time(0).into(),
            to: Time(9_000_000).into(),
            since: Time(60_000).into(),
            telemetry_since: Some(Time(60_000).into()),
            complete: true,
            total: FleetMetrics::default(),
            rows: Vec::new(),
            projects: Vec::new(),
            inventory: vec![sku],
            forecast: None,
        };
        assert!(!text(&r, false).contains("BUSY and POWER"), "from the beginning");
        // A job that is held is one that a person keeps from starting.
        let shown = text(&r, false);
        assert!(shown.contains(" ALLOCATED ") && !shown.contains("HELD"), "{shown}");
        assert!(shown.contains("\n  OK and FAILED count ends of jobs: "), "{shown}");
        // A job that is requeued ends again.
        assert!(text(&r, false).contains("ends of jobs, succeeded: 0, "), "{}", text(&r, false));
        // GPUs began to report later.
        r.telemetry_since = Some(Time(3_600_000).into());
        let since = "BUSY and POWER are known from 1970-01-01T01:00:00.000Z on\n";
        assert!(text(&r, false).contains(since), "{}", text(&r, false));
        let mut forecast = muster_api::CapacityForecast {
            summary: "demand falls".into(),
            days: 7,
            capacity_gpus: 8.0,
            demand_gpus: Some(6.0),
            growth_gpus_per_day: Some(-0.5),
            spread_gpus: Some(1.0),
            met: Some(false),
            meets_at: None,
            meets_earliest: None,
            meets_latest: None,
            newest_demand_gpus: Some(7.0),
            newest_in_service_gpus: Some(8.0),
        };
        r.forecast = Some(forecast.clone());
        let shown = text(&r, false);
        assert!(shown.contains("demand 7 GPUs, in service 8 (means of the newest day"), "{shown}");
        // As on the Executive page: where a line that falls ends is not what is wanted.
        assert!(shown.contains("whole days: falling by 0.5 a day"), "{shown}");
        assert!(!shown.contains("6.0 GPUs"), "{shown}");
        forecast.growth_gpus_per_day = Some(0.5);
        r.forecast = Some(forecast);
        assert!(
            text(&r, false).contains("6.0 GPUs at its end, rising by 0.5 a day"),
            "{}",
            text(&r, false)
        );
        r.telemetry_since = None;
        let none = "BUSY and POWER: no data, no GPU has reported yet\n";
        assert!(text(&r, false).contains(none), "{}", text(&r, false));
    }
}
