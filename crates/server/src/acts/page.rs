//! Somebody is woken: a line in the server's log, one in a file, and a webhook.

use super::hook::Hook;
use super::{Outcome, files};
use muster_model::remedy::AskedAct;
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A page, as it is kept and sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Page {
    /// Number of the act.
    id: u64,
    site: String,
    at: Time,
    title: String,
    detail: String,
}

impl Page {
    pub(super) fn new(site: String, asked: &AskedAct, title: &str, detail: &str) -> Page {
        Page { id: asked.id, site, at: asked.at, title: title.into(), detail: detail.into() }
    }
}

pub(super) async fn carry_out(
    dir: &Path,
    hook: Option<&Hook>,
    page: &Page,
    open: impl Fn() -> bool,
) -> Outcome {
    let Ok(line) = serde_json::to_string(page) else { return Outcome::Later };
    let path = dir.join("pages.jsonl");
    let (text, id) = (line.clone(), page.id);
    let kept = tokio::task::spawn_blocking(move || {
        files::append_once(&path, &text, |old| {
            serde_json::from_str::<Page>(old).is_ok_and(|p| p.id == id)
        })
    });
    match kept.await {
        Ok(Ok(true)) => {
            tracing::error!(
                act = id,
                title = page.title,
                detail = page.detail,
                "somebody is called"
            );
        }
        Ok(Ok(false)) => {}
        // It is said all the same: a full disk must not keep people asleep.
        Ok(Err(e)) => {
            tracing::error!(act = id, title = page.title, error = %e, "somebody is called, and the page cannot be kept");
        }
        Err(_) => return Outcome::Later,
    }
    let mut message = "kept in pages.jsonl".to_owned();
    if let Some(hook) = hook {
        let key = format!("{}-act-{id}", page.site);
        if !hook.post(&key, line.as_bytes(), open).await {
            return Outcome::Later;
        }
        message = format!("{message}, sent to {}", hook.host());
    }
    Outcome::Over { ok: true, message }
}
