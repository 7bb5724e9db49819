//! A job as the log knows it: its state, its attempts and how they ended.

use crate::actor::user_of;
use crate::hold::{HeldBy, Hold};
use crate::ids::{AttemptKey, JobId, Seq};
use crate::names::{Label, NodeName, ProjectName};
use crate::placement::Placement;
use crate::preflight::AttemptPreflight;
use crate::spec::Group;
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

mod change;
mod exit;
mod fence;
mod preempted;
mod recovery;
mod reserved_start;
mod shared_spec;
mod slot_end;
mod verdict;

pub use change::JobUpdate;
pub use exit::Exit;
pub use fence::{Fence, FenceEnd};
use preempted::Other;
pub use recovery::Recovery;
pub use shared_spec::{SharedSpec, SpecChange};
pub use slot_end::{NodeFaultKind, SlotEnd};
pub use verdict::{AttributionCounts, Verdict};

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for its turn, for others, or for room.
    Queued,
    /// Placed; not every rank is up yet.
    Starting,
    /// Every rank is up.
    Running,
    /// Ranks are being stopped.
    Stopping,
    /// Every rank ended with code 0.
    Succeeded,
    /// Ended badly, and is not tried again.
    Failed,
    /// Ended because somebody asked.
    Cancelled,
}

impl JobState {
    /// All of them.
    pub const ALL: [JobState; 7] = [
        JobState::Queued,
        JobState::Starting,
        JobState::Running,
        JobState::Stopping,
        JobState::Succeeded,
        JobState::Failed,
        JobState::Cancelled,
    ];

    /// Over for good?
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Succeeded | JobState::Failed | JobState::Cancelled)
    }
    /// Does it hold resources?
    #[must_use]
    pub fn is_active(self) -> bool {
        matches!(self, JobState::Starting | JobState::Running | JobState::Stopping)
    }
    /// The word users see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Starting => "starting",
            JobState::Running => "running",
            JobState::Stopping => "stopping",
            JobState::Succeeded => "succeeded",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// How the other job must have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// The other job succeeded.
    Ok,
    /// Failed or was cancelled.
    Fail,
    /// Ended in any way.
    Any,
}

/// A job that must end first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dependency {
    /// The other job; with an array, its first task.
    pub job: JobId,
    /// How many jobs in a row from there (an array's tasks).
    pub count: u32,
    /// How they must end.
    pub condition: Condition,
}

/// A task's place in its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ArrayTask {
    /// The array's id: its first task's.
    pub parent: JobId,
    /// This task's index.
    pub index: u32,
    /// Tasks in all.
    pub count: u32,
}

/// Where a slot stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SlotState {
    /// Wanted; not yet reported up.
    Pending,
    /// Its ranks are up.
    Running,
    /// Its node is lost; what runs there is unknown.
    Lost,
    /// Over: holds nothing any more.
    Ended {
        /// How its ranks ended.
        end: SlotEnd,
    },
}

/// Why an attempt is being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum StopReason {
    /// Somebody cancelled the job.
    Cancelled {
        /// The user who cancelled it.
        by: String,
    },
    /// Somebody asked for a new attempt.
    Requeued {
        /// The user who asked for it.
        by: String,
    },
    /// It ran past its limit.
    TimeLimit {
        /// How long it was allowed to run.
        limit: Span,
    },
    /// A slot failed; the rest of the gang is stopped.
    SlotFailed {
        /// The node of the slot that ended.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        node: NodeName,
        /// How that slot's ranks ended.
        end: SlotEnd,
    },
    /// A node of the gang was lost.
    NodeLost {
        /// The node whose heartbeat was lost.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        node: NodeName,
    },
    /// A node of the gang is being drained.
    Drain {
        /// The node that is being emptied.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        node: NodeName,
        /// No person ordered it: Muster did, because the node is unhealthy.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        automatic: bool,
    },
    /// Its GPUs go to a job that ranks higher.
    Preempted {
        /// The job that gets its nodes; absent where the reader may not see it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<JobId>,
        /// What ranks it higher.
        rank: Rank,
    },
    /// It continues with another number of nodes.
    Resized {
        /// How many nodes the next attempt has.
        nodes: u32,
    },
    /// It continues elsewhere, so that a waiting gang fits.
    Moved {
        /// The waiting gang; absent where the reader may not see it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<JobId>,
    },
    /// A reservation of others begins.
    ReservationBegins {
        /// The reservation's name; absent where the reader may not know it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        name: Option<Label>,
    },
    /// GPUs were allocated to it and it did nothing with them.
    Idle {
        /// For so long.
        idle: Span,
    },
    /// Hardware under it is unhealthy; it continues elsewhere.
    Unhealthy {
        /// The unhealthy node.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        node: NodeName,
        /// The number of the finding.
        finding: u64,
        /// The failure mode.
        mode: String,
    },
    /// It made no progress.
    Hung {
        /// The number of the finding.
        finding: u64,
    },
}

