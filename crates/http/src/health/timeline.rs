//! What happened to a node: faults, findings, remediations, stages, tests, jobs that were hit.

use super::title_of;
use crate::auth::Reader;
use crate::error::{Failure, Reply};
use crate::extract::{Query, Segment};
use crate::{App, answer, paging};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{TimelineEntry, TimelineKind, TimelineList, TimelineQuery};
use muster_engine::State as Site;
use muster_model::event::Event;
use muster_model::fault::ObservedFault;
use muster_model::finding::{Finding, ObservedFinding, Severity};
use muster_model::ids::JobId;
use muster_model::job::SlotEnd;
use muster_model::names::{NameError, NodeName};
use muster_model::node::NodeRole;
use muster_model::remediation::{AskedAct, Remediation, RemediationStep};
use muster_model::tenant::Role;
use muster_model::units::Time;
use muster_model::{Record, Seq};
use muster_server::follower::Cursor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Newest records of the log that are looked through.
const LOOKED_AT: u64 = 20_000;

/// List what happened to a node, newest first: the newest part of the log, and what is stored
/// of the time before.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/nodes/{name}/timeline", tag = "health", params(TimelineQuery,
    ("name" = String, Path, description = "The node's name.")),
    responses((status = 200, description = "What happened.", body = TimelineList))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(name): Segment,
    Query(q): Query<TimelineQuery>,
) -> Reply {
    caller.over_site(Role::Viewer)?;
    let limit = paging::limit(q.limit)?;
    let node: NodeName =
        name.parse().map_err(|e: NameError| Failure::bad(e.to_string()).field("name"))?;
    let found = app
        .brain()
        .read(|s| s.nodes.contains_key(&node).then(|| (s.seq, NodeSubjects::new(s, &node))));
    let (seq, about) = found.ok_or_else(|| {
        Failure::not_found(format!("there is no node {node}")).hint("`muster nodes` lists them")
    })?;
    // Only one way leads to each entry: the log shows in which order things happened, and what it
    // does not reach comes from what is remembered.
    let (mut items, from) = logged(&app, &about, seq).await?;
    items.reverse();
    let mut older = app.brain().read(|s| remembered(s, &node));
    older.retain(|e| from.is_some_and(|from| e.at.0 < from));
    older.sort_by_key(|e| std::cmp::Reverse(e.at));
    items.extend(older);
    items.truncate(limit);
    app.brain().read(|s| items.iter_mut().for_each(|e| call_task(s, e)));
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &TimelineList { items, cursor: None }))
}

/// Calls a task of an array as lists call it; records know its number only.
fn call_task(s: &Site, e: &mut TimelineEntry) {
    if e.what != TimelineKind::Job {
        return;
    }
    let number = e.id.as_ref().and_then(|t| t.parse::<JobId>().ok());
    let job = number.and_then(|n| s.jobs.get(&n)).filter(|j| j.array.is_some());
    let Some(job) = job else { return };
    let name = job.display_id();
    e.text = e.text.replacen(&format!("attempt {}.", job.id), &format!("attempt {name}."), 1);
    e.id = Some(name);
}

fn entry(at: Time, what: TimelineKind, text: String) -> TimelineEntry {
    TimelineEntry { at: at.into(), what, id: None, gpu: None, severity: None, text }
}

/// Records name findings, remediations and acts by number: those of one node.
pub(super) struct NodeSubjects {
    node: NodeName,
    /// When it joined first.
    joined: Option<Time>,
    findings: BTreeMap<u64, Arc<Finding>>,
    remediations: BTreeMap<u64, Arc<Remediation>>,
    acts: BTreeMap<u64, Arc<AskedAct>>,
}

impl NodeSubjects {
    pub(super) fn node(&self) -> &NodeName {
        &self.node
    }

