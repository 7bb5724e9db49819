//! Those who take a little each and are many: idle connections, watchers and scrapers.

use crate::http::{Client, Target};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// Scrapers with a token, and as many without.
pub(super) const SCRAPERS: usize = 16;
/// The head of a request that never ends.
const HALF_A_HEAD: &[u8] = b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ";
/// Before a connection that was closed is made again.
const PAUSE: Duration = Duration::from_millis(10);
/// The same where it was closed or refused at once: it must not become a storm.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// What became of one kind of client.
#[derive(Debug, Default)]
pub(super) struct Counts {
    standing: AtomicU64,
    closed: AtomicU64,
    refused: AtomicU64,
    answers: AtomicU64,
    bytes: AtomicU64,
}

/// The same at one moment, or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ConnectionCounts {
    /// Open now.
    pub(super) standing: u64,
    /// Closed by the server.
    pub(super) closed: u64,
    /// Not let in, or given another answer than hoped for.
    pub(super) refused: u64,
    /// Whole answers.
    pub(super) answers: u64,
    /// Bytes received.
    pub(super) bytes: u64,
}

impl ConnectionCounts {
    /// What came since an earlier look; what stands, stands now.
    pub(super) fn since(self, earlier: ConnectionCounts) -> ConnectionCounts {
        ConnectionCounts {
            standing: self.standing,
            closed: self.closed - earlier.closed,
            refused: self.refused - earlier.refused,
            answers: self.answers - earlier.answers,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// One that stands, until dropped.
pub(super) struct OpenConnectionGuard<'a>(&'a Counts);

impl Drop for OpenConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.standing.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    pub(super) fn register_open(&self) -> OpenConnectionGuard<'_> {
        self.standing.fetch_add(1, Ordering::Relaxed);
        OpenConnectionGuard(self)
    }

    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> ConnectionCounts {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        ConnectionCounts {
            standing: get(&self.standing),
            closed: get(&self.closed),
            refused: get(&self.refused),
            answers: get(&self.answers),
            bytes: get(&self.bytes),
        }
    }
}

/// All of them.
#[derive(Debug, Default, Clone)]
pub(super) struct Crowd {
    pub(super) idle: Arc<Counts>,
    pub(super) watchers: Arc<Counts>,
    pub(super) scrapers: Arc<Counts>,
    pub(super) anonymous: Arc<Counts>,
}

/// How many of each, and as whom.
pub(super) struct CrowdPlan<'a> {
    pub(super) port: u16,
    /// Idle connections; half of them have sent half a head.
    pub(super) idle: usize,
    /// Followers of the log, and the tokens that they share.
    pub(super) watchers: usize,
    pub(super) watch_tokens: &'a [Target],
    /// Scrapers with a token, and whose; those without one.
    pub(super) scrapers: usize,
    pub(super) scraper: &'a Target,
    pub(super) anonymous: usize,
    pub(super) anybody: &'a Target,
    /// They begin one after the other within this time.
    pub(super) within: Duration,
}

impl Crowd {
    /// Starts all of them, on the runtime that this is called on. They stay until it ends.
    pub(super) fn start(&self, plan: &CrowdPlan<'_>) {
        let begin = Instant::now();
        let at = |i: usize, of: usize| begin + plan.within.mul_f64(i as f64 / of.max(1) as f64);
        for i in 0..plan.idle {
            let (counts, begin) = (self.idle.clone(), at(i, plan.idle));
            tokio::spawn(idle(plan.port, i % 2 == 0, begin, counts));
        }
        for i in 0..plan.watchers {
            let Some(who) = plan.watch_tokens.get(i % plan.watch_tokens.len().max(1)) else {
                break;
            };
            let (counts, begin) = (self.watchers.clone(), at(i, plan.watchers));
            tokio::spawn(watch(who.clone(), begin, counts));
        }
        for _ in 0..plan.scrapers {
            tokio::spawn(scrape(plan.scraper.clone(), 200, self.scrapers.clone()));
        }
        for _ in 0..plan.anonymous {
            tokio::spawn(scrape(plan.anybody.clone(), 401, self.anonymous.clone()));
        }
    }
}

