//! Nodes that are out of service, and the objective that counts them.

use super::{open, unreserved};
use crate::common::{TestSite, node, replay};
use muster_model::alert::{Alert, AlertState, Topic, Urgency};
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::units::Span;
use std::sync::Arc;

#[test]
fn nodes_that_paged_page_nobody_again_through_the_objective_that_they_burn() {
    let mut w = unreserved(32);
    let nodes = r#"{"name":"nodes","sli":"node_availability","target":"98%"}"#;
    let nodes = Arc::new(serde_json::from_slice(nodes.as_bytes()).unwrap());
    w.ok(Command::SetObjective { objective: nodes });
    w.sleep(Span::hours(1));
    // Two of 32 nodes are out: more than twice the 2% that are allowed. Each pages.
    for (i, kind) in [(0, "driver-hang"), (17, "wrong-results")] {
        let gpu = Entity::Gpu(node(i), 3);
        let seen = ObservedFinding::new(kind, gpu, Severity::Critical, w.now);
        w.ok(Command::FindingsSeen { findings: vec![seen] });
        w.lose(&node(i));
    }
    w.sleep(Span::mins(2));
    let pages = |w: &TestSite| -> Vec<Alert> {
        open(w).into_iter().filter(|a| a.urgency == Urgency::Page).collect()
    };
    assert_eq!(pages(&w).len(), 2, "{:#?}", open(&w));
    // Somebody has answered one of them.
    let id = pages(&w)[0].id.clone();
    w.ok(Command::AcknowledgeAlert { id: id.clone(), note: String::new() });
    w.sleep(Span::mins(28));
    let all = w.engine.state().objective_statuses(w.now);
    assert!(all.iter().any(|s| !s.status.firing.is_empty()), "it burns: {all:#?}");
    let of_it = |w: &TestSite| -> Vec<Alert> {
        let alerts = w.engine.state().slo.alerts.values();
        alerts.filter(|a| a.topic == Topic::Objective).cloned().collect()
    };
    assert!(of_it(&w).is_empty(), "{:#?}", of_it(&w));
    let named = pages(&w);
    assert!(!named.is_empty(), "{:#?}", open(&w));
    assert!(named.iter().all(|a| a.objectives == ["nodes"]), "{named:#?}");
    assert_eq!(w.engine.state().slo.alerts[&id].state, AlertState::Acknowledged);
    // What no page is about burns it by itself.
    for i in [5, 14, 30] {
        w.ok(Command::Cordon { node: node(i), reason: "disk".into() });
    }
    w.sleep(Span::mins(2));
    assert!(of_it(&w).iter().any(|a| a.urgency == Urgency::Page), "{:#?}", open(&w));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
