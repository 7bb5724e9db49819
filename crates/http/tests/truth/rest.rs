//! Weeks and months, remediations, breakers and search: what they share with other answers.

use super::Contradictions;
use super::asker::listed;
use super::fold::Fold;
use super::moment::MomentAnswers;
use muster_api::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const LOG: &str = "the log";
const HEALTH: &str = "GET /v1/health";
const NODES: &str = "GET /v1/nodes";

fn texts(all: &[Value], field: &str) -> BTreeSet<String> {
    all.iter().filter_map(|v| v[field].as_str().map(str::to_owned)).collect()
}

/// Remediations that go on: the list, the log, those that wait, and those of nodes.
pub(super) fn remediations(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/remediations";
    let open = texts(&said.remediations, "id");
    let known: BTreeSet<String> = log.remediations.iter().map(ToString::to_string).collect();
    wrong.same("remediations that go on", (who, json!(open)), (LOG, json!(known)));
    let waiting = texts(&listed(&said.health["waiting"]), "id");
    let what = "what is pending approval goes on";
    wrong.holds(waiting.is_subset(&open), what, HEALTH, &said.health["waiting"]);
    for node in &said.nodes {
        let Some(named) = node["remediation"].as_str() else { continue };
        let shown = said.remediations.iter().find(|r| r["id"] == named);
        let there = shown.map_or(Value::Null, |r| r["node"].clone());
        let what = format!("remediation {named}: its node");
        wrong.same(what, (NODES, node["id"].clone()), (who, there));
    }
}

/// Breakers that are not closed: the list, the summary, and the nodes behind each.
pub(super) fn breakers(said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/breakers";
    let open = |b: &&Value| b["state"] != "closed";
    let open: Vec<Value> = said.breakers.iter().filter(open).cloned().collect();
    let shown = texts(&listed(&said.health["breakers"]), "entity");
    let names = texts(&open, "entity");
    wrong.same("breakers that are not closed", (HEALTH, json!(shown)), (who, json!(names)));
    let mut behind: BTreeMap<&str, u64> = BTreeMap::new();
    for name in said.nodes.iter().filter_map(|n| n["breaker"].as_str()) {
        *behind.entry(name).or_default() += 1;
    }
    for b in &said.breakers {
        let name = b["entity"].as_str().unwrap_or_default();
        let counted = behind.remove(name).unwrap_or(0);
        let what = format!("breaker {name}: nodes behind it");
        wrong.same(what, (who, b["nodes"].clone()), (NODES, json!(counted)));
    }
    let what = "a node is behind a breaker that there is";
    wrong.holds(behind.is_empty(), what, NODES, &json!(behind));
}

/// A week and a month that are not over count what the lists, the log and the fleet's report do.
pub(super) fn periods(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    for (report, fleet) in &said.periods {
        let who = format!("GET /v1/reports/period ({})", report["name"]);
        let who = who.as_str();
        let (one, other) = (report["fleet"]["jobs"].clone(), fleet["total"]["jobs"].clone());
        wrong.same("jobs of the time", (who, one), ("GET /v1/reports/fleet", other));
        let from = report["from"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
        let Some(from) = from else {
            wrong.holds(false, "it says where it begins", who, report);
            continue;
        };
        let raised = log.alerts.values().filter(|a| a.raised_at >= from.0).count();
        let counted = ["pages", "tickets"].map(|u| report["alerts"][u].as_u64().unwrap_or(0));
        let counted: u64 = counted.iter().sum();
        wrong.same("alerts that were raised", (who, json!(counted)), (LOG, json!(raised)));
        let incidents = listed(&report["incidents"]);
        // Of very many only the worst are reported.
        if incidents.len() < 50 {
            let open = incidents.iter().filter(|i| i["closed_at"].is_null());
            let open: BTreeSet<u64> = open.filter_map(|i| i["id"].as_u64()).collect();
            wrong.same("open incidents", (who, json!(open)), (LOG, json!(log.incidents)));
        }
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        for f in log.findings.values().filter(|f| f.opened_at >= from.0) {
            *kinds.entry(f.seen.kind.as_str()).or_default() += 1;
        }
        let reported = listed(&report["findings"]);
        for (kind, open) in kinds.into_iter().filter(|_| reported.len() < 50) {
            let shown = reported.iter().find(|k| k["kind"] == kind);
            let count = shown.and_then(|k| k["count"].as_u64()).unwrap_or(0);
            let what = format!("no fewer {kind} were found than the {open} that are open");
            wrong.holds(count >= open, what, who, &report["findings"]);
        }
        let at = |r: &&Value| {
            let at = r["at"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
            at.is_some_and(|at| at.0 >= from.0)
        };
        let going = said.remediations.iter().filter(at).count() as u64;
        let counted = report["remediations"]["not over yet"].as_u64().unwrap_or(0);
        let other = ("GET /v1/remediations", json!(going));
        wrong.same("remediations that are not over", (who, json!(counted)), other);
        let names = texts(&listed(&report["objectives"]), "name");
        let slos = texts(&said.slos, "id");
        wrong.same("objectives in force", (who, json!(names)), ("GET /v1/slos", json!(slos)));
    }
}

/// What is found by its whole name stands as the list says.
pub(super) fn search(said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/search";
    for (list, kind, all) in [("GET /v1/jobs", "job", &said.jobs), (NODES, "node", &said.nodes)] {
        for thing in all.iter().filter(|t| t["id"].as_str().is_some()) {
            let name = thing["id"].as_str().unwrap_or_default();
            let Some(hits) = said.found.get(name) else { continue };
            let hit = hits.iter().find(|h| h["kind"] == kind && h["id"] == name);
            let state = hit.map_or(Value::Null, |h| h["state"].clone());
            let what = format!("{kind} {name}: its state");
            wrong.same(what, (who, state), (list, thing["state"].clone()));
        }
    }
    for project in said.lists.projects() {
        let Some(hits) = project["id"].as_str().and_then(|name| said.found.get(name)) else {
            continue;
        };
        let found = hits.iter().any(|h| h["kind"] == "project" && h["id"] == project["id"]);
        wrong.holds(found, "a project is found by its name", who, project);
    }
}
