//! What became of all GPUs: the fold over the log, which is written down, and beside it what GPUs
//! reported of themselves.

use super::{Inner, received};
use crate::follower::{Follower, PersistedProjection};
use crate::telemetry::Columns;
use muster_engine::State;
use muster_metering::{
    AttemptObservation, Counts, Fleet, Step, Supply, TelemetryTotals, Work, no_observation,
};
use muster_model::event::Record;
use muster_model::ids::{AttemptKey, Seq};
use muster_model::names::NodeName;
use muster_model::projection::Projection;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use tokio_util::sync::CancellationToken;

/// Batches of records that somebody who asks waits for.
pub(super) const PATIENCE: usize = 32;
/// Between two looks at what GPUs reported.
const LOOK: Span = Span::mins(1);
/// Between two looks at the last day.
const GAUGE: Span = Span::secs(10);
/// What is older says nothing of now.
const FRESH: Span = Span::secs(90);
/// What is older is forgotten.
const STALE: Span = Span::mins(10);

/// The fold, and when it was last looked at.
pub(super) struct Reading {
    inner: Arc<Inner>,
    pub(super) fleet: Fleet,
    looked_at: Option<Time>,
    /// How often GPUs were looked at.
    looks: u64,
    gauged_at: Option<Time>,
}

/// Keeps up with the log, looks at what GPUs reported, and has both written down.
pub(super) fn follow(
    inner: Arc<Inner>,
    file: Option<PathBuf>,
    stop: CancellationToken,
) -> Arc<Follower<Reading>> {
    let brain = inner.brain.clone();
    let reading = |fleet| Reading { inner, fleet, looked_at: None, looks: 0, gauged_at: None };
    Follower::start_kept("metering-fleet", brain, file, reading, stop)
}

impl PersistedProjection for Reading {
    type Fold = Fleet;

    fn fold(&self) -> &Fleet {
        &self.fleet
    }

    fn place(fleet: &Fleet) -> Seq {
        fleet.seq()
    }

    fn samples(&self) -> u64 {
        self.looks
    }
}

impl Reading {
    /// Takes a sample of what GPUs report: the first one as soon as one of them does, so that no
    /// report lacks what others show already.
    pub(super) fn look(&mut self, now: Time) {
        if self.looked_at.is_some_and(|at| now.since(at) < LOOK) {
            return;
        }
        let seen = self.inner.lasts().sum_telemetry(now);
        if let Some(seen) = seen {
            self.looked_at = Some(now);
            self.looks += 1;
            self.fleet.saw(now, &seen);
        }
    }
}

impl Projection for Reading {
    fn apply(&mut self, record: &Record) {
        let inner = &self.inner;
        self.fleet.apply(record, &|key| ear(inner, key));
        inner.tally.count(record, &inner.brain);
    }

    fn begin_anew(&mut self, _: Seq) -> Seq {
        // What is missing cannot be reported: it begins with the site as it stands.
        self.fleet = self.inner.brain.read(|s| {
            let jobs = s.jobs.values().map(|j| &**j);
            Fleet::begin(s.seq, s.at, jobs, s.nodes.values().map(|n| &**n))
        });
        self.fleet.seq()
    }

    fn wake(&mut self, now: Time, at_end: bool) -> Option<Time> {
        // The days before it come first.
        if at_end {
            self.look(now);
        }
        if at_end && self.gauged_at.is_none_or(|at| now.since(at) >= GAUGE) {
            self.gauged_at = Some(now);
            let gauges = Arc::new(gauges(&self.fleet, now));
            *self.inner.gauges.lock().unwrap_or_else(PoisonError::into_inner) = gauges;
        }
        self.gauged_at.map(|at| at + GAUGE)
    }
}

/// When an attempt was placed, as far as the state knows.
fn placed(s: &State, key: AttemptKey) -> Option<Time> {
    let job = s.jobs.get(&key.job)?;
    let current = job.attempt.as_ref().filter(|a| a.no == key.attempt).map(|a| a.placed_at);
    current.or_else(|| job.past.iter().find(|p| p.no == key.attempt).map(|p| p.placed_at))
}

/// What is known of an attempt beside the log. Its first step only when this server was there.
pub(super) fn ear(inner: &Inner, key: AttemptKey) -> Option<AttemptObservation> {
    let whole = inner.brain.read(|s| placed(s, key)).is_some_and(|at| at >= inner.since);
    let now = inner.brain.now();
    let attempts = inner.attempts.lock().unwrap_or_else(PoisonError::into_inner);
    let reported = attempts.of(key.job);
    let (_, a) = reported.iter().find(|(no, _)| *no == key.attempt)?;
    Some(AttemptObservation { working_at: a.first().filter(|_| whole), idle: a.idle(now) })
}

/// What became of GPUs in the last day.
#[derive(Debug, Clone, Default)]
pub struct Gauges {
    /// All projects together.
    pub day: Work,
    /// The same by project.
    pub projects: BTreeMap<String, Work>,
    /// All kinds of GPUs together.
    pub supply: Supply,
    /// GPUs as they stand.
    pub counts: Counts,
}

