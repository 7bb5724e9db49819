//! Every call into the library that the safe wrapper does not have, or that is made so often that
//! its cost counts. Functions are reached through the loaded table's fields, never through its
//! methods: a method panics when the driver is too old to have the function, a field says so.

use super::code::{Answer, Code};
use nvml_wrapper::Nvml;
use nvml_wrapper_sys::bindings as b;
use std::mem::{ManuallyDrop, size_of};
use std::os::raw::{c_char, c_uint};

/// The library, loaded and initialised.
pub(super) struct Api {
    nvml: ManuallyDrop<Nvml>,
}

/// A device, a slice or a part of one, as the library knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle(pub(super) b::nvmlDevice_t);

// SAFETY: a handle is a name that only the library looks behind, it stays valid until the library
// is shut down (every holder keeps the `Api` alive), and the library may be called from any thread.
#[expect(unsafe_code, reason = "handles of the library are plain names, usable from any thread")]
unsafe impl Send for Handle {}
// SAFETY: as above; nothing is ever written through it.
#[expect(unsafe_code, reason = "handles of the library are plain names, usable from any thread")]
unsafe impl Sync for Handle {}

/// Calls a function whose last argument is where it puts its answer.
macro_rules! ask {
    ($api:expr, $name:ident($($arg:expr),*), $blank:expr) => {{
        match $api.lib().$name.as_ref() {
            Err(_) => Err(Code::NO_SUCH_FUNCTION),
            Ok(function) => {
                let mut out = $blank;
                #[expect(unsafe_code, reason = "a call into the driver's library")]
                // SAFETY: the function comes from the loaded library with the signature of its
                // header; handles are valid while `Api` lives; `out` is a whole value of the type
                // it writes, with its version set where the header asks for one.
                let code = unsafe { function($($arg,)* &raw mut out) };
                Code::check(code).map(|()| out)
            }
        }
    }};
}

/// Calls a function that only answers whether it worked.
macro_rules! invoke {
    ($api:expr, $name:ident($($arg:expr),*)) => {{
        match $api.lib().$name.as_ref() {
            Err(_) => Err(Code::NO_SUCH_FUNCTION),
            Ok(function) => {
                #[expect(unsafe_code, reason = "a call into the driver's library")]
                // SAFETY: the function comes from the loaded library with the signature of its
                // header; handles are valid while `Api` lives; pointers point to whole values
                // that outlive the call.
                let code = unsafe { function($($arg),*) };
                Code::check(code)
            }
        }
    }};
}

/// What the header's versioned structures carry as their version: their size and number.
fn version<T>(number: c_uint) -> c_uint {
    c_uint::try_from(size_of::<T>()).unwrap_or(0) | (number << 24)
}

