//! Which machine and which commit a figure belongs to.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Processor, memory, kernel and system, in words.
#[must_use]
pub fn describe() -> String {
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

/// The commit, with `+` when the working tree differs from it in more than kept results. Where there
/// is no repository, what `MUSTER_COMMIT` says.
#[must_use]
pub fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(crate::root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return std::env::var("MUSTER_COMMIT").unwrap_or_else(|_| "unknown".into());
    };
    match git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}+"),
    }
}

/// The kB value of a line of a file of /proc.
#[must_use]
pub fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Now, in UTC, as `2026-01-31T23:59:59Z`.
#[must_use]
pub fn now() -> String {
    utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()))
}

/// The moment so many seconds after the beginning of 1970.
fn utc(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_everybody_writes_them() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(utc(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(utc(1_767_225_600), "2026-01-01T00:00:00Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
