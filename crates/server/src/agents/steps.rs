//! How far each rank has come, as it says itself. Kept in memory only.

use super::checkpoints::{BURST, EVERY};
use super::pace::Pace;
use muster_link::messages::ProgressReport;
use muster_model::ids::AttemptKey;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, HashMap};

/// The newest step of a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct RankStep {
    /// Global rank.
    pub rank: u32,
    /// When it was reported.
    pub at: Time,
    /// Step number.
    pub step: u64,
    /// Seconds it took.
    pub t: Option<f64>,
    /// Seconds by stage.
    pub stages: BTreeMap<String, f64>,
    /// The loss at that step, if the job reports it.
    pub loss: Option<f64>,
}

/// Stages of a step that are kept.
const STAGES: usize = 16;

/// Stages as far as they are kept.
pub(super) fn bounded(stages: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let short = stages.iter().filter(|(k, _)| k.len() <= 64);
    short.take(STAGES).map(|(k, v)| (k.clone(), *v)).collect()
}

#[derive(Debug, Default)]
struct OneAttempt {
    ranks: BTreeMap<u32, RankStep>,
    /// How often its checkpoints are written down, whichever node reports them.
    checkpoints: Pace,
}

#[derive(Debug, Default)]
pub(super) struct Steps(HashMap<AttemptKey, OneAttempt>);

impl Steps {
    pub(super) fn note(&mut self, key: AttemptKey, rank: u32, at: Time, report: ProgressReport) {
        let ProgressReport::Step { step, t, stages, loss } = report else { return };
        let stages = bounded(&stages);
        let step = RankStep { rank, at, step, t, stages, loss };
        self.0.entry(key).or_default().ranks.insert(rank, step);
    }

    pub(super) fn of(&self, key: AttemptKey) -> Vec<RankStep> {
        self.0.get(&key).map(|a| a.ranks.values().cloned().collect()).unwrap_or_default()
    }

    /// How long the next checkpoint of an attempt has to wait; none: it is written down now. One
    /// that somebody waits for hardly waits.
    pub(super) fn wait_for_checkpoint(
        &mut self,
        key: AttemptKey,
        now: Time,
        wanted: bool,
    ) -> Option<Span> {
        let burst = if wanted { 2 * BURST } else { BURST };
        self.0.entry(key).or_default().checkpoints.wait(now, EVERY, burst)
    }

    pub(super) fn keys(&self) -> Vec<AttemptKey> {
        self.0.keys().copied().collect()
    }

    pub(super) fn remove(&mut self, key: AttemptKey) {
        self.0.remove(&key);
    }
}
