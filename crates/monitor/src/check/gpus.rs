//! The driver and the GPUs.

use super::{DeviceSilence, Findings, GpuObservation, NodeObservation, Verdict};
use crate::ring::as_mask;
use muster_gpu::device::{DeviceError, Recovery};
use muster_gpu::sample::{Field, Sample};
use muster_model::node::Gpu;
use std::collections::BTreeMap;

use Verdict::{Degraded, Failed, Healthy};

/// Clock reasons that mean trouble; idle, application clocks, sync boost, the display's clock and
/// a power cap that somebody set do not. (NVML's names: HwSlowdown, SwThermal, HwThermal,
/// HwPowerBrake.)
const TROUBLE: [(u64, &str, &str); 4] = [
    (0x40, "the hardware slows it down for heat", "look at fans, air flow and the heat sink"),
    (0x20, "the driver slows it down for heat", "look at fans, air flow and the data hall"),
    (
        0x80,
        "the power supply makes it slow down",
        "look at power supplies and power caps of the rack",
    ),
    (0x08, "the hardware slows it down", "look at its power and cooling"),
];
/// Fewer degrees before it slows down than this are few.
const LEAST_MARGIN: f64 = 5.0;
/// Where no margin is reported: hot is this.
const HOT: f64 = 90.0;
/// Memory is hot at this.
const HOT_MEMORY: f64 = 95.0;
/// More rows or pages than these are a reason for replacement (NVIDIA's limits: 512 rows, 64 pages).
const MOST_ROWS: f64 = 512.0;
const MOST_PAGES: f64 = 64.0;
/// A GPU that computes does not save power on its bus.
const BUSY: f64 = 10.0;

pub(super) fn driver(look: &NodeObservation, found: &mut Findings) {
    let on_bus = look.host.nvidia.len();
    match &look.no_driver {
        None => {}
        Some(DeviceError::NoDriver(_)) if on_bus == 0 => {}
        Some(e @ DeviceError::NoDriver(_)) => found.add(
            Failed,
            "driver-missing",
            None,
            format!("{on_bus} NVIDIA GPUs are on the bus, and {e}"),
            "install or load the driver (`modprobe nvidia`), then look into `dmesg` for NVRM",
        ),
        Some(e @ DeviceError::Mismatch(_)) => found.add(
            Failed,
            "driver-mismatch",
            None,
            e.to_string(),
            "restart the node, or unload and load the nvidia modules: an update changed one half",
        ),
        Some(e) => found.add(
            Failed,
            "driver-error",
            None,
            format!("the driver does not answer: {e}"),
            "look into `dmesg` for NVRM; restart the node",
        ),
    }
    if look.no_driver.is_none() && look.driver != "simulated" {
        let known = look.gpus.len();
        if known < on_bus {
            found.add(
                Failed,
                "gpu-missing",
                None,
                format!("{on_bus} GPUs are on the bus, the driver has {known}"),
                "look into `dmesg` for RmInitAdapter; restart the node; reseat the GPU",
            );
        }
    }
    if let Some(expect) = look.expect
        && look.gpus.len() != expect as usize
    {
        found.add(
            Failed,
            "gpu-count",
            None,
            format!("there are {} GPUs, and {expect} are expected", look.gpus.len()),
            "look at the bus (`lspci -d 10de:`), restart the node, reseat the GPU",
        );
    }
}

pub(super) fn one(look: &NodeObservation, g: &GpuObservation, found: &mut Findings) {
    let mut add = |verdict, code: &str, what: String, todo: &str| {
        found.add(verdict, code, Some(g.index), what, todo);
    };
    match &g.error {
        Some(DeviceSilence::Lost) => add(
            Failed,
            "gpu-lost",
            "it is gone from the bus".into(),
            "restart the node; if it comes again, reseat or replace the GPU",
        ),
        Some(DeviceSilence::Hung) => add(
            Failed,
            "nvml-hang",
            "a call to it does not return".into(),
            "stop its jobs and restart the node",
        ),
        Some(DeviceSilence::Other(why)) => add(
            Failed,
            "gpu-silent",
            format!("it does not answer: {why}"),
            "look into `dmesg` for NVRM; reset the GPU or restart the node",
        ),
        None => {}
    }
    match g.recovery {
        Some(Recovery::ResetGpu) => {
            add(Failed, "recovery", "the driver asks for a reset".into(), RESET);
        }
        // It works on meanwhile, with less than it had.
        Some(Recovery::DrainAndReset) => add(
            Degraded,
            "recovery",
            "the driver asks for a reset once its work is done".into(),
            RESET,
        ),
        Some(Recovery::Reboot) => add(
            Failed,
            "recovery",
            "the driver asks for a restart of the node".into(),
            "restart the node",
        ),
        Some(Recovery::DrainPeers) => add(
            Degraded,
            "recovery",
            "the driver asks that its peers finish first".into(),
            "let the jobs on its NVLink peers end, then reset it",
        ),
        Some(Recovery::None) | None => {}
    }
    if let Some(s) = &g.last {
        memory(s, &mut add);
        heat(s, &mut add);
        bus(g, s, &mut add);
        if let Some(first) = &g.first {
            moving(first, s, &mut add);
        }
    }
    if let Some(gpu) = &g.gpu {
        settings(gpu, &mut add);
        links(look, gpu, &mut add);
    }
}

