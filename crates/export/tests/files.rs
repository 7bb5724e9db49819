//! Rules that promtool takes, and dashboards that hold together.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "promtool reads a file")]

use muster_export::{dashboards, names, rules};
use muster_slo::defaults;
use muster_slo::rules::RuleKind;
use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn the_rules_are_what_promtool_takes() {
    let all = [rules::platform(), rules::objectives(&defaults::set(1))].concat();
    let text = rules::file(&all);
    if !muster_testkit::program("promtool", "prometheus") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.yaml");
    std::fs::write(&path, text).unwrap();
    muster_testkit::succeeds(Command::new("promtool").args(["check", "rules"]).arg(&path));
}

#[test]
fn every_alert_is_page_or_ticket_and_has_a_runbook_and_a_sentence() {
    for g in rules::platform() {
        for r in &g.rules {
            let RuleKind::Alert { summary, .. } = &r.kind else { continue };
            let label = |k: &str| r.labels.iter().find(|l| l.0 == k).map(|l| l.1.as_str());
            assert!(matches!(label("severity"), Some("page" | "ticket")), "{r:?}");
            assert!(label("runbook").is_some_and(|s| !s.is_empty()) && !summary.is_empty());
        }
    }
}

#[test]
fn what_alerts_read_is_recorded_before() {
    let mut recorded = BTreeSet::new();
    for r in rules::platform().iter().flat_map(|g| &g.rules) {
        if let RuleKind::Record(name) = &r.kind {
            recorded.insert(name.clone());
        }
        for name in names::named(&r.expr).iter().filter(|n| n.starts_with("muster:")) {
            assert!(recorded.contains(name), "{name}");
        }
    }
}

#[test]
fn dashboards_hold_together() {
    let all = dashboards::all();
    let ids: Vec<&str> = all.iter().map(|d| d.name).collect();
    assert_eq!(ids, ["executive", "on-call", "debug", "tenant"]);
    for d in &all {
        let j = d.json();
        let panels = j["panels"].as_array().unwrap();
        let mut seen = BTreeSet::new();
        let mut places: Vec<(u64, u64, u64, u64)> = Vec::new();
        for p in panels {
            assert!(seen.insert(p["id"].as_u64().unwrap()), "{}: ids are used once", d.name);
            let at = |k: &str| p["gridPos"][k].as_u64().unwrap();
            let (x, y, w, h) = (at("x"), at("y"), at("w"), at("h"));
            assert!(x + w <= 24, "{}: {}", d.name, p["title"]);
            let apart = |o: &(u64, u64, u64, u64)| {
                x + w <= o.0 || o.0 + o.2 <= x || y + h <= o.1 || o.1 + o.3 <= y
            };
            assert!(places.iter().all(apart), "{}: {} lies over another", d.name, p["title"]);
            places.push((x, y, w, h));
        }
        for (title, expr) in d.queries() {
            assert!(!names::named(expr).is_empty(), "{}: {title} asks for nothing", d.name);
            for v in expr.split('$').skip(1) {
                let v: String = v.chars().take_while(char::is_ascii_alphanumeric).collect();
                assert!(d.variables.iter().any(|k| k.name == v), "{}: ${v} is not chosen", d.name);
            }
        }
    }
}

#[test]
fn the_runbook_of_every_alert_is_on_the_shelf() {
    let books = muster_runbook::builtin::books();
    for r in rules::platform().iter().chain(&rules::objectives(&[])).flat_map(|g| &g.rules) {
        for (_, word) in r.labels.iter().filter(|(name, _)| *name == "runbook") {
            let serves =
                books.iter().any(|b| b.name == *word || b.topics.iter().any(|topic| topic == word));
            assert!(serves, "no book serves {word}");
        }
    }
}
