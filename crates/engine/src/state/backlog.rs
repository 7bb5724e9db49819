//! How many jobs wait, for whatever reason: for free capacity, for a time, for others, or held.

use muster_model::job::Job;
use muster_model::names::ProjectName;
use std::collections::BTreeMap;

/// Waiting jobs of each user of each project. The sums are kept: every submission asks for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    all: usize,
    of: BTreeMap<ProjectName, Waiting>,
}

/// Those of one project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Waiting {
    all: usize,
    users: BTreeMap<String, usize>,
}

impl Waiting {
    fn add(&mut self, user: &str) {
        self.all += 1;
        match self.users.get_mut(user) {
            Some(n) => *n += 1,
            None => {
                self.users.insert(user.to_owned(), 1);
            }
        }
    }
}

impl Backlog {
    /// One more waits.
    pub(crate) fn add(&mut self, job: &Job) {
        self.all += 1;
        match self.of.get_mut(&job.project) {
            Some(w) => w.add(&job.user),
            None => self.of.entry(job.project.clone()).or_default().add(&job.user),
        }
    }

    /// One that was added waits no longer.
    pub(crate) fn remove(&mut self, job: &Job) {
        let Some(w) = self.of.get_mut(&job.project) else { return };
        let Some(n) = w.users.get_mut(&job.user) else { return };
        *n -= 1;
        w.all -= 1;
        self.all -= 1;
        if *n == 0 {
            w.users.remove(&job.user);
        }
        if w.all == 0 {
            self.of.remove(&job.project);
        }
    }

    /// How many wait in all.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// How many of a project wait.
    pub(crate) fn of_project(&self, project: &ProjectName) -> usize {
        self.of.get(project).map_or(0, |w| w.all)
    }

    /// How many of a user wait in a project.
    pub(crate) fn of_user(&self, project: &ProjectName, user: &str) -> usize {
        self.of.get(project).and_then(|w| w.users.get(user)).copied().unwrap_or(0)
    }
}
