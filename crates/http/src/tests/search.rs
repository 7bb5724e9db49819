//! Search: what is found, and what a token that is bound to a project never learns of.

use super::{Site, held, site};
use muster_model::Command;
use serde_json::{Value, json};

/// Kind and id of what is found.
async fn found(s: &Site, token: &str, q: &str) -> Vec<(String, String)> {
    let got = s.get(token, &format!("/v1/search?q={q}")).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let items = got.json()["items"].as_array().unwrap().clone();
    items.iter().map(|h| (text(&h["kind"]), text(&h["id"]))).collect()
}

fn hit(kind: &str, id: &str) -> (String, String) {
    (kind.into(), id.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_nodes_gpus_projects_and_users_are_found() {
    let s = site().await;
    let job = s.post(&s.user, "/v1/jobs", &held("resnet-train")).await.json();
    let id = job["id"].as_str().unwrap();
    assert_eq!(found(&s, &s.operator, "resnet").await, [hit("job", id)]);
    assert_eq!(found(&s, &s.operator, "train").await, [hit("job", id)]);
    assert_eq!(found(&s, &s.operator, &format!("job%20{id}")).await, [hit("job", id)]);
    assert_eq!(found(&s, &s.operator, id).await[0], hit("job", id), "an id goes first");
    assert_eq!(found(&s, &s.operator, "n1").await[0], hit("node", "n1"));
    assert_eq!(found(&s, &s.operator, "n1-3").await, [hit("gpu", "n1/3")]);
    assert_eq!(found(&s, &s.operator, "ALPHA").await, [hit("project", "alpha")]);
    assert_eq!(found(&s, &s.operator, "ann").await[0], hit("user", "ann"));
    let books = found(&s, &s.operator, "gpu-off-bus").await;
    assert_eq!(books[0], hit("runbook", "gpu-off-bus"), "{books:?}");
    let all = s.get(&s.operator, "/v1/search?q=gpu&limit=2").await.json();
    assert_eq!((all["items"].as_array().unwrap().len(), &all["more"]), (2, &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn digits_with_zeros_before_them_are_part_of_a_name_first() {
    let s = site().await;
    let job = s.post(&s.user, "/v1/jobs", &held("resnet-train")).await.json();
    let id = job["id"].as_str().unwrap().to_owned();
    let (digits, name) = (format!("00{id}"), format!("hgx-00{id}"));
    let node: muster_model::NodeName = name.parse().unwrap();
    let (machine, token) = ("m1".into(), "t".into());
    s.brain
        .system(Command::Enroll { node: node.clone(), machine, token, key: None })
        .await
        .unwrap();
    s.brain.system(super::node(node.as_str())).await.unwrap();
    let all = found(&s, &s.operator, &digits).await;
    let at = |h: (String, String)| all.iter().position(|x| *x == h);
    assert_eq!(at(hit("node", &name)), Some(0), "{all:?}");
    assert!(at(hit("job", &id)).is_some(), "job {id} is found all the same: {all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_found_once_and_its_tasks_by_their_ids() {
    let s = site().await;
    let mut spec = held("sweep");
    spec["array"] = json!("0-4");
    let made = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(found(&s, &s.user, "sweep").await, [hit("job", &id)]);
    let task = format!("{id}_3");
    assert_eq!(found(&s, &s.user, &task).await, [hit("job", &task)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_token_learns_nothing_of_others() {
    let s = site().await;
    let job = s.post(&s.other, "/v1/jobs", &held("hidden-work")).await.json();
    let own = s.post(&s.user, "/v1/jobs", &held("own-work")).await.json();
    let id = job["id"].as_str().unwrap();
    for q in ["hidden", id, "bob", "beta", "n1-3", "gpu-off-bus"] {
        assert!(!found(&s, &s.other, "hidden").await.is_empty(), "it is there");
        let got = found(&s, &s.user, q).await;
        let theirs = |(kind, of): &(String, String)| {
            matches!(kind.as_str(), "gpu" | "runbook" | "incident")
                || (kind == "job" && of == id)
                || of.contains("bob")
                || of.contains("beta")
        };
        assert!(!got.iter().any(theirs), "{q}: {got:?}");
    }
    let work = found(&s, &s.user, "work").await;
    assert_eq!(work, [hit("job", own["id"].as_str().unwrap())]);
    assert_eq!(found(&s, &s.user, "n1").await[0], hit("node", "n1"), "nodes have names for all");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_for_nothing_or_too_much_is_refused_with_the_parameter() {
    let s = site().await;
    for path in ["/v1/search", "/v1/search?q=", "/v1/search?q=%20", "/v1/search?q=x&limit=0"] {
        let got = s.get(&s.user, path).await;
        assert_eq!((got.status.as_u16(), got.error().as_str()), (400, "invalid"), "{path}");
    }
    let long = format!("/v1/search?q={}", "x".repeat(201));
    assert_eq!(s.get(&s.user, &long).await.json()["error"]["field"], "q");
    assert_eq!(s.get(&s.user, "/v1/search?q=x&limit=101").await.json()["error"]["field"], "limit");
}
