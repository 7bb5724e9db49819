//! Tests of the network over HTTP, as far as they go without agents.

use super::site;
use axum::http::StatusCode;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_tested_is_refused_with_a_reason() {
    let s = site().await;
    let path = "/v1/fabric/tests";
    let got = s.get(&s.operator, path).await.json();
    assert_eq!(got["items"], json!([]));
    for (body, status, word) in [
        (json!({}), StatusCode::CONFLICT, "fewer than two nodes"),
        (json!({"nodes": ["nobody"]}), StatusCode::NOT_FOUND, "no node nobody"),
        (json!({"nodes": ["a b"]}), StatusCode::BAD_REQUEST, "a b"),
        (json!({"domain": "cow:1"}), StatusCode::BAD_REQUEST, "cow:1"),
        (json!({"domain": "pool:none"}), StatusCode::NOT_FOUND, "pool:none"),
        (json!({"seconds": 0}), StatusCode::UNPROCESSABLE_ENTITY, "seconds"),
        (json!({"streams": 33}), StatusCode::UNPROCESSABLE_ENTITY, "streams"),
        (json!({"rounds": 5000}), StatusCode::UNPROCESSABLE_ENTITY, "rounds"),
        (json!({"speed": 1}), StatusCode::UNPROCESSABLE_ENTITY, "speed"),
    ] {
        let got = s.post(&s.operator, path, &body).await;
        assert_eq!(got.status, status, "{body}: {:?}", got.body);
        assert!(got.error().contains(word) || format!("{:?}", got.body).contains(word), "{body}");
    }
    for absent in ["/v1/fabric/tests/7", "/v1/fabric/tests/x"] {
        assert_eq!(s.get(&s.operator, absent).await.status, StatusCode::NOT_FOUND);
    }
}
