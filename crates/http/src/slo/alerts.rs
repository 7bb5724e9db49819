//! What somebody has to be notified of.

use crate::auth::{Caller, OperatorWriter, Reader};
use crate::error::{Failure, Reply};
use crate::extract::{OptionalBody, Query, Segment, shown};
use crate::slo::open::{affected, by_cause, sees};
use crate::{App, answer, paging};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{
    AcknowledgeRequest, Alert, AlertList, AlertsQuery, NotifiedReceiver, ReasonRequest,
};
use muster_engine::State as Site;
use muster_model::alert::{self as m, Urgency};
use muster_model::{Command, JobId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// An alert as it is shown, with the jobs that its cause affects now while it is open.
pub(crate) fn view(
    s: &Site,
    caller: &Caller,
    a: &m::Alert,
    affected: Option<&BTreeMap<JobId, u32>>,
) -> Alert {
    let notifications = s.slo.desk.notified_of(&a.id).map(|(to, t)| NotifiedReceiver {
        receiver: to.to_string(),
        at: t.at.into(),
        over: t.over,
    });
    // Who is notified is the site's own business.
    let notifications =
        if caller.actor.project.is_none() { notifications.collect() } else { Vec::new() };
    let mut out = Alert::of(a, notifications);
    // Jobs come and go without a record about the alert.
    if let Some(jobs) = affected {
        out.jobs = jobs.len() as u64;
        out.gpus = jobs.values().map(|n| u64::from(*n)).sum();
    }
    out
}

fn views(s: &Site, caller: &Caller, alerts: &[&m::Alert]) -> Vec<Alert> {
    let causes = match alerts.iter().any(|a| a.is_open()) {
        true => by_cause(s, caller),
        false => BTreeMap::new(),
    };
    let one = |a: &&m::Alert| {
        let cause = causes.get(&a.group).filter(|_| a.is_open());
        view(s, caller, a, cause.map(|g| affected(s, caller, g)).as_ref())
    };
    alerts.iter().map(one).collect()
}

/// Open before over, pages before tickets, what nobody looks after first, then the newest.
type Rank = (bool, Reverse<Urgency>, bool, bool, Reverse<i64>, String);

fn rank(a: &m::Alert) -> Rank {
    (
        !a.is_open(),
        Reverse(a.urgency),
        a.silenced.is_some(),
        a.acknowledged.is_some(),
        Reverse(a.raised_at.0),
        a.id.clone(),
    )
}

/// The name of the list in its cursors.
const LIST: &str = "alerts";

/// Where an alert is among the pages: when it was raised, and its id. Neither changes while somebody reads
/// one page after the other; its rank does.
type Place = (i64, String);

fn place(a: &m::Alert) -> Place {
    (a.raised_at.0, a.id.clone())
}

/// The newest of these alerts below a place, at most so many, worst first; and where the next page begins.
fn page<'a>(
    all: impl Iterator<Item = &'a m::Alert>,
    limit: usize,
    below: Option<&Place>,
) -> (Vec<&'a m::Alert>, Option<String>) {
    let mut page: Vec<_> = all.filter(|a| below.is_none_or(|b| place(a) < *b)).collect();
    page.sort_by_cached_key(|a| Reverse(place(a)));
    let more = page.len() > limit;
    page.truncate(limit);
    let cursor = page.last().filter(|_| more).map(|a| paging::encode(LIST, place(a)));
    page.sort_by_cached_key(|a| rank(a));
    (page, cursor)
}

/// List alerts. A page has the newest of those that no page before it had, worst first.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/alerts", tag = "slo", params(AlertsQuery),
    responses((status = 200, description = "A page of alerts.", body = AlertList))))]
pub(crate) async fn list(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<AlertsQuery>,
) -> Reply {
    let limit = paging::limit(q.limit)?;
    let below: Option<Place> = paging::decode(LIST, q.cursor.as_deref())?;
    let urgency = match q.urgency.as_deref() {
        None => None,
        Some("page") => Some(Urgency::Page),
        Some("ticket") => Some(Urgency::Ticket),
        Some(other) => {
            let text = format!("`{}` is no urgency", shown(other));
            return Err(Failure::bad(text).field("urgency").hint("write page or ticket"));
        }
    };
    // The jobs that each cause affects are counted: done aside.
    let (brain, asking) = (app.brain().clone(), caller.clone());
    let look = move || {
        brain.read_polled(|s| {
            let fits = |a: &&m::Alert| {
                sees(&asking, a)
                    && q.open.is_none_or(|o| o == a.is_open())
                    && urgency.is_none_or(|u| u == a.urgency)
            };
            let all = s.slo.alerts.values().filter(fits);
            let (page, cursor) = page(all, limit, below.as_ref());
            (s.seq, views(s, &asking, &page), cursor)
        })
    };
    let (seq, items, cursor) = app.aside(&caller.token, look).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &AlertList { items, cursor }))
}

