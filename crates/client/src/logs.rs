//! Output of ranks, followed over a connection that may break.

use crate::http::{MAX_BREAKS, pause};
use crate::waits::STREAM_SILENCE;
use crate::{Client, ClientError};
use base64::Engine as _;
use muster_api::{LogLine, LogStream, LogsQuery, Timestamp};
use std::collections::BTreeMap;

/// Longest line of the answer that is taken.
const MAX_LINE: usize = 16 << 20;

/// A piece of a rank's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Attempt that printed it.
    pub attempt: u32,
    /// Global rank.
    pub rank: u32,
    /// Stdout or stderr.
    pub stream: LogStream,
    /// The bytes as the rank wrote them.
    pub bytes: Vec<u8>,
    /// A word of the server's own.
    pub note: Option<String>,
    /// When it came, if that was asked for and is known.
    pub at: Option<Timestamp>,
}

/// Output of a job. Nothing comes twice, also when the connection broke in between.
#[derive(Debug)]
pub struct LogFollow {
    client: Client,
    job: String,
    query: LogsQuery,
    answer: Option<reqwest::Response>,
    pending: Vec<u8>,
    seen: BTreeMap<(u32, u32, LogStream), u64>,
    breaks: u32,
    over: bool,
    /// The server was there once.
    begun: bool,
}

impl Client {
    /// Output of a job's ranks.
    #[must_use]
    pub fn logs(&self, job: &str, query: &LogsQuery) -> LogFollow {
        LogFollow {
            client: self.clone(),
            job: job.into(),
            query: query.clone(),
            answer: None,
            pending: Vec::new(),
            seen: BTreeMap::new(),
            breaks: 0,
            over: false,
            begun: false,
        }
    }
}

impl LogFollow {
    /// The next piece, through restarts of the server if need be; none when there is no more to
    /// come.
    pub async fn next(&mut self) -> Result<Option<Piece>, ClientError> {
        loop {
            while let Some(end) = self.pending.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                if let Some(piece) = self.take(&line)? {
                    return Ok(Some(piece));
                }
            }
            if self.over {
                let rest = std::mem::take(&mut self.pending);
                return self.take(&rest);
            }
            if self.pending.len() > MAX_LINE {
                return Err(self.client.garbled("a line of output without an end"));
            }
            if self.answer.is_none() {
                match self.open().await {
                    Ok(()) => self.begun = true,
                    // One that served before is being started again, or another takes over.
                    Err(e) if self.begun && e.is_passing() && self.breaks < MAX_BREAKS => {
                        self.breaks += 1;
                        self.client.rest(&e, self.breaks).await;
                        continue;
                    }
                    Err(e) => return Err(e),
                }
            }
            let Some(answer) = &mut self.answer else { continue };
            let (waits, server) = (&self.client.waits, self.client.server());
            match waits.answer(STREAM_SILENCE, server, answer.chunk()).await {
                Ok(Some(bytes)) => {
                    waits.answered();
                    self.pending.extend_from_slice(&bytes);
                }
                Ok(None) => self.over = true,
                Err(e) => {
                    // Half a line is sent again after the break.
                    self.pending.clear();
                    self.answer = None;
                    self.breaks += 1;
                    if self.breaks > MAX_BREAKS {
                        return Err(self.client.unreachable(e));
                    }
                    tokio::time::sleep(pause(self.breaks)).await;
                }
            }
        }
    }

    /// After the end: asks again, for what came since (another attempt's output, for example).
    pub fn reopen(&mut self) {
        self.answer = None;
        self.over = false;
    }

    async fn open(&mut self) -> Result<(), ClientError> {
        let LogsQuery { rank, attempt, follow, tail, timestamps, since } = self.query.clone();
        // What was seen is skipped by its offset; a tail would move in the meantime.
        let tail = tail.filter(|_| self.seen.is_empty());
        let mut call = self.client.get(&["v1", "jobs", &self.job, "logs"]).query(&[
            ("rank", rank.map(|n| n.to_string())),
            ("attempt", attempt.map(|n| n.to_string())),
            ("follow", follow.then(|| "true".into())),
            ("tail", tail.map(|n| n.to_string())),
            ("timestamps", timestamps.then(|| "true".into())),
            ("since", since.map(|t| t.to_string())),
        ]);
        call.accept = "application/x-ndjson";
        call.endless = true;
        self.answer = Some(self.client.open(&call).await?);
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> Result<Option<Piece>, ClientError> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let line: LogLine = serde_json::from_slice(line)
            .map_err(|e| self.client.garbled(format!("a line of output: {e}")))?;
        self.breaks = 0;
        let LogLine { attempt, rank, stream, offset, text, data, note, at } = line;
        let mut bytes = match (text, data) {
            (Some(text), _) => text.into_bytes(),
            (None, Some(data)) => base64::engine::general_purpose::STANDARD
                .decode(data)
                .map_err(|e| self.client.garbled(format!("a piece of output: {e}")))?,
            (None, None) => Vec::new(),
        };
        let seen = self.seen.entry((attempt, rank, stream)).or_default();
        let again = usize::try_from(seen.saturating_sub(offset)).unwrap_or(usize::MAX);
        *seen = (*seen).max(offset.saturating_add(bytes.len() as u64));
        bytes.drain(..again.min(bytes.len()));
        if bytes.is_empty() && note.is_none() {
            return Ok(None);
        }
        Ok(Some(Piece { attempt, rank, stream, bytes, note, at }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(offset: u64, text: &str) -> Vec<u8> {
        let line = LogLine {
            attempt: 1,
            rank: 0,
            stream: LogStream::Stdout,
            offset,
            text: Some(text.into()),
            data: None,
            note: None,
            at: None,
        };
        serde_json::to_vec(&line).expect("plain data")
    }

    #[test]
    fn what_was_seen_before_a_break_is_not_shown_again() {
        let client = Client::new("http://h:1", None).expect("a good address");
        let mut f = client.logs("1", &LogsQuery::default());
        let mut take = |offset, text| {
            f.take(&line(offset, text)).expect("good lines").map(|p| p.bytes).unwrap_or_default()
        };
        assert_eq!(take(0, "hello\n"), b"hello\n");
        assert_eq!(take(0, "hello\n"), b"", "sent again");
        assert_eq!(take(3, "lo\nworld\n"), b"world\n", "half of it is new");
        assert_eq!(take(100, "after a gap\n"), b"after a gap\n");
    }
}
