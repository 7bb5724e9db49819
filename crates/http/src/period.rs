//! What a week or a month was like: the fleet's metrics compared with those of the time before, what
//! the objectives were and which were met, what broke, and what is to be looked at.

use super::auth::Reader;
use super::error::{Failure, Reply};
use super::extract::Query;
use super::fleet::fleet_report_body;
use super::slo::percent;
use super::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{
    CauseCount, FleetStep, Kind, KindCount, NodeCount, PeriodAlerts, PeriodIncident,
    PeriodObjective, PeriodQuery, PeriodReport, VersionCount,
};
use muster_engine::State as Site;
use muster_metering::Step;
use muster_model::alert::Urgency;
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::remediation::RemediationOutcome;
use muster_model::slo::Objective;
use muster_model::tenant::Role;
use muster_model::units::Time;
use muster_slo::budget::{self, Counts};
use muster_slo::{Ledger, Series, TimeRange};
use std::collections::BTreeMap;

/// The furthest back.
const BACK_MAX: u32 = 60;
/// Lines of each list.
const LINES: usize = 50;

/// Say what a week or a month was like.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/reports/period", tag = "site", params(PeriodQuery),
    responses((status = 200, description = "What it was like.", body = PeriodReport))))]
pub(crate) async fn report(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<PeriodQuery>,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let back = q.back.unwrap_or(1);
    if back > BACK_MAX {
        return Err(Failure::bad(format!("`back` is at most {BACK_MAX}")).field("back"));
    }
    let now = app.brain().now();
    let (from, end) = q.period.back(now, back);
    let metering = app.agents().metering();
    let usage = metering.fleet(|_| (from, end), Step::Day, None).await;
    let before = q.period.back(now, back + 1);
    let before = metering.fleet(|_| before, Step::Day, None).await;
    let to = end.min(now);
    let agents: BTreeMap<NodeName, String> =
        app.agents().sessions().into_iter().map(|s| (s.node, s.version)).collect();
    let brain = app.brain().clone();
    // Every finding, alert and node of that time is looked at: done aside.
    let look = move || {
        let fleet = fleet_report_body(&usage, FleetStep::Day, None, true);
        let before = fleet_report_body(&before, FleetStep::Day, None, true);
        brain.read_polled(|s| {
            let tail = s.slo_tail(now);
            let ledgers = [&s.slo.book.ledger, &tail];
            let objectives = s.slo.in_force().iter().map(|o| met(o, &ledgers, (from, to), now));
            let (findings, nodes) = findings(s, from, to);
            let report = PeriodReport {
                kind: Kind::PeriodReport,
                name: q.period.name(from),
                period: q.period,
                from: from.into(),
                to: to.into(),
                over: end <= now,
                since: fleet.since,
                telemetry_since: fleet.telemetry_since,
                complete: fleet.complete,
                fleet: fleet.total,
                before: Some(before.total)
                    .filter(|b| b.inventory_gpu_seconds.is_some_and(|v| v > 0.0)),
                projects: fleet.projects,
                objectives: objectives.collect(),
                incidents: incidents(s, from, to),
                cut: s.health.has_forgotten_since(from),
                findings,
                nodes,
                alerts: alerts(s, from, to),
                remediations: remediations(s, from, to),
                versions: versions(s, &agents),
                inventory: fleet.inventory,
                forecast: fleet.forecast,
            };
            (s.seq, report)
        })
    };
    let (seq, report) = app.aside(&caller.token, look).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &report))
}

fn met(o: &Objective, ledgers: &[&Ledger], (from, to): (Time, Time), now: Time) -> PeriodObjective {
    let series = Series { sli: o.sli, scope: o.scope.clone() };
    let (counts, reach) = (Counts(ledgers), TimeRange::Between(from, to));
    let count = counts.count(&series, reach, now);
    let target = o.target.to_string();
    let mut causes: Vec<CauseCount> = counts
        .causes(&series, reach, now)
        .into_iter()
        .map(|(cause, count)| CauseCount { cause, count })
        .collect();
    causes.sort_by_key(|c| (std::cmp::Reverse(c.count), c.cause));
    PeriodObjective {
        name: o.name.to_string(),
        good: count.good,
        total: count.total,
        met_text: budget::sli(count).map(|r| percent(r, &target)),
        met: budget::meets(count, o.target),
        target,
        causes,
    }
}

