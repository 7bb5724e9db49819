//! Which reading endpoints are asked. A new one is in neither list, and fails until somebody decides.

use super::Contradictions;
use super::moment::MomentAnswers;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Asked at every moment; those with a name in their path where there is such a thing.
const ASKED: &[&str] = &[
    "/metrics",
    "/v1/alerts",
    "/v1/alerts/{id}",
    "/v1/automation",
    "/v1/breakers",
    "/v1/causes",
    "/v1/console/layout",
    "/v1/defrag",
    "/v1/events",
    "/v1/failure-modes",
    "/v1/findings",
    "/v1/findings/{id}",
    "/v1/health",
    "/v1/incidents",
    "/v1/incidents/{id}",
    "/v1/incidents/{id}/record",
    "/v1/jobs",
    "/v1/jobs/{id}",
    "/v1/jobs/{id}/array",
    "/v1/jobs/{id}/explain",
    "/v1/jobs/{id}/report",
    "/v1/nodes",
    "/v1/nodes/{name}",
    "/v1/nodes/{name}/timeline",
    "/v1/objectives",
    "/v1/policy",
    "/v1/power",
    "/v1/projects",
    "/v1/quotas",
    "/v1/readiness",
    "/v1/remediations",
    "/v1/remediations/{id}",
    "/v1/reports/fleet",
    "/v1/reports/period",
    "/v1/reservations",
    "/v1/reservations/{name}",
    "/v1/runbooks",
    "/v1/search",
    "/v1/server",
    "/v1/silences",
    "/v1/slos",
    "/v1/slos/{name}",
    "/v1/tokens",
    "/v1/topology",
];

const NO_AGENT: &str = "no agent is connected";
const NOT_IN_HISTORIES: &str = "the histories have none";
const SAME_EVERYWHERE: &str = "nothing of the log is in it";

/// Not asked, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("/healthz", SAME_EVERYWHERE),
    ("/readyz", "whether the store can be written is not in the log"),
    ("/v1/brand", SAME_EVERYWHERE),
    ("/v1/brand/logo", SAME_EVERYWHERE),
    ("/v1/fabric/tests", NO_AGENT),
    ("/v1/fabric/tests/{id}", NO_AGENT),
    ("/v1/faults", NOT_IN_HISTORIES),
    ("/v1/incidents/{id}/report", "it is the text of the record"),
    ("/v1/jobs/{id}/logs", NOT_IN_HISTORIES),
    ("/v1/jobs/{id}/spec", "what jobs run is not stored with the histories"),
    ("/v1/jobs/{id}/telemetry", NO_AGENT),
    ("/v1/metrics/history", NO_AGENT),
    ("/v1/metrics/history/metrics", NO_AGENT),
    ("/v1/nodes/{name}/mig", "it is a plan for what is asked"),
    ("/v1/nodes/{name}/telemetry", NO_AGENT),
    ("/v1/receivers", NOT_IN_HISTORIES),
    ("/v1/routing", NOT_IN_HISTORIES),
    ("/v1/runbook-runs", NOT_IN_HISTORIES),
    ("/v1/runbook-runs/{id}", NOT_IN_HISTORIES),
    ("/v1/runbooks/{name}", SAME_EVERYWHERE),
    ("/v1/scenarios", SAME_EVERYWHERE),
    ("/v1/search/output", NOT_IN_HISTORIES),
    ("/v1/secrets", NOT_IN_HISTORIES),
    ("/v1/whoami", "it says who asks"),
];

/// What can be asked at every moment was asked.
pub(super) fn at_every_moment(said: &MomentAnswers, wrong: &mut Contradictions) {
    for path in ASKED.iter().filter(|path| !path.contains('{')) {
        let asked = said.paths.contains(*path);
        wrong.holds(asked, format!("GET {path} was asked"), "this test", &json!(said.paths));
    }
}

#[test]
fn every_reading_endpoint_is_asked_or_left_out_for_a_reason() {
    let text = include_str!("../../openapi.json");
    let described: Value = serde_json::from_str(text).expect("a description");
    let paths = described["paths"].as_object().expect("paths");
    let reading = paths.iter().filter(|(_, methods)| !methods["get"].is_null());
    let reading: BTreeSet<&str> = reading.map(|(path, _)| path.as_str()).collect();
    let left_out = LEFT_OUT.iter().map(|(path, _)| *path);
    let listed: Vec<&str> = ASKED.iter().copied().chain(left_out).collect();
    let once: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(listed.len(), once.len(), "one of them is listed twice");
    assert_eq!(reading, once);
}
