//! The record of an incident (O14): what happened, what it cost, what people wrote; and a draft of
//! the report that is written afterwards.

use super::timeline::{self, About};
use super::{findings, id, incidents, missing, order};
use crate::brain::BrainError;
use crate::http::auth::{Reader, Writer};
use crate::http::error::{Failure, Reply};
use crate::http::extract::{JsonBody, OptionalBody, Segment};
use crate::http::{App, answer, mark};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use muster_api::{
    Incident, IncidentEntry, IncidentImpact, IncidentRecord, NoteRequest, OwnRequest,
};
use muster_engine::State as Site;
use muster_model::event::Event;
use muster_model::finding::{Finding, Incident as ModelIncident};
use muster_model::ids::JobId;
use muster_model::job::StopReason;
use muster_model::names::{NodeName, ProjectName};
use muster_model::remedy::Act;
use muster_model::tenant::Role;
use muster_model::units::{Span, Time};
use muster_model::{Command, Record, Seq};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Newest records that are looked through.
const LOOKED_AT: u64 = 200_000;
/// Records read at a time.
const BATCH: usize = 2048;
/// Entries of a record.
const ENTRIES: usize = 1000;
/// Nodes whose stories are told.
const NODES: usize = 64;
/// What happened so shortly before the first finding belongs to it.
const BEFORE: Span = Span::mins(10);

/// Everything that the log tells of an incident.
struct Story {
    incident: Arc<ModelIncident>,
    findings: BTreeMap<u64, Arc<Finding>>,
    abouts: Vec<About>,
    gpus: BTreeMap<NodeName, u64>,
    entries: Vec<IncidentEntry>,
    jobs: BTreeMap<JobId, Option<ProjectName>>,
    down: BTreeMap<NodeName, Time>,
    lost_ms: u64,
    pages: u32,
    runs: BTreeSet<u64>,
    cut: bool,
}

impl Story {
    fn new(s: &Site, incident: Arc<ModelIncident>) -> Story {
        let of = incident.findings.iter().filter_map(|f| s.health.findings.get(f));
        let findings: BTreeMap<u64, Arc<Finding>> = of.map(|f| (f.id, f.clone())).collect();
        let mut nodes: BTreeSet<NodeName> =
            findings.values().filter_map(|f| f.seen.entity.node().cloned()).collect();
        while nodes.len() > NODES {
            nodes.pop_last();
        }
        let gpus = |n: &NodeName| {
            s.nodes.get(n).map_or(0, |n| n.inventory.gpus.len() + n.missing_gpus.len()) as u64
        };
        Story {
            gpus: nodes.iter().map(|n| (n.clone(), gpus(n))).collect(),
            abouts: nodes.iter().map(|n| About::new(s, n)).collect(),
            incident,
            findings,
            entries: Vec::new(),
            jobs: BTreeMap::new(),
            down: BTreeMap::new(),
            lost_ms: 0,
            pages: 0,
            runs: BTreeSet::new(),
            cut: false,
        }
    }

    fn from(&self) -> Time {
        self.incident.began_at - BEFORE
    }

    /// What comes after its end belongs to it only where it names it.
    fn to(&self) -> Option<Time> {
        self.incident.closed.as_ref().map(|c| c.at)
    }

    fn add(&mut self, r: &Record, what: &str, node: Option<&NodeName>, text: String) {
        if self.entries.len() >= ENTRIES {
            self.cut = true;
            return;
        }
        let node = node.map(ToString::to_string);
        let (what, actor) = (what.to_owned(), r.actor.clone());
        self.entries.push(IncidentEntry { at: r.at.into(), what, node, actor, text });
    }

