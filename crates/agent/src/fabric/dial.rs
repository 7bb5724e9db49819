//! The end that measures: round trips while the path is quiet, then one way, then the other.

use super::sent::SendStats;
use super::socket::{self, Count, First, Hello, Kind, ListenerReport, PING, TAIL};
use super::stall_watch::{self, StallWatch};
use super::{Dial, FabricError};
use muster_link::messages::FabricMeasurement;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
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
        socket::set_short_timeouts(&stream)?;
        let hello = Hello { id: self.id, kind, length };
        socket::write_all(&stream, &hello.bytes(), Instant::now() + CONNECT)?;
        Ok(stream)
    }
}

pub(super) fn measure(order: &Dial) -> Result<FabricMeasurement, FabricError> {
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
    let mut control = Some(control);
    let held = StallWatch::watch();
    let kinds: &[Kind] = if order.one_way { &[Kind::Push] } else { &[Kind::Push, Kind::Pull] };
    let each = order.length * 3 / if order.one_way { 4 } else { 8 };
    let mut before = EndpointSnapshot::at(&held, &mut control);
    let mut ways = Vec::with_capacity(2);
    let (mut ours_again, mut theirs_again) = (0, 0);
    for &kind in kinds {
        let (mbps, sent) = streams(&ends, kind, order.streams, each)?;
        let after = EndpointSnapshot::at(&held, &mut control);
        ours_again += sent.resent;
        theirs_again = after.theirs.resent.max(theirs_again);
        ways.push((mbps, after.held_up(&before, kind, sent)));
        before = after;
    }
    // A path is as good as its worse direction.
    let worse = ways.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (mbps, held) = worse.unwrap_or_default();
    let resent = ours_again + theirs_again;
    Ok(FabricMeasurement { mbps, rtt_us, rtt_p99_us, resent, held, error: None })
}

/// How both machines are at a moment.
struct EndpointSnapshot {
    at: Instant,
    ours: u64,
    theirs: ListenerReport,
}

impl EndpointSnapshot {
    fn at(held: &StallWatch, control: &mut Option<TcpStream>) -> EndpointSnapshot {
        let (at, ours) = (Instant::now(), held.micros());
        EndpointSnapshot { at, ours, theirs: ask(control) }
    }

    /// For how long of one direction this machine and the other kept the path waiting. A sender
    /// did while it had nothing on its way. That a receiver takes no more is also what a path with
    /// deep buffers looks like when it is full, so its machine must have been held up as well.
    fn held_up(&self, before: &EndpointSnapshot, kind: Kind, sent: SendStats) -> [u16; 2] {
        let span = self.at - before.at;
        let ours = stall_watch::share(self.ours.saturating_sub(before.ours), span);
        let theirs = stall_watch::share(self.theirs.held.saturating_sub(before.theirs.held), span);
        if kind == Kind::Pull {
            let [idle, full] = self.theirs.shares;
            return [full.min(ours), idle];
        }
        let [idle, full] = sent.shares();
        [idle, full.min(theirs)]
    }
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

/// A connection that does not answer in time is not asked again: its answer may come later, and
/// would be taken for the next.
fn ask(control: &mut Option<TcpStream>) -> ListenerReport {
    let Some(stream) = control.as_ref() else { return ListenerReport::default() };
    let until = Instant::now() + PATIENCE;
    let (mut question, mut answer) = ([0; PING], [0; PING]);
    question[0] = b'Q';
    let asked = socket::write_all(stream, &question, until)
        .and_then(|()| socket::read_all(stream, &mut answer, until));
    if asked.is_err() {
        *control = None;
        return ListenerReport::default();
    }
    ListenerReport::read(&answer)
}

/// All streams of one direction at once: what they carried together, and what this end says of
/// them if it sent.
fn streams(
    ends: &Ends,
    kind: Kind,
    streams: u32,
    length: Duration,
) -> Result<(f64, SendStats), FabricError> {
    let first = First::new();
    let one = || match kind {
        Kind::Pull => pull(ends, length, &first),
        _ => push(ends, length),
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().name("fabric-stream".into());
        let started = (0..streams).map(|_| thread().spawn_scoped(scope, one));
        let started: Vec<_> = started.collect();
        let broken = || FabricError::Broken(std::io::Error::other("a stream's thread broke off"));
        let end = |t: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match t {
            Ok(t) => t.join().unwrap_or_else(|_| Err(broken())),
            Err(e) => Err(e.into()),
        };
        started.into_iter().map(end).collect()
    });
    let (mut mbps, mut all, mut wrong) = (0.0, SendStats::default(), None);
    for result in results {
        match result {
            Ok((count, sent)) => {
                mbps += count.mbps();
                all += sent;
            }
            Err(e) => wrong = Some(e),
        }
    }
    // A stream that starves beside others is part of the figure; none at all is an error.
    match wrong {
        Some(e) if mbps <= 0.0 => Err(e),
        _ => Ok((mbps, all)),
    }
}

fn push(ends: &Ends, length: Duration) -> Result<(Count, SendStats), FabricError> {
    let stream = ends.open(Kind::Push, length)?;
    let sent = socket::pour(&stream, Instant::now() + length + TAIL);
    // The receiver counts: what sits in this machine's buffers has not arrived.
    let mut words = [0; 16];
    let answer = socket::read_all(&stream, &mut words, Instant::now() + length + PATIENCE);
    socket::cut(stream);
    answer?;
    Ok((Count::read(&words), sent))
}

fn pull(ends: &Ends, length: Duration, first: &First) -> Result<(Count, SendStats), FabricError> {
    let stream = ends.open(Kind::Pull, length)?;
    let counted = socket::count(&stream, length, first)?;
    socket::cut(stream);
    Ok((counted, SendStats::default()))
}
