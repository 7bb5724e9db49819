//! Whose doing the end of an attempt was.

use serde::{Deserialize, Serialize};

/// What an attempt's end is attributed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It did what it should.
    Success,
    /// The job's own.
    Application,
    /// The platform's.
    Infrastructure,
    /// A person's.
    Operator,
    /// The scheduler's: its room was wanted, or it goes on elsewhere or in another size.
    Scheduler,
    /// Muster's own: an agent or a server failed, not the hardware.
    Platform,
    /// Nobody knows.
    Unknown,
}

impl Verdict {
    /// Is it known not to be the job's own doing, nor anybody's will?
    #[must_use]
    pub fn exonerates_job(self) -> bool {
        matches!(self, Verdict::Infrastructure | Verdict::Platform)
    }

    /// Was the attempt interrupted, so that the job recovers from it? What it did itself, and what
    /// somebody wanted, is no interruption.
    #[must_use]
    pub fn is_interruption(self) -> bool {
        matches!(self, Verdict::Infrastructure | Verdict::Platform | Verdict::Unknown)
    }

    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Success => "success",
            Verdict::Application => "application",
            Verdict::Infrastructure => "infrastructure",
            Verdict::Operator => "operator",
            Verdict::Scheduler => "scheduler",
            Verdict::Platform => "platform",
            Verdict::Unknown => "unknown",
        }
    }
}
