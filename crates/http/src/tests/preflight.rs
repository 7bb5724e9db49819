//! A gang whose network is measured before it starts says so wherever its state is shown.

use super::{PATIENCE, Site, node, site};
use muster_model::command::Command;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::policy::{FabricPolicy, SitePolicy};
use muster_model::preflight::PreflightReport;
use muster_model::units::Span;
use serde_json::{Value, json};
use std::sync::Arc;

/// Submits a gang of two nodes; its path, and its attempt once it has its nodes.
async fn placed(s: &Site) -> (String, AttemptKey) {
    let gang = json!({"nodes": 2, "gpus_per_node": 1});
    let spec = json!({"name": "large", "gang": gang, "run": {"command": ["true"]}});
    let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let wait = async {
        while s.get(&s.user, &path).await.json()["attempt"].is_null() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it has its nodes");
    (path, AttemptKey { job: JobId(job["number"].as_u64().unwrap()), attempt: 1 })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_in_preflight_says_so_and_then_what_came_of_it() {
    let s = site().await;
    let (n2, machine) = ("n2".parse().unwrap(), "m1".to_owned());
    let enroll = Command::Enroll { node: n2, machine, token: "t".into(), key: None };
    s.brain.system(enroll).await.unwrap();
    s.brain.system(node("n2")).await.unwrap();
    let within = Span::mins(10);
    let fabric = FabricPolicy { preflight_nodes: 2, within, ..FabricPolicy::default() };
    let policy = Arc::new(SitePolicy { fabric, ..SitePolicy::default() });
    s.brain.system(Command::SetPolicy { policy }).await.unwrap();

    let (path, key) = placed(&s).await;
    let job = s.get(&s.user, &path).await.json();
    let p = &job["attempt"]["preflight"];
    assert_eq!((&job["state"], &p["outcome"]), (&json!("starting"), &Value::Null), "{job}");
    assert_eq!(p["message"], "measuring the fabric among 2 nodes", "{job}");
    assert!(p["since"].is_string() && p["until"].is_string(), "{job}");
    let list = s.get(&s.user, "/v1/jobs").await.json();
    assert_eq!(list["items"][0]["attempt"]["preflight"], *p, "{list}");
    let why = s.get(&s.user, &format!("{path}/explain")).await.json();
    let want = "is in preflight: measuring the fabric among 2 nodes since ";
    assert!(why["summary"].as_str().unwrap().starts_with(want), "{why}");

    let report = PreflightReport::Passed;
    s.brain.system(Command::PreflightDone { key, report }).await.unwrap();
    let job = s.get(&s.user, &path).await.json();
    let p = &job["attempt"]["preflight"];
    assert_eq!((&p["outcome"], &p["message"]), (&json!("passed"), &json!("passed")), "{job}");
    let why = s.get(&s.user, &format!("{path}/explain")).await.json();
    assert!(why["summary"].as_str().unwrap().starts_with("is starting on "), "{why}");

    let (path, key) = placed(&s).await;
    let report = PreflightReport::Slow { nodes: vec!["n2".parse().unwrap()] };
    s.brain.system(Command::PreflightDone { key, report }).await.unwrap();
    let job = s.get(&s.user, &path).await.json();
    let p = &job["attempt"]["preflight"];
    assert_eq!(p["slow"], json!(["n2"]), "{job}");
    assert!(p["message"].as_str().unwrap().contains("slow nodes: n2"), "{job}");

    let (path, key) = placed(&s).await;
    s.brain.system(Command::Cancel { job: key.job }).await.unwrap();
    let job = s.get(&s.user, &path).await.json();
    let p = &job["attempt"]["preflight"];
    assert_eq!((&job["state"], &p["outcome"]), (&json!("stopping"), &Value::Null), "{job}");
    assert_eq!(p["message"], "stopped before it was over", "{job}");
}
