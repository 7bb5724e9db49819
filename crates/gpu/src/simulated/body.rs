//! The life of one simulated GPU: load makes power, power makes heat, heat and limits hold the
//! clock down, and the clock decides how fast the load goes on. Steps have one fixed length, so
//! that a life is the same however its time is handed in.

use super::fault::{SimFault, Throttle};
use super::load::{Activity, Phase, Run, Workload, wide};
use super::memory::Memory;
use super::specs::SkuSpecs;
use crate::device::Process;
use muster_model::node::MigSlice;
use muster_simnode::Random;
use std::collections::BTreeSet;

/// Length of a step in milliseconds.
pub(super) const STEP_MS: u64 = 200;
/// Clocks move in steps of this many MHz.
const BIN_MHZ: f64 = 15.0;
/// Air or water that comes in.
const INLET_C: f64 = 28.0;
/// Degrees above the inlet at full power with sound cooling.
const RISE_C: f64 = 36.0;
/// How slowly core and memory follow: milliseconds to go most of the way.
const CORE_MS: f64 = 12_000.0;
const MEMORY_MS: f64 = 40_000.0;
/// Milliseconds without work after which clocks go down.
const IDLE_AFTER_MS: f64 = 30_000.0;

/// Bits that say why clocks are what they are.
pub(super) mod reason {
    pub(in super::super) const IDLE: u64 = 0x1;
    pub(in super::super) const SW_POWER: u64 = 0x4;
    pub(in super::super) const HW_SLOWDOWN: u64 = 0x8;
    pub(in super::super) const SW_THERMAL: u64 = 0x20;
    pub(in super::super) const HW_THERMAL: u64 = 0x40;
    pub(in super::super) const POWER_BRAKE: u64 = 0x80;
}

/// Nanoseconds the clock was held down, by cause.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ThrottleTimes {
    pub(super) power: f64,
    pub(super) thermal: f64,
    pub(super) board: f64,
    pub(super) low_use: f64,
}

/// Counters of bus and links.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LinkCounters {
    pub(super) replay: u64,
    pub(super) flit: u64,
    pub(super) data: u64,
    pub(super) link_replay: u64,
    pub(super) recovery: u64,
    pub(super) kib: f64,
}

/// How often things break by themselves, for each hour of one GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Single bits.
    pub single_bit: f64,
    /// Double bits.
    pub double_bit: f64,
    /// Retries of the bus.
    pub replay: f64,
    /// Errors of links that were repaired by sending again.
    pub link: f64,
}

impl Default for Rates {
    fn default() -> Rates {
        // A sound machine: a corrected bit in some days, an uncorrected one in some years.
        Rates { single_bit: 0.01, double_bit: 0.000_02, replay: 0.05, link: 0.02 }
    }
}

/// One simulated GPU.
#[derive(Debug)]
pub(super) struct SimulatedGpu {
    pub(super) index: u32,
    pub(super) uuid: String,
    pub(super) serial: String,
    /// NUMA node it hangs on.
    pub(super) numa: u32,
    pub(super) specs: SkuSpecs,
    pub(super) rates: Rates,
    pub(super) faults: BTreeSet<SimFault>,
    pub(super) run: Option<Run>,
    pub(super) processes: Vec<Process>,
    pub(super) mig: bool,
    pub(super) slices: Vec<MigSlice>,
    pub(super) memory: Memory,
    pub(super) wires: LinkCounters,
    pub(super) held: ThrottleTimes,
    pub(super) now: Activity,
    pub(super) clock: f64,
    /// The clock it has, or would have with work to do.
    pub(super) able: f64,
    pub(super) reasons: u64,
    pub(super) power: f64,
    pub(super) power_average: f64,
    pub(super) energy_mj: f64,
    pub(super) core_c: f64,
    pub(super) memory_c: f64,
    pub(super) last_xid: u32,
    /// Hotter or cooler than the average one.
    offset: f64,
    /// Highest clock that heat allows.
    cool_clock: f64,
    /// The hardware holds it down until it has cooled.
    tripped: bool,
    idle_ms: f64,
    pub(super) random: Random,
}

impl SimulatedGpu {
    pub(super) fn new(
        seed: u64,
        name: &str,
        index: u32,
        specs: SkuSpecs,
        rates: Rates,
    ) -> SimulatedGpu {
        // The same draws as the simulated node's, so that both name the same parts.
        let mut random = Random::new(seed, &[name, "gpu", &index.to_string()]);
        let uuid = format!("GPU-{}", random.uuid());
        let serial = format!("165{:010}", random.below(10_000_000_000));
        let offset = wide(random.below(6000)) / 1000.0 - 3.0;
        SimulatedGpu {
            index,
            uuid,
            serial,
            numa: 0,
            specs,
            rates,
            faults: BTreeSet::new(),
            run: None,
            processes: Vec::new(),
            mig: false,
            slices: Vec::new(),
            memory: Memory::default(),
            wires: LinkCounters::default(),
            held: ThrottleTimes::default(),
            now: Activity::default(),
            clock: specs.idle_mhz,
            able: specs.sm_mhz,
            reasons: reason::IDLE,
            power: specs.idle_w,
            power_average: specs.idle_w,
            energy_mj: 0.0,
            core_c: INLET_C + offset + 4.0,
            memory_c: INLET_C + offset + 8.0,
            last_xid: 0,
            offset,
            cool_clock: specs.sm_mhz,
            tripped: false,
            idle_ms: IDLE_AFTER_MS,
            random: Random::new(seed, &[name, "gpu life", &index.to_string()]),
        }
    }

    pub(super) fn has(&self, fault: SimFault) -> bool {
        self.faults.contains(&fault)
    }

    fn throttled(&self, by: Throttle) -> bool {
        self.has(SimFault::Throttle(by))
    }

