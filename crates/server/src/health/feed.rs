//! The way from sessions to the watch: bounded, and never waited for.

use crate::telemetry::Columns;
use muster_model::ids::AttemptKey;
use muster_model::names::NodeName;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// What may wait to be looked at: half a minute of a large site's rows, or a second of its steps.
const WAITING: usize = 65_536;

/// Something a node or a rank reported.
#[derive(Debug, Clone)]
pub(crate) enum HealthObservation {
    /// Figures of a node.
    Row {
        node: NodeName,
        at: Time,
        columns: Columns,
        gpus: Arc<[f32]>,
        host_columns: Columns,
        host: Arc<[f32]>,
    },
    /// A rank made a step.
    Step {
        key: AttemptKey,
        rank: u32,
        at: Time,
        step: u64,
        t: Option<f64>,
        stages: BTreeMap<String, f64>,
    },
    /// A rank wrote something.
    Output { key: AttemptKey, rank: u32, at: Time },
    /// A node is heard, whatever it says.
    Contact { node: NodeName, at: Time },
    /// A rank began to write a checkpoint, or is done with it.
    Checkpointing { key: AttemptKey, going: bool },
}

/// Reported by a node that is simulated (and has a clock of its own), or by a real one.
#[derive(Debug, Clone)]
pub(crate) struct FeedItem {
    pub(crate) simulated: bool,
    pub(crate) reported: HealthObservation,
}

/// The sending side. What finds no room is counted and left out: the next row comes soon.
#[derive(Debug)]
pub(crate) struct Feed {
    tx: SyncSender<FeedItem>,
    taken: AtomicU64,
    dropped: AtomicU64,
}

impl Feed {
    pub(super) fn new() -> (Feed, Receiver<FeedItem>) {
        let (tx, rx) = sync_channel(WAITING);
        (Feed { tx, taken: AtomicU64::new(0), dropped: AtomicU64::new(0) }, rx)
    }

    pub(crate) fn push(&self, simulated: bool, reported: HealthObservation) {
        match self.tx.try_send(FeedItem { simulated, reported }) {
            Ok(()) => self.taken.fetch_add(1, Ordering::Relaxed),
            // The watch has ended: this server is stopping.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed)
            }
        };
    }

    /// Taken in, and left out, since the start.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let (feed, rx) = Feed::new();
        let node: NodeName = "n1".parse().unwrap();
        for _ in 0..WAITING + 5 {
            feed.push(false, HealthObservation::Contact { node: node.clone(), at: Time(1) });
        }
        assert_eq!(feed.counts(), (WAITING as u64, 5));
        assert_eq!(rx.try_iter().count(), WAITING);
    }
}