fn missing(id: &str) -> Failure {
    Failure::not_found(format!("there is no alert {}", shown(id)))
        .hint("`muster alerts` lists them; what was over long ago is only in the log")
}

async fn find(app: &App, caller: &Caller, id: &str) -> Reply<(muster_model::Seq, Alert)> {
    let (brain, asking, asked) = (app.brain().clone(), caller.clone(), id.to_owned());
    let look = move || {
        brain.read_polled(|s| {
            let a = s.slo.alerts.get(&asked).filter(|a| sees(&asking, a))?;
            Some((s.seq, views(s, &asking, &[a]).pop()?))
        })
    };
    app.aside(&caller.token, look).await?.ok_or_else(|| missing(id))
}

/// Get an alert.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/alerts/{id}", tag = "slo",
    params(("id" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The alert.", body = Alert))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(id): Segment,
) -> Reply {
    let (seq, a) = find(&app, &caller, &id).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &a))
}

/// Acknowledge an alert: reminders and escalation end, until it becomes more urgent.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/alerts/{id}/acknowledge", tag = "slo",
    request_body = Option<AcknowledgeRequest>,
    params(("id" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The alert as it is now.", body = Alert))))]
pub(crate) async fn acknowledge(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(id): Segment,
    OptionalBody { value, raw }: OptionalBody<AcknowledgeRequest>,
) -> Reply {
    let command = Command::AcknowledgeAlert { id: id.clone(), note: value.note };
    let done = writer.call(&app, &raw, command).await?;
    let (_, a) = find(&app, &writer.caller, &id).await?;
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, None, &a))
}

/// Pass an alert on to the next escalation step of its routes now. An acknowledgement ends.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/alerts/{id}/escalate", tag = "slo",
    request_body = Option<ReasonRequest>,
    params(("id" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The alert as it is now.", body = Alert))))]
pub(crate) async fn escalate(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(id): Segment,
    OptionalBody { value, raw }: OptionalBody<ReasonRequest>,
) -> Reply {
    let reason = crate::health::reason(value.reason, false)?;
    let command = Command::EscalateAlert { id: id.clone(), reason };
    let done = writer.call(&app, &raw, command).await?;
    let (_, a) = find(&app, &writer.caller, &id).await?;
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, None, &a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::alert::{Acknowledgement, AlertState};
    use muster_model::units::Time;
    use serde_json::json;

    fn alert(id: &str, raised_at: i64) -> m::Alert {
        let text = json!({"id": id, "group": id, "topic": "finding", "kind": "k", "cause": "node:n1",
            "urgency": "page", "state": "firing", "summary": "s", "count": 1, "since": 0,
            "raised_at": raised_at, "changed_at": 0});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn pages_have_every_alert_once_whatever_changes_between_them() {
        let mut all: Vec<m::Alert> = (0..6).map(|n| alert(&format!("a{n}"), n / 2)).collect();
        let ids = |page: &[&m::Alert]| page.iter().map(|a| a.id.clone()).collect::<Vec<_>>();
        let (first, cursor) = page(all.iter(), 2, None);
        assert_eq!(ids(&first), ["a4", "a5"]);
        let below: Place = paging::decode(LIST, cursor.as_deref()).unwrap().unwrap();
        // The last one of the page is over, another one is acknowledged, and a new one is there.
        let by = Acknowledgement { by: "user:ann".into(), at: Time(9), note: String::new() };
        (all[3].state, all[3].acknowledged) = (AlertState::Acknowledged, Some(by));
        (all[4].state, all[4].resolved_at) = (AlertState::Resolved, Some(Time(9)));
        all.push(alert("new", 9));
        let (second, cursor) = page(all.iter(), 2, Some(&below));
        assert_eq!(ids(&second), ["a2", "a3"], "worst first");
        // One that is deleted leaves its place.
        all.retain(|a| a.id != "a2");
        let below: Place = paging::decode(LIST, cursor.as_deref()).unwrap().unwrap();
        let (last, cursor) = page(all.iter(), 2, Some(&below));
        assert_eq!((ids(&last), cursor), (vec!["a0".to_owned(), "a1".to_owned()], None));
        let old = paging::encode(LIST, "a4");
        assert_eq!(paging::decode::<Place>(LIST, Some(&old)).unwrap_err().status(), 400);
    }
}
