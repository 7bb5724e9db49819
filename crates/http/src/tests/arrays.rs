//! The plain id of an array means all of its tasks; and a cancel does not rewrite how a job ended.

use super::{PATIENCE, Site, site};
use muster_engine::task;
use muster_model::command::{Command, Observed};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Exit, SlotEnd};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The job, once it is as it should be.
pub(super) async fn when(s: &Site, id: &str, so: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/v1/jobs/{id}");
    let wait = async {
        loop {
            let job = s.get(&s.user, &path).await.json();
            if so(&job) {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the job comes to it")
}

fn spec(array: Option<&str>) -> Value {
    let mut spec = json!({"name": "sweep", "gang": {"gpus": 1}, "run": {"command": ["true"]}});
    if let Some(tasks) = array {
        spec["array"] = json!(tasks);
        // Nobody looks for the cause of a failure that is not tried again anyhow.
        spec["retries"] = json!({"infrastructure": 0});
    }
    spec
}

/// The first attempt of a job comes up on the only node, and ends with this code.
pub(super) async fn ends(s: &Site, job: &Value, code: i32) {
    let (id, number) = (job["id"].as_str().unwrap(), job["number"].as_u64().unwrap());
    when(s, id, |j| j["state"] == "starting").await;
    let exit = Exit { rank: 0, code: Some(code), signal: None, note: String::new() };
    let end = if code == 0 { SlotEnd::Ok } else { SlotEnd::Failed { exit } };
    for observed in [Observed::Running, Observed::Ended(end)] {
        let key = AttemptKey { job: JobId(number), attempt: 1 };
        let node = "n1".parse().unwrap();
        s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_the_cause_is_looked_for_keeps_the_exit_code() {
    let s = site().await;
    let job = s.post(&s.user, "/v1/jobs", &spec(None)).await.json();
    let id = job["id"].as_str().unwrap();
    ends(&s, &job, 3).await;
    let got = s.post(&s.user, &format!("/v1/jobs/{id}/cancel"), &Value::Null).await;
    let shown = got.json();
    assert_eq!((got.status.as_u16(), &shown["state"]), (200, &json!("failed")), "{shown}");
    assert_eq!((&shown["exit_code"], &shown["attempts"]), (&json!(3), &json!(1)), "{shown}");
    assert_eq!(shown["past"][0]["verdict"], "application", "{shown}");
    // Both ended with the ranks, whenever that was settled.
    assert_eq!(shown["past"][0]["ended_at"], shown["ended_at"], "{shown}");
    // Once more changes nothing.
    let again = s.post(&s.user, &format!("/v1/jobs/{id}/cancel"), &Value::Null).await;
    assert_eq!((again.status.as_u16(), &again.json()["state"]), (200, &json!("failed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_queued_again_without_the_tasks_that_succeeded() {
    let s = site().await;
    let made = s.post(&s.user, "/v1/jobs", &spec(Some("0-2"))).await.json();
    let id = made["id"].as_str().unwrap();
    for (n, code) in [(0, 0), (1, 3)] {
        ends(&s, &made["items"][n], code).await;
    }
    when(&s, &format!("{id}_2"), |j| j["state"] == "starting").await;
    let last = format!("/v1/jobs/{id}_2/cancel");
    assert_eq!(s.post(&s.user, &last, &Value::Null).await.status, 200);
    let number = made["items"][2]["number"].as_u64().unwrap();
    let key = AttemptKey { job: JobId(number), attempt: 1 };
    let (node, observed) = ("n1".parse().unwrap(), Observed::Ended(SlotEnd::Stopped));
    s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
    when(&s, &format!("{id}_2"), |j| j["state"] == "cancelled").await;
    when(&s, &format!("{id}_1"), |j| j["state"] == "failed").await;
    // What is asked of the array is reported of the array.
    let array = s.get(&s.user, &format!("/v1/jobs/{id}/array")).await.json();
    let states: Vec<&Value> =
        array["items"].as_array().unwrap().iter().map(|t| &t["state"]).collect();
    assert_eq!(states, ["succeeded", "failed", "cancelled"], "{array}");
    let why = s.get(&s.user, &format!("/v1/jobs/{id}/explain")).await.json();
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.starts_with("3 tasks: 1 succeeded, 1 failed, 1 cancelled"), "{why}");
    // Not as the one that went well.
    assert_eq!((&why["state"], &array["state"]), (&json!("failed"), &json!("failed")), "{why}");
    assert!(summary.contains(&format!("task {id}_1 has failed")), "{why}");
    assert_eq!(why["job"], json!(id), "{why}");
    let requeue = format!("/v1/jobs/{id}/requeue");
    assert_eq!(s.post(&s.user, &requeue, &Value::Null).await.status, 200);
    for n in [1, 2] {
        when(&s, &format!("{id}_{n}"), |j| j["attempts"] == 2).await;
    }
    let first = s.get(&s.user, &format!("/v1/jobs/{id}_0")).await.json();
    assert_eq!((&first["state"], &first["attempts"]), (&json!("succeeded"), &json!(1)), "{first}");
    // Who means every task says so, and who means one names it.
    assert_eq!(s.post(&s.user, &format!("{requeue}?all=true"), &Value::Null).await.status, 200);
    when(&s, &format!("{id}_0"), |j| j["attempts"] == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_calls_a_task_that_failed_there_as_lists_do() {
    let s = site().await;
    let made = s.post(&s.user, "/v1/jobs", &spec(Some("0-1"))).await.json();
    let id = made["id"].as_str().unwrap();
    ends(&s, &made["items"][1], 3).await;
    when(&s, &format!("{id}_1"), |j| j["state"] == "failed").await;
    let times = s.get(&s.operator, "/v1/nodes/n1/timeline").await.json();
    let entry = times["items"].as_array().unwrap().iter().find(|e| e["what"] == "job").unwrap();
    assert_eq!(entry["id"], json!(format!("{id}_1")), "{times}");
    let text = entry["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("attempt {id}_1.1 failed here")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_that_succeeded_has_nothing_to_queue_again_but_each_task_has() {
    let s = site().await;
    let made = s.post(&s.user, "/v1/jobs", &spec(Some("4-5"))).await.json();
    let id = made["id"].as_str().unwrap();
    for n in [0, 1] {
        ends(&s, &made["items"][n], 0).await;
    }
    when(&s, &format!("{id}_5"), |j| j["state"] == "succeeded").await;
    let got = s.post(&s.user, &format!("/v1/jobs/{id}/requeue"), &Value::Null).await;
    assert_eq!((got.status.as_u16(), got.error()), (409, "conflict".to_owned()), "{:?}", got.body);
    assert!(got.json()["error"]["hint"].as_str().unwrap().contains("--all"), "{:?}", got.body);
    let got = s.post(&s.user, &format!("/v1/jobs/{id}_4/requeue"), &Value::Null).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    when(&s, &format!("{id}_4"), |j| j["attempts"] == 2).await;
    // One job, and one task, stand alone.
    let one = s.get(&s.user, &format!("/v1/jobs/{id}_5/array")).await.json();
    assert_eq!((&one["count"], &one["items"][0]["index"]), (&json!(1), &json!(5)), "{one}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_one_task_stores_what_was_changed_and_no_copy_of_the_spec() {
    const TASKS: usize = 40;
    let s = site().await;
    let mut held = spec(Some("0-39"));
    held["hold"] = json!(true);
    for n in 0..60 {
        held["tags"][format!("tag-{n}")] = json!("x".repeat(250));
    }
    let made = s.post(&s.user, "/v1/jobs", &held).await.json();
    let id = made["id"].as_str().unwrap();
    let stored = || s.brain.read(|site| (site.seq, site.to_bytes().unwrap().len()));
    let (from, before) = stored();
    for n in 0..TASKS {
        let body = json!({"time_limit": format!("{}m", n + 1)});
        let got = s.call(&s.user, "PATCH", &format!("/v1/jobs/{id}_{n}"), &body, &[]).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        assert_eq!(got.json()["spec"]["time_limit"], body["time_limit"]);
    }
    // Each shows its own limit, and the tags of all.
    let shown = s.get(&s.user, &format!("/v1/jobs/{id}_3/spec")).await.json();
    assert_eq!((&shown["time_limit"], &shown["tags"]), (&json!("4m"), &held["tags"]), "{shown}");
    let list = s.get(&s.user, "/v1/jobs").await.json();
    let limits: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|j| &j["spec"]["time_limit"]).collect();
    assert_eq!(limits[..2], [&json!("40m"), &json!("39m")], "newest first");
    // Neither the log nor the state has more than that; a spec has 15 KB.
    let records = s.brain.records(from, 10 * TASKS).await.unwrap();
    let text: usize = records.iter().map(|r| r.to_json().unwrap().len()).sum();
    assert!(text < 1000 * TASKS, "{text} bytes of the log");
    let after = stored().1;
    assert!(after < before + 1000 * TASKS, "{after} bytes of the state, {before} before");
    let shared = s.brain.read(|site| {
        let mut specs = site.jobs.values().map(|j| Arc::clone(j.spec.shared()));
        let first = specs.next().unwrap();
        specs.all(|other| Arc::ptr_eq(&first, &other))
    });
    assert!(shared, "a task has a copy of its array's spec");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_found_by_its_index_whatever_is_missing_of_its_array() {
    let s = site().await;
    let mut held = spec(Some("2,4-9,40,900-903"));
    held["hold"] = json!(true);
    let before = s.post(&s.user, "/v1/jobs", &spec(Some("0-3"))).await.json();
    let made = s.post(&s.user, "/v1/jobs", &held).await.json();
    let id = made["id"].as_str().unwrap();
    let items = made["items"].as_array().unwrap();
    assert_eq!(items.len(), 12);
    for item in items {
        let path = format!("/v1/jobs/{id}_{}", item["index"]);
        let got = s.get(&s.user, &path).await;
        assert_eq!((got.status.as_u16(), &got.json()["number"]), (200, &item["number"]), "{path}");
    }
    for absent in [0, 3, 10, 41, 899, 904, u32::MAX] {
        let got = s.get(&s.user, &format!("/v1/jobs/{id}_{absent}")).await;
        assert_eq!(got.status, 404, "{absent}");
    }
    // Tasks that ended long ago are forgotten one by one.
    let mut jobs = s.brain.read(|site| site.jobs.clone());
    let first = JobId(made["items"][0]["number"].as_u64().unwrap());
    for gone in [0, 1, 2, 4, 7, 11] {
        jobs.remove(&JobId(first.0 + gone));
    }
    let there = |n: usize| ![0, 1, 2, 4, 7, 11].contains(&n);
    for (n, item) in items.iter().enumerate() {
        let index = u32::try_from(item["index"].as_u64().unwrap()).unwrap();
        let found = task(&jobs, first, index).map(|j| j.id.0);
        assert_eq!(found, there(n).then_some(first.0 + n as u64), "{index}");
    }
    assert_eq!(before["count"], 4);
    let other = JobId(before["items"][0]["number"].as_u64().unwrap());
    assert!(task(&jobs, other, 40).is_none(), "another array's");
    assert!(task(&jobs, JobId(u64::MAX), 1).is_none());
}
