//! What is wrong with a record.

use muster_model::ids::Seq;

/// A record that does not follow the state: the log is broken, or from a newer version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// A number is missing or repeated.
    #[error("record {got} does not follow record {after}")]
    NotDense {
        /// Last one applied.
        after: Seq,
        /// The one at hand.
        got: Seq,
    },
    /// It speaks of something that is not there.
    #[error("record {seq} refers to {what}, which does not exist")]
    Unknown {
        /// The number of the record that cannot be applied.
        seq: Seq,
        /// What it names that is not there.
        what: String,
    },
}
