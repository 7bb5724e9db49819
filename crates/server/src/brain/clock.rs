//! The server's clock: the wall's at the start, and from then on the time that passes.
//!
//! Limits of jobs, lost nodes and fences are lengths of time. Somebody who sets the machine's clock
//! must not end a job or let two attempts run. So a step of the wall clock is not followed: it is
//! told, and this server goes by the new time when it is started again. Small differences, as a
//! time service makes them, are followed slowly.

use muster_model::clock::{ClockStep, STEP_MS, StepWatch};
use muster_model::units::{Span, Time};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Followed at most, each time it is looked at (once a second).
const SLEW_MS: i64 = 50;

/// What to add to the time since the machine started.
static OFFSET: OnceLock<AtomicI64> = OnceLock::new();
/// Since when the wall clock is not ours.
static SINCE: Mutex<Option<Time>> = Mutex::new(None);
/// What a test adds to the wall clock.
#[cfg(test)]
static SHIFT: AtomicI64 = AtomicI64::new(0);

fn wall_ms() -> i64 {
    let ms = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX));
    #[cfg(test)]
    let ms = ms.saturating_add(SHIFT.load(Ordering::Relaxed));
    ms
}

/// Milliseconds since the machine started, those that it slept included.
pub(crate) fn boot_ms() -> i64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    t.tv_sec.saturating_mul(1000).saturating_add(t.tv_nsec / 1_000_000)
}

fn offset() -> &'static AtomicI64 {
    OFFSET.get_or_init(|| AtomicI64::new(wall_ms() - boot_ms()))
}

/// Now, as this server goes. Never runs backwards, never jumps.
#[must_use]
pub fn clock() -> Time {
    Time(boot_ms() + offset().load(Ordering::Acquire))
}

/// The log already has records of this time: the clock does not stand before it. Otherwise
/// everything that waits for a time would wait until the wall clock is there again.
pub(crate) fn not_before(t: Time) {
    offset().fetch_max(t.0.saturating_sub(boot_ms()), Ordering::AcqRel);
}

/// What to add to our clock when the wall's is so far ahead of it, and whether that is a step.
fn follow_by(ahead: i64) -> (i64, bool) {
    match ahead.abs() > STEP_MS {
        true => (0, true),
        false => (ahead.clamp(-SLEW_MS, SLEW_MS), false),
    }
}

/// Looks at the wall clock, once a second.
pub(crate) fn follow() {
    let ahead = wall_ms().saturating_sub(clock().0);
    let (by, stepped) = follow_by(ahead);
    offset().fetch_add(by, Ordering::AcqRel);
    let mut since = SINCE.lock().unwrap_or_else(PoisonError::into_inner);
    match (stepped, since.is_some()) {
        (true, false) => {
            tracing::error!(
                ahead_ms = ahead,
                "the machine's clock was set; this server does not follow it until it is restarted"
            );
            *since = Some(clock());
        }
        (false, true) => {
            tracing::info!("the machine's clock is right again");
            *since = None;
        }
        _ => {}
    }
}

/// Looks whether the wall clock was set since the last look.
pub(super) fn look(watch: &mut StepWatch) -> Option<ClockStep> {
    watch.look(Span(boot_ms().unsigned_abs()), Time(wall_ms()))
}

/// Since when the machine's clock is not the one this server goes by, and how far it is ahead
/// (negative: behind). None while they agree.
#[must_use]
pub fn stepped() -> Option<(Time, i64)> {
    let since = (*SINCE.lock().unwrap_or_else(PoisonError::into_inner))?;
    Some((since, wall_ms().saturating_sub(clock().0)))
}

/// A length of time in words, for a step.
#[must_use]
pub fn words(ahead_ms: i64) -> String {
    let way = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let span = Span(ahead_ms.unsigned_abs() / 1000 * 1000);
    format!("{span} {way} the time that this server goes by")
}

/// Sets the wall clock of this process, for tests.
#[cfg(test)]
pub(crate) fn set_wall(ahead_ms: i64) {
    SHIFT.store(ahead_ms, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_are_followed_slowly_and_steps_are_not() {
        assert_eq!(follow_by(0), (0, false));
        assert_eq!(follow_by(30), (30, false));
        assert_eq!(follow_by(1_500), (SLEW_MS, false));
        assert_eq!(follow_by(-1_500), (-SLEW_MS, false));
        assert_eq!(follow_by(3_600_000), (0, true));
        assert_eq!(follow_by(-3_600_000), (0, true));
    }

    #[test]
    fn a_step_of_the_wall_clock_is_told_and_not_followed() {
        let before = clock();
        follow();
        assert_eq!(stepped(), None);
        for (step, says) in [(24 * 3_600_000, "ahead of"), (-3_600_000, "behind")] {
            set_wall(step);
            follow();
            let now = clock();
            assert!(now >= before && now.since(before) < Span::hours(1), "{now:?}");
            let (_, ahead) = stepped().expect("it is noticed");
            assert!((ahead - step).abs() < 60_000, "{ahead}");
            assert!(words(ahead).contains(says), "{}", words(ahead));
        }
        set_wall(0);
        follow();
        assert_eq!(stepped(), None, "and is over when the clock is right again");
    }

    #[test]
    fn the_clock_does_not_stand_before_the_log() {
        let ahead = clock() + Span::hours(2);
        not_before(ahead);
        assert!(clock() >= ahead);
        follow();
        assert!(stepped().is_some(), "the machine's clock is behind the log: told");
    }
}
