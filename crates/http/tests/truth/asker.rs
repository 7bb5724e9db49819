//! Asks a server as one caller, and keeps what the answers follow from.

use super::map;
use super::moment::PATIENCE;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::Value;
use std::collections::BTreeSet;
use tower::ServiceExt as _;

/// One caller.
pub(super) struct Asker {
    pub(super) router: Router,
    pub(super) token: String,
    /// The token is bound to no project: a tenant does not see the numbers of records.
    pub(super) whole: bool,
    /// Records that answers follow from.
    pub(super) seqs: BTreeSet<u64>,
    pub(super) answers: u64,
    /// What was not answered.
    pub(super) refused: Vec<String>,
    pub(super) paths: BTreeSet<String>,
}

/// The `id` of something in a list.
pub(super) fn id(v: &Value) -> String {
    v["id"].as_str().unwrap_or_default().to_owned()
}

/// The elements of a list; none where there is no list.
pub(super) fn listed(v: &Value) -> Vec<Value> {
    v.as_array().cloned().unwrap_or_default()
}

/// As a part of a path.
pub(super) fn part(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    let one = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    text.bytes().map(one).collect()
}

impl Asker {
    async fn begin(&mut self, path: &str) -> Option<Body> {
        let request = Request::builder()
            .uri(path)
            .header("authorization", format!("Bearer {}", self.token))
            .body(Body::empty())
            .expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        self.answers += 1;
        self.paths.insert(path.split('?').next().unwrap_or(path).to_owned());
        let seq = parts.headers.get("muster-seq").and_then(|v| v.to_str().ok());
        self.seqs.extend(seq.filter(|_| self.whole).and_then(|s| s.parse::<u64>().ok()));
        if parts.status == 200 {
            return Some(body);
        }
        let bytes = body.collect().await.expect("an error").to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.refused.push(format!("GET {path} answers {}: {text}", parts.status));
        None
    }

    pub(super) async fn bytes(&mut self, path: &str) -> Bytes {
        let Some(body) = self.begin(path).await else { return Bytes::new() };
        let whole = tokio::time::timeout(PATIENCE, body.collect()).await;
        whole.expect("an answer that ends").expect("a whole answer").to_bytes()
    }

    pub(super) async fn json(&mut self, path: &str) -> Value {
        let bytes = self.bytes(path).await;
        if bytes.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{path}: {e}: {bytes:?}"))
    }

    /// A list that has one page.
    pub(super) async fn of(&mut self, path: &str) -> Vec<Value> {
        listed(&self.json(path).await["items"])
    }

    /// All pages of a list.
    pub(super) async fn list(&mut self, path: &str) -> Vec<Value> {
        self.pages(path, "cursor").await
    }

    /// The same; `place` names where the next page begins.
    pub(super) async fn pages(&mut self, path: &str, place: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut next = path.to_owned();
        loop {
            let mut page = self.json(&next).await;
            if let Value::Array(items) = page["items"].take() {
                all.extend(items);
            }
            match page["cursor"].as_str() {
                Some(cursor) => next = format!("{path}&{place}={}", part(cursor)),
                None => return all,
            }
        }
    }

    /// The first picture of the live map; the stream goes on.
    pub(super) async fn picture(&mut self) -> Bytes {
        let Some(mut body) = self.begin("/v1/console/frames").await else { return Bytes::new() };
        let mut got: Vec<u8> = Vec::new();
        while map::cells(&got).is_none() {
            let next = tokio::time::timeout(PATIENCE, body.frame()).await.expect("a frame");
            let next = next.expect("a picture").expect("bytes");
            got.extend(next.into_data().unwrap_or_default());
        }
        got.into()
    }
}
