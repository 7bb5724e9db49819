//! Search over job output: what is found, by whom, and what is never found.

use super::{PATIENCE, Site, held, patient, site, site_with};
use crate::HttpConfig;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use muster_api::Timestamp;
use muster_link::messages::{LogChunk, Stream};
use muster_model::units::Span;
use muster_model::{AttemptKey, JobId};
use muster_server::output_search::{OutputSearch, OutputSearchConfig};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A site whose output is indexed, until the guard is dropped.
async fn indexed() -> (Site, tempfile::TempDir, DropGuard) {
    index(site().await)
}

/// The same of a site that is there already.
fn index(first: Site) -> (Site, tempfile::TempDir, DropGuard) {
    let stop = CancellationToken::new();
    let dir = tempfile::tempdir().unwrap();
    let config = OutputSearchConfig {
        dir: dir.path().join("output-index"),
        bytes: muster_model::units::Bytes::gib(1),
    };
    let (keeper, brain) = (first.logs.clone(), first.brain.clone());
    let output_search = OutputSearch::start(config, keeper, brain, stop.clone()).unwrap();
    let site = first.with_config(HttpConfig { output_search, ..patient() });
    (site, dir, stop.drop_guard())
}

/// What rank 0 of a job's first attempt prints.
async fn print(s: &Site, job: u64, text: &str) {
    let key = AttemptKey { job: JobId(job), attempt: 1 };
    let (age, data) = (Some(Span(0)), Bytes::copy_from_slice(text.as_bytes()));
    let chunk = LogChunk { key, rank: 0, stream: Stream::Stdout, offset: 0, age, data };
    s.logs.append(chunk).await.unwrap();
}

async fn submit(s: &Site, token: &str) -> u64 {
    let job = s.post(token, "/v1/jobs", &held("a")).await.json();
    job["id"].as_str().unwrap().parse().unwrap()
}

/// What is found, once the index is open.
async fn items(s: &Site, token: &str, query: &str) -> Vec<Value> {
    let since = Instant::now();
    loop {
        let got = s.get(token, &format!("/v1/search/output?{query}")).await;
        if got.status == 503 && since.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        assert_eq!(got.status, 200, "{query}: {:?}", got.body);
        return got.json()["items"].as_array().unwrap().clone();
    }
}

