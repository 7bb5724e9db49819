//! Whether a scenario makes sense: what can be known without living it.

use super::found::{ScenarioProblems, place, project};
use super::places::Ground;
use super::{Scenario, Spares, breaks, work};
use crate::outcome::{Outcome, Prediction, SpareOutcome};
use muster_model::reservation::ReservationTarget;
use muster_model::spec::{MAX_NODES, SpecProblem};
use muster_model::units::Span;
use muster_specs::error::{closest, did_you_mean, shown};
use std::collections::BTreeSet;

const DAY: Span = Span::hours(24);
/// Ten years with their leap days.
const LONGEST: Span = Span(3_653 * DAY.0);

/// Everything about a scenario that cannot be: fields are named by their path in the file, such
/// as `workload[1].saving.cost`.
#[must_use]
pub fn check(s: &Scenario) -> Vec<SpecProblem> {
    let mut found = ScenarioProblems::default();
    let ground = Ground::new(&s.fleet);
    found.name("name", &s.name);
    if s.length.0 == 0 {
        found.add_problem("length", "it is zero", "write how long it lasts, like \"7d\"");
    } else if s.length > LONGEST {
        found.add_problem("length", "it is longer than ten years", "at most \"3653d\"");
    }
    fleet(s, &ground, &mut found);
    found.also("policy.", s.policy.check());
    if let Some(q) = &s.quotas {
        found.also("quotas.", q.check());
    }
    reservations(s, &ground, &mut found);
    operations(s, &mut found);
    breaks::check(s, &ground, &mut found);
    work::check(s, &ground, &mut found);
    expectations(s, &mut found);
    found.problems
}

fn sku(field: &str, given: &str, found: &mut ScenarioProblems) {
    let Err(e) = given.parse::<muster_simnode::Sku>() else { return };
    let hint = match closest(given, &["h100", "h200", "b200", "gb200", "h100-sxm", "h200-sxm"]) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "h100-sxm is the usual one".into(),
    };
    found.add_problem(field, e.to_string(), hint);
}

fn fleet(s: &Scenario, ground: &Ground<'_>, found: &mut ScenarioProblems) {
    use super::FleetSpec::{Hgx, Nvl72, Openb, Topology};
    let size = if matches!(s.fleet, Nvl72 { .. }) { "fleet.racks" } else { "fleet.nodes" };
    match &s.fleet {
        Hgx { sku: kind, .. } => sku("fleet.sku", kind, found),
        Topology { file, sku: kind, .. } => {
            found.name("fleet.file", file);
            sku("fleet.sku", kind, found);
        }
        Openb { file } => found.name("fleet.file", file),
        Nvl72 { .. } => {}
    }
    match ground.nodes() {
        Some(0) => found.add_problem(size, "the fleet is empty", "give it at least 1"),
        Some(n) if n > MAX_NODES => {
            found.add_problem(
                size,
                format!("{n} nodes are too many"),
                format!("at most {MAX_NODES} nodes"),
            );
        }
        _ => {}
    }
    if ground.node_gpus().is_some_and(|g| !(1..=16).contains(&g)) {
        found.add_problem("fleet.gpus_per_node", "no such node is built", "use 1 to 16, mostly 8");
    }
    match ground.spares() {
        Some(Spares::Count(n)) if *n > 0 && ground.nodes().is_some_and(|all| *n >= all) => {
            let message = format!("{n} spares leave no node to work");
            found.add_problem(
                "fleet.spares",
                message,
                format!("fewer than {}", ground.nodes().unwrap_or(1)),
            );
        }
        Some(Spares::Target { share }) => {
            found.share("fleet.spares.share", *share);
            if *share >= 1.0 {
                found.add_problem(
                    "fleet.spares.share",
                    "no number of spares guarantees that",
                    "use 0.99 or 0.999",
                );
            }
        }
        _ => {}
    }
}