/// What ranks one job above another that is stopped for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    /// A higher priority class.
    Priority,
    /// The other one is spot work.
    Spot,
    /// The other one runs on quota that was borrowed from this one.
    Quota,
}

impl StopReason {
    /// The node because of which an attempt is stopped: it is lost, unhealthy or drained.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            StopReason::NodeLost { node }
            | StopReason::Drain { node, .. }
            | StopReason::Unhealthy { node, .. } => Some(node),
            _ => None,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::Cancelled { by } => write!(f, "cancelled by {by}"),
            StopReason::Requeued { by } => write!(f, "requeued by {by}"),
            StopReason::TimeLimit { limit } => write!(f, "ran past its time limit of {limit}"),
            StopReason::SlotFailed { node, end } => match end {
                SlotEnd::Failed { exit } => write!(f, "{exit} on {node}"),
                SlotEnd::Unstartable { reason } => write!(f, "could not start on {node}: {reason}"),
                // The node has nothing to do with it.
                SlotEnd::NodeFault { reason, kind: NodeFaultKind::Restored } => {
                    write!(f, "{reason} (node {node})")
                }
                SlotEnd::NodeFault { reason, .. } => write!(f, "node {node} failed it: {reason}"),
                SlotEnd::Ok | SlotEnd::Stopped => write!(f, "ended early on {node}"),
            },
            StopReason::NodeLost { node } => write!(f, "node {node} was lost"),
            StopReason::Drain { node, .. } => write!(f, "node {node} is being drained"),
            StopReason::Preempted { by, rank } => {
                let other = Other(*by);
                match rank {
                    Rank::Priority => {
                        write!(f, "preempted by {other}, which has a higher priority")
                    }
                    Rank::Spot => write!(f, "spot work, evicted for {other}"),
                    Rank::Quota => write!(f, "ran on borrowed quota, reclaimed for {other}"),
                }
            }
            StopReason::Resized { nodes } => write!(f, "resized to {nodes} nodes"),
            StopReason::Moved { by } => write!(f, "moved so that {} fits", Other(*by)),
            StopReason::ReservationBegins { name: Some(name) } => {
                write!(f, "reservation {name} begins")
            }
            StopReason::ReservationBegins { name: None } => f.write_str("a reservation begins"),
            StopReason::Idle { idle } => write!(f, "had GPUs allocated and did nothing for {idle}"),
            StopReason::Unhealthy { node, mode, finding } => {
                write!(f, "node {node} is unhealthy: {mode} (finding {finding})")
            }
            StopReason::Hung { finding } => write!(f, "it made no progress (finding {finding})"),
        }
    }
}

/// What is said of a waiting job whose reserved start has passed.
pub const START_DUE: &str = "reserved start is due: it starts when its nodes are free";

/// Why an attempt ended, reported when it is over: what was so then may not be so now.
#[must_use]
pub fn past_reason(why: &str) -> String {
    let why = why.replacen(" is unhealthy: ", " was unhealthy: ", 1);
    why.replacen(" is being drained", " was being drained", 1)
}

/// An active attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counts from 1.
    pub no: u32,
    /// What it was given.
    pub placement: Arc<Placement>,
    /// State of each slot, in the placement's order.
    pub slots: Vec<SlotState>,
    /// When it was placed.
    pub placed_at: Time,
    /// When every rank was up.
    pub started_at: Option<Time>,
    /// When it will have run too long.
    pub deadline: Option<Time>,
    /// Set once it is being stopped.
    pub stop: Option<Stop>,
    /// It will be stopped, and has time to write a checkpoint first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
    /// The network between its nodes is measured, or was, before its ranks start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<AttemptPreflight>,
    /// When its last rank ended: from then on nothing is allocated to it, although its end may not
    /// be settled yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed_at: Option<Time>,
    /// When the latest of those of its slots ended that have: ends are not always heard in the
    /// order in which they happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end: Option<Time>,
    /// Nodes whose agent has since run in another directory than when ranks were ordered there, and
    /// that first directory: only an agent that runs there can say that they are gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub started_from: BTreeMap<NodeName, String>,
    /// When the latest of those of its nodes that are lost was last heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_at: Option<Time>,
}

