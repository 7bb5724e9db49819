//! The server's edge of health: what nodes and ranks report goes to a watch, and what it finds goes
//! to the log.

mod clock;
mod feed;
mod follow;
mod inherit;
mod metrics;
mod report;
mod running;
#[cfg(test)]
mod tests;
pub mod watch;

pub(crate) use feed::{Feed, HealthObservation};
pub use metrics::HealthStats;
pub use metrics::PARTS;

use crate::brain::Brain;
use crate::supervise;
use metrics::HealthMetrics;
use muster_health::watch::WatchConfig;
use running::Attempts;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use watch::Watcher;

struct Shared {
    brain: Brain,
    attempts: Attempts,
    figures: HealthMetrics,
    stop: CancellationToken,
}

/// The watch of this server. Cheap to clone.
#[derive(Clone)]
pub struct Health {
    shared: Arc<Shared>,
    feed: Arc<Feed>,
}

impl Health {
    /// Starts to watch, with a look at everything `every` so often; ends with `stop`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        brain: Brain,
        every: Duration,
        stop: CancellationToken,
    ) -> std::io::Result<Health> {
        let shared = Arc::new(Shared {
            brain,
            attempts: Attempts::default(),
            figures: HealthMetrics::default(),
            stop,
        });
        let (feed, inbox) = Feed::new();
        // Little waits on the way to the log: what cannot be reported stays with the watch,
        // bounded.
        let (findings, found) = mpsc::channel(4);
        let (steps, stepped) = mpsc::channel(1024);
        let s = shared.clone();
        // One that panicked has forgotten what it had seen, and learns anew.
        supervise::thread("muster-watch", move || {
            let (findings, steps) = (findings.clone(), steps.clone());
            Watcher::new(s.clone(), WatchConfig::default(), findings, steps).run(&inbox, every);
        })?;
        let (s, found) = (shared.clone(), Arc::new(Mutex::new(found)));
        supervise::task("health-findings", move || {
            let (s, found) = (s.clone(), found.clone());
            async move { report::findings(s, &mut *found.lock().await).await }
        });
        let (s, stepped) = (shared.clone(), Arc::new(Mutex::new(stepped)));
        supervise::task("health-steps", move || {
            let (s, stepped) = (s.clone(), stepped.clone());
            async move { report::first_steps(s, &mut *stepped.lock().await).await }
        });
        follow::start(shared.clone());
        Ok(Health { shared, feed: Arc::new(feed) })
    }

    /// Where sessions put what they hear.
    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Figures since the start.
    pub fn stats(&self) -> HealthStats {
        let (taken, dropped) = self.feed.counts();
        self.shared.figures.read(taken, dropped)
    }
}
