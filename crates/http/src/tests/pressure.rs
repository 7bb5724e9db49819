//! Callers who take more than their share: the others, and the probes, must not notice.

use super::{PATIENCE, Site, held, request, site, site_with};
use crate::HttpConfig;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use serde_json::Value;
use tower::ServiceExt as _;

/// A submit whose body has begun and does not go on.
fn unfinished(token: &str) -> Request<Body> {
    let pieces = futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"{")) });
    let body = Body::from_stream(futures::StreamExt::chain(pieces, futures::stream::pending()));
    Request::post("/v1/jobs")
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
        let next = tokio::time::timeout(PATIENCE / 3, answers.recv()).await;
        let why = format!("{} of {count} were refused, not {refusals}", out.len());
        out.push(next.unwrap_or_else(|_| panic!("{why}")).unwrap());
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_of_one_token_leave_the_others_alone() {
    let s = site_with(HttpConfig { concurrency: 16, ..HttpConfig::default() }).await;
    // At most half of what the server does at once is a wait for bodies.
    begin_bodies(&s, &s.viewer, 40, 32).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(s.get("", path).await.status, 200, "{path}");
    }
    assert_eq!(s.get(&s.other, "/v1/whoami").await.status, 200);
    assert_eq!(s.post(&s.other, "/v1/jobs", &held("a")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_answered_when_everything_else_is_full() {
    let s = site_with(HttpConfig { concurrency: 1, ..HttpConfig::default() }).await;
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
    let page = s.get(&s.viewer, "/metrics").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/plain"));
}
