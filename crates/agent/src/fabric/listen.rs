//! The end that listens.

use super::sent::SendStats;
use super::socket::{self, First, HELLO, Hello, Kind, ListenerReport, PING, TAIL};
use super::stall_watch::StallWatch;
use super::{Bound, FabricError, Listen};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections at once; whoever has the id opens far fewer.
const CONNECTIONS: usize = 128;
/// A caller that does not say what it wants within this is let go.
const GREETING: Duration = Duration::from_secs(5);

/// What the connections of one test share.
#[derive(Default)]
struct Shared {
    /// The dialler is done.
    over: AtomicBool,
    open: AtomicUsize,
    /// Connections on which this end sends.
    sending: AtomicUsize,
    sent: Mutex<SendStats>,
    /// The first byte that came in.
    first: First,
}

fn try_bind(address: &str) -> Result<TcpListener, FabricError> {
    let bound = if address.is_empty() {
        // Both kinds of addresses where the kernel has both.
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        TcpListener::bind(any).or_else(|_| TcpListener::bind("0.0.0.0:0"))
    } else {
        let ip: IpAddr = address.parse().map_err(|_| FabricError::Address(address.into()))?;
        TcpListener::bind(SocketAddr::from((ip, 0)))
    };
    let shown = if address.is_empty() { "any address" } else { address };
    bound.map_err(|e| FabricError::Bind(shown.into(), e))
}

pub(super) fn bind(order: &Listen) -> Result<Bound, FabricError> {
    let mut result = Err(FabricError::Address(String::new()));
    for address in &order.bind {
        result = try_bind(address);
        if result.is_ok() {
            break;
        }
    }
    let listener = result?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let (id, until) = (order.id, Instant::now() + order.length);
    Ok((port, Box::new(move || serve(&listener, id, until))))
}

fn serve(listener: &TcpListener, id: u64, until: Instant) {
    let shared = Arc::new(Shared::default());
    let glance = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while Instant::now() < until && !shared.over.load(Ordering::Acquire) {
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&glance));
        while let Ok((stream, _)) = listener.accept() {
            if shared.open.load(Ordering::Acquire) >= CONNECTIONS {
                continue;
            }
            shared.open.fetch_add(1, Ordering::AcqRel);
            let theirs = shared.clone();
            let body = move || {
                // A connection that breaks is noticed at the other end.
                let _ = talk(stream, id, until, &theirs);
                theirs.open.fetch_sub(1, Ordering::AcqRel);
            };
            if std::thread::Builder::new().name("fabric".into()).spawn(body).is_err() {
                shared.open.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

fn talk(stream: TcpStream, id: u64, until: Instant, shared: &Shared) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    socket::set_short_timeouts(&stream)?;
    let mut bytes = [0; HELLO];
    socket::read_all(&stream, &mut bytes, Instant::now() + GREETING)?;
    let Some(hello) = Hello::read(&bytes).filter(|h| h.id == id) else { return Ok(()) };
    let last = until.min(Instant::now() + hello.length + Duration::from_secs(5));
    match hello.kind {
        Kind::Control => control(&stream, until, shared),
        Kind::Push => {
            let counted = socket::count(&stream, hello.length, &shared.first)?;
            socket::write_all(&stream, &counted.words(), last)?;
            // Hanging up on what is still coming would take the answer with it.
            socket::drain(&stream, last);
            Ok(())
        }
        Kind::Pull => {
            shared.sending.fetch_add(1, Ordering::AcqRel);
            let sent = socket::pour(&stream, until.min(Instant::now() + hello.length + TAIL));
            *shared.sent.lock().unwrap_or_else(PoisonError::into_inner) += sent;
            shared.sending.fetch_sub(1, Ordering::AcqRel);
            socket::cut(stream);
            Ok(())
        }
    }
}

/// Answers pings; a ping that begins with `Q` asks what this end says of itself.
fn control(stream: &TcpStream, until: Instant, shared: &Shared) -> std::io::Result<()> {
    let held = StallWatch::watch();
    let mut ping = [0; PING];
    let answered = loop {
        if let Err(e) = socket::read_all(stream, &mut ping, until) {
            break Err(e);
        }
        if ping[0] == b'Q' {
            let patience = until.min(Instant::now() + Duration::from_secs(1));
            while shared.sending.load(Ordering::Acquire) > 0 && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(5));
            }
            let sent = *shared.sent.lock().unwrap_or_else(PoisonError::into_inner);
            ping =
                ListenerReport { resent: sent.resent, shares: sent.shares(), held: held.micros() }
                    .bytes();
        }
        if let Err(e) = socket::write_all(stream, &ping, until) {
            break Err(e);
        }
    };
    // Nobody asks any more: the port is given back.
    shared.over.store(true, Ordering::Release);
    answered
}
