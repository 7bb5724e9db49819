//! Who may do what, for every endpoint that the description lists: one that is missing here fails.

use super::{held, request, site};
use crate::openapi::description;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowedCallers {
    /// Everybody, without a token.
    Anybody,
    /// Every token; what they see differs.
    Tokens,
    /// Those who may read the job's project; the job is not there for others.
    JobReaders,
    /// Those who may steer the job's project; the job is not there for others.
    JobSteerers,
    /// Users and above, each in their own project.
    Users,
    /// Tokens of the site, and of projects that hold GPUs of the node. Whether `alpha` does by
    /// then is up to the tests before: both answers are right.
    Holders,
    Operators,
    Admins,
}

fn table() -> Vec<(&'static str, &'static str, AllowedCallers, Value)> {
    use AllowedCallers::{
        Admins, Anybody, Holders, JobReaders, JobSteerers, Operators, Tokens, Users,
    };
    let no = Value::Null;
    vec![
        ("get", "/healthz", Anybody, no.clone()),
        ("get", "/readyz", Anybody, no.clone()),
        ("get", "/metrics", Operators, no.clone()),
        ("get", "/v1/brand", Anybody, no.clone()),
        ("get", "/v1/brand/logo", Anybody, no.clone()),
        ("get", "/v1/jobs", Tokens, no.clone()),
        ("post", "/v1/jobs", Users, held("m")),
        ("get", "/v1/jobs/{id}", JobReaders, no.clone()),
        ("get", "/v1/jobs/{id}/array", JobReaders, no.clone()),
        ("get", "/v1/jobs/{id}/explain", JobReaders, no.clone()),
        ("get", "/v1/jobs/{id}/logs", JobReaders, no.clone()),
        ("get", "/v1/jobs/{id}/report", JobReaders, no.clone()),
        ("get", "/v1/jobs/{id}/spec", JobSteerers, no.clone()),
        ("get", "/v1/jobs/{id}/telemetry", JobReaders, no.clone()),
        ("patch", "/v1/jobs/{id}", JobSteerers, json!({"priority": "low"})),
        ("post", "/v1/jobs/{id}/hold", JobSteerers, no.clone()),
        ("post", "/v1/jobs/{id}/checkpoint", JobSteerers, no.clone()),
        ("post", "/v1/jobs/{id}/requeue", JobSteerers, no.clone()),
        ("post", "/v1/jobs/{id}/release", JobSteerers, no.clone()),
        ("post", "/v1/jobs/{id}/cancel", JobSteerers, no.clone()),
        ("get", "/v1/nodes", Tokens, no.clone()),
        ("get", "/v1/nodes/{name}", Tokens, no.clone()),
        ("post", "/v1/nodes/{name}/cordon", Operators, json!({"reason": "x"})),
        ("post", "/v1/nodes/{name}/uncordon", Operators, no.clone()),
        ("post", "/v1/nodes/{name}/drain", Operators, json!({"reason": "x"})),
        ("post", "/v1/nodes/{name}/undrain", Operators, no.clone()),
        ("post", "/v1/nodes/{name}/mark", Operators, json!({"role": "spare"})),
        ("post", "/v1/nodes/{name}/reconcile", Operators, no.clone()),
        ("post", "/v1/nodes/{name}/qualify", Operators, json!({"level": "standard"})),
        ("post", "/v1/nodes/{name}/cancel-qualification", Operators, no.clone()),
        ("get", "/v1/nodes/{name}/mig", Operators, no.clone()),
        ("get", "/v1/power", Operators, no.clone()),
        ("post", "/v1/whatif", Operators, json!({"changes": ["nodes=+1"], "seeds": 1})),
        ("get", "/v1/scenarios", Operators, no.clone()),
        ("post", "/v1/scenarios/{name}/run", Operators, json!({"length": "1h"})),
        // Whose node and whose job it is: `telemetry.rs`.
        ("get", "/v1/metrics/history", Tokens, no.clone()),
        ("get", "/v1/metrics/history/metrics", Tokens, no.clone()),
        ("get", "/v1/reports/fleet", Tokens, no.clone()),
        ("get", "/v1/reports/period", Operators, no.clone()),
        ("get", "/v1/faults", Tokens, no.clone()),
        ("get", "/v1/fabric/tests", Operators, no.clone()),
        ("post", "/v1/fabric/tests", Operators, json!({"rounds": 2})),
        ("get", "/v1/fabric/tests/{id}", Operators, no.clone()),
        ("get", "/v1/health", Tokens, no.clone()),
        ("get", "/v1/causes", Tokens, no.clone()),
        ("get", "/v1/findings", Tokens, no.clone()),
        ("get", "/v1/findings/{id}", Tokens, no.clone()),
        ("post", "/v1/findings/{id}/close", Operators, json!({"reason": "x"})),
        ("get", "/v1/failure-modes", Tokens, no.clone()),
        ("get", "/v1/incidents", Operators, no.clone()),
        ("get", "/v1/incidents/{id}", Operators, no.clone()),
        ("get", "/v1/incidents/{id}/record", Operators, no.clone()),
        ("get", "/v1/incidents/{id}/report", Operators, no.clone()),
        ("post", "/v1/incidents/{id}/close", Operators, json!({"reason": "x"})),
        ("post", "/v1/incidents/{id}/note", Operators, json!({"text": "x"})),
        ("post", "/v1/incidents/{id}/own", Operators, no.clone()),
        ("get", "/v1/runbooks", Operators, no.clone()),
        ("put", "/v1/runbooks/{name}", Operators, json!({"text": "no book"})),
        ("get", "/v1/runbooks/{name}", Operators, no.clone()),
        ("post", "/v1/runbooks/{name}/dry-run", Operators, no.clone()),
        ("post", "/v1/runbooks/{name}/run", Operators, no.clone()),
        ("delete", "/v1/runbooks/{name}", Operators, no.clone()),
        ("get", "/v1/runbook-runs", Operators, no.clone()),
        ("get", "/v1/runbook-runs/{id}", Operators, no.clone()),
        ("post", "/v1/runbook-runs/{id}/answer", Operators, json!({"step": 1, "answer": "go"})),
        ("post", "/v1/runbook-runs/{id}/stop", Operators, no.clone()),
        ("get", "/v1/breakers", Operators, no.clone()),
        ("post", "/v1/breakers/force", Operators, json!({"entity": "node:n1", "state": "open"})),
        ("get", "/v1/remediations", Operators, no.clone()),
        ("get", "/v1/remediations/{id}", Operators, no.clone()),
        ("post", "/v1/remediations/{id}/approve", Operators, no.clone()),
        ("post", "/v1/remediations/{id}/deny", Operators, json!({"reason": "x"})),
        ("post", "/v1/remediations/{id}/undo", Operators, json!({"reason": "x"})),
        ("post", "/v1/remediations/dry-run", Operators, json!({"days": 1})),
        ("get", "/v1/automation", Operators, no.clone()),
        ("post", "/v1/automation/stop", Operators, json!({"reason": "x"})),
        ("post", "/v1/automation/resume", Operators, no.clone()),
        ("get", "/v1/objectives", Operators, no.clone()),
        ("put", "/v1/objectives", Admins, json!({"objectives": {"defaults": 1}})),
        (
            "put",
            "/v1/objectives/{name}",
            Admins,
            json!({"name": "wandb", "sli": "goodput", "target": "90%"}),
        ),
        ("get", "/v1/slos", Tokens, no.clone()),
        ("get", "/v1/slos/{name}", Tokens, no.clone()),
        ("delete", "/v1/objectives/{name}", Admins, no.clone()),
        ("get", "/v1/alerts", Tokens, no.clone()),
        ("get", "/v1/alerts/{id}", Tokens, no.clone()),
        ("post", "/v1/alerts/{id}/acknowledge", Operators, json!({"note": "x"})),
        ("post", "/v1/alerts/{id}/escalate", Operators, json!({"reason": "x"})),
        ("put", "/v1/silences/{name}", Operators, json!({"match": {"kind": "x"}, "length": "1h"})),
        ("get", "/v1/silences", Operators, no.clone()),
        ("delete", "/v1/silences/{name}", Operators, no.clone()),
        ("put", "/v1/routing", Admins, json!({"routing": {"receivers": [], "routes": []}})),
        ("get", "/v1/routing", Operators, no.clone()),
        ("get", "/v1/receivers", Operators, no.clone()),
        ("get", "/v1/readiness", Operators, no.clone()),
        ("get", "/v1/nodes/{name}/timeline", Operators, no.clone()),
        ("post", "/v1/nodes/{name}/repaired", Operators, json!({"note": "x"})),
        ("post", "/v1/nodes/{name}/return", Operators, json!({"reason": "x"})),
        ("post", "/v1/nodes/{name}/exclude", Operators, json!({"gpus": [1], "reason": "x"})),
        ("post", "/v1/nodes/{name}/inject", Operators, json!({"fault": "lose_gpu", "gpu": 0})),
        ("post", "/v1/nodes/{name}/retire", Operators, no.clone()),
        ("get", "/v1/topology", Tokens, no.clone()),
        ("put", "/v1/topology", Admins, json!({"nodes": {}})),
        ("get", "/v1/policy", Tokens, no.clone()),
        ("put", "/v1/policy", Admins, json!({"policy": {"defrag": {"enabled": true}}})),
        ("get", "/v1/quotas", Tokens, no.clone()),
        ("put", "/v1/quotas", Admins, json!({"quotas": {"tree": []}})),
        ("put", "/v1/reservations/{name}", Operators, window()),
        ("get", "/v1/reservations", Tokens, no.clone()),
        ("get", "/v1/reservations/{name}", Tokens, no.clone()),
        ("delete", "/v1/reservations/{name}", Operators, no.clone()),
        ("get", "/v1/defrag", Operators, no.clone()),
        ("get", "/v1/events", Tokens, no.clone()),
        ("get", "/v1/search", Tokens, no.clone()),
        // Whose output it is: `output_search.rs`.
        ("get", "/v1/search/output", Tokens, no.clone()),
        ("get", "/v1/console/layout", Tokens, no.clone()),
        // And those whose project holds a GPU there: `bounds.rs`.
        ("get", "/v1/nodes/{name}/telemetry", Holders, no.clone()),
        ("get", "/v1/projects", Tokens, no.clone()),
        ("post", "/v1/projects", Admins, json!({"name": "gamma"})),
        ("get", "/v1/tokens", Admins, no.clone()),
        ("post", "/v1/tokens", Admins, json!({"name": "ci", "project": "alpha"})),
        ("delete", "/v1/tokens/{id}", Admins, no.clone()),
        ("get", "/v1/secrets", Tokens, no.clone()),
        ("put", "/v1/secrets/{name}", Users, json!({"value": "v"})),
        ("delete", "/v1/secrets/{name}", Users, no.clone()),
        ("post", "/v1/session", Tokens, no.clone()),
        ("delete", "/v1/session", Tokens, no.clone()),
        ("get", "/v1/whoami", Tokens, no.clone()),
        ("get", "/v1/server", Tokens, no),
    ]
}

