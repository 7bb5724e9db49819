//! Frames over any byte stream: `u32` length (big endian) | `u8` kind | payload.
//!
//! Kind 0 is a JSON message, kind 1 a piece of a rank's output that was just seen, kind 2 one with its
//! age, for servers that asked for it. A site has ten thousand mostly
//! idle connections, so both ends keep next to nothing while nothing moves.

use crate::error::LinkError;
use crate::messages::{LogChunk, Stream};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::units::Span;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Largest message a server sends.
pub const MAX_FROM_SERVER: usize = 16 << 20;
/// Largest message an agent sends.
pub const MAX_FROM_AGENT: usize = 4 << 20;
/// Most bytes of output in one chunk.
pub const MAX_LOG_DATA: usize = 256 << 10;

const HEADER: usize = 5;
const JSON: u8 = 0;
const LOG: u8 = 1;
const LOG_WITH_AGE: u8 = 2;
/// Job, attempt, rank, stream, offset.
const LOG_HEADER: usize = 8 + 4 + 4 + 1 + 8;
/// Milliseconds.
const AGE: usize = 8;
/// An age that nobody knows.
const NO_AGE: u64 = u64::MAX;
/// What a reader holds while nothing comes.
const IDLE: usize = 1 << 10;
/// What a reader grows by, and the most a writer gathers before it writes.
const STEP: usize = 16 << 10;

/// What came over the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<T> {
    /// A JSON message.
    Message(T),
    /// A piece of output.
    Log(LogChunk),
}

/// Reads frames. Input that is not yet a whole frame stays in it, so `next` may be dropped
/// halfway (in `tokio::select!`) and called again.
#[derive(Debug)]
pub struct FrameReader<R> {
    inner: R,
    buf: BytesMut,
    max: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads from `inner`; messages larger than `max` are refused.
    pub fn new(inner: R, max: usize) -> FrameReader<R> {
        FrameReader { inner, buf: BytesMut::new(), max }
    }

    /// The next frame; `None` when the other side closed between two frames.
    ///
    /// # Errors
    /// When the connection breaks, or what comes is no frame. Nothing can be read after that.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Frame<T>>, LinkError> {
        loop {
            let missing = match self.announced()? {
                Some(whole) if self.buf.len() >= whole => return self.take(whole).map(Some),
                Some(whole) => whole - self.buf.len(),
                None => 1,
            };
            if self.buf.is_empty() && self.buf.capacity() > IDLE {
                self.buf = BytesMut::new();
            }
            // Grown by what arrives, never by what is announced.
            if self.buf.capacity() == self.buf.len() {
                let want = if self.buf.is_empty() { IDLE } else { missing.clamp(IDLE, STEP) };
                self.buf.reserve(want);
            }
            let read = match self.inner.read_buf(&mut self.buf).await {
                Ok(n) => n,
                // A peer that vanishes without a TLS goodbye; frames carry their own length, so
                // between two of them nothing can have been cut off.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => 0,
                Err(e) => return Err(e.into()),
            };
            if read == 0 {
                return if self.buf.is_empty() { Ok(None) } else { Err(LinkError::Cut) };
            }
        }
    }

    /// Length of the frame at the front, header included, once it is known and acceptable.
    fn announced(&self) -> Result<Option<usize>, LinkError> {
        let Some(header) = self.buf.first_chunk::<HEADER>() else { return Ok(None) };
        let [a, b, c, d, kind] = *header;
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        let max = match kind {
            JSON => self.max,
            LOG => LOG_HEADER + MAX_LOG_DATA,
            LOG_WITH_AGE => LOG_HEADER + AGE + MAX_LOG_DATA,
            other => return Err(LinkError::Garbled(format!("no such kind of frame: {other}"))),
        };
        if len > max {
            return Err(LinkError::TooLarge { len, max });
        }
        Ok(Some(HEADER + len))
    }

    fn take<T: DeserializeOwned>(&mut self, whole: usize) -> Result<Frame<T>, LinkError> {
        let kind = self.buf[HEADER - 1];
        if kind == JSON {
            let message = serde_json::from_slice(&self.buf[HEADER..whole])
                .map_err(|e| LinkError::Garbled(e.to_string()))?;
            self.buf.advance(whole);
            return Ok(Frame::Message(message));
        }
        let mut payload = self.buf.split_to(whole).freeze();
        payload.advance(HEADER);
        log_chunk(payload, kind == LOG_WITH_AGE).map(Frame::Log)
    }
}

