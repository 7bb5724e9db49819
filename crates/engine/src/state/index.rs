//! What is derived from the state: the scheduler's fleet and queue, who is on which node, which
//! ports are taken, what wakes the engine. Rebuilt after loading a snapshot.

use super::State;
use super::accounts::Accounts;
use super::backlog::Backlog;
use super::by_node::ByNode;
use super::dependencies::{DependencyIndex, Depends};
use super::ended::EndedJobs;
use super::payloads::StoredPayloads;
use super::saves::CheckpointDirs;
use muster_model::ids::{JobId, Seq};
use muster_model::job::{
    Attempt, Basis, Job, JobState, PastAttempt, SlotEnd, SlotState, Stop, StopReason, Verdict,
};
use muster_model::names::NodeName;
use muster_model::node::NodeRole;
use muster_model::node::{Gpu, Node, Stage};
use muster_model::placement::GpuSet;
use muster_model::spec::{Group, JobSpec};
use muster_model::units::{Span, Time};
use muster_scheduler::{Block, Cluster, Demand, FAR, NodeFacts, ReservedNodes, Running, Work};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// All that the scheduler knows.
    pub(crate) cluster: Cluster,
    /// Jobs on a node, with the places of their slots there that are not over.
    pub(crate) on_node: ByNode<BTreeMap<JobId, Vec<usize>>>,
    /// How many slots of each attempt are still to come up, and how many are up.
    pub(crate) left: BTreeMap<JobId, AllocatedSlots>,
    /// Ports taken on a host, by job.
    pub(crate) ports: BTreeMap<String, BTreeMap<u16, JobId>>,
    /// Times at which something must be looked at.
    pub(crate) wakes: BTreeSet<(Time, JobId)>,
    /// Jobs that wait for others.
    pub(crate) waits: DependencyIndex,
    /// How many jobs wait, in the scheduler's queue or not.
    pub(crate) backlog: Backlog,
    /// Which jobs save to which directory.
    pub(crate) saves: CheckpointDirs,
    /// Bytes of what jobs run that are stored, those of ended jobs included.
    pub(crate) payloads: StoredPayloads,
    /// Ended jobs of each project in the order they ended.
    pub(crate) ended: EndedJobs,
    /// Jobs in the order in which their last attempts ended, also those that go on.
    tried: BTreeSet<(Time, JobId)>,
    /// Running jobs that were warned that they will be stopped.
    pub(crate) noticed: BTreeSet<JobId>,
    /// Jobs whose attempt waits for its preflight.
    pub(crate) preflights: BTreeSet<JobId>,
    /// Nodes that are held as spares.
    pub(crate) spares: BTreeSet<NodeName>,
    /// Waiting jobs that lost nodes to hardware or to an operator's drain.
    pub(crate) interrupted: BTreeSet<JobId>,
    /// Jobs whose attempts were stopped because of a node, by node and when they ended.
    pub(crate) hit: BTreeSet<(NodeName, Time, JobId)>,
    /// When reserved starts fall due.
    pub(crate) reserved_starts: BTreeSet<(Time, JobId)>,
    /// Faults remembered of each node.
    pub(crate) faults: BTreeMap<NodeName, BTreeSet<Seq>>,
    /// When the tests that go on will have taken too long.
    pub(crate) tests: BTreeSet<(Time, NodeName)>,
    tested: BTreeMap<NodeName, Time>,
    /// Idempotency keys in the order they are forgotten.
    pub(crate) keys: BTreeSet<(Time, String)>,
    /// Which account each project's ranks run as.
    pub(crate) accounts: Accounts,
}

/// Slots of an attempt that hold something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AllocatedSlots {
    pub(crate) pending: usize,
    pub(crate) running: usize,
}

impl AllocatedSlots {
    /// Does any slot hold what it was given?
    pub(crate) fn any(self) -> bool {
        self.pending + self.running > 0
    }

    fn count(&mut self, s: &SlotState) -> Option<&mut usize> {
        match s {
            SlotState::Pending => Some(&mut self.pending),
            SlotState::Running => Some(&mut self.running),
            SlotState::Lost | SlotState::Ended { .. } => None,
        }
    }
}

