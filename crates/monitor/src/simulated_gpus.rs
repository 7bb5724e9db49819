//! Simulated GPUs that follow this machine's clock, for machines that have none.

use muster_gpu::device::Driver;
use muster_gpu::simulated::{SimDriver, SimGpus, Workload};
use muster_model::units::Span;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Their time moves in steps of this.
const STEP: Duration = Duration::from_millis(250);
/// They begin as if they had worked for so long, so that nothing is at its very start.
const PAST: Span = Span::mins(5);
/// They work in steps of this.
const STEP_OF_WORK: Span = Span(1200);
/// More than any node has.
const MOST: u32 = 64;

/// Which GPUs to simulate: `h100-sxm:8`.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec(SimGpus);

/// Why that makes no GPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` names no GPUs: {why}; write a kind and how many, such as h100-sxm:8")]
pub struct SpecError {
    given: String,
    why: String,
}

impl std::str::FromStr for Spec {
    type Err = SpecError;
    fn from_str(s: &str) -> Result<Spec, SpecError> {
        let bad = |why: String| SpecError { given: s.chars().take(60).collect(), why };
        let (sku, n) = s.split_once(':').unwrap_or((s, "8"));
        let gpus: u32 = n.parse().map_err(|_| bad(format!("`{n}` is no number")))?;
        if gpus > MOST {
            return Err(bad(format!("{gpus} are too many")));
        }
        let sku = sku.parse().map_err(|e| bad(format!("{e}")))?;
        Ok(Spec(SimGpus { gpus, ..SimGpus::of(sku, "simulated", 1) }))
    }
}

/// Simulated GPUs at work, whose clock runs until this is dropped.
pub struct SimulatedGpus {
    driver: SimDriver,
    stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for SimulatedGpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedGpus").finish_non_exhaustive()
    }
}

impl SimulatedGpus {
    /// Starts their work and their clock.
    ///
    /// # Errors
    /// When the machine gives no threads.
    pub fn start(spec: &Spec) -> std::io::Result<SimulatedGpus> {
        let driver = SimDriver::new(&spec.0);
        for gpu in 0..spec.0.gpus {
            driver.set_load(gpu, Some(Workload::training(STEP_OF_WORK)));
        }
        driver.advance(PAST);
        let stop = Arc::new(AtomicBool::new(false));
        let (clock, stopped) = (driver.clone(), stop.clone());
        std::thread::Builder::new().name("simulated-time".into()).spawn(move || {
            let mut lived = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(STEP);
                let now = Instant::now();
                let passed = u64::try_from((now - lived).as_millis()).unwrap_or(0);
                lived += Duration::from_millis(passed);
                clock.advance(Span(passed));
            }
        })?;
        Ok(SimulatedGpus { driver, stop })
    }

    /// The driver, as the monitor takes it.
    #[must_use]
    pub fn driver(&self) -> Box<dyn Driver> {
        Box::new(self.driver.clone())
    }

    /// The world itself, to break things in it.
    #[must_use]
    pub fn world(&self) -> &SimDriver {
        &self.driver
    }
}

impl Drop for SimulatedGpus {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_read() {
        assert!("h100-sxm:8".parse::<Spec>().is_ok());
        assert_eq!("h200-sxm".parse::<Spec>().expect("eight").0.gpus, 8);
        for bad in ["tpu:8", "h100-sxm:x", "h100-sxm:65", ""] {
            let e = bad.parse::<Spec>().expect_err(bad).to_string();
            assert!(e.contains("h100-sxm:8"), "{e}");
        }
    }
}
