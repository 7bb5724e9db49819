//! One look at a device, cheap: what it does not have is asked for once, and what moves rarely or costs
//! much is read at every tenth look and carried over in between.

use super::code::{Answer, Code};
use super::fields::{Batch, LINKS};
use super::gpm::Gpm;
use super::raw::{Api, Handle};
use crate::device::DeviceError;
use crate::sample::{Field, Sample};
use nvml_wrapper_sys::bindings as b;
use std::sync::Arc;

/// Looks between two readings of what moves rarely.
const RARELY: u32 = 10;
const MIB: f64 = 1_048_576.0;

/// Calls that a device may not have; each has its bit.
#[derive(Debug, Clone, Copy)]
enum Call {
    Utilization,
    Memory,
    MemoryOld,
    SmClock,
    MemClock,
    Temperature,
    TemperatureNew,
    MigMode,
    Margin,
    Power,
    PowerLimit,
    Reasons,
    ReasonsOld,
    Pstate,
    Fan,
    Encoder,
    Decoder,
    Jpeg,
    Ofa,
    Gpm,
    PcieGen,
    PcieWidth,
    Sram,
    SpareRows,
    EccDram,
    EccSram,
    Fields,
    Rare,
}

/// What is kept between looks.
pub(super) struct Sampler {
    /// Bits of calls that are not made any more.
    never: u64,
    looks: u32,
    fast: Batch,
    slow: Batch,
    links: Vec<u32>,
    gpm: Option<Gpm>,
    /// What was read rarely.
    kept: Sample,
    /// The last answer that was neither a figure nor final.
    trouble: Option<Code>,
    heard: bool,
    mig: Option<bool>,
}

impl Sampler {
    pub(super) fn new(api: &Api, h: Handle) -> Sampler {
        let links: Vec<u32> = (0..LINKS).filter(|l| api.link_active(h, *l).is_ok()).collect();
        Sampler {
            never: 0,
            looks: 0,
            fast: Batch::fast(),
            slow: Batch::slow(&links),
            links,
            gpm: None,
            kept: Sample::default(),
            trouble: None,
            heard: false,
            mig: None,
        }
    }

    /// Whether the GPU was in MIG mode at the last rare look; true as long as there was none.
    pub(super) fn is_cut(&self) -> bool {
        self.looks == 0 || self.mig == Some(true)
    }

    /// What a GPU has depends on whether it is cut into slices: after a change everything is asked
    /// for again.
    fn notice_mode(&mut self, api: &Api, h: Handle) -> Result<(), DeviceError> {
        let mig = self.ask(Call::MigMode, || api.mig_mode(h))?;
        if std::mem::replace(&mut self.mig, mig) != mig && self.looks > 0 {
            self.never = 0;
            self.fast = Batch::fast();
            self.slow = Batch::slow(&self.links);
            self.gpm = None;
        }
        Ok(())
    }

    /// Fills in a cleared sample.
    pub(super) fn fill_sample(
        &mut self,
        api: &Arc<Api>,
        h: Handle,
        sample: &mut Sample,
    ) -> Result<(), DeviceError> {
        (self.heard, self.trouble) = (false, None);
        self.often(api, h, sample)?;
        if self.looks.is_multiple_of(RARELY) {
            self.notice_mode(api, h)?;
            let mut kept = Sample::default();
            self.rarely(api, h, &mut kept)?;
            self.kept = kept;
        }
        self.looks = self.looks.wrapping_add(1);
        for (field, value) in self.kept.iter() {
            sample.set(field, value);
        }
        match (self.heard, self.trouble) {
            (false, Some(code)) => Err(code.error()),
            (false, None) => {
                Err(DeviceError::Failed("the GPU reports nothing about itself".into()))
            }
            (true, _) => Ok(()),
        }
    }