/// A node on probation counts as one that is likely to fail: in thousandths a month.
const PROBATION_HAZARD: u32 = 300;

/// Room that is made for a job may be there so much later than was announced: by the grace of those
/// who leave, or by a fence.
const MADE_LATE: Span = Span::mins(10);

/// Why a node gets no new work, if so. Of several reasons it is the one that lists of nodes show as
/// the node's state.
pub(crate) fn block(n: &Node) -> Option<Block> {
    match n.stage {
        Stage::Retired => Some(Block::Retired),
        Stage::Enrolled => Some(Block::Enrolled),
        _ if !n.reachable => Some(Block::Unreachable),
        _ if n.protected => Some(Block::Protected),
        _ if n.qualifying.is_some() => Some(Block::Qualifying),
        Stage::Draining => Some(Block::Draining),
        Stage::Drained => Some(Block::Drained),
        Stage::Suspect => Some(Block::Suspect),
        Stage::Quarantined => Some(Block::Quarantined),
        Stage::Repairing => Some(Block::Repairing),
        Stage::Ready if n.cordon.is_some() => Some(Block::Cordoned),
        Stage::Ready if n.role == NodeRole::Suspect => Some(Block::Suspect),
        Stage::Ready if n.breaker.is_some() => Some(Block::Breaker),
        Stage::Ready if !n.orphans.is_empty() => Some(Block::Orphans),
        Stage::Ready => None,
    }
}

/// What the scheduler must know of a node.
pub(crate) fn facts(n: &Node) -> NodeFacts {
    let bits = |set: GpuSet, g: &Gpu| if g.index < 64 { set.or(GpuSet(1 << g.index)) } else { set };
    let gone = n.missing_gpus.iter().fold(GpuSet::EMPTY, bits);
    let all = n.inventory.gpus.iter().chain(&n.missing_gpus);
    NodeFacts {
        name: n.name.clone(),
        location: n.location.clone(),
        // One whose GPUs have all fallen off the bus is still a node of their SKU.
        sku: match (n.inventory.gpus.first(), n.missing_gpus.first()) {
            (None, Some(gone)) => gone.sku.clone(),
            _ => n.sku().to_string(),
        },
        gpus: n.gpu_set().minus(n.excluded_gpus),
        absent: gone.or(n.gpu_set().and(n.excluded_gpus)),
        mig: all.filter(|g| g.mig == Some(true)).fold(GpuSet::EMPTY, bits),
        cpus: n.inventory.cpus,
        memory: n.inventory.memory,
        simulated: n.inventory.simulated,
        block: block(n),
        role: n.role,
        // What returned lately is watched before large gangs rely on it.
        hazard: if n.probation.is_some() { n.hazard.max(PROBATION_HAZARD) } else { n.hazard },
        avoided: false,
    }
}

/// What a job asks for, in the size it has or wants next.
pub(crate) fn demand(job: &Job) -> Demand {
    let d = spec_demand(&job.spec, job.groups.clone());
    let size = match (&job.attempt, job.spec.elastic) {
        (_, None) => None,
        (Some(a), Some(_)) => u32::try_from(a.placement.slots.len()).ok(),
        (None, Some(_)) => job.size,
    };
    size.map_or_else(|| d.clone(), |n| d.resized(n))
}

/// What a spec asks for.
pub(crate) fn spec_demand(spec: &JobSpec, groups: Arc<[Group]>) -> Demand {
    Demand {
        groups,
        required: spec.topology.required,
        preferred: spec.topology.preferred,
        segment: spec.topology.segment,
        spread: spec.topology.spread,
        simulated: spec.simulate.is_some(),
    }
}

/// A job as the scheduler sees it.
pub(crate) fn work(job: &Job) -> Work {
    let demand = Arc::new(demand(job));
    Work {
        job: job.id,
        priority: job.spec.priority,
        tier: job.spec.tier,
        project: job.project.clone(),
        user: job.user.as_str().into(),
        since: job.submitted_at,
        limit: job.spec.time_limit,
        checkpoints: job.spec.checkpoint.is_some(),
        elastic: job.spec.elastic.map(|e| (e.min_nodes, e.max_nodes)),
        demand,
    }
}

