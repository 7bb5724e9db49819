//! One step of a run, by the machine or by a person.

use super::apply::STEPS_KEPT;
use super::observe::observe;
use crate::Engine;
use muster_model::command::{Actor, Refusal, RefusalCode};
use muster_model::event::Event;
use muster_model::names::NodeName;
use muster_model::runbook::{Run, RunOutcome, StepAnswer, StepDone, StepOutcome};
use muster_model::units::Time;
use muster_runbook::{Next, ParsedRunbook, Step, StepKind, Test, Value};
use std::sync::Arc;

/// Steps that the machine takes of one run without looking at anything else.
const AT_ONCE: usize = 32;

/// What is to be written down of a step.
pub(super) struct StepRecord {
    pub(super) by: String,
    pub(super) outcome: StepOutcome,
    pub(super) saw: String,
    pub(super) did: String,
    pub(super) chose: Option<String>,
    pub(super) note: String,
    pub(super) decided: bool,
    pub(super) took: Option<NodeName>,
}

impl StepRecord {
    pub(super) fn new(by: &str, outcome: StepOutcome) -> StepRecord {
        StepRecord {
            by: by.to_owned(),
            outcome,
            saw: String::new(),
            did: String::new(),
            chose: None,
            note: String::new(),
            decided: false,
            took: None,
        }
    }

    fn of(by: &str, test: &Test, value: &Value) -> StepRecord {
        let holds = test.bound.holds(value);
        let outcome = if holds { StepOutcome::Holds } else { StepOutcome::HoldsNot };
        StepRecord { saw: observation_text(test, value), ..StepRecord::new(by, outcome) }
    }
}

pub(super) fn observation_text(test: &Test, value: &Value) -> String {
    format!("{} is {value}; expected: {}", test.look, test.bound)
}

impl Engine {
    /// The runbook of a run, read once.
    pub(super) fn book_of(&mut self, run: &Run) -> Option<Arc<ParsedRunbook>> {
        if let Some(b) = self.books.get(&run.id) {
            return Some(b.clone());
        }
        let book = Arc::new(muster_runbook::parse(&run.book, &run.text).ok()?);
        self.books.insert(run.id, book.clone());
        Some(book)
    }

    /// Takes every step that the machine can take now.
    pub(crate) fn advance_runbook_runs(&mut self) {
        if self.state.runbooks.live.is_empty() {
            return;
        }
        let ids: Vec<u64> = self.state.runbooks.live.iter().copied().collect();
        for id in ids {
            for _ in 0..AT_ONCE {
                if !self.step_by_itself(id) {
                    break;
                }
            }
        }
        let live = &self.state.runbooks.live;
        self.books.retain(|id, _| live.contains(id));
    }

    /// When a run's step is over by time alone.
    pub(crate) fn next_run(&self) -> Option<Time> {
        self.state.runbooks.live().filter(|r| r.auto).filter_map(|r| r.until).min()
    }

    /// One step that the machine takes; says whether it took one.
    fn step_by_itself(&mut self, id: u64) -> bool {
        let Some(run) = self.state.runbooks.runs.get(&id).cloned() else { return false };
        if !run.auto || run.ended.is_some() || run.waits.is_some() {
            return false;
        }
        let Some(book) = self.book_of(&run) else {
            let why = "this version cannot read its runbook any more".to_owned();
            let outcome = RunOutcome::Unresolved;
            self.emit(None, Event::RunbookEnded { run: id, outcome, why, by_operator: false });
            return false;
        };
        let Some(step) = book.step(run.step) else { return false };
        let taken = match &step.what {
            // The server looks and reports.
            StepKind::Check(t) if t.look.outside() => return false,
            StepKind::Check(t) => StepRecord::of("system", t, &observe(&self.state, t, &run.vars)),
            StepKind::Wait(t, _) => {
                let value = match t.look.outside() {
                    true => Value::Unknown("no data".into()),
                    false => observe(&self.state, t, &run.vars),
                };
                let late = run.until.is_none_or(|u| u <= self.state.now);
                if !t.bound.holds(&value) && !late {
                    return false;
                }
                StepRecord::of("system", t, &value)
            }
            StepKind::Act(_) => return self.act_by_itself(&run, &book, step),
            StepKind::Ask(a) => {
                let why = muster_runbook::fill(&a.question, &run.vars);
                self.emit(None, Event::RunbookWaits { run: id, why });
                return false;
            }
        };
        self.finish(&run, &book, step, StepRecord { decided: true, ..taken });
        true
    }

