//! A webhook: where tickets and pages are posted.

use super::ActsError;
use crate::webhook::{self, signature};
use std::path::PathBuf;

/// Where to post.
#[derive(Debug)]
pub(super) struct Hook {
    client: reqwest::Client,
    url: reqwest::Url,
    secret: Option<PathBuf>,
}

impl Hook {
    pub(super) fn new(url: &str, secret: Option<PathBuf>) -> Result<Hook, ActsError> {
        let wrong = |why: String| ActsError::Url { url: url.to_owned(), why };
        let parsed = reqwest::Url::parse(url).map_err(|e| wrong(e.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(wrong("write http://… or https://…".into()));
        }
        let client = webhook::client()?;
        Ok(Hook { client, url: parsed, secret })
    }

    /// Where it leads, without what may be secret in it.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or("?")
    }

    /// Posts once; true when it was taken. The key lets the other side see a repeat for what it is.
    pub(super) async fn post(&self, key: &str, body: &[u8]) -> bool {
        let posted = self.try_post(key, body).await;
        if let Err(why) = &posted {
            tracing::warn!(key, host = self.host(), why, "a webhook did not take it");
        }
        posted.is_ok()
    }

    async fn try_post(&self, key: &str, body: &[u8]) -> Result<(), String> {
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
