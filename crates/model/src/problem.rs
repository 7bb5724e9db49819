//! What is wrong with what somebody wrote.

/// What is wrong with a spec: where, what, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct SpecProblem {
    /// Dotted path of the field.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

/// Builds a [`SpecProblem`].
pub fn problem(field: &str, message: impl Into<String>, hint: impl Into<String>) -> SpecProblem {
    let hint = Some(hint.into()).filter(|h| !h.is_empty());
    SpecProblem { field: field.into(), message: message.into(), hint }
}
