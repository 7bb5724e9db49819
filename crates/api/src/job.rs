//! Jobs.

use crate::{Kind, Recovery, Timestamp};
use muster_model::job as m;
use muster_model::job::{
    ArrayTask, Basis, Dependency, JobState, SharedSpec, SlotEnd, StopReason, Verdict,
};
use muster_model::placement::{AllocatedPart, Fabric};
use muster_model::spec::{GpuPart, Group, JobSpec};
use muster_model::topology::Level;
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A job: what was asked for, and everything that became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// `42`, or `42_3` for a task of an array.
    pub id: String,
    /// The plain number, as in `SLURM_JOB_ID`.
    pub number: u64,
    /// Always `Job`.
    pub kind: Kind,
    /// What its user calls it; not unique.
    pub name: String,
    /// Its state.
    pub state: JobState,
    /// The version: the last record that changed it; goes into `If-Match`.
    pub version: u64,
    /// Who owns it.
    pub project: String,
    /// Who submitted it.
    pub user: String,
    /// As submitted; secrets are names only.
    #[cfg_attr(feature = "openapi", schema(value_type = JobSpec))]
    pub spec: Arc<JobSpec>,
    /// The gang with every default filled in.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Group>))]
    pub groups: Arc<[Group]>,
    /// Its place in an array.
    pub array: Option<ArrayTask>,
    /// Jobs that must end first.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Dependency>))]
    pub depends: Arc<[Dependency]>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// When an attempt first had every rank up.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it ended, or why its attempt is stopped; of a job that waits, why its last one ended.
    pub reason: Option<String>,
    /// Exit code, once it has ended by itself.
    pub exit_code: Option<i32>,
    /// Who held it; null where it is not held.
    pub held: Option<String>,
    /// It does not start before this: the wait between attempts grows while a job fails.
    pub not_before: Option<Timestamp>,
    /// Attempts made so far.
    pub attempts: u32,
    /// Attempts that the platform failed.
    pub infrastructure_failures: u32,
    /// Attempts that failed by themselves.
    pub application_failures: u32,
    /// The active attempt.
    pub attempt: Option<Attempt>,
    /// Attempts that are over, oldest first.
    pub past: Vec<PastAttempt>,
    /// Its newest checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// When a checkpoint was asked for and not yet answered.
    pub checkpoint_asked: Option<Timestamp>,
    /// Its reserved start, while it waits; null once that moment has passed.
    pub reserved_start: Option<ReservedStart>,
    /// Nodes an elastic gang wants next; null when that is the written size.
    pub size: Option<u32>,
    /// Attempts that were preempted.
    pub preemptions: u32,
    /// When it was warned that its GPUs do nothing.
    pub idle_warned: Option<Timestamp>,
    /// The newest step it reported.
    pub progress: Option<Progress>,
    /// Why it waits, in a few words; only while it is queued.
    pub waiting: Option<String>,
    /// Its recovery from its last failure of hardware.
    #[serde(default)]
    pub recovery: Option<Recovery>,
    /// Nodes that became unhealthy under it.
    #[serde(default)]
    pub unhealthy_nodes: Vec<String>,
    /// Whether `explain` may have a warning for its user; only in the answer to its submission.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_warnings: bool,
}

/// The reserved start of a waiting job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReservedStart {
    /// Not later than this.
    pub at: Timestamp,
    /// Nodes that are reserved for it.
    pub nodes: Vec<String>,
    /// What it rests on.
    pub basis: Basis,
    /// When it first got a reserved start.
    pub since: Timestamp,
    /// Why it became later than was reserved before, if it did.
    pub moved: Option<String>,
}

/// An attempt will be stopped, and has time to write a checkpoint first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notice {
    /// Why, for programs.
    pub reason: StopReason,
    /// Why, for people.
    pub message: String,
    /// When the notice was given.
    pub at: Timestamp,
    /// Stopped at the latest then.
    pub until: Timestamp,
}

/// The network between an attempt's nodes is measured, or was, before its ranks start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptPreflight {
    /// What is done, or what came of it, for people.
    pub message: String,
    /// When it began.
    pub since: Timestamp,
    /// The ranks start then at the latest.
    pub until: Timestamp,
    /// Nodes that were found to be slow.
    pub slow: Vec<String>,
    /// `passed`, `not_measured`, `slow` or `timed_out`; none while it runs or when it was cut short.
    pub outcome: Option<String>,
}

