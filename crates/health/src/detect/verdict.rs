//! What a detector says.

use muster_model::finding::Severity;
use muster_model::units::Time;

/// What a detector says of one thing at one moment.
#[derive(Debug, Clone, PartialEq)]
pub enum DetectorVerdict {
    /// It is wrong.
    Bad(FindingReason),
    /// It is as it should be.
    Good,
    /// Nothing can be said now: whatever was so stays so.
    Unknown,
}

/// How wrong, how sure, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct FindingReason {
    /// How bad it is.
    pub severity: Severity,
    /// How sure, in thousandths.
    pub confidence: u16,
    /// Why, in a line.
    pub why: String,
    /// Since when, where that is known.
    pub since: Option<Time>,
}

impl DetectorVerdict {
    /// Wrong, for this reason.
    #[must_use]
    pub fn bad(severity: Severity, confidence: u16, why: impl Into<String>) -> DetectorVerdict {
        DetectorVerdict::Bad(FindingReason { severity, confidence, why: why.into(), since: None })
    }

    /// Since this moment.
    #[must_use]
    pub fn since(self, at: Time) -> DetectorVerdict {
        match self {
            DetectorVerdict::Bad(b) => DetectorVerdict::Bad(FindingReason { since: Some(at), ..b }),
            other => other,
        }
    }

    /// Good where `so`, else unknown.
    #[must_use]
    pub fn good_if(so: bool) -> DetectorVerdict {
        if so { DetectorVerdict::Good } else { DetectorVerdict::Unknown }
    }

    /// Is it wrong?
    #[must_use]
    pub fn is_bad(&self) -> bool {
        matches!(self, DetectorVerdict::Bad(_))
    }
}
