//! Search over job output. Who may read a job's output may find its lines, and nobody else.

use crate::auth::{Caller, Reader};
use crate::error::{Failure, Reply};
use crate::extract::Query;
use crate::{App, admin, answer, jobs, paging};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{LogStream, OutputHit, OutputHitList, OutputSearchQuery};
use muster_link::messages::Stream;
use muster_model::job::Job;
use muster_model::names::ProjectName;
use muster_model::text::plain_line;
use muster_model::units::Time;
use muster_model::{AttemptKey, JobId, Seq};
use muster_outsearch::{MatchedLine, Query as Words, SearchRequest, shown_line};
use muster_server::output_search::NoOutputSearch;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lines when nothing is said.
const DEFAULT_LIMIT: u32 = 50;
/// Most lines of a page.
const MAX_LIMIT: u32 = 200;
/// Most characters of a line that are sent.
const MAX_SHOWN: usize = 1000;
/// Most projects that are searched at once.
const MAX_PROJECTS: usize = 200;
/// Times that the index is looked at for one page, where what it finds is not there any more.
const ROUNDS: usize = 4;
/// After so long a page ends with what was found until then.
const LONGEST: Duration = Duration::from_secs(5);
/// The name of this list in its cursors.
const LIST: &str = "output";

/// What is asked for.
struct OutputRequest {
    words: Words,
    projects: Vec<ProjectName>,
    job: Option<JobId>,
    since: Option<Time>,
    below: Option<u64>,
    limit: usize,
}

/// Search stored job output by words, over all jobs.
///
/// A line is found when it has all the words; their case does not matter, and what is neither letter nor
/// digit only separates them. Only output that the caller may read is searched. 409 where the server
/// has no index of output.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/search/output", tag = "search", params(OutputSearchQuery),
    responses((status = 200, description = "Lines that have the words, newest first.", body = OutputHitList))))]
pub(crate) async fn find(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<OutputSearchQuery>,
) -> Reply {
    let request = parse_request(&app, &caller, &q)?;
    // Nobody waits for their turn only to read that it is off.
    app.output_search().status().map_err(no_search)?;
    let (within, asking) = (app.clone(), caller.clone());
    let search = move || search_index(&within, &asking, &request);
    let (seq, found) = app.aside(&caller.token, search).await??;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &found))
}

fn parse_request(app: &App, caller: &Caller, q: &OutputSearchQuery) -> Reply<OutputRequest> {
    let limit = match q.limit.unwrap_or(DEFAULT_LIMIT) {
        n @ 1..=MAX_LIMIT => n as usize,
        n => {
            let why = format!("limit is {n}; it must be between 1 and {MAX_LIMIT}");
            return Err(Failure::bad(why).field("limit"));
        }
    };
    let words = Words::parse(q.q.as_deref().unwrap_or_default()).map_err(|e| {
        Failure::bad(e.to_string())
            .field("q")
            .hint("give words, such as `NCCL WARN`, or a phrase in quotation marks")
    })?;
    let cursor: Option<String> = paging::decode(LIST, q.cursor.as_deref())?;
    let below = cursor.map(|text| {
        let line = caller.open_position(app, &text).ok_or_else(paging::unknown_cursor);
        line.map(|line| line.0)
    });
    let below = below.transpose()?;
    let named = q.project.as_deref().map(|p| admin::known(app, caller.project(Some(p))?));
    let named = named.transpose()?;
    let job = q.job.as_deref().map(|id| jobs::named(app, caller, id)).transpose()?;
    let projects = match (named, &job) {
        (Some(named), Some(job)) if named != job.project => {
            let id = job.display_id();
            return Err(Failure::bad(format!("job {id} is of project {}", job.project))
                .field("project")
                .hint("leave it out: a job has one project"));
        }
        (Some(named), _) => vec![named],
        (None, Some(job)) => vec![job.project.clone()],
        (None, None) => readable_projects(app, caller)?,
    };
    let (job, since) = (job.map(|j| j.id), q.since.map(|t| t.0));
    Ok(OutputRequest { words, projects, job, since, below, limit })
}

