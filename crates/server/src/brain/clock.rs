//! The server's clock: the wall's at the start, and from then on the time that passes.
//!
//! Limits of jobs, lost nodes and fences are lengths of time. Somebody who sets the machine's clock
//! must not end a job or let two attempts run. So a step of the wall clock is not followed: it is
//! reported. A server that is started again goes on with the clock of the one before it, until the
//! machine starts anew or the operator accepts the new time. Small differences, as a time service
//! makes them, are followed slowly.

use muster_model::clock::{ClockStep, STEP_MS, StepWatch};
use muster_model::units::{Span, Time};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Followed at most, each time it is looked at (once a second).
const SLEW_MS: i64 = 50;

/// What to add to the time since the machine started.
static OFFSET: OnceLock<AtomicI64> = OnceLock::new();
/// Since when the wall clock is not ours.
static SINCE: Mutex<Option<Time>> = Mutex::new(None);
/// Whether the operator said that the wall clock is right.
static ACCEPTED: AtomicBool = AtomicBool::new(false);
/// Where the offset is kept for the next server, and the one that is written there.
static KEPT: Mutex<Option<(PathBuf, i64)>> = Mutex::new(None);
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

/// Which start of the machine this is.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The offset that an earlier server left in `file`, if it was of this start of the machine.
fn kept(file: &Path, boot: &str) -> Option<i64> {
    let text = std::fs::read_to_string(file).ok()?;
    let (of, offset) = text.trim().split_once(' ')?;
    (!boot.is_empty() && of == boot).then(|| offset.parse().ok())?
}

/// Goes on with the clock of the server before, which left it in `file`, and keeps this one's there.
/// `accept`: the wall clock is right, whatever it was set to since. Called before anybody asks for
/// the time; one that comes later changes nothing.
pub fn persist_clock_in(file: &Path, accept: bool) {
    let wall = wall_ms() - boot_ms();
    let first = kept(file, &boot_id()).filter(|_| !accept).unwrap_or(wall);
    if first.abs_diff(wall) > STEP_MS.unsigned_abs() {
        tracing::warn!(
            ahead_ms = wall - first,
            "the machine's clock was set since the last server; this one continues with its time"
        );
    }
    OFFSET.get_or_init(|| AtomicI64::new(first));
    ACCEPTED.store(accept, Ordering::Release);
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some((file.to_owned(), i64::MIN));
    keep();
}

/// Writes the offset down when it moved by more than a second. Without it a restart only goes by
/// the wall clock.
fn keep() {
    let now = offset().load(Ordering::Acquire);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((file, written)) = kept.as_mut() else { return };
    if written.abs_diff(now) < 1000 {
        return;
    }
    let new = file.with_extension("new");
    let text = format!("{} {now}\n", boot_id());
    match muster_link::private::write(&new, text.as_bytes())
        .and_then(|()| std::fs::rename(&new, &*file))
    {
        Ok(()) => *written = now,
        Err(e) => tracing::debug!(error = %e, "the clock could not be stored for the next server"),
    }
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

/// How far two machines' clocks may differ before one of them is wrong: a minute, as a time
/// service keeps them far closer.
const APART_MS: i64 = 60_000;

/// How far our clock has to go back when the store's machine has another time: of two that disagree
/// the earlier one ends nothing too soon.
fn back_by(ours: Time, stores: Time) -> Option<i64> {
    let ahead = ours.0.saturating_sub(stores.0);
    (ahead > APART_MS).then_some(ahead)
}

/// A server that begins to lead compares its clock with that of the store's machine. One that was
/// set ahead must not end the work of the leader before it at its limits.
pub(super) fn compare_with_store(stores: Time) {
    if ACCEPTED.load(Ordering::Acquire) {
        return;
    }
    let Some(by) = back_by(clock(), stores) else { return };
    tracing::error!(
        ahead_ms = by,
        "this machine's clock is ahead of the database's; this server goes by the database's"
    );
    offset().fetch_sub(by, Ordering::AcqRel);
}

/// What to add to our clock when the wall's is so far ahead of it, and whether that is a step.
fn follow_by(ahead: i64) -> (i64, bool) {
    match ahead.unsigned_abs() > STEP_MS.unsigned_abs() {
        true => (0, true),
        false => (ahead.clamp(-SLEW_MS, SLEW_MS), false),
    }
}

/// Looks at the wall clock, once a second.
pub(crate) fn follow() {
    // One look at a time: an older one must not say the last word.
    let mut since = SINCE.lock().unwrap_or_else(PoisonError::into_inner);
    let ahead = wall_ms().saturating_sub(clock().0);
    let (by, stepped) = follow_by(ahead);
    offset().fetch_add(by, Ordering::AcqRel);
    keep();
    match (stepped, since.is_some()) {
        (true, false) => {
            tracing::error!(
                ahead_ms = ahead,
                "the machine's clock was set; this server does not follow it"
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
pub(super) fn detect_clock_step(watch: &mut StepWatch) -> Option<ClockStep> {
    watch.observe_clocks(Span(boot_ms().unsigned_abs()), Time(wall_ms()))
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

/// Held by a test while it sets the wall clock: there is one for all tests of the process.
#[cfg(test)]
pub(crate) static WALL: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Sets the wall clock of this process, for tests.
#[cfg(test)]
pub(crate) fn set_wall(ahead_ms: i64) {
    SHIFT.store(ahead_ms, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

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
    fn of_two_clocks_that_disagree_the_earlier_one_is_taken() {
        let day = 24 * 3_600_000;
        assert_eq!(back_by(Time(day), Time(0)), Some(day));
        assert_eq!(back_by(Time(59_000), Time(0)), None, "as close as machines are");
        assert_eq!(back_by(Time(0), Time(day)), None, "the database may be the one that is wrong");
    }

    #[test]
    fn the_next_server_of_the_same_start_of_the_machine_goes_on_with_the_clock() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("clock");
        assert_eq!(kept(&file, "a"), None);
        std::fs::write(&file, "a -5\n").unwrap();
        assert_eq!(kept(&file, "a"), Some(-5));
        assert_eq!(kept(&file, "b"), None, "the machine was started anew");
        assert_eq!(kept(&file, ""), None);
        for bad in ["", "a", "a x", "a 1 2"] {
            std::fs::write(&file, bad).unwrap();
            assert_eq!(kept(&file, "a"), None, "{bad:?}");
        }
    }

    /// One test, for there is one clock: what one moves, the next would stand on.
    #[test]
    fn the_clock_is_kept_does_not_follow_steps_and_does_not_stand_before_the_log() {
        let _alone = WALL.blocking_lock();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("clock");
        persist_clock_in(&file, false);
        let written = kept(&file, &boot_id()).expect("it is kept");
        let now = offset().load(Ordering::Acquire);
        // Servers of other tests follow small differences meanwhile.
        assert!(written.abs_diff(now) < 60_000, "{written} {now}");
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "whatever the umask is");
        // A step of the wall clock is reported and not followed.
        follow();
        assert_eq!(stepped(), None);
        let before = clock();
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
        // The clock does not stand before the log.
        let ahead = clock() + Span::hours(2);
        not_before(ahead);
        assert!(clock() >= ahead);
        follow();
        assert!(stepped().is_some(), "the machine's clock is behind the log: reported");
    }
}
