//! Objectives and their status.

use super::label;
use super::open::sees as sees_alert;
use crate::auth::{AdminWriter, Caller, Reader, Writer};
use crate::error::{Failure, Reply};
use crate::extract::{JsonBody, Query, Segment};
use crate::policy::{content_version, same_version};
use crate::{App, answer, gone};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{
    BurnRate, CauseCount, ChartPoint, FiringRule, Kind, Objectives, SetObjectives, Slo, SloList,
    SloQuery, UnfiredRule,
};
use muster_engine::ObjectiveStatus;
use muster_model::alert::{Alert, Topic};
use muster_model::names::Label;
use muster_model::slo::{Objective, Ppm, Sli, Unit};
use muster_model::tenant::Role;
use muster_model::units::Span;
use muster_model::{Command, Seq};
use muster_server::slo::ObjectiveMoment;
use muster_slo::budget::{ChartHour, Counts, Meter};
use muster_slo::decide::is_part;
use muster_slo::{Ratio, budget, conditions};
use std::sync::Arc;

/// The longest chart, in hours.
const CHART_MAX: u32 = 2160;

/// Tenants see the objectives of their project.
fn sees(caller: &Caller, o: &Objective) -> bool {
    match &caller.actor.project {
        None => true,
        Some(own) => o.scope.project.as_ref() == Some(own),
    }
}

fn document(app: &App) -> (Seq, Objectives) {
    let (seq, objectives, stated) =
        app.brain().read(|s| (s.seq, Arc::clone(&s.slo.objectives), s.slo.is_stated()));
    let version = content_version(&*objectives);
    (seq, Objectives { kind: Kind::Objectives, version, stated, objectives })
}

/// Refuses a change by somebody who saw another version. What `GET` of one objective answered is for a
/// change of that one (`name`); what `GET` of all of them answered is for both.
fn same_objectives(app: &App, writer: &Writer, body: &[u8], name: Option<&Label>) -> Reply<()> {
    let own = app
        .brain()
        .read(|s| s.slo.in_force().iter().find(|o| Some(&o.name) == name).map(content_version));
    if own.is_some() && own == writer.if_version.map(|v| v.0) {
        return Ok(());
    }
    let present = document(app).1.version;
    same_version(app, writer, body, "set of objectives", Some(present))
}

/// Get the objectives of the site, as they were set.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/objectives", tag = "slo",
    responses((status = 200, description = "The objectives.", body = Objectives))))]
pub(crate) async fn objectives(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Viewer)?;
    let (seq, o) = document(&app);
    Ok(answer(&app, &caller, StatusCode::OK, seq, Some(o.version), &o))
}

/// Set the objectives of the site: all of them.
///
/// Counting begins when an objective is set; what was counted for one that is gone is dropped.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/objectives", tag = "slo", request_body = SetObjectives,
    responses((status = 200, description = "As it is now.", body = Objectives))))]
pub(crate) async fn set_objectives(
    State(app): State<App>,
    AdminWriter(writer): AdminWriter,
    JsonBody { value, raw }: JsonBody<SetObjectives>,
) -> Reply {
    let _turn = app.turn().lock().await;
    same_objectives(&app, &writer, &raw, None)?;
    let command = Command::SetObjectives { objectives: value.objectives };
    let done = writer.put(&app, &raw, command).await?;
    let (_, o) = document(&app);
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, Some(o.version), &o))
}

/// Set one objective: new, or in place of the one of that name.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/objectives/{name}", tag = "slo", request_body = Objective,
    params(("name" = String, Path, description = "The objective's name.")),
    responses((status = 200, description = "Its status.", body = Slo))))]
