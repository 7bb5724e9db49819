//! Objectives, alerts and who is notified.

use crate::common::TestSite;
use muster_engine::{Engine, Policy, State};
use muster_model::alert::{Matcher, Routing, Silence};
use muster_model::clock::ClockStep;
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::preflight::PreflightReport;
use muster_model::slo::{IndicatorCount, Objectives, Scope, Sli};
use muster_model::units::Span;
use muster_slo::conditions;
use serde_json::{Value, json};
use std::sync::Arc;

/// A life with everything of it.
pub(crate) fn live() -> TestSite {
    let mut w = TestSite::new(2, 8);
    let policy = || Policy { objectives: true, ..Policy::default() };
    w.engine = Engine::new(w.engine.state().clone(), policy());
    w.pass(Span::secs(1));
    let counted = IndicatorCount {
        sli: Sli::ApiAvailability,
        scope: Scope::default(),
        good: 9,
        total: 9,
        cause: None,
        at: Some(w.now),
    };
    w.ok(Command::ReportCounts { counts: vec![counted] });
    let none = Objectives { defaults: 0, ..Objectives::default() };
    w.ok(Command::SetObjectives { objectives: Arc::new(none) });
    let text = r#"{"receivers":[{"name":"oncall","by":{"webhook":{"url":"http://x"}}},
        {"name":"boss","by":{"webhook":{"url":"http://y"}}}],
        "routes":[{"match":{"urgency":"page"},"to":["oncall"],
                   "escalate":[{"after":"15m","to":["boss"]}]}]}"#;
    let routing: Routing = serde_json::from_slice(text.as_bytes()).unwrap();
    w.ok(Command::SetRouting { routing: Arc::new(routing) });
    let name: muster_model::names::Label = "fans".parse().unwrap();
    let silence = Silence {
        name: name.clone(),
        matcher: Matcher { under: Some("rack:r/c/s0/l0/k0".into()), ..Matcher::default() },
        start: w.now,
        length: Span::hours(1),
        every: None,
        by: String::new(),
        why: "fans are replaced".into(),
    };
    w.ok(Command::SetSilence { silence: Box::new(silence) });
    w.ok(Command::EndSilence { name });
    let ends = w.now + Span::hours(365 * 24);
    w.ok(Command::CertificateSeen { entity: Entity::Site, ends });
    for node in [None, Some(crate::common::node(1))] {
        let (by_ms, since_boot) = (-3_600_000, Span::hours(2));
        let (before, after) = (w.now, w.now - Span::hours(1));
        let step = ClockStep { node, by_ms, since_boot, before, after };
        w.ok(Command::ClockStepped { step });
    }
    let c = conditions::cannot_write("disk full", w.now);
    let until = Some(w.now + Span::hours(1));
    w.wrote(Event::ConditionReported { condition: Box::new(c.clone()), until }, policy());
    w.sleep(Span::mins(1));
    let id = w.engine.state().slo.open().next().expect("an alert").id.clone();
    let error = "refused".to_owned();
    w.ok(Command::ReceiverFailed { receiver: "oncall".parse().unwrap(), error });
    w.sleep(Span::mins(1));
    deliver(&mut w);
    // More is known of it: the alert changes.
    let more = conditions::cannot_write("the disk of the log is full", w.now);
    w.wrote(Event::ConditionReported { condition: Box::new(more), until }, policy());
    w.sleep(Span::mins(1));
    w.ok(Command::AcknowledgeAlert { id: id.clone(), note: "on it".into() });
    w.ok(Command::EscalateAlert { id, reason: "two disks at once".into() });
    deliver(&mut w);
    preflight(&mut w);
    w.wrote(Event::ConditionOver { key: c.key.clone() }, policy());
    w.sleep(Span::mins(5));
    deliver(&mut w);
    w.pass(Span::hours(36 * 24));
    // What was over long ago is forgotten with the next look.
    let until = Some(w.now + Span::hours(1));
    w.wrote(Event::ConditionReported { condition: Box::new(c), until }, policy());
    w.sleep(Span::mins(1));
    w
}

/// The network between the nodes of a gang is measured before it starts: it is slow.
fn preflight(w: &mut TestSite) {
    w.policy(|p| p.fabric.preflight_nodes = 2);
    let id = w.gang(2, 1);
    let report = PreflightReport::Slow { nodes: w.nodes_of(id) };
    w.ok(Command::PreflightDone { key: w.key(id), report });
    w.ok(Command::Cancel { job: id });
    w.stopped(id);
    w.policy(|p| p.fabric.preflight_nodes = 0);
}

/// Sends all that is owed now, as a server would.
fn deliver(w: &mut TestSite) {
    loop {
        let slo = &w.engine.state().slo;
        let Some(letter) = slo.desk.due(w.now, &slo.alerts, &slo.routing).into_iter().next() else {
            return;
        };
        w.ok(Command::AlertsNotified { receiver: letter.to, alerts: letter.alerts });
    }
}

/// What users would notice.
pub(crate) fn summary(s: &State) -> Value {
    let slo = &s.slo;
    let alerts = slo.alerts.values().map(|a| {
        json!({
            "id": a.id, "group": a.group, "kind": a.kind, "cause": a.cause, "urgency": a.urgency,
            "state": a.state, "count": a.count, "since": a.since, "raised_at": a.raised_at,
        })
    });
    json!({
        "seq": s.seq, "alerts": alerts.collect::<Vec<_>>(),
        "silences": slo.silences.keys().collect::<Vec<_>>(),
        "receivers": slo.routing.receivers.iter().map(|r| &r.name).collect::<Vec<_>>(),
        "outside": slo.outside.keys().collect::<Vec<_>>(),
        "certificates": slo.certificates.iter().collect::<Vec<_>>(),
        "objectives_set": [slo.objectives_at, slo.routing_at],
        "in_force": slo.in_force().len(),
        "owed": slo.desk.due(s.at, &slo.alerts, &slo.routing).len(),
    })
}
