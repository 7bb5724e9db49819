//! Breakers over HTTP.

use super::{PATIENCE, Site, node, site};
use muster_model::command::{Command, Observed};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::SlotEnd;
use serde_json::{Value, json};

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

/// A job of an image that takes a whole node.
fn of_image(name: &str) -> Value {
    let run = json!({"command": ["true"], "image": "team/x:1", "env": {"SECRET": "hush"}});
    json!({"name": name, "gang": {"nodes": 1, "gpus_per_node": 8}, "run": run})
}

/// Submits it: its path, and its first attempt.
async fn submit(s: &Site, name: &str) -> (String, AttemptKey) {
    let got = s.post(&s.user, "/v1/jobs", &of_image(name)).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
    let job = got.json();
    let key = AttemptKey { job: JobId(job["number"].as_u64().unwrap()), attempt: 1 };
    (format!("/v1/jobs/{}", job["id"].as_str().unwrap()), key)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_an_image_that_fails_on_three_nodes_wait_for_its_breaker() {
    let s = site().await;
    for name in ["n2", "n3", "n4"] {
        let (own, machine) = (name.parse().unwrap(), "m1".to_owned());
        let enroll = Command::Enroll { node: own, machine, token: "t".into(), key: None };
        s.brain.system(enroll).await.unwrap();
        s.brain.system(node(name)).await.unwrap();
    }
    let mut placed = Vec::new();
    for name in ["a", "b", "c"] {
        let (path, key) = submit(&s, name).await;
        let job = job_when(&s, &path, |j| j["attempt"]["slots"][0]["node"].is_string()).await;
        placed.push((key, job["attempt"]["slots"][0]["node"].as_str().unwrap().to_owned()));
    }
    for (key, on) in placed {
        for observed in [Observed::Running, Observed::Ended(SlotEnd::fault("the runtime gave up"))]
        {
            let node = on.parse().unwrap();
            s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
        }
    }
    let (path, _) = submit(&s, "late").await;
    let job = job_when(&s, &path, |j| j["held"].is_string()).await;
    assert_eq!(job["held"], "breaker image:team/x:1", "{job}");
    let dry = s.post(&s.user, "/v1/jobs?dry_run=true", &of_image("next")).await.json();
    let said = dry["summary"].as_str().unwrap();
    assert!(said.contains("would be held by breaker image:team/x:1"), "{dry}");
    // The log has the name of the image, and nothing else of what runs.
    let log = s.get(&s.operator, "/v1/events?limit=1000").await;
    let text = log.json().to_string();
    assert!(text.contains("team/x:1") && !text.contains("hush"), "{text}");
}
