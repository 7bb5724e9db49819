//! What a device of a simulated node has to suffer, and the counters that show it.

use muster_model::units::Time;

/// Counts up by the clock alone, so that it shows the same however often it is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counter {
    base: u64,
    per_hour: u64,
    since: Time,
}

impl Counter {
    pub(crate) fn value(&self, now: Time) -> u64 {
        let grown = now.since(self.since).0.saturating_mul(self.per_hour) / 3_600_000;
        self.base.saturating_add(grown)
    }

    /// From now on it counts so many an hour.
    pub(crate) fn pace(&mut self, per_hour: u64, now: Time) {
        *self = Counter { base: self.value(now), per_hour, since: now };
    }

    /// How many an hour it counts now.
    pub(crate) fn per_hour(&self) -> u64 {
        self.per_hour
    }

    /// Begins at zero again; the pace stays.
    pub(crate) fn restart(&mut self, now: Time) {
        *self = Counter { base: 0, since: now, ..*self };
    }
}

/// Percent of its clock that a badly cooled GPU loses under load, once it is hot.
const HOT_LOSS: u64 = 20;

/// What is wrong with a GPU.
#[derive(Debug, Clone, Default)]
pub(crate) struct Condition {
    /// Fallen off the bus.
    pub(crate) lost: bool,
    /// It computes more slowly by so many percent and shows nothing.
    pub(crate) slow_percent: u32,
    /// Its cooling is bad.
    pub(crate) hot: bool,
    /// Its clock stays so many percent too low.
    pub(crate) low_clocks: u32,
    /// Correctable errors.
    pub(crate) sbe: Counter,
    /// Uncorrectable errors.
    pub(crate) dbe: u64,
    /// Rows replaced so far.
    pub(crate) remapped: u64,
    /// Rows wait for a reset.
    pub(crate) pending: bool,
    /// Rows cannot be replaced.
    pub(crate) failed: bool,
    /// Packets repeated on the bus.
    pub(crate) replay: Counter,
    /// The bus has lost lanes.
    pub(crate) narrow: bool,
    /// Errors on its links.
    pub(crate) links: Counter,
    /// Its links fail.
    pub(crate) links_bad: bool,
    /// What it computes is wrong.
    pub(crate) wrong: bool,
}

impl Condition {
    /// Percent of its arithmetic that is left.
    pub(crate) fn speed_percent(&self, brake: bool) -> u64 {
        let mut left = 100 - u64::from(self.slow_percent.min(99));
        left = left * (100 - u64::from(self.low_clocks.min(99))) / 100;
        if self.hot {
            left = left * (100 - HOT_LOSS) / 100;
        }
        if brake {
            left = left * BRAKED / 100;
        }
        left.max(1)
    }

    /// What a reset repairs: waiting rows are replaced, volatile counters begin anew, links and
    /// clocks are set up again. Heat, wear, a lost lane and a bad slot stay.
    pub(crate) fn reset(&mut self, now: Time) {
        self.pending = false;
        self.dbe = 0;
        self.sbe.restart(now);
        self.low_clocks = 0;
        self.links_bad = false;
        self.links = Counter::default();
    }

    /// What a boot repairs beyond that: the device is found again, with all its lanes.
    pub(crate) fn boot(&mut self, now: Time) {
        self.reset(now);
        self.lost = false;
        self.narrow = false;
        self.replay.restart(now);
    }
}

/// Percent of the clock that the power brake leaves.
pub(crate) const BRAKED: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::units::Span;

    #[test]
    fn a_counter_shows_the_same_however_its_pace_was_set() {
        let t = |s| Time(1000) + Span::secs(s);
        let mut c = Counter::default();
        c.pace(3600, t(0));
        assert_eq!((c.value(t(0)), c.value(t(10))), (0, 10));
        c.pace(7200, t(10));
        assert_eq!(c.value(t(20)), 30);
        c.pace(0, t(20));
        assert_eq!(c.value(t(900)), 30);
        c.restart(t(900));
        assert_eq!(c.value(t(901)), 0);
    }
}
