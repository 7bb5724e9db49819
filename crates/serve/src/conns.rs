//! Connections of the API: how many there may be, and for how long one may do nothing.

use muster_link::limits::caller;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// What connections of the API may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at once. Less where the process may not have so many files.
    pub total: usize,
    /// Those of one address (of one /64 of IPv6).
    pub per_address: usize,
    /// Kept beside them for `/healthz` and `/readyz`.
    pub probes: usize,
    /// Until the TLS session must be there.
    pub handshake: Duration,
    /// Until the head of a request must be there.
    pub head: Duration,
    /// For how long a connection may stay without a request.
    pub idle: Duration,
    /// A reader that takes no byte for so long is cut off; also one that leaves a piece of an answer
    /// for four times as long.
    pub write_stall: Duration,
    /// For how long a connection that is to be closed may still finish what it does.
    pub goodbye: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            total: 16_384,
            per_address: 8_192,
            probes: 64,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            // Longer than a browser's or a proxy's own patience would be a waste, shorter makes them
            // run into connections that were just closed.
            idle: Duration::from_secs(75),
            write_stall: Duration::from_secs(30),
            goodbye: Duration::from_secs(1),
        }
    }
}

impl ConnectionLimits {
    /// The same for a process that may have so many files: half of them stay for agents and the store.
    #[must_use]
    pub fn within(mut self, files: usize) -> Self {
        self.probes = self.probes.min(files / 16).max(1);
        let most = (files / 2).saturating_sub(self.probes).max(1);
        if self.total > most {
            self.total = most;
            self.per_address = self.per_address.min(most.div_ceil(2));
        }
        self
    }
}

struct Activity {
    /// Requests whose answers are not sent yet.
    requests: u32,
    /// Since when there is none.
    since: Instant,
    /// The first bytes of a request came then, and not all of its head.
    began: Option<Instant>,
    /// There was a request.
    served: bool,
    /// HTTP/2 has frames that belong to no request.
    http2: bool,
    /// Requests so far.
    last: u64,
    /// Answers of which a piece is there for the reader to take, and since when.
    untaken: BTreeMap<u64, Instant>,
}

/// One connection.
pub(crate) struct Connection {
    address: IpAddr,
    /// Only probes are answered on it.
    pub(crate) probes_only: bool,
    /// Its place is needed for another one.
    pub(crate) evicted: CancellationToken,
    activity: Mutex<Activity>,
}

/// A request under way; over when dropped.
pub(crate) struct UnderWay {
    connection: Arc<Connection>,
    id: u64,
}

impl UnderWay {
    /// The reader may take a piece of the answer: from here on the time runs until it does.
    pub(crate) fn offered(&self) {
        self.connection.activity().untaken.insert(self.id, Instant::now());
    }

    /// The reader has room for the next piece, whenever that comes.
    pub(crate) fn taken(&self) {
        self.connection.activity().untaken.remove(&self.id);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut a = self.connection.activity();
        a.requests = a.requests.saturating_sub(1);
        a.untaken.remove(&self.id);
        if a.requests == 0 {
            (a.since, a.began) = (Instant::now(), None);
        }
    }
}

