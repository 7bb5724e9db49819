//! Pages of the log. Each looks at so many records and no more, and says where the next one begins.

use super::{Audience, BATCH, StreamPosition, read, view};
use crate::auth::Caller;
use crate::error::Reply;
use crate::event_filter::EventFilter;
use crate::{App, answer_bytes, paging};
use axum::http::StatusCode;
use muster_model::{Record, Seq, Time};
use muster_server::follower::Cursor;
use std::sync::Arc;

/// Records looked at for one page: those that are wanted may be far apart.
const SCANNED_AT_MOST: usize = 16_384;

/// A page of events that is being written.
struct Filling {
    page: paging::Page,
    items: usize,
    /// The last record that was looked at.
    at: Option<Seq>,
    /// There is no place for the next one.
    full: bool,
    /// What comes next is outside the time that was asked for.
    past: bool,
}

impl Filling {
    fn new() -> Filling {
        Filling { page: paging::Page::new(), items: 0, at: None, full: false, past: false }
    }

    /// The same with what fits of these records. `outside`: nothing behind such a moment is wanted.
    fn with<'a>(
        mut self,
        app: &App,
        audience: &Audience,
        filter: &EventFilter,
        records: impl Iterator<Item = &'a Arc<Record>>,
        limit: usize,
        outside: impl Fn(Time) -> bool,
    ) -> Reply<Filling> {
        for record in records {
            self.past = outside(record.at);
            self.full = self.items == limit;
            if self.past || self.full {
                break;
            }
            if let Some(view) = view(app, audience, filter, record) {
                self.full = !self.page.push(&view)?;
                if self.full {
                    break;
                }
                self.items += 1;
            }
            self.at = Some(record.seq);
        }
        Ok(self)
    }
}

/// The last record that was written before this moment; 0 when there is none.
async fn seek(app: &App, time: Time) -> Reply<Seq> {
    let whole = (Seq(0), app.brain().durable());
    Ok(Cursor::seek(app.brain(), time, whole).await?.place())
}

/// The place, moved to the beginning of the time that was asked for.
pub(super) async fn not_before(
    app: &App,
    from: StreamPosition,
    filter: &EventFilter,
) -> Reply<StreamPosition> {
    let Some(time) = filter.from else { return Ok(from) };
    let first = seek(app, time).await?;
    Ok(if first > from.after { StreamPosition { after: first, named: false } } else { from })
}

/// A page that goes on behind a place.
pub(super) async fn oldest_first(
    app: &App,
    caller: &Caller,
    filter: &EventFilter,
    mut from: StreamPosition,
    limit: usize,
) -> Reply {
    let end = app.brain().durable();
    let mut filling = Filling::new();
    let (mut scanned, mut at_end) = (0, false);
    while !at_end && !filling.full && scanned < SCANNED_AT_MOST {
        let records = read(app, caller, &from).await?;
        at_end = records.is_empty();
        scanned += records.len();
        let (asked, audience, wanted) = (app.clone(), Audience::of(caller), filter.clone());
        let more = move || {
            let outside = |at: Time| wanted.to.is_some_and(|to| at >= to);
            filling.with(&asked, &audience, &wanted, records.iter(), limit, outside)
        };
        filling = match limit <= paging::WRITTEN_AT_ONCE && filter.is_empty() {
            true => more()?,
            false => app.aside(&caller.token, more).await??,
        };
        if let Some(at) = filling.at.filter(|at| *at > from.after) {
            from = StreamPosition { after: at, named: true };
        }
        at_end |= filling.past || (!filling.full && from.after >= end);
    }
    let cursor = (!at_end).then(|| caller.position(app, from.after));
    let bytes = filling.page.end(cursor.as_deref());
    Ok(answer_bytes(app, caller, StatusCode::OK, end, None, bytes))
}

/// A page that goes back from a place, or from the end of the log.
pub(super) async fn newest_first(
    app: &App,
    caller: &Caller,
    filter: &EventFilter,
    before: Option<Seq>,
    limit: usize,
) -> Reply {
    let end = app.brain().durable();
    let mut before = before.unwrap_or(end.next());
    if let Some(to) = filter.to {
        before = before.min(seek(app, to).await?.next());
    }
    let mut filling = Filling::new();
    let (mut scanned, mut at_end) = (0, false);
    while !at_end && !filling.full && scanned < SCANNED_AT_MOST {
        let records = Cursor::before(app.brain(), before, BATCH).await?;
        at_end = records.is_empty();
        scanned += records.len();
        let (asked, audience, wanted) = (app.clone(), Audience::of(caller), filter.clone());
        let more = move || {
            let outside = |at: Time| wanted.from.is_some_and(|from| at < from);
            filling.with(&asked, &audience, &wanted, records.iter().rev(), limit, outside)
        };
        filling = match limit <= paging::WRITTEN_AT_ONCE && filter.is_empty() {
            true => more()?,
            false => app.aside(&caller.token, more).await??,
        };
        if let Some(at) = filling.at {
            before = before.min(at);
        }
        at_end |= filling.past || (!filling.full && before <= Seq(1));
    }
    let cursor = (!at_end).then(|| caller.position(app, before));
    let bytes = filling.page.end(cursor.as_deref());
    Ok(answer_bytes(app, caller, StatusCode::OK, end, None, bytes))
}
