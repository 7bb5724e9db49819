//! The spec of a job, as far as it has it in common with others.

use crate::spec::{JobSpec, Priority};
use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::sync::Arc;

/// What is other in a job's spec. The log has this alone: the spec may be large, and an array of
/// thousands of tasks is changed with one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecChange {
    /// The priority, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The time limit, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Span>,
}

/// The spec of a job. What may be changed later is a value of its own here, and the rest is shared:
/// however many tasks of an array are changed, and however each, their lists are in memory once.
///
/// Read as a [`JobSpec`] it has the priority and the time limit of whoever it is shared with. The
/// fields here go before those, so `job.spec.time_limit` is the job's own; give
/// [`whole`](SharedSpec::whole) to a function that takes a [`JobSpec`] and reads one of the two.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Arc<JobSpec>", into = "Arc<JobSpec>")]
pub struct SharedSpec {
    /// The job's priority class.
    pub priority: Priority,
    /// The job's time limit.
    pub time_limit: Option<Span>,
    shared: Arc<JobSpec>,
}

impl SharedSpec {
    /// The spec as a whole, for people and for texts. It is a copy where the job was changed, so
    /// nobody may store it for each job.
    #[must_use]
    pub fn whole(&self) -> Arc<JobSpec> {
        let (priority, time_limit) = (self.priority, self.time_limit);
        if (priority, time_limit) == (self.shared.priority, self.shared.time_limit) {
            return self.shared.clone();
        }
        Arc::new(JobSpec { priority, time_limit, ..JobSpec::clone(&self.shared) })
    }

    /// What it has in common with others; its priority and its time limit may be theirs.
    #[must_use]
    pub fn shared(&self) -> &Arc<JobSpec> {
        &self.shared
    }

    /// From now on it is shared with this one, which differs in priority and time limit at most.
    pub fn share(&mut self, with: Arc<JobSpec>) {
        self.shared = with;
    }

    /// Changes it; what it shares stays shared.
    pub fn change(&mut self, change: SpecChange) {
        self.priority = change.priority.unwrap_or(self.priority);
        self.time_limit = change.time_limit.or(self.time_limit);
    }

    /// Another spec in its place, of which it goes on to share what is the same.
    pub fn replace(&mut self, whole: &Arc<JobSpec>) {
        let new = SharedSpec::from(whole.clone());
        let mut same = new.clone();
        same.share(self.shared.clone());
        *self = if same == new { same } else { new };
    }
}

impl Deref for SharedSpec {
    type Target = JobSpec;

    fn deref(&self) -> &JobSpec {
        &self.shared
    }
}

/// Equal is what reads the same, whoever shares it.
impl PartialEq for SharedSpec {
    fn eq(&self, other: &SharedSpec) -> bool {
        (self.priority, self.time_limit) == (other.priority, other.time_limit)
            && (Arc::ptr_eq(&self.shared, &other.shared) || self.whole() == other.whole())
    }
}

impl From<Arc<JobSpec>> for SharedSpec {
    fn from(shared: Arc<JobSpec>) -> SharedSpec {
        SharedSpec { priority: shared.priority, time_limit: shared.time_limit, shared }
    }
}

impl From<JobSpec> for SharedSpec {
    fn from(spec: JobSpec) -> SharedSpec {
        SharedSpec::from(Arc::new(spec))
    }
}

impl From<SharedSpec> for Arc<JobSpec> {
    fn from(spec: SharedSpec) -> Arc<JobSpec> {
        spec.whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(tag: &str) -> JobSpec {
        JobSpec { tags: [(tag.into(), "x".into())].into(), ..JobSpec::default() }
    }

    #[test]
    fn a_changed_spec_reads_as_a_whole_and_shares_the_rest() {
        let first = SharedSpec::from(tagged("a"));
        let mut changed = first.clone();
        changed.change(SpecChange { time_limit: Some(Span::hours(3)), ..SpecChange::default() });
        changed.change(SpecChange { priority: Some(Priority::High), ..SpecChange::default() });
        assert_eq!((changed.priority, changed.time_limit), (Priority::High, Some(Span::hours(3))));
        assert!(Arc::ptr_eq(first.shared(), changed.shared()));
        assert_ne!(first, changed);
        let whole = changed.whole();
        assert_eq!((whole.priority, whole.time_limit), (Priority::High, Some(Span::hours(3))));
        assert_eq!(whole.tags, first.tags);
        // As text it is one spec, and what is read from that is equal to it.
        let text = serde_json::to_string(&changed).unwrap();
        assert_eq!(text, serde_json::to_string(&*whole).unwrap());
        let read: SharedSpec = serde_json::from_str(&text).unwrap();
        assert_eq!(read, changed);
        assert!(Arc::ptr_eq(&first.whole(), first.shared()), "nothing is other: no copy");
    }

    #[test]
    fn a_spec_in_place_of_another_goes_on_to_share_what_is_the_same() {
        let first = SharedSpec::from(tagged("a"));
        let mut job = first.clone();
        job.replace(&Arc::new(JobSpec { priority: Priority::Low, ..tagged("a") }));
        assert_eq!(job.priority, Priority::Low);
        assert!(Arc::ptr_eq(first.shared(), job.shared()));
        job.replace(&Arc::new(tagged("b")));
        assert_eq!((job.priority, &job.tags), (Priority::Normal, &tagged("b").tags));
    }
}