impl Connection {
    fn new(address: IpAddr, probes_only: bool) -> Arc<Connection> {
        let activity = Activity {
            requests: 0,
            since: Instant::now(),
            began: None,
            served: false,
            http2: false,
            last: 0,
            untaken: BTreeMap::new(),
        };
        Arc::new(Connection {
            address,
            probes_only,
            evicted: CancellationToken::new(),
            activity: Mutex::new(activity),
        })
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The TLS session is there: now a request may come.
    pub(crate) fn opened(&self) {
        let mut a = self.activity();
        (a.since, a.began) = (Instant::now(), None);
    }

    /// A request's head is there.
    pub(crate) fn request(self: &Arc<Self>, http2: bool) -> UnderWay {
        let mut a = self.activity();
        a.requests += 1;
        a.last += 1;
        (a.served, a.http2, a.began) = (true, http2, None);
        UnderWay { connection: Arc::clone(self), id: a.last }
    }

    fn received(&self) {
        let mut a = self.activity();
        if a.requests == 0 && a.began.is_none() {
            a.began = Some(Instant::now());
        }
    }

    /// When it has done nothing for too long; none while it does something. A reader of HTTP/2 can
    /// leave an answer where it is without a byte that waits on the connection, so that a piece that
    /// is not taken has a time of its own. It is longer: of a slow reader a piece is large.
    pub(crate) fn deadline(&self, limits: &ConnectionLimits) -> Option<Instant> {
        let a = self.activity();
        if a.requests > 0 {
            return a.untaken.values().min().map(|since| *since + limits.write_stall * 4);
        }
        Some(match a.began {
            _ if !a.served => a.since + limits.head,
            Some(began) if !a.http2 => began + limits.head,
            _ => a.since + limits.idle,
        })
    }

    fn idle_since(&self) -> Option<Instant> {
        let a = self.activity();
        (a.requests == 0).then_some(a.since)
    }
}

/// When there is no place left, one in so many idle connections is ended.
const EVICTED_OF: usize = 128;

#[derive(Default)]
struct Seats {
    next: u64,
    taken: HashMap<u64, Arc<Connection>>,
    /// Those that are not for probes only.
    ordinary: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Seats {
    fn take(&mut self, connection: &Arc<Connection>) -> u64 {
        self.next += 1;
        self.taken.insert(self.next, Arc::clone(connection));
        if !connection.probes_only {
            self.ordinary += 1;
            *self.by_address.entry(connection.address).or_default() += 1;
        }
        self.next
    }

    fn leave(&mut self, id: u64) -> Option<Arc<Connection>> {
        let connection = self.taken.remove(&id)?;
        if !connection.probes_only {
            self.ordinary -= 1;
            if let Some(n) = self.by_address.get_mut(&connection.address) {
                *n -= 1;
                if *n == 0 {
                    self.by_address.remove(&connection.address);
                }
            }
        }
        Some(connection)
    }

    /// Ends connections that have done nothing for longest, of those that may be ended: at least one,
    /// and one in [`EVICTED_OF`], so that not every one of a flood looks through all of them.
    fn evict(&mut self, may: impl Fn(&Connection) -> bool) -> bool {
        let idle = self.taken.iter().filter(|(_, c)| may(c));
        let idle = idle.filter_map(|(id, c)| Some((c.idle_since()?, *id)));
        let mut idle: Vec<(Instant, u64)> = idle.collect();
        if idle.is_empty() {
            return false;
        }
        let many = (idle.len() / EVICTED_OF).max(1);
        idle.select_nth_unstable(many - 1);
        for (_, id) in &idle[..many] {
            if let Some(connection) = self.leave(*id) {
                connection.evicted.cancel();
            }
        }
        true
    }
}

/// All connections of the API.
pub(crate) struct Table {
    pub(crate) limits: ConnectionLimits,
    seats: Mutex<Seats>,
}

/// A place for one connection; free again when dropped.
pub(crate) struct Seat {
    table: Arc<Table>,
    id: u64,
    pub(crate) connection: Arc<Connection>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.table.seats().leave(self.id);
    }
}

impl Table {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Table> {
        Arc::new(Table { limits, seats: Mutex::default() })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection. Where there is none, some that have done nothing for longest
    /// are ended; where all do something, it may only ask how the server is.
    pub(crate) fn admit(self: &Arc<Self>, from: IpAddr) -> Option<Seat> {
        let (address, limits) = (caller(from), &self.limits);
        let mut seats = self.seats();
        let near = seats.by_address.get(&address).copied().unwrap_or(0) >= limits.per_address;
        let full = near || seats.ordinary >= limits.total;
        let may = |c: &Connection| !c.probes_only && (!near || c.address == address);
        let probes_only = full && !seats.evict(may);
        if probes_only {
            let probes = seats.taken.len() - seats.ordinary;
            if probes >= limits.probes && !seats.evict(|c| c.probes_only) {
                return None;
            }
        }
        let connection = Connection::new(address, probes_only);
        let id = seats.take(&connection);
        Some(Seat { table: Arc::clone(self), id, connection })
    }

