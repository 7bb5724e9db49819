//! Faults and tests of nodes over HTTP.

use super::{node, site};
use muster_model::command::Command;
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::units::Time;
use serde_json::{Value, json};

fn fault(code: &str, attempt: Option<AttemptKey>) -> ObservedFault {
    ObservedFault {
        code: code.into(),
        at: Time(5),
        count: 2,
        source: FaultSource::Kernel,
        class: FaultClass::Bus,
        action: FaultAction::Reboot,
        gpu: Some(1),
        pid: None,
        attempt,
        rank: None,
        text: "reported".into(),
    }
}

fn items(v: &Value) -> Vec<String> {
    let all = v["items"].as_array().unwrap().iter();
    all.map(|i| i["code"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_listed_by_page_and_tenants_see_their_own() {
    let s = site().await;
    let spec = json!({"name": "a", "gang": {"gpus": 1}, "run": {"command": ["true"]}});
    let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let number = job["number"].as_u64().unwrap();
    let key = AttemptKey { job: JobId(number), attempt: 1 };
    let reported = [fault("xid-79", None), fault("xid-31", Some(key)), fault("oom", None)];
    for f in reported {
        let faults = vec![f];
        let n1 = "n1".parse().unwrap();
        s.brain.system(Command::FaultsSeen { node: n1, faults }).await.unwrap();
    }
    let got = s.get(&s.operator, "/v1/faults").await.json();
    assert_eq!(items(&got), ["oom", "xid-31", "xid-79"], "newest first");
    assert_eq!(got["items"][1]["attempt"], json!(format!("{number}.1")));
    let path = format!("/v1/faults?job={number}");
    assert_eq!(items(&s.get(&s.operator, &path).await.json()), ["xid-31"]);
    assert_eq!(items(&s.get(&s.operator, "/v1/faults?code=oom").await.json()), ["oom"]);
    assert_eq!(items(&s.get(&s.operator, "/v1/faults?node=n1").await.json()).len(), 3);
    assert!(items(&s.get(&s.operator, "/v1/faults?node=n2").await.json()).is_empty());
    // Only what hit one's own job.
    assert_eq!(items(&s.get(&s.user, "/v1/faults").await.json()), ["xid-31"]);
    assert!(items(&s.get(&s.other, "/v1/faults").await.json()).is_empty());
    let seen = |v: Value| v["faults"].as_array().unwrap().len();
    assert_eq!(seen(s.get(&s.operator, "/v1/nodes/n1").await.json()), 3);
    assert_eq!(seen(s.get(&s.user, "/v1/nodes/n1").await.json()), 1);
    // Pages, for both kinds of caller.
    let mut codes = Vec::new();
    let mut path = "/v1/faults?limit=1".to_owned();
    loop {
        let page = s.get(&s.operator, &path).await.json();
        codes.extend(items(&page));
        let Some(cursor) = page["cursor"].as_str() else { break };
        path = format!("/v1/faults?limit=1&cursor={cursor}");
    }
    assert_eq!(codes, ["oom", "xid-31", "xid-79"]);
    for bad in ["/v1/faults?cursor=zzz", "/v1/faults?node=%00", "/v1/faults?job=x"] {
        assert_eq!(s.get(&s.operator, bad).await.status, 400, "{bad}");
    }
    let metrics = String::from_utf8(s.get(&s.operator, "/metrics").await.body.to_vec()).unwrap();
    assert!(
        metrics.contains("muster_faults_total{code=\"xid-79\",class=\"bus\"} 2\n"),
        "{metrics}"
    );
    let lag = "muster_follower_lag_records{follower=\"metering-jobs\"} ";
    assert!(metrics.contains(lag), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_tested_and_refusals_say_what_to_do() {
    let s = site().await;
    let path = "/v1/nodes/n1/qualify";
    let no = s.post(&s.operator, path, &json!({"level": "standard"})).await;
    assert_eq!(no.status, 409, "{:?}", no.body);
    assert!(no.json()["error"]["hint"].as_str().unwrap().contains("agent"), "{:?}", no.body);
    let mut able = node("n1");
    if let Command::NodeConnected { inventory, .. } = &mut able {
        inventory.can.insert("qualify".into());
    }
    s.brain.system(able).await.unwrap();
    assert_eq!(s.post(&s.operator, path, &json!({"level": "huge"})).await.status, 422);
    let got = s.post(&s.operator, path, &json!({"level": "standard"})).await.json();
    assert_eq!(
        (&got["state"], &got["qualifying"]["level"]),
        (&json!("qualifying"), &json!("standard"))
    );
    let listed = s.get(&s.viewer, "/v1/nodes?state=qualifying").await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(s.post(&s.operator, path, &Value::Null).await.status, 409, "one at a time");
    let over = "/v1/nodes/n1/cancel-qualification";
    let got = s.post(&s.operator, over, &Value::Null).await.json();
    assert_eq!((&got["state"], &got["qualifying"]), (&json!("ready"), &Value::Null));
    let got = s.post(&s.operator, over, &Value::Null).await;
    assert_eq!(got.status, 200, "nothing to end is fine");
    let slow = json!({"fault": "slow_gpu", "gpu": 0, "percent": 100});
    assert_eq!(s.post(&s.operator, "/v1/nodes/n1/inject", &slow).await.status, 422);
    let keyed = async |gpu: u32| {
        let (path, key) = ("/v1/nodes/n1/inject", [("idempotency-key", "k")]);
        let body = json!({"fault": "lose_gpu", "gpu": gpu});
        let got = s.call(&s.operator, "POST", path, &body, &key).await;
        (got.status.as_u16(), got.json()["error"]["field"].clone())
    };
    assert_eq!(keyed(0).await, (409, Value::Null), "no agent is connected");
    assert_eq!(keyed(0).await, (409, Value::Null));
    assert_eq!(keyed(1).await, (409, json!("Idempotency-Key")), "another request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_which_actions_it_takes_and_why_not_the_rest() {
    let s = site().await;
    let node = async || s.get(&s.operator, "/v1/nodes/n1").await.json();
    let taken = |n: &Value| -> Vec<String> {
        let all = n["actions"].as_array().unwrap().iter().filter(|a| a["refused"].is_null());
        all.map(|a| a["action"].as_str().unwrap().to_owned()).collect()
    };
    let of = |n: &Value, action: &str| -> Value {
        let mut all = n["actions"].as_array().unwrap().iter();
        all.find(|a| a["action"] == action).cloned().unwrap_or_default()
    };
    let n = node().await;
    assert_eq!(taken(&n), ["cordon", "drain", "exclude"], "{n}");
    assert_eq!(of(&n, "exclude")["gpus"], json!([0, 1, 2, 3, 4, 5, 6, 7]));
    // The reason is the one that the request gets.
    for action in ["qualify", "retire", "return"] {
        let body = json!({"reason": "x"});
        let body = if action == "return" { &body } else { &Value::Null };
        let no = s.post(&s.operator, &format!("/v1/nodes/n1/{action}"), body).await;
        assert_eq!(no.status, 409, "{:?}", no.body);
        let (said, shown) = (no.json()["error"].clone(), of(&n, action));
        assert_eq!((&said["message"], &said["hint"]), (&shown["refused"], &shown["hint"]));
    }
    // Whoever steers a node reads what follows.
    let body = json!({"gpus": [3], "reason": "x"});
    let n = s.post(&s.operator, "/v1/nodes/n1/exclude", &body).await.json();
    assert_eq!(of(&n, "include")["gpus"], json!([3]), "{n}");
    let n = s.post(&s.operator, "/v1/nodes/n1/drain", &Value::Null).await.json();
    assert_eq!(taken(&n), ["cordon", "undrain", "exclude", "include", "retire"], "{n}");
    assert_eq!(of(&n, "drain")["refused"], "node n1 is drained already");
    // Lists do without, and so does who may do none of it.
    let list = s.get(&s.operator, "/v1/nodes").await.json();
    assert_eq!(list["items"][0]["actions"], Value::Null, "{list}");
    assert_eq!(s.get(&s.user, "/v1/nodes/n1").await.json()["actions"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_to_cut_a_gpu_says_who_must_leave() {
    let s = site().await;
    let mut cut = node("n1");
    if let Command::NodeConnected { inventory, .. } = &mut cut {
        inventory.gpus[7].mig = Some(true);
    }
    s.brain.system(cut).await.unwrap();
    let spec = json!({
        "name": "slice", "gang": {"mig": "3g.40gb"}, "simulate": {"run": "1h"},
    });
    let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let plan = async |query: &str| {
        let got = s.get(&s.operator, &format!("/v1/nodes/n1/mig?{query}")).await;
        (got.status.as_u16(), got.json())
    };
    let held = async || {
        for _ in 0..12_000 {
            let now = s.get(&s.user, &format!("/v1/jobs/{}", job["id"].as_str().unwrap())).await;
            if !now.json()["attempt"].is_null() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the job was never placed");
    };
    held().await;
    let (status, beside) = plan("gpu=7&profiles=3g.40gb,3g.40gb").await;
    assert_eq!(status, 200, "{beside}");
    assert_eq!((&beside["leave"], &beside["switch"]), (&json!([]), &Value::Null));
    let count = |v: &Value, what: &str| v[what].as_array().unwrap().len();
    assert_eq!((count(&beside, "keep"), count(&beside, "create")), (1, 1), "{beside}");
    let (_, whole) = plan("gpu=7&profiles=7g.80gb").await;
    assert_eq!((count(&whole, "destroy"), count(&whole, "create")), (1, 1), "{whole}");
    assert_eq!(whole["leave"][0]["name"], "slice");
    assert_eq!(whole["leave"][0]["gpus_milli"], 500);
    let (_, other) = plan("gpu=0&profiles=1g.10gb").await;
    assert_eq!((&other["switch"], &other["leave"]), (&json!(true), &json!([])), "{other}");
    for (query, status) in [
        ("gpu=9&profiles=1g.10gb", 400),
        ("gpu=7&profiles=", 400),
        ("gpu=7&profiles=9g.99gb", 409),
        ("gpu=7&profiles=7g.80gb,1g.10gb", 409),
    ] {
        let (got, body) = plan(query).await;
        assert_eq!(got, status, "{query}: {body}");
    }
    let now = s.get(&s.operator, "/v1/nodes/n1").await.json();
    assert_eq!(count(&now, "jobs"), 1, "nothing has changed");
}
