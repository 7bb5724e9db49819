//! Real work on a real GPU: the libraries are found and loaded at run time, the kernels are built
//! on the spot for the device that is there.

mod agree;
mod collective;
mod copy;
mod gemm;
mod memory;

pub use agree::{Agreement, EVERY_SM};
pub use collective::all_reduce;
pub use copy::Bus;
pub use gemm::{Gemm, Kind};
pub use memory::{MemoryMismatch, Pattern, Tested};

use cudarc::driver::result;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaStream, LaunchArgs, LaunchConfig, sys,
};
use cudarc::nvrtc;
use std::sync::Arc;

/// Why work on a GPU could not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// A library is not on this machine.
    #[error(
        "{0} was not found on this machine: install it, or name its directory in LD_LIBRARY_PATH"
    )]
    NoLibrary(&'static str),
    /// The kernels could not be built.
    #[error("the kernels could not be built: {0}")]
    Build(String),
    /// The driver refused.
    #[error("{doing}: {what}")]
    Driver {
        /// What was being done.
        doing: &'static str,
        /// What the driver said.
        what: String,
    },
    /// The memory test did not see an error that was put there: nothing it says counts.
    #[error("the memory test did not see an error that was put there on purpose")]
    Blind,
    /// The matrix library refused.
    #[error("matrix library: {0}")]
    Matrix(String),
}

pub(crate) fn driver(doing: &'static str) -> impl Fn(result::DriverError) -> CudaError {
    move |e| CudaError::Driver {
        doing,
        what: e
            .error_string()
            .map_or_else(|_| format!("{:?}", e.0), |s| s.to_string_lossy().into()),
    }
}

/// Which of the libraries are here, by the name a person knows.
pub fn missing() -> Vec<&'static str> {
    #[expect(unsafe_code, reason = "loading a library runs its initialisers")]
    // SAFETY: these are the vendor's own libraries, which may be loaded at any time and from any
    // thread; nothing is called.
    let found = unsafe {
        [
            ("the CUDA driver (libcuda)", sys::is_culib_present()),
            ("NVRTC (libnvrtc)", nvrtc::sys::is_culib_present()),
            ("cuBLASLt (libcublasLt)", cudarc::cublaslt::sys::is_culib_present()),
        ]
    };
    found.into_iter().filter(|(_, there)| !there).map(|(name, _)| name).collect()
}

/// A GPU that is put to work.
pub struct Cuda {
    pub(crate) ctx: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    /// How many multiprocessors it has.
    pub sms: u32,
}

impl Cuda {
    /// Opens a device by its number and builds the kernels for it.
    ///
    /// # Errors
    /// When a library is missing, the kernels do not build, or the device does not answer.
    pub fn open(ordinal: usize) -> Result<Cuda, CudaError> {
        if let Some(name) = missing().into_iter().next() {
            return Err(CudaError::NoLibrary(name));
        }
        let ctx = CudaContext::new(ordinal).map_err(driver("opening the device"))?;
        // Waiting must not burn a core: the host's own checks run beside.
        ctx.set_blocking_synchronize().map_err(driver("opening the device"))?;
        #[expect(unsafe_code, reason = "buffers here are raw and ordered by one stream")]
        // SAFETY: no `CudaSlice` of this context is used on several streams without an event.
        unsafe {
            ctx.disable_event_tracking();
        }
        let (major, minor) = ctx.compute_capability().map_err(driver("asking for its kind"))?;
        let options = nvrtc::CompileOptions {
            options: vec![format!("--gpu-architecture=compute_{major}{minor}")],
            fmad: Some(false),
            ..Default::default()
        };
        let ptx = nvrtc::compile_ptx_with_opts(include_str!("kernels.cu"), options)
            .map_err(|e| CudaError::Build(format!("{e:?}")))?;
        let module = ctx.load_module(ptx).map_err(driver("loading the kernels"))?;
        let sms = ctx
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(driver("counting multiprocessors"))?;
        let stream = ctx.new_stream().map_err(driver("making a stream"))?;
        Ok(Cuda { ctx, stream, module, sms: sms.cast_unsigned() })
    }

    pub(crate) fn function(&self, name: &str) -> Result<CudaFunction, CudaError> {
        self.module.load_function(name).map_err(driver("finding a kernel"))
    }

    /// Free and total memory in bytes.
    ///
    /// # Errors
    /// When the device does not answer.
    pub fn memory(&self) -> Result<(usize, usize), CudaError> {
        self.ctx.mem_get_info().map_err(driver("asking for free memory"))
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// What went wrong meanwhile.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(driver("waiting for the device"))
    }

