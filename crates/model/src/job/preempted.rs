//! What a job is stopped for, another job or a reservation, for whoever may see that.

use super::StopReason;
use crate::ids::JobId;
use crate::names::Label;
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

    /// The reservation that it makes way for.
    #[must_use]
    pub fn reservation(&self) -> Option<&Label> {
        match self {
            StopReason::ReservationBegins { name } => name.as_ref(),
            _ => None,
        }
    }

    /// The same for readers who may not see the job that it makes room for, or the reservation.
    #[must_use]
    pub fn unnamed(&self) -> StopReason {
        match self {
            StopReason::Preempted { rank, .. } => StopReason::Preempted { by: None, rank: *rank },
            StopReason::Moved { .. } => StopReason::Moved { by: None },
            StopReason::ReservationBegins { .. } => StopReason::ReservationBegins { name: None },
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

    #[test]
    fn a_reservation_that_the_reader_may_not_know_has_no_name() {
        let named = StopReason::ReservationBegins { name: Some("merger".parse().unwrap()) };
        assert_eq!(named.to_string(), "reservation merger begins");
        assert_eq!(named.reservation().map(Label::as_str), Some("merger"));
        let reported = named.unnamed();
        assert_eq!(reported.to_string(), "a reservation begins");
        assert_eq!(reported.reservation(), None);
        let text = r#"{"why":"reservation_begins","name":"merger"}"#;
        assert_eq!(serde_json::to_string(&named).unwrap(), text);
        assert_eq!(serde_json::from_str::<StopReason>(text).unwrap(), named);
        let text = serde_json::to_string(&reported).unwrap();
        assert_eq!(text, r#"{"why":"reservation_begins"}"#);
        assert_eq!(serde_json::from_str::<StopReason>(&text).unwrap(), reported);
    }
}
