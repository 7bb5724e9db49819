//! How a rank ended: its exit code or signal.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a rank ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Exit {
    /// Global rank.
    pub rank: u32,
    /// Exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal, if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// More, when there is more to say (out of memory, for example).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Exit {
    /// The code of a job that ran past its time limit: the one that `timeout` uses.
    pub const TIME_IS_UP: i32 = 124;

    /// The code a shell would show.
    #[must_use]
    pub fn shell_code(&self) -> i32 {
        self.code.or(self.signal.map(|s| 128 + s)).unwrap_or(1)
    }

    /// Is it a code that shells use for a command that is not there or cannot be run? No GPU
    /// makes a program end so.
    #[must_use]
    pub fn means_not_run(code: i32) -> bool {
        matches!(code, 126 | 127)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(c), _) => write!(f, "rank {} exited with code {c}", self.rank)?,
            (_, Some(s)) => write!(f, "rank {} was killed by signal {s}", self.rank)?,
            _ => write!(f, "rank {} ended", self.rank)?,
        }
        if !self.note.is_empty() {
            write!(f, " ({})", self.note)?;
        }
        Ok(())
    }
}
