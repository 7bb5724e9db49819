//! Game days with the real binary: a few drills from end to end, each on a cluster of its own.

use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// One at a time: clusters share the processors.
static ONE: Mutex<()> = Mutex::new(());

/// The fields of a result, and no others.
const FIELDS: [&str; 10] = [
    "name",
    "detected_ms",
    "verdict",
    "verdict_right",
    "remediation",
    "remediation_right",
    "recovered_ms",
    "lost_gpu_seconds",
    "healthy_drained",
    "passed",
];

fn muster(args: &[&str]) -> (Option<i32>, String, String) {
    let out = crate::muster().args(args).output().expect("the muster binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

/// Plays a drill, which must pass.
fn passes(name: &str) -> Value {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (code, said, more) = muster(&["gameday", "run", name, "-o", "json"]);
    let all: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said} {more}"));
    let result = all[0].clone();
    assert_eq!(result["passed"], true, "{result:#} {more}");
    assert_eq!(code, Some(0), "{more}");
    let keys: Vec<&str> =
        result.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys.len(), FIELDS.len(), "{keys:?}");
    assert!(FIELDS.iter().all(|f| keys.contains(f)), "{keys:?}");
    result
}

#[test]
fn a_lost_gpu_is_replaced_by_a_spare_and_its_node_comes_back_on_probation() {
    let r = passes("gpu-off-bus");
    assert_eq!(r["verdict"], "infrastructure");
    assert_eq!(r["remediation"], "reboot: on probation");
    assert_eq!(r["healthy_drained"], 0);
    assert!(r["recovered_ms"].is_u64(), "{r:#}");
}

#[test]
fn a_crash_that_sprays_errors_touches_no_node() {
    let r = passes("app-crash-spray");
    assert_eq!(r["verdict"], "application");
    assert!(r["remediation"].is_null(), "{r:#}");
    assert_eq!(r["healthy_drained"], 0);
}

#[test]
fn a_detector_that_lies_stops_automation() {
    let r = passes("poisoned-detector");
    assert_eq!(r["remediation"], "blocked: automation stopped itself");
}

#[test]
fn a_server_that_is_killed_takes_nothing_with_it() {
    let r = passes("server-loss");
    assert_eq!(r["verdict"], "none");
    assert_eq!(r["lost_gpu_seconds"], 0.0);
}

#[test]
fn drills_that_there_are_not_are_refused_and_live_ones_need_a_word() {
    let (code, _, more) = muster(&["gameday", "run", "gpu-of-bus"]);
    assert_eq!(code, Some(3), "{more}");
    assert!(more.contains("gpu-off-bus"), "{more}");
    let (code, said, _) = muster(&["gameday", "list", "-o", "json"]);
    assert_eq!(code, Some(0));
    let all: Value = serde_json::from_str(&said).expect("one document");
    assert!(all.as_array().is_some_and(|a| a.len() >= 20), "{all:#}");
    let (code, _, more) = muster(&["gameday", "run", "server-loss", "--live", "--yes"]);
    assert_eq!(code, Some(2), "{more}");
    let (code, _, _) = muster(&["gameday", "run"]);
    assert_eq!(code, Some(2));
}
