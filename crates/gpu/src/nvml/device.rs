//! One GPU behind the library.

use super::code::error;
use super::events::{LastXid, NO_EVENTS};
use super::gpm::Gpm;
use super::raw::{Api, Handle};
use super::sampler::{Sampler, wide};
use super::{describe, fields, mig};
use crate::device::{BusNow, Device, DeviceError, Process, Recovery};
use crate::sample::{Field, Sample};
use muster_model::node::Gpu;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper_sys::bindings::field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

const MIB: f64 = 1_048_576.0;

/// An NVIDIA GPU.
pub struct NvmlDevice {
    api: Arc<Api>,
    handle: Handle,
    index: u32,
    uuid: String,
    pci: Option<String>,
    last_xid: LastXid,
    sampler: Mutex<Sampler>,
    /// Counters of slices, by GPU instance; none where they cannot be read.
    slices: Mutex<BTreeMap<u32, Option<Gpm>>>,
}

impl NvmlDevice {
    pub(super) fn new(
        api: &Arc<Api>,
        handle: Handle,
        index: u32,
        last_xid: LastXid,
    ) -> Result<NvmlDevice, DeviceError> {
        let d = api.device(handle);
        let uuid = d.uuid().map_err(|e| error(&e))?;
        let pci = d.pci_info().ok().map(|p| p.bus_id);
        let sampler = Mutex::new(Sampler::new(api, handle));
        let slices = Mutex::default();
        Ok(NvmlDevice { api: Arc::clone(api), handle, index, uuid, pci, last_xid, sampler, slices })
    }
}

impl Device for NvmlDevice {
    fn index(&self) -> u32 {
        self.index
    }

    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn pci(&self) -> Option<&str> {
        self.pci.as_deref()
    }

    fn describe(&self) -> Result<Gpu, DeviceError> {
        describe::gpu(&self.api, self.handle, self.index)
    }

    fn bus(&self) -> BusNow {
        BusNow {
            pcie_gen: self.api.pcie_gen(self.handle).ok(),
            pcie_width: self.api.pcie_width(self.handle).ok(),
        }
    }

    fn sample(&self, sample: &mut Sample) -> Result<(), DeviceError> {
        sample.clear();
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = sampler.fill_sample(&self.api, self.handle, sample);
        if looked.is_err() {
            // Half a look would read like a whole one.
            sample.clear();
        } else {
            let xid = self.last_xid.load(Ordering::Relaxed);
            sample.put(Field::Xid, (xid != NO_EVENTS).then_some(f64::from(xid)));
        }
        looked
    }

    fn sample_slices(&self) -> Result<Vec<(u32, u32, Sample)>, DeviceError> {
        // Asking for the mode alone takes longer than most of a look; the sampler knows it.
        if !self.sampler.lock().unwrap_or_else(PoisonError::into_inner).is_cut() {
            return Ok(Vec::new());
        }
        let found = mig::handles(&self.api, self.handle);
        let mut counters = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        counters.retain(|gi, _| found.iter().any(|s| s.gpu_instance == *gi));
        let mut out = Vec::new();
        for s in found {
            let mut sample = Sample::default();
            match self.api.memory(s.handle) {
                Ok(m) => {
                    sample.set(Field::FbTotal, wide(m.total) / MIB);
                    sample.set(Field::FbFree, wide(m.free) / MIB);
                    sample.set(Field::FbUsed, wide(m.used) / MIB);
                    sample.set(Field::FbReserved, wide(m.reserved) / MIB);
                }
                Err(code) if code.lost() => return Err(DeviceError::Lost),
                Err(_) => {}
            }
            let gpm = counters.entry(s.gpu_instance).or_insert_with(|| {
                let has = Gpm::supported(&self.api, self.handle) == Ok(true);
                has.then(|| Gpm::new(&self.api).ok()).flatten()
            });
            if let Some(g) = gpm {
                match g.read(&self.api, self.handle, Some(s.gpu_instance), &mut sample) {
                    Err(code) if code.lost() => return Err(DeviceError::Lost),
                    Err(code) if code.never() => *gpm = None,
                    _ => {}
                }
            }
            out.push((s.gpu_instance, s.compute_instance, sample));
        }
        Ok(out)
    }

    fn processes(&self) -> Result<Vec<Process>, DeviceError> {
        let d = self.api.device(self.handle);
        let mut out: BTreeMap<i32, Process> = BTreeMap::new();
        for listed in [d.running_compute_processes(), d.running_graphics_processes()] {
            match listed {
                Ok(list) => {
                    for p in list.iter().filter_map(process) {
                        out.entry(p.pid).or_insert(p);
                    }
                }
                // A device without such processes, or an old driver that cannot list them.
                Err(
                    NvmlError::NotSupported
                    | NvmlError::FunctionNotFound
                    | NvmlError::FailedToLoadSymbol(_),
                ) => {}
                Err(e) => return Err(error(&e)),
            }
        }
        Ok(out.into_values().collect())
    }

    fn recovery(&self) -> Option<Recovery> {
        let reported = fields::one(&self.api, self.handle, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)?;
        // Small whole numbers, so comparing them exactly is right.
        let actions = [
            Recovery::None,
            Recovery::ResetGpu,
            Recovery::Reboot,
            Recovery::DrainPeers,
            Recovery::DrainAndReset,
        ];
        actions.into_iter().zip(0u8..).find(|(_, n)| f64::from(*n) == reported).map(|(a, _)| a)
    }
}

fn process(p: &ProcessInfo) -> Option<Process> {
    Some(Process {
        pid: i32::try_from(p.pid).ok()?,
        memory: match p.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
        slice: p.gpu_instance_id.zip(p.compute_instance_id),
    })
}

impl NvmlDevice {
    /// Cuts the GPU as planned.
    pub(super) fn apply(&self, plan: &crate::mig::MigPlan) -> Result<(), DeviceError> {
        mig::apply(&self.api, self.handle, plan)
    }
}
