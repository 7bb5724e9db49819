//! The watch itself, as this side needs it.

use muster_model::finding::SeenFinding;
use muster_model::ids::AttemptKey;
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rank of an attempt: where it runs.
#[allow(dead_code)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RankAt {
    /// Global rank.
    pub(super) rank: u32,
    /// Its node.
    pub(super) node: NodeName,
    /// Its GPUs there.
    pub(super) gpus: GpuSet,
}

/// An attempt that runs.
#[allow(dead_code)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Running {
    /// Which.
    pub(super) key: AttemptKey,
    /// When every rank was up.
    pub(super) started_at: Option<Time>,
    /// Its ranks.
    pub(super) ranks: Vec<RankAt>,
}

/// A row of figures.
#[derive(Debug)]
#[allow(dead_code)]
pub(super) struct Signals<'a> {
    pub(super) node: &'a NodeName,
    pub(super) at: Time,
    pub(super) columns: &'a [String],
    pub(super) gpus: &'a [f32],
    pub(super) host_columns: &'a [String],
    pub(super) host: &'a [f32],
}

/// A step of a rank.
#[derive(Debug)]
#[allow(dead_code)]
pub(super) struct StepSeen<'a> {
    pub(super) key: AttemptKey,
    pub(super) rank: u32,
    pub(super) at: Time,
    pub(super) step: u64,
    pub(super) t: Option<f64>,
    pub(super) stages: &'a BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct WatchConfig;

#[derive(Debug)]
pub(super) struct Watch;

#[allow(clippy::unused_self, clippy::needless_pass_by_ref_mut)]
impl Watch {
    pub(super) fn new(_: WatchConfig) -> Watch {
        Watch
    }
    pub(super) fn signals(&mut self, _: &Signals<'_>) {}
    pub(super) fn step(&mut self, _: &StepSeen<'_>) {}
    pub(super) fn output(&mut self, _: AttemptKey, _: u32, _: Time) {}
    pub(super) fn heard(&mut self, _: &NodeName, _: Time) {}
    pub(super) fn checkpointing(&mut self, _: AttemptKey, _: bool) {}
    pub(super) fn gone(&mut self, _: &NodeName) {}
    pub(super) fn look(&mut self, _: Time, _: &[Arc<Running>]) -> Vec<SeenFinding> {
        Vec::new()
    }
}
