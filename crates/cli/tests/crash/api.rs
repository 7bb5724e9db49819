//! The API over plain HTTP with idempotency keys of our own, so that a test can repeat a request
//! whose answer was lost.

use serde_json::Value;
use std::time::{Duration, Instant};

/// How long a server may be away; it only keeps a broken test from hanging.
const PATIENCE: Duration = Duration::from_secs(300);

/// A client of one server, which may be away.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    base: String,
    token: String,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// 2xx: whatever it says holds from now on.
    Done(Value),
    /// Nobody knows: no answer, or one that says "later".
    Lost(String),
    /// Any other status.
    Refused(u16, String),
}

impl Api {
    pub(crate) fn new(base: &str, token: &str) -> Api {
        muster_link::tls::install();
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(20))
            .connect_timeout(Duration::from_secs(2))
            .tls_certs_only([])
            .build()
            .expect("a client without TLS needs nothing");
        Api { http, base: base.into(), token: token.into() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.http.get(format!("{}{path}", self.base))).await
    }

    pub(crate) async fn post(&self, path: &str, key: &str, body: Option<&Value>) -> Answer {
        let request = self.http.post(format!("{}{path}", self.base)).header("Idempotency-Key", key);
        self.send(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let answer = match request.bearer_auth(&self.token).send().await {
            Ok(answer) => answer,
            Err(e) => return Answer::Lost(e.to_string()),
        };
        let status = answer.status();
        let text = match answer.text().await {
            Ok(text) => text,
            Err(e) => return Answer::Lost(e.to_string()),
        };
        if status.is_success() {
            match serde_json::from_str(&text) {
                Ok(value) => Answer::Done(value),
                Err(_) => Answer::Done(Value::String(text)),
            }
        } else if matches!(status.as_u16(), 429 | 502..=504) {
            Answer::Lost(format!("{status}: {text}"))
        } else {
            Answer::Refused(status.as_u16(), text)
        }
    }

    /// Asks until an answer comes.
    pub(crate) async fn read(&self, path: &str) -> Result<Value, String> {
        let start = Instant::now();
        loop {
            let lost = match self.get(path).await {
                Answer::Done(value) => return Ok(value),
                Answer::Lost(why) => why,
                Answer::Refused(status, text) => {
                    return Err(format!("GET {path} answered {status}: {text}"));
                }
            };
            if start.elapsed() > PATIENCE {
                return Err(format!("GET {path} was never answered: {lost}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends the same request with the same key until an answer comes.
    pub(crate) async fn insist(&self, path: &str, key: &str, body: Option<&Value>) -> Answer {
        let start = Instant::now();
        loop {
            match self.post(path, key, body).await {
                Answer::Lost(_) if start.elapsed() < PATIENCE => {}
                answer => return answer,
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Every page of a list.
    pub(crate) async fn all(&self, path: &str, next: &str) -> Result<Vec<Value>, String> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let more = cursor.as_ref().map(|c| format!("&{next}={c}")).unwrap_or_default();
            let mut page = self.read(&format!("{path}?limit=1000{more}")).await?;
            let Some(Value::Array(got)) = page.get_mut("items").map(Value::take) else {
                return Err(format!("GET {path} answered without items: {page}"));
            };
            let none = got.is_empty();
            items.extend(got);
            match page.get("cursor").and_then(Value::as_str) {
                Some(c) if !none => cursor = Some(c.to_owned()),
                _ => return Ok(items),
            }
        }
    }
}
