//! What ranks print.

mod out;

use super::auth::{Caller, Reader};
use super::error::{Failure, Reply};
use super::extract::{Query, Segment, accepts, asks_for, stream_body};
use super::feed::Feed;
use super::limits::StreamPermit;
use super::{App, jobs, mark};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use muster_api::LogsQuery;
use muster_model::job::Job;
use muster_model::spec::Group;
use muster_model::units::Time;
use muster_model::{AttemptKey, JobId};
use muster_server::logs::{Follow, LogError, LogKeeper};
use muster_server::supervise;
use out::Out;
use std::time::Duration;
use tokio::sync::mpsc;

/// How far back the last lines of a stream are looked for.
const TAIL_BYTES: usize = 1 << 20;
/// How far the end of a line is looked for that began before the moment asked for.
const LINE_BYTES: usize = 64 << 10;
/// Most lines of a tail.
const TAIL_LINES: u32 = 100_000;
/// Pause between two looks at a job whose log moves fast.
const LOOK: Duration = Duration::from_millis(20);

const NDJSON: &str = "application/x-ndjson";
const PLAIN: &str = "text/plain";

/// Read what a job's ranks print, or follow it.
///
/// Each line of the answer is a piece of one rank's output. With `Accept: text/plain` and a
/// `rank`, the answer is that rank's output byte for byte. Without `attempt` it is the newest
/// attempt's; followed, it continues with the next attempt until the job has ended. With `timestamps`
/// a piece has the time `at` which its node saw it, where that is known; in plain text each line begins
/// with it, or with `no-time`.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/jobs/{id}/logs", tag = "jobs",
    params(("id" = String, Path, description = "`42`, or `42_3` for a task of an array.", pattern = "^[0-9]+(_[0-9]+)?$"), LogsQuery),
    responses((status = 200, description = "Pieces of output, one a line; or the bytes themselves.", content(
        (String = "application/x-ndjson"), (String = "text/plain"))))))]
pub(crate) async fn logs(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(id): Segment,
    Query(q): Query<LogsQuery>,
    headers: HeaderMap,
) -> Reply {
    let job = jobs::named(&app, &caller, &id)?;
    let plain = asks_for(&headers, PLAIN);
    if !plain && !accepts(&headers, &[NDJSON]) {
        return Err(Failure::not_acceptable(format!(
            "output comes as {NDJSON}, or with a rank as {PLAIN}"
        )));
    }
    if plain && q.rank.is_none() {
        return Err(Failure::bad("plain text is for one rank's output")
            .field("rank")
            .hint("add ?rank=0"));
    }
    if let Some(n) = q.attempt
        && (n == 0 || n > job.attempts)
    {
        let had = match job.attempts {
            1 => "1 attempt".to_owned(),
            n => format!("{n} attempts"),
        };
        return Err(Failure::not_found(format!("job {id} has had {had}")).field("attempt"));
    }
    let most = most_ranks(&job);
    if q.rank.is_some_and(|r| u64::from(r) >= most) {
        let has = match most {
            1 => "rank 0 only".into(),
            n => format!("ranks 0 to {}", n.saturating_sub(1)),
        };
        return Err(Failure::not_found(format!("job {id} has {has}"))
            .field("rank")
            .hint(format!("`muster describe job {id}` says where each of them runs")));
    }
    if q.tail.is_some_and(|n| n > TAIL_LINES) {
        return Err(Failure::bad(format!("tail is at most {TAIL_LINES} lines")).field("tail"));
    }
    let permit = app.stream_permit(&caller.token)?;
    let (tx, rx) = mpsc::channel(8);
    let mut response = Response::new(stream_body(tokio_stream::wrappers::ReceiverStream::new(rx)));
    let headers = response.headers_mut();
    let media = if plain { "text/plain; charset=utf-8" } else { NDJSON };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    mark(headers, &app, &caller, app.brain().durable());
    let out = Out::new(tx, plain, q.timestamps, app.config().slow_reader);
    let run = Box::pin(produce(app, caller, job.id, q, out, permit));
    // One that panics is counted, and who reads it comes again.
    tokio::spawn(async move { supervise::once("log-stream", run).await });
    Ok(response)
}

