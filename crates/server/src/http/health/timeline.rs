//! What happened to a node: faults, findings, remedies, stages, tests, jobs that were hit.

use super::title;
use crate::brain::BrainError;
use crate::http::auth::Reader;
use crate::http::error::{Failure, Reply};
use crate::http::extract::{Query, Segment};
use crate::http::{App, answer, paging};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::remedy::outcome_words;
use muster_api::{TimelineEntry, TimelineKind, TimelineList, TimelineQuery};
use muster_engine::State as Site;
use muster_model::event::Event;
use muster_model::finding::Severity;
use muster_model::job::{SlotEnd, StopReason};
use muster_model::names::{NameError, NodeName};
use muster_model::remedy::RemedyStep;
use muster_model::tenant::Role;
use muster_model::units::Time;
use muster_model::{Record, Seq};

/// Newest records of the log that are looked through.
const LOOKED_AT: u64 = 20_000;
/// Records read at a time.
const BATCH: usize = 1024;

/// List what happened to a node, newest first: from what is remembered and the newest part of the
/// log.
#[utoipa::path(get, path = "/v1/nodes/{name}/timeline", tag = "health", params(TimelineQuery,
    ("name" = String, Path, description = "The node's name.")),
    responses((status = 200, description = "What happened.", body = TimelineList)))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(name): Segment,
    Query(q): Query<TimelineQuery>,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let limit = paging::limit(q.limit)?;
    let node: NodeName =
        name.parse().map_err(|e: NameError| Failure::bad(e.to_string()).field("name"))?;
    let found =
        app.brain().read(|s| s.nodes.contains_key(&node).then(|| (s.seq, remembered(s, &node))));
    let (seq, mut items) = found.ok_or_else(|| {
        Failure::not_found(format!("there is no node {node}")).hint("GET /v1/nodes lists them")
    })?;
    items.extend(logged(&app, &node, seq).await?);
    items.sort_by(|a, b| b.at.cmp(&a.at));
    items.truncate(limit);
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &TimelineList { items, cursor: None }))
}

fn entry(at: Time, what: TimelineKind, text: String) -> TimelineEntry {
    TimelineEntry { at: at.into(), what, id: None, gpu: None, severity: None, text }
}

/// What the working state remembers of it.
fn remembered(s: &Site, node: &NodeName) -> Vec<TimelineEntry> {
    let mut out = Vec::new();
    for f in s.faults_of(node) {
        let hit = f.fault.attempt.map(|a| format!(", hit {a}")).unwrap_or_default();
        let times =
            if f.fault.count > 1 { format!(" {} times", f.fault.count) } else { String::new() };
        let text = format!("{}{times}{hit}: {}", f.fault.code, f.fault.text);
        out.push(TimelineEntry { gpu: f.fault.gpu, ..entry(f.at, TimelineKind::Fault, text) });
    }
    for f in s.health.findings.values().filter(|f| f.seen.entity.node() == Some(node)) {
        let about = |at, severity: Severity, text| TimelineEntry {
            id: Some(f.id.to_string()),
            gpu: f.seen.entity.gpu(),
            severity: Some(severity),
            ..entry(at, TimelineKind::Finding, text)
        };
        let why = f.seen.evidence.first().map(|e| format!(": {e}")).unwrap_or_default();
        let name = title(&f.seen.kind);
        out.push(about(f.opened_at, f.seen.severity, format!("{} ({name}){why}", f.seen.kind)));
        if let Some(c) = &f.closed {
            out.push(about(c.at, Severity::Info, format!("{} is over: {}", f.seen.kind, c.why)));
        }
    }
    for r in s.health.remedies.values().filter(|r| r.node == *node) {
        let step = |at, text| TimelineEntry {
            id: Some(r.id.to_string()),
            gpu: r.gpu,
            ..entry(at, TimelineKind::Remedy, text)
        };
        out.push(step(r.at, format!("chosen for {}: {}", r.kind, r.action.words())));
        let ended = |s: &RemedyStep| *s == RemedyStep::Ended;
        for (at, s) in r.taken.iter().filter(|(_, s)| !ended(s)) {
            out.push(step(*at, s.words().to_owned()));
        }
        if let Some(o) = r.outcome {
            out.push(step(r.since, format!("{}: {}", outcome_words(o), r.why)));
        }
    }
    for a in s.health.acts.values().filter(|a| a.act.node() == Some(node)) {
        let act = |at, text| TimelineEntry {
            id: Some(a.id.to_string()),
            ..entry(at, TimelineKind::Act, text)
        };
        out.push(act(a.at, format!("{} was asked for", a.act.word())));
        if let Some(e) = &a.ended {
            let how = if e.ok { "done" } else { "failed" };
            out.push(act(e.at, format!("{} {how}: {}", a.act.word(), e.message)));
        }
    }
    out
}

