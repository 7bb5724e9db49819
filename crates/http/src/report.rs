//! Where a job's time went, what it did with its GPUs, and what would have been enough.

use super::auth::Reader;
use super::error::Reply;
use super::extract::Segment;
use super::{App, answer, jobs};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{
    AdviceLine, AttemptReport, Efficiency, GpuParts, JobReport, Kind, StageReport, StepsReport,
    TimeParts,
};
use muster_engine::State as Site;
use muster_metering::{
    AttemptParts, GivenResources, GpuUsage, Pace, Part, Parts, Stage, advice, wanted_milli,
};
use muster_model::job::{Job, Verdict};
use muster_server::metering::{AttemptMetric, JobMetrics};

/// Attempts that are reported one by one.
const ATTEMPTS: usize = 256;

/// Get where a job's time went, what it did with its GPUs, and what would have been enough.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/jobs/{id}/report", tag = "jobs",
    params(("id" = String, Path, description = "`42`, or `42_3` for a task of an array.", pattern = "^[0-9]+(_[0-9]+)?$")),
    responses((status = 200, description = "Where its time went.", body = JobReport))))]
pub(crate) async fn report(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(id): Segment,
) -> Reply {
    let job = jobs::named(&app, &caller, &id)?;
    let figures = app.agents().metering().job_metrics(&job).await;
    let (seq, asked) = app.brain().read(|s| (s.seq, asked(s, &job)));
    let mut report = of(&job, &figures, &asked);
    report.version = caller.version(&app, report.version);
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &report))
}

/// What the job was given, for advice.
fn asked(s: &Site, job: &Job) -> GivenResources {
    let now = job.attempt.iter().flat_map(|a| a.placement.slots.iter().map(|s| &s.node));
    let last = job.past.last().filter(|_| job.attempt.is_none());
    let nodes = now.chain(last.iter().flat_map(|p| &p.nodes));
    let gpus = nodes.filter_map(|n| s.nodes.get(n)).flat_map(|n| &n.inventory.gpus);
    let total = match &job.attempt {
        Some(a) => a.placement.slots.iter().map(|s| s.gpus.len()).sum(),
        None => job.groups.iter().map(|g| g.nodes.saturating_mul(g.gpus)).sum(),
    };
    GivenResources {
        gpus: total,
        shared: job.groups.iter().any(|g| g.part.is_some()),
        single: job.groups.iter().all(|g| g.gpus <= 1),
        memory: gpus.map(|g| g.memory.0 >> 20).min(),
    }
}

/// Whole figures of a size that a float holds exactly.
#[allow(clippy::cast_precision_loss)]
fn float(v: u128) -> f64 {
    v as f64
}

fn gpus(milli: u64) -> f64 {
    float(milli.into()) / 1e3
}

fn ms(us: u64) -> f64 {
    float(us.into()) / 1e3
}

fn ratio(millionths: u32) -> f64 {
    f64::from(millionths) / 1e6
}

fn share(thousandths: u32) -> f64 {
    f64::from(thousandths) / 1e3
}

fn time(p: &Parts) -> TimeParts {
    let of = |part| u64::try_from(p.get(part)).unwrap_or(u64::MAX);
    TimeParts {
        queued: of(Part::Queued),
        held: of(Part::Held),
        starting: of(Part::Starting),
        productive: of(Part::Productive),
        checkpointing: of(Part::Checkpointing),
        restarting: of(Part::Restarting),
        lost: of(Part::Lost),
        idle: of(Part::Idle),
    }
}

pub(super) fn gpu(p: &Parts) -> GpuParts {
    let of = |part| float(p.get(part)) / 1e6;
    GpuParts {
        queued: of(Part::Queued),
        held: of(Part::Held),
        starting: of(Part::Starting),
        productive: of(Part::Productive),
        checkpointing: of(Part::Checkpointing),
        restarting: of(Part::Restarting),
        lost: of(Part::Lost),
        idle: of(Part::Idle),
    }
}

fn attempt(job: &Job, a: &AttemptParts) -> AttemptReport {
    let past = job.past.iter().find(|p| p.no == a.no);
    AttemptReport {
        no: a.no,
        from: a.from.into(),
        until: a.until.into(),
        gpus: gpus(a.milli),
        time_ms: time(&a.time),
        gpu_seconds: gpu(&a.gpu),
        goodput: a.goodput().map(ratio),
        verdict: a.verdict,
        attributed_to: past
            .map(|p| p.attributed_to(&job.user))
            .or(a.verdict.map(Verdict::word))
            .map(str::to_owned),
        reason: past.map(|p| p.reason.clone()).filter(|r| !r.is_empty()),
        checkpoints: a.checkpoints,
        lost_estimated: a.estimated,
    }
}

