//! Faults that nodes reported.

use super::auth::{Caller, Reader};
use super::error::{Failure, Reply};
use super::extract::Query;
use super::{App, answer, paging};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{Fault, FaultList, FaultsQuery};
use muster_engine::StoredFault;
use muster_model::names::{NameError, NodeName};
use muster_model::{JobId, Seq};
use std::ops::Bound;
use std::sync::Arc;

/// May this caller see it? Tenants see what hit their own jobs.
pub(crate) fn sees(caller: &Caller, f: &StoredFault) -> bool {
    match &f.project {
        Some(p) => caller.sees(p),
        None => caller.actor.project.is_none(),
    }
}

pub(crate) fn view(f: &StoredFault) -> Fault {
    Fault::of(f.node.as_str(), f.at, &f.fault)
}

/// List faults that nodes reported, newest first: the last 32 of each node.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/faults", tag = "nodes", params(FaultsQuery),
    responses((status = 200, description = "A page of faults.", body = FaultList))))]
pub(crate) async fn list(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<FaultsQuery>,
) -> Reply {
    let limit = paging::limit(q.limit)?;
    let cursor: Option<String> = paging::decode("faults", q.cursor.as_deref())?;
    let below = match cursor {
        None => None,
        Some(text) => Some(caller.open_position(&app, &text).ok_or_else(paging::unknown_cursor)?),
    };
    let node: Option<NodeName> = q
        .node
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|e: NameError| Failure::bad(e.to_string()).field("node"))?;
    if q.job.is_some_and(|j| i64::try_from(j).is_err()) {
        return Err(Failure::bad("no job has so large a number").field("job"));
    }
    let fits = |f: &Arc<StoredFault>| {
        q.code.as_ref().is_none_or(|c| f.fault.code == *c)
            && q.job.is_none_or(|j| f.fault.attempt.is_some_and(|a| a.job == JobId(j)))
            && below.is_none_or(|b| f.seq < b)
            && sees(&caller, f)
    };
    let (seq, mut found): (Seq, Vec<Arc<StoredFault>>) = app.brain().read(|s| {
        let found = match &node {
            Some(n) => s.faults_of(n).filter(|f| fits(f)).take(limit + 1).cloned().collect(),
            None => {
                let upper = below.map_or(Bound::Unbounded, Bound::Excluded);
                let older = s.faults.range((Bound::Unbounded, upper)).rev().map(|(_, f)| f);
                older.filter(|f| fits(f)).take(limit + 1).cloned().collect()
            }
        };
        (s.seq, found)
    });
    let more = found.len() > limit;
    found.truncate(limit);
    let cursor = found
        .last()
        .filter(|_| more)
        .map(|f| paging::encode("faults", caller.position(&app, f.seq)));
    let items = found.iter().map(|f| view(f)).collect();
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &FaultList { items, cursor }))
}
