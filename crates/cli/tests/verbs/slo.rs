//! Objectives, notifications, silences, and whether the site is ready.

use super::{items, names, refuses, says, write};
use crate::minutes::cluster::{Cluster, until};
use serde_json::Value;

pub(super) fn objectives(c: &Cluster) {
    let file = write(
        c,
        "objectives.yaml",
        "kind: Objectives\nobjectives:\n  - {name: our-wait, owner: ops, \
         sli: {queue_wait: {under: 5m}}, target: 95%, window: 28d}\n",
    );
    let before = c.json(&["slo"]);
    assert!(names(&before).contains(&"job-success"), "{before:#}");
    let out = c.muster(&["slo", "apply", &file]);
    says(&out, &[&format!("{} objectives in force now\n", items(&before).len() + 1)]);
    says(&c.muster(&["slo", "show", "our-wait"]), &["95% over 28d", "ops", "Burn rates"]);
    says(&c.muster(&["slo"]), &["our-wait", "BUDGET LEFT"]);
    says(&c.muster(&["slo", "rules"]), &["groups:", "our-wait"]);
    let out = c.muster(&["slo", "delete", "our-wait", "goodput"]);
    says(&out, &["objective our-wait is deleted\n", "objective goodput is deleted\n"]);
    refuses(&c.muster(&["slo", "show", "our-wait"]), 3, &["our-wait"]);
    assert_eq!(items(&c.json(&["slo"])).len(), items(&before).len() - 1);
    let bad = write(c, "bad-slo.yaml", "kind: Objectives\nobjectives:\n  - {name: x}\n");
    refuses(&c.muster(&["slo", "apply", &bad]), 2, &["bad-slo.yaml:3"]);
    // How fast the API answers is up to the machine: a slow one must not raise alerts here.
    c.muster(&["slo", "delete", "admission", "api-latency"]).code(0);
}

/// The alert about automation that was stopped, if there is one.
fn stopped(c: &Cluster) -> Option<Value> {
    let list = c.json(&["alerts"]);
    items(&list).iter().find(|a| a["kind"] == "automation-stopped").cloned()
}

pub(super) fn alerts(c: &Cluster) {
    let out = c.muster(&["alerts"]);
    out.code(0);
    assert!(out.stderr.contains("no alert is open"), "{out:?}");
    says(&c.muster(&["automation", "stop", "--reason", "cooling works"]), &["cooling works"]);
    until("an alert is open", || stopped(c).is_some());
    let alert = stopped(c).expect("it is open");
    let id = alert["id"].as_str().expect("an id").to_owned();
    assert_eq!((&alert["urgency"], &alert["state"]), (&"ticket".into(), &"firing".into()));
    says(&c.muster(&["alerts"]), &[&id, "ticket", "cooling works", "automation-stopped"]);
    let out = c.muster(&["alerts", "show", &id[..6]]);
    says(&out, &["automation has stopped: ", "cooling works", "none; `muster routing`"]);
    let out = c.muster(&["alerts", "ack", &id[..6], "--note", "on it"]);
    says(&out, &[&format!("alert {id} is acknowledged\n")]);
    says(&c.muster(&["alerts", "show", &id]), &["Acknowledged", "on it"]);
    assert_eq!(stopped(c).expect("still open")["state"], "acknowledged");
    refuses(&c.muster(&["alerts", "ack", ""]), 2, &["ID is empty"]);
    refuses(&c.muster(&["alerts", "ack", "ffffffffffffffff"]), 3, &["ffffffffffffffff"]);

    let out = c.muster(&["silence"]);
    out.code(0);
    assert!(out.stderr.contains("nothing is silenced"), "{out:?}");
    let create = ["silence", "create", "cooling", "--kind", "automation-*", "--length", "1h"];
    says(
        &c.muster(&[&create[..], &["--reason", "planned"]].concat()),
        &["silence cooling is active"],
    );
    until("the alert is quiet", || stopped(c).is_some_and(|a| a["silenced"] == "cooling"));
    says(&c.muster(&["silence", "list"]), &["kind=automation-*", "planned"]);
    assert_eq!(items(&c.json(&["silence"]))[0]["silences"], 1);
    says(&c.muster(&["alerts"]), &["silenced"]);
    says(&c.muster(&["silence", "end", "cooling"]), &["silence cooling is over\n"]);
    until("it is heard again", || stopped(c).is_some_and(|a| a["silenced"].is_null()));
    says(&c.muster(&["silence", "end", "cooling"]), &["silence cooling was over already"]);
    says(&c.muster(&["automation", "resume"]), &["automation: running"]);
}

/// How a point of the checklists stands.
pub(super) fn ready(c: &Cluster, point: &str) -> String {
    let out = c.muster(&["readiness", "-o", "json"]);
    // A site this small misses something, and says so by its exit code too.
    out.code(1);
    let all: Value = serde_json::from_str(&out.stdout).expect("one document");
    assert_eq!(all["ready"], false, "{all:#}");
    let checks = all["checks"].as_array().expect("a list");
    let found = checks.iter().find(|p| p["check"] == point).expect("a known point");
    found["state"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn readiness(c: &Cluster) {
    let out = c.muster(&["readiness"]);
    out.code(1);
    let last = out.stdout.lines().last().unwrap_or_default();
    assert!(last.starts_with("not ready: ") && last.contains(" missing"), "{out:?}");
    let out = c.muster(&["readiness", "--missing"]);
    out.code(1);
    assert!(out.stdout.contains("muster routing apply FILE"), "how to fix it: {out:?}");
    let last = out.stdout.lines().last().unwrap_or_default();
    assert!(!last.contains(" 0 ok"), "what is not shown is counted: {out:?}");
    assert_eq!(ready(c, "pages"), "missing");
    assert_eq!(ready(c, "topology"), "ok");
}
