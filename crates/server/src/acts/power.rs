//! Power, by whatever the site plugged in. A node's power is cut at most once for an act: that it
//! was begun is written down before.

use super::{Desk, Outcome, files};
use muster_model::names::NodeName;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Characters of its last words that are kept.
const WORDS: usize = 300;

fn marks(dir: &Path) -> PathBuf {
    dir.join("acts")
}

fn mark(dir: &Path, label: &str) -> PathBuf {
    marks(dir).join(format!("{label}.begun"))
}

/// Forgets what was begun for acts that are over.
pub(super) fn tidy(desk: &Desk) {
    let Ok(entries) = std::fs::read_dir(marks(&desk.dir)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(label) = name.to_str().and_then(|n| n.strip_suffix(".begun")) else { continue };
        let id = label.rsplit('-').next().and_then(|n| n.parse().ok());
        let own = |id| super::label(desk.brain.read(|s| super::life(s, id)), id) == label;
        if id.is_some_and(|id: u64| !own(id) || !desk.is_open(id)) {
            // It only takes a little room.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

pub(super) async fn carry_out(
    dir: &Path,
    command: Option<&str>,
    label: &str,
    node: &NodeName,
) -> Outcome {
    let Some(command) = command else {
        let message = format!(
            "nothing is plugged in that cuts the power of node {node}: start the server with --power-cycle-command, or do it by hand"
        );
        return Outcome::Over { ok: false, message };
    };
    let path = mark(dir, label);
    if path.exists() {
        // A server before this one began it. Whether the node comes back is seen by its boot.
        return Outcome::Begun;
    }
    let begun = files::dir(&marks(dir)).and_then(|()| files::write(&path, command.as_bytes()));
    if let Err(e) = begun {
        tracing::error!(act = label, error = %e, "it cannot be written down that an act was begun");
        return Outcome::Later;
    }
    tracing::warn!(act = label, %node, "the power of a node is cut");
    match run(command, label, node).await {
        Ok(()) => Outcome::Begun,
        Err(why) => Outcome::Over {
            ok: false,
            message: format!("the power of node {node} could not be cut: {why}"),
        },
    }
}

async fn run(command: &str, label: &str, node: &NodeName) -> Result<(), String> {
    // No shell: a node's name is never more than one word of an argument.
    let mut words = command.split_whitespace().map(|w| w.replace("{node}", node.as_str()));
    let program = words.next().ok_or("the command is empty")?;
    let child = Command::new(&program)
        .args(words)
        .env("MUSTER_NODE", node.as_str())
        .env("MUSTER_ACT", label)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e: io::Error| format!("{program} does not start: {e}"))?;
    match tokio::time::timeout(PATIENCE, child.wait_with_output()).await {
        Err(_) => Err(format!("{program} did not end within {} s", PATIENCE.as_secs())),
        Ok(Err(e)) => Err(e.to_string()),
        Ok(Ok(out)) if out.status.success() => Ok(()),
        Ok(Ok(out)) => {
            let text = [out.stdout, out.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            let skip = text.trim().chars().count().saturating_sub(WORDS);
            let last: String = text.trim().chars().skip(skip).collect();
            Err(format!("{program} ended with {}: {last}", out.status))
        }
    }
}
