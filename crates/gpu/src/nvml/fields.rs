//! Figures that the driver hands out by number, many in one call.

use super::code::{Answer, Code};
use super::raw::{Api, Handle};
use crate::sample::{Field, Sample};
use nvml_wrapper_sys::bindings as b;
use nvml_wrapper_sys::bindings::field_id as id;

/// Most links a GPU has (NVLink 4 and 5).
pub(super) const LINKS: u32 = 18;
/// As a scope: all links together.
const ALL_LINKS: u32 = u32::MAX;

/// One figure to ask for. Several for the same field add up.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FieldRequest {
    id: u32,
    scope: u32,
    field: Field,
    scale: f64,
}

/// A group of figures that is asked for in one call. What the device does not have is asked for
/// once.
pub(super) struct Batch {
    wishes: Vec<FieldRequest>,
    values: Vec<b::nvmlFieldValue_t>,
}

const fn wish(id: u32, field: Field, scale: f64) -> FieldRequest {
    FieldRequest { id, scope: 0, field, scale }
}

/// What moves from one second to the next.
const FAST: [FieldRequest; 8] = [
    wish(id::NVML_FI_DEV_MEMORY_TEMP, Field::MemTemp, 1.0),
    wish(id::NVML_FI_DEV_POWER_AVERAGE, Field::Power, 0.001),
    wish(id::NVML_FI_DEV_POWER_INSTANT, Field::PowerNow, 0.001),
    wish(id::NVML_FI_DEV_PERF_POLICY_POWER, Field::PowerViolation, 1.0),
    wish(id::NVML_FI_DEV_PERF_POLICY_SYNC_BOOST, Field::SyncBoostViolation, 1.0),
    wish(id::NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT, Field::BoardLimitViolation, 1.0),
    wish(id::NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION, Field::LowUtilViolation, 1.0),
    wish(id::NVML_FI_DEV_PERF_POLICY_RELIABILITY, Field::ReliabilityViolation, 1.0),
];

/// What moves rarely, or costs much: the driver asks the device's own processor for these, which
/// takes 4 ms for the energy, 0.7 ms for the thermal time and 0.2 ms for the replays (H200, driver
/// 580), where all others together take 0.1 ms.
const SLOW: [FieldRequest; 14] = [
    wish(id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, Field::Energy, 1.0),
    wish(id::NVML_FI_DEV_PCIE_REPLAY_COUNTER, Field::PcieReplay, 1.0),
    wish(id::NVML_FI_DEV_PERF_POLICY_THERMAL, Field::ThermalViolation, 1.0),
    wish(id::NVML_FI_DEV_ECC_SBE_VOL_TOTAL, Field::EccSbeVol, 1.0),
    wish(id::NVML_FI_DEV_ECC_DBE_VOL_TOTAL, Field::EccDbeVol, 1.0),
    wish(id::NVML_FI_DEV_ECC_SBE_AGG_TOTAL, Field::EccSbeAgg, 1.0),
    wish(id::NVML_FI_DEV_ECC_DBE_AGG_TOTAL, Field::EccDbeAgg, 1.0),
    wish(id::NVML_FI_DEV_RETIRED_SBE, Field::RetiredSbe, 1.0),
    wish(id::NVML_FI_DEV_RETIRED_DBE, Field::RetiredDbe, 1.0),
    wish(id::NVML_FI_DEV_RETIRED_PENDING, Field::RetiredPending, 1.0),
    wish(id::NVML_FI_DEV_REMAPPED_UNC, Field::RemappedUncorrectable, 1.0),
    wish(id::NVML_FI_DEV_REMAPPED_COR, Field::RemappedCorrectable, 1.0),
    wish(id::NVML_FI_DEV_REMAPPED_FAILURE, Field::RemapFailure, 1.0),
    wish(id::NVML_FI_DEV_REMAPPED_PENDING, Field::RemapPending, 1.0),
];

/// Counters of links that exist once for the device (NVLink 3 and before; traffic also on 4).
const LINK_TOTALS: [FieldRequest; 6] = [
    wish(id::NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, Field::NvlinkCrcFlit, 1.0),
    wish(id::NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, Field::NvlinkCrcData, 1.0),
    wish(id::NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, Field::NvlinkReplay, 1.0),
    wish(id::NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, Field::NvlinkRecovery, 1.0),
    FieldRequest {
        id: id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        scope: ALL_LINKS,
        field: Field::NvlinkBytes,
        scale: 1.0,
    },
    FieldRequest {
        id: id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        scope: ALL_LINKS,
        field: Field::NvlinkBytes,
        scale: 1.0,
    },
];

