//! Findings with one cause, and what was changed shortly before.

use super::{findings, id, missing, title};
use crate::auth::Reader;
use crate::error::Reply;
use crate::extract::{Query, Segment};
use crate::{App, answer, answer_bytes, paging};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{Change, Event as ApiEvent, Incident, IncidentsQuery};
use muster_model::event::Event;
use muster_model::finding::Incident as ModelIncident;
use muster_model::names::NodeName;
use muster_model::tenant::Role;
use muster_model::units::{Span, Time};
use muster_model::{Record, Seq};
use muster_server::follower::Cursor;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Records before an incident that are looked at for changes.
const LOOKED_AT: u64 = 8192;
/// Changes longer before it began are not shown.
const BEFORE: Span = Span::hours(1);
/// Changes shown with an incident.
const CHANGES: usize = 32;

pub(crate) fn view(i: &ModelIncident) -> Incident {
    Incident::of(i, title(&i.kind))
}

/// List incidents, newest first.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/incidents", tag = "health", params(IncidentsQuery),
    responses((status = 200, description = "A page of incidents.", body = muster_api::IncidentList))))]
pub(crate) async fn list(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<IncidentsQuery>,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let limit = paging::limit(q.limit)?;
    let below: Option<u64> = paging::decode("incidents", q.cursor.as_deref())?;
    let (seq, found, cursor) = app.brain().read(|s| {
        let fits = |i: &Arc<ModelIncident>| q.open.is_none_or(|o| o == i.closed.is_none());
        let (found, cursor) =
            paging::newest("incidents", &s.health.incidents, (limit, below), fits);
        (s.seq, found.into_iter().cloned().collect::<Vec<_>>(), cursor)
    });
    // With all notes some are larger than a page: one at a time, and not before the state is let go.
    let page = move || paging::numbered("incidents", found.iter().map(|i| (i.id, view(i))), cursor);
    let bytes = app.aside(&caller.token, page).await??;
    Ok(answer_bytes(&app, &caller, StatusCode::OK, seq, None, bytes))
}

/// Get an incident, with its findings and what was changed shortly before it began.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/incidents/{id}", tag = "health",
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The incident.", body = Incident))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(text): Segment,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let id = id(&text, "incident")?;
    let found = app.brain().read(|s| {
        let i = s.health.incidents.get(&id)?;
        let of: Vec<_> = i.findings.iter().filter_map(|f| s.health.findings.get(f)).collect();
        let mut shown = view(i);
        shown.findings = of.iter().map(|f| findings::view(f)).collect();
        let nodes: BTreeSet<NodeName> =
            of.iter().filter_map(|f| f.seen.entity.node().cloned()).collect();
        Some((s.seq, shown, Arc::clone(i), nodes))
    });
    let (seq, mut shown, incident, nodes) =
        found.ok_or_else(|| missing("incident", id, "muster incident --all"))?;
    shown.changes = changes(&app, &incident, &nodes).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &shown))
}

/// Changes within the hour before it began. What came between its beginning and the moment it was
/// opened cannot have caused it. A part of the log that is archived is left out; one that cannot be read
/// is an error: whoever looks for a cause is not to read that nothing was changed.
pub(crate) async fn changes(
    app: &App,
    i: &ModelIncident,
    nodes: &BTreeSet<NodeName>,
) -> Reply<Vec<Change>> {
    let mut log = Cursor::new(app.brain(), Seq(i.id.saturating_sub(LOOKED_AT)));
    let end = Seq(i.id.saturating_sub(1));
    let mut out = Vec::new();
    let mut joins = Joins::new(app.brain().read(|s| {
        let joined = nodes.iter().filter_map(|n| Some((n.clone(), s.nodes.get(n)?.enrolled_at)));
        joined.collect()
    }));
    while let Some(records) = log.next_batch(end).await? {
        let known = records.iter().filter(|r| !joins.is_part(r));
        let near = known.filter(|r| is_shortly_before(r.at, i.began_at));
        out.extend(near.filter_map(|r| change(r, nodes)));
    }
    let older = out.len().saturating_sub(CHANGES);
    out.drain(..older);
    Ok(out)
}

