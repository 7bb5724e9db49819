//! The record of an incident: what happened, what it cost, what people wrote; and a draft of
//! the report that is written afterwards.

use super::incident_timeline::IncidentTimeline;
use super::{findings, id, incidents, missing, order, reason};
use crate::auth::{OperatorWriter, Reader, Writer};
use crate::error::{Failure, Reply};
use crate::extract::{JsonBody, OptionalBody, Segment};
use crate::{App, answer, mark};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use muster_api::{IncidentRecord, NoteRequest, OwnRequest, ReasonRequest};
use muster_model::tenant::Role;
use muster_model::units::Span;
use muster_model::{Command, Seq};
use muster_server::follower::Cursor;
use std::fmt::Write as _;
use std::sync::Arc;

/// Newest records that are looked through.
const LOOKED_AT: u64 = 200_000;

/// The record, and how often somebody was to be called.
async fn record_of(app: &App, id: u64) -> Reply<(Seq, IncidentRecord, u32)> {
    let found = app.brain().read(|s| {
        let i = s.health.incidents.get(&id)?;
        let mut shown = incidents::view(i);
        let of = i.findings.iter().filter_map(|f| s.health.findings.get(f));
        shown.findings = of.map(|f| findings::view(f)).collect();
        let books = s.runbooks.for_mode(&i.kind);
        Some((s.seq, IncidentTimeline::new(s, Arc::clone(i)), shown, books))
    });
    let (seq, mut incident_timeline, mut shown, runbooks) =
        found.ok_or_else(|| missing("incident", id, "muster incident --all"))?;
    shown.changes =
        incidents::changes(app, &incident_timeline.incident, &incident_timeline.nodes()).await?;
    let first = incident_timeline.first();
    let after = Seq(first.saturating_sub(256).max(seq.0.saturating_sub(LOOKED_AT)));
    let mut log = Cursor::new(app.brain(), after);
    while let Some(records) = log.next_batch(seq).await? {
        records.iter().for_each(|r| incident_timeline.read(r));
    }
    incident_timeline.cut |= after.0 > first || log.is_cut();
    // The same as the reports of the jobs show for these attempts: it is final once they have ended.
    let mut lost = 0;
    for (id, attempts) in &std::mem::take(&mut incident_timeline.interrupted) {
        let Some(job) = app.brain().read(|s| s.jobs.get(id).cloned()) else { continue };
        let figures = app.agents().metering().job_metrics(&job).await;
        lost += figures.goodput.lost_by(attempts);
    }
    let impact = incident_timeline.impact(app.brain().now(), lost);
    let (timeline, cut, wanted) =
        (incident_timeline.entries, incident_timeline.cut, incident_timeline.wanted);
    Ok((seq, IncidentRecord { incident: shown, runbooks, impact, timeline, cut }, wanted))
}

/// Get the record of an incident: its timeline, what it cost, and what people wrote.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/incidents/{id}/record", tag = "health",
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The record.", body = IncidentRecord))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(text): Segment,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let (seq, record, _) = record_of(&app, id(&text, "incident")?).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &record))
}

/// Get a draft of the report on an incident, as Markdown.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/incidents/{id}/report", tag = "health",
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The draft.", body = String, content_type = "text/markdown"))))]
pub(crate) async fn report(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(text): Segment,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let (seq, record, wanted) = record_of(&app, id(&text, "incident")?).await?;
    let kind = [(header::CONTENT_TYPE, "text/markdown; charset=utf-8")];
    let mut response = (StatusCode::OK, kind, draft(&record, wanted)).into_response();
    mark(response.headers_mut(), &app, &caller, seq);
    Ok(response)
}

/// Write something down about an incident.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/incidents/{id}/note", tag = "health", request_body = NoteRequest,
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The incident.", body = muster_api::Incident))))]
pub(crate) async fn note(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(text): Segment,
    JsonBody { value, raw }: JsonBody<NoteRequest>,
) -> Reply {
    let id = id(&text, "incident")?;
    submit_command(&app, &writer, &raw, id, Command::NoteIncident { id, text: value.text }).await
}

