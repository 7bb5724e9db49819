//! The watch over telemetry and steps: rows and steps in, news out.
//!
//! Pure: it looks at no clock and only uses the times it is given. What it remembers is bounded:
//! about a kilobyte for a GPU or a port and a hundred bytes for a rank. A row costs what is in it,
//! a look costs what runs.

mod active_findings;
mod fs;
mod gangs;
mod gpu;
mod job;
mod layout;
mod node;
mod peers;
mod port;
mod rank;
mod slow;
mod stalled;

pub use crate::config::WatchConfig;

use crate::config::ms;
use crate::detect::host;
use crate::detect::pace::{StageKind, stage_kind};
use crate::hazard::Precursors;
use active_findings::PendingFindings;
use job::Attempt;
use layout::Layouts;
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::finding::ObservedFinding;
use muster_model::ids::AttemptKey;
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::Time;
use node::Node;
use port::Port;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row of a node's telemetry.
#[derive(Debug, Clone, Copy)]
pub struct Signals<'a> {
    /// The node that reported it.
    pub node: &'a NodeName,
    /// When it was sampled.
    pub at: Time,
    /// Names of the figures of a GPU.
    pub columns: &'a [String],
    /// The figures, GPU by GPU; NaN where there is none.
    pub gpus: &'a [f32],
    /// Names of the figures of the host.
    pub host_columns: &'a [String],
    /// These figures; NaN where there is none.
    pub host: &'a [f32],
}

/// A step that a rank reported.
#[derive(Debug, Clone, Copy)]
pub struct StepObservation<'a> {
    /// The attempt the rank belongs to.
    pub key: AttemptKey,
    /// The global rank.
    pub rank: u32,
    /// When it was reported.
    pub at: Time,
    /// The step's number, as the rank counts.
    pub step: u64,
    /// How long it took, in seconds.
    pub t: Option<f64>,
    /// Of that, what its stages took.
    pub stages: &'a BTreeMap<String, f64>,
}

/// A rank and where it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankAt {
    /// The global rank.
    pub rank: u32,
    /// The node it runs on.
    pub node: NodeName,
    /// Its GPUs there.
    pub gpus: GpuSet,
}

/// An attempt that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Job and number of the attempt.
    pub key: AttemptKey,
    /// When all its ranks were up; none before.
    pub started_at: Option<Time>,
    /// Its ranks and where they run.
    pub ranks: Vec<RankAt>,
}

/// Attempts that are remembered.
const ATTEMPTS_MAX: usize = 65_536;
/// Names of stages that are remembered.
const STAGES_MAX: usize = 4096;
/// Stages of a step that are read.
const STAGES: usize = 64;
/// An attempt that did not run in so many looks is forgotten.
const LOOKS: u8 = 3;

/// Everything that is watched.
#[derive(Debug, Default)]
pub struct Watch {
    config: WatchConfig,
    layouts: Layouts,
    names: BTreeMap<NodeName, usize>,
    nodes: Vec<Option<Node>>,
    free: Vec<usize>,
    /// Changes whenever a node comes or goes.
    epoch: u64,
    rows: u64,
    storage: fs::Fleet,
    attempts: BTreeMap<AttemptKey, Attempt>,
    ranks: usize,
    stages: BTreeMap<String, StageKind>,
    news: PendingFindings,
}

impl Watch {
    /// A watch that has seen nothing yet.
    #[must_use]
    pub fn new(config: WatchConfig) -> Watch {
        Watch { config, ..Watch::default() }
    }

    /// A row of telemetry.
    pub fn signals(&mut self, s: &Signals<'_>) {
        let Some(i) = self.node(s.node) else { return };
        self.rows += 1;
        let rows = self.rows;
        let (c, news) = (&self.config, &mut self.news);
        let Some(node) = self.nodes.get_mut(i).and_then(Option::as_mut) else { return };
        node.note_row(rows, news);
        let Some(dt) = node.tick(s.at) else { return };
        if !s.columns.is_empty() {
            let layout = self.layouts.gpu(s.columns, node.gpu_layout.as_ref());
            node.gpu_layout = Some(layout);
            node.gpu_rows(c, s.gpus, s.at, dt);
            node.evaluate_gpus(c, s.at, news);
            node.evaluate_hazard(c, s.at, news);
        }
        if !s.host_columns.is_empty() {
            self.host(i, s, dt);
        }
    }

