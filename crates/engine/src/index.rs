//! What is derived from the state: the scheduler's fleet and queue, who is on which node, which
//! ports are taken, what wakes the engine. Rebuilt after loading a snapshot.

use crate::state::State;
use muster_model::ids::JobId;
use muster_model::job::{Condition, Job, JobState, SlotState};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::units::Time;
use muster_scheduler::{Block, Demand, Fleet, NodeFacts, Queue, Ticket};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    pub(crate) fleet: Fleet,
    pub(crate) queue: Queue,
    /// Jobs with a live slot on a node.
    pub(crate) on_node: BTreeMap<NodeName, BTreeSet<JobId>>,
    /// Ports taken on a host, by job.
    pub(crate) ports: BTreeMap<String, BTreeMap<u16, JobId>>,
    /// Times at which something must be looked at.
    pub(crate) wakes: BTreeSet<(Time, JobId)>,
    /// Jobs that wait for another one.
    pub(crate) waiters: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Ended jobs in the order they ended.
    pub(crate) ended: BTreeSet<(Time, JobId)>,
    /// Idempotency keys in the order they are forgotten.
    pub(crate) keys: BTreeSet<(Time, String)>,
}

/// What the scheduler must know of a node.
pub(crate) fn facts(n: &Node) -> NodeFacts {
    let block = if n.protected {
        Some(Block::Protected)
    } else if !n.reachable {
        Some(Block::Unreachable)
    } else {
        match n.stage {
            Stage::Enrolled | Stage::Retired => Some(Block::NotReady),
            Stage::Draining | Stage::Drained => Some(Block::Draining),
            Stage::Ready if n.cordon.is_some() => Some(Block::Cordoned),
            Stage::Ready if !n.orphans.is_empty() => Some(Block::Orphans),
            Stage::Ready => None,
        }
    };
    NodeFacts {
        name: n.name.clone(),
        location: n.location.clone(),
        sku: n.sku().to_string(),
        gpus: n.gpu_set().minus(n.excluded_gpus),
        cpus: n.inventory.cpus,
        memory: n.inventory.memory,
        simulated: n.inventory.simulated,
        block,
    }
}

/// What a job asks for.
pub(crate) fn demand(job: &Job) -> Demand {
    Demand {
        groups: job.groups.clone(),
        required: job.spec.topology.required,
        preferred: job.spec.topology.preferred,
        simulated: job.spec.simulate.is_some(),
    }
}

pub(crate) fn ticket(job: &Job) -> Ticket {
    Ticket::new(job.spec.priority, job.submitted_at, job.id)
}

/// How the jobs before this one stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depends {
    Met,
    Waits(JobId),
    /// Can never be met any more.
    Broken(JobId),
}

pub(crate) fn depends(state: &State, job: &Job) -> Depends {
    let mut waits = None;
    for d in job.depends.iter() {
        for n in 0..u64::from(d.count) {
            let id = JobId(d.job.0 + n);
            // A job that was forgotten ended long ago; how, only the log knows. Broken is the safe
            // answer for a condition on success.
            let ended = match state.jobs.get(&id) {
                Some(o) if !o.state.is_final() => {
                    waits = waits.or(Some(id));
                    continue;
                }
                Some(o) => Some(o.state),
                None => None,
            };
            let good = match d.condition {
                Condition::Any => true,
                Condition::Ok => ended == Some(JobState::Succeeded),
                Condition::Fail => matches!(ended, Some(JobState::Failed | JobState::Cancelled)),
            };
            if !good {
                return Depends::Broken(id);
            }
        }
    }
    waits.map_or(Depends::Met, Depends::Waits)
}

impl Index {
    /// Everything anew.
    pub(crate) fn build(state: &State) -> Index {
        let mut ix = Index::default();
        for n in state.nodes.values() {
            ix.node_changed(n);
        }
        for job in state.jobs.values() {
            ix.add(state, job);
        }
        ix.keys = state.keys.iter().map(|(k, e)| (e.keep_until, k.clone())).collect();
        ix
    }

    pub(crate) fn node_changed(&mut self, n: &Node) {
        if n.stage == Stage::Retired {
            self.fleet.remove(&n.name);
        } else {
            self.fleet.upsert(facts(n));
        }
    }

    /// The policy, the quotas or the reservations are others now.
    pub(crate) fn policy_changed(&mut self, _state: &State) {}

    /// Takes a job's traces out; [`Index::add`] puts those of its new state in.
    pub(crate) fn remove(&mut self, state: &State, job: &Job) {
        match job.state {
            JobState::Queued => {
                self.queue.remove(&ticket(job));
                self.wakes.remove(&(job.not_before, job.id));
                for d in job.depends.iter() {
                    for n in 0..u64::from(d.count) {
                        let other = JobId(d.job.0 + n);
                        if let Some(w) = self.waiters.get_mut(&other) {
                            w.remove(&job.id);
                            if w.is_empty() {
                                self.waiters.remove(&other);
                            }
                        }
                    }
                }
            }
            s if s.is_final() => {
                if let Some(at) = job.ended_at {
                    self.ended.remove(&(at, job.id));
                }
            }
            _ => {}
        }
        if let Some(a) = &job.attempt {
            for (slot, st) in a.placement.slots.iter().zip(&a.slots) {
                if live(st) {
                    self.fleet.release(slot);
                }
                if let Some(set) = self.on_node.get_mut(&slot.node) {
                    set.remove(&job.id);
                    if set.is_empty() {
                        self.on_node.remove(&slot.node);
                    }
                }
                if let Some(n) = state.nodes.get(&slot.node)
                    && let Some(p) = self.ports.get_mut(&n.host)
                    && p.get(&a.placement.port) == Some(&job.id)
                {
                    p.remove(&a.placement.port);
                    if p.is_empty() {
                        self.ports.remove(&n.host);
                    }
                }
            }
            for t in wake_times(job) {
                self.wakes.remove(&(t, job.id));
            }
        }
    }

