//! What each figure is called.

use super::Names;
use muster_gpu::sample::Field;

/// How a figure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) name: &'static str,
    pub(super) counter: bool,
    pub(super) help: &'static str,
}

/// How this figure is shown; none for what is shown in another way.
pub(super) fn shown(field: Field, names: Names) -> Option<Shown> {
    dcgm(field, names).or_else(|| own(field))
}

const fn gauge(name: &'static str, help: &'static str) -> Option<Shown> {
    Some(Shown { name, counter: false, help })
}

const fn counter(name: &'static str, help: &'static str) -> Option<Shown> {
    Some(Shown { name, counter: true, help })
}

fn dcgm(field: Field, names: Names) -> Option<Shown> {
    let old = names == Names::Dcgm4;
    let pick = |a: &'static str, b: &'static str| if old { a } else { b };
    match field {
        Field::SmClock => gauge("DCGM_FI_DEV_SM_CLOCK", "SM clock, MHz."),
        Field::Temp => gauge(
            pick("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
            "Core temperature, Celsius.",
        ),
        Field::Util => gauge(
            pick("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"),
            "Percent of the time in which any kernel ran.",
        ),
        Field::Energy => counter(
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            "Energy since driver load, millijoules.",
        ),
        _ => None,
    }
}

/// What DCGM has no name for, or none that anybody shows.
fn own(field: Field) -> Option<Shown> {
    match field {
        Field::ClockReasons => gauge(
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
            "Why clocks are lower than they could be, a mask.",
        ),
        Field::PowerNow => {
            gauge("DCGM_FI_DEV_POWER_USAGE_INSTANT", "Power at this instant, watts.")
        }
        Field::PowerLimit => gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT", "Power limit in force, watts."),
        Field::PcieGen => gauge("DCGM_FI_DEV_PCIE_LINK_GEN", "PCIe generation in use."),
        Field::PcieWidth => gauge("DCGM_FI_DEV_PCIE_LINK_WIDTH", "PCIe lanes in use."),
        Field::FbTotal => gauge("DCGM_FI_DEV_FB_TOTAL", "Memory in all, MiB."),
        Field::Fan => gauge("DCGM_FI_DEV_FAN_SPEED", "Fan, percent."),
        Field::Pstate => gauge("DCGM_FI_DEV_PSTATE", "Performance state; 0 is the fastest."),
        Field::EccSbeVolDev => counter(
            "DCGM_FI_DEV_ECC_SBE_VOL_DEV",
            "Single-bit errors of the memory since driver load.",
        ),
        Field::EccDbeVolDev => counter(
            "DCGM_FI_DEV_ECC_DBE_VOL_DEV",
            "Double-bit errors of the memory since driver load.",
        ),
        Field::EccSbeAggDev => {
            counter("DCGM_FI_DEV_ECC_SBE_AGG_DEV", "Single-bit errors of the memory in its life.")
        }
        Field::EccDbeAggDev => {
            counter("DCGM_FI_DEV_ECC_DBE_AGG_DEV", "Double-bit errors of the memory in its life.")
        }
        Field::EccSbeVolSram => counter(
            "muster_gpu_sram_single_bit_errors_total",
            "Single-bit errors of the chip's own memory since driver load.",
        ),
        Field::EccDbeVolSram => counter(
            "muster_gpu_sram_double_bit_errors_total",
            "Double-bit errors of the chip's own memory since driver load.",
        ),
        Field::SramThreshold => gauge(
            "muster_gpu_sram_threshold_exceeded",
            "1 when errors of the chip's own memory passed the limit for replacement.",
        ),
        Field::RemapPending => {
            gauge("DCGM_FI_DEV_ROW_REMAP_PENDING", "1 when a row remap waits for a reset.")
        }
        Field::RemapBanksMax => {
            gauge("muster_gpu_remap_banks_max", "Memory banks with every spare row left.")
        }
        Field::RemapBanksHigh => {
            gauge("muster_gpu_remap_banks_high", "Memory banks with most spare rows left.")
        }
        Field::RemapBanksPartial => {
            gauge("muster_gpu_remap_banks_partial", "Memory banks with some spare rows left.")
        }
        Field::RemapBanksLow => {
            gauge("muster_gpu_remap_banks_low", "Memory banks with few spare rows left.")
        }
        Field::RemapBanksNone => {
            gauge("muster_gpu_remap_banks_none", "Memory banks with no spare row left.")
        }
        Field::NvlinkActive => gauge("muster_gpu_nvlinks_active", "NVLinks that work."),
        Field::JpegUtil => gauge("muster_gpu_jpeg_util", "JPEG engine, percent of the time."),
        Field::OfaUtil => gauge("muster_gpu_ofa_util", "Optical-flow engine, percent of the time."),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_gpu::sample::FIELDS;
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_has_one_name_of_its_own_in_both_tongues() {
        for names in [Names::Dcgm4, Names::Dcgm46] {
            let mut seen = BTreeSet::new();
            for field in FIELDS {
                let Some(s) = shown(field, names) else { continue };
                assert!(seen.insert(s.name), "{} twice", s.name);
                assert!(!s.help.is_empty() && !s.help.contains('\n'), "{}", s.name);
            }
        }
    }
}
