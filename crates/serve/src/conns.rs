//! Connections of the API: how many there may be, and for how long one may do nothing.

use muster_link::limits::caller;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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
    /// Answers of which a piece is there for the reader to take, and since when. Few at a time.
    untaken: Vec<(u64, Instant)>,
}

impl Activity {
    fn new() -> Activity {
        Activity {
            requests: 0,
            since: Instant::now(),
            began: None,
            served: false,
            http2: false,
            last: 0,
            untaken: Vec::new(),
        }
    }

    /// Nothing of this answer is there for its reader any more.
    fn taken(&mut self, id: u64) {
        self.untaken.retain(|(answer, _)| *answer != id);
    }
}

/// One connection.
pub(crate) struct Connection {
    id: u64,
    address: IpAddr,
    table: Weak<Table>,
    /// Only probes are answered on it.
    pub(crate) probes_only: bool,
    /// Its place is needed for another one.
    pub(crate) evicted: CancellationToken,
    activity: Mutex<Activity>,
    /// When the table was made.
    began: Instant,
    /// Since when it does nothing, in nanoseconds after that; [`BUSY`] while it does something.
    idle: AtomicU64,
    /// Whether the table has it among those that do nothing, be that so or not.
    listed: AtomicBool,
}

/// In the place of a time: it does something.
const BUSY: u64 = u64::MAX;

/// A request under way; over when dropped.
pub(crate) struct RequestGuard {
    connection: Arc<Connection>,
    id: u64,
}

impl RequestGuard {
    /// The reader may take a piece of the answer: from here on the time runs until it does.
    pub(crate) fn offered(&self) {
        let mut a = self.connection.activity();
        a.taken(self.id);
        a.untaken.push((self.id, Instant::now()));
    }

    /// The reader has room for the next piece, whenever that comes.
    pub(crate) fn taken(&self) {
        self.connection.activity().taken(self.id);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut a = self.connection.activity();
        a.requests = a.requests.saturating_sub(1);
        a.taken(self.id);
        if a.requests == 0 {
            self.connection.rests(&mut a);
        }
    }
}

impl Connection {
    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it does nothing.
    fn rests(&self, a: &mut Activity) {
        (a.since, a.began) = (Instant::now(), None);
        self.idle.store(self.nanos(a.since), Ordering::SeqCst);
        // Nearly always it is: the table is for all connections, and does not know of each request.
        if !self.listed.load(Ordering::SeqCst)
            && let Some(table) = self.table.upgrade()
        {
            table.seats().list(self.id);
        }
    }

    /// Since when it does nothing; none while it does something.
    fn idle(&self) -> Option<u64> {
        Some(self.idle.load(Ordering::SeqCst)).filter(|idle| *idle != BUSY)
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_nanos()).unwrap_or(BUSY - 1)
    }

    /// The TLS session is there: now a request may come.
    pub(crate) fn opened(&self) {
        self.rests(&mut self.activity());
    }

    /// A request's head is there.
    pub(crate) fn request(self: &Arc<Self>, http2: bool) -> RequestGuard {
        let mut a = self.activity();
        if a.requests == 0 {
            self.idle.store(BUSY, Ordering::SeqCst);
        }
        a.requests += 1;
        a.last += 1;
        (a.served, a.http2, a.began) = (true, http2, None);
        RequestGuard { connection: Arc::clone(self), id: a.last }
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
            let oldest = a.untaken.iter().map(|(_, since)| *since).min();
            return oldest.map(|since| since + limits.write_stall * 4);
        }
        Some(match a.began {
            _ if !a.served => a.since + limits.head,
            Some(began) if !a.http2 => began + limits.head,
            _ => a.since + limits.idle,
        })
    }
}

/// Where files run out, one in so many idle connections is ended.
const EVICTED_OF: usize = 128;

/// Connections that did nothing when they were last looked at, and since when: whoever has done nothing
/// for longest is not behind those who have done something since.
type Idle = BTreeSet<(u64, u64)>;

struct TrackedConnection {
    connection: Arc<Connection>,
    /// What [`Idle`] has of it.
    idle: Option<u64>,
}

/// Among which connections one is looked for.
#[derive(Debug, Clone, Copy)]
enum Among {
    /// All that are not for probes only.
    Ordinary,
    /// Those of one address.
    Address(IpAddr),
    /// Those that are for probes only.
    Probes,
}

/// Those of one address.
#[derive(Default)]
struct AddressConnections {
    count: usize,
    idle: Idle,
}

/// Who sits where. Who has done nothing for longest is soon found: in a flood every new connection
/// asks for that, and one that looked through all the others would hold up the rest. What is noted of
/// one that has done something since is put right when it is met: once, however many requests it had.
#[derive(Default)]
struct ConnectionSlots {
    next: u64,
    taken: HashMap<u64, TrackedConnection>,
    /// Those that are not for probes only.
    ordinary: usize,
    idle: Idle,
    by_address: HashMap<IpAddr, AddressConnections>,
    /// Of those that are for probes only.
    idle_probes: Idle,
}

impl ConnectionSlots {
    /// A place for a connection that does nothing yet.
    fn take(&mut self, connection: &Arc<Connection>) {
        let taken = TrackedConnection { connection: Arc::clone(connection), idle: None };
        self.taken.insert(connection.id, taken);
        if !connection.probes_only {
            self.ordinary += 1;
            self.by_address.entry(connection.address).or_default().count += 1;
        }
        self.list(connection.id);
    }

