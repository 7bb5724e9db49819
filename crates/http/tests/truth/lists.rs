//! Lists by a word, single things, places of power, silences, projects and the end of the log: each
//! says what the whole list does.

use super::Contradictions;
use super::asker::{Asker, id, part};
use super::fold::Fold;
use super::moment::MomentAnswers;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const NODES: &str = "GET /v1/nodes";
const ALERTS: &str = "GET /v1/alerts";
const LOG: &str = "the log";

/// Of a list, so many are asked for alone.
const ALONE: usize = 10;

/// What these lists say.
#[derive(Default)]
pub(super) struct ListAnswers {
    /// Nodes in one state only, by the word that was asked for.
    nodes_in: BTreeMap<String, Vec<Value>>,
    open_alerts: Vec<Value>,
    silences: Vec<Value>,
    projects: Vec<Value>,
    /// By node, rack and feed.
    power: BTreeMap<String, Vec<Value>>,
    /// Findings, incidents and remediations alone, by their paths.
    alone: BTreeMap<String, Value>,
    /// The newest event.
    newest: Value,
    readiness: Value,
}

impl ListAnswers {
    pub(super) fn projects(&self) -> &[Value] {
        &self.projects
    }
}

fn items(page: &Value) -> Vec<Value> {
    page["items"].as_array().cloned().unwrap_or_default()
}

impl Asker {
    /// Reports over a week and a month, and the lists that share something with others.
    pub(super) async fn of_the_site(&mut self, said: &mut MomentAnswers) {
        said.remediations = self.list("/v1/remediations?open=true&limit=1000").await;
        let breakers = self.json("/v1/breakers").await;
        said.breakers = breakers["items"].as_array().cloned().unwrap_or_default();
        said.quotas = self.json("/v1/quotas").await;
        for period in ["week", "month"] {
            let path = format!("/v1/reports/period?period={period}&back=0");
            let report = self.json(&path).await;
            let from = report["from"].as_str().unwrap_or_default();
            let fleet = self.json(&format!("/v1/reports/fleet?from={from}&step=day")).await;
            said.periods.push((report, fleet));
        }
        let mut names: Vec<String> =
            said.jobs.iter().take(2).chain(said.nodes.iter().take(2)).map(id).collect();
        let project = said.jobs.first().and_then(|j| j["project"].as_str());
        names.extend(project.map(str::to_owned));
        // Sites begin without any of these.
        names.push("nobody".into());
        for name in names {
            self.search(said, &name).await;
        }
    }

    /// Asks for all of them, once the whole lists are known.
    pub(super) async fn lists(&mut self, said: &MomentAnswers) -> ListAnswers {
        let mut out = ListAnswers::default();
        for word in muster_api::node::NODE_STATES {
            let found = self.list(&format!("/v1/nodes?state={word}&limit=1000")).await;
            out.nodes_in.insert(word.to_owned(), found);
        }
        out.open_alerts = self.list("/v1/alerts?open=true&limit=1000").await;
        out.silences = items(&self.json("/v1/silences").await);
        out.projects = items(&self.json("/v1/projects").await);
        for by in ["node", "rack", "feed"] {
            let page = self.json(&format!("/v1/power?by={by}")).await;
            out.power.insert(by.to_owned(), items(&page));
        }
        let kinds = [
            ("findings", &said.findings),
            ("incidents", &said.incidents),
            ("remediations", &said.remediations),
        ];
        for (kind, all) in kinds {
            for one in all.iter().take(ALONE) {
                let path = format!("/v1/{kind}/{}", part(&id(one)));
                let shown = self.json(&path).await;
                out.alone.insert(path, shown);
            }
        }
        let newest = items(&self.json("/v1/events?order=newest&limit=1").await);
        out.newest = newest.into_iter().next().unwrap_or_default();
        out.readiness = self.json("/v1/readiness").await;
        out
    }

    /// What a token that is bound to a project sees of the site's lists.
    pub(super) async fn lists_of_tenant(&mut self, theirs: &mut MomentAnswers) {
        theirs.nodes = self.list("/v1/nodes?limit=1000").await;
        theirs.alerts = self.list("/v1/alerts?limit=1000").await;
        theirs.slos = items(&self.json("/v1/slos").await);
        theirs.causes = items(&self.json("/v1/causes").await);
        theirs.lists.projects = items(&self.json("/v1/projects").await);
    }
}

fn ids(all: &[Value]) -> BTreeSet<String> {
    all.iter().map(id).collect()
}

fn open(a: &Value) -> bool {
    a["state"] != "resolved"
}

/// A part of a list has what the whole list says is in it.
pub(super) fn parts_of_lists(said: &MomentAnswers, wrong: &mut Contradictions) {
    for (state, found) in &said.lists.nodes_in {
        let whole = said.nodes.iter().filter(|n| n["state"] == state.as_str());
        let whole: BTreeSet<String> = whole.map(id).collect();
        let who = format!("{NODES}?state={state}");
        let what = format!("nodes that are {state}");
        wrong.same(what, (&who, json!(ids(found))), (NODES, json!(whole)));
    }
    let whole: BTreeSet<String> = said.alerts.iter().filter(|a| open(a)).map(id).collect();
    let found = json!(ids(&said.lists.open_alerts));
    wrong.same("open alerts", ("GET /v1/alerts?open=true", found), (ALERTS, json!(whole)));
    for s in &said.lists.silences {
        let name = id(s);
        let mine =
            said.alerts.iter().filter(|a| open(a)).filter(|a| a["silenced"] == name.as_str());
        let what = format!("silence {name}: how many alerts it silences");
        let counted = s["silences"].clone();
        wrong.same(what, ("GET /v1/silences", counted), (ALERTS, json!(mine.count())));
    }
}

