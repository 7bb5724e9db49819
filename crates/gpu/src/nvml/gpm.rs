//! What the chip's own counters say between two looks (Hopper and later).

use super::code::{Answer, Code};
use super::raw::{Api, Handle, ask, invoke};
use crate::sample::{Field, Sample};
use nvml_wrapper_sys::bindings as b;
use std::sync::Arc;

/// Metric, where it goes, and by what it is multiplied: percent become fractions, mebibytes a
/// second become bytes.
const METRICS: [(u32, Field, f64); 12] = [
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL, Field::GrActive, 0.01),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_UTIL, Field::SmActive, 0.01),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_OCCUPANCY, Field::SmOccupancy, 0.01),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_ANY_TENSOR_UTIL, Field::TensorActive, 0.01),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_DRAM_BW_UTIL, Field::DramActive, 0.01),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_FP64_UTIL, Field::Fp64Active, 0.01),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_FP32_UTIL, Field::Fp32Active, 0.01),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_FP16_UTIL, Field::Fp16Active, 0.01),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_PCIE_TX_PER_SEC, Field::PcieTx, MIB),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_PCIE_RX_PER_SEC, Field::PcieRx, MIB),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, Field::NvlinkTx, MIB),
    (b::nvmlGpmMetricId_t_NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, Field::NvlinkRx, MIB),
];
const MIB: f64 = 1_048_576.0;

/// A set of counters, as they were at one moment.
struct Moment {
    api: Arc<Api>,
    at: b::nvmlGpmSample_t,
}

// SAFETY: a moment is memory of the library's that only the library looks into; it is owned by one
// `Moment` and the library may be called from any thread.
#[expect(unsafe_code, reason = "the library's own memory, owned by one holder")]
unsafe impl Send for Moment {}

impl Moment {
    fn new(api: &Arc<Api>) -> Answer<Moment> {
        let at = ask!(api, nvmlGpmSampleAlloc(), std::ptr::null_mut())?;
        Ok(Moment { api: Arc::clone(api), at })
    }

    fn take(&self, h: Handle, slice: Option<u32>) -> Answer<()> {
        match slice {
            None => invoke!(self.api, nvmlGpmSampleGet(h.0, self.at)),
            Some(gi) => invoke!(self.api, nvmlGpmMigSampleGet(h.0, gi, self.at)),
        }
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        let freed: Answer<()> = invoke!(self.api, nvmlGpmSampleFree(self.at));
        if let Err(code) = freed {
            tracing::debug!(?code, "the driver keeps a set of counters");
        }
    }
}

/// The counters of one device or slice.
pub(super) struct Gpm {
    before: Moment,
    now: Moment,
    /// Whether `before` holds anything.
    begun: bool,
    ask: Box<b::nvmlGpmMetricsGet_t>,
}

// SAFETY: the pointers inside `ask` are only written and read during a call, by the library; the
// moments are `Send` by themselves.
#[expect(unsafe_code, reason = "pointers that live for one call only")]
unsafe impl Send for Gpm {}

impl Gpm {
    /// Whether the device has such counters at all.
    pub(super) fn supported(api: &Api, h: Handle) -> Answer<bool> {
        let blank =
            b::nvmlGpmSupport_t { version: b::NVML_GPM_SUPPORT_VERSION, isSupportedDevice: 0 };
        ask!(api, nvmlGpmQueryDeviceSupport(h.0), blank).map(|s| s.isSupportedDevice != 0)
    }

    pub(super) fn new(api: &Arc<Api>) -> Answer<Gpm> {
        let nothing = b::nvmlGpmMetric_t {
            metricId: 0,
            nvmlReturn: 0,
            value: 0.0,
            metricInfo: b::nvmlGpmMetric_t__bindgen_ty_1 {
                shortName: std::ptr::null_mut(),
                longName: std::ptr::null_mut(),
                unit: std::ptr::null_mut(),
            },
        };
        let ask = Box::new(b::nvmlGpmMetricsGet_t {
            version: b::NVML_GPM_METRICS_GET_VERSION,
            numMetrics: u32::try_from(METRICS.len()).unwrap_or(0),
            sample1: std::ptr::null_mut(),
            sample2: std::ptr::null_mut(),
            metrics: [nothing; 210],
        });
        Ok(Gpm { before: Moment::new(api)?, now: Moment::new(api)?, begun: false, ask })
    }

    /// Fills in what happened since the last look; nothing at the first.
    pub(super) fn read(
        &mut self,
        api: &Api,
        h: Handle,
        slice: Option<u32>,
        sample: &mut Sample,
    ) -> Answer<()> {
        self.now.take(h, slice)?;
        std::mem::swap(&mut self.now, &mut self.before);
        // From here on `before` is the newest; `now` is the one before it.
        if !std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        self.ask.sample1 = self.now.at;
        self.ask.sample2 = self.before.at;
        for (place, (id, _, _)) in self.ask.metrics.iter_mut().zip(METRICS) {
            place.metricId = id;
            place.nvmlReturn = 0;
            place.value = f64::NAN;
        }
        invoke!(api, nvmlGpmMetricsGet(&raw mut *self.ask))?;
        for (place, (_, field, scale)) in self.ask.metrics.iter().zip(METRICS) {
            if Code::check(place.nvmlReturn).is_ok() && place.value.is_finite() {
                sample.set(field, place.value * scale);
            }
        }
        Ok(())
    }
}
