//! Policy, quotas, reservations, marks and changes of waiting jobs.

use super::arrays::{ends, when};
use super::{PATIENCE, Site, all_turns, site};
use muster_model::tenant::Role;
use serde_json::{Value, json};

async fn put(s: &Site, token: &str, path: &str, body: &Value) -> super::Got {
    s.call(token, "PUT", path, body, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_replaced_as_a_whole_and_checked() {
    let s = site().await;
    let got = s.get(&s.user, "/v1/policy").await;
    let seen = got.json();
    assert_eq!(
        (&seen["kind"], &seen["policy"]["defrag"]["enabled"]),
        (&json!("Policy"), &json!(false))
    );
    assert_eq!(seen["policy"]["fabric"]["preflight_nodes"], 0, "also what records leave out");
    let tag = got.header("etag").to_owned();
    assert_eq!(tag, format!("\"{}\"", seen["version"]));

    let new = json!({"policy": {"defrag": {"enabled": true}}});
    let got = s.call(&s.admin, "PUT", "/v1/policy", &new, &[("if-match", &tag)]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    assert_eq!(got.json()["policy"]["backfill"]["reserved_starts"], 128, "defaults are filled in");
    let late = s.call(&s.admin, "PUT", "/v1/policy", &new, &[("if-match", &tag)]).await;
    assert_eq!((late.status.as_u16(), late.error().as_str()), (409, "conflict"));

    let back = s.get(&s.admin, "/v1/policy").await.json();
    assert_eq!(back["policy"]["defrag"]["enabled"], true);
    assert_eq!(put(&s, &s.admin, "/v1/policy", &back).await.status, 200, "sent back as read");

    let bad = json!({"policy": {"fair_share": {"half_life": "1s"}}});
    let got = put(&s, &s.admin, "/v1/policy", &bad).await;
    assert_eq!(got.status, 422, "{:?}", got.body);
    assert_eq!(got.json()["error"]["field"], "fair_share.half_life");
    for list in [
        json!({"policy": []}),
        json!({"policy": {"defrag": []}}),
        json!({"policy": {"remediations": {"limits": {"fleet": []}}}}),
    ] {
        let got = put(&s, &s.admin, "/v1/policy", &list).await;
        assert_eq!(got.status, 422, "{list}: {:?}", got.body);
        let why = got.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(why.contains("expected an object") && why.contains("line 1"), "{why}");
    }
    let slip = json!({"policy": {"defrga": {}}});
    let got = put(&s, &s.admin, "/v1/policy", &slip).await;
    assert_eq!(got.status, 422);
    assert!(got.json()["error"]["message"].as_str().unwrap().contains("defrga"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_of_a_document_checks_it_and_sets_nothing() {
    let s = site().await;
    let good = [
        ("/v1/policy", json!({"policy": {"defrag": {"enabled": true}}})),
        ("/v1/quotas", json!({"quotas": {"tree": [{"name": "a", "projects": ["alpha"]}]}})),
        (
            "/v1/routing",
            json!({"routing": {"receivers": [
                {"name": "chat", "by": {"webhook": {"url": "http://chat.example/hook"}}},
            ], "routes": [{"to": ["chat"]}]}}),
        ),
    ];
    for (path, body) in &good {
        let before = s.get(&s.admin, path).await;
        let dry = format!("{path}?dry_run=true");
        let got = put(&s, &s.admin, &dry, body).await;
        assert_eq!(got.status, 200, "{path}: {:?}", got.body);
        let after = s.get(&s.admin, path).await.json();
        assert_eq!(after, before.json(), "{path}: nothing was set");
        assert_ne!(got.json()["version"], after["version"], "{path}: it would be another");
        assert_eq!(put(&s, &s.operator, &dry, body).await.status, 403, "{path}");
        let stale = s.call(&s.admin, "PUT", &dry, body, &[("if-match", "\"1\"")]).await;
        assert_eq!(stale.status, 409, "{path}: it is seen before anything is written");
    }
    let would = put(&s, &s.admin, "/v1/policy?dry_run=true", &good[0].1).await.json();
    assert_eq!(would["policy"]["backfill"]["reserved_starts"], 128, "defaults are filled in");
    for (path, body, status, field) in [
        (
            "/v1/policy",
            json!({"policy": {"fair_share": {"half_life": "1s"}}}),
            422,
            "fair_share.half_life",
        ),
        (
            "/v1/quotas",
            json!({"quotas": {"tree": [{"name": "x", "projects": ["nobody"]}]}}),
            404,
            "tree[0].projects",
        ),
        (
            "/v1/quotas",
            json!({"quotas": {"tree": [{"name": "x", "parent": "x"}]}}),
            422,
            "tree[0].parent",
        ),
        ("/v1/routing", json!({"routing": {"routes": [{"to": ["nobody"]}]}}), 422, "routes[0].to"),
    ] {
        let dry = put(&s, &s.admin, &format!("{path}?dry_run=true"), &body).await;
        assert_eq!(dry.status.as_u16(), status, "{path}: {:?}", dry.body);
        assert_eq!(dry.json()["error"]["field"], field, "{path}");
        let real = put(&s, &s.admin, path, &body).await;
        assert_eq!(real.json()["error"], dry.json()["error"], "{path}: the same words");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_whose_address_is_no_url_is_refused() {
    let s = site().await;
    let with = |by: &str, url: &str| {
        json!({"routing": {"receivers": [
            {"name": "good", "by": {"webhook": {"url": "http://[::1]:9093/hook?a=b"}}},
            {"name": "chat", "by": {by: {"url": url}}},
        ]}})
    };
    for url in ["http://[::1", "http://127.0.0.1:99999/", "https://a:pa55word@[x]/"] {
        for by in ["webhook", "alertmanager"] {
            for path in ["/v1/routing", "/v1/routing?dry_run=true"] {
                let got = put(&s, &s.admin, path, &with(by, url)).await;
                assert_eq!(got.status, 422, "{path} {url}: {:?}", got.body);
                let e = got.json()["error"].clone();
                assert_eq!(e["field"], format!("receivers[1].by.{by}.url"), "{url}");
                let message = e["message"].as_str().unwrap();
                assert!(message.starts_with("the address of receiver chat is no URL: "), "{e}");
                assert!(!e.to_string().contains("pa55word"), "{e}");
            }
        }
    }
    let turned = put(&s, &s.admin, "/v1/routing", &with("webhook", "http://a/\u{202e}b")).await;
    assert_eq!((turned.status.as_u16(), turned.error().as_str()), (422, "invalid"));
    let set = put(&s, &s.admin, "/v1/routing", &with("webhook", "https://u:p@chat/hook")).await;
    assert_eq!(set.status, 200, "{:?}", set.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sets_quotas_is_answered_what_of_them_has_no_effect() {
    let s = site().await;
    let quota = json!({"name": "a", "projects": ["alpha"], "gpus": [{"nominal": 8, "borrow": 4}]});
    let tree = json!({"quotas": {"tree": [quota]}});
    let why =
        json!(["quota a: `borrow: 4` has no effect: a root of the tree borrows from nobody; \
                      give it a `parent` with others below it that lend"]);
    for path in ["/v1/quotas?dry_run=true", "/v1/quotas"] {
        let got = put(&s, &s.admin, path, &tree).await;
        assert_eq!(got.status, 200, "{path}: {:?}", got.body);
        assert_eq!(got.json()["warnings"], why, "{path}");
    }
    let whole = s.get(&s.operator, "/v1/quotas").await.json();
    assert_eq!(whole["warnings"], why, "{whole}");
    assert_eq!(put(&s, &s.admin, "/v1/quotas", &whole).await.status, 200, "sent back as read");
    let mine = s.get(&s.user, "/v1/quotas").await.json();
    assert!(mine.get("warnings").is_none(), "what others lend is theirs: {mine}");
    let plain = json!({"quotas": {"tree": [{"name": "a", "projects": ["alpha"]}]}});
    let got = put(&s, &s.admin, "/v1/quotas", &plain).await.json();
    assert!(got.get("warnings").is_none(), "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_its_own_way_up_the_tree() {
    let s = site().await;
    let tree = json!({"quotas": {"tree": [
        {"name": "lab", "gpus": [{"nominal": 8}]},
        {"name": "a", "parent": "lab", "shares": 3, "projects": ["alpha"]},
        {"name": "b", "parent": "lab", "projects": ["beta", "default"]},
    ]}});
    let got = put(&s, &s.admin, "/v1/quotas", &tree).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let whole = s.get(&s.operator, "/v1/quotas").await.json();
    assert_eq!(whole["quotas"]["tree"].as_array().unwrap().len(), 3);
    assert!(whole["report"]["quotas"].is_array() && whole["report"]["accounts"].is_array());
    let mine = s.get(&s.user, "/v1/quotas").await;
    assert_ne!(mine.json()["version"], whole["version"], "that of the part");
    let text = String::from_utf8_lossy(&mine.body).into_owned();
    assert!(text.contains("\"lab\"") && text.contains("alpha"), "{text}");
    assert!(!text.contains("beta") && !text.contains("\"b\""), "{text}");
    // A part of what is used is not called the whole.
    for part in ["received_milli", "usage_gpu_s", "used_milli"] {
        let of = |q: &Value| q["report"]["quotas"][0][part].clone();
        assert!(of(&whole).is_u64() && of(&mine.json()).is_null(), "{part}");
    }
    assert_eq!(put(&s, &s.admin, "/v1/quotas", &whole).await.status, 200, "sent back as read");

    let unknown = json!({"quotas": {"tree": [{"name": "x", "projects": ["nobody"]}]}});
    let got = put(&s, &s.admin, "/v1/quotas", &unknown).await;
    assert_eq!(got.status, 404);
    assert_eq!(got.json()["error"]["field"], "tree[0].projects");
    let circle = json!({"quotas": {"tree": [{"name": "x", "parent": "x"}]}});
    let got = put(&s, &s.admin, "/v1/quotas", &circle).await;
    assert_eq!(
        (got.status.as_u16(), got.json()["error"]["field"].clone()),
        (422, json!("tree[0].parent"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_made_read_replaced_and_deleted() {
    let s = site().await;
    let path = "/v1/reservations/demo";
    let ask = |hours: u32| {
        json!({"projects": ["alpha", "beta"], "over": {"gpus": {"count": 8}}, "reason": "demo",
               "start": "2999-01-01T00:00:00Z", "length": format!("{hours}h"), "lend": true})
    };
    let got = put(&s, &s.operator, path, &ask(2)).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let made = got.json();
    for (field, want) in [
        ("id", json!("demo")),
        ("kind", json!("Reservation")),
        ("state", json!("scheduled")),
        ("start", json!("2999-01-01T00:00:00.000Z")),
        ("nodes", json!(["n1"])),
        ("maintenance", json!(false)),
        ("overrun", json!("stop")),
    ] {
        assert_eq!(made[field], want, "{field} of {made}");
    }
    assert_eq!(made["window"]["end"], "2999-01-01T02:00:00.000Z");
    assert_eq!(put(&s, &s.operator, path, &made).await.status, 200, "sent back as read");

    let tag = s.get(&s.operator, path).await.header("etag").to_owned();
    let stale = [("if-match", "\"1\"")];
    assert_eq!(s.call(&s.operator, "PUT", path, &ask(3), &stale).await.status, 409);
    let got = s.call(&s.operator, "PUT", path, &ask(3), &[("if-match", &tag)]).await;
    assert_eq!((got.status.as_u16(), got.json()["length"].clone()), (200, json!("3h")));

    let theirs = s.get(&s.user, path).await.json();
    assert_eq!(theirs["projects"], json!(["alpha"]), "others' names are not reported");
    let upkeep =
        json!({"over": {"nodes": ["n1"]}, "start": "2998-01-01T00:00:00Z", "length": "1h"});
    assert_eq!(put(&s, &s.operator, "/v1/reservations/upkeep", &upkeep).await.status, 200);
    let beta = json!({"projects": ["beta"], "over": {"nodes": ["n1"]}, "start": "2997-01-01T00:00:00Z", "length": "1h"});
    assert_eq!(put(&s, &s.operator, "/v1/reservations/hidden", &beta).await.status, 200);
    let list = s.get(&s.user, "/v1/reservations").await.json();
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["demo", "upkeep"], "one's own and maintenance");
    assert_eq!(s.get(&s.user, "/v1/reservations/hidden").await.status, 404);

    // While a maintenance window is open, its nodes say that they get no new work, and why.
    let why = |node: Value| node["no_new_work"].clone();
    assert_eq!(why(s.get(&s.user, "/v1/nodes/n1").await.json()), Value::Null, "it is not open");
    let now = json!({"over": {"nodes": ["n1"]}, "start": "1970-01-01T00:00:00Z", "length": "1d", "every": "1d"});
    assert_eq!(put(&s, &s.operator, "/v1/reservations/upkeep", &now).await.status, 200);
    let listed = s.get(&s.operator, "/v1/nodes").await.json()["items"].clone();
    let n1 = listed.as_array().unwrap().iter().find(|n| n["name"] == "n1").unwrap().clone();
    for shown in [n1, s.get(&s.user, "/v1/nodes/n1").await.json()] {
        assert_eq!(shown["no_new_work"], "maintenance window upkeep", "{shown}");
    }

    assert_eq!(s.call(&s.operator, "DELETE", path, &Value::Null, &stale).await.status, 409);
    assert_eq!(s.call(&s.operator, "DELETE", path, &Value::Null, &[]).await.status, 204);
    assert_eq!(s.get(&s.operator, path).await.status, 404);
    assert_eq!(s.call(&s.operator, "DELETE", path, &Value::Null, &[]).await.status, 404);
    assert_eq!(s.call(&s.operator, "PUT", path, &ask(1), &[("if-match", &tag)]).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_planned_without_being_made_and_made_once() {
    let s = site().await;
    let path = "/v1/reservations/night";
    let ask = |reason: &str| {
        json!({"projects": ["alpha"], "over": {"gpus": {"count": 8}}, "reason": reason,
               "start": "2999-01-01T00:00:00Z", "length": "1h"})
    };
    let with = |query: &str| format!("{path}?{query}");
    let got = put(&s, &s.operator, &with("create=true&dry_run=true"), &ask("a")).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let plan = got.json();
    assert_eq!((&plan["nodes"], &plan["stops"]), (&json!(["n1"]), &json!([])), "{plan}");
    assert_eq!(s.get(&s.operator, path).await.status, 404, "nothing was made");

    assert_eq!(put(&s, &s.operator, &with("create=true"), &ask("a")).await.status, 200);
    let same = put(&s, &s.operator, &with("create=true"), &ask("a")).await;
    assert_eq!(same.status, 200, "the very same is no conflict");
    let other = put(&s, &s.operator, &with("create=true"), &ask("b")).await;
    assert_eq!((other.status.as_u16(), other.error().as_str()), (409, "conflict"));
    assert_eq!(s.get(&s.operator, path).await.json()["reason"], "a");
    assert_eq!(put(&s, &s.operator, path, &ask("b")).await.status, 200, "PUT alone replaces");
    let theirs = put(&s, &s.user, &with("dry_run=true"), &ask("b")).await;
    assert_eq!(theirs.status, 403, "a plan reports the work of others");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_reservation_is_named() {
    let s = site().await;
    let good = json!({"over": {"nodes": ["n1"]}, "start": "2999-01-01T00:00:00Z", "length": "1h"});
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    for (body, status, field) in [
        (with("start", json!("tomorrow")), 422, "start"),
        (with("start", json!("1999-01-01T00:00:00Z")), 422, "start"),
        (with("length", json!("0s")), 422, "length"),
        (with("every", json!("1m")), 422, "every"),
        (with("over", json!({"nodes": []})), 422, "over.nodes"),
        (with("over", json!({"nodes": ["n9"]})), 404, "over.nodes"),
        (with("over", json!({"gpus": {"count": 99}})), 403, "over.gpus.count"),
        (with("over", json!({"domain": {"level": "leaf", "path": "x"}})), 404, "over.domain.path"),
        (with("projects", json!(["Not a name"])), 422, "projects"),
        (with("projects", json!(["gamma"])), 404, "projects"),
        (with("name", json!("other")), 422, "name"),
        (with("reason", json!("x".repeat(1001))), 422, "reason"),
    ] {
        let got = put(&s, &s.operator, "/v1/reservations/r", &body).await;
        assert_eq!(got.status.as_u16(), status, "{body}: {:?}", got.body);
        assert_eq!(got.json()["error"]["field"], field, "{body}: {:?}", got.body);
    }
    assert_eq!(put(&s, &s.operator, "/v1/reservations/a%20b", &good).await.status, 400);
}

/// Project alpha may use the classes up to high.
async fn allow_high(s: &Site) {
    let tree = json!({"quotas": {"tree": [
        {"name": "a", "projects": ["alpha"], "max_priority": "high"},
    ]}});
    let got = put(s, &s.admin, "/v1/quotas", &tree).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_token_uses_a_high_class_only_where_its_project_may() {
    let s = site().await;
    let of = |class: &str| {
        let mut spec = super::held("a");
        spec["priority"] = json!(class);
        spec
    };
    for path in ["/v1/jobs", "/v1/jobs?dry_run=true"] {
        let got = s.post(&s.user, path, &of("high")).await;
        assert_eq!(got.status, 403, "{path}: {:?}", got.body);
        let error = &got.json()["error"];
        assert_eq!(error["field"], "priority", "{path}");
        assert!(error["message"].as_str().unwrap().contains("up to normal"), "{error}");
        assert!(error["hint"].as_str().unwrap().contains("max_priority: high"), "{error}");
    }
    for token in [&s.admin, &s.operator] {
        assert_eq!(s.post(token, "/v1/jobs", &of("critical")).await.status, 201);
    }
    allow_high(&s).await;
    assert_eq!(s.post(&s.user, "/v1/jobs", &of("high")).await.status, 201);
    assert_eq!(s.post(&s.user, "/v1/jobs", &of("critical")).await.status, 403);
    assert_eq!(s.post(&s.other, "/v1/jobs", &of("high")).await.status, 403, "another project");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_is_changed_and_an_array_as_a_whole() {
    let s = site().await;
    let job = s.held_job(&s.user).await;
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let patch = async |path: &str, body: Value, headers: &[(&str, &str)]| {
        s.call(&s.user, "PATCH", path, &body, headers).await
    };
    let tag = format!("\"{}\"", job["version"]);
    let got =
        patch(&path, json!({"priority": "low", "time_limit": "2h"}), &[("if-match", &tag)]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let spec = &got.json()["spec"];
    assert_eq!((&spec["priority"], &spec["time_limit"]), (&json!("low"), &json!("2h")));
    let got = patch(&path, json!({"time_limit": "3h"}), &[("if-match", &tag)]).await;
    assert_eq!(got.status, 409);
    for (body, status) in [
        (json!({}), 422),
        (json!({"priority": "urgent"}), 422),
        (json!({"time_limit": "0s"}), 422),
        (json!({"nodes": 2}), 422),
    ] {
        let got = patch(&path, body.clone(), &[]).await;
        assert_eq!(got.status.as_u16(), status, "{body}: {:?}", got.body);
    }
    let got = patch(&path, json!({"priority": 5}), &[]).await;
    assert_eq!(got.status, 422, "it is JSON: {:?}", got.body);
    let error = &got.json()["error"];
    assert_eq!(error["field"], "priority", "{error}");
    let why = error["message"].as_str().unwrap();
    assert!(why.contains("expected one of `low`, `normal`, `high`, `critical`"), "{why}");
    let mut sweep = super::held("sweep");
    sweep["array"] = json!("0-2");
    let made = s.post(&s.user, "/v1/jobs", &sweep).await.json();
    let id = made["id"].as_str().unwrap();
    let whole = format!("/v1/jobs/{id}");
    let got = patch(&whole, json!({"priority": "high"}), &[]).await;
    assert_eq!(got.status, 403, "a tenant stops nobody else's work: {:?}", got.body);
    assert_eq!(got.json()["error"]["field"], "priority");
    allow_high(&s).await;
    let got = patch(&whole, json!({"priority": "high"}), &[("idempotency-key", "k")]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let last = s.get(&s.user, &format!("/v1/jobs/{id}_2")).await.json();
    assert_eq!(last["spec"]["priority"], "high");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_jobs_is_narrowed_before_its_limit() {
    let s = site().await;
    let submit = async |name: &str, hold: bool, tags: Value, sku: Value| {
        let gang = json!({"gpus": 1, "sku": sku});
        let run = json!({"command": ["true"]});
        let body = json!({"name": name, "gang": gang, "run": run, "hold": hold, "tags": tags});
        let got = s.post(&s.user, "/v1/jobs", &body).await;
        assert_eq!(got.status, 201, "{:?}", got.body);
        got.json()["id"].as_str().unwrap().to_owned()
    };
    let first = submit("train-a", false, json!({"team": "nlp"}), Value::Null).await;
    let second = submit("train-b", true, json!({"team": "vision"}), json!("h100-sxm")).await;
    let third = submit("eval", true, json!({}), Value::Null).await;
    let ids = async |query: &str| -> Vec<String> {
        let got = s.get(&s.user, &format!("/v1/jobs?{query}")).await;
        assert_eq!(got.status, 200, "{query}: {:?}", got.body);
        let items = got.json()["items"].as_array().unwrap().clone();
        items.iter().map(|j| j["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("prefix=train").await, [second.clone(), first.clone()]);
    assert_eq!(ids("prefix=train&limit=1&held=false").await, std::slice::from_ref(&first));
    assert_eq!(ids("held=true&limit=1&prefix=train").await, std::slice::from_ref(&second));
    assert_eq!(ids("tag=team").await, [second.clone(), first.clone()]);
    assert_eq!(ids("tag=team%3Dnlp").await, [first]);
    assert_eq!(ids("tag=team%3Dnobody").await, Vec::<String>::new());
    assert_eq!(ids("sku=h100-sxm&held=true").await, [second], "{third} asks for none");
    for (bad, field) in [("tag=", "tag"), ("tag=%3Dx", "tag"), ("held=maybe", "held")] {
        let got = s.get(&s.user, &format!("/v1/jobs?{bad}")).await;
        assert_eq!(got.status, 400, "{bad}: {:?}", got.body);
        assert_eq!(got.json()["error"]["field"], field, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_runs_is_read_by_those_who_may_submit_it_again() {
    let s = site().await;
    let run = json!({"script": "echo $LR\n", "env": {"LR": "0.1"}});
    let body = json!({"name": "a", "gang": {"gpus": 1}, "run": run, "hold": true, "array": "0-2"});
    let made = s.post(&s.user, "/v1/jobs", &body).await.json();
    let id = made["id"].as_str().unwrap();
    let job = s.get(&s.user, &format!("/v1/jobs/{id}_1")).await.json();
    assert!(job["spec"]["run"].is_null(), "{job}");
    let got = s.get(&s.user, &format!("/v1/jobs/{id}_1/spec")).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let spec = got.json();
    assert_eq!((&spec["run"], &spec["array"]), (&run, &json!("1")));
    let whole = async || s.get(&s.user, &format!("/v1/jobs/{id}/spec")).await.json();
    assert_eq!(whole().await["array"], "0-2");
    let longer = json!({"time_limit": "2h"});
    let got = s.call(&s.user, "PATCH", &format!("/v1/jobs/{id}"), &longer, &[]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let changed = whole().await;
    assert_eq!((&changed["array"], &changed["time_limit"]), (&json!("0-2"), &json!("2h")));
    let again = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(again.status, 201, "{:?}", again.body);
    assert_eq!(s.get(&s.viewer, &format!("/v1/jobs/{id}/spec")).await.status, 403);
    assert_eq!(s.get(&s.other, &format!("/v1/jobs/{id}/spec")).await.status, 404);
    assert_eq!(s.get(&s.user, "/v1/jobs/424242/spec").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_marked_and_moves_are_only_proposed() {
    let s = site().await;
    let mark = "/v1/nodes/n1/mark";
    let got = s.post(&s.operator, mark, &json!({"role": "lemon", "hazard": 30})).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let got = s.post(&s.operator, mark, &json!({"role": "normal"})).await.json();
    assert_eq!((&got["role"], &got["hazard"]), (&json!("normal"), &json!(30)));
    for body in [json!({}), json!({"hazard": 1001}), json!({"role": "banana"})] {
        assert_eq!(s.post(&s.operator, mark, &body).await.status, 422, "{body}");
    }
    let got = s.get(&s.operator, "/v1/defrag").await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let got = got.json();
    assert_eq!((&got["enabled"], &got["proposals"]), (&json!(false), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_may_ask_for_parts_of_gpus_and_grow() {
    let s = site().await;
    let job = |gang: Value| json!({"gang": gang, "run": {"command": ["true"]}, "hold": true});
    let got = s.post(&s.user, "/v1/jobs", &job(json!({"gpu_milli": 250}))).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
    assert_eq!(got.json()["groups"][0]["part"], json!({"milli": 250}));
    let got = s.post(&s.user, "/v1/jobs", &job(json!({"gpu_milli": 1000}))).await;
    assert_eq!(
        (got.status.as_u16(), got.json()["error"]["field"].clone()),
        (422, json!("gang.gpu_milli"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_where_it_would_go_and_what_would_help() {
    let s = site().await;
    let ask = async |gang: Value| {
        let spec = json!({"gang": gang, "run": {"command": ["true"]}});
        s.post(&s.user, "/v1/jobs?dry_run=true", &spec).await.json()
    };
    let e = ask(json!({"gpus": 8})).await;
    assert_eq!(e["state"], "would start", "{e}");
    assert!(e["would_go"].as_str().is_some_and(|w| w.contains("n1")), "{e}");
    let e = ask(json!({"nodes": 2, "gpus_per_node": 8})).await;
    assert_eq!((&e["state"], &e["possible"]), (&json!("can never start"), &json!(false)), "{e}");
    assert_eq!(e["would_go"], Value::Null);
    assert_eq!(s.get(&s.user, "/v1/jobs").await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_a_range_once_enough_jobs_have_ended_and_a_bound_before() {
    let s = site().await;
    let spec = json!({"gang": {"gpus": 8}, "time_limit": "1h", "run": {"command": ["true"]}});
    let submit = async || s.post(&s.user, "/v1/jobs", &spec).await.json();
    // What would come of one more, while one runs.
    let starts = async |running: &Value| {
        when(&s, running["id"].as_str().unwrap(), |j| j["state"] == "starting").await;
        let e = s.post(&s.user, "/v1/jobs?dry_run=true", &spec).await.json();
        assert_eq!(e["state"], "would wait", "{e}");
        e["estimated_start"].clone()
    };
    let mut job = submit().await;
    let said = starts(&job).await;
    assert_eq!((said["at"].is_string(), &said["earliest"]), (true, &Value::Null), "{said}");
    assert!(said["basis"].as_str().unwrap().contains("too few had a time limit"), "{said}");
    for _ in 0..8 {
        ends(&s, &job, 0).await;
        job = submit().await;
    }
    let said = starts(&job).await;
    assert!(said["at"].is_string() && said["earliest"].is_string(), "{said}");
    assert!(said["basis"].as_str().unwrap().contains("how long 8 past jobs ran"), "{said}");
    let path = format!("/v1/jobs/{}/explain", submit().await["id"].as_str().unwrap());
    let e = s.get(&s.user, &path).await.json();
    assert!(e["estimated_start"]["earliest"].is_string(), "{e}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reserved_start_that_has_passed_is_shown_nowhere() {
    let s = site().await;
    let spec = json!({"gang": {"gpus": 8}, "time_limit": "1s", "run": {"command": ["true"]}});
    let submit = async || s.post(&s.user, "/v1/jobs", &spec).await.json();
    let first = submit().await;
    when(&s, first["id"].as_str().unwrap(), |j| j["state"] == "starting").await;
    // Nobody says that the first one is gone: it holds the node past its limit.
    let next = submit().await;
    let path = format!("/v1/jobs/{}", next["id"].as_str().unwrap());
    let due = |v: &Value| v.as_str().is_some_and(|w| w.contains("reserved start is due"));
    let described = when(&s, next["id"].as_str().unwrap(), |j| due(&j["waiting"])).await;
    assert_eq!(described["reserved_start"], Value::Null, "{described}");
    let list = s.get(&s.user, "/v1/jobs").await.json();
    let row = list["items"].as_array().unwrap().iter().find(|j| j["id"] == next["id"]).unwrap();
    assert!(due(&row["waiting"]) && row["reserved_start"].is_null(), "{row}");
    let e = s.get(&s.user, &format!("{path}/explain")).await.json();
    assert!(due(&e["summary"]) && e["estimated_start"].is_null(), "{e}");
}

/// Why a job waits: list, description, explanation and a dry run of its spec say the same.
async fn one_reason(s: &Site, job: &Value, spec: &Value) -> String {
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let why = s.get(&s.user, &format!("{path}/explain")).await.json()["summary"].clone();
    let list = s.get(&s.user, "/v1/jobs").await.json();
    let row = list["items"].as_array().unwrap().iter().find(|j| j["id"] == job["id"]).unwrap();
    assert_eq!(row["waiting"], why, "{row}");
    assert_eq!(s.get(&s.user, &path).await.json()["waiting"], why);
    let would = s.post(&s.user, "/v1/jobs?dry_run=true", spec).await.json();
    assert_eq!(would["summary"], why, "{would}");
    why.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_gives_one_reason_where_nodes_are_not_in_service_or_gone() {
    let s = site().await;
    let cordoned = s.post(&s.operator, "/v1/nodes/n1/cordon", &json!({"reason": "fan"})).await;
    assert_eq!(cordoned.status, 200, "{:?}", cordoned.body);
    let spec = json!({"gang": {"gpus": 8}, "run": {"command": ["true"]}});
    let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let why = one_reason(&s, &job, &spec).await;
    let out = "1 node satisfies the per-node request, but only 0 are in service";
    assert!(why.ends_with(out), "{why}");
    let old = json!({"reason": "old", "stop": true});
    for (verb, body) in [("drain", old), ("retire", Value::Null)] {
        let got = s.post(&s.operator, &format!("/v1/nodes/n1/{verb}"), &body).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
    }
    let why = one_reason(&s, &job, &spec).await;
    assert!(why.ends_with("but this fleet has no nodes"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_report_on_quotas_that_it_set_holds_up_no_other_document() {
    let s = site().await;
    let second = s.token("second", Role::Admin, None, None).await;
    let turns = all_turns(&s, &s.admin);
    let tree = json!({"quotas": {"tree": [{"name": "lab"}]}});
    let mut waits = std::pin::pin!(put(&s, &s.admin, "/v1/quotas", &tree));
    let (policy, path) = (json!({"policy": {}}), "/v1/policy");
    // The quotas are set before the policy is: their report alone is not there.
    while s.brain.read(|st| st.quotas.tree.is_empty()) {
        tokio::select! {
            biased;
            got = waits.as_mut() => panic!("it did not wait: {:?}", got.body),
            () = tokio::task::yield_now() => {}
        }
    }
    let other = async {
        tokio::select! {
            biased;
            got = waits.as_mut() => panic!("it did not wait: {:?}", got.body),
            got = put(&s, &second, path, &policy) => got,
        }
    };
    let got = tokio::time::timeout(PATIENCE, other).await.expect("the policy is set meanwhile");
    assert_eq!(got.status, 200, "{:?}", got.body);
    drop(turns);
    let got = waits.await;
    assert_eq!(
        (got.status.as_u16(), &got.json()["quotas"]["tree"][0]["name"]),
        (200, &json!("lab"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_gives_one_reason_where_a_quota_leaves_too_little() {
    let s = site().await;
    let quota = json!({"name": "a", "projects": ["alpha"], "gpus": [{"nominal": 4}]});
    let got = put(&s, &s.admin, "/v1/quotas", &json!({"quotas": {"tree": [quota]}})).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let spec = |gpus: u32| json!({"gang": {"gpus": gpus}, "run": {"command": ["true"]}});
    let first = s.post(&s.user, "/v1/jobs", &spec(4)).await.json();
    when(&s, first["id"].as_str().unwrap(), |j| j["state"] == "starting").await;
    let second = s.post(&s.user, "/v1/jobs", &spec(2)).await.json();
    let why = one_reason(&s, &second, &spec(2)).await;
    assert_eq!(why, "quota a leaves 0 of the 2 GPUs it asks for: 4 owned, 4 used");
    // What is used up now is waited for: that is no warning.
    let path = format!("/v1/jobs/{}/explain", second["id"].as_str().unwrap());
    let explained = s.get(&s.user, &path).await.json();
    assert_eq!(warnings(&explained), Vec::<&str>::new(), "{explained}");
    let quotas = s.get(&s.user, "/v1/quotas").await.json();
    let limit = &quotas["report"]["quotas"][0]["limits"][0];
    assert_eq!((&limit["used_milli"], &limit["left_milli"]), (&json!(4000), &json!(0)), "{limit}");
    assert_eq!(limit["borrow_milli"], 0, "a tree of one node has nobody to borrow from");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_has_borrowed_all_that_it_may_is_not_said_to_borrow_more() {
    let s = site().await;
    let tree = json!([
        {"name": "lab"},
        {"name": "a", "parent": "lab", "projects": ["alpha"], "gpus": [{"nominal": 2, "borrow": 2}]},
        {"name": "b", "parent": "lab", "projects": ["beta"], "gpus": [{"nominal": 4}]},
    ]);
    let got = put(&s, &s.admin, "/v1/quotas", &json!({"quotas": {"tree": tree}})).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let spec = |gpus: u32| json!({"gang": {"gpus": gpus}, "run": {"command": ["true"]}});
    let first = s.post(&s.user, "/v1/jobs", &spec(4)).await.json();
    when(&s, first["id"].as_str().unwrap(), |j| j["state"] == "starting").await;
    let second = s.post(&s.user, "/v1/jobs", &spec(2)).await.json();
    let why = one_reason(&s, &second, &spec(2)).await;
    let short = "quota a leaves 0 of the 2 GPUs it asks for: 2 owned, 2 borrowed, 4 used";
    assert_eq!(why, format!("{short}; it has borrowed all that it may"));
}

/// The constraints of an explanation that are marked as warnings.
fn warnings(why: &Value) -> Vec<&str> {
    let all = why["constraints"].as_array().unwrap().iter();
    all.filter(|c| c["warning"] == true).map(|c| c["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_its_quota_never_allows_is_submitted_with_a_warning() {
    let s = site().await;
    let quota = json!({"name": "a", "projects": ["alpha"], "gpus": [{"nominal": 4}]});
    let got = put(&s, &s.admin, "/v1/quotas", &json!({"quotas": {"tree": [quota]}})).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let ask = async |gpus: u32| {
        let spec = json!({"gang": {"gpus": gpus}, "run": {"command": ["true"]}, "hold": true});
        s.post(&s.user, "/v1/jobs", &spec).await.json()
    };
    let within = ask(4).await;
    assert!(within["id"].is_string() && within.get("has_warnings").is_none(), "{within}");
    let beyond = ask(8).await;
    assert_eq!(beyond["has_warnings"], true, "{beyond}");
    let path = format!("/v1/jobs/{}/explain", beyond["id"].as_str().unwrap());
    let why = s.get(&s.user, &path).await.json();
    let quota = why["constraints"].as_array().unwrap().iter().find(|c| c["name"] == "quota");
    let detail = quota.and_then(|c| c["detail"].as_str()).unwrap_or_default();
    assert!(detail.contains("of the 8 GPUs it asks for, and never will"), "{why}");
    assert_eq!(warnings(&why), ["quota"], "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_gives_the_reason_that_an_explanation_begins_with() {
    let s = site().await;
    let policy = json!({"policy": {"backfill": {"reserved_starts": 1}}});
    let got = put(&s, &s.admin, "/v1/policy", &policy).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let ask = async |gpus: u32, limit: &str| {
        let run = json!({"command": ["true"]});
        let spec = json!({"gang": {"gpus": gpus}, "run": run, "time_limit": limit});
        let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
        job["id"].as_str().unwrap().to_owned()
    };
    let runs = ask(4, "1h").await;
    when(&s, &runs, |j| j["state"] == "starting").await;
    let head = ask(8, "1h").await;
    when(&s, &head, |j| !j["reserved_start"].is_null()).await;
    // Half of the node is free, and reserved for the one before it from the end of the first on.
    let last = ask(4, "2h").await;
    let why = s.get(&s.user, &format!("/v1/jobs/{last}/explain")).await.json()["summary"].clone();
    assert_eq!(
        why,
        "waits for free capacity: there is some now, but not for as long as it may run: 1 node \
         reserved for jobs with a reserved start"
    );
    let list = s.get(&s.user, "/v1/jobs").await.json();
    let row = list["items"].as_array().unwrap().iter().find(|j| j["id"] == last.as_str()).unwrap();
    let short = format!("waits for free capacity; `muster explain {last}` says more");
    assert_eq!(row["waiting"], short, "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_quota_never_allows_waits_and_every_answer_says_so_in_the_same_words() {
    let s = site().await;
    // It says that it may borrow, and there is nobody to borrow from.
    let limit = json!({"nominal": 4, "borrow": 4});
    let quota = json!({"name": "a", "projects": ["alpha"], "gpus": [limit]});
    let got = put(&s, &s.admin, "/v1/quotas", &json!({"quotas": {"tree": [quota]}})).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let spec = |gpus: u32| json!({"gang": {"gpus": gpus}, "run": {"command": ["true"]}});
    let would = s.post(&s.user, "/v1/jobs?dry_run=true", &spec(8)).await.json();
    assert_eq!((&would["state"], &would["possible"]), (&json!("would wait"), &json!(true)));
    let waits = s.post(&s.user, "/v1/jobs", &spec(8)).await;
    assert_eq!((waits.status.as_u16(), &waits.json()["has_warnings"]), (201, &json!(true)));
    let why = one_reason(&s, &waits.json(), &spec(8)).await;
    assert_eq!(
        why,
        "quota a leaves 4 of the 8 GPUs it asks for, and never will as the quotas are set: 4 owned, \
         0 used; a root of the tree borrows from nobody"
    );
    // It delays nobody, and whoever waits after it reads that.
    let fits = s.post(&s.user, "/v1/jobs", &spec(4)).await.json();
    when(&s, fits["id"].as_str().unwrap(), |j| j["state"] == "starting").await;
    let last = s.post(&s.user, "/v1/jobs", &spec(2)).await.json();
    let path = format!("/v1/jobs/{}/explain", last["id"].as_str().unwrap());
    let why = s.get(&s.user, &path).await.json();
    assert_eq!(
        why["ahead"][0]["why"], "submitted earlier, but its quota never gives it that many GPUs",
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_is_answered_with_whether_there_is_a_warning_to_ask_for() {
    let s = site().await;
    let run = json!({"command": ["train"]});
    let spec = json!({"name": "train", "gang": {"gpus": 1}, "run": run, "hold": true,
        "checkpoint": {"dir": "/saved"}});
    let first = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(first.status, 201, "{:?}", first.body);
    assert!(first.json().get("has_warnings").is_none(), "{}", first.json());
    let second = s.post(&s.user, "/v1/jobs", &spec).await.json();
    assert_eq!(second["has_warnings"], true, "{second}");
    let id = second["id"].as_str().unwrap();
    let why = s.get(&s.user, &format!("/v1/jobs/{id}/explain")).await.json();
    let constraints = why["constraints"].as_array().unwrap();
    assert!(constraints.iter().any(|c| c["name"] == "checkpoint"), "{why}");
    let shown = s.get(&s.user, &format!("/v1/jobs/{id}")).await.json();
    assert!(shown.get("has_warnings").is_none(), "only its submission says so: {shown}");
    let mut array = spec;
    array["array"] = json!("0-1");
    let array = s.post(&s.user, "/v1/jobs", &array).await.json();
    assert_eq!((&array["count"], &array["has_warnings"]), (&json!(2), &json!(true)), "{array}");
}
