//! The report of a week or a month for people.

use super::fleet::{hours, mean, out_by, percent};
use clap::Args;
use muster_api::{FleetMetrics, PeriodKind, PeriodQuery, PeriodReport};
use muster_model::slo::FINAL_AFTER;
use muster_model::units::{Span, Time};
use muster_terminal::output::colour::{Style, paint};
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Cell, Table, cell, number};
use muster_terminal::output::time::length;

/// Which week or month.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster report weekly\n  muster report weekly --back 0      the current week\n  muster report monthly --back 2 -o json | jq .fleet.goodput\n\n\
Weeks begin on Monday, months on the first, in UTC. SLOs are known by the hour for 90 days.\n\
Jobs that succeeded are good ends of good and bad ones: each end of a job counts once."
)]
pub(super) struct PeriodArgs {
    /// So many periods back; 0 is the current one
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(0..=60))]
    back: u32,
}

impl PeriodArgs {
    pub(super) fn query(&self, period: PeriodKind) -> PeriodQuery {
        PeriodQuery { period, back: Some(self.back) }
    }
}

/// A metric, how it was before, and whether that is worse.
struct Line {
    name: &'static str,
    now: String,
    before: String,
    worse: bool,
}

/// Less than this is no change.
const NOISE: f64 = 0.005;

/// None is a time of which nothing is known: nothing counted is not a count of zero.
fn lines(now: Option<&FleetMetrics>, before: Option<&FleetMetrics>) -> Vec<Line> {
    // Reported as text; worse where it went the wrong way by more than a little.
    let line = |name, text: &dyn Fn(&FleetMetrics) -> String, worse| Line {
        name,
        now: now.map_or_else(|| "-".into(), text),
        before: before.map_or_else(|| "-".into(), text),
        worse,
    };
    let fell = |f: &dyn Fn(&FleetMetrics) -> Option<f64>| {
        let (is, was) = (now.and_then(f), before.and_then(f));
        matches!((is, was), (Some(a), Some(b)) if a < b - NOISE)
    };
    let span = |ms: Option<u64>| ms.map_or_else(|| "-".into(), |ms| length(Span(ms)));
    // Each by its own attribution, as in every other report.
    let more = |of: &dyn Fn(&FleetMetrics) -> u64| matches!((now, before), (Some(n), Some(b)) if of(n) > of(b));
    let infrastructure = |f: &FleetMetrics| f.jobs.failed.infrastructure;
    let platform = |f: &FleetMetrics| f.jobs.failed.platform;
    let mtbi = |f: &FleetMetrics| {
        f.mtbi_ms.map(|v| f64::from(u32::try_from(v / 1000).unwrap_or(u32::MAX)))
    };
    vec![
        line("allocation", &|f| percent(f.allocation), fell(&|f| f.allocation)),
        line("GPUs busy", &|f| percent(f.utilisation), fell(&|f| f.utilisation)),
        line("availability", &|f| percent(f.availability), fell(&|f| f.availability)),
        line("goodput", &|f| percent(f.goodput), fell(&|f| f.goodput)),
        line("ETTR", &|f| percent(f.ettr), fell(&|f| f.ettr)),
        line("GPU-hours allocated", &|f| hours(f.allocated_gpu_seconds), false),
        line("GPU-hours lost", &|f| hours(f.gpu_seconds.lost), false),
        line("lost of final days", &|f| hours(f.lost_before_gpu_seconds.unwrap_or(0.0)), false),
        line("jobs submitted", &|f| f.jobs.submitted.to_string(), false),
        line("jobs that succeeded", &|f| percent(f.success_rate), fell(&|f| f.success_rate)),
        line("failed: application", &|f| f.jobs.failed.application.to_string(), false),
        line("failed: infrastructure", &|f| infrastructure(f).to_string(), more(&infrastructure)),
        line("failed: platform", &|f| platform(f).to_string(), more(&platform)),
        line("interruptions", &|f| f.interruptions.interruptions().to_string(), false),
        line("MTBI of a job", &|f| span(f.mtbi_ms), fell(&mtbi)),
        line("MTTR of a job", &|f| mean(f.recover_ms), false),
    ]
}

fn warn(text: impl Into<String>, is: bool) -> Cell {
    let style = if is { Style::Warn } else { Style::default() };
    number(text.into()).style(style)
}

