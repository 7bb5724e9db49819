//! Reads the API: one stream that reports what changed, and what the model wants to know.

use super::feed::ReadRequest;
use super::model::{JobDetail, Jobs, Link, Model, Msg, View};
use muster_api::{AlertsQuery, Job, JobsQuery, LogsQuery};
use muster_client::{Client, ClientError, FrameBody, Frames};
use muster_model::job::JobState;
use muster_model::units::Span;
use muster_terminal::clean::plain;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// Jobs that are read of each kind.
const JOBS: usize = 500;
/// Jobs that ended, of which those of the last hour are shown.
const ENDED: u32 = 50;
/// A job that ended within this is still of interest.
const RECENT: Span = Span::mins(60);
/// Lines of output that are read.
const LINES: u32 = 40;
/// Of a gang with more ranks only the first rank's output is read.
const RANKS: u64 = 8;
/// The server says something every second; after this long it is taken to be away.
const SILENT: Duration = Duration::from_secs(8);
/// Longest pause before the next try.
const PAUSE: Duration = Duration::from_secs(5);

/// A client that gives up soon when somebody watches: the screen says that it tries again.
pub(super) fn client(ctx: &Ctx, watched: bool) -> Result<Client, Fail> {
    let s = ctx.settings()?;
    let mut builder = Client::builder(&s.server, s.token.as_deref());
    if let Some(ca) = &s.ca {
        builder = builder.ca(ca);
    }
    if watched {
        builder = builder.tries(1).timeout(Duration::from_secs(20));
    }
    Ok(builder.build()?)
}

/// What went wrong, with its innermost cause.
fn describe_error(e: ClientError) -> String {
    Fail::from(e).message
}

/// Follows the fleet for ever, through restarts of the server.
pub(super) async fn follow(client: Client, tx: Sender<Msg>) {
    let mut pause = Duration::from_millis(250);
    loop {
        let why = match stream(&client, &tx, &mut pause).await {
            Ok(()) => "the server ended the stream".to_owned(),
            // The innermost cause says most, and there is little room.
            Err(e) => describe_error(e).rsplit(": ").next().unwrap_or_default().to_owned(),
        };
        if tx.send(Msg::Link(Link::Away { since: now(), why })).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE);
    }
}

async fn open(client: &Client, tx: &Sender<Msg>) -> Result<(Frames, u64), ClientError> {
    let layout = client.console_layout().await?;
    let version = layout.version;
    let _ = tx.send(Msg::Layout(layout)).await;
    Ok((client.console_frames().await?, version))
}

async fn stream(
    client: &Client,
    tx: &Sender<Msg>,
    pause: &mut Duration,
) -> Result<(), ClientError> {
    let (mut frames, mut version) = open(client, tx).await?;
    loop {
        let next = tokio::time::timeout(SILENT, frames.next()).await;
        // Silence is an end like others.
        let Ok(next) = next else { return Ok(()) };
        let Some(frame) = next? else { return Ok(()) };
        let cells = matches!(frame.body, FrameBody::Whole(_) | FrameBody::Change(_));
        if cells && frame.version != version {
            // Nodes came, went or moved: a new layout, and a whole picture for it.
            (frames, version) = open(client, tx).await?;
            continue;
        }
        *pause = Duration::from_millis(250);
        let whole = matches!(frame.body, FrameBody::Whole(_));
        if tx.send(Msg::Frame(frame)).await.is_err() {
            return Ok(());
        }
        if whole && tx.send(Msg::Link(Link::Live)).await.is_err() {
            return Ok(());
        }
    }
}