/// The projects whose output this caller may read.
fn readable_projects(app: &App, caller: &Caller) -> Reply<Vec<ProjectName>> {
    if let Some(own) = &caller.actor.project {
        return Ok(vec![own.clone()]);
    }
    let all: Vec<ProjectName> =
        app.brain().read(|s| s.projects.keys().take(MAX_PROJECTS + 1).cloned().collect());
    if all.len() > MAX_PROJECTS {
        return Err(Failure::bad(format!("at most {MAX_PROJECTS} projects are searched at once"))
            .field("project")
            .hint("name a project, such as `?project=nlp`"));
    }
    Ok(all)
}

fn no_search(why: NoOutputSearch) -> Failure {
    let message = why.to_string();
    match why {
        NoOutputSearch::Off(_) => Failure::conflict(message)
            .hint("turn it on with --output-search on where the server is started"),
        NoOutputSearch::Opening | NoOutputSearch::Failed => Failure::unavailable(message),
    }
}

/// Reads files: not on a thread that answers requests.
fn search_index(
    app: &App,
    caller: &Caller,
    request: &OutputRequest,
) -> Reply<(Seq, OutputHitList)> {
    let seq = app.brain().read(|s| s.seq);
    let search = app.output_search();
    let indexing = search.status().map_err(no_search)?.is_behind;
    let until = Instant::now() + LONGEST;
    let mut below = request.below;
    let mut items = Vec::new();
    for _ in 0..ROUNDS {
        let wanted = SearchRequest {
            query: &request.words,
            job: request.job.map(|j| j.0),
            since: request.since.map(|t| t.0),
            below,
            limit: request.limit - items.len(),
            until: Some(until),
        };
        let found = search.find(&request.projects, &wanted).map_err(no_search)?;
        let hits = found
            .lines
            .iter()
            .filter_map(|(of, line)| readable_hit(app, caller, request, of, line));
        items.extend(hits);
        below = found.floor;
        if below.is_none() || items.len() >= request.limit || Instant::now() >= until {
            break;
        }
    }
    // Lines are numbered over all projects: how many others have is not for those who are bound to one.
    let cursor = below.map(|id| paging::encode(LIST, caller.position(app, Seq(id))));
    Ok((seq, OutputHitList { items, cursor, indexing }))
}

/// The line as it is sent. None when the caller may not read it or it is not kept any more: the index
/// may be older than the log, and never decides who sees what.
fn readable_hit(
    app: &App,
    caller: &Caller,
    request: &OutputRequest,
    project: &ProjectName,
    found: &MatchedLine,
) -> Option<OutputHit> {
    let of = found.stream.attempt;
    let key = AttemptKey { job: JobId(of.job), attempt: of.attempt };
    let job = app.brain().read(|s| {
        let job = s.jobs.get(&key.job)?;
        let own = job.project == *project && caller.sees(&job.project);
        (own && s.generation_of(key).0 == of.life).then(|| Arc::clone(job))
    })?;
    let is_older = |since| found.at.is_none() && ended_before(&job, key.attempt, since);
    if request.since.is_some_and(is_older) {
        return None;
    }
    let stream = if found.stream.is_stderr { Stream::Stderr } else { Stream::Stdout };
    let (text, cut) =
        shown_line(&read_line(app, (key, found.stream.rank, stream), found)?, MAX_SHOWN);
    Some(OutputHit {
        job: job.display_id(),
        project: job.project.to_string(),
        attempt: key.attempt,
        rank: found.stream.rank,
        stream: if found.stream.is_stderr { LogStream::Stderr } else { LogStream::Stdout },
        line: found.number,
        offset: found.offset,
        at: found.at.map(|at| Time(at).into()),
        text: plain_line(&text).into_owned(),
        cut: cut || found.len >= muster_outsearch::MAX_LINE as u64,
    })
}

/// Is it known that the attempt was over by then?
fn ended_before(job: &Job, attempt: u32, since: Time) -> bool {
    job.past.iter().any(|p| p.no == attempt && p.ended_at < since)
}

/// The bytes of a line, all of them or none.
fn read_line(app: &App, id: (AttemptKey, u32, Stream), found: &MatchedLine) -> Option<Vec<u8>> {
    let len = usize::try_from(found.len).ok()?;
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let from = found.offset + bytes.len() as u64;
        let piece = app.logs().read_here(id, from, len - bytes.len()).ok()?;
        if piece.dropped > 0 || piece.data.is_empty() {
            return None;
        }
        bytes.extend_from_slice(&piece.data);
    }
    Some(bytes)
}