/// An active attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// Counts from 1.
    pub no: u32,
    /// `starting`, `running` or `stopping`.
    pub state: JobState,
    /// When it was placed.
    pub placed_at: Timestamp,
    /// When every rank was up.
    pub started_at: Option<Timestamp>,
    /// When it will have run too long.
    pub deadline: Option<Timestamp>,
    /// When its last rank ended: nothing is allocated to it since, although its end is not settled.
    pub freed_at: Option<Timestamp>,
    /// When its ranks stopped as far as is known: the last heartbeat of a lost node, otherwise the
    /// end of the last one. Null while one of them may be up.
    #[serde(default)]
    pub stopped_at: Option<Timestamp>,
    /// The narrowest domain with the whole gang in it.
    pub domain: String,
    /// That domain's level.
    pub level: Level,
    /// What a collective of the whole gang runs over.
    pub fabric: Fabric,
    /// The same for people.
    pub fabric_text: String,
    /// Power cap for each GPU in watts, when a budget asks for one.
    pub cap_watts: Option<u32>,
    /// Port of the first rank's rendezvous.
    pub port: u16,
    /// What is allocated to it on each node.
    pub slots: Vec<Slot>,
    /// Set once it is being stopped.
    pub stop: Option<Stop>,
    /// Set when it will be stopped after its next checkpoint.
    pub notice: Option<Notice>,
    /// Set when it began with a preflight.
    pub preflight: Option<AttemptPreflight>,
}

/// An attempt is being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stop {
    /// Why, for programs.
    pub reason: StopReason,
    /// Why, for people.
    pub message: String,
    /// When the stop was ordered.
    pub at: Timestamp,
    /// Time between SIGTERM and SIGKILL.
    pub grace: muster_model::units::Span,
    /// No other attempt starts before this.
    pub fence_until: Option<Timestamp>,
}

/// A gang's share of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Slot {
    /// The node it is on.
    pub node: String,
    /// Index of the group in the gang.
    pub group: u32,
    /// Index of this slot in rank order.
    pub node_rank: u32,
    /// First global rank here.
    pub first_rank: u32,
    /// Ranks here.
    pub ranks: u32,
    /// Allocated GPUs, by index.
    pub gpus: Vec<u32>,
    /// Logical processors allocated.
    pub cpus: u32,
    /// Memory allocated.
    pub memory: muster_model::units::Bytes,
    /// Only this part of the one GPU named in `gpus`; null for whole GPUs.
    pub part: Option<AllocatedPart>,
    /// `pending`, `running`, `lost` or `ended`.
    pub state: String,
    /// How it ended, once it has.
    pub end: Option<SlotEnd>,
}

/// An attempt that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PastAttempt {
    /// Counts from 1.
    pub no: u32,
    /// First nodes of its placement.
    pub nodes: Vec<String>,
    /// When it was placed.
    pub placed_at: Timestamp,
    /// When every rank was up, if ever.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// When its ranks stopped as far as is known, where that was before it ended: a node was lost, and
    /// what it ran was waited for.
    #[serde(default)]
    pub stopped_at: Option<Timestamp>,
    /// What caused its end.
    pub verdict: Verdict,
    /// The same for people: the attribution, or `user` where the job's own user cancelled it.
    #[serde(default)]
    pub attributed_to: String,
    /// Why it ended, for people.
    pub reason: String,
    /// Findings that the verdict rests on.
    #[serde(default)]
    pub findings: Vec<String>,
}

/// A checkpoint that the job reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checkpoint {
    /// Attempt that wrote it.
    pub attempt: u32,
    /// Training step.
    pub step: Option<u64>,
    /// Its path as the job reported it, as its ranks see it.
    pub path: Option<String>,
    /// How large, in bytes.
    pub bytes: Option<u64>,
    /// How long the job was blocked by it, in milliseconds.
    pub blocked_ms: Option<u64>,
    /// When it was reported.
    pub at: Timestamp,
}

/// The newest step a job reported through `MUSTER_REPORT`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Progress {
    /// Step number.
    pub step: u64,
    /// Rank that reported it.
    pub rank: u32,
    /// Seconds the step took.
    pub t: Option<f64>,
    /// The loss at that step, if the job reports it.
    pub loss: Option<f64>,
    /// When it was reported.
    pub at: Timestamp,
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobList {
    /// The jobs of this page.
    pub items: Vec<Job>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// What a submission made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Submitted {
    /// Several jobs. First, because a job has no `count` and `items`, so it is never read as one.
    Array(JobArray),
    /// One job.
    Job(Box<Job>),
}