fn reservations(s: &Scenario, ground: &Ground<'_>, found: &mut ScenarioProblems) {
    let mut names = BTreeSet::new();
    for (i, r) in s.reservations.iter().enumerate() {
        let at = |f: &str| format!("reservations[{i}].{f}");
        found.also(&at(""), r.check());
        if !names.insert(&r.name) {
            found.add_problem(
                &at("name"),
                format!("two reservations are called `{}`", r.name),
                "rename one",
            );
        }
        match u64::try_from(r.start.0) {
            Ok(ms) => found.within(&at("start"), Span(ms), s.length),
            Err(_) => found.add_problem(
                &at("start"),
                "it is before the beginning",
                "write it like \"2d\"",
            ),
        }
        for (n, p) in r.projects.iter().enumerate() {
            project(s, &at(&format!("projects[{n}]")), p.as_str(), found);
        }
        match &r.over {
            ReservationTarget::Gpus { count, sku: kind } => {
                if ground.gpus().is_some_and(|g| u64::from(*count) > g) {
                    let hint = format!("at most {}", ground.gpus().unwrap_or(0));
                    found.add_problem(&at("over.gpus.count"), "the fleet has fewer GPUs", hint);
                }
                if let Some(kind) = kind {
                    sku(&at("over.gpus.sku"), kind, found);
                }
            }
            ReservationTarget::Nodes(nodes) => {
                let Some(known) = ground.scope_names(super::Scope::Node) else { continue };
                for (n, node) in nodes.iter().enumerate() {
                    place(&at(&format!("over.nodes[{n}]")), node.as_str(), &known, found);
                }
            }
            ReservationTarget::Domain { level, path } => {
                if let Some(known) = ground.level_names(*level) {
                    place(&at("over.domain.path"), path, &known, found);
                }
            }
        }
    }
}

fn operations(s: &Scenario, found: &mut ScenarioProblems) {
    let o = &s.operations;
    found.delay("operations.repair", &o.repair);
    if o.remove_lemons_after == Some(0) {
        let hint = "use 2 or more, or leave it out to keep them";
        found.add_problem("operations.remove_lemons_after", "that would remove every node", hint);
    }
    for (field, v) in [("detect", o.detect), ("watchdog", o.watchdog), ("decide", o.decide)] {
        if v > DAY {
            let field = format!("operations.{field}");
            found.add_problem(
                &field,
                format!("{v} is longer than a day"),
                "write seconds, like \"20s\"",
            );
        }
    }
}

/// Names of the figures that an expectation may be about; those ending in a dot go on with a
/// name that the run itself gives.
pub(super) fn figures() -> Vec<String> {
    let full = Outcome {
        ettr_expected: Some(0.0),
        mtbi_s: Some(0.0),
        spares_found: Some(SpareOutcome::default()),
        prediction: Some(Prediction::default()),
        ..Outcome::default()
    };
    let mut names = vec!["failures.".to_owned(), "faults.".to_owned()];
    if let Ok(value) = serde_json::to_value(&full) {
        numbers(&value, "", &mut names);
    }
    names.extend(["mean", "p50", "p95", "p99", "count"].map(|q| format!("wait_by_class.*.{q}")));
    names
}

fn numbers(value: &serde_json::Value, path: &str, into: &mut Vec<String>) {
    match value {
        serde_json::Value::Number(_) => into.push(path.to_owned()),
        serde_json::Value::Object(map) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (k, v) in map {
                numbers(v, &format!("{path}{dot}{k}"), into);
            }
        }
        _ => {}
    }
}

fn expectations(s: &Scenario, found: &mut ScenarioProblems) {
    let known = figures();
    for (name, [least, most]) in &s.expect {
        let field = format!("expect.{name}");
        let fits = |k: &str| match (k.strip_suffix('.'), k.split_once('*')) {
            (Some(_), _) => name.len() > k.len() && name.starts_with(k),
            (None, Some((before, after))) => name.starts_with(before) && name.ends_with(after),
            (None, None) => name == k,
        };
        if !known.iter().any(|k| fits(k)) {
            let names: Vec<&str> =
                known.iter().map(String::as_str).filter(|k| !k.contains('*')).collect();
            let hint = did_you_mean(name, &names);
            found.add_problem(&field, format!("there is no metric `{}`", shown(name)), hint);
        }
        if least.is_nan() || most.is_nan() {
            found.add_problem(&field, "a range needs two numbers", "write `[least, most]`");
        } else if least > most {
            let hint = format!("write `[{most}, {least}]`");
            found.add_problem(&field, format!("the range from {least} to {most} is empty"), hint);
        }
    }
}