const RESET: &str = "stop its jobs, then `nvidia-smi --gpu-reset`, or restart the node";

type Add<'a> = dyn FnMut(Verdict, &str, String, &str) + 'a;

fn memory(s: &Sample, add: &mut Add<'_>) {
    let at_least = |field, least: f64| s.get(field).filter(|v| *v >= least);
    let replace = "take it out of service and have it replaced";
    if at_least(Field::RemapFailure, 1.0).is_some() {
        add(Failed, "remap-failed", "a memory row could not be remapped".into(), replace);
    }
    if at_least(Field::SramThreshold, 1.0).is_some() {
        let what = "errors of its own memory passed the limit for replacement";
        add(Failed, "sram-threshold", what.into(), replace);
    }
    if let Some(n) = at_least(Field::RemappedUncorrectable, MOST_ROWS) {
        add(Failed, "rows-remapped", format!("{n} memory rows were remapped"), replace);
    }
    let pages = s.get(Field::RetiredSbe).unwrap_or(0.0) + s.get(Field::RetiredDbe).unwrap_or(0.0);
    if pages >= MOST_PAGES {
        add(Failed, "pages-retired", format!("{pages} memory pages are retired"), replace);
    }
    if at_least(Field::RemapPending, 1.0).is_some() {
        add(Degraded, "remap-pending", "a memory row waits to be remapped".into(), RESET);
    }
    if at_least(Field::RetiredPending, 1.0).is_some() {
        add(Degraded, "retire-pending", "a memory page waits to be retired".into(), RESET);
    }
    if let Some(n) = at_least(Field::EccDbeVol, 1.0) {
        add(
            Degraded,
            "ecc-uncorrectable",
            format!("uncorrectable memory errors since the driver was loaded: {n}"),
            RESET,
        );
    }
    if let Some(n) = at_least(Field::RemapBanksNone, 1.0) {
        let what = format!("memory banks without a spare row: {n}");
        add(
            Degraded,
            "no-spare-rows",
            what,
            "plan its replacement: the next bad row cannot be remapped",
        );
    }
}

fn heat(s: &Sample, add: &mut Add<'_>) {
    let reasons = s.get(Field::ClockReasons).map_or(0, as_mask);
    // One cause sets several bits; the most precise one is reported.
    if let Some((_, what, todo)) = TROUBLE.iter().find(|(bit, ..)| reasons & bit != 0) {
        add(Degraded, "throttled", (*what).into(), todo);
    }
    match (s.get(Field::TempMargin), s.get(Field::Temp)) {
        (Some(margin), temp) if margin < LEAST_MARGIN => {
            let now = temp.map(|t| format!("at {t} C, ")).unwrap_or_default();
            let what = format!("{now}{margin} degrees before it slows down");
            add(Degraded, "hot", what, "look at fans, air flow and the data hall");
        }
        (None, Some(temp)) if temp >= HOT => {
            add(
                Degraded,
                "hot",
                format!("it is at {temp} C"),
                "look at fans, air flow and the data hall",
            );
        }
        _ => {}
    }
    if let Some(temp) = s.get(Field::MemTemp).filter(|t| *t >= HOT_MEMORY) {
        add(Degraded, "hot-memory", format!("its memory is at {temp} C"), "look at the cooling");
    }
}

fn bus(g: &GpuObservation, s: &Sample, add: &mut Add<'_>) {
    let Some(facts) = g.gpu.as_ref().and_then(|x| x.facts.as_ref()) else { return };
    let now = |field, bus: Option<u32>| s.get(field).map(|v| v as u32).or(bus);
    if let (Some(now), Some(most)) = (now(Field::PcieWidth, g.bus.pcie_width), facts.pcie_width)
        && now > 0
        && now < most
    {
        let what = format!("its bus has {now} of {most} lanes");
        add(Degraded, "pcie-narrow", what, "reseat the GPU or its riser; look at the slot");
    }
    // An idle GPU slows its bus down to save power.
    let busy = s.get(Field::Util).is_some_and(|u| u >= BUSY);
    if let (Some(now), Some(most)) = (now(Field::PcieGen, g.bus.pcie_gen), facts.pcie_gen)
        && busy
        && now > 0
        && now < most
    {
        let what = format!("its bus runs at generation {now} of {most} under load");
        add(Degraded, "pcie-slow", what, "reseat the GPU or its riser; look at BIOS settings");
    }
}

