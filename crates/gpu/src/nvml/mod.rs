//! NVIDIA's driver, through its management library. The library is loaded at run time; what it
//! does not have is absent.

mod code;
mod describe;
mod device;
mod events;
mod fields;
mod gpm;
mod mig;
mod raw;
mod sampler;

pub use device::NvmlDevice;

use crate::device::{Device, DeviceError, Driver, DriverEvent};
use crate::mig::MigPlan;
use code::Code;
use events::{Events, LastXid, NO_EVENTS, WatchedDevice};
use nvml_wrapper::Nvml;
use raw::Api;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Names another library than the usual one.
const LIBRARY_VARIABLE: &str = "MUSTER_NVML";

/// NVIDIA's driver.
pub struct NvmlDriver {
    api: Arc<Api>,
    /// Last XID by index.
    xids: Vec<LastXid>,
    /// None while it cannot be waited.
    events: Mutex<Result<Events, Code>>,
}

impl NvmlDriver {
    /// Loads the library and connects to the driver. `MUSTER_NVML` names another library.
    ///
    /// # Errors
    /// When there is no driver, or its parts do not fit together.
    pub fn open() -> Result<NvmlDriver, DeviceError> {
        let named = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty());
        NvmlDriver::load(named.as_deref())
    }

    /// The same with a library named by the caller.
    ///
    /// # Errors
    /// When there is no driver, or its parts do not fit together.
    pub fn load(library: Option<&OsStr>) -> Result<NvmlDriver, DeviceError> {
        let mut builder = Nvml::builder();
        if let Some(path) = library {
            builder.lib_path(path);
        }
        let nvml = builder.init().map_err(|e| code::error(&e))?;
        let api = Arc::new(Api::new(nvml));
        let count = api.safe().device_count().map_err(|e| code::error(&e))?;
        let xids: Vec<LastXid> = (0..count).map(|_| Arc::new(AtomicU32::new(NO_EVENTS))).collect();
        let watched: Vec<WatchedDevice> = xids
            .iter()
            .zip(0..)
            .filter_map(|(last, index)| {
                let handle = api.handle(index).ok()?;
                Some(WatchedDevice { handle, index, last: Arc::clone(last) })
            })
            .collect();
        let events = Mutex::new(Events::new(&api, &watched));
        Ok(NvmlDriver { api, xids, events })
    }

    fn device(&self, index: u32, last: &LastXid) -> Result<NvmlDevice, DeviceError> {
        let handle = self.api.handle(index).map_err(Code::error)?;
        NvmlDevice::new(&self.api, handle, index, Arc::clone(last))
    }
}

impl Driver for NvmlDriver {
    fn name(&self) -> &'static str {
        "nvml"
    }

    fn versions(&self) -> BTreeMap<String, String> {
        let nvml = self.api.safe();
        let cuda = nvml.sys_cuda_driver_version();
        let cuda = cuda.map(|v| format!("{}.{}", v / 1000, v % 1000 / 10));
        let versions = [
            ("driver", nvml.sys_driver_version()),
            ("cuda", cuda),
            ("nvml", nvml.sys_nvml_version()),
        ];
        versions.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v.ok()?))).collect()
    }

    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>> {
        let one = |(last, index)| {
            let device = self.device(index, last)?;
            Ok(Box::new(device) as Box<dyn Device>)
        };
        self.xids.iter().zip(0..).map(one).collect()
    }

    fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        match events.as_mut() {
            Ok(set) => set.wait(most),
            Err(code) => Err(code.error()),
        }
    }

    fn apply_mig(&self, gpu: u32, plan: &MigPlan) -> Result<(), DeviceError> {
        let index = usize::try_from(gpu).unwrap_or(usize::MAX);
        let last = self
            .xids
            .get(index)
            .ok_or_else(|| DeviceError::Failed(format!("there is no GPU {gpu} on this machine")))?;
        self.device(gpu, last)?.apply(plan)
    }
}