    pub(super) fn new(s: &Site, node: &NodeName) -> NodeSubjects {
        let h = &s.health;
        let findings = h.findings.iter().filter(|(_, f)| f.seen.entity.node() == Some(node));
        let remediations = h.remediations.iter().filter(|(_, r)| r.node == *node);
        let acts = h.acts.iter().filter(|(_, a)| a.act.node() == Some(node));
        NodeSubjects {
            node: node.clone(),
            joined: s.nodes.get(node).map(|n| n.enrolled_at),
            findings: findings.map(|(id, f)| (*id, Arc::clone(f))).collect(),
            remediations: remediations.map(|(id, r)| (*id, Arc::clone(r))).collect(),
            acts: acts.map(|(id, a)| (*id, Arc::clone(a))).collect(),
        }
    }
}

fn of_fault(at: Time, f: &ObservedFault) -> TimelineEntry {
    let hit = f.attempt.map(|a| format!(", affected {a}")).unwrap_or_default();
    let times = if f.count > 1 { format!(" {} times", f.count) } else { String::new() };
    let text = format!("{}{times}{hit}: {}", f.code, f.text);
    TimelineEntry { gpu: f.gpu, ..entry(at, TimelineKind::Fault, text) }
}

fn of_finding(at: Time, id: u64, f: &ObservedFinding, over: Option<&str>) -> TimelineEntry {
    let text = match over {
        // A person may have closed it: that it was closed is all that is known for certain.
        Some(why) => format!("{} was closed: {why}", f.kind),
        None => {
            let why = f.evidence.first().map(|e| format!(": {e}")).unwrap_or_default();
            format!("{} ({}){why}", f.kind, title_of(f))
        }
    };
    TimelineEntry {
        id: Some(id.to_string()),
        gpu: f.entity.gpu(),
        severity: Some(if over.is_some() { Severity::Info } else { f.severity }),
        ..entry(at, TimelineKind::Finding, text)
    }
}

fn of_remediation(at: Time, r: &Remediation, text: String) -> TimelineEntry {
    let id = Some(r.id.to_string());
    TimelineEntry { id, gpu: r.gpu, ..entry(at, TimelineKind::Remediation, text) }
}

fn of_act(at: Time, a: &AskedAct, text: &str) -> TimelineEntry {
    let id = Some(a.id.to_string());
    let text = format!("{} {text}", a.act.word());
    TimelineEntry { id, ..entry(at, TimelineKind::Act, text) }
}

fn chosen(r: &Remediation) -> String {
    format!("chosen for {}: {}", r.kind, r.action.words())
}

fn because(what: &str, why: &str) -> String {
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}

/// What the working state remembers of it.
fn remembered(s: &Site, node: &NodeName) -> Vec<TimelineEntry> {
    let mut out: Vec<TimelineEntry> = s.faults_of(node).map(|f| of_fault(f.at, &f.fault)).collect();
    let about = NodeSubjects::new(s, node);
    for f in about.findings.values() {
        out.push(of_finding(f.opened_at, f.id, &f.seen, None));
        if let Some(c) = &f.closed {
            out.push(of_finding(c.at, f.id, &f.seen, Some(&c.why)));
        }
    }
    for r in about.remediations.values() {
        out.push(of_remediation(r.at, r, chosen(r)));
        for (at, step) in r.taken.iter().filter(|(_, s)| *s != RemediationStep::Ended) {
            out.push(of_remediation(*at, r, step.words().to_owned()));
        }
        if let Some(o) = r.outcome {
            out.push(of_remediation(r.since, r, because(o.words(), &r.why)));
        }
    }
    for a in about.acts.values() {
        out.push(of_act(a.at, a, "was requested"));
        if let Some(e) = &a.ended {
            out.push(of_act(e.at, a, &ended(e.ok, &e.message)));
        }
    }
    out
}

fn ended(ok: bool, message: &str) -> String {
    because(if ok { "done" } else { "failed" }, message)
}