/// Counters that must stand still.
fn moving(first: &Sample, last: &Sample, add: &mut Add<'_>) {
    const STILL: [(Field, &str, &str, &str); 7] = [
        (
            Field::PcieReplay,
            "pcie-replays",
            "its bus repeats transfers",
            "reseat the GPU or its riser",
        ),
        (Field::NvlinkCrcFlit, "nvlink-errors", "NVLink checksum errors come in", LINK),
        (Field::NvlinkCrcData, "nvlink-errors", "NVLink data errors come in", LINK),
        (Field::NvlinkReplay, "nvlink-errors", "NVLink repeats transfers", LINK),
        (Field::NvlinkRecovery, "nvlink-errors", "NVLink recovers from errors", LINK),
        (Field::EccDbeVol, "ecc-rising", "uncorrectable memory errors come in", RESET),
        (
            Field::EccSbeVol,
            "ecc-rising",
            "corrected memory errors come in",
            "watch it; they foretell worse",
        ),
    ];
    const LINK: &str = "watch it; reseat the GPU or replace the cable if it continues";
    let mut reported: Vec<&str> = Vec::new();
    for (field, code, what, todo) in STILL {
        let (Some(a), Some(b)) = (first.get(field), last.get(field)) else { continue };
        if b > a && !reported.contains(&code) {
            reported.push(code);
            // A single corrected bit is everyday; uncorrected ones are reported above already.
            let verdict = if field == Field::EccSbeVol { Healthy } else { Degraded };
            add(verdict, code, format!("{what}: {} within the look", b - a), todo);
        }
    }
}

fn settings(gpu: &Gpu, add: &mut Add<'_>) {
    let Some(facts) = &gpu.facts else { return };
    if facts.persistence == Some(false) {
        add(
            Healthy,
            "persistence-off",
            "the driver is unloaded when nobody uses it".into(),
            "run nvidia-persistenced, or `nvidia-smi -pm 1`: starts are faster and counters stay",
        );
    }
    if facts.ecc == Some(false) {
        let what = "error correction of its memory is off";
        add(Healthy, "ecc-off", what.into(), "`nvidia-smi -e 1`, then reset it");
    }
    if let (Some(limit), Some((_, most))) = (facts.power_limit, facts.power_range)
        && limit < most
    {
        let what = format!("its power is limited to {limit} W of {most} W");
        add(Healthy, "power-limited", what, "nothing, if it is meant so");
    }
}

fn links(look: &NodeObservation, gpu: &Gpu, add: &mut Add<'_>) {
    let Some(facts) = &gpu.facts else { return };
    let down: Vec<String> =
        facts.links.iter().filter(|l| !l.active).map(|l| l.link.to_string()).collect();
    // A board without bridges has links that lead nowhere.
    let any = |g: &Gpu| g.facts.as_ref().is_some_and(|f| f.links.iter().any(|l| l.active));
    let somewhere = look.gpus.iter().filter_map(|g| g.gpu.as_ref()).any(any);
    if down.is_empty() || !somewhere {
        return;
    }
    let (of, n) = (facts.links.len(), down.len());
    let verdict = if n == of { Failed } else { Degraded };
    let what = format!("{n} of {of} NVLinks are down ({})", down.join(","));
    let todo = "look at the fabric manager and `dmesg` for NVLink; reset all GPUs; reseat the GPU";
    add(verdict, "nvlink-down", what, todo);
}

/// Parts that differ from their neighbours.
pub(super) fn together(look: &NodeObservation, found: &mut Findings) {
    type Of = fn(&Gpu) -> Option<String>;
    const SAME: [(&str, &str, Of); 3] = [
        ("mixed-gpus", "kinds of GPU", |g| Some(g.sku.clone())),
        ("mixed-vbios", "versions of the GPUs' BIOS", |g| g.facts.as_ref()?.vbios.clone()),
        ("mixed-memory", "sizes of memory", |g| Some(g.memory.0.to_string())),
    ];
    for (code, what, of) in SAME {
        let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
        for value in look.gpus.iter().filter_map(|g| of(g.gpu.as_ref()?)) {
            *kinds.entry(value).or_default() += 1;
        }
        if kinds.len() > 1 {
            let list: Vec<String> = kinds.iter().map(|(k, n)| format!("{n} of {k}")).collect();
            found.add(
                Healthy,
                code,
                None,
                format!("there are {} {what}: {}", kinds.len(), list.join(", ")),
                "nothing, if it is meant so; a gang runs at the pace of the slowest",
            );
        }
    }
    let idle =
        |g: &&GpuObservation| g.last.as_ref().and_then(|s| s.get(Field::NvlinkActive)).is_some();
    let most = look
        .gpus
        .iter()
        .filter_map(|g| g.last.as_ref()?.get(Field::NvlinkActive))
        .fold(0.0, f64::max);
    for g in look.gpus.iter().filter(idle) {
        let now = g.last.as_ref().and_then(|s| s.get(Field::NvlinkActive)).unwrap_or(most);
        let reported = found.0.iter().any(|f| f.gpu == Some(g.index) && f.code == "nvlink-down");
        if now < most && !reported {
            found.add(
                Degraded,
                "nvlink-down",
                Some(g.index),
                format!("{now} NVLinks work, and {most} do on its neighbours"),
                "look at the fabric manager and `dmesg` for NVLink; reset all GPUs",
            );
        }
    }
}
