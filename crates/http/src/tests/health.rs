//! Findings, incidents, breakers, remediations and automation over HTTP.

use super::{PATIENCE, Site, all_turns, id_of, site};
use crate::{Registry, write_metrics};
use muster_model::command::{Command, Observed};
use muster_model::entity::Entity;
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Exit, SlotEnd};
use muster_model::policy::SitePolicy;
use muster_model::remediation::{Action, Mode, Remediations, Rule};
use muster_model::units::{Span, Time};
use serde_json::{Value, json};
use std::sync::Arc;

fn seen(kind: &str, entity: &str, severity: Severity) -> ObservedFinding {
    let entity: Entity = entity.parse().unwrap();
    ObservedFinding::new(kind, entity, severity, Time(5)).because("it was reported so")
}

fn kinds(v: &Value) -> Vec<String> {
    let all = v["items"].as_array().unwrap_or_else(|| panic!("{v}")).iter();
    all.map(|i| i["kind"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_are_listed_by_page_and_tenants_see_their_own() {
    let s = site().await;
    let job = s.held_job(&s.user).await;
    let number = job["number"].as_u64().unwrap();
    let mut own = seen("oom", "node:n1", Severity::Info);
    own.attempt = Some(AttemptKey { job: JobId(number), attempt: 1 });
    let reported = [
        seen("ecc-rate", "gpu:n1/3", Severity::Warning),
        own,
        seen("config-drift", "node:n1", Severity::Warning),
    ];
    for f in reported {
        s.brain.system(Command::FindingsSeen { findings: vec![f] }).await.unwrap();
    }
    let all = ["config-drift", "oom", "ecc-rate"];
    let got = s.get(&s.operator, "/v1/findings?open=true").await.json();
    assert_eq!(kinds(&got), all, "newest first");
    let last = &got["items"][2];
    assert_eq!(
        (&last["node"], &last["gpu"], &last["state"]),
        (&json!("n1"), &json!(3), &json!("open"))
    );
    assert_eq!(last["title"], "Correctable memory errors come faster than they should");
    let list =
        async |q: &str| kinds(&s.get(&s.operator, &format!("/v1/findings?{q}")).await.json());
    assert_eq!(list("severity=warning").await, ["config-drift", "ecc-rate"]);
    assert_eq!(list("kind=oom").await, ["oom"]);
    assert_eq!(list(&format!("job={number}")).await, ["oom"]);
    assert!(list("node=n2").await.is_empty());
    assert!(list("open=false").await.is_empty());
    // Only what is about one's own job.
    assert_eq!(kinds(&s.get(&s.user, "/v1/findings").await.json()), ["oom"]);
    assert!(kinds(&s.get(&s.other, "/v1/findings").await.json()).is_empty());
    let oom = got["items"][1]["id"].as_str().unwrap();
    assert_eq!(s.get(&s.user, &format!("/v1/findings/{oom}")).await.status, 200);
    assert_eq!(s.get(&s.other, &format!("/v1/findings/{oom}")).await.status, 404);
    let seen_at = |v: Value| v["findings"].as_array().unwrap().len();
    assert_eq!(seen_at(s.get(&s.operator, "/v1/nodes/n1").await.json()), 3);
    assert_eq!(seen_at(s.get(&s.user, "/v1/nodes/n1").await.json()), 1);
    assert_eq!(seen_at(s.get(&s.other, "/v1/health").await.json()), 0);
    // Pages.
    let (mut found, mut path) = (Vec::new(), "/v1/findings?limit=1".to_owned());
    loop {
        let page = s.get(&s.operator, &path).await.json();
        found.extend(kinds(&page));
        let Some(cursor) = page["cursor"].as_str() else { break };
        path = format!("/v1/findings?limit=1&cursor={cursor}");
    }
    assert_eq!(found, all);
    let modes = s.get(&s.operator, "/v1/failure-modes").await.json();
    let of = |v: &Value, code: &str| {
        v["items"].as_array().unwrap().iter().find(|m| m["code"] == code).unwrap().clone()
    };
    assert_eq!(of(&modes, "ecc-rate")["open"], 1);
    let modes = s.get(&s.other, "/v1/failure-modes").await.json();
    assert_eq!(
        (&of(&modes, "oom")["count"], &of(&modes, "oom")["last_seen"]),
        (&json!(0), &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_one_cause_is_one_entry_with_its_runbook() {
    let s = site().await;
    let findings = vec![
        seen("gpu-off-bus", "gpu:n1/3", Severity::Critical),
        seen("thermal", "gpu:n1/0", Severity::Info),
    ];
    s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    let got = s.get(&s.operator, "/v1/causes").await.json();
    let all = got["items"].as_array().unwrap();
    let found: Vec<&Value> = all.iter().filter(|c| c["findings_open"] != 0).collect();
    assert_eq!(found.len(), 1, "{got}");
    let c = found[0];
    assert_eq!((&c["id"], &c["severity"]), (&json!("node:n1"), &json!("critical")));
    assert_eq!((&c["findings_open"], &c["nodes"]), (&json!(2), &json!(["n1"])));
    assert_eq!(c["nodes_count"], 1, "of a cause with many nodes not all are named");
    assert_eq!(c["findings"][0]["kind"], "gpu-off-bus", "worst first");
    let book = &c["runbook"];
    assert_eq!((&book["name"], &book["run"]), (&json!("gpu-off-bus"), &Value::Null));
    assert_eq!(book["vars"], json!({"node": "n1", "gpu": "3"}));
    assert!(book["step"].as_u64().is_some_and(|n| n > 0), "{book}");
    // None of it is about a job of theirs.
    assert_eq!(s.get(&s.user, "/v1/causes").await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_that_is_open_is_a_cause_also_without_an_incident() {
    let s = site().await;
    let body = json!({"entity": "node:n1", "state": "open", "reason": "a test"});
    let forced = s.post(&s.operator, "/v1/breakers/force", &body).await;
    assert_eq!(forced.status, 200, "{:?}", forced.body);
    let got = s.get(&s.operator, "/v1/causes").await.json();
    let all = got["items"].as_array().unwrap();
    let c = all.iter().find(|c| c["kind"] == "breaker-open").expect("it is listed");
    assert_eq!((&c["kind"], &c["severity"]), (&json!("breaker-open"), &json!("info")));
    assert_eq!(c["breakers"][0]["state"], "open");
    let book = &c["runbook"];
    assert_eq!((&book["name"], &book["step"]), (&json!("breaker-open"), &json!(2)), "{book}");
    assert_eq!(s.get(&s.user, "/v1/causes").await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_is_closed_with_a_reason_and_once_under_one_key() {
    let s = site().await;
    let findings = vec![seen("config-drift", "node:n1", Severity::Warning)];
    s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    let id = s.get(&s.operator, "/v1/findings").await.json()["items"][0]["id"].clone();
    let path = format!("/v1/findings/{}/close", id.as_str().unwrap());
    let no = s.post(&s.operator, &path, &Value::Null).await;
    assert_eq!((no.status.as_u16(), &no.json()["error"]["field"]), (422, &json!("reason")));
    assert!(no.json()["error"]["hint"].is_string());
    let body = json!({"reason": "it is meant to be so"});
    for _ in 0..2 {
        let got = s.call(&s.operator, "POST", &path, &body, &[("idempotency-key", "k")]).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        assert_eq!(got.json()["state"], "closed");
        assert!(got.json()["closed_why"].as_str().unwrap().contains("it is meant to be so"));
    }
    let other = json!({"reason": "no"});
    let got = s.call(&s.operator, "POST", &path, &other, &[("idempotency-key", "k")]).await;
    assert_eq!(got.status, 409);
    assert!(kinds(&s.get(&s.operator, "/v1/findings?open=true").await.json()).is_empty());
    assert_eq!(
        kinds(&s.get(&s.operator, "/v1/findings?open=false").await.json()),
        ["config-drift"]
    );
    let times = s.get(&s.operator, "/v1/nodes/n1/timeline").await.json();
    let words: Vec<&str> =
        times["items"].as_array().unwrap().iter().map(|e| e["text"].as_str().unwrap()).collect();
    let place = |start: &str| words.iter().position(|w| w.starts_with(start));
    let (over, found) = (place("config-drift was closed"), place("config-drift (A node"));
    assert!(over.is_some() && over < found, "newest first: {words:?}");
    assert!(words.iter().any(|w| w.contains("ready")), "stages too: {words:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn automation_stops_at_an_operators_word_and_goes_on_at_another() {
    let s = site().await;
    let got = s.get(&s.operator, "/v1/automation").await.json();
    assert_eq!((&got["state"], &got["modes"]["reboot"]), (&json!("running"), &json!("approve")));
    assert_eq!(s.get(&s.operator, "/v1/health").await.json()["state"], "well");
    let got = s.post(&s.operator, "/v1/automation/stop", &json!({"reason": "works"})).await.json();
    assert_eq!((&got["state"], &got["by_operator"]), (&json!("stopped"), &json!(true)));
    let health = s.get(&s.operator, "/v1/health").await.json();
    assert_eq!(health["state"], "bad");
    assert!(health["reasons"][0].as_str().unwrap().contains("works"), "{health}");
    assert_eq!(health["nodes"]["ready"], 1);
    let tenants = s.get(&s.user, "/v1/health").await.json();
    assert_eq!((&tenants["state"], &tenants["automation"]), (&json!("well"), &Value::Null));
    let got = s.post(&s.operator, "/v1/automation/resume", &Value::Null).await.json();
    assert_eq!((&got["state"], &got["reason"]), (&json!("running"), &Value::Null));
    assert!(got["resumed_at"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn isolated_gpus_are_shown_as_they_count_in_the_limits() {
    let s = site().await;
    let rule = Rule {
        kind: Some("ecc-*".into()),
        pool: None,
        sku: None,
        steps: vec![Action::IsolateGpu],
        mode: None,
        leave: None,
    };
    let remediations = Remediations { rules: vec![rule], ..Remediations::default() };
    let policy = Arc::new(SitePolicy { remediations, ..SitePolicy::default() });
    s.brain.system(Command::SetPolicy { policy }).await.unwrap();
    for gpu in [3, 5] {
        let findings =
            vec![seen("ecc-uncorrectable", &format!("gpu:n1/{gpu}"), Severity::Critical)];
        s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    }
    let shown = s.get(&s.operator, "/v1/automation").await.json();
    assert_eq!((&shown["out"], &shown["taken"]), (&json!(0), &json!([])), "{shown}");
    let isolated = (&shown["isolated_milli"], &shown["isolated_hour_milli"]);
    assert_eq!(isolated, (&json!(250), &json!(250)), "two of eight: {shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_an_operator_approved_is_not_called_taken_by_automation() {
    let s = site().await;
    let findings = vec![seen("gpu-off-bus", "gpu:n1/3", Severity::Critical)];
    s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    let shown = s.get(&s.operator, "/v1/automation").await.json();
    assert_eq!((&shown["out"], &shown["taken"]), (&json!(0), &json!([])), "never the only node");
    let open = s.get(&s.operator, "/v1/remediations?open=true").await.json();
    let path = format!("/v1/remediations/{}/approve", open["items"][0]["id"].as_str().unwrap());
    assert_eq!(s.post(&s.operator, &path, &json!({})).await.status, 200);
    let shown = s.get(&s.operator, "/v1/automation").await.json();
    assert_eq!((&shown["out"], &shown["out_approved"]), (&json!(1), &json!(1)), "{shown}");
    let taken = &shown["taken"][0];
    assert_eq!((&taken["node"], &taken["approved"]), (&json!("n1"), &json!(true)), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_new_work_avoids_says_so() {
    let s = site().await;
    s.post(&s.operator, "/v1/automation/stop", &json!({"reason": "works"})).await;
    let quiet = s.get(&s.operator, "/v1/nodes/n1").await.json();
    assert_eq!((&quiet["avoided"], &quiet["no_new_work"]), (&Value::Null, &Value::Null));
    let findings = vec![seen("gpu-off-bus", "gpu:n1/3", Severity::Critical)];
    s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    let id = s.get(&s.operator, "/v1/findings").await.json()["items"][0]["id"].clone();
    let why = format!("critical finding {} (gpu-off-bus)", id.as_str().unwrap());
    let one = s.get(&s.operator, "/v1/nodes/n1").await.json();
    assert_eq!((&one["state"], &one["avoided"]), (&json!("ready"), &json!(why)), "{one}");
    assert_eq!(s.get(&s.operator, "/v1/nodes").await.json()["items"][0]["avoided"], why);
    let health = s.get(&s.operator, "/v1/health").await.json()["reasons"].to_string();
    let waits = "1 critical finding waits, nobody acts: automation is stopped: user:ops: works";
    assert!(health.contains(waits) && !health.contains("remediation in progress"), "{health}");
    let tenants = s.get(&s.user, "/v1/nodes").await.json()["items"][0]["avoided"].clone();
    assert_eq!(tenants, "something was found there");
    let body = json!({"entity": "node:n1", "state": "open", "reason": "noise"});
    s.post(&s.operator, "/v1/breakers/force", &body).await;
    let one = s.get(&s.operator, "/v1/nodes/n1").await.json();
    assert_eq!((&one["state"], &one["avoided"]), (&json!("ready"), &Value::Null), "{one}");
    assert_eq!(one["no_new_work"], "breaker node:n1 is not closed");
    let tenants = s.get(&s.user, "/v1/nodes/n1").await.json();
    assert_eq!(tenants["no_new_work"], "blocked by an open breaker");
    assert_eq!(tenants["breaker"], Value::Null, "{tenants}");
    s.post(&s.operator, "/v1/nodes/n1/cordon", &json!({"reason": "driver 580.1 hangs"})).await;
    let tenants = s.get(&s.user, "/v1/nodes/n1").await.json();
    assert_eq!(
        (&tenants["state"], &tenants["no_new_work"]),
        (&json!("cordoned"), &json!("cordoned"))
    );
    assert_eq!(tenants["cordon"], "by the operators of the site");
    // Since when, whatever the reason is called later.
    let since = s.get(&s.operator, "/v1/nodes/n1").await.json()["state_since"].clone();
    assert!(since.is_string() && tenants["state_since"] == since, "{since} {tenants}");
    s.post(&s.operator, "/v1/nodes/n1/cordon", &json!({"reason": "driver 580.2"})).await;
    let again = s.get(&s.operator, "/v1/nodes/n1").await.json();
    assert_eq!((&again["cordon"], &again["state_since"]), (&json!("driver 580.2"), &since));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_is_held_open_and_let_go() {
    let s = site().await;
    let force = async |body: Value| s.post(&s.operator, "/v1/breakers/force", &body).await;
    let got = force(json!({"entity": "cow:1", "state": "open"})).await;
    assert_eq!((got.status.as_u16(), &got.json()["error"]["field"]), (422, &json!("entity")));
    assert_eq!(force(json!({"entity": "node:n1", "state": "ajar"})).await.status, 422);
    let got = force(json!({"entity": "node:n1", "state": "open", "reason": "noise"})).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let got = got.json();
    assert_eq!((&got["state"], &got["nodes"]), (&json!("open"), &json!(1)), "{got}");
    assert_eq!(s.get(&s.operator, "/v1/nodes/n1").await.json()["breaker"], "node:n1");
    let list = s.get(&s.operator, "/v1/breakers").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(s.get(&s.operator, "/v1/health").await.json()["state"], "attention");
    let got = force(json!({"entity": "node:n1", "state": "closed"})).await.json();
    assert_eq!(got["state"], "closed");
    let got = force(json!({"entity": "node:n1", "state": null})).await.json();
    assert_eq!(got["pinned"], Value::Null);
    assert_eq!(s.get(&s.operator, "/v1/nodes/n1").await.json()["breaker"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn gpus_are_taken_out_and_put_back_with_a_reason() {
    let s = site().await;
    let path = "/v1/nodes/n1/exclude";
    let no = s.post(&s.operator, path, &json!({"gpus": [3]})).await;
    assert_eq!((no.status.as_u16(), &no.json()["error"]["field"]), (422, &json!("reason")));
    let no = s.post(&s.operator, path, &json!({"gpus": [64], "reason": "x"})).await;
    assert_eq!(no.status, 422);
    let got = s.post(&s.operator, path, &json!({"gpus": [3, 5], "reason": "noise"})).await.json();
    assert_eq!(got["gpus_excluded"], json!([3, 5]), "{got}");
    let got = s.post(&s.operator, path, &json!({"gpus": []})).await.json();
    assert_eq!(got["gpus_excluded"], json!([]), "{got}");
    let no = s.post(&s.operator, "/v1/nodes/n1/return", &Value::Null).await;
    assert_eq!(no.status, 422, "a return without a test says why");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_another_policy_would_have_done() {
    let s = site().await;
    let findings = vec![seen("gpu-off-bus", "gpu:n1/3", Severity::Critical)];
    s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    let path = "/v1/remediations/dry-run";
    let got = s.post(&s.operator, path, &json!({"days": 1})).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let got = got.json();
    assert_eq!((&got["findings"], &got["by_action"]), (&json!(1), &json!({})), "held: {got}");
    assert_eq!(got["held"].as_object().unwrap().len(), 1, "{got}");
    assert!(got["items"][0]["held"].as_str().unwrap().contains("limit"), "the only node: {got}");
    let watch = json!({"rules": [{"kind": "gpu-*", "steps": ["watch"]}]});
    let got = s.post(&s.operator, path, &json!({"days": 1, "policy": watch})).await.json();
    assert_eq!((&got["by_action"]["watch"], &got["held"]), (&json!(1), &json!({})), "{got}");
    let down = json!({"rules": [{"steps": ["reboot", "watch"]}]});
    let no = s.post(&s.operator, path, &json!({"policy": down})).await;
    assert_eq!(no.status, 422, "{:?}", no.body);
    assert_eq!(no.json()["error"]["field"], "remediations.rules[0].steps");
    assert_eq!(s.post(&s.operator, path, &json!({"days": 0})).await.status, 422);
}

/// The job, once it is as it should be.
async fn job_when(s: &Site, id: &str, so: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/v1/jobs/{id}");
    let wait = async {
        loop {
            let job = s.get(&s.user, &path).await.json();
            // What is ending says so for as long as it is.
            if let Some(m) = job["attempt"]["stop"]["message"].as_str() {
                assert!(m.starts_with("ending, looking for the cause: rank 0 exited"), "{m}");
            }
            if so(&job) {
                return job;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the job comes to it")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ended_is_not_started_by_a_fault_and_says_whose_doing_it_was() {
    let s = site().await;
    let spec = json!({"name": "a", "gang": {"gpus": 1}, "run": {"command": ["false"]}});
    let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let (id, number) = (job["id"].as_str().unwrap().to_owned(), job["number"].as_u64().unwrap());
    job_when(&s, &id, |j| j["state"] == "starting").await;
    let key = AttemptKey { job: JobId(number), attempt: 1 };
    let n1: muster_model::names::NodeName = "n1".parse().unwrap();
    let exit = Exit { rank: 0, code: Some(3), signal: None, note: String::new() };
    for observed in [Observed::Running, Observed::Ended(SlotEnd::Failed { exit })] {
        let node = n1.clone();
        s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
    }
    // While its nodes may still say why: as far as is known the program failed, which is no recovery.
    let ending = s.get(&s.user, &format!("/v1/jobs/{id}")).await.json();
    assert_eq!(ending["recovery"], Value::Null, "{ending}");
    let failed = job_when(&s, &id, |j| j["state"] == "failed").await;
    assert_eq!(
        (&failed["exit_code"], &failed["past"][0]["verdict"]),
        (&json!(3), &json!("application"))
    );
    // The GPU falls off the bus after the end.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let fault = off_the_bus(0, Time(i64::try_from(now.as_millis()).unwrap()));
    s.brain.system(Command::FaultsSeen { node: n1, faults: vec![fault] }).await.unwrap();
    let later = job_when(&s, &id, |j| j["past"][0]["verdict"] == "infrastructure").await;
    assert_eq!((&later["state"], &later["attempts"]), (&json!("failed"), &json!(1)));
    assert_eq!((&later["ended_at"], &later["exit_code"]), (&failed["ended_at"], &json!(3)));
    assert_eq!(later["recovery"], Value::Null, "it did not come back");
    let why = s.get(&s.user, &format!("/v1/jobs/{id}/explain")).await.json();
    assert!(why["summary"].as_str().unwrap().contains("muster requeue"), "{why}");
    // Its user may run it again.
    let got = s.post(&s.user, &format!("/v1/jobs/{id}/requeue"), &Value::Null).await;
    assert_eq!((got.status.as_u16(), &got.json()["ended_at"]), (200, &Value::Null));
}

/// Nothing is done about what is found.
async fn detect_only(s: &Site) {
    let only = [Action::Drain, Action::RestartJob, Action::IsolateGpu, Action::Watch];
    let modes = only.map(|a| (a, Mode::DetectOnly)).into();
    let remediations = Remediations { modes, ..Remediations::default() };
    let policy = Arc::new(SitePolicy { remediations, ..SitePolicy::default() });
    s.brain.system(Command::SetPolicy { policy }).await.unwrap();
}

/// The number that the page of metrics shows under a name.
async fn metric(s: &Site, name: &str) -> Option<String> {
    let app = s.app.clone();
    let page = move || Registry::page(|out| write_metrics(&app, true, out));
    let page = tokio::task::spawn_blocking(page).await.unwrap();
    let found = page.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
    found.map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_that_hardware_explains_late_is_counted_as_a_recovery_from_hardware() {
    let s = site().await;
    // Nothing is done about the node, so that the job runs there again.
    detect_only(&s).await;
    let spec = json!({"name": "a", "gang": {"gpus": 8}, "run": {"command": ["false"]}});
    let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let (id, number) = (job["id"].as_str().unwrap().to_owned(), job["number"].as_u64().unwrap());
    let report = async |attempt: u32, observed: Observed| {
        let (node, key) = ("n1".parse().unwrap(), AttemptKey { job: JobId(number), attempt });
        s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
    };
    job_when(&s, &id, |j| j["state"] == "starting").await;
    report(1, Observed::Running).await;
    let exit = Exit { rank: 0, code: None, signal: Some(9), note: String::new() };
    report(1, Observed::Ended(SlotEnd::Failed { exit })).await;
    let again = |j: &Value| j["attempts"] == 2 && j["state"] == "starting";
    let killed = job_when(&s, &id, again).await;
    assert_eq!(killed["past"][0]["verdict"], "unknown", "{killed}");
    report(2, Observed::Running).await;
    let behind =
        || s.brain.follower_lags().iter().any(|(part, n)| *part == "health-follow" && *n > 0);
    let read = async {
        while behind() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("who counts reads the log");
    let name = "muster_recovery_seconds_count{part=\"detect\"}";
    assert_eq!(metric(&s, name).await.as_deref(), Some("0"), "nobody knows what failed it");
    let faults = vec![off_the_bus(3, s.brain.now())];
    s.brain.system(Command::FaultsSeen { node: "n1".parse().unwrap(), faults }).await.unwrap();
    let explained = |j: &Value| j["past"][0]["verdict"] == "infrastructure";
    let job = job_when(&s, &id, explained).await;
    let reason = job["past"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("gpu-off-bus") && !reason.contains("nothing explains"), "{reason}");
    let counted = async {
        while metric(&s, name).await.as_deref() != Some("1") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("the metric counts it");
}

/// A GPU fell off the bus, as the kernel of its node reported.
fn off_the_bus(gpu: u32, at: Time) -> ObservedFault {
    ObservedFault {
        code: "xid-79".into(),
        at,
        count: 1,
        source: FaultSource::Kernel,
        class: FaultClass::Bus,
        action: FaultAction::Reboot,
        gpu: Some(gpu),
        pid: None,
        attempt: None,
        rank: None,
        text: "reported".into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_throws_faults_while_nothing_is_done_is_named_when_its_job_dies() {
    let s = site().await;
    detect_only(&s).await;
    let n1: muster_model::names::NodeName = "n1".parse().unwrap();
    let throw = async |ago: Span| {
        let faults = vec![off_the_bus(3, s.brain.now() - ago)];
        s.brain.system(Command::FaultsSeen { node: n1.clone(), faults }).await.unwrap();
    };
    let path = "/v1/findings?kind=gpu-off-bus&open=true";
    let found = async || {
        let got = s.get(&s.operator, path).await.json();
        assert_eq!(got["items"].as_array().map(Vec::len), Some(1), "{got}");
        got["items"][0].clone()
    };
    throw(Span::mins(30)).await;
    let first = found().await;
    assert_eq!((&first["count"], &first["gpu"]), (&json!(1), &json!(3)), "{first}");
    for ago in [20, 10] {
        throw(Span::mins(ago)).await;
    }
    // Nothing is done about it, and the node goes on taking work.
    let spec = json!({"name": "a", "gang": {"gpus": 8}, "run": {"command": ["false"]}});
    let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let (id, number) = (job["id"].as_str().unwrap().to_owned(), job["number"].as_u64().unwrap());
    job_when(&s, &id, |j| j["state"] == "starting").await;
    let key = AttemptKey { job: JobId(number), attempt: 1 };
    let report = async |observed: Observed| {
        let node = n1.clone();
        s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
    };
    report(Observed::Running).await;
    throw(Span::secs(0)).await;
    let exit = Exit { rank: 0, code: Some(1), signal: None, note: String::new() };
    report(Observed::Ended(SlotEnd::Failed { exit })).await;
    let job = job_when(&s, &id, |j| j["past"][0].is_object()).await;
    let past = &job["past"][0];
    assert_eq!(
        (&past["verdict"], &past["attributed_to"]),
        (&json!("infrastructure"), &json!("infrastructure")),
        "{job}"
    );
    assert_ne!(job["state"], "failed", "it is tried again: {job}");
    let now = found().await;
    assert_eq!(past["findings"], json!([now["id"]]), "{job}");
    assert_eq!((&now["id"], &now["count"]), (&first["id"], &json!(4)), "{now}");
    let seen = |f: &Value| f["last_seen"].as_str().unwrap().to_owned();
    assert!(seen(&now) > seen(&first), "{first} {now}");
    assert_eq!(now["first_seen"], first["first_seen"]);
    // It fails again under a job of another project: which one that is, its former user is not shown.
    let theirs = s.held_job(&s.other).await["number"].as_u64().unwrap();
    let entity = "gpu:n1/3".parse().unwrap();
    let again = ObservedFinding::new("gpu-off-bus", entity, Severity::Critical, Time(5));
    let mut again = again.because("seen by process 77");
    again.attempt = Some(AttemptKey { job: JobId(theirs), attempt: 1 });
    s.brain.system(Command::FindingsSeen { findings: vec![again] }).await.unwrap();
    let shown = async |token: &str| {
        let got = s.get(token, &format!("/v1/findings?job={number}")).await.json();
        got["items"].as_array().unwrap().iter().find(|f| f["id"] == first["id"]).unwrap().clone()
    };
    let (all, own) = (shown(&s.operator).await, shown(&s.user).await);
    assert_eq!((&all["attempt"], &all["job"]), (&json!(format!("{theirs}.1")), &json!(theirs)));
    for part in ["attempt", "job", "rank"] {
        assert_eq!(own[part], Value::Null, "{part}: {own}");
    }
    assert_eq!(own["evidence"], json!([]), "{own}");
    // What the list has is there alone too, and says the same.
    let path = format!("/v1/findings/{}", first["id"].as_str().unwrap());
    assert_eq!(s.get(&s.user, &path).await.json(), own);
    assert_eq!(s.get(&s.operator, &path).await.json(), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cause_that_is_only_watched_is_not_called_a_failure() {
    let s = site().await;
    let findings = vec![seen("gpu-fault", "gpu:n1/3", Severity::Info)];
    s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    let got = s.get(&s.operator, "/v1/causes").await.json();
    let all = got["items"].as_array().unwrap();
    let c = all.iter().find(|c| c["findings_open"] == 1).unwrap_or_else(|| panic!("{got}"));
    assert_eq!(c["kind"], "gpu-fault", "{c}");
    assert_eq!(c["title"], "A GPU reported an error that asks for nothing");
    assert_eq!(c["findings"][0]["title"], c["title"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_tries_remediations_on_the_past_once_at_a_time() {
    let s = site().await;
    let own = s.app.rehearsals().of(&id_of(&s.operator), 1);
    let turn = own.acquire_owned().await.unwrap();
    let path = "/v1/remediations/dry-run";
    let days = json!({"days": 1});
    let mut waits = std::pin::pin!(s.post(&s.operator, path, &days));
    let other = tokio::select! {
        biased;
        got = waits.as_mut() => panic!("it did not wait: {:?}", got.body),
        got = s.post(&s.admin, path, &days) => got,
    };
    assert_eq!(other.status, 200, "{:?}", other.body);
    drop(turn);
    assert_eq!(waits.await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_may_see_of_a_finding_is_looked_for_aside() {
    let s = site().await;
    let findings = vec![seen("ecc-rate", "gpu:n1/3", Severity::Warning)];
    s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    let all = s.get(&s.operator, "/v1/findings").await.json();
    let path = format!("/v1/findings/{}", all["items"][0]["id"].as_str().unwrap());
    let turns = all_turns(&s, &s.user);
    let mut waits = std::pin::pin!(s.get(&s.user, &path));
    let other = tokio::select! {
        biased;
        got = waits.as_mut() => panic!("it did not wait: {:?}", got.body),
        got = s.get(&s.operator, &path) => got,
    };
    assert_eq!(other.status, 200, "{:?}", other.body);
    drop(turns);
    assert_eq!(waits.await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_of_a_week_counts_the_findings_that_the_list_shows() {
    let s = site().await;
    let reported = vec![seen("ecc-rate", "gpu:n1/3", Severity::Warning)];
    s.brain.system(Command::FindingsSeen { findings: reported }).await.unwrap();
    // What follows from a fault that the node reported is a finding like any other.
    let fault = off_the_bus(0, s.brain.now());
    let node = "n1".parse().unwrap();
    s.brain.system(Command::FaultsSeen { node, faults: vec![fault] }).await.unwrap();
    let mut listed = std::collections::BTreeMap::new();
    for kind in kinds(&s.get(&s.operator, "/v1/findings").await.json()) {
        *listed.entry(kind).or_insert(0u64) += 1;
    }
    assert!(listed.len() >= 2, "{listed:?}");
    // Where a week ends in between, they are in the one before.
    let mut counted = std::collections::BTreeMap::new();
    let mut nodes = 0;
    for back in [0, 1] {
        let r = s.get(&s.admin, &format!("/v1/reports/period?back={back}")).await.json();
        for k in r["findings"].as_array().unwrap() {
            let kind = k["kind"].as_str().unwrap().to_owned();
            *counted.entry(kind).or_insert(0u64) += k["count"].as_u64().unwrap();
        }
        let on = r["nodes"].as_array().unwrap().iter();
        nodes += on.map(|n| n["count"].as_u64().unwrap()).sum::<u64>();
    }
    assert_eq!(counted, listed);
    assert_eq!(nodes, listed.values().sum::<u64>(), "all of them are about the node");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_is_decided_by_the_engine_itself() {
    let s = site().await;
    let stop = json!({"reason": "the cooling is rebuilt"});
    assert_eq!(s.post(&s.operator, "/v1/automation/stop", &stop).await.status, 200);
    let findings = vec![seen("gpu-off-bus", "gpu:n1/3", Severity::Critical)];
    s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    let done = s.get(&s.operator, "/v1/remediations").await.json()["items"][0].clone();
    let got = s.post(&s.operator, "/v1/remediations/dry-run", &json!({"days": 1})).await.json();
    let dry = &got["items"][0];
    let held = dry["held"].as_str().unwrap_or_default();
    assert!(held.contains("automation is stopped"), "an operator's word counts: {got}");
    for field in ["finding", "kind", "node", "gpu", "action", "mode"] {
        assert_eq!(dry[field], done[field], "{field}: {got} {done}");
    }
    assert_eq!((&got["storms"], &got["out_at_once"]), (&json!(0), &json!(0)), "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_unhealthy_node_takes_no_new_work_and_is_not_called_taken() {
    let s = site().await;
    for i in 2..=17 {
        let node: muster_model::NodeName = format!("n{i}").parse().unwrap();
        let (machine, token) = ("m1".into(), "t".into());
        s.brain
            .system(Command::Enroll { node: node.clone(), machine, token, key: None })
            .await
            .unwrap();
        s.brain.system(super::node(node.as_str())).await.unwrap();
    }
    for i in [1, 5, 9] {
        let findings = vec![seen("gpu-off-bus", &format!("gpu:n{i}/3"), Severity::Critical)];
        s.brain.system(Command::FindingsSeen { findings }).await.unwrap();
    }
    let held = s.get(&s.operator, "/v1/remediations?node=n9").await.json()["items"][0].clone();
    assert_eq!(held["step"], "proposed", "{held}");
    assert_eq!((&held["state"], &held["delayed"]), (&json!("delayed"), &json!(true)), "{held}");
    let third = s.get(&s.operator, "/v1/nodes/n9").await.json();
    assert_eq!(third["state"], "suspect", "{third}");
    let automation = s.get(&s.operator, "/v1/automation").await.json();
    let taken = automation["taken"].as_array().unwrap().iter().map(|t| &t["node"]);
    assert_eq!(taken.collect::<Vec<_>>(), ["n1", "n5"], "{automation}");
    assert_eq!((&automation["out"], &automation["nodes"]), (&json!(2), &json!(17)));
    // A tenant is informed that it takes no work, and not what was found or is done there.
    assert!(third["stage_why"].to_string().contains("gpu-off-bus"), "{third}");
    assert!(s.get(&s.operator, "/v1/nodes/n1").await.json()["remediation"].is_string());
    let list = s.get(&s.user, "/v1/nodes").await.json();
    let mut tenants = list["items"].as_array().unwrap().clone();
    for n in ["n1", "n9"] {
        tenants.push(s.get(&s.user, &format!("/v1/nodes/{n}")).await.json());
    }
    assert!(tenants.iter().any(|n| n["name"] == "n9" && n["state"] == "suspect"), "{list}");
    for n in tenants {
        for key in [
            "stage_why",
            "stage_until",
            "probation",
            "remediation",
            "remediation_detail",
            "breaker",
        ] {
            assert_eq!(n[key], Value::Null, "{key} of {n}");
        }
        assert!(!n.to_string().contains("gpu-off-bus"), "{n}");
    }
    // The answer to a return names what it closed.
    let reason = json!({"reason": "looked at"});
    let back = s.post(&s.operator, "/v1/nodes/n5/return", &reason).await;
    assert_eq!(back.status, 200, "{:?}", back.body);
    let back = back.json();
    let closed = &back["findings_closed"][0];
    assert_eq!((&closed["kind"], &closed["gpu"]), (&json!("gpu-off-bus"), &json!(3)), "{back}");
    assert_eq!((&closed["state"], &back["findings"]), (&json!("closed"), &json!([])), "{back}");
    let later = s.get(&s.operator, "/v1/nodes/n5").await.json();
    assert_eq!(later["findings_closed"], Value::Null, "only the request that closed it: {later}");
}
