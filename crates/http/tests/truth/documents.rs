//! What operators set: policy, quotas, the topology, reservations, objectives, projects and tokens. Each is
//! as it was set last, and what follows from it elsewhere is as it says.

use super::Contradictions;
use super::asker::{Asker, id, listed, part};
use super::fold::Fold;
use super::moment::MomentAnswers;
use muster_api::Timestamp;
use muster_model::event::{Event, Record};
use muster_model::ids::Seq;
use muster_model::names::NodeName;
use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::reservation::{Reservation, ReservationTarget};
use muster_model::topology::{Location, Topology};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const LOG: &str = "the log";
const NODES: &str = "GET /v1/nodes";
const JOBS: &str = "GET /v1/jobs";
const RESERVATIONS: &str = "GET /v1/reservations";

/// What was set last, by the log.
#[derive(Debug, Default)]
pub(super) struct Documents {
    policy: Arc<SitePolicy>,
    quotas: Arc<Quotas>,
    topology: Arc<Topology>,
    /// By name: the record that made each, and the nodes that were chosen for it.
    reservations: BTreeMap<String, (Seq, Arc<Reservation>, Vec<NodeName>)>,
    projects: BTreeSet<String>,
    /// Those that were not revoked, by id, with their names.
    tokens: BTreeMap<String, String>,
}

impl Documents {
    pub(super) fn take(&mut self, r: &Record) {
        match &r.event {
            Event::PolicySet { policy } => self.policy = Arc::clone(policy),
            Event::QuotasSet { quotas } => self.quotas = Arc::clone(quotas),
            Event::TopologySet { topology } => self.topology = Arc::clone(topology),
            Event::ReservationSet { reservation, nodes } => {
                let name = reservation.name.to_string();
                let made = (r.seq, Arc::clone(reservation), nodes.clone());
                self.reservations.insert(name, made);
            }
            Event::ReservationDeleted { name } => {
                self.reservations.remove(name.as_str());
            }
            Event::ProjectCreated { name, .. } => {
                self.projects.insert(name.to_string());
            }
            Event::TokenCreated { id, name, .. } => {
                self.tokens.insert(id.clone(), name.to_string());
            }
            Event::TokenRevoked { id } => {
                self.tokens.remove(id);
            }
            _ => {}
        }
    }
}

/// What these endpoints say.
#[derive(Default)]
pub(super) struct DocumentAnswers {
    policy: Value,
    topology: Value,
    objectives: Value,
    defrag: Value,
    tokens: Vec<Value>,
    reservations: Vec<Value>,
    /// By name.
    reservation: BTreeMap<String, Value>,
}

impl Asker {
    pub(super) async fn documents(&mut self) -> DocumentAnswers {
        let mut out = DocumentAnswers {
            policy: self.json("/v1/policy").await,
            topology: self.json("/v1/topology").await,
            objectives: self.json("/v1/objectives").await,
            defrag: self.json("/v1/defrag").await,
            tokens: self.of("/v1/tokens").await,
            reservations: self.of("/v1/reservations").await,
            ..DocumentAnswers::default()
        };
        for name in out.reservations.iter().map(id).collect::<Vec<_>>() {
            let shown = self.json(&format!("/v1/reservations/{}", part(&name))).await;
            out.reservation.insert(name, shown);
        }
        out
    }

    /// What a token that is bound to a project is shown of them.
    pub(super) async fn documents_of_tenant(&mut self) -> DocumentAnswers {
        DocumentAnswers {
            policy: self.json("/v1/policy").await,
            topology: self.json("/v1/topology").await,
            reservations: self.of("/v1/reservations").await,
            ..DocumentAnswers::default()
        }
    }
}

