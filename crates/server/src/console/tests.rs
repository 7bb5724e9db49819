//! Order of nodes, words of events, figures that tremble.

use super::frame::kind;
use super::order::natural;
use muster_model::event::Event;
use muster_model::remediation::{Action, RemediationStep};
use std::cmp::Ordering;

#[test]
fn names_are_in_the_order_people_expect() {
    let mut names = ["n10", "n2", "n1", "n02", "m3", "n", "n1a", "rack-9-n1", "rack-10-n1"];
    names.sort_by(|a, b| natural(a, b));
    assert_eq!(names, ["m3", "n", "n1", "n1a", "n02", "n2", "n10", "rack-9-n1", "rack-10-n1"]);
    assert_eq!(natural("a01", "a1"), Ordering::Less, "never equal unless the same");
}

#[test]
fn a_node_that_is_only_watched_waits_for_nobody() {
    let waits = |a: Action| {
        let all = [RemediationStep::Proposed, RemediationStep::Moving, RemediationStep::Probation];
        (all.map(|s| a.awaits_approval(s)), a.awaits_approval(RemediationStep::Approval))
    };
    assert_eq!(waits(Action::Watch), ([false, false, false], true));
    assert_eq!(waits(Action::RestartJob), ([true, false, false], true));
    assert_eq!(waits(Action::Drain), ([true, false, false], true));
}

#[test]
fn an_event_has_the_word_that_the_log_writes() {
    let event = Event::ProjectCreated { name: "alpha".parse().unwrap(), description: "x".into() };
    let written = serde_json::to_value(&event).unwrap();
    assert_eq!(written["kind"], kind(&event));
    let event =
        Event::SecretDeleted { project: "alpha".parse().unwrap(), name: "x".parse().unwrap() };
    let written = serde_json::to_value(&event).unwrap();
    assert_eq!(written["kind"], kind(&event));
}
