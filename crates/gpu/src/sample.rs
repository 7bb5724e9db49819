//! One look at a device: a fixed row of figures, each there or absent. Keyed by the field ids
//! that the field's dashboards know, so that names can change and meaning cannot.

macro_rules! fields {
    ($($(#[doc = $doc:literal])* $name:ident $id:literal,)*) => {
        /// A figure of a device. The number is the field id that DCGM gives it, or one from
        /// 9000 on for what has none there.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Field { $($(#[doc = $doc])* $name = $id,)* }

        /// Every figure, in the order of a row.
        pub const FIELDS: [Field; [$($id,)*].len()] = [$(Field::$name,)*];

        impl Field {
            /// Its place in a row.
            #[must_use]
            pub fn place(self) -> usize {
                #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
                enum Place { $($name,)* }
                match self { $(Field::$name => Place::$name as usize,)* }
            }
        }
    };
}

fields! {
    /// SM clock, MHz.
    SmClock 100,
    /// Memory clock, MHz.
    MemClock 101,
    /// Clock event (throttle) reasons, a mask.
    ClockReasons 112,
    /// Memory temperature, Celsius.
    MemTemp 140,
    /// Core temperature, Celsius.
    Temp 150,
    /// Degrees left before it slows down.
    TempMargin 153,
    /// Power draw of the board, averaged, watts.
    Power 155,
    /// Energy since the driver was loaded, millijoules.
    Energy 156,
    /// Power draw at this instant, watts.
    PowerNow 157,
    /// Power limit in force, watts.
    PowerLimit 160,
    /// PCIe generation in use.
    PcieGen 235,
    /// PCIe lanes in use.
    PcieWidth 236,
    /// PCIe replays.
    PcieReplay 202,
    /// Percent of the time in which any kernel ran.
    Util 203,
    /// Percent of the time in which memory was read or written.
    MemUtil 204,
    /// Percent, encoder.
    EncUtil 206,
    /// Percent, decoder.
    DecUtil 207,
    /// Last XID; zero when there was none.
    Xid 230,
    /// Nanoseconds held back by power.
    PowerViolation 240,
    /// Nanoseconds held back by heat.
    ThermalViolation 241,
    /// Nanoseconds held back by sync boost.
    SyncBoostViolation 242,
    /// Nanoseconds held back by the board's limit.
    BoardLimitViolation 243,
    /// Nanoseconds held back by low use.
    LowUtilViolation 244,
    /// Nanoseconds held back for reliability.
    ReliabilityViolation 245,
    /// Memory in all, MiB.
    FbTotal 250,
    /// Memory free, MiB.
    FbFree 251,
    /// Memory used, MiB.
    FbUsed 252,
    /// Memory the driver keeps, MiB.
    FbReserved 253,
    /// Single-bit errors since the driver was loaded.
    EccSbeVol 310,
    /// Double-bit errors since the driver was loaded.
    EccDbeVol 311,
    /// Single-bit errors in its life.
    EccSbeAgg 312,
    /// Double-bit errors in its life.
    EccDbeAgg 313,
    /// Single-bit errors of the memory since the driver was loaded.
    EccSbeVolDev 318,
    /// Double-bit errors of the memory since the driver was loaded.
    EccDbeVolDev 319,
    /// Single-bit errors of the chip's own memory since the driver was loaded.
    EccSbeVolSram 9001,
    /// Double-bit errors of the chip's own memory since the driver was loaded.
    EccDbeVolSram 9002,
    /// Single-bit errors of the memory in its life.
    EccSbeAggDev 328,
    /// Double-bit errors of the memory in its life.
    EccDbeAggDev 329,
    /// Uncorrectable errors of the chip's own memory passed the limit for replacement.
    SramThreshold 9003,
    /// Pages retired for single-bit errors.
    RetiredSbe 390,
    /// Pages retired for double-bit errors.
    RetiredDbe 391,
    /// Pages that wait to be retired.
    RetiredPending 392,
    /// Rows remapped after uncorrectable errors.
    RemappedUncorrectable 393,
    /// Rows remapped after correctable errors.
    RemappedCorrectable 394,
    /// A remap failed.
    RemapFailure 395,
    /// A remap waits for a reset.
    RemapPending 9004,
    /// Banks with every spare row left.
    RemapBanksMax 9005,
    /// Banks with most spare rows left.
    RemapBanksHigh 9006,
    /// Banks with some spare rows left.
    RemapBanksPartial 9007,
    /// Banks with few spare rows left.
    RemapBanksLow 9008,
    /// Banks with no spare row left.
    RemapBanksNone 9009,
    /// NVLink flit checksum errors, all links.
    NvlinkCrcFlit 409,
    /// NVLink data checksum errors, all links.
    NvlinkCrcData 419,
    /// NVLink replays, all links.
    NvlinkReplay 429,
    /// NVLink recoveries, all links.
    NvlinkRecovery 439,
    /// NVLink traffic, all links, KiB since the driver was loaded.
    NvlinkBytes 449,
    /// Links that work.
    NvlinkActive 9010,
    /// Fraction of the time in which the compute engine was busy.
    GrActive 1001,
    /// Fraction of cycles in which an SM had a warp.
    SmActive 1002,
    /// Resident warps over the most there can be.
    SmOccupancy 1003,
    /// Fraction of cycles of the tensor pipe.
    TensorActive 1004,
    /// Fraction of cycles in which memory moved data.
    DramActive 1005,
    /// Fraction of cycles of the double-precision pipe.
    Fp64Active 1006,
    /// Fraction of cycles of the single-precision pipe.
    Fp32Active 1007,
    /// Fraction of cycles of the half-precision pipe.
    Fp16Active 1008,
    /// Bytes a second that the GPU sent over the bus.
    PcieTx 1009,
    /// Bytes a second that the GPU received over the bus.
    PcieRx 1010,
    /// Bytes a second that the GPU sent over NVLink.
    NvlinkTx 1011,
    /// Bytes a second that the GPU received over NVLink.
    NvlinkRx 1012,
    /// Percent, JPEG engine.
    JpegUtil 9011,
    /// Percent, optical-flow engine.
    OfaUtil 9012,
    /// Fan, percent.
    Fan 191,
    /// Performance state.
    Pstate 190,
}

/// One look at a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    values: [f64; FIELDS.len()],
}

/// Absent figures are kept as this; a device never answers it.
const ABSENT: f64 = f64::NAN;

impl Default for Sample {
    fn default() -> Sample {
        Sample { values: [ABSENT; FIELDS.len()] }
    }
}

impl Sample {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.values.fill(ABSENT);
    }

    /// A figure; none when the device does not have it.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<f64> {
        let v = self.values[field.place()];
        (!v.is_nan()).then_some(v)
    }

    /// Sets a figure.
    pub fn set(&mut self, field: Field, value: f64) {
        self.values[field.place()] = value;
    }

    /// Sets a figure, if it is there.
    pub fn put(&mut self, field: Field, value: Option<f64>) {
        if let Some(v) = value {
            self.set(field, v);
        }
    }

    /// What is there, in the order of a row.
    pub fn iter(&self) -> impl Iterator<Item = (Field, f64)> + '_ {
        FIELDS.iter().zip(&self.values).filter(|(_, v)| !v.is_nan()).map(|(f, v)| (*f, *v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_own_place_and_id() {
        let mut ids = std::collections::BTreeSet::new();
        for (i, f) in FIELDS.iter().enumerate() {
            assert_eq!(f.place(), i);
            assert!(ids.insert(*f as u16), "{f:?}");
        }
    }

    #[test]
    fn what_is_not_set_is_absent_and_zero_is_a_value() {
        let mut s = Sample::default();
        assert_eq!(s.get(Field::Temp), None);
        s.set(Field::Temp, 0.0);
        s.put(Field::Fan, None);
        assert_eq!(s.iter().collect::<Vec<_>>(), vec![(Field::Temp, 0.0)]);
        s.clear();
        assert_eq!(s.iter().count(), 0);
    }
}
