//! Is the site ready for its objectives?

use crate::Kind;
use serde::{Deserialize, Serialize};

/// The checklists of operators, each point answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Readiness {
    /// Always `Readiness`.
    pub kind: Kind,
    /// Nothing is missing. What is unknown does not count as missing.
    pub ready: bool,
    /// The points of both checklists.
    pub checks: Vec<ReadinessCheck>,
}

/// A point of a checklist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadinessCheck {
    /// A stable code.
    pub check: String,
    /// `before production` or `in production`.
    pub list: String,
    /// The question.
    pub what: String,
    /// `ok`, `missing` or `unknown`.
    pub state: String,
    /// What was found.
    pub found: String,
    /// How to fix it; empty where nothing is to be fixed.
    pub fix: String,
}