/// What only the log tells: stages, tests, jobs that were hit.
async fn logged(app: &App, node: &NodeName, end: Seq) -> Reply<Vec<TimelineEntry>> {
    let mut after = Seq(end.0.saturating_sub(LOOKED_AT));
    let mut out = Vec::new();
    while after < end {
        let records = match app.brain().records(after, BATCH).await {
            Ok(records) => records,
            // What is older lies in the archive.
            Err(BrainError::Archived { behind }) if behind > after => {
                after = behind;
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        let Some(last) = records.last() else { break };
        after = last.seq;
        out.extend(records.iter().filter_map(|r| told(r, node)));
    }
    Ok(out)
}

fn told(r: &Record, node: &NodeName) -> Option<TimelineEntry> {
    let about = |n: &NodeName| n == node;
    let because = |what: &str, why: &str| {
        if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
    };
    let stage = |text: String| Some(entry(r.at, TimelineKind::Stage, text));
    match &r.event {
        Event::NodeEnrolled { node, .. } if about(node) => stage("joined".into()),
        Event::NodeStaged { node, stage: s, reason, .. } if about(node) => {
            stage(because(muster_lifecycle::word(*s), reason))
        }
        Event::NodeReady { node, reason } if about(node) => stage(because("ready", reason)),
        Event::DrainStarted { node, reason } if about(node) => stage(because("draining", reason)),
        Event::NodeDrained { node } if about(node) => stage("drained".into()),
        Event::NodeCordoned { node, reason, .. } if about(node) => {
            stage(because("cordoned", reason))
        }
        Event::NodeUncordoned { node } if about(node) => stage("uncordoned".into()),
        Event::NodeLost { node, .. } if about(node) => stage("lost: its agent is not heard".into()),
        Event::NodeBack { node, boot, .. } if about(node) => {
            stage(format!("heard again, boot {boot}"))
        }
        Event::NodeRetired { node } if about(node) => stage("retired".into()),
        Event::GpusExcluded { node, gpus, reason, .. } if about(node) => {
            let list: Vec<String> = gpus.iter().map(|g| g.to_string()).collect();
            stage(because(
                &if list.is_empty() {
                    "all GPUs take work".into()
                } else {
                    format!("GPUs {} take no work", list.join(","))
                },
                reason,
            ))
        }
        Event::ProbationSet { node, until } if about(node) => stage(match until {
            Some(_) => "on probation".into(),
            None => "probation is over".into(),
        }),
        Event::QualificationAsked { node, level, .. } if about(node) => {
            let text = format!("{} test asked for", format!("{level:?}").to_lowercase());
            Some(entry(r.at, TimelineKind::Test, text))
        }
        Event::QualificationEnded { node, report, expired, .. } if about(node) => {
            let how = format!("{:?}", report.outcome).to_lowercase();
            let late = if *expired { ", nothing was heard of it in time" } else { "" };
            Some(entry(r.at, TimelineKind::Test, format!("test {how}{late}")))
        }
        Event::StopOrdered { key, reason, .. } if stopped_by(reason, node) => {
            let text = format!("attempt {key} is stopped: {reason}");
            let id = Some(key.job.to_string());
            Some(TimelineEntry { id, ..entry(r.at, TimelineKind::Job, text) })
        }
        Event::SlotEnded { key, node, end } if about(node) => {
            let text = match end {
                SlotEnd::Failed { exit } => format!("attempt {key} failed here: {exit}"),
                SlotEnd::NodeFault { reason } => format!("attempt {key} was failed here: {reason}"),
                SlotEnd::Ok | SlotEnd::Stopped | SlotEnd::Unstartable { .. } => return None,
            };
            let id = Some(key.job.to_string());
            Some(TimelineEntry { id, ..entry(r.at, TimelineKind::Job, text) })
        }
        _ => None,
    }
}

/// Is the node the reason?
fn stopped_by(reason: &StopReason, node: &NodeName) -> bool {
    match reason {
        StopReason::NodeLost { node: n }
        | StopReason::Drain { node: n }
        | StopReason::Sick { node: n, .. } => n == node,
        _ => false,
    }
}
