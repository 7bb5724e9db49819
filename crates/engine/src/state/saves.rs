//! Which jobs that are not over save to which directory.

use muster_model::ids::JobId;
use muster_model::job::Job;
use muster_model::names::ProjectName;
use muster_model::spec::JobSpec;
use std::collections::{BTreeMap, BTreeSet};

/// Jobs of each directory, the tasks of an array together. Those that wait for others are left out:
/// whoever chains jobs means the next one to go on where the last one stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CheckpointDirs {
    by_dir: BTreeMap<(ProjectName, String), BTreeMap<JobId, BTreeSet<JobId>>>,
}

/// Where a job saves, however its path ends.
pub(crate) fn dir_of(spec: &JobSpec) -> Option<&str> {
    spec.checkpoint.as_ref().map(|c| c.dir.trim_end_matches('/'))
}

fn counted(job: &Job) -> Option<(ProjectName, String)> {
    let dir = dir_of(&job.spec).filter(|_| !job.state.is_final() && job.depends.is_empty())?;
    Some((job.project.clone(), dir.to_owned()))
}

impl CheckpointDirs {
    pub(crate) fn add(&mut self, job: &Job) {
        if let Some(dir) = counted(job) {
            self.by_dir.entry(dir).or_default().entry(job.payload).or_default().insert(job.id);
        }
    }

    pub(crate) fn remove(&mut self, job: &Job) {
        let Some(dir) = counted(job) else { return };
        let Some(all) = self.by_dir.get_mut(&dir) else { return };
        if let Some(tasks) = all.get_mut(&job.payload) {
            tasks.remove(&job.id);
            if tasks.is_empty() {
                all.remove(&job.payload);
            }
        }
        if all.is_empty() {
            self.by_dir.remove(&dir);
        }
    }

    /// A job that saves there and is neither `own` nor a task of it.
    pub(crate) fn other(
        &self,
        project: &ProjectName,
        dir: &str,
        own: Option<JobId>,
    ) -> Option<JobId> {
        let all = self.by_dir.get(&(project.clone(), dir.to_owned()))?;
        let other = all.iter().find(|(payload, _)| Some(**payload) != own)?;
        other.1.first().copied()
    }
}
