//! The last samples of one device, and summaries of them.

use muster_gpu::sample::{FIELDS, Field, Sample};
use muster_model::units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// One sample with when it was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedSample {
    /// By the clock that only goes forward, milliseconds since the monitor started.
    pub steady: u64,
    /// By the wall's clock; it may jump.
    pub at: Time,
    /// What the device reported.
    pub sample: Sample,
}

/// The last samples of one device. Ordered by the steady clock, so a wall clock that jumps
/// neither loses samples nor keeps them too long.
#[derive(Debug, Clone)]
pub struct Ring {
    keep: u64,
    most: usize,
    taken: VecDeque<TimedSample>,
}

impl Ring {
    /// Keeps samples for so long, and never more than `most`.
    #[must_use]
    pub fn new(keep: Duration, most: usize) -> Ring {
        let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        Ring { keep, most: most.max(1), taken: VecDeque::new() }
    }

    /// Adds a sample; old ones go.
    pub fn push(&mut self, taken: TimedSample) {
        // Steady time never goes back, but two threads may hand over in the wrong order.
        if self.taken.back().is_some_and(|last| last.steady > taken.steady) {
            return;
        }
        let oldest = taken.steady.saturating_sub(self.keep);
        self.taken.push_back(taken);
        while self.taken.len() > self.most
            || self.taken.front().is_some_and(|first| first.steady < oldest)
        {
            self.taken.pop_front();
        }
    }

    /// The newest sample, if there is one.
    #[must_use]
    pub fn last(&self) -> Option<&TimedSample> {
        self.taken.back()
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &TimedSample> {
        self.taken.iter()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.taken.clear();
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// A summary of what was taken after `steady`; none when nothing was.
    #[must_use]
    pub fn summary(&self, gpu: u32, after: u64) -> Option<Row> {
        let first = self.taken.partition_point(|t| t.steady <= after);
        let part = self.taken.range(first..);
        let last = self.taken.back()?;
        if part.len() == 0 {
            return None;
        }
        let mut row = Row {
            gpu,
            at: last.at,
            samples: u32::try_from(part.len()).unwrap_or(u32::MAX),
            metrics: Vec::new(),
        };
        for field in FIELDS {
            let mut metric = IntervalMetric { mean: 0.0, max: f64::MIN, min: f64::MAX, last: 0.0 };
            let (mut sum, mut n, mut mask) = (0.0, 0.0, 0_u64);
            for v in part.clone().filter_map(|t| t.sample.get(field)) {
                sum += v;
                n += 1.0;
                metric.max = metric.max.max(v);
                metric.min = metric.min.min(v);
                metric.last = v;
                if field == Field::ClockReasons {
                    mask |= as_mask(v);
                }
            }
            if n == 0.0 {
                continue;
            }
            metric.mean = sum / n;
            if field == Field::ClockReasons {
                // A reason that held for one sample of ten held.
                let mask = mask as f64;
                metric = IntervalMetric { mean: mask, max: mask, min: mask, last: metric.last };
            }
            row.metrics.push((field, metric));
        }
        Some(row)
    }
}

/// A mask that travelled as a number.
#[must_use]
pub fn as_mask(value: f64) -> u64 {
    // Saturates; masks are small whole numbers.
    value as u64
}

/// One figure over an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalMetric {
    /// Mean of the samples; for a mask, all its bits together.
    pub mean: f64,
    /// The highest sample.
    pub max: f64,
    /// The lowest sample.
    pub min: f64,
    /// The newest sample.
    pub last: f64,
}

/// What one device did over an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The device's index.
    pub gpu: u32,
    /// When the newest sample was taken.
    pub at: Time,
    /// How many samples are in it.
    pub samples: u32,
    metrics: Vec<(Field, IntervalMetric)>,
}

impl Row {
    /// All of a figure.
    #[must_use]
    pub fn metric(&self, field: Field) -> Option<IntervalMetric> {
        self.metrics
            .binary_search_by_key(&field.place(), |(f, _)| f.place())
            .ok()
            .map(|i| self.metrics[i].1)
    }

