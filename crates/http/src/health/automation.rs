//! The control plane's own hand: how it stands, stop, resume.

use super::{order, reason};
use crate::auth::{Reader, Writer};
use crate::error::Reply;
use crate::extract::OptionalBody;
use crate::jobs::Nothing;
use crate::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{Automation, ReasonRequest, TakenNode};
use muster_engine::State as Site;
use muster_model::Command;
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::remedy::{Action, RemedyStep};
use muster_model::tenant::Role;
use muster_model::units::{Span, Time};
use std::collections::BTreeSet;

pub(crate) fn view(s: &Site, now: Time) -> Automation {
    let policy = &s.policy.remedies;
    let a = &s.health.automation;
    let nodes = s.nodes.values().filter(|n| n.stage != Stage::Retired).count();
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    let (total, per_hour) = policy.limits.fleet.of(nodes);
    let out: BTreeSet<&NodeName> = s
        .health
        .live_remedies()
        .filter(|r| r.action.takes_node())
        .filter(|r| !matches!(r.step, RemedyStep::Proposed | RemedyStep::Probation))
        .map(|r| &r.node)
        .collect();
    let stopped = a.stopped.as_ref();
    Automation {
        state: match (policy.enabled, stopped) {
            (false, _) => "off",
            (true, Some(_)) => "stopped",
            (true, None) => "running",
        }
        .into(),
        stopped_at: stopped.map(|s| s.at.into()),
        reason: stopped.map(|s| s.reason.clone()),
        by_operator: stopped.is_some_and(|s| s.word),
        resumed_at: a.resumed_at.map(Into::into),
        modes: Action::ALL.iter().map(|x| (x.word().to_owned(), policy.mode(*x))).collect(),
        nodes,
        out: u32::try_from(out.len()).unwrap_or(u32::MAX),
        out_at_most: total,
        taken: a
            .taken
            .iter()
            .filter(|(at, _)| now.since(*at) < Span::hours(1))
            .map(|(at, node)| TakenNode { at: (*at).into(), node: node.to_string() })
            .collect(),
        taken_at_most: per_hour,
    }
}

/// Say how automation stands, and how far it may still go.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/automation", tag = "health",
    responses((status = 200, description = "How it stands.", body = Automation))))]
pub(crate) async fn get(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Viewer)?;
    let now = app.brain().now();
    let (seq, shown) = app.brain().read(|s| (s.seq, view(s, now)));
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &shown))
}

/// Stop automation: nothing more is done to nodes until it is resumed.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/automation/stop", tag = "health",
    request_body = Option<ReasonRequest>,
    responses((status = 200, description = "How it stands now.", body = Automation))))]
pub(crate) async fn stop(
    State(app): State<App>,
    writer: Writer,
    OptionalBody { value, raw }: OptionalBody<ReasonRequest>,
) -> Reply {
    writer.caller.over_site(Role::Operator)?;
    let command = Command::StopAutomation { reason: reason(value.reason, false)? };
    told(&app, &writer, &raw, command).await
}

/// Let automation go on.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/automation/resume", tag = "health",
    responses((status = 200, description = "How it stands now.", body = Automation))))]
pub(crate) async fn resume(
    State(app): State<App>,
    writer: Writer,
    OptionalBody { raw, .. }: OptionalBody<Nothing>,
) -> Reply {
    told(&app, &writer, &raw, Command::ResumeAutomation).await
}

async fn told(app: &App, writer: &Writer, raw: &[u8], command: Command) -> Reply {
    let seq = order(app, writer, raw, command).await?;
    let now = app.brain().now();
    let shown = app.brain().read(|s| view(s, now));
    Ok(answer(app, &writer.caller, StatusCode::OK, seq, None, &shown))
}