impl Attempt {
    /// Were its ranks on a node started from another directory than the one in which the agent runs
    /// that is heard there now? Then that agent cannot know what became of them.
    #[must_use]
    pub fn started_elsewhere(&self, node: &NodeName, place: &str) -> bool {
        !place.is_empty() && self.started_from.get(node).is_some_and(|p| p != place)
    }

    /// Its preflight while that goes on: nobody was ordered to start a rank.
    #[must_use]
    pub fn in_preflight(&self) -> Option<&AttemptPreflight> {
        self.preflight.as_ref().filter(|p| p.outcome.is_none() && self.stop.is_none())
    }

    /// When its ranks stopped, as far as anybody knows: the last one ended then, or its node was last
    /// heard. None while one of them may be up.
    #[must_use]
    pub fn stopped_at(&self) -> Option<Time> {
        let up = |s: &SlotState| matches!(s, SlotState::Pending | SlotState::Running);
        if self.slots.iter().any(up) {
            return None;
        }
        self.freed_at.or(self.last_end.max(self.lost_at))
    }

    /// Until when all its ranks were up, once none is: until they stopped, or until the last
    /// heartbeat of a node that was lost, although others ran on until they were stopped.
    #[must_use]
    pub fn up_until(&self) -> Option<Time> {
        let stopped = self.stopped_at()?;
        Some(self.lost_at.map_or(stopped, |t| t.min(stopped)))
    }

    /// How many nodes it has.
    #[must_use]
    pub fn node_count(&self) -> usize {
        let all: BTreeSet<&NodeName> = self.placement.slots.iter().map(|s| &s.node).collect();
        all.len()
    }
}

/// An attempt will be stopped after its next checkpoint, or at the latest at a given time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notice {
    /// Why it will be stopped.
    pub reason: StopReason,
    /// When the notice was given.
    pub at: Time,
    /// Stopped at the latest then.
    pub until: Time,
}

/// The reserved start of a waiting job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReservedStart {
    /// Not later than this.
    pub at: Time,
    /// Nodes that are kept for it, in the order of its groups.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub nodes: Arc<[NodeName]>,
    /// What it rests on.
    pub basis: Basis,
    /// When it first got a reserved start.
    pub since: Time,
    /// Why it became later than was reserved before, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<String>,
}

/// What a reserved start rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Time limits of what runs there.
    Limits,
    /// Others are being stopped for it.
    Preemption,
    /// Healthy nodes it had, and replacements for those that failed.
    Swap,
    /// It is being resized.
    Resize,
    /// It is being moved.
    Move,
}

/// An attempt is being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Why it is stopped.
    pub reason: StopReason,
    /// When the stop was ordered.
    pub at: Time,
    /// How long the ranks get between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Until then a slot on a lost node may still write; no other attempt starts before. None
    /// means: until the node is heard again.
    pub fence_until: Option<Time>,
}

/// An attempt that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PastAttempt {
    /// Counts from 1.
    pub no: u32,
    /// First nodes of its placement (at most 16 are kept).
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub nodes: Vec<NodeName>,
    /// When it was placed.
    pub placed_at: Time,
    /// When every rank was up, if ever.
    pub started_at: Option<Time>,
    /// When its end was settled.
    pub ended_at: Time,
    /// When its last rank ended; none where not all of them were heard to end, because a node was
    /// lost. (In snapshots of older versions also none where it was when its end was settled.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed_at: Option<Time>,
    /// Until when all its ranks were up as far as is known, where a node was lost: its last
    /// heartbeat. Another attempt may have waited long after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<Time>,
    /// What caused its end.
    pub verdict: Verdict,
    /// Why it ended, for people.
    pub reason: String,
    /// Findings that the verdict rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<u64>,
    /// What it was stopped for; none for one whose ranks all ended well, and for most that older
    /// snapshots report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_for: Option<StopReason>,
}

