//! What the log adds up to.

mod accounts;
mod backlog;
mod by_node;
mod connections;
mod copies;
pub(crate) mod dependencies;
mod ended;
pub(crate) mod ended_names;
mod error;
mod gpu_use;
pub(crate) mod health_state;
pub(crate) mod index;
mod payloads;
pub(crate) mod saves;
mod site_runbooks;
mod slo_state;
mod treatment;

pub use error::ApplyError;
pub use gpu_use::GpuUse;
pub use health_state::{Automation, AutomationStop, HealthState};
pub use site_runbooks::SiteRunbooks;
pub use slo_state::{ExternalCondition, ObjectiveStatus, SloState};
pub use treatment::FindingTreatment;

use index::{AllocatedSlots, Index};
use muster_model::command::Answer;
use muster_model::fault::{FaultClass, ObservedFault};
use muster_model::ids::{AttemptKey, Epoch, JobId, Seq, SiteId};
use muster_model::job::{Job, SlotState};
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::node::Node;
use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::reservation::Reservation;
use muster_model::tenant::{Project, Token};
use muster_model::topology::Topology;
use muster_model::units::Time;
use muster_scheduler::fairshare::Usage;
use muster_scheduler::history::History;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Nodes remembered of a past attempt.
pub(crate) const PAST_NODES: usize = 16;

/// What came of a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// Hash of the request.
    pub fingerprint: String,
    /// What was answered.
    pub answer: Answer,
    /// Record it made.
    pub seq: Seq,
    /// Forgotten after this.
    pub keep_until: Time,
}

/// A fault that a node reported, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFault {
    /// Sequence number of the record that reported it.
    pub seq: Seq,
    /// When it was written down.
    pub at: Time,
    /// The node that reported it.
    pub node: NodeName,
    /// The project whose job it hit: those who may see it, beside operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
    /// What the node reported.
    pub fault: ObservedFault,
}

/// A reservation, with the nodes that were chosen when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookedReservation {
    /// What was asked for.
    pub reservation: Arc<Reservation>,
    /// Nodes chosen for it; empty when it names them itself.
    pub nodes: Vec<NodeName>,
    /// Sequence number of the record that made it.
    pub version: Seq,
}

/// How reserved starts turned out: the error of the starts that users see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReservedStartStats {
    /// Jobs that started at or before their reserved start.
    pub on_time: u64,
    /// Jobs that started later.
    pub late: u64,
    /// Milliseconds by which they started before it, in all.
    pub early_ms: u64,
    /// Milliseconds by which they started after it, in all.
    pub late_ms: u64,
}

/// A life of the log: it begins when the log was restored from a backup. What files outside the
/// store are named after returns in the next life (numbers of records and attempts), so that they
/// are kept apart by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogGeneration {
    /// Its first record.
    pub seq: Seq,
    /// The time of that record.
    pub at: Time,
    /// The lead it began with: no other life has it.
    pub epoch: Epoch,
}

