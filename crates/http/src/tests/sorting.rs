//! Orders of the list of jobs, and that pages of them have each job once.

use super::{Site, site};
use serde_json::{Value, json};

async fn submit(s: &Site, name: &str, gpus: u32, priority: &str) {
    let spec = json!({"name": name, "project": "alpha", "gang": {"gpus": gpus},
        "run": {"command": ["true"]}, "priority": priority, "hold": true});
    let got = s.post(&s.admin, "/v1/jobs", &spec).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
}

fn names(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap();
    items.iter().map(|j| j["name"].as_str().unwrap().to_owned()).collect()
}

/// All pages, so many jobs at a time. After the first one `between` comes.
async fn paged(s: &Site, sort: &str, limit: u32, between: Option<&str>) -> String {
    let mut path = format!("/v1/jobs?sort={sort}&limit={limit}");
    let (mut all, mut between) = (Vec::new(), between);
    loop {
        let got = s.get(&s.user, &path).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let page = got.json();
        all.extend(names(&page));
        if let Some(name) = between.take() {
            submit(s, name, 1, "normal").await;
        }
        let Some(cursor) = page["cursor"].as_str() else { return all.join(" ") };
        path = format!("/v1/jobs?sort={sort}&limit={limit}&cursor={cursor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_sorted_and_its_pages_have_each_job_once() {
    let s = site().await;
    for (name, gpus, priority) in
        [("b", 4, "normal"), ("d", 1, "low"), ("a", 2, "normal"), ("c", 1, "high")]
    {
        submit(&s, name, gpus, priority).await;
    }
    for (sort, wanted) in [
        ("id", "b d a c"),
        ("-id", "c a d b"),
        ("name", "a b c d"),
        ("-name", "d c b a"),
        // Of equal ones the older comes first, or the newer where it is turned round.
        ("project", "b d a c"),
        ("-user", "c a d b"),
        ("state", "b d a c"),
        ("gpus", "d c a b"),
        ("-gpus", "b a c d"),
        ("priority", "d b a c"),
        ("-priority", "c a b d"),
        ("submitted", "b d a c"),
        ("-submitted", "c a d b"),
        // None has started: all of them are still listed.
        ("started", "b d a c"),
        ("-duration", "c a d b"),
    ] {
        for limit in [1, 3, 100] {
            assert_eq!(paged(&s, sort, limit, None).await, wanted, "{sort}, {limit} at a time");
        }
    }
    // What comes between two pages is in its place, or before what was read; nothing comes twice.
    assert_eq!(paged(&s, "name", 2, Some("bb")).await, "a b bb c d");
    assert_eq!(paged(&s, "-name", 2, Some("e")).await, "d c bb b a");
    let with_filter = s.get(&s.user, "/v1/jobs?sort=-name&prefix=b").await.json();
    assert_eq!(names(&with_filter), ["bb", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_does_not_exist_and_a_cursor_of_another_are_refused() {
    let s = site().await;
    submit(&s, "a", 1, "normal").await;
    submit(&s, "b", 1, "normal").await;
    let page = s.get(&s.user, "/v1/jobs?sort=name&limit=1").await.json();
    let cursor = page["cursor"].as_str().unwrap();
    for (query, field) in [
        ("sort=colour".to_owned(), "sort"),
        ("sort=".to_owned(), "sort"),
        ("sort=--name".to_owned(), "sort"),
        ("sort=name&last_ended=true".to_owned(), "sort"),
        (format!("sort=-name&cursor={cursor}"), "cursor"),
        (format!("cursor={cursor}"), "cursor"),
        ("sort=name&cursor=x".to_owned(), "cursor"),
    ] {
        let got = s.get(&s.user, &format!("/v1/jobs?{query}")).await;
        assert_eq!(got.status, 400, "{query}: {:?}", got.body);
        assert_eq!(got.json()["error"]["field"], field, "{query}");
    }
    let got = s.get(&s.user, "/v1/jobs?sort=colour").await.json();
    let hint = got["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("submitted") && hint.contains("duration"), "{hint}");
}
