//! A bench of simulated GPUs: figures follow from what their kind is expected to reach, and from
//! the faults they were given.

use super::bench::Bench;
use super::expect::Expectations;
use super::probe::{Bus, GoOn, Probe};
use crate::cuda::{Agreement, Bad, CudaError, Kind, Tested};
use crate::device::{Device, DeviceError, Driver, DriverEvent};
use std::collections::BTreeMap;
use std::time::Duration;

/// Simulated GPUs under test.
pub struct SimBench {
    /// Their driver.
    pub driver: Box<dyn Driver>,
    /// Their kind.
    pub sku: String,
    /// Percent by which a GPU is slower than it should be.
    pub slow: BTreeMap<u32, f64>,
    /// GPUs that compute wrongly now and then.
    pub wrong: Vec<u32>,
    /// How many times faster than the clock the tests go.
    pub speed: f64,
}

/// Work on a simulated GPU.
pub struct SimProbe {
    sku: String,
    slow: f64,
    wrong: bool,
    speed: f64,
    /// One in so many thousandths better or worse than the average.
    luck: f64,
}

impl Bench for SimBench {
    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>> {
        self.driver.devices()
    }

    fn probe(&self, gpu: u32) -> Result<Box<dyn Probe + '_>, CudaError> {
        Ok(Box::new(SimProbe {
            sku: self.sku.clone(),
            slow: self.slow.get(&gpu).copied().unwrap_or(0.0),
            wrong: self.wrong.contains(&gpu),
            speed: self.speed.max(0.001),
            luck: f64::from((gpu.wrapping_mul(2_654_435_761) >> 20) % 21) / 1000.0 - 0.01,
        }))
    }

    fn all_reduce(&self, _: &[u32]) -> Result<f64, CudaError> {
        let slowest = self.slow.values().fold(0.0_f64, |a, b| a.max(*b));
        let at_best = expected(&self.sku, "nccl-all-reduce");
        Ok(at_best * (1.0 - slowest / 100.0))
    }

    fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError> {
        self.driver.wait_event(most)
    }
}

fn expected(sku: &str, check: &str) -> f64 {
    Expectations::builtin().bar(sku, check).map_or(100.0, |b| b.expected)
}

impl SimProbe {
    fn reach(&self, check: &str) -> f64 {
        expected(&self.sku, check) * (1.0 + self.luck) * (1.0 - self.slow / 100.0)
    }

    /// Lets simulated time pass.
    fn pass(&self, time: Duration) {
        std::thread::sleep(time.div_f64(self.speed));
    }

    fn pass_through(&self, time: Duration, mut each: impl FnMut() -> bool) {
        let step = Duration::from_secs(1).min(time);
        let mut left = time;
        while !left.is_zero() {
            self.pass(step);
            left = left.saturating_sub(step);
            if !each() {
                break;
            }
        }
    }
}

impl Probe for SimProbe {
    fn bus(&mut self) -> Result<Bus, CudaError> {
        self.pass(Duration::from_secs(1));
        // The bus does not care how fast the chip is.
        let at = |check| expected(&self.sku, check) * (1.0 + self.luck);
        Ok(Bus { h2d: at("pcie-h2d"), d2h: at("pcie-d2h"), both: at("pcie-both") })
    }

    fn hbm(&mut self) -> Result<(f64, f64), CudaError> {
        self.pass(Duration::from_secs(1));
        Ok((self.reach("hbm-copy"), self.reach("hbm-read")))
    }

    fn gemm(&mut self, kind: Kind) -> Result<Option<f64>, CudaError> {
        self.pass(Duration::from_secs(1));
        Ok(match kind {
            Kind::Bf16 => Some(self.reach("gemm-bf16")),
            Kind::Fp8 => (self.sku != "a100-sxm").then(|| self.reach("gemm-fp8")),
        })
    }

    fn memory(&mut self, all_for: Option<Duration>, go: GoOn<'_>) -> Result<Tested, CudaError> {
        self.pass_through(all_for.unwrap_or(Duration::from_secs(1)), go);
        Ok(Tested { bytes: 8 << 30, passes: 24, errors: 0, first: Vec::new() })
    }

    fn agree(&mut self, time: Duration, go: GoOn<'_>) -> Result<Agreement, CudaError> {
        self.pass_through(time, go);
        let dissent = if self.wrong { BTreeMap::from([(17, 3)]) } else { BTreeMap::new() };
        Ok(Agreement { answer: 42, took_part: 132, dissent })
    }

    fn sustain(
        &mut self,
        time: Duration,
        each: &mut dyn FnMut(f64) -> bool,
    ) -> Result<(), CudaError> {
        let rate = self.reach("sustained-bf16");
        self.pass_through(time, || each(rate));
        Ok(())
    }

    fn repeat(&mut self, time: Duration, go: GoOn<'_>) -> Result<(u64, u64, Vec<Bad>), CudaError> {
        let mut times = 0;
        self.pass_through(time, || {
            times += 400;
            go()
        });
        let bad = Bad { at: 0x1000, want: 1, got: 3 };
        Ok(if self.wrong { (times, 1, vec![bad]) } else { (times, 0, Vec::new()) })
    }
}
