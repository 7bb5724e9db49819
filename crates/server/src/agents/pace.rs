//! How often something may be written to the log.

use muster_model::units::{Span, Time};

/// Some at once, and then one at a time.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Until then what has passed counts.
    until: Time,
}

impl Pace {
    /// Lets one pass, or says how long it has to wait: `burst` pass at once, and one more in each
    /// `every`.
    pub(super) fn wait(&mut self, now: Time, every: Span, burst: u64) -> Option<Span> {
        let until = self.until.max(now);
        let most = now + Span(every.0.saturating_mul(burst.saturating_sub(1)));
        if until > most {
            return Some(until.since(most));
        }
        self.until = until + every;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_pass_at_once_and_then_one_in_each_interval() {
        let mut pace = Pace::default();
        let (start, every) = (Time(1_000_000), Span::secs(10));
        let passed = (0..100).filter(|_| pace.wait(start, every, 3).is_none()).count();
        assert_eq!(passed, 3);
        assert_eq!(pace.wait(start, every, 3), Some(every));
        assert_eq!(pace.wait(start + Span::secs(4), every, 3), Some(Span::secs(6)));
        assert_eq!(pace.wait(start + every, every, 3), None);
        assert_eq!(pace.wait(start + every, every, 3), Some(every));
        let later = start + Span::hours(1);
        let passed = (0..100).filter(|_| pace.wait(later, every, 3).is_none()).count();
        assert_eq!(passed, 3, "nothing is saved up");
    }
}