    /// The one number that says most: what counts up and what is set as it is now, heat at its
    /// highest and what is left of it at its lowest, the rest on average.
    #[must_use]
    pub fn value(&self, field: Field) -> Option<f64> {
        let metric = self.metric(field)?;
        Some(match kind(field) {
            Kind::Counter | Kind::Setting => metric.last,
            Kind::Peak => metric.max,
            Kind::Lowest => metric.min,
            Kind::Level => metric.mean,
        })
    }

    /// A column of the telemetry that goes to the server, by its name there.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<f64> {
        if name == "nvlink_errors" {
            let parts = NVLINK_ERRORS.iter().filter_map(|f| self.value(*f));
            return parts.reduce(|a, b| a + b);
        }
        Some(self.value(column(name)?)? * scale(name))
    }
}

/// What `nvlink_errors` adds up: whatever made a link say something twice.
const NVLINK_ERRORS: [Field; 4] =
    [Field::NvlinkCrcFlit, Field::NvlinkCrcData, Field::NvlinkReplay, Field::NvlinkRecovery];

/// Columns have the units that `muster_simnode::COLUMNS` names; fields have those of DCGM.
fn scale(name: &str) -> f64 {
    match name {
        "energy" => 1e-3,
        "pcie_rx" | "pcie_tx" | "nvlink_rx" | "nvlink_tx" => 1e-6,
        "sm_active" | "tensor_active" | "dram_active" => 100.0,
        _ => 1.0,
    }
}

/// The figure behind a column of the telemetry that goes to the server.
#[must_use]
pub fn column(name: &str) -> Option<Field> {
    Some(match name {
        "util" => Field::Util,
        "mem_used" => Field::FbUsed,
        "sm_clock" => Field::SmClock,
        "mem_clock" => Field::MemClock,
        "temp" => Field::Temp,
        "mem_temp" => Field::MemTemp,
        "power" => Field::Power,
        "energy" => Field::Energy,
        "pcie_rx" => Field::PcieRx,
        "pcie_tx" => Field::PcieTx,
        "nvlink_rx" => Field::NvlinkRx,
        "nvlink_tx" => Field::NvlinkTx,
        "ecc_sbe" => Field::EccSbeVol,
        "ecc_dbe" => Field::EccDbeVol,
        "remapped_rows" => Field::RemappedUncorrectable,
        "replay" => Field::PcieReplay,
        "throttle" => Field::ClockReasons,
        "sm_active" => Field::SmActive,
        "tensor_active" => Field::TensorActive,
        "dram_active" => Field::DramActive,
        "remap_pending" => Field::RemapPending,
        "remap_failed" => Field::RemapFailure,
        "thermal_margin" => Field::TempMargin,
        "pcie_width" => Field::PcieWidth,
        "pcie_gen" => Field::PcieGen,
        "power_limit" => Field::PowerLimit,
        _ => return None,
    })
}

/// How a figure is best summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Setting,
    Peak,
    Lowest,
    Level,
}

