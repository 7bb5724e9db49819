//! How many jobs wait, for whatever reason: for free capacity, for a time, for others, or held.

use muster_model::job::Job;
use muster_model::names::ProjectName;
use std::collections::BTreeMap;

/// Waiting jobs of each user of each project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    of: BTreeMap<ProjectName, BTreeMap<String, usize>>,
}

impl Backlog {
    /// One more waits.
    pub(crate) fn add(&mut self, job: &Job) {
        match self.of.get_mut(&job.project).and_then(|users| users.get_mut(&job.user)) {
            Some(n) => *n += 1,
            None => {
                let users = self.of.entry(job.project.clone()).or_default();
                users.insert(job.user.clone(), 1);
            }
        }
    }

    /// One that was added waits no longer.
    pub(crate) fn remove(&mut self, job: &Job) {
        let Some(users) = self.of.get_mut(&job.project) else { return };
        let Some(n) = users.get_mut(&job.user) else { return };
        *n -= 1;
        if *n == 0 {
            users.remove(&job.user);
        }
        if users.is_empty() {
            self.of.remove(&job.project);
        }
    }

    /// How many wait in all.
    pub(crate) fn all(&self) -> usize {
        self.of.values().flat_map(BTreeMap::values).sum()
    }

    /// How many of a project wait.
    pub(crate) fn of_project(&self, project: &ProjectName) -> usize {
        self.of.get(project).map_or(0, |users| users.values().sum())
    }

    /// How many of a user wait in a project.
    pub(crate) fn of_user(&self, project: &ProjectName, user: &str) -> usize {
        self.of.get(project).and_then(|users| users.get(user)).copied().unwrap_or(0)
    }
}
