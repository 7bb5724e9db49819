//! Metrics over time, in files of their own.
//!
//! Samples come in with their time and are kept in up to three tiers: as they arrive for an hour,
//! in steps of 10 s for a day, in steps of a minute for 90 days. A point has the least, the mean and
//! the greatest value of its step; a step without a sample is a gap. Each tier is a directory of
//! append-only files, one for a stretch of time; what is too old, or too much, goes by whole files,
//! fine steps before coarse ones.
//! Nothing here reads a clock: every time is an argument, in milliseconds since 1970.

mod bits;
mod block;
mod cell;
mod codec;
mod names;
mod open;
mod segment;
mod share;
mod store;
mod tier;

pub use cell::Cell;
pub use names::{SeriesId, SeriesKey};
pub use store::{Plan, Points, SeriesQuery, Stats, Store, TierStats};
pub use tier::{Limits, Tier};

use std::io;

/// Why something could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A file or a directory.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        #[source]
        source: io::Error,
    },
    /// There are as many series as may be.
    #[error("there are {0} series, as many as may be: new ones are not stored")]
    TooManySeries(usize),
    /// The name of a node or of a metric is too long for the file of names.
    #[error("the name of a node or of a metric is longer than {0} bytes")]
    LongName(usize),
}

impl HistoryError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> HistoryError {
        let what = what.into();
        move |source| HistoryError::Io { what, source }
    }
}