impl Submitted {
    /// The id to print: the job's, or the array's.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Submitted::Array(a) => &a.id,
            Submitted::Job(j) => &j.id,
        }
    }

    /// Whether `explain` may have a warning for whoever submitted it.
    #[must_use]
    pub fn has_warnings(&self) -> bool {
        match self {
            Submitted::Array(a) => a.has_warnings,
            Submitted::Job(j) => j.has_warnings,
        }
    }
}

/// Several jobs that were submitted as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobArray {
    /// The array's id: its first task's number.
    pub id: String,
    /// Always `JobArray`.
    pub kind: Kind,
    /// Name of every task.
    pub name: String,
    /// State of the task that is least far; of the one that ended worst when all are over.
    pub state: JobState,
    /// The version: the record that made them.
    pub version: u64,
    /// How many tasks.
    pub count: u32,
    /// The tasks in order of their index.
    pub items: Vec<ArrayItem>,
    /// Whether `explain` may have a warning for its user; only in the answer to its submission.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_warnings: bool,
}

/// A task of an array, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ArrayItem {
    /// `42_3`.
    pub id: String,
    /// Its plain number.
    pub number: u64,
    /// Its index in the array, as submitted.
    pub index: u32,
    /// Its state.
    pub state: JobState,
}

/// A task of an array shows its own index, not the text of the whole array: ten thousand tasks
/// would say it ten thousand times. What was written is in the log's `job_submitted`.
fn shown_spec(spec: &SharedSpec, task: Option<ArrayTask>) -> Arc<JobSpec> {
    let mut shown = spec.whole();
    if let (Some(t), Some(_)) = (task, &spec.array) {
        Arc::make_mut(&mut shown).array = Some(t.index.to_string());
    }
    shown
}

impl Job {
    /// The job as the API shows it. `progress`, `waiting` and `has_warnings` are not in the log: the
    /// caller fills them in.
    #[must_use]
    pub fn of(job: &m::Job, now: Time) -> Job {
        let m::Job {
            id,
            name,
            project,
            user,
            spec,
            groups,
            payload: _,
            payload_bytes: _,
            array,
            depends,
            state,
            held,
            submitted_at,
            started_at,
            ended_at: _,
            reason,
            exit_code,
            attempt,
            past,
            attempts,
            infrastructure_failures,
            application_failures,
            checkpoint,
            checkpoint_asked,
            not_before,
            reserved_start: _,
            start_withdrawn: _,
            size,
            preemptions,
            idle_warned,
            version,
            recovery: _,
            recovered: _,
            unreported: _,
            unhealthy_nodes,
        } = job;
        Job {
            id: job.display_id(),
            number: id.0,
            kind: Kind::Job,
            name: name.to_string(),
            state: *state,
            version: version.0,
            project: project.to_string(),
            user: user.clone(),
            spec: shown_spec(spec, *array),
            groups: Arc::clone(groups),
            array: *array,
            depends: Arc::clone(depends),
            submitted_at: (*submitted_at).into(),
            started_at: started_at.map(Into::into),
            ended_at: job.ended().map(Into::into),
            // Why an earlier attempt ended says nothing about the present one.
            reason: match attempt {
                Some(a) => a.stop.as_ref().map(|s| s.reason.to_string()),
                None => reason.clone(),
            },
            exit_code: *exit_code,
            held: held.as_ref().map(ToString::to_string),
            not_before: (not_before.0 > 0).then_some((*not_before).into()),
            attempts: *attempts,
            infrastructure_failures: *infrastructure_failures,
            application_failures: *application_failures,
            attempt: attempt.as_ref().map(|a| {
                let mut shown = Attempt::of(a, *state);
                if let Some(stop) = shown.stop.as_mut().filter(|_| job.ending_until().is_some()) {
                    stop.message = format!("ending, looking for the cause: {}", stop.message);
                }
                shown
            }),
            past: past.iter().map(|p| PastAttempt::of(p, user)).collect(),
            checkpoint: checkpoint.as_ref().map(Checkpoint::of),
            checkpoint_asked: checkpoint_asked.map(Into::into),
            reserved_start: job.reserved_ahead(now).map(ReservedStart::of),
            size: *size,
            preemptions: *preemptions,
            idle_warned: idle_warned.map(Into::into),
            progress: None,
            waiting: None,
            recovery: Recovery::of_job(job),
            unhealthy_nodes: unhealthy_nodes.iter().map(ToString::to_string).collect(),
            has_warnings: false,
        }
    }

