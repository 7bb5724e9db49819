//! Pieces of output on their way to a reader: as JSON lines, or as plain text.

use base64::Engine as _;
use bytes::Bytes;
use muster_api::{LineStamps, LogLine, LogStream, Timestamp};
use muster_link::messages::Stream;
use muster_server::logs::LogPiece;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Where the pieces go.
pub(super) struct Out {
    pub(super) tx: mpsc::Sender<Result<Bytes, std::io::Error>>,
    plain: bool,
    patience: Duration,
    /// When something was sent last.
    sent: Mutex<Instant>,
    /// The first bytes of a character whose rest has not come yet.
    carry: BTreeMap<(u32, Stream), PartialChar>,
    /// In plain text, of streams whose lines begin with their time; none when that was not asked for.
    stamps: Option<BTreeMap<(u32, Stream), LineStamps>>,
}

/// The first bytes of a character, with their offset and time.
struct PartialChar {
    offset: u64,
    at: Option<Timestamp>,
    bytes: Vec<u8>,
}

impl Out {
    pub(super) fn new(
        tx: mpsc::Sender<Result<Bytes, std::io::Error>>,
        plain: bool,
        timestamps: bool,
        patience: Duration,
    ) -> Out {
        let stamps = (plain && timestamps).then(BTreeMap::new);
        let sent = Mutex::new(Instant::now());
        Out { tx, plain, patience, sent, carry: BTreeMap::new(), stamps }
    }

    async fn send(&self, bytes: Bytes) -> bool {
        if bytes.is_empty() {
            return true;
        }
        let taken = self.tx.send_timeout(Ok(bytes), self.patience).await.is_ok();
        self.mark_sent();
        taken
    }