/// Connects, says nothing or half of something, and comes back when it was closed.
async fn idle(port: u16, half: bool, begin: Instant, counts: Arc<Counts>) {
    tokio::time::sleep_until(begin).await;
    let said: &[u8] = if half { HALF_A_HEAD } else { b"" };
    loop {
        let opened = Instant::now();
        linger(port, said, &counts).await;
        let long = opened.elapsed() < Duration::from_secs(1);
        sleep(if long { LONG_PAUSE } else { PAUSE }).await;
    }
}

/// Connects, sends this, and stays until the server closes.
pub(super) async fn linger(port: u16, said: &[u8], counts: &Counts) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
        return counts.refuse();
    };
    let _standing = counts.register_open();
    if !said.is_empty() {
        // Closed meanwhile: seen below.
        let _ = stream.write_all(said).await;
    }
    let mut scrap = vec![0; 256];
    while stream.read(&mut scrap).await.is_ok_and(|n| n > 0) {}
    counts.close();
}

/// Follows the log from its end on, and comes back when the stream was ended.
async fn watch(who: Target, begin: Instant, counts: Arc<Counts>) {
    tokio::time::sleep_until(begin).await;
    let mut scrap = vec![0; 8 << 10];
    loop {
        match follow(&who, &mut scrap, &counts).await {
            Ok(()) => counts.close(),
            Err(_) => counts.refuse(),
        }
        sleep(LONG_PAUSE).await;
    }
}

async fn follow(who: &Target, scrap: &mut [u8], counts: &Counts) -> Result<()> {
    let end = end_of_log(who).await?;
    let mut stream = open_events(who, &end).await?;
    let n = stream.read(scrap).await?;
    ensure!(scrap[..n].starts_with(b"HTTP/1.1 200"), "the stream was refused");
    let _standing = counts.register_open();
    loop {
        match stream.read(scrap).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(n) => counts.bytes.fetch_add(n as u64, Ordering::Relaxed),
        };
    }
}

/// Where the log ends now, as this caller sees it.
async fn end_of_log(who: &Target) -> Result<String> {
    let mut client = Client::new(who.clone());
    let answer = client.open(&Method::GET, "/v1/whoami", Bytes::new()).await?;
    let seq = answer.headers().get("muster-seq").context("an answer without Muster-Seq")?;
    Ok(seq.to_str()?.to_owned())
}

/// Asks for the events behind a place. By hand: what comes is only thrown away.
pub(super) async fn open_events(who: &Target, after: &str) -> Result<TcpStream> {
    let mut head = format!(
        "GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAccept: text/event-stream\r\n\
         Last-Event-ID: {after}\r\nConnection: close\r\n",
        who.port
    );
    for (name, value) in &who.headers {
        head += &format!("{name}: {}\r\n", value.to_str()?);
    }
    head += "\r\n";
    let mut stream = TcpStream::connect(("127.0.0.1", who.port)).await?;
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

/// Asks for `/metrics` as fast as it is answered.
async fn scrape(who: Target, hoped_for: u16, counts: Arc<Counts>) {
    let mut client = Client::new(who);
    loop {
        let Ok(answer) = client.open(&Method::GET, "/metrics", Bytes::new()).await else {
            counts.refuse();
            sleep(LONG_PAUSE).await;
            continue;
        };
        if answer.status().as_u16() != hoped_for {
            counts.refuse();
        }
        let mut body = answer.into_body();
        while let Some(Ok(frame)) = body.frame().await {
            let n = frame.data_ref().map_or(0, Bytes::len);
            counts.bytes.fetch_add(n as u64, Ordering::Relaxed);
        }
        counts.answers.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn who_is_closed_is_counted_and_who_finds_nobody_too() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::new(Counts::default());
        let own = counts.clone();
        let one = tokio::spawn(async move { linger(port, HALF_A_HEAD, &own).await });
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut came = vec![0; HALF_A_HEAD.len()];
        stream.read_exact(&mut came).await.unwrap();
        assert_eq!((came.as_slice(), counts.now().standing), (HALF_A_HEAD, 1));
        drop(stream);
        one.await.unwrap();
        assert_eq!(counts.now(), ConnectionCounts { closed: 1, ..ConnectionCounts::default() });
        drop(listener);
        let before = counts.now();
        linger(port, b"", &counts).await;
        let after = counts.now().since(before);
        assert_eq!(after, ConnectionCounts { refused: 1, ..ConnectionCounts::default() });
    }
}