impl PastAttempt {
    /// What its end is attributed to, in a word, where the job is this user's: who cancels their
    /// own work is no operator.
    #[must_use]
    pub fn attributed_to(&self, user: &str) -> &'static str {
        match &self.stopped_for {
            Some(StopReason::Cancelled { by })
                if self.verdict == Verdict::Operator && user_of(by) == user_of(user) =>
            {
                "user"
            }
            _ => self.verdict.word(),
        }
    }

    /// For one of an older snapshot, which has the reason for people alone: who cancelled it is
    /// read from there, once.
    pub fn read_canceller(&mut self) {
        if self.stopped_for.is_none()
            && self.verdict == Verdict::Operator
            && let Some(by) = self.reason.strip_prefix("cancelled by ")
        {
            self.stopped_for = Some(StopReason::Cancelled { by: by.to_owned() });
        }
    }

    /// Until when something was allocated to it.
    #[must_use]
    pub fn freed(&self) -> Time {
        self.freed_at.unwrap_or(self.ended_at)
    }
}

/// A checkpoint that a job said it has written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checkpoint {
    /// Attempt that wrote it.
    pub attempt: u32,
    /// Training step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Its path as the job reported it, as its ranks see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its size in bytes, if the job said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How long the job was blocked by it, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_ms: Option<u64>,
    /// When it was reported.
    pub at: Time,
}

pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A job as the log knows it: what was asked for, and everything that became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its number, unique in the site and never used again.
    pub id: JobId,
    /// What its user calls it; not unique.
    pub name: Label,
    /// Who owns it.
    pub project: ProjectName,
    /// Who submitted it.
    pub user: String,
    /// The spec without what runs.
    pub spec: SharedSpec,
    /// The gang with every default filled in.
    pub groups: Arc<[Group]>,
    /// The key under which what runs is kept beside the log.
    pub payload: JobId,
    /// Bytes that were submitted, which the tasks of an array share; 0 where an older log does not
    /// have the number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub payload_bytes: u64,
    /// Its place in an array.
    pub array: Option<ArrayTask>,
    /// Jobs that must end first.
    pub depends: Arc<[Dependency]>,
    /// Its state.
    pub state: JobState,
    /// What holds it, while it is held.
    pub held: Option<Hold>,
    /// When it was submitted; its age counts from here through every retry.
    pub submitted_at: Time,
    /// Does not start before this (after a failed attempt).
    #[serde(default)]
    pub not_before: Time,
    /// When an attempt first had every rank up.
    pub started_at: Option<Time>,
    /// When its end was settled; [`Job::ended`] says when it ended.
    pub ended_at: Option<Time>,
    /// Why it ended, or why the last attempt did.
    pub reason: Option<String>,
    /// Exit code, once it has ended by itself.
    pub exit_code: Option<i32>,
    /// The active attempt.
    pub attempt: Option<Attempt>,
    /// Attempts that are over, oldest first (at most 16 are kept).
    pub past: Vec<PastAttempt>,
    /// Attempts made so far.
    pub attempts: u32,
    /// Attempts that the platform failed.
    pub infrastructure_failures: u32,
    /// Attempts that failed by themselves.
    pub application_failures: u32,
    /// Its newest checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// When a checkpoint was last asked for and not yet answered.
    pub checkpoint_asked: Option<Time>,
    /// Its reserved start, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_start: Option<ReservedStart>,
    /// Why the reserved start that it had was withdrawn, while it waits without another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_withdrawn: Option<String>,
    /// Nodes an elastic gang wants next; the written size when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Attempts that were stopped for others.
    #[serde(default)]
    pub preemptions: u32,
    /// When it was warned that its GPUs do nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_warned: Option<Time>,
    /// Its recovery from its last failure of hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Nodes that became unhealthy under it, each once (at most 16).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_nodes: Vec<NodeName>,
    /// The last way back that was over before `recovery` began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<Recovery>,
    /// While it waits: lost nodes of its last attempt, whose other ranks all ended with 0. If theirs did
    /// as well, it has succeeded.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unreported: BTreeSet<NodeName>,
    /// Sequence number of the last record that changed it.
    pub version: Seq,
}

/// An attempt that ran for less than this and failed is a crash: many in a row are a job that crashes
/// again and again.
pub const CRASHED_WITHIN: Span = Span::mins(10);

/// So long after its first rank failed the end of a job may be held back, because what names the
/// cause (a fault in the log of a node's kernel) can come a moment after the rank. Never longer:
/// a job that is called ended stays ended.
pub const CAUSE_WINDOW: Span = Span::secs(5);

