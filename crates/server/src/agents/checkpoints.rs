//! Between what ranks say of checkpoints and the log: the newest is written down, and no job can
//! fill the log with them.

use muster_model::command::Command;
use muster_model::ids::AttemptKey;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// Checkpoints of one attempt that are written down at once.
pub(super) const BURST: u64 = 6;
/// And then one in this time.
pub(super) const EVERY: Span = Span::secs(10);

/// A checkpoint that was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written {
    pub(super) step: Option<u64>,
    pub(super) path: Option<String>,
    pub(super) bytes: Option<u64>,
    pub(super) blocked_ms: Option<u64>,
}

impl Written {
    pub(super) fn command(self, key: AttemptKey) -> Command {
        let Written { step, path, bytes, blocked_ms } = self;
        Command::CheckpointDone { key, step, path, bytes, blocked_ms }
    }
}

#[derive(Debug, Default)]
struct ReportedCheckpoint {
    /// The last one that a rank reported.
    last: Option<(Option<u64>, Option<String>)>,
    /// The newest that is not on its way to the log, and when it may be.
    waiting: Option<(Written, Time)>,
}

/// What was sent on one connection.
#[derive(Debug, Default)]
pub(super) struct Checkpoints(BTreeMap<AttemptKey, ReportedCheckpoint>);

impl Checkpoints {
    /// Every rank may report the same checkpoint.
    pub(super) fn is_repeat(&mut self, key: AttemptKey, w: &Written) -> bool {
        let reported = (w.step, w.path.clone());
        let last = &mut self.0.entry(key).or_default().last;
        let same = last.as_ref() == Some(&reported) && w.step.is_some();
        *last = Some(reported);
        same
    }

    /// The newest of an attempt, with one that waits: it waits no more.
    pub(super) fn newest(&mut self, key: AttemptKey, w: Written) -> Written {
        match self.end_waiting(key) {
            Some(waiting) if waiting.step > w.step => waiting,
            _ => w,
        }
    }

    /// Written down at `due`, unless a newer one takes its place.
    pub(super) fn wait(&mut self, key: AttemptKey, w: Written, due: Time) {
        self.0.entry(key).or_default().waiting = Some((w, due));
    }

    /// When one that waits is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.values().filter_map(|t| t.waiting.as_ref().map(|(_, due)| *due)).min()
    }

    /// Those that are due.
    pub(super) fn due(&mut self, now: Time) -> Vec<(AttemptKey, Written)> {
        let is_due = |(key, reported): (&AttemptKey, &ReportedCheckpoint)| {
            reported.waiting.as_ref().filter(|(_, due)| *due <= now).map(|_| *key)
        };
        let keys: Vec<AttemptKey> = self.0.iter().filter_map(is_due).collect();
        keys.into_iter().filter_map(|k| Some((k, self.end_waiting(k)?))).collect()
    }

    /// The one that waits, which waits no more: the attempt is about to end.
    pub(super) fn end_waiting(&mut self, key: AttemptKey) -> Option<Written> {
        self.0.get_mut(&key)?.waiting.take().map(|(w, _)| w)
    }

    pub(super) fn remove(&mut self, key: AttemptKey) {
        self.0.remove(&key);
    }

    /// All that wait: the connection ends.
    pub(super) fn drain(&mut self) -> Vec<(AttemptKey, Written)> {
        self.due(Time(i64::MAX))
    }
}
