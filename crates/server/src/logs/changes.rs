//! What has changed since the one who indexes output last asked.

use super::LogKeeper;
use muster_link::messages::Stream;
use muster_model::ids::AttemptKey;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Streams that are noted one by one; beyond that everything has to be looked at.
const NOTED: usize = 65_536;

/// One rank's stdout or stderr in one attempt.
pub type StreamId = (AttemptKey, u32, Stream);

/// What has changed.
#[derive(Debug, Default)]
pub struct OutputChanges {
    /// Streams that have grown.
    pub grown: BTreeSet<StreamId>,
    /// More than that: output was removed, or too much has grown. Everything has to be looked at.
    pub everything: bool,
}

impl OutputChanges {
    fn is_empty(&self) -> bool {
        self.grown.is_empty() && !self.everything
    }
}

/// What the writer notes. Nothing is, while nobody asks.
#[derive(Debug, Default)]
pub(super) struct Noted {
    changes: Mutex<Option<OutputChanges>>,
    changed: Condvar,
}

impl Noted {
    fn changes(&self) -> MutexGuard<'_, Option<OutputChanges>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream has grown.
    pub(super) fn grew(&self, id: StreamId) {
        self.note(|changes| {
            if changes.grown.len() < NOTED || changes.grown.contains(&id) {
                changes.grown.insert(id);
            } else {
                changes.everything = true;
            }
        });
    }

    /// Output was removed.
    pub(super) fn removed(&self) {
        self.note(|changes| changes.everything = true);
    }

    fn note(&self, note: impl FnOnce(&mut OutputChanges)) {
        if let Some(changes) = &mut *self.changes() {
            note(changes);
            self.changed.notify_one();
        }
    }

    /// What has changed since the last call, once there is something; nothing after `most`.
    fn next(&self, most: Duration) -> OutputChanges {
        let none = |changes: &mut Option<OutputChanges>| {
            changes.as_ref().is_some_and(OutputChanges::is_empty)
        };
        let (mut changes, _) = self
            .changed
            .wait_timeout_while(self.changes(), most, none)
            .unwrap_or_else(PoisonError::into_inner);
        let first = OutputChanges { everything: true, ..OutputChanges::default() };
        changes.replace(OutputChanges::default()).unwrap_or(first)
    }
}

impl LogKeeper {
    /// Waits until output has changed since the last call, at most so long. The first call says that
    /// everything has to be looked at. For one who asks, on a thread of its own.
    #[must_use]
    pub fn changes(&self, most: Duration) -> OutputChanges {
        self.shared.noted.next(most)
    }
}
