//! Power, by whatever the site plugged in. A node's power is cut at most once for an act. That it
//! was begun is written down before, in this server's own directory; what another server began
//! cannot be seen there, so an act that was asked for under an earlier lead is not begun any more.
//! If nobody began it, its time runs out and the next step is taken.

use super::{Acts, End, files, is_open};
use crate::effect::{Log, Outcome};
use muster_model::names::NodeName;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Characters of its last words that are kept.
const WORDS: usize = 300;
/// Bytes of its output in which they are looked for.
const TAIL: u64 = 4096;

fn marks(dir: &Path) -> PathBuf {
    dir.join("acts")
}

fn mark(dir: &Path, label: &str) -> PathBuf {
    marks(dir).join(format!("{label}.begun"))
}

/// Where the command's output goes: a file, because the command may outlive this server.
fn output(dir: &Path, label: &str) -> PathBuf {
    marks(dir).join(format!("{label}.out"))
}

/// Forgets what was begun for acts that are over.
pub(super) fn tidy<L: Log>(acts: &Acts<L>) {
    let Ok(entries) = std::fs::read_dir(marks(&acts.dir)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let label = name.strip_suffix(".begun").or_else(|| name.strip_suffix(".out"));
        let Some(label) = label else { continue };
        let id = label.rsplit('-').next().and_then(|n| n.parse().ok());
        let over = |id: u64| {
            acts.log.read(|s| super::label(super::life(s, id), id) != label || !is_open(s, id))
        };
        if id.is_some_and(over) {
            // It only takes a little room.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// `earlier`: it was asked for under an earlier lead.
pub(super) async fn execute(
    dir: &Path,
    command: Option<&str>,
    label: &str,
    node: &NodeName,
    earlier: bool,
) -> Outcome<End> {
    let Some(command) = command else {
        let message = format!(
            "nothing is plugged in that cuts the power of node {node}: start the server with --power-cycle-command, or do it by hand"
        );
        return Outcome::Over(End { ok: false, message });
    };
    let path = mark(dir, label);
    if path.exists() || earlier {
        // A server before this one began it, or may have. Whether the node comes back is seen by
        // its boot.
        return Outcome::Begun;
    }
    let begun = files::dir(&marks(dir)).and_then(|()| files::write(&path, command.as_bytes()));
    if let Err(e) = begun {
        tracing::error!(act = label, error = %e, "it cannot be written down that an act was begun");
        return Outcome::Later;
    }
    tracing::warn!(act = label, %node, "the power of a node is cut");
    match run(dir, command, label, node).await {
        Ok(()) => Outcome::Begun,
        Err(why) => Outcome::Over(End {
            ok: false,
            message: format!("the power of node {node} could not be cut: {why}"),
        }),
    }
}

async fn run(dir: &Path, command: &str, label: &str, node: &NodeName) -> Result<(), String> {
    // No shell: a node's name is never more than one word of an argument.
    let mut words = command.split_whitespace().map(|w| w.replace("{node}", node.as_str()));
    let program = words.next().ok_or("the command is empty")?;
    let path = output(dir, label);
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path);
    let (out, err) = file
        .and_then(|f| Ok((f.try_clone()?, f)))
        .map_err(|e| format!("{} cannot be written: {e}", path.display()))?;
    // It is not killed when this server stops: between off and on that would leave the node off.
    let mut child = Command::from(muster_supervise::foreign(&program))
        .args(words)
        .env("MUSTER_NODE", node.as_str())
        .env("MUSTER_ACT", label)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(|e: io::Error| format!("{program} does not start: {e}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let ended = match tokio::time::timeout(PATIENCE, child.wait()).await {
        Err(_) => {
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait().await;
            Err(format!("{program} did not end within {} s", PATIENCE.as_secs()))
        }
        Ok(Err(e)) => Err(e.to_string()),
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => {
            let text = tail(&path).unwrap_or_default();
            let skip = text.trim().chars().count().saturating_sub(WORDS);
            let last: String = text.trim().chars().skip(skip).collect();
            Err(format!("{program} ended with {status}: {last}"))
        }
    };
    // It only takes a little room.
    let _ = std::fs::remove_file(&path);
    ended
}

/// The end of a file.
fn tail(path: &Path) -> io::Result<String> {
    let mut f = File::open(path)?;
    let len = f.metadata()?.len();
    f.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    f.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
