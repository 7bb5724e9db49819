//! Matrix products through cuBLASLt: the rate of the tensor cores, and whether they give the same
//! bits every time.

use super::memory::Findings;
use super::{Buffer, Cuda, CudaError, MemoryMismatch, launch, median};
use cudarc::cublaslt::{result as lt, sys};
use cudarc::driver::PushKernelArg;
use std::ffi::c_void;
use sys::cublasLtMatmulDescAttributes_t as Attr;

/// What is multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// bfloat16, added up in single precision.
    Bf16,
    /// Eight bits (e4m3), added up in single precision.
    Fp8,
}

/// Memory the library may use beside the matrices.
const WORKSPACE: usize = 128 << 20;
/// The library's number for "transposed".
const TRANSPOSED: i32 = 1;
/// Ways of doing it that are tried.
const CANDIDATES: usize = 12;

/// What the library fills in.
const NO_WAY: sys::cublasLtMatmulHeuristicResult_t = sys::cublasLtMatmulHeuristicResult_t {
    algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
    workspaceSize: 0,
    state: sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
    wavesCount: 0.0,
    reserved: [0; 4],
};

/// A matrix product, ready to be done again and again.
pub struct Gemm<'a> {
    on: &'a Cuda,
    handle: sys::cublasLtHandle_t,
    desc: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algo: sys::cublasLtMatmulAlgo_t,
    a: Buffer,
    b: Buffer,
    d: Buffer,
    reference: Option<Buffer>,
    workspace: Buffer,
    /// Keeps the scales of eight-bit matrices alive.
    _scale: Buffer,
    /// Operations of one product.
    pub flops: f64,
}

fn matrix(doing: &'static str) -> impl Fn(lt::CublasError) -> CudaError {
    move |e| CudaError::Matrix(format!("{doing}: {e}"))
}