/// An attempt as the scheduler sees it.
fn running(state: &State, job: &Job) -> Option<Running> {
    // One whose ranks have all ended has nothing any more, be its end settled or not.
    let a = job.attempt.as_ref().filter(|a| a.freed_at.is_none())?;
    Some(Running {
        work: Arc::new(work(job)),
        placement: a.placement.clone(),
        placed: a.placed_at,
        saved: saved(job, a),
        until: until(job, a),
        stopping: leaves(a),
        sku: first_sku(state, a).to_string(),
    })
}

/// When an attempt is over; [`FAR`] when nobody knows.
fn until(job: &Job, a: &Attempt) -> Time {
    match (&a.stop, &a.notice) {
        (Some(s), _) => s.at + s.grace,
        (None, Some(n)) => n.until,
        (None, None) => a.deadline.or(job.spec.time_limit.map(|l| a.placed_at + l)).unwrap_or(FAR),
    }
}

/// Nothing of an attempt before this is lost when it is stopped.
fn saved(job: &Job, a: &Attempt) -> Time {
    job.checkpoint.as_ref().map_or(a.placed_at, |c| c.at.max(a.placed_at))
}

/// Is it being stopped, or was it warned that it will be?
fn leaves(a: &Attempt) -> bool {
    a.stop.is_some() || a.notice.is_some()
}

/// SKU of an attempt's first GPU.
fn first_sku<'a>(state: &'a State, a: &Attempt) -> &'a str {
    let slot = a.placement.slots.iter().find(|s| !s.gpus.is_empty());
    let node = slot.or(a.placement.slots.first()).and_then(|s| state.nodes.get(&s.node));
    node.map_or("", |n| n.sku())
}

/// What the index has of a job whose attempt goes on, as far as that can become other while the
/// attempt keeps all it has.
#[derive(Debug)]
pub(crate) struct Traces {
    wakes: Vec<Time>,
    hit: Option<(NodeName, Time, JobId)>,
}

impl Traces {
    /// Those of a job as it is now.
    pub(crate) fn of(job: &Job) -> Traces {
        Traces { wakes: wake_times(job), hit: present_hit(job) }
    }
}