    fn act_by_itself(&mut self, run: &Run, book: &ParsedRunbook, step: &Step) -> bool {
        let StepKind::Act(act) = &step.what else { return false };
        let node = self.taken_by(act, &run.vars);
        // What holds for automation holds for what the machine does in somebody's name.
        if let Some(why) = node.as_deref().and_then(|n| self.machine_held(n)) {
            let why = format!("{}: {why}", act.words(&run.vars));
            self.emit(None, Event::RunbookWaits { run: run.id, why });
            return false;
        }
        let before = std::mem::replace(&mut self.actor, run.by.name.clone());
        let done = self.acts_as(run).and_then(|who| self.act_as(&who, act, &run.vars));
        let mut taken = match done {
            Ok(()) => StepRecord::new(&run.by.name, StepOutcome::Done),
            Err(r) => StepRecord {
                saw: r.to_string(),
                ..StepRecord::new(&run.by.name, StepOutcome::Refused)
            },
        };
        taken.did = act.words(&run.vars);
        taken.decided = true;
        taken.took = node.filter(|_| taken.outcome == StepOutcome::Done).map(|n| n.name.clone());
        self.finish(run, book, step, taken);
        self.actor = before;
        true
    }

    /// The server reports a figure that a run looks at.
    pub(super) fn saw(&mut self, id: u64, no: u32, seen: &str) {
        let Some(run) = self.state.runbooks.runs.get(&id).cloned() else { return };
        if !run.auto || run.ended.is_some() || run.step != no || run.waits.is_some() {
            return;
        }
        let Some(book) = self.book_of(&run) else { return };
        let Some(step) = book.step(no) else { return };
        let value = Value::parse_reported(seen);
        match &step.what {
            StepKind::Check(t) if t.look.outside() => {
                let taken = StepRecord { decided: true, ..StepRecord::of("system", t, &value) };
                self.finish(&run, &book, step, taken);
            }
            StepKind::Wait(t, _) if t.look.outside() && t.bound.holds(&value) => {
                let taken = StepRecord { decided: true, ..StepRecord::of("system", t, &value) };
                self.finish(&run, &book, step, taken);
            }
            _ => return,
        }
        self.advance_runbook_runs();
    }

    /// A person's word at the step that a run stands at.
    pub(super) fn answer_step(
        &mut self,
        who: &Actor,
        run: &Run,
        answer: &StepAnswer,
        note: &str,
        seen: Option<&str>,
    ) -> Result<(), Refusal> {
        let unreadable = || conflict("this version cannot read the run's runbook any more");
        let book = self.book_of(run).ok_or_else(unreadable)?;
        let step = book.step(run.step).ok_or_else(unreadable)?;
        self.may_answer(who, run, &book)?;
        let by = who.name.as_str();
        let mut taken = match (&step.what, answer) {
            (_, StepAnswer::Skip) => StepRecord::new(by, StepOutcome::Skipped),
            (StepKind::Ask(a), StepAnswer::Choose(c)) => {
                if !a.choices.iter().any(|x| x.text == *c) {
                    let all: Vec<&str> = a.choices.iter().map(|x| x.text.as_str()).collect();
                    return Err(Refusal::new(RefusalCode::Invalid, format!("`{c}` is no choice"))
                        .field("choose")
                        .hint(format!("answer with one of: {}", all.join("; "))));
                }
                StepRecord { chose: Some(c.clone()), ..StepRecord::new(by, StepOutcome::Answered) }
            }
            (StepKind::Ask(_), _) | (_, StepAnswer::Choose(_)) => {
                return Err(Refusal::new(
                    RefusalCode::Invalid,
                    format!("step {} is of the kind {}", step.no, step.what.word()),
                )
                .field("answer")
                .hint("a question takes a choice; the others take go, yes, no or skip"));
            }
            (StepKind::Check(t) | StepKind::Wait(t, _), StepAnswer::Go) => {
                let value = match (t.look.outside(), seen) {
                    (true, Some(text)) => Value::parse_reported(text),
                    (true, None) => Value::Unknown("the node's agent reported nothing".into()),
                    (false, _) => observe(&self.state, t, &run.vars),
                };
                let waits = matches!(step.what, StepKind::Wait(..))
                    && run.until.is_some_and(|u| u > self.state.now);
                if waits && !t.bound.holds(&value) {
                    return Err(conflict(&format!("not yet: {}", observation_text(t, &value)))
                        .hint("wait and check again, or answer yes, no or skip"));
                }
                StepRecord::of(by, t, &value)
            }
            (StepKind::Act(a), StepAnswer::Go) => {
                self.act_as(who, a, &run.vars)?;
                StepRecord { did: a.words(&run.vars), ..StepRecord::new(by, StepOutcome::Done) }
            }
            (StepKind::Act(a), StepAnswer::Yes) => {
                let did = format!("by hand: {}", a.words(&run.vars));
                StepRecord { did, ..StepRecord::new(by, StepOutcome::Done) }
            }
            (StepKind::Act(_), StepAnswer::No) => StepRecord::new(by, StepOutcome::Refused),
            (_, StepAnswer::Yes) => StepRecord::new(by, StepOutcome::Holds),
            (_, StepAnswer::No) => StepRecord::new(by, StepOutcome::HoldsNot),
        };
        taken.note = note.to_owned();
        self.finish(run, &book, step, taken);
        Ok(())
    }