    fn ask<T>(
        &mut self,
        call: Call,
        answer: impl FnOnce() -> Answer<T>,
    ) -> Result<Option<T>, DeviceError> {
        let bit = 1 << call as u32;
        if self.never & bit != 0 {
            return Ok(None);
        }
        match answer() {
            Ok(value) => {
                self.heard = true;
                Ok(Some(value))
            }
            Err(code) if code.lost() => Err(DeviceError::Lost),
            Err(code) if code.never() => {
                self.never |= bit;
                Ok(None)
            }
            Err(code) => {
                self.trouble = Some(code);
                Ok(None)
            }
        }
    }

    fn often(&mut self, api: &Arc<Api>, h: Handle, sample: &mut Sample) -> Result<(), DeviceError> {
        if let Some((gpu, memory)) = self.ask(Call::Utilization, || api.utilization(h))? {
            sample.set(Field::Util, f64::from(gpu));
            sample.set(Field::MemUtil, f64::from(memory));
        }
        self.memory(api, h, sample)?;
        let (sm, mem) = (b::nvmlClockType_enum_NVML_CLOCK_SM, b::nvmlClockType_enum_NVML_CLOCK_MEM);
        let figure = |v: Option<u32>| v.map(f64::from);
        let v = self.ask(Call::SmClock, || api.clock(h, sm))?;
        sample.put(Field::SmClock, figure(v));
        let v = self.ask(Call::MemClock, || api.clock(h, mem))?;
        sample.put(Field::MemClock, figure(v));
        let v = match self.ask(Call::Temperature, || api.temperature(h))? {
            None => self.ask(Call::TemperatureNew, || api.temperature_new(h))?.map(f64::from),
            some => figure(some),
        };
        sample.put(Field::Temp, v);
        let v = match self.ask(Call::Reasons, || api.clock_reasons(h))? {
            None => self.ask(Call::ReasonsOld, || api.throttle_reasons(h))?,
            some => some,
        };
        sample.put(Field::ClockReasons, v.map(wide));
        let v = self.ask(Call::Encoder, || api.encoder(h))?;
        sample.put(Field::EncUtil, figure(v));
        let v = self.ask(Call::Decoder, || api.decoder(h))?;
        sample.put(Field::DecUtil, figure(v));
        let v = self.ask(Call::Jpeg, || api.jpeg(h))?;
        sample.put(Field::JpegUtil, figure(v));
        let v = self.ask(Call::Ofa, || api.ofa(h))?;
        sample.put(Field::OfaUtil, figure(v));
        let v = self.ask(Call::Pstate, || api.pstate(h))?;
        sample.put(Field::Pstate, figure(v));

        let mut batch = std::mem::replace(&mut self.fast, Batch::empty());
        let read = self.ask(Call::Fields, || batch.read(api, h, sample));
        self.fast = batch;
        read?;
        if sample.get(Field::Power).is_none() {
            let v = self.ask(Call::Power, || api.power(h))?;
            sample.put(Field::Power, v.map(|mw| f64::from(mw) / 1000.0));
        }
        self.counters(api, h, sample)
    }

    fn memory(&mut self, api: &Api, h: Handle, sample: &mut Sample) -> Result<(), DeviceError> {
        if let Some(m) = self.ask(Call::Memory, || api.memory(h))? {
            sample.set(Field::FbTotal, wide(m.total) / MIB);
            sample.set(Field::FbFree, wide(m.free) / MIB);
            sample.set(Field::FbUsed, wide(m.used) / MIB);
            sample.set(Field::FbReserved, wide(m.reserved) / MIB);
        } else if let Some(m) = self.ask(Call::MemoryOld, || api.memory_old(h))? {
            sample.set(Field::FbTotal, wide(m.total) / MIB);
            sample.set(Field::FbFree, wide(m.free) / MIB);
            sample.set(Field::FbUsed, wide(m.used) / MIB);
        }
        Ok(())
    }