impl Index {
    /// Jobs that are looked at between two moments, the first not counted.
    pub(crate) fn wake_between(&self, from: Time, to: Time) -> impl Iterator<Item = JobId> + '_ {
        let all = self.wakes.range((from, JobId(u64::MAX))..=(to, JobId(u64::MAX)));
        all.map(|(_, id)| *id)
    }

    /// Jobs whose last attempt that is over ended at or after a moment.
    pub(crate) fn jobs_attempted_since(&self, since: Time) -> impl Iterator<Item = JobId> + '_ {
        self.tried.range((since, JobId(0))..).map(|(_, id)| *id)
    }

    /// Everything anew.
    pub(crate) fn build(state: &State) -> Index {
        let mut ix = Index::default();
        ix.policy_changed(state);
        for n in state.nodes.values() {
            ix.node_changed(n, state.avoids(&n.name));
        }
        for job in state.jobs.values() {
            ix.arrived(job);
            ix.add(state, job);
        }
        ix.reservations_changed(state);
        for f in state.faults.values() {
            ix.faults.entry(f.node.clone()).or_default().insert(f.seq);
        }
        ix.accounts = Accounts::build(state.projects.values());
        ix.keys = state.keys.iter().map(|(k, e)| (e.keep_until, k.clone())).collect();
        ix
    }

    /// A node is another now. `avoided`: a remediation waits to be allowed to take it, or its agent
    /// is not connected.
    pub(crate) fn node_changed(&mut self, n: &Node, avoided: bool) {
        if n.role == NodeRole::Spare && n.stage != Stage::Retired {
            self.spares.insert(n.name.clone());
        } else {
            self.spares.remove(&n.name);
        }
        let until = n.qualifying.map(|q| q.until);
        let was = match until {
            Some(t) => self.tested.insert(n.name.clone(), t),
            None => self.tested.remove(&n.name),
        };
        if was != until {
            was.map(|t| self.tests.remove(&(t, n.name.clone())));
            self.tests.extend(until.map(|t| (t, n.name.clone())));
        }
        if n.stage == Stage::Retired {
            self.cluster.fleet.remove(&n.name);
        } else {
            self.cluster.fleet.upsert(NodeFacts { avoided, ..facts(n) });
        }
    }

    /// The policy or the quotas are others now.
    pub(crate) fn policy_changed(&mut self, state: &State) {
        self.cluster.set_quotas(&state.quotas);
        self.cluster.set_power(&state.policy.power);
        self.cluster.set_hazard(&state.policy.hazard);
    }

    /// The reservations, or the nodes they cover, are others now.
    pub(crate) fn reservations_changed(&mut self, state: &State) {
        let all = state.reservations.values().map(|b| ReservedNodes {
            reservation: b.reservation.clone(),
            nodes: state.reserved_nodes(b).into_iter().collect(),
        });
        self.cluster.fleet.set_reservations(all.collect());
    }

    /// The site sees more work of its kind.
    pub(crate) fn arrived(&mut self, job: &Job) {
        self.cluster.fleet.arrived(&demand(job));
        self.waits.name(job);
        self.payloads.add(job);
    }

    fn wait(&mut self, state: &State, job: &Job) {
        let w = Arc::new(work(job));
        let belief = state.runtime_estimate(&w);
        self.cluster.queue.insert(w);
        self.cluster.queue.set_estimate(job.id, belief);
    }

    /// Keeps the capacity that is reserved for a job.
    fn keep(&mut self, job: &Job) {
        let Some(p) = job.reserved_start.as_ref().filter(|_| !job.state.is_final()) else { return };
        // Room that others make is its own from the moment it was reserved.
        let start = if p.basis == Basis::Limits { p.at } else { p.since };
        // Whoever makes it may leave late: it is reserved for others after that, or it could not be
        // used any more when it is there.
        let late = if p.basis == Basis::Limits { Span(0) } else { MADE_LATE };
        let end = job.spec.time_limit.map_or(FAR, |l| p.at + l + late);
        let mut w = work(job);
        // A gang that is being resized holds its old size until it is stopped.
        if let (Basis::Resize, Some(n)) = (p.basis, job.size) {
            w.demand = Arc::new(w.demand.resized(n));
        }
        self.cluster.fleet.keep(&w, &p.nodes, (start, end), p.basis);
        self.reserved_starts.insert((p.at, job.id));
    }

    fn release_reservation(&mut self, job: &Job) {
        if let Some(p) = &job.reserved_start {
            self.cluster.fleet.release_reservation(job.id);
            self.reserved_starts.remove(&(p.at, job.id));
        }
    }

    /// A job changed in a way that leaves what it holds as it is: nothing is released and taken
    /// again.
    pub(crate) fn touch(&mut self, state: &State, old: &Job, new: &Job) {
        for t in wake_times(old) {
            self.wakes.remove(&(t, old.id));
        }
        for t in wake_times(new) {
            self.wakes.insert((t, new.id));
        }
        self.note(new);
        // Whose doing the end of an earlier attempt was may turn out late.
        if old.past != new.past || stopping(old) != stopping(new) {
            for hit in hits(old) {
                self.hit.remove(&hit);
            }
            self.hit.extend(hits(new));
            if new.state == JobState::Queued {
                self.cluster.fleet.try_last(new.id, ended_by(new));
            }
        }
        // What is reserved for it is so for as long as it may run.
        let other_limit =
            new.reserved_start.is_some() && old.spec.time_limit != new.spec.time_limit;
        if old.reserved_start != new.reserved_start || other_limit {
            self.release_reservation(old);
            self.keep(new);
        }
        self.run_on(state, new, old.spec != new.spec);
    }

    /// As [`Index::touch`], where the job was changed in place: `old` is what it had before.
    pub(crate) fn follow(&mut self, state: &State, old: &Traces, job: &Job) {
        for t in &old.wakes {
            self.wakes.remove(&(*t, job.id));
        }
        for t in wake_times(job) {
            self.wakes.insert((t, job.id));
        }
        self.note(job);
        if old.hit != present_hit(job) {
            if let Some(hit) = &old.hit {
                self.hit.remove(hit);
            }
            // With those of earlier attempts: one of them may be the same.
            self.hit.extend(hits(job));
        }
        self.run_on(state, job, false);
    }

    /// An attempt holds what it held. When it is over and what it has saved may be other.
    fn run_on(&mut self, state: &State, job: &Job, other_spec: bool) {
        // One whose ranks have all ended has nothing any more.
        let Some(a) = job.attempt.as_ref().filter(|a| a.freed_at.is_none()) else { return };
        let Some(r) = self.cluster.running.get_mut(&job.id) else { return };
        let was = r.until;
        r.until = until(job, a);
        r.saved = saved(job, a);
        r.stopping = leaves(a);
        if other_spec {
            r.work = Arc::new(work(job));
        }
        let sku = first_sku(state, a);
        if r.sku != sku {
            r.sku = sku.to_string();
        }
        let now = r.until;
        if was != now {
            for (slot, st) in a.placement.slots.iter().zip(&a.slots) {
                if live(st) {
                    self.cluster.fleet.set_until(job.id, &slot.node, now);
                }
            }
        }
    }

    fn note(&mut self, job: &Job) {
        let warned = job.attempt.as_ref().is_some_and(|a| a.notice.is_some() && a.stop.is_none());
        if warned {
            self.noticed.insert(job.id);
        } else {
            self.noticed.remove(&job.id);
        }
        if job.attempt.as_ref().is_some_and(|a| a.in_preflight().is_some()) {
            self.preflights.insert(job.id);
        } else {
            self.preflights.remove(&job.id);
        }
    }

    /// Takes a job's traces out; [`Index::add`] puts those of its new state in.
    pub(crate) fn remove(&mut self, state: &State, job: &Job) {
        self.release_reservation(job);
        self.waits.remove(job);
        self.saves.remove(job);
        self.noticed.remove(&job.id);
        self.preflights.remove(&job.id);
        if let Some(p) = job.past.last() {
            self.tried.remove(&(p.ended_at, job.id));
        }
        for hit in hits(job) {
            self.hit.remove(&hit);
        }
        match job.state {
            JobState::Queued => {
                self.backlog.remove(job);
                self.cluster.fleet.try_last(job.id, None);
                self.interrupted.remove(&job.id);
                self.cluster.queue.remove(job.id);
                self.wakes.remove(&(job.not_before, job.id));
            }
            s if s.is_final() => self.ended.remove(job),
            _ => {}
        }
        if let Some(a) = &job.attempt {
            self.left.remove(&job.id);
            self.cluster.end(job.id, |i| live(&a.slots[i]));
            for slot in &a.placement.slots {
                if let Some(here) = self.on_node.get_mut(&slot.node) {
                    here.remove(&job.id);
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
        self.waits.add(job);
        self.saves.add(job);
        if let Some(p) = job.past.last() {
            self.tried.insert((p.ended_at, job.id));
        }
        self.hit.extend(hits(job));
        if job.state == JobState::Queued {
            let drained = |p: &PastAttempt| matches!(p.stopped_for, Some(StopReason::Drain { .. }));
            let lost = |p: &PastAttempt| p.verdict == Verdict::Infrastructure || drained(p);
            if job.past.last().is_some_and(lost) {
                self.interrupted.insert(job.id);
            }
        }
        match job.state {
            JobState::Queued => {
                self.backlog.add(job);
                self.cluster.fleet.try_last(job.id, ended_by(job));
                self.line_up(state, job, self.waits.evaluate(state, job));
            }
            s if s.is_final() => self.ended.insert(job),
            _ => {}
        }
        self.keep(job);
        self.note(job);
        if let Some(a) = &job.attempt {
            if let Some(r) = running(state, job) {
                self.cluster.run(r, |i| live(&a.slots[i]));
            }
            let mut left = AllocatedSlots::default();
            for (i, (slot, st)) in a.placement.slots.iter().zip(&a.slots).enumerate() {
                if let Some(n) = left.count(st) {
                    *n += 1;
                }
                if !matches!(st, SlotState::Ended { .. }) {
                    let here = self.on_node.or_default(&slot.node);
                    here.entry(job.id).or_default().push(i);
                }
                if let Some(n) = state.nodes.get(&slot.node) {
                    self.take_port(&n.host, a.placement.port, job.id);
                }
            }
            self.left.insert(job.id, left);
            for t in wake_times(job) {
                self.wakes.insert((t, job.id));
            }
        }
    }

    fn take_port(&mut self, host: &str, port: u16, job: JobId) {
        if let Some(taken) = self.ports.get_mut(host) {
            taken.insert(port, job);
        } else {
            self.ports.insert(host.to_string(), BTreeMap::from([(port, job)]));
        }
    }

    /// What a waiting job waits for stands like this: it joins the queue, or is looked at later.
    fn line_up(&mut self, state: &State, job: &Job, before: Depends) {
        match before {
            _ if job.held.is_some() => {}
            // The newest record's time is part of the log: what is ripe by then waits at once.
            Depends::Met if job.not_before <= job.submitted_at.max(state.at) => {
                self.wait(state, job);
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
        }
    }

    /// The jobs before a waiting one stand otherwise now.
    pub(crate) fn reevaluate(&mut self, state: &State, job: &Job, before: Depends) {
        if job.state != JobState::Queued {
            return;
        }
        self.cluster.queue.remove(job.id);
        self.wakes.remove(&(job.not_before, job.id));
        self.line_up(state, job, before);
    }

    /// Jobs whose wait after a failure is over join the queue.
    pub(crate) fn queue_due_retries(&mut self, state: &State, now: Time) {
        let due: Vec<(Time, JobId)> =
            self.wakes.range(..=(now, JobId(u64::MAX))).copied().collect();
        for (at, id) in due {
            let Some(job) = state.jobs.get(&id) else { continue };
            if job.state == JobState::Queued && self.waits.evaluate(state, job) == Depends::Met {
                self.wakes.remove(&(at, id));
                self.wait(state, job);
            }
        }
    }

    /// One slot holds nothing any more, or nothing that anybody may count on.
    pub(crate) fn slot_gone(&mut self, job: &Job, i: usize) {
        let Some(a) = &job.attempt else { return };
        let slot = &a.placement.slots[i];
        if live(&a.slots[i]) {
            self.cluster.fleet.release(job.id, slot);
        }
    }

    /// A slot went from one state to another. Returns whether it was the last that held anything.
    pub(crate) fn slot_changed(
        &mut self,
        id: JobId,
        node: &NodeName,
        i: usize,
        (before, after): (&SlotState, &SlotState),
    ) -> bool {
        let left = self.left.entry(id).or_default();
        let held = left.any();
        if let Some(n) = left.count(before) {
            *n = n.saturating_sub(1);
        }
        if let Some(n) = left.count(after) {
            *n += 1;
        }
        let last = held && !left.any();
        if matches!(after, SlotState::Ended { .. })
            && let Some(here) = self.on_node.get_mut(node)
            && let Some(slots) = here.get_mut(&id)
        {
            slots.retain(|s| *s != i);
            if slots.is_empty() {
                here.remove(&id);
            }
        }
        last
    }

    /// The last slot of an attempt that is being stopped is gone: it is looked at again when
    /// its fence allows.
    pub(crate) fn last_slot_gone(&mut self, job: &Job) {
        self.wakes.extend(wake_times(job).into_iter().map(|t| (t, job.id)));
    }

    /// Compares with a fresh build.
    pub(crate) fn problems(&self, state: &State) -> Vec<String> {
        let mut fresh = Index::build(state);
        fresh.queue_due_retries(state, state.now);
        // A copy only where something falls due: every test pays for it after every record.
        let mut ripe = Cow::Borrowed(self);
        if self.wakes.range(..=(state.now, JobId(u64::MAX))).next().is_some() {
            ripe.to_mut().queue_due_retries(state, state.now);
        }
        let mine: &Index = &ripe;
        let mut out = Vec::new();
        let mut check = |ok: bool, what: &str| {
            if !ok {
                out.push(format!("the index of {what} differs from a fresh one"));
            }
        };
        for n in state.nodes.keys() {
            let used = |i: &Index| i.cluster.fleet.used_gpus(n);
            check(used(self) == used(&fresh), "allocated GPUs");
        }
        let queue = |i: &Index| i.cluster.queue.jobs().collect::<Vec<_>>();
        check(queue(mine) == queue(&fresh), "waiting jobs");
        let runs = |i: &Index| {
            let all = i.cluster.running.values();
            all.map(|r| (r.work.clone(), r.until, r.saved, r.stopping)).collect::<Vec<_>>()
        };
        check(runs(self) == runs(&fresh), "running jobs");
        check(self.noticed == fresh.noticed, "notices");
        check(self.preflights == fresh.preflights, "preflights");
        check(self.reserved_starts == fresh.reserved_starts, "reserved_starts");
        check(self.interrupted == fresh.interrupted, "interrupted jobs");
        check(self.spares == fresh.spares, "spares");
        check(self.cluster.ledger == fresh.cluster.ledger, "quotas");
        check(self.on_node == fresh.on_node, "jobs by node");
        check(self.left == fresh.left, "slots that are left");
        check(self.ports == fresh.ports, "ports");
        check(mine.wakes == fresh.wakes, "wakes");
        check(self.waits == fresh.waits, "dependencies");
        check(self.backlog == fresh.backlog, "waiting jobs");
        check(self.saves == fresh.saves, "directories for checkpoints");
        check(self.ended == fresh.ended, "ended jobs");
        check(self.tried == fresh.tried, "attempts that ended");
        check(self.hit == fresh.hit, "jobs that nodes stopped");
        check(self.faults == fresh.faults, "faults");
        check(self.accounts == fresh.accounts, "accounts");
        check(self.tests == fresh.tests && self.tested == fresh.tested, "tests of nodes");
        out.extend(self.cluster.problems());
        out
    }
}

/// How its attempt is being stopped, if it is.
fn stopping(job: &Job) -> Option<&Stop> {
    job.attempt.as_ref()?.stop.as_ref()
}

/// The node because of which a job's attempt is being stopped, and since when. Its ranks have left
/// the node before the attempt is over.
fn present_hit(job: &Job) -> Option<(NodeName, Time, JobId)> {
    let stop = stopping(job)?;
    let node = match &stop.reason {
        StopReason::SlotFailed { node, .. } => node,
        reason => reason.node()?,
    };
    Some((node.clone(), stop.at, job.id))
}

/// Nodes because of which attempts of a job were stopped or are being stopped, and when.
fn hits(job: &Job) -> impl Iterator<Item = (NodeName, Time, JobId)> {
    let past = job.past.iter().filter_map(|p| {
        let node = match p.stopped_for.as_ref()? {
            // Its ranks ended by themselves, because of what is under them.
            StopReason::SlotFailed { node, end }
                if p.verdict.is_interruption() && !(end.is_agent_anew() || end.was_restored()) =>
            {
                node
            }
            reason => reason.node()?,
        };
        Some((node.clone(), p.ended_at, job.id))
    });
    past.chain(present_hit(job))
}

/// The node that ended the last attempt of a job by its hardware, or nobody knows why. What is found
/// there may become known a moment later.
fn ended_by(job: &Job) -> Option<&NodeName> {
    let p = job.past.last()?;
    match p.stopped_for.as_ref()? {
        StopReason::SlotFailed { node, end: SlotEnd::Failed { .. } }
            if p.verdict.is_interruption() =>
        {
            Some(node)
        }
        StopReason::Unhealthy { node, .. } | StopReason::NodeLost { node } => Some(node),
        _ => None,
    }
}

/// Does a slot in this state hold what it was given? On a lost node nothing can be used anyway,
/// and what comes back is stopped before the node takes work.
pub(crate) fn live(s: &SlotState) -> bool {
    matches!(s, SlotState::Pending | SlotState::Running)
}

/// When a job that has an attempt must be looked at.
pub(crate) fn wake_times(job: &Job) -> Vec<Time> {
    let Some(a) = &job.attempt else { return Vec::new() };
    match (&a.stop, &a.notice) {
        // Until the last slot is gone there is nothing to conclude, fence or not.
        (Some(_), _) if a.slots.iter().any(live) => Vec::new(),
        (Some(stop), _) => stop.fence_until.into_iter().chain(job.ending_until()).collect(),
        (None, Some(n)) => a.deadline.into_iter().chain([n.until]).collect(),
        (None, None) => a.deadline.into_iter().chain(a.in_preflight().map(|p| p.until)).collect(),
    }
}
