//! What is wrong, one entry for each cause.

use crate::auth::{Caller, Reader};
use crate::error::Reply;
use crate::health::{breakers, findings, incidents, remediations};
use crate::slo::alerts;
use crate::slo::open::{affected, by_cause, ended};
use crate::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{CauseJob, CauseList, CauseRunbook, OpenCause};
use muster_engine::{State as Site, current_step};
use muster_health::modes;
use muster_model::JobId;
use muster_model::alert::{Topic, Urgency};
use muster_model::breaker::Breaker;
use muster_model::distinct;
use muster_model::entity::Entity;
use muster_model::finding::{Finding, Severity};
use muster_model::ids::AttemptKey;
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::remediation::RemediationStep;
use muster_model::units::Time;
use muster_runbook::{ParsedRunbook, fill, parse};
use muster_slo::causes::CauseGroup;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Causes in one answer.
const CAUSES: usize = 200;
/// Findings that are shown with a cause.
const FINDINGS: usize = 8;
/// Nodes and jobs that are named with a cause.
const NAMED: usize = 64;
/// What a cause is called of which nothing but a breaker is left.
const BREAKER_OPEN: &str = "breaker-open";

/// List what is wrong, worst first: alerts, incidents, findings and remediations by their cause.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/causes", tag = "health",
    responses((status = 200, description = "What is wrong.", body = CauseList))))]
pub(crate) async fn list(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let (brain, reader) = (app.brain().clone(), caller.clone());
    let look = move || brain.read_copy(|s| (s.seq, view(s, &reader)));
    let (seq, shown) = app.aside(&caller.token, look).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &shown))
}

fn view(s: &Site, caller: &Caller) -> CauseList {
    let whole = caller.actor.project.is_none();
    let mut groups: Vec<(String, CauseGroup<'_>)> = by_cause(s, caller).into_iter().collect();
    groups.sort_by_cached_key(|(key, g)| rank(key, g));
    let mut books = RunbookLookup { site: s, whole, known: BTreeMap::new() };
    let count = groups.len() as u64;
    let shown = groups.iter().take(CAUSES).map(|(key, g)| cause(s, caller, key, g, &mut books));
    CauseList { items: shown.collect(), count, cursor: None }
}

/// Pages that nobody acknowledged first, then what is pending approval, then by urgency, severity
/// and age.
type Rank = (bool, bool, Reverse<Option<Urgency>>, Reverse<Option<Severity>>, Time, String);

fn rank(key: &str, g: &CauseGroup<'_>) -> Rank {
    let pages = g
        .alerts
        .iter()
        .any(|a| a.urgency == Urgency::Page && a.silenced.is_none() && a.acknowledged.is_none());
    let pending = g.remediations.iter().any(|r| r.is_pending());
    (!pages, !pending, Reverse(urgency(g)), Reverse(severity(g)), since(g), key.to_owned())
}

/// None is less urgent than a ticket.
fn urgency(g: &CauseGroup<'_>) -> Option<Urgency> {
    g.alerts.iter().map(|a| a.urgency).max()
}

fn severity(g: &CauseGroup<'_>) -> Option<Severity> {
    let found = g.findings.iter().map(|f| f.seen.severity);
    // Whoever forced a breaker knows of it.
    let warns = |b: &&Breaker| if b.pinned.is_some() { Severity::Info } else { Severity::Warning };
    let breakers = g.breakers.iter().map(warns);
    // What asked for it may be closed: somebody has to decide all the same.
    let pending = g.remediations.iter().filter(|r| r.is_pending()).map(|_| Severity::Warning);
    found.chain(g.incidents.iter().map(|i| i.severity)).chain(breakers).chain(pending).max()
}

fn since(g: &CauseGroup<'_>) -> Time {
    // An incident has one beginning, wherever it is shown.
    if let Some(began) = g.incidents.iter().map(|i| i.began_at).min() {
        return began;
    }
    let alerts = g.alerts.iter().map(|a| a.since);
    let findings = g.findings.iter().map(|f| f.seen.first_seen);
    let remediations = g.remediations.iter().map(|r| r.at);
    let breakers = g.breakers.iter().map(|b| b.since);
    let all = alerts.chain(findings).chain(remediations).chain(breakers);
    all.min().unwrap_or(Time(0))
}

/// The finding that somebody has to decide about: the first with a remediation that is pending
/// approval. An incident stands for all that is found with it.
fn undecided<'a>(g: &CauseGroup<'a>) -> Option<&'a Finding> {
    if !g.incidents.is_empty() || g.alerts.iter().any(|a| a.topic == Topic::Incident) {
        return None;
    }
    let pending = |f: &&Finding| g.remediations.iter().any(|r| r.finding == f.id && r.is_pending());
    g.findings.iter().copied().filter(pending).min_by_key(|f| f.id)
}

