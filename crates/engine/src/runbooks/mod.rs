//! Runs of runbooks. A step and what it does are one round of the log, so that a server that
//! starts anew never does it twice and never forgets that it was done.

mod act;
mod apply;
mod current_step;
mod decide;
mod observe;
mod rehearse;
mod step;

pub use current_step::current_step;
pub use rehearse::rehearse;

use muster_model::command::{Refusal, RefusalCode};
use muster_model::runbook::Run;
use muster_runbook::{ParsedRunbook, parse};

pub(crate) use decide::decide;

/// Ended runs that are kept in the working state; the log keeps all.
const RUNS_KEPT: usize = 512;
/// Runs that go on at a time.
const LIVE_MAX: usize = 64;
/// Runbooks of the site's own.
const BOOKS_MAX: usize = 256;

/// The runbook that a run follows.
pub(crate) fn read(name: &str, text: &str) -> Result<ParsedRunbook, Refusal> {
    parse(name, text).map_err(|e| {
        let hint = e.hint.clone();
        Refusal::new(RefusalCode::Invalid, e.to_string()).field("text").hint(hint)
    })
}

/// There is no such runbook.
pub(crate) fn no_book(name: &str) -> Refusal {
    let name: String = name.chars().take(63).collect();
    Refusal::new(RefusalCode::NotFound, format!("there is no runbook {name}"))
        .hint("`muster runbook` shows them")
}

/// What the step that a run stands at sees now; none where there is nothing to see in the log.
#[must_use]
pub fn current_observation(state: &crate::State, run: &Run) -> Option<String> {
    use muster_runbook::StepKind;
    let book = parse(&run.book, &run.text).ok()?;
    match &book.step(run.step)?.what {
        StepKind::Check(t) | StepKind::Wait(t, _) if !t.look.outside() => {
            Some(step::observation_text(t, &observe::observe(state, t, &run.vars)))
        }
        _ => None,
    }
}
