//! What follows from how often hardware fails here: how often a gang should save its work.

use crate::Engine;
use crate::state::State;
use muster_health::{Rate, checkpoint_every};
use muster_model::event::Event;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Job, Verdict};
use muster_model::names::NodeName;
use muster_model::node::{Node, NodeRole, Stage};
use muster_model::placement::Slot;
use muster_model::topology::Level;
use muster_model::units::{Span, Time};
use muster_scheduler::NodeFacts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Spare nodes: how many could step in now, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpareCount {
    /// Those that could step in now.
    pub ready: u32,
    /// All of them.
    pub all: u32,
}

impl State {
    /// Could this node step in for another one now: it is a spare, nothing keeps work from it but that,
    /// and nothing runs there.
    #[must_use]
    pub fn is_ready_spare(&self, n: &Node) -> bool {
        let free = n.breaker.is_none() && n.qualifying.is_none();
        let spare = n.role == NodeRole::Spare && serves(n) && free;
        spare && self.attempts_on(&n.name).next().is_none()
    }

    /// Spares by pool; pools without any are not there.
    #[must_use]
    pub fn spares(&self) -> BTreeMap<String, SpareCount> {
        let mut out: BTreeMap<String, SpareCount> = BTreeMap::new();
        for n in self.index.spares.iter().filter_map(|n| self.nodes.get(n)) {
            let of = out.entry(n.pool().to_owned()).or_default();
            of.ready += u32::from(self.is_ready_spare(n));
            of.all += 1;
        }
        out
    }

    /// How often hardware interrupts what runs on a node: what was seen here, and what is
    /// assumed as long as that is little.
    #[must_use]
    pub fn failure_rate(&self) -> Rate {
        let p = &self.policy.reliability;
        let prior = Rate(u64::from(p.failures_per_million_node_days));
        Rate::estimate(&self.exposure, prior, u64::from(p.weight))
    }

    /// How often the next attempt of a job should write a checkpoint, if it leaves that to the
    /// site.
    #[must_use]
    pub fn checkpoint_every(&self, job: &Job) -> Option<Span> {
        let spec = job.spec.checkpoint.as_ref()?;
        if spec.interval.as_deref() != Some("auto") {
            return None;
        }
        let nodes = job.groups.iter().map(|g| g.nodes).sum();
        let reported = job.checkpoint.as_ref().and_then(|c| c.blocked_ms).map(Span);
        let cost = reported.unwrap_or(self.policy.reliability.checkpoint_cost);
        Some(checkpoint_every(cost, self.failure_rate().mtbf(nodes)))
    }

    /// An attempt is over: so long it stood in the rain.
    pub(crate) fn exposed(&mut self, key: &AttemptKey, verdict: Verdict, at: Time) {
        let Some(a) = self.jobs.get(&key.job).and_then(|j| j.attempt.as_ref()) else { return };
        let nodes = u32::try_from(a.placement.slots.len()).unwrap_or(u32::MAX);
        let up = a.started_at.map(|t| at.since(t)).unwrap_or_default();
        self.exposure.note(nodes, up, verdict == Verdict::Infrastructure);
    }
}

/// Does nothing keep work from a node but what it is held for?
fn serves(n: &Node) -> bool {
    let ready = n.stage == Stage::Ready && n.reachable && !n.protected;
    ready && n.cordon.is_none() && n.orphans.is_empty() && n.role != NodeRole::Suspect
}

impl Engine {
    /// A gang that lost nodes to hardware or a drain waits although there are spares by now: they
    /// step in for ordinary nodes that are out of service, which are the spares once they are back.
    /// Returns whether any did.
    pub(crate) fn replace_nodes_with_spares(&mut self) -> bool {
        let s = &self.state;
        let waits = |id: &JobId| {
            let job = s.jobs.get(id)?;
            let queued = job.reserved_start.is_none() && s.index.cluster.queue.get(*id).is_some();
            let nodes = || job.groups.iter().map(|g| g.nodes as usize).sum::<usize>();
            let t = &job.spec.topology;
            let level = t.required.or(t.segment.map(|_| Level::Nvlink));
            queued.then(|| (nodes(), level))
        };
        let waiting = s.index.interrupted.iter().find_map(waits);
        let Some((most, level)) = waiting else { return false };
        let free = |n: &&Arc<Node>| serves(n) && s.attempts_on(&n.name).next().is_none();
        let out = |n: &&Arc<Node>| {
            let gone = n.stage == Stage::Retired || n.stage == Stage::Enrolled;
            n.role == NodeRole::Normal && !gone && !serves(n)
        };
        let spares: Vec<&Arc<Node>> =
            s.index.spares.iter().filter_map(|n| s.nodes.get(n)).filter(free).take(most).collect();
        if spares.is_empty() {
            return false;
        }
        // A spare elsewhere is no help to a gang that must stay together, and would leave its
        // domain one node short for good.
        let near = |a: &Node, b: &Node| {
            level.is_none_or(|l| a.location.path(&a.name, l) == b.location.path(&b.name, l))
        };
        let good = |a: &Node, b: &Node| {
            let (a, b) = (crate::state::index::facts(a), crate::state::index::facts(b));
            let whole = |f: &NodeFacts| f.gpus.minus(f.mig).len();
            a.sku == b.sku && whole(&a) >= whole(&b) && a.cpus >= b.cpus && a.memory >= b.memory
        };
        let mut broken: Vec<&Arc<Node>> = s.nodes.values().filter(out).collect();
        let mut pairs = Vec::new();
        for a in spares {
            let Some(at) = broken.iter().position(|b| near(a, b) && good(a, b)) else { continue };
            let b = broken.remove(at);
            pairs.push((a.name.clone(), a.hazard, b.name.clone(), b.hazard));
        }
        for (spare, its, broken, hazard) in &pairs {
            self.trade(spare, *its, broken, *hazard);
        }
        !pairs.is_empty()
    }

    fn trade(&mut self, spare: &NodeName, its: u32, broken: &NodeName, hazard: u32) {
        let role = NodeRole::Normal;
        self.emit(
            None,
            Event::NodeMarked { node: spare.clone(), role, hazard: its, decided: true },
        );
        let role = NodeRole::Spare;
        self.emit(None, Event::NodeMarked { node: broken.clone(), role, hazard, decided: true });
    }

    /// A spare that takes the place of a failed node is a spare no more; the failed one is the
    /// next spare, once it is back.
    pub(crate) fn swap_spare_role(&mut self, had: &[Slot], gets: &[NodeName]) {
        let of = |e: &Engine, n: &NodeName, role: NodeRole| {
            e.state.nodes.get(n).filter(|n| n.role == role).map(|n| (n.name.clone(), n.hazard))
        };
        let kept: BTreeSet<NodeName> = gets.iter().cloned().collect();
        let gone: Vec<_> = had
            .iter()
            .filter(|s| !kept.contains(&s.node))
            .filter_map(|s| of(self, &s.node, NodeRole::Normal))
            .collect();
        let held: BTreeSet<NodeName> = had.iter().map(|s| s.node.clone()).collect();
        let new: Vec<_> = gets
            .iter()
            .filter(|n| !held.contains(*n))
            .filter_map(|n| of(self, n, NodeRole::Spare))
            .collect();
        for ((spare, its), (failed, hazard)) in new.into_iter().zip(gone) {
            self.trade(&spare, its, &failed, hazard);
        }
    }
}
