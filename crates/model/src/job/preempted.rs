//! The job that another one is stopped for, for whoever may see it.

use super::StopReason;
use crate::ids::JobId;
use std::fmt;

impl StopReason {
    /// The job that it makes room for.
    #[must_use]
    pub fn preempted_for(&self) -> Option<JobId> {
        match self {
            StopReason::Preempted { by, .. } | StopReason::Moved { by } => *by,
            _ => None,
        }
    }

    /// The same for readers who may not see the job that it makes room for.
    #[must_use]
    pub fn unnamed(&self) -> StopReason {
        match self {
            StopReason::Preempted { rank, .. } => StopReason::Preempted { by: None, rank: *rank },
            StopReason::Moved { .. } => StopReason::Moved { by: None },
            other => other.clone(),
        }
    }
}

/// The other job in words.
pub(super) struct Other(pub(super) Option<JobId>);

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, "job {id}"),
            // Whose it is may not be known any more.
            None => f.write_str("another job"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Rank;

    #[test]
    fn a_job_that_the_reader_may_not_see_has_no_number() {
        let by = Some(JobId(7));
        for rank in [Rank::Priority, Rank::Spot, Rank::Quota] {
            let named = StopReason::Preempted { by, rank };
            assert!(named.to_string().contains("job 7"), "{named}");
            let reported = named.unnamed();
            assert!(reported.to_string().contains("another job"), "{reported}");
            assert_eq!(reported.preempted_for(), None);
        }
        let moved = StopReason::Moved { by };
        assert_eq!(moved.to_string(), "moved so that job 7 fits");
        assert_eq!(moved.unnamed().to_string(), "moved so that another job fits");
        // As records have it, and as readers of another project get it.
        assert_eq!(serde_json::to_string(&moved).unwrap(), r#"{"why":"moved","by":7}"#);
        assert_eq!(serde_json::to_string(&moved.unnamed()).unwrap(), r#"{"why":"moved"}"#);
    }
}
