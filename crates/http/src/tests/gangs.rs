//! Gangs of several groups over HTTP.

use super::{PATIENCE, Site, node, site};
use muster_model::command::{Command, Observed};
use muster_model::ids::{AttemptKey, JobId};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The job, once it is as it should be.
async fn job_when(s: &Site, path: &str, so: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let job = s.get(&s.user, path).await.json();
            if so(&job) {
                return job;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the job comes to it")
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_would_share_a_node_are_refused_with_the_reason_and_run_where_there_are_two() {
    let s = site().await;
    let groups = json!([{"name": "a", "gpus_per_node": 4}, {"name": "b", "gpus_per_node": 4}]);
    let spec = json!({"name": "two", "gang": {"groups": groups}, "run": {"command": ["true"]}});
    let why = "a node runs one group of a gang only";
    let dry = s.post(&s.user, "/v1/jobs?dry_run=true", &spec).await;
    assert_eq!(dry.status, 200, "{:?}", dry.body);
    let dry = dry.json();
    assert_eq!(dry["possible"], false, "{dry}");
    assert!(dry["summary"].as_str().unwrap().contains(why), "{dry}");
    let got = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(got.error(), "policy", "{:?}", got.body);
    assert!(got.json()["error"]["message"].as_str().unwrap().contains(why), "{:?}", got.body);
    let list = s.get(&s.user, "/v1/jobs").await.json();
    assert_eq!(list["items"], json!([]), "nothing was submitted");

    let (n2, machine) = ("n2".parse().unwrap(), "m1".to_owned());
    let enroll = Command::Enroll { node: n2, machine, token: "t".into(), key: None };
    s.brain.system(enroll).await.unwrap();
    s.brain.system(node("n2")).await.unwrap();
    let got = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
    let job = got.json();
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let key = AttemptKey { job: JobId(job["number"].as_u64().unwrap()), attempt: 1 };
    let job = job_when(&s, &path, |j| j["attempt"]["slots"].is_array()).await;
    let slots = job["attempt"]["slots"].as_array().unwrap();
    let nodes: BTreeSet<&str> = slots.iter().filter_map(|s| s["node"].as_str()).collect();
    assert_eq!((slots.len(), nodes), (2, BTreeSet::from(["n1", "n2"])), "{job}");
    for name in ["n1", "n2"] {
        let (node, observed) = (name.parse().unwrap(), Observed::Running);
        s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
    }
    let job = job_when(&s, &path, |j| j["state"] != "starting").await;
    assert_eq!((&job["state"], &job["exit_code"]), (&json!("running"), &Value::Null), "{job}");
}