/// Everything the log adds up to. Jobs and nodes are shared by its clones; what is derived from them
/// is not: a snapshot takes [`State::without_index`].
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The site's id; none before the first record.
    pub site: Option<SiteId>,
    /// Leader's fencing token.
    pub epoch: Epoch,
    /// Where each lead began, oldest first (the last thousand): reveals a node that has seen
    /// another life of this site from one that has not.
    pub leads: Vec<(Seq, Epoch)>,
    /// Where the log went on after a restore, oldest first; none in its first life.
    pub lives: Vec<LogGeneration>,
    /// Newest record.
    pub seq: Seq,
    /// The time of the newest record.
    pub at: Time,
    /// The clock as last reported; at or after `at`. Not part of the log.
    pub(crate) now: Time,
    /// Jobs: all that go on, and those that ended lately.
    pub jobs: BTreeMap<JobId, Arc<Job>>,
    /// Number the next job gets.
    pub next_job: u64,
    /// Nodes by name.
    pub nodes: BTreeMap<NodeName, Arc<Node>>,
    /// Projects by name.
    pub projects: BTreeMap<ProjectName, Project>,
    /// Tokens by their public part.
    pub tokens: BTreeMap<String, Token>,
    /// Tokens and silences that were ended, oldest first (the newest are known).
    pub(crate) over: Vec<String>,
    /// Names of secrets.
    pub secrets: BTreeSet<(ProjectName, Label)>,
    /// The location of nodes.
    pub topology: Arc<Topology>,
    /// The site's scheduling policy.
    pub policy: Arc<SitePolicy>,
    /// Who is entitled to what.
    pub quotas: Arc<Quotas>,
    /// Reservations, with the nodes that were chosen for them.
    pub reservations: BTreeMap<Label, BookedReservation>,
    /// What each user has had and holds.
    pub usage: BTreeMap<(ProjectName, String), Usage>,
    /// How long each user's jobs ran lately.
    pub history: History<(ProjectName, String)>,
    /// How reserved starts turned out.
    pub reserved_starts: ReservedStartStats,
    /// How long gangs ran on how many nodes, and how often hardware interrupted them.
    pub exposure: muster_health::Exposure,
    /// The last faults of each node, in the order they were reported.
    pub faults: BTreeMap<Seq, Arc<StoredFault>>,
    /// How often each fault was reported, over all nodes.
    pub fault_counts: BTreeMap<(String, FaultClass), u64>,
    /// What is wrong, what is done about it, and how far that has come.
    pub health: HealthState,
    /// The site's own runbooks, and runs.
    pub runbooks: SiteRunbooks,
    /// Objectives, what was counted, and who is notified.
    pub slo: SloState,
    /// When work was moved so that a gang fits, in the last hour or so.
    pub moves: Vec<Time>,
    /// Requests that must not be done twice.
    pub keys: BTreeMap<String, KeyEntry>,
    /// Nodes whose agent was connected to this server and is not any more. Not part of the log: a
    /// server that starts knows of none.
    pub(crate) disconnected: BTreeSet<NodeName>,
    /// Derived from the above; never stored.
    pub(crate) index: Box<Index>,
    /// An empty one, to stand in its place while it is changed (`with_index`).
    pub(crate) spare: Option<Box<Index>>,
}

