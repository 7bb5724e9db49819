//! What is wrong with a runbook.

/// What is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}: {message}")]
pub struct BookError {
    /// The file, or what stands for it.
    pub origin: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: String,
}

impl BookError {
    pub(crate) fn new(
        line: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> BookError {
        BookError { origin: String::new(), line, message: message.into(), hint: hint.into() }
    }
}
