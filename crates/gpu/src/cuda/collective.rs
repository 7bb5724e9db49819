//! Collectives between the GPUs of one node, through NCCL.

use super::{Cuda, CudaError, driver};
use cudarc::nccl::{self, Comm, ReduceOp};
use std::sync::Arc;
use std::time::Instant;

fn nccl_error(e: nccl::result::NcclError) -> CudaError {
    CudaError::Driver { doing: "a collective", what: format!("{e:?}") }
}

/// Adds `bytes` up over these devices, again and again: bus bandwidth in GB/s, that is, what each
/// link would carry if the ring were perfect.
///
/// # Errors
/// When NCCL is missing or refuses.
pub fn all_reduce(devices: &[Cuda], bytes: usize, rounds: u32) -> Result<f64, CudaError> {
    #[expect(unsafe_code, reason = "loading a library runs its initialisers")]
    // SAFETY: the vendor's own library; nothing is called.
    if !unsafe { nccl::sys::is_culib_present() } {
        return Err(CudaError::NoLibrary("NCCL (libnccl)"));
    }
    let streams: Vec<_> = devices.iter().map(|d| Arc::clone(&d.stream)).collect();
    let comms = Comm::from_devices(streams).map_err(nccl_error)?;
    let n = bytes / 4;
    let mut buffers = Vec::new();
    for d in devices {
        d.ctx.bind_to_thread().map_err(driver("binding the device"))?;
        let zeros = || d.stream.alloc_zeros::<f32>(n).map_err(driver("taking device memory"));
        buffers.push((zeros()?, zeros()?));
    }
    let mut once = || -> Result<(), CudaError> {
        nccl::result::group_start().map_err(nccl_error)?;
        for (comm, (send, receive)) in comms.iter().zip(&mut buffers) {
            comm.all_reduce(send, receive, &ReduceOp::Sum).map_err(nccl_error)?;
        }
        nccl::result::group_end().map_err(nccl_error)?;
        Ok(())
    };
    let wait = || devices.iter().try_for_each(Cuda::wait);
    for _ in 0..3 {
        once()?;
    }
    wait()?;
    let start = Instant::now();
    for _ in 0..rounds {
        once()?;
    }
    wait()?;
    let seconds = start.elapsed().as_secs_f64() / f64::from(rounds.max(1));
    #[expect(clippy::cast_precision_loss, reason = "bandwidths have few digits")]
    let (ranks, bytes) = (devices.len() as f64, bytes as f64);
    // A single device moves nothing; what it does is counted as a copy, so that the path is tried.
    let factor = if ranks > 1.0 { 2.0 * (ranks - 1.0) / ranks } else { 1.0 };
    Ok(bytes * factor / seconds / 1e9)
}
