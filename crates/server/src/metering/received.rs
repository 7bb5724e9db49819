//! What attempts reported since this server began: their steps, and what their GPUs did. In memory
//! only, and bounded.

use crate::telemetry::Columns;
use muster_engine::State;
use muster_metering::{GpuRow, GpuUsage, JobProgress, Pace, Usage};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{PastAttempt, SlotState};
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// Attempts that are over and still remembered; the oldest jobs go first.
const OVER: usize = 20_000;
/// A longer step, in seconds, is garbage.
const STEP_MAX: f64 = 1e6;

/// How long a step took, in seconds: what was reported, or else its stages together; none where neither was.
pub(crate) fn step_seconds(took: Option<f64>, stages: &BTreeMap<String, f64>) -> Option<f64> {
    took.or_else(|| Some(stages.values().sum()).filter(|s: &f64| *s > 0.0))
}

/// Seconds as microseconds, when they make sense.
pub(super) fn micros(seconds: f64) -> Option<u64> {
    let sound = (0.0..STEP_MAX).contains(&seconds);
    sound
        .then(|| std::time::Duration::from_secs_f64(seconds))
        .and_then(|d| u64::try_from(d.as_micros()).ok())
}

/// What one attempt reported. Once it is over only the results are kept.
#[derive(Debug)]
pub(super) enum Attempt {
    Going { progress: Box<JobProgress>, usage: Box<Usage> },
    Over(Box<AttemptSummary>),
}

/// What is kept of an attempt that is over.
#[derive(Debug)]
pub(super) struct AttemptSummary {
    first: Option<Time>,
    pace: Option<Pace>,
    used: Option<GpuUsage>,
    idle: Vec<(Time, Time)>,
}

impl Default for Attempt {
    fn default() -> Attempt {
        Attempt::Going { progress: Box::default(), usage: Box::default() }
    }
}

impl Attempt {
    pub(super) fn first(&self) -> Option<Time> {
        match self {
            Attempt::Going { progress, .. } => progress.first(),
            Attempt::Over(o) => o.first,
        }
    }
    pub(super) fn pace(&self) -> Option<Pace> {
        match self {
            Attempt::Going { progress, .. } => progress.pace(),
            Attempt::Over(o) => o.pace.clone(),
        }
    }
    pub(super) fn used(&self) -> Option<GpuUsage> {
        match self {
            Attempt::Going { usage, .. } => usage.used(),
            Attempt::Over(o) => o.used.clone(),
        }
    }
    /// When nothing was done: by its own word, or by its GPUs when it has none.
    pub(super) fn idle(&self, now: Time) -> Vec<(Time, Time)> {
        match self {
            Attempt::Going { progress, .. } if progress.bound().is_some() => progress.idle(now),
            Attempt::Going { usage, .. } => usage.idle(now),
            Attempt::Over(o) => o.idle.clone(),
        }
    }
    fn close(&mut self, at: Time) {
        if matches!(self, Attempt::Going { .. }) {
            *self = Attempt::Over(Box::new(AttemptSummary {
                first: self.first(),
                pace: self.pace(),
                used: self.used(),
                idle: self.idle(at),
            }));
        }
    }
}

/// All attempts that were heard of.
#[derive(Debug, Default)]
pub(super) struct Attempts(BTreeMap<AttemptKey, Attempt>);

impl Attempts {
    pub(super) fn step(
        &mut self,
        key: AttemptKey,
        rank: u32,
        at: Time,
        step: u64,
        t: Option<f64>,
        stages: &BTreeMap<String, f64>,
    ) {
        let Attempt::Going { progress, .. } = self.0.entry(key).or_default() else { return };
        let stages = stages.iter().filter_map(|(name, s)| Some((name.clone(), micros(*s)?)));
        progress.step(rank, at, step, t.and_then(micros), stages);
    }

    pub(super) fn checkpoint(&mut self, key: AttemptKey, at: Time, blocked: Span) {
        if let Some(Attempt::Going { progress, .. }) = self.0.get_mut(&key) {
            progress.checkpoint(at, blocked);
        }
    }

    pub(super) fn row(
        &mut self,
        node: &NodeName,
        at: Time,
        columns: &Columns,
        values: &[f32],
        held: &[(AttemptKey, GpuSet)],
    ) {
        let width = columns.len().max(1);
        let place = |name: &str| columns.iter().position(|c| c == name);
        let [util, sm, tensor, dram, memory, power, energy] =
            ["util", "sm_active", "tensor_active", "dram_active", "mem_used", "power", "energy"]
                .map(place);
        let row = |gpu: u32| {
            let from = usize::try_from(gpu).ok()?.checked_mul(width)?;
            let row = values.get(from..from.checked_add(width)?)?;
            // What a device does not report is not a number.
            let get = |at: Option<usize>, times: f64| {
                let v = f64::from(*row.get(at?)?) * times;
                // A float fits when it is in range; its fraction is of no matter.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                (0.0..1e15).contains(&v).then_some(v as u64)
            };
            let share = |at| get(at, 10.0).and_then(|v| u32::try_from(v).ok());
            Some((
                gpu,
                GpuRow {
                    util: share(util),
                    sm: share(sm),
                    tensor: share(tensor),
                    dram: share(dram),
                    memory: get(memory, 1.0),
                    power: get(power, 1000.0),
                    energy: get(energy, 1.0),
                },
            ))
        };
        for (key, gpus) in held {
            let Attempt::Going { usage, .. } = self.0.entry(*key).or_default() else { continue };
            let rows: Vec<(u32, GpuRow)> = gpus.iter().filter_map(row).collect();
            usage.row(node, at, &rows);
        }
    }

