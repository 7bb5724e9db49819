//! Somebody is woken: a line in the server's log, one in a file, and a webhook.

use super::hook::Hook;
use super::{End, files};
use crate::effect::Outcome;
use muster_model::remediation::AskedAct;
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// So the end of a page says that it reached a receiver.
const SENT: &str = ", sent to ";

/// Did a page reach somebody, or was it only kept? By what its act ended with.
#[must_use]
pub fn was_sent(message: &str) -> bool {
    message.contains(SENT)
}

/// A page, as it is kept and sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Page {
    /// Number of the act.
    id: u64,
    /// The life of the log in which it was asked for: in the next one the number returns.
    #[serde(default, skip_serializing_if = "is_first")]
    life: u64,
    site: String,
    at: Time,
    title: String,
    detail: String,
}

fn is_first(life: &u64) -> bool {
    *life == 0
}

impl Page {
    pub(super) fn new(
        site: String,
        life: u64,
        asked: &AskedAct,
        title: &str,
        detail: &str,
    ) -> Page {
        let (title, detail) = (title.into(), detail.into());
        Page { id: asked.id, life, site, at: asked.at, title, detail }
    }
}

pub(super) async fn execute(dir: &Path, hook: Option<&Hook>, page: &Page) -> Outcome<End> {
    let Ok(line) = serde_json::to_string(page) else { return Outcome::Later };
    let path = dir.join("pages.jsonl");
    let (text, id, life) = (line.clone(), page.id, page.life);
    let kept = tokio::task::spawn_blocking(move || {
        files::append_once(&path, &text, |old| {
            serde_json::from_str::<Page>(old).is_ok_and(|p| (p.life, p.id) == (life, id))
        })
    });
    match kept.await {
        Ok(Ok(true)) => {
            tracing::error!(act = id, title = page.title, detail = page.detail, "a page is due");
        }
        Ok(Ok(false)) => {}
        // It is said all the same: a full disk must not keep people asleep.
        Ok(Err(e)) => {
            tracing::error!(act = id, title = page.title, error = %e, "a page is due, and it cannot be stored");
        }
        Err(_) => return Outcome::Later,
    }
    let mut message = "stored in pages.jsonl".to_owned();
    if let Some(hook) = hook {
        let key = format!("{}-act-{}", page.site, super::label(life, id));
        if !hook.post(&key, line.as_bytes()).await {
            return Outcome::Later;
        }
        message = format!("{message}{SENT}{}", hook.host());
    }
    Outcome::Over(End { ok: true, message })
}