    pub(super) fn set_load(&mut self, work: Option<Workload>) {
        self.run = work.map(Run::new);
    }

    /// The limit in force.
    pub(super) fn limit_w(&self) -> f64 {
        let f = &self.specs;
        let cut = if self.throttled(Throttle::PowerCap) { 0.55 } else { 1.0 };
        (f.limit_w * cut).max(f.least_w)
    }

    /// One step. Returns the XIDs that the driver reports.
    pub(super) fn step(&mut self) -> Vec<u32> {
        let dt = wide(STEP_MS);
        let phase = self.run.as_ref().map_or(Phase::Idle, Run::phase);
        let wobble = 1.0 + (wide(self.random.below(4001)) - 2000.0) / 100_000.0;
        self.now = phase.activity();
        self.now.power *= wobble * self.run.as_ref().map_or(1.0, Run::intensity);
        self.idle_ms = if phase == Phase::Idle { self.idle_ms + dt } else { 0.0 };

        self.set_clock();
        self.power = self.demand(self.clock, self.now.power);
        self.power_average += (self.power - self.power_average) * dt / 1000.0;
        self.energy_mj += self.power * dt;
        self.heat(dt);
        self.count(dt);
        let speed = self.clock / self.specs.sm_mhz;
        if let Some(run) = &mut self.run {
            run.advance(dt, speed);
        }
        self.wear(dt)
    }

    /// Watts at this clock with work that takes this share of the power: partly linear, mostly with the cube, as voltage
    /// follows the clock.
    fn demand(&self, clock: f64, share: f64) -> f64 {
        let f = &self.specs;
        let x = clock / f.sm_mhz;
        let idle = f.idle_w * (0.85 + 0.15 * x);
        idle + (f.busy_w - f.idle_w) * share * (0.35 * x + 0.65 * x * x * x)
    }

    pub(super) fn set_clock(&mut self) {
        let f = self.specs;
        self.reasons = 0;
        let mut most = f.sm_mhz;
        for fault in &self.faults {
            if let SimFault::SlowClock(percent) = fault {
                most = most.min(f.sm_mhz * f64::from((*percent).clamp(10, 100)) / 100.0);
            }
        }
        let mut hold = |clock: f64, bits: u64| {
            most = most.min(clock);
            self.reasons |= bits;
        };
        if self.faults.contains(&SimFault::Throttle(Throttle::Hardware)) {
            hold(f.sm_mhz * 0.5, reason::HW_SLOWDOWN);
        }
        if self.faults.contains(&SimFault::Throttle(Throttle::PowerBrake)) {
            hold(f.sm_mhz * 0.5, reason::POWER_BRAKE | reason::HW_SLOWDOWN);
        }
        // The hardware lets go some degrees below where it stepped in.
        self.tripped = self.core_c >= if self.tripped { f.max_c } else { f.slowdown_c };
        if self.tripped {
            hold(f.sm_mhz * 0.3, reason::HW_THERMAL | reason::HW_SLOWDOWN);
        }
        let drift = if self.core_c >= f.max_c { -BIN_MHZ * 2.0 } else { BIN_MHZ / 2.0 };
        self.cool_clock = (self.cool_clock + drift).clamp(f.sm_mhz * 0.3, f.sm_mhz);
        if self.cool_clock < f.sm_mhz {
            hold(self.cool_clock, reason::SW_THERMAL);
        }
        let idle = self.idle_ms >= IDLE_AFTER_MS;
        // Work that comes raises the clock at once: an idle GPU is no slow one.
        let share = if idle { Phase::Compute.activity().power } else { self.now.power };
        let limit = self.limit_w();
        let mut clock = most;
        while clock - BIN_MHZ > f.idle_mhz && self.demand(clock, share) > limit {
            clock -= BIN_MHZ;
        }
        self.able = clock;
        if idle {
            self.reasons |= reason::IDLE;
            self.clock = f.idle_mhz;
            return;
        }
        if clock < most {
            self.reasons |= reason::SW_POWER;
        }
        self.clock = clock;
    }

    fn heat(&mut self, dt: f64) {
        let f = &self.specs;
        let worse = if self.throttled(Throttle::Hot) {
            4.0
        } else if self.throttled(Throttle::Warm) {
            1.9
        } else {
            1.0
        };
        let settled = INLET_C + self.offset + RISE_C * worse * self.power / f.busy_w;
        self.core_c += (settled - self.core_c) * dt / CORE_MS;
        let settled = self.core_c + 3.0 + 14.0 * self.now.dram;
        self.memory_c += (settled - self.memory_c) * dt / MEMORY_MS;
    }

    fn count(&mut self, dt: f64) {
        let ns = dt * 1e6;
        let because = |bits: u64| if self.reasons & bits == 0 { 0.0 } else { ns };
        self.held.power += because(reason::SW_POWER);
        self.held.thermal += because(reason::SW_THERMAL | reason::HW_THERMAL);
        self.held.board += because(reason::POWER_BRAKE);
        self.held.low_use += because(reason::IDLE);
        // Both directions.
        self.wires.kib += 2.0 * self.now.nvlink * self.specs.nvlink * dt / 1000.0 / 1024.0;
    }

    /// The driver reported these.
    pub(super) fn note_xids(&mut self, xids: &[u32]) {
        if let Some(last) = xids.last() {
            self.last_xid = *last;
        }
    }

    /// Reset, as after a restart of the node: what only a reset repairs is repaired.
    pub(super) fn reset(&mut self) {
        self.memory.reset();
        self.faults.remove(&SimFault::Lost);
        self.faults.remove(&SimFault::Hang);
        self.run = None;
        self.processes.clear();
        self.last_xid = 0;
        self.tripped = false;
    }
}
