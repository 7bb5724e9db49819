//! The live picture of the fleet: where every GPU stands, and one stream of what changes.
//!
//! One connection reports on 100,000 GPUs once a second, and of what kinds of events the log grew
//! by, so that whoever watches need not read lists again and again.

use crate::{Client, ClientError};
use muster_api::ConsoleLayout;
use muster_model::units::Time;
use serde::Deserialize;

/// The format of frames that is understood here.
const FORMAT: u8 = 1;
/// Bytes in front of a frame's body.
const HEAD: usize = 32;
/// Bytes of a cell.
const CELL: usize = 16;
/// Longest frame that is taken: four million GPUs.
const MAX_FRAME: usize = 64 << 20;

/// One GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuCell {
    /// Number of the job that holds it; `u32::MAX` is somebody else's.
    pub job: Option<u32>,
    /// Power it draws, in watts.
    pub watts: Option<u16>,
    /// Its state, as an index.
    pub state: u8,
    /// A job holds it.
    pub held: bool,
    /// How bad the worst open finding about it is: 0 nothing, 1 warning, 2 degraded, 3 critical.
    pub worst: u8,
    /// An open breaker keeps work away.
    pub breaker: bool,
    /// A remediation is pending approval.
    pub waits: bool,
    /// Its node is a spare.
    pub spare: bool,
    /// Busy, in percent.
    pub util: Option<u8>,
    /// Temperature in degrees Celsius.
    pub temp: Option<u8>,
}

/// One message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Version of the layout it is for.
    pub version: u64,
    /// When the server looked.
    pub at: Time,
    /// What it says.
    pub body: FrameBody,
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameBody {
    /// Every GPU.
    Whole(Vec<GpuCell>),
    /// The GPUs that changed, by index.
    Change(Vec<(u32, GpuCell)>),
    /// What came into the log since the last frame.
    Hints(Hints),
    /// Something that is not needed here.
    Other,
}

/// What came into the log since the last frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Hints {
    /// So much that anything may be different.
    pub all: bool,
    /// Kinds of events.
    pub kinds: Vec<String>,
}

impl Client {
    /// Which index of a frame is which GPU.
    pub async fn console_layout(&self) -> Result<ConsoleLayout, ClientError> {
        self.json(self.get(&["v1", "console", "layout"])).await
    }

    /// The picture as it changes: a whole one first, then one message or more a second.
    pub async fn console_frames(&self) -> Result<Frames, ClientError> {
        let mut call = self.get(&["v1", "console", "frames"]);
        call.accept = "application/octet-stream";
        call.endless = true;
        let answer = self.open(&call).await?;
        Ok(Frames { client: self.clone(), answer, pending: Vec::new(), read: 0 })
    }
}

/// The stream of frames. When it ends, open it again: the first frame is whole.
#[derive(Debug)]
pub struct Frames {
    client: Client,
    answer: reqwest::Response,
    pending: Vec<u8>,
    read: usize,
}

impl Frames {
    /// The next frame; none when the server ended the stream.
    pub async fn next(&mut self) -> Result<Option<Frame>, ClientError> {
        loop {
            let rest = &self.pending[self.read..];
            match split(rest).map_err(|what| self.client.garbled(what))? {
                Some(length) => {
                    let frame = decode(&rest[4..4 + length]);
                    self.read += 4 + length;
                    return frame.map(Some).map_err(|what| self.client.garbled(what));
                }
                None => {
                    self.pending.drain(..self.read);
                    self.read = 0;
                }
            }
            match self.answer.chunk().await {
                Ok(Some(bytes)) => self.pending.extend_from_slice(&bytes),
                Ok(None) => return Ok(None),
                Err(e) => return Err(self.client.unreachable(e)),
            }
        }
    }
}

