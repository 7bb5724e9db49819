//! Percentiles, and what a process costs.

use crate::machine::field_kib;
use anyhow::{Context, Result};
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
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // After the name come the state (field 3) and on; user and system time are 14 and 15.
    let tick = |n: usize| -> Option<u64> { fields.split_whitespace().nth(n - 3)?.parse().ok() };
    let ticks = tick(14).zip(tick(15)).map(|(u, s)| u + s).context("/proc has an unknown shape")?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
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
}
