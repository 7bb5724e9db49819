//! Podman.

use super::wanted::{ContainerRequest, VARIABLES, shown};
use super::{Runtime, run_within};
use crate::isolation::{self, KEPT_NAMES, Refusal};
use crate::process;
use rustix::process::{Resource, getrlimit};

pub(super) fn has_image(runtime: &Runtime, image: &str) -> Result<bool, Refusal> {
    let said = run_within(runtime, &["image", "exists", "--", image], runtime.limits.look_up);
    let said = said.map_err(Refusal::Node)?;
    match said.output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(Refusal::Job(format!(
            "image `{image}` cannot be used: {}; write it as HOST/NAME:TAG",
            said.last_words()
        ))),
    }
}

/// Ends a container and removes it; says why not.
pub(super) fn remove(runtime: &Runtime, name: &str) -> Result<Option<String>, String> {
    let args = ["rm", "-f", "-i", "-t", "0", "--", name];
    let said = run_within(runtime, &args, runtime.limits.remove)?;
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
    // Signals are sent to the container's processes themselves.
    add(&["run", "--rm", "--pull=never", "--sig-proxy=false", "--replace", "--name", name]);
    // Whatever the node has configured: ranks see no other processes, and the first one shows that it runs.
    add(&["--pid", "private", "--network", "host", "--log-driver", "none"]);
    add(&["--security-opt", "no-new-privileges", "--cap-drop", "all"]);
    match w.account {
        Some(who) => {
            add(&["--user", &format!("{}:{}", who.uid, who.gid)]);
            for group in &who.groups {
                add(&["--group-add", &group.to_string()]);
            }
            // No memory of a rank ends where others look.
            add(&["--ulimit", "core=1:1"]);
        }
        None => add(&["--cap-add", KEPT_NAMES]),
    }
    add(&["--env-file", VARIABLES, "--shm-size", &w.shm.to_string()]);
    if let Some(group) = &w.group {
        add(&["--cgroup-parent", group]);
    }
    if let Some(memory) = d.limits.memory.filter(|m| m.0 > 0) {
        add(&["--memory", &format!("{}b", memory.0), "--memory-swap", &format!("{}b", memory.0)]);
    }
    if let Some(cpus) = d.limits.cpus.filter(|c| *c > 0) {
        add(&["--cpus", &cpus.to_string()]);
    }
    let pids = d.limits.pids.filter(|p| *p > 0).map_or("-1".to_owned(), |p| p.to_string());
    add(&["--pids-limit", &pids]);
    if process::has_lower_oom_score() {
        // The program inside alone: the kernel must not end what watches it in its place.
        add(&["--oom-score-adj", &process::RANK_OOM_SCORE.to_string()]);
    }
    if isolation::has_power(isolation::SYS_RESOURCE) {
        add(&["--ulimit", "memlock=-1:-1"]);
    } else {
        // The runtime would raise them, which this root may not. It keeps to as many processes
        // as the kernel has numbers for, and what it starts cannot have more.
        let numbers = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok();
        let numbers = numbers.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(u64::MAX);
        let limits = [("nofile", Resource::Nofile, u64::MAX), ("nproc", Resource::Nproc, numbers)];
        for (what, limit, most) in limits {
            if let Some(own) = getrlimit(limit).maximum {
                let most = own.min(most);
                add(&["--ulimit", &format!("{what}={most}:{most}")]);
            }
        }
    }
    if w.gpus {
        for gpu in d.slot.gpus.iter() {
            add(&["--device", &format!("nvidia.com/gpu={gpu}")]);
        }
    }
    for s in shown(w, rank)? {
        let how = if s.read_only() { "ro,rbind" } else { "rw,rbind" };
        add(&["-v", &format!("{}:{}:{how}", s.from(), s.at())]);
    }
    if let Some(dir) = &d.run.workdir {
        add(&["--workdir", dir]);
    }
    // The image's own entry point would swallow the job's command.
    if let Some((program, _)) = w.argv.split_first() {
        add(&["--entrypoint", &entry_point(program)]);
    }
    add(&[image]);
    all.extend(w.argv.iter().skip(1).cloned());
    Ok(all)
}

/// A program as podman takes it: what looks like a list is read as one.
fn entry_point(program: &str) -> String {
    if program.starts_with('[') { serde_json::json!([program]).to_string() } else { program.into() }
}