/// Text of a fixed place in a structure.
pub(super) fn text(place: &[c_char]) -> String {
    let bytes: Vec<u8> =
        place.iter().take_while(|c| **c != 0).map(|c| u8::from_ne_bytes(c.to_ne_bytes())).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Api {
    /// Takes over a library that was initialised.
    pub(super) fn new(nvml: Nvml) -> Api {
        Api { nvml: ManuallyDrop::new(nvml) }
    }

    /// The safe wrapper.
    pub(super) fn safe(&self) -> &Nvml {
        &self.nvml
    }

    /// A device of the safe wrapper.
    pub(super) fn device(&self, handle: Handle) -> nvml_wrapper::Device<'_> {
        #[expect(unsafe_code, reason = "makes a device of the safe wrapper from its handle")]
        // SAFETY: the handle came from this library, which is still initialised.
        unsafe {
            nvml_wrapper::Device::new(handle.0, &self.nvml)
        }
    }

    pub(super) fn lib(&self) -> &b::NvmlLib {
        self.nvml.lib()
    }

    pub(super) fn handle(&self, index: u32) -> Answer<Handle> {
        ask!(self, nvmlDeviceGetHandleByIndex_v2(index), std::ptr::null_mut()).map(Handle)
    }

    /// Reads many fields at once. Each value says for itself whether it was read.
    pub(super) fn fields(&self, h: Handle, values: &mut [b::nvmlFieldValue_t]) -> Answer<()> {
        let count = i32::try_from(values.len()).unwrap_or(0);
        invoke!(self, nvmlDeviceGetFieldValues(h.0, count, values.as_mut_ptr()))
    }

    pub(super) fn utilization(&self, h: Handle) -> Answer<(u32, u32)> {
        let blank = b::nvmlUtilization_t { gpu: 0, memory: 0 };
        ask!(self, nvmlDeviceGetUtilizationRates(h.0), blank).map(|u| (u.gpu, u.memory))
    }

    /// Memory with what the driver keeps for itself as a number of its own; an old driver cannot.
    pub(super) fn memory(&self, h: Handle) -> Answer<b::nvmlMemory_v2_t> {
        let blank = b::nvmlMemory_v2_t {
            version: version::<b::nvmlMemory_v2_t>(2),
            total: 0,
            reserved: 0,
            free: 0,
            used: 0,
        };
        ask!(self, nvmlDeviceGetMemoryInfo_v2(h.0), blank)
    }

    pub(super) fn memory_old(&self, h: Handle) -> Answer<b::nvmlMemory_t> {
        ask!(self, nvmlDeviceGetMemoryInfo(h.0), b::nvmlMemory_t { total: 0, free: 0, used: 0 })
    }

    pub(super) fn clock(&self, h: Handle, kind: c_uint) -> Answer<u32> {
        ask!(self, nvmlDeviceGetClockInfo(h.0, kind), 0)
    }

    pub(super) fn temperature(&self, h: Handle) -> Answer<u32> {
        let core = b::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU;
        ask!(self, nvmlDeviceGetTemperature(h.0, core), 0)
    }

    /// The same where the older call was taken away.
    pub(super) fn temperature_new(&self, h: Handle) -> Answer<i32> {
        let blank = b::nvmlTemperature_t {
            version: version::<b::nvmlTemperature_t>(1),
            sensorType: b::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU,
            temperature: 0,
        };
        ask!(self, nvmlDeviceGetTemperatureV(h.0), blank).map(|t| t.temperature)
    }

    pub(super) fn mig_mode(&self, h: Handle) -> Answer<bool> {
        let mut now = 0;
        ask!(self, nvmlDeviceGetMigMode(h.0, &raw mut now), 0).map(|_: u32| now != 0)
    }

    pub(super) fn margin(&self, h: Handle) -> Answer<i32> {
        let blank = b::nvmlMarginTemperature_t {
            version: version::<b::nvmlMarginTemperature_t>(1),
            marginTemperature: 0,
        };
        ask!(self, nvmlDeviceGetMarginTemperature(h.0), blank).map(|m| m.marginTemperature)
    }

    pub(super) fn power(&self, h: Handle) -> Answer<u32> {
        ask!(self, nvmlDeviceGetPowerUsage(h.0), 0)
    }

    pub(super) fn power_limit(&self, h: Handle) -> Answer<u32> {
        ask!(self, nvmlDeviceGetEnforcedPowerLimit(h.0), 0)
    }

    pub(super) fn clock_reasons(&self, h: Handle) -> Answer<u64> {
        ask!(self, nvmlDeviceGetCurrentClocksEventReasons(h.0), 0)
    }

    /// The same under the name that drivers before 535 know.
    pub(super) fn throttle_reasons(&self, h: Handle) -> Answer<u64> {
        ask!(self, nvmlDeviceGetCurrentClocksThrottleReasons(h.0), 0)
    }

    pub(super) fn pstate(&self, h: Handle) -> Answer<u32> {
        ask!(self, nvmlDeviceGetPerformanceState(h.0), 0)
    }

    pub(super) fn fan(&self, h: Handle) -> Answer<u32> {
        ask!(self, nvmlDeviceGetFanSpeed(h.0), 0)
    }

    pub(super) fn pcie_gen(&self, h: Handle) -> Answer<u32> {
        ask!(self, nvmlDeviceGetCurrPcieLinkGeneration(h.0), 0)
    }

    pub(super) fn pcie_width(&self, h: Handle) -> Answer<u32> {
        ask!(self, nvmlDeviceGetCurrPcieLinkWidth(h.0), 0)
    }

    pub(super) fn encoder(&self, h: Handle) -> Answer<u32> {
        let mut percent = 0;
        ask!(self, nvmlDeviceGetEncoderUtilization(h.0, &raw mut percent), 0).map(|_: u32| percent)
    }

    pub(super) fn decoder(&self, h: Handle) -> Answer<u32> {
        let mut percent = 0;
        ask!(self, nvmlDeviceGetDecoderUtilization(h.0, &raw mut percent), 0).map(|_: u32| percent)
    }

    pub(super) fn jpeg(&self, h: Handle) -> Answer<u32> {
        let mut percent = 0;
        ask!(self, nvmlDeviceGetJpgUtilization(h.0, &raw mut percent), 0).map(|_: u32| percent)
    }

    pub(super) fn ofa(&self, h: Handle) -> Answer<u32> {
        let mut percent = 0;
        ask!(self, nvmlDeviceGetOfaUtilization(h.0, &raw mut percent), 0).map(|_: u32| percent)
    }

    pub(super) fn ecc(&self, h: Handle, kind: u32, counter: u32, place: u32) -> Answer<u64> {
        ask!(self, nvmlDeviceGetMemoryErrorCounter(h.0, kind, counter, place), 0)
    }

    /// True when errors of the chip's own memory passed the limit for replacement.
    pub(super) fn sram_threshold(&self, h: Handle) -> Answer<bool> {
        let blank = b::nvmlEccSramErrorStatus_t {
            version: version::<b::nvmlEccSramErrorStatus_t>(1),
            aggregateUncParity: 0,
            aggregateUncSecDed: 0,
            aggregateCor: 0,
            volatileUncParity: 0,
            volatileUncSecDed: 0,
            volatileCor: 0,
            aggregateUncBucketL2: 0,
            aggregateUncBucketSm: 0,
            aggregateUncBucketPcie: 0,
            aggregateUncBucketMcu: 0,
            aggregateUncBucketOther: 0,
            bThresholdExceeded: 0,
        };
        ask!(self, nvmlDeviceGetSramEccErrorStatus(h.0), blank).map(|s| s.bThresholdExceeded != 0)
    }

    /// Banks by spare rows left: all, most, some, few, none.
    pub(super) fn spare_rows(&self, h: Handle) -> Answer<[u32; 5]> {
        let blank =
            b::nvmlRowRemapperHistogramValues_t { max: 0, high: 0, partial: 0, low: 0, none: 0 };
        ask!(self, nvmlDeviceGetRowRemapperHistogram(h.0), blank)
            .map(|v| [v.max, v.high, v.partial, v.low, v.none])
    }

    pub(super) fn link_active(&self, h: Handle, link: u32) -> Answer<bool> {
        ask!(self, nvmlDeviceGetNvLinkState(h.0, link), 0).map(|state: u32| state != 0)
    }

    pub(super) fn module(&self, h: Handle) -> Answer<u32> {
        ask!(self, nvmlDeviceGetModuleId(h.0), 0)
    }

    /// The fabric it has joined and its clique there; none while it has joined none.
    pub(super) fn fabric(&self, h: Handle) -> Answer<Option<([u8; 16], u32)>> {
        let joined = b::NVML_GPU_FABRIC_STATE_COMPLETED;
        let blank = b::nvmlGpuFabricInfoV_t {
            version: version::<b::nvmlGpuFabricInfo_v3_t>(3),
            clusterUuid: [0; 16],
            status: 0,
            cliqueId: 0,
            state: 0,
            healthMask: 0,
            healthSummary: 0,
        };
        // The second version is a prefix of the third, so one place serves both.
        let info = ask!(self, nvmlDeviceGetGpuFabricInfoV(h.0), blank).or_else(|_| {
            let mut older = blank;
            older.version = version::<b::nvmlGpuFabricInfo_v2_t>(2);
            ask!(self, nvmlDeviceGetGpuFabricInfoV(h.0), older)
        })?;
        let done = u32::from(info.state) == joined && info.status == 0;
        Ok(done.then_some((info.clusterUuid, info.cliqueId)))
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        // The wrapper's own end panics when the library cannot be shut down.
        if self.lib().nvmlShutdown.is_ok() {
            #[expect(unsafe_code, reason = "the library is dropped by hand")]
            // SAFETY: dropped once, here, and not used after.
            unsafe {
                ManuallyDrop::drop(&mut self.nvml);
            }
        }
    }
}

pub(super) use {ask, invoke};
