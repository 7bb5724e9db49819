//! The control plane's own hand: how it stands, stop, resume.

use super::{order, reason};
use crate::auth::{OperatorWriter, Reader, Writer};
use crate::error::Reply;
use crate::extract::OptionalBody;
use crate::jobs::Nothing;
use crate::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{Automation, NodeTakenOut, ReasonRequest};
use muster_engine::State as Site;
use muster_model::Command;
use muster_model::names::NodeName;
use muster_model::remediation::Action;
use muster_model::tenant::Role;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

pub(crate) fn view(s: &Site, now: Time) -> Automation {
    let policy = &s.policy.remediations;
    let a = &s.health.automation;
    let held = s.held_by_automation(now);
    let (total, per_hour) = held.share.of(held.nodes);
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
        by_operator: stopped.is_some_and(|s| s.by_operator),
        resumed_at: a.resumed_at.map(Into::into),
        modes: Action::ALL.iter().map(|x| (x.word().to_owned(), policy.mode(*x))).collect(),
        nodes: held.nodes,
        out: held.out,
        out_approved: held.out_approved,
        isolated_milli: held.parts,
        out_at_most: total,
        taken: taken(s, now),
        isolated_hour_milli: held.parts_hour,
        taken_at_most: per_hour,
    }
}

/// Nodes that were taken within the last hour, each once and with the last time.
fn taken(s: &Site, now: Time) -> Vec<NodeTakenOut> {
    let all = s.health.automation.taken.iter();
    let hour = all.filter(|(at, _)| now.since(*at) < Span::hours(1));
    let last: BTreeMap<&NodeName, Time> = hour.map(|(at, node)| (node, *at)).collect();
    let mut last: Vec<(Time, &NodeName)> = last.into_iter().map(|(node, at)| (at, node)).collect();
    last.sort();
    let reported = |(at, node): (Time, &NodeName)| NodeTakenOut {
        at: at.into(),
        node: node.to_string(),
        approved: s.taken_by_operator(node),
    };
    last.into_iter().map(reported).collect()
}

/// Get the status of automation, and its limits.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/automation", tag = "health",
    responses((status = 200, description = "Its status.", body = Automation))))]
pub(crate) async fn get(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Viewer)?;
    let now = app.brain().now();
    let (seq, shown) = app.brain().read(|s| (s.seq, view(s, now)));
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &shown))
}

/// Stop automation: nothing more is done to nodes until it is resumed.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/automation/stop", tag = "health",
    request_body = Option<ReasonRequest>,
    responses((status = 200, description = "Its status now.", body = Automation))))]
pub(crate) async fn stop(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    OptionalBody { value, raw }: OptionalBody<ReasonRequest>,
) -> Reply {
    let command = Command::StopAutomation { reason: reason(value.reason, false)? };
    submit_command(&app, &writer, &raw, command).await
}

/// Resume automation.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/automation/resume", tag = "health",
    responses((status = 200, description = "Its status now.", body = Automation))))]
pub(crate) async fn resume(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    OptionalBody { raw, .. }: OptionalBody<Nothing>,
) -> Reply {
    submit_command(&app, &writer, &raw, Command::ResumeAutomation).await
}

async fn submit_command(app: &App, writer: &Writer, raw: &[u8], command: Command) -> Reply {
    let seq = order(app, writer, raw, command).await?;
    let now = app.brain().now();
    let shown = app.brain().read(|s| view(s, now));
    Ok(answer(app, &writer.caller, StatusCode::OK, seq, None, &shown))
}
