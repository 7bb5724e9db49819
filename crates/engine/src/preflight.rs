//! Large gangs have the network between their nodes measured before their ranks start. Until that
//! is over, or its time is up, nobody is ordered to start a rank.

use crate::Engine;
use crate::state::State;
use muster_health::fabric::preflight::wanted;
use muster_model::command::Answer;
use muster_model::event::Event;
use muster_model::ids::AttemptKey;
use muster_model::job::{Attempt, Job};
use muster_model::placement::Placement;
use muster_model::preflight::{AttemptPreflight, PreflightOutcome, PreflightReport, PreflightSet};
use muster_model::units::Span;
use std::sync::Arc;

/// How long a gang with a slow node waits to be moved, after its measurement.
const MOVED: Span = Span::secs(5);

impl State {
    /// Attempts whose nodes are to be measured: they wait for it.
    pub fn preflights(&self) -> impl Iterator<Item = AttemptKey> + '_ {
        let all = self.index.preflights.iter().filter_map(|id| self.jobs.get(id));
        all.filter_map(|job| {
            job.attempt.as_ref()?.in_preflight().filter(|p| p.slow.is_empty())?;
            job.attempt_key()
        })
    }
}

impl Engine {
    /// An attempt was placed: does it begin with a preflight?
    pub(crate) fn begin_preflight(&mut self, job: &Job, key: AttemptKey, placement: &Placement) {
        let fabric = &self.state.policy.fabric;
        if !wanted(fabric, &job.spec, placement) {
            return;
        }
        let since = self.state.now;
        let until = since + fabric.within;
        let preflight = AttemptPreflight { since, until, slow: Vec::new(), outcome: None };
        self.set_preflight(job, key, preflight);
    }

    /// What came of a measurement. A report about a preflight that is over changes nothing.
    pub(crate) fn preflight_done(&mut self, key: AttemptKey, report: &PreflightReport) -> Answer {
        let Some((job, mut p)) = self.preflight_of(key).filter(|(_, p)| p.slow.is_empty()) else {
            return Answer::Done;
        };
        match report {
            PreflightReport::Slow { nodes } if !nodes.is_empty() => {
                // What follows from the finding is in the log: it leaves that node, if the site
                // lets it.
                p.slow.clone_from(nodes);
                p.until = p.until.min(self.state.now + MOVED);
            }
            PreflightReport::Passed | PreflightReport::Slow { .. } => {
                p.outcome = Some(PreflightOutcome::Passed);
            }
            PreflightReport::NotMeasured { reason } => {
                p.outcome = Some(PreflightOutcome::NotMeasured { reason: reason.clone() });
            }
        }
        self.set_preflight(&job, key, p);
        Answer::Done
    }

    /// Ranks of an attempt are up somewhere: the others do not wait any longer.
    pub(crate) fn preflight_overtaken(&mut self, key: AttemptKey) {
        if let Some((job, mut p)) = self.preflight_of(key) {
            let reason = "ranks of it are up already".to_string();
            p.outcome = Some(PreflightOutcome::NotMeasured { reason });
            self.set_preflight(&job, key, p);
        }
    }

    /// Its time is up: the ranks start. Returns whether it was.
    pub(crate) fn expire_preflight(&mut self, job: &Job, a: &Attempt) -> bool {
        let Some(p) = a.in_preflight().filter(|p| p.until <= self.state.now) else { return false };
        let outcome = match p.slow.is_empty() {
            true => PreflightOutcome::TimedOut,
            false => PreflightOutcome::Slow,
        };
        let key = AttemptKey { job: job.id, attempt: a.no };
        self.set_preflight(job, key, AttemptPreflight { outcome: Some(outcome), ..p.clone() });
        true
    }

    fn preflight_of(&self, key: AttemptKey) -> Option<(Arc<Job>, AttemptPreflight)> {
        let job = self.state.jobs.get(&key.job).filter(|j| j.attempt_key() == Some(key))?;
        let p = job.attempt.as_ref()?.in_preflight()?.clone();
        Some((job.clone(), p))
    }

    fn set_preflight(&mut self, job: &Job, key: AttemptKey, preflight: AttemptPreflight) {
        let event = Event::PreflightSet(PreflightSet { key, preflight });
        self.emit(Some(&job.project), event);
    }
}
