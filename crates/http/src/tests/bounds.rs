//! What one caller can make the server do, and what one caller may know of another's nodes.

use super::arrays::when;
use super::{PATIENCE, Site, all_turns, held, patient, request, site, site_with};
use crate::{App, HttpConfig, Rate, paging, router};
use futures::StreamExt as _;
use muster_model::command::{Command, Observed};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::SlotEnd;
use muster_model::tenant::Role;
use muster_model::units::Span;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tower::ServiceExt as _;

fn items(v: &Value) -> &Vec<Value> {
    v["items"].as_array().unwrap_or_else(|| panic!("{v}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_of_many_overlapping_ranges_is_refused_and_makes_nothing() {
    let s = site().await;
    let mut spec = held("sweep");
    for text in [vec!["0-9999"; 40_000].join(","), vec!["0-9999"; 1000].join(",")] {
        spec["array"] = json!(text);
        for path in ["/v1/jobs?dry_run=true", "/v1/jobs"] {
            let got = s.post(&s.user, path, &spec).await;
            assert_eq!((got.status.as_u16(), got.error().as_str()), (422, "invalid"), "{path}");
            let error = &got.json()["error"];
            assert_eq!(error["field"], "array");
            assert!(error["hint"].is_string() && got.body.len() < 1000, "{error}");
        }
    }
    assert!(items(&s.get(&s.user, "/v1/jobs").await.json()).is_empty());
    let got = s.get(&s.user, &format!("/v1/jobs?state={}", ["queued"; 70].join(","))).await;
    assert_eq!((got.status.as_u16(), &got.json()["error"]["field"]), (400, &json!("state")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_in_a_query_has_so_many_words_and_no_more() {
    let s = site().await;
    let metrics: Vec<String> = (0..300).map(|n| format!("m{n}")).collect();
    for (path, field) in [
        (format!("/v1/nodes?state={}", ["retired"; 70].join(",")), "state"),
        (format!("/v1/metrics/history?node=n1&metrics={}", metrics.join(",")), "metrics"),
    ] {
        let got = s.get(&s.admin, &path).await;
        let error = &got.json()["error"];
        assert_eq!((got.status.as_u16(), &error["field"]), (400, &json!(field)), "{error}");
        assert!(error["message"].as_str().unwrap().starts_with("more than "), "{error}");
    }
    // Each of them may be named, and one twice.
    let all = muster_api::node::NODE_STATES.join(",");
    for (state, found) in [(format!("{all},ready"), 1), ("ready".into(), 1), ("retired".into(), 0)]
    {
        let got = s.get(&s.admin, &format!("/v1/nodes?state={state}")).await;
        assert_eq!((got.status.as_u16(), items(&got.json()).len()), (200, found), "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cancelled_jobs_ran_counts_against_what_a_project_may_store() {
    let s = site().await;
    let policy = json!({"policy": {"limits": {"stored_mib_per_project": 1}}});
    assert_eq!(s.call(&s.admin, "PUT", "/v1/policy", &policy, &[]).await.status, 200);
    let mut spec = held("large");
    let env = (0..6).map(|n| (format!("V{n}"), json!("x".repeat(100_000))));
    spec["run"]["env"] = Value::Object(env.collect());
    let made = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(s.post(&s.user, &format!("/v1/jobs/{id}/cancel"), &json!({})).await.status, 200);
    for path in ["/v1/jobs?dry_run=true", "/v1/jobs"] {
        let got = s.post(&s.user, path, &spec).await;
        assert_eq!(got.error(), "policy", "{path}");
        let hint = got.json()["error"]["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains("limits.stored_mib_per_project"), "{hint}");
    }
    assert_eq!(s.post(&s.user, "/v1/jobs", &held("small")).await.status, 201);
    assert_eq!(s.post(&s.other, "/v1/jobs", &spec).await.status, 201, "another project");
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_tasks_are_changed_by_one_token_and_no_more() {
    let task_changes = Rate { per_second: 0, burst: 100 };
    let s = site_with(HttpConfig { task_changes, ..patient() }).await;
    let mut spec = held("sweep");
    spec["array"] = json!("0-69");
    let id = s.post(&s.user, "/v1/jobs", &spec).await.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/jobs/{id}");
    let change = |priority: &str| json!({"priority": priority});
    let got = s.call(&s.user, "PATCH", &path, &change("low"), &[]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let got = s.call(&s.user, "PATCH", &path, &change("normal"), &[]).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (429, "rate_limited"));
    assert!(got.header("retry-after").parse::<u64>().unwrap() > 0);
    let task = format!("{path}_3");
    let seen = s.get(&s.user, &task).await.json();
    assert_eq!(seen["spec"]["priority"], "low", "nothing was changed");
    // One task alone is a request like any other, and so is what others do.
    let got = s.call(&s.user, "PATCH", &task, &change("normal"), &[]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let got = s.call(&s.admin, "PATCH", &path, &change("normal"), &[]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_the_nodes_own_is_no_volume() {
    let s = site().await;
    for from in ["/", "/proc/self/fd/5", "/proc/self/root", "/proc/thread-self/cwd", "/dev", "/run"]
    {
        let mut spec = held("curious");
        spec["volumes"] = json!([{"from": from, "at": "/mnt/x"}]);
        let got = s.post(&s.user, "/v1/jobs", &spec).await;
        let error = &got.json()["error"];
        let field = json!("volumes[0].from");
        assert_eq!((got.status.as_u16(), &error["field"]), (422, &field), "{from}: {error}");
    }
    assert!(items(&s.get(&s.user, "/v1/jobs").await.json()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_terminal_would_obey_is_refused_with_the_field() {
    let s = site().await;
    let evil = "/mnt/\x1b[2J\u{9b}x";
    for (field, part) in [
        ("tags.team", json!({"tags": {"team": evil}})),
        ("checkpoint.dir", json!({"checkpoint": {"dir": evil}})),
        ("volumes[0].from", json!({"volumes": [{"from": evil, "at": "/data"}]})),
        ("volumes[0].at", json!({"volumes": [{"from": "/data", "at": evil}]})),
        ("run.workdir", json!({"run": {"command": ["true"], "workdir": evil}})),
        ("run.image", json!({"run": {"command": ["true"], "image": evil}})),
        ("run.command[0]", json!({"run": {"command": [evil]}})),
    ] {
        let mut spec = held("evil");
        for (k, v) in part.as_object().unwrap() {
            spec[k] = v.clone();
        }
        let got = s.post(&s.user, "/v1/jobs", &spec).await;
        let error = &got.json()["error"];
        assert_eq!((got.status.as_u16(), &error["field"]), (422, &json!(field)), "{error}");
        assert!(!error.to_string().contains("\\u001b"), "{error}");
    }
    assert!(items(&s.get(&s.user, "/v1/jobs").await.json()).is_empty());
    let got = s.post(&s.operator, "/v1/automation/stop", &json!({"reason": evil})).await;
    assert_eq!((got.status.as_u16(), &got.json()["error"]["field"]), (422, &json!("reason")));
    let got = s.post(&s.admin, "/v1/projects", &json!({"name": "p", "description": "a\x07"})).await;
    assert_eq!((got.status.as_u16(), &got.json()["error"]["field"]), (422, &json!("description")));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_turns_what_is_around_it_is_refused_and_never_sent_back_raw() {
    let s = site().await;
    let turned = "fan\u{202e}txt";
    let over = json!({"domain": {"level": "rack", "path": turned}});
    let limits = json!([{"sku": turned, "nominal": 1}]);
    let objective =
        |owner: &str| json!({"name": "o", "sli": "goodput", "target": "90%", "owner": owner});
    for (method, path, body, field) in [
        ("PUT", "/v1/silences/q", json!({"match": {"owner": turned}, "length": "1h"}), "match"),
        (
            "PUT",
            "/v1/reservations/r",
            json!({"over": over, "start": "2999-01-01T00:00:00Z", "length": "1h"}),
            "over",
        ),
        ("PUT", "/v1/policy", json!({"policy": {"power": {"feeds": {turned: 1000}}}}), "power"),
        (
            "PUT",
            "/v1/quotas",
            json!({"quotas": {"tree": [{"name": "lab", "gpus": limits}]}}),
            "sku",
        ),
        ("PUT", "/v1/objectives/o", objective(turned), "owner"),
        (
            "POST",
            "/v1/breakers/force",
            json!({"entity": format!("image:{turned}"), "state": "open"}),
            "entity",
        ),
        // What is no entity at all is shown in the message.
        ("POST", "/v1/breakers/force", json!({"entity": turned, "state": "open"}), "entity"),
    ] {
        let got = s.call(&s.admin, method, path, &body, &[]).await;
        let error = &got.json()["error"];
        let named = error["field"].as_str().unwrap_or_default();
        assert!(got.status == 422 && named.ends_with(field), "{path}: {error}");
        assert!(!error.to_string().contains('\u{202e}'), "{error}");
    }
    assert_eq!(
        s.call(&s.admin, "PUT", "/v1/objectives/o", &objective("ann"), &[]).await.status,
        200
    );
}

/// A job with nearly as much text as one may have.
fn wordy(name: &str) -> Value {
    let path = |n: usize| format!("/{n:02}{}", "x".repeat(1000));
    let volumes = (0..30).map(|n| json!({"from": path(n), "at": path(n)}));
    let mut spec = held(name);
    spec["volumes"] = volumes.collect();
    spec
}

async fn pages(s: &Site, path: &str, next: &str) -> (usize, Vec<Value>) {
    let (mut all, mut count, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let got = s.get(&s.user, &format!("{path}?limit=1000{cursor}")).await;
        assert_eq!(got.status, 200);
        assert!(got.body.len() < paging::PAGE_BYTES + 1024, "{} bytes", got.body.len());
        let page = got.json();
        assert!(!items(&page).is_empty(), "a page that holds nothing leads nowhere");
        all.extend(items(&page).iter().cloned());
        count += 1;
        let Some(c) = page["cursor"].as_str() else { return (count, all) };
        cursor = format!("&{next}={c}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_bounded_in_bytes_and_the_next_goes_on_behind_it() {
    let s = site().await;
    for n in 0..80 {
        let got = s.post(&s.user, "/v1/jobs", &wordy(&format!("j{n}"))).await;
        assert_eq!(got.status, 201, "{:?}", got.body);
    }
    let (count, jobs) = pages(&s, "/v1/jobs", "cursor").await;
    let ids: Vec<u64> = jobs.iter().map(|j| j["number"].as_u64().unwrap()).collect();
    assert!(count > 1 && ids.is_sorted_by(|a, b| a > b), "{ids:?}");
    assert_eq!(ids.len(), 80);
    let (count, events) = pages(&s, "/v1/events", "after").await;
    let seen: BTreeSet<&str> = events.iter().map(|e| e["cursor"].as_str().unwrap()).collect();
    let made = events.iter().filter(|e| e["kind"] == "job_submitted").count();
    assert!(count > 1 && seen.len() == events.len() && made == 80, "{count} {made}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_shows_its_own_index_and_not_the_whole_array() {
    let s = site().await;
    let mut spec = held("sweep");
    spec["array"] = json!("5-7,1");
    let made = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let id = made["id"].as_str().unwrap();
    let list = s.get(&s.user, "/v1/jobs").await.json();
    let shown: Vec<&Value> = items(&list).iter().map(|j| &j["spec"]["array"]).collect();
    assert_eq!(shown, ["7", "6", "5", "1"]);
    let one = s.get(&s.user, &format!("/v1/jobs/{id}_6")).await.json();
    assert_eq!((&one["spec"]["array"], &one["array"]["count"]), (&json!("6"), &json!(4)));
    // What was written is where everything is.
    let log = s.get(&s.user, "/v1/events").await.json();
    let submitted = items(&log).iter().find(|e| e["kind"] == "job_submitted").unwrap();
    assert!(submitted["data"].to_string().contains("5-7,1"), "{submitted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_got_503_learns_by_its_key_what_became_of_the_write() {
    let s = site().await;
    // The same server with little patience gives up while the write is under way.
    let config = HttpConfig { request_timeout: Duration::from_millis(50), ..patient() };
    let lock = rusqlite::Connection::open(s._dir.path().join("muster.db")).unwrap();
    lock.busy_timeout(PATIENCE).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let app = App::new(s.brain.clone(), s.app.agents().clone(), s.logs.clone(), config);
    let key = [("idempotency-key", "k1")];
    let mut spec = held("sweep");
    spec["array"] = json!("0-9");
    let r = request(&s.user, "POST", "/v1/jobs", &spec, &key);
    let hasty = router(app).oneshot(r).await.unwrap();
    assert_eq!(hasty.status(), 503);
    assert_eq!(hasty.headers()["retry-after"], "1");
    lock.execute_batch("ROLLBACK").unwrap();
    // A store that waited for too long meanwhile takes writes again after a moment.
    let submitted = async {
        loop {
            let got = s.call(&s.user, "POST", "/v1/jobs", &spec, &key).await;
            if got.status != 503 {
                return got;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let first =
        tokio::time::timeout(PATIENCE, submitted).await.expect("the store takes writes again");
    let again = s.call(&s.user, "POST", "/v1/jobs", &spec, &key).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 201), "{:?}", first.body);
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_eq!(items(&s.get(&s.user, "/v1/jobs").await.json()).len(), 10, "it is there once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_asks_and_takes_too_long_is_not_called_a_write() {
    let mut s = site().await;
    let config = HttpConfig { request_timeout: Duration::ZERO, ..patient() };
    s.app = App::new(s.brain.clone(), s.app.agents().clone(), s.logs.clone(), config);
    s.router = router(s.app.clone());
    // Large bodies wait for a turn, and none comes.
    let _turns = all_turns(&s, &s.operator);
    let large = held(&"x".repeat(100 << 10));
    let dry = "it changes nothing";
    for (path, means) in [
        ("/v1/jobs", "a write may still happen"),
        ("/v1/jobs?dry_run=true", dry),
        ("/v1/whatif", dry),
    ] {
        let got = s.post(&s.operator, path, &large).await;
        assert_eq!(got.status, 503, "{path}: {:?}", got.body);
        let hint = got.json()["error"]["hint"].clone();
        assert!(hint.as_str().unwrap_or_default().starts_with(means), "{path}: {hint}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_says_that_its_type_is_what_it_says() {
    let tls = site_with(HttpConfig { https: true, ..patient() }).await;
    let plain = site().await;
    for (s, hsts) in [(&tls, "max-age=31536000"), (&plain, "")] {
        for path in ["/v1/jobs", "/v1/jobs/999", "/nowhere", "/healthz", "/openapi.json", "/"] {
            let got = s.get(&s.user, path).await;
            assert_eq!(got.header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(got.header("strict-transport-security"), hsts, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_on_the_way_keeps_what_the_api_says() {
    let s = site().await;
    for (path, status) in [("/v1/jobs", 200_u16), ("/v1/jobs/999", 404), ("/v1/nowhere", 404)] {
        let got = s.get(&s.user, path).await;
        assert_eq!(
            (got.status.as_u16(), got.header("cache-control")),
            (status, "private, no-store")
        );
    }
    let stranger = s.get("", "/v1/jobs").await;
    assert_eq!(stranger.status, 401);
    assert_eq!(stranger.header("cache-control"), "private, no-store");
    assert_ne!(s.get("", "/healthz").await.header("cache-control"), "private, no-store");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_sees_of_nodes_what_it_needs_and_figures_of_its_own_gpus_only() {
    let s = site().await;
    for path in ["/v1/nodes/n1", "/v1/nodes"] {
        let (whole, part) =
            (s.get(&s.admin, path).await.json(), s.get(&s.viewer, path).await.json());
        let node = |v: &Value| if path == "/v1/nodes" { v["items"][0].clone() } else { v.clone() };
        let (whole, part) = (node(&whole), node(&part));
        assert_ne!(whole["inventory"]["gpus"][0]["uuid"], "");
        assert_eq!(part["inventory"]["gpus"][0]["uuid"], "");
        assert_eq!(part["inventory"]["gpus"].as_array().unwrap().len(), 8);
        for same in ["name", "state", "sku", "gpus_total", "cpus_total", "memory_total"] {
            assert_eq!(whole[same], part[same], "{same}");
        }
        for none in ["address", "host"] {
            assert_eq!(part[none], "", "{none}");
        }
        assert_eq!((&part["agent"], &part["inventory"]["kernel"]), (&Value::Null, &json!("")));
    }
    let figures = "/v1/nodes/n1/telemetry";
    assert_eq!(s.get(&s.admin, figures).await.status, 200);
    let got = s.get(&s.viewer, figures).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (403, "not_allowed"));
    let work = json!({"name": "w", "gang": {"gpus": 4}, "run": {"command": ["true"]}});
    assert_eq!(s.post(&s.user, "/v1/jobs", &work).await.status, 201);
    let placed = async {
        while s.get(&s.viewer, figures).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, placed).await.expect("it holds GPUs there now");
    assert_eq!(s.get(&s.other, figures).await.status, 403, "another project holds nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_the_quotas_is_of_the_part_that_is_shown() {
    let s = site().await;
    let set = async |beta: u64| {
        let tree = json!([
            {"name": "a", "projects": ["alpha"]},
            {"name": "b", "projects": ["beta"], "shares": beta},
        ]);
        let body = json!({"quotas": {"tree": tree}});
        let got = s.call(&s.admin, "PUT", "/v1/quotas", &body, &[]).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
    };
    let tag = async |token: &str| {
        let got = s.get(token, "/v1/quotas").await;
        assert_eq!(got.header("etag"), format!("\"{}\"", got.json()["version"]));
        got.header("etag").to_owned()
    };
    set(1).await;
    let (all, alpha, beta) = (tag(&s.admin).await, tag(&s.user).await, tag(&s.other).await);
    set(2).await;
    assert_eq!(tag(&s.user).await, alpha, "nothing of it has changed");
    assert_ne!((tag(&s.admin).await, tag(&s.other).await), (all, beta));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expires_ends_the_output_it_followed() {
    let s = site().await;
    let id = s.held_job(&s.user).await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/jobs/{id}/logs?follow=true");
    // On a slow machine a token may have expired before it is shown: then the next lasts longer.
    let mut ttl = Span::secs(1);
    let (brief, r) = loop {
        let name = format!("brief-{ttl}");
        let brief = s.token(&name, Role::Viewer, Some("alpha"), Some(ttl)).await;
        let r = s.router.clone().oneshot(request(&brief, "GET", &path, &Value::Null, &[]));
        let r = r.await.unwrap();
        if r.status() == 200 {
            break (brief, r);
        }
        assert_eq!(r.status(), 401);
        ttl = Span(ttl.0 * 2);
    };
    let mut output = r.into_body().into_data_stream();
    let ended = async { while output.next().await.is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream ends with the token");
    let refused = async {
        while s.get(&brief, "/v1/whoami").await.status != 401 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("the token has expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_project_that_takes_the_place_of_ones_own_has_no_number() {
    let s = site().await;
    let work = |tier: &str| {
        let run = json!({"command": ["true"]});
        json!({"name": "w", "gang": {"gpus": 8}, "tier": tier, "run": run})
    };
    let mine = s.post(&s.user, "/v1/jobs", &work("spot")).await.json();
    let id = mine["id"].as_str().unwrap();
    when(&s, id, |j| j["state"] == "starting").await;
    let key = AttemptKey { job: JobId(mine["number"].as_u64().unwrap()), attempt: 1 };
    let report = async |observed| {
        let node = "n1".parse().unwrap();
        s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
    };
    report(Observed::Running).await;
    let theirs = s.post(&s.other, "/v1/jobs", &work("on-demand")).await.json();
    let other = theirs["number"].as_u64().unwrap();
    let stopping = when(&s, id, |j| j["attempt"]["stop"].is_object()).await;
    let stop = &stopping["attempt"]["stop"];
    assert_eq!(stop["message"], "spot work, evicted for a job of another project", "{stop}");
    assert_eq!((&stop["reason"]["why"], stop["reason"].get("by")), (&json!("preempted"), None));
    assert_eq!(stopping["reason"], stop["message"]);
    let path = format!("/v1/jobs/{id}");
    let seen = s.get(&s.operator, &path).await.json();
    assert_eq!(seen["attempt"]["stop"]["reason"]["by"], other, "operators see it");
    report(Observed::Ended(SlotEnd::Stopped)).await;
    let waits = when(&s, id, |j| j["state"] == "queued").await;
    assert!(!waits.to_string().contains(&format!("job {other}")), "{waits}");
    for (token, seen) in [(&s.user, false), (&s.operator, true)] {
        let log = s.get(token, "/v1/events?limit=1000&kind=stop_ordered").await.json();
        let stop = &log["items"][0]["data"]["reason"];
        assert_eq!((&stop["why"], stop.get("by").is_some()), (&json!("preempted"), seen), "{log}");
    }
    // The next attempt was not stopped: why the first one was is said of that one.
    let key = AttemptKey { job: JobId(other), attempt: 1 };
    let placed = async {
        while s.brain.read(|st| st.jobs[&key.job].attempt.is_none()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, placed).await.expect("it takes the node");
    for observed in [Observed::Running, Observed::Ended(SlotEnd::Ok)] {
        let node = "n1".parse().unwrap();
        s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
    }
    let again = when(&s, id, |j| j["state"] == "starting").await;
    assert_eq!((&again["reason"], &again["attempts"]), (&Value::Null, &json!(2)), "{again}");
    assert!(again["past"][0]["reason"].is_string(), "{again}");
}
