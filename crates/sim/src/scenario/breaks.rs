//! Whether what breaks in a scenario makes sense.

use super::found::{ScenarioProblems, place};
use super::places::Ground;
use super::{Failures, Mode, Scenario};
use crate::causes::causes;
use muster_model::units::Span;
use muster_specs::error::shown;
use std::collections::BTreeSet;

/// One failure per node and minute, in a thousand node-days: nothing gets anywhere at that rate.
const HOPELESS: f64 = 1000.0 * 1440.0;

fn mode(field: &str, m: Mode, found: &mut ScenarioProblems) {
    match m {
        Mode::FailSlow(f) if !(f > 0.0 && f < 1.0) => {
            found.add_problem(
                field,
                format!("{f} is no share of a speed"),
                "use a number above 0 and below 1",
            );
        }
        Mode::Flap(span) if span.0 == 0 => {
            found.add_problem(field, "a flap of no length is none", "write how long, like \"5s\"");
        }
        _ => {}
    }
}

pub(super) fn check(s: &Scenario, ground: &Ground<'_>, found: &mut ScenarioProblems) {
    let f = &s.failures;
    found.at_least("failures.scale", f.scale.unwrap_or(1.0), 0.0);
    let mut names = BTreeSet::new();
    for (i, c) in f.causes.iter().enumerate() {
        let at = |k: &str| format!("failures.causes[{i}].{k}");
        found.name(&at("name"), &c.name);
        if !names.insert(&c.name) {
            let message = format!("two causes are called `{}`", shown(&c.name));
            found.add_problem(&at("name"), message, "give each a name of its own");
        }
        found.at_least(&at("per_1000_node_days"), c.per_1000_node_days, 0.0);
        mode(&at("mode"), c.mode, found);
        if let Some(d) = &c.repair {
            found.delay(&at("repair"), d);
        }
        if let Some(p) = &c.precursor {
            found.share(&at("precursor.share"), p.share);
            found.delay(&at("precursor.lead"), &p.lead);
            found.at_least(
                &at("precursor.false_per_1000_node_days"),
                p.false_per_1000_node_days,
                0.0,
            );
        }
    }
    if let Some(l) = &f.lemons {
        found.share("failures.lemons.share", l.share);
        found.at_least("failures.lemons.factor", l.factor, 1.0);
    }
    if let Some(n) = &f.infant {
        found.at_least("failures.infant.factor", n.factor, 1.0);
        if n.half_life.0 == 0 {
            found.add_problem(
                "failures.infant.half_life",
                "it is zero",
                "write days, like \"30d\"",
            );
        }
    }
    if let Some(j) = &f.jobs {
        found.at_least("failures.jobs.per_1000_node_days", j.per_1000_node_days, 0.0);
        if j.per_1000_node_days > HOPELESS {
            let message = "jobs would fail more often than once per node and minute";
            found.add_problem("failures.jobs.per_1000_node_days", message, "use a smaller rate");
        }
        if j.up_to_nodes == Some(0) {
            let hint = "use 1 or more, or leave it out for no bound";
            found.add_problem("failures.jobs.up_to_nodes", "no gang has 0 nodes", hint);
        }
    }
    if let Some(file) = &f.titan {
        found.name("failures.titan", file);
    }
    hopeless(f, found);
    incidents(s, ground, found);
}

/// Rates at which nothing can run.
fn hopeless(f: &Failures, found: &mut ScenarioProblems) {
    let hint = "use fewer than 1 failure per node and minute (1440000 in a thousand node-days)";
    let mut say = |field: &str| {
        found.add_problem(field, "nodes would fail more often than once in a minute", hint);
    };
    let first = f.causes.iter().position(|c| c.per_1000_node_days > HOPELESS);
    if let Some(i) = first {
        return say(&format!("failures.causes[{i}].per_1000_node_days"));
    }
    let base: f64 = causes(f).iter().map(|c| c.per_1000_node_days).sum();
    if base > HOPELESS {
        return say(if f.scale.is_some() { "failures.scale" } else { "failures.causes" });
    }
    if f.lemons.as_ref().is_some_and(|l| base * l.factor > HOPELESS) {
        say("failures.lemons.factor");
    }
    if f.infant.as_ref().is_some_and(|l| base * l.factor > HOPELESS) {
        say("failures.infant.factor");
    }
    for (i, n) in f.incidents.iter().enumerate() {
        if n.rate_factor.is_some_and(|r| base * r > HOPELESS) {
            say(&format!("failures.incidents[{i}].rate_factor"));
        }
    }
}

fn incidents(s: &Scenario, ground: &Ground<'_>, found: &mut ScenarioProblems) {
    for (i, n) in s.failures.incidents.iter().enumerate() {
        let at = |k: &str| format!("failures.incidents[{i}].{k}");
        found.name(&at("name"), &n.name);
        found.within(&at("at"), n.at, s.length);
        mode(&at("mode"), n.mode, found);
        if let Some(share) = n.share {
            found.share(&at("share"), share);
            if share == 0.0 {
                found.add_problem(&at("share"), "it hits nothing", "use more than 0");
            }
            if !n.on.is_empty() {
                let message = "`share` and `on` both say what fails";
                found.add_problem(&at("share"), message, "keep one of them");
            }
        }
        if let Some(known) = (!n.on.is_empty()).then(|| ground.scope_names(n.scope)).flatten() {
            for (k, name) in n.on.iter().enumerate() {
                place(&at(&format!("on[{k}]")), name, &known, found);
            }
        }
        if let Some(d) = &n.repair {
            found.delay(&at("repair"), d);
        }
        if let Some(r) = n.rate_factor {
            found.at_least(&at("rate_factor"), r, 0.0);
        }
        match n.lasts {
            Some(_) if n.rate_factor.is_none() => {
                let hint = "add `rate_factor`, or say with `repair` how long it is broken";
                found.add_problem(&at("lasts"), "nothing here lasts", hint);
            }
            Some(Span(0)) => {
                found.add_problem(&at("lasts"), "it is zero", "write how long, like \"3d\"");
            }
            _ => {}
        }
    }
}