/// Each document is as it was set last.
pub(super) fn as_set(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let (shown, set) = (&said.documents, &log.documents);
    // The answer spells out what the log leaves to its default.
    let read = serde_json::from_value::<SitePolicy>(shown.policy["policy"].clone());
    let read = read.map_or_else(|e| json!(e.to_string()), |policy| json!(policy));
    let policy = ("GET /v1/policy", read);
    wrong.same("the policy", policy, (LOG, json!(&*set.policy)));
    let tree = ("GET /v1/quotas", said.quotas["quotas"].clone());
    wrong.same("the tree of quotas", tree, (LOG, json!(&*set.quotas)));
    let topology = ("GET /v1/topology", shown.topology["nodes"].clone());
    wrong.same("the topology", topology, (LOG, json!(&set.topology.nodes)));
    let projects: BTreeSet<String> = said.lists.projects().iter().map(id).collect();
    let projects = ("GET /v1/projects", json!(projects));
    wrong.same("which projects there are", projects, (LOG, json!(&set.projects)));
    let name = |t: &Value| (id(t), t["name"].as_str().unwrap_or_default().to_owned());
    let tokens: BTreeMap<String, String> = shown.tokens.iter().map(name).collect();
    let tokens = ("GET /v1/tokens", json!(tokens));
    wrong.same("which tokens there are", tokens, (LOG, json!(&set.tokens)));
}

/// A node is where the topology says.
pub(super) fn places(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    for node in &said.nodes {
        let Ok(name) = id(node).parse::<NodeName>() else { continue };
        let place = log.documents.topology.nodes.get(&name).cloned();
        let place = place.unwrap_or_else(|| Location::unplaced(&name));
        let shown = (NODES, node["location"].clone());
        wrong.same(format!("node {name}: its location"), shown, (LOG, json!(place)));
    }
}

/// Objectives that the site set are in force, those that it left out are not.
pub(super) fn objectives(said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/objectives";
    let document = &said.documents.objectives["objectives"];
    let force: BTreeSet<String> = said.slos.iter().map(id).collect();
    for own in listed(&document["objectives"]) {
        let name = own["name"].as_str().unwrap_or_default();
        let what = format!("objective {name} is in force: {force:?}");
        wrong.holds(force.contains(name), what, who, &own);
    }
    for name in listed(&document["without"]) {
        let own = listed(&document["objectives"]).iter().any(|o| o["name"] == name);
        let in_force = name.as_str().is_some_and(|n| force.contains(n));
        let what = "an objective that was left out is not in force";
        wrong.holds(own || !in_force, what, who, &name);
    }
}

/// Reservations are as they were made; one alone is as in the list.
pub(super) fn reservations(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let (shown, made) = (&said.documents, &log.documents.reservations);
    let names: BTreeSet<String> = shown.reservations.iter().map(id).collect();
    let known: BTreeSet<&str> = made.keys().map(String::as_str).collect();
    wrong.same("which reservations there are", (RESERVATIONS, json!(names)), (LOG, json!(known)));
    for listed in &shown.reservations {
        let name = id(listed);
        let Some((version, r, chosen)) = made.get(&name) else { continue };
        let parts = [
            ("version", json!(version.0)),
            ("projects", json!(&r.projects)),
            ("maintenance", json!(r.projects.is_empty())),
            ("reason", json!(&r.reason)),
            ("over", json!(&r.over)),
            ("start", json!(Timestamp(r.start))),
            ("length", json!(r.length)),
            ("every", json!(r.every)),
            ("overrun", json!(r.overrun)),
            ("lend", json!(r.lend)),
        ];
        for (part, known) in parts {
            let what = format!("reservation {name}: its {part}");
            wrong.same(what, (RESERVATIONS, listed[part].clone()), (LOG, known));
        }
        let nodes = match &r.over {
            ReservationTarget::Nodes(nodes) => Some(nodes),
            ReservationTarget::Gpus { .. } => Some(chosen),
            ReservationTarget::Domain { .. } => None,
        };
        if let Some(nodes) = nodes {
            let what = format!("reservation {name}: its nodes");
            wrong.same(what, (RESERVATIONS, listed["nodes"].clone()), (LOG, json!(nodes)));
        }
        // A window may begin or end between two questions.
        let Some(alone) = shown.reservation.get(&name) else { continue };
        if listed["window"] == alone["window"] && listed["state"] == alone["state"] {
            let who = format!("{RESERVATIONS}/{name}");
            let what = format!("reservation {name}");
            wrong.same(what, (RESERVATIONS, listed.clone()), (&who, alone.clone()));
        }
    }
}

