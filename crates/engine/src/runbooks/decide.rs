//! Words about runbooks and runs.

use super::step::conflict;
use super::{BOOKS_MAX, LIVE_MAX, no_book, read};
use crate::Engine;
use crate::lookup::with_reason;
use muster_model::command::{Actor, Answer, Command, Refusal, RefusalCode, Request};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::names::NodeName;
use muster_model::resolve::{one_line, some_lines};
use muster_model::runbook::{BOOK_MAX, Run, RunActor, RunOutcome, WORDS_MAX};
use muster_model::tenant::Role;
use muster_runbook::ParsedRunbook;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Characters of a variable.
const VAR_MAX: usize = 256;

pub(crate) fn decide(e: &mut Engine, req: &Request) -> Result<Answer, Refusal> {
    match &req.command {
        Command::SetRunbook { name, text } => set(e, name, text)?,
        Command::DeleteRunbook { name } => {
            if !e.state.runbooks.books.contains_key(name) {
                return Err(no_book(name).hint("only a runbook of the site's own can be deleted"));
            }
            e.emit(None, Event::RunbookDeleted { name: name.clone() });
        }
        Command::StartRunbook { name, vars, auto } => return start(e, req, name, vars, *auto),
        Command::AnswerRunbook { run, step, answer, note, seen } => {
            let run = live(e, *run)?;
            if run.step != *step {
                let message = format!("run {} is at step {}, not {step}", run.id, run.step);
                return Err(conflict(&message).field("step").hint("read it again and decide anew"));
            }
            too_long("note", note, WORDS_MAX)?;
            some_lines("note", note)?;
            e.answer_step(&req.actor, &run, answer, note, seen.as_deref())?;
            e.advance_runbook_runs();
        }
        Command::RunbookSaw { run, step, seen } => e.saw(*run, *step, seen),
        Command::StopRunbook { run, reason } => {
            let run = live(e, *run)?;
            too_long("reason", reason, WORDS_MAX)?;
            some_lines("reason", reason)?;
            may_stop(&req.actor, &run)?;
            let why = with_reason(&req.actor.name, reason);
            let outcome = RunOutcome::Stopped;
            e.emit(None, Event::RunbookEnded { run: run.id, outcome, why, by_operator: true });
        }
        _ => {}
    }
    Ok(Answer::Done)
}

/// A run is stopped by whoever began it, or by an operator; one of a user by any user.
fn may_stop(who: &Actor, run: &Run) -> Result<(), Refusal> {
    if who.name == run.by.name || who.role >= run.by.role.min(Role::Operator) {
        return Ok(());
    }
    let message = format!("{} may not stop run {}, which {} began", who.name, run.id, run.by.name);
    Err(Refusal::new(RefusalCode::NotAllowed, message)
        .hint("use a token with the role operator or more"))
}

fn too_long(field: &str, text: &str, most: usize) -> Result<(), Refusal> {
    if text.chars().count() <= most {
        return Ok(());
    }
    let message = format!("`{field}` has {most} characters at most");
    Err(Refusal::new(RefusalCode::Invalid, message).field(field))
}

fn set(e: &mut Engine, name: &str, text: &Arc<str>) -> Result<(), Refusal> {
    too_long("text", text, BOOK_MAX)?;
    // Files that were written elsewhere may end their lines with both.
    some_lines("text", &text.replace("\r\n", "\n"))?;
    let book = read(name, text)?;
    if book.name != name {
        let message = format!("the runbook calls itself {}, not {name}", book.name);
        return Err(Refusal::new(RefusalCode::Invalid, message)
            .field("name")
            .hint("the name in its front matter counts"));
    }
    let runbooks = &e.state.runbooks;
    if runbooks.books.len() >= BOOKS_MAX && !runbooks.books.contains_key(name) {
        return Err(conflict(&format!("there are {BOOKS_MAX} runbooks of the site's own already"))
            .hint("delete one with `muster runbook delete`"));
    }
    if runbooks.text(name).is_some_and(|(old, _)| *old == **text) {
        return Ok(());
    }
    e.emit(None, Event::RunbookSet { name: name.to_owned(), text: text.clone() });
    Ok(())
}

