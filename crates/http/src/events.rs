//! The log: pages of it, or a stream that goes on. Nothing is skipped or repeated.

use super::auth::{Caller, Reader};
use super::error::{Failure, Reply};
use super::extract::{LAST_EVENT_ID, Query, accepts, asks_for, stream_body, text_header};
use super::feed::{Batch, Feed, NextText, Outlet, Unsent};
use super::limits::StreamPermit;
use super::{App, answer_bytes, auth, mark, paging};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use muster_api::event::EventOrigin;
use muster_api::{Event, EventsQuery, Timestamp};
use muster_model::names::ProjectName;
use muster_model::{Record, Seq};
use muster_server::brain::BrainError;
use serde::Serialize;
use std::sync::Arc;

/// Records read from the log at a time.
const BATCH: usize = 512;
/// Bytes of events sent at a time, unless one event alone has more.
const BATCH_BYTES: usize = 128 << 10;
/// Followers that are so many records behind the end still share what is sent to them: cancelling
/// the largest array writes about as many at once.
const BURST: u64 = 32_768;
/// Records looked at for one page: a tenant's own may be far apart.
const SCANNED_AT_MOST: usize = 16_384;

const MUSTER_OLDEST: HeaderName = HeaderName::from_static("muster-oldest");

/// Something that happened.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = LogEvent))]
pub(crate) struct View {
    /// Its place: goes into `after` or `Last-Event-ID` to go on behind it.
    cursor: String,
    /// Its place in the log; not for tokens that are bound to a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// When it was written, by the leader's clock.
    at: Timestamp,
    /// What: `job_submitted`, `job_placed`, `node_lost`, …
    kind: String,
    /// Whether the world told us (`input`) or we chose (`decision`).
    origin: EventOrigin,
    /// Project it belongs to.
    project: Option<String>,
    /// Who caused it.
    actor: String,
    /// The particulars, in the log's own shape (times in milliseconds since 1970).
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    data: serde_json::Value,
}

/// A page of the log, oldest first.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = LogEventList)]
#[allow(dead_code, reason = "the description alone wants it; pages are written as bytes")]
pub(crate) struct Page {
    /// The events of this page.
    items: Vec<View>,
    /// Goes into `after` for the next page; null when this page reached the log's end.
    cursor: Option<String>,
}

/// The record as whoever is bound to this project, or to none, may see it; none when it is not theirs.
fn view(app: &App, bound: Option<&ProjectName>, record: &Record) -> Option<View> {
    if let Some(own) = bound
        && record.project.as_ref() != Some(own)
    {
        return None;
    }
    let Event { seq, at, kind, origin, project, actor, data } = Event::of(record);
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
struct Place {
    after: Seq,
    /// They named the place themselves, so what is missing behind it must be told.
    named: bool,
}

fn start(app: &App, caller: &Caller, headers: &HeaderMap, q: &EventsQuery) -> Reply<Place> {
    let last = text_header(headers, &LAST_EVENT_ID)?;
    let (text, field) = match (last, q.after.as_deref()) {
        (Some(id), _) => (id, "last-event-id"),
        (None, Some(after)) => (after, "after"),
        (None, None) => return Ok(Place { after: Seq(0), named: false }),
    };
    let after = caller.open_position(app, text).ok_or_else(|| {
        Failure::bad(format!("{field} is not a place in the log"))
            .field(field)
            .hint("send the `cursor` of an event, or 0 for the beginning")
    })?;
    if after > app.brain().durable() {
        return Err(Failure::bad(format!("{field} is past the end of the log")).field(field));
    }
    Ok(Place { after, named: true })
}

/// Records behind a place. When the place is archived, those who named it are told; the others
/// get the oldest that are kept.
async fn read(app: &App, caller: &Caller, from: &Place) -> Reply<Vec<Arc<Record>>> {
    match app.brain().records(from.after, BATCH).await {
        Ok(records) => Ok(records),
        Err(BrainError::Archived { behind }) if !from.named => {
            Ok(app.brain().records(behind, BATCH).await?)
        }
        Err(BrainError::Archived { behind }) => {
            let oldest = caller.position(app, behind);
            let value = HeaderValue::try_from(&oldest).unwrap_or(HeaderValue::from_static("0"));
            Err(Failure::new(StatusCode::GONE, "gone", "this part of the log is archived")
                .hint(format!("what is kept begins behind {oldest}"))
                .header(MUSTER_OLDEST, value))
        }
        Err(e) => Err(e.into()),
    }
}

/// Read the log, or follow it with `Accept: text/event-stream`.
///
/// Without `after` it begins with the oldest event that is kept. A stream resumes behind
/// `Last-Event-ID`. Tokens that are bound to a project see their project's events only.
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
    let from = start(&app, &caller, &headers, &q)?;
    if asks_for(&headers, "text/event-stream") {
        return follow(app, caller, from).await;
    }
    if !accepts(&headers, &["application/json"]) {
        return Err(Failure::not_acceptable(
            "events come as application/json or text/event-stream",
        ));
    }
    page(&app, &caller, from, limit).await
}

/// A page of events that is being written.
struct Filling {
    page: paging::Page,
    items: usize,
    /// The last record that was looked at.
    after: Seq,
    /// There is no place for the next one.
    full: bool,
}