/// What a reservation says of its nodes and of the jobs on them is what their lists say.
pub(super) fn effects_of_reservations(said: &MomentAnswers, wrong: &mut Contradictions) {
    for r in &said.documents.reservations {
        let name = id(r);
        let nodes: BTreeSet<String> =
            listed(&r["nodes"]).iter().filter_map(|n| n.as_str().map(str::to_owned)).collect();
        for stopped in listed(&r["stops"]) {
            let job = said.jobs.iter().find(|j| j["id"] == stopped["job"]);
            let slots = job.map(|j| listed(&j["attempt"]["slots"])).unwrap_or_default();
            let here = slots.iter().any(|s| s["node"].as_str().is_some_and(|n| nodes.contains(n)));
            let what = format!("reservation {name} stops what is on its nodes {nodes:?}");
            wrong.holds(here, what, RESERVATIONS, &stopped);
            // What is on its way out may be so since it was reserved for somebody else.
            let leaves = job.is_some_and(|j| j["state"] == "stopping");
            let own = listed(&r["projects"]).contains(&stopped["project"]);
            let what = format!("reservation {name} stops jobs of others");
            wrong.holds(leaves || !own, what, RESERVATIONS, &stopped);
        }
        // One that is over has no effect.
        if r["window"].is_null() {
            continue;
        }
        let out: BTreeSet<String> = listed(&r["not_serving"])
            .iter()
            .filter_map(|n| n["node"].as_str().map(str::to_owned))
            .collect();
        for node in said.nodes.iter().filter(|n| nodes.contains(&id(n))) {
            let serves = node["state"] == "ready" && node["role"] != "spare";
            let what = format!("reservation {name} names node {} as out of service", id(node));
            wrong.holds(serves || out.contains(&id(node)), what, RESERVATIONS, node);
        }
    }
}

/// Moves that are proposed: by the policy, of jobs that are there, for gangs that wait.
pub(super) fn defrag(said: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/defrag";
    let policy = &said.documents.policy["policy"]["defrag"];
    for field in ["enabled", "moves_per_hour"] {
        let shown = (who, said.documents.defrag[field].clone());
        wrong.same(format!("moves: {field}"), shown, ("GET /v1/policy", policy[field].clone()));
    }
    for proposal in listed(&said.documents.defrag["proposals"]) {
        let gang = said.jobs.iter().find(|j| j["id"] == proposal["gang"]);
        let state = gang.map_or(Value::Null, |j| j["state"].clone());
        let what = format!("gang {} waits for moves", proposal["gang"]);
        wrong.same(what, (who, json!("queued")), (JOBS, state));
        for moved in listed(&proposal["moves"]) {
            let job = said.jobs.iter().find(|j| j["id"] == moved["job"]);
            let slots = job.map(|j| listed(&j["attempt"]["slots"])).unwrap_or_default();
            let nodes: Vec<Value> = slots.iter().map(|s| s["node"].clone()).collect();
            let what = format!("job {}: the nodes that it would leave", moved["job"]);
            wrong.same(what, (who, moved["from"].clone()), (JOBS, json!(nodes)));
        }
    }
}

/// A tenant is shown the same policy and topology, its own reservations and maintenance.
pub(super) fn of_tenant(
    project: &str,
    said: &MomentAnswers,
    theirs: &MomentAnswers,
    wrong: &mut Contradictions,
) {
    let (whole, shown) = (&said.documents, &theirs.documents);
    let to_all = "the same to an operator";
    for (who, one, other) in [
        ("GET /v1/policy", &shown.policy, &whole.policy),
        ("GET /v1/topology", &shown.topology, &whole.topology),
    ] {
        wrong.same(who, (who, one.clone()), (to_all, other.clone()));
    }
    let may = |r: &&Value| {
        r["maintenance"] == json!(true) || listed(&r["projects"]).contains(&json!(project))
    };
    let known: BTreeSet<String> = whole.reservations.iter().filter(may).map(id).collect();
    let names: BTreeSet<String> = shown.reservations.iter().map(id).collect();
    wrong.same("own reservations", (RESERVATIONS, json!(names)), (to_all, json!(known)));
    for r in &shown.reservations {
        let mut named = listed(&r["projects"]);
        named.extend(listed(&r["stops"]).iter().map(|s| s["project"].clone()));
        let own = named.iter().all(|p| *p == json!(project));
        wrong.holds(own, "a reservation names no other project", RESERVATIONS, r);
    }
}
