//! Ended jobs that are still in the working state, and which of them leave it first.

use muster_model::ids::JobId;
use muster_model::job::Job;
use muster_model::names::ProjectName;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Ended jobs of each project in the order they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EndedJobs {
    by_project: BTreeMap<ProjectName, BTreeSet<(Time, JobId)>>,
    count: usize,
}

impl EndedJobs {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Puts a job in, if it has ended.
    pub(crate) fn insert(&mut self, job: &Job) {
        let Some(at) = job.ended_at else { return };
        if self.by_project.entry(job.project.clone()).or_default().insert((at, job.id)) {
            self.count += 1;
        }
    }

    /// Takes it out as it was put in.
    pub(crate) fn remove(&mut self, job: &Job) {
        let Some(at) = job.ended_at else { return };
        let Some(of) = self.by_project.get_mut(&job.project) else { return };
        if of.remove(&(at, job.id)) {
            self.count -= 1;
        }
        if of.is_empty() {
            self.by_project.remove(&job.project);
        }
    }

    /// Those of a project, the one that ended first at the beginning.
    pub(crate) fn of(&self, project: &ProjectName) -> impl Iterator<Item = (Time, JobId)> + '_ {
        self.by_project.get(project).into_iter().flatten().copied()
    }

    /// The `n` that leave first: each the oldest of the project that has most left. Whoever ends
    /// jobs by the ten thousand loses its own, and nobody who has fewer loses any.
    pub(crate) fn first_to_leave(&self, n: usize) -> Vec<JobId> {
        let mut oldest: Vec<_> = self.by_project.values().map(BTreeSet::iter).collect();
        let sizes = self.by_project.values().map(BTreeSet::len);
        let mut sizes: BinaryHeap<(usize, usize)> = sizes.zip(0..).collect();
        let mut leave = Vec::new();
        while leave.len() < n
            && let Some((size, project)) = sizes.pop()
        {
            if let Some((_, id)) = oldest[project].next() {
                leave.push(*id);
                sizes.push((size.saturating_sub(1), project));
            }
        }
        leave
    }
}
