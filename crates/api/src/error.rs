//! What a refused request answers.

use muster_model::command::{Refusal, RefusalCode};
use serde::{Deserialize, Serialize};

/// Body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorInfo,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorInfo {
    /// For programs: `invalid`, `not_found`, `not_allowed`, `unauthenticated`, `conflict`,
    /// `policy`, `unsupported`, `too_large`, `rate_limited`, `unavailable` or `internal`.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
    /// The field that is wrong.
    #[serde(default)]
    pub field: Option<String>,
    /// How to fix it.
    #[serde(default)]
    pub hint: Option<String>,
}

impl ErrorBody {
    /// An error without field or hint.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> ErrorBody {
        ErrorBody {
            error: ErrorInfo {
                code: code.into(),
                message: message.into(),
                field: None,
                hint: None,
            },
        }
    }

    /// Says how to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> ErrorBody {
        self.error.hint = Some(hint.into());
        self
    }

    /// Names the field at fault.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> ErrorBody {
        self.error.field = Some(field.into());
        self
    }
}

/// The word for a refusal's code on the wire.
#[must_use]
pub fn code_word(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::Invalid => "invalid",
        RefusalCode::NotFound => "not_found",
        RefusalCode::NotAllowed => "not_allowed",
        RefusalCode::Conflict => "conflict",
        RefusalCode::Policy => "policy",
        RefusalCode::Unsupported => "unsupported",
    }
}

/// The HTTP status that goes with a refusal's code.
#[must_use]
pub fn code_status(code: RefusalCode) -> u16 {
    match code {
        RefusalCode::Invalid | RefusalCode::Unsupported => 422,
        RefusalCode::NotFound => 404,
        RefusalCode::NotAllowed | RefusalCode::Policy => 403,
        RefusalCode::Conflict => 409,
    }
}

impl From<Refusal> for ErrorBody {
    fn from(r: Refusal) -> ErrorBody {
        let Refusal { code, message, field, hint } = r;
        ErrorBody { error: ErrorInfo { code: code_word(code).into(), message, field, hint } }
    }
}