impl Filling {
    /// The same with what fits of these records.
    fn with(
        mut self,
        app: &App,
        bound: Option<&ProjectName>,
        records: &[Arc<Record>],
        limit: usize,
    ) -> Reply<Filling> {
        for record in records {
            self.full = self.items == limit;
            if self.full {
                break;
            }
            if let Some(view) = view(app, bound, record) {
                self.full = !self.page.push(&view)?;
                if self.full {
                    break;
                }
                self.items += 1;
            }
            self.after = record.seq;
        }
        Ok(self)
    }
}

async fn page(app: &App, caller: &Caller, mut from: Place, limit: usize) -> Reply {
    let end = app.brain().durable();
    let page = paging::Page::new();
    let mut filling = Filling { page, items: 0, after: from.after, full: false };
    let (mut scanned, mut at_end) = (0, false);
    while !at_end && !filling.full && scanned < SCANNED_AT_MOST {
        let records = read(app, caller, &from).await?;
        at_end = records.is_empty();
        scanned += records.len();
        let (asked, bound) = (app.clone(), caller.actor.project.clone());
        let more = move || filling.with(&asked, bound.as_ref(), &records, limit);
        filling = match limit <= paging::WRITTEN_AT_ONCE {
            true => more()?,
            false => app.aside(&caller.token, more).await??,
        };
        if filling.after > from.after {
            from = Place { after: filling.after, named: true };
        }
        at_end |= !filling.full && from.after >= end;
    }
    let cursor = (!at_end).then(|| caller.position(app, from.after));
    let bytes = filling.page.end(cursor.as_deref());
    Ok(answer_bytes(app, caller, StatusCode::OK, end, None, bytes))
}

async fn follow(app: App, caller: Caller, from: Place) -> Reply {
    let permit = app.stream_permit(&caller.token)?;
    // A place that is archived is told with its status, before the stream begins.
    read(&app, &caller, &from).await?;
    let end = app.brain().durable();
    let (outlet, stream) = Outlet::new(&app, &caller.token);
    let mut response = Response::new(stream_body(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    mark(headers, &app, &caller, end);
    tokio::spawn(async move {
        // Held until the stream has ended.
        let _permit: StreamPermit = permit;
        produce(app, caller, from, outlet).await;
    });
    Ok(response.into_response())
}

/// Is the token still good?
pub(crate) fn still_valid(app: &App, caller: &Caller) -> bool {
    let now = app.brain().now();
    app.brain().read(|s| {
        s.tokens.get(&caller.token).is_some_and(|t| t.expires_at.is_none_or(|at| at > now))
    })
}

/// What comes behind a place, up to the end that followers were told of. Followers at the same
/// place share one text. Who reads far behind the others reads alone; after a burst all of them are a
/// little behind.
async fn batch(app: &App, caller: &Caller, from: &Place, end: Seq) -> Reply<Arc<Batch>> {
    let bound = &caller.actor.project;
    let mut making = None;
    while making.is_none() && end.0 - from.after.0 <= BURST {
        match app.feed().next_text(bound, from.after) {
            NextText::Made(made) => return Ok(made),
            NextText::Make(text) => making = Some(text),
            NextText::Wait(made) => made.await,
        }
    }
    let (mut text, mut upto) = (String::new(), from.after);
    for record in read(app, caller, from).await? {
        if record.seq > end || text.len() >= BATCH_BYTES {
            break;
        }
        upto = record.seq;
        let Some(view) = view(app, bound.as_ref(), &record) else { continue };
        let Ok(json) = serde_json::to_string(&view) else { return Err(Failure::internal()) };
        text.push_str("id: ");
        text.push_str(&view.cursor);
        text.push_str("\ndata: ");
        text.push_str(&json);
        text.push_str("\n\n");
    }
    let made = Arc::new(Batch { upto, text: Bytes::from(text) });
    if upto > from.after
        && let Some(making) = making
    {
        making.share(&made);
    }
    Ok(made)
}

async fn produce(app: App, caller: Caller, mut from: Place, outlet: Outlet) {
    let (mut told, _follower) = Feed::follow(&app);
    let mut sent = outlet.send(Bytes::from_static(b"retry: 1000\n\n")).await;
    loop {
        match sent {
            Ok(()) => {}
            Err(Unsent::Gone) => return,
            Err(Unsent::Slow) => {
                let seconds = app.config().slow_reader.as_secs();
                return outlet.end(format!(
                    ": this reader was cut off: it did not take what was sent for {seconds} s; \
                     come back with the last id as Last-Event-ID\n\n"
                ));
            }
        }
        let end = *told.borrow_and_update();
        if !still_valid(&app, &caller) {
            return outlet.end(": this token has expired or was revoked\n\n".into());
        }
        if from.after < end {
            // A failure ends the stream; the reader comes back with its last id and is told why.
            let Ok(batch) = batch(&app, &caller, &from, end).await else { return };
            let moved = batch.upto > from.after;
            from = Place { after: batch.upto, named: true };
            if !batch.text.is_empty() {
                sent = outlet.send(batch.text.clone()).await;
            }
            if moved {
                continue;
            }
        }
        tokio::select! {
            changed = told.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(app.config().keep_alive) => {
                sent = outlet.send(Bytes::from_static(b": still here\n\n")).await;
            }
            () = outlet.closed() => return,
        }
    }
}
