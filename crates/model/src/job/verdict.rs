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

/// Failures by what they are attributed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = FleetAttribution))]
pub struct AttributionCounts {
    /// The job's own.
    pub application: u64,
    /// The hardware's.
    pub infrastructure: u64,
    /// Muster's own.
    pub platform: u64,
    /// Nobody knows.
    pub unknown: u64,
}

impl AttributionCounts {
    /// Where ends with a verdict are counted; those that are no failure nowhere.
    pub fn of(&mut self, v: Verdict) -> Option<&mut u64> {
        match v {
            Verdict::Application => Some(&mut self.application),
            Verdict::Infrastructure => Some(&mut self.infrastructure),
            Verdict::Platform => Some(&mut self.platform),
            Verdict::Unknown => Some(&mut self.unknown),
            Verdict::Success | Verdict::Operator | Verdict::Scheduler => None,
        }
    }

    /// All failures, whatever their cause.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.application + self.infrastructure + self.platform + self.unknown
    }

    /// Failures that interrupted an attempt: not those of the job itself
    /// ([`Verdict::is_interruption`]).
    #[must_use]
    pub fn interruptions(&self) -> u64 {
        self.infrastructure + self.platform + self.unknown
    }

    /// Adds what others counted.
    pub fn add(&mut self, o: &AttributionCounts) {
        self.application += o.application;
        self.infrastructure += o.infrastructure;
        self.platform += o.platform;
        self.unknown += o.unknown;
    }
}
