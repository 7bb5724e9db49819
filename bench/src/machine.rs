//! Which machine and which commit a figure belongs to.

use std::fs;
use std::process::Command;

/// Processor, memory, kernel and system, in words.
pub(crate) fn describe() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|t| {
            let line = t.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_string())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_string());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory_gib = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|t| field_kib(&t, "MemTotal:"))
        .map_or(0.0, |kib| kib as f64 / 1_048_576.0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = fs::read_to_string("/etc/os-release")
        .ok()
        .and_then(|t| {
            let name = t.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
            Some(name.trim_matches('"').to_string())
        })
        .unwrap_or_default();
    format!("{cores} x {cpu}, {memory_gib:.0} GiB, Linux {}, {system}", kernel.trim())
}

/// The commit, with `+` when the working tree differs from it.
pub(crate) fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(xtask::root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}+"),
    }
}

/// The kB value of a line of a file of /proc.
pub(crate) fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