fn window() -> Value {
    json!({"over": {"nodes": ["n1"]}, "start": "2999-01-01T00:00:00Z", "length": "1h"})
}

/// What the endpoint must answer to this caller; none means that it is let in.
fn refusal(who: AllowedCallers, caller: &str) -> Option<u16> {
    match (who, caller) {
        (AllowedCallers::Anybody, _) => None,
        (_, "nobody" | "stranger") => Some(401),
        (AllowedCallers::JobReaders, "other") => Some(404),
        (AllowedCallers::JobSteerers, "viewer") => Some(403),
        (AllowedCallers::JobSteerers, "other") => Some(404),
        (AllowedCallers::Users, "viewer") => Some(403),
        (AllowedCallers::Holders, "other") => Some(403),
        (AllowedCallers::Operators, "viewer" | "user" | "other") => Some(403),
        (AllowedCallers::Admins, c) if c != "admin" => Some(403),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_endpoint_lets_in_whom_it_should_and_answers_only_as_documented() {
    let s = site().await;
    let doc = description();
    let listed: BTreeSet<(String, String)> = doc["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(p, item)| item.as_object().unwrap().keys().map(move |m| (m.clone(), p.clone())))
        .collect();
    let table = table();
    let tested: BTreeSet<(String, String)> =
        table.iter().map(|(m, p, ..)| ((*m).into(), (*p).into())).collect();
    assert_eq!(listed, tested, "the table of this test must name every endpoint");

    let job = s.held_job(&s.user).await["id"].as_str().unwrap().to_owned();
    let stranger = format!("mst_{}_{}", "a".repeat(10), "b".repeat(32));
    let callers = [
        ("nobody", ""),
        ("stranger", &stranger),
        ("viewer", &s.viewer),
        ("other", &s.other),
        ("user", &s.user),
        ("operator", &s.operator),
        ("admin", &s.admin),
    ];
    for (method, path, who, body) in &table {
        let name = if path.contains("/nodes/") { "n1" } else { "wandb" };
        let real = path
            .replace("{id}", if path.contains("/tokens/") { "absent" } else { &job })
            .replace("{name}", name);
        for (caller, token) in callers {
            let got = s.send(request(token, &method.to_uppercase(), &real, body, &[])).await;
            let at = format!("{method} {path} by {caller}: {} {:?}", got.status, got.body);
            let either = *who == AllowedCallers::Holders && matches!(caller, "viewer" | "user");
            match refusal(*who, caller) {
                _ if either => assert!(matches!(got.status.as_u16(), 200 | 403), "{at}"),
                Some(status) => {
                    assert_eq!(got.status, status, "{at}");
                    got.error();
                }
                None => assert!(!matches!(got.status.as_u16(), 401 | 403), "{at}"),
            }
            // What is wrong with a body is shown only to those who may send one.
            if *method != "get" && refusal(*who, caller) == Some(403) {
                let odd = request(token, &method.to_uppercase(), &real, &json!("odd"), &[]);
                assert_eq!(s.send(odd).await.status, 403, "{at}; and with an odd body");
            }
            assert!(!got.status.is_server_error(), "{at}");
            let documented = &doc["paths"][*path][*method]["responses"][got.status.as_str()];
            assert!(documented.is_object(), "undocumented: {at}");
            if got.status == StatusCode::OK
                && path.starts_with("/v1/")
                && *who != AllowedCallers::Anybody
            {
                assert!(!got.header("muster-seq").is_empty(), "{at}");
            }
        }
    }
}

#[test]
fn every_reference_of_the_description_leads_somewhere() {
    fn walk(doc: &Value, v: &Value) {
        match v {
            Value::Object(o) => {
                if let Some(Value::String(r)) = o.get("$ref") {
                    let pointer = r.strip_prefix('#').unwrap();
                    assert!(doc.pointer(pointer).is_some(), "{r}");
                }
                o.values().for_each(|v| walk(doc, v));
            }
            Value::Array(a) => a.iter().for_each(|v| walk(doc, v)),
            _ => {}
        }
    }
    let doc = description();
    assert_eq!(doc["openapi"], "3.1.0");
    walk(&doc, &doc);
    let kinds = doc["components"]["schemas"]["Kind"]["enum"].as_array().unwrap();
    assert!(kinds.contains(&json!("Node")), "objects have their kinds: {kinds:?}");
}
