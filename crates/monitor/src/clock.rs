//! Two clocks: one that only goes forward and measures, and the wall's, which stamps and may jump.

use muster_model::units::Time;
use std::sync::Arc;
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

/// Time since a start, from the clock that only goes forward.
#[derive(Debug, Clone, Copy)]
pub struct Steady {
    start: Instant,
}

impl Steady {
    /// Starts now.
    #[must_use]
    pub fn start() -> Steady {
        Steady { start: Instant::now() }
    }

    /// How long ago it was started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The same in milliseconds.
    #[must_use]
    pub fn ms(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
