//! What happened to a job while its figures were taken.

use crate::auth::Caller;
use crate::health::{sees, title_of};
use muster_api::TelemetryMark;
use muster_engine::State;
use muster_model::finding::Finding;
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::placement::{GpuSet, Placement};
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// Marks that are reported; the newest count.
const MOST: usize = 200;

fn mark(at: Time, what: &str, text: String) -> TelemetryMark {
    TelemetryMark {
        at: at.into(),
        what: what.into(),
        text,
        severity: None,
        node: None,
        gpu: None,
        rank: None,
    }
}

/// GPUs of the job on each of its nodes.
fn held(p: Option<&Placement>) -> BTreeMap<&NodeName, GpuSet> {
    let mut out: BTreeMap<&NodeName, GpuSet> = BTreeMap::new();
    for slot in p.iter().flat_map(|p| &p.slots) {
        let set = out.entry(&slot.node).or_insert(GpuSet::EMPTY);
        *set = set.or(slot.gpus);
    }
    out
}

fn about(f: &Finding, job: &Job, held: &BTreeMap<&NodeName, GpuSet>) -> bool {
    if f.seen.attempt.is_some_and(|a| a.job == job.id)
        || f.seen.entity == muster_model::entity::Entity::Job(job.id)
    {
        return true;
    }
    let Some(gpus) = f.seen.entity.node().and_then(|n| held.get(n)) else { return false };
    f.seen.entity.gpu().is_none_or(|g| gpus.iter().any(|own| own == g))
}

pub(super) fn of(
    s: &State,
    caller: &Caller,
    job: &Job,
    placement: Option<&Placement>,
    checkpoints: &VecDeque<(Time, Span)>,
    since: Time,
) -> Vec<TelemetryMark> {
    let mut out = Vec::new();
    for p in &job.past {
        out.push(mark(p.placed_at, "attempt", format!("attempt {} was placed", p.no)));
        out.push(mark(p.freed(), "attempt", format!("attempt {} ended: {}", p.no, p.reason)));
    }
    if let Some(a) = &job.attempt {
        out.push(mark(a.placed_at, "attempt", format!("attempt {} was placed", a.no)));
        let text = format!("every rank of attempt {} was up", a.no);
        out.extend(a.started_at.map(|at| mark(at, "attempt", text)));
    }
    out.extend(checkpoints.iter().map(|(at, blocked)| {
        let text = match blocked.0 {
            0 => "a checkpoint was written".to_owned(),
            ms => format!("a checkpoint was written; it delayed the job by {ms} ms"),
        };
        mark(*at, "checkpoint", text)
    }));
    let held = held(placement);
    for f in s.health.findings.values().filter(|f| about(f, job, &held) && sees(s, caller, f)) {
        let title = title_of(&f.seen);
        let name = if title.is_empty() { f.seen.kind.as_str() } else { title };
        out.push(TelemetryMark {
            severity: Some(f.seen.severity.word().into()),
            node: f.seen.entity.node().map(ToString::to_string),
            gpu: f.seen.entity.gpu(),
            rank: f.seen.rank,
            ..mark(f.opened_at, "finding", name.to_owned())
        });
    }
    for f in s.faults.values().filter(|f| f.fault.attempt.is_some_and(|a| a.job == job.id)) {
        out.push(TelemetryMark {
            node: Some(f.node.to_string()),
            gpu: f.fault.gpu,
            rank: f.fault.rank,
            ..mark(f.at, "fault", format!("{}: {}", f.fault.code, f.fault.text))
        });
    }
    out.retain(|m| m.at.0 >= since);
    out.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.what.cmp(&b.what)));
    out.drain(..out.len().saturating_sub(MOST));
    out
}
