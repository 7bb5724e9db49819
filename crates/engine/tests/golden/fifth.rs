//! Runbooks and what people write about incidents.

use crate::common::{TestSite, node};
use muster_engine::State;
use muster_model::command::{Answer, Command};
use muster_model::runbook::StepAnswer;
use muster_model::units::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A life with everything of it.
pub(crate) fn live() -> TestSite {
    let mut w = TestSite::new(32, 8);
    let text = muster_runbook::builtin::text("lemon").unwrap().replace("fleet on-call", "us");
    w.ok(Command::SetRunbook { name: "lemon".into(), text: Arc::from(text) });
    w.ok(Command::DeleteRunbook { name: "lemon".into() });
    let vars = BTreeMap::from([("node".to_owned(), node(1).to_string())]);
    let start = Command::StartRunbook { name: "agent-hang".into(), vars, auto: true };
    let Answer::Begun { id: run } = w.ok(start) else { panic!("a run has a number") };
    let answer = StepAnswer::Choose("yes".into());
    let note = "restarted".to_owned();
    w.ok(Command::AnswerRunbook { run, step: 1, answer, note, seen: None });
    for i in 8..16 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(5));
    let id = w.engine.state().health.open_incidents().next().unwrap().id;
    w.ok(Command::OwnIncident { id, owner: Some("user:ann".into()) });
    w.ok(Command::NoteIncident { id, text: "the switch is off".into() });
    w
}

/// What users would notice.
pub(crate) fn summary(s: &State) -> Value {
    let runs = s.runbooks.runs.values().map(|r| {
        json!({
            "id": r.id, "book": r.book, "by": r.by.name, "auto": r.auto, "vars": r.vars,
            "started_at": r.started_at, "step": r.step, "waits": r.waits, "done": r.done,
            "ended": r.ended,
        })
    });
    let incidents = s.health.incidents.values().map(|i| {
        json!({
            "id": i.id, "cause": i.cause, "kind": i.kind, "count": i.count, "owner": i.owner,
            "notes": i.notes, "closed": i.closed,
        })
    });
    json!({
        "seq": s.seq, "books": s.runbooks.books.keys().collect::<Vec<_>>(),
        "runs": runs.collect::<Vec<_>>(), "incidents": incidents.collect::<Vec<_>>(),
    })
}
