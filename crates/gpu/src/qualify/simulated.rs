//! A bench of simulated GPUs: they are given work in their own world, and what they reach follows
//! from their kind and from what is wrong with them.

use super::bench::Bench;
use super::expect::Expectations;
use super::probe::{Bus, ContinueCheck, Probe};
use crate::cuda::{Agreement, CudaError, Kind, MemoryMismatch, Tested};
use crate::device::{Device, DeviceError, Driver, DriverEvent};
use crate::simulated::{Phase, SimDriver, Workload};
use muster_model::units::Span;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Simulated GPUs under test.
pub struct SimBench {
    driver: SimDriver,
    sku: String,
    speed: f64,
    /// One of the probes moves the world's time; if all did, it would pass too fast.
    led: AtomicBool,
}

impl SimBench {
    /// Tests these GPUs of a kind, so many times faster than the clock.
    #[must_use]
    pub fn new(driver: SimDriver, sku: &str, speed: f64) -> SimBench {
        SimBench { driver, sku: sku.into(), speed: speed.max(0.001), led: AtomicBool::new(false) }
    }
}

/// Work on a simulated GPU.
pub struct SimProbe {
    driver: SimDriver,
    gpu: u32,
    sku: String,
    speed: f64,
    leads: bool,
    /// A little better or worse than the average.
    luck: f64,
}

impl Bench for SimBench {
    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>> {
        self.driver.devices()
    }

    fn probe(&self, gpu: u32) -> Result<Box<dyn Probe + '_>, CudaError> {
        Ok(Box::new(SimProbe {
            driver: self.driver.clone(),
            gpu,
            sku: self.sku.clone(),
            speed: self.speed,
            leads: !self.led.swap(true, Ordering::Relaxed),
            luck: f64::from((gpu.wrapping_mul(2_654_435_761) >> 20) % 21) / 1000.0 - 0.01,
        }))
    }

    fn all_reduce(&self, gpus: &[u32]) -> Result<f64, CudaError> {
        // The slowest holds all others up.
        let speeds = gpus.iter().map(|g| self.driver.speed(*g).unwrap_or(0.0));
        Ok(expected(&self.sku, "nccl-all-reduce") * speeds.fold(1.0, f64::min))
    }

    fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError> {
        self.driver.wait_event(most)
    }
}

fn expected(sku: &str, check: &str) -> f64 {
    Expectations::builtin().bar(sku, check).map_or(100.0, |b| b.expected)
}

impl SimProbe {
    /// What it reaches after a while of full load.
    fn reach(&self, check: &str) -> Result<f64, CudaError> {
        let lost =
            CudaError::Driver { doing: "working", what: "the device does not answer".into() };
        let speed = self.driver.speed(self.gpu).ok_or(lost)?;
        Ok(expected(&self.sku, check) * (1.0 + self.luck) * speed.min(1.0))
    }

    fn wrong(&self) -> bool {
        self.driver.computes_wrong(self.gpu)
    }

    /// Works for a while, in steps of a second.
    fn pass(&self, time: Duration, each: &mut dyn FnMut() -> bool) {
        self.driver.set_load(self.gpu, Some(Workload::steady(Phase::Compute)));
        let step = Duration::from_secs(1).min(time);
        let mut left = time;
        while !left.is_zero() {
            if self.leads {
                self.driver.advance(Span(u64::try_from(step.as_millis()).unwrap_or(1000)));
            }
            std::thread::sleep(step.div_f64(self.speed));
            left = left.saturating_sub(step);
            if !each() {
                break;
            }
        }
    }

    fn moment(&self) {
        self.pass(Duration::from_secs(1), &mut || true);
    }
}

impl Drop for SimProbe {
    fn drop(&mut self) {
        self.driver.set_load(self.gpu, None);
    }
}

impl Probe for SimProbe {
    fn bus(&mut self) -> Result<Bus, CudaError> {
        self.moment();
        // The bus does not care how fast the chip is.
        let at = |check| expected(&self.sku, check) * (1.0 + self.luck);
        Ok(Bus { h2d: at("pcie-h2d"), d2h: at("pcie-d2h"), both: at("pcie-both") })
    }

    fn hbm(&mut self) -> Result<(f64, f64), CudaError> {
        self.moment();
        Ok((self.reach("hbm-copy")?, self.reach("hbm-read")?))
    }

    fn gemm(&mut self, kind: Kind) -> Result<Option<f64>, CudaError> {
        self.moment();
        match kind {
            Kind::Bf16 => self.reach("gemm-bf16").map(Some),
            Kind::Fp8 if self.sku == "a100-sxm" => Ok(None),
            Kind::Fp8 => self.reach("gemm-fp8").map(Some),
        }
    }

    fn memory(
        &mut self,
        all_for: Option<Duration>,
        go: ContinueCheck<'_>,
    ) -> Result<Tested, CudaError> {
        self.pass(all_for.unwrap_or(Duration::from_secs(1)), go);
        Ok(Tested { bytes: 8 << 30, passes: 24, errors: 0, first: Vec::new() })
    }

    fn agree(&mut self, time: Duration, go: ContinueCheck<'_>) -> Result<Agreement, CudaError> {
        self.pass(time, go);
        let dissent = if self.wrong() { BTreeMap::from([(17, 3)]) } else { BTreeMap::new() };
        Ok(Agreement { answer: 42, took_part: 132, dissent })
    }

    fn sustain(
        &mut self,
        time: Duration,
        each: &mut dyn FnMut(f64) -> bool,
    ) -> Result<(), CudaError> {
        let mut lost = None;
        self.pass(time, &mut || match self.reach("sustained-bf16") {
            Ok(rate) => each(rate),
            Err(e) => {
                lost = Some(e);
                false
            }
        });
        lost.map_or(Ok(()), Err)
    }

    fn repeat(
        &mut self,
        time: Duration,
        go: ContinueCheck<'_>,
    ) -> Result<(u64, u64, Vec<MemoryMismatch>), CudaError> {
        let mut times = 0;
        self.pass(time, &mut || {
            times += 400;
            go()
        });
        let bad = MemoryMismatch { at: 0x1000, want: 1, got: 3 };
        Ok(if self.wrong() { (times, 1, vec![bad]) } else { (times, 0, Vec::new()) })
    }
}
