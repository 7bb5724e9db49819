//! How long what is kept, and in which steps.

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// One resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// Length of a step, in milliseconds.
    pub step_ms: i64,
    /// How long it is kept.
    pub keep_ms: i64,
    /// How much time one file holds.
    pub bucket_ms: i64,
    /// Steps that are written at once: so much is lost in a crash.
    pub block: u16,
}

impl Tier {
    /// In which step a moment lies.
    pub(crate) fn slot(&self, time: i64) -> i64 {
        time.div_euclid(self.step_ms)
    }

    /// When a step begins.
    pub(crate) fn start(&self, slot: i64) -> i64 {
        slot.saturating_mul(self.step_ms)
    }

    /// Which file holds a step.
    pub(crate) fn bucket(&self, slot: i64) -> i64 {
        self.start(slot).div_euclid(self.bucket_ms)
    }

    /// Until when a file's steps may begin.
    pub(crate) fn bucket_end(&self, bucket: i64) -> i64 {
        bucket.saturating_add(1).saturating_mul(self.bucket_ms)
    }

    /// Length of a block.
    pub(crate) fn block_ms(&self) -> i64 {
        self.step_ms.saturating_mul(i64::from(self.block))
    }

    /// Its directory.
    pub(crate) fn dir(&self) -> String {
        format!("step-{}ms", self.step_ms)
    }
}

/// What a store may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together: fine steps go first.
    pub bytes: u64,
    /// How often a series has a sample, about, in milliseconds.
    pub sample_ms: i64,
    /// Different series.
    pub series: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 5 << 30, sample_ms: 10 * SECOND, series: 4_000_000 }
    }
}

impl Limits {
    /// The tiers, finest first. One that would be no finer than the next is left out.
    #[must_use]
    pub fn tiers(&self) -> Vec<Tier> {
        let sample = self.sample_ms.clamp(SECOND, MINUTE);
        let fine = Tier { step_ms: sample, keep_ms: HOUR, bucket_ms: HOUR / 6, block: 60 };
        let step_ms = sample.max(10 * SECOND);
        let medium = Tier { step_ms, keep_ms: DAY, bucket_ms: HOUR, block: 30 };
        let coarse = Tier { step_ms: MINUTE, keep_ms: 90 * DAY, bucket_ms: 6 * HOUR, block: 15 };
        let mut all = vec![fine, medium, coarse];
        // The longer-kept one of two with the same step.
        all.reverse();
        all.dedup_by_key(|t| t.step_ms);
        all.reverse();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_follow_the_rate_of_samples() {
        let steps = |sample_ms| {
            let tiers = Limits { sample_ms, ..Limits::default() }.tiers();
            tiers.iter().map(|t| (t.step_ms, t.keep_ms)).collect::<Vec<_>>()
        };
        assert_eq!(steps(1000), [(1000, HOUR), (10_000, DAY), (MINUTE, 90 * DAY)]);
        assert_eq!(steps(10_000), [(10_000, DAY), (MINUTE, 90 * DAY)]);
        assert_eq!(steps(30_000), [(30_000, DAY), (MINUTE, 90 * DAY)]);
        assert_eq!(steps(300_000), [(MINUTE, 90 * DAY)]);
        assert_eq!(steps(0)[0], (1000, HOUR));
    }

    #[test]
    fn a_moment_before_1970_has_a_step_too() {
        let tier = Limits::default().tiers()[1];
        assert_eq!((tier.slot(-1), tier.start(-1), tier.bucket(-1)), (-1, -MINUTE, -1));
    }
}