/// Reads what the model wants, and says so.
pub(super) async fn read(client: Client, want: ReadRequest, tx: Sender<Msg>) {
    let start = Instant::now();
    match fetch(&client, &want).await {
        Ok(heard) => {
            for msg in heard {
                let _ = tx.send(msg).await;
            }
            let took = Span(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
            let _ = tx.send(Msg::Done(want, took)).await;
        }
        Err(e) => {
            let _ = tx.send(Msg::Failed(want, describe_error(e))).await;
        }
    }
}

async fn fetch(client: &Client, want: &ReadRequest) -> Result<Vec<Msg>, ClientError> {
    match want {
        ReadRequest::Jobs => Ok(vec![Msg::Jobs(jobs(client).await?)]),
        ReadRequest::Health => {
            let health = client.health().await?;
            let query =
                AlertsQuery { open: Some(true), limit: Some(1000), ..AlertsQuery::default() };
            let alerts = client.alerts(&query).await?.items;
            Ok(vec![Msg::Health(Box::new(health), alerts)])
        }
        ReadRequest::Causes => Ok(vec![Msg::Causes(client.causes().await?.items)]),
        ReadRequest::Incident(id) => Ok(vec![Msg::Incident(Box::new(client.incident(id).await?))]),
        ReadRequest::Job(id) => Ok(vec![Msg::Job(Box::new(job(client, id).await?))]),
        ReadRequest::Whys(ids) => {
            let mut out = Vec::new();
            for (number, id) in ids {
                match client.explain(id).await {
                    Ok(e) => out.push(Msg::Why(*number, Box::new(e))),
                    // It may have started or been forgotten meanwhile: no reason to stop.
                    Err(ClientError::Api { .. }) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(out)
        }
    }
}

async fn jobs(client: &Client) -> Result<Jobs, ClientError> {
    let of = |state: &str| JobsQuery { state: Some(state.into()), ..JobsQuery::default() };
    let running = client.jobs_up_to(&of("starting,running,stopping"), JOBS).await?;
    let waiting = client.jobs_up_to(&of("queued"), JOBS).await?;
    let query = JobsQuery { last_ended: true, limit: Some(ENDED), ..JobsQuery::default() };
    let since = now() - RECENT;
    let mut ended = client.jobs(&query).await?.items;
    ended.retain(|j| j.ended_at.is_some_and(|t| t.0 >= since));
    let more = running.cursor.is_some() || waiting.cursor.is_some();
    let (running, mut waiting) = (running.items, waiting.items);
    // Who has a reserved start comes first; then who has waited longest. Held ones last.
    let order = |j: &Job| {
        let reserved = j.reserved_start.as_ref().map_or(i64::MAX, |p| p.at.0.0);
        (j.held.is_some(), reserved, j.submitted_at.0, j.number)
    };
    waiting.sort_by_key(order);
    Ok(Jobs { running, waiting, ended, more })
}

async fn job(client: &Client, id: &str) -> Result<JobDetail, ClientError> {
    let job = client.job(id).await?;
    // What is beside it may be missing: the job itself is worth showing.
    let report = client.job_report(id).await.ok();
    let explain = match job.state {
        JobState::Queued => client.explain(id).await.ok(),
        _ => None,
    };
    let output = match job.attempts {
        0 => Vec::new(),
        _ => output(client, &job).await.unwrap_or_default(),
    };
    Ok(JobDetail { job, report, explain, output })
}

async fn output(client: &Client, job: &Job) -> Result<Vec<(u32, String)>, ClientError> {
    let rank = (job.ranks() > RANKS).then_some(0);
    let query = LogsQuery { rank, tail: Some(LINES), ..LogsQuery::default() };
    let mut logs = client.logs(&job.id, &query);
    let mut lines: Vec<(u32, String)> = Vec::new();
    let mut open: std::collections::BTreeMap<(u32, muster_api::LogStream), Vec<u8>> =
        Default::default();
    while let Some(piece) = logs.next().await? {
        let part = open.entry((piece.rank, piece.stream)).or_default();
        part.extend_from_slice(&piece.bytes);
        while let Some(end) = part.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = part.drain(..=end).collect();
            lines.push((piece.rank, shown(&line)));
        }
    }
    let rest = open.into_iter().filter(|(_, part)| !part.is_empty());
    lines.extend(rest.map(|((rank, _), part)| (rank, shown(&part))));
    Ok(lines)
}

/// A line as a terminal would leave it: what a carriage return wrote over is gone.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\n', '\r']);
    plain(text.rsplit('\r').next().unwrap_or(text))
}

/// Everything that one picture needs.
pub(super) async fn once(client: &Client, model: &mut Model) -> Result<(), Fail> {
    let mut wants = vec![ReadRequest::Health];
    match model.view {
        View::Fleet => {
            let layout = client.console_layout().await?;
            model.update(Msg::Layout(layout));
            let mut frames = client.console_frames().await?;
            while !model.fleet.known {
                let Some(frame) = frames.next().await? else { break };
                let other = frame.version != model.fleet.version();
                if other && matches!(frame.body, FrameBody::Whole(_)) {
                    model.update(Msg::Layout(client.console_layout().await?));
                }
                model.update(Msg::Frame(frame));
            }
        }
        View::Queue => wants.push(ReadRequest::Jobs),
        View::Incidents => {}
        View::Job => wants.extend(model.job_id.clone().map(ReadRequest::Job)),
    }
    for want in wants {
        for msg in fetch(client, &want).await? {
            model.update(msg);
        }
        model.update(Msg::Done(want, Span(0)));
    }
    model.update(Msg::Link(Link::Live));
    if let Some(want) = model.due().into_iter().find(|w| matches!(w, ReadRequest::Whys(_))) {
        for msg in fetch(client, &want).await? {
            model.update(msg);
        }
    }
    Ok(())
}