impl State {
    /// Jobs whose present attempt holds something on a node, in order.
    pub fn attempts_on<'a>(
        &'a self,
        node: &NodeName,
    ) -> impl Iterator<Item = &'a Arc<Job>> + use<'a> {
        let here = self.index.on_node.get(node).into_iter().flatten();
        here.filter_map(|(id, _)| self.jobs.get(id))
    }

    /// Slots of a job's present attempt on a node that are not over: their places.
    #[must_use]
    pub fn slots_on(&self, job: JobId, node: &NodeName) -> &[usize] {
        self.index.on_node.get(node).and_then(|here| here.get(&job)).map_or(&[], |s| s)
    }

    /// Is it unknown whether ranks of an attempt still run on a node?
    #[must_use]
    pub fn is_lost_on(&self, node: &NodeName, key: AttemptKey) -> bool {
        let attempt = self.jobs.get(&key.job).and_then(|j| j.attempt.as_ref());
        let slot = self.slots_on(key.job, node).first();
        let at = attempt.filter(|a| a.no == key.attempt).zip(slot);
        at.is_some_and(|(a, i)| a.slots.get(*i) == Some(&SlotState::Lost))
    }

    /// Slots of a job's present attempt that hold something.
    pub(crate) fn allocated_slots(&self, job: JobId) -> AllocatedSlots {
        self.index.left.get(&job).copied().unwrap_or_default()
    }

    /// What a node reported lately, newest first.
    pub fn faults_of<'a>(&'a self, node: &NodeName) -> impl Iterator<Item = &'a Arc<StoredFault>> {
        let here = self.index.faults.get(node).into_iter().flatten().rev();
        here.filter_map(|seq| self.faults.get(seq))
    }

    /// GPUs of a node that attempts hold.
    #[must_use]
    pub fn used_gpus(&self, node: &NodeName) -> muster_model::placement::GpuSet {
        self.index.cluster.fleet.used_gpus(node)
    }

    /// Waiting jobs that compete for room, in their order.
    pub fn queue(&self) -> impl Iterator<Item = JobId> + '_ {
        self.index.cluster.queue.iter().map(|t| t.job)
    }

    /// Has somebody who saw this record under that lead seen more, or other things, than this log
    /// holds? True after a backup was restored that is older than what they saw.
    #[must_use]
    pub fn is_behind(&self, seq: Seq, epoch: Epoch) -> bool {
        let written = self.leads.iter().rev().find(|(from, _)| *from <= seq).map(|(_, e)| *e);
        seq > self.seq || epoch > self.epoch || written.is_some_and(|e| e > epoch)
    }

    /// Does a node hold attempts that this log did not place there before its present life began?
    /// Asked of an agent that last obeyed the lead `epoch`. One that has not met the present life
    /// has whatever else it holds from a life that was lost, although how far it saw the log, which
    /// it writes down now and then, may not say so.
    #[must_use]
    pub fn holds_lost_attempts(
        &self,
        node: &NodeName,
        epoch: Epoch,
        mut held: impl Iterator<Item = AttemptKey>,
    ) -> bool {
        let life = self.lives.last().filter(|l| epoch < l.epoch);
        life.is_some_and(|l| held.any(|key| !self.was_placed_before(node, key, l.at)))
    }

    fn was_placed_before(&self, node: &NodeName, key: AttemptKey, before: Time) -> bool {
        let Some(job) = self.jobs.get(&key.job) else { return false };
        if let Some(a) = job.attempt.as_ref().filter(|a| a.no == key.attempt) {
            return a.placed_at < before && a.placement.slots.iter().any(|s| s.node == *node);
        }
        match job.past.iter().find(|p| p.no == key.attempt) {
            Some(p) => {
                p.placed_at < before && (p.nodes.contains(node) || p.nodes.len() >= PAST_NODES)
            }
            // Older than those that are remembered.
            None => job.past.first().is_some_and(|oldest| key.attempt < oldest.no),
        }
    }

    /// The project of an attempt, if it ran on that node as far as is remembered.
    #[must_use]
    pub fn ran_here(&self, node: &NodeName, key: AttemptKey) -> Option<ProjectName> {
        let job = self.jobs.get(&key.job)?;
        let now = job.attempt.as_ref().filter(|a| a.no == key.attempt);
        let here = match now {
            Some(a) => a.placement.slots.iter().any(|s| s.node == *node),
            // Of a large gang only the first nodes are remembered.
            None => job.past.iter().any(|p| {
                p.no == key.attempt && (p.nodes.contains(node) || p.nodes.len() >= PAST_NODES)
            }),
        };
        here.then(|| job.project.clone())
    }

    /// Is it certain that an attempt never had ranks on that node? Not of what the log does not know,
    /// any more or as its end was lost; where the node has seen more of the log (`behind`), of nothing.
    #[must_use]
    pub fn never_ran_here(&self, node: &NodeName, key: AttemptKey, behind: bool) -> bool {
        let Some(job) = self.jobs.get(&key.job).filter(|_| !behind) else { return false };
        // Attempts of a lost life may have had the same numbers.
        if self.lives.last().is_some_and(|l| job.submitted_at < l.at) {
            return false;
        }
        let older = || job.past.first().is_some_and(|oldest| key.attempt < oldest.no);
        let known = key.attempt > 0 && key.attempt <= job.attempts;
        !(known && (self.ran_here(node, key).is_some() || older()))
    }

    /// Was the enrolment of a node that shows a certificate of this site lost with the end of the
    /// log? Certificates are given to nodes that the log knows, and it forgets none.
    #[must_use]
    pub fn lost_enrolment(&self, node: &NodeName) -> bool {
        !self.lives.is_empty() && !self.nodes.contains_key(node)
    }

    /// The life in which a record was written, by the lead it began with; 0 is the first.
    #[must_use]
    pub fn generation_at(&self, seq: Seq) -> Epoch {
        self.lives.iter().rev().find(|l| l.seq <= seq).map_or(Epoch(0), |l| l.epoch)
    }

    /// The life in which an attempt was placed. Of one that is not known any more, that of the
    /// oldest which is; of one that never was, the present one.
    #[must_use]
    pub fn generation_of(&self, key: AttemptKey) -> Epoch {
        let last = self.lives.last().map_or(Epoch(0), |l| l.epoch);
        let Some(job) = self.jobs.get(&key.job).filter(|_| !self.lives.is_empty()) else {
            return last;
        };
        let now = job.attempt.iter().filter(|a| a.no == key.attempt).map(|a| a.placed_at);
        let then = job.past.iter().filter(|p| p.no >= key.attempt).map(|p| p.placed_at);
        // Times in the log never go back; the first record of a life is of that life.
        let of =
            |at: Time| self.lives.iter().rev().find(|l| l.at <= at).map_or(Epoch(0), |l| l.epoch);
        now.chain(then).next().map_or(last, of)
    }

    /// How many jobs compete for room.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        self.index.cluster.queue.len()
    }
}
