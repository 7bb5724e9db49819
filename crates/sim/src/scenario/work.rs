//! Whether what runs in a scenario makes sense.

use super::found::{ScenarioProblems, project};
use super::places::Ground;
use super::{Owner, Saving, Scenario, Serve, Sizes, Stream, TraceLoad, Train, Workload};
use muster_model::names::Label;
use muster_model::spec::Tier;
use muster_model::topology::Level;
use muster_model::units::Span;
use muster_specs::error::shown;
use std::collections::BTreeSet;

/// More jobs than that are no scenario but a slip: each of them leaves records in the log.
const MOST_JOBS: f64 = 20_000_000.0;

pub(super) fn check(s: &Scenario, ground: &Ground<'_>, found: &mut ScenarioProblems) {
    let mut names = BTreeSet::new();
    let mut served: u64 = 0;
    for (i, w) in s.workload.iter().enumerate() {
        let at = WorkloadFields { index: i };
        let (name, owner, saving) = match w {
            Workload::Train(t) => (Some(&t.name), Some(&t.owner), Some(&t.saving)),
            Workload::Stream(t) => (Some(&t.name), Some(&t.owner), Some(&t.saving)),
            Workload::Serve(t) => (Some(&t.name), Some(&t.owner), None),
            Workload::Trace(t) => (None, None, Some(&t.saving)),
        };
        if let Some(name) = name {
            job_name(&at, name, found);
            if !names.insert(name) {
                let message = format!("two workloads are called `{}`", shown(name));
                found.add_problem(&at.key("name"), message, "give each a name of its own");
            }
        }
        if let Some(owner) = owner {
            owned(s, &at, owner, found);
        }
        if let Some(saving) = saving {
            saved(&at, saving, found);
        }
        match w {
            Workload::Train(t) => train(s, ground, &at, t, found),
            Workload::Stream(t) => stream(s, ground, &at, t, found),
            Workload::Serve(t) => {
                served += u64::from(t.replicas) * u64::from(t.gpus);
                serve(ground, &at, t, found);
                if ground.gpus().is_some_and(|g| served > g) {
                    let message = format!("the services need {served} GPUs, more than there are");
                    let hint = format!("at most {} in all", ground.gpus().unwrap_or(0));
                    found.add_problem(&at.key("replicas"), message, hint);
                }
            }
            Workload::Trace(t) => trace(&at, t, found),
        }
    }
}

/// Names the fields of one workload.
struct WorkloadFields {
    index: usize,
}

impl WorkloadFields {
    fn key(&self, key: &str) -> String {
        format!("workload[{}].{key}", self.index)
    }
}

fn job_name(at: &WorkloadFields, name: &str, found: &mut ScenarioProblems) {
    if let Err(e) = name.parse::<Label>() {
        found.add_problem(&at.key("name"), e.to_string(), "give it a name like `pretrain-70b`");
    }
}

fn owned(s: &Scenario, at: &WorkloadFields, owner: &Owner, found: &mut ScenarioProblems) {
    if let Some(p) = &owner.project {
        project(s, &at.key("owner.project"), p, found);
    }
    let reserved =
        |p: &&str| s.reservations.iter().any(|r| r.projects.iter().any(|q| q.as_str() == *p));
    if owner.tier == Tier::Reserved && owner.project.as_deref().filter(reserved).is_none() {
        let message = "work of tier `reserved` runs only inside a reservation of its project";
        let hint = "add one to `[[reservations]]`, or use tier \"on-demand\"";
        found.add_problem(&at.key("owner.tier"), message, hint);
    }
    for (n, user) in owner.users.iter().enumerate() {
        found.name(&at.key(&format!("owner.users[{n}]")), user);
    }
}

fn saved(at: &WorkloadFields, saving: &Saving, found: &mut ScenarioProblems) {
    let field = at.key("saving.every");
    let every = match saving.every.as_str() {
        "auto" | "never" => return,
        text => text.parse::<Span>(),
    };
    match every {
        Err(_) => {
            let (message, hint) = super::units::span_problem(&saving.every).unwrap_or_default();
            found.add_problem(
                &field,
                message,
                format!("use \"auto\", \"never\" or a length: {hint}"),
            );
        }
        Ok(Span(0)) => {
            found.add_problem(
                &field,
                "it is zero",
                "use \"auto\", \"never\" or a length like \"30m\"",
            );
        }
        Ok(every) if saving.cost >= every => {
            let message = format!(
                "a checkpoint takes {} and the next begins {every} after it began: no work is done",
                saving.cost
            );
            let hint = format!("make it longer than \"{}\", or `cost` shorter", saving.cost);
            found.add_problem(&field, message, hint);
        }
        Ok(_) => {}
    }
}

/// GPUs on one node that a node must have.
fn fits_a_node(field: &str, gpus: u32, ground: &Ground<'_>, found: &mut ScenarioProblems) {
    let most = ground.node_gpus().unwrap_or(16);
    if gpus == 0 {
        found.add_problem(field, "it is zero", format!("use 1 to {most}"));
    } else if gpus > most {
        found.add_problem(
            field,
            format!("a node has {most} GPUs"),
            format!("write `{most}` or less"),
        );
    }
}

