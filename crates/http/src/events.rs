//! The log: pages of it (`pages`), or a stream that goes on. Nothing is skipped or repeated.

mod pages;

use super::auth::{Caller, Reader};
use super::error::{Failure, Reply};
use super::event_filter::EventFilter;
use super::extract::{LAST_EVENT_ID, Query, accepts, asks_for, shown, stream_body, text_header};
use super::feed::{Audience, Batch, Feed, NextText, SendFailure, StreamBuffer};
use super::limits::StreamPermit;
use super::{App, auth, mark, others, paging};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use muster_api::event::EventOrigin;
use muster_api::{Event, EventOrder, EventsQuery, Timestamp};
use muster_model::event::Event as Happened;
use muster_model::tenant::Role;
use muster_model::{Record, Seq};
use muster_server::follower::Cursor;
use muster_server::supervise;
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// Records read from the log at a time.
pub(super) const BATCH: usize = 512;
/// Bytes of events sent at a time, unless one event alone has more.
const BATCH_BYTES: usize = 128 << 10;
/// More records than these are looked through aside where only some are wanted: nothing may come of
/// them, and who sends nothing waits for nobody.
const CHOSEN_AT_ONCE: usize = 64;
/// Followers that are so many records behind the end still share what is sent to them: cancelling
/// the largest array writes about as many at once.
const BURST: u64 = 32_768;

const MUSTER_OLDEST: HeaderName = HeaderName::from_static("muster-oldest");

/// Something that happened.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = LogEvent))]
pub(crate) struct View {
    /// Its place: goes into `after` or `Last-Event-ID` to continue after it.
    cursor: String,
    /// Its place in the log; not for tokens that are bound to a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// When it was written, by the leader's clock.
    at: Timestamp,
    /// What: `job_submitted`, `job_placed`, `node_lost`, …
    kind: String,
    /// Whether it was reported (`input`) or Muster chose it (`decision`).
    origin: EventOrigin,
    /// Project it belongs to.
    project: Option<String>,
    /// Who caused it.
    actor: String,
    /// The details, in the log's own shape (times in milliseconds since 1970).
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    data: serde_json::Value,
}

/// A page of the log, in the order that was asked for.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = LogEventList)]
#[allow(dead_code, reason = "the description alone wants it; pages are written as bytes")]
pub(crate) struct Page {
    /// The events of this page.
    items: Vec<View>,
    /// Goes into `after`, or into `before` where the newest come first, for the next page; null on the last one.
    cursor: Option<String>,
}

impl Audience {
    /// Those who see the same as this caller.
    fn of(caller: &Caller) -> Audience {
        Audience {
            project: caller.actor.project.clone(),
            reads_routing: caller.over_site(Role::Operator).is_ok(),
        }
    }
}

/// The record as this audience may see it; none when it is not theirs, or not wanted.
pub(super) fn view(
    app: &App,
    audience: &Audience,
    filter: &EventFilter,
    record: &Record,
) -> Option<View> {
    let bound = audience.project.as_ref();
    let theirs = bound.is_none_or(|own| record.project.as_ref() == Some(own));
    if !theirs || !filter.may_take(record) {
        return None;
    }
    let mut event = match others::hidden(app, bound, &record.event) {
        Some(event) => Event::of(&Record { event, ..record.clone() }),
        None => Event::of(record),
    };
    // Addresses may have passwords in them. Before the filter: what is not shown is not found either.
    if !audience.reads_routing && matches!(record.event, Happened::RoutingSet { .. }) {
        event.data = serde_json::json!({});
    }
    if !filter.takes(&event) {
        return None;
    }
    let Event { seq, at, kind, origin, project, actor, data } = event;
    let seq = bound.is_none().then_some(seq);
    Some(View {
        cursor: auth::position(app, bound, record.seq),
        seq,
        at,
        kind,
        origin,
        project,
        actor,
        data,
    })
}

/// Where a reader goes on.
pub(super) struct StreamPosition {
    pub(super) after: Seq,
    /// They named the place themselves, so what is missing behind it must be reported.
    pub(super) named: bool,
}

/// The position in a text that the caller was given.
fn position(app: &App, caller: &Caller, text: &str, field: &str) -> Reply<Seq> {
    let seq = caller.open_position(app, text).ok_or_else(|| {
        Failure::bad(format!("{field} `{}` is not a place in the log", shown(text)))
            .field(field)
            .hint("send the `cursor` of an event, or 0 for the beginning")
    })?;
    if seq > app.brain().durable() {
        return Err(Failure::bad(format!("{field} is past the end of the log")).field(field));
    }
    Ok(seq)
}