    /// What the attempts of a job reported, by their numbers.
    pub(super) fn of(&self, job: JobId) -> Vec<(u32, &Attempt)> {
        let all = AttemptKey { job, attempt: 0 }..=AttemptKey { job, attempt: u32::MAX };
        self.0.range(all).map(|(k, a)| (k.attempt, a)).collect()
    }

    /// Those that go on.
    pub(super) fn going(&self) -> impl Iterator<Item = (AttemptKey, &Attempt)> {
        let going = self.0.iter().filter(|(_, a)| matches!(a, Attempt::Going { .. }));
        going.map(|(k, a)| (*k, a))
    }

    /// Closes what is over and forgets what the site has forgotten.
    pub(super) fn tidy(&mut self, s: &State) {
        self.0.retain(|key, _| s.jobs.contains_key(&key.job));
        let mut over = 0;
        for (key, a) in &mut self.0 {
            let Some(job) = s.jobs.get(&key.job) else { continue };
            if job.attempt_key() == Some(*key) {
                continue;
            }
            over += 1;
            let past = job.past.iter().find(|p| p.no == key.attempt);
            a.close(past.map_or(s.at, PastAttempt::freed));
        }
        while over > OVER {
            let first = self.0.iter().find(|(_, a)| matches!(a, Attempt::Over(_)));
            let Some(key) = first.map(|(k, _)| *k) else { return };
            self.0.remove(&key);
            over -= 1;
        }
    }
}

/// GPUs of attempts on a node that have all their ranks up and are not being stopped.
pub(super) fn held(s: &State, node: &NodeName) -> Vec<(AttemptKey, GpuSet)> {
    let mut out = Vec::new();
    for job in s.attempts_on(node) {
        let (Some(key), Some(a)) = (job.attempt_key(), &job.attempt) else { continue };
        if a.stop.is_some() || a.started_at.is_none() {
            continue;
        }
        let slots = a.placement.slots.iter().zip(&a.slots);
        let here = slots.filter(|(s, state)| s.node == *node && **state == SlotState::Running);
        let gpus = here.fold(GpuSet::EMPTY, |set, (s, _)| set.or(s.gpus));
        if !gpus.is_empty() {
            out.push((key, gpus));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> AttemptKey {
        AttemptKey { job: JobId(1), attempt: 2 }
    }

    #[test]
    fn figures_of_a_row_go_to_whom_they_belong() {
        let mut all = Attempts::default();
        let columns: Columns = ["power", "util"].map(String::from).to_vec().into();
        let node: NodeName = "n1".parse().unwrap();
        let values = [100.0, 50.0, 300.5, f32::NAN, 700.0, 99.96];
        all.row(&node, Time(5), &columns, &values, &[(key(), GpuSet(0b1110))]);
        let reported = all.of(JobId(1));
        assert_eq!(reported.len(), 1);
        let used = reported[0].1.used().unwrap();
        assert_eq!((used.gpus, used.rows), (2, 2), "GPU 3 is not in the row");
        assert_eq!((used.util, used.power_mw), (Some(999), Some(500_250)));
        assert_eq!((used.memory_peak, used.sm), (None, None), "columns that are not there");
        assert!(all.of(JobId(2)).is_empty());
    }

    #[test]
    fn lengths_that_make_no_sense_are_left_out() {
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e9] {
            assert_eq!(micros(bad), None, "{bad}");
        }
        assert_eq!(micros(0.25), Some(250_000));
        let mut all = Attempts::default();
        let stages = [("read".to_string(), f64::NAN), ("compute".to_string(), 0.5)].into();
        all.step(key(), 0, Time(1), 1, Some(f64::INFINITY), &stages);
        let pace = all.of(JobId(1))[0].1.pace().unwrap();
        assert_eq!(pace.stages, [("compute".to_string(), 500_000)]);
    }

    #[test]
    fn an_attempt_that_is_over_keeps_its_results() {
        let mut all = Attempts::default();
        all.step(key(), 0, Time(1000), 1, Some(0.5), &BTreeMap::new());
        let before = all.of(JobId(1))[0].1.pace();
        all.0.get_mut(&key()).unwrap().close(Time(2000));
        assert_eq!(all.of(JobId(1))[0].1.pace(), before);
        all.step(key(), 0, Time(3000), 2, Some(0.5), &BTreeMap::new());
        assert_eq!(all.of(JobId(1))[0].1.pace(), before, "what comes later is not its");
    }
}
