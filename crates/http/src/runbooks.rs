//! Runbooks over HTTP: the runbooks, runs of them, and what a run would do.

use super::auth::{OperatorWriter, Reader, SiteUserWriter, SiteWriter, Writer};
use super::error::{Failure, Reply};
use super::extract::{JsonBody, OptionalBody, Query, Segment, number, shown};
use super::policy::same_version;
use super::{App, answer, answer_bytes, gone, paging};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{
    AnswerRunbook, ReasonRequest, Runbook, RunbookAnswer, RunbookChoice, RunbookList, RunbookRun,
    RunbookStep, RunbookStepDone, RunsQuery, SetRunbook, StartRunbook,
};
use muster_engine::{SiteRunbooks, State as Site};
use muster_model::runbook::{Run, StepAnswer};
use muster_model::tenant::Role;
use muster_model::{Answer, Command, Seq};
use muster_runbook::{ParsedRunbook, Step, StepKind, Target, fill};
use muster_server::brain::Committed;
use muster_server::runbooks::figure;
use std::collections::BTreeMap;
use std::sync::Arc;

fn target(t: Target) -> String {
    match t {
        Target::Next => "next".into(),
        Target::Step(n) => n.to_string(),
        Target::End => "end".into(),
        Target::GiveUp => "give-up".into(),
    }
}

fn step(s: &Step, vars: &BTreeMap<String, String>) -> RunbookStep {
    // Without a run the names of the variables say more than nothing.
    let full = |t: &str| if vars.is_empty() { t.to_owned() } else { fill(t, vars) };
    let says = match &s.what {
        StepKind::Check(t) => t.words(),
        StepKind::Wait(t, span) => format!("{}, for {span} at most", t.words()),
        StepKind::Act(a) if vars.is_empty() => {
            let fields: Vec<String> = a.fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("{} {}", a.kind.word(), fields.join(" ")).trim().to_owned()
        }
        StepKind::Act(a) => a.words(vars),
        StepKind::Ask(a) => full(&a.question),
    };
    let choices = match &s.what {
        StepKind::Ask(a) => a
            .choices
            .iter()
            .map(|c| RunbookChoice { text: c.text.clone(), goto: target(c.goto) })
            .collect(),
        _ => Vec::new(),
    };
    RunbookStep {
        no: s.no,
        kind: s.what.word().into(),
        title: full(&s.title),
        text: full(&s.text),
        says,
        choices,
        then: target(s.then),
        otherwise: target(s.otherwise),
    }
}

fn brief(b: &ParsedRunbook, version: Option<u64>) -> Runbook {
    Runbook {
        name: b.name.clone(),
        title: b.title.clone(),
        modes: b.modes.clone(),
        topics: b.topics.clone(),
        urgency: b.urgency.word().into(),
        owner: b.owner.clone(),
        needs: b.needs.clone(),
        takes: b.takes.clone(),
        length: u32::try_from(b.steps.len()).unwrap_or(u32::MAX),
        version,
        intro: String::new(),
        steps: Vec::new(),
        text: None,
    }
}

fn whole(books: &SiteRunbooks, name: &str) -> Option<Runbook> {
    let name = books.find(name)?;
    let (text, version) = books.text(&name)?;
    let b = muster_runbook::parse(&name, &text).ok()?;
    let none = BTreeMap::new();
    Some(Runbook {
        intro: b.intro.clone(),
        steps: b.steps.iter().map(|x| step(x, &none)).collect(),
        text: Some(text.to_string()),
        ..brief(&b, version)
    })
}

/// The version of a runbook of the site's own; none of one that came with Muster.
fn version(app: &App, name: &str) -> Option<u64> {
    app.brain().read(|s| s.runbooks.text(name).and_then(|(_, version)| version))
}

/// The run as the API shows it; with its steps where the state is at hand.
fn run_view(site: Option<&Site>, r: &Run) -> RunbookRun {
    let book = muster_runbook::parse(&r.book, &r.text).ok();
    let title = |no: u32| {
        let step = book.as_ref().and_then(|b| b.step(no));
        step.map(|x| fill(&x.title, &r.vars)).unwrap_or_default()
    };
    let state = match (&r.ended, &r.waits) {
        (Some(e), _) => e.outcome.word(),
        (None, Some(_)) => "waiting",
        (None, None) => "running",
    };
    let done = r.done.iter().map(|d| RunbookStepDone {
        step: d.step,
        title: title(d.step),
        at: d.at.into(),
        by: d.by.clone(),
        outcome: d.outcome,
        saw: d.saw.clone(),
        did: d.did.clone(),
        chose: d.chose.clone(),
        note: d.note.clone(),
    });
    let open = site.filter(|_| r.ended.is_none());
    let here = book.as_ref().and_then(|b| b.step(r.step)).filter(|_| open.is_some());
    RunbookRun {
        id: r.id.to_string(),
        runbook: r.book.clone(),
        title: book.as_ref().map(|b| b.title.clone()).unwrap_or_default(),
        state: state.into(),
        by: r.by.name.clone(),
        auto: r.auto,
        vars: r.vars.clone(),
        started_at: r.started_at.into(),
        step: r.step,
        now: here.map(|x| step(x, &r.vars)),
        sees: open.and_then(|s| muster_engine::current_observation(s, r)),
        waits: r.waits.clone(),
        until: r.until.map(Into::into),
        done: if site.is_some() { done.collect() } else { Vec::new() },
        ended_at: r.ended.as_ref().map(|e| e.at.into()),
        why: r.ended.as_ref().map(|e| e.why.clone()),
    }
}

