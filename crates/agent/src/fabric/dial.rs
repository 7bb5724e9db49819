//! The end that measures: round trips while the path is quiet, then one way, then the other.

use super::socket::{self, Count, Hello, Kind, PING, TAIL};
use super::{Dial, FabricError};
use muster_link::messages::FabricFigures;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(3);
/// Pings at most.
const PINGS: usize = 400;
/// How much longer than planned an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

struct Ends {
    to: SocketAddr,
    from: Option<SocketAddr>,
    id: u64,
}

impl Ends {
    fn open(&self, kind: Kind, length: Duration) -> Result<TcpStream, FabricError> {
        let wrong = |source| FabricError::Connect { to: self.to.to_string(), source };
        let stream = socket::connect(self.to, self.from, CONNECT).map_err(wrong)?;
        stream.set_nodelay(true)?;
        socket::glance(&stream)?;
        let hello = Hello { id: self.id, kind, length };
        socket::write_all(&stream, &hello.bytes(), Instant::now() + CONNECT)?;
        Ok(stream)
    }
}

pub(super) fn measure(order: &Dial) -> Result<FabricFigures, FabricError> {
    let wrong = |_| FabricError::Address(order.to.clone());
    let to = order.to.to_socket_addrs().map_err(wrong)?.next();
    let to = to.ok_or_else(|| FabricError::Address(order.to.clone()))?;
    let from = match &order.from {
        None => None,
        Some(text) => {
            let ip: IpAddr = text.parse().map_err(|_| FabricError::Address(text.clone()))?;
            Some(SocketAddr::from((ip, 0)))
        }
    };
    let ends = Ends { to, from, id: order.id };
    let control = ends.open(Kind::Control, order.length)?;
    let (rtt_us, rtt_p99_us) = pings(&control, order.length / 4)?;
    let each = order.length * 3 / 8;
    let (there, sent_again) = streams(&ends, Kind::Push, order.streams, each)?;
    let (back, _) = streams(&ends, Kind::Pull, order.streams, each)?;
    let theirs = ask_resent(&control).unwrap_or(0);
    Ok(FabricFigures {
        // A path is as good as its worse direction.
        mbps: there.min(back),
        rtt_us,
        rtt_p99_us,
        resent: sent_again + theirs,
        error: None,
    })
}

/// One small message there and back at a time.
fn pings(control: &TcpStream, length: Duration) -> Result<(u64, u64), FabricError> {
    let end = Instant::now() + length;
    let mut took = Vec::with_capacity(PINGS);
    let (ping, mut pong) = ([b'P'; PING], [0; PING]);
    while took.len() < PINGS && (took.is_empty() || Instant::now() < end) {
        let sent = Instant::now();
        let until = sent + PATIENCE;
        socket::write_all(control, &ping, until)?;
        socket::read_all(control, &mut pong, until).map_err(|_| FabricError::Silent)?;
        took.push(u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() * percent).div_ceil(100).max(1) - 1];
    Ok((at(50), at(99)))
}

fn ask_resent(control: &TcpStream) -> Option<u64> {
    let until = Instant::now() + PATIENCE;
    let (mut ask, mut answer) = ([0; PING], [0; PING]);
    ask[0] = b'Q';
    socket::write_all(control, &ask, until).ok()?;
    socket::read_all(control, &mut answer, until).ok()?;
    answer[8..16].try_into().ok().map(u64::from_le_bytes)
}

/// All streams of one direction at once; what they carried together, and what was sent again.
fn streams(
    ends: &Ends,
    kind: Kind,
    streams: u32,
    length: Duration,
) -> Result<(f64, u64), FabricError> {
    let one = || {
        super::step_back();
        match kind {
            Kind::Pull => pull(ends, length),
            _ => push(ends, length),
        }
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let started = (0..streams).map(|_| std::thread::Builder::new().spawn_scoped(scope, one));
        let started: Vec<_> = started.collect();
        let broken = || FabricError::Broken(std::io::Error::other("a stream's thread broke off"));
        let end = |t: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match t {
            Ok(t) => t.join().unwrap_or_else(|_| Err(broken())),
            Err(e) => Err(e.into()),
        };
        started.into_iter().map(end).collect()
    });
    let (mut mbps, mut resent, mut wrong) = (0.0, 0, None);
    for result in results {
        match result {
            Ok((count, again)) => {
                mbps += count.mbps();
                resent += again;
            }
            Err(e) => wrong = Some(e),
        }
    }
    // A stream that starves beside others is part of the figure; none at all is an error.
    match wrong {
        Some(e) if mbps <= 0.0 => Err(e),
        _ => Ok((mbps, resent)),
    }
}

fn push(ends: &Ends, length: Duration) -> Result<(Count, u64), FabricError> {
    let stream = ends.open(Kind::Push, length)?;
    socket::pour(&stream, Instant::now() + length + TAIL);
    // The receiver counts: what sits in this machine's buffers has not arrived.
    let mut words = [0; 16];
    let answer = socket::read_all(&stream, &mut words, Instant::now() + length + PATIENCE);
    let resent = socket::resent(&stream);
    socket::cut(stream);
    answer?;
    Ok((Count::read(&words), resent))
}

fn pull(ends: &Ends, length: Duration) -> Result<(Count, u64), FabricError> {
    let stream = ends.open(Kind::Pull, length)?;
    let counted = socket::count(&stream, length)?;
    socket::cut(stream);
    Ok((counted, 0))
}
