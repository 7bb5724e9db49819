//! Circuit breakers on allocation.

use super::{order, reason};
use crate::auth::{OperatorWriter, Reader};
use crate::error::{Failure, Reply};
use crate::extract::JsonBody;
use crate::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{Breaker, BreakerList, ForceBreaker};
use muster_engine::State as Site;
use muster_model::Command;
use muster_model::breaker::{Breaker as ModelBreaker, BreakerState};
use muster_model::entity::Entity;
use muster_model::tenant::Role;
use muster_model::units::{Span, Time};

/// The breaker as the API shows it.
pub(crate) fn view(site: &Site, b: &ModelBreaker) -> Breaker {
    let held = site.nodes.values().filter(|n| n.breaker.as_ref() == Some(&b.entity)).count();
    Breaker::of(b, u32::try_from(held).unwrap_or(u32::MAX))
}

/// Breakers that are not closed, those that are open first.
pub(crate) fn open(site: &Site) -> Vec<Breaker> {
    let mut all: Vec<&ModelBreaker> = site
        .health
        .breakers
        .values()
        .map(|b| &**b)
        .filter(|b| b.state != BreakerState::Closed)
        .collect();
    all.sort_by(|a, b| b.state.cmp(&a.state).then(a.since.cmp(&b.since)));
    all.into_iter().map(|b| view(site, b)).collect()
}

/// List breakers: those that are not closed, then those that were open before.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/breakers", tag = "health",
    responses((status = 200, description = "All of them.", body = BreakerList))))]
pub(crate) async fn list(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Viewer)?;
    let (seq, items) = app.brain().read(|s| {
        let mut items = open(s);
        let closed = s.health.breakers.values().filter(|b| b.state == BreakerState::Closed);
        items.extend(closed.map(|b| view(s, b)));
        (s.seq, items)
    });
    let list = BreakerList { items, cursor: None };
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &list))
}

/// Force a breaker open, half open or closed, or let it follow its own rules again.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/breakers/force", tag = "health", request_body = ForceBreaker,
    responses((status = 200, description = "The breaker as it is now.", body = Breaker))))]
pub(crate) async fn force(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    JsonBody { value, raw }: JsonBody<ForceBreaker>,
) -> Reply {
    let entity: Entity = value.entity.parse().map_err(|e: muster_model::entity::EntityError| {
        Failure::senseless(e.to_string())
            .field("entity")
            .hint("write it like leaf:eu/c1/s1/l2, sku:h100-sxm or version:driver/580.95.05")
    })?;
    let reason = reason(value.reason, false)?;
    let command = Command::ForceBreaker { entity: entity.clone(), state: value.state, reason };
    let seq = order(&app, &writer, &raw, command).await?;
    let now = app.brain().read(|s| s.health.breakers.get(&entity).map(|b| view(s, b)));
    // One that was never open and is let go is closed as it was.
    let now = now.unwrap_or_else(|| Breaker::of(&closed(entity), 0));
    Ok(answer(&app, &writer.caller, StatusCode::OK, seq, None, &now))
}

fn closed(entity: Entity) -> ModelBreaker {
    ModelBreaker {
        entity,
        state: BreakerState::Closed,
        since: Time(0),
        reason: String::new(),
        probe_at: None,
        back_off: Span(0),
        trips: 0,
        pinned: None,
        because_of: None,
        probe: None,
        project: None,
    }
}
