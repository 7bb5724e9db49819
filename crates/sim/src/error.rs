//! What keeps a scenario from being lived.

use crate::traces::TraceError;
use muster_model::command::Refusal;
use muster_specs::FileError;

/// Why a scenario cannot be lived.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// Something in it is impossible.
    #[error("{0}")]
    Impossible(String),
    /// The engine refused what the scenario asks for at its beginning.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// A file of it is wrong.
    #[error("{0}")]
    File(Box<FileError>),
    /// A trace of it is wrong.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Whoever asked for it stopped it, or there was no time for more.
    #[error("it was stopped before its end")]
    Stopped,
}

impl SimError {
    pub(crate) fn new(what: impl Into<String>) -> SimError {
        SimError::Impossible(what.into())
    }
}

impl From<FileError> for SimError {
    fn from(e: FileError) -> SimError {
        SimError::File(Box::new(e))
    }
}
