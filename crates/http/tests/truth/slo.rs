//! `slo` and `alerts`.

use super::Contradictions;
use super::fold::{Fold, Job};
use super::moment::MomentAnswers;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const ALERTS: &str = "GET /v1/alerts";
const SLOS: &str = "GET /v1/slos";
const CAUSES: &str = "GET /v1/causes";
const LOG: &str = "the log";

fn id(v: &Value) -> &str {
    v["id"].as_str().unwrap_or_default()
}

fn open(a: &Value) -> bool {
    a["state"] != "resolved"
}

fn about_hardware(a: &Value) -> bool {
    ["finding", "incident", "drift"].iter().any(|topic| a["topic"] == *topic)
}

/// Does an objective have something to alert about?
fn burns(slo: &Value) -> bool {
    slo["state"] == "burning" || slo["state"] == "exhausted"
}

/// Which alerts there are, and how each stands.
pub(super) fn alerts_and_log(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let listed: BTreeSet<&str> = said.alerts.iter().map(id).collect();
    let known: BTreeSet<&str> = log.alerts.keys().map(String::as_str).collect();
    wrong.same("which alerts there are", (ALERTS, json!(listed)), (LOG, json!(known)));
    for shown in &said.alerts {
        let Some(known) = log.alerts.get(id(shown)) else { continue };
        let parts = [
            ("state", json!(known.state.to_string())),
            ("urgency", json!(known.urgency)),
            ("topic", json!(known.topic)),
            ("kind", json!(known.kind)),
            ("summary", json!(known.summary)),
            ("silenced", json!(known.silenced)),
            ("count", json!(known.count)),
        ];
        for (part, known) in parts {
            let what = format!("alert {}: its {part}", id(shown));
            wrong.same(what, (ALERTS, shown[part].clone()), (LOG, known));
        }
        let over = !shown["resolved_at"].is_null();
        let what = "an alert has an end exactly when it is over";
        wrong.holds(over != open(shown), what, ALERTS, shown);
    }
}

/// An objective names its alert: the one about it, or else one about the hardware that it burns by. The
/// alert is about an objective that there is.
pub(super) fn objectives_and_alerts(said: &MomentAnswers, wrong: &mut Contradictions) {
    let about = |a: &&Value| open(a) && a["topic"] == "objective";
    for slo in &said.slos {
        let name = id(slo);
        let mut of: BTreeSet<&str> = BTreeSet::new();
        of.extend(said.alerts.iter().filter(about).filter(|a| a["kind"] == name).map(id));
        match slo["alert"].as_str() {
            // What burns because of hardware may be part of the open alert about that.
            Some(named) if of.is_empty() => {
                let covers = |a: &&Value| id(a) == named && open(a) && about_hardware(a);
                let covered = said.alerts.iter().any(|a| covers(&a));
                let what = format!("objective {name}: an open alert about hardware covers it");
                wrong.holds(covered && burns(slo), what, SLOS, slo);
            }
            Some(named) => {
                let what = format!("objective {name}: its open alerts are {of:?}");
                wrong.holds(of.contains(named), what, SLOS, &slo["alert"]);
            }
            None => {
                let what = format!("objective {name}: it has no open alert");
                wrong.same(what, (SLOS, json!([])), (ALERTS, json!(of)));
            }
        }
        let (state, firing) = (slo["state"].as_str().unwrap_or_default(), &slo["firing"]);
        let fires = firing.as_array().is_some_and(|f| !f.is_empty());
        let what = format!("objective {name} burns exactly when a rule says so");
        let fits = match state {
            "burning" => fires,
            "met" | "below_target" | "no_data" => !fires,
            _ => state == "exhausted",
        };
        wrong.holds(fits, what, SLOS, slo);
        let share = slo["good_share"].as_f64().unwrap_or_default();
        let target = slo["target_ppm"].as_f64().unwrap_or_default() / 1e6;
        let what = format!("objective {name} is kept only while its share meets its target");
        wrong.holds(state != "met" || share >= target - 1e-9, what, SLOS, slo);
        let few = slo["good"].as_u64() <= slo["total"].as_u64();
        wrong.holds(few, format!("objective {name}: no more good ones than all"), SLOS, slo);
    }
    let names: BTreeSet<&str> = said.slos.iter().map(id).collect();
    for a in said.alerts.iter().filter(about) {
        let known = a["kind"].as_str().is_some_and(|k| names.contains(k));
        wrong.holds(known, format!("an alert is about an objective of {names:?}"), ALERTS, a);
    }
}

