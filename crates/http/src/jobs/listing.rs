//! Lists of jobs: newest first, or sorted.

mod sort;

use super::{SCANNED_AT_ONCE, view};
use crate::auth::{Caller, Reader};
use crate::error::{Failure, Reply};
use crate::extract::{Query, shown};
use crate::{App, admin, answer_bytes, paging};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::JobsQuery;
use muster_engine::State as Site;
use muster_model::job::{Job as ModelJob, JobState};
use muster_model::{JobId, Seq};
use sort::Sort;
use std::ops::Bound;
use std::sync::Arc;

/// A job, and what keeps it from starting whatever is free.
type JobAndBlocker = (Arc<ModelJob>, Option<String>);

/// Is it one of those that are asked for?
type Wanted<'a> = &'a (dyn Fn(&Site, &ModelJob) -> bool + Sync);

/// List jobs, newest first, or in the order that `sort` names.
///
/// A cursor goes back to the order that gave it. Pages of a sorted list have each job once; one that
/// changes between two pages so that its place does may be in both or in none.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(JobsQuery),
    responses((status = 200, description = "A page of jobs.", body = muster_api::JobList))))]
pub(crate) async fn list(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<JobsQuery>,
) -> Reply {
    let limit = paging::limit(q.limit)?;
    let states = q.states().map_err(|e| Failure::bad(e).field("state"))?;
    let project = match (&q.project, &caller.actor.project) {
        (None, own) => own.clone(),
        (Some(p), _) => Some(admin::known(&app, caller.project(Some(p))?)?),
    };
    let tag = q.tag.as_deref().map(tag_asked).transpose()?;
    let by_end = q.last_ended;
    let cursor = q.cursor.as_deref();
    let sort = match (&q.sort, by_end) {
        (None, true) if cursor.is_some() => {
            return Err(Failure::bad("what ended last is one page")
                .field("cursor")
                .hint("ask for more with a larger limit"));
        }
        (None, true) => Some(Sort::by_end()),
        (Some(_), true) => {
            return Err(Failure::bad("what ended last has its own order")
                .field("sort")
                .hint("leave out `sort` or `last_ended`"));
        }
        (Some(text), false) => Some(Sort::asked(text, cursor, app.brain().now())?),
        (None, false) => None,
    };
    let fits = |s: &Site, j: &ModelJob| {
        project.as_ref().is_none_or(|p| j.project == *p)
            && q.user
                .as_ref()
                .is_none_or(|u| j.user == *u || j.user.strip_prefix("user:") == Some(u))
            && q.name.as_ref().is_none_or(|n| j.name.as_str() == n)
            && q.prefix.as_ref().is_none_or(|p| j.name.as_str().starts_with(p.as_str()))
            && q.sku.as_ref().is_none_or(|sku| is_of_sku(s, j, sku))
            && tag.is_none_or(|(key, value)| has_tag(j, key, value))
            && q.held.is_none_or(|held| held == (j.held.is_some() && j.state == JobState::Queued))
            && states.fits(j.state, j.held.is_some())
            && (!by_end || j.state.is_final())
    };
    // One more than asked for is looked for, to know whether there is a next page.
    let (seq, mut found) = match &sort {
        Some(sort) => sorted(&app, sort, limit + 1, &fits).await,
        None => newest(&app, paging::decode("jobs", cursor)?, limit + 1, &fits).await,
    };
    let more = found.len() > limit;
    found.truncate(limit);
    let bytes = match found.len() {
        0..=paging::WRITTEN_AT_ONCE => page(&app, &caller, &found, sort.as_ref(), more),
        _ => {
            let (asked, asking) = (app.clone(), caller.clone());
            let page = move || page(&asked, &asking, &found, sort.as_ref(), more);
            app.aside(&caller.token, page).await?
        }
    };
    Ok(answer_bytes(&app, &caller, StatusCode::OK, seq, None, bytes?))
}

