//! Output of ranks as it travels over HTTP.

use serde::{Deserialize, Serialize};

/// One line of the `application/x-ndjson` answer: a piece of a rank's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    /// Attempt that printed it.
    pub attempt: u32,
    /// Global rank.
    pub rank: u32,
    /// Stdout or stderr.
    pub stream: LogStream,
    /// Offset of its first byte in that stream; a jump means that output was dropped.
    pub offset: u64,
    /// The piece, newlines included, when it is valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The piece in base64 when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// A message of the server, for example that output was dropped here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Stdout or stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}
