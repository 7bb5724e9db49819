//! Limits, versions, keys, pages: what every caller may rely on.

use super::{PATIENCE, Site, held, id_of, patient, request, site, site_with};
use crate::{HttpConfig, Rate};
use axum::body::Body;
use axum::http::Request;
use muster_model::tenant::Role;
use muster_model::units::Span;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_is_refused_whether_it_says_so_or_not() {
    let s = site().await;
    let post = |body: Body, length: Option<usize>| {
        let mut r = Request::post("/v1/jobs")
            .header("authorization", format!("Bearer {}", s.user))
            .header("content-type", "application/json");
        if let Some(n) = length {
            r = r.header("content-length", n);
        }
        r.body(body).unwrap()
    };
    let ten = 10 << 20;
    let got = s.send(post(Body::from(vec![b' '; ten]), Some(ten))).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (413, "too_large"));
    let pieces = (0..160).map(|_| Ok::<_, std::io::Error>(vec![b' '; 65_536]));
    let got = s.send(post(Body::from_stream(futures::stream::iter(pieces)), None)).await;
    assert_eq!(got.status, 413);
    let mut fits = held("a").to_string();
    fits.push_str(&" ".repeat((1 << 20) - fits.len()));
    assert_eq!(s.send(post(Body::from(fits), None)).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_understood_is_answered_in_one_shape() {
    let s = site().await;
    for (method, path, status) in [
        ("GET", "/nowhere", 404),
        ("PATCH", "/v1/jobs", 405),
        ("GET", "/v1/jobs/abc", 400),
        ("GET", "/v1/jobs/999999", 404),
        ("GET", "/v1/jobs/%ff", 400),
        ("GET", "/v1/nodes/%00", 400),
        ("GET", "/v1/nodes/none", 404),
        ("GET", "/v1/jobs?limit=0", 400),
        ("GET", "/v1/jobs?limit=1001", 400),
        ("GET", "/v1/jobs?limit=x", 400),
        ("GET", "/v1/jobs?limit=1&limit=2", 400),
        ("GET", "/v1/jobs?state=sleeping", 400),
        ("GET", "/v1/jobs?stat=queued", 400),
        ("GET", "/v1/jobs?cursor=zzz", 400),
        ("GET", "/v1/nodes?cursor=zzz", 400),
        ("GET", "/v1/nodes?state=odd", 400),
        ("GET", "/v1/events?after=x", 400),
        ("GET", "/v1/findings?cursor=zzz", 400),
        ("GET", "/v1/findings?kind=gremlins", 400),
        ("GET", "/v1/findings?severity=awful", 400),
        ("GET", "/v1/findings?open=maybe", 400),
        ("GET", "/v1/findings?node=%00", 400),
        ("GET", "/v1/findings/x", 400),
        ("GET", "/v1/findings/999999", 404),
        ("GET", "/v1/incidents/999999", 404),
        ("GET", "/v1/incidents?limit=0", 400),
        ("GET", "/v1/remediations/999999", 404),
        ("GET", "/v1/remediations?node=%00", 400),
        ("GET", "/v1/nodes/none/timeline", 404),
        ("GET", "/v1/nodes/n1/timeline?limit=1001", 400),
        ("GET", "/v1/events?after=99999999", 400),
        ("GET", "/v1/secrets?project=-", 400),
        ("GET", "/v1/secrets?project=nope", 404),
        ("GET", "/v1/jobs?project=nope", 404),
        ("GET", "/v1/nodes?state=ready,odd", 400),
    ] {
        let got = s.call(&s.admin, method, path, &Value::Null, &[]).await;
        assert_eq!(got.status.as_u16(), status, "{method} {path}: {:?}", got.body);
        got.error();
        if status == 405 {
            assert!(got.header("allow").contains("GET"));
        }
    }
    for (body, media, status) in [
        ("{", "application/json", 400),
        ("", "application/json", 400),
        ("{\"nope\": 1}", "application/json", 422),
        ("{\"gang\": {\"nodes\": -1}}", "application/json", 422),
        ("{\"gang\": {\"nodes\": 99999999999}}", "application/json", 422),
        ("[]", "application/json", 422),
        ("{}", "text/plain", 415),
    ] {
        let r = Request::post("/v1/jobs")
            .header("authorization", format!("Bearer {}", s.user))
            .header("content-type", media);
        let got = s.send(r.body(Body::from(body)).unwrap()).await;
        assert_eq!(got.status.as_u16(), status, "{body}: {:?}", got.body);
        got.error();
    }
    let got = s.call(&s.user, "POST", "/v1/jobs", &held("a"), &[("idempotency-key", "a b")]).await;
    assert_eq!(got.status, 400);
    let got = s.post(&s.user, "/v1/jobs", &json!({"name": "a", "gang": {"nodes": -1}})).await;
    assert_eq!(got.json()["error"]["field"], "gang.nodes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_encoded_is_refused_and_not_parsed_as_if_it_were_plain() {
    let s = site().await;
    let send = async |path: &str, body: &Value, coding: &str| {
        s.call(&s.user, "POST", path, body, &[("content-encoding", coding)]).await
    };
    for coding in ["gzip", "br, identity", "zstd"] {
        let got = send("/v1/jobs", &held("a"), coding).await;
        let error = &got.json()["error"];
        assert_eq!((got.status.as_u16(), &error["code"]), (415, &json!("unsupported_media_type")));
        assert_eq!(error["field"], "content-encoding", "{coding}: {error}");
    }
    assert_eq!(s.get(&s.user, "/v1/jobs").await.json()["items"], json!([]));
    let made = send("/v1/jobs", &held("a"), "identity").await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let cancel = format!("/v1/jobs/{}/cancel", made.json()["id"].as_str().unwrap());
    assert_eq!(send(&cancel, &json!({}), "gzip").await.status, 415, "also where none is needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_write_is_done_once_and_another_body_is_refused() {
    let s = site().await;
    let key = [("idempotency-key", "k1")];
    let first = s.call(&s.user, "POST", "/v1/jobs", &held("a"), &key).await;
    let again = s.call(&s.user, "POST", "/v1/jobs", &held("a"), &key).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 201));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let other = s.call(&s.user, "POST", "/v1/jobs", &held("b"), &key).await;
    assert_eq!((other.status.as_u16(), other.error().as_str()), (409, "conflict"));
    let somebody = s.call(&s.other, "POST", "/v1/jobs", &held("a"), &key).await;
    assert_ne!(somebody.json()["id"], first.json()["id"], "keys are each caller's own");
    assert_eq!(s.get(&s.user, "/v1/jobs").await.json()["items"].as_array().unwrap().len(), 1);
    let put = |v: &str| json!({"value": v});
    for (value, status) in [("v1", 200), ("v1", 200), ("v2", 409)] {
        let got = s
            .call(&s.user, "PUT", "/v1/secrets/w", &put(value), &[("idempotency-key", "k2")])
            .await;
        assert_eq!(got.status.as_u16(), status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_a_version_that_has_moved_is_refused() {
    let s = site().await;
    let job = s.held_job(&s.user).await;
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let seen = s.get(&s.user, &path).await;
    let tag = seen.header("etag").to_owned();
    assert_eq!(tag, format!("\"{}\"", job["version"]));
    let steer = |verb: &str| format!("{path}/{verb}");
    let got = s.call(&s.user, "POST", &steer("release"), &Value::Null, &[("if-match", &tag)]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    assert_ne!(got.header("etag"), tag);
    let got = s.call(&s.user, "POST", &steer("cancel"), &Value::Null, &[("if-match", &tag)]).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (409, "conflict"));
    let got = s.call(&s.user, "POST", &steer("cancel"), &Value::Null, &[("if-match", "*")]).await;
    assert_eq!(got.status, 200);

    let t = s.get(&s.admin, "/v1/topology").await;
    let tag = t.header("etag").to_owned();
    let place = json!({"region": "r", "cluster": "c", "spine": "s", "leaf": "l", "rack": "k", "nvlink": "n", "feed": "f"});
    let new = json!({"nodes": {"n1": place}});
    let got = s.call(&s.admin, "PUT", "/v1/topology", &new, &[("if-match", &tag)]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let got = s.call(&s.admin, "PUT", "/v1/topology", &new, &[("if-match", &tag)]).await;
    assert_eq!(got.status, 409);
    let back = s.get(&s.admin, "/v1/topology").await.json();
    assert_eq!(
        s.call(&s.admin, "PUT", "/v1/topology", &back, &[]).await.status,
        200,
        "what was read can be sent back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_write_is_not_refused_for_the_version_that_it_moved_itself() {
    let s = site().await;
    let place = json!({"region": "r", "cluster": "c", "spine": "s", "leaf": "l", "rack": "k", "nvlink": "n", "feed": "f"});
    let night = json!({"projects": ["beta"], "over": {"nodes": ["n1"]}, "start": "2997-01-01T00:00:00Z", "length": "1h"});
    let got = s.call(&s.operator, "PUT", "/v1/reservations/night", &night, &[]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let policy = json!({"policy": {"limits": {"stored_mib_per_project": 7}}});
    let rows = [
        ("PUT", "/v1/topology", json!({"nodes": {"n1": place}}), 200),
        ("PUT", "/v1/policy", policy, 200),
        ("DELETE", "/v1/reservations/night", Value::Null, 204),
    ];
    for (method, path, body, status) in rows {
        let tag = s.get(&s.admin, path).await.header("etag").to_owned();
        assert!(!tag.is_empty(), "{path}");
        let send = async |key: &str| {
            let headers = [("if-match", tag.as_str()), ("idempotency-key", key)];
            s.call(&s.admin, method, path, &body, &headers).await
        };
        let key = format!("first{path}");
        let first = send(&key).await;
        assert_eq!(first.status.as_u16(), status, "{path}: {:?}", first.body);
        let again = send(&key).await;
        assert_eq!(again.status.as_u16(), status, "{path}: {:?}", again.body);
        assert_eq!((again.header("etag"), &again.body), (first.header("etag"), &first.body));
        // Another request has seen an old version.
        assert_eq!(send("other").await.status, 409, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_objectives_own_version_guards_its_change_and_no_others_changes_it() {
    let s = site().await;
    let put = async |name: &str, target: &str, tag: &str| {
        let body = json!({"name": name, "sli": "goodput", "target": target, "scope": {"project": "alpha"}});
        let path = format!("/v1/objectives/{name}");
        s.call(&s.admin, "PUT", &path, &body, &[("if-match", tag)]).await
    };
    let shown = async |token: &str| {
        let got = s.get(token, "/v1/slos/one").await;
        assert_eq!(got.header("etag"), format!("\"{}\"", got.json()["version"]));
        got.header("etag").to_owned()
    };
    assert_eq!(put("one", "99%", "*").await.status, 200);
    let (tag, own) = (shown(&s.admin).await, shown(&s.user).await);
    assert_eq!(put("two", "99%", "*").await.status, 200);
    assert_eq!((shown(&s.admin).await, shown(&s.user).await), (tag.clone(), own.clone()));
    let all = s.get(&s.admin, "/v1/objectives").await.header("etag").to_owned();
    let got = put("one", "99.1%", &tag).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    assert_eq!(got.header("etag"), shown(&s.admin).await);
    assert_ne!(shown(&s.user).await, own);
    for old in [&tag, &all] {
        let got = put("one", "99.2%", old).await;
        assert_eq!((got.status.as_u16(), got.error().as_str()), (409, "conflict"));
    }
    let all = s.get(&s.admin, "/v1/objectives").await.header("etag").to_owned();
    assert_eq!(put("one", "99.2%", &all).await.status, 200, "the version of all is for one too");
    let tag = shown(&s.admin).await;
    let path = "/v1/objectives/one";
    let got = s.call(&s.admin, "DELETE", path, &Value::Null, &[("if-match", &tag)]).await;
    assert_eq!(got.status, 204, "{:?}", got.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_versions_say_nothing_of_others_and_guard_its_writes() {
    let s = site().await;
    let job = s.held_job(&s.user).await;
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let raw = s.get(&s.operator, &path).await;
    for at in [path.clone(), format!("{path}/array"), format!("{path}/report")] {
        let (mine, all) = (s.get(&s.user, &at).await, s.get(&s.operator, &at).await);
        assert_ne!(mine.json()["version"], all.json()["version"], "{at}");
        assert!(
            mine.header("etag").is_empty() || mine.header("etag") != all.header("etag"),
            "{at}"
        );
    }
    for at in ["/v1/jobs", "/v1/nodes", "/v1/projects"] {
        let (mine, all) = (s.get(&s.user, at).await.json(), s.get(&s.operator, at).await.json());
        for item in mine["items"].as_array().unwrap() {
            let same = |o: &&Value| o["id"] == item["id"];
            let theirs = all["items"].as_array().unwrap().iter().find(same).unwrap();
            assert_ne!(item["version"], theirs["version"], "{at}: {item}");
        }
    }
    // Every kind of caller writes with the version that it was shown, and with no other's.
    let limit = async |token: &str, limit: &str, tag: &str| {
        s.call(token, "PATCH", &path, &json!({"time_limit": limit}), &[("if-match", tag)]).await
    };
    let mine = s.get(&s.user, &path).await.header("etag").to_owned();
    assert_eq!(mine, format!("\"{}\"", job["version"]), "as the submission said");
    let wrong = limit(&s.user, "1h", raw.header("etag")).await;
    assert_eq!((wrong.status.as_u16(), wrong.error().as_str()), (409, "conflict"));
    let text = wrong.json()["error"]["message"].to_string();
    assert!(!text.contains(|c: char| c.is_ascii_digit()), "{text}");
    assert_eq!(limit(&s.operator, "1h", &mine).await.status, 409);
    let first = limit(&s.user, "2h", &mine).await;
    assert_eq!(first.status, 200, "{:?}", first.body);
    assert_eq!(limit(&s.user, "3h", &mine).await.status, 409);
    assert_eq!(limit(&s.user, "3h", first.header("etag")).await.status, 200);
    let now = s.get(&s.operator, &path).await;
    assert_eq!(limit(&s.operator, "4h", now.header("etag")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_places_of_twelve_thousand_nodes_fit_into_one_request() {
    let s = site().await;
    let place = |n: usize| {
        json!({"region": "r1", "cluster": "c1", "spine": format!("spine-{}", n / 512),
               "leaf": format!("leaf-{}", n / 32), "rack": format!("rack-{}", n / 4),
               "nvlink": format!("node-{n:05}"), "feed": format!("feed-{}", n / 64)})
    };
    let all = (0..12_500).map(|n| (format!("node-{n:05}"), place(n)));
    let nodes: serde_json::Map<String, Value> = all.collect();
    let got = s.call(&s.admin, "PUT", "/v1/topology", &json!({"nodes": nodes}), &[]).await;
    assert_eq!(got.status, 200);
    let back = s.get(&s.admin, "/v1/topology").await.json();
    assert_eq!(back["nodes"].as_object().map(serde_json::Map::len), Some(12_500));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_give_every_job_once_newest_first() {
    let s = site().await;
    for i in 0..7 {
        assert_eq!(s.post(&s.user, "/v1/jobs", &held(&format!("j{i}"))).await.status, 201);
    }
    s.held_job(&s.other).await;
    let (mut ids, mut path) = (Vec::new(), "/v1/jobs?limit=3".to_owned());
    loop {
        let page = s.get(&s.user, &path).await.json();
        ids.extend(page["items"].as_array().unwrap().iter().map(|j| j["number"].as_u64().unwrap()));
        let Some(c) = page["cursor"].as_str() else { break };
        path = format!("/v1/jobs?limit=3&cursor={c}");
    }
    assert_eq!(ids.len(), 7, "only the project's own: {ids:?}");
    assert!(ids.is_sorted_by(|a, b| a > b));
    let named = s.get(&s.admin, "/v1/jobs?name=j3&state=active").await.json();
    assert_eq!(named["items"].as_array().unwrap().len(), 1);
    let count =
        async |path: &str| s.get(&s.admin, path).await.json()["items"].as_array().unwrap().len();
    assert_eq!(count("/v1/jobs?state=held").await, 8, "as lists print it");
    assert_eq!(count("/v1/jobs?state=held,running&project=beta").await, 1);
    let first = format!("/v1/jobs/{}/release", ids[6]);
    assert_eq!(s.post(&s.user, &first, &Value::Null).await.status, 200);
    assert_eq!(count("/v1/jobs?state=held").await, 7);
    assert_eq!(count("/v1/nodes?state=ready,lost").await, 1);
    assert_eq!(count("/v1/nodes?state=lost,drained").await, 0);
    assert_eq!(s.get(&s.user, "/v1/jobs?project=beta").await.status, 403);
    assert_eq!(
        s.get(&s.admin, "/v1/jobs?project=beta").await.json()["items"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_arrays_plain_number_steers_all_of_it() {
    let s = site().await;
    let mut spec = held("sweep");
    spec["array"] = json!("0-3");
    let made = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let made = made.json();
    assert_eq!((&made["kind"], &made["count"]), (&json!("JobArray"), &json!(4)));
    let id = made["id"].as_str().unwrap();
    let one = s.get(&s.user, &format!("/v1/jobs/{id}_2")).await.json();
    assert_eq!(one["array"]["index"], 2);
    assert_eq!(s.get(&s.user, &format!("/v1/jobs/{id}_9")).await.status, 404);
    assert_eq!(s.post(&s.user, &format!("/v1/jobs/{id}_2/cancel"), &Value::Null).await.status, 200);
    let count = async |state: &str| {
        s.get(&s.user, &format!("/v1/jobs?state={state}")).await.json()["items"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((count("cancelled").await, count("queued").await), (1, 3));
    let got = s
        .call(
            &s.user,
            "POST",
            &format!("/v1/jobs/{id}/cancel"),
            &Value::Null,
            &[("idempotency-key", "all")],
        )
        .await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    assert_eq!(count("cancelled").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_requests_are_asked_to_wait() {
    // Never filled again, however slow this machine is.
    let config = HttpConfig {
        rate: Rate { per_second: 0, burst: 3 },
        wrong_tokens: Rate { per_second: 0, burst: 2 },
        ..patient()
    };
    let s = site_with(config).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let got = s.get(&s.admin, "/v1/whoami").await;
        statuses.push(got.status.as_u16());
        if got.status == 429 {
            assert_eq!(got.error(), "rate_limited");
            assert!(got.header("retry-after").parse::<u64>().unwrap() >= 1);
        }
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    assert_eq!(s.get(&s.operator, "/v1/whoami").await.status, 200, "others are not held up");
    let wrong = format!("mst_{}_{}", "a".repeat(10), "b".repeat(32));
    let mut wrongs = Vec::new();
    for _ in 0..4 {
        wrongs.push(s.get(&wrong, "/v1/whoami").await.status.as_u16());
    }
    assert_eq!(wrongs, [401, 401, 429, 429]);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_and_revoked_tokens_are_refused() {
    let s = site().await;
    let short = s.token("short", Role::User, None, Some(Span(1))).await;
    // By the server's clock, which may be set back a little while this machine's is corrected.
    let expired = async {
        loop {
            let got = s.get(&short, "/v1/whoami").await;
            if got.status == 401 {
                return got;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let got = tokio::time::timeout(PATIENCE, expired).await.expect("it expires");
    assert!(got.json()["error"]["message"].as_str().unwrap().contains("expired"));
    assert!(got.header("www-authenticate").starts_with("Bearer"));
    let made = s
        .post(&s.admin, "/v1/tokens", &json!({"name": "ci", "role": "user", "project": "alpha"}))
        .await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let made = made.json();
    let secret = made["secret"].as_str().unwrap();
    assert_eq!(s.get(secret, "/v1/whoami").await.json()["project"], "alpha");
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        s.call(&s.admin, "DELETE", &format!("/v1/tokens/{id}"), &Value::Null, &[]).await.status,
        204
    );
    assert_eq!(s.get(secret, "/v1/whoami").await.status, 401);
    for bad in ["mst_x", "nothing", "mjt_a_b_c", "é"] {
        let r =
            Request::get("/v1/whoami").header("authorization", format!("Bearer {bad}").as_bytes());
        assert_eq!(s.send(r.body(Body::empty()).unwrap()).await.status, 401, "{bad}");
    }
    let all = s.get(&s.admin, "/v1/tokens").await;
    assert!(!String::from_utf8_lossy(&all.body).contains("hash"));
}

/// A token as the list has it.
async fn listed(s: &Site, id: &str) -> Value {
    let all = s.get(&s.admin, "/v1/tokens").await.json();
    let items = all["items"].as_array().unwrap();
    items.iter().find(|t| t["id"] == id).cloned().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_shows_when_it_was_last_used_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        || HttpConfig { last_used_file: Some(dir.path().join("token-use.json")), ..patient() };
    let s = site_with(config()).await;
    let id = id_of(&s.user);
    let unused = listed(&s, &id).await;
    assert_eq!(unused["last_used"], Value::Null);
    assert_eq!(unused["not_used_since"], unused["created_at"], "never");
    let join = listed(&s, "t").await;
    assert_eq!((&join["last_used"], &join["not_used_since"]), (&Value::Null, &Value::Null));
    assert_eq!(s.get(&s.user, "/v1/whoami").await.status, 200);
    let used = listed(&s, &id).await;
    assert!(used["last_used"].is_string() && used["not_used_since"].is_null(), "{used}");
    s.app.last_used().flush(&s.brain).unwrap();
    let s = s.with_config(config());
    assert_eq!(listed(&s, &id).await["last_used"], used["last_used"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_in_and_never_comes_out() {
    let s = site().await;
    let value = "correct-horse-battery";
    let got = s
        .call(
            &s.user,
            "PUT",
            "/v1/secrets/wandb",
            &json!({"value": value}),
            &[("idempotency-key", "s")],
        )
        .await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let stored = s.brain.secret(&"alpha".parse().unwrap(), "wandb").await.unwrap();
    assert_eq!(stored.as_deref(), Some(value));
    for path in ["/v1/secrets", "/v1/secrets?project=alpha", "/v1/events", "/v1/jobs"] {
        let got = s.get(&s.admin, path).await;
        assert!(!String::from_utf8_lossy(&got.body).contains(value), "{path}");
    }
    assert_eq!(s.get(&s.user, "/v1/secrets").await.json()["items"][0]["name"], "wandb");
    assert_eq!(s.get(&s.user, "/v1/secrets?project=beta").await.status, 403);
    let got = s.call(&s.other, "DELETE", "/v1/secrets/wandb", &Value::Null, &[]).await;
    assert_eq!(got.status, 404, "another project's secret is not there");
    assert_eq!(s.call(&s.user, "DELETE", "/v1/secrets/wandb", &Value::Null, &[]).await.status, 204);
    let bad = s.call(&s.user, "PUT", "/v1/secrets/w", &json!({"value": "x\u{0}y"}), &[]).await;
    assert_eq!(bad.status, 422);
    // What the ranks would not see is not taken.
    let bad = s.call(&s.user, "PUT", "/v1/secrets/path", &json!({"value": "x"}), &[]).await;
    assert_eq!((bad.status.as_u16(), &bad.json()["error"]["field"]), (422, &json!("name")));
    let mut spec = held("a");
    spec["secrets"] = json!(["wandb"]);
    spec["run"]["env"] = json!({"WANDB": "x"});
    let bad = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!((bad.status.as_u16(), &bad.json()["error"]["field"]), (422, &json!("secrets")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_sees_what_an_earlier_answer_confirmed() {
    let s = site().await;
    for token in [&s.user, &s.admin] {
        let made = s.post(token, "/v1/jobs", &held("a")).await;
        let seq = made.header("muster-seq").to_owned();
        let path = format!("/v1/jobs/{}", made.json()["id"].as_str().unwrap());
        let got = s.call(token, "GET", &path, &Value::Null, &[("muster-min-seq", &seq)]).await;
        assert_eq!(got.status, 200);
        assert_eq!(
            token == &s.admin,
            seq.parse::<u64>().is_ok(),
            "tenants see no global sequence: {seq}"
        );
    }
    let got = s.call(&s.user, "GET", "/v1/jobs", &Value::Null, &[("muster-min-seq", "7")]).await;
    assert_eq!(got.status, 400, "a number is not what a tenant was given");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_explains_and_submits_nothing() {
    let s = site().await;
    let spec = json!({"gang": {"nodes": 1, "gpus_per_node": 8}, "run": {"command": ["true"]}});
    let got = s.post(&s.user, "/v1/jobs?dry_run=true", &spec).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    assert_eq!(got.json()["kind"], "Explanation");
    assert_eq!(s.get(&s.user, "/v1/jobs").await.json()["items"], json!([]));
    let job = s.held_job(&s.user).await;
    let got =
        s.get(&s.user, &format!("/v1/jobs/{}/explain", job["id"].as_str().unwrap())).await.json();
    assert!(got["summary"].as_str().unwrap().contains("held"), "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_answers_are_compressed_and_the_page_is_locked_down() {
    let s = site().await;
    let gzip = [("accept-encoding", "gzip")];
    let got = s.call(&s.user, "GET", "/v1/failure-modes", &Value::Null, &gzip).await;
    assert_eq!((got.status.as_u16(), got.header("content-encoding")), (200, "gzip"));
    // Anybody may ask for this one, again and again: it was packed by the build.
    let got = s.call("", "GET", "/openapi.json", &Value::Null, &gzip).await;
    assert_eq!((got.status.as_u16(), got.header("content-encoding")), (200, "gzip"));
    let plain = s.call("", "GET", "/openapi.json", &Value::Null, &[]).await;
    assert_eq!((plain.status.as_u16(), plain.header("content-encoding")), (200, ""));
    assert!(got.body.len() * 8 < plain.body.len(), "{} bytes packed", got.body.len());
    assert!(plain.json()["paths"].is_object());
    assert_eq!(
        s.call("", "GET", "/healthz", &Value::Null, &gzip).await.header("content-encoding"),
        ""
    );
    let page = String::from_utf8_lossy(&s.get("", "/").await.body).into_owned();
    let named = |c: char| page.split(['"', '\'']).filter(move |w| w.starts_with(c) && w.len() > 1);
    let files: Vec<&str> = named('/').collect();
    let ends = |end: &str| files.iter().any(|f| f.ends_with(end));
    assert!(ends(".js") && ends(".css"), "{page}");
    for path in files.iter().chain(&["/"]) {
        let got = s.get("", path).await;
        assert_eq!(got.status, 200, "{path}");
        assert!(got.header("content-security-policy").contains("script-src 'self'"));
        assert_eq!(got.header("x-content-type-options"), "nosniff");
        let small = s.call("", "GET", path, &Value::Null, &gzip).await;
        assert_eq!(small.header("content-encoding"), "gzip", "{path}");
        assert!(small.body.len() < got.body.len(), "{path}");
    }
    assert!(!page.contains("style=") && !page.contains("onclick"), "nothing inline");
    assert_eq!(page.matches("<script").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_reported_without_names() {
    let s = site().await;
    s.held_job(&s.user).await;
    let bound = s.token("bound", Role::Operator, Some("alpha"), None).await;
    let got = s.get(&bound, "/metrics").await;
    let text = String::from_utf8_lossy(&got.body).into_owned();
    for want in [
        "muster_jobs{state=\"queued\"} 1",
        "muster_nodes{state=\"ready\"} 1",
        "muster_gpus{state=\"free\"} 8",
        "muster_store_append_seconds_count",
        "muster_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"201\"} 1",
        "muster_agents_connected 0",
        "# TYPE muster_invariant_violations gauge",
        "muster_build_info",
    ] {
        assert!(text.contains(want), "{want} in\n{text}");
    }
    assert!(!text.contains("alpha") && !text.contains("n1"));
    assert_eq!(s.get("", "/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn others_jobs_on_a_shared_node_have_no_name() {
    let s = site().await;
    let spec = json!({"name": "hush", "gang": {"gpus": 4}, "run": {"command": ["true"]}});
    assert_eq!(s.post(&s.user, "/v1/jobs", &spec).await.status, 201);
    let mut durable = s.brain.watch();
    let placed = |s: &super::Site| s.brain.read(|st| st.jobs.values().any(|j| j.attempt.is_some()));
    while !placed(&s) {
        tokio::time::timeout(PATIENCE, durable.changed()).await.unwrap().unwrap();
    }
    let theirs = s.get(&s.user, "/v1/nodes/n1").await.json();
    assert_eq!((&theirs["jobs"][0]["name"], &theirs["gpus_used"]), (&json!("hush"), &json!(4)));
    let mine = s.get(&s.other, "/v1/nodes/n1").await;
    assert!(!String::from_utf8_lossy(&mine.body).contains("hush"));
    assert_eq!(mine.json()["jobs"][0]["gpus"], theirs["jobs"][0]["gpus"]);
    let r = request(&s.other, "GET", "/v1/jobs", &Value::Null, &[]);
    assert_eq!(s.send(r).await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silence_is_replaced_and_ended_only_as_it_was_seen() {
    let s = site().await;
    let path = "/v1/silences/upkeep";
    let put = async |why: &str, tag: &str| {
        let body = json!({
            "match": {"kind": "x"}, "start": "2999-01-01T00:00:00Z", "length": "1h", "why": why,
        });
        s.call(&s.operator, "PUT", path, &body, &[("if-match", tag)]).await
    };
    let first = put("a", "*").await;
    assert_eq!(first.status, 200, "{:?}", first.body);
    let tag = first.header("etag").to_owned();
    let second = put("b", &tag).await;
    assert_eq!(second.status, 200, "{:?}", second.body);
    let late = put("c", &tag).await;
    assert_eq!((late.status.as_u16(), late.error().as_str()), (409, "conflict"));
    let end = async |tag: &str| {
        s.call(&s.operator, "DELETE", path, &Value::Null, &[("if-match", tag)]).await.status
    };
    assert_eq!(end(&tag).await, 409);
    assert_eq!(end(second.header("etag")).await, 204);
}