/// One thing alone is what the list says of it.
pub(super) fn alone(said: &MomentAnswers, wrong: &mut Contradictions) {
    let kinds = [
        ("findings", &said.findings),
        ("incidents", &said.incidents),
        ("remediations", &said.remediations),
    ];
    for (kind, all) in kinds {
        for listed in all {
            let path = format!("/v1/{kind}/{}", part(&id(listed)));
            let Some(shown) = said.lists.alone.get(&path) else { continue };
            let (mut one, mut other) = (listed.clone(), shown.clone());
            for v in [&mut one, &mut other] {
                // A list of incidents has neither.
                for left_out in ["findings", "changes"] {
                    v[left_out].take();
                }
            }
            let who = format!("GET {path}");
            let list = format!("GET /v1/{kind}");
            wrong.same(format!("{kind} {}", id(listed)), (&list, one), (&who, other));
        }
    }
}

/// However power is added up, it is of the same nodes.
pub(super) fn power(said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = |by: &str| format!("GET /v1/power?by={by}");
    let by = |by: &str| said.lists.power.get(by).cloned().unwrap_or_default();
    let nodes = by("node");
    let there = said.nodes.iter().filter(|n| n["state"] != "retired").map(id);
    let there: BTreeSet<String> = there.collect();
    let named: BTreeSet<&str> = nodes.iter().filter_map(|p| p["name"].as_str()).collect();
    wrong.same("nodes that draw power", (&who("node"), json!(named)), (NODES, json!(there)));
    let sum = |all: &[Value], part: &str| all.iter().filter_map(|p| p[part].as_u64()).sum::<u64>();
    for place in ["rack", "feed"] {
        let places = by(place);
        for part in ["nodes", "gpus", "gpu_watts_rated", "host_watts_planned"] {
            let (one, other) = (sum(&places, part), sum(&nodes, part));
            let what = format!("{part} of all");
            wrong.same(what, (&who(place), json!(one)), (&who("node"), json!(other)));
        }
        let names: BTreeSet<&str> = places.iter().filter_map(|p| p["name"].as_str()).collect();
        let once = names.len() == places.len();
        wrong.holds(once, format!("every {place} is there once"), &who(place), &json!(places));
    }
}

/// Projects of jobs are known, and the newest event is the end of the log.
pub(super) fn projects_and_end(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let known = ids(&said.lists.projects);
    let of_jobs: BTreeSet<&str> = log.jobs.values().map(|j| j.project.as_str()).collect();
    let all = of_jobs.iter().all(|p| known.contains(*p));
    let what = format!("the projects of all jobs are known: {of_jobs:?}");
    wrong.holds(all, what, "GET /v1/projects", &json!(known));
    let newest = said.lists.newest["seq"].clone();
    wrong.same("the newest event", ("GET /v1/events", newest), (LOG, json!(said.seq)));
}

/// The checklists say what the summary of health does.
pub(super) fn readiness(said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/readiness";
    let checks = said.lists.readiness["checks"].as_array().into_iter().flatten();
    let state: BTreeMap<&str, &Value> =
        checks.filter_map(|c| Some((c["check"].as_str()?, &c["state"]))).collect();
    let left = said.health["spares_left"].as_u64() > Some(0);
    if let Some(spares) = state.get("spares").filter(|s| **s != "unknown") {
        let ok = json!(**spares == "ok");
        wrong.same("there are spares", (who, ok), ("GET /v1/health", json!(left)));
    }
    if let Some(automation) = state.get("automation") {
        let runs = said.automation["state"] == "running";
        let ok = json!(**automation == "ok");
        wrong.same("automation runs", (who, ok), ("GET /v1/automation", json!(runs)));
    }
}

/// A tenant sees a part of what operators see, and nothing of others in it.
pub(super) fn of_tenant(
    project: &str,
    said: &MomentAnswers,
    theirs: &MomentAnswers,
    wrong: &mut Contradictions,
) {
    for shown in &theirs.nodes {
        let whole = said.nodes.iter().find(|n| id(n) == id(shown));
        for field in ["state", "gpus_total", "gpus_used"] {
            let other = whole.map_or(Value::Null, |n| n[field].clone());
            let what = format!("node {}: its {field}", id(shown));
            wrong.same(what, (NODES, shown[field].clone()), ("the same to an operator", other));
        }
        for job in shown["jobs"].as_array().into_iter().flatten() {
            let own = job["project"] == project || job["project"] == "another project's";
            wrong.holds(own, "jobs of others on a node have no name", NODES, job);
        }
    }
    let all = ids(&said.alerts);
    for a in &theirs.alerts {
        let own = a["project"] == project && all.contains(&id(a));
        wrong.holds(own, "alerts of others are not shown", ALERTS, a);
    }
    let mine = ids(&theirs.alerts);
    for slo in &theirs.slos {
        let what = "an objective names no alert that its project does not see";
        let named = slo["alert"].as_str();
        wrong.holds(named.is_none_or(|a| mine.contains(a)), what, "GET /v1/slos", slo);
        let own = slo["scope"]["project"] == project;
        wrong.holds(own, "objectives of others are not shown", "GET /v1/slos", slo);
    }
    let jobs = ids(&theirs.jobs);
    for cause in &theirs.causes {
        for job in cause["jobs"].as_array().into_iter().flatten() {
            let own = jobs.contains(&id(job));
            wrong.holds(own, "a cause names own jobs only", "GET /v1/causes", job);
        }
    }
    let known = json!(ids(&theirs.lists.projects));
    wrong.same("own projects", ("GET /v1/projects", known), ("the token", json!([project])));
}
