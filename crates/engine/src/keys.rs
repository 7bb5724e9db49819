//! Requests that must not be done twice.

use crate::state::{KeyEntry, State};
use muster_model::command::Answer;
use muster_model::event::{Event, Record};
use muster_model::units::Time;
use std::collections::BTreeSet;

/// Keys kept at most: a bound on memory, not a guarantee; the guarantee is `keep_until`.
const KEYS_MAX: usize = 500_000;
/// Keys dropped at once when there are too many: looking for them reads all.
const DROPPED_AT_ONCE: usize = KEYS_MAX / 50;

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
        while let Some((until, key)) = self.index.keys.first().filter(|k| k.0 < r.at).cloned() {
            self.forget_key(until, key);
        }
        if self.index.keys.len() > KEYS_MAX {
            for (until, key) in oldest_of_largest(&self.index.keys, DROPPED_AT_ONCE) {
                self.forget_key(until, key);
            }
        }
    }

    fn forget_key(&mut self, until: Time, key: String) {
        // A key that was used again after its time has a newer entry.
        if self.keys.get(&key).is_some_and(|e| e.keep_until == until) {
            self.keys.remove(&key);
        }
        self.index.keys.remove(&(until, key));
    }
}

/// The oldest keys of the token that has most of them: one caller cannot push out the keys of the
/// others.
fn oldest_of_largest(keys: &BTreeSet<(Time, String)>, most: usize) -> Vec<(Time, String)> {
    fn owner(key: &str) -> &str {
        key.split_once('/').map_or(key, |(token, _)| token)
    }
    let mut owners: Vec<&str> = keys.iter().map(|(_, key)| owner(key)).collect();
    owners.sort_unstable();
    let Some(largest) = owners.chunk_by(|a, b| a == b).max_by_key(|of| of.len()) else {
        return Vec::new();
    };
    keys.iter().filter(|(_, key)| owner(key) == largest[0]).take(most).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_uses_most_keys_loses_the_oldest_of_their_own() {
        let key = |at: i64, key: &str| (Time(at), key.to_owned());
        let keys = BTreeSet::from([
            key(1, "small/old"),
            key(2, "large/a"),
            key(3, "large/b"),
            key(4, "small/new"),
            key(5, "large/c"),
        ]);
        assert_eq!(oldest_of_largest(&keys, 2), [key(2, "large/a"), key(3, "large/b")]);
        assert!(oldest_of_largest(&BTreeSet::new(), 2).is_empty());
    }
}
