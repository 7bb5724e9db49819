//! Nodes that are set up differently from their peers.

use super::*;
use crate::common::{inventory, node, replay};
use muster_model::finding::Finding;
use muster_model::units::Span;

/// A node reports which driver it has.
fn driver(w: &mut TestSite, i: usize, version: &str) {
    let mut inventory = inventory(8);
    inventory.versions = [("driver".to_owned(), version.to_owned())].into();
    report_inventory(w, i, "boot", inventory, Vec::new());
}

fn open(w: &TestSite) -> Vec<Arc<Finding>> {
    w.engine.state().health.open().filter(|f| f.seen.kind == "config-drift").cloned().collect()
}

#[test]
fn a_node_with_another_driver_is_remarked_on_and_left_alone() {
    let mut w = TestSite::new(6, 8);
    (0..6).for_each(|i| driver(&mut w, i, if i == 4 { "575.1" } else { "580.2" }));
    assert!(open(&w).is_empty(), "a fleet that joins is not judged half way");
    w.pass(Span::mins(2));
    let found = open(&w);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].seen.entity, Entity::Node(node(4)));
    assert_eq!(found[0].seen.severity, Severity::Warning);
    let evidence = "differs from its peers: driver 575.1; 5 of 6 like it have 580.2";
    assert_eq!(found[0].seen.evidence, [evidence]);
    assert_eq!(w.engine.state().nodes[&node(4)].stage, Stage::Ready);
    w.pass(Span::hours(5));
    assert_eq!(open(&w).len(), 1, "reported once");
    assert_eq!(replay(&w.log).health.open_count(), w.engine.state().health.open_count());

    driver(&mut w, 4, "580.2");
    w.pass(Span::mins(2));
    assert!(open(&w).is_empty(), "it was repaired");
}

#[test]
fn how_many_differ_is_reported_as_it_is_now() {
    let mut w = TestSite::new(12, 8);
    (0..12).for_each(|i| driver(&mut w, i, if i < 2 { "575.1" } else { "580.2" }));
    w.pass(Span::mins(2));
    let first = |w: &TestSite| open(w)[0].seen.evidence.clone();
    assert!(first(&w)[0].contains("on 2 nodes"), "{:?}", first(&w));
    driver(&mut w, 2, "575.1");
    w.pass(Span::mins(2));
    let now = first(&w);
    assert!(now.len() == 1 && now[0].contains("on 3 nodes"), "{now:?}");
    assert_eq!(replay(&w.log).health.open_count(), 1);
}

#[test]
fn a_rollout_is_no_drift_until_only_a_few_are_left_behind() {
    let mut w = TestSite::new(8, 8);
    (0..8).for_each(|i| driver(&mut w, i, "575.1"));
    w.pass(Span::mins(2));
    for i in 0..8 {
        driver(&mut w, i, "580.2");
        w.pass(Span::mins(2));
        let odd: Vec<String> = open(&w).iter().map(|f| f.seen.entity.to_string()).collect();
        // One cause is one finding: a node alone, or the version that several have.
        let expected: Vec<String> = match i {
            0 => vec![format!("node:{}", node(0))],
            1 => vec!["version:driver/580.2".to_owned()],
            5 => vec!["version:driver/575.1".to_owned()],
            6 => vec![format!("node:{}", node(7))],
            _ => Vec::new(),
        };
        assert_eq!(odd, expected, "after {i}");
    }
}
