//! What jobs run is stored next to the log, for as long as they are in the working state. Here is
//! how many bytes each project submitted that are still stored, and which ended jobs leave to make
//! space.

use super::State;
use muster_model::command::{Refusal, RefusalCode};
use muster_model::ids::JobId;
use muster_model::job::Job;
use muster_model::names::ProjectName;
use muster_model::policy::STORED_MIB_PER_PROJECT;
use muster_model::units::Span;
use std::collections::BTreeMap;

/// So long after its end a job stays at least, however much its project stores. So nobody removes
/// what a project ended just now by submitting much, and nobody fills a disk faster than this.
const STAYS: Span = Span::hours(1);
/// Most jobs that leave at once.
const LEAVE_MAX: usize = 10_000;
const MIB: u64 = 1 << 20;

/// Bytes of each project. The sum is kept: every tick asks for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredPayloads {
    all: u64,
    of: BTreeMap<ProjectName, u64>,
    /// Tasks of each array that are there: they share what they run.
    tasks: BTreeMap<JobId, usize>,
}

impl StoredPayloads {
    /// A job enters the working state.
    pub(crate) fn add(&mut self, job: &Job) {
        if job.payload_bytes == 0 {
            return;
        }
        if job.array.is_some() {
            let tasks = self.tasks.entry(job.payload).or_default();
            *tasks += 1;
            if *tasks > 1 {
                return;
            }
        }
        self.all += job.payload_bytes;
        *self.of.entry(job.project.clone()).or_default() += job.payload_bytes;
    }

    /// A job that was added leaves it.
    pub(crate) fn remove(&mut self, job: &Job) {
        if job.payload_bytes == 0 {
            return;
        }
        if job.array.is_some()
            && let Some(tasks) = self.tasks.get_mut(&job.payload)
        {
            *tasks -= 1;
            if *tasks > 0 {
                return;
            }
            self.tasks.remove(&job.payload);
        }
        let Some(bytes) = self.of.get_mut(&job.project) else { return };
        *bytes -= job.payload_bytes;
        self.all -= job.payload_bytes;
        if *bytes == 0 {
            self.of.remove(&job.project);
        }
    }

    fn of_project(&self, project: &ProjectName) -> u64 {
        self.of.get(project).copied().unwrap_or(0)
    }
}

impl State {
    /// MiB that one project may store.
    fn stored_mib(&self) -> u64 {
        self.policy.limits.stored_mib_per_project.unwrap_or(STORED_MIB_PER_PROJECT).into()
    }

    /// Is there a job that needs what was stored under this id?
    pub(crate) fn needs_payload(&self, payload: JobId) -> bool {
        // Ids of an array are in a row.
        self.jobs.range(payload..).next().is_some_and(|(_, j)| j.payload == payload)
    }

    /// A project may store so much of what its jobs run and no more. Asked by a dry run too.
    pub(crate) fn refuse_to_store(&self, project: &ProjectName, bytes: u64) -> Result<(), Refusal> {
        let (used, most) = (self.index.payloads.of_project(project), self.stored_mib());
        // What runs nothing of its own (a simulated workload) takes no space.
        if bytes == 0 || used + bytes <= most * MIB {
            return Ok(());
        }
        let message = format!(
            "what was submitted to project {project} takes {} MiB of the store, and this job takes \
             {} KiB more; the site allows {most} MiB",
            used / MIB,
            bytes.div_ceil(1024),
        );
        Err(Refusal::new(RefusalCode::Policy, message).field("run.env").hint(
            "put large scripts and values into files that the job reads; ended jobs count for an \
             hour, so cancel what is not needed and try again later; an operator can raise \
             `limits.stored_mib_per_project` (`muster policy`)",
        ))
    }

    /// Ended jobs that leave because their project stores more than half of what it may: those that
    /// ended first.
    pub(crate) fn ended_to_make_space(&self) -> Vec<JobId> {
        let stored = &self.index.payloads;
        let half = self.stored_mib() * MIB / 2;
        let mut leave = Vec::new();
        if stored.all <= half {
            return leave;
        }
        for (project, bytes) in stored.of.iter().filter(|(_, bytes)| **bytes > half) {
            let mut surplus = bytes - half;
            for (ended, id) in self.index.ended.of(project) {
                if surplus == 0 || leave.len() >= LEAVE_MAX || self.now.since(ended) < STAYS {
                    break;
                }
                let Some(job) = self.jobs.get(&id).filter(|j| j.payload_bytes > 0) else {
                    continue;
                };
                // The last task of an array frees what all of them share.
                let tasks = job.array.map_or(1, |a| u64::from(a.count.max(1)));
                surplus = surplus.saturating_sub(job.payload_bytes.div_ceil(tasks));
                leave.push(id);
            }
        }
        leave
    }
}
