//! What became of all GPUs, and when demand meets what is there.

use super::auth::Reader;
use super::error::{Failure, Reply};
use super::extract::Query;
use super::{App, admin, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{
    CapacityForecast, FleetJobs, FleetMetrics, FleetProject, FleetQuery, FleetReport, FleetRow,
    FleetSku, FleetStep, Kind, Timestamp,
};
use muster_metering::{CapacityReached, Forecast, Row, Step, Supply, TelemetryTotals, Work};
use muster_model::job::AttributionCounts;
use muster_model::names::ProjectName;
use muster_model::units::{Span, Time};
use muster_server::metering::FleetUsage;
use std::collections::BTreeMap;

/// How far back a report goes that does not say.
const BACK: Span = Span::hours(7 * 24);

/// Say what became of all GPUs, by the hour or by the day, and when demand meets what is there.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/reports/fleet", tag = "site", params(FleetQuery),
    responses((status = 200, description = "What became of all GPUs.", body = FleetReport))))]
pub(crate) async fn report(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<FleetQuery>,
) -> Reply {
    if let (Some(from), Some(to)) = (q.from, q.to)
        && from > to
    {
        return Err(Failure::bad("`from` is after `to`").field("from"));
    }
    let whole = caller.actor.project.is_none();
    let project: Option<ProjectName> = match (&q.project, whole) {
        (None, true) => None,
        (asked, _) => Some(admin::known(&app, caller.project(asked.as_deref())?)?),
    };
    let seq = app.brain().read(|s| s.seq);
    let step = match q.step {
        FleetStep::Hour => Step::Hour,
        FleetStep::Day => Step::Day,
    };
    let span = move |now: Time| {
        let to = q.to.map_or(now, |t| t.0);
        (q.from.map_or(to - BACK, |t| t.0), to)
    };
    let name = project.as_ref().map(ToString::to_string);
    // Every job that has not ended is looked at, whosever it is: nobody else is to wait for that.
    let (asked, runtime) = (app.clone(), tokio::runtime::Handle::current());
    let look = move || {
        let metering = asked.agents().metering();
        let usage = runtime.block_on(metering.fleet(span, step, name.as_deref()));
        fleet_report_body(&usage, q.step, name, whole)
    };
    let report = app.aside(&caller.token, look).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &report))
}

/// Whole numbers of a size that a float holds well enough.
#[allow(clippy::cast_precision_loss)]
fn float(v: u128) -> f64 {
    v as f64
}

fn gpu_seconds(v: u128) -> f64 {
    float(v) / 1e6
}

fn gpus(milli: u64) -> f64 {
    float(milli.into()) / 1e3
}

fn share(millionths: Option<u32>) -> Option<f64> {
    millionths.map(|v| f64::from(v) / 1e6)
}

fn fleet_metrics(w: &Work, supply: Option<&Supply>, seen: &TelemetryTotals) -> FleetMetrics {
    let out = |s: &Supply| {
        s.out
            .iter()
            .map(|(c, v)| (c.word().to_owned(), gpu_seconds(*v)))
            .collect::<BTreeMap<_, _>>()
    };
    FleetMetrics {
        gpu_seconds: super::report::gpu(&w.parts()),
        allocated_gpu_seconds: gpu_seconds(w.held.total()),
        restarting_waiting_gpu_seconds: gpu_seconds(w.back),
        lost_before_gpu_seconds: (w.lost_before > 0).then(|| gpu_seconds(w.lost_before)),
        wanted_gpu_seconds: gpu_seconds(w.wanted()),
        in_service_gpu_seconds: supply.map(|s| gpu_seconds(s.in_service)),
        out_of_service_gpu_seconds: supply.map(out),
        inventory_gpu_seconds: supply.map(|s| gpu_seconds(s.total())),
        allocation: share(supply.and_then(|s| w.allocation(s))),
        availability: share(supply.and_then(Supply::availability)),
        goodput: share(w.goodput()),
        ettr: share(w.ettr()),
        jobs: FleetJobs {
            submitted: w.submitted,
            succeeded: w.succeeded,
            succeeded_first: w.first,
            cancelled: w.cancelled,
            failed: w.failed,
        },
        success_rate: share(w.success()),
        first_attempt_success_rate: share(w.first_attempt_success()),
        not_failed_by_site_rate: share(w.not_failed_by_site()),
        interruptions: AttributionCounts { application: 0, ..w.interrupted },
        own_failures: w.interrupted.application,
        mtbi_ms: w.mtbi().map(|s| s.0),
        recover_ms: w.recover().map(|s| s.0),
        utilisation: seen.busy().map(|v| float(v.into()) / 1e3),
        power_watts: seen.total_power_mw().map(|v| float(v) / 1e3),
    }
}