/// The finding that stands for a cause: what is to be decided about, else the worst, and of those
/// the first.
fn worst<'a>(g: &CauseGroup<'a>) -> Option<&'a Finding> {
    let worst = || g.findings.iter().copied().min_by_key(|f| (Reverse(f.seen.severity), f.id));
    undecided(g).or_else(worst)
}

/// What a cause is: its kind, what it is about, and a sentence.
fn lead(g: &CauseGroup<'_>) -> (String, String, String) {
    // The urgency of an alert moves with the spares that are left, and with it the finding that it
    // is named after. What is to be decided stays the same.
    if let Some(a) = g.alerts.first().filter(|_| undecided(g).is_none()) {
        return (a.kind.clone(), a.cause.to_string(), a.summary.clone());
    }
    if let Some(i) = g.incidents.first() {
        return (i.kind.clone(), i.cause.to_string(), i.summary.clone());
    }
    if let Some(f) = worst(g) {
        let (kind, entity) = (f.seen.kind.clone(), f.seen.entity.to_string());
        let summary = format!("{entity}: {kind}");
        return (kind, entity, summary);
    }
    if let Some(r) = g.remediations.first() {
        return (r.kind.clone(), format!("node:{}", r.node), r.why.clone());
    }
    let Some(b) = g.breakers.first() else { return Default::default() };
    let summary = format!("breaker {} is {}: {}", b.entity, b.state.word(), b.reason);
    (BREAKER_OPEN.to_owned(), b.entity.to_string(), summary)
}

fn cause(
    s: &Site,
    caller: &Caller,
    key: &str,
    g: &CauseGroup<'_>,
    books: &mut RunbookLookup<'_>,
) -> OpenCause {
    let (kind, entity, summary) = lead(g);
    let nodes = nodes(g);
    let mut found = g.findings.clone();
    found.sort_by_key(|f| (Reverse(f.seen.severity), f.id));
    let affected = affected(s, caller, g);
    let jobs = jobs(s, &affected, &nodes);
    let ended = ended(s, caller, g);
    let pending = || g.remediations.iter().filter(|r| r.is_pending());
    let on: Vec<&NodeName> = distinct(pending().map(|r| &r.node));
    let stopped = jobs_on(s, caller, &on);
    let projects: BTreeSet<String> = jobs.iter().map(|j| j.project.clone()).collect();
    // Where all that is found is a remark, it is called one.
    let gravest = found.iter().filter(|f| f.seen.kind == kind).map(|f| f.seen.severity).max();
    let remediations: Vec<_> = g.remediations.iter().map(|r| remediations::view(s, r)).collect();
    OpenCause {
        id: key.to_owned(),
        title: modes::title(&kind, gravest.unwrap_or(Severity::Critical)).to_owned(),
        entity,
        summary,
        severity: severity(g),
        urgency: urgency(g),
        since: since(g).into(),
        alerts: g.alerts.iter().map(|a| alerts::view(s, caller, a, Some(&affected))).collect(),
        incidents: g.incidents.iter().map(|i| incidents::view(i)).collect(),
        breakers: g.breakers.iter().map(|b| breakers::view(s, b)).collect(),
        findings: found.iter().take(FINDINGS).map(|f| findings::view(f)).collect(),
        findings_open: g.findings.len() as u64,
        pending: pending().map(|r| r.id.to_string()).collect(),
        pending_jobs_count: stopped.len() as u64,
        pending_jobs: stopped.into_iter().take(NAMED).collect(),
        remediations,
        nodes_count: nodes.len() as u64,
        nodes: nodes.iter().take(NAMED).map(ToString::to_string).collect(),
        projects: projects.into_iter().collect(),
        jobs_affected: jobs.len() as u64,
        jobs: jobs.into_iter().take(NAMED).collect(),
        ended_attempts_count: ended.len() as u64,
        ended_attempts: ended.iter().take(NAMED).filter_map(|k| attempt_name(s, *k)).collect(),
        runbook: books.runbook(&kind, g),
        kind,
    }
}

/// `42.1`, or `42_3.1` where the job is a task of an array.
fn attempt_name(s: &Site, key: AttemptKey) -> Option<String> {
    Some(format!("{}.{}", s.jobs.get(&key.job)?.display_id(), key.attempt))
}

/// These jobs, each with the nodes among these that it runs on.
fn jobs(s: &Site, of: &BTreeMap<JobId, u32>, nodes: &[&NodeName]) -> Vec<CauseJob> {
    let known = of.iter().filter_map(|(id, gpus)| Some((s.jobs.get(id)?, *gpus)));
    let shown = known.map(|(j, gpus)| {
        let on = nodes.iter().filter(|n| !s.slots_on(j.id, n).is_empty());
        CauseJob {
            id: j.display_id(),
            name: j.name.to_string(),
            project: j.project.to_string(),
            gpus,
            nodes: on.map(ToString::to_string).collect(),
        }
    });
    shown.collect()
}