/// Ranks of its largest attempt: an elastic gang may have had more nodes than it was written with.
fn most_ranks(job: &Job) -> u64 {
    let ranks = |g: &Group, nodes: u32| u64::from(nodes) * u64::from(g.ranks);
    let written: u64 = job.groups.iter().map(|g| ranks(g, g.nodes)).sum();
    match (&job.groups[..], job.spec.elastic) {
        ([g], Some(e)) => ranks(g, e.max_nodes).max(written),
        _ => written,
    }
}

/// Where an attempt, and its job, stand.
struct AttemptProgress {
    /// Newest attempt; 0 before the first.
    newest: u32,
    /// The one asked about goes on.
    going_on: bool,
    /// There will be no other.
    ended: bool,
}

fn standing(app: &App, caller: &Caller, job: JobId, attempt: u32) -> Option<AttemptProgress> {
    let now = app.brain().now();
    if caller.session_ended(now) {
        return None;
    }
    app.brain().read(|s| {
        // A token that has expired since ends what it began to follow.
        let token = s.tokens.get(&caller.token)?;
        let valid = token.expires_at.is_none_or(|at| at > now);
        let job = s.jobs.get(&job).filter(|_| valid)?;
        let going_on = job.attempt.as_ref().is_some_and(|a| a.no == attempt);
        Some(AttemptProgress { newest: job.attempts, going_on, ended: job.state.is_final() })
    })
}

async fn produce(
    app: App,
    caller: Caller,
    job: JobId,
    q: LogsQuery,
    mut out: Out,
    _permit: StreamPermit,
) {
    let Some(now) = standing(&app, &caller, job, 0) else { return };
    let mut attempt = q.attempt.unwrap_or(now.newest);
    let (mut durable, _follower) = Feed::follow(&app);
    let mut tail = q.tail;
    // A job that was never started has no attempt yet: wait for the first.
    while attempt == 0 {
        durable.mark_unchanged();
        let Some(now) = standing(&app, &caller, job, 0) else { return };
        attempt = now.newest;
        let over = attempt == 0 && (!q.follow || now.ended);
        if over || (attempt == 0 && !wait(&app, &caller, &mut durable, &out).await) {
            return;
        }
    }
    loop {
        let key = AttemptKey { job, attempt };
        match follow(&app, &caller, key, &q, tail.take(), &mut durable, &mut out).await {
            Ok(true) if q.follow && q.attempt.is_none() => {}
            Ok(_) => return,
            Err(e) => {
                tracing::warn!(%key, error = %e, "stored output cannot be read");
                out.note(attempt, format!("the server cannot read this output: {e}")).await;
                return;
            }
        }
        // That attempt is over; is there, or will there be, another one?
        loop {
            durable.mark_unchanged();
            let Some(now) = standing(&app, &caller, job, attempt) else { return };
            if now.newest > attempt {
                attempt += 1;
                break;
            }
            if now.ended || !wait(&app, &caller, &mut durable, &out).await {
                return;
            }
        }
    }
}

/// Waits for the log to move, or for the caller's token or session to end. False when there is
/// nobody left to wait for.
async fn wait(
    app: &App,
    caller: &Caller,
    durable: &mut tokio::sync::watch::Receiver<muster_model::Seq>,
    out: &Out,
) -> bool {
    // Counted from what was sent, not from the last look: the log of a busy site moves all the time.
    let due = out.last_sent() + app.config().keep_alive;
    tokio::select! {
        () = caller.expired(app) => true,
        moved = durable.changed() => {
            tokio::time::sleep(LOOK).await;
            moved.is_ok()
        }
        () = tokio::time::sleep_until(due) => out.alive().await,
        () = out.tx.closed() => false,
    }
}

