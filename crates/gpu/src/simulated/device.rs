//! A simulated GPU, asked like a real one.

use super::SimulatedHost;
use super::body::SimulatedGpu;
use super::fault::SimFault;
use super::load::wide;
use crate::device::{BusNow, Device, DeviceError, Process, Recovery};
use crate::sample::{Field, Sample};
use muster_model::node::{Gpu, GpuFacts, GpuLink};
use muster_model::units::Bytes;
use std::sync::Arc;

const MIB: f64 = 1_048_576.0;
/// What the driver keeps for itself, MiB.
const RESERVED_MIB: f64 = 625.0;

/// A simulated GPU.
pub struct SimDevice {
    host: Arc<SimulatedHost>,
    index: u32,
    uuid: String,
    pci: String,
}

pub(super) fn pci(index: u32) -> String {
    format!("00000000:{:02X}:00.0", 0x18 + index * 0x10 % 0xd0)
}

impl SimDevice {
    pub(super) fn new(host: &Arc<SimulatedHost>, life: &SimulatedGpu) -> SimDevice {
        let (index, uuid) = (life.index, life.uuid.clone());
        SimDevice { host: Arc::clone(host), index, uuid, pci: pci(index) }
    }
}

impl Device for SimDevice {
    fn index(&self) -> u32 {
        self.index
    }

    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn pci(&self) -> Option<&str> {
        Some(&self.pci)
    }

    fn describe(&self) -> Result<Gpu, DeviceError> {
        self.host.ask(self.index, describe)
    }

    fn bus(&self) -> BusNow {
        let ask = |life: &SimulatedGpu| life.specs.pcie_gen;
        let pcie_gen = self.host.ask(self.index, ask).ok();
        BusNow { pcie_gen, pcie_width: pcie_gen.map(|_| 16) }
    }

    fn sample(&self, sample: &mut Sample) -> Result<(), DeviceError> {
        sample.clear();
        self.host.ask(self.index, |life| fill(life, sample))
    }

    fn sample_slices(&self) -> Result<Vec<(u32, u32, Sample)>, DeviceError> {
        self.host.ask(self.index, slices)
    }

    fn processes(&self) -> Result<Vec<Process>, DeviceError> {
        self.host.ask(self.index, |life| life.processes.clone())
    }

    fn recovery(&self) -> Option<Recovery> {
        let ask = |life: &SimulatedGpu| {
            if life.memory.pending {
                Recovery::DrainAndReset
            } else if life.has(SimFault::LinkErrors) {
                Recovery::DrainPeers
            } else {
                Recovery::None
            }
        };
        self.host.ask(self.index, ask).ok()
    }
}

fn describe(life: &SimulatedGpu) -> Gpu {
    let f = &life.specs;
    let links = |link| GpuLink { link, active: true, peer: None };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole watts")]
    let watts = |w: f64| w as u32;
    let facts = GpuFacts {
        product: Some(f.product.into()),
        part: Some(format!("SIM-{}-000", f.name.to_ascii_uppercase())),
        vbios: Some("96.00.A5.00.1A".into()),
        inforom: Some("SIM.0200.00.01".into()),
        compute: Some(f.compute.into()),
        bar1: Some(Bytes(f.memory.0.next_power_of_two())),
        pcie_gen: Some(f.pcie_gen),
        pcie_width: Some(16),
        cpus: None,
        links: (0..f.links).map(links).collect(),
        fabric: None,
        clique: None,
        module: Some(life.index + 1),
        ecc: Some(true),
        persistence: Some(true),
        power_limit: Some(watts(life.limit_w())),
        power_range: Some((watts(f.least_w), watts(f.limit_w))),
        mig_profiles: f.profiles(),
        mig_slices: life.slices.clone(),
    };
    Gpu {
        index: life.index,
        sku: f.name.into(),
        uuid: life.uuid.clone(),
        serial: Some(life.serial.clone()),
        memory: f.memory,
        pci: Some(pci(life.index)),
        numa: Some(life.numa),
        mig: Some(life.mig),
        facts: Some(Box::new(facts)),
    }
}