fn train(
    s: &Scenario,
    ground: &Ground<'_>,
    at: &WorkloadFields,
    t: &Train,
    found: &mut ScenarioProblems,
) {
    found.share(&at.key("data_loading"), t.data_loading);
    if t.count == 0 {
        found.add_problem(&at.key("count"), "it is zero", "use 1 or more, or remove the workload");
    }
    fits_a_node(&at.key("gpus_per_node"), t.gpus_per_node, ground, found);
    let room = ground.room();
    if let Some(room) = room.filter(|r| t.nodes > *r) {
        let message = format!("{} nodes are more than the {room} that are no spares", t.nodes);
        found.add_problem(
            &at.key("nodes"),
            message,
            format!("at most {room}, or 0 for all of them"),
        );
    }
    found.within(&at.key("at"), t.at, s.length);
    let last =
        t.at.0.saturating_add(t.apart.0.saturating_mul(u64::from(t.count.saturating_sub(1))));
    if t.at < s.length && last >= s.length.0 && t.apart.0 > 0 {
        let message = "the last of them comes after the end of the scenario";
        found.add_problem(&at.key("apart"), message, "use a smaller `count` or `apart`");
    }
    if let Some(word) = &t.topology {
        match word.parse::<Level>() {
            Err(_) => found.one_of(&at.key("topology"), word, &Level::ALL.map(Level::word)),
            Ok(level) => fits_a_domain(ground, at, t, level, found),
        }
    }
    if let Some([least, most]) = t.elastic {
        let field = at.key("elastic");
        if least == 0 || least > most {
            let message = format!("{least} to {most} nodes is no range");
            found.add_problem(&field, message, "write the fewest and the most nodes: `[4, 16]`");
        } else if t.nodes > 0 && !(least..=most).contains(&t.nodes) {
            let message = format!("{} nodes lie outside of {least} to {most}", t.nodes);
            found.add_problem(&field, message, "let the range include `nodes`");
        } else if let Some(room) = room.filter(|r| most > *r) {
            let message = format!("there are only {room} nodes that are no spares");
            found.add_problem(&field, message, format!("at most {room}"));
        }
    }
}

fn fits_a_domain(
    ground: &Ground<'_>,
    at: &WorkloadFields,
    t: &Train,
    level: Level,
    found: &mut ScenarioProblems,
) {
    let nodes = if t.nodes == 0 { ground.room().unwrap_or(0) } else { t.nodes };
    if let Some(largest) = ground.largest(level).filter(|l| nodes > *l) {
        let message = format!("no {level} of this fleet has {nodes} nodes");
        let hint = format!("the largest has {largest}: use fewer nodes or a wider level");
        found.add_problem(&at.key("topology"), message, hint);
    }
}

fn stream(
    s: &Scenario,
    ground: &Ground<'_>,
    at: &WorkloadFields,
    t: &Stream,
    found: &mut ScenarioProblems,
) {
    found.at_least(&at.key("per_hour"), t.per_hour, 0.0);
    // Times are far below 2^53 milliseconds, so nothing is lost here.
    let hours = s.length.0 as f64 / 3_600_000.0;
    if t.per_hour * hours > MOST_JOBS {
        let message = format!("{:.0} jobs would come", t.per_hour * hours);
        found.add_problem(&at.key("per_hour"), message, format!("at most {MOST_JOBS:.0} in all"));
    }
    found.share(&at.key("diurnal"), t.diurnal);
    found.share(&at.key("fails"), t.fails);
    found.share(&at.key("data_loading"), t.data_loading);
    found.at_least(&at.key("limit_factor"), t.limit_factor, 1.0);
    found.delay(&at.key("run"), &t.run);
    if t.run.median.0 == 0 {
        found.add_problem(&at.key("run.median"), "it is zero", "write how long, like \"20m\"");
    }
    found.within(&at.key("from"), t.from, s.length);
    if t.until.is_some_and(|u| u <= t.from) {
        found.add_problem(
            &at.key("until"),
            "it is not after `from`",
            "no job would come: make it later",
        );
    }
    match &t.sizes {
        Sizes::Mix(mix) => found.one_of(&at.key("sizes"), mix, &["philly", "acme"]),
        Sizes::Weights(all) => weights(ground, at, all, found),
    }
}

fn weights(
    ground: &Ground<'_>,
    at: &WorkloadFields,
    all: &[(u32, u32)],
    found: &mut ScenarioProblems,
) {
    if all.iter().all(|(_, weight)| *weight == 0) {
        let hint = "write GPUs and weights: `[[1, 70], [8, 30]]`";
        return found.add_problem(&at.key("sizes"), "no size has a weight", hint);
    }
    for (n, (gpus, _)) in all.iter().enumerate() {
        let field = at.key(&format!("sizes[{n}]"));
        if *gpus == 0 {
            found.add_problem(&field, "a job of 0 GPUs", "GPUs come first, then the weight");
        } else if ground.gpus().is_some_and(|g| u64::from(*gpus) > g) {
            let hint = format!("at most {}", ground.gpus().unwrap_or(0));
            found.add_problem(&field, format!("the fleet has fewer than {gpus} GPUs"), hint);
        }
    }
}

fn serve(ground: &Ground<'_>, at: &WorkloadFields, t: &Serve, found: &mut ScenarioProblems) {
    if t.replicas == 0 {
        found.add_problem(
            &at.key("replicas"),
            "it is zero",
            "use 1 or more, or remove the workload",
        );
    }
    fits_a_node(&at.key("gpus"), t.gpus, ground, found);
    found.share(&at.key("load"), t.load);
    found.share(&at.key("diurnal"), t.diurnal);
}

fn trace(at: &WorkloadFields, t: &TraceLoad, found: &mut ScenarioProblems) {
    found.one_of(&at.key("format"), &t.format, &["swf", "philly", "gavel"]);
    found.one_of(&at.key("bad_rows"), &t.bad_rows, &["stop", "skip"]);
    found.name(&at.key("file"), &t.file);
    if t.jobs == Some(0) {
        found.add_problem(&at.key("jobs"), "it is zero", "use 1 or more, or leave it out for all");
    }
}