fn log_chunk(mut b: Bytes, with_age: bool) -> Result<LogChunk, LinkError> {
    if b.len() < LOG_HEADER + if with_age { AGE } else { 0 } {
        return Err(LinkError::Garbled("a log chunk without its header".into()));
    }
    let key = AttemptKey { job: JobId(b.get_u64()), attempt: b.get_u32() };
    let rank = b.get_u32();
    let stream = match b.get_u8() {
        0 => Stream::Stdout,
        1 => Stream::Stderr,
        other => return Err(LinkError::Garbled(format!("no such output stream: {other}"))),
    };
    let offset = b.get_u64();
    let age = match with_age.then(|| b.get_u64()) {
        Some(NO_AGE) => None,
        Some(ms) => Some(Span(ms)),
        None => Some(Span(0)),
    };
    if offset.checked_add(b.len() as u64).is_none() {
        return Err(LinkError::Garbled("a log chunk past the end of all streams".into()));
    }
    Ok(LogChunk { key, rank, stream, offset, age, data: b })
}

/// Writes frames. What is sent is gathered until [`FrameWriter::flush`], or until there is
/// enough of it. A call that is dropped halfway loses nothing: the next one goes on.
#[derive(Debug)]
pub struct FrameWriter<W> {
    inner: W,
    buf: BytesMut,
    /// Something was queued since the last whole flush.
    dirty: bool,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// Writes to `inner`.
    pub fn new(inner: W) -> FrameWriter<W> {
        FrameWriter { inner, buf: BytesMut::new(), dirty: false }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When it is too large, or the connection breaks.
    pub async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), LinkError> {
        self.queue(message)?;
        self.spill(STEP).await
    }

    /// Puts a message behind what waits to be sent, without waiting; [`FrameWriter::flush`]
    /// sends it.
    ///
    /// # Errors
    /// When it is too large.
    pub fn queue<T: Serialize>(&mut self, message: &T) -> Result<(), LinkError> {
        let start = self.buf.len();
        self.buf.put_bytes(0, HEADER);
        let written = serde_json::to_writer((&mut self.buf).writer(), message);
        let len = self.buf.len() - start - HEADER;
        let outcome = match written {
            Err(e) => Err(LinkError::Unwritable(e)),
            Ok(()) if len > MAX_FROM_SERVER => {
                Err(LinkError::TooLarge { len, max: MAX_FROM_SERVER })
            }
            Ok(()) => Ok(()),
        };
        if let Err(e) = outcome {
            self.buf.truncate(start);
            return Err(e);
        }
        self.header(start, len, JSON);
        Ok(())
    }