    fn host(&mut self, i: usize, s: &Signals<'_>, dt: f32) {
        let (c, news) = (&self.config, &mut self.news);
        let Some(node) = self.nodes.get_mut(i).and_then(Option::as_mut) else { return };
        let old = node.host_layout.as_ref();
        let layout = self.layouts.host(s.host_columns, old);
        if !old.is_some_and(|o| Arc::ptr_eq(o, &layout)) {
            let mut before = std::mem::take(&mut node.ports);
            for cols in &layout.ports {
                let kept = before.iter().position(|p| p.name == cols.name);
                let port = kept.map(|k| before.swap_remove(k));
                node.ports.push(port.unwrap_or_else(|| Port::new(cols.name.clone())));
            }
            node.mounts.iter().for_each(|m| self.storage.leave(m));
            node.mounts = layout.mounts.iter().map(|m| self.storage.join(&m.name)).collect();
            node.host_layout = Some(Arc::clone(&layout));
        }
        for (port, cols) in node.ports.iter_mut().zip(&layout.ports) {
            let row = cols.read(s.host);
            port.evaluate(c, &node.name, row, s.at, &mut node.findings, news);
        }
        for (mount, cols) in node.mounts.iter_mut().zip(&layout.mounts) {
            let figures = (cols.latency(s.host), cols.stalled(s.host));
            self.storage.take(c, mount, figures, (s.at, dt), news);
        }
        let stuck = f64::from(layout.dstate(s.host));
        node.stuck.add(stuck.is_finite().then_some(stuck >= 1.0), s.at);
        let stalls = node.mounts.iter().any(|m| m.stalled && self.storage.stalls(m.fs));
        let lasts = node.stuck.lasts(3, ms(c.stuck_for));
        let say = host::stuck(stuck, lasts, stalls).since(node.stuck.since());
        node.of_itself(FailureMode::KERNEL_STUCK, say, (s.at, ms(c.over_after)), news);
    }

    /// A node's agent was heard, whatever it said. `at` may be of another clock than its rows'.
    pub fn note_contact(&mut self, node: &NodeName, at: Time) {
        let Some(i) = self.node(node) else { return };
        let nodes = self.names.len() as u64;
        let Some(node) = self.nodes.get_mut(i).and_then(Option::as_mut) else { return };
        node.check_silence(&self.config, at, self.rows, nodes, &mut self.news);
    }

    /// A step of a rank.
    pub fn step(&mut self, s: &StepObservation<'_>) {
        let mut parts = rank::Parts::default();
        for (name, secs) in s.stages.iter().take(STAGES) {
            let kind = match self.stages.get(name) {
                Some(kind) => *kind,
                None => {
                    let kind = stage_kind(name);
                    if self.stages.len() < STAGES_MAX {
                        self.stages.insert(name.clone(), kind);
                    }
                    kind
                }
            };
            parts.add(kind, *secs);
        }
        let most = self.config.ranks_max;
        let Some(attempt) = self.attempt(s.key) else { return };
        let before = attempt.ranks.len();
        let room = most.saturating_sub(self.ranks);
        let Some(attempt) = self.attempts.get_mut(&s.key) else { return };
        attempt.step(s, parts, room);
        self.ranks += attempt.ranks.len() - before;
    }

    /// A rank wrote something.
    pub fn output(&mut self, key: AttemptKey, rank: u32, at: Time) {
        let _ = rank;
        if let Some(attempt) = self.attempt(key) {
            attempt.wrote(at);
        }
    }