    /// Whether somebody may answer at the step that a run stands at. An answer steers what the
    /// run does next, with the permissions of whoever began it: so it takes the permissions of
    /// the step's act, and in an automatic run those of every act that may follow before a person
    /// is asked again. Whoever began it may always answer: what they may not do is refused when
    /// it is done.
    fn may_answer(&self, who: &Actor, run: &Run, book: &ParsedRunbook) -> Result<(), Refusal> {
        let owner = self.acts_as(run).ok().filter(|_| run.auto);
        if owner.is_none() && who.name == run.by.name {
            return Ok(());
        }
        for act in book.acts_from(run.step, run.auto) {
            // What the run itself may not do is refused then, whoever answers now.
            let gains = owner.as_ref().is_none_or(|o| self.may_act(o, act, &run.vars).is_ok());
            if gains && let Err(refusal) = self.may_act(who, act, &run.vars) {
                let message = format!(
                    "{} may not answer at step {} of run {}: `{}` may follow",
                    who.name,
                    run.step,
                    run.id,
                    act.words(&run.vars)
                );
                let hint = refusal.hint.unwrap_or(refusal.message);
                return Err(Refusal::new(RefusalCode::NotAllowed, message).hint(hint));
            }
        }
        Ok(())
    }

    /// Writes a step down, and what follows from it.
    fn finish(&mut self, run: &Run, book: &ParsedRunbook, step: &Step, t: StepRecord) {
        let next = book.after(step.no, t.outcome, t.chose.as_deref());
        let to = match next {
            Next::Step(n) => n,
            Next::Over(_) => step.no,
        };
        let until = match next {
            Next::Step(n) => self.limit_of(book, n),
            Next::Over(_) => None,
        };
        let (decided, took) = (t.decided, t.took);
        let why = match t.outcome {
            StepOutcome::HoldsNot | StepOutcome::Refused => format!("step {}: {}", step.no, t.saw),
            _ => format!("step {} was the last: {}", step.no, step.title),
        };
        let done = StepDone {
            step: step.no,
            by: t.by,
            outcome: t.outcome,
            saw: t.saw,
            did: t.did,
            chose: t.chose,
            note: t.note,
            at: self.state.now,
        };
        let done = Box::new(done.bounded());
        let id = run.id;
        self.emit(None, Event::RunbookStepDone { run: id, done, next: to, until, decided, took });
        let circles = run.done.len() + 1 >= STEPS_KEPT;
        let over = match next {
            Next::Over(outcome) => Some((outcome, why)),
            Next::Step(_) if circles => {
                Some((RunOutcome::Unresolved, "its steps repeat without an end".to_owned()))
            }
            Next::Step(_) => None,
        };
        if let Some((outcome, why)) = over {
            self.emit(None, Event::RunbookEnded { run: id, outcome, why, by_operator: false });
        }
    }

    /// When the time of a step is up, if it begins now.
    pub(super) fn limit_of(&self, book: &ParsedRunbook, no: u32) -> Option<Time> {
        match book.step(no).map(|s| &s.what) {
            Some(StepKind::Wait(_, span)) => Some(self.state.now + *span),
            _ => None,
        }
    }
}

pub(super) fn conflict(message: &str) -> Refusal {
    Refusal::new(RefusalCode::Conflict, message)
}
