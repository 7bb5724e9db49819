//! What both ends of a test say and count.

use super::sent::SendStats;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// First bytes of every connection.
const MAGIC: [u8; 8] = *b"MUSTERF1";
/// Bytes of a greeting.
pub(super) const HELLO: usize = 32;
/// Bytes of a ping.
pub(super) const PING: usize = 64;
/// Bytes handed to the kernel at a time.
const CHUNK: usize = 128 << 10;
/// How long a read or a write waits before the clock is looked at.
pub(super) const GLANCE: Duration = Duration::from_millis(50);
/// A sender goes on for this much longer than is counted, so that the end is not in the count.
pub(super) const TAIL: Duration = Duration::from_millis(250);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pings, and the question at the end.
    Control,
    /// The dialler sends.
    Push,
    /// The listener sends.
    Pull,
}

/// First word of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) id: u64,
    pub(super) kind: Kind,
    /// For how long is counted.
    pub(super) length: Duration,
}

impl Hello {
    pub(super) fn bytes(self) -> [u8; HELLO] {
        let mut out = [0; HELLO];
        let millis = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX);
        out[..8].copy_from_slice(&MAGIC);
        out[8..16].copy_from_slice(&self.id.to_le_bytes());
        out[16] = match self.kind {
            Kind::Control => 1,
            Kind::Push => 2,
            Kind::Pull => 3,
        };
        out[24..].copy_from_slice(&millis.to_le_bytes());
        out
    }

    pub(super) fn read(bytes: &[u8; HELLO]) -> Option<Hello> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes[at..at + 8].try_into().ok()?));
        let kind = match bytes[16] {
            1 => Kind::Control,
            2 => Kind::Push,
            3 => Kind::Pull,
            _ => return None,
        };
        let hello = Hello { id: word(8)?, kind, length: Duration::from_millis(word(24)?) };
        (bytes[..8] == MAGIC && hello.length <= super::LENGTH_MAX).then_some(hello)
    }
}

/// What the listening end says of itself when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListenerReport {
    /// Packets that it sent again.
    pub(super) resent: u64,
    /// Microseconds for which its machine was held up since the test began.
    pub(super) held: u64,
    /// Of what it sent, as [`SendStats::shares`] has it.
    pub(super) shares: [u16; 2],
}

impl ListenerReport {
    pub(super) fn bytes(self) -> [u8; PING] {
        let mut out = [0; PING];
        out[0] = b'Q';
        out[8..16].copy_from_slice(&self.resent.to_le_bytes());
        out[16..24].copy_from_slice(&self.held.to_le_bytes());
        out[24..26].copy_from_slice(&self.shares[0].to_le_bytes());
        out[26..28].copy_from_slice(&self.shares[1].to_le_bytes());
        out
    }

    pub(super) fn read(bytes: &[u8; PING]) -> ListenerReport {
        let long = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]).min(1000);
        ListenerReport { resent: long(8), held: long(16), shares: [short(24), short(26)] }
    }
}

/// Neither the kernel nor a dead peer may hold a thread for longer than a glance.
pub(super) fn set_short_timeouts(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(GLANCE))?;
    stream.set_write_timeout(Some(GLANCE))
}

/// Connects, from a given address where one is named.
pub(super) fn connect(
    to: SocketAddr,
    from: Option<SocketAddr>,
    wait: Duration,
) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let Some(from) = from else { return TcpStream::connect_timeout(&to, wait) };
    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&fd, &from)?;
    // Connecting ends when sending would.
    set_socket_timeout(&fd, Timeout::Send, Some(wait))?;
    connect(&fd, &to)?;
    Ok(TcpStream::from(fd))
}

fn waits(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Fills a buffer before a moment.
pub(super) fn read_all(mut s: &TcpStream, into: &mut [u8], until: Instant) -> io::Result<()> {
    let mut have = 0;
    while have < into.len() {
        match s.read(&mut into[have..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => have += n,
            Err(e) if waits(&e) && Instant::now() < until => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Sends a few bytes before a moment.
pub(super) fn write_all(mut s: &TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match s.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if waits(&e) && Instant::now() < until => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Sends as much as goes until a moment, or until nobody takes it.
pub(super) fn pour(mut s: &TcpStream, until: Instant) -> SendStats {
    let data = vec![0xa5; CHUNK];
    let began = Instant::now();
    while Instant::now() < until {
        match s.write(&data) {
            Ok(_) => {}
            Err(e) if waits(&e) => {}
            Err(_) => break,
        }
    }
    SendStats::of(s, began.elapsed())
}

/// What came in, and in how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count {
    pub(super) bytes: u64,
    pub(super) nanos: u64,
}

impl Count {
    #[expect(clippy::cast_precision_loss, reason = "a figure for comparison")]
    pub(super) fn mbps(self) -> f64 {
        if self.nanos == 0 { 0.0 } else { self.bytes as f64 * 8_000.0 / self.nanos as f64 }
    }

    pub(super) fn words(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.bytes.to_le_bytes());
        out[8..].copy_from_slice(&self.nanos.to_le_bytes());
        out
    }

    pub(super) fn read(words: &[u8; 16]) -> Count {
        let (a, b) = words.split_at(8);
        let word = |w: &[u8]| w.try_into().map_or(0, u64::from_le_bytes);
        Count { bytes: word(a), nanos: word(b) }
    }
}

/// When the first byte of one direction came, on whichever of its connections.
pub(super) type First = OnceLock<Instant>;

/// Counts what comes in for `length` after the first byte of all connections of this direction.
/// They share one window: a connection that begins late, alone on the path by then, would else
/// count what belongs to the others. The first fifth is not counted: that is how long a connection
/// may take to find its speed, and what a shaper lets through at once.
pub(super) fn count(mut s: &TcpStream, length: Duration, first: &First) -> io::Result<Count> {
    let mut buffer = vec![0; CHUNK];
    let patience = Instant::now() + super::LENGTH_MIN.max(length) + Duration::from_secs(3);
    let counted = length - length / 5;
    let mut total =
        Count { bytes: 0, nanos: u64::try_from(counted.as_nanos()).unwrap_or(u64::MAX) };
    loop {
        let n = match s.read(&mut buffer) {
            // A sender that stops early has sent all it will.
            Ok(0) => return Ok(total),
            Ok(n) => n,
            Err(e) if waits(&e) => 0,
            Err(e) if total.bytes == 0 => return Err(e),
            Err(_) => return Ok(total),
        };
        let now = Instant::now();
        let from = if n > 0 { Some(first.get_or_init(|| now)) } else { first.get() };
        let Some(&from) = from else {
            if now >= patience {
                return Err(ErrorKind::TimedOut.into());
            }
            continue;
        };
        let end = from + length;
        if now > from + length / 5 && now <= end {
            total.bytes += n as u64;
        }
        if now >= end {
            return Ok(total);
        }
    }
}

/// Throws away what still comes, until the other side hangs up.
pub(super) fn drain(mut s: &TcpStream, until: Instant) {
    let mut buffer = vec![0; CHUNK];
    while Instant::now() < until {
        match s.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if waits(&e) => {}
            Err(_) => return,
        }
    }
}

/// Closes at once: what was not sent yet shall not hold up the next test.
pub(super) fn cut(s: TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(s.as_fd(), Some(Duration::ZERO));
    drop(s);
}
