//! Numbers that name things.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// Position of a record in the log. Dense, starts at 1; 0 means "before everything".
    Seq, u64
);
number_id!(
    /// Fencing token of a leader: grows by one with each change of leadership.
    Epoch, u64
);
number_id!(
    /// A job. A plain number, because frameworks parse `SLURM_JOB_ID` as one.
    JobId, u64
);

impl FromStr for JobId {
    type Err = std::num::ParseIntError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(JobId)
    }
}

impl Seq {
    /// The sequence number after this one.
    #[must_use]
    pub fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
}

/// One try at running a job; written `JOB.ATTEMPT`. Everything that runs on a node carries it,
/// which distinguishes a stale try from the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptKey {
    /// The job that is tried.
    pub job: JobId,
    /// Counts from 1 for each job.
    pub attempt: u32,
}

impl fmt::Display for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.attempt)
    }
}

impl FromStr for AttemptKey {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let bad = || format!("`{s}` is not an attempt: expected JOB.ATTEMPT, for example 42.1");
        let (job, attempt) = s.split_once('.').ok_or_else(bad)?;
        Ok(AttemptKey {
            job: job.parse().map_err(|_| bad())?,
            attempt: attempt.parse().map_err(|_| bad())?,
        })
    }
}

/// Names one installation of Muster for ever; agents refuse to serve another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct SiteId(pub String);

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
