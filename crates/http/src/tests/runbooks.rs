//! Runs of runbooks over HTTP: who may answer.

use super::site;
use muster_model::tenant::Role;
use serde_json::{Value, json};

const BOOK: &str = "---
name: empty-it
title: Empty a node
topics: [test]
urgency: today
owner: a test
vars: [node]
---

Words.

## 1. ask: Shall it go?

```muster
ask: Shall $node be drained?
choice: yes -> 2
choice: no -> end
```

## 2. act: Drain it

```muster
act: drain
reason: the book says so
then: end
```
";

#[tokio::test(flavor = "multi_thread")]
async fn a_user_cannot_drain_a_node_by_answering_an_admins_run() {
    let s = site().await;
    let user = s.token("carl", Role::User, None, None).await;
    let book = json!({"text": BOOK});
    let set = s.call(&s.admin, "PUT", "/v1/runbooks/empty-it", &book, &[]).await;
    assert_eq!(set.status, 200, "{:?}", set.body);
    let start = json!({"vars": {"node": "n1"}, "auto": true});
    let run = s.post(&s.admin, "/v1/runbooks/empty-it/run", &start).await;
    assert_eq!(run.status, 201, "{:?}", run.body);
    let id = run.json()["id"].as_str().unwrap().to_owned();
    let reason = json!({"reason": "x"});
    assert_eq!(s.post(&user, "/v1/nodes/n1/drain", &reason).await.status, 403);
    let yes = json!({"step": 1, "answer": "choose", "choose": "yes"});
    let path = format!("/v1/runbook-runs/{id}/answer");
    let got = s.post(&user, &path, &yes).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (403, "not_allowed"), "{:?}", got.body);
    let stop = s.post(&user, &format!("/v1/runbook-runs/{id}/stop"), &reason).await;
    assert_eq!(stop.status, 403, "{:?}", stop.body);
    let state = async || s.get(&s.admin, "/v1/nodes/n1").await.json()["state"].clone();
    assert_eq!(state().await, "ready");
    assert_eq!(s.get(&s.admin, &format!("/v1/runbook-runs/{id}")).await.json()["step"], 1);
    // Whoever may drain it may say so.
    let got = s.post(&s.operator, &path, &yes).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    assert_eq!(got.json()["done"][0]["by"], "user:ops");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_turns_what_is_around_it_is_in_no_runbook_and_no_run() {
    let s = site().await;
    let refused = async |method: &str, path: &str, body: Value, field: &str| {
        let got = s.call(&s.operator, method, path, &body, &[]).await;
        let error = &got.json()["error"];
        assert_eq!((got.status.as_u16(), &error["field"]), (422, &json!(field)), "{error}");
    };
    let path = "/v1/runbooks/empty-it";
    for odd in ["W\u{202e}ords.", "W\u{1b}[2Jords."] {
        refused("PUT", path, json!({"text": BOOK.replace("Words.", odd)}), "text").await;
    }
    let windows = json!({"text": BOOK.replace('\n', "\r\n")});
    assert_eq!(s.call(&s.operator, "PUT", path, &windows, &[]).await.status, 200);
    let run = s.post(&s.operator, &format!("{path}/run"), &json!({"vars": {"node": "n1"}})).await;
    let id = run.json()["id"].as_str().unwrap().to_owned();
    let answer = json!({"step": 1, "answer": "choose", "choose": "no", "note": "a\u{2066}b"});
    refused("POST", &format!("/v1/runbook-runs/{id}/answer"), answer, "note").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_about_what_is_not_there_is_refused_before_its_first_step() {
    let s = site().await;
    let mut tried = 0;
    for (book, var, value) in [
        ("gpu-off-bus", "node", "nosuch"),
        ("gpu-off-bus", "node", "No Such"),
        ("job-crash", "job", "999999"),
        ("rack-loss", "incident", "999999"),
    ] {
        let body = json!({"vars": {var: value}, "auto": true});
        for verb in ["run", "dry-run"] {
            let got = s.post(&s.admin, &format!("/v1/runbooks/{book}/{verb}"), &body).await;
            assert_eq!(got.status, 404, "{verb} {book} of {value}: {:?}", got.body);
            let said = got.json()["error"]["message"].as_str().unwrap().to_owned();
            assert_eq!(said, format!("there is no {var} {value}"));
            tried += 1;
        }
    }
    assert_eq!(tried, 8);
    let runs = s.get(&s.admin, "/v1/runbook-runs").await.json();
    assert_eq!(runs["items"], json!([]), "nothing began, nobody was paged");
    let gpu = json!({"vars": {"node": "n1", "gpu": "x"}});
    let got = s.post(&s.admin, "/v1/runbooks/gpu-off-bus/dry-run", &gpu).await;
    assert_eq!(got.status, 422, "{:?}", got.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runbook_is_replaced_and_deleted_only_as_it_was_seen() {
    let s = site().await;
    let path = "/v1/runbooks/empty-it";
    let put = async |text: &str, tag: &str| {
        s.call(&s.operator, "PUT", path, &json!({"text": text}), &[("if-match", tag)]).await
    };
    let set = put(BOOK, "*").await;
    assert_eq!(set.status, 200, "{:?}", set.body);
    let tag = s.get(&s.operator, path).await.header("etag").to_owned();
    assert!(!tag.is_empty());
    let set = put(&BOOK.replace("Words.", "Other words."), &tag).await;
    assert_eq!(set.status, 200, "{:?}", set.body);
    let late = put(BOOK, &tag).await;
    assert_eq!((late.status.as_u16(), late.error().as_str()), (409, "conflict"));
    let delete = async |tag: &str| {
        s.call(&s.operator, "DELETE", path, &Value::Null, &[("if-match", tag)]).await.status
    };
    assert_eq!(delete(&tag).await, 409);
    assert_eq!(delete(set.header("etag")).await, 204);
}

/// A runbook of the site's own in place of the one that serves an open breaker.
const TWO_QUESTIONS: &str = "---
name: breaker-open
title: A breaker is open
topics: [breaker-open]
urgency: today
owner: a test
vars: [breaker?]
---

Words.

## 1. ask: Was it looked at?

```muster
ask: Was $breaker looked at?
choice: yes -> 2
choice: no -> end
```

## 2. ask: Is the cause gone?

```muster
ask: Is the cause of $breaker gone?
choice: yes -> end
choice: no -> give-up
```
";

#[tokio::test(flavor = "multi_thread")]
async fn a_cause_names_the_run_that_is_about_it_and_the_step_that_it_is_at() {
    let s = site().await;
    let text = json!({"text": TWO_QUESTIONS});
    let set = s.call(&s.operator, "PUT", "/v1/runbooks/breaker-open", &text, &[]).await;
    assert_eq!(set.status, 200, "{:?}", set.body);
    let open = json!({"entity": "node:n1", "state": "open", "reason": "a test"});
    assert_eq!(s.post(&s.operator, "/v1/breakers/force", &open).await.status, 200);
    let book = async || {
        let got = s.get(&s.operator, "/v1/causes").await.json();
        let all = got["items"].as_array().unwrap();
        all.iter().find(|c| c["kind"] == "breaker-open").expect("it is listed")["runbook"].clone()
    };
    let first = book().await;
    assert_eq!((&first["step"], &first["run"]), (&json!(1), &Value::Null), "{first}");
    // About this breaker, about any, about another.
    for (vars, about) in [
        (json!({"breaker": "node:n1"}), true),
        (json!({}), true),
        (json!({"breaker": "node:n2"}), false),
    ] {
        let start = json!({"vars": vars});
        let run = s.post(&s.operator, "/v1/runbooks/breaker-open/run", &start).await;
        assert_eq!(run.status, 201, "{vars}: {:?}", run.body);
        let id = run.json()["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/runbook-runs/{id}");
        let yes = json!({"step": 1, "answer": "choose", "choose": "yes"});
        let got = s.post(&s.operator, &format!("{path}/answer"), &yes).await;
        assert_eq!(got.status, 200, "{vars}: {:?}", got.body);
        let (step, run) = if about { (json!(2), json!(id)) } else { (json!(1), Value::Null) };
        let shown = book().await;
        assert_eq!((&shown["step"], &shown["run"]), (&step, &run), "{vars}: {shown}");
        let stop = json!({"reason": "it was tested"});
        let got = s.post(&s.operator, &format!("{path}/stop"), &stop).await;
        assert_eq!(got.status, 200, "{vars}: {:?}", got.body);
    }
}
