//! The memory test: patterns written and read back, over a sample or over everything there is.

use super::{Buffer, Cuda, CudaError, launch};
use cudarc::driver::PushKernelArg;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Every word holds its own address.
    Address,
    /// Every word holds this; moving inversions turn it over and back.
    Constant(u64),
    /// One bit that walks.
    Walking(u64),
    /// Noise from a seed.
    Noise(u64),
}

impl Pattern {
    fn code(self) -> (u32, u64) {
        match self {
            Pattern::Address => (0, 0),
            Pattern::Constant(c) => (1, c),
            Pattern::Walking(s) => (2, s),
            Pattern::Noise(s) => (3, s),
        }
    }

    /// As people read it.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Pattern::Address => "address-in-address".into(),
            Pattern::Constant(c) => format!("moving inversions of {c:#018x}"),
            Pattern::Walking(_) => "walking bit".into(),
            Pattern::Noise(_) => "noise".into(),
        }
    }
}

/// A word that did not hold what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryMismatch {
    /// Its address on the device.
    pub at: u64,
    /// What was written.
    pub want: u64,
    /// What was read.
    pub got: u64,
}

/// What a memory test found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tested {
    /// Bytes under test.
    pub bytes: u64,
    /// Passes over them, reading or writing.
    pub passes: u64,
    /// Words that were wrong.
    pub errors: u64,
    /// The first of them.
    pub first: Vec<MemoryMismatch>,
}

/// Words of the kernel's `Found`.
const FOUND: usize = 1 + 8 * 3;

pub(super) struct Findings(Buffer);

impl Findings {
    pub(super) fn new(on: &Cuda) -> Result<Findings, CudaError> {
        let b = Buffer::new(on, FOUND * 8)?;
        b.zero(on)?;
        Ok(Findings(b))
    }

    pub(super) fn ptr(&self) -> &cudarc::driver::sys::CUdeviceptr {
        &self.0.ptr
    }

    pub(super) fn read(&self, on: &Cuda) -> Result<(u64, Vec<MemoryMismatch>), CudaError> {
        let words: Vec<u64> = self.0.read(on, FOUND)?;
        let errors = words[0];
        let first = words[1..].chunks(3).take(usize::try_from(errors).unwrap_or(8).min(8));
        Ok((errors, first.map(|c| MemoryMismatch { at: c[0], want: c[1], got: c[2] }).collect()))
    }
}

impl Cuda {
    /// Takes as much memory as may be had, leaving `leave` bytes, in pieces.
    fn take(&self, most: Option<usize>, leave: usize) -> Result<Vec<Buffer>, CudaError> {
        const PIECE: usize = 4 << 30;
        let (free, _) = self.memory()?;
        let mut left = free.saturating_sub(leave).min(most.unwrap_or(usize::MAX));
        let mut all = Vec::new();
        while left >= 1 << 20 {
            let size = left.min(PIECE) & !0xffff;
            match Buffer::new(self, size) {
                Ok(b) => all.push(b),
                // Free memory is in pieces too: smaller ones may still be had.
                Err(_) if left > 64 << 20 => left /= 2,
                Err(_) => break,
            }
            if let Some(b) = all.last() {
                left = left.saturating_sub(b.bytes.min(size));
            }
        }
        Ok(all)
    }

    fn over(
        &self,
        name: &str,
        b: &Buffer,
        p: Pattern,
        flip: u64,
        check: Option<(bool, &Findings)>,
    ) -> Result<(), CudaError> {
        let f = self.function(name)?;
        let n = (b.bytes / 8) as u64;
        let (kind, seed) = p.code();
        let mut args = self.stream.launch_builder(&f);
        args.arg(&b.ptr).arg(&n).arg(&kind).arg(&b.ptr).arg(&seed).arg(&flip);
        let turn;
        if let Some((t, found)) = check {
            turn = u32::from(t);
            args.arg(&turn).arg(found.ptr());
        }
        launch(&mut args, self.grid(8, 256))
    }

    /// Tests memory with each pattern: write, check and invert, check the inverse. At most `most`
    /// bytes, or everything but a little; `each` hears of every pattern that is done and may stop it.
    ///
    /// # Errors
    /// When the device refuses. Wrong words are a result, not an error.
    pub fn test_memory(
        &self,
        most: Option<usize>,
        patterns: &[Pattern],
        mut each: impl FnMut(usize) -> bool,
    ) -> Result<Tested, CudaError> {
        let pieces = self.take(most, 1 << 30)?;
        let found = Findings::new(self)?;
        let mut tested =
            Tested { bytes: pieces.iter().map(|b| b.bytes as u64).sum(), ..Tested::default() };
        for (done, p) in patterns.iter().enumerate() {
            for b in &pieces {
                self.over("fill", b, *p, 0, None)?;
            }
            for b in &pieces {
                self.over("check", b, *p, 0, Some((true, &found)))?;
            }
            for b in &pieces {
                self.over("check", b, *p, u64::MAX, Some((false, &found)))?;
            }
            self.wait()?;
            tested.passes += 4;
            if !each(done + 1) {
                break;
            }
        }
        (tested.errors, tested.first) = found.read(self)?;
        Ok(tested)
    }

    /// Proves that the memory test can find an error: one word is made wrong, and must be the one
    /// that is found.
    ///
    /// # Errors
    /// When the device refuses, or the test is blind.
    pub fn memory_test_sees(&self) -> Result<bool, CudaError> {
        let b = Buffer::new(self, 64 << 20)?;
        let found = Findings::new(self)?;
        self.over("fill", &b, Pattern::Noise(7), 0, None)?;
        b.write(self, 12_345 * 8, &[0xdead_beef_u64])?;
        self.over("check", &b, Pattern::Noise(7), 0, Some((false, &found)))?;
        let (errors, first) = found.read(self)?;
        Ok(errors == 1 && first.first().is_some_and(|f| f.at == b.ptr + 12_345 * 8))
    }

    /// Overwrites all memory that can be had with zeros, so that the next tenant finds nothing of
    /// the last one. Says how many bytes.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn scrub(&self) -> Result<u64, CudaError> {
        let pieces = self.take(None, 64 << 20)?;
        for b in &pieces {
            b.zero(self)?;
        }
        self.wait()?;
        Ok(pieces.iter().map(|b| b.bytes as u64).sum())
    }
}
