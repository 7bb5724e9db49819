//! Two clocks: one that only goes forward and measures, and the wall's, which stamps and may jump.

use muster_model::units::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The wall's clock, replaceable in tests.
pub type Wall = Arc<dyn Fn() -> Time + Send + Sync>;

/// The machine's own clock.
#[must_use]
pub fn system() -> Wall {
    Arc::new(now)
}

/// What the machine's clock shows.
#[must_use]
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Time since a start, from the clock that only goes forward. Clones show the same.
#[derive(Debug, Clone)]
pub struct Steady {
    start: Instant,
    /// Milliseconds that it was put forward.
    ahead: Arc<AtomicU64>,
}

impl Steady {
    /// Starts now.
    #[must_use]
    pub fn start() -> Steady {
        Steady { start: Instant::now(), ahead: Arc::default() }
    }

    /// How long ago it was started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed() + Duration::from_millis(self.ahead.load(Ordering::Acquire))
    }

    /// Puts it forward: whoever must see what a long time brings need not wait for it.
    pub fn skip(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.ahead.fetch_add(by, Ordering::Release);
    }

    /// The same in milliseconds.
    #[must_use]
    pub fn ms(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