impl<'a> Gemm<'a> {
    /// Prepares a product of two square matrices of noise and picks the fastest way of doing it.
    ///
    /// # Errors
    /// When the device has no such arithmetic, or refuses.
    pub fn new(on: &'a Cuda, kind: Kind, size: usize) -> Result<Gemm<'a>, CudaError> {
        on.ctx.bind_to_thread().map_err(super::driver("binding the device"))?;
        let (element, ty, fill) = match kind {
            Kind::Bf16 => (2, sys::cudaDataType_t::CUDA_R_16BF, "normal_bf16"),
            Kind::Fp8 => (1, sys::cudaDataType_t::CUDA_R_8F_E4M3, "normal_e4m3"),
        };
        let out = sys::cudaDataType_t::CUDA_R_16BF;
        let n = size as u64;
        let handle = lt::create_handle().map_err(matrix("opening"))?;
        let desc = lt::create_matmul_desc(
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cudaDataType_t::CUDA_R_32F,
        )
        .map_err(matrix("describing"))?;
        let ld = i64::try_from(size).unwrap_or(i64::MAX);
        let layout = |ty| lt::create_matrix_layout(ty, n, n, ld).map_err(matrix("laying out"));
        let scale = Buffer::new(on, 256)?;
        scale.write(on, 0, &[1.0f32])?;
        let mut gemm = Gemm {
            on,
            handle,
            desc,
            layouts: [layout(ty)?, layout(ty)?, layout(out)?],
            algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            a: Buffer::new(on, size * size * element)?,
            b: Buffer::new(on, size * size * element)?,
            d: Buffer::new(on, size * size * 2)?,
            reference: None,
            workspace: Buffer::new(on, WORKSPACE)?,
            _scale: scale,
            #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
            flops: 2.0 * (size as f64).powi(3),
        };
        // Eight-bit products exist in this arrangement only, and it is the best one for others.
        gemm.set(Attr::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
        if kind == Kind::Fp8 {
            let ptr = gemm._scale.ptr;
            gemm.set(Attr::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &ptr)?;
            gemm.set(Attr::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &ptr)?;
            gemm.set(Attr::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &1i8)?;
        }
        for (buffer, seed) in [(&gemm.a, 1u64), (&gemm.b, 2u64)] {
            let f = on.function(fill)?;
            let n = (buffer.bytes / element) as u64;
            let mut args = on.stream.launch_builder(&f);
            args.arg(&buffer.ptr).arg(&n).arg(&seed);
            launch(&mut args, on.grid(8, 256))?;
        }
        on.wait()?;
        gemm.choose()?;
        Ok(gemm)
    }

    fn set<T>(&self, attr: Attr, value: &T) -> Result<(), CudaError> {
        #[expect(unsafe_code, reason = "attributes are untyped")]
        // SAFETY: the descriptor is alive, and the value has the type the attribute asks for.
        unsafe {
            let value = std::ptr::from_ref(value).cast::<c_void>();
            lt::set_matmul_desc_attribute(self.desc, attr, value, size_of::<T>())
        }
        .map_err(matrix("describing"))
    }

    /// Tries the ways the library proposes, and keeps the fastest.
    fn choose(&mut self) -> Result<(), CudaError> {
        let pref = lt::create_matmul_pref().map_err(matrix("preparing"))?;
        let mut found = [NO_WAY; CANDIDATES];
        let mut count = 0;
        #[expect(unsafe_code, reason = "the library is C")]
        // SAFETY: every handle is alive, the array is as long as said, and the preference is freed
        // once.
        let asked = unsafe {
            let bytes = WORKSPACE;
            let set = lt::set_matmul_pref_attribute(
                pref,
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                (&raw const bytes).cast(),
                size_of::<usize>(),
            );
            let asked = set.and_then(|()| {
                sys::cublasLtMatmulAlgoGetHeuristic(
                    self.handle,
                    self.desc,
                    self.layouts[0],
                    self.layouts[1],
                    self.layouts[2],
                    self.layouts[2],
                    pref,
                    i32::try_from(CANDIDATES).unwrap_or(1),
                    found.as_mut_ptr(),
                    &raw mut count,
                )
                .result()
            });
            let _ = lt::destroy_matmul_pref(pref);
            asked
        };
        asked.map_err(matrix("asking for a way"))?;
        let mut best: Option<(f64, sys::cublasLtMatmulAlgo_t)> = None;
        for way in found.iter().take(usize::try_from(count).unwrap_or(0)) {
            if way.state != sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS {
                continue;
            }
            self.algo = way.algo;
            let timed = self.times(2).and_then(|_| self.times(5));
            let Ok(timed) = timed else { continue };
            let ms = median(timed);
            if best.as_ref().is_none_or(|(b, _)| ms < *b) {
                best = Some((ms, way.algo));
            }
        }
        match best {
            Some((_, algo)) => self.algo = algo,
            None => return Err(CudaError::Matrix("this device does no such product".into())),
        }
        Ok(())
    }

    fn queue(&self) -> Result<(), CudaError> {
        let (alpha, beta) = (1.0f32, 0.0f32);
        #[expect(unsafe_code, reason = "the library is C")]
        // SAFETY: every handle and buffer is alive until the stream has been waited for, and the
        // layouts describe the buffers. Scalars are read before the call returns.
        unsafe {
            lt::matmul(
                self.handle,
                self.desc,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                self.a.ptr as *const c_void,
                self.layouts[0],
                self.b.ptr as *const c_void,
                self.layouts[1],
                self.d.ptr as *const c_void,
                self.layouts[2],
                self.d.ptr as *mut c_void,
                self.layouts[2],
                &raw const self.algo,
                self.workspace.ptr as *mut c_void,
                WORKSPACE,
                self.on.stream.cu_stream().cast(),
            )
        }
        .map_err(matrix("multiplying"))
    }

    fn times(&self, n: usize) -> Result<Vec<f64>, CudaError> {
        (0..n).map(|_| self.on.time(|| self.queue())).collect()
    }

    /// TFLOP/s: the median of so many batches of ten.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn rate(&self, batches: usize) -> Result<f64, CudaError> {
        self.times(3)?;
        let mut times = Vec::new();
        for _ in 0..batches {
            times.push(self.on.time(|| (0..10).try_for_each(|_| self.queue()))? / 10.0);
        }
        Ok(self.flops / median(times) / 1e9)
    }

    /// TFLOP/s over about so many milliseconds of work, without a pause.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn burst(&self, ms: f64) -> Result<f64, CudaError> {
        let one = self.on.time(|| self.queue())?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "casts of floats saturate"
        )]
        let n = (ms / one.max(0.01)).ceil().clamp(1.0, 10_000.0) as u32;
        let took = self.on.time(|| (0..n).try_for_each(|_| self.queue()))?;
        Ok(self.flops * f64::from(n) / took / 1e9)
    }

    /// Does the product and compares it, bit by bit, with the first one. Says how many words
    /// differ, and the first of them.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn repeat(&mut self) -> Result<(u64, Vec<MemoryMismatch>), CudaError> {
        if self.reference.is_none() {
            self.queue()?;
            self.on.wait()?;
            let other = Buffer::new(self.on, self.d.bytes)?;
            self.reference = Some(std::mem::replace(&mut self.d, other));
        }
        let Some(reference) = &self.reference else { return Ok((0, Vec::new())) };
        // What the last product left must not pass for this one's.
        self.d.zero(self.on)?;
        self.queue()?;
        let found = Findings::new(self.on)?;
        let f = self.on.function("differ")?;
        let n = (self.d.bytes / 16) as u64;
        let mut args = self.on.stream.launch_builder(&f);
        args.arg(&reference.ptr).arg(&self.d.ptr).arg(&n).arg(found.ptr());
        launch(&mut args, self.on.grid(8, 256))?;
        found.read(self.on)
    }

    /// Memory of the matrices.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.a.bytes + self.b.bytes + self.d.bytes
    }
}

impl Drop for Gemm<'_> {
    fn drop(&mut self) {
        let _ = self.on.wait();
        #[expect(unsafe_code, reason = "the library is C")]
        // SAFETY: each was created in `new`, is freed once, and nothing uses them any more.
        unsafe {
            for l in self.layouts {
                let _ = lt::destroy_matrix_layout(l);
            }
            let _ = lt::destroy_matmul_desc(self.desc);
            let _ = lt::destroy_handle(self.handle);
        }
    }
}
