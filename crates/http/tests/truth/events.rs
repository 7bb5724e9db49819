//! The log as the API shows it: its pages in both directions, and what of it became of a node.

use super::Contradictions;
use super::asker::{Asker, id, part};
use super::fold::Fold;
use super::moment::MomentAnswers;
use muster_api::Timestamp;
use muster_model::event::{Event, Record};
use muster_model::units::Time;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const EVENTS: &str = "GET /v1/events";
/// All of it, in pages.
const ALL: &str = "/v1/events?limit=1000";
const LOG: &str = "the log";
/// The kind of event that is asked for alone.
const KIND: &str = "job_submitted";
/// Each reads the whole log: so many nodes are asked for what became of them.
const NODES: usize = 2;
/// Entries in one answer about a node, and records that it follows from.
const PAGE: usize = 1000;
const LOOKED_AT: u64 = 20_000;

/// A record, as a page of the log shows it.
#[derive(Debug)]
struct Line {
    seq: u64,
    at: Time,
    kind: String,
    project: Option<String>,
}

/// The records, in their order.
#[derive(Debug, Default)]
pub(super) struct Lines {
    all: Vec<Line>,
    /// What a node's timeline says in the same words each time, by node.
    of_nodes: BTreeMap<String, Vec<(Time, &'static str)>>,
}

impl Lines {
    pub(super) fn take(&mut self, r: &Record) {
        let event = serde_json::to_value(&r.event).expect("an event as JSON");
        self.all.push(Line {
            seq: r.seq.0,
            at: r.at,
            kind: event["kind"].as_str().unwrap_or_default().to_owned(),
            project: r.project.as_ref().map(ToString::to_string),
        });
        let (node, words) = match &r.event {
            Event::NodeEnrolled { node, .. } => (node, "joined"),
            Event::NodeLost { node, .. } => (node, "lost: heartbeat lost"),
            Event::NodeUncordoned { node, .. } => (node, "uncordoned"),
            Event::NodeRetired { node } => (node, "retired"),
            _ => return,
        };
        self.of_nodes.entry(node.to_string()).or_default().push((r.at, words));
    }
}

/// What is said of it.
#[derive(Default)]
pub(super) struct EventAnswers {
    /// All pages from the beginning on.
    oldest: Vec<Value>,
    /// Those of one kind, from the end back.
    newest: Vec<Value>,
    /// What became of nodes, by their names.
    timelines: BTreeMap<String, Vec<Value>>,
}

impl Asker {
    pub(super) async fn events(&mut self, nodes: &[Value]) -> EventAnswers {
        let mut out = EventAnswers {
            oldest: self.pages(ALL, "after").await,
            newest: self.pages(&format!("{ALL}&order=newest&kind={KIND}"), "before").await,
            ..EventAnswers::default()
        };
        for name in nodes.iter().take(NODES).map(id) {
            let path = format!("/v1/nodes/{}/timeline?limit={PAGE}", part(&name));
            let items = self.of(&path).await;
            out.timelines.insert(name, items);
        }
        out
    }

    /// What a token that is bound to a project is shown of the log.
    pub(super) async fn events_of_tenant(&mut self) -> EventAnswers {
        EventAnswers { oldest: self.pages(ALL, "after").await, ..EventAnswers::default() }
    }
}

/// The pages hold every record once, in order; those of one kind are the same, backwards.
pub(super) fn pages(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let line = |e: &Value| json!([e["seq"], e["at"], e["kind"], e["project"]]);
    let shown: Vec<Value> = said.events.oldest.iter().map(line).collect();
    let all = log.lines.all.iter();
    let known: Vec<Value> =
        all.map(|l| json!([l.seq, Timestamp(l.at), l.kind, l.project])).collect();
    // Logs are long: the first difference says enough.
    let many = format!("how many records there are, up to {}", said.seq);
    wrong.same(many, (EVENTS, json!(shown.len())), (LOG, json!(known.len())));
    if let Some((one, other)) = shown.iter().zip(&known).find(|(one, other)| one != other) {
        wrong.same("a record", (EVENTS, one.clone()), (LOG, other.clone()));
    }
    let of_kind = |e: &&Value| e["kind"] == KIND;
    let whole: Vec<u64> =
        said.events.oldest.iter().filter(of_kind).rev().filter_map(|e| e["seq"].as_u64()).collect();
    let chosen: Vec<u64> = said.events.newest.iter().filter_map(|e| e["seq"].as_u64()).collect();
    let who = format!("{EVENTS}?order=newest&kind={KIND}");
    wrong.same(format!("records of {KIND}"), (&who, json!(chosen)), (EVENTS, json!(whole)));
}

/// What became of a node, as the log has it, newest first.
pub(super) fn timelines(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    for (node, items) in &said.events.timelines {
        if items.len() == PAGE || said.seq > LOOKED_AT {
            continue;
        }
        let who = format!("GET /v1/nodes/{node}/timeline");
        let none = Vec::new();
        let known = log.lines.of_nodes.get(node).unwrap_or(&none);
        let fixed = |e: &&Value| known.iter().any(|(_, words)| e["text"] == *words);
        let shown: Vec<Value> =
            items.iter().filter(fixed).map(|e| json!([e["at"], e["text"]])).collect();
        let known: Vec<Value> =
            known.iter().rev().map(|(at, words)| json!([Timestamp(*at), words])).collect();
        let what = format!("node {node}: when it came and went");
        wrong.same(what, (&who, json!(shown)), (LOG, json!(known)));
    }
}

/// A tenant is shown the records of its project, and no place in the log.
pub(super) fn of_tenant(
    project: &str,
    log: &Fold,
    theirs: &MomentAnswers,
    wrong: &mut Contradictions,
) {
    let shown: Vec<Value> =
        theirs.events.oldest.iter().map(|e| json!([e["at"], e["kind"], e["project"]])).collect();
    let own = log.lines.all.iter().filter(|l| l.project.as_deref() == Some(project));
    let known: Vec<Value> = own.map(|l| json!([Timestamp(l.at), l.kind, l.project])).collect();
    let (one, other) = (json!(shown.len()), json!(known.len()));
    wrong.same("how many own records there are", (EVENTS, one), (LOG, other));
    if let Some((one, other)) = shown.iter().zip(&known).find(|(one, other)| one != other) {
        wrong.same("an own record", (EVENTS, one.clone()), (LOG, other.clone()));
    }
    let numbered = theirs.events.oldest.iter().find(|e| !e["seq"].is_null());
    let what = "a tenant does not see the numbers of records";
    wrong.holds(numbered.is_none(), what, EVENTS, numbered.unwrap_or(&Value::Null));
}
