//! `health`, findings, incidents, automation.

use super::Contradictions;
use super::asker::listed;
use super::fold::Fold;
use super::moment::MomentAnswers;
use muster_model::finding::Severity;
use muster_model::node::{NodeRole, Stage};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const HEALTH: &str = "GET /v1/health";
const LOG: &str = "the log";

fn ids(all: &[Value]) -> BTreeSet<&str> {
    all.iter().filter_map(|v| v["id"].as_str()).collect()
}

/// Nodes by state, spares, and how much is open.
pub(super) fn counts(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let health = &said.health;
    let mut nodes: BTreeMap<&str, u64> = BTreeMap::new();
    for n in said.nodes.iter().filter(|n| n["state"] != "retired") {
        *nodes.entry(n["state"].as_str().unwrap_or_default()).or_default() += 1;
    }
    let what = "how many nodes stand where";
    wrong.same(what, (HEALTH, health["nodes"].clone()), ("GET /v1/nodes", json!(nodes)));
    let mut known = log.nodes_by_word();
    known.remove("retired");
    wrong.same(what, (HEALTH, health["nodes"].clone()), (LOG, json!(known)));
    let spare = log.nodes.values().filter(|n| n.stage != Stage::Retired);
    let spares = spare.filter(|n| n.role == NodeRole::Spare).count();
    wrong.same(
        "how many spares there are",
        (HEALTH, health["spares"].clone()),
        (LOG, json!(spares)),
    );
    let left = health["spares_left"].as_u64() <= health["spares"].as_u64();
    wrong.holds(left, "no more spares are left than there are", HEALTH, health);
    for (field, known) in
        [("findings_open", log.findings.len()), ("remediations_open", log.remediations.len())]
    {
        wrong.same(field, (HEALTH, health[field].clone()), (LOG, json!(known)));
    }
    let acts = |r: &&Value| {
        let step = r["step"].as_str().unwrap_or_default();
        r["action"] != "watch" && ["moving", "acting", "repairing", "testing"].contains(&step)
    };
    let listed_ones = json!(said.remediations.iter().filter(acts).count());
    wrong.same(
        "remediations in progress",
        (HEALTH, health["remediations_in_progress"].clone()),
        ("GET /v1/remediations", listed_ones),
    );
    let watched = said.remediations.iter().filter(|r| r["step"] == "probation");
    let watched: BTreeSet<&str> = watched.filter_map(|r| r["node"].as_str()).collect();
    wrong.same(
        "nodes on probation after a remediation",
        (HEALTH, health["on_probation"].clone()),
        ("GET /v1/remediations", json!(watched.len())),
    );
    let incidents = listed(&health["incidents"]);
    let known: BTreeSet<String> = log.incidents.iter().map(ToString::to_string).collect();
    wrong.same("open incidents", (HEALTH, json!(ids(&incidents))), (LOG, json!(known)));
    // Those of incidents are not reported twice, unless what was chosen for them came to nothing.
    let (shown, of_incidents): (Vec<Value>, Vec<Value>) =
        listed(&health["findings"]).into_iter().partition(|f| f["incident"].is_null());
    for f in &of_incidents {
        let what = "a finding of an incident is listed by itself for its remediation";
        wrong.holds(!f["remediation"].is_null(), what, HEALTH, f);
    }
    let alone: BTreeSet<&str> = said
        .findings
        .iter()
        .filter(|f| f["incident"].is_null())
        .filter_map(|f| f["id"].as_str())
        .collect();
    if alone.len() + of_incidents.len() < 100 {
        let what = "open findings that are part of no incident";
        wrong.same(what, (HEALTH, json!(ids(&shown))), ("GET /v1/findings", json!(alone)));
    }
}

/// The lists of what is open, and how bad it is.
pub(super) fn lists_and_log(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/findings";
    let known: BTreeSet<String> = log.findings.keys().map(ToString::to_string).collect();
    wrong.same("open findings", (who, json!(ids(&said.findings))), (LOG, json!(known)));
    for f in &said.findings {
        let id = f["id"].as_str().and_then(|id| id.parse::<u64>().ok());
        let Some(known) = id.and_then(|id| log.findings.get(&id)) else { continue };
        let parts = [
            ("kind", json!(known.seen.kind)),
            ("severity", json!(known.seen.severity)),
            ("node", json!(known.seen.entity.node())),
            ("gpu", json!(known.seen.entity.gpu())),
        ];
        for (part, known) in parts {
            wrong.same(
                format!("finding {}: its {part}", f["id"]),
                (who, f[part].clone()),
                (LOG, known),
            );
        }
    }
    let who = "GET /v1/incidents";
    let known: BTreeSet<String> = log.incidents.iter().map(ToString::to_string).collect();
    wrong.same("open incidents", (who, json!(ids(&said.incidents))), (LOG, json!(known)));
}