fn kind(field: Field) -> Kind {
    use Field as F;
    match field {
        F::MemTemp | F::Temp => Kind::Peak,
        F::TempMargin => Kind::Lowest,
        F::PowerLimit
        | F::PcieGen
        | F::PcieWidth
        | F::Xid
        | F::FbTotal
        | F::FbFree
        | F::FbUsed
        | F::FbReserved
        | F::SramThreshold
        | F::RemapFailure
        | F::RemapPending
        | F::RemapBanksMax
        | F::RemapBanksHigh
        | F::RemapBanksPartial
        | F::RemapBanksLow
        | F::RemapBanksNone
        | F::NvlinkActive
        | F::Pstate => Kind::Setting,
        F::SmClock
        | F::MemClock
        | F::ClockReasons
        | F::Power
        | F::PowerNow
        | F::Util
        | F::MemUtil
        | F::EncUtil
        | F::DecUtil
        | F::GrActive
        | F::SmActive
        | F::SmOccupancy
        | F::TensorActive
        | F::DramActive
        | F::Fp64Active
        | F::Fp32Active
        | F::Fp16Active
        | F::PcieTx
        | F::PcieRx
        | F::NvlinkTx
        | F::NvlinkRx
        | F::JpegUtil
        | F::OfaUtil
        | F::Fan => Kind::Level,
        _ => Kind::Counter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(steady: u64, at: i64, temp: f64, energy: f64) -> TimedSample {
        let mut sample = Sample::default();
        sample.set(Field::Temp, temp);
        sample.set(Field::Energy, energy);
        sample.set(Field::Power, temp * 10.0);
        sample.set(Field::ClockReasons, if steady == 2000 { 4.0 } else { 1.0 });
        TimedSample { steady, at: Time(at), sample }
    }

    #[test]
    fn a_ring_keeps_its_time_and_no_more_than_its_most() {
        let mut ring = Ring::new(Duration::from_secs(10), 5);
        for i in 0..20_i64 {
            ring.push(taken(i.unsigned_abs() * 1000, i, 1.0, 1.0));
        }
        assert_eq!(ring.len(), 5);
        let mut ring = Ring::new(Duration::from_secs(3), 500);
        for i in 0..20_i64 {
            ring.push(taken(i.unsigned_abs() * 1000, i, 1.0, 1.0));
        }
        assert_eq!(ring.len(), 4);
    }

    #[test]
    fn a_wall_clock_that_goes_backwards_breaks_nothing() {
        let mut ring = Ring::new(Duration::from_secs(100), 100);
        for (steady, at) in [(1000, 50_000), (2000, 51_000), (3000, -7), (4000, 3)] {
            ring.push(taken(steady, at, 40.0, 1.0));
        }
        assert_eq!(ring.len(), 4);
        let row = ring.summary(0, 0).expect("four samples");
        assert_eq!((row.samples, row.at), (4, Time(3)));
        // And a sample of the past by the steady clock is no sample.
        ring.push(taken(500, 4, 99.0, 1.0));
        assert_eq!(ring.len(), 4);
    }

    #[test]
    fn a_row_holds_mean_max_and_last_and_every_reason_that_was_seen() {
        let mut ring = Ring::new(Duration::from_secs(100), 100);
        for (i, t) in [40.0, 60.0, 50.0].into_iter().enumerate() {
            ring.push(taken(1000 * (i as u64 + 1), 0, t, 100.0 * (i + 1) as f64));
        }
        let row = ring.summary(7, 0).expect("three samples");
        assert_eq!(
            row.metric(Field::Temp),
            Some(IntervalMetric { mean: 50.0, max: 60.0, min: 40.0, last: 50.0 })
        );
        assert_eq!(row.value(Field::Temp), Some(60.0));
        assert_eq!(row.value(Field::Energy), Some(300.0));
        assert_eq!(row.value(Field::Power), Some(500.0));
        assert_eq!(row.value(Field::ClockReasons), Some(5.0));
        assert_eq!(row.column("throttle"), Some(5.0));
        assert_eq!(row.value(Field::Util), None);
        assert_eq!(row.column("nonsense"), None);
        // Of the links' errors only those that the device reports are added up.
        assert_eq!(row.column("nvlink_errors"), None);
        let mut sample = Sample::default();
        sample.set(Field::NvlinkReplay, 3.0);
        sample.set(Field::NvlinkRecovery, 4.0);
        sample.set(Field::SmActive, 0.5);
        sample.set(Field::TempMargin, 7.0);
        let mut links = Ring::new(Duration::from_secs(100), 100);
        links.push(TimedSample { steady: 1, at: Time(1), sample: sample.clone() });
        sample.set(Field::TempMargin, 9.0);
        links.push(TimedSample { steady: 2, at: Time(2), sample });
        let reported = links.summary(0, 0).expect("two samples");
        assert_eq!(reported.column("nvlink_errors"), Some(7.0));
        assert_eq!(reported.column("sm_active"), Some(50.0));
        assert_eq!(reported.column("thermal_margin"), Some(7.0));
        assert_eq!((reported.column("remap_pending"), reported.column("pcie_gen")), (None, None));
        // Only what is new since the last row.
        let row = ring.summary(7, 2000).expect("one sample");
        assert_eq!((row.samples, row.value(Field::Temp)), (1, Some(50.0)));
        assert!(ring.summary(7, 3000).is_none());
    }
}