/// Assign an incident, or end its assignment.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/incidents/{id}/own", tag = "health",
    request_body = Option<OwnRequest>,
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The incident.", body = muster_api::Incident))))]
pub(crate) async fn own(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
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
    submit_command(&app, &writer, &raw, id, Command::OwnIncident { id, owner }).await
}

/// Close an incident, and with it every finding of it that is open. What is still seen is found anew.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/incidents/{id}/close", tag = "health",
    request_body = Option<ReasonRequest>,
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The incident.", body = muster_api::Incident))))]
pub(crate) async fn close(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(text): Segment,
    OptionalBody { value, raw }: OptionalBody<ReasonRequest>,
) -> Reply {
    let id = id(&text, "incident")?;
    let command = Command::CloseIncident { id, reason: reason(value.reason, true)? };
    submit_command(&app, &writer, &raw, id, command).await
}

async fn submit_command(
    app: &App,
    writer: &Writer,
    raw: &[u8],
    id: u64,
    command: Command,
) -> Reply {
    let seq = order(app, writer, raw, command).await?;
    let found = app.brain().read(|s| s.health.incidents.get(&id).map(|i| incidents::view(i)));
    let found = found.ok_or_else(|| missing("incident", id, "muster incident --all"))?;
    Ok(answer(app, &writer.caller, StatusCode::OK, seq, None, &found))
}

/// One line, whatever was in it.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}

/// Who was called: what reached somebody, and where nothing did, what would have.
fn called(pages: u32, wanted: u32) -> String {
    match (pages, wanted) {
        (0, 0) => "nobody was called".to_owned(),
        (0, n) => {
            format!(
                "people would have been called {n} times: nobody was reached (see `muster routing`)"
            )
        }
        (n, _) => format!("people were called {n} times"),
    }
}

/// What is known, in the order in which a report is written; what people must add is left open.
fn draft(r: &IncidentRecord, wanted: u32) -> String {
    let (i, m) = (&r.incident, &r.impact);
    let mut out = String::new();
    let _ = writeln!(out, "# Incident {}: {}\n", i.id, line(&i.summary));
    let _ =
        writeln!(out, "Draft made from the log. What a person has to add is marked with TODO.\n");
    let _ = writeln!(out, "| | |\n| --- | --- |");
    let owner = i.owner.as_deref().unwrap_or("TODO: assigned to nobody");
    let ended = i.closed_at.map_or_else(|| "still open".to_owned(), |t| t.to_string());
    for (k, v) in [
        ("kind", format!("{} ({})", i.kind, i.title)),
        ("cause", i.cause.to_string()),
        ("severity", i.severity.word().to_owned()),
        ("owner", owner.to_owned()),
        ("began", i.began_at.to_string()),
        ("opened", format!("{} ({} s after it began)", i.opened_at, m.seconds_to_detect)),
        ("ended", ended),
        ("lasted", Span(m.seconds * 1000).to_string()),
    ] {
        let _ = writeln!(out, "| {k} | {} |", line(&v));
    }
    let _ = writeln!(out, "\n## Impact\n");
    let _ = writeln!(
        out,
        "- {} nodes, {}.{:03} GPU-hours out of service",
        m.nodes.len(),
        m.gpu_milli_hours / 1000,
        m.gpu_milli_hours % 1000
    );
    let (whole, part) = (m.lost_gpu_milli_hours / 1000, m.lost_gpu_milli_hours % 1000);
    let _ = writeln!(out, "- {whole}.{part:03} GPU-hours of work lost by interrupted attempts");
    let list = |l: &[String]| if l.is_empty() { "none".to_owned() } else { l.join(", ") };
    let _ = writeln!(out, "- jobs affected: {}", list(&m.job_words()));
    let _ = writeln!(out, "- projects to notify: {}", list(&m.projects));
    let _ = writeln!(out, "- {}", called(m.pages, wanted));
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

#[cfg(test)]
mod tests {
    use super::called;

    #[test]
    fn only_who_was_reached_was_called() {
        assert_eq!(called(2, 3), "people were called 2 times");
        assert!(called(0, 2).starts_with("people would have been called 2 times"));
        assert_eq!(called(0, 0), "nobody was called");
    }
}
