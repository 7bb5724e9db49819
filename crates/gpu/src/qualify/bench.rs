//! Where the GPUs under test come from.

use super::probe::{CudaProbe, Probe};
use crate::cuda::{self, Cuda, CudaError};
use crate::device::{Device, DeviceError, Driver, DriverEvent};
use std::time::Duration;

/// GPUs and what can be done with them.
pub trait Bench: Sync {
    /// Devices in index order.
    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>>;
    /// Work on one of them; called in the thread that uses it.
    ///
    /// # Errors
    /// When it cannot be put to work.
    fn probe(&self, gpu: u32) -> Result<Box<dyn Probe + '_>, CudaError>;
    /// A sum over all of these, GB/s of bus bandwidth.
    ///
    /// # Errors
    /// When the library is missing or a link refuses.
    fn all_reduce(&self, gpus: &[u32]) -> Result<f64, CudaError>;
    /// Waits for something the driver reports.
    ///
    /// # Errors
    /// When it reports nothing; do not ask again.
    fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError>;
}

/// The GPUs of this machine.
pub struct RealBench(pub Box<dyn Driver>);

/// Bytes of a collective: enough for the links to be busy.
const COLLECTIVE: usize = 2 << 30;

impl Bench for RealBench {
    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>> {
        self.0.devices()
    }

    fn probe(&self, gpu: u32) -> Result<Box<dyn Probe + '_>, CudaError> {
        Ok(Box::new(CudaProbe::open(gpu)?))
    }

    fn all_reduce(&self, gpus: &[u32]) -> Result<f64, CudaError> {
        let open = |g: &u32| Cuda::open(*g as usize);
        let devices = gpus.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        cuda::all_reduce(&devices, COLLECTIVE, 20)
    }

    fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError> {
        self.0.wait_event(most)
    }
}