    /// A grid that fills the device.
    pub(crate) fn grid(&self, per_sm: u32, threads: u32) -> LaunchConfig {
        LaunchConfig {
            grid_dim: (self.sms * per_sm, 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: 0,
        }
    }

    /// Milliseconds that the device spends on what `work` queues.
    pub(crate) fn time(
        &self,
        work: impl FnOnce() -> Result<(), CudaError>,
    ) -> Result<f64, CudaError> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC);
        let event = || self.ctx.new_event(flags).map_err(driver("making an event"));
        let (start, end) = (event()?, event()?);
        start.record(&self.stream).map_err(driver("recording an event"))?;
        work()?;
        end.record(&self.stream).map_err(driver("recording an event"))?;
        Ok(f64::from(start.elapsed_ms(&end).map_err(driver("timing"))?))
    }

    /// Makes a fault on purpose, for drills: `true` writes out of bounds (XID 31), `false` traps
    /// (XID 43). The context is unusable afterwards; the device goes on.
    ///
    /// # Errors
    /// Always, when the drill works: what the driver said.
    pub fn fault(&self, out_of_bounds: bool) -> Result<(), CudaError> {
        let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        let buffer = Buffer::new(self, 4096)?;
        let f = self.function(if out_of_bounds { "out_of_bounds" } else { "trap_now" })?;
        let mut args = self.stream.launch_builder(&f);
        if out_of_bounds {
            cudarc::driver::PushKernelArg::arg(&mut args, &buffer.ptr);
        }
        launch(&mut args, one)?;
        self.wait()
    }
}

pub(crate) fn launch(args: &mut LaunchArgs<'_>, config: LaunchConfig) -> Result<(), CudaError> {
    #[expect(unsafe_code, reason = "a kernel's arguments are not checked by the compiler")]
    // SAFETY: callers pass what the kernel's signature in kernels.cu asks for, and buffers that
    // outlive the work: each waits for the stream before it drops them.
    unsafe { args.launch(config) }.map(|_| ()).map_err(driver("starting a kernel"))
}

/// Memory on the device.
pub(crate) struct Buffer {
    pub(crate) ptr: sys::CUdeviceptr,
    pub(crate) bytes: usize,
    ctx: Arc<CudaContext>,
}

impl Buffer {
    pub(crate) fn new(on: &Cuda, bytes: usize) -> Result<Buffer, CudaError> {
        on.ctx.bind_to_thread().map_err(driver("binding the device"))?;
        #[expect(unsafe_code, reason = "raw device memory")]
        // SAFETY: the context is bound; the result is freed once, in `drop`.
        let ptr = unsafe { result::malloc_sync(bytes) }.map_err(driver("taking device memory"))?;
        Ok(Buffer { ptr, bytes, ctx: on.ctx.clone() })
    }

    pub(crate) fn zero(&self, on: &Cuda) -> Result<(), CudaError> {
        #[expect(unsafe_code, reason = "raw device memory")]
        // SAFETY: the buffer is as long as it says and lives until the stream is waited for.
        unsafe { result::memset_d8_async(self.ptr, 0, self.bytes, on.stream.cu_stream()) }
            .map_err(driver("clearing device memory"))
    }

    /// Copies the beginning of the buffer to the host, after everything queued so far.
    pub(crate) fn read<T: Copy + Default>(&self, on: &Cuda, n: usize) -> Result<Vec<T>, CudaError> {
        let mut out = vec![T::default(); n.min(self.bytes / size_of::<T>().max(1))];
        on.wait()?;
        #[expect(unsafe_code, reason = "raw device memory")]
        // SAFETY: `T` is plain data, and the buffer is at least as long as `out`.
        unsafe { result::memcpy_dtoh_sync(&mut out, self.ptr) }.map_err(driver("reading back"))?;
        Ok(out)
    }

    pub(crate) fn write<T: Copy>(&self, on: &Cuda, at: u64, data: &[T]) -> Result<(), CudaError> {
        on.wait()?;
        #[expect(unsafe_code, reason = "raw device memory")]
        // SAFETY: callers stay inside the buffer; `T` is plain data.
        unsafe { result::memcpy_htod_sync(self.ptr + at, data) }.map_err(driver("writing to it"))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _ = self.ctx.bind_to_thread();
        #[expect(unsafe_code, reason = "raw device memory")]
        // SAFETY: it came from `malloc_sync` and is freed only here.
        let _ = unsafe { result::free_sync(self.ptr) };
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
