//! What was found to be wrong.

use super::{id, missing, node_name, order, reason, sees, title_of};
use crate::auth::{Caller, OperatorWriter, Reader};
use crate::error::{Failure, Reply};
use crate::extract::{OptionalBody, Query, Segment, shown};
use crate::{App, answer, jobs, paging};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{
    FailureMode, FailureModeList, Finding, FindingList, FindingsQuery, ReasonRequest,
};
use muster_engine::State as Site;
use muster_health::modes;
use muster_model::finding::{Finding as ModelFinding, Severity};
use muster_model::names::NodeName;
use muster_model::{Command, JobId, Seq};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The finding as the API shows it.
pub(crate) fn view(f: &ModelFinding) -> Finding {
    Finding::of(f, title_of(&f.seen))
}

/// The same for this caller. What is found of hardware again names the attempt that uses it then, which may
/// be of a project that the caller may not know of; so may what was read of it.
fn view_for(site: &Site, caller: &Caller, f: &ModelFinding) -> Finding {
    let mut shown = view(f);
    let seen = |id: JobId| site.jobs.get(&id).is_some_and(|j| caller.sees(&j.project));
    if caller.actor.project.is_some() && f.seen.attempt.is_some_and(|a| !seen(a.job)) {
        (shown.job, shown.attempt, shown.rank) = (None, None, None);
        shown.evidence.clear();
    }
    shown
}

fn severity(text: &str) -> Reply<Severity> {
    let all = [Severity::Info, Severity::Warning, Severity::Degraded, Severity::Critical];
    all.into_iter().find(|s| s.word() == text).ok_or_else(|| {
        Failure::bad(format!("`{}` is not a severity", shown(text)))
            .field("severity")
            .hint("use info, warning, degraded or critical")
    })
}

/// List findings, newest first. Tokens that are bound to a project see what is about their jobs.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/findings", tag = "health", params(FindingsQuery),
    responses((status = 200, description = "A page of findings.", body = FindingList))))]
pub(crate) async fn list(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<FindingsQuery>,
) -> Reply {
    let limit = paging::limit(q.limit)?;
    let below: Option<u64> = paging::decode("findings", q.cursor.as_deref())?;
    let node = node_name(q.node.as_deref())?;
    let least = q.severity.as_deref().map(severity).transpose()?;
    if let Some(kind) = q.kind.as_deref().filter(|k| modes::mode(k).is_none()) {
        return Err(Failure::bad(format!("`{}` is no failure mode", shown(kind)))
            .field("kind")
            .hint("`muster failure-modes` lists them"));
    }
    if q.job.is_some_and(|j| i64::try_from(j).is_err()) {
        return Err(Failure::bad("no job has so large a number").field("job"));
    }
    let (seq, items, cursor) = app.brain().read(|s| {
        // What an attempt's verdict rests on is about its job, wherever it was found.
        let cited = q.job.map(|j| cited(s, &caller, JobId(j))).unwrap_or_default();
        let fits = |f: &Arc<ModelFinding>| {
            let mine = cited.contains(&f.id);
            q.open.is_none_or(|open| open == f.closed.is_none())
                && q.kind.as_ref().is_none_or(|k| f.seen.kind == *k)
                && least.is_none_or(|l| f.seen.severity >= l)
                && node.as_ref().is_none_or(|n: &NodeName| f.seen.entity.node() == Some(n))
                && q.job.is_none_or(|j| mine || f.seen.job() == Some(JobId(j)))
                && (mine || sees(s, &caller, f))
        };
        let (found, cursor) = paging::newest("findings", &s.health.findings, (limit, below), fits);
        (s.seq, found.into_iter().map(|f| view_for(s, &caller, f)).collect(), cursor)
    });
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &FindingList { items, cursor }))
}

/// Findings that the ends of a job's attempts are laid to.
fn cited(site: &Site, caller: &Caller, job: JobId) -> BTreeSet<u64> {
    let job = site.jobs.get(&job).filter(|j| caller.sees(&j.project));
    job.into_iter().flat_map(|j| j.past.iter().flat_map(|p| p.findings.iter().copied())).collect()
}