/// And so long at least after a server heard of a failure that was a while ago: what names the cause
/// comes in the same breath.
const CAUSE_REPORTED_WITHIN: Span = Span::secs(2);

impl Job {
    /// Does an attempt go on that nothing stops? One that is being stopped does not run any more.
    #[must_use]
    pub fn runs(&self) -> bool {
        matches!(self.state, JobState::Starting | JobState::Running)
            && self.attempt.as_ref().is_some_and(|a| a.stop.is_none())
    }

    /// Until when its end is held back while its cause is looked for. Only where the cause would
    /// change what follows: a rank failed by itself, every rank is gone, hardware was used, the
    /// failure is the job's last as far as is known, and one of the infrastructure would be tried
    /// again.
    #[must_use]
    pub fn ending_until(&self) -> Option<Time> {
        let a = self.attempt.as_ref()?;
        let stop = a.stop.as_ref()?;
        let StopReason::SlotFailed { end: SlotEnd::Failed { exit }, .. } = &stop.reason else {
            return None;
        };
        let gone = a.slots.iter().all(|s| matches!(s, SlotState::Ended { .. }));
        let gpus = a.placement.slots.iter().any(|s| !s.gpus.is_empty());
        let ran = !Exit::means_not_run(exit.shell_code());
        let retries = &self.spec.retries;
        let last = self.application_failures >= retries.application;
        let excused = self.infrastructure_failures < retries.infrastructure;
        let failed = a.last_end.map_or(stop.at, |t| t.min(stop.at));
        let until = (failed + CAUSE_WINDOW).max(stop.at + CAUSE_REPORTED_WITHIN);
        (gone && gpus && ran && last && excused).then_some(until)
    }

    /// Since when a person keeps it from starting, while one does. What the control plane holds by
    /// itself is none of it, and older snapshots do not have the moment.
    #[must_use]
    pub fn held_since(&self) -> Option<Time> {
        self.held.as_ref().filter(|h| h.by == HeldBy::Somebody)?.since
    }

    /// Its reserved start, unless that moment has passed: what was there is not gone yet, or the server
    /// was down meanwhile. When the job starts does not follow from it any more; this is what people
    /// are shown.
    #[must_use]
    pub fn reserved_ahead(&self, now: Time) -> Option<&ReservedStart> {
        self.reserved_start.as_ref().filter(|p| p.at >= now)
    }

    /// When it ended: with its last rank, although the server may have heard of that, or settled
    /// it, later. One that was cancelled while it waited ended then. This is what people are shown.
    #[must_use]
    pub fn ended(&self) -> Option<Time> {
        let settled = self.ended_at?;
        let last = self.past.last().filter(|p| p.ended_at == settled);
        Some(last.map_or(settled, PastAttempt::freed))
    }

    /// The attempt that a failed job ended with, where that turned out not to be its own doing:
    /// nothing starts it again by itself, and its user may.
    #[must_use]
    pub fn excused_attempt(&self) -> Option<&PastAttempt> {
        let last = self.past.last().filter(|p| p.verdict.exonerates_job());
        last.filter(|_| self.state == JobState::Failed)
    }

    /// Did it fail, or was it cancelled? One whose ranks have all ended badly failed, though its
    /// cause may still be looked for.
    #[must_use]
    pub fn failed_or_cancelled(&self) -> bool {
        let ended = matches!(self.state, JobState::Failed | JobState::Cancelled);
        ended || self.ending_until().is_some()
    }

    /// Why it is queued, where something else than the end of its last attempt put it there. That end
    /// comes first, for whoever asks why the job waits.
    #[must_use]
    pub fn after_last_end(&self, what: &str) -> String {
        match self.past.last() {
            Some(last) => format!("{}; then {what}", last.reason),
            None => what.to_owned(),
        }
    }

    /// Key of the attempt that goes on.
    #[must_use]
    pub fn attempt_key(&self) -> Option<AttemptKey> {
        self.attempt.as_ref().map(|a| AttemptKey { job: self.id, attempt: a.no })
    }

    /// How it stands, for people: a job that waits may be held, and one whose end is held back is
    /// not being stopped.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.state {
            JobState::Queued if self.held.is_some() => "held",
            _ if self.ending_until().is_some() => "ending",
            state => state.word(),
        }
    }

    /// `42`, or `42_3` for a task of an array.
    #[must_use]
    pub fn display_id(&self) -> String {
        match self.array {
            Some(a) => format!("{}_{}", a.parent, a.index),
            None => self.id.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