/// All kinds of GPUs together.
fn all(row: &Row) -> Supply {
    let mut sum = Supply::default();
    row.supply.values().for_each(|s| sum.add(s));
    sum
}

pub(super) fn fleet_report_body(
    f: &FleetUsage,
    step: FleetStep,
    project: Option<String>,
    whole: bool,
) -> FleetReport {
    let rows = &f.report.rows;
    let (mut work, mut supply, mut seen) =
        (Work::default(), Supply::default(), TelemetryTotals::default());
    for r in rows {
        work.add(&r.work);
        supply.add(&all(r));
        seen.add(&r.seen);
    }
    // A tenant does not learn how much there is, nor what others do with it.
    let none = TelemetryTotals::default();
    let row = |r: &Row| FleetRow {
        from: r.from.into(),
        to: r.to.into(),
        metrics: match whole {
            true => fleet_metrics(&r.work, Some(&all(r)), &r.seen),
            false => fleet_metrics(&r.work, None, &none),
        },
    };
    let mut projects: Vec<(&String, &Work)> = f.report.projects.iter().collect();
    projects.sort_by_key(|(name, w)| (std::cmp::Reverse(w.held.total()), *name));
    let project_row = |(name, w): (&String, &Work)| FleetProject {
        name: name.clone(),
        metrics: fleet_metrics(w, None, &none),
    };
    FleetReport {
        kind: Kind::FleetReport,
        project,
        step,
        from: rows.first().map_or(f.now, |r| r.from).into(),
        to: rows.last().map_or(f.now, |r| r.to).into(),
        since: f.since.into(),
        telemetry_since: f.seen_since.filter(|_| whole).map(Into::into),
        complete: f.complete,
        total: match whole {
            true => fleet_metrics(&work, Some(&supply), &seen),
            false => fleet_metrics(&work, None, &none),
        },
        rows: rows.iter().map(row).collect(),
        projects: projects.into_iter().map(project_row).collect(),
        inventory: if whole { inventory(f) } else { Vec::new() },
        forecast: whole.then(|| forecast(&f.forecast)),
    }
}

fn inventory(f: &FleetUsage) -> Vec<FleetSku> {
    let sku = |(sku, hows): (&String, &BTreeMap<_, u64>)| {
        let out = hows.iter().filter_map(|(how, n): (&Option<muster_model::slo::Cause>, _)| {
            how.map(|cause| (cause.word().to_owned(), *n))
        });
        FleetSku {
            sku: sku.clone(),
            gpus: hows.values().sum(),
            in_service: hows.get(&None).copied().unwrap_or(0),
            out_of_service: out.collect(),
        }
    };
    f.supply.iter().map(sku).collect()
}

fn at(m: CapacityReached) -> Option<Timestamp> {
    match m {
        CapacityReached::At(t) => Some(t.into()),
        CapacityReached::Already | CapacityReached::NotWithinAYear => None,
    }
}

/// The day of a moment.
fn day(t: Time) -> String {
    Timestamp(t).to_string().chars().take(10).collect()
}

/// What the line says, and that demand is at what is in service now where the line does not say it.
fn words(f: &Forecast) -> String {
    let line = line_words(f);
    let already = f.trend.as_ref().is_some_and(|t| t.meets == CapacityReached::Already);
    match f.newest.filter(|n| n.met() && !already) {
        None => line,
        Some(n) => format!(
            "{line}; but demand is at what is in service now: {:.0} of {:.0} GPUs (mean of the newest \
             day)",
            gpus(n.wanted),
            gpus(n.in_service)
        ),
    }
}

