//! Callers who take more than their share: the others, and the probes, must not notice.

use super::{PATIENCE, Site, all_turns, held, id_of, patient, request, site, site_with};
use crate::{HttpConfig, Rate};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use serde_json::Value;
use tower::ServiceExt as _;

/// A submit whose body has begun and does not go on.
fn unfinished(token: &str) -> Request<Body> {
    unfinished_at("POST", "/v1/jobs", token)
}

fn unfinished_at(method: &str, path: &str, token: &str) -> Request<Body> {
    let pieces = futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"{")) });
    let body = Body::from_stream(futures::StreamExt::chain(pieces, futures::stream::pending()));
    Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

/// Sends so many of them, and waits until so many were refused.
async fn begin_bodies(s: &Site, token: &str, count: usize, refusals: usize) -> Vec<StatusCode> {
    let (refused, mut answers) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..count {
        let (router, request, refused) = (s.router.clone(), unfinished(token), refused.clone());
        tokio::spawn(async move {
            let _ = refused.send(router.oneshot(request).await.unwrap().status());
        });
    }
    let mut out = Vec::new();
    while out.len() < refusals {
        let next = tokio::time::timeout(PATIENCE, answers.recv()).await;
        let why = format!("{} of {count} were refused, not {refusals}", out.len());
        out.push(next.unwrap_or_else(|_| panic!("{why}")).unwrap());
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_of_one_token_leave_the_others_alone() {
    let s = site_with(HttpConfig { concurrency: 16, ..patient() }).await;
    // At most half of what the server does at once is a wait for bodies.
    begin_bodies(&s, &s.viewer, 40, 32).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(s.get("", path).await.status, 200, "{path}");
    }
    assert_eq!(s.get(&s.other, "/v1/whoami").await.status, 200);
    assert_eq!(s.post(&s.other, "/v1/jobs", &held("a")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_has_so_many_unfinished_bodies_and_no_more() {
    let s = site_with(HttpConfig { bodies_per_token: 2, ..patient() }).await;
    let refused = begin_bodies(&s, &s.user, 5, 3).await;
    assert!(refused.iter().all(|status| *status == 429), "{refused:?}");
    let got = s.send(unfinished(&s.user)).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (429, "rate_limited"));
    assert!(!got.header("retry-after").is_empty());
    // A body that comes at once needs no place.
    assert_eq!(s.post(&s.user, "/v1/jobs", &held("a")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_so_many_unfinished_bodies_and_no_more() {
    let s = site_with(HttpConfig { bodies_per_address: 3, ..patient() }).await;
    let all = s.app.0.bodies.available_permits();
    begin_bodies(&s, &s.user, 2, 0).await;
    let begun = async {
        while s.app.0.bodies.available_permits() > all - 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.expect("they are let in");
    let refused = begin_bodies(&s, &s.other, 4, 3).await;
    assert!(refused.iter().all(|status| *status == 429), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_go_on_is_given_up() {
    let idle = std::time::Duration::from_millis(50);
    let s = site_with(HttpConfig { body_idle: idle, ..patient() }).await;
    let got = s.send(unfinished(&s.user)).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (400, "invalid"));
    assert_eq!(got.header("connection"), "close");
    assert_eq!(s.app.0.bodies.available_permits(), HttpConfig::default().concurrency / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_for_a_body_before_they_have_shown_a_token() {
    let s = site().await;
    let wrong = format!("mst_{}_{}", "a".repeat(10), "b".repeat(32));
    assert_eq!(s.send(unfinished(&wrong)).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_reports_the_whole_site_is_read_from_admins_only() {
    let s = site().await;
    for token in [&s.viewer, &s.user, &s.operator] {
        let got = s.send(unfinished_at("PUT", "/v1/topology", token)).await;
        assert_eq!((got.status.as_u16(), got.error().as_str()), (403, "not_allowed"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_has_so_many_requests_at_once_and_no_more() {
    let s = site_with(HttpConfig { requests_per_token: 2, ..patient() }).await;
    let all = s.app.0.room.available_permits();
    let seq = (s.brain.durable().0 + 1000).to_string();
    let waits = || {
        let seq = [("muster-min-seq", seq.as_str())];
        let request = request(&s.admin, "GET", "/v1/whoami", &Value::Null, &seq);
        tokio::spawn(s.router.clone().oneshot(request))
    };
    let waiting = [waits(), waits()];
    let both = async {
        while s.app.0.requests_by_token.count(&id_of(&s.admin)) < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, both).await.expect("they wait");
    let got = s.get(&s.admin, "/v1/whoami").await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (429, "rate_limited"));
    assert_eq!(s.get(&s.operator, "/v1/whoami").await.status, 200, "others are not held up");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    let over = async {
        while s.app.0.room.available_permits() < all {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, over).await.expect("they are over");
    assert_eq!(s.get(&s.admin, "/v1/whoami").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_taken_keeps_its_place_and_a_stream_does_not() {
    let s = site_with(HttpConfig { requests_per_token: 1, ..patient() }).await;
    let ask = |path| s.router.clone().oneshot(request(&s.admin, "GET", path, &Value::Null, &[]));
    let untaken = ask("/v1/jobs").await.unwrap();
    assert_eq!(untaken.status(), 200);
    assert_eq!(s.get(&s.admin, "/v1/whoami").await.status, 429);
    drop(untaken);
    let stream = ask("/v1/console/frames").await.unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(s.get(&s.admin, "/v1/whoami").await.status, 200);
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_answered_when_everything_else_is_full() {
    let s = site_with(HttpConfig { concurrency: 1, ..patient() }).await;
    // A read that waits for a part of the log that does not come.
    let seq = (s.brain.durable().0 + 1000).to_string();
    let waits = request(&s.admin, "GET", "/v1/whoami", &Value::Null, &[("muster-min-seq", &seq)]);
    let waiting = tokio::spawn(s.router.clone().oneshot(waits));
    let full = async {
        while s.app.0.room.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, full).await.expect("it waits");
    assert_eq!(s.get(&s.admin, "/v1/whoami").await.status, 503, "it is full");
    assert_eq!(s.get("", "/healthz").await.status, 200);
    assert_eq!(s.get("", "/readyz").await.status, 200);
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_take_a_token() {
    let s = site().await;
    let got = s.get("", "/metrics").await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (401, "unauthenticated"));
    let page = s.get(&s.operator, "/metrics").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/plain"));
    let got = s.get(&s.viewer, "/metrics").await;
    let refused = (got.status.as_u16(), got.error());
    assert_eq!(refused, (403, "not_allowed".into()), "they are the whole site's");
    let s = site_with(HttpConfig { open_metrics: true, ..patient() }).await;
    for token in ["", s.viewer.as_str()] {
        assert_eq!(s.get(token, "/metrics").await.status, 200, "a site may open it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_refused_again_and_again_learns_it_late() {
    let s = site_with(HttpConfig {
        refusals: Rate { per_second: 0, burst: 2 },
        refusal_pause: PATIENCE * 100,
        ..patient()
    })
    .await;
    for _ in 0..2 {
        assert_eq!(s.get("", "/metrics").await.status, 401, "it is reported at once");
    }
    let third = s.get("", "/metrics");
    tokio::pin!(third);
    let others = async {
        for _ in 0..20 {
            assert_eq!(s.get(&s.admin, "/v1/whoami").await.status, 200, "who may, is answered");
        }
        assert_eq!(s.get("", "/healthz").await.status, 200, "probes are answered");
        assert_eq!(s.app.0.room.available_permits(), patient().concurrency, "it takes no room");
    };
    tokio::select! {
        biased;
        got = &mut third => panic!("it waits: {}", got.status),
        () = others => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_page_of_metrics_serves_many() {
    let long = std::time::Duration::from_secs(3600);
    let s = site_with(HttpConfig { metrics_every: long, ..patient() }).await;
    let first = s.get(&s.operator, "/metrics").await;
    s.held_job(&s.user).await;
    let second = s.get(&s.admin, "/metrics").await;
    assert_eq!(first.body, second.body, "it is not made anew for each");
    let fresh = HttpConfig { metrics_every: std::time::Duration::ZERO, ..patient() };
    let s = site_with(fresh).await;
    let first = s.get(&s.operator, "/metrics").await;
    s.held_job(&s.user).await;
    assert_ne!(first.body, s.get(&s.operator, "/metrics").await.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_objectives_and_reports_of_a_period_are_made_aside() {
    let s = site().await;
    for path in [
        "/v1/alerts",
        "/v1/alerts/none",
        "/v1/slos",
        "/v1/slos/none",
        "/v1/reports/period",
        "/v1/readiness",
    ] {
        let turns = all_turns(&s, &s.operator);
        let mut waits = std::pin::pin!(s.get(&s.operator, path));
        let other = tokio::select! {
            biased;
            got = waits.as_mut() => panic!("{path} did not wait: {:?}", got.body),
            got = s.get(&s.admin, path) => got,
        };
        drop(turns);
        assert_eq!(waits.await.status, other.status, "{path}");
    }
}
