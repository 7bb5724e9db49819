//! Time that never goes back, made from a clock that may.

use muster_model::units::{Span, Time};

/// Times of lines and of calls differ by a little; a call that is further back than this reports
/// that the clock was set back.
const SLACK: i64 = 5_000;

/// How much time has passed. Windows are measured in it, so that a clock that is set back neither
/// stops reports nor opens windows anew.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    latest: Option<Time>,
    passed: u64,
}

impl Clock {
    /// Milliseconds passed since the first time that was reported.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// The time of a line. An old line read late does not turn time back.
    pub(super) fn line(&mut self, at: Time) {
        match self.latest {
            Some(latest) if at <= latest => {}
            Some(latest) => self.forward(latest, at),
            None => self.latest = Some(at),
        }
    }

    /// The time now.
    pub(super) fn now(&mut self, now: Time) {
        match self.latest {
            Some(latest) if now > latest => self.forward(latest, now),
            Some(latest) if latest.0.saturating_sub(now.0) > SLACK => self.latest = Some(now),
            Some(_) => {}
            None => self.latest = Some(now),
        }
    }

    fn forward(&mut self, from: Time, to: Time) {
        self.passed = self.passed.saturating_add(to.since(from).0);
        self.latest = Some(to);
    }

    /// When so much will have passed, by the clock as it goes now.
    pub(super) fn at(&self, passed: u64) -> Time {
        let latest = self.latest.unwrap_or_default();
        latest + Span(passed.saturating_sub(self.passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_forward_only() {
        let mut c = Clock::default();
        c.now(Time(100_000));
        c.line(Time(50_000));
        assert_eq!(c.passed(), 0);
        c.now(Time(101_000));
        assert_eq!(c.passed(), 1_000);
        c.now(Time(1_000));
        c.now(Time(2_000));
        assert_eq!(c.passed(), 2_000);
        assert_eq!(c.at(2_500), Time(2_500));
        c.now(Time(i64::MIN));
        c.now(Time(i64::MAX));
        c.line(Time(i64::MAX));
    }
}