fn of(job: &Job, figures: &JobMetrics, asked: &GivenResources) -> JobReport {
    let g = &figures.goodput;
    let steps = figures.pace.as_ref().map(steps);
    let mut lines: Vec<AdviceLine> = figures
        .used
        .iter()
        .flat_map(|u| advice(asked, &u.what))
        .map(|a| AdviceLine { about: a.kind.word().into(), text: a.text, because: a.because })
        .collect();
    lines.extend(steps.as_ref().and_then(slowest));
    JobReport {
        id: job.display_id(),
        number: job.id.0,
        kind: Kind::JobReport,
        name: job.name.to_string(),
        state: job.state,
        version: job.version.0,
        project: job.project.to_string(),
        user: job.user.clone(),
        gpus: gpus(wanted_milli(job)),
        attempts_made: job.attempts,
        since: g.since.into(),
        until: g.until.into(),
        complete: g.complete,
        watched_since: figures.since.map(Into::into),
        wall_ms: g.wall.0,
        time_ms: time(&g.time),
        gpu_seconds: gpu(&g.gpu),
        allocated_gpu_seconds: float(g.allocated_gpu) / 1e6,
        up_ms: g.up.0,
        unsaved_ms: g.unsaved.0,
        ettr: g.ettr.map(ratio),
        goodput: g.goodput.map(ratio),
        interruptions: g.interruptions,
        mtbi_ms: g.mtbi.map(|s| s.0),
        recover_ms: g.recover.map(|s| s.0),
        ended_by: g.verdicts.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
        lost_estimated: g.estimated,
        attempts: {
            let skip = g.attempts.len().saturating_sub(ATTEMPTS);
            g.attempts[skip..].iter().map(|a| attempt(job, a)).collect()
        },
        efficiency: figures.used.as_ref().map(|u| efficiency(u, asked)),
        steps,
        advice: lines,
    }
}

fn efficiency(reported: &AttemptMetric<GpuUsage>, asked: &GivenResources) -> Efficiency {
    let u = &reported.what;
    Efficiency {
        attempt: reported.attempt,
        since: u.first.into(),
        until: u.last.into(),
        whole: reported.whole,
        gpus: u.gpus,
        gpus_unused: u.unused,
        rows: u.rows,
        shared: asked.shared,
        utilisation: u.util.map(share),
        utilisation_peak: u.util_peak.map(share),
        sm_active: u.sm.map(share),
        sm_active_peak: u.sm_peak.map(share),
        tensor_active: u.tensor.map(share),
        memory_active: u.dram.map(share),
        memory_peak_mib: u.memory_peak,
        memory_mib: asked.memory,
        power_watts: u.power_mw.map(|mw| float(mw.into()) / 1e3),
        energy_joules: u.energy_j,
    }
}

fn steps(reported: &AttemptMetric<Pace>) -> StepsReport {
    let p = &reported.what;
    let all: u64 = p.stages.iter().map(|(_, us)| us).sum();
    let stage = |(name, us): &(String, u64)| StageReport {
        name: name.clone(),
        ms: ms(*us),
        share: if all > 0 { ms(*us) / ms(all) } else { 0.0 },
        advice: Stage::of(name).advice().into(),
    };
    StepsReport {
        attempt: reported.attempt,
        since: p.first.into(),
        whole: reported.whole,
        step: p.step,
        reports: p.reported,
        step_ms: p.step_us.map(ms),
        stages: p.stages.iter().map(stage).collect(),
        ranks: p.ranks,
        slowest_rank: p.slowest.map(|(rank, _)| rank),
        slowest_rank_ms: p.slowest.map(|(_, us)| ms(us)),
        median_rank_ms: p.median_us.map(ms),
    }
}

/// Reports before a stage is called the slowest.
const REPORTS: u64 = 10;

/// The slowest stage, where several are reported.
fn slowest(steps: &StepsReport) -> Option<AdviceLine> {
    let first = steps.stages.first().filter(|_| steps.stages.len() > 1)?;
    (steps.reports >= REPORTS).then(|| AdviceLine {
        about: "stage".into(),
        text: first.advice.clone(),
        because: format!(
            "{} is the slowest stage: {:.0}% of a step, over {} reports",
            first.name,
            first.share * 100.0,
            steps.reports
        ),
    })
}
