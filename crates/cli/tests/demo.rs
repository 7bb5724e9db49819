//! `muster up --demo` with the real binary: a week is there, an incident goes on, work that ran
//! runs on, and nothing is raised by the start itself.

use crate::minutes::cluster::{Cluster, CommandOutput, until};
use serde_json::Value;
use std::collections::BTreeSet;

fn items(said: &CommandOutput) -> Vec<Value> {
    said.code(0);
    let all: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let list = all.get("items").cloned().unwrap_or(all);
    list.as_array().cloned().expect("a list")
}

fn text<'a>(v: &'a Value, key: &str) -> &'a str {
    v[key].as_str().unwrap_or_default()
}

/// Attempts that run, by job.
fn running(c: &Cluster) -> BTreeSet<(String, u64)> {
    let jobs = items(&c.muster(&["ps", "--state", "running", "--limit", "500", "-o", "json"]));
    let attempt = |j: &Value| (text(j, "id").to_owned(), j["attempts"].as_u64().unwrap_or(0));
    jobs.iter().map(attempt).collect()
}

#[test]
fn a_week_lies_behind_it_and_goes_on() {
    let c = Cluster::demo(&["--seed", "1"]);
    let first = running(&c);
    assert!(first.len() > 15, "{first:?}");
    let over = items(&c.muster(&["ps", "-a", "--limit", "5000", "-o", "json"]));
    assert!(over.len() > 1000, "{} jobs", over.len());
    let projects: BTreeSet<&str> = over.iter().map(|j| text(j, "project")).collect();
    assert!(projects.len() >= 5, "{projects:?}");

    let open = items(&c.muster(&["incident", "-o", "json"]));
    let cause = |i: &Value| i["cause"].to_string().contains("driver");
    assert!(open.iter().any(|i| text(i, "state") == "open" && cause(i)), "{open:?}");
    let remediations = items(&c.muster(&["remediations", "-o", "json"]));
    assert!(remediations.iter().any(|r| text(r, "step") == "approval"), "{remediations:?}");
    let slos = items(&c.muster(&["slo", "-o", "json"]));
    let known = slos.iter().filter(|s| text(s, "state") != "no_data").count();
    assert!(known >= 12, "{known} objectives have a history");

    // New work comes from tenants of its own accord, and what ran is still the same attempt.
    until("somebody submits something", || {
        let tokens = items(&c.muster(&["token", "list", "-o", "json"]));
        tokens.iter().any(|t| text(t, "role") == "user")
    });
    let events = items(&c.muster(&["events", "--limit", "100000", "-o", "json"]));
    // Simulated people have names of their own: the visitor has only looked.
    let visitor = events.iter().find(|e| text(e, "actor") == "user:admin");
    assert!(visitor.is_none(), "{visitor:?}");
    let makes = |e: &Value| text(e, "kind") == "token_created" && text(e, "actor") == "user:demo";
    assert!(events.iter().any(makes), "tenants get their tokens from the story");
    // A table that has not all there is says so, and names what shows the rest.
    let some = c.muster(&["get", "events"]);
    some.code(0);
    let rest = some.stderr.split("--after ").nth(1).and_then(|t| t.split('`').next());
    let rest = rest.unwrap_or_else(|| panic!("{} of {} events", some.stdout.len(), events.len()));
    let next = items(&c.muster(&["events", "--after", rest, "--limit", "1", "-o", "json"]));
    assert_eq!(next[0]["seq"], events[1000]["seq"], "the one after those that were shown");
    let start = events.iter().position(|e| text(e, "kind") == "leader_changed").expect("a start");
    let alarms = ["node_lost", "slot_lost", "node_inventoried", "node_back"];
    // Up to the first fault of the story that goes on: by then a slow machine may have come to it.
    let after = &events[start..];
    let fault = |e: &Value| ["fault_seen", "finding_opened"].contains(&text(e, "kind"));
    let own = after.iter().position(fault).unwrap_or(after.len());
    for e in &after[..own] {
        assert!(!alarms.contains(&text(e, "kind")), "the start itself raised {e}");
        let gone = e.to_string().contains("ranks are gone");
        assert!(!gone, "work was forgotten: {e}");
    }
    // A site that is there is taken up again, and is not mixed with another story.
    let refused =
        c.muster(&["up", "--demo", "--seed", "2", "--no-context", "--data-dir", &c.data()]);
    refused.code(2);
    assert!(refused.stderr.contains("seed 1"), "{refused:?}");
    let refused = c.muster(&["up", "--no-context", "--data-dir", &c.data()]);
    refused.code(2);
    assert!(refused.stderr.contains("--demo"), "{refused:?}");
}
