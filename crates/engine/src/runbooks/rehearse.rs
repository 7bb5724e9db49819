//! A dry run: the very steps of the real one, on a copy of the state that nobody keeps.

use super::decide::open;
use super::observe::observe;
use super::step::observation_text;
use crate::state::State;
use crate::{Engine, Policy};
use muster_model::command::{Actor, Refusal, RefusalCode};
use muster_model::runbook::{RunOutcome, RunbookDryRun, RunbookDryStep, StepOutcome};
use muster_model::units::Time;
use muster_runbook::{Next, Observable, StepKind, Value, fill};
use std::collections::{BTreeMap, BTreeSet};

/// Says what each step of a runbook would see and do for somebody. Questions are answered as the
/// runbook assumes, waits are taken to end well, and acts are tried on the copy: a refusal is
/// the one that a real run would get. What comes after such an answer or wait and is not so now, or would be
/// refused now, cannot be known yet: the present says nothing about it.
///
/// # Errors
/// A [`Refusal`] when there is no such runbook, or its variables are missing.
pub fn rehearse(
    state: State,
    name: &str,
    vars: &BTreeMap<String, String>,
    actor: &Actor,
    now: Time,
    outside: &dyn Fn(&Observable) -> Option<String>,
) -> Result<RunbookDryRun, Refusal> {
    let mut e = Engine::new(state, Policy::default());
    e.advance(now);
    let (book, ..) = open(&e, name, vars)?;
    let mut out = RunbookDryRun { steps: Vec::new(), outcome: RunOutcome::Unresolved };
    let (mut no, mut seen) = (1, BTreeSet::new());
    // Something was taken as done that takes time, or a person.
    let mut later = false;
    while let Some(step) = book.step(no).filter(|s| seen.insert(s.no)) {
        let mut chose = None;
        let (outcome, saw, would) = match &step.what {
            StepKind::Check(t) | StepKind::Wait(t, _) => {
                let value = match t.look.outside() {
                    true => outside(&t.look).map_or_else(
                        || Value::Unknown("no data".into()),
                        |v| Value::parse_reported(&v),
                    ),
                    false => observe(&e.state, t, vars),
                };
                let holds = t.bound.holds(&value);
                match (&step.what, holds) {
                    (StepKind::Wait(_, span), false) => {
                        later = true;
                        let would = format!("wait up to {span} until {}", t.words());
                        (StepOutcome::Assumed, observation_text(t, &value), would)
                    }
                    (_, false) if later => {
                        (StepOutcome::Assumed, observation_text(t, &value), String::new())
                    }
                    (_, true) => (StepOutcome::Holds, observation_text(t, &value), String::new()),
                    (_, false) => {
                        (StepOutcome::HoldsNot, observation_text(t, &value), String::new())
                    }
                }
            }
            StepKind::Act(a) => {
                let held = e.taken_by(a, vars).and_then(|n| e.machine_held(&n));
                let tried = e.act_as(actor, a, vars);
                let would = a.words(vars);
                match (tried, held) {
                    // What is in the way now may be over by then; who may not, may not then either.
                    (Err(r), _) if later && r.code != RefusalCode::NotAllowed => {
                        let saw = format!("as things are now it would be refused: {r}");
                        (StepOutcome::Assumed, saw, would)
                    }
                    (Err(r), _) => (StepOutcome::Refused, format!("would be refused: {r}"), would),
                    (Ok(()), Some(why)) => {
                        let saw = format!("by itself it would wait for a person: {why}");
                        (StepOutcome::Done, saw, would)
                    }
                    (Ok(()), None) => (StepOutcome::Done, String::new(), would),
                }
            }
            StepKind::Ask(a) => {
                later = true;
                chose = Some(a.assume.clone());
                let all: Vec<&str> = a.choices.iter().map(|c| c.text.as_str()).collect();
                let would = format!("ask: {} ({})", fill(&a.question, vars), all.join("; "));
                (StepOutcome::Answered, format!("assumed answer: {}", a.assume), would)
            }
        };
        let next = book.after(no, outcome, chose.as_deref());
        let (kind, title) = (step.what.word().to_owned(), fill(&step.title, vars));
        out.steps.push(RunbookDryStep { step: no, kind, title, outcome, saw, would });
        match next {
            Next::Step(n) => no = n,
            Next::Over(how) => {
                out.outcome = how;
                break;
            }
        }
    }
    Ok(out)
}
