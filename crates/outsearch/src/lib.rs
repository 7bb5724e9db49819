//! An index of the words in job output.
//!
//! Each project has one SQLite file, so that a search in one project never touches the words of
//! another. A file holds positions only, not the text: a line that is found is read from the kept
//! output, and output that is gone cannot be found. Everything here can be deleted at any time and
//! made again from what is kept.

mod file;
mod find;
mod index;
mod lines;
mod query;

pub use find::{MatchedLine, SearchRequest, SearchResults, find, newest};
pub use index::{IndexStats, OutputIndex};
pub use lines::{Line, MAX_LINE, Position, cut_lines, shown_line};
pub use query::{MAX_QUERY, MAX_WORDS, Query, QueryError};

use rusqlite::ErrorCode;
use std::io;
use std::path::PathBuf;

/// An attempt of a job. Numbers repeat after a restore of the log, so its life is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptRef {
    /// The life of the log in which it was placed.
    pub life: u64,
    /// The job's number.
    pub job: u64,
    /// Counts from 1 for each job.
    pub attempt: u32,
}

/// One rank's stdout or stderr in one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    /// The attempt.
    pub attempt: AttemptRef,
    /// Global rank.
    pub rank: u32,
    /// Stderr, not stdout.
    pub is_stderr: bool,
}

/// What can go wrong with the index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The database refused.
    #[error("the index of output in {} cannot be used", path.display())]
    Database {
        /// Its file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: rusqlite::Error,
    },
    /// A file of another version of this program.
    #[error("the index of output in {} has format {found}, not {}", path.display(), file::FORMAT)]
    Format {
        /// Its file.
        path: PathBuf,
        /// The format that it has.
        found: i64,
    },
    /// The disk refused.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl IndexError {
    /// Is the file beyond use, so that it must be made again from the kept output?
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        match self {
            IndexError::Database { source, .. } => damaged(source),
            IndexError::Format { .. } => true,
            IndexError::Io { .. } => false,
        }
    }
}

/// What SQLite calls a file that ends before a page that it should have.
const SHORT_READ: i32 = 522;

fn damaged(e: &rusqlite::Error) -> bool {
    // Not every error: what a question provokes must not cost the index.
    let code = e.sqlite_error();
    code.is_some_and(|e| {
        matches!(e.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            || e.extended_code == SHORT_READ
    }) || matches!(
        e,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
    )
}

/// SQLite's integers have a sign. No offset or number of ours comes near the end of them.
fn to_sql(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn from_sql(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