/// What the newest part of the log shows, oldest first; and when that part begins, where the log
/// begins before it.
async fn logged(
    app: &App,
    about: &NodeSubjects,
    end: Seq,
) -> Reply<(Vec<TimelineEntry>, Option<Time>)> {
    let after = Seq(end.0.saturating_sub(LOOKED_AT));
    let mut log = Cursor::new(app.brain(), after);
    let (mut out, mut from) = (Vec::new(), None);
    while let Some(records) = log.next_batch(end).await? {
        from = from.or(records.first().map(|r| r.at));
        out.extend(records.iter().filter_map(|r| timeline_entry(r, about)));
    }
    let whole = after.0 == 0 && !log.is_cut();
    Ok((out, from.filter(|_| !whole)))
}

pub(super) fn timeline_entry(r: &Record, about: &NodeSubjects) -> Option<TimelineEntry> {
    let remediation = |id: &u64| about.remediations.get(id);
    match &r.event {
        Event::FaultSeen { node, fault } if *node == about.node => Some(of_fault(r.at, fault)),
        Event::FindingOpened { finding, .. } if finding.seen.entity.node() == Some(&about.node) => {
            Some(of_finding(r.at, finding.id, &finding.seen, None))
        }
        Event::FindingClosed { id, why, .. } => {
            about.findings.get(id).map(|f| of_finding(r.at, *id, &f.seen, Some(why)))
        }
        Event::RemediationChosen { remediation } if remediation.node == about.node => {
            Some(of_remediation(r.at, remediation, chosen(remediation)))
        }
        Event::RemediationStepped { id, step, why, .. } => {
            remediation(id).map(|m| of_remediation(r.at, m, because(step.words(), why)))
        }
        Event::RemediationApproved { id, by } => {
            remediation(id).map(|m| of_remediation(r.at, m, format!("approved by {by}")))
        }
        Event::RemediationEnded { id, outcome, why, .. } => {
            remediation(id).map(|m| of_remediation(r.at, m, because(outcome.words(), why)))
        }
        Event::ActAsked { act } if act.act.node() == Some(&about.node) => {
            Some(of_act(r.at, act, "was requested"))
        }
        Event::ActEnded { id, ok, message, .. } => {
            about.acts.get(id).map(|a| of_act(r.at, a, &ended(*ok, message)))
        }
        _ => stage(r, &about.node, about.joined)
            .map(|text| entry(r.at, TimelineKind::Stage, text))
            .or_else(|| test(r, &about.node).map(|text| entry(r.at, TimelineKind::Test, text)))
            .or_else(|| hit(r, &about.node)),
    }
}

/// It entered another stage, or another of its axes changed.
fn stage(r: &Record, of: &NodeName, joined: Option<Time>) -> Option<String> {
    let about = |n: &NodeName| n == of;
    Some(match &r.event {
        // The same machine has a new certificate; it has been a node all along.
        Event::NodeEnrolled { node, .. } if about(node) && joined.is_some_and(|t| t < r.at) => {
            "joined again, as the same machine".into()
        }
        Event::NodeEnrolled { node, .. } if about(node) => "joined".into(),
        Event::NodeStaged { node, stage, reason, .. } if about(node) => {
            because(muster_lifecycle::stage_label(*stage), reason)
        }
        Event::NodeReady { node, reason } if about(node) => because("ready", reason),
        Event::DrainStarted { node, reason } if about(node) => because("draining", reason),
        Event::NodeDrained { node } if about(node) => "drained".into(),
        Event::NodeCordoned { node, reason, .. } if about(node) => because("cordoned", reason),
        Event::NodeUncordoned { node, .. } if about(node) => "uncordoned".into(),
        Event::NodeLost { node, .. } if about(node) => "lost: heartbeat lost".into(),
        Event::NodeBack { node, boot, .. } if about(node) => {
            format!("connected again, boot {boot}")
        }
        Event::NodeRetired { node } if about(node) => "retired".into(),
        Event::NodeMarked { node, role, hazard, .. } if about(node) => marked(*role, *hazard),
        Event::GpusExcluded { node, gpus, reason, .. } if about(node) => {
            let list: Vec<String> = gpus.iter().map(|g| g.to_string()).collect();
            let what = if list.is_empty() {
                "all GPUs take work".to_owned()
            } else {
                format!("GPUs {} are excluded", list.join(","))
            };
            because(&what, reason)
        }
        Event::ProbationSet { node, until } if about(node) => match until {
            Some(_) => "on probation".into(),
            None => "probation is over".into(),
        },
        _ => return None,
    })
}

