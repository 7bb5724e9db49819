//! Containerd, through its plain client.

use super::wanted::{ContainerRequest, VARIABLES, shown};
use super::{Runtime, run_within};
use crate::isolation::Refusal;

/// Against what containers have by default: the same as isolated ranks keep.
const POWERS: [&str; 6] = [
    "--cap-drop=CAP_MKNOD",
    "--cap-drop=CAP_SETFCAP",
    "--cap-drop=CAP_SETPCAP",
    "--cap-drop=CAP_AUDIT_WRITE",
    "--cap-add=CAP_IPC_LOCK",
    "--cap-add=CAP_SYS_NICE",
];

pub(super) fn has_image(runtime: &Runtime, image: &str) -> Result<bool, Refusal> {
    let filter = format!("name=={image}");
    let args = ["images", "ls", "-q", filter.as_str()];
    let said = run_within(runtime, &args, runtime.limits.look_up).map_err(Refusal::Node)?;
    if said.ok() {
        return Ok(!said.output.stdout.is_empty());
    }
    Err(Refusal::Node(format!("containerd cannot be asked for images: {}", said.last_words())))
}

/// Ends a container and removes it; says why not.
pub(super) fn remove(runtime: &Runtime, name: &str) -> Result<Option<String>, String> {
    let list = run_within(runtime, &["containers", "ls", "-q"], runtime.limits.look_up)?;
    if !list.ok() {
        return Ok(Some(list.last_words()));
    }
    if !String::from_utf8_lossy(&list.output.stdout).lines().any(|l| l == name) {
        return Ok(None);
    }
    let most = runtime.limits.remove;
    run_within(runtime, &["tasks", "rm", "-f", name], most)?;
    let said = run_within(runtime, &["containers", "rm", name], most)?;
    Ok((!said.ok()).then(|| said.last_words()))
}

/// The command line of a rank's container.
///
/// # Errors
/// What the job names that cannot be a part of it.
pub(super) fn words(
    runtime: &Runtime,
    image: &str,
    w: &ContainerRequest<'_>,
    rank: u32,
    name: &str,
) -> Result<Vec<String>, String> {
    let d = w.detail;
    let mut all = runtime.words.clone();
    let mut add = |words: &[&str]| all.extend(words.iter().map(|s| (*s).to_owned()));
    add(&["run", "--rm", "--net-host", "--seccomp", "--env-file", VARIABLES]);
    match w.account {
        // A user other than root has none of the powers that remain.
        Some(who) => add(&["--user", &format!("{}:{}", who.uid, who.gid)]),
        None => add(&POWERS),
    }
    if let Some(group) = &w.group {
        add(&["--cgroup", &format!("{group}/{name}")]);
    }
    if let Some(memory) = d.limits.memory.filter(|m| m.0 > 0) {
        add(&["--memory-limit", &memory.0.to_string()]);
    }
    if let Some(cpus) = d.limits.cpus.filter(|c| *c > 0) {
        add(&["--cpus", &cpus.to_string()]);
    }
    let shm = format!("type=tmpfs,src=tmpfs,dst=/dev/shm,options=nosuid:nodev:size={}", w.shm);
    add(&["--mount", &shm]);
    for s in shown(w, rank)? {
        let how = if s.read_only() { "ro" } else { "rw" };
        let bind = format!("type=bind,src={},dst={},options=rbind:{how}", s.from(), s.at());
        add(&["--mount", &bind]);
    }
    if let Some(dir) = &d.run.workdir {
        add(&["--cwd", dir]);
    }
    add(&[image, name]);
    all.extend(w.argv.iter().cloned());
    Ok(all)
}