/// All that hold something on these nodes: what is done there may stop them, whatever they do.
fn jobs_on(s: &Site, caller: &Caller, nodes: &[&NodeName]) -> Vec<CauseJob> {
    let here = nodes.iter().flat_map(|n| s.attempts_on(n));
    let seen = here.filter(|j| caller.sees(&j.project));
    let gpus = |j: &Job| -> u32 {
        let slots = j.attempt.iter().flat_map(|a| &a.placement.slots);
        slots.map(|s| s.gpus.len()).sum()
    };
    let held: BTreeMap<JobId, u32> = seen.map(|j| (j.id, gpus(j))).collect();
    jobs(s, &held, nodes)
}

/// Runbooks by what they serve, each read once.
struct RunbookLookup<'a> {
    site: &'a Site,
    whole: bool,
    known: BTreeMap<String, Option<ParsedRunbook>>,
}

impl RunbookLookup<'_> {
    fn runbook(&mut self, kind: &str, g: &CauseGroup<'_>) -> Option<CauseRunbook> {
        if !self.whole {
            return None;
        }
        let site = self.site;
        let alert = g.alerts.first().filter(|_| undecided(g).is_none());
        let named = alert.and_then(|a| a.runbook.strip_prefix("/runbooks/"));
        let word = named.unwrap_or(kind);
        let book = self.known.entry(word.to_owned()).or_insert_with(|| {
            let name = site.runbooks.find(word)?;
            parse(&name, &site.runbooks.text(&name)?.0).ok()
        });
        let book = book.as_ref()?;
        let takes = |name: &String| book.needs.contains(name) || book.takes.contains(name);
        let vars: BTreeMap<String, String> =
            vars(g).into_iter().filter(|(name, _)| takes(name)).collect();
        let (name, title) = (book.name.clone(), book.title.clone());
        let nodes: BTreeSet<String> = nodes(g).into_iter().map(ToString::to_string).collect();
        let runs = site.runbooks.live().filter(|r| r.book == book.name);
        let runs = runs.filter(|r| is_about(&r.vars, &vars, &nodes));
        // One about the node that stands for the cause comes before one about another of its nodes.
        if let Some(r) = runs.min_by_key(|r| (r.vars.get("node") != vars.get("node"), r.id)) {
            // A run has the text and the variables that it began with.
            let of = parse(&r.book, &r.text).ok();
            let step = of.as_ref().and_then(|book| book.step(r.step));
            let step_title = step.map(|x| fill(&x.title, &r.vars)).unwrap_or_default();
            let (step, run) = (Some(r.step), Some(r.id.to_string()));
            return Some(CauseRunbook { name, title, step, step_title, vars, run });
        }
        let (missing, _) = book.check_vars(&vars);
        let step = match missing.is_empty() {
            // What is not known cannot be looked up.
            false => Some(1),
            true => current_step(site, book, &vars),
        };
        let watched = g.remediations.iter().any(|r| r.step == RemediationStep::Probation);
        let step_title = match step.and_then(|no| book.step(no)) {
            Some(x) => fill(&x.title, &vars),
            None if watched => "nothing to do while the node is on probation".to_owned(),
            None => "nothing is left to do".to_owned(),
        };
        Some(CauseRunbook { name, title, step, step_title, vars, run: None })
    }
}

/// All nodes that a cause is about.
fn nodes<'a>(g: &CauseGroup<'a>) -> Vec<&'a NodeName> {
    let on = g.findings.iter().filter_map(|f| f.seen.entity.node());
    distinct(on.chain(g.remediations.iter().map(|r| &r.node)))
}

/// Is a run, which has these variables, about a cause on these nodes that would give a run `vars`? One
/// that was given nothing is about all that its runbook serves.
fn is_about(
    run: &BTreeMap<String, String>,
    vars: &BTreeMap<String, String>,
    nodes: &BTreeSet<String>,
) -> bool {
    let same = |name: &str| vars.get(name).is_some_and(|v| run.get(name) == Some(v));
    if run.is_empty() || same("incident") {
        return true;
    }
    match run.get("node") {
        Some(node) => nodes.contains(node),
        None => same("job") || same("breaker"),
    }
}

