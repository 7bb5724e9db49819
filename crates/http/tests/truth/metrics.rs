//! `/metrics`, the report of the fleet, and the server's own summary.

use super::Contradictions;
use super::fold::Fold;
use super::moment::MomentAnswers;
use muster_model::finding::Severity;
use muster_model::node::Stage;
use serde_json::{Value, json};

const METRICS: &str = "GET /metrics";
const LOG: &str = "the log";

/// The sum of a metric over all lines that have these labels.
fn sum(page: &str, name: &str, labels: &[(&str, &str)]) -> Value {
    let fits = |line: &&str| {
        let rest = line.strip_prefix(name);
        let own = rest.is_some_and(|r| r.starts_with('{') || r.starts_with(' '));
        own && labels.iter().all(|(k, v)| line.contains(&format!("{k}=\"{v}\"")))
    };
    let value = |line: &str| line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok());
    let lines: Vec<f64> = page.lines().filter(fits).filter_map(value).collect();
    match lines.is_empty() {
        true => Value::Null,
        // All of them are counts.
        false => json!(lines.iter().sum::<f64>() as u64),
    }
}

/// Counts of what the log holds.
pub(super) fn metrics_and_log(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let page = &said.metrics;
    let mut same = |name: &str, labels: &[(&str, &str)], known: u64| {
        let what = format!("{name} {labels:?}");
        wrong.same(what, (METRICS, sum(page, name, labels)), (LOG, json!(known)));
    };
    same("muster_log_seq", &[], said.seq);
    let jobs = log.jobs_by_state();
    for state in ["queued", "starting", "running", "stopping", "succeeded", "failed", "cancelled"] {
        same("muster_jobs", &[("state", state)], jobs.get(state).copied().unwrap_or(0));
    }
    let nodes = log.nodes_by_word();
    for state in muster_api::node::NODE_STATES {
        same("muster_nodes", &[("state", state)], nodes.get(state).copied().unwrap_or(0));
    }
    let staged = |s: Stage| log.nodes.values().filter(|n| n.stage == s).count() as u64;
    for (word, stage) in [
        ("ready", Stage::Ready),
        ("draining", Stage::Draining),
        ("drained", Stage::Drained),
        ("retired", Stage::Retired),
    ] {
        same("muster_nodes_by_stage", &[("stage", word)], staged(stage));
    }
    let held: u64 = log.nodes.keys().map(|n| log.held(n.as_str()).len() as u64).sum();
    same("muster_gpus", &[("state", "used")], held);
    // Also those that fell off the bus: nobody should miss them in the sum.
    let kept = log.nodes.values().filter(|n| n.stage != Stage::Retired);
    let kept: u64 = kept.map(|n| u64::from(n.gpus.or(n.missing).len())).sum();
    same("muster_gpus", &[], kept);
    if kept > 0 {
        same("muster_sku_gpus", &[], kept);
    }
    same("muster_incidents_open", &[], log.incidents.len() as u64);
    same("muster_automation_stopped", &[], u64::from(log.stopped.is_some()));
    same("muster_remediations", &[], log.remediations.len() as u64);
    let bad = |s: Severity| log.findings.values().filter(|f| f.seen.severity == s).count() as u64;
    for severity in [Severity::Info, Severity::Warning, Severity::Degraded, Severity::Critical] {
        // A mode without open findings has no line.
        if bad(severity) > 0 {
            same("muster_findings_open", &[("severity", severity.word())], bad(severity));
        }
    }
    if log.findings.is_empty() {
        let lines = sum(page, "muster_findings_open", &[]);
        wrong.same("muster_findings_open", (METRICS, lines), (LOG, Value::Null));
    }
}

/// Does a node take work?
fn takes_work(node: &Value) -> bool {
    node["state"] == "ready"
}

/// GPUs of a node that take work, as the list of nodes shows it.
fn offers(node: &Value) -> u64 {
    let out = node["gpus_excluded"].as_array().map_or(0, |all| all.len() as u64);
    let all = node["gpus_total"].as_u64().unwrap_or(0);
    if takes_work(node) { all.saturating_sub(out) } else { 0 }
}

