//! A second copy of the durable state, for what takes long to work out. Whoever reads the first one
//! holds up the writer, and with it everybody who comes after the writer.

use super::{Brain, clock};
use muster_engine::State;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{PoisonError, RwLock};

/// A copy that nobody has read for so long is given up: it takes as much memory as the first.
const UNUSED_MS: i64 = 60_000;

/// The copy, while somebody uses it.
#[derive(Default)]
pub(super) struct StateCopy {
    state: RwLock<Option<State>>,
    /// When it was last asked for, in milliseconds since the machine started; 0 where there is none to
    /// give up.
    used_ms: AtomicI64,
    polls: Polls,
}

/// Calls that come so close together are one visit: a page asks for several things at once.
const VISIT_MS: i64 = 5_000;

/// When the visit of those who poll began that is the newest, in milliseconds since the machine started; 0
/// before the first.
#[derive(Default)]
struct Polls(AtomicI64);

impl Polls {
    /// Whether who polls now did so lately, too: then a copy would be used again before it is given up.
    fn are_frequent(&self, now: i64) -> bool {
        let last = self.0.load(Ordering::Acquire);
        let ago = now - last;
        if ago >= VISIT_MS {
            self.0.store(now, Ordering::Release);
        }
        last != 0 && (VISIT_MS..=UNUSED_MS).contains(&ago)
    }
}

impl StateCopy {
    /// Whether there is one, or somebody makes it now.
    pub(super) fn is_there(&self) -> bool {
        !self.state.try_read().is_ok_and(|state| state.is_none())
    }

    /// Gives up a copy that nobody uses.
    pub(super) fn tidy(&self) {
        let used = self.used_ms.load(Ordering::Acquire);
        let unused = used != 0 && clock::boot_ms() - used > UNUSED_MS;
        if unused && let Ok(mut state) = self.state.try_write() {
            *state = None;
            // Unless somebody asks for it just now: then it is made anew.
            let _ = self.used_ms.compare_exchange(used, 0, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

impl Brain {
    /// Looks at a copy of the durable state. The closure may take its time: it holds up nobody but
    /// others who do the same. What was durable before is in the copy. It knows nothing of connections,
    /// which are not in the log.
    pub fn read_copy<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        let (copy, durable) = (&self.shared.copy, self.durable());
        copy.used_ms.store(clock::boot_ms(), Ordering::Release);
        loop {
            let state = copy.state.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(s) = state.as_ref().filter(|s| s.seq >= durable) {
                return f(s);
            }
            drop(state);
            let mut state = copy.state.write().unwrap_or_else(PoisonError::into_inner);
            if state.as_ref().is_none_or(|s| s.seq < durable) {
                // Taken out: what a panic left half done is no state.
                let old = state.take();
                *state = Some(self.caught_up(old));
            }
        }
    }

    /// Looks at the durable state for what programs ask for again and again, and what takes less than to
    /// make a copy of the state. Where a copy is there, or is going to be used again, it looks at that as
    /// [`Brain::read_copy`] does. Who asks now and then makes none: making it would hold up the writer for
    /// longer than the look.
    pub fn read_polled<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        let often = self.shared.copy.polls.are_frequent(clock::boot_ms());
        if often || self.shared.copy.is_there() { self.read_copy(f) } else { self.read(f) }
    }

    /// An older copy with all that came since. Where memory does not reach back so far, a new one:
    /// only then the first copy is held for longer than a moment.
    fn caught_up(&self, old: Option<State>) -> State {
        if let Some(mut state) = old
            && let Some(records) = self.in_memory(state.seq, usize::MAX)
        {
            match records.iter().try_for_each(|r| state.apply(r)) {
                Ok(()) => return state,
                Err(e) => {
                    tracing::error!(error = %e, "a copy of the state does not follow the log");
                }
            }
        }
        self.read(State::clone).without_connections()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_frequent_when_visits_are_less_than_a_minute_apart() {
        let polls = Polls::default();
        // Soon after the start of the machine, too: nobody polled before.
        assert!(!polls.are_frequent(30_000), "the first");
        assert!(!polls.are_frequent(30_000 + VISIT_MS - 1), "the same visit");
        assert!(polls.are_frequent(60_000));
        assert!(!polls.are_frequent(60_001), "the same visit, whose copy is there");
        assert!(polls.are_frequent(120_000));
        assert!(!polls.are_frequent(120_001 + UNUSED_MS), "a copy would be given up by now");
        assert!(polls.are_frequent(190_000));
    }
}