    /// Ends connections that have done nothing for longest, to have their files.
    pub(crate) fn make_room(&self) {
        self.seats().evict(|_| true);
    }
}

/// A stream whose bytes are noticed, and whose reader may not stop reading.
pub(crate) struct Watched<S> {
    inner: S,
    connection: Arc<Connection>,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    pub(crate) fn new(inner: S, connection: Arc<Connection>, patience: Duration) -> Watched<S> {
        Watched { inner, connection, patience, stalled: None }
    }

    /// What came of a write: the time runs while nothing is taken.
    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => {
                let why = "the reader takes nothing";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.connection.received();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.wrote(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.wrote(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_mean_few_connections_and_probes_keep_theirs() {
        let all = ConnectionLimits::default();
        assert_eq!(all.within(usize::MAX), all);
        let few = all.within(256);
        assert!(few.total + few.probes <= 128 && few.probes >= 4, "{few:?}");
        assert!(few.per_address < few.total, "{few:?}");
        assert!(all.within(0).total >= 1);
    }

    #[test]
    fn in_a_flood_one_look_at_all_makes_room_for_several() {
        let limits = ConnectionLimits { total: 256, per_address: 256, ..Default::default() };
        let table = Table::new(limits);
        let here: IpAddr = "10.0.0.1".parse().unwrap();
        let seats: Vec<Seat> = (0..256).map(|_| table.admit(here).unwrap()).collect();
        let ended = || seats.iter().filter(|s| s.connection.evicted.is_cancelled()).count();
        let _new = table.admit(here).unwrap();
        assert_eq!(ended(), 256 / EVICTED_OF);
        let _next = table.admit(here).unwrap();
        assert_eq!(ended(), 256 / EVICTED_OF, "there was a place already");
        assert!(seats[0].connection.evicted.is_cancelled(), "the oldest go");
    }

    #[test]
    fn an_answer_that_is_not_taken_has_a_time_and_one_that_is_made_has_none() {
        let limits = ConnectionLimits::default();
        let table = Table::new(limits);
        let seat = table.admit("10.0.0.1".parse().unwrap()).unwrap();
        let deadline = || seat.connection.deadline(&limits);
        let first = seat.connection.request(true);
        assert_eq!(deadline(), None, "its answer is not there yet");
        first.offered();
        let at = deadline().unwrap();
        assert!(at > Instant::now() + limits.write_stall, "a slow reader has more time");
        let second = seat.connection.request(true);
        second.offered();
        second.taken();
        assert_eq!(deadline(), Some(at), "the oldest counts");
        first.taken();
        assert_eq!(deadline(), None, "it waits for the next piece");
        second.offered();
        drop(second);
        assert_eq!(deadline(), None);
        drop(first);
        assert!(deadline().is_some(), "there is no request left");
    }

    #[test]
    fn who_does_nothing_makes_room_and_who_does_something_does_not() {
        let table = Table::new(ConnectionLimits {
            total: 2,
            per_address: 2,
            probes: 1,
            ..ConnectionLimits::default()
        });
        let here: IpAddr = "10.0.0.1".parse().unwrap();
        let first = table.admit(here).unwrap();
        let second = table.admit(here).unwrap();
        let third = table.admit(here).unwrap();
        assert!(first.connection.evicted.is_cancelled(), "the oldest goes");
        assert!(!second.connection.evicted.is_cancelled() && !third.connection.probes_only);
        let _busy = (second.connection.request(false), third.connection.request(false));
        let probe = table.admit(here).unwrap();
        assert!(probe.connection.probes_only);
        let other = table.admit(here).unwrap();
        assert!(probe.connection.evicted.is_cancelled() && other.connection.probes_only);
        let _asks = other.connection.request(false);
        assert!(table.admit(here).is_none(), "everybody does something");
        drop((first, second));
        assert!(!table.admit(here).unwrap().connection.probes_only, "there is a place again");
        drop((third, probe, other));
        let seats = table.seats();
        assert!(seats.taken.is_empty() && seats.by_address.is_empty() && seats.ordinary == 0);
    }
}