    fn counters(
        &mut self,
        api: &Arc<Api>,
        h: Handle,
        sample: &mut Sample,
    ) -> Result<(), DeviceError> {
        let mut gpm = self.gpm.take();
        let read = self.ask(Call::Gpm, || {
            if gpm.is_none() {
                if !Gpm::supported(api, h)? {
                    return Err(Code::NOT_SUPPORTED);
                }
                gpm = Some(Gpm::new(api)?);
            }
            gpm.as_mut().map_or(Ok(()), |g| g.read(api, h, None, sample))
        });
        self.gpm = gpm;
        read.map(|_| ())
    }

    fn rarely(&mut self, api: &Arc<Api>, h: Handle, kept: &mut Sample) -> Result<(), DeviceError> {
        let mut batch = std::mem::replace(&mut self.slow, Batch::empty());
        let read = self.ask(Call::Rare, || batch.read(api, h, kept));
        self.slow = batch;
        read?;
        // Nearly a millisecond of the device's own processor.
        let v = self.ask(Call::Margin, || api.margin(h))?;
        kept.put(Field::TempMargin, v.map(f64::from));
        let v = self.ask(Call::PowerLimit, || api.power_limit(h))?;
        kept.put(Field::PowerLimit, v.map(|mw| f64::from(mw) / 1000.0));
        let v = self.ask(Call::PcieGen, || api.pcie_gen(h))?;
        kept.put(Field::PcieGen, v.map(f64::from));
        let v = self.ask(Call::PcieWidth, || api.pcie_width(h))?;
        kept.put(Field::PcieWidth, v.map(f64::from));
        let v = self.ask(Call::Fan, || api.fan(h))?;
        kept.put(Field::Fan, v.map(f64::from));
        let v = self.ask(Call::Sram, || api.sram_threshold(h))?;
        kept.put(Field::SramThreshold, v.map(|over| f64::from(u8::from(over))));
        if let Some(banks) = self.ask(Call::SpareRows, || api.spare_rows(h))? {
            for (field, n) in BANKS.into_iter().zip(banks) {
                kept.set(field, f64::from(n));
            }
        }
        for (field, kind, counter, place) in ECC {
            let call = if place == SRAM { Call::EccSram } else { Call::EccDram };
            let v = self.ask(call, || api.ecc(h, kind, counter, place))?;
            kept.put(field, v.map(wide));
        }
        if !self.links.is_empty() {
            let active = self.links.iter().filter(|l| api.link_active(h, **l) == Ok(true)).count();
            kept.set(Field::NvlinkActive, wide(active as u64));
        }
        Ok(())
    }
}

const BANKS: [Field; 5] = [
    Field::RemapBanksMax,
    Field::RemapBanksHigh,
    Field::RemapBanksPartial,
    Field::RemapBanksLow,
    Field::RemapBanksNone,
];

const SBE: u32 = b::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_CORRECTED;
const DBE: u32 = b::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED;
const SINCE_LOAD: u32 = b::nvmlEccCounterType_enum_NVML_VOLATILE_ECC;
const LIFE: u32 = b::nvmlEccCounterType_enum_NVML_AGGREGATE_ECC;
const DRAM: u32 = b::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_DRAM;
const SRAM: u32 = b::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_SRAM;

const ECC: [(Field, u32, u32, u32); 6] = [
    (Field::EccSbeVolDev, SBE, SINCE_LOAD, DRAM),
    (Field::EccDbeVolDev, DBE, SINCE_LOAD, DRAM),
    (Field::EccSbeAggDev, SBE, LIFE, DRAM),
    (Field::EccDbeAggDev, DBE, LIFE, DRAM),
    (Field::EccSbeVolSram, SBE, SINCE_LOAD, SRAM),
    (Field::EccDbeVolSram, DBE, SINCE_LOAD, SRAM),
];

#[expect(clippy::cast_precision_loss, reason = "counters this large are not distinct anyway")]
pub(super) fn wide(n: u64) -> f64 {
    n as f64
}