/// A cause and its alert count the same jobs; none of them is over, each is where it is said to be.
pub(super) fn affected_jobs(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let none = Vec::new();
    let jobs: BTreeMap<&str, &Job> = log.jobs.values().map(|j| (j.name.as_str(), j)).collect();
    for cause in &said.causes {
        let affected = cause["jobs"].as_array().unwrap_or(&none);
        for shown in affected {
            let Some(known) = jobs.get(id(shown)) else {
                wrong.holds(false, "a job that is affected is in the log", CAUSES, shown);
                continue;
            };
            let what = format!("cause {}: a job that it affects has not ended", id(cause));
            wrong.holds(known.ended_at.is_none(), what, CAUSES, shown);
            let nodes = shown["nodes"].as_array().unwrap_or(&none);
            let mut on = nodes.iter().filter_map(Value::as_str);
            let there = on.all(|n| log.jobs_on(n).contains(id(shown)));
            let what = format!("cause {}: its job runs on those nodes", id(cause));
            wrong.holds(there, what, CAUSES, shown);
        }
        let gpus: u64 = affected.iter().filter_map(|j| j["gpus"].as_u64()).sum();
        let whole = cause["jobs_affected"].as_u64() == Some(affected.len() as u64);
        for a in cause["alerts"].as_array().unwrap_or(&none) {
            let Some(listed) = said.alerts.iter().find(|l| id(l) == id(a)) else { continue };
            let what = format!("alert {}: how many jobs are affected", id(a));
            let counted = cause["jobs_affected"].clone();
            wrong.same(what, (CAUSES, counted), (ALERTS, listed["jobs"].clone()));
            if whole {
                let what = format!("alert {}: how many GPUs they have", id(a));
                wrong.same(what, (CAUSES, json!(gpus)), (ALERTS, listed["gpus"].clone()));
            }
        }
    }
}

/// What lists show is what single ones show.
pub(super) fn lists_and_descriptions(said: &MomentAnswers, wrong: &mut Contradictions) {
    for listed in &said.alerts {
        let Some(shown) = said.alert.get(id(listed)) else { continue };
        let who = format!("{ALERTS}/{}", id(listed));
        let what = format!("alert {}", id(listed));
        wrong.same(what, (ALERTS, listed.clone()), (&who, shown.clone()));
    }
    for listed in &said.slos {
        let Some(shown) = said.slo.get(id(listed)) else { continue };
        let who = format!("{SLOS}/{}", id(listed));
        for part in ["name", "target", "window", "owner", "unit", "version"] {
            let what = format!("objective {}: its {part}", id(listed));
            wrong.same(what, (SLOS, listed[part].clone()), (&who, shown[part].clone()));
        }
        // Time goes on between the two: what both say of one moment is the same to the last part.
        if listed["as_of"] == shown["as_of"] {
            let mut shown = shown.clone();
            // Only one of them has the hours.
            shown.as_object_mut().map(|o| o.remove("chart"));
            wrong.same(format!("objective {}", id(listed)), (SLOS, listed.clone()), (&who, shown));
        } else if listed["unit"] == "events" {
            for part in ["good", "total"] {
                let what = format!("objective {}: how many {part}", id(listed));
                wrong.same(what, (SLOS, listed[part].clone()), (&who, shown[part].clone()));
            }
        }
    }
}