/// The lines that are found, once there are so many.
async fn found(s: &Site, token: &str, query: &str, many: usize) -> Vec<Value> {
    let since = Instant::now();
    loop {
        let items = items(s, token, query).await;
        if items.len() == many {
            return items;
        }
        assert!(since.elapsed() < PATIENCE, "{query}: {items:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_found_by_those_who_may_read_them() {
    let (s, _dir, _running) = indexed().await;
    let (own, theirs) = (submit(&s, &s.user).await, submit(&s, &s.other).await);
    print(&s, own, "start\n\u{1b}[33mNCCL WARN\u{1b}[0m secret of alpha\n").await;
    print(&s, theirs, "NCCL WARN secret of beta\n").await;
    let both = found(&s, &s.operator, "q=nccl+warn", 2).await;
    assert_eq!(both[0]["job"], theirs.to_string(), "the newest first: {both:?}");
    let hit = &both[1];
    assert_eq!((&hit["job"], &hit["project"]), (&own.to_string().into(), &"alpha".into()));
    assert_eq!((&hit["line"], &hit["offset"], &hit["rank"]), (&2.into(), &6.into(), &0.into()));
    assert_eq!((&hit["text"], &hit["cut"]), (&"NCCL WARN secret of alpha".into(), &false.into()));
    for token in [&s.user, &s.viewer] {
        let seen = items(&s, token, "q=secret").await;
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(seen[0]["project"], "alpha");
        assert_eq!(items(&s, token, "q=beta").await, Vec::<Value>::new());
        let asked = s.get(token, "/v1/search/output?q=secret&project=beta").await;
        assert_eq!(asked.status, 403);
        let asked = s.get(token, &format!("/v1/search/output?q=secret&job={theirs}")).await;
        assert_eq!(asked.status, 404);
    }
    assert_eq!(items(&s, &s.other, "q=secret").await[0]["project"], "beta");
    assert_eq!(items(&s, &s.operator, "q=secret&project=beta").await.len(), 1);
    let one = items(&s, &s.operator, &format!("q=secret&job={own}")).await;
    assert_eq!((one.len(), &one[0]["project"]), (1, &"alpha".into()));
    let late = items(&s, &s.operator, "q=secret&since=2999-01-01T00:00:00Z").await;
    assert_eq!(late, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_turns_no_text_around_it() {
    let (s, _dir, _running) = indexed().await;
    let job = submit(&s, &s.user).await;
    print(&s, job, "saved\tto \u{202e}txt.exe\u{2069} \u{9b}2J\u{7f}\n").await;
    let hits = found(&s, &s.user, "q=saved", 1).await;
    assert_eq!(hits[0]["text"], "saved\tto \\u{202e}txt.exe\\u{2069} \\u{9b}2J\\u{7f}");
    let got = s.get(&s.user, "/v1/search/output?q=saved").await;
    assert!(!got.json().to_string().contains(muster_model::text::is_odd), "{:?}", got.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_was_there_before_the_server_started_has_the_time_at_which_it_came() {
    let s = site().await;
    let job = submit(&s, &s.user).await;
    print(&s, job, "printed before\n").await;
    let (s, _dir, _running) = index(s);
    let hits = found(&s, &s.user, "q=printed", 1).await;
    let key = AttemptKey { job: JobId(job), attempt: 1 };
    let kept = s.logs.read_here((key, 0, Stream::Stdout), 0, 100).unwrap();
    let at = kept.times[0].1.map(Timestamp::from);
    assert!(at.is_some());
    assert_eq!(hits[0]["at"], serde_json::to_value(at).unwrap());
    let late = items(&s, &s.user, "q=printed&since=2999-01-01T00:00:00Z").await;
    assert_eq!(late, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_leave_nothing_out() {
    let (s, _dir, _running) = indexed().await;
    let job = submit(&s, &s.user).await;
    let text: String = (1..=7).map(|n| format!("line number{n}\n")).collect();
    print(&s, job, &text).await;
    found(&s, &s.user, "q=line", 7).await;
    let (mut cursor, mut seen) = (String::new(), Vec::new());
    loop {
        let got = s.get(&s.user, &format!("/v1/search/output?q=line&limit=3{cursor}")).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let page = got.json();
        let lines = page["items"].as_array().unwrap().iter();
        seen.extend(lines.map(|h| h["line"].as_u64().unwrap()));
        let Some(next) = page["cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
        // It says nothing about how many lines others have, and is of no use to them.
        let plain = URL_SAFE_NO_PAD.decode(next).unwrap();
        let plain: Value = serde_json::from_slice(&plain).unwrap();
        let number = plain["p"].as_str().map(str::parse::<u64>);
        assert!(number.is_some_and(|n| n.is_err()), "{plain}");
        for token in [&s.other, &s.operator] {
            let got = s.get(token, &format!("/v1/search/output?q=line{cursor}")).await;
            assert_eq!(got.status, 400);
            assert_eq!(got.json()["error"]["field"], "cursor");
        }
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_cannot_be_searched_for_is_refused_with_its_field() {
    let (s, _dir, _running) = indexed().await;
    let long = format!("q={}", "x".repeat(201));
    for (query, field) in [
        ("", "q"),
        ("q=", "q"),
        ("q=***", "q"),
        ("q=%22open", "q"),
        (long.as_str(), "q"),
        ("q=x&limit=0", "limit"),
        ("q=x&limit=201", "limit"),
        ("q=x&cursor=nonsense", "cursor"),
    ] {
        let got = s.get(&s.user, &format!("/v1/search/output?{query}")).await;
        assert_eq!((got.status.as_u16(), got.error().as_str()), (400, "invalid"), "{query}");
        assert_eq!(got.json()["error"]["field"], field, "{query}");
    }
    let nasty = "q=text:x+OR+NEAR(a)+%27;DROP--+*";
    assert_eq!(items(&s, &s.user, nasty).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_an_index_says_so_and_how_to_get_one() {
    let s = site_with(patient()).await;
    let got = s.get(&s.user, "/v1/search/output?q=x").await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (409, "conflict"));
    let error = got.json()["error"].clone();
    assert!(error["message"].as_str().unwrap().starts_with("output search is off: "), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--output-search on"), "{error}");
}
