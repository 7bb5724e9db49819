//! Requests that must not be done twice.

use crate::state::{KeyEntry, State};
use muster_model::command::Answer;
use muster_model::event::{Event, Record};

/// Keys kept at most: a bound on memory, not a guarantee; the guarantee is `keep_until`.
const KEYS_MAX: usize = 500_000;

impl State {
    pub(crate) fn remember_key(&mut self, r: &Record) {
        let Some(k) = &r.key else { return };
        let answer = match &r.event {
            Event::JobSubmitted { id, array, .. } => Answer::Submitted {
                first: *id,
                count: u32::try_from(array.len().max(1)).unwrap_or(u32::MAX),
            },
            Event::RunbookStarted { run } => Answer::Begun { id: run.id },
            _ => Answer::Done,
        };
        let entry = KeyEntry {
            fingerprint: k.fingerprint.clone(),
            answer,
            seq: r.seq,
            keep_until: k.keep_until,
        };
        self.keys.insert(k.key.clone(), entry);
        self.index.keys.insert((k.keep_until, k.key.clone()));
        while let Some((until, key)) = self.index.keys.first().cloned() {
            if until >= r.at && self.index.keys.len() <= KEYS_MAX {
                break;
            }
            self.index.keys.pop_first();
            // A key that was used again after its time has a newer entry.
            if self.keys.get(&key).is_some_and(|e| e.keep_until == until) {
                self.keys.remove(&key);
            }
        }
    }
}
