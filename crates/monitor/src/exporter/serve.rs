//! A small server for the page: a few threads, limits on everything, nothing else.

use super::{Page, PageConfig};
use crate::clock;
use crate::snapshot::Snapshot;
use muster_model::units::Span;
use muster_supervise::SupervisedThread;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Threads that answer.
const THREADS: usize = 3;
/// Connections that wait for one of them; more are turned away.
const WAITING: usize = 16;
/// A request must be there within this time, and the answer be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest request.
const LONGEST: usize = 8 << 10;
/// A snapshot that is older says that the monitor itself is stuck.
const STALE: Span = Span::secs(60);

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {addr}")]
    Listen {
        /// The address that was to be listened on.
        addr: SocketAddr,
        /// Why the system refused it.
        #[source]
        source: io::Error,
    },
    /// No threads.
    #[error("cannot start a thread for the exporter")]
    Thread(#[source] io::Error),
}

type Source = Arc<dyn Fn() -> Arc<Snapshot> + Send + Sync>;

/// Serves the page until it is stopped.
pub struct Exporter {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<SupervisedThread>,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("addr", &self.addr).finish_non_exhaustive()
    }
}

struct Answerer {
    page: Mutex<Page>,
    source: Source,
}

impl Exporter {
    /// Serves `/metrics` and `/healthz` here.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start(
        addr: SocketAddr,
        config: PageConfig,
        source: Source,
    ) -> Result<Exporter, ExporterError> {
        let cannot = |source| ExporterError::Listen { addr, source };
        let listener = TcpListener::bind(addr).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let addr = listener.local_addr().map_err(cannot)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = sync_channel(WAITING);
        let receive = Arc::new(Mutex::new(receive));
        let answerer = Arc::new(Answerer { page: Mutex::new(Page::new(config)), source });
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let (receive, answerer) = (receive.clone(), answerer.clone());
            threads.push(thread(move || work(&receive, &answerer))?);
        }
        let stopped = stop.clone();
        threads.push(thread(move || accept(&listener, &send, &stopped))?);
        Ok(Exporter { addr, stop, threads })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        SupervisedThread::end_all(self.threads.drain(..));
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop();
    }
}

fn thread(f: impl FnMut() + Send + 'static) -> Result<SupervisedThread, ExporterError> {
    muster_supervise::thread("exporter", f).map_err(ExporterError::Thread)
}

fn accept(listener: &TcpListener, send: &SyncSender<TcpStream>, stop: &AtomicBool) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let nap = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => match send.try_send(stream) {
                Ok(()) => {}
                // Closing it is the answer: whoever scrapes comes again.
                Err(TrySendError::Full(stream)) => drop(stream),
                Err(TrySendError::Disconnected(_)) => return,
            },
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let _ = poll(
                    &mut [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)],
                    Some(&nap),
                );
            }
            Err(e) => {
                // Out of files, most likely: the rest of the agent has troubles too.
                tracing::debug!(error = %e, "the exporter cannot take a connection");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn work(receive: &Mutex<Receiver<TcpStream>>, answerer: &Answerer) {
    loop {
        let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(stream) = next else { return };
        if let Err(e) = answer(stream, answerer) {
            tracing::debug!(error = %e, "a scrape was not answered");
        }
    }
}

fn answer(mut stream: TcpStream, answerer: &Answerer) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut buffer = [0_u8; LONGEST];
    let asked = match request(&mut stream, &mut buffer)? {
        Ok(asked) => asked,
        Err(status) => return write(&mut stream, status, "text/plain", status, true),
    };
    match asked {
        RequestLine { method: "GET" | "HEAD", path: "/metrics", .. } => {
            let now = (answerer.source)();
            let mut page = answerer.page.lock().unwrap_or_else(PoisonError::into_inner);
            // Copied, so that a reader that takes its time holds up nobody else.
            let text = page.render(&now).to_owned();
            drop(page);
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            write(&mut stream, "200 OK", kind, &text, asked.method == "GET")
        }
        RequestLine { method: "GET" | "HEAD", path: "/healthz" | "/health", .. } => {
            let age = clock::now().since((answerer.source)().at);
            let (status, text) = if age > STALE {
                ("503 Service Unavailable", "the monitor has reported nothing for a minute\n")
            } else {
                ("200 OK", "ok\n")
            };
            write(&mut stream, status, "text/plain", text, asked.method == "GET")
        }
        RequestLine { method: "GET" | "HEAD", path: "/", .. } => {
            let text = "<a href=\"/metrics\">metrics</a>\n";
            write(&mut stream, "200 OK", "text/html", text, asked.method == "GET")
        }
        RequestLine { method: "GET" | "HEAD", .. } => {
            write(&mut stream, "404 Not Found", "text/plain", "there is /metrics\n", true)
        }
        _ => write(&mut stream, "405 Method Not Allowed", "text/plain", "GET only\n", true),
    }
}

struct RequestLine<'a> {
    method: &'a str,
    path: &'a str,
}

/// Reads a request's head; an inner error is the status to answer with.
fn request<'a>(
    stream: &mut TcpStream,
    buffer: &'a mut [u8],
) -> io::Result<Result<RequestLine<'a>, &'static str>> {
    let until = Instant::now() + PATIENCE;
    let mut len = 0;
    loop {
        // In all, not for each byte: somebody may send one now and then.
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Err("408 Request Timeout"));
        }
        stream.set_read_timeout(Some(left))?;
        let n = match stream.read(&mut buffer[len..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(Err("408 Request Timeout"));
            }
            Err(e) => return Err(e),
        };
        let seen = len.saturating_sub(3);
        len += n;
        if buffer[seen..len].windows(4).any(|w| w == b"\r\n\r\n") {
            break;
        }
        if len == buffer.len() {
            return Ok(Err("431 Request Header Fields Too Large"));
        }
    }
    let line = buffer[..len].split(|b| *b == b'\r').next().unwrap_or_default();
    let mut words = std::str::from_utf8(line).unwrap_or_default().split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
            let path = target.split('?').next().unwrap_or_default();
            Ok(Ok(RequestLine { method, path }))
        }
        _ => Ok(Err("400 Bad Request")),
    }
}

fn write(
    stream: &mut TcpStream,
    status: &str,
    kind: &str,
    body: &str,
    with_body: bool,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let until = Instant::now() + PATIENCE;
    write_all(stream, head.as_bytes(), until)?;
    if with_body {
        write_all(stream, body.as_bytes(), until)?;
    }
    stream.flush()
}

/// Writes all of it by then: in all, and not each piece. Somebody may take a byte now and then, and
/// there are few threads.
pub(super) fn write_all(
    stream: &mut TcpStream,
    mut bytes: &[u8],
    until: Instant,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