/// The same counts, as lists show them.
pub(super) fn metrics_and_lists(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let page = &said.metrics;
    let fits = |a: &Value, urgency: &str, state: &str| {
        let silenced = !a["silenced"].is_null();
        let stands = match state {
            "silenced" => silenced,
            other => !silenced && a["state"] == other,
        };
        a["urgency"] == urgency && a["state"] != "resolved" && stands
    };
    for urgency in ["page", "ticket"] {
        for state in ["firing", "acknowledged", "silenced"] {
            let listed = said.alerts.iter().filter(|a| fits(a, urgency, state)).count();
            let labels = [("urgency", urgency), ("state", state)];
            let counted = sum(page, "muster_alerts", &labels);
            let what = format!("open alerts {labels:?}");
            wrong.same(what, (METRICS, counted), ("GET /v1/alerts", json!(listed)));
        }
    }
    // New work goes neither where the list says so nor to a spare.
    for (state, spare) in [("free", false), ("spare", true)] {
        let mut able = 0;
        for (name, is) in &log.nodes {
            let Some(n) = said.nodes.iter().find(|n| n["id"] == name.as_str()) else { continue };
            if takes_work(n) && n["no_new_work"].is_null() && (n["role"] == "spare") == spare {
                let held = log.held(name.as_str());
                let there = is.gpus.minus(is.excluded);
                able += there.iter().filter(|g| !held.contains_key(g)).count();
            }
        }
        let counted = sum(page, "muster_gpus", &[("state", state)]);
        let what = format!("GPUs that are {state}");
        wrong.same(what, (METRICS, counted), ("GET /v1/nodes", json!(able)));
    }
}

/// Jobs that came and ended since the log began, and GPUs as they stand now.
pub(super) fn fleet_report(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/reports/fleet";
    wrong.holds(said.fleet["complete"] == json!(true), "the report is complete", who, &said.fleet);
    let jobs = &said.fleet["total"]["jobs"];
    let failed = jobs["failed"].as_object().into_iter().flatten();
    let failed: u64 = failed.filter_map(|(_, n)| n.as_u64()).sum();
    let ends = log.ends;
    for (what, says, known) in [
        ("submitted", jobs["submitted"].clone(), ends.submitted),
        ("succeeded", jobs["succeeded"].clone(), ends.succeeded),
        ("cancelled", jobs["cancelled"].clone(), ends.cancelled),
        ("failed", json!(failed), ends.failed),
    ] {
        wrong.same(format!("jobs that were {what}"), (who, says), (LOG, json!(known)));
    }
    let projects = said.fleet["projects"].as_array().cloned().unwrap_or_default();
    for (project, ends) in &log.ends_of {
        let row = projects.iter().find(|p| p["name"] == project.as_str());
        let jobs = row.map_or(Value::Null, |p| p["jobs"].clone());
        let failed = jobs["failed"].as_object().into_iter().flatten();
        let failed: u64 = failed.filter_map(|(_, n)| n.as_u64()).sum();
        let says = json!([jobs["submitted"], jobs["succeeded"], jobs["cancelled"], failed]);
        let known = json!([ends.submitted, ends.succeeded, ends.cancelled, ends.failed]);
        let what = format!("project {project}: jobs submitted, succeeded, cancelled and failed");
        wrong.same(what, (who, says), (LOG, known));
    }
    let kinds = said.fleet["inventory"].as_array().cloned().unwrap_or_default();
    let count = |field: &str| kinds.iter().filter_map(|k| k[field].as_u64()).sum::<u64>();
    let there = log.nodes.values().filter(|n| n.stage != Stage::Retired);
    let all: u64 = there.map(|n| u64::from(n.gpus.len())).sum();
    wrong.same("GPUs of the fleet", (who, json!(count("gpus"))), (LOG, json!(all)));
    let takes: u64 = said.nodes.iter().map(offers).sum();
    let what = "GPUs that take work";
    wrong.same(what, (who, json!(count("in_service"))), ("GET /v1/nodes", json!(takes)));
    let rows = said.fleet["rows"].as_array().cloned().unwrap_or_default();
    for part in ["submitted", "succeeded", "cancelled"] {
        let together: u64 = rows.iter().filter_map(|r| r["jobs"][part].as_u64()).sum();
        let what = format!("jobs that were {part}, rows and total");
        wrong.same(what, (who, json!(together)), (who, jobs[part].clone()));
    }
}

/// What the server says of the site in short.
pub(super) fn server(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let there = || log.nodes.values().filter(|n| n.stage != Stage::Retired);
    let over = ["succeeded", "failed", "cancelled"];
    let known = [
        ("nodes", there().count()),
        ("nodes_lost", there().filter(|n| !n.reachable).count()),
        ("nodes_protected", there().filter(|n| n.protected).count()),
        ("jobs_active", log.jobs.values().filter(|j| !over.contains(&j.state)).count()),
    ];
    for (part, known) in known {
        wrong.same(part, ("GET /v1/server", said.server[part].clone()), (LOG, json!(known)));
    }
    let end = said.server["store"]["durable_seq"].clone();
    wrong.same("the end of the log", ("GET /v1/server", end), (METRICS, json!(said.seq)));
}
