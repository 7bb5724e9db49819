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
                drop(attempts);
                inner.recents.lock().unwrap_or_else(PoisonError::into_inner).tidy(s);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::BrainConfig;
    use muster_model::command::Command;
    use muster_model::units::Span;
    use muster_store::{StoreError, StoreUrl};
    use std::path::Path;

    async fn lead(dir: &Path) -> Brain {
        let config = BrainConfig {
            store: StoreUrl::Sqlite(dir.join("log.db")),
            holder: "test".into(),
            archive: dir.join("archive"),
            seal_key: dir.join("seal.key"),
            policy: muster_engine::Policy::default(),
            lease: Span::secs(10),
            snapshot_every: 10,
            retain: 5,
        };
        tokio::task::spawn_blocking(move || Brain::lead(&config, |_| {})).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_log_whose_beginning_is_archived_is_read_from_where_it_begins() {
        let dir = tempfile::tempdir().unwrap();
        let brain = lead(dir.path()).await;
        let mut n = 0;
        // The archive's file is there before the log is cut, and a leader that is replaced between
        // the two cuts nothing: so the log itself is asked where it begins.
        let mut log = muster_store::open(&StoreUrl::Sqlite(dir.path().join("log.db"))).unwrap();
        while !matches!(log.read(Seq(0), 1), Err(StoreError::Archived { .. })) {
            n += 1;
            assert!(n < 6000, "nothing was ever archived");
            let name = format!("p{n}").parse().unwrap();
            let project = Command::CreateProject { name, description: String::new() };
            brain.system(project).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // What this server wrote it still has in memory.
        let mut reading = Reading::begin(Seq(0));
        reading.catch_up(&brain).await;
        assert_eq!(reading.after, brain.durable());
        brain.stop();
        brain.closed().await;
        drop(brain);
        let brain = lead(dir.path()).await;
        let first = brain.records(Seq(0), 1).await;
        assert!(matches!(first, Err(BrainError::Archived { .. })), "{first:?}");
        let mut reading = Reading::begin(brain.durable());
        assert_eq!(reading.after, Seq(0));
        reading.catch_up(&brain).await;
        assert!(reading.after >= brain.durable() && reading.lives().is_empty());
        brain.stop();
    }
}
