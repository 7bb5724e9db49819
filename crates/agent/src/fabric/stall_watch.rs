//! How long a machine was held up while it measured. A thread that only wants to sleep for a
//! moment, and wakes much later, had to wait for a processor; so had those that measure. It sees
//! all reasons alike: other work, a limit on this process, a hypervisor that gave the processor
//! to somebody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long it wants to sleep.
const TICK: Duration = Duration::from_millis(2);
/// Waking later than this is being held up: what an idle machine takes is far below.
const GRACE: Duration = Duration::from_millis(4);

#[derive(Default)]
struct Shared {
    micros: AtomicU64,
    over: AtomicBool,
}

/// Watches until it is dropped.
pub(super) struct StallWatch(Arc<Shared>);

impl StallWatch {
    /// Begins. Without a thread for it nothing is seen.
    pub(super) fn watch() -> StallWatch {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let body = move || {
            let mut last = Instant::now();
            while !theirs.over.load(Ordering::Relaxed) {
                std::thread::sleep(TICK);
                let now = Instant::now();
                theirs.micros.fetch_add(late(now - last), Ordering::Relaxed);
                last = now;
            }
        };
        let _ = muster_supervise::thread("fabric-held", body);
        StallWatch(shared)
    }

    /// For how long the machine was held up so far.
    pub(super) fn micros(&self) -> u64 {
        self.0.micros.load(Ordering::Relaxed)
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

fn late(gap: Duration) -> u64 {
    let late = gap.saturating_sub(TICK);
    if late > GRACE { u64::try_from(late.as_micros()).unwrap_or(u64::MAX) } else { 0 }
}

/// A part of a span, in thousandths.
pub(super) fn share(micros: u64, of: Duration) -> u16 {
    let whole = u64::try_from(of.as_micros()).unwrap_or(u64::MAX).max(1);
    u16::try_from(micros.saturating_mul(1000) / whole).unwrap_or(1000).min(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_on_time_is_not_being_held_up() {
        assert_eq!(late(TICK), 0);
        assert_eq!(late(TICK + GRACE), 0);
        assert_eq!(late(TICK + Duration::from_millis(30)), 30_000);
        assert_eq!(share(150_000, Duration::from_millis(750)), 200);
        assert_eq!(share(u64::MAX, Duration::ZERO), 1000);
    }
}
