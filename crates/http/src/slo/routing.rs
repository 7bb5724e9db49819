//! Who is notified of what, and what waits for them.

use crate::auth::{AdminWriter, Reader};
use crate::error::Reply;
use crate::extract::{JsonBody, Query};
use crate::policy::{content_version, same_version};
use crate::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{Kind, Receiver, ReceiverList, Routing, SetDocumentQuery, SetRouting};
use muster_model::alert::{self, Channel};
use muster_model::command::RefusalCode;
use muster_model::tenant::Role;
use muster_model::{Command, Refusal, Seq};
use std::sync::Arc;

fn document(app: &App) -> (Seq, Routing) {
    let (seq, routing) = app.brain().read(|s| (s.seq, Arc::clone(&s.slo.routing)));
    let version = content_version(&*routing);
    (seq, Routing { kind: Kind::Routing, version, routing })
}

/// Are the addresses of all receivers URLs that something can be sent to? They are not repeated: they may
/// have passwords in them.
fn check_urls(routing: &alert::Routing) -> Result<(), Refusal> {
    for (i, r) in routing.receivers.iter().enumerate() {
        let (Channel::Alertmanager { url } | Channel::Webhook { url, .. }) = &r.by else {
            continue;
        };
        if let Err(e) = reqwest::Url::parse(url) {
            let message = format!("the address of receiver {} is no URL: {e}", r.name);
            return Err(Refusal::new(RefusalCode::Invalid, message)
                .field(format!("receivers[{i}].by.{}.url", r.by.word()))
                .hint("write it like http://host:port/path"));
        }
    }
    Ok(())
}

/// Get who is notified of what.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/routing", tag = "slo",
    responses((status = 200, description = "Receivers and routes.", body = Routing))))]
pub(crate) async fn get(State(app): State<App>, Reader(caller): Reader) -> Reply {
    // Addresses of chats and mailboxes are the operators'.
    caller.over_site(Role::Operator)?;
    let (seq, r) = document(&app);
    Ok(answer(&app, &caller, StatusCode::OK, seq, Some(r.version), &r))
}

/// Set who is notified of what: the whole of it.
///
/// With `dry_run=true` nothing is set: the answer says what it would be.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/routing", tag = "slo", request_body = SetRouting,
    params(SetDocumentQuery),
    responses((status = 200, description = "As it is now.", body = Routing))))]
pub(crate) async fn set(
    State(app): State<App>,
    AdminWriter(writer): AdminWriter,
    Query(q): Query<SetDocumentQuery>,
    JsonBody { value, raw }: JsonBody<SetRouting>,
) -> Reply {
    let _turn = app.turn().lock().await;
    let (seq, present) = document(&app);
    same_version(&app, &writer, &raw, "routing", Some(present.version))?;
    value.routing.check().map_err(Refusal::from)?;
    check_urls(&value.routing)?;
    if q.dry_run {
        let routing = value.routing;
        let version = content_version(&*routing);
        let would = Routing { kind: Kind::Routing, version, routing };
        return Ok(answer(&app, &writer.caller, StatusCode::OK, seq, None, &would));
    }
    let done = writer.put(&app, &raw, Command::SetRouting { routing: value.routing }).await?;
    let (_, r) = document(&app);
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, Some(r.version), &r))
}

/// List receivers, how each is doing, and what waits for it.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/receivers", tag = "slo",
    responses((status = 200, description = "The receivers.", body = ReceiverList))))]
pub(crate) async fn receivers(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Viewer)?;
    let now = app.brain().now();
    let (seq, routing) = app.brain().read(|s| (s.seq, Arc::clone(&s.slo.routing)));
    let backlog = app.post().backlog(app.brain(), now);
    let view = |b: muster_slo::notifications::Backlog| {
        let r = routing.receiver(&b.receiver);
        let failing = b.line.failures > 0;
        Receiver {
            id: b.receiver.to_string(),
            kind: Kind::Receiver,
            name: b.receiver.to_string(),
            state: if failing { "failing" } else { "ok" }.to_owned(),
            by: r.map_or("", |r| r.by.word()).to_owned(),
            resolved: r.is_some_and(|r| r.resolved),
            waiting: b.alerts,
            oldest: b.oldest.map(Into::into),
            failures: b.line.failures,
            down_since: b.line.down_since.map(Into::into),
            error: b.line.error,
            next_try: failing.then_some(b.line.not_before.into()),
        }
    };
    let items = backlog.into_iter().map(view).collect();
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &ReceiverList { items, cursor: None }))
}
