//! What both ends of a test say and count.

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
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

/// Neither the kernel nor a dead peer may hold a thread for longer than a glance.
pub(super) fn glance(stream: &TcpStream) -> io::Result<()> {
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
pub(super) fn pour(mut s: &TcpStream, until: Instant) {
    let data = vec![0xa5; CHUNK];
    while Instant::now() < until {
        match s.write(&data) {
            Ok(_) => {}
            Err(e) if waits(&e) => {}
            Err(_) => return,
        }
    }
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

/// Counts what comes in for `length` after the first byte. The first fifth is not counted: that
/// is how long a connection may take to find its speed, and what a shaper lets through at once.
pub(super) fn count(mut s: &TcpStream, length: Duration) -> io::Result<Count> {
    let mut buffer = vec![0; CHUNK];
    let patience = Instant::now() + super::LENGTH_MIN.max(length) + Duration::from_secs(3);
    let mut began: Option<Instant> = None;
    let mut total = Count::default();
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
        let Some(from) = began.or((n > 0).then_some(now)) else {
            if now >= patience {
                return Err(ErrorKind::TimedOut.into());
            }
            continue;
        };
        began = Some(from);
        let counted = now.saturating_duration_since(from + length / 5);
        if !counted.is_zero() {
            total.bytes += n as u64;
            total.nanos = u64::try_from(counted.as_nanos()).unwrap_or(u64::MAX);
        }
        if now >= from + length {
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

/// Packets of this connection that were sent again.
pub(super) fn resent(s: &TcpStream) -> u64 {
    /// `tcpi_total_retrans` is the 26th word of `struct tcp_info`, which only grows at its end.
    const TOTAL: usize = 25;
    let mut info = [0u32; TOTAL + 1];
    let mut size = libc::socklen_t::try_from(size_of_val(&info)).unwrap_or(0);
    #[expect(unsafe_code, reason = "what the kernel knows of a connection has no safe interface")]
    // SAFETY: the buffer is as long as is said, and any bytes are valid words.
    let result = unsafe {
        libc::getsockopt(
            s.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if result == 0 && size as usize >= size_of_val(&info) { u64::from(info[TOTAL]) } else { 0 }
}
