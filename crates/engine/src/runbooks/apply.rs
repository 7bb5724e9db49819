//! Folds records of runs into the state.

use super::RUNS_KEPT;
use crate::state::State;
use muster_model::event::{Event, Record};
use muster_model::runbook::{Run, RunEnd, SiteRunbook, StepDone};
use std::sync::Arc;

/// Steps kept with a run.
pub(super) const STEPS_KEPT: usize = 200;

impl State {
    pub(crate) fn apply_runbook(&mut self, r: &Record) {
        let runbooks = &mut self.runbooks;
        match &r.event {
            Event::RunbookSet { name, text } => {
                let (text, by, version) = (text.clone(), r.actor.clone(), r.seq.0);
                let book = SiteRunbook { text, by, at: r.at, version };
                runbooks.books.insert(name.clone(), Arc::new(book));
            }
            Event::RunbookDeleted { name } => {
                runbooks.books.remove(name);
            }
            Event::RunbookStarted { run } => {
                runbooks.live.insert(run.id);
                runbooks.runs.insert(run.id, Arc::new((**run).clone()));
            }
            Event::RunbookStepDone { run, done, next, until, took, .. } => {
                if let Some(node) = took {
                    let a = &mut self.health.automation;
                    a.runs.insert(node.clone());
                    a.taken.push_back((r.at, node.clone()));
                }
                let at = r.at;
                change(&mut runbooks.runs, *run, |x| {
                    if x.done.len() < STEPS_KEPT {
                        x.done.push(StepDone { at, ..(**done).clone() });
                    }
                    (x.step, x.since, x.until, x.waits) = (*next, at, *until, None);
                });
            }
            Event::RunbookWaits { run, why } => {
                change(&mut runbooks.runs, *run, |x| x.waits = Some(why.clone()));
            }
            Event::RunbookEnded { run, outcome, why, .. } => {
                let end = RunEnd { at: r.at, outcome: *outcome, why: why.clone() };
                runbooks.live.remove(run);
                change(&mut runbooks.runs, *run, |x| {
                    (x.ended, x.until, x.waits) = (Some(end), None, None);
                });
                while runbooks.runs.len() > runbooks.live.len() + RUNS_KEPT {
                    let old = runbooks.runs.keys().find(|id| !runbooks.live.contains(id)).copied();
                    let Some(old) = old else { break };
                    runbooks.runs.remove(&old);
                }
            }
            _ => {}
        }
    }
}

fn change(runs: &mut std::collections::BTreeMap<u64, Arc<Run>>, id: u64, f: impl FnOnce(&mut Run)) {
    if let Some(run) = runs.get_mut(&id) {
        f(Arc::make_mut(run));
    }
}
