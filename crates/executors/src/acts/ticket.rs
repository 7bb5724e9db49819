//! A ticket: the evidence as JSON and Markdown, written once, and sent once as far as can be seen.

use super::bundle::Bundle;
use super::hook::Hook;
use super::{End, files};
use crate::effect::Outcome;
use std::io;
use std::path::{Path, PathBuf};

/// Writes the files unless they are there; the JSON, as it is kept.
fn keep(dir: &Path, name: &str, bundle: &Bundle) -> io::Result<Vec<u8>> {
    let json = dir.join(format!("{name}.json"));
    match std::fs::read(&json) {
        Ok(bytes) => return Ok(bytes),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    files::dir(dir)?;
    files::write(&dir.join(format!("{name}.md")), bundle.markdown().as_bytes())?;
    // The JSON comes last: where it is, all is there.
    let bytes = serde_json::to_vec_pretty(bundle)?;
    files::write(&json, &bytes)?;
    Ok(bytes)
}

pub(super) async fn execute(dir: &Path, hook: Option<&Hook>, bundle: &Bundle) -> Outcome<End> {
    let label = super::label(bundle.life(), bundle.act);
    let name = match bundle.life() {
        0 => format!("{}-{}", bundle.remediation_id(), bundle.act),
        life => format!("{life}-{}-{}", bundle.remediation_id(), bundle.act),
    };
    let tickets: PathBuf = dir.join("tickets");
    let (at, own, what) = (tickets.clone(), name.clone(), bundle.clone());
    let body = match tokio::task::spawn_blocking(move || keep(&at, &own, &what)).await {
        Ok(Ok(body)) => body,
        Ok(Err(e)) => {
            tracing::error!(ticket = name, error = %e, "a ticket cannot be written");
            return Outcome::Later;
        }
        Err(_) => return Outcome::Later,
    };
    let mut message = format!("tickets/{name}.json");
    if let Some(hook) = hook {
        let sent = tickets.join(format!("{name}.sent"));
        if !sent.exists() {
            let key = format!("{}-act-{label}", bundle.site);
            if !hook.post(&key, &body).await {
                return Outcome::Later;
            }
            if let Err(e) = files::write(&sent, hook.host().as_bytes()) {
                // At worst it is sent again, under the same key.
                tracing::warn!(ticket = name, error = %e, "it cannot be stored that a ticket was sent");
            }
        }
        message = format!("{message}, sent to {}", hook.host());
    }
    tracing::info!(ticket = name, node = bundle.node.name, "a ticket was opened");
    Outcome::Over(End { ok: true, message })
}