    /// Puts a job's traces in.
    pub(crate) fn add(&mut self, state: &State, job: &Job) {
        if job.state == JobState::Queued {
            // Also when the condition is met: the other job may be queued anew.
            for d in job.depends.iter() {
                for n in 0..u64::from(d.count) {
                    self.waiters.entry(JobId(d.job.0 + n)).or_default().insert(job.id);
                }
            }
        }
        match job.state {
            JobState::Queued if job.held.is_none() => match depends(state, job) {
                Depends::Met if job.not_before <= job.submitted_at => {
                    self.queue.insert(ticket(job), demand(job));
                }
                // Time is not part of the log: `ripen` moves it into the queue when it has come.
                Depends::Met => {
                    self.wakes.insert((job.not_before, job.id));
                }
                Depends::Waits(_) => {}
                // Looked at by the next tick, which ends it.
                Depends::Broken(_) => {
                    self.wakes.insert((job.not_before, job.id));
                }
            },
            s if s.is_final() => {
                if let Some(at) = job.ended_at {
                    self.ended.insert((at, job.id));
                }
            }
            _ => {}
        }
        if let Some(a) = &job.attempt {
            for (slot, st) in a.placement.slots.iter().zip(&a.slots) {
                if live(st) {
                    self.fleet.take(slot);
                }
                if !matches!(st, SlotState::Ended { .. }) {
                    self.on_node.entry(slot.node.clone()).or_default().insert(job.id);
                }
                if let Some(n) = state.nodes.get(&slot.node) {
                    self.ports.entry(n.host.clone()).or_default().insert(a.placement.port, job.id);
                }
            }
            for t in wake_times(job) {
                self.wakes.insert((t, job.id));
            }
        }
    }

    /// Jobs whose wait after a failure is over join the queue.
    pub(crate) fn ripen(&mut self, state: &State, now: Time) {
        let due: Vec<(Time, JobId)> =
            self.wakes.range(..=(now, JobId(u64::MAX))).copied().collect();
        for (at, id) in due {
            let Some(job) = state.jobs.get(&id) else { continue };
            if job.state == JobState::Queued && depends(state, job) == Depends::Met {
                self.wakes.remove(&(at, id));
                self.queue.insert(ticket(job), demand(job));
            }
        }
    }

    /// One slot holds nothing any more, or nothing that anybody may count on.
    pub(crate) fn slot_gone(&mut self, job: &Job, i: usize) {
        let Some(a) = &job.attempt else { return };
        let slot = &a.placement.slots[i];
        if live(&a.slots[i]) {
            self.fleet.release(slot);
        }
    }

    /// After a slot ended: does the job still have something on that node?
    pub(crate) fn slot_ended(&mut self, job: &Job, node: &NodeName) {
        let Some(a) = &job.attempt else { return };
        let more = a
            .placement
            .slots
            .iter()
            .zip(&a.slots)
            .any(|(s, st)| s.node == *node && !matches!(st, SlotState::Ended { .. }));
        if !more && let Some(set) = self.on_node.get_mut(node) {
            set.remove(&job.id);
            if set.is_empty() {
                self.on_node.remove(node);
            }
        }
    }

    /// Compares with a fresh build.
    pub(crate) fn problems(&self, state: &State) -> Vec<String> {
        let mut fresh = Index::build(state);
        fresh.ripen(state, state.now);
        let mut mine = self.clone();
        mine.ripen(state, state.now);
        let mut out = Vec::new();
        let mut check = |ok: bool, what: &str| {
            if !ok {
                out.push(format!("the index of {what} differs from a fresh one"));
            }
        };
        check(self.fleet.consistent(), "free nodes");
        for n in state.nodes.keys() {
            check(self.fleet.used_gpus(n) == fresh.fleet.used_gpus(n), "held GPUs");
        }
        let queue = |i: &Index| i.queue.iter().map(|(t, _)| *t).collect::<Vec<_>>();
        check(queue(&mine) == queue(&fresh), "waiting jobs");
        check(self.on_node == fresh.on_node, "jobs by node");
        check(self.ports == fresh.ports, "ports");
        check(mine.wakes == fresh.wakes, "wakes");
        check(self.waiters == fresh.waiters, "dependencies");
        check(self.ended == fresh.ended, "ended jobs");
        out
    }
}

/// Does a slot in this state hold what it was given? On a lost node nothing can be used anyway,
/// and what comes back is stopped before the node takes work.
pub(crate) fn live(s: &SlotState) -> bool {
    matches!(s, SlotState::Pending | SlotState::Running)
}

/// When a job that has an attempt must be looked at.
fn wake_times(job: &Job) -> Vec<Time> {
    let Some(a) = &job.attempt else { return Vec::new() };
    match &a.stop {
        Some(stop) => stop.fence_until.into_iter().collect(),
        None => a.deadline.into_iter().collect(),
    }
}
