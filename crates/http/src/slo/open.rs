//! What is open as one caller sees it, by cause, and the jobs that each cause affects.

use crate::auth::Caller;
use crate::health;
use muster_engine::State as Site;
use muster_model::JobId;
use muster_model::alert::Alert;
use muster_model::ids::AttemptKey;
use muster_slo::causes::{CauseGroup, Open, causes};
use std::collections::{BTreeMap, BTreeSet};

/// Tenants see what concerns their project alone.
pub(crate) fn sees(caller: &Caller, a: &Alert) -> bool {
    match &caller.actor.project {
        None => true,
        Some(own) => a.project.as_ref() == Some(own),
    }
}

/// Everything that is open and that the caller sees, by the name of its cause.
pub(crate) fn by_cause<'a>(s: &'a Site, caller: &Caller) -> BTreeMap<String, CauseGroup<'a>> {
    let mut open = Open {
        alerts: s.slo.open().filter(|a| sees(caller, a)).collect(),
        findings: s.health.open().filter(|f| health::sees(s, caller, f)).map(|f| &**f).collect(),
        ..Open::default()
    };
    // Incidents and remediations are the site's own business.
    if caller.actor.project.is_none() {
        open.incidents = s.health.open_incidents().map(|i| &**i).collect();
        open.breakers = s.health.open_breakers().collect();
        open.remediations = s.health.live_remediations().map(|r| &**r).collect();
    }
    causes(&open)
}

/// Attempts that a cause has ended, of jobs that the caller sees.
pub(crate) fn ended(s: &Site, caller: &Caller, g: &CauseGroup<'_>) -> BTreeSet<AttemptKey> {
    let mut all = s.ended_by(g.findings.iter().copied(), g.incidents.iter().copied());
    all.retain(|k| s.jobs.get(&k.job).is_some_and(|j| caller.sees(&j.project)));
    all
}

/// Jobs that a cause affects and that the caller sees, with their GPUs.
pub(crate) fn affected(s: &Site, caller: &Caller, g: &CauseGroup<'_>) -> BTreeMap<JobId, u32> {
    let mut jobs = s.affected_by(g.findings.iter().copied(), g.incidents.iter().copied());
    jobs.retain(|id, _| s.jobs.get(id).is_some_and(|j| caller.sees(&j.project)));
    jobs
}
