//! What a qualification has done on a GPU. A real one is put to work by CUDA; a simulated one
//! answers from its physics.

use crate::cuda::{self, Agreement, Cuda, CudaError, Gemm, Kind, MemoryMismatch, Pattern, Tested};
use std::time::{Duration, Instant};

pub use crate::cuda::Bus;

/// Whether to go on, asked now and then.
pub type ContinueCheck<'a> = &'a mut dyn FnMut() -> bool;

/// Work on one GPU.
pub trait Probe {
    /// Copies between host and device, GB/s.
    ///
    /// # Errors
    /// When the device refuses; so for all of these.
    fn bus(&mut self) -> Result<Bus, CudaError>;
    /// Copies and reads inside its memory, GB/s.
    ///
    /// # Errors
    /// When the device refuses.
    fn hbm(&mut self) -> Result<(f64, f64), CudaError>;
    /// Matrix products, TFLOP/s; none when the device has no such arithmetic.
    ///
    /// # Errors
    /// When the device refuses.
    fn gemm(&mut self, kind: Kind) -> Result<Option<f64>, CudaError>;
    /// Patterns over a sample, or over all memory again and again for so long.
    ///
    /// # Errors
    /// When the device refuses, or the test proves blind.
    fn memory(
        &mut self,
        all_for: Option<Duration>,
        go: ContinueCheck<'_>,
    ) -> Result<Tested, CudaError>;
    /// The same arithmetic on every multiprocessor, for so long.
    ///
    /// # Errors
    /// When the device refuses.
    fn agree(&mut self, time: Duration, go: ContinueCheck<'_>) -> Result<Agreement, CudaError>;
    /// Matrix products without a pause, for so long; `each` hears the rate about once a second
    /// and says whether to go on.
    ///
    /// # Errors
    /// When the device refuses.
    fn sustain(
        &mut self,
        time: Duration,
        each: &mut dyn FnMut(f64) -> bool,
    ) -> Result<(), CudaError>;
    /// The same product over and over, compared bit by bit: how often it was done, how many words
    /// differed, and the first of them.
    ///
    /// # Errors
    /// When the device refuses.
    fn repeat(
        &mut self,
        time: Duration,
        go: ContinueCheck<'_>,
    ) -> Result<(u64, u64, Vec<MemoryMismatch>), CudaError>;
}

/// Side of the matrices: large enough that the rate is the device's and not the launch's.
const SIDE: usize = 8192;
/// Moved at a time inside the device, well beyond any cache.
const COPY: usize = 4 << 30;
/// Moved at a time between host and device.
const PIECE: usize = 256 << 20;
/// Tested when only a sample is.
const SAMPLE: usize = 8 << 30;

/// The patterns of a round, each also in its inverse.
fn patterns(round: u64) -> Vec<Pattern> {
    vec![
        Pattern::Address,
        Pattern::Constant(0),
        Pattern::Constant(0x5555_5555_5555_5555),
        Pattern::Constant(0x00ff_00ff_00ff_00ff),
        Pattern::Walking(round),
        Pattern::Noise(round ^ 0x6d75_7374_6572),
    ]
}

/// A real GPU under CUDA.
pub struct CudaProbe(Cuda);

impl CudaProbe {
    /// Opens it by its number in PCI order.
    ///
    /// # Errors
    /// When a library is missing or the device does not answer.
    pub fn open(index: u32) -> Result<CudaProbe, CudaError> {
        Cuda::open(index as usize).map(CudaProbe)
    }
}

impl Probe for CudaProbe {
    fn bus(&mut self) -> Result<Bus, CudaError> {
        self.0.bus(PIECE, 9)
    }

    fn hbm(&mut self) -> Result<(f64, f64), CudaError> {
        // A small slice has less than the usual amount.
        let most = self.0.memory()?.0 / 3;
        let bytes = COPY.min(most) & !0xffff;
        let (driver, own) = self.0.hbm_copy(bytes, 15)?;
        Ok((driver.max(own), self.0.hbm_read(bytes, 15)?))
    }

    fn gemm(&mut self, kind: Kind) -> Result<Option<f64>, CudaError> {
        match Gemm::new(&self.0, kind, SIDE) {
            Ok(g) => g.rate(20).map(Some),
            Err(CudaError::Matrix(_)) if kind == Kind::Fp8 => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn memory(
        &mut self,
        all_for: Option<Duration>,
        go: ContinueCheck<'_>,
    ) -> Result<Tested, CudaError> {
        if !self.0.memory_test_sees()? {
            return Err(CudaError::Blind);
        }
        let Some(time) = all_for else {
            return self.0.test_memory(Some(SAMPLE), &patterns(0), |_| go());
        };
        let until = Instant::now() + time;
        let mut total = Tested::default();
        for round in 0.. {
            let once = self.0.test_memory(None, &patterns(round), |_| go())?;
            total.bytes = once.bytes;
            total.passes += once.passes;
            total.errors += once.errors;
            total.first.extend(once.first);
            total.first.truncate(8);
            if Instant::now() >= until || !go() {
                break;
            }
        }
        Ok(total)
    }

    fn agree(&mut self, time: Duration, go: ContinueCheck<'_>) -> Result<Agreement, CudaError> {
        let until = Instant::now() + time;
        let mut all = self.0.agree(2000, 1)?;
        // The same seed again: the answer must not change with time either.
        while Instant::now() < until && go() {
            let again = self.0.agree(2000, 1)?;
            for (sm, n) in again.dissent {
                *all.dissent.entry(sm).or_default() += n;
            }
            if again.answer != all.answer {
                *all.dissent.entry(cuda::EVERY_SM).or_default() += 1;
            }
        }
        Ok(all)
    }

    fn sustain(
        &mut self,
        time: Duration,
        each: &mut dyn FnMut(f64) -> bool,
    ) -> Result<(), CudaError> {
        let gemm = Gemm::new(&self.0, Kind::Bf16, SIDE)?;
        let until = Instant::now() + time;
        while Instant::now() < until {
            if !each(gemm.burst(1000.0)?) {
                break;
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        time: Duration,
        go: ContinueCheck<'_>,
    ) -> Result<(u64, u64, Vec<MemoryMismatch>), CudaError> {
        let mut gemm = Gemm::new(&self.0, Kind::Bf16, SIDE)?;
        let until = Instant::now() + time;
        let (mut times, mut errors, mut first) = (0, 0, Vec::new());
        loop {
            let (n, bad) = gemm.repeat()?;
            times += 1;
            errors += n;
            first.extend(bad);
            first.truncate(8);
            if Instant::now() >= until || !go() {
                return Ok((times, errors, first));
            }
        }
    }
}
