//! What is wrong with a runbook.

/// What is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}: {message}")]
pub struct RunbookError {
    /// The file, or what stands for it.
    pub origin: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: String,
}

impl RunbookError {
    pub(crate) fn new(
        line: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> RunbookError {
        RunbookError { origin: String::new(), line, message: message.into(), hint: hint.into() }
    }
}
