//! A webhook: a POST that is tried until it is taken.

use super::ActsError;
use crate::webhook::{self, signature};
use std::path::PathBuf;
use std::time::Duration;

/// The first pause after a try that failed, and the longest; each is twice the one before.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Where to post.
#[derive(Debug)]
pub(super) struct Hook {
    client: reqwest::Client,
    url: reqwest::Url,
    secret: Option<PathBuf>,
    pub(super) pauses: (Duration, Duration),
}

impl Hook {
    pub(super) fn new(url: &str, secret: Option<PathBuf>) -> Result<Hook, ActsError> {
        let wrong = |why: String| ActsError::Url { url: url.to_owned(), why };
        let parsed = reqwest::Url::parse(url).map_err(|e| wrong(e.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(wrong("write http://… or https://…".into()));
        }
        let client = webhook::client()?;
        Ok(Hook { client, url: parsed, secret, pauses: PAUSES })
    }

    /// Where it leads, without what may be secret in it.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or("?")
    }

    /// Posts until it is taken; false when `wanted` says that it need not be any more. The key
    /// lets the other side see a repeat for what it is.
    pub(super) async fn post(&self, key: &str, body: &[u8], wanted: impl Fn() -> bool) -> bool {
        let (mut pause, most) = self.pauses;
        loop {
            match self.once(key, body).await {
                Ok(()) => return true,
                Err(why) => {
                    tracing::warn!(key, host = self.host(), why, "a webhook did not take it");
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(most);
            if !wanted() {
                return false;
            }
        }
    }

    async fn once(&self, key: &str, body: &[u8]) -> Result<(), String> {
        let mut headers = vec![("idempotency-key", key.to_owned())];
        if let Some(path) = &self.secret {
            // Read each time: it may be replaced while the server runs.
            let secret = tokio::fs::read(path)
                .await
                .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
            headers.push(("muster-signature", signature(secret.trim_ascii(), body)));
        }
        webhook::post(&self.client, self.url.clone(), &headers, body).await
    }
}