/// The runbook of this name or for what is called so, and that it can be followed with these
/// variables.
pub(super) fn open(
    e: &Engine,
    name: &str,
    vars: &BTreeMap<String, String>,
) -> Result<(ParsedRunbook, Arc<str>, Option<u64>), Refusal> {
    let runbooks = &e.state.runbooks;
    let found = runbooks.find(name).and_then(|n| Some((runbooks.text(&n)?, n)));
    let ((text, version), name) = found.ok_or_else(|| no_book(name))?;
    let book = read(&name, &text)?;
    let (missing, strange) = book.check_vars(vars);
    if let Some(v) = missing.first() {
        return Err(Refusal::new(RefusalCode::Invalid, format!("runbook {name} needs `{v}`"))
            .field("vars")
            .hint(format!("name it: --{v} …")));
    }
    if let Some(v) = strange.first() {
        let v: String = v.chars().take(40).collect();
        let known: Vec<&str> = book.needs.iter().chain(&book.takes).map(String::as_str).collect();
        return Err(Refusal::new(RefusalCode::Invalid, format!("runbook {name} knows no `{v}`"))
            .field("vars")
            .hint(format!("it takes {}", known.join(", "))));
    }
    for (k, v) in vars {
        too_long(k, v, VAR_MAX)?;
        one_line("vars", v)?;
        there_is(e, k, v)?;
    }
    Ok((book, text, version))
}

/// What a run is about is there: a wrong name would page people about nothing.
fn there_is(e: &Engine, var: &str, text: &str) -> Result<(), Refusal> {
    let refused = |code, message: String, hint: &str| {
        Err(Refusal::new(code, message).field("vars").hint(hint))
    };
    let (s, id) = (&e.state, text.parse::<u64>().ok());
    let (known, list) = match var {
        "node" => {
            let name = text.parse::<NodeName>().ok();
            (name.is_some_and(|n| s.nodes.contains_key(&n)), "`muster nodes` lists them")
        }
        "job" => {
            let id = text.parse::<JobId>().ok();
            (id.is_some_and(|j| s.jobs.contains_key(&j)), "`muster ps -a` lists them")
        }
        "finding" => {
            let known = id.is_some_and(|i| s.health.findings.contains_key(&i));
            (known, "`muster findings` lists them")
        }
        "incident" => {
            let known = id.is_some_and(|i| s.health.incidents.contains_key(&i));
            (known, "`muster incident` lists them")
        }
        "gpu" if text.parse::<u32>().is_ok_and(|g| g < 64) => return Ok(()),
        "breaker" if text.parse::<Entity>().is_ok() => return Ok(()),
        "gpu" | "breaker" => {
            let hint = "a GPU is a number like 0, a breaker is kind:name like rack:r1";
            return refused(RefusalCode::Invalid, format!("`{text}` is no {var}"), hint);
        }
        _ => return Ok(()),
    };
    if known {
        return Ok(());
    }
    refused(RefusalCode::NotFound, format!("there is no {var} {text}"), list)
}

fn start(
    e: &mut Engine,
    req: &Request,
    name: &str,
    vars: &BTreeMap<String, String>,
    auto: bool,
) -> Result<Answer, Refusal> {
    let (book, text, version) = open(e, name, vars)?;
    if e.state.runbooks.live.len() >= LIVE_MAX {
        return Err(conflict(&format!("{LIVE_MAX} runs are active already"))
            .hint("`muster runbook runs` shows them; stop one first"));
    }
    let (id, now) = (e.state.seq.next().0, e.state.now);
    let run = Run {
        id,
        book: book.name.clone(),
        text,
        version,
        by: RunActor::from(&req.actor),
        auto,
        vars: vars.clone(),
        started_at: now,
        step: 1,
        since: now,
        until: e.limit_of(&book, 1),
        waits: None,
        done: Vec::new(),
        ended: None,
    };
    e.emit(None, Event::RunbookStarted { run: Box::new(run) });
    e.advance_runbook_runs();
    Ok(Answer::Begun { id })
}

fn live(e: &Engine, id: u64) -> Result<Arc<Run>, Refusal> {
    let run = e.state.runbooks.runs.get(&id).cloned().ok_or_else(|| {
        Refusal::new(RefusalCode::NotFound, format!("there is no run {id}"))
            .hint("`muster runbook runs --all` lists them")
    })?;
    match &run.ended {
        None => Ok(run),
        Some(end) => Err(conflict(&format!("run {id} is over: {}", end.why))
            .hint("begin another one with `muster runbook run`")),
    }
}
