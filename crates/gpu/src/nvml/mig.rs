//! Slices of a device: which there can be, which there are, and making and taking them away.

use super::code::{Answer, Code};
use super::raw::{Api, Handle, ask, invoke, text};
use crate::device::DeviceError;
use crate::mig::{Creation, MigPlan};
use muster_model::node::{MigProfile, MigSlice};
use muster_model::units::Bytes;
use nvml_wrapper_sys::bindings as b;
use std::mem::size_of;

/// Most placements, instances or parts that a GPU has.
const MOST: usize = 64;

/// Profiles a GPU can be cut into, by name. Empty when it cannot be, or does not say.
pub(super) fn profiles(api: &Api, h: Handle) -> Vec<MigProfile> {
    let mut out: Vec<MigProfile> = Vec::new();
    for number in 0..b::NVML_GPU_INSTANCE_PROFILE_COUNT {
        let Ok(info) = profile(api, h, number) else { continue };
        let Ok(places) = placements(api, h, info.id) else { continue };
        let name = text(&info.name);
        let name = name.trim_start_matches("MIG").trim();
        if name.is_empty() || out.iter().any(|p| p.id == info.id) {
            continue;
        }
        let mut starts: Vec<u32> = places.iter().map(|p| p.start).collect();
        starts.sort_unstable();
        out.push(MigProfile {
            name: name.into(),
            id: info.id,
            most: info.instanceCount,
            memory: Bytes::mib(info.memorySizeMB),
            sms: info.multiprocessorCount,
            starts,
            size: places.first().map_or(0, |p| p.size),
        });
    }
    out.sort_by(|a, b| a.size.cmp(&b.size).then(a.sms.cmp(&b.sms)).then(a.name.cmp(&b.name)));
    out
}

fn profile(api: &Api, h: Handle, number: u32) -> Answer<b::nvmlGpuInstanceProfileInfo_v2_t> {
    let blank = b::nvmlGpuInstanceProfileInfo_v2_t {
        version: u32::try_from(size_of::<b::nvmlGpuInstanceProfileInfo_v2_t>()).unwrap_or(0)
            | (2 << 24),
        id: 0,
        isP2pSupported: 0,
        sliceCount: 0,
        instanceCount: 0,
        multiprocessorCount: 0,
        copyEngineCount: 0,
        decoderCount: 0,
        encoderCount: 0,
        jpegCount: 0,
        ofaCount: 0,
        memorySizeMB: 0,
        name: [0; 96],
    };
    ask!(api, nvmlDeviceGetGpuInstanceProfileInfoV(h.0, number), blank)
}

fn placements(api: &Api, h: Handle, profile: u32) -> Answer<Vec<b::nvmlGpuInstancePlacement_t>> {
    let mut count: u32 = ask!(
        api,
        nvmlDeviceGetGpuInstancePossiblePlacements_v2(h.0, profile, std::ptr::null_mut()),
        0
    )?;
    if count as usize > MOST {
        return Err(Code::TOO_SMALL);
    }
    let mut places = vec![b::nvmlGpuInstancePlacement_t { start: 0, size: 0 }; count as usize];
    invoke!(
        api,
        nvmlDeviceGetGpuInstancePossiblePlacements_v2(
            h.0,
            profile,
            places.as_mut_ptr(),
            &raw mut count
        )
    )?;
    places.truncate(count as usize);
    Ok(places)
}

/// A slice with the handle under which it is asked.
pub(super) struct Slice {
    pub(super) handle: Handle,
    pub(super) gpu_instance: u32,
    pub(super) compute_instance: u32,
}

/// Slices that exist, by handle.
pub(super) fn handles(api: &Api, h: Handle) -> Vec<Slice> {
    let device = api.device(h);
    // Without slices most drivers say that they do not support the question.
    let most = device.mig_device_count().unwrap_or(0).min(u32::try_from(MOST).unwrap_or(0));
    let mut out = Vec::new();
    for i in 0..most {
        let found = ask!(api, nvmlDeviceGetMigDeviceHandleByIndex(h.0, i), std::ptr::null_mut());
        let Ok(handle) = found.map(Handle) else { continue };
        let gi: Answer<u32> = ask!(api, nvmlDeviceGetGpuInstanceId(handle.0), 0);
        let ci: Answer<u32> = ask!(api, nvmlDeviceGetComputeInstanceId(handle.0), 0);
        if let (Ok(gpu_instance), Ok(compute_instance)) = (gi, ci) {
            out.push(Slice { handle, gpu_instance, compute_instance });
        }
    }
    out
}

/// Slices that exist, described. One that does not say where it lies is left out, and reported.
pub(super) fn slices(api: &Api, h: Handle, profiles: &[MigProfile]) -> Vec<MigSlice> {
    let describe = |s: &Slice| -> Option<MigSlice> {
        let device = api.device(s.handle);
        let info = instance(api, h, s.gpu_instance).and_then(|gi| instance_info(api, gi)).ok()?;
        let whole = profiles.iter().find(|p| p.id == info.profileId)?;
        // A part of an instance calls itself `… MIG 1c.3g.71gb`.
        let name = device.name().unwrap_or_default();
        let own = name.rsplit("MIG ").next().unwrap_or_default().trim();
        let profile = if own.contains("c.") { own.into() } else { whole.name.clone() };
        Some(MigSlice {
            uuid: device.uuid().ok()?,
            profile,
            gpu_instance: s.gpu_instance,
            compute_instance: s.compute_instance,
            start: info.placement.start,
        })
    };
    let found = handles(api, h);
    let out: Vec<MigSlice> = found.iter().filter_map(describe).collect();
    if out.len() < found.len() {
        tracing::warn!(
            there = found.len(),
            reported = out.len(),
            "not every MIG slice reports what it is"
        );
    }
    out
}