pub(super) fn text(r: &PeriodReport, now: Time, on: bool) -> String {
    let mut f = Facts::new();
    let what = match r.period {
        PeriodKind::Week => "Week",
        PeriodKind::Month => "Month",
    };
    f.0.push_str(&format!("{}\n", paint(&format!("{what} {}", r.name), Style::Bold, on)));
    let so_far = if r.over { "" } else { ", not over yet" };
    f.0.push_str(&format!("  from {} to {}{so_far}\n", r.from, r.to));
    let known = r.since < r.to;
    // Of a time before the site was known, nothing is final.
    if r.over && known {
        let at = muster_api::Timestamp(r.to.0 + FINAL_AFTER);
        f.0.push_str(&match at.0 <= now {
            true => format!("  final since {at}\n"),
            false => format!("  final from {at} on; what is found out until then corrects it\n"),
        });
    }
    if !known {
        f.0.push_str(&format!("  no data: this site is known since {}\n", r.since));
    } else if r.since > r.from {
        f.0.push_str(&format!("  known since {}\n", r.since));
    }
    if !r.complete {
        f.0.push_str("  the server still reads its log: these numbers are not complete yet\n");
    }
    for text in known_in_part(r) {
        f.0.push_str(&format!("  {text}\n"));
    }
    f.section("Metrics", on);
    let mut t = Table::new(&["", "THIS", "BEFORE"]);
    for l in lines(known.then_some(&r.fleet), r.before.as_ref()) {
        t.row(vec![cell(l.name), warn(l.now, l.worse), number(l.before)]);
    }
    f.table(&t, on);
    objectives(&mut f, r, on);
    incidents(&mut f, r, on);
    failures(&mut f, r, on);
    fleet(&mut f, r, on);
    f.0
}

/// Columns and metrics that are not of all of their time, and from when on they are.
fn known_in_part(r: &PeriodReport) -> Vec<String> {
    let mut out = Vec::new();
    let (mut begin, _) = r.period.back(r.from.0, 1);
    if r.before.is_some() && r.since.0 > begin {
        out.push(format!("BEFORE is known since {}", r.since));
    }
    if r.before.as_ref().is_none_or(|b| b.utilisation.is_none()) {
        begin = r.from.0;
    }
    let begin = begin.max(r.since.0);
    // GPUs are looked at once a minute: the first few are no gap.
    if let Some(at) = r.telemetry_since.filter(|at| at.0.since(begin) > Span::mins(5)) {
        out.push(format!("GPUs busy is known from {at} on"));
    }
    out
}

fn objectives(f: &mut Facts, r: &PeriodReport, on: bool) {
    f.section("SLOs", on);
    if r.objectives.is_empty() {
        f.text("none are in force");
        return;
    }
    let mut t = Table::new(&["OBJECTIVE", "TARGET", "ACTUAL", "", "CAUSES"]);
    for o in &r.objectives {
        let how = match o.met {
            None => cell("no data"),
            Some(true) => cell("met").style(Style::Good),
            Some(false) => cell("not met").style(Style::Bad),
        };
        let why: Vec<&str> = o.causes.iter().take(2).map(|c| c.cause.word()).collect();
        let met = o.met_text.clone().unwrap_or_else(|| "-".into());
        t.row(vec![cell(&o.name), number(&o.target), number(met), how, cell(why.join(", "))]);
    }
    f.table(&t, on);
}

fn incidents(f: &mut Facts, r: &PeriodReport, on: bool) {
    f.section("Incidents and alerts", on);
    let a = &r.alerts;
    let took = a.acknowledged_median_ms.map(|ms| format!(", median {}", length(Span(ms))));
    f.text(&format!(
        "{} pages ({} acknowledged{}), {} tickets, {} silenced",
        a.pages,
        a.acknowledged,
        took.unwrap_or_default(),
        a.tickets,
        a.silenced
    ));
    if r.incidents.is_empty() {
        f.text("no incident");
    } else {
        let mut t = Table::new(&["ID", "SEVERITY", "KIND", "CAUSE", "BEGAN", "LASTED", "OWNER"]);
        for i in &r.incidents {
            let lasted =
                i.closed_at.map_or_else(|| "open".to_owned(), |c| length(c.0.since(i.began_at.0)));
            t.row(vec![
                number(i.id),
                cell(i.severity.word()),
                cell(&i.kind),
                cell(i.cause.to_string()),
                cell(i.began_at.to_string().chars().take(16).collect::<String>().replace('T', " ")),
                number(lasted),
                cell(i.owner.as_deref().unwrap_or("-")),
            ]);
        }
        f.table(&t, on);
    }
    if r.cut {
        f.text("older ones are not stored any more: there may have been more");
    }
}

fn listed(pairs: impl Iterator<Item = (String, u64)>) -> String {
    pairs.map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}

