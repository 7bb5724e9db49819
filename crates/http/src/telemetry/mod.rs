//! The last minutes of a job in figures, rank beside rank.

mod allocation_window;
pub(crate) mod history;
mod lines;
mod marks;

use super::auth::Reader;
use super::error::{Failure, Reply};
use super::extract::{Query, Segment, shown};
use super::{App, answer, jobs};
use allocation_window::AllocationWindow;
use axum::extract::State;
use axum::http::StatusCode;
use lines::{LinesRequest, Order};
use muster_api::{JobTelemetry, JobTelemetryQuery};
use muster_metering::{Bins, Track};
use std::collections::VecDeque;

/// A figure that can be asked for: its name, what it is called, its unit.
type Field = (&'static str, &'static str, &'static str);

/// What can be asked for. Counters and bits have no mean and are left out.
const FIELDS: [Field; 14] = [
    ("util", "Utilisation", "%"),
    ("sm_active", "SMs active", "%"),
    ("tensor_active", "Tensor cores active", "%"),
    ("dram_active", "Memory active", "%"),
    ("mem_used", "Memory used", "MiB"),
    ("power", "Power", "W"),
    ("temp", "Temperature", "°C"),
    ("mem_temp", "Memory temperature", "°C"),
    ("sm_clock", "SM clock", "MHz"),
    ("mem_clock", "Memory clock", "MHz"),
    ("pcie_rx", "PCIe in", "MB/s"),
    ("pcie_tx", "PCIe out", "MB/s"),
    ("nvlink_rx", "NVLink in", "MB/s"),
    ("nvlink_tx", "NVLink out", "MB/s"),
];
/// Asked for when nobody says which.
const USUAL: [&str; 9] = [
    "util",
    "mem_used",
    "power",
    "temp",
    "sm_clock",
    "pcie_rx",
    "pcie_tx",
    "nvlink_rx",
    "nvlink_tx",
];
/// Ranks reported one by one.
const RANKS: u32 = 32;
const RANKS_MAX: u32 = 256;

/// Get metrics of the last minutes of a job, rank by rank. Of a gang with more ranks than are
/// reported one by one, the least, the median and the most are reported of all of them.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/jobs/{id}/telemetry", tag = "jobs", params(JobTelemetryQuery,
    ("id" = String, Path, description = "`42`, or `42_3` for a task of an array.", pattern = "^[0-9]+(_[0-9]+)?$")),
    responses((status = 200, description = "Its last minutes.", body = JobTelemetry))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(id): Segment,
    Query(q): Query<JobTelemetryQuery>,
) -> Reply {
    // Before the look at the job: what it holds then, it held until now.
    let now = app.brain().now();
    let job = jobs::named(&app, &caller, &id)?;
    let asked = asked(&q)?;
    let bins = Bins::until(now);
    let metering = app.agents().metering();
    let heard = metering.recent(job.id, q.attempt);
    let reporting_since = metering.since();
    // Nobody has reported anything yet: at least it is known who is where.
    let current = job.attempt.as_ref().filter(|a| q.attempt.is_none_or(|n| n == a.no));
    let newer = current.filter(|a| heard.as_ref().is_none_or(|(no, _)| *no < a.no));
    let (no, placement, track, checkpoints) = match (newer, heard) {
        (Some(a), _) => (Some(a.no), Some(a.placement.clone()), Track::default(), VecDeque::new()),
        (None, Some((no, r))) => (Some(no), Some(r.placement), r.track, r.checkpoints),
        (None, None) => (None, None, Track::default(), VecDeque::new()),
    };
    let (seq, marks) = app.brain().read(|s| {
        let marks = marks::of(s, &caller, &job, placement.as_deref(), &checkpoints, bins.from());
        (s.seq, marks)
    });
    // Before and after it others had the GPUs.
    let held = AllocationWindow::by(&job, no, now);
    let whole = caller.actor.project.is_none();
    let rows = |p| lines::windows(app.agents(), p, &held, whole);
    let windows = placement.as_deref().map(rows).unwrap_or_default();
    let lines = move || lines::of(placement.as_deref(), &windows, &track, &asked, bins);
    let l = app.aside(&caller.token, lines).await?;
    let body = JobTelemetry {
        kind: muster_api::Kind::JobTelemetry,
        id: job.id.to_string(),
        attempt: no,
        since: bins.from().into(),
        until: now.into(),
        reporting_since: reporting_since.into(),
        width_ms: muster_metering::track::WIDTH.0,
        at: bins.starts().map(Into::into).collect(),
        ranks: l.ranks,
        gpus: l.gpus,
        fields: l.fields,
        lines: l.lines,
        next: l.next,
        step_band: l.step_band,
        bands: l.bands,
        slowest: l.slowest,
        fastest: l.fastest,
        marks,
    };
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &body))
}

fn asked(q: &JobTelemetryQuery) -> Reply<LinesRequest> {
    let field = |name: &str| {
        FIELDS.iter().find(|(known, ..)| *known == name).copied().ok_or_else(|| {
            let all: Vec<&str> = FIELDS.iter().map(|(name, ..)| *name).collect();
            Failure::bad(format!("`{}` is not a metric that is stored", shown(name)))
                .field("fields")
                .hint(format!("there are {}", all.join(", ")))
        })
    };
    let mut fields = Vec::new();
    let named = q.fields.as_deref().map(|text| text.split(',').map(str::trim).collect());
    for name in named.unwrap_or_else(|| USUAL.to_vec()) {
        let found = field(name)?;
        if !fields.contains(&found) {
            fields.push(found);
        }
    }
    let order = match q.order.as_deref() {
        None | Some("rank") => Order::Rank,
        Some("slow") => Order::Slow,
        Some(other) => {
            return Err(Failure::bad(format!("`{}` is no order of ranks", shown(other)))
                .field("order")
                .hint("use rank or slow"));
        }
    };
    let ranks = q.ranks.unwrap_or(RANKS);
    if !(1..=RANKS_MAX).contains(&ranks) {
        return Err(Failure::bad(format!("`ranks` is from 1 to {RANKS_MAX}")).field("ranks"));
    }
    Ok(LinesRequest { fields, order, from: q.from.unwrap_or(0), ranks })
}
