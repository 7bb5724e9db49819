//! Jobs that wait for others. An array is one thing here however many tasks it has: who waits for
//! it is kept once, and how it stands is known without a look at every task. Ten thousand tasks
//! that wait for ten thousand others must cost ten thousand steps, not a hundred million.

use crate::state::State;
use muster_model::ids::JobId;
use muster_model::job::{Condition, Dependency, Job, JobState};
use muster_model::names::{Label, ProjectName};
use std::collections::{BTreeMap, BTreeSet};

/// How the jobs before this one stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depends {
    Met,
    Waits(JobId),
    /// Can never be met any more.
    Broken(JobId),
}

/// Who waits for whom, and who is called what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Jobs that wait, by the first number of what they wait for.
    waiters: BTreeMap<JobId, BTreeSet<JobId>>,
    /// How the tasks of each array stand, by its first number.
    arrays: BTreeMap<JobId, Tasks>,
    /// Jobs of each project by name.
    names: BTreeMap<ProjectName, BTreeMap<Label, BTreeSet<JobId>>>,
}

/// The tasks of an array that are remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tasks {
    open: BTreeSet<JobId>,
    succeeded: BTreeSet<JobId>,
    /// Or cancelled.
    failed: BTreeSet<JobId>,
}

impl Tasks {
    fn of(&mut self, state: JobState) -> &mut BTreeSet<JobId> {
        match state {
            JobState::Succeeded => &mut self.succeeded,
            JobState::Failed | JobState::Cancelled => &mut self.failed,
            _ => &mut self.open,
        }
    }

    fn known(&self) -> usize {
        self.open.len() + self.succeeded.len() + self.failed.len()
    }
}

/// All that those who wait for an array can tell of it: whether any task is open, has succeeded,
/// has failed. While this is the same, nothing changes for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outlook([bool; 3]);

impl Waits {
    /// A job is there, in the state it has now.
    pub(crate) fn add(&mut self, job: &Job) {
        if let Some(a) = job.array {
            self.arrays.entry(a.parent).or_default().of(job.state).insert(job.id);
        }
        // Also when the condition is met: the other job may be queued anew.
        if job.state == JobState::Queued {
            for d in job.depends.iter() {
                self.waiters.entry(d.job).or_default().insert(job.id);
            }
        }
    }

    /// Takes back what [`Waits::add`] did for the job in this state.
    pub(crate) fn remove(&mut self, job: &Job) {
        if let Some(a) = job.array
            && let Some(tasks) = self.arrays.get_mut(&a.parent)
        {
            tasks.of(job.state).remove(&job.id);
            if tasks.known() == 0 {
                self.arrays.remove(&a.parent);
            }
        }
        if job.state == JobState::Queued {
            for d in job.depends.iter() {
                if let Some(w) = self.waiters.get_mut(&d.job) {
                    w.remove(&job.id);
                    if w.is_empty() {
                        self.waiters.remove(&d.job);
                    }
                }
            }
        }
    }

    /// The job can be named from now on.
    pub(crate) fn name(&mut self, job: &Job) {
        let names = self.names.entry(job.project.clone()).or_default();
        names.entry(job.name.clone()).or_default().insert(job.id);
    }

    /// The job was forgotten.
    pub(crate) fn forget(&mut self, job: &Job) {
        let Some(names) = self.names.get_mut(&job.project) else { return };
        if let Some(ids) = names.get_mut(&job.name) {
            ids.remove(&job.id);
            if ids.is_empty() {
                names.remove(&job.name);
            }
        }
        if names.is_empty() {
            self.names.remove(&job.project);
        }
    }

    /// The newest job of that name in a project.
    pub(crate) fn named(&self, project: &ProjectName, name: &str) -> Option<JobId> {
        self.names.get(project)?.get(name)?.last().copied()
    }

    /// How the array of a task stands; always the same for a job that is no task.
    pub(crate) fn outlook(&self, job: &Job) -> Outlook {
        let tasks = job.array.and_then(|a| self.arrays.get(&a.parent));
        tasks.map_or_else(Outlook::default, |t| {
            Outlook([!t.open.is_empty(), !t.succeeded.is_empty(), !t.failed.is_empty()])
        })
    }

    /// Who waits for this job, in order; with `array` also who waits for the whole array.
    pub(crate) fn on(&self, job: &Job, array: bool) -> BTreeSet<JobId> {
        let mut out = self.waiters.get(&job.id).cloned().unwrap_or_default();
        if array && let Some(a) = job.array.filter(|a| a.parent != job.id) {
            out.extend(self.waiters.get(&a.parent).into_iter().flatten());
        }
        out
    }

    /// How the jobs before this one stand. Costs what it names, not what that stands for.
    pub(crate) fn judge(&self, state: &State, job: &Job) -> Depends {
        self.judge_all(state, &job.depends)
    }

    /// The same for a job that is not submitted yet.
    pub(crate) fn judge_all(&self, state: &State, depends: &[Dependency]) -> Depends {
        let mut waits = None;
        for d in depends {
            match self.judge_one(state, d) {
                Depends::Broken(id) => return Depends::Broken(id),
                Depends::Waits(id) => waits = waits.or(Some(id)),
                Depends::Met => {}
            }
        }
        waits.map_or(Depends::Met, Depends::Waits)
    }

    /// A job that was forgotten ended long ago; how, only the log knows. Broken is the safe answer
    /// for a condition on how it ended.
    fn judge_one(&self, state: &State, d: &Dependency) -> Depends {
        if d.count > 1 {
            return self.judge_array(d);
        }
        let ended = match state.jobs.get(&d.job) {
            Some(o) if !o.state.is_final() => return Depends::Waits(d.job),
            other => other.map(|o| o.state),
        };
        let good = match d.condition {
            Condition::Any => true,
            Condition::Ok => ended == Some(JobState::Succeeded),
            Condition::Fail => matches!(ended, Some(JobState::Failed | JobState::Cancelled)),
        };
        if good { Depends::Met } else { Depends::Broken(d.job) }
    }

    fn judge_array(&self, d: &Dependency) -> Depends {
        let none = Tasks::default();
        let tasks = self.arrays.get(&d.job).unwrap_or(&none);
        let bad = match d.condition {
            Condition::Any => None,
            Condition::Ok => Some(&tasks.failed),
            Condition::Fail => Some(&tasks.succeeded),
        };
        if let Some(bad) = bad {
            if let Some(first) = bad.first() {
                return Depends::Broken(*first);
            }
            if tasks.known() < d.count as usize {
                return Depends::Broken(d.job);
            }
        }
        tasks.open.first().map_or(Depends::Met, |first| Depends::Waits(*first))
    }
}
