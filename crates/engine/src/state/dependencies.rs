//! Jobs that wait for others. An array is one thing here however many tasks it has: who waits for
//! it is kept once, and how it stands is known without a look at every task. Ten thousand tasks
//! that wait for ten thousand others must cost ten thousand steps, not a hundred million.

use super::State;
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
    Broken(Broken),
}

/// Why a condition can never be met any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// This job, or this task, ended otherwise.
    Ended(JobId),
    /// All tasks of this array have ended, and none failed.
    NoneFailed(JobId),
    /// It ended so long ago that only the log knows how.
    Forgotten(JobId),
}

impl Depends {
    /// What keeps the job from starting, for people.
    pub(crate) fn words(self, state: &State) -> Option<String> {
        match self {
            Depends::Met => None,
            Depends::Waits(id) => {
                let how = state.jobs.get(&id).map_or("gone", |j| j.word());
                Some(format!("waits for job {}, which is {how}", shown(state, id)))
            }
            Depends::Broken(why) => Some(why.words(state)),
        }
    }
}

impl Broken {
    /// The same for people: what was waited for, and how it ended.
    pub(crate) fn words(self, state: &State) -> String {
        let required = "which it depends on, did not end as required";
        match self {
            Broken::Ended(id) => {
                let how = match state.jobs.get(&id).map(|j| j.state) {
                    Some(JobState::Cancelled) => "was cancelled",
                    Some(other) => other.word(),
                    None => "is gone",
                };
                format!("job {}, {required}: it {how}", shown(state, id))
            }
            Broken::NoneFailed(id) => format!("array {id}, {required}: no task of it failed"),
            Broken::Forgotten(id) => {
                format!("job {id}, {required} as far as is known: it ended too long ago")
            }
        }
    }
}

/// The number that people know a job by.
fn shown(state: &State, id: JobId) -> String {
    state.jobs.get(&id).map_or_else(|| id.to_string(), |j| j.display_id())
}

/// Who waits for whom, and who is called what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DependencyIndex {
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

/// All that those who wait for an array can know of it: whether any task is open, has succeeded,
/// has failed. While this is the same, nothing changes for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ArrayOutlook([bool; 3]);

impl DependencyIndex {
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

    /// Takes back what [`DependencyIndex::add`] did for the job in this state.
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
    pub(crate) fn outlook(&self, job: &Job) -> ArrayOutlook {
        let tasks = job.array.and_then(|a| self.arrays.get(&a.parent));
        tasks.map_or_else(ArrayOutlook::default, |t| {
            ArrayOutlook([!t.open.is_empty(), !t.succeeded.is_empty(), !t.failed.is_empty()])
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
    pub(crate) fn evaluate(&self, state: &State, job: &Job) -> Depends {
        self.evaluate_all(state, &job.depends)
    }

    /// The same for a job that is not submitted yet.
    pub(crate) fn evaluate_all(&self, state: &State, depends: &[Dependency]) -> Depends {
        let mut waits = None;
        for d in depends {
            match self.evaluate_one(state, d) {
                Depends::Broken(why) => return Depends::Broken(why),
                Depends::Waits(id) => waits = waits.or(Some(id)),
                Depends::Met => {}
            }
        }
        waits.map_or(Depends::Met, Depends::Waits)
    }

    /// A job that was forgotten ended long ago; how, only the log knows. Broken is the safe answer
    /// for a condition on how it ended.
    fn evaluate_one(&self, state: &State, d: &Dependency) -> Depends {
        if d.count > 1 {
            return self.evaluate_array(d);
        }
        let Some(other) = state.jobs.get(&d.job) else {
            return match d.condition {
                Condition::Any => Depends::Met,
                Condition::Ok | Condition::Fail => Depends::Broken(Broken::Forgotten(d.job)),
            };
        };
        if !other.state.is_final() {
            return Depends::Waits(d.job);
        }
        let good = match d.condition {
            Condition::Any => true,
            Condition::Ok => other.state == JobState::Succeeded,
            Condition::Fail => other.state != JobState::Succeeded,
        };
        if good { Depends::Met } else { Depends::Broken(Broken::Ended(d.job)) }
    }

    /// `ok`: every task succeeded. `fail`: all have ended, and at least one failed. `any`: all have
    /// ended.
    fn evaluate_array(&self, d: &Dependency) -> Depends {
        let none = Tasks::default();
        let tasks = self.arrays.get(&d.job).unwrap_or(&none);
        let forgotten = tasks.known() < d.count as usize;
        let broken = match d.condition {
            Condition::Any => None,
            Condition::Ok => match tasks.failed.first() {
                Some(first) => Some(Broken::Ended(*first)),
                None => forgotten.then_some(Broken::Forgotten(d.job)),
            },
            // An open task may still fail.
            Condition::Fail if !tasks.open.is_empty() || !tasks.failed.is_empty() => None,
            Condition::Fail if forgotten => Some(Broken::Forgotten(d.job)),
            Condition::Fail => Some(Broken::NoneFailed(d.job)),
        };
        if let Some(why) = broken {
            return Depends::Broken(why);
        }
        tasks.open.first().map_or(Depends::Met, |first| Depends::Waits(*first))
    }
}