fn gauges(fleet: &Fleet, now: Time) -> Gauges {
    // Whole hours: the last 23 and what has passed of this one.
    let from = now - Span::hours(23);
    let r = fleet.report(now, (from, now), Step::Hour, None, &no_observation);
    let mut out = Gauges { projects: r.projects, counts: fleet.supply(), ..Gauges::default() };
    for row in &r.rows {
        out.day.add(&row.work);
        row.supply.values().for_each(|s| out.supply.add(s));
    }
    out
}

/// What a node's GPUs last reported.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    at: Time,
    seen: TelemetryTotals,
}

/// What all reported last.
#[derive(Debug, Default)]
pub(super) struct LastReports(BTreeMap<NodeName, Last>);

/// How telemetry stands now.
#[derive(Debug, Clone, Copy, Default)]
pub struct TelemetryStatus {
    /// Nodes that reported their GPUs lately.
    pub nodes: u64,
    /// Nodes that did before and do not any more.
    pub silent: u64,
    /// The age of the oldest of those that do.
    pub oldest: Span,
    /// What they reported together.
    pub seen: TelemetryTotals,
}

impl LastReports {
    pub(super) fn row(&mut self, node: &NodeName, now: Time, columns: &Columns, values: &[f32]) {
        let place = |name: &str| columns.iter().position(|c| c == name);
        let (util, power) = (place("util"), place("power"));
        let mut seen = TelemetryTotals { looks: 1, ..TelemetryTotals::default() };
        for gpu in values.chunks(columns.len().max(1)) {
            let get = |at: Option<usize>, times: f32| {
                let v = f64::from(*gpu.get(at?)? * times);
                // A float fits when it is in range; its fraction is of no matter.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                (0.0..1e9).contains(&v).then_some(v as u64)
            };
            if let Some(v) = get(util, 10.0) {
                seen.util_gpus += 1;
                seen.util += v.min(1000);
            }
            if let Some(v) = get(power, 1000.0) {
                seen.power_gpus += 1;
                seen.power += u128::from(v);
            }
        }
        self.0.insert(node.clone(), Last { at: now, seen });
    }

    /// How it stands now.
    pub(super) fn telemetry_status(&self, now: Time) -> TelemetryStatus {
        let mut out = TelemetryStatus::default();
        for l in self.0.values() {
            let age = now.since(l.at);
            if age > FRESH {
                out.silent += 1;
                continue;
            }
            out.nodes += 1;
            out.oldest = out.oldest.max(age);
            out.seen.add(&l.seen);
        }
        out.seen.looks = 1;
        out
    }

    /// One look at all that was reported lately; none when nothing was.
    fn sum_telemetry(&mut self, now: Time) -> Option<TelemetryTotals> {
        self.0.retain(|_, l| now.since(l.at) <= STALE);
        let t = self.telemetry_status(now);
        (t.seen.util_gpus + t.seen.power_gpus > 0).then_some(t.seen)
    }
}

/// What is heard of attempts that go on, for one report.
pub(super) fn hearing(inner: &Inner) -> BTreeMap<AttemptKey, AttemptObservation> {
    let now = inner.brain.now();
    let all: BTreeMap<AttemptKey, AttemptObservation> = {
        let attempts = inner.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.going().map(|(k, a)| (k, observation_of(a, now))).collect()
    };
    inner.brain.read(|s| {
        let whole = |k: AttemptKey| placed(s, k).is_some_and(|at| at >= inner.since);
        all.into_iter()
            .map(|(k, h)| {
                (k, AttemptObservation { working_at: h.working_at.filter(|_| whole(k)), ..h })
            })
            .collect()
    })
}

fn observation_of(a: &received::Attempt, now: Time) -> AttemptObservation {
    AttemptObservation { working_at: a.first(), idle: a.idle(now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gpus_report_is_added_up_as_long_as_it_is_fresh() {
        let columns: Columns = ["power", "util"].map(String::from).to_vec().into();
        let mut all = LastReports::default();
        assert!(all.sum_telemetry(Time(0)).is_none());
        let (a, b): (NodeName, NodeName) = ("a".parse().unwrap(), "b".parse().unwrap());
        all.row(&a, Time(0), &columns, &[100.0, 50.0, f32::NAN, 150.0]);
        all.row(&b, Time(80_000), &columns, &[300.0, f32::NAN]);
        let s = all.sum_telemetry(Time(85_000)).unwrap();
        assert_eq!((s.looks, s.util_gpus, s.util), (1, 2, 1500), "no GPU is more than busy");
        assert_eq!((s.power_gpus, s.power), (2, 400_000));
        let t = all.telemetry_status(Time(100_000));
        assert_eq!((t.nodes, t.silent, t.oldest), (1, 1, Span::secs(20)));
        assert_eq!(all.sum_telemetry(Time(10_000_000)), None);
        assert!(all.0.is_empty());
    }
}
