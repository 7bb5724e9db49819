//! What is done about findings, and an operator's word on it.

use super::{id, missing, node_name, order, reason};
use crate::auth::{OperatorWriter, Reader};
use crate::error::Reply;
use crate::extract::{OptionalBody, Query, Segment};
use crate::jobs::Nothing;
use crate::{App, answer, answer_bytes, paging};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use muster_api::{ReasonRequest, Remediation, RemediationsQuery};
use muster_engine::State as Site;
use muster_model::Command;
use muster_model::remediation::Remediation as ModelRemediation;
use muster_model::tenant::Role;
use std::sync::Arc;

/// The remediation as the API shows it, with its act.
pub(crate) fn view(s: &Site, r: &ModelRemediation) -> Remediation {
    let act = r.act.and_then(|id| s.health.acts.get(&id));
    Remediation::of(r, act.map(|a| &**a), s.is_delayed(r), s.returns_node(r))
}

/// List remediations, newest first.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/remediations", tag = "health", params(RemediationsQuery),
    responses((status = 200, description = "A page of remediations.", body = muster_api::RemediationList))))]
pub(crate) async fn list(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<RemediationsQuery>,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let limit = paging::limit(q.limit)?;
    let below: Option<u64> = paging::decode("remediations", q.cursor.as_deref())?;
    let node = node_name(q.node.as_deref())?;
    let (seq, items, cursor) = app.brain().read(|s| {
        let fits = |r: &Arc<ModelRemediation>| {
            q.open.is_none_or(|open| open == r.outcome.is_none())
                && node.as_ref().is_none_or(|n| r.node == *n)
        };
        let (found, cursor) =
            paging::newest("remediations", &s.health.remediations, (limit, below), fits);
        let items: Vec<_> = found.into_iter().map(|r| (r.id, view(s, r))).collect();
        (s.seq, items, cursor)
    });
    let bytes = paging::numbered("remediations", items, cursor)?;
    Ok(answer_bytes(&app, &caller, StatusCode::OK, seq, None, bytes))
}

/// Get a remediation.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/remediations/{id}", tag = "health",
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The remediation.", body = Remediation))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(text): Segment,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let id = id(&text, "remediation")?;
    let (seq, found) =
        app.brain().read(|s| (s.seq, s.health.remediations.get(&id).map(|r| view(s, r))));
    let found = found.ok_or_else(|| missing("remediation", id, "muster remediations --all"))?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &found))
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $path:literal, $body:ty, [$($request:tt)*], |$id:ident, $value:ident| $command:expr) => {
        $(#[$doc])*
        #[cfg_attr(feature = "openapi", utoipa::path(post, path = $path, tag = "health", $($request)*
            params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
            responses((status = 200, description = "The remediation as it is now.", body = Remediation))))]
        pub(crate) async fn $name(
            State(app): State<App>,
            OperatorWriter(writer): OperatorWriter,
            Segment(text): Segment,
            OptionalBody { value: $value, raw }: OptionalBody<$body>,
        ) -> Reply<Response> {
            let $id = id(&text, "remediation")?;
            let command = $command;
            let seq = order(&app, &writer, &raw, command).await?;
            let now = app.brain().read(|s| s.health.remediations.get(&$id).map(|r| view(s, r)));
            let now = now.ok_or_else(|| missing("remediation", $id, "muster remediations --all"))?;
            Ok(answer(&app, &writer.caller, StatusCode::OK, seq, None, &now))
        }
    };
}

word!(
    /// Approve a remediation that waits: it is done.
    approve, "/v1/remediations/{id}/approve", Nothing, [],
    |id, _value| Command::ApproveRemediation { id }
);
word!(
    /// Deny a remediation that waits: it is not done, and its node stays as it is.
    deny, "/v1/remediations/{id}/deny", ReasonRequest, [request_body = Option<ReasonRequest>,],
    |id, value| Command::DenyRemediation { id, reason: reason(value.reason, false)? }
);
word!(
    /// Undo a remediation: its node serves again, after a reset or reboot once it is tested.
    undo, "/v1/remediations/{id}/undo", ReasonRequest, [request_body = Option<ReasonRequest>,],
    |id, value| Command::UndoRemediation { id, reason: reason(value.reason, true)? }
);