fn instance(api: &Api, h: Handle, id: u32) -> Answer<b::nvmlGpuInstance_t> {
    ask!(api, nvmlDeviceGetGpuInstanceById(h.0, id), std::ptr::null_mut())
}

fn instance_info(api: &Api, gi: b::nvmlGpuInstance_t) -> Answer<b::nvmlGpuInstanceInfo_t> {
    let blank = b::nvmlGpuInstanceInfo_t {
        device: std::ptr::null_mut(),
        id: 0,
        profileId: 0,
        placement: b::nvmlGpuInstancePlacement_t { start: 0, size: 0 },
    };
    ask!(api, nvmlGpuInstanceGetInfo(gi), blank)
}

/// Carries out a plan: first the mode, then what goes, then what comes. Stops at the first thing
/// that does not work; what was done before it stays done.
pub(super) fn apply(api: &Api, h: Handle, plan: &MigPlan) -> Result<(), DeviceError> {
    if !plan.must_leave.is_empty() {
        return Err(DeviceError::Failed(format!(
            "{} slices that have to go are in use",
            plan.must_leave.len()
        )));
    }
    if !plan.destroy.is_empty() {
        let present = slices(api, h, &profiles(api, h));
        plan.fits(&present).map_err(|e| DeviceError::Failed(e.to_string()))?;
    }
    let failed = |what: String| {
        move |code: Code| match code.error() {
            DeviceError::Failed(why) => DeviceError::Failed(format!("{what}: {why}")),
            other => other,
        }
    };
    if let Some(on) = plan.switch {
        switch(api, h, on).map_err(failed(format!("switching MIG to {on}")))?;
    }
    let mut instances: Vec<u32> = plan.destroy.iter().map(|s| s.gpu_instance).collect();
    instances.sort_unstable();
    instances.dedup();
    for gi in instances {
        destroy(api, h, gi).map_err(failed(format!("destroying GPU instance {gi}")))?;
    }
    for c in &plan.create {
        let what = format!("making {} at {}", c.profile, c.start);
        create(api, h, c).map_err(failed(what))?;
    }
    Ok(())
}

fn switch(api: &Api, h: Handle, on: bool) -> Answer<()> {
    // The call answers twice: whether it was understood, and whether the mode is in force.
    let state: b::nvmlReturn_t = ask!(api, nvmlDeviceSetMigMode(h.0, u32::from(on)), 0)?;
    Code::check(state)
}

fn destroy(api: &Api, h: Handle, id: u32) -> Answer<()> {
    let gi = instance(api, h, id)?;
    for profile in compute_profiles(api, gi) {
        let mut parts = [std::ptr::null_mut(); MOST];
        let listed: Answer<u32> =
            ask!(api, nvmlGpuInstanceGetComputeInstances(gi, profile.id, parts.as_mut_ptr()), 0);
        let count = listed? as usize;
        for part in parts.iter().take(count) {
            invoke!(api, nvmlComputeInstanceDestroy(*part))?;
        }
    }
    invoke!(api, nvmlGpuInstanceDestroy(gi))
}

fn create(api: &Api, h: Handle, c: &Creation) -> Answer<()> {
    let place = b::nvmlGpuInstancePlacement_t { start: c.start, size: c.size };
    let gi = ask!(
        api,
        nvmlDeviceCreateGpuInstanceWithPlacement(h.0, c.id, &raw const place),
        std::ptr::null_mut()
    )?;
    // One compute instance over all of it: a slice is used by one job.
    let whole = compute_profiles(api, gi).into_iter().max_by_key(|p| p.sliceCount);
    let made = whole.ok_or(Code::NOT_SUPPORTED).and_then(|p| {
        ask!(api, nvmlGpuInstanceCreateComputeInstance(gi, p.id), std::ptr::null_mut())
    });
    if let Err(code) = made {
        // A GPU instance without a compute instance would block its place for nothing.
        let undone: Answer<()> = invoke!(api, nvmlGpuInstanceDestroy(gi));
        if undone.is_err() {
            tracing::warn!(profile = %c.profile, start = c.start, "a GPU instance is left over");
        }
        return Err(code);
    }
    Ok(())
}

fn compute_profiles(
    api: &Api,
    gi: b::nvmlGpuInstance_t,
) -> Vec<b::nvmlComputeInstanceProfileInfo_t> {
    let blank = b::nvmlComputeInstanceProfileInfo_t {
        id: 0,
        sliceCount: 0,
        instanceCount: 0,
        multiprocessorCount: 0,
        sharedCopyEngineCount: 0,
        sharedDecoderCount: 0,
        sharedEncoderCount: 0,
        sharedJpegCount: 0,
        sharedOfaCount: 0,
    };
    let shared = b::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;
    (0..b::NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        .filter_map(|n| {
            ask!(api, nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, n, shared), blank).ok()
        })
        .collect()
}
