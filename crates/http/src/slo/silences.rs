//! Times in which some alerts are not sent.

use super::label;
use crate::auth::{OperatorWriter, Reader, Writer};
use crate::error::{Failure, Reply};
use crate::extract::{JsonBody, Segment};
use crate::policy::{content_version, same_version};
use crate::{App, answer, gone};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{SetSilence, Silence, SilenceList};
use muster_engine::State as Site;
use muster_model::alert as m;
use muster_model::names::Label;
use muster_model::tenant::Role;
use muster_model::{Command, Time};

fn view(s: &Site, silence: &m::Silence, now: Time) -> Silence {
    let quiet = s.slo.open().filter(|a| a.silenced.as_ref() == Some(&silence.name)).count();
    Silence::of(silence, quiet as u64, now)
}

/// The silence as it is now stands for its version: the log keeps none.
fn version(app: &App, name: &Label) -> Option<u64> {
    app.brain().read(|s| s.slo.silences.get(name).cloned()).map(|x| content_version(&x))
}

/// List silences in order of their names.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/silences", tag = "slo",
    responses((status = 200, description = "The silences.", body = SilenceList))))]
pub(crate) async fn list(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Viewer)?;
    let now = app.brain().now();
    let (seq, items) = app.brain().read(|s| {
        let all = s.slo.silences.values().map(|x| view(s, x, now));
        (s.seq, all.collect())
    });
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &SilenceList { items, cursor: None }))
}

/// Silence some alerts for a time. They are still shown; what lasts longer is sent at its end.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/silences/{name}", tag = "slo", request_body = SetSilence,
    params(("name" = String, Path, description = "The silence's name.")),
    responses((status = 200, description = "As it is now.", body = Silence))))]
pub(crate) async fn set(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(name): Segment,
    JsonBody { value, raw }: JsonBody<SetSilence>,
) -> Reply {
    let name = label(&name)?;
    let now = app.brain().now();
    let silence = Box::new(value.into_model(name.clone(), now));
    let _turn = app.turn().lock().await;
    same_version(&app, &writer, &raw, "silence", version(&app, &name))?;
    let done = writer.put(&app, &raw, Command::SetSilence { silence }).await?;
    // Only a repeat under an old key can find its silence gone.
    let shown = app.brain().read(|s| s.slo.silences.get(&name).map(|x| view(s, x, now)));
    let shown = shown.ok_or_else(|| Failure::not_found(format!("silence {name} is over")))?;
    let version = version(&app, &name);
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, version, &shown))
}

/// End a silence.
#[cfg_attr(feature = "openapi", utoipa::path(delete, path = "/v1/silences/{name}", tag = "slo",
    params(("name" = String, Path, description = "The silence's name.")),
    responses((status = 204, description = "It is gone."))))]
pub(crate) async fn end(State(app): State<App>, writer: Writer, Segment(name): Segment) -> Reply {
    writer.caller.over_site(Role::Operator)?;
    let name = label(&name)?;
    let _turn = app.turn().lock().await;
    same_version(&app, &writer, b"", "silence", version(&app, &name))?;
    let done = writer.put(&app, b"", Command::EndSilence { name }).await?;
    Ok(gone(&app, &writer.caller, done.seq))
}