pub(crate) async fn set_objective(
    State(app): State<App>,
    AdminWriter(writer): AdminWriter,
    Segment(name): Segment,
    JsonBody { value, raw }: JsonBody<Objective>,
) -> Reply {
    let name = label(&name)?;
    if value.name != name {
        return Err(Failure::senseless("the name is not the one in the path")
            .field("name")
            .hint("send it to the path of that name"));
    }
    let turn = app.turn().lock().await;
    same_objectives(&app, &writer, &raw, Some(&name))?;
    let command = Command::SetObjective { objective: Arc::new(value) };
    writer.put(&app, &raw, command).await?;
    // Who writes next need not wait for its status.
    drop(turn);
    let (seq, slo) = find(&app, &writer.caller, name.as_str(), None).await?;
    Ok(answer(&app, &writer.caller, StatusCode::OK, seq, Some(slo.version), &slo))
}

/// Give up an objective. One that comes with Muster is left out from then on.
#[cfg_attr(feature = "openapi", utoipa::path(delete, path = "/v1/objectives/{name}", tag = "slo",
    params(("name" = String, Path, description = "The objective's name.")),
    responses((status = 204, description = "It is gone."))))]
pub(crate) async fn delete_objective(
    State(app): State<App>,
    writer: Writer,
    Segment(name): Segment,
) -> Reply {
    writer.caller.over_site(Role::Admin)?;
    let name = label(&name)?;
    let _turn = app.turn().lock().await;
    same_objectives(&app, &writer, b"", Some(&name))?;
    let done = writer.put(&app, b"", Command::DeleteObjective { name }).await?;
    Ok(gone(&app, &writer.caller, done.seq))
}

/// A share for people: as many decimals as its target has, and two more.
pub(crate) fn percent(r: Ratio, target: &str) -> String {
    let decimals = target.trim_end_matches('%').split_once('.').map_or(0, |(_, d)| d.len());
    r.percent(u32::try_from(decimals + 2).unwrap_or(4).min(6))
}

fn view(app: &App, caller: &Caller, moment: &ObjectiveMoment, s: &ObjectiveStatus) -> Slo {
    let (o, st) = (&s.objective, &s.status);
    let target = o.target.to_string();
    let own = |a: &&Alert| a.topic == Topic::Objective && a.kind == o.name.as_str();
    // What burns because of hardware may be part of the page about that.
    let burns = conditions::objective(o, st, moment.written_at);
    let part = |a: &&Alert| burns.as_ref().is_some_and(|c| is_part(c, a)) && sees_alert(caller, a);
    // Of several the most urgent, then the newest.
    let pages = || moment.open.iter().filter(part).max_by_key(|a| (a.urgency, a.raised_at));
    let open = moment.open.iter().find(own).or_else(pages);
    Slo {
        id: o.name.to_string(),
        kind: Kind::Slo,
        name: o.name.to_string(),
        state: st.state(o.target).to_owned(),
        as_of: moment.at.into(),
        version: caller.version(app, content_version(o)),
        owner: o.owner.clone(),
        description: o.description.clone(),
        sli: o.sli,
        scope: o.scope.clone(),
        unit: match o.sli.unit() {
            Unit::Events => "events",
            Unit::Time => "time",
        }
        .to_owned(),
        target_ppm: o.target.0,
        window: o.window.to_string(),
        counted_for: st.counted,
        good: st.count.good,
        total: st.count.total,
        allowed: st.allowed,
        good_share: st.sli.map(Ratio::to_f64),
        good_text: st.sli.map(|r| percent(r, &target)),
        target,
        budget_left: st.remaining().map(Ratio::to_f64),
        budget_consumed: st.consumed.map(Ratio::to_f64),
        burn: st
            .burn
            .iter()
            .map(|(window, rate)| BurnRate { window: *window, rate: rate.map(Ratio::to_f64) })
            .collect(),
        firing: st
            .firing
            .iter()
            .map(|f| FiringRule {
                factor: f64::from(f.rule.factor.0) / 1000.0,
                long: f.over,
                short: f.rule.short,
                urgency: f.rule.urgency,
                long_rate: f.long.to_f64(),
                short_rate: f.short.to_f64(),
            })
            .collect(),
        not_firing: st.unfired.as_ref().map(|u| UnfiredRule {
            factor: f64::from(u.rule.factor.0) / 1000.0,
            long: u.over,
            short: u.rule.short,
            urgency: u.rule.urgency,
            why: u.why,
            held: u.rule.held,
            least: u.rule.least,
            bad: u.bad,
        }),
        exhausted_in: st.exhausted_in,
        causes: st
            .causes
            .iter()
            .map(|(cause, count)| CauseCount { cause: *cause, count: *count })
            .collect(),
        gates: o.gates.iter().copied().collect(),
        gating: moment.stated && st.is_exhausted() && !o.gates.is_empty(),
        mean_time: match o.sli {
            Sli::Interruptions { cost } => budget::mean_time(st.count, cost),
            _ => None,
        },
        alert: open.map(|a| a.id.clone()),
        chart: Vec::new(),
    }
}