/// Nodes that joined: what one reports for the first time is no change.
struct Joins {
    /// When each node joined first.
    joined: BTreeMap<NodeName, Time>,
    /// Those that joined in the part of the log that was read and serve nobody yet, with whether they
    /// have connected.
    new: BTreeMap<NodeName, bool>,
}

impl Joins {
    fn new(joined: BTreeMap<NodeName, Time>) -> Joins {
        Joins { joined, new: BTreeMap::new() }
    }

    /// Is it a part of a node's first way into service? Records are given in their order.
    fn is_part(&mut self, r: &Record) -> bool {
        match &r.event {
            Event::NodeEnrolled { node, .. } if self.joined.get(node) == Some(&r.at) => {
                self.new.insert(node.clone(), false);
                true
            }
            Event::NodeBack { node, .. } => {
                let before = self.new.get_mut(node);
                before.is_some_and(|connected| !std::mem::replace(connected, true))
            }
            Event::NodeInventoried { node, .. } => self.new.contains_key(node),
            Event::NodeReady { node, .. } => self.new.remove(node).is_some(),
            _ => false,
        }
    }
}

/// Not after it, and not long before it?
fn is_shortly_before(at: Time, began_at: Time) -> bool {
    at <= began_at && at >= began_at - BEFORE
}

/// Is it something that somebody changed about the site or these nodes?
fn change(r: &Record, nodes: &BTreeSet<NodeName>) -> Option<Change> {
    let here = |n: &NodeName| nodes.contains(n);
    let text = match &r.event {
        Event::PolicySet { .. } => "the scheduling policy was set".to_owned(),
        Event::TopologySet { .. } => "the topology was set".into(),
        Event::QuotasSet { .. } => "the quotas were set".into(),
        Event::LeaderChanged { server, .. } => format!("server {server} became the leader"),
        Event::ReservationSet { reservation, .. } => {
            format!("reservation {} was set", reservation.name)
        }
        Event::ReservationDeleted { name } => format!("reservation {name} was deleted"),
        Event::NodeInventoried { node, inventory } if here(node) => {
            let versions: Vec<String> =
                inventory.versions.iter().map(|(c, v)| format!("{c} {v}")).collect();
            format!("what is in {node} changed: {}", versions.join(", "))
        }
        Event::NodeBack { node, .. } if here(node) => format!("{node} connected again"),
        Event::NodeCordoned { node, reason, decided: false } if here(node) => {
            format!("{node} was cordoned: {reason}")
        }
        Event::NodeUncordoned { node, .. } if here(node) => format!("{node} was uncordoned"),
        Event::DrainStarted { node, reason } if here(node) => {
            format!("{node} was drained: {reason}")
        }
        Event::NodeReady { node, reason } if here(node) => {
            format!("{node} came into service: {reason}")
        }
        _ => return None,
    };
    Some(Change { at: r.at.into(), event: ApiEvent::of(r).kind, text, actor: r.actor.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::fixture;

    #[test]
    fn the_first_connection_of_a_node_that_joined_is_no_change() {
        let node: NodeName = "n1".parse().unwrap();
        let record = |at, event| fixture::record(at, None, event);
        let joined = Event::NodeEnrolled {
            node: node.clone(),
            machine: "m1".into(),
            token: "t1".into(),
            location: muster_model::topology::Location::unplaced(&node),
            key: None,
        };
        let ready = Event::NodeReady { node: node.clone(), reason: "passed".into() };
        let mut joins = Joins::new(BTreeMap::from([(node, Time(10))]));
        assert!(!joins.is_part(&record(5, ready.clone())));
        assert!(joins.is_part(&record(10, joined.clone())));
        assert!(joins.is_part(&record(20, ready.clone())), "the first time");
        assert!(!joins.is_part(&record(30, ready)), "it was repaired");
        assert!(!joins.is_part(&record(40, joined)), "the same machine");
    }

    #[test]
    fn what_came_after_the_beginning_was_not_before_it() {
        let began = Time(0) + BEFORE + BEFORE;
        for (at, so) in [
            (began, true),
            (began - BEFORE, true),
            (began - BEFORE - Span(1), false),
            (began + Span(1), false),
        ] {
            assert_eq!(is_shortly_before(at, began), so, "{at:?}");
        }
    }
}
