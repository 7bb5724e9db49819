//! Output of ranks as it travels over HTTP.

use crate::time::Timestamp;
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
    /// When its node saw it, by the server's clock, to a tenth of a second. Only with `timestamps=true`,
    /// and absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Puts the time before each line of one stream, as `muster logs -t` and plain text with `timestamps=true`
/// show it.
#[derive(Debug, Clone, Default)]
pub struct LineStamps {
    /// The last line has no end yet.
    within: bool,
}

/// What stands before a line whose time is not known.
const NO_TIME: &str = "no-time";

impl LineStamps {
    /// The bytes of a piece with its time before each line that begins in it.
    #[must_use]
    pub fn stamp(&mut self, at: Option<Timestamp>, bytes: &[u8]) -> Vec<u8> {
        let time = at.map_or_else(|| NO_TIME.to_owned(), |at| at.to_string());
        let mut out = Vec::with_capacity(bytes.len() + 2 * time.len());
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            if !self.within {
                out.extend_from_slice(time.as_bytes());
                out.push(b' ');
            }
            out.extend_from_slice(part);
            self.within = !part.ends_with(b"\n");
        }
        out
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::units::Time;

    #[test]
    fn each_line_begins_with_the_time_of_its_first_byte() {
        let mut stamps = LineStamps::default();
        let at = |ms: i64| Some(Timestamp(Time(1_769_860_800_000 + ms)));
        assert_eq!(stamps.stamp(None, b"old\n"), b"no-time old\n");
        let noon = "2026-01-31T12:00:00.000Z";
        let lines = format!("{noon} a\n{noon} \n{noon} b");
        assert_eq!(stamps.stamp(at(0), b"a\n\nb"), lines.as_bytes());
        assert_eq!(stamps.stamp(at(500), b"c\nd\n"), b"c\n2026-01-31T12:00:00.500Z d\n");
        assert_eq!(stamps.stamp(at(900), b""), b"");
    }
}
