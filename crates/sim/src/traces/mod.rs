//! Public traces, read row by row: jobs, nodes, a fabric and the lives of GPUs.
//!
//! A reader takes the file's name (for messages only) and its bytes, packed with gzip or not.
//! Nothing is left out in silence: with [`OnBadRow::Stop`] the first row that cannot be read is the
//! error, with [`OnBadRow::Skip`] every such row is in [`Read::skipped`].

pub mod alibaba;
mod error;
pub mod gavel;
mod input;
mod job;
pub mod mixes;
pub mod openb;
pub mod philly;
pub mod swf;
mod table;
pub mod titan;

pub use error::{OnBadRow, Read, RowProblem, TraceError};
pub use input::{read_file, unpack};
pub use job::{Ask, Outcome, TraceJob, TraceNode, by_submit};

#[cfg(test)]
mod corrupt_input;
#[cfg(test)]
mod real;
