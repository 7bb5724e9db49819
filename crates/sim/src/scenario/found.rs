//! What is found to be wrong with a scenario.

use super::{Delay, Scenario};
use muster_model::spec::{SpecProblem, problem};
use muster_model::units::Span;
use muster_specs::error::{closest, did_you_mean, shown};
use std::collections::BTreeSet;

/// What was found so far.
#[derive(Default)]
pub(super) struct ScenarioProblems {
    pub(super) problems: Vec<SpecProblem>,
}

impl ScenarioProblems {
    pub(super) fn add_problem(
        &mut self,
        field: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.problems.push(problem(field, message, hint));
    }

    pub(super) fn also(&mut self, prefix: &str, result: Result<(), SpecProblem>) {
        if let Err(p) = result {
            self.problems.push(SpecProblem { field: format!("{prefix}{}", p.field), ..p });
        }
    }

    pub(super) fn name(&mut self, field: &str, name: &str) {
        if name.trim().is_empty() {
            self.add_problem(field, "the name is empty", "give it a name of its own");
        }
    }

    /// A share of something.
    pub(super) fn share(&mut self, field: &str, v: f64) {
        if !(0.0..=1.0).contains(&v) {
            let hint = if v > 1.0 && v <= 100.0 {
                format!("a share lies between 0 and 1: {v}% is {}", v / 100.0)
            } else {
                "a share lies between 0 and 1".into()
            };
            self.add_problem(field, format!("{v} is no share"), hint);
        }
    }

    /// A rate or a factor of at least `least`.
    pub(super) fn at_least(&mut self, field: &str, v: f64, least: f64) {
        if !v.is_finite() || v < least {
            self.add_problem(
                field,
                format!("{v} is too small or no number"),
                format!("use {least} or more"),
            );
        }
    }

    pub(super) fn delay(&mut self, field: &str, d: &Delay) {
        if let Some(p95) = d.p95.filter(|p| *p < d.median) {
            let message =
                format!("the 95th percentile, {p95}, is less than the median, {}", d.median);
            self.add_problem(
                &format!("{field}.p95"),
                message,
                format!("at least \"{}\"", d.median),
            );
        } else if d.median.0 == 0 && d.p95.is_some_and(|p| p.0 > 0) {
            let message = "a median of zero goes with no other length";
            self.add_problem(&format!("{field}.median"), message, "write a median above \"0s\"");
        }
    }

    /// Something within the life of the scenario.
    pub(super) fn within(&mut self, field: &str, at: Span, length: Span) {
        if at >= length && at.0 > 0 {
            let message = format!("{at} is after the end of the scenario");
            self.add_problem(
                field,
                message,
                format!("the scenario lasts {length}: choose a time before that"),
            );
        }
    }

    /// A name out of several.
    pub(super) fn one_of(&mut self, field: &str, given: &str, known: &[&str]) {
        if !known.contains(&given) {
            let hint = match closest(given, known) {
                Some(near) => format!("did you mean \"{near}\"? there are {}", known.join(", ")),
                None => format!("there are {}", known.join(", ")),
            };
            self.add_problem(field, format!("`{}` is not known", shown(given)), hint);
        }
    }
}

/// A place that must be in the fleet.
pub(super) fn place(
    field: &str,
    given: &str,
    known: &BTreeSet<String>,
    found: &mut ScenarioProblems,
) {
    if known.contains(given) {
        return;
    }
    // A fleet has too many places to list or compare them all.
    let some: Vec<&str> = known.iter().take(4096).map(String::as_str).collect();
    let hint = match (closest(given, &some), some.first(), known.last()) {
        (Some(near), _, _) => format!("did you mean `{near}`?"),
        (None, Some(first), Some(last)) => format!("the names go from `{first}` to `{last}`"),
        _ => "the fleet has no such place at all".into(),
    };
    found.add_problem(field, format!("there is no `{}` in the fleet", shown(given)), hint);
}

/// A project that must hang on the tree of quotas, when there is one.
pub(super) fn project(s: &Scenario, field: &str, given: &str, found: &mut ScenarioProblems) {
    if let Err(e) = given.parse::<muster_model::ProjectName>() {
        found.add_problem(field, e.to_string(), "write it like `team-a`");
        return;
    }
    let Some(quotas) = &s.quotas else { return };
    let known: Vec<&str> = quotas
        .tree
        .iter()
        .flat_map(|q| &q.projects)
        .map(muster_model::ProjectName::as_str)
        .collect();
    if !known.contains(&given) {
        let message = format!("project `{given}` hangs on no node of the quota tree");
        let hint = match known.is_empty() {
            true => "name it in `projects` of a node".into(),
            false => did_you_mean(given, &known),
        };
        found.add_problem(field, message, hint);
    }
}
