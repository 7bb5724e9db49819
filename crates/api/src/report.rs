//! Where a job's time went, what it did with its GPUs, and what would have been enough.

use crate::{Kind, Timestamp};
use muster_model::job::{JobState, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a job's time went, what it did with its GPUs, and what would have been enough. What is
/// not known is null; nothing is made up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobReport {
    /// The job: `42`, or `42_3` for a task of an array.
    pub id: String,
    /// The plain number.
    pub number: u64,
    /// Always `JobReport`.
    pub kind: Kind,
    /// The job's name.
    pub name: String,
    /// The state of the job.
    pub state: JobState,
    /// The job's version.
    pub version: u64,
    /// Who owns it.
    pub project: String,
    /// Who submitted it.
    pub user: String,
    /// GPUs it asks for.
    pub gpus: f64,
    /// Attempts made so far.
    pub attempts_made: u32,
    /// The numbers begin here.
    pub since: Timestamp,
    /// They end here: with the job, or now.
    pub until: Timestamp,
    /// They begin with its submission. False when its first attempts are not known any more.
    pub complete: bool,
    /// Idle time, and the time up to an attempt's first step, are known from here on only: this
    /// server was not there before. Null when it always was.
    pub watched_since: Option<Timestamp>,
    /// From the one to the other, but for the time in which it had ended, in milliseconds.
    pub wall_ms: u64,
    /// Where that time went; the parts add up to it exactly.
    pub time_ms: TimeParts,
    /// The same, each moment weighed by the GPUs that were allocated or waited for.
    pub gpu_seconds: GpuParts,
    /// GPU-seconds from placements to ends.
    pub allocated_gpu_seconds: f64,
    /// With all ranks up, in milliseconds.
    pub up_ms: u64,
    /// Work of the active attempt that is in no checkpoint yet, in milliseconds.
    pub unsaved_ms: u64,
    /// Effective training time ratio: productive GPU time of all, waiting included (0 to 1).
    pub ettr: Option<f64>,
    /// Productive GPU time of all that was allocated (0 to 1).
    pub goodput: Option<f64>,
    /// Attempts that were interrupted: by the infrastructure, the platform or what nobody knows. What the job
    /// did itself is no interruption; `ended_by` has it.
    pub interruptions: u32,
    /// Mean time between them with all ranks up, in milliseconds.
    pub mtbi_ms: Option<u64>,
    /// Mean time from the first sign of a failure until the work resumed, in milliseconds.
    pub recover_ms: Option<u64>,
    /// Attempts that are over, by what their end is attributed to.
    pub ended_by: BTreeMap<String, u32>,
    /// Lost work is an estimate for some attempt: it reported no checkpoint, so all its work counts
    /// as lost, or what it reported is not known any more.
    pub lost_estimated: bool,
    /// Each attempt, oldest first (the newest 256).
    pub attempts: Vec<AttemptReport>,
    /// What the newest attempt that sent reports did with its GPUs.
    pub efficiency: Option<Efficiency>,
    /// What it reported about its steps.
    pub steps: Option<StepsReport>,
    /// What would have been enough, and what would help. Empty when too little is known.
    pub advice: Vec<AdviceLine>,
}

/// Parts of a job's time, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimeParts {
    /// It waited for its turn or for free capacity.
    pub queued: u64,
    /// A person kept it from starting.
    #[serde(default)]
    pub held: u64,
    /// Placed, and its ranks or its first step not there yet.
    pub starting: u64,
    /// Work that counts.
    pub productive: u64,
    /// Standing still for checkpoints, as the job reported.
    pub checkpointing: u64,
    /// Leaving, and the way back after a failure.
    pub restarting: u64,
    /// Work after the last checkpoint that was thrown away.
    pub lost: u64,
    /// All ranks up and nothing done for longer than is usual for it.
    pub idle: u64,
}

impl TimeParts {
    /// Name and amount of each part, in the order in which they are shown.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 8] {
        [
            ("queued", self.queued),
            ("held", self.held),
            ("starting", self.starting),
            ("productive", self.productive),
            ("checkpointing", self.checkpointing),
            ("restarting", self.restarting),
            ("lost", self.lost),
            ("idle", self.idle),
        ]
    }
}

/// Parts of a job's time, in GPU-seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GpuParts {
    /// Waited for.
    pub queued: f64,
    /// Of jobs that a person kept from starting.
    #[serde(default)]
    pub held: f64,
    /// Placed, and its ranks or its first step not there yet.
    pub starting: f64,
    /// Work that counts.
    pub productive: f64,
    /// Standing still for checkpoints.
    pub checkpointing: f64,
    /// Leaving, and the way back after a failure.
    pub restarting: f64,
    /// Thrown away.
    pub lost: f64,
    /// Nothing done.
    pub idle: f64,
}