fn no_book(name: &str) -> Failure {
    Failure::not_found(format!("there is no runbook {}", shown(name)))
        .hint("`muster runbook` lists them")
}

fn id(text: &str) -> Reply<u64> {
    number(text).ok_or_else(|| {
        Failure::bad(format!("`{}` is not the number of a run", shown(text)))
            .field("id")
            .hint("it is a number such as 1207")
    })
}

fn show_run(app: &App, id: u64) -> Reply<(Seq, RunbookRun)> {
    let (seq, found) =
        app.brain().read(|s| (s.seq, s.runbooks.runs.get(&id).map(|r| run_view(Some(s), r))));
    let found = found.ok_or_else(|| {
        Failure::not_found(format!("there is no run {id}"))
            .hint("`muster runbook runs` lists them; what ended long ago is only in the log")
    })?;
    Ok((seq, found))
}

/// List runbooks.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/runbooks", tag = "runbooks",
    responses((status = 200, description = "All of them.", body = RunbookList))))]
pub(crate) async fn list(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Viewer)?;
    let (seq, books) = app.brain().read(|s| (s.seq, s.runbooks.clone()));
    let all =
        move || books.all().values().map(|(b, version)| brief(b, *version)).collect::<Vec<_>>();
    let items = app.aside(&caller.token, all).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &RunbookList { items, cursor: None }))
}

/// Get a runbook with its steps.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/runbooks/{name}", tag = "runbooks",
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "The runbook.", body = Runbook))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(name): Segment,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let (seq, books) = app.brain().read(|s| (s.seq, s.runbooks.clone()));
    // A name that none has is looked for in what each of them serves.
    let asked = name.clone();
    let found = app.aside(&caller.token, move || whole(&books, &asked)).await?;
    let found = found.ok_or_else(|| no_book(&name))?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, found.version, &found))
}

/// Write a runbook of the site's own, or change one. It replaces one that came with Muster.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/runbooks/{name}", tag = "runbooks", request_body = SetRunbook,
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "The runbook.", body = Runbook))))]
pub(crate) async fn set(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(name): Segment,
    JsonBody { value, raw }: JsonBody<SetRunbook>,
) -> Reply {
    let _turn = app.turn().lock().await;
    same_version(&app, &writer, &raw, "runbook", version(&app, &name))?;
    let command = Command::SetRunbook { name: name.clone(), text: Arc::from(value.text) };
    let seq = writer.put(&app, &raw, command).await?.seq;
    let found = app.brain().read(|s| whole(&s.runbooks, &name)).ok_or_else(|| no_book(&name))?;
    Ok(answer(&app, &writer.caller, StatusCode::OK, seq, found.version, &found))
}

/// Delete a runbook of the site's own; one that came with Muster counts again.
#[cfg_attr(feature = "openapi", utoipa::path(delete, path = "/v1/runbooks/{name}", tag = "runbooks",
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 204, description = "It is gone."))))]
pub(crate) async fn delete(
    State(app): State<App>,
    writer: Writer,
    Segment(name): Segment,
) -> Reply {
    writer.caller.over_site(Role::Operator)?;
    let _turn = app.turn().lock().await;
    same_version(&app, &writer, b"", "runbook", version(&app, &name))?;
    let done = writer.put(&app, b"", Command::DeleteRunbook { name }).await?;
    Ok(gone(&app, &writer.caller, done.seq))
}

/// Say what a run would see and do, step by step. Changes nothing.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/runbooks/{name}/dry-run", tag = "runbooks",
    request_body = Option<StartRunbook>,
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "What it would do.", body = muster_api::RunbookDryRun))))]
pub(crate) async fn dry_run(
    State(app): State<App>,
    SiteWriter(writer): SiteWriter,
    Segment(name): Segment,
    OptionalBody { value, .. }: OptionalBody<StartRunbook>,
) -> Reply {
    let caller = &writer.caller;
    let (brain, agents) = (app.brain().clone(), app.agents().clone());
    let (actor, vars) = (caller.actor.clone(), value.vars);
    // A copy of a large site takes a moment; others are not to wait for it.
    let rehearsed = move || {
        let state = brain.read_copy(Site::clone);
        let (seq, now) = (state.seq, brain.now());
        let outside = |look: &muster_runbook::Observable| figure(&agents, look, &vars);
        (seq, muster_engine::rehearse(state, &name, &vars, &actor, now, &outside))
    };
    let (seq, found) = app.aside(&caller.token, rehearsed).await?;
    Ok(answer(&app, caller, StatusCode::OK, seq, None, &found?))
}

