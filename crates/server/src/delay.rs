//! How late the runtime runs what is due. A request waits about as long at each of its steps.

use crate::brain::stats::{FINE, Histogram, Timer};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A look is taken so often.
const EVERY: Duration = Duration::from_millis(100);

/// By how much a task that slept woke late. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RuntimeDelay(Arc<Timer>);

impl Default for RuntimeDelay {
    fn default() -> RuntimeDelay {
        RuntimeDelay(Arc::new(Timer::with(&FINE)))
    }
}

impl RuntimeDelay {
    /// Looks from now on, on the runtime that this is called on.
    pub fn start(&self, stop: &CancellationToken) {
        let (timer, stop) = (self.0.clone(), stop.clone());
        crate::supervise::task("runtime-delay", move || watch(timer.clone(), stop.clone()));
    }

    /// What was seen so far.
    #[must_use]
    pub fn read(&self) -> Histogram {
        self.0.read()
    }
}

async fn watch(timer: Arc<Timer>, stop: CancellationToken) {
    loop {
        let due = Instant::now() + EVERY;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep_until(due) => timer.observe(due.elapsed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_runtime_that_is_held_up_is_late() {
        let delay = RuntimeDelay::default();
        let stop = CancellationToken::new();
        let looks = tokio::spawn(watch(delay.0.clone(), stop.clone()));
        // There is one thread: now it sleeps, and then nothing else runs for three looks' time.
        tokio::task::yield_now().await;
        std::thread::sleep(EVERY * 3);
        while delay.read().count == 0 {
            tokio::task::yield_now().await;
        }
        assert!(delay.read().sum >= EVERY.as_secs_f64(), "{:?}", delay.read());
        stop.cancel();
        looks.await.unwrap();
    }
}
