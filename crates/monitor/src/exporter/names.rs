//! What each figure is called: as DCGM does, and what it has no name for in words of our own.

use super::Names;
use muster_gpu::dcgm::{self, Kind};
use muster_gpu::sample::Field;

/// How a figure is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MetricSpec {
    pub(super) name: &'static str,
    pub(super) counter: bool,
    pub(super) help: &'static str,
    /// From the figure's unit to the one that is shown.
    pub(super) factor: f64,
}

/// How this figure is shown.
pub(super) fn shown(field: Field, names: Names) -> Option<MetricSpec> {
    let Some(m) = dcgm::metric(field) else { return own(field) };
    let names = match names {
        Names::Dcgm4 => dcgm::Names::Classic,
        Names::Dcgm46 => dcgm::Names::Renamed,
    };
    let counter = m.kind == Kind::Counter;
    Some(MetricSpec { name: m.name(names), counter, help: m.help, factor: m.factor })
}

/// What DCGM has no name for.
fn own(field: Field) -> Option<MetricSpec> {
    let (name, help) = match field {
        Field::EccSbeVolSram => (
            "muster_gpu_sram_single_bit_errors_total",
            "Single-bit errors of the chip's own memory since driver load.",
        ),
        Field::EccDbeVolSram => (
            "muster_gpu_sram_double_bit_errors_total",
            "Double-bit errors of the chip's own memory since driver load.",
        ),
        Field::SramThreshold => (
            "muster_gpu_sram_threshold_exceeded",
            "1 when errors of the chip's own memory passed the limit for replacement.",
        ),
        Field::RemapPending => ("muster_gpu_row_remap_pending", "1 when a row waits for a reset."),
        Field::RemapBanksMax => ("muster_gpu_banks_spare_max", "Banks with every spare row left."),
        Field::RemapBanksHigh => {
            ("muster_gpu_banks_spare_high", "Banks with most spare rows left.")
        }
        Field::RemapBanksPartial => {
            ("muster_gpu_banks_spare_partial", "Banks with some spare rows left.")
        }
        Field::RemapBanksLow => ("muster_gpu_banks_spare_low", "Banks with few spare rows left."),
        Field::RemapBanksNone => ("muster_gpu_banks_spare_none", "Banks with no spare row left."),
        Field::NvlinkActive => ("muster_gpu_nvlinks_active", "NVLinks that work."),
        Field::JpegUtil => ("muster_gpu_jpeg_util", "JPEG engine, percent of the time."),
        Field::OfaUtil => ("muster_gpu_ofa_util", "Optical-flow engine, percent of the time."),
        _ => return None,
    };
    Some(MetricSpec { name, counter: name.ends_with("_total"), help, factor: 1.0 })
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
                let Some(s) = shown(field, names) else { panic!("{field:?} has no name") };
                assert!(seen.insert(s.name), "{} twice", s.name);
                assert!(!s.help.is_empty() && !s.help.contains('\n'), "{}", s.name);
            }
        }
    }
}
