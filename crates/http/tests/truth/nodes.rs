//! `nodes` and `describe node`.

use super::Contradictions;
use super::fold::Fold;
use super::moment::MomentAnswers;
use muster_model::node::Stage;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const LIST: &str = "GET /v1/nodes";
const LOG: &str = "the log";

fn name(v: &Value) -> &str {
    v["id"].as_str().unwrap_or_default()
}

/// Which nodes there are, where each stands and why, and which GPUs it has.
pub(super) fn list_and_log(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let listed: BTreeSet<&str> = said.nodes.iter().map(name).collect();
    let known: BTreeSet<&str> = log.nodes.keys().map(|n| n.as_str()).collect();
    wrong.same("which nodes there are", (LIST, json!(listed)), (LOG, json!(known)));
    for (node, is) in &log.nodes {
        let Some(shown) = said.nodes.iter().find(|n| name(n) == node.as_str()) else { continue };
        let excluded: Vec<u32> = is.excluded.iter().collect();
        let parts = [
            ("state", json!(is.word())),
            ("stage", json!(is.stage)),
            ("reachable", json!(is.reachable)),
            ("cordon", json!(is.cordon)),
            ("protected", json!(is.protected)),
            ("role", json!(is.role)),
            ("gpus_total", json!(is.gpus.len())),
            ("gpus_excluded", json!(excluded)),
        ];
        for (part, known) in parts {
            let says = shown[part].clone();
            wrong.same(format!("node {node}: its {part}"), (LIST, says), (LOG, known));
        }
        let tested = json!(!shown["qualifying"].is_null());
        let what = format!("node {node}: whether it is tested");
        wrong.same(what, (LIST, tested), (LOG, json!(is.tested)));
        // What keeps work away has the word of the state, and so has whoever explains a job.
        let blocked = shown["no_new_work"].as_str().unwrap_or_default();
        let same = is.word() == "ready" || blocked.starts_with(is.word());
        let what = format!("node {node}: its state is why it gets no new work");
        wrong.holds(same, what, LIST, shown);
    }
}

/// The list and the single node say the same; what a list leaves out is not compared. Open findings
/// of a node are those of the log.
pub(super) fn list_and_description(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    for listed in &said.nodes {
        let node = name(listed);
        let Some(described) = said.node.get(node) else { continue };
        let (mut one, mut other) = (listed.clone(), described.clone());
        for v in [&mut one, &mut other] {
            for left_out in ["qualified", "faults", "findings", "remediation_detail", "actions"] {
                v[left_out].take();
            }
        }
        let who = format!("GET /v1/nodes/{node}");
        wrong.same(format!("node {node}"), (LIST, one), (&who, other));
        let shown = described["findings"].as_array().cloned().unwrap_or_default();
        let shown: BTreeSet<&str> = shown.iter().map(name).collect();
        let open = log.findings.values();
        let open = open.filter(|f| f.seen.entity.node().is_some_and(|n| n.as_str() == node));
        let open: BTreeSet<String> = open.map(|f| f.id.to_string()).collect();
        let what = format!("node {node}: its open findings");
        wrong.same(what, (&who, json!(shown)), (LOG, json!(open)));
        let remediation = described["remediation_detail"]["id"].clone();
        let what = format!("node {node}: the remediation that goes on");
        wrong.same(what, (&who, described["remediation"].clone()), (&who, remediation));
    }
}

/// GPUs that are allocated: the count, the jobs that hold them, and the log.
pub(super) fn allocated_gpus(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    for shown in &said.nodes {
        let node = name(shown);
        let held = log.held(node);
        let known: BTreeSet<u32> = held.keys().copied().collect();
        let what = format!("node {node}: how many GPUs are held");
        wrong.same(&what, (LIST, shown["gpus_used"].clone()), (LOG, json!(known.len())));
        let jobs = shown["jobs"].as_array().cloned().unwrap_or_default();
        let gpus = jobs.iter().flat_map(|j| j["gpus"].as_array().cloned().unwrap_or_default());
        let gpus: BTreeSet<u64> = gpus.filter_map(|g| g.as_u64()).collect();
        let what = format!("node {node}: which GPUs its jobs hold");
        wrong.same(&what, (LIST, json!(gpus)), (LOG, json!(known)));
        let names: BTreeSet<&str> = jobs.iter().map(name).collect();
        let what = format!("node {node}: which jobs hold something there");
        wrong.same(&what, (LIST, json!(names)), (LOG, json!(log.jobs_on(node))));
        for job in &jobs {
            let listed = said.jobs.iter().find(|j| j["id"] == job["id"]);
            let state = listed.map_or(Value::Null, |j| j["state"].clone());
            let what = format!("node {node}: the state of job {}", job["id"]);
            wrong.same(what, (LIST, job["state"].clone()), ("GET /v1/jobs", state));
        }
        let gone = log.nodes.iter().any(|(n, is)| n.as_str() == node && is.stage == Stage::Retired);
        let what = format!("node {node} is gone for good and holds nothing");
        wrong.holds(!gone || jobs.is_empty(), what, LIST, &shown["jobs"]);
    }
}