/// Is the end of an attempt of a job that the caller sees laid to it? The list of that job's findings has
/// it. Every job may be looked at: done aside.
async fn is_cited(app: &App, caller: &Caller, finding: u64) -> Reply<bool> {
    let (brain, asking) = (app.brain().clone(), caller.clone());
    let look = move || {
        let mut cited = false;
        jobs::each(&brain, |j| {
            cited = cited
                || asking.sees(&j.project) && j.past.iter().any(|p| p.findings.contains(&finding));
        });
        cited
    };
    app.aside(&caller.token, look).await
}

/// Get a finding.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/findings/{id}", tag = "health",
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The finding.", body = Finding))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(text): Segment,
) -> Reply {
    let id = id(&text, "finding")?;
    let (seq, found, own) = app.brain().read(|s| {
        let f = s.health.findings.get(&id);
        (s.seq, f.map(|f| view_for(s, &caller, f)), f.is_some_and(|f| sees(s, &caller, f)))
    });
    let shown = own || found.is_some() && is_cited(&app, &caller, id).await?;
    let found = found.filter(|_| shown);
    let found = found.ok_or_else(|| missing("finding", id, "muster findings --all"))?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &found))
}

/// Close a finding.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/findings/{id}/close", tag = "health",
    request_body = Option<ReasonRequest>,
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The finding as it is now.", body = Finding))))]
pub(crate) async fn close(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(text): Segment,
    OptionalBody { value, raw }: OptionalBody<ReasonRequest>,
) -> Reply {
    let id = id(&text, "finding")?;
    let command = Command::CloseFinding { id, reason: reason(value.reason, true)? };
    let seq = order(&app, &writer, &raw, command).await?;
    let found = app.brain().read(|s| s.health.findings.get(&id).map(|f| view(f)));
    let found = found.ok_or_else(|| missing("finding", id, "muster findings --all"))?;
    Ok(answer(&app, &writer.caller, StatusCode::OK, seq, None, &found))
}

/// List the failure modes: how each is found, what is done about it, and when it was last seen.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/failure-modes", tag = "health",
    responses((status = 200, description = "All of them.", body = FailureModeList))))]
pub(crate) async fn failure_modes(State(app): State<App>, Reader(caller): Reader) -> Reply {
    // Every runbook is read, and every finding looked at.
    let (asked, asking) = (app.clone(), caller.clone());
    let (seq, items) = app.aside(&caller.token, move || all_modes(&asked, &asking)).await?;
    let list = FailureModeList { items, cursor: None };
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &list))
}

fn all_modes(app: &App, caller: &Caller) -> (Seq, Vec<FailureMode>) {
    let books = app.brain().read(|s| s.runbooks.clone()).all();
    let serving = |mode: &str| -> Vec<String> {
        let serves = |b: &muster_runbook::ParsedRunbook| b.modes.iter().any(|m| m == mode);
        books.iter().filter(|(_, (b, _))| serves(b)).map(|(name, _)| name.clone()).collect()
    };
    let mut items: Vec<FailureMode> = modes::MODES
        .iter()
        .map(|m| FailureMode {
            code: m.code.into(),
            title: m.title.into(),
            class: m.class,
            severity: m.severity,
            detector: m.detector.into(),
            steps: m.steps.to_vec(),
            leave: m.leave,
            drill: m.drill.into(),
            false_alarm: m.false_alarm.into(),
            runbook: m.runbook.into(),
            runbooks: serving(m.code),
            open: 0,
            count: 0,
            last_seen: None,
        })
        .collect();
    let seq = app.brain().read_polled(|s| {
        for f in s.health.findings.values().filter(|f| sees(s, caller, f)) {
            let Some(m) = items.iter_mut().find(|m| m.code == f.seen.kind) else { continue };
            m.count += 1;
            m.open += u64::from(f.closed.is_none());
            m.last_seen = m.last_seen.max(Some(f.seen.last_seen.into()));
        }
        s.seq
    });
    (seq, items)
}
