//! What the GPUs of a simulated node report: figures that follow the load and the device's
//! condition, with heat that takes its time. Integers inside, so that the same life is the same
//! on every machine.

use crate::condition::{BRAKED, Condition};
use crate::specs::SkuSpecs;
use muster_model::units::{Span, Time};

/// Names of the figures, in the order of a row. Temperatures in degrees, clocks in MHz, power in
/// watts, energy in joules, memory in MiB, traffic in MB/s, shares of time in percent.
pub const COLUMNS: [&str; 27] = [
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
    "remap_pending",
    "remap_failed",
    "nvlink_errors",
    "thermal_margin",
    "pcie_width",
    "pcie_gen",
    "power_limit",
];

/// Bits of `throttle`, as the driver gives them.
mod reason {
    pub(super) const IDLE: i64 = 0x1;
    pub(super) const POWER_CAP: i64 = 0x4;
    pub(super) const HW_SLOWDOWN: i64 = 0x8;
    pub(super) const SW_THERMAL: i64 = 0x20;
    pub(super) const HW_THERMAL: i64 = 0x40;
    pub(super) const POWER_BRAKE: i64 = 0x80;
}

/// What a GPU is put to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    /// Nobody has it.
    Free,
    /// Somebody keeps memory on it and computes nothing.
    Held,
    /// It waits inside a collective that does not end: busy to look at, and cool.
    Spinning,
    /// It computes: thousandths of the time in which it runs anything, and in which it computes
    /// as against sound work.
    Busy { active: u16, util: u16 },
}

impl Load {
    pub(crate) const FULL: Load = Load::Busy { active: 1000, util: 1000 };
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
/// What comes in, in thousandths of a degree.
const INLET: i64 = 27_000;
/// Rise at full power, sound and badly cooled.
const RISE: i64 = 38_000;
const RISE_HOT: i64 = 76_000;
/// From here on the clock is held down by so many percent a degree.
const WARM: i64 = 85_000;
const PERCENT_A_DEGREE: i64 = 6;
const MOST_HELD: i64 = 45;
/// Where the hardware steps in.
const SLOWDOWN: i64 = 87_000;

/// Percent of the clock that heat takes.
fn held(milli_c: i64) -> i64 {
    ((milli_c - WARM) * PERCENT_A_DEGREE / 1000).clamp(0, MOST_HELD)
}

/// What it draws before heat holds it down.
fn watts(f: &SkuSpecs, load: Load, c: &Condition, brake: bool) -> i64 {
    let span = f.busy_w - f.idle_w;
    let used = match load {
        Load::Free | Load::Held => 0,
        Load::Spinning => span * 22 / 100,
        // A GPU that waits for its peers still spins.
        Load::Busy { active, .. } => span * (220 + 780 * i64::from(active) / 1000) / 1000,
    };
    let mut used = used * (100 - i64::from(c.low_clocks.min(99))) / 100;
    if brake {
        used = used * i64::try_from(BRAKED).unwrap_or(50) / 100;
    }
    f.idle_w + used
}

impl Thermal {
    pub(crate) fn new(offset: i64) -> Thermal {
        Thermal { milli_c: 30_000 + offset, offset, energy_mj: 0 }
    }

    pub(crate) fn pass(
        &mut self,
        f: &SkuSpecs,
        load: Load,
        c: &Condition,
        brake: bool,
        time: Span,
    ) {
        if time.0 == 0 {
            return;
        }
        let watts = watts(f, load, c, brake);
        let rise = if c.hot { RISE_HOT } else { RISE };
        let target = |now: i64| {
            let drawn = watts * (100 - held(now)) / 100;
            INLET + self.offset + rise * drawn / f.busy_w
        };
        let ms = i64::try_from(time.0).unwrap_or(i64::MAX / 4_000_000);
        let drawn = watts * (100 - held(self.milli_c)) / 100;
        self.energy_mj = self.energy_mj.saturating_add(drawn.saturating_mul(ms));
        // After ten time constants it has arrived.
        let steps = (ms / STEP_MS).min(10 * TAU_MS / STEP_MS);
        let mut at = self.milli_c;
        for _ in 0..steps {
            at += (target(at) - at) * STEP_MS / TAU_MS;
        }
        at += (target(at) - at) * (ms % STEP_MS) / TAU_MS;
        self.milli_c = at;
    }