/// The length of the first frame, once all of it is there.
fn split(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
    if !(HEAD..=MAX_FRAME).contains(&length) {
        return Err(format!("a frame of {length} bytes"));
    }
    Ok((bytes.len() >= 4 + length).then_some(length))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(u16::MAX, |b| u16::from_le_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(u32::MAX, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A frame from its bytes, without the length in front of it.
fn decode(bytes: &[u8]) -> Result<Frame, String> {
    let (head, body) = bytes.split_at_checked(HEAD).ok_or("a frame without a head")?;
    if head[0] != FORMAT {
        return Err(format!("frames of format {}; this program knows {FORMAT}", head[0]));
    }
    let count = u32_at(head, 4) as usize;
    let short = || format!("a frame of {} bytes for {count} values", bytes.len());
    let body = match head[1] {
        0 => FrameBody::Whole(cells(body, count).ok_or_else(short)?),
        1 => {
            let at = count.checked_mul(4).and_then(|n| body.split_at_checked(n));
            let (at, rest) = at.ok_or_else(short)?;
            let cells = cells(rest, count).ok_or_else(short)?;
            let index = at.chunks_exact(4).map(|b| u32_at(b, 0));
            FrameBody::Change(index.zip(cells).collect())
        }
        3 => {
            let json = body.get(..count).ok_or_else(short)?;
            FrameBody::Hints(serde_json::from_slice(json).map_err(|e| format!("hints: {e}"))?)
        }
        _ => FrameBody::Other,
    };
    let at = Time(i64::from_le_bytes(u64_at(head, 24).to_le_bytes()));
    Ok(Frame { version: u64_at(head, 8), at, body })
}

/// Columns of values: job, power, hazard, tenant, version, state, flags, util, temp.
fn cells(body: &[u8], count: usize) -> Option<Vec<GpuCell>> {
    if body.len() < count.checked_mul(CELL)? {
        return None;
    }
    let (words, bytes) = (count * 4, count * 12);
    let known = |b: u8| (b != u8::MAX).then_some(b);
    let cell = |i: usize| {
        let flags = body[bytes + count + i];
        GpuCell {
            job: Some(u32_at(body, i * 4)).filter(|j| *j != 0),
            watts: Some(u16_at(body, words + i * 2)).filter(|w| *w != u16::MAX),
            state: body[bytes + i],
            held: flags & 1 << 7 != 0,
            worst: flags & 0b11,
            breaker: flags & 1 << 2 != 0,
            waits: flags & 1 << 4 != 0,
            spare: flags & 1 << 5 != 0,
            util: known(body[bytes + count * 2 + i]),
            temp: known(body[bytes + count * 3 + i]),
        }
    };
    Some((0..count).map(cell).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: u8, count: u32) -> Vec<u8> {
        let mut out = vec![FORMAT, kind, 0, 0];
        out.extend(count.to_le_bytes());
        out.extend(7u64.to_le_bytes());
        out.extend(1u64.to_le_bytes());
        out.extend(5000i64.to_le_bytes());
        out
    }

    /// Two GPUs: one held by job 42 and hot, one of which nothing is known.
    fn two() -> Vec<u8> {
        let mut out = Vec::new();
        for job in [42u32, 0] {
            out.extend(job.to_le_bytes());
        }
        for column in [[700u16, u16::MAX], [0, 0], [0, u16::MAX], [0, 0]] {
            out.extend(column.iter().flat_map(|v| v.to_le_bytes()));
        }
        for column in [[0u8, 4], [1 << 7 | 1 << 2 | 2, 1 << 5], [98, u8::MAX], [84, u8::MAX]] {
            out.extend(column);
        }
        out
    }

    #[test]
    fn frames_are_read_as_the_server_writes_them() {
        let mut bytes = head(0, 2);
        bytes.extend(two());
        let frame = decode(&bytes).expect("a good frame");
        assert_eq!((frame.version, frame.at), (7, Time(5000)));
        let FrameBody::Whole(cells) = frame.body else { panic!("a whole picture") };
        assert_eq!(
            cells[0],
            GpuCell {
                job: Some(42),
                watts: Some(700),
                state: 0,
                held: true,
                worst: 2,
                breaker: true,
                waits: false,
                spare: false,
                util: Some(98),
                temp: Some(84),
            }
        );
        assert_eq!(cells[1], GpuCell { state: 4, spare: true, ..GpuCell::default() });
        let mut bytes = head(1, 2);
        bytes.extend([3u32, 900].iter().flat_map(|i| i.to_le_bytes()));
        bytes.extend(two());
        let FrameBody::Change(some) = decode(&bytes).expect("a good frame").body else {
            panic!("changes")
        };
        assert_eq!(
            some.iter().map(|(i, c)| (*i, c.job)).collect::<Vec<_>>(),
            [(3, Some(42)), (900, None)]
        );
        let json = br#"{"all":false,"kinds":["job_placed"]}    "#;
        let mut bytes = head(3, 36);
        bytes.extend(json);
        let FrameBody::Hints(h) = decode(&bytes).expect("a good frame").body else {
            panic!("hints")
        };
        assert_eq!((h.all, h.kinds), (false, vec!["job_placed".to_owned()]));
        assert_eq!(decode(&head(9, 0)).expect("ignored").body, FrameBody::Other);
    }

    #[test]
    fn frames_that_are_cut_or_lie_are_errors_and_no_panics() {
        let mut whole = head(0, 2);
        whole.extend(two());
        for n in 0..whole.len() {
            assert!(decode(&whole[..n]).is_err(), "{n}");
        }
        for count in [3, u32::MAX] {
            for kind in [0, 1, 3] {
                let mut lies = head(kind, count);
                lies.extend(two());
                assert!(decode(&lies).is_err(), "{kind} {count}");
            }
        }
        let mut other = head(0, 0);
        other[0] = 2;
        assert!(decode(&other).is_err_and(|e| e.contains("format 2")));
        assert_eq!(split(&[1, 0]), Ok(None));
        assert_eq!(split(&40u32.to_le_bytes()), Ok(None), "not all there");
        assert!(split(&u32::MAX.to_le_bytes()).is_err());
        assert!(split(&4u32.to_le_bytes()).is_err());
    }
}