fn incidents(s: &Site, from: Time, to: Time) -> Vec<PeriodIncident> {
    let within = s
        .health
        .incidents
        .values()
        .filter(|i| i.began_at < to && i.closed.as_ref().is_none_or(|c| c.at >= from));
    let mut out: Vec<PeriodIncident> = within
        .map(|i| PeriodIncident {
            id: i.id,
            kind: i.kind.clone(),
            cause: i.cause.clone(),
            severity: i.severity,
            summary: i.summary.clone(),
            began_at: i.began_at.into(),
            closed_at: i.closed.as_ref().map(|c| c.at.into()),
            owner: i.owner.as_ref().map(|o| o.who.clone()),
            findings: i.count,
        })
        .collect();
    out.sort_by_key(|i| (std::cmp::Reverse(i.severity), i.began_at, i.id));
    out.truncate(LINES);
    out
}

/// The most first.
fn most(counts: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut out: Vec<(String, u64)> = counts.into_iter().collect();
    out.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), name.clone()));
    out.truncate(LINES);
    out
}

fn findings(s: &Site, from: Time, to: Time) -> (Vec<KindCount>, Vec<NodeCount>) {
    let (mut kinds, mut nodes) = (BTreeMap::new(), BTreeMap::new());
    for f in s.health.findings.values() {
        if f.opened_at < from || f.opened_at >= to {
            continue;
        }
        *kinds.entry(f.seen.kind.clone()).or_insert(0) += 1;
        if let Some(n) = f.seen.entity.node() {
            *nodes.entry(n.to_string()).or_insert(0) += 1;
        }
    }
    (
        most(kinds).into_iter().map(|(kind, count)| KindCount { kind, count }).collect(),
        most(nodes).into_iter().map(|(node, count)| NodeCount { node, count }).collect(),
    )
}

fn alerts(s: &Site, from: Time, to: Time) -> PeriodAlerts {
    let mut out = PeriodAlerts::default();
    let mut took: Vec<u64> = Vec::new();
    for a in s.slo.alerts.values().filter(|a| a.raised_at >= from && a.raised_at < to) {
        out.silenced += u64::from(a.silenced.is_some());
        if a.urgency != Urgency::Page {
            out.tickets += 1;
            continue;
        }
        out.pages += 1;
        if let Some(ack) = &a.acknowledged {
            out.acknowledged += 1;
            took.push(ack.at.since(a.raised_at).0);
        }
    }
    took.sort_unstable();
    out.acknowledged_median_ms = took.get(took.len() / 2).copied();
    out
}

fn remediations(s: &Site, from: Time, to: Time) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for r in s.health.remediations.values().filter(|r| r.at >= from && r.at < to) {
        let how = r.outcome.map_or("not over yet", RemediationOutcome::words);
        *out.entry(how.to_owned()).or_insert(0) += 1;
    }
    out
}

/// What nodes have, by version. `agents` are those that are connected: each says its version when it
/// connects, also where the inventory has none, as of simulated nodes.
pub(crate) fn versions(s: &Site, agents: &BTreeMap<NodeName, String>) -> Vec<VersionCount> {
    let mut all: Vec<(String, String)> = Vec::new();
    for n in s.nodes.values().filter(|n| n.stage != Stage::Retired) {
        let i = &n.inventory;
        let kernel = ("kernel".to_owned(), i.kernel.clone());
        let agent = agents.get(&n.name).map(|v| ("agent".to_owned(), v.clone()));
        let of = i.versions.iter().filter(|(what, _)| agent.is_none() || *what != "agent");
        let of: Vec<_> = of.map(|(what, v)| (what.clone(), v.clone())).collect();
        all.extend(of.into_iter().chain([kernel]).chain(agent).filter(|(_, v)| !v.is_empty()));
    }
    all.sort_unstable();
    let row = |of: &[(String, String)]| {
        let (what, version) = of[0].clone();
        VersionCount { what, version, nodes: of.len() as u64 }
    };
    all.chunk_by(|a, b| a == b).map(row).take(200).collect()
}