/// Sends an attempt's output. True when it was all; false when the reader is gone.
async fn follow(
    app: &App,
    caller: &Caller,
    key: AttemptKey,
    q: &LogsQuery,
    tail: Option<u32>,
    durable: &mut tokio::sync::watch::Receiver<muster_model::Seq>,
    out: &mut Out,
) -> Result<bool, LogError> {
    let mut pieces = app.logs().follow(key, q.rank);
    pieces.set_timed(q.timestamps);
    if let Some(lines) = tail {
        seek_tail(app.logs(), &mut pieces, key, q.rank, lines as usize).await?;
    }
    if let Some(since) = q.since
        && seek_since(app.logs(), &mut pieces, key, q.rank, since.into()).await?
        && !out.note(key.attempt, UNTIMED.into()).await
    {
        return Ok(false);
    }
    loop {
        durable.mark_unchanged();
        // Asked before the output is read: every byte of an attempt is kept before its end is in
        // the log, so that what is read after the end was seen is all of it.
        let Some(now) = standing(app, caller, key.job, key.attempt) else { return Ok(false) };
        while let Some(piece) = pieces.ready().await? {
            if !out.piece(key.attempt, piece).await {
                return Ok(false);
            }
        }
        if !q.follow || !now.going_on {
            return Ok(out.flush(key.attempt).await);
        }
        tokio::select! {
            piece = pieces.next() => if !out.piece(key.attempt, piece?).await {
                return Ok(false);
            },
            going = wait(app, caller, durable, out) => if !going {
                return Ok(false);
            },
        }
    }
}

/// Puts each stream of the attempt at the beginning of its last lines.
async fn seek_tail(
    keeper: &LogKeeper,
    pieces: &mut Follow,
    key: AttemptKey,
    rank: Option<u32>,
    lines: usize,
) -> Result<(), LogError> {
    for stream in keeper.ranks(key).await? {
        if rank.is_some_and(|r| r != stream.rank) {
            continue;
        }
        let mut window = (lines.saturating_mul(256)).clamp(4096, TAIL_BYTES);
        loop {
            let last = keeper.tail(key, stream.rank, stream.stream, window).await?;
            let found = tail_start(&last.data, lines);
            // Looked far enough back, or there is no more.
            if found.is_some() || window >= TAIL_BYTES || last.data.len() < window {
                let skip = found.unwrap_or(0) as u64;
                pieces.seek(stream.rank, stream.stream, last.offset + skip);
                break;
            }
            window = (window * 4).min(TAIL_BYTES);
        }
    }
    Ok(())
}

/// What is shown where output was left out because its time is not known.
const UNTIMED: &str = "some output before this is left out because its time is not known";

/// Puts each stream at its first line of a moment or later. True where output without a time was left out.
async fn seek_since(
    keeper: &LogKeeper,
    pieces: &mut Follow,
    key: AttemptKey,
    rank: Option<u32>,
    moment: Time,
) -> Result<bool, LogError> {
    let mut untimed = false;
    for stream in keeper.ranks(key).await? {
        if rank.is_some_and(|r| r != stream.rank) {
            continue;
        }
        let found = keeper.since(key, stream.rank, stream.stream, moment).await?;
        untimed |= found.untimed;
        let mut begin = found.offset;
        if let Some(before) = begin.checked_sub(1) {
            // A line that began before is not of this moment.
            let piece = keeper.read(key, stream.rank, stream.stream, before, LINE_BYTES).await?;
            let end = piece.data.iter().position(|b| *b == b'\n');
            if let Some(end) = end.filter(|_| piece.dropped == 0) {
                begin = piece.offset + end as u64 + 1;
            }
        }
        pieces.skip_to(stream.rank, stream.stream, begin);
    }
    Ok(untimed)
}

/// Where the last `lines` lines begin; none when there are fewer.
fn tail_start(data: &[u8], lines: usize) -> Option<usize> {
    if lines == 0 {
        return Some(data.len());
    }
    // The newline at the very end closes the last line and begins none.
    let body = data.strip_suffix(b"\n").unwrap_or(data);
    let nth = body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n').nth(lines - 1);
    nth.map(|(i, _)| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_found() {
        assert_eq!(tail_start(b"a\nb\nc\n", 2), Some(2));
        assert_eq!(tail_start(b"a\nb\nc", 1), Some(4));
        assert_eq!(tail_start(b"a\nb\n", 3), None);
        assert_eq!(tail_start(b"a\n", 0), Some(2));
        assert_eq!(tail_start(b"", 1), None);
    }
}
