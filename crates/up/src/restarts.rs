//! Whether a process that ended is started again, and when.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// A process that ends so soon after its start may end for the same reason again.
const QUICK_END: Duration = Duration::from_secs(60);
/// It is given up after so many of these one after the other, if it ended by itself.
pub(crate) const QUICK_ERRORS_MAX: u32 = 3;
/// Before the first new start; twice as long before each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Signals that a process gets for what it did itself, by their numbers in `signal(7)`: SIGILL, SIGTRAP,
/// SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
const OWN_SIGNALS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    /// By its own doing, such as an error in its settings.
    ByItself,
    /// By a signal that somebody else sent, or the kernel where memory was short.
    Killed,
}

impl ProcessEnd {
    /// As its status says.
    pub(crate) fn of(status: ExitStatus) -> ProcessEnd {
        match status.signal() {
            Some(signal) if !OWN_SIGNALS.contains(&signal) => ProcessEnd::Killed,
            _ => ProcessEnd::ByItself,
        }
    }
}

/// The ends of one process and of those that were started in its place.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// How often in a row it ended soon.
    quick: u32,
    /// How many of these were its own doing.
    errors: u32,
}

impl Restarts {
    /// How long to wait before the process, which ran so long, is started again; none when it ended soon by
    /// itself too often. Who is killed is started again for ever: that says nothing about the next start.
    pub(crate) fn pause(&mut self, end: ProcessEnd, ran: Duration) -> Option<Duration> {
        if ran >= QUICK_END {
            *self = Restarts::default();
            return Some(FIRST_PAUSE);
        }
        self.quick = self.quick.saturating_add(1);
        if end == ProcessEnd::ByItself {
            self.errors += 1;
        }
        let doubled = 1_u32.checked_shl(self.quick - 1).unwrap_or(u32::MAX);
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        (self.errors < QUICK_ERRORS_MAX).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(1);

    fn pauses(ends: &[(ProcessEnd, Duration)]) -> Vec<Option<u64>> {
        let mut restarts = Restarts::default();
        ends.iter().map(|(end, ran)| restarts.pause(*end, *ran).map(|p| p.as_secs())).collect()
    }

    #[test]
    fn who_ends_by_itself_soon_three_times_in_a_row_is_given_up() {
        let (soon, late) = ((ProcessEnd::ByItself, SOON), (ProcessEnd::ByItself, QUICK_END));
        assert_eq!(pauses(&[soon, soon, late, late]), [Some(1), Some(2), Some(1), Some(1)]);
        assert_eq!(pauses(&[late, soon, soon, soon]), [Some(1), Some(1), Some(2), None]);
    }

    #[test]
    fn who_is_killed_is_started_again_for_ever_ever_later() {
        let killed = (ProcessEnd::Killed, SOON);
        let all = pauses(&[killed; 100]);
        assert_eq!(all[..6], [1, 2, 4, 8, 10, 10].map(Some));
        assert_eq!(all[99], Some(10));
        // Between two kills an error is an error all the same.
        let error = (ProcessEnd::ByItself, SOON);
        assert_eq!(pauses(&[error, killed, error, killed, error]).last(), Some(&None));
    }

    #[test]
    fn a_signal_from_outside_is_not_taken_for_ones_own() {
        for signal in [1, 2, 3, 9, 10, 15, 64] {
            assert_eq!(
                ProcessEnd::of(ExitStatus::from_raw(signal)),
                ProcessEnd::Killed,
                "{signal}"
            );
        }
        // With a core dump, too.
        for status in OWN_SIGNALS.into_iter().chain([11 | 0x80, 1 << 8, 0]) {
            let end = ProcessEnd::of(ExitStatus::from_raw(status));
            assert_eq!(end, ProcessEnd::ByItself, "{status}");
        }
    }
}