    fn read(&mut self, r: &Record) {
        let id = self.incident.id;
        match &r.event {
            Event::IncidentOpened { incident } if incident.id == id => {
                self.add(r, "incident", None, format!("opened: {}", incident.summary));
            }
            Event::IncidentGrew { id: i, summary, .. } if *i == id => {
                self.add(r, "incident", None, format!("grew: {summary}"));
            }
            Event::IncidentClosed { id: i, why } if *i == id => {
                self.add(r, "incident", None, format!("closed: {why}"));
            }
            Event::IncidentNoted { id: i, text } if *i == id => {
                self.add(r, "note", None, text.clone());
            }
            Event::IncidentOwned { id: i, owner } if *i == id => {
                let text = match owner {
                    Some(who) => format!("taken on by {who}"),
                    None => "let go by its owner".to_owned(),
                };
                self.add(r, "incident", None, text);
            }
            Event::RunbookStarted { run } => {
                let node = run.vars.get("node").and_then(|n| n.parse::<NodeName>().ok());
                let here = node.as_ref().is_some_and(|n| self.gpus.contains_key(n));
                let named = run.vars.get("incident").is_some_and(|i| *i == id.to_string());
                if here && self.within(r.at) || named {
                    self.runs.insert(run.id);
                    let text = format!("run {} of {} began", run.id, run.book);
                    self.add(r, "runbook", node.as_ref(), text);
                }
            }
            Event::RunbookStepDone { run, done, .. } if self.runs.contains(run) => {
                let what = [done.did.as_str(), done.saw.as_str(), done.note.as_str()];
                let what: Vec<&str> = what.into_iter().filter(|t| !t.is_empty()).collect();
                let text = format!(
                    "run {run}, step {}: {} {}",
                    done.step,
                    done.chose.as_deref().unwrap_or(done.outcome.word()),
                    what.join("; ")
                );
                self.add(r, "runbook", None, text.trim().to_owned());
            }
            Event::RunbookEnded { run, outcome, why, .. } if self.runs.contains(run) => {
                self.add(r, "runbook", None, format!("run {run} is {}: {why}", outcome.word()));
            }
            _ if self.within(r.at) => self.read_within(r),
            _ => {}
        }
    }

    fn within(&self, at: Time) -> bool {
        at >= self.from() && self.to().is_none_or(|end| at <= end)
    }

    fn read_within(&mut self, r: &Record) {
        match &r.event {
            Event::ActAsked { act } => {
                if let Act::Page { title, detail } = &act.act {
                    self.pages += 1;
                    self.add(r, "page", None, format!("{title}: {detail}"));
                    return;
                }
            }
            Event::BreakerSet { breaker, .. } if breaker.entity == self.incident.cause => {
                let text = format!(
                    "breaker {} is {}: {}",
                    breaker.entity,
                    breaker.state.word(),
                    breaker.reason
                );
                self.add(r, "breaker", None, text);
                return;
            }
            Event::FindingOpened { finding, .. }
                if self.findings.contains_key(&finding.id)
                    && finding.seen.entity.node().is_none() =>
            {
                let e = &finding.seen.entity;
                self.add(r, "finding", None, format!("{} on {e}", finding.seen.kind));
                return;
            }
            Event::AutomationStopped { reason, .. } => {
                self.add(r, "automation", None, format!("stopped: {reason}"));
                return;
            }
            Event::StopOrdered { key, reason, .. } => {
                let (StopReason::NodeLost { node }
                | StopReason::Drain { node }
                | StopReason::Sick { node, .. }) = reason
                else {
                    return;
                };
                if self.gpus.contains_key(node) {
                    self.jobs.insert(key.job, r.project.clone());
                }
            }
            Event::NodeLost { node, .. } => self.goes_down(node, r.at),
            Event::NodeStaged { node, stage, .. } => {
                if *stage == muster_model::node::Stage::Ready {
                    self.comes_up(node, r.at);
                } else {
                    self.goes_down(node, r.at);
                }
            }
            Event::NodeBack { node, .. } | Event::NodeReady { node, .. } => {
                self.comes_up(node, r.at);
            }
            _ => {}
        }
        let told =
            self.abouts.iter().find_map(|a| timeline::told(r, a).map(|e| (a.node().clone(), e)));
        if let Some((node, e)) = told {
            self.add(r, e.what.word(), Some(&node), e.text);
        }
    }

    fn goes_down(&mut self, node: &NodeName, at: Time) {
        if self.gpus.contains_key(node) {
            self.down.entry(node.clone()).or_insert(at);
        }
    }

    fn comes_up(&mut self, node: &NodeName, at: Time) {
        if let Some(since) = self.down.remove(node) {
            let gpus = self.gpus.get(node).copied().unwrap_or(0);
            self.lost_ms = self.lost_ms.saturating_add(at.since(since).0.saturating_mul(gpus));
        }
    }

