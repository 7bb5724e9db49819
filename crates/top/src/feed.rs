//! When something is read again: soon after the log reported it, never all the time.

use muster_model::units::{Span, Time};

/// What can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadRequest {
    /// The list of jobs.
    Jobs,
    /// What is wrong.
    Health,
    /// What is left to do about each cause.
    Causes,
    /// One incident.
    Incident(String),
    /// One job.
    Job(String),
    /// Why some jobs wait: number and id.
    Whys(Vec<(u64, String)>),
}

/// One thing that is read now and then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Feed {
    /// The log reported something since it was read.
    pub(super) stale: bool,
    /// It is being read.
    busy: bool,
    /// When it was last read, or could not be.
    pub(super) read_at: Option<Time>,
    /// How long that took.
    took: Span,
    /// Why it could not be read.
    pub(super) failed: Option<String>,
}

/// Never more often than this.
const GAP: Span = Span::secs(2);
/// A server that takes long for an answer is asked rarely: no more than a tenth of the time.
const SHARE: u64 = 10;
/// After a refusal.
const REFUSED: Span = Span::secs(15);

impl Feed {
    /// Whether it shall be read now; if so, it counts as being read. `every` is how often it is
    /// read when the log reported nothing.
    pub(super) fn ask(&mut self, now: Time, every: Option<Span>) -> bool {
        let gap = match &self.failed {
            Some(_) => REFUSED,
            None => GAP.max(Span(self.took.0.saturating_mul(SHARE))),
        };
        let due = match self.read_at {
            None => true,
            Some(at) => {
                let age = now.since(at);
                age >= gap && (self.stale || every.is_some_and(|e| age >= e))
            }
        };
        if self.busy || !due {
            return false;
        }
        self.busy = true;
        self.stale = false;
        true
    }

    /// It was read.
    pub(super) fn done(&mut self, now: Time, took: Span) {
        *self = Feed { stale: self.stale, busy: false, read_at: Some(now), took, failed: None };
    }

    /// It could not be read.
    pub(super) fn failed(&mut self, now: Time, why: String) {
        self.busy = false;
        self.stale = true;
        self.read_at = Some(now);
        self.failed = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_at_most_every_two_seconds_and_only_when_something_happened() {
        let mut f = Feed::default();
        let at = |s: i64| Time(s * 1000);
        assert!(f.ask(at(10), None), "never read");
        assert!(!f.ask(at(11), None), "being read");
        f.done(at(11), Span(50));
        assert!(!f.ask(at(60), None), "nothing happened");
        assert!(f.clone().ask(at(60), Some(Span::secs(30))), "but it was long ago");
        f.stale = true;
        assert!(!f.ask(at(12), None), "too soon");
        assert!(f.ask(at(13), None));
        f.done(at(13), Span::secs(3));
        f.stale = true;
        assert!(!f.ask(at(40), None), "a slow server is asked rarely");
        assert!(f.ask(at(43), None));
        f.failed(at(44), "no".into());
        assert!(!f.ask(at(50), None) && f.ask(at(59), None), "tried again later");
    }
}