/// Counters that exist for each link: the first three on NVLink 4, the others on 5, which counts
/// bytes and not kibibytes.
const PER_LINK: [FieldRequest; 6] = [
    wish(id::NVML_FI_DEV_NVLINK_ERROR_DL_CRC, Field::NvlinkCrcFlit, 1.0),
    wish(id::NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, Field::NvlinkReplay, 1.0),
    wish(id::NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, Field::NvlinkRecovery, 1.0),
    wish(id::NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, Field::NvlinkRecovery, 1.0),
    wish(id::NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, Field::NvlinkBytes, 1.0 / 1024.0),
    wish(id::NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, Field::NvlinkBytes, 1.0 / 1024.0),
];

impl Batch {
    /// A batch that asks for nothing.
    pub(super) fn empty() -> Batch {
        Batch { wishes: Vec::new(), values: Vec::new() }
    }

    /// For every look.
    pub(super) fn fast() -> Batch {
        Batch { wishes: FAST.to_vec(), values: Vec::new() }
    }

    /// For every tenth look, with the counters of these links.
    pub(super) fn slow(links: &[u32]) -> Batch {
        let mut wishes = SLOW.to_vec();
        if !links.is_empty() {
            wishes.extend(LINK_TOTALS);
            for link in links {
                wishes.extend(PER_LINK.map(|w| FieldRequest { scope: *link, ..w }));
            }
        }
        Batch { wishes, values: Vec::new() }
    }

    /// Asks for all of it and fills in what is answered; an error when nothing is.
    pub(super) fn read(&mut self, api: &Api, h: Handle, sample: &mut Sample) -> Answer<()> {
        if self.wishes.is_empty() {
            return Err(Code::NOT_SUPPORTED);
        }
        self.values.clear();
        self.values.extend(self.wishes.iter().map(|w| blank(w.id, w.scope)));
        api.fields(h, &mut self.values)?;
        let mut outcome = Err(Code::NOT_SUPPORTED);
        let mut totals: Vec<Field> = Vec::new();
        let mut gone = Vec::new();
        for (i, (w, v)) in self.wishes.iter().zip(&self.values).enumerate() {
            match Code::check(v.nvmlReturn) {
                Ok(()) => {
                    let Some(value) = number(v) else { continue };
                    outcome = Ok(());
                    let value = value * w.scale;
                    let whole = LINK_TOTALS.iter().any(|t| t.id == w.id);
                    if whole && !totals.contains(&w.field) {
                        totals.push(w.field);
                    } else if !whole && totals.contains(&w.field) {
                        // The device reported the sum; its parts would count twice.
                        continue;
                    }
                    sample.set(w.field, sample.get(w.field).unwrap_or(0.0) + value);
                }
                Err(code) if code.lost() => return Err(code),
                Err(code) if code.never() => gone.push(i),
                Err(code) => outcome = outcome.or(Err(code)),
            }
        }
        for i in gone.into_iter().rev() {
            self.wishes.remove(i);
        }
        outcome
    }
}

/// Reads one field that is seldom wanted.
pub(super) fn one(api: &Api, h: Handle, id: u32) -> Option<f64> {
    let mut values = [blank(id, 0)];
    api.fields(h, &mut values).ok()?;
    Code::check(values[0].nvmlReturn).ok()?;
    number(&values[0])
}

fn blank(id: u32, scope: u32) -> b::nvmlFieldValue_t {
    b::nvmlFieldValue_t {
        fieldId: id,
        scopeId: scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: b::nvmlValueType_enum_NVML_VALUE_TYPE_COUNT,
        // A driver that skips an entry has not answered it.
        nvmlReturn: b::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED,
        value: b::nvmlValue_t { ullVal: 0 },
    }
}

#[expect(clippy::cast_precision_loss, reason = "counters this large are not distinct anyway")]
fn number(v: &b::nvmlFieldValue_t) -> Option<f64> {
    #[expect(unsafe_code, reason = "a C union: the type beside it says what is in it")]
    // SAFETY: every member is plain numbers, for which every pattern of bits is a value, and the
    // place was filled with zeros as wide as the widest member.
    let value = unsafe {
        match v.valueType {
            b::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE => v.value.dVal,
            b::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => f64::from(v.value.uiVal),
            b::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG
            | b::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => v.value.ullVal as f64,
            b::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG => v.value.sllVal as f64,
            b::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT => f64::from(v.value.siVal),
            b::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_SHORT => f64::from(v.value.usVal),
            _ => return None,
        }
    };
    value.is_finite().then_some(value)
}