    fn impact(&mut self, now: Time) -> IncidentImpact {
        let end = self.to().unwrap_or(now);
        let still: Vec<NodeName> = self.down.keys().cloned().collect();
        for n in still {
            self.comes_up(&n, end);
        }
        let i = &self.incident;
        let projects: BTreeSet<String> =
            self.jobs.values().flatten().map(ToString::to_string).collect();
        IncidentImpact {
            seconds: end.since(i.began_at).0 / 1000,
            seconds_to_detect: i.opened_at.since(i.began_at).0 / 1000,
            nodes: self.gpus.keys().map(ToString::to_string).collect(),
            gpu_milli_hours: self.lost_ms / 3600,
            jobs: self.jobs.keys().map(|j| j.0).collect(),
            projects: projects.into_iter().collect(),
            pages: self.pages,
        }
    }
}

async fn record_of(app: &App, id: u64) -> Reply<(Seq, IncidentRecord)> {
    let found = app.brain().read(|s| {
        let i = s.health.incidents.get(&id)?;
        let mut shown = incidents::view(i);
        let of = i.findings.iter().filter_map(|f| s.health.findings.get(f));
        shown.findings = of.map(|f| findings::view(f)).collect();
        let books = s.runbooks.for_mode(&i.kind);
        Some((s.seq, Story::new(s, Arc::clone(i)), shown, books))
    });
    let (seq, mut story, mut shown, runbooks) =
        found.ok_or_else(|| missing("incident", id, "/v1/incidents"))?;
    let nodes: BTreeSet<NodeName> = story.gpus.keys().cloned().collect();
    shown.changes = incidents::changes(app, &story.incident, &nodes).await;
    // Findings were there before the incident was known as one.
    let first = story.incident.findings.first().copied().unwrap_or(id).min(id);
    let mut after = Seq(first.saturating_sub(256).max(seq.0.saturating_sub(LOOKED_AT)));
    story.cut |= after.0 > first;
    while after < seq {
        let records = match app.brain().records(after, BATCH).await {
            Ok(records) => records,
            Err(BrainError::Archived { behind }) if behind > after => {
                (after, story.cut) = (behind, true);
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        let Some(last) = records.last() else { break };
        after = last.seq;
        records.iter().for_each(|r| story.read(r));
        tokio::task::yield_now().await;
    }
    let impact = story.impact(app.brain().now());
    let (timeline, cut) = (story.entries, story.cut);
    Ok((seq, IncidentRecord { incident: shown, runbooks, impact, timeline, cut }))
}

/// Get the record of an incident: its timeline, what it cost, and what people wrote.
#[utoipa::path(get, path = "/v1/incidents/{id}/record", tag = "health",
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The record.", body = IncidentRecord)))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(text): Segment,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let (seq, record) = record_of(&app, id(&text, "incident")?).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &record))
}

/// Get a draft of the report on an incident, as Markdown.
#[utoipa::path(get, path = "/v1/incidents/{id}/report", tag = "health",
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The draft.", body = String, content_type = "text/markdown")))]
pub(crate) async fn report(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(text): Segment,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let (seq, record) = record_of(&app, id(&text, "incident")?).await?;
    let kind = [(header::CONTENT_TYPE, "text/markdown; charset=utf-8")];
    let mut response = (StatusCode::OK, kind, draft(&record)).into_response();
    mark(response.headers_mut(), &app, &caller, seq);
    Ok(response)
}

/// Write something down about an incident.
#[utoipa::path(post, path = "/v1/incidents/{id}/note", tag = "health", request_body = NoteRequest,
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The incident.", body = Incident)))]
pub(crate) async fn note(
    State(app): State<App>,
    writer: Writer,
    Segment(text): Segment,
    JsonBody { value, raw }: JsonBody<NoteRequest>,
) -> Reply {
    let id = id(&text, "incident")?;
    told(&app, &writer, &raw, id, Command::NoteIncident { id, text: value.text }).await
}

/// Take an incident on, or let it go.
#[utoipa::path(post, path = "/v1/incidents/{id}/own", tag = "health",
    request_body = Option<OwnRequest>,
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The incident.", body = Incident)))]
pub(crate) async fn own(
    State(app): State<App>,
    writer: Writer,
    Segment(text): Segment,
    OptionalBody { value, raw }: OptionalBody<OwnRequest>,
) -> Reply {
    let id = id(&text, "incident")?;
    let owner = match (value.release, value.owner) {
        (true, Some(_)) => {
            return Err(Failure::senseless("it names an owner and lets it go").field("release"));
        }
        (true, None) => None,
        (false, owner) => Some(owner.unwrap_or_else(|| writer.caller.actor.name.clone())),
    };
    told(&app, &writer, &raw, id, Command::OwnIncident { id, owner }).await
}

async fn told(app: &App, writer: &Writer, raw: &[u8], id: u64, command: Command) -> Reply {
    let seq = order(app, writer, raw, command).await?;
    let found = app.brain().read(|s| s.health.incidents.get(&id).map(|i| incidents::view(i)));
    let found = found.ok_or_else(|| missing("incident", id, "/v1/incidents"))?;
    Ok(answer(app, &writer.caller, StatusCode::OK, seq, None, &found))
}

/// One line, whatever was in it.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}

/// What is known, in the order in which a report is written; what people must add is left open.
fn draft(r: &IncidentRecord) -> String {
    let (i, m) = (&r.incident, &r.impact);
    let mut out = String::new();
    let _ = writeln!(out, "# Incident {}: {}\n", i.id, line(&i.summary));
    let _ =
        writeln!(out, "Draft made from the log. What a person has to add is marked with TODO.\n");
    let _ = writeln!(out, "| | |\n| --- | --- |");
    let owner = i.owner.as_deref().unwrap_or("TODO: nobody took it on");
    let ended = i.closed_at.map_or_else(|| "still open".to_owned(), |t| t.to_string());
    for (k, v) in [
        ("kind", format!("{} ({})", i.kind, i.title)),
        ("cause", i.cause.to_string()),
        ("severity", i.severity.word().to_owned()),
        ("owner", owner.to_owned()),
        ("began", i.began_at.to_string()),
        ("known", format!("{} ({} s later)", i.opened_at, m.seconds_to_detect)),
        ("ended", ended),
        ("lasted", Span(m.seconds * 1000).to_string()),
    ] {
        let _ = writeln!(out, "| {k} | {} |", line(&v));
    }
    let _ = writeln!(out, "\n## Impact\n");
    let _ = writeln!(
        out,
        "- {} nodes, {}.{:03} GPU-hours in which they could not work",
        m.nodes.len(),
        m.gpu_milli_hours / 1000,
        m.gpu_milli_hours % 1000
    );
    let list = |l: &[String]| if l.is_empty() { "none".to_owned() } else { l.join(", ") };
    let jobs: Vec<String> = m.jobs.iter().map(ToString::to_string).collect();
    let _ = writeln!(out, "- jobs that were hit: {}", list(&jobs));
    let _ = writeln!(out, "- projects to tell: {}", list(&m.projects));
    let _ = writeln!(out, "- people were called {} times", m.pages);
    let _ = writeln!(out, "- findings: {}", i.count);
    let _ = writeln!(out, "\n## What happened\n\nTODO: in three sentences.\n");
    let _ = writeln!(out, "## What was changed shortly before\n");
    if i.changes.is_empty() {
        let _ = writeln!(out, "Nothing that the log knows of.");
    }
    for c in &i.changes {
        let _ = writeln!(out, "- {} {} ({})", c.at, line(&c.text), c.actor);
    }
    let _ = writeln!(
        out,
        "\n## Timeline\n\n| when | what | where | who | |\n| --- | --- | --- | --- | --- |"
    );
    for e in &r.timeline {
        let node = e.node.as_deref().unwrap_or("");
        let _ =
            writeln!(out, "| {} | {} | {node} | {} | {} |", e.at, e.what, e.actor, line(&e.text));
    }
    if r.cut {
        let _ = writeln!(out, "\nThere was more than is shown, or a part of the log is archived.");
    }
    let _ = writeln!(out, "\n## Notes\n");
    if i.notes.is_empty() {
        let _ = writeln!(out, "None were written.");
    }
    for n in &i.notes {
        let _ = writeln!(out, "- {} {}: {}", n.at, n.by, line(&n.text));
    }
    let _ =
        writeln!(out, "\n## Why it happened\n\nTODO\n\n## What went well, what did not\n\nTODO\n");
    let _ = writeln!(out, "## Actions\n\n- [ ] TODO: what, who, until when");
    if !r.runbooks.is_empty() {
        let _ = writeln!(
            out,
            "- [ ] does the runbook still say the right thing: {}",
            r.runbooks.join(", ")
        );
    }
    out
}