    fn mark_sent(&self) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When something was sent last.
    pub(super) fn last_sent(&self) -> Instant {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty line is nothing to a reader of lines, and keeps the connection open.
    pub(super) async fn alive(&self) -> bool {
        if self.plain {
            self.mark_sent();
            return true;
        }
        self.send(Bytes::from_static(b"\n")).await
    }

    pub(super) async fn note(&self, attempt: u32, note: String) -> bool {
        if self.plain {
            return self.send(Bytes::from(format!("[muster: {note}]\n"))).await;
        }
        let line = LogLine { note: Some(note), ..line(attempt, 0, Stream::Stdout, 0, None) };
        self.send(Bytes::from(json_line(&line))).await
    }

    pub(super) async fn piece(&mut self, attempt: u32, piece: LogPiece) -> bool {
        if self.plain {
            let note = piece.note().map(|note| Bytes::from(format!("[muster: {note}]\n")));
            let note = note.unwrap_or_default();
            let data = self.plain_text(piece);
            return self.send(note).await && self.send(data).await;
        }
        let text = self.lines(attempt, &piece);
        self.send(Bytes::from(text)).await
    }

    /// The bytes as they are, or with the time before each line.
    fn plain_text(&mut self, piece: LogPiece) -> Bytes {
        let Some(stamps) = &mut self.stamps else { return piece.data };
        let stamps = stamps.entry((piece.rank, piece.stream)).or_default();
        if piece.dropped > 0 {
            // The note about that ends the line before.
            *stamps = LineStamps::default();
        }
        let mut text = Vec::new();
        for (_, at, data) in piece.parts() {
            text.extend(stamps.stamp(at.map(Timestamp), &data));
        }
        text.into()
    }

    fn lines(&mut self, attempt: u32, piece: &LogPiece) -> Vec<u8> {
        let mut text = Vec::new();
        let blank = |offset, at| line(attempt, piece.rank, piece.stream, offset, at);
        let place = (piece.rank, piece.stream);
        if piece.dropped > 0 {
            if let Some(c) = self.carry.remove(&place) {
                push_bytes(&mut text, blank(c.offset, c.at), &c.bytes);
            }
            let note = piece.note();
            text.extend(json_line(&LogLine { note, ..blank(piece.offset, None) }));
        }
        for (mut offset, at, data) in piece.parts() {
            let (at, mut data) = (at.map(Timestamp), data.to_vec());
            if let Some(c) = self.carry.remove(&place) {
                if c.offset + c.bytes.len() as u64 == offset {
                    data.splice(..0, c.bytes);
                    offset = c.offset;
                } else {
                    push_bytes(&mut text, blank(c.offset, c.at), &c.bytes);
                }
            }
            let rest = match std::str::from_utf8(&data) {
                Ok(_) => data.len(),
                Err(e) if e.error_len().is_none() => e.valid_up_to(),
                Err(_) => data.len(),
            };
            push_bytes(&mut text, blank(offset, at), &data[..rest]);
            if rest < data.len() {
                let (offset, bytes) = (offset + rest as u64, data.split_off(rest));
                self.carry.insert(place, PartialChar { offset, at, bytes });
            }
        }
        text
    }

    /// What was held back for the rest of a character that never came.
    pub(super) async fn flush(&mut self, attempt: u32) -> bool {
        let mut text = Vec::new();
        for ((rank, stream), c) in std::mem::take(&mut self.carry) {
            push_bytes(&mut text, line(attempt, rank, stream, c.offset, c.at), &c.bytes);
        }
        self.send(Bytes::from(text)).await
    }
}

fn line(attempt: u32, rank: u32, stream: Stream, offset: u64, at: Option<Timestamp>) -> LogLine {
    let stream = match stream {
        Stream::Stdout => LogStream::Stdout,
        Stream::Stderr => LogStream::Stderr,
    };
    LogLine { attempt, rank, stream, offset, text: None, data: None, note: None, at }
}

/// As text when it is, in base64 when it is not.
fn push_bytes(out: &mut Vec<u8>, mut line: LogLine, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    match std::str::from_utf8(data) {
        Ok(t) => line.text = Some(t.to_owned()),
        Err(_) => line.data = Some(base64::engine::general_purpose::STANDARD.encode(data)),
    }
    out.extend(json_line(&line));
}

fn json_line(line: &LogLine) -> Vec<u8> {
    let mut out = serde_json::to_vec(line).unwrap_or_default();
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::units::Time;

    fn lines(out: &mut Out, offset: u64, dropped: u64, data: &[u8]) -> Vec<LogLine> {
        let data = Bytes::copy_from_slice(data);
        let (stream, no_space, times) = (Stream::Stdout, false, Vec::new());
        parsed(&out.lines(1, &LogPiece { rank: 0, stream, dropped, no_space, offset, data, times }))
    }

    fn parsed(text: &[u8]) -> Vec<LogLine> {
        text.split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect()
    }

    #[test]
    fn a_character_cut_in_two_arrives_whole() {
        let (tx, _rx) = mpsc::channel(1);
        let mut out = Out::new(tx, false, false, Duration::from_secs(1));
        let first = lines(&mut out, 0, 0, b"caf\xc3");
        assert_eq!((first[0].text.as_deref(), first[0].offset), (Some("caf"), 0));
        let second = lines(&mut out, 4, 0, b"\xa9\n");
        assert_eq!((second[0].text.as_deref(), second[0].offset), (Some("é\n"), 3));
        let binary = lines(&mut out, 6, 0, b"\xff\xfe\0");
        assert!(binary[0].text.is_none() && binary[0].data.is_some());
        lines(&mut out, 9, 0, b"\xc3");
        let after_hole = lines(&mut out, 20, 10, b"on\n");
        assert!(after_hole[0].data.is_some(), "the half is not lost");
        assert!(after_hole[1].note.as_deref().unwrap().contains("10 bytes"));
        assert_eq!(after_hole[2].text.as_deref(), Some("on\n"));
    }

    #[test]
    fn a_piece_is_cut_where_its_time_changes_and_no_character_is() {
        let (tx, _rx) = mpsc::channel(1);
        let mut out = Out::new(tx.clone(), false, true, Duration::from_secs(1));
        let piece = LogPiece {
            rank: 0,
            stream: Stream::Stdout,
            dropped: 0,
            no_space: false,
            offset: 10,
            data: Bytes::from_static(b"old\ncaf\xc3\xa9\n"),
            times: vec![(10, None), (14, Some(Time(1000))), (18, Some(Time(2000)))],
        };
        let lines = parsed(&out.lines(1, &piece));
        let got: Vec<_> = lines.iter().map(|l| (l.offset, l.at, l.text.as_deref())).collect();
        let at = |ms| Some(Timestamp(Time(ms)));
        let parts = [
            (10, None, Some("old\n")),
            (14, at(1000), Some("caf")),
            (17, at(2000), Some("\u{e9}\n")),
        ];
        assert_eq!(got, parts);
        let mut plain = Out::new(tx, true, true, Duration::from_secs(1));
        let text = "no-time old\n1970-01-01T00:00:01.000Z caf\u{e9}\n";
        assert_eq!(plain.plain_text(piece), text);
    }
}