/// What a run about a cause would be given.
fn vars(g: &CauseGroup<'_>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            out.insert(name.to_owned(), value);
        }
    };
    let found = worst(g);
    let node = found.and_then(|f| f.seen.entity.node());
    let node = node.or_else(|| g.remediations.first().map(|r| &r.node));
    put("node", node.map(ToString::to_string));
    put("gpu", found.and_then(|f| f.seen.entity.gpu()).map(|n| n.to_string()));
    put("finding", found.map(|f| f.id.to_string()));
    let job = found.and_then(|f| match (f.seen.attempt, &f.seen.entity) {
        (Some(a), _) => Some(a.job),
        (None, Entity::Job(j)) => Some(*j),
        _ => None,
    });
    put("job", job.map(|j| j.to_string()));
    put("incident", g.incidents.first().map(|i| i.id.to_string()));
    let breaker = g.incidents.first().map(|i| &i.cause);
    let breaker = breaker.or_else(|| g.breakers.first().map(|b| &b.entity));
    put("breaker", breaker.map(ToString::to_string));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::alert::Alert;
    use muster_model::finding::ObservedFinding;
    use muster_model::remediation::Remediation;
    use serde_json::json;

    fn finding(id: u64, kind: &str, on: &str, severity: Severity) -> Finding {
        Finding {
            id,
            seen: ObservedFinding::new(kind, on.parse().unwrap(), severity, Time(0)),
            opened_at: Time(0),
            inferred: false,
            incident: None,
            remediation: None,
            closed: None,
        }
    }

    fn alert(kind: &str, cause: &str, urgency: &str) -> Alert {
        let text = json!({"id": "a", "group": "g", "topic": "finding", "kind": kind,
            "cause": cause, "urgency": urgency, "state": "firing", "summary": "s", "count": 1,
            "since": 0, "raised_at": 0, "changed_at": 0});
        serde_json::from_value(text).unwrap()
    }

    fn waits(finding: u64, kind: &str) -> Remediation {
        let text = json!({"id": 31, "finding": finding, "kind": kind, "node": "n1",
            "action": "drain", "step_index": 0, "mode": "approve", "leave": "now",
            "step": "approval", "why": "", "at": 0, "since": 0});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_cause_is_named_after_what_is_to_be_decided() {
        let hot = finding(1, "thermal", "gpu:n1/3", Severity::Critical);
        let failed = finding(2, "qualification-failed", "node:n1", Severity::Critical);
        let ask = waits(2, "qualification-failed");
        let approved = Remediation { approved: Some("user:ann".into()), ..ask.clone() };
        assert!(ask.is_pending() && !approved.is_pending());
        // Its urgency fell with the spares that came back, and with it went its name.
        for a in [
            alert("qualification-failed", "node:n1", "page"),
            alert("thermal", "node:n1", "ticket"),
        ] {
            let mut g = CauseGroup {
                alerts: vec![&a],
                findings: vec![&hot, &failed],
                remediations: vec![&ask],
                ..CauseGroup::default()
            };
            let (kind, entity, _) = lead(&g);
            assert_eq!((kind.as_str(), entity.as_str()), ("qualification-failed", "node:n1"));
            assert_eq!(vars(&g).get("finding").map(String::as_str), Some("2"));
            // Nothing is to be decided: the alert names it.
            g.remediations = vec![&approved];
            assert_eq!(lead(&g).0, a.kind);
            g.remediations.clear();
            assert_eq!(lead(&g).0, a.kind);
        }
    }

    #[test]
    fn a_cause_with_an_incident_began_when_the_incident_did() {
        let old = finding(1, "thermal", "gpu:n1/3", Severity::Critical);
        let incident: muster_model::finding::Incident = serde_json::from_value(json!({
            "id": 9, "cause": "leaf:l", "kind": "leaf-loss", "severity": "critical",
            "summary": "s", "began_at": 500, "opened_at": 900, "findings": [1], "count": 1}))
        .unwrap();
        let mut g = CauseGroup { findings: vec![&old], ..CauseGroup::default() };
        assert_eq!(since(&g), Time(0));
        g.incidents = vec![&incident];
        assert_eq!(since(&g), Time(500));
    }

    #[test]
    fn what_is_to_be_decided_does_not_only_inform() {
        let r = waits(1, "driver-hang");
        let g = CauseGroup { remediations: vec![&r], ..CauseGroup::default() };
        assert_eq!(severity(&g), Some(Severity::Warning), "its finding was closed");
        let f = finding(1, "driver-hang", "gpu:n1/3", Severity::Critical);
        let g = CauseGroup { findings: vec![&f], ..g };
        assert_eq!(severity(&g), Some(Severity::Critical));
    }

    #[test]
    fn tickets_come_before_what_only_informs() {
        let (ticket, page) = (alert("k", "site", "ticket"), alert("k", "site", "page"));
        let info = finding(1, "thermal", "gpu:n1/3", Severity::Info);
        let of = |alerts, findings| CauseGroup { alerts, findings, ..CauseGroup::default() };
        let informs = of(vec![], vec![&info]);
        let (asks, wakes) = (of(vec![&ticket], vec![]), of(vec![&page], vec![]));
        assert!(rank("b", &wakes) < rank("a", &asks));
        assert!(rank("b", &asks) < rank("a", &informs), "however old each is");
    }
}
