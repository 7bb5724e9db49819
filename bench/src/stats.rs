//! Percentiles, and what a process costs.

use crate::machine::field_kib;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// The value below which `percent` of the samples lie; none of none.
pub(crate) fn percentile(samples: &mut [f64], percent: f64) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    samples.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * samples.len() as f64).ceil() as usize;
    Some(samples[rank.clamp(1, samples.len()) - 1])
}

/// Milliseconds as a number.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Processor time that a process used so far, all its threads together.
pub(crate) fn cpu_time(pid: i32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    named_time(&stat).map(|(_, time)| time).context("/proc has an unknown shape")
}

/// Name and processor time out of what `stat` says of a process or a thread.
fn named_time(stat: &str) -> Option<(&str, Duration)> {
    let (before, fields) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    // After the name come the state (field 3) and on; user and system time are 14 and 15.
    let tick = |n: usize| -> Option<u64> { fields.split_whitespace().nth(n - 3)?.parse().ok() };
    let ticks = tick(14)? + tick(15)?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some((name, Duration::from_secs_f64(ticks as f64 / per_second as f64)))
}

/// Processor time of the threads that a process has now, by their numbers, with their names.
fn thread_times(pid: i32) -> Result<BTreeMap<u32, (String, Duration)>> {
    let mut times = BTreeMap::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("process {pid} is gone"))?;
    for task in tasks {
        let task = task.with_context(|| format!("process {pid} is gone"))?;
        // One that has just ended has nothing to read any more.
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let tid = task.file_name().to_str().and_then(|n| n.parse().ok());
        if let Some((tid, (name, time))) = tid.zip(named_time(&stat)) {
            times.insert(tid, (name.to_owned(), time));
        }
    }
    Ok(times)
}

/// Mean cores that threads of one name used; those that ended meanwhile are not in it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct ThreadCores {
    /// Threads of this name.
    pub(crate) threads: usize,
    /// All of them together.
    pub(crate) cores: f64,
    /// The one that used most.
    pub(crate) most: f64,
}

/// The same as [`Meter`], by the names of a process's threads.
pub(crate) struct ThreadMeter {
    pid: i32,
    before: BTreeMap<u32, (String, Duration)>,
    at: Instant,
}

impl ThreadMeter {
    pub(crate) fn start(pid: i32) -> Result<ThreadMeter> {
        Ok(ThreadMeter { pid, before: thread_times(pid)?, at: Instant::now() })
    }

    pub(crate) fn cores(&self) -> Result<BTreeMap<String, ThreadCores>> {
        let passed = self.at.elapsed().as_secs_f64();
        let mut all: BTreeMap<String, ThreadCores> = BTreeMap::new();
        for (tid, (name, time)) in thread_times(self.pid)? {
            let before = self.before.get(&tid).map_or(Duration::ZERO, |(_, time)| *time);
            let cores = time.saturating_sub(before).as_secs_f64() / passed;
            let of = all.entry(kind_of(&name)).or_default();
            of.threads += 1;
            of.cores += cores;
            of.most = of.most.max(cores);
        }
        Ok(all)
    }
}

/// A thread's name without its number, fit for the name of a case.
fn kind_of(name: &str) -> String {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit() || "-_: ".contains(c));
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    kind.chars().map(fit).collect()
}

/// Memory of a process in MiB: now, and at its highest.
pub(crate) fn memory_mib(pid: i32) -> Result<(f64, f64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let mib = |name| field_kib(&status, name).map(|kib| kib as f64 / 1024.0);
    mib("VmRSS:").zip(mib("VmHWM:")).context("/proc has an unknown shape")
}

/// Mean cores used between two looks.
pub(crate) struct Meter {
    pid: i32,
    cpu: Duration,
    at: Instant,
}

impl Meter {
    pub(crate) fn start(pid: i32) -> Result<Meter> {
        Ok(Meter { pid, cpu: cpu_time(pid)?, at: Instant::now() })
    }

    pub(crate) fn cores(&self) -> Result<f64> {
        let used = cpu_time(self.pid)?.saturating_sub(self.cpu);
        Ok(used.as_secs_f64() / self.at.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred_are_themselves() {
        let mut samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut samples, 50.0), Some(50.0));
        assert_eq!(percentile(&mut samples, 99.0), Some(99.0));
        assert_eq!(percentile(&mut samples, 100.0), Some(100.0));
        assert_eq!(percentile(&mut [7.0], 1.0), Some(7.0));
        assert_eq!(percentile(&mut [], 50.0), None);
    }

    #[test]
    fn our_own_cost_can_be_read() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(memory_mib(me).unwrap().0 > 0.0);
        assert!(cpu_time(me).is_ok());
    }

    #[test]
    fn threads_are_counted_by_their_names() {
        let me = i32::try_from(std::process::id()).unwrap();
        let meter = ThreadMeter::start(me).unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let waits = std::sync::Arc::new(std::sync::Mutex::new(ended));
        let start = |n: u32| {
            let waits = waits.clone();
            let builder = std::thread::Builder::new().name(format!("Odd one-{n}"));
            builder.spawn(move || waits.lock().unwrap().recv()).unwrap()
        };
        let threads = [start(1), start(22)];
        // A thread gives itself its name when it begins to run.
        while meter.cores().unwrap().get("odd_one").is_none_or(|t| t.threads < 2) {
            std::thread::yield_now();
        }
        drop(end);
        for thread in threads {
            let _ = thread.join();
        }
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 200 0 0";
        let (name, time) = named_time(stat).unwrap();
        assert!(name == "a) b" && time > Duration::ZERO);
        assert_eq!(named_time("7 (a) S 1"), None);
    }
}
