//! What jobs share: the tasks of an array have one spec between them, and so on. A snapshot has it
//! once, and after a start it is in memory once.

use super::SnapshotError;
use muster_model::job::{Dependency, Job};
use muster_model::names::{Label, ProjectName};
use muster_model::spec::{Group, JobSpec};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A part that was not there before; each kind is numbered from 0 in the order of the lines.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SharedPart {
    Spec(Arc<JobSpec>),
    Groups(Arc<[Group]>),
    Depends(Arc<[Dependency]>),
}

/// A job without what it shares, and the numbers of that.
#[derive(Serialize, Deserialize)]
pub(super) struct FoldedJob {
    /// With an empty spec, no groups and no dependencies.
    job: Arc<Job>,
    spec: usize,
    groups: usize,
    depends: usize,
}

/// The different values of one kind.
struct Table<T: ?Sized> {
    values: Vec<Arc<T>>,
    /// The number of each, by the hash of its text: equal is what reads the same, whoever made it.
    by_text: BTreeMap<[u8; 32], usize>,
    /// The same by where it is in memory, so that the text of what is shared is made once. Only
    /// for what outlives this table.
    by_address: BTreeMap<usize, usize>,
}

impl<T: ?Sized> Default for Table<T> {
    fn default() -> Table<T> {
        Table { values: Vec::new(), by_text: BTreeMap::new(), by_address: BTreeMap::new() }
    }
}

impl<T: ?Sized + Serialize> Table<T> {
    /// The number of what is equal to this, and whether it is the first.
    fn number(&mut self, value: &Arc<T>) -> Result<(usize, bool), serde_json::Error> {
        let text = serde_json::to_vec(&**value)?;
        let hash = *blake3::hash(&text).as_bytes();
        if let Some(n) = self.by_text.get(&hash) {
            return Ok((*n, false));
        }
        let n = self.values.len();
        self.by_text.insert(hash, n);
        self.values.push(value.clone());
        Ok((n, true))
    }

    /// The same for what stays where it is while this table is used.
    fn number_at(&mut self, value: &Arc<T>) -> Result<(usize, bool), serde_json::Error> {
        let address = Arc::as_ptr(value).cast::<u8>().addr();
        if let Some(n) = self.by_address.get(&address) {
            return Ok((*n, false));
        }
        let (n, first) = self.number(value)?;
        self.by_address.insert(address, n);
        Ok((n, first))
    }

    /// Replaces it by what is equal to it.
    fn share(&mut self, value: &mut Arc<T>) -> Result<(), serde_json::Error> {
        let (n, _) = self.number(value)?;
        if let Some(same) = self.values.get(n) {
            *value = same.clone();
        }
        Ok(())
    }
}

/// Everything that jobs share.
#[derive(Default)]
pub(super) struct Parts {
    specs: Table<JobSpec>,
    groups: Table<[Group]>,
    depends: Table<[Dependency]>,
    names: BTreeSet<Label>,
    projects: BTreeSet<ProjectName>,
    /// What stands in a folded job for what it shares.
    blank: (Arc<JobSpec>, Arc<[Group]>, Arc<[Dependency]>),
}

impl Parts {
    /// A job without what it shares; `found` gets each part that was not there before. The job
    /// must outlive this table.
    pub(super) fn fold(
        &mut self,
        job: &Job,
        found: &mut dyn FnMut(SharedPart) -> Result<(), SnapshotError>,
    ) -> Result<FoldedJob, SnapshotError> {
        let (spec, first) = self.specs.number_at(&job.spec)?;
        if first {
            found(SharedPart::Spec(job.spec.clone()))?;
        }
        let (groups, first) = self.groups.number_at(&job.groups)?;
        if first {
            found(SharedPart::Groups(job.groups.clone()))?;
        }
        let (depends, first) = self.depends.number_at(&job.depends)?;
        if first {
            found(SharedPart::Depends(job.depends.clone()))?;
        }
        let mut job = job.clone();
        (job.spec, job.groups, job.depends) = self.blank.clone();
        Ok(FoldedJob { job: Arc::new(job), spec, groups, depends })
    }

    /// The next part of a snapshot.
    pub(super) fn add(&mut self, part: SharedPart) {
        match part {
            SharedPart::Spec(spec) => self.specs.values.push(spec),
            SharedPart::Groups(groups) => self.groups.values.push(groups),
            SharedPart::Depends(depends) => self.depends.values.push(depends),
        }
    }

    /// The job with what it shares; none where that was not added.
    pub(super) fn unfold(&mut self, folded: FoldedJob) -> Option<Arc<Job>> {
        let FoldedJob { mut job, spec, groups, depends } = folded;
        let whole = Arc::make_mut(&mut job);
        whole.spec = self.specs.values.get(spec)?.clone();
        whole.groups = self.groups.values.get(groups)?.clone();
        whole.depends = self.depends.values.get(depends)?.clone();
        self.share_names(whole);
        Some(job)
    }

    /// Lets a job share what is equal in one that was given before.
    pub(super) fn share(&mut self, job: &mut Job) -> Result<(), serde_json::Error> {
        self.specs.share(&mut job.spec)?;
        self.groups.share(&mut job.groups)?;
        self.depends.share(&mut job.depends)?;
        self.share_names(job);
        Ok(())
    }

    fn share_names(&mut self, job: &mut Job) {
        share_name(&mut self.names, &mut job.name);
        share_name(&mut self.projects, &mut job.project);
    }
}

fn share_name<T: Ord + Clone>(all: &mut BTreeSet<T>, name: &mut T) {
    match all.get(name) {
        Some(same) => *name = same.clone(),
        None => {
            all.insert(name.clone());
        }
    }
}