/// Begin to follow a runbook: step by step with a person, or by the machine with the permissions
/// of whoever asks.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/runbooks/{name}/run", tag = "runbooks",
    request_body = Option<StartRunbook>,
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 201, description = "The run.", body = RunbookRun))))]
pub(crate) async fn start(
    State(app): State<App>,
    SiteUserWriter(writer): SiteUserWriter,
    Segment(name): Segment,
    OptionalBody { value, raw }: OptionalBody<StartRunbook>,
) -> Reply {
    let StartRunbook { vars, auto } = value;
    let Committed { answer: made, seq } =
        writer.call(&app, &raw, Command::StartRunbook { name, vars, auto }).await?;
    let Answer::Begun { id } = made else {
        return Err(Failure::conflict("this Idempotency-Key was used for something else"));
    };
    let (_, found) = show_run(&app, id)?;
    Ok(answer(&app, &writer.caller, StatusCode::CREATED, seq, None, &found))
}

/// List runs, newest first.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/runbook-runs", tag = "runbooks", params(RunsQuery),
    responses((status = 200, description = "A page of runs.", body = muster_api::RunbookRunList))))]
pub(crate) async fn runs(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<RunsQuery>,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let limit = paging::limit(q.limit)?;
    let below: Option<u64> = paging::decode("runs", q.cursor.as_deref())?;
    let (seq, found, cursor) = app.brain().read(|s| {
        let fits = |r: &Arc<Run>| {
            q.open.is_none_or(|o| o == r.ended.is_none())
                && q.runbook.as_ref().is_none_or(|b| r.book == *b)
                && q.node.as_ref().is_none_or(|n| r.vars.get("node") == Some(n))
        };
        let (found, cursor) = paging::newest("runs", &s.runbooks.runs, (limit, below), fits);
        (s.seq, found.into_iter().cloned().collect::<Vec<_>>(), cursor)
    });
    // The text of each is read for its title: nobody waits for that.
    let page =
        move || paging::numbered("runs", found.iter().map(|r| (r.id, run_view(None, r))), cursor);
    let bytes = app.aside(&caller.token, page).await??;
    Ok(answer_bytes(&app, &caller, StatusCode::OK, seq, None, bytes))
}

/// Get a run with what it saw and did.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/runbook-runs/{id}", tag = "runbooks",
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The run.", body = RunbookRun))))]
pub(crate) async fn run(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(text): Segment,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let (seq, found) = show_run(&app, id(&text)?)?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &found))
}

/// Answer the current step of a run.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/runbook-runs/{id}/answer", tag = "runbooks",
    request_body = AnswerRunbook,
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The run as it is now.", body = RunbookRun))))]
pub(crate) async fn answer_step(
    State(app): State<App>,
    SiteUserWriter(writer): SiteUserWriter,
    Segment(text): Segment,
    JsonBody { value, raw }: JsonBody<AnswerRunbook>,
) -> Reply {
    let run = id(&text)?;
    let AnswerRunbook { step, answer, choose, note } = value;
    let answer = match (answer, choose) {
        (RunbookAnswer::Choose, Some(c)) => StepAnswer::Choose(c),
        (RunbookAnswer::Choose, None) => {
            return Err(Failure::senseless("it does not name what is chosen")
                .field("choose")
                .hint("repeat the words of one of the step's choices"));
        }
        (RunbookAnswer::Go, _) => StepAnswer::Go,
        (RunbookAnswer::Yes, _) => StepAnswer::Yes,
        (RunbookAnswer::No, _) => StepAnswer::No,
        (RunbookAnswer::Skip, _) => StepAnswer::Skip,
    };
    let here = app.brain().read(|s| s.runbooks.runs.get(&run).cloned());
    let seen = here
        .and_then(|r| muster_server::runbooks::outside(&r))
        .and_then(|(look, vars)| figure(app.agents(), &look, &vars));
    let command = Command::AnswerRunbook { run, step, answer, note, seen };
    submit_command(&app, &writer, &raw, run, command).await
}

/// Stop a run.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/runbook-runs/{id}/stop", tag = "runbooks",
    request_body = Option<ReasonRequest>,
    params(("id" = String, Path, description = "Its number.", pattern = "^[0-9]+$")),
    responses((status = 200, description = "The run as it is now.", body = RunbookRun))))]
pub(crate) async fn stop(
    State(app): State<App>,
    SiteUserWriter(writer): SiteUserWriter,
    Segment(text): Segment,
    OptionalBody { value, raw }: OptionalBody<ReasonRequest>,
) -> Reply {
    let run = id(&text)?;
    let reason = super::health::reason(value.reason, false)?;
    submit_command(&app, &writer, &raw, run, Command::StopRunbook { run, reason }).await
}

async fn submit_command(
    app: &App,
    writer: &Writer,
    raw: &[u8],
    run: u64,
    command: Command,
) -> Reply {
    let seq = writer.call(app, raw, command).await?.seq;
    let (_, found) = show_run(app, run)?;
    Ok(answer(app, &writer.caller, StatusCode::OK, seq, None, &found))
}