/// What a mark on a node means for its work.
fn marked(role: NodeRole, hazard: u32) -> String {
    let role = match role {
        NodeRole::Normal => "gets work of every kind",
        NodeRole::Spare => "is a spare: it replaces failed nodes of running jobs",
        NodeRole::Lemon => "fails more often than others: small preemptible work only",
        NodeRole::Suspect => "gets no work until somebody has inspected it",
    };
    match hazard {
        0 => role.to_owned(),
        n => format!("{role}; hazard {}.{} % a month", n / 10, n % 10),
    }
}

fn test(r: &Record, of: &NodeName) -> Option<String> {
    match &r.event {
        Event::QualificationAsked { node, level, .. } if node == of => {
            Some(format!("{} test requested", format!("{level:?}").to_lowercase()))
        }
        Event::QualificationEnded { node, report, expired, .. } if node == of => {
            let how = format!("{:?}", report.outcome).to_lowercase();
            let late = if *expired { ", no report in time" } else { "" };
            Some(format!("test {how}{late}"))
        }
        Event::QualificationCancelled { node, .. } if node == of => Some("test cancelled".into()),
        _ => None,
    }
}

/// A job there was hit.
fn hit(r: &Record, of: &NodeName) -> Option<TimelineEntry> {
    let (key, text) = match &r.event {
        Event::StopOrdered { key, reason, .. } if reason.node() == Some(of) => {
            (key, format!("attempt {key} is stopped: {reason}"))
        }
        Event::SlotEnded { key, node, end, .. } if node == of => match end {
            SlotEnd::Failed { exit } => (key, format!("attempt {key} failed here: {exit}")),
            SlotEnd::NodeFault { reason, .. } => {
                (key, format!("attempt {key} was failed here: {reason}"))
            }
            SlotEnd::Ok | SlotEnd::Stopped | SlotEnd::Unstartable { .. } => return None,
        },
        _ => return None,
    };
    let id = Some(key.job.to_string());
    Some(TimelineEntry { id, ..entry(r.at, TimelineKind::Job, text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::topology::Location;

    #[test]
    fn a_machine_that_joins_again_did_not_join_then() {
        let node: NodeName = "n1".parse().unwrap();
        let event = Event::NodeEnrolled {
            node: node.clone(),
            machine: "m1".into(),
            token: "t1".into(),
            location: Location::unplaced(&node),
            key: None,
        };
        let r = crate::health::fixture::record(1000, None, event);
        assert_eq!(stage(&r, &node, Some(Time(1000))).as_deref(), Some("joined"));
        assert_eq!(
            stage(&r, &node, Some(Time(10))).as_deref(),
            Some("joined again, as the same machine")
        );
    }

    #[test]
    fn what_was_closed_is_not_called_over() {
        let on = muster_model::entity::Entity::Site;
        let seen = ObservedFinding::new("driver-hang", on, Severity::Critical, Time(0));
        let entry = of_finding(Time(1), 7, &seen, Some("user:ann: rolled back"));
        assert_eq!(entry.text, "driver-hang was closed: user:ann: rolled back");
    }

    #[test]
    fn a_mark_says_what_it_means_for_work() {
        let spare = "is a spare: it replaces failed nodes of running jobs";
        assert_eq!(marked(NodeRole::Spare, 0), spare);
        assert_eq!(marked(NodeRole::Spare, 125), format!("{spare}; hazard 12.5 % a month"));
    }
}
