//! The listener against callers who only take: real sockets, short patience.

use super::*;
use axum::routing::get;
use bytes::Bytes;
use futures::StreamExt as _;
use muster_link::pki::Authority;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore};

/// How long something may take that must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Never, for a test.
const NEVER: Duration = Duration::from_secs(3600);

/// No limit of time, and many connections.
fn lax() -> ConnectionLimits {
    ConnectionLimits {
        total: 100,
        per_address: 100,
        probes: 2,
        handshake: NEVER,
        head: NEVER,
        idle: NEVER,
        write_stall: NEVER,
        goodbye: Duration::from_secs(1),
    }
}

/// A server with a few pages.
struct Fixture {
    at: SocketAddr,
    /// Requests of `/wait` and `/endless` that have come.
    waiting: Arc<AtomicUsize>,
    /// Lets them be answered.
    go: Arc<Semaphore>,
    /// The page without an end was given up.
    given_up: Arc<Notify>,
    stop: CancellationToken,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn fixture(limits: ConnectionLimits, tls: Option<TlsAcceptor>) -> Fixture {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (waiting, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (given_up, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let (came, gate, on_drop) = (waiting.clone(), go.clone(), given_up.clone());
    let begun = waiting.clone();
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/hello", get(|| async { "hello" }))
        .route(
            "/wait",
            get(move || async move {
                came.fetch_add(1, Ordering::SeqCst);
                let _ = gate.acquire().await;
                "waited"
            }),
        )
        .route(
            "/endless",
            get(move || async move {
                begun.fetch_add(1, Ordering::SeqCst);
                let on_drop = NotifyOnDrop(on_drop);
                let pieces = futures::stream::repeat(()).map(move |()| {
                    let _held: &NotifyOnDrop = &on_drop;
                    Ok::<_, Infallible>(Bytes::from_static(&[7; 65_536]))
                });
                Body::from_stream(pieces)
            }),
        );
    tokio::spawn(run(std::sync::Arc::new(listener), tls, router, limits, stop.clone()));
    Fixture { at, waiting, go, given_up, stop }
}

impl Fixture {
    async fn open(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    /// Opens a connection and asks for a page on it.
    async fn ask(&self, path: &str) -> TcpStream {
        let mut stream = self.open().await;
        say(&mut stream, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        stream
    }

    async fn all_wait(&self, count: usize) {
        let all = async {
            while self.waiting.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, all).await.expect("they come");
    }
}

async fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Reads until the text has come; an error is what came before the server closed the connection.
async fn heard(stream: &mut TcpStream, text: &str) -> Result<String, String> {
    let mut heard = Vec::new();
    let all = async {
        while !String::from_utf8_lossy(&heard).contains(text) {
            let mut piece = [0; 1024];
            match stream.read(&mut piece).await {
                Ok(n) if n > 0 => heard.extend_from_slice(&piece[..n]),
                _ => return false,
            }
        }
        true
    };
    let came = tokio::time::timeout(PATIENCE, all).await;
    let came = came.unwrap_or_else(|_| panic!("no {text} came"));
    let heard = String::from_utf8_lossy(&heard).into_owned();
    if came { Ok(heard) } else { Err(heard) }
}

/// Reads until the text has come.
async fn hear(stream: &mut TcpStream, text: &str) -> String {
    let heard = heard(stream, text).await;
    heard.unwrap_or_else(|before| panic!("closed after {before:?}, without {text}"))
}

/// Waits until the server has closed it.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    let _ = end.expect("the server closes it");
}

/// Tries it with a server that waits a second for the head of a request. On a slow machine that may
/// be over before a test has spoken: then there is nothing, and the next server waits twice as long.
async fn with_head(story: impl AsyncFn(Duration) -> Option<()>) {
    let mut head = Duration::from_secs(1);
    while story(head).await.is_none() {
        head *= 2;
        assert!(head < PATIENCE, "the server closes connections whose requests are there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sends_no_request_or_half_of_one_is_closed() {
    with_head(async |head| {
        let k = fixture(ConnectionLimits { head, ..lax() }, None).await;
        let mut silent = k.open().await;
        let mut half = k.open().await;
        say(&mut half, "GET /hello HTTP/1.1\r\nHost: ").await;
        let mut second = k.ask("/hello").await;
        heard(&mut second, "hello").await.ok()?;
        say(&mut second, "GET /hel").await;
        closed(&mut silent).await;
        closed(&mut half).await;
        closed(&mut second).await;
        Some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_end_is_not_kept_for_long() {
    let k = fixture(lax(), None).await;
    let mut long = k.open().await;
    say(&mut long, "GET /hello HTTP/1.1\r\nHost: x\r\nX-Long: ").await;
    let piece = [b'x'; 1024];
    // Twice as much as is kept of a head, or until the server has had enough.
    for _ in 0..2 * BUFFER / piece.len() {
        if long.write_all(&piece).await.is_err() {
            break;
        }
    }
    closed(&mut long).await;
    let mut other = k.ask("/hello").await;
    hear(&mut other, "200 OK").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_request_is_closed_and_one_with_a_request_is_not() {
    let idle = Duration::from_millis(100);
    with_head(async |head| {
        let k = fixture(ConnectionLimits { head, idle, ..lax() }, None).await;
        let mut waits = k.ask("/wait").await;
        tokio::select! {
            () = k.all_wait(1) => {}
            () = closed(&mut waits) => return None,
        }
        // Several patiences pass, one after the other.
        for _ in 0..3 {
            let mut idle = k.ask("/hello").await;
            heard(&mut idle, "hello").await.ok()?;
            closed(&mut idle).await;
        }
        k.go.add_permits(1);
        hear(&mut waits, "waited").await;
        Some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tls_session_that_is_never_made_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::create_or_load(&dir.path().join("pki")).unwrap();
    let identity = authority.server_identity(&["127.0.0.1".to_owned()]).unwrap();
    let files = TlsFiles { cert: dir.path().join("cert.pem"), key: dir.path().join("key.pem") };
    std::fs::write(&files.cert, &identity.cert_pem).unwrap();
    std::fs::write(&files.key, &identity.key_pem).unwrap();
    let limits = ConnectionLimits { handshake: Duration::from_millis(100), ..lax() };
    let k = fixture(limits, Some(acceptor(&files).unwrap())).await;
    let mut silent = k.open().await;
    closed(&mut silent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_give_way_to_new_ones() {
    let k = fixture(ConnectionLimits { total: 4, ..lax() }, None).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        let mut one = k.ask("/hello").await;
        hear(&mut one, "hello").await;
        idle.push(one);
    }
    // Many more than there is room for, and each is answered.
    for _ in 0..20 {
        let mut one = k.ask("/hello").await;
        hear(&mut one, "200 OK").await;
        idle.push(one);
    }
    closed(&mut idle[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_have_a_reserve_when_every_connection_is_busy() {
    let k = fixture(ConnectionLimits { total: 2, ..lax() }, None).await;
    let _busy = (k.ask("/wait").await, k.ask("/wait").await);
    k.all_wait(2).await;
    let mut refused = k.ask("/hello").await;
    let heard = hear(&mut refused, "as many connections").await;
    assert!(heard.starts_with("HTTP/1.1 503") && heard.contains("retry-after"), "{heard}");
    closed(&mut refused).await;
    // Also behind others that took the reserve and say nothing.
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(k.open().await);
    }
    let mut probe = k.ask("/healthz").await;
    assert!(hear(&mut probe, "ok").await.starts_with("HTTP/1.1 200"));
    k.go.add_permits(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_take_every_connection() {
    let k = fixture(ConnectionLimits { per_address: 2, ..lax() }, None).await;
    let _busy = (k.ask("/wait").await, k.ask("/wait").await);
    k.all_wait(2).await;
    let mut third = k.ask("/hello").await;
    hear(&mut third, "503").await;
    let elsewhere = TcpSocket::new_v4().unwrap();
    elsewhere.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = elsewhere.connect(k.at).await.unwrap();
    say(&mut other, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n").await;
    hear(&mut other, "200 OK").await;
    k.go.add_permits(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_loses_its_connection() {
    let limits = ConnectionLimits { write_stall: Duration::from_millis(100), ..lax() };
    let k = fixture(limits, None).await;
    let _reader = k.ask("/endless").await;
    tokio::time::timeout(PATIENCE, k.given_up.notified()).await.expect("it is given up");
}

/// One frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_http2_that_opens_no_window_loses_its_connection() {
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // Settings: a window (4) of nothing for every answer.
    said.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    // GET over http; then the path and the host, each with its length.
    let head = [&[0x82u8, 0x86, 0x04, 8][..], b"/endless", &[0x01, 1], b"x"].concat();
    said.extend(frame(1, 5, 1, &head));
    let write_stall = Duration::from_millis(100);
    with_head(async |head| {
        let k = fixture(ConnectionLimits { head, write_stall, ..lax() }, None).await;
        let mut reader = k.open().await;
        reader.write_all(&said).await.unwrap();
        closed(&mut reader).await;
        if k.waiting.load(Ordering::SeqCst) == 0 {
            return None;
        }
        tokio::time::timeout(PATIENCE, k.given_up.notified()).await.expect("it is given up");
        Some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_when_the_server_stops_is_answered() {
    let k = fixture(ConnectionLimits { goodbye: NEVER, ..lax() }, None).await;
    let mut waits = k.ask("/wait").await;
    k.all_wait(1).await;
    k.stop.cancel();
    // Nobody new is let in: the listener has seen the stop, and soon the connection has.
    let refused = async { while TcpStream::connect(k.at).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, refused).await.expect("it stops");
    k.go.add_permits(1);
    hear(&mut waits, "waited").await;
}