fn fill(life: &SimulatedGpu, s: &mut Sample) {
    let f = life.specs;
    let a = life.now;
    if !life.mig {
        // A GPU in slices has no utilisation of its own; its slices have.
        s.set(Field::Util, (a.util * 100.0).round());
        s.set(Field::MemUtil, (a.dram * 100.0).round());
    }
    s.set(Field::SmClock, life.clock.round());
    s.set(Field::MemClock, f.mem_mhz);
    s.set(Field::ClockReasons, wide(life.reasons));
    s.set(Field::Temp, life.core_c.round());
    s.set(Field::MemTemp, life.memory_c.round());
    s.set(Field::TempMargin, f.max_c - life.core_c.round());
    s.set(Field::Power, life.power_average);
    s.set(Field::PowerNow, life.power);
    s.set(Field::PowerLimit, life.limit_w());
    s.set(Field::Energy, life.energy_mj.floor());
    s.set(Field::PcieGen, f64::from(f.pcie_gen));
    s.set(Field::PcieWidth, 16.0);
    s.set(Field::PcieReplay, wide(life.wires.replay));
    for field in [Field::EncUtil, Field::DecUtil, Field::JpegUtil, Field::OfaUtil] {
        s.set(field, 0.0);
    }
    s.set(Field::Xid, f64::from(life.last_xid));
    s.set(Field::Pstate, 0.0);
    s.set(Field::PowerViolation, life.held.power);
    s.set(Field::ThermalViolation, life.held.thermal);
    s.set(Field::BoardLimitViolation, life.held.board);
    s.set(Field::LowUtilViolation, life.held.low_use);
    s.set(Field::SyncBoostViolation, 0.0);
    s.set(Field::ReliabilityViolation, 0.0);
    frame_buffer(s, wide(f.memory.0) / MIB, held_mib(life), RESERVED_MIB);
    memory(life, s);
    wires(life, s);
    activity(life, s);
}

fn held_mib(life: &SimulatedGpu) -> f64 {
    life.run.as_ref().map_or(0.0, |r| wide(r.memory_mib()))
}

fn frame_buffer(s: &mut Sample, total: f64, used: f64, reserved: f64) {
    let used = used.min(total - reserved);
    s.set(Field::FbTotal, total);
    s.set(Field::FbUsed, used);
    s.set(Field::FbReserved, reserved);
    s.set(Field::FbFree, total - reserved - used);
}

fn memory(life: &SimulatedGpu, s: &mut Sample) {
    let m = &life.memory;
    for (field, n) in [
        (Field::EccSbeVol, m.sbe),
        (Field::EccDbeVol, m.dbe),
        (Field::EccSbeAgg, m.sbe_life),
        (Field::EccDbeAgg, m.dbe_life),
        (Field::EccSbeVolDev, m.sbe),
        (Field::EccDbeVolDev, m.dbe),
        (Field::EccSbeAggDev, m.sbe_life),
        (Field::EccDbeAggDev, m.dbe_life),
        (Field::EccSbeVolSram, 0),
        (Field::EccDbeVolSram, 0),
        (Field::SramThreshold, 0),
        (Field::RemappedUncorrectable, m.remapped_uncorrectable),
        (Field::RemappedCorrectable, m.remapped_correctable),
        (Field::RemapFailure, u64::from(m.failed)),
        (Field::RemapPending, u64::from(m.pending)),
    ] {
        s.set(field, wide(n));
    }
    let banks = [
        Field::RemapBanksMax,
        Field::RemapBanksHigh,
        Field::RemapBanksPartial,
        Field::RemapBanksLow,
        Field::RemapBanksNone,
    ];
    for (field, n) in banks.into_iter().zip(m.histogram(life.specs.banks)) {
        s.set(field, f64::from(n));
    }
}

fn wires(life: &SimulatedGpu, s: &mut Sample) {
    let w = &life.wires;
    s.set(Field::NvlinkCrcFlit, wide(w.flit));
    s.set(Field::NvlinkCrcData, wide(w.data));
    s.set(Field::NvlinkReplay, wide(w.link_replay));
    s.set(Field::NvlinkRecovery, wide(w.recovery));
    s.set(Field::NvlinkBytes, w.kib.floor());
    s.set(Field::NvlinkActive, f64::from(life.specs.links));
}

fn activity(life: &SimulatedGpu, s: &mut Sample) {
    let (a, f) = (&life.now, &life.specs);
    s.set(Field::GrActive, a.util);
    s.set(Field::SmActive, a.sm);
    s.set(Field::SmOccupancy, a.occupancy);
    s.set(Field::TensorActive, a.tensor);
    s.set(Field::DramActive, a.dram);
    s.set(Field::Fp64Active, 0.0);
    s.set(Field::Fp32Active, a.fp32);
    s.set(Field::Fp16Active, a.fp16);
    s.set(Field::PcieTx, a.pcie_out * f.pcie);
    s.set(Field::PcieRx, a.pcie_in * f.pcie);
    s.set(Field::NvlinkTx, a.nvlink * f.nvlink);
    s.set(Field::NvlinkRx, a.nvlink * f.nvlink);
}

fn slices(life: &SimulatedGpu) -> Vec<(u32, u32, Sample)> {
    let profiles = life.specs.profiles();
    let one = |slice: &muster_model::node::MigSlice| {
        let mut s = Sample::default();
        let total = profiles.iter().find(|p| p.name == slice.profile);
        let total = total.map_or(0.0, |p| wide(p.memory.0) / MIB);
        frame_buffer(&mut s, total, held_mib(life).min(total * 0.9), (total * 0.01).floor());
        activity(life, &mut s);
        for field in [Field::PcieTx, Field::PcieRx, Field::NvlinkTx, Field::NvlinkRx] {
            // The wires belong to the whole GPU.
            s.set(field, 0.0);
        }
        (slice.gpu_instance, slice.compute_instance, s)
    };
    life.slices.iter().map(one).collect()
}
