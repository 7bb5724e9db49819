//! What the GPUs of a simulated node tell: twenty figures that follow the load, with heat that
//! takes its time. Integers inside, so that the same life is the same on every machine.

use crate::devices::Figures;
use muster_model::units::{Span, Time};

/// Names of the figures, in the order of a row.
pub const COLUMNS: [&str; 20] = [
    "util",
    "mem_used",
    "sm_clock",
    "mem_clock",
    "temp",
    "mem_temp",
    "power",
    "energy",
    "pcie_rx",
    "pcie_tx",
    "nvlink_rx",
    "nvlink_tx",
    "ecc_sbe",
    "ecc_dbe",
    "remapped_rows",
    "replay",
    "throttle",
    "sm_active",
    "tensor_active",
    "dram_active",
];

/// What a GPU is put to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    /// Nobody has it.
    Free,
    /// Somebody keeps memory on it and computes nothing.
    Held,
    /// It computes.
    Busy,
}

/// Heat and energy of one GPU.
#[derive(Debug, Clone)]
pub(crate) struct Thermal {
    /// Thousandths of a degree.
    milli_c: i64,
    offset: i64,
    /// Millijoules since it was switched on.
    energy_mj: i64,
}

/// Temperatures follow the load with this time constant.
const TAU_MS: i64 = 20_000;
/// Heat is reckoned in steps of this length.
const STEP_MS: i64 = 250;

impl Thermal {
    pub(crate) fn new(offset: i64) -> Thermal {
        Thermal { milli_c: 30_000 + offset, offset, energy_mj: 0 }
    }

    pub(crate) fn pass(&mut self, f: &Figures, load: Load, time: Span) {
        let watts = if load == Load::Busy { f.busy_w } else { f.idle_w };
        let target = 27_000 + self.offset + watts * 55;
        let ms = i64::try_from(time.0).unwrap_or(i64::MAX / 4_000_000);
        self.energy_mj = self.energy_mj.saturating_add(watts.saturating_mul(ms));
        // After ten time constants it has arrived.
        let steps = (ms / STEP_MS).min(10 * TAU_MS / STEP_MS);
        for _ in 0..steps {
            self.milli_c += (target - self.milli_c) * STEP_MS / TAU_MS;
        }
        self.milli_c += (target - self.milli_c) * (ms % STEP_MS) / TAU_MS;
    }

    pub(crate) fn row(&self, f: &Figures, load: Load, now: Time) -> Vec<Option<f32>> {
        // A slow ripple, so that graphs look alive and two moments differ.
        let ripple = (now.0 / 1000 + self.offset).rem_euclid(11) - 5;
        let busy = load == Load::Busy;
        let on = |busy_value: i64, idle_value: i64| if busy { busy_value } else { idle_value };
        let memory_mib = i64::try_from(f.memory.0 >> 20).unwrap_or(0);
        let values: [i64; 20] = [
            on(97 + ripple / 2, 0).min(100),
            if load == Load::Free { 4 } else { memory_mib * 82 / 100 },
            on(f.sm_mhz - 15 * ripple.max(0), 345),
            on(f.mem_mhz, f.mem_mhz),
            self.milli_c / 1000,
            self.milli_c / 1000 + on(9, 3),
            on(f.busy_w + 4 * ripple, f.idle_w + ripple),
            self.energy_mj / 1000,
            on(1_800 + 90 * ripple, 1),
            on(1_500 + 80 * ripple, 1),
            on(f.nvlink_gbps * 120 + 300 * ripple, 0),
            on(f.nvlink_gbps * 120 + 280 * ripple, 0),
            0,
            0,
            0,
            0,
            0,
            on(88 + ripple, 0),
            on(61 + ripple, 0),
            on(44 + ripple, 0),
        ];
        // The wire wants floats; no decision reads them.
        #[expect(clippy::cast_precision_loss, reason = "telemetry is approximate by nature")]
        values.into_iter().map(|v| Some(v as f32)).collect()
    }
}
