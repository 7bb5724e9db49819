//! What may be changed of a job that waits or runs.

use crate::ids::JobId;
use crate::spec::{JobSpec, Priority};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
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

impl SpecChange {
    /// The spec with the change; the same where nothing is other.
    #[must_use]
    pub fn applied(self, spec: &Arc<JobSpec>) -> Arc<JobSpec> {
        let priority = self.priority.unwrap_or(spec.priority);
        let time_limit = self.time_limit.or(spec.time_limit);
        if (priority, time_limit) == (spec.priority, spec.time_limit) {
            return spec.clone();
        }
        Arc::new(JobSpec { priority, time_limit, ..(**spec).clone() })
    }
}

/// What a job asks for was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobUpdate {
    /// The job, which waits or runs.
    pub job: JobId,
    /// What is other in its spec from now on.
    #[serde(default)]
    pub change: SpecChange,
    /// The whole spec, in logs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Arc<JobSpec>>,
    /// When its running attempt reaches the new time limit; nothing where none runs yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
}

/// Changes that are remembered: half of an array's tasks may have been changed before.
const REMEMBERED: usize = 8;

/// The last changes of specs: tasks of an array share one, and share it after a change too.
#[derive(Debug, Clone, Default)]
pub struct LastChanges(VecDeque<(Arc<JobSpec>, SpecChange, Arc<JobSpec>)>);

impl LastChanges {
    /// The spec with the change; that of before where it is the same change of the same spec.
    pub fn applied(&mut self, spec: &Arc<JobSpec>, change: SpecChange) -> Arc<JobSpec> {
        let same = |(from, with, _): &&(Arc<JobSpec>, SpecChange, Arc<JobSpec>)| {
            Arc::ptr_eq(from, spec) && *with == change
        };
        if let Some((_, _, to)) = self.0.iter().find(same) {
            return to.clone();
        }
        let to = change.applied(spec);
        self.0.truncate(REMEMBERED - 1);
        self.0.push_front((spec.clone(), change, to.clone()));
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shared_a_spec_shares_it_after_a_change() {
        let spec = Arc::new(JobSpec::default());
        let later = SpecChange { time_limit: Some(Span::hours(3)), ..SpecChange::default() };
        let mut last = LastChanges::default();
        let one = last.applied(&spec, later);
        assert_eq!(one.time_limit, Some(Span::hours(3)));
        assert!(Arc::ptr_eq(&one, &last.applied(&spec, later)));
        let urgent = SpecChange { priority: Some(Priority::High), ..SpecChange::default() };
        let other = last.applied(&spec, urgent);
        assert!(Arc::ptr_eq(&one, &last.applied(&spec, later)), "not only the last is remembered");
        assert_eq!((other.priority, other.time_limit), (Priority::High, None));
        // Nothing is other: the same spec.
        assert!(Arc::ptr_eq(&one, &later.applied(&one)));
    }
}