/// Every objective that a caller may see, and its status. Looks at every open job: done aside.
fn all(app: &App, caller: &Caller) -> (Seq, Vec<Slo>) {
    let moment = app.objective_statuses().recent(app.brain(), caller.min_seq);
    let mine = moment.all.iter().filter(|x| sees(caller, &x.objective));
    (moment.seq, mine.map(|x| view(app, caller, &moment, x)).collect())
}

/// One objective and its status, with its counts hour by hour.
async fn find(app: &App, caller: &Caller, name: &str, hours: Option<u32>) -> Reply<(Seq, Slo)> {
    let (asked, asking, name) = (app.clone(), caller.clone(), name.to_owned());
    app.aside(&caller.token, move || one(&asked, &asking, &name, hours)).await?
}

fn one(app: &App, caller: &Caller, name: &str, hours: Option<u32>) -> Reply<(Seq, Slo)> {
    app.objective_statuses().read(app.brain(), |site, moment| {
        let one = moment
            .all
            .iter()
            .find(|x| x.objective.name.as_str() == name && sees(caller, &x.objective))
            .ok_or_else(|| {
                Failure::not_found(format!("there is no objective {name}"))
                    .hint("`muster slo` lists them")
            })?;
        let o = &one.objective;
        let last = match hours {
            Some(h) => Span::hours(u64::from(h)),
            None => budget::reach(o.window, moment.at).1,
        };
        let point = |(h, left): (ChartHour, Option<Ppm>)| ChartPoint {
            at: h.at.into(),
            good: h.count.good,
            total: h.count.total,
            rate: h.rate.map(Ratio::to_f64),
            budget_left: left.map(|p| f64::from(p.0) / 1e6),
        };
        let ledgers = [&site.slo.book.ledger, &moment.tail];
        let chart = Meter::new(o, Counts(&ledgers)).chart(last, moment.at);
        let left = one.status.left_after(&chart);
        let chart = chart.into_iter().zip(left).map(point).collect();
        Ok((moment.seq, Slo { chart, ..view(app, caller, moment, one) }))
    })
}

/// List objectives and their status: error budgets, burn rates, what breaks.
///
/// A token that is bound to a project sees the objectives of that project.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/slos", tag = "slo",
    responses((status = 200, description = "The objectives.", body = SloList))))]
pub(crate) async fn list(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let (asked, asking) = (app.clone(), caller.clone());
    let (seq, items) = app.aside(&caller.token, move || all(&asked, &asking)).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &SloList { items, cursor: None }))
}

/// Get one objective, with its counts hour by hour.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/slos/{name}", tag = "slo", params(SloQuery,
    ("name" = String, Path, description = "The objective's name.")),
    responses((status = 200, description = "The objective.", body = Slo))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(name): Segment,
    Query(q): Query<SloQuery>,
) -> Reply {
    let name = label(&name)?;
    if q.hours.is_some_and(|h| h == 0 || h > CHART_MAX) {
        return Err(Failure::bad(format!("hours must be between 1 and {CHART_MAX}")).field("hours"));
    }
    let (seq, slo) = find(&app, &caller, name.as_str(), q.hours).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, Some(slo.version), &slo))
}