    pub(crate) fn row(
        &self,
        f: &SkuSpecs,
        load: Load,
        c: &Condition,
        brake: bool,
        now: Time,
    ) -> Vec<Option<f32>> {
        // A slow ripple, so that graphs look alive and two moments differ.
        let ripple = (now.0 / 1000 + self.offset).rem_euclid(11) - 5;
        let (runs, active, util) = match load {
            Load::Free | Load::Held => (false, 0, 0),
            Load::Spinning => (true, 0, 1000),
            Load::Busy { active, util } => (true, i64::from(active), i64::from(util)),
        };
        let on = |busy_value: i64, idle_value: i64| if runs { busy_value } else { idle_value };
        let part = |full: i64| (full * active / 1000).max(0);
        let memory_mib = i64::try_from(f.memory.0 >> 20).unwrap_or(0);
        let heat = if runs { held(self.milli_c) } else { 0 };
        let mut clock = (f.sm_mhz - 15 * ripple.max(0)) * (100 - heat) / 100;
        clock = clock * (100 - i64::from(c.low_clocks.min(99))) / 100;
        if brake {
            clock = clock * i64::try_from(BRAKED).unwrap_or(50) / 100;
        }
        let mut throttle = if runs { 0 } else { reason::IDLE };
        if heat > 0 {
            throttle |= reason::SW_THERMAL;
            if self.milli_c >= SLOWDOWN {
                throttle |= reason::HW_THERMAL | reason::HW_SLOWDOWN;
            }
        }
        if brake {
            throttle |= reason::POWER_BRAKE | reason::HW_SLOWDOWN;
        }
        let drawn = watts(f, load, c, brake) * (100 - heat) / 100;
        let power = drawn + if active > 500 { 4 * ripple } else { ripple };
        // At its limit now and then, as sound GPUs under full load are.
        if runs && power >= f.busy_w + 16 {
            throttle |= reason::POWER_CAP;
        }
        let count = |v: u64| i64::try_from(v).unwrap_or(i64::MAX);
        let bus = if c.narrow { 4 } else { 1 };
        let values: [i64; COLUMNS.len()] = [
            on((97 + ripple / 2) * util / 1000, 0).clamp(0, 100),
            if load == Load::Free { 4 } else { memory_mib * 82 / 100 },
            on(clock, 345),
            f.mem_mhz,
            self.milli_c / 1000,
            self.milli_c / 1000 + on(9, 3),
            power,
            self.energy_mj / 1000,
            on(part(1_800 + 90 * ripple) / bus, 1),
            on(part(1_500 + 80 * ripple) / bus, 1),
            on(part(f.nvlink_gbps * 120 + 300 * ripple), 0),
            on(part(f.nvlink_gbps * 120 + 280 * ripple), 0),
            count(c.sbe.value(now)),
            count(c.dbe),
            count(c.remapped),
            count(c.replay.value(now)),
            throttle,
            // One block of the device polls while the rest waits.
            on(part(84 + ripple) + 4, 0),
            on(part(61 + ripple), 0),
            on(part(44 + ripple), 0),
            i64::from(c.pending),
            i64::from(c.failed),
            count(c.links.value(now)),
            (SLOWDOWN - self.milli_c) / 1000,
            if c.narrow { 4 } else { 16 },
            on(5, 1),
            f.busy_w + 10,
        ];
        // The wire wants floats; no decision reads them.
        #[expect(clippy::cast_precision_loss, reason = "telemetry is approximate by nature")]
        values.into_iter().map(|v| Some(v as f32)).collect()
    }
}
