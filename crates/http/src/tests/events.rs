//! Pages of the log: in both orders, and of chosen events.

use super::{Site, held, site};
use muster_model::tenant::Role;
use serde_json::{Value, json};

/// Every event of all pages, and how many pages there were.
async fn all(s: &Site, token: &str, query: &str, place: &str) -> (Vec<Value>, usize) {
    let (mut path, mut items, mut pages) = (format!("/v1/events?{query}"), Vec::new(), 0);
    loop {
        let got = s.get(token, &path).await;
        assert_eq!(got.status, 200, "{path}: {:?}", got.body);
        let page = got.json();
        items.extend(page["items"].as_array().unwrap().clone());
        pages += 1;
        let Some(cursor) = page["cursor"].as_str() else { return (items, pages) };
        path = format!("/v1/events?{query}&{place}={cursor}");
    }
}

fn seqs(items: &[Value]) -> Vec<u64> {
    items.iter().map(|e| e["seq"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_come_first_where_that_is_asked_and_none_is_left_out() {
    let s = site().await;
    for _ in 0..5 {
        s.held_job(&s.user).await;
    }
    let (mut old, _) = all(&s, &s.admin, "limit=1000", "after").await;
    let end = old.last().unwrap()["seq"].as_u64().unwrap();
    // What the server decided meanwhile is behind these.
    let before = format!("limit=3&before={end}");
    let first = s.get(&s.admin, &format!("/v1/events?{before}")).await.json();
    let (mut new, mut cursor) =
        (first["items"].as_array().unwrap().clone(), first["cursor"].clone());
    while let Some(c) = cursor.as_str() {
        let page = s.get(&s.admin, &format!("/v1/events?limit=3&before={c}")).await.json();
        assert!(page["items"].as_array().unwrap().len() <= 3);
        new.extend(page["items"].as_array().unwrap().clone());
        cursor = page["cursor"].clone();
    }
    old.pop();
    old.reverse();
    assert_eq!(seqs(&new), seqs(&old));
    let newest = s.get(&s.admin, "/v1/events?order=newest&limit=1").await.json();
    assert!(newest["items"][0]["seq"].as_u64().unwrap() >= end);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_chosen_by_kind_actor_object_text_and_time() {
    let s = site().await;
    let first = s.held_job(&s.user).await["number"].as_u64().unwrap();
    let second = s.post(&s.operator, "/v1/jobs", &held("special")).await.json();
    let second = second["number"].as_u64().unwrap();
    let cordon = json!({"reason": "fan is loud"});
    assert_eq!(s.post(&s.operator, "/v1/nodes/n1/cordon", &cordon).await.status, 200);
    let kinds = |items: &[Value]| -> Vec<String> {
        items.iter().map(|e| e["kind"].as_str().unwrap().to_owned()).collect()
    };
    let find = async |query: &str| all(&s, &s.admin, query, "after").await.0;

    let jobs = find("kind=job_submitted,node_cordoned").await;
    assert_eq!(kinds(&jobs), ["job_submitted", "job_submitted", "node_cordoned"]);
    let ann = find("actor=ann&kind=job_sub*").await;
    assert_eq!((kinds(&ann), &ann[0]["data"]["id"]), (vec!["job_submitted".into()], &json!(first)));
    let about = find(&format!("object=job:{second}")).await;
    assert!(!about.is_empty() && about.iter().all(|e| e["actor"] != "user:ann"), "{about:?}");
    let node = find("object=node:n1&actor=user:ops").await;
    assert_eq!(kinds(&node), ["node_cordoned"]);
    assert_eq!(kinds(&find("text=FAN%20is").await), ["node_cordoned"]);
    assert!(find("text=nosuchthing").await.is_empty());

    let at = node[0]["at"].as_str().unwrap();
    let since = find(&format!("from={at}&kind=node_cordoned")).await;
    assert_eq!(seqs(&since), seqs(&node));
    let before = find(&format!("to={at}")).await;
    assert!(before.iter().all(|e| e["at"].as_str().unwrap() < at) && !before.is_empty());
    assert!(find("from=2999-01-01T00:00:00Z").await.is_empty());
    assert!(find("to=1999-01-01T00:00:00Z").await.is_empty());
    let newest = "order=newest&kind=job_submitted&to=2999-01-01T00:00:00Z";
    let (back, _) = all(&s, &s.admin, newest, "before").await;
    assert_eq!(back[0]["data"]["id"], json!(second));
    assert_eq!(back.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_token_chooses_among_its_own_events() {
    let s = site().await;
    for _ in 0..3 {
        s.held_job(&s.other).await;
        s.held_job(&s.user).await;
    }
    let (own, pages) = all(&s, &s.user, "order=newest&limit=1&kind=job_submitted", "before").await;
    assert_eq!(own.len(), 3);
    assert!(pages >= 3);
    assert!(own.iter().all(|e| e["project"] == "alpha" && e.get("seq").is_none()), "{own:?}");
    let (none, _) = all(&s, &s.user, "actor=bob", "after").await;
    assert!(none.is_empty(), "{none:?}");
    let cursor = own[0]["cursor"].as_str().unwrap();
    let stolen = s.get(&s.other, &format!("/v1/events?before={cursor}")).await;
    assert_eq!(stolen.status, 400, "a position means nothing to another project");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_makes_no_sense_is_refused_with_its_parameter() {
    let s = site().await;
    for (query, field) in [
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("kind=Nonsense", "kind"),
        ("kind=", "kind"),
        ("actor=", "actor"),
        ("object=42", "object"),
        ("object=job:x", "object"),
        ("order=newest&after=1", "after"),
        ("before=999999", "before"),
        ("before=x", "before"),
    ] {
        let got = s.get(&s.admin, &format!("/v1/events?{query}")).await;
        assert_eq!((got.status.as_u16(), got.error().as_str()), (400, "invalid"), "{query}");
        assert_eq!(got.json()["error"]["field"], field, "{query}");
    }
    let stream = [("accept", "text/event-stream")];
    for query in ["to=2999-01-01T00:00:00Z", "order=newest", "before=1"] {
        let path = format!("/v1/events?{query}");
        let got = s.call(&s.admin, "GET", &path, &Value::Null, &stream).await;
        assert_eq!(got.status, 400, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_receivers_are_shown_to_operators_only() {
    let s = site().await;
    let watcher = s.token("watcher", Role::Viewer, None, None).await;
    let url = "http://muster:pa55word@chat.example/hook";
    let body = json!({"routing": {"receivers": [
        {"name": "chat", "by": {"webhook": {"url": url}}},
    ], "routes": [{"to": ["chat"]}]}});
    let set = s.call(&s.admin, "PUT", "/v1/routing", &body, &[]).await;
    assert_eq!(set.status, 200, "{:?}", set.body);
    assert_eq!(s.get(&watcher, "/v1/routing").await.status, 403);

    for query in ["kind=routing_set", "kind=routing_set&order=newest"] {
        let seen = s.get(&watcher, &format!("/v1/events?{query}")).await.json();
        let items = seen["items"].as_array().unwrap();
        assert_eq!((items.len(), &items[0]["data"]), (1, &json!({})), "{query}: {items:?}");
        assert_eq!(items[0]["actor"], "user:root");
        let known = s.get(&s.operator, &format!("/v1/events?{query}")).await.json();
        let shown = &known["items"][0]["data"]["routing"]["receivers"][0]["by"]["webhook"]["url"];
        assert_eq!(shown, url, "{query}");
    }
    // Nor is it found.
    for (token, found) in [(&watcher, 0), (&s.operator, 1)] {
        let seen = s.get(token, "/v1/events?text=pa55word").await.json();
        assert_eq!(seen["items"].as_array().unwrap().len(), found, "{seen}");
    }
}