    /// What its user may do about a job that failed, where its last attempt turned out not to be
    /// its own doing. Nothing starts it again by itself.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let last = self.past.last().filter(|p| p.verdict.exonerates_job());
        last.filter(|_| self.state == JobState::Failed).map(|p| {
            let why = p.verdict.word();
            format!("attributed to {why}: `muster requeue {}` runs it again", self.id)
        })
    }

    /// Nodes of the gang: an elastic one has what it was given, while it runs.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        match (&self.attempt, self.groups.len()) {
            (Some(a), 1) => a.slots.len() as u64,
            _ => self.groups.iter().map(|g| u64::from(g.nodes)).sum(),
        }
    }

    /// GPUs of the gang.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        match &self.groups[..] {
            [g] => self.nodes() * u64::from(g.gpus),
            all => all.iter().map(|g| u64::from(g.nodes) * u64::from(g.gpus)).sum(),
        }
    }

    /// GPUs of the gang in thousandths: a share of a GPU counts as what it is.
    #[must_use]
    pub fn gpu_milli(&self) -> u64 {
        let one = self.groups.len() == 1;
        let nodes = |g: &Group| if one { self.nodes() } else { u64::from(g.nodes) };
        let each = |g: &Group| match g.part {
            Some(GpuPart::Milli(m)) => u64::from(m),
            _ => u64::from(g.gpus) * 1000,
        };
        self.groups.iter().map(|g| nodes(g) * each(g)).sum()
    }

    /// Ranks of the gang.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        self.groups.iter().map(|g| u64::from(g.nodes) * u64::from(g.ranks)).sum()
    }
}

impl Attempt {
    /// Is every rank of it gone, and only its end not settled yet?
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.stop.is_some() && self.slots.iter().all(|s| s.state == "ended")
    }

    /// Its preflight while that goes on: the ranks start when it is over.
    #[must_use]
    pub fn in_preflight(&self) -> Option<&AttemptPreflight> {
        self.preflight.as_ref().filter(|p| p.outcome.is_none() && self.stop.is_none())
    }

    /// What joins its GPUs, for people; nothing for one that holds none.
    #[must_use]
    pub fn fabric_shown(&self) -> Option<&str> {
        let holds = self.slots.iter().any(|s| !s.gpus.is_empty());
        holds.then_some(self.fabric_text.as_str())
    }

    /// The attempt as the API shows it; `state` is its job's.
    #[must_use]
    pub fn of(attempt: &m::Attempt, state: JobState) -> Attempt {
        let m::Attempt {
            no,
            placement,
            slots,
            placed_at,
            started_at,
            deadline,
            stop,
            notice,
            preflight,
            freed_at,
            last_end: _,
            started_from: _,
            lost_at: _,
        } = attempt;
        Attempt {
            no: *no,
            state,
            placed_at: (*placed_at).into(),
            started_at: started_at.map(Into::into),
            deadline: deadline.map(Into::into),
            freed_at: freed_at.map(Into::into),
            stopped_at: attempt.up_until().map(Into::into),
            domain: placement.domain.clone(),
            level: placement.level,
            fabric: placement.fabric,
            fabric_text: placement.fabric.words().into(),
            cap_watts: placement.cap_watts,
            port: placement.port,
            slots: placement.slots.iter().zip(slots).map(|(s, state)| Slot::of(s, state)).collect(),
            stop: stop.as_ref().map(Stop::of),
            notice: notice.as_ref().map(Notice::of),
            preflight: preflight.as_ref().map(|p| {
                let mut shown = AttemptPreflight::of(p, attempt.node_count());
                if stop.is_some() && p.outcome.is_none() {
                    shown.message = "stopped before it was over".into();
                }
                shown
            }),
        }
    }
}

impl AttemptPreflight {
    /// The preflight of an attempt on so many nodes as the API shows it.
    #[must_use]
    pub fn of(preflight: &muster_model::preflight::AttemptPreflight, nodes: usize) -> Self {
        let muster_model::preflight::AttemptPreflight { since, until, slow, outcome } = preflight;
        AttemptPreflight {
            message: preflight.words(nodes),
            since: (*since).into(),
            until: (*until).into(),
            slow: slow.iter().map(ToString::to_string).collect(),
            outcome: outcome.as_ref().map(|o| o.word().to_owned()),
        }
    }
}

