//! How fast bytes move: inside the device, and between it and the host.

use super::{Buffer, Cuda, CudaError, driver, launch, median};
use cudarc::driver::{PushKernelArg, result};

/// Memory of the host that the device can reach by itself.
struct Pinned {
    ptr: *mut std::ffi::c_void,
    bytes: usize,
}

impl Pinned {
    fn new(on: &Cuda, bytes: usize) -> Result<Pinned, CudaError> {
        on.ctx.bind_to_thread().map_err(driver("binding the device"))?;
        #[expect(unsafe_code, reason = "pinned memory")]
        // SAFETY: the context is bound; the result is freed once, in `drop`.
        let ptr = unsafe { result::malloc_host(bytes, 0) }.map_err(driver("pinning memory"))?;
        #[expect(unsafe_code, reason = "pinned memory")]
        // SAFETY: it is `bytes` long and ours. Written once, so that every page is really there.
        unsafe {
            std::ptr::write_bytes(ptr.cast::<u8>(), 0x5a, bytes);
        }
        Ok(Pinned { ptr, bytes })
    }

    fn bytes(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "pinned memory")]
        // SAFETY: as long as it says, initialised in `new`.
        unsafe {
            std::slice::from_raw_parts(self.ptr.cast(), self.bytes)
        }
    }

    #[expect(clippy::mut_from_ref, reason = "the device writes it, ordered by the stream")]
    fn bytes_mut(&self) -> &mut [u8] {
        #[expect(unsafe_code, reason = "pinned memory")]
        // SAFETY: as long as it says; nothing on the host reads it while the device writes.
        unsafe {
            std::slice::from_raw_parts_mut(self.ptr.cast(), self.bytes)
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "pinned memory")]
        // SAFETY: it came from `malloc_host` and is freed only here.
        let _ = unsafe { result::free_host(self.ptr) };
    }
}

#[expect(clippy::cast_precision_loss, reason = "bandwidths have few digits")]
fn gb_per_s(bytes: usize, ms: f64) -> f64 {
    bytes as f64 / ms / 1e6
}

/// What moved between host and device, in GB/s.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bus {
    /// Host to device.
    pub h2d: f64,
    /// Device to host.
    pub d2h: f64,
    /// Both at once, added up.
    pub both: f64,
}

impl Cuda {
    /// Copies inside the device: bytes read and written, GB/s. The better of the driver's own copy
    /// and ours: what is measured is the memory, not the code.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn hbm_copy(&self, bytes: usize, rounds: usize) -> Result<(f64, f64), CudaError> {
        let (a, b) = (Buffer::new(self, bytes)?, Buffer::new(self, bytes)?);
        self.noise(&a)?;
        let own = self.function("copy")?;
        let n = (bytes / 16) as u64;
        let mut times = (Vec::new(), Vec::new());
        for round in 0..rounds + 2 {
            let t = self.time(|| {
                #[expect(unsafe_code, reason = "raw device memory")]
                // SAFETY: both buffers are `bytes` long and live until the timing has waited.
                unsafe { result::memcpy_dtod_async(b.ptr, a.ptr, bytes, self.stream.cu_stream()) }
                    .map_err(driver("copying"))
            })?;
            let u = self.time(|| {
                let mut args = self.stream.launch_builder(&own);
                args.arg(&a.ptr).arg(&b.ptr).arg(&n);
                launch(&mut args, self.grid(2, 1024))
            })?;
            // The first two wake the device up.
            if round >= 2 {
                times.0.push(t);
                times.1.push(u);
            }
        }
        Ok((gb_per_s(2 * bytes, median(times.0)), gb_per_s(2 * bytes, median(times.1))))
    }

    /// Reads inside the device, GB/s.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn hbm_read(&self, bytes: usize, rounds: usize) -> Result<f64, CudaError> {
        let (a, out) = (Buffer::new(self, bytes)?, Buffer::new(self, 4096)?);
        self.noise(&a)?;
        let f = self.function("read")?;
        let n = (bytes / 16) as u64;
        let mut times = Vec::new();
        for round in 0..rounds + 2 {
            let t = self.time(|| {
                let mut args = self.stream.launch_builder(&f);
                args.arg(&a.ptr).arg(&n).arg(&out.ptr);
                launch(&mut args, self.grid(2, 1024))
            })?;
            if round >= 2 {
                times.push(t);
            }
        }
        Ok(gb_per_s(bytes, median(times)))
    }

    /// Copies between pinned memory of the host and the device.
    ///
    /// # Errors
    /// When the device refuses, or the host has no memory to pin.
    pub fn bus(&self, bytes: usize, rounds: usize) -> Result<Bus, CudaError> {
        let (a, b) = (Buffer::new(self, bytes)?, Buffer::new(self, bytes)?);
        self.noise(&b)?;
        let (up, down) = (Pinned::new(self, bytes)?, Pinned::new(self, bytes)?);
        let other = self.stream.fork().map_err(driver("making a stream"))?;
        let send = || {
            #[expect(unsafe_code, reason = "raw device memory")]
            // SAFETY: both are `bytes` long and live until the timing has waited.
            unsafe { result::memcpy_htod_async(a.ptr, up.bytes(), self.stream.cu_stream()) }
                .map_err(driver("copying to the device"))
        };
        let fetch = |stream: &cudarc::driver::CudaStream| {
            #[expect(unsafe_code, reason = "raw device memory")]
            // SAFETY: both are `bytes` long and live until the timing has waited.
            unsafe { result::memcpy_dtoh_async(down.bytes_mut(), b.ptr, stream.cu_stream()) }
                .map_err(driver("copying from the device"))
        };
        let mut times = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds + 1 {
            let s = self.time(send)?;
            let f = self.time(|| fetch(&self.stream))?;
            let both = self.time(|| {
                // Several of each, so that one direction does not end long before the other.
                let started = self.stream.record_event(None).map_err(driver("recording"))?;
                other.wait(&started).map_err(driver("ordering"))?;
                for _ in 0..3 {
                    send()?;
                    fetch(&other)?;
                }
                self.stream.join(&other).map_err(driver("ordering"))
            })?;
            if round >= 1 {
                times.0.push(s);
                times.1.push(f);
                times.2.push(both);
            }
        }
        Ok(Bus {
            h2d: gb_per_s(bytes, median(times.0)),
            d2h: gb_per_s(bytes, median(times.1)),
            both: gb_per_s(6 * bytes, median(times.2)),
        })
    }

    /// Fills a buffer with noise: zeros are faster than real data.
    pub(crate) fn noise(&self, on: &Buffer) -> Result<(), CudaError> {
        let f = self.function("fill")?;
        let n = (on.bytes / 8) as u64;
        let (kind, base, seed, flip) = (3u32, 0u64, 0x5eed_u64, 0u64);
        let mut args = self.stream.launch_builder(&f);
        args.arg(&on.ptr).arg(&n).arg(&kind).arg(&base).arg(&seed).arg(&flip);
        launch(&mut args, self.grid(8, 256))?;
        self.wait()
    }
}