fn failures(f: &mut Facts, r: &PeriodReport, on: bool) {
    f.section("What failed", on);
    let kinds = listed(r.findings.iter().map(|k| (k.kind.clone(), k.count)));
    f.text(&format!("findings: {}", if kinds.is_empty() { "none".into() } else { kinds }));
    let nodes = listed(r.nodes.iter().take(8).map(|n| (n.node.clone(), n.count)));
    if !nodes.is_empty() {
        f.text(&format!("most on: {nodes}"));
    }
    let remediations = listed(r.remediations.iter().map(|(k, v)| (k.clone(), *v)));
    f.text(&format!(
        "remediations: {}",
        if remediations.is_empty() { "none".into() } else { remediations }
    ));
    if r.projects.is_empty() {
        return;
    }
    let mut t = Table::new(&[
        "PROJECT",
        "GPU-HOURS",
        "GOODPUT",
        "OK",
        "FAILED",
        "INFRASTRUCTURE",
        "PLATFORM",
        "INTERR",
    ]);
    for p in r.projects.iter().take(20) {
        let j = &p.metrics.jobs;
        t.row(vec![
            cell(&p.name),
            number(hours(p.metrics.allocated_gpu_seconds)),
            number(percent(p.metrics.goodput)),
            number(j.succeeded),
            number(j.failed.total()),
            warn(j.failed.infrastructure.to_string(), j.failed.infrastructure > 0),
            warn(j.failed.platform.to_string(), j.failed.platform > 0),
            number(p.metrics.interruptions.interruptions()),
        ]);
    }
    f.table(&t, on);
}

fn fleet(f: &mut Facts, r: &PeriodReport, on: bool) {
    f.section("Fleet, as it is now", on);
    for s in &r.inventory {
        let out = listed(s.out_of_service.iter().map(|(cause, n)| (out_by(cause).to_owned(), *n)));
        let out = if out.is_empty() { "none out".into() } else { format!("out: {out}") };
        f.text(&format!("{} {}: {} in service, {out}", s.gpus, s.sku, s.in_service));
    }
    if let Some(c) = &r.forecast {
        f.text(&c.summary);
    }
    let mut t = Table::new(&["VERSION OF", "", "NODES"]);
    for v in &r.versions {
        t.row(vec![cell(&v.what), cell(&v.version), number(v.nodes)]);
    }
    if !r.versions.is_empty() {
        f.table(&t, on);
    }
    f.text("money: not known, nothing is metered in it yet");
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{Kind, PeriodAlerts};
    use std::collections::BTreeMap;

    #[test]
    fn a_time_of_which_nothing_is_known_is_not_reported_as_zero() {
        assert!(lines(None, None).iter().all(|l| l.now == "-" && !l.worse));
        let none = FleetMetrics::default();
        assert!(lines(Some(&none), None).iter().any(|l| l.now == "0" && l.before == "-"));
        // Neither is a recovery that there was none of.
        let none = FleetMetrics { recover_ms: Some(0), ..FleetMetrics::default() };
        let reported = lines(Some(&none), None);
        assert!(reported.iter().any(|l| l.name == "MTTR of a job" && l.now == "-"));
    }

    #[test]
    fn what_is_known_of_a_part_of_its_time_says_from_when_on() {
        let (hour, day) = (3_600_000, 86_400_000);
        // A Monday, eleven days after the first Thursday.
        let monday = 11 * day;
        let mut r = PeriodReport {
            kind: Kind::PeriodReport,
            name: "1970-W03".into(),
            period: PeriodKind::Week,
            from: Time(monday).into(),
            to: Time(monday + 5 * hour).into(),
            over: false,
            since: Time(7 * day).into(),
            telemetry_since: Some(Time(monday + hour).into()),
            complete: true,
            fleet: FleetMetrics { utilisation: Some(0.6), ..FleetMetrics::default() },
            before: Some(FleetMetrics::default()),
            projects: Vec::new(),
            objectives: Vec::new(),
            incidents: Vec::new(),
            cut: false,
            findings: Vec::new(),
            nodes: Vec::new(),
            alerts: PeriodAlerts::default(),
            remediations: BTreeMap::new(),
            versions: Vec::new(),
            inventory: Vec::new(),
            forecast: None,
        };
        let said = |r: &PeriodReport| text(r, Time(monday + 5 * hour), false);
        let before = "  BEFORE is known since 1970-01-08T00:00:00.000Z\n";
        let busy = "  GPUs busy is known from 1970-01-12T01:00:00.000Z on\n";
        assert!(said(&r).contains(before) && said(&r).contains(busy), "{}", said(&r));
        // All of it is known.
        (r.since, r.telemetry_since) = (Time(0).into(), Some(Time(monday).into()));
        assert!(!said(&r).contains("known since"), "{}", said(&r));
        assert!(!said(&r).contains("known from"), "{}", said(&r));
        // The time before has a metric of its own, of its end alone.
        r.before = Some(FleetMetrics { utilisation: Some(0.5), ..FleetMetrics::default() });
        assert!(said(&r).contains("GPUs busy is known from 1970-01-12T00"), "{}", said(&r));
    }
}
