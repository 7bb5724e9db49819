//! Step times of jobs on their way to the history: those of all ranks of an attempt put together, so
//! that many ranks are one sample.

use muster_history::Cell;
use muster_model::ids::AttemptKey;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The metric: how long a step took, in milliseconds.
pub const STEP_TIME: &str = "step_time";
/// Attempts whose steps wait at once.
const MOST: usize = 65_536;
/// Nothing takes longer: what says more makes no sense.
const LONGEST_S: f64 = 1e7;
/// Numbers of one name of the store.
const OF_NAME: u32 = 64;

/// Steps by attempt, since they were last taken.
pub(super) type StepCells = BTreeMap<AttemptKey, Cell>;

/// Steps that are to be stored.
#[derive(Debug, Default)]
pub(super) struct WaitingSteps(Mutex<StepCells>);

/// The cell of one step that took so many seconds; none where that makes no sense.
pub(super) fn cell(seconds: f64) -> Option<Cell> {
    // A number for people: the last digits are of no matter.
    #[allow(clippy::cast_possible_truncation)]
    let ms = (seconds * 1e3) as f32;
    (0.0..LONGEST_S).contains(&seconds).then(|| Cell::of(ms))
}

impl WaitingSteps {
    /// A rank made a step.
    pub(super) fn note(&self, key: AttemptKey, seconds: f64) {
        let Some(cell) = cell(seconds) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST || all.contains_key(&key) {
            all.entry(key).or_insert(Cell::GAP).merge(&cell);
        }
    }

    /// All that wait.
    pub(super) fn take(&self) -> StepCells {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where the store has the steps with this number: a name that no node can have, and a part of it.
pub(super) fn place(line: u32) -> (String, u32) {
    (format!("steps/{}", line / OF_NAME), line % OF_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::JobId;
    use muster_model::names::NodeName;

    #[test]
    fn steps_of_all_ranks_are_put_together_and_taken_once() {
        let steps = WaitingSteps::default();
        let key = |job| AttemptKey { job: JobId(job), attempt: 1 };
        for seconds in [0.5, 0.25, f64::NAN, -1.0, f64::INFINITY, 1e9] {
            steps.note(key(1), seconds);
        }
        steps.note(key(2), 2.0);
        let all = steps.take();
        let one = all[&key(1)];
        assert_eq!((one.min, one.mean(), one.max, one.count), (250.0, Some(375.0), 500.0, 2));
        assert_eq!((all.len(), all[&key(2)].max), (2, 2000.0));
        assert!(steps.take().is_empty());
    }

    #[test]
    fn no_node_has_the_name_of_steps() {
        assert_eq!((place(0), place(65)), (("steps/0".into(), 0), ("steps/1".into(), 1)));
        assert!(place(7).0.parse::<NodeName>().is_err());
    }
}
