//! A runbook, and which step follows.

use crate::act::Act;
use crate::observable::{Bound, Observable};
use muster_model::runbook::{RunOutcome, StepOutcome};
use muster_model::units::Span;
use std::collections::{BTreeMap, BTreeSet};

/// How soon somebody has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// When there is time.
    Ticket,
    /// Within hours.
    Today,
    /// Now: somebody is woken.
    Page,
}

impl Urgency {
    /// The word in a runbook.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Urgency::Ticket => "ticket",
            Urgency::Today => "today",
            Urgency::Page => "page",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Urgency> {
        [Urgency::Ticket, Urgency::Today, Urgency::Page].into_iter().find(|u| u.word() == word)
    }
}

/// A runbook that was read and found sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedRunbook {
    /// Stable name.
    pub name: String,
    /// In a few words.
    pub title: String,
    /// Failure modes it serves, by their codes.
    pub modes: Vec<String>,
    /// What else it serves.
    pub topics: Vec<String>,
    /// How soon somebody has to act.
    pub urgency: Urgency,
    /// Who maintains it.
    pub owner: String,
    /// Variables a run must be given.
    pub needs: Vec<String>,
    /// Variables a run may be given; without them they are empty.
    pub takes: Vec<String>,
    /// What stands before the first step.
    pub intro: String,
    /// Its steps, numbered from 1.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// From 1.
    pub no: u32,
    /// What it is about.
    pub title: String,
    /// What people read.
    pub text: String,
    /// What the machine reads.
    pub what: StepKind,
    /// Where it goes when all is well.
    pub then: Target,
    /// The step when it fails.
    pub otherwise: Target,
    /// The line of its heading.
    pub line: usize,
}

/// What a step is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepKind {
    /// Look whether something is so.
    Check(Test),
    /// Do something.
    Act(Act),
    /// Let a person choose.
    Ask(Ask),
    /// Wait until something is so.
    Wait(Test, Span),
}

impl StepKind {
    /// The word in a runbook.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            StepKind::Check(_) => "check",
            StepKind::Act(_) => "act",
            StepKind::Ask(_) => "ask",
            StepKind::Wait(..) => "wait",
        }
    }
}

/// A look and what it is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// What is looked at.
    pub look: Observable,
    /// What is expected.
    pub bound: Bound,
    /// Findings of this kind only.
    pub kind: Option<String>,
}

impl Test {
    /// The test as a sentence, for people.
    #[must_use]
    pub fn words(&self) -> String {
        let of = self.kind.as_deref().map(|k| format!(" of kind {k}")).unwrap_or_default();
        format!("{}{of} {}", self.look, self.bound)
    }
}

/// A question that a person answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The question.
    pub question: String,
    /// What can be said.
    pub choices: Vec<Choice>,
    /// What a dry run assumes: one of the choices.
    pub assume: String,
}

/// Something that can be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The answer, as it is offered.
    pub text: String,
    /// The step that follows, or the end.
    pub goto: Target,
}

/// Where a step leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The step after it.
    Next,
    /// That step.
    Step(u32),
    /// The end: it is resolved.
    End,
    /// People have to take over.
    GiveUp,
}

/// What follows a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The step with this number.
    Step(u32),
    /// The run is over.
    Over(RunOutcome),
}

impl ParsedRunbook {
    /// A step by its number.
    #[must_use]
    pub fn step(&self, no: u32) -> Option<&Step> {
        self.steps.get(usize::try_from(no).ok()?.checked_sub(1)?)
    }

    /// What follows a step of which this came.
    #[must_use]
    pub fn after(&self, no: u32, outcome: StepOutcome, chose: Option<&str>) -> Next {
        let Some(step) = self.step(no) else { return Next::Over(RunOutcome::Unresolved) };
        let target = match (&step.what, outcome, chose) {
            (StepKind::Ask(a), _, Some(c)) => {
                a.choices.iter().find(|x| x.text == c).map_or(step.otherwise, |x| x.goto)
            }
            (_, StepOutcome::HoldsNot | StepOutcome::Refused, _) => step.otherwise,
            _ => step.then,
        };
        self.resolve(no, target)
    }

    /// The act of a step; with `onward` also every act that may be taken after it, whatever comes
    /// of the steps, until a person is asked again.
    #[must_use]
    pub fn acts_from(&self, no: u32, onward: bool) -> Vec<&Act> {
        let (mut out, mut seen, mut next) = (Vec::new(), BTreeSet::new(), vec![no]);
        while let Some(step) = next.pop().and_then(|n| self.step(n)) {
            if !seen.insert(step.no) {
                continue;
            }
            if let StepKind::Act(act) = &step.what {
                out.push(act);
            }
            let asks = matches!(step.what, StepKind::Ask(_)) && step.no != no;
            if onward && !asks {
                let choices = match &step.what {
                    StepKind::Ask(a) => a.choices.iter().map(|c| c.goto).collect(),
                    _ => Vec::new(),
                };
                for target in [step.then, step.otherwise].into_iter().chain(choices) {
                    if let Next::Step(n) = self.resolve(step.no, target) {
                        next.push(n);
                    }
                }
            }
        }
        out
    }

    /// Where a target of a step leads.
    #[must_use]
    pub fn resolve(&self, no: u32, target: Target) -> Next {
        match target {
            Target::Step(n) => Next::Step(n),
            Target::Next if self.step(no + 1).is_some() => Next::Step(no + 1),
            Target::Next | Target::End => Next::Over(RunOutcome::Resolved),
            Target::GiveUp => Next::Over(RunOutcome::Unresolved),
        }
    }

    /// Variables that are missing among those given, and those that the runbook does not know.
    #[must_use]
    pub fn check_vars<'a>(
        &'a self,
        given: &'a BTreeMap<String, String>,
    ) -> (Vec<&'a str>, Vec<&'a str>) {
        let empty = |n: &&String| given.get(*n).is_none_or(String::is_empty);
        let missing = self.needs.iter().filter(empty).map(String::as_str).collect();
        let known: BTreeSet<&String> = self.needs.iter().chain(&self.takes).collect();
        let strange = given.keys().filter(|k| !known.contains(k)).map(String::as_str).collect();
        (missing, strange)
    }
}