    /// Whether something waits to be flushed.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.buf.len()
    }

    /// Sends a piece of output. Only one that was just seen (age 0) is understood by every server.
    ///
    /// # Errors
    /// When it is too large, or the connection breaks.
    pub async fn send_log(&mut self, chunk: &LogChunk) -> Result<(), LinkError> {
        if chunk.data.len() > MAX_LOG_DATA {
            return Err(LinkError::TooLarge { len: chunk.data.len(), max: MAX_LOG_DATA });
        }
        let start = self.buf.len();
        self.buf.reserve(HEADER + LOG_HEADER + AGE + chunk.data.len());
        self.buf.put_bytes(0, HEADER);
        self.buf.put_u64(chunk.key.job.0);
        self.buf.put_u32(chunk.key.attempt);
        self.buf.put_u32(chunk.rank);
        self.buf.put_u8(match chunk.stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        });
        self.buf.put_u64(chunk.offset);
        let kind = if chunk.age == Some(Span(0)) { LOG } else { LOG_WITH_AGE };
        if kind == LOG_WITH_AGE {
            self.buf.put_u64(chunk.age.map_or(NO_AGE, |age| age.0));
        }
        self.buf.put_slice(&chunk.data);
        self.header(start, self.buf.len() - start - HEADER, kind);
        self.spill(STEP).await
    }

    fn header(&mut self, start: usize, len: usize, kind: u8) {
        // All kinds are limited far below 4 GiB.
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.buf[start..start + 4].copy_from_slice(&len.to_be_bytes());
        self.buf[start + 4] = kind;
        self.dirty = true;
    }

    async fn spill(&mut self, keep: usize) -> Result<(), LinkError> {
        while self.buf.len() > keep {
            if self.inner.write_buf(&mut self.buf).await? == 0 {
                return Err(LinkError::Io(io::ErrorKind::WriteZero.into()));
            }
        }
        Ok(())
    }

    /// Pushes everything out.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        self.spill(0).await?;
        self.buf = BytesMut::new();
        self.inner.flush().await?;
        self.dirty = false;
        Ok(())
    }

    /// Pushes everything out and says goodbye.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn close(&mut self) -> Result<(), LinkError> {
        self.flush().await?;
        self.inner.shutdown().await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// Gives its bytes in pieces of the given sizes; a size of 0 makes the reader wait once.
    struct Pieces {
        data: Vec<u8>,
        at: usize,
        sizes: Vec<usize>,
        turn: usize,
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            out: &mut tokio::io::ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let size = self.sizes.get(self.turn % self.sizes.len().max(1)).copied().unwrap_or(1);
            self.turn += 1;
            if size == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let n = size.min(self.data.len() - self.at).min(out.remaining());
            let (from, to) = (self.at, self.at + n);
            out.put_slice(&self.data[from..to]);
            self.at += n;
            Poll::Ready(Ok(()))
        }
    }

    fn age() -> impl Strategy<Value = Option<Span>> {
        prop_oneof![Just(None), Just(Some(Span(0))), (1..u64::MAX).prop_map(|ms| Some(Span(ms)))]
    }

    fn chunk() -> impl Strategy<Value = LogChunk> {
        let place = (any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>());
        (place, 0..u64::MAX / 2, age(), any::<Vec<u8>>()).prop_map(
            |((job, attempt, rank, out), offset, age, data)| LogChunk {
                key: AttemptKey { job: JobId(job), attempt },
                rank,
                stream: if out { Stream::Stdout } else { Stream::Stderr },
                offset,
                age,
                data: data.into(),
            },
        )
    }

    fn frame() -> impl Strategy<Value = Frame<String>> {
        prop_oneof![".{0,2000}".prop_map(Frame::Message), chunk().prop_map(Frame::Log)]
    }

    fn block<T>(f: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(f)
    }

    async fn written(frames: &[Frame<String>]) -> Vec<u8> {
        let mut w = FrameWriter::new(Vec::new());
        for f in frames {
            match f {
                Frame::Message(m) => w.send(m).await.unwrap(),
                Frame::Log(c) => w.send_log(c).await.unwrap(),
            }
        }
        w.flush().await.unwrap();
        w.inner
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn frames_survive_split_input_and_cancelled_reads(
            frames in prop::collection::vec(frame(), 0..8),
            sizes in prop::collection::vec(0usize..700, 1..12),
        ) {
            prop_assume!(sizes.iter().any(|s| *s > 0));
            let back = block(async {
                let data = written(&frames).await;
                let mut r = FrameReader::new(Pieces { data, at: 0, sizes, turn: 0 }, 1 << 20);
                let mut back = Vec::new();
                loop {
                    // `biased` with a ready second arm drops the read whenever it would wait.
                    let got = tokio::select! {
                        biased;
                        got = r.next::<String>() => got,
                        () = std::future::ready(()) => continue,
                    };
                    match got.unwrap() {
                        Some(f) => back.push(f),
                        None => return back,
                    }
                }
            });
            prop_assert_eq!(back, frames);
        }

        #[test]
        fn garbage_is_an_error_and_never_a_panic(data in any::<Vec<u8>>()) {
            block(async {
                let mut r = FrameReader::new(&data[..], 1000);
                while let Ok(Some(_)) = r.next::<crate::messages::FromAgent>().await {}
            });
        }

        #[test]
        fn a_flipped_byte_is_an_error_or_another_message_and_never_a_panic(
            frames in prop::collection::vec(frame(), 1..4), at in any::<prop::sample::Index>(), with in any::<u8>(),
        ) {
            block(async {
                let mut data = written(&frames).await;
                let at = at.index(data.len());
                data[at] ^= with;
                let mut r = FrameReader::new(&data[..], 1 << 20);
                while let Ok(Some(_)) = r.next::<String>().await {}
            });
        }
    }

    #[tokio::test]
    async fn oversized_frames_are_refused_from_their_header_alone() {
        let mut data = u32::MAX.to_be_bytes().to_vec();
        data.push(JSON);
        let mut r = FrameReader::new(&data[..], MAX_FROM_AGENT);
        assert!(matches!(r.next::<String>().await, Err(LinkError::TooLarge { .. })));
        assert!(r.buf.capacity() <= 2 * IDLE, "nothing was allocated for it");

        let big = LogChunk {
            key: AttemptKey { job: JobId(1), attempt: 1 },
            rank: 0,
            stream: Stream::Stdout,
            offset: 0,
            age: Some(Span(0)),
            data: vec![0; MAX_LOG_DATA + 1].into(),
        };
        let mut w = FrameWriter::new(Vec::new());
        assert!(matches!(w.send_log(&big).await, Err(LinkError::TooLarge { .. })));
        let huge = "x".repeat(MAX_FROM_SERVER);
        assert!(matches!(w.send(&huge).await, Err(LinkError::TooLarge { .. })));
        w.send(&"fine").await.unwrap();
        w.flush().await.unwrap();
        let mut r = FrameReader::new(&w.inner[..], 100);
        assert_eq!(r.next::<String>().await.unwrap(), Some(Frame::Message("fine".into())));
    }

    #[tokio::test]
    async fn output_that_was_just_seen_is_a_frame_that_older_servers_know() {
        let one = LogChunk {
            key: AttemptKey { job: JobId(1), attempt: 1 },
            rank: 0,
            stream: Stream::Stdout,
            offset: 0,
            age: Some(Span(0)),
            data: Bytes::from_static(b"x"),
        };
        let data = written(&[Frame::Log(one.clone())]).await;
        assert_eq!((data[HEADER - 1], data.len()), (LOG, HEADER + LOG_HEADER + 1));
        let old = LogChunk { age: Some(Span(5000)), ..one };
        let data = written(&[Frame::Log(old)]).await;
        assert_eq!((data[HEADER - 1], data.len()), (LOG_WITH_AGE, HEADER + LOG_HEADER + AGE + 1));
        let mut r = FrameReader::new(&data[..data.len() - 2], 100);
        assert!(matches!(r.next::<String>().await, Err(LinkError::Cut)));
    }

    #[tokio::test]
    async fn an_end_inside_a_frame_is_distinguished_from_an_end_between_frames() {
        let data = written(&[Frame::Message("hello".into())]).await;
        let mut r = FrameReader::new(&data[..data.len() - 1], 100);
        assert!(matches!(r.next::<String>().await, Err(LinkError::Cut)));
        let mut r = FrameReader::new(&data[..], 100);
        assert!(r.next::<String>().await.unwrap().is_some());
        assert!(r.next::<String>().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn an_idle_reader_gives_its_memory_back() {
        let (a, b) = tokio::io::duplex(1 << 20);
        let mut w = FrameWriter::new(a);
        let mut r = FrameReader::new(b, MAX_FROM_AGENT);
        w.send(&"x".repeat(500_000)).await.unwrap();
        w.flush().await.unwrap();
        assert!(r.next::<String>().await.unwrap().is_some());
        let idle = tokio::time::timeout(std::time::Duration::from_millis(1), r.next::<String>());
        assert!(idle.await.is_err());
        assert!(r.buf.capacity() <= 2 * IDLE);
        assert_eq!(w.buf.capacity(), 0);
    }
}