    /// Notes since when a connection does nothing, if it still has its place.
    fn list(&mut self, id: u64) {
        let Some(connection) = self.taken.get(&id).map(|t| Arc::clone(&t.connection)) else {
            return;
        };
        self.mark(id, connection.idle());
        // It may have come to rest when it was noted no longer and was not yet said to be so.
        if !connection.listed.load(Ordering::SeqCst)
            && let Some(idle) = connection.idle()
        {
            self.mark(id, Some(idle));
        }
    }

    fn mark(&mut self, id: u64, idle: Option<u64>) {
        let Some(taken) = self.taken.get_mut(&id) else { return };
        taken.connection.listed.store(idle.is_some(), Ordering::SeqCst);
        let before = std::mem::replace(&mut taken.idle, idle);
        let note = |all: &mut Idle| {
            if let Some(since) = before {
                all.remove(&(since, id));
            }
            if let Some(since) = idle {
                all.insert((since, id));
            }
        };
        if taken.connection.probes_only {
            return note(&mut self.idle_probes);
        }
        note(&mut self.idle);
        if let Some(near) = self.by_address.get_mut(&taken.connection.address) {
            note(&mut near.idle);
        }
    }

    fn leave(&mut self, id: u64) -> Option<Arc<Connection>> {
        self.mark(id, None);
        let TrackedConnection { connection, .. } = self.taken.remove(&id)?;
        if !connection.probes_only {
            self.ordinary -= 1;
            if let Some(near) = self.by_address.get_mut(&connection.address) {
                near.count -= 1;
                if near.count == 0 {
                    self.by_address.remove(&connection.address);
                }
            }
        }
        Some(connection)
    }

    /// The one that has done nothing for longest, if there is one.
    fn oldest(&mut self, among: Among) -> Option<u64> {
        loop {
            let idle = match among {
                Among::Ordinary => &self.idle,
                Among::Address(address) => &self.by_address.get(&address)?.idle,
                Among::Probes => &self.idle_probes,
            };
            let (noted, id) = *idle.first()?;
            if self.taken.get(&id)?.connection.idle() == Some(noted) {
                return Some(id);
            }
            // It has done something since.
            self.list(id);
        }
    }

    /// Ends the one that has done nothing for longest, if there is one.
    fn evict(&mut self, among: Among) -> bool {
        let ended = self.oldest(among).and_then(|id| self.leave(id));
        if let Some(connection) = &ended {
            connection.evicted.cancel();
        }
        ended.is_some()
    }
}

/// All connections of the API.
pub(crate) struct Table {
    pub(crate) limits: ConnectionLimits,
    began: Instant,
    seats: Mutex<ConnectionSlots>,
}

/// A place for one connection; free again when dropped.
pub(crate) struct ConnectionGuard {
    table: Arc<Table>,
    pub(crate) connection: Arc<Connection>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.table.seats().leave(self.connection.id);
    }
}

impl Table {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Table> {
        Arc::new(Table { limits, began: Instant::now(), seats: Mutex::default() })
    }

    fn seats(&self) -> MutexGuard<'_, ConnectionSlots> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection. Where there is none, the one that has done nothing for longest
    /// is ended; where all do something, it may only ask how the server is.
    pub(crate) fn admit(self: &Arc<Self>, from: IpAddr) -> Option<ConnectionGuard> {
        let (address, limits) = (caller(from), &self.limits);
        let mut seats = self.seats();
        let near = seats.by_address.get(&address).map_or(0, |n| n.count);
        let (full, among) = match near >= limits.per_address {
            true => (true, Among::Address(address)),
            false => (seats.ordinary >= limits.total, Among::Ordinary),
        };
        let probes_only = full && !seats.evict(among);
        if probes_only {
            let probes = seats.taken.len() - seats.ordinary;
            if probes >= limits.probes && !seats.evict(Among::Probes) {
                return None;
            }
        }
        seats.next += 1;
        let connection = Connection {
            id: seats.next,
            address,
            table: Arc::downgrade(self),
            probes_only,
            evicted: CancellationToken::new(),
            activity: Mutex::new(Activity::new()),
            began: self.began,
            idle: AtomicU64::new(BUSY),
            listed: AtomicBool::new(false),
        };
        connection.idle.store(connection.nanos(Instant::now()), Ordering::SeqCst);
        let connection = Arc::new(connection);
        seats.take(&connection);
        drop(seats);
        Some(ConnectionGuard { table: Arc::clone(self), connection })
    }

    /// Ends some connections that have done nothing for longest, to have their files.
    pub(crate) fn evict_idle(&self) {
        let mut seats = self.seats();
        let idle = seats.taken.values().filter(|t| t.connection.idle().is_some()).count();
        for _ in 0..(idle / EVICTED_OF).max(1) {
            if !seats.evict(Among::Ordinary) {
                seats.evict(Among::Probes);
            }
        }
    }
}

/// A stream whose bytes are noticed, and whose reader may not stop reading.
pub(crate) struct WatchedStream<S> {
    inner: S,
    connection: Arc<Connection>,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> WatchedStream<S> {
    pub(crate) fn new(
        inner: S,
        connection: Arc<Connection>,
        patience: Duration,
    ) -> WatchedStream<S> {
        WatchedStream { inner, connection, patience, stalled: None }
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

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
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
mod tests;
