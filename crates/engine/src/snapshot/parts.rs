//! What jobs share: the tasks of an array have one spec between them, and so on. A snapshot has it
//! once, and after a start it is in memory once. Specs that differ in nothing but priority and time
//! limit are one too: these two may be changed of every task by itself.

use super::SnapshotError;
use muster_model::job::{Dependency, Job, SharedSpec};
use muster_model::names::{Label, ProjectName};
use muster_model::spec::{Group, JobSpec, Priority};
use muster_model::units::Span;
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
    /// Its priority and its time limit, where they are not those of the spec. New in format 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<(Priority, Option<Span>)>,
}

/// The text by which equal values are found, or why there is none.
type Text = Result<Vec<u8>, serde_json::Error>;

fn text<T: ?Sized + Serialize>(value: &T) -> Text {
    serde_json::to_vec(value)
}

/// The same for all specs that differ in nothing but priority and time limit.
fn spec_text(spec: &JobSpec) -> Text {
    text(&JobSpec { priority: Priority::default(), time_limit: None, ..spec.clone() })
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

impl<T: ?Sized> Table<T> {
    /// The number of what has this text, and whether it is the first: then it is `made`.
    fn number(&mut self, text: &[u8], made: &dyn Fn() -> Arc<T>) -> (usize, bool) {
        let hash = *blake3::hash(text).as_bytes();
        if let Some(n) = self.by_text.get(&hash) {
            return (*n, false);
        }
        let n = self.values.len();
        self.by_text.insert(hash, n);
        self.values.push(made());
        (n, true)
    }

    /// The same for what stays where it is while this table is used.
    fn number_at(
        &mut self,
        value: &Arc<T>,
        text: fn(&T) -> Text,
        made: &dyn Fn() -> Arc<T>,
    ) -> Result<(usize, bool), serde_json::Error> {
        let address = Arc::as_ptr(value).cast::<u8>().addr();
        if let Some(n) = self.by_address.get(&address) {
            return Ok((*n, false));
        }
        let (n, first) = self.number(&text(value)?, made);
        self.by_address.insert(address, n);
        Ok((n, first))
    }

    /// What is equal to this, or this where nothing was before.
    fn equal_to(
        &mut self,
        value: &Arc<T>,
        text: fn(&T) -> Text,
    ) -> Result<Arc<T>, serde_json::Error> {
        let (n, _) = self.number(&text(value)?, &|| value.clone());
        Ok(self.values.get(n).unwrap_or(value).clone())
    }
}

/// Everything that jobs share.
#[derive(Default)]
pub(super) struct Parts {
    specs: Table<JobSpec>,
    groups: Table<[Group]>,
    depends: Table<[Dependency]>,
    /// The specs of a snapshot that is read, by their numbers there.
    read: Vec<SharedSpec>,
    names: BTreeSet<Label>,
    projects: BTreeSet<ProjectName>,
    /// What stands in a folded job for what it shares.
    blank: (SharedSpec, Arc<[Group]>, Arc<[Dependency]>),
}

impl Parts {
    /// A job without what it shares; `found` gets each part that was not there before. The job
    /// must outlive this table.
    pub(super) fn fold(
        &mut self,
        job: &Job,
        found: &mut dyn FnMut(SharedPart) -> Result<(), SnapshotError>,
    ) -> Result<FoldedJob, SnapshotError> {
        // As the first job has it, so that the bytes do not depend on who shares what.
        let whole = || job.spec.whole();
        let (spec, first) = self.specs.number_at(job.spec.shared(), spec_text, &whole)?;
        if first {
            found(SharedPart::Spec(whole()))?;
        }
        let mine = (job.spec.priority, job.spec.time_limit);
        let written = self.specs.values.get(spec).map(|s| (s.priority, s.time_limit));
        let own = (written != Some(mine)).then_some(mine);
        let groups_of = || job.groups.clone();
        let (groups, first) = self.groups.number_at(&job.groups, text, &groups_of)?;
        if first {
            found(SharedPart::Groups(job.groups.clone()))?;
        }
        let depends_of = || job.depends.clone();
        let (depends, first) = self.depends.number_at(&job.depends, text, &depends_of)?;
        if first {
            found(SharedPart::Depends(job.depends.clone()))?;
        }
        let mut job = job.clone();
        (job.spec, job.groups, job.depends) = self.blank.clone();
        Ok(FoldedJob { job: Arc::new(job), spec, groups, depends, own })
    }

    /// The next part of a snapshot.
    pub(super) fn add(&mut self, part: SharedPart) -> Result<(), serde_json::Error> {
        match part {
            SharedPart::Spec(spec) => {
                // Format 2 has a copy for every task that was changed.
                let mut spec = SharedSpec::from(spec);
                self.share_spec(&mut spec)?;
                self.read.push(spec);
            }
            SharedPart::Groups(groups) => self.groups.values.push(groups),
            SharedPart::Depends(depends) => self.depends.values.push(depends),
        }
        Ok(())
    }

    /// The job with what it shares; none where that was not added.
    pub(super) fn unfold(&mut self, folded: FoldedJob) -> Option<Arc<Job>> {
        let FoldedJob { mut job, spec, groups, depends, own } = folded;
        let whole = Arc::make_mut(&mut job);
        whole.spec = self.read.get(spec)?.clone();
        if let Some((priority, time_limit)) = own {
            (whole.spec.priority, whole.spec.time_limit) = (priority, time_limit);
        }
        whole.groups = self.groups.values.get(groups)?.clone();
        whole.depends = self.depends.values.get(depends)?.clone();
        self.share_names(whole);
        Some(job)
    }

    /// Lets a job share what is equal in one that was given before.
    pub(super) fn share(&mut self, job: &mut Job) -> Result<(), serde_json::Error> {
        self.share_spec(&mut job.spec)?;
        job.groups = self.groups.equal_to(&job.groups, text)?;
        job.depends = self.depends.equal_to(&job.depends, text)?;
        self.share_names(job);
        Ok(())
    }

    fn share_spec(&mut self, spec: &mut SharedSpec) -> Result<(), serde_json::Error> {
        let same = self.specs.equal_to(spec.shared(), spec_text)?;
        spec.share(same);
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