impl GpuParts {
    /// Name and amount of each part, in the order in which they are shown.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f64); 8] {
        [
            ("queued", self.queued),
            ("held", self.held),
            ("starting", self.starting),
            ("productive", self.productive),
            ("checkpointing", self.checkpointing),
            ("restarting", self.restarting),
            ("lost", self.lost),
            ("idle", self.idle),
        ]
    }
}

/// One attempt, with the wait before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptReport {
    /// Counts from 1; one more than were made for a job that waits.
    pub no: u32,
    /// When the wait before it began.
    pub from: Timestamp,
    /// When it ended, or now.
    pub until: Timestamp,
    /// GPUs that it was allocated or waits for.
    pub gpus: f64,
    /// Where its time went.
    pub time_ms: TimeParts,
    /// The same in GPU-seconds.
    pub gpu_seconds: GpuParts,
    /// Productive GPU time of all that was allocated to it (0 to 1).
    #[serde(default)]
    pub goodput: Option<f64>,
    /// What its end is attributed to.
    pub verdict: Option<Verdict>,
    /// The same for people: the attribution, or `user` where the job's own user cancelled it.
    #[serde(default)]
    pub attributed_to: Option<String>,
    /// Why it ended, as far as that is still known.
    pub reason: Option<String>,
    /// Checkpoints it reported.
    pub checkpoints: u32,
    /// Its lost work is an estimate.
    pub lost_estimated: bool,
}

/// What an attempt did with its GPUs, from the telemetry that this server received. Shares from 0
/// to 1, over all its GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Efficiency {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The first row.
    pub since: Timestamp,
    /// The last row.
    pub until: Timestamp,
    /// The attempt was watched from its beginning; otherwise only since this server's start.
    pub whole: bool,
    /// GPUs that were reported.
    pub gpus: u32,
    /// Of them, those on which nothing ever ran.
    pub gpus_unused: u32,
    /// Rows that the metrics rest on, of all GPUs together.
    pub rows: u64,
    /// Others use the same GPUs: the metrics are not the job's alone.
    pub shared: bool,
    /// Share of the time in which anything ran.
    pub utilisation: Option<f64>,
    /// Most of it in one row.
    pub utilisation_peak: Option<f64>,
    /// Share in which the processors were active.
    pub sm_active: Option<f64>,
    /// Most of it in one row.
    pub sm_active_peak: Option<f64>,
    /// Share in which tensor cores were.
    pub tensor_active: Option<f64>,
    /// Share in which device memory was read or written.
    pub memory_active: Option<f64>,
    /// Most memory that was in use on one GPU, in MiB.
    pub memory_peak_mib: Option<u64>,
    /// Memory of its smallest GPU, in MiB.
    pub memory_mib: Option<u64>,
    /// Mean power of a GPU, in watts.
    pub power_watts: Option<f64>,
    /// Energy drawn between the first row and the last, in joules, by all its GPUs.
    pub energy_joules: Option<u64>,
}

/// What an attempt reported about its steps to this server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepsReport {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// When the first step that was reported began.
    pub since: Timestamp,
    /// The attempt was followed from its beginning; otherwise only since this server's start.
    pub whole: bool,
    /// The newest step.
    pub step: u64,
    /// Reports that were received; a rank sends at most one a second.
    pub reports: u64,
    /// Mean length of a step, in milliseconds.
    pub step_ms: Option<f64>,
    /// Stages of a step, the longest first.
    pub stages: Vec<StageReport>,
    /// Ranks that reported how long a step takes.
    pub ranks: u32,
    /// The rank whose own work (without exchange and waiting) is longest, where several reported.
    pub slowest_rank: Option<u32>,
    /// Its own work in a step, in milliseconds.
    pub slowest_rank_ms: Option<f64>,
    /// That of the median rank.
    pub median_rank_ms: Option<f64>,
}

/// One stage of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StageReport {
    /// As the job calls it.
    pub name: String,
    /// Mean time, in milliseconds.
    pub ms: f64,
    /// Of all stages together (0 to 1).
    pub share: f64,
    /// What helps when it is the slowest.
    pub advice: String,
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdviceLine {
    /// `cpu`, `fewer_gpus`, `slice`, `waits` or `stage`.
    pub about: String,
    /// What to do.
    pub text: String,
    /// The number it rests on.
    pub because: String,
}
