//! Reads the log: from some way back when the server begins, and then as it grows.

use super::Inner;
use crate::brain::{Brain, BrainError};
use muster_metering::Lives;
use muster_model::ids::Seq;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Records read at a time.
const PAGE: usize = 4096;
/// Records before the start that are read. Of attempts that were placed before, only what the
/// state keeps is known: a site's whole past would take minutes.
const BACK: u64 = 200_000;
/// Between two looks at a log that keeps growing.
const PAUSE: Duration = Duration::from_millis(500);

/// Between two looks for what can be forgotten.
const TIDY: Duration = Duration::from_secs(5);

/// Lives, and up to where the log was read for them.
#[derive(Debug)]
pub(super) struct Reading {
    after: Seq,
    lives: Lives,
}

impl Reading {
    pub(super) fn begin(durable: Seq) -> Reading {
        Reading { after: Seq(durable.0.saturating_sub(BACK)), lives: Lives::default() }
    }

    pub(super) fn lives(&self) -> &Lives {
        &self.lives
    }

    /// Reads on to the end of the log.
    pub(super) async fn catch_up(&mut self, brain: &Brain) {
        loop {
            match brain.records(self.after, PAGE).await {
                Ok(page) => {
                    let Some(last) = page.last() else { return };
                    self.after = last.seq;
                    page.iter().for_each(|r| self.lives.apply(r));
                }
                Err(BrainError::Archived { behind }) if behind > self.after => {
                    // What was read of attempts that go on would lack its middle.
                    self.lives = Lives::default();
                    self.after = behind;
                }
                Err(e) => {
                    tracing::debug!(error = %e, "the log cannot be read now");
                    return;
                }
            }
        }
    }
}

/// Keeps up with the log, and forgets what nobody asks for any more.
pub(super) async fn follow(inner: Arc<Inner>, stop: CancellationToken) {
    let mut durable = inner.brain.watch();
    let mut tidied = Instant::now();
    loop {
        inner.reading.lock().await.catch_up(&inner.brain).await;
        if tidied.elapsed() >= TIDY {
            tidied = Instant::now();
            inner.brain.read(|s| {
                let mut attempts = inner.attempts.lock().unwrap_or_else(PoisonError::into_inner);
                attempts.tidy(s);
            });
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stop.cancelled() => return,
        }
        tokio::select! {
            changed = durable.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = stop.cancelled() => return,
        }
    }
}