/// Automation stands the same wherever it is shown.
pub(super) fn automation(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/automation";
    let shown = said.automation.clone();
    wrong.same("automation", (HEALTH, said.health["automation"].clone()), (who, shown));
    let reason = said.automation["reason"].clone();
    wrong.same("why automation is stopped", (who, reason), (LOG, json!(log.stopped)));
    let state = said.automation["state"].as_str().unwrap_or_default();
    let fits = match &log.stopped {
        Some(_) => ["stopped", "off"].contains(&state),
        None => ["running", "off"].contains(&state),
    };
    wrong.holds(fits, format!("automation, stopped: {:?}", log.stopped), who, &said.automation);
    let nodes = |v: &Value| v["nodes"].as_u64().unwrap_or(0);
    let out = said.automation["out"].as_u64().unwrap_or(0);
    let what = "automation holds no more nodes out than there are";
    wrong.holds(out <= nodes(&said.automation), what, who, &said.automation);
    let what = "operators approved no more nodes than are out";
    let approved = said.automation["out_approved"].as_u64();
    wrong.holds(approved.is_some_and(|n| n <= out), what, who, &said.automation);
}

/// All is not well while somebody is paged, nor while a critical finding is open.
pub(super) fn not_well_while_it_pages(said: &MomentAnswers, wrong: &mut Contradictions) {
    let pages =
        |a: &&Value| a["urgency"] == "page" && a["state"] == "firing" && a["silenced"].is_null();
    let well = said.health["state"] == "well";
    if let Some(page) = said.alerts.iter().find(pages) {
        let what = format!("all is well while somebody is paged: {page}");
        wrong.holds(!well, what, HEALTH, &said.health);
    }
    let critical = json!(Severity::Critical);
    if let Some(bad) = said.findings.iter().find(|f| f["severity"] == critical) {
        let what = format!("all is well although something critical was found: {bad}");
        wrong.holds(!well, what, HEALTH, &said.health);
        let what = format!("nobody has to act on it, and no remediation is open: {bad}");
        let acts = said.health["remediations_open"] != json!(0);
        wrong.holds(acts || said.health["state"] == "bad", what, HEALTH, &said.health);
    }
    let reasons = listed(&said.health["reasons"]).len();
    let what = "there is a reason exactly when not all is well";
    wrong.holds(well == (reasons == 0), what, HEALTH, &said.health);
}

/// Failure modes count the findings that are open, and name the runbooks that serve them.
pub(super) fn failure_modes(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/failure-modes";
    for mode in &said.modes {
        let code = mode["code"].as_str().unwrap_or_default();
        let open = log.findings.values().filter(|f| f.seen.kind.as_str() == code).count();
        let what = format!("failure mode {code}: its open findings");
        wrong.same(what, (who, mode["open"].clone()), (LOG, json!(open)));
        let fits = mode["open"].as_u64() <= mode["count"].as_u64()
            && mode["last_seen"].is_null() == (mode["count"] == json!(0));
        let what = format!("failure mode {code}: no more are open than there were, with a time");
        wrong.holds(fits, what, who, mode);
        let serves = |b: &&Value| listed(&b["modes"]).contains(&mode["code"]);
        let serving = said.runbooks.iter().filter(serves).filter_map(|b| b["name"].as_str());
        let serving: BTreeSet<&str> = serving.collect();
        let named = listed(&mode["runbooks"]);
        let named: BTreeSet<&str> = named.iter().filter_map(Value::as_str).collect();
        let what = format!("failure mode {code}: runbooks that serve it");
        wrong.same(what, (who, json!(named)), ("GET /v1/runbooks", json!(serving)));
    }
}

/// The record of an incident is about the incident that the list has.
pub(super) fn records_of_incidents(said: &MomentAnswers, wrong: &mut Contradictions) {
    for (id, record) in &said.records {
        let who = format!("GET /v1/incidents/{id}/record");
        let listed_one = said.incidents.iter().find(|i| i["id"] == id.as_str());
        let mut one = listed_one.cloned().unwrap_or_default();
        let mut other = record["incident"].clone();
        for v in [&mut one, &mut other] {
            for left_out in ["findings", "changes"] {
                v[left_out].take();
            }
        }
        wrong.same(format!("incident {id}"), ("GET /v1/incidents", one), (&who, other));
        let findings = listed(&record["incident"]["findings"]);
        let named = listed(&record["incident"]["finding_ids"]);
        let known = named.iter().filter_map(Value::as_str).collect::<BTreeSet<_>>();
        let part = ids(&findings).is_subset(&known);
        let what = format!("incident {id}: its findings are among {known:?}");
        wrong.holds(part, what, &who, &json!(ids(&findings)));
    }
}
