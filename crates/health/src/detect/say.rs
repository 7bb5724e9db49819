//! What a detector says.

use muster_model::finding::Severity;
use muster_model::units::Time;

/// What a detector says of one thing at one moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Say {
    /// It is wrong.
    Bad(Because),
    /// It is as it should be.
    Good,
    /// Nothing can be said now: whatever was so stays so.
    Unknown,
}

/// How wrong, how sure, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Because {
    /// How bad it is.
    pub severity: Severity,
    /// How sure, in thousandths.
    pub confidence: u16,
    /// Why, in a line.
    pub why: String,
    /// Since when, where that is known.
    pub since: Option<Time>,
}

impl Say {
    /// Wrong, for this reason.
    #[must_use]
    pub fn bad(severity: Severity, confidence: u16, why: impl Into<String>) -> Say {
        Say::Bad(Because { severity, confidence, why: why.into(), since: None })
    }

    /// Since this moment.
    #[must_use]
    pub fn since(self, at: Time) -> Say {
        match self {
            Say::Bad(b) => Say::Bad(Because { since: Some(at), ..b }),
            other => other,
        }
    }

    /// Good where `so`, else unknown.
    #[must_use]
    pub fn good_if(so: bool) -> Say {
        if so { Say::Good } else { Say::Unknown }
    }

    /// Is it wrong?
    #[must_use]
    pub fn is_bad(&self) -> bool {
        matches!(self, Say::Bad(_))
    }
}