/// The newest jobs below this number, at most so many.
async fn newest(
    app: &App,
    mut below: Option<u64>,
    most: usize,
    fits: Wanted<'_>,
) -> (Seq, Vec<JobAndBlocker>) {
    let now = app.brain().now();
    let mut found: Vec<JobAndBlocker> = Vec::new();
    loop {
        let (seq, at_end) = app.brain().read(|s| {
            let mut reasons = None;
            let upper = below.map_or(Bound::Unbounded, |b| Bound::Excluded(JobId(b)));
            let older = s.jobs.range((Bound::Unbounded, upper)).rev();
            for (looked_at, (id, job)) in older.enumerate() {
                if looked_at == SCANNED_AT_ONCE || found.len() == most {
                    return (s.seq, found.len() == most);
                }
                below = Some(id.0);
                if fits(s, job) {
                    let reasons = reasons.get_or_insert_with(|| s.reasons(now));
                    found.push((Arc::clone(job), s.stopped_by(job, reasons, now)));
                }
            }
            (s.seq, true)
        });
        if at_end {
            return (seq, found);
        }
        tokio::task::yield_now().await;
    }
}

/// The first jobs of an order, at most so many. Every job is looked at, some of them at a time; no more
/// are held than are asked for and looked at in one turn.
async fn sorted(
    app: &App,
    sort: &Sort,
    most: usize,
    fits: Wanted<'_>,
) -> (Seq, Vec<JobAndBlocker>) {
    let mut found: Vec<(sort::Key, Arc<ModelJob>)> = Vec::new();
    let mut above: Bound<JobId> = Bound::Unbounded;
    loop {
        let last = app.brain().read(|s| {
            let mut last = None;
            for (id, job) in s.jobs.range((above, Bound::Unbounded)).take(SCANNED_AT_ONCE) {
                last = Some(*id);
                let key = fits(s, job).then(|| sort.key(job)).filter(|key| sort.is_next(key));
                found.extend(key.map(|key| (key, Arc::clone(job))));
            }
            last
        });
        found.sort_unstable_by(|(a, _), (b, _)| sort.compare(a, b));
        found.truncate(most);
        let Some(last) = last else { break };
        above = Bound::Excluded(last);
        tokio::task::yield_now().await;
    }
    let now = app.brain().now();
    app.brain().read(|s| {
        let mut reasons = None;
        let with_blocker = |(_, job): (sort::Key, Arc<ModelJob>)| {
            // Nothing keeps one from starting that does not wait.
            let barred = if job.state == JobState::Queued {
                let reasons = reasons.get_or_insert_with(|| s.reasons(now));
                s.stopped_by(&job, reasons, now)
            } else {
                None
            };
            (job, barred)
        };
        (s.seq, found.into_iter().map(with_blocker).collect())
    })
}

/// The key of a tag, and its value where that matters too.
fn tag_asked(text: &str) -> Reply<(&str, Option<&str>)> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (text, None),
    };
    if key.is_empty() {
        return Err(Failure::bad(format!("`{}` names no tag", shown(text)))
            .field("tag")
            .hint("write ?tag=KEY=VALUE, or ?tag=KEY for any value"));
    }
    Ok((key, value))
}

fn has_tag(job: &ModelJob, key: &str, value: Option<&str>) -> bool {
    job.spec.tags.get(key).is_some_and(|v| value.is_none_or(|asked| v == asked))
}

/// Does it ask for GPUs of this SKU, or is it on a node that has them?
fn is_of_sku(site: &Site, job: &ModelJob, sku: &str) -> bool {
    let named = |skus: &str| skus.split('|').any(|s| s.trim().eq_ignore_ascii_case(sku));
    let asks = job.groups.iter().any(|g| g.sku.as_deref().is_some_and(named));
    let slots = job.attempt.iter().flat_map(|a| a.placement.slots.iter());
    let mut nodes = slots.filter_map(|s| site.nodes.get(&s.node));
    asks || nodes.any(|n| n.sku().eq_ignore_ascii_case(sku))
}

/// Jobs as a page; fewer than were found when they are too large for one.
fn page(
    app: &App,
    caller: &Caller,
    found: &[JobAndBlocker],
    sort: Option<&Sort>,
    more: bool,
) -> Reply<Vec<u8>> {
    let mut page = paging::Page::new();
    let mut last = None;
    for (job, barred) in found {
        if !page.push(&view(app, caller, job, barred.as_deref()))? {
            break;
        }
        last = Some(job);
    }
    let left = more || last.map(|j| j.id) != found.last().map(|(j, _)| j.id);
    let cursor = last.filter(|_| left).and_then(|job| match sort {
        None => Some(paging::encode("jobs", job.id.0)),
        Some(sort) => sort.cursor(job),
    });
    Ok(page.end(cursor.as_deref()))
}