    /// An attempt began or finished to write a checkpoint.
    pub fn checkpointing(&mut self, key: AttemptKey, under_way: bool) {
        if let Some(attempt) = self.attempt(key) {
            attempt.saving(under_way);
        }
    }

    /// A node is gone: what is known of it is forgotten, and no finding is called over by that.
    pub fn gone(&mut self, node: &NodeName) {
        let Some(i) = self.names.remove(node) else { return };
        if let Some(node) = self.nodes.get_mut(i).and_then(Option::take) {
            node.mounts.iter().for_each(|m| self.storage.leave(m));
        }
        self.free.push(i);
        self.epoch += 1;
    }

    /// A node went back into service: what was seen before it was repaired is not held against it.
    /// What is still so will be found anew.
    pub fn repaired(&mut self, node: &NodeName) {
        let i = self.names.get(node).copied();
        if let Some(node) = i.and_then(|i| self.nodes.get_mut(i)).and_then(Option::as_mut) {
            node.repaired();
        }
    }

    /// What is new: findings that became true, that became worse, and that are over. `running`
    /// are all attempts that run; an unchanged one should be the same `Arc` as before.
    pub fn collect_findings(
        &mut self,
        now: Time,
        running: &[Arc<Running>],
    ) -> Vec<ObservedFinding> {
        for attempt in self.attempts.values_mut() {
            attempt.missed = attempt.missed.saturating_add(1);
        }
        for r in running {
            if self.attempt(r.key).is_none() {
                continue;
            }
            let Some(attempt) = self.attempts.get_mut(&r.key) else { continue };
            attempt.missed = 0;
            let stale = !attempt.running.as_ref().is_some_and(|o| Arc::ptr_eq(o, r));
            if stale || attempt.epoch != self.epoch {
                attempt.place(r, &self.names, self.epoch);
            }
            let mut view = gangs::View {
                config: &self.config,
                nodes: &mut self.nodes,
                storage: &self.storage,
                news: &mut self.news,
                fresh: None,
            };
            attempt.evaluate_attempt(now, &mut view);
        }
        let news = &mut self.news;
        let mut ranks = 0;
        self.attempts.retain(|_, a| {
            // A remark about a job ends with it; what was found of a node or GPU does not.
            if a.missed == LOOKS {
                a.findings.end(news, |seen| matches!(seen.entity, Entity::Job(_)));
            }
            let stays = a.missed < LOOKS;
            ranks += if stays { a.ranks.len() } else { 0 };
            stays
        });
        self.ranks = ranks;
        self.news.take()
    }

    /// What the figures of a GPU say of whether it will fail, for [`crate::hazard`]: its caller
    /// adds what only the log knows, such as age and repairs.
    #[must_use]
    pub fn precursors(&self, node: &NodeName, gpu: u32) -> Option<Precursors> {
        let node = self.nodes.get(*self.names.get(node)?)?.as_ref()?;
        node.gpus.get(gpu as usize).filter(|g| g.reported).map(gpu::Gpu::precursors)
    }

    /// Nodes and ranks that are remembered, for metrics.
    #[must_use]
    pub fn remembered(&self) -> (usize, usize) {
        (self.names.len(), self.ranks)
    }

    fn node(&mut self, name: &NodeName) -> Option<usize> {
        if let Some(i) = self.names.get(name) {
            return Some(*i);
        }
        if self.names.len() >= self.config.nodes_max {
            return None;
        }
        let node = Some(Node::new(name.clone()));
        let i = if let Some(i) = self.free.pop() {
            self.nodes[i] = node;
            i
        } else {
            self.nodes.push(node);
            self.nodes.len() - 1
        };
        self.names.insert(name.clone(), i);
        self.epoch += 1;
        Some(i)
    }

    fn attempt(&mut self, key: AttemptKey) -> Option<&mut Attempt> {
        if !self.attempts.contains_key(&key) {
            if self.attempts.len() >= ATTEMPTS_MAX {
                return None;
            }
            self.attempts.insert(key, Attempt::new(key));
        }
        self.attempts.get_mut(&key)
    }
}