fn line_words(f: &Forecast) -> String {
    let Some(t) = &f.trend else {
        return format!(
            "not enough history: {} whole day{} of the 3 that a line needs",
            f.days,
            if f.days == 1 { "" } else { "s" }
        );
    };
    // What is in service now may be less: nodes come and go within a day.
    let capacity = gpus(f.capacity);
    let service = format!("the {capacity:.0} GPUs in service (mean of the last whole day)");
    let falls = t.slope < 0;
    match t.meets {
        CapacityReached::Already if falls => format!("demand has met {service} already, and falls"),
        CapacityReached::Already => format!("demand has met {service} already"),
        CapacityReached::NotWithinAYear if falls => {
            format!("demand falls and does not meet {service}")
        }
        CapacityReached::NotWithinAYear => format!("demand does not meet {service} within a year"),
        CapacityReached::At(when) => {
            let early = match t.earliest {
                CapacityReached::At(e) => day(e),
                _ => "now".into(),
            };
            let late = match t.latest {
                CapacityReached::At(l) => day(l),
                _ => "later than a year".into(),
            };
            let when = day(when);
            format!("demand meets {service} on {when} ({early} to {late})")
        }
    }
}

fn forecast(f: &Forecast) -> CapacityForecast {
    let t = f.trend.as_ref();
    let signed = |v: i64| float(v.unsigned_abs().into()) / 1e3 * if v < 0 { -1.0 } else { 1.0 };
    CapacityForecast {
        summary: words(f),
        days: f.days as u64,
        capacity_gpus: gpus(f.capacity),
        demand_gpus: t.map(|t| signed(t.level)),
        growth_gpus_per_day: t.map(|t| signed(t.slope)),
        spread_gpus: t.map(|t| gpus(t.spread)),
        met: t.map(|t| t.meets == CapacityReached::Already),
        meets_at: t.and_then(|t| at(t.meets)),
        meets_earliest: t.and_then(|t| at(t.earliest)),
        meets_latest: t.and_then(|t| at(t.latest)),
        newest_demand_gpus: f.newest.map(|n| gpus(n.wanted)),
        newest_in_service_gpus: f.newest.map(|n| gpus(n.in_service)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_metering::NewestDay;
    use muster_metering::forecast::forecast as line;

    #[test]
    fn a_forecast_is_a_sentence() {
        let day = 86_400_000;
        let of = |wanted: &[u64]| {
            let days: Vec<(Time, u64)> = wanted
                .iter()
                .enumerate()
                .map(|(n, w)| (Time((n as i64 + 1) * day), w * 1000))
                .collect();
            forecast(&line(&days, 200_000)).summary
        };
        assert_eq!(of(&[1]), "not enough history: 1 whole day of the 3 that a line needs");
        let service = "the 200 GPUs in service (mean of the last whole day)";
        assert_eq!(of(&[9, 9, 9]), format!("demand does not meet {service} within a year"));
        assert_eq!(of(&[9, 8, 7]), format!("demand falls and does not meet {service}"));
        assert_eq!(of(&[190, 200, 210]), format!("demand has met {service} already"));
        assert_eq!(of(&[230, 220, 210]), format!("demand has met {service} already, and falls"));
        assert_eq!(
            of(&[160, 170, 180]),
            format!("demand meets {service} on 1970-01-06 (1970-01-06 to 1970-01-06)")
        );
    }

    #[test]
    fn a_line_does_not_hide_that_demand_is_at_what_is_in_service() {
        let day = 86_400_000;
        let days: Vec<(Time, u64)> = (1..=3).map(|n| (Time(n * day), 400_000)).collect();
        let of = |wanted, in_service| {
            let newest = Some(NewestDay { wanted, in_service });
            forecast(&Forecast { newest, ..line(&days, 512_000) })
        };
        let busy = of(494_000, 480_000);
        assert_eq!(
            busy.summary,
            "demand does not meet the 512 GPUs in service (mean of the last whole day) within a year; \
             but demand is at what is in service now: 494 of 480 GPUs (mean of the newest day)"
        );
        assert_eq!(busy.newest_demand_gpus, Some(494.0));
        assert_eq!(busy.newest_in_service_gpus, Some(480.0));
        assert!(!of(470_000, 480_000).summary.contains("now"));
    }
}