fn start(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    q: &EventsQuery,
) -> Reply<StreamPosition> {
    let last = text_header(headers, &LAST_EVENT_ID)?;
    let (text, field) = match (last, q.after.as_deref()) {
        (Some(id), _) => (id, "last-event-id"),
        (None, Some(after)) => (after, "after"),
        (None, None) => return Ok(StreamPosition { after: Seq(0), named: false }),
    };
    Ok(StreamPosition { after: position(app, caller, text, field)?, named: true })
}

/// Records behind a place. When the place is archived, those who named it are informed; the others
/// get the oldest that are kept.
pub(super) async fn read(
    app: &App,
    caller: &Caller,
    from: &StreamPosition,
) -> Reply<Vec<Arc<Record>>> {
    let mut log = Cursor::in_batches(app.brain(), from.after, BATCH);
    let records = log.next_batch(app.brain().durable()).await?;
    let Some(behind) = log.archived().filter(|_| from.named) else {
        return Ok(records.unwrap_or_default());
    };
    let oldest = caller.position(app, behind);
    let value = HeaderValue::try_from(&oldest).unwrap_or(HeaderValue::from_static("0"));
    Err(Failure::new(StatusCode::GONE, "gone", "this part of the log is archived")
        .hint(format!("what is stored begins after {oldest}"))
        .header(MUSTER_OLDEST, value))
}

/// Read the log, or follow it with `Accept: text/event-stream`.
///
/// Without `after` it begins with the oldest event that is stored. A stream resumes after
/// `Last-Event-ID`. Tokens that are bound to a project see their project's events only. A page looks
/// at 16,384 records at most: one with fewer events than `limit` is not the last one until its cursor is
/// null.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/events", tag = "events", params(EventsQuery),
    responses((status = 200, description = "A page of events, or a stream of them.", content(
        (Page = "application/json"), (String = "text/event-stream"))))))]
pub(crate) async fn events(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<EventsQuery>,
    headers: HeaderMap,
) -> Reply {
    let limit = paging::limit(q.limit)?;
    let filter = EventFilter::of(&q)?;
    let from = start(&app, &caller, &headers, &q)?;
    let newest = q.order == EventOrder::Newest || q.before.is_some();
    if newest && from.named {
        return Err(Failure::bad("`after` is for events that come oldest first")
            .field("after")
            .hint("where the newest come first, the cursor of a page goes into `before`"));
    }
    if asks_for(&headers, "text/event-stream") {
        if newest || filter.to.is_some() {
            let field = if newest { "order" } else { "to" };
            return Err(Failure::bad("a stream continues with what is new, and has no end")
                .field(field)
                .hint("leave out `order`, `before` and `to`, or ask for application/json"));
        }
        let from = pages::not_before(&app, from, &filter).await?;
        return follow(app, caller, filter, from).await;
    }
    if !accepts(&headers, &["application/json"]) {
        return Err(Failure::not_acceptable(
            "events come as application/json or text/event-stream",
        ));
    }
    if newest {
        let before = q.before.as_deref();
        let before = before.map(|b| position(&app, &caller, b, "before")).transpose()?;
        return pages::newest_first(&app, &caller, &filter, before, limit).await;
    }
    let from = pages::not_before(&app, from, &filter).await?;
    pages::oldest_first(&app, &caller, &filter, from, limit).await
}