impl ReservedStart {
    /// The reserved start as the API shows it.
    #[must_use]
    pub fn of(reserved_start: &m::ReservedStart) -> ReservedStart {
        let m::ReservedStart { at, nodes, basis, since, moved } = reserved_start;
        ReservedStart {
            at: (*at).into(),
            nodes: nodes.iter().map(ToString::to_string).collect(),
            basis: *basis,
            since: (*since).into(),
            moved: moved.clone(),
        }
    }
}

impl Notice {
    /// The notice as the API shows it.
    #[must_use]
    pub fn of(notice: &m::Notice) -> Notice {
        let m::Notice { reason, at, until } = notice;
        Notice {
            message: reason.to_string(),
            reason: reason.clone(),
            at: (*at).into(),
            until: (*until).into(),
        }
    }
}

impl Stop {
    /// The stop as the API shows it.
    #[must_use]
    pub fn of(stop: &m::Stop) -> Stop {
        let m::Stop { reason, at, grace, fence_until } = stop;
        Stop {
            message: reason.to_string(),
            reason: reason.clone(),
            at: (*at).into(),
            grace: *grace,
            fence_until: fence_until.map(Into::into),
        }
    }
}

impl Slot {
    /// The slot as the API shows it.
    #[must_use]
    pub fn of(slot: &muster_model::placement::Slot, state: &m::SlotState) -> Slot {
        let muster_model::placement::Slot {
            node,
            group,
            node_rank,
            first_rank,
            ranks,
            gpus,
            cpus,
            memory,
            part,
        } = slot;
        let (state, end) = match state {
            m::SlotState::Pending => ("pending", None),
            m::SlotState::Running => ("running", None),
            m::SlotState::Lost => ("lost", None),
            m::SlotState::Ended { end } => ("ended", Some(end.clone())),
        };
        Slot {
            node: node.to_string(),
            group: *group,
            node_rank: *node_rank,
            first_rank: *first_rank,
            ranks: *ranks,
            gpus: gpus.iter().collect(),
            cpus: *cpus,
            memory: *memory,
            part: part.clone(),
            state: state.into(),
            end,
        }
    }
}

impl PastAttempt {
    /// The attempt of a job of this user, as the API shows it.
    #[must_use]
    pub fn of(past: &m::PastAttempt, user: &str) -> PastAttempt {
        let m::PastAttempt {
            no,
            nodes,
            placed_at,
            started_at,
            ended_at: _,
            freed_at: _,
            stopped_at,
            verdict,
            reason,
            findings,
            stopped_for: _,
        } = past;
        PastAttempt {
            no: *no,
            nodes: nodes.iter().map(ToString::to_string).collect(),
            placed_at: (*placed_at).into(),
            started_at: started_at.map(Into::into),
            ended_at: past.freed().into(),
            stopped_at: stopped_at.map(Into::into),
            verdict: *verdict,
            attributed_to: past.attributed_to(user).to_owned(),
            reason: reason.clone(),
            findings: findings.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Checkpoint {
    /// The checkpoint as the API shows it.
    #[must_use]
    pub fn of(checkpoint: &m::Checkpoint) -> Checkpoint {
        let m::Checkpoint { attempt, step, path, bytes, blocked_ms, at } = checkpoint;
        Checkpoint {
            attempt: *attempt,
            step: *step,
            path: path.clone(),
            bytes: *bytes,
            blocked_ms: *blocked_ms,
            at: (*at).into(),
        }
    }
}

impl JobArray {
    /// Which task's state is the array's, the least first: the one that is least far, and when all
    /// are over the one that ended worst.
    #[must_use]
    pub fn rank(state: JobState) -> u8 {
        match state {
            JobState::Failed => 4,
            JobState::Cancelled => 5,
            JobState::Succeeded => 6,
            active => active as u8,
        }
    }

    /// The tasks of an array, in order of their index; none when there is no task.
    #[must_use]
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a m::Job>) -> Option<JobArray> {
        let mut tasks = tasks.into_iter().peekable();
        let first = *tasks.peek()?;
        let (id, name) = (first.array.map_or(first.id, |a| a.parent), first.name.to_string());
        let (mut state, mut version, mut items) = (first.state, 0, Vec::new());
        for task in tasks {
            if JobArray::rank(task.state) < JobArray::rank(state) {
                state = task.state;
            }
            version = version.max(task.version.0);
            items.push(ArrayItem {
                id: task.display_id(),
                number: task.id.0,
                index: task.array.map_or(0, |a| a.index),
                state: task.state,
            });
        }
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        Some(JobArray {
            id: id.to_string(),
            kind: Kind::JobArray,
            name,
            state,
            version,
            count,
            items,
            has_warnings: false,
        })
    }
}