async fn follow(app: App, caller: Caller, filter: EventFilter, from: StreamPosition) -> Reply {
    let permit = app.stream_permit(&caller.token)?;
    // A place that is archived is reported with its status, before the stream begins.
    read(&app, &caller, &from).await?;
    let end = app.brain().durable();
    let (outlet, stream) = StreamBuffer::new(&app, &caller.token);
    let mut response = Response::new(stream_body(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    mark(headers, &app, &caller, end);
    let run = Box::pin(async move {
        // Held until the stream has ended.
        let _permit: StreamPermit = permit;
        produce(app, caller, filter, from, outlet).await;
    });
    // One that panics is counted, and who reads it comes again.
    tokio::spawn(async move { supervise::once("event-stream", run).await });
    Ok(response.into_response())
}

/// Are the token and the session still good?
pub(crate) fn still_valid(app: &App, caller: &Caller) -> bool {
    let now = app.brain().now();
    if caller.session_ended(now) {
        return false;
    }
    app.brain().read(|s| {
        s.tokens.get(&caller.token).is_some_and(|t| t.expires_at.is_none_or(|at| at > now))
    })
}

/// What comes behind a place, up to the end that followers know of. Followers at the same
/// place share one text. Who reads far behind the others reads alone; after a burst all of them are a
/// little behind.
async fn batch(
    app: &App,
    caller: &Caller,
    filter: &EventFilter,
    from: &StreamPosition,
    end: Seq,
) -> Reply<Arc<Batch>> {
    let audience = Audience::of(caller);
    let mut making = None;
    // Who chose some of the events has a text of their own.
    while filter.is_empty() && making.is_none() && end.0 - from.after.0 <= BURST {
        match app.feed().next_text(&audience, from.after) {
            NextText::Made(made) => return Ok(made),
            NextText::Make(text) => making = Some(text),
            NextText::Wait(made) => made.await,
        }
    }
    let records = read(app, caller, from).await?;
    let places = (from.after, end);
    let made = if filter.is_empty() || records.len() <= CHOSEN_AT_ONCE {
        written(app, &audience, filter, &records, places)?
    } else {
        let (asked, wanted) = (app.clone(), filter.clone());
        let choose = move || written(&asked, &audience, &wanted, &records, places);
        app.aside(&caller.token, choose).await??
    };
    let made = Arc::new(made);
    if made.upto > from.after
        && let Some(making) = making
    {
        making.share(&made);
    }
    Ok(made)
}

/// Records up to `end` as one audience is sent them, as many as go into one text.
fn written(
    app: &App,
    audience: &Audience,
    filter: &EventFilter,
    records: &[Arc<Record>],
    (after, end): (Seq, Seq),
) -> Reply<Batch> {
    let (mut text, mut upto) = (String::new(), after);
    for record in records {
        if record.seq > end || text.len() >= BATCH_BYTES {
            break;
        }
        upto = record.seq;
        let Some(view) = view(app, audience, filter, record) else { continue };
        let Ok(json) = serde_json::to_string(&view) else { return Err(Failure::internal()) };
        text.push_str("id: ");
        text.push_str(&view.cursor);
        text.push_str("\ndata: ");
        text.push_str(&json);
        text.push_str("\n\n");
    }
    Ok(Batch { upto, text: Bytes::from(text) })
}

async fn produce(
    app: App,
    caller: Caller,
    filter: EventFilter,
    mut from: StreamPosition,
    outlet: StreamBuffer,
) {
    let (mut feed, _follower) = Feed::follow(&app);
    let mut sent = outlet.send(Bytes::from_static(b"retry: 1000\n\n")).await;
    let keep_alive = app.config().keep_alive;
    // Not since the log moved: where a filter lets nothing through, the reader still hears of us.
    let mut last_sent = Instant::now();
    loop {
        match sent {
            Ok(()) => {}
            Err(SendFailure::Gone) => return,
            Err(SendFailure::Slow) => {
                let seconds = app.config().slow_reader.as_secs();
                return outlet.end(format!(
                    ": this reader was cut off: it did not take what was sent for {seconds} s; \
                     come back with the last id as Last-Event-ID\n\n"
                ));
            }
        }
        let end = *feed.borrow_and_update();
        if !still_valid(&app, &caller) {
            return outlet.end(": this token or session has expired, or was revoked\n\n".into());
        }
        if from.after < end {
            // A failure ends the stream; the reader comes back with its last id and learns why.
            let Ok(batch) = batch(&app, &caller, &filter, &from, end).await else { return };
            let moved = batch.upto > from.after;
            from = StreamPosition { after: batch.upto, named: true };
            if !batch.text.is_empty() {
                sent = outlet.send(batch.text.clone()).await;
                last_sent = Instant::now();
            } else if last_sent.elapsed() >= keep_alive {
                let place = caller.position(&app, from.after);
                sent = outlet.send(Bytes::from(format!(": still here, at {place}\n\n"))).await;
                last_sent = Instant::now();
            }
            if moved {
                continue;
            }
        }
        tokio::select! {
            changed = feed.changed() => if changed.is_err() { return },
            // What ended is reported above.
            () = caller.expired(&app) => {}
            () = tokio::time::sleep(keep_alive.saturating_sub(last_sent.elapsed())) => {
                sent = outlet.send(Bytes::from_static(b": still here\n\n")).await;
                last_sent = Instant::now();
            }
            () = outlet.closed() => return,
        }
    }
}
