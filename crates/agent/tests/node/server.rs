//! A server that says what the test wants, over a real mutually authenticated connection.

use crate::support::LONG;
use muster_link::frame::{Frame, FrameReader, FrameWriter, MAX_FROM_AGENT};
use muster_link::messages::{Action, FromAgent, FromServer, Hello, LogChunk, RunDetail, RunOrder};
use muster_link::pki::Authority;
use muster_link::tls;
use muster_link::token::JoinToken;
use muster_model::command::Observed;
use muster_model::ids::{AttemptKey, Epoch, Seq, SiteId};
use muster_model::job::SlotEnd;
use muster_model::units::{Span, Time};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    authority: Authority,
    _dir: tempfile::TempDir,
    pub(crate) site: SiteId,
    pub(crate) addr: String,
    pub(crate) token: JoinToken,
}

pub(crate) struct Conn {
    reader: FrameReader<ReadHalf<TlsStream<TcpStream>>>,
    writer: FrameWriter<WriteHalf<TlsStream<TcpStream>>>,
    /// Output so far, in the order of its arrival.
    pub(crate) logs: Vec<LogChunk>,
}

fn wall() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time(i64::try_from(since.as_millis()).unwrap())
}

impl Server {
    pub(crate) async fn start() -> Server {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::create_or_load(dir.path()).unwrap();
        let identity = authority.server_identity(&[]).unwrap();
        let config = tls::server_config(&authority, &identity, wall).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let token = JoinToken::generate(authority.pin()).unwrap();
        let site = SiteId("site-1".into());
        let acceptor = TlsAcceptor::from(config);
        Server { listener, acceptor, authority, _dir: dir, site, addr, token }
    }

    pub(crate) async fn accept(&self) -> Conn {
        let (tcp, _) = timeout(LONG, self.listener.accept()).await.unwrap().unwrap();
        let stream = timeout(LONG, self.acceptor.accept(tcp)).await.unwrap().unwrap();
        let (r, w) = tokio::io::split(stream);
        Conn {
            reader: FrameReader::new(r, MAX_FROM_AGENT),
            writer: FrameWriter::new(w),
            logs: Vec::new(),
        }
    }

    /// Answers a join; the certificate lives for `ttl`.
    pub(crate) async fn join(&self, ttl: Span) {
        let met = self.meet(ttl).await;
        assert!(met.is_none(), "a join was expected");
    }

    /// Answers a join, or returns the connection of a node that has joined.
    pub(crate) async fn meet(&self, ttl: Span) -> Option<(Conn, Hello)> {
        let mut conn = self.accept().await;
        match conn.next().await {
            FromAgent::Join { token, node, csr, .. } => {
                assert_eq!(token.0, self.token.presented().0);
                let cert =
                    self.authority.sign_node(&csr, &node, None, &self.site, ttl, wall()).unwrap();
                let ca = self.authority.ca_pem().to_owned();
                conn.say(&FromServer::Joined { cert, ca, site: self.site.clone() }).await;
                None
            }
            FromAgent::Hello(hello) => Some((conn, *hello)),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn certify(&self, csr: &str, node: &str) -> String {
        let node = node.parse().unwrap();
        let ttl = Span::mins(600);
        self.authority.sign_node(csr, &node, None, &self.site, ttl, wall()).unwrap()
    }

    /// The next connection of a joined node, welcomed.
    pub(crate) async fn welcome(&self, epoch: u64) -> (Conn, Hello) {
        let mut conn = self.accept().await;
        let hello = conn.hello().await;
        self.greet(&mut conn, epoch).await;
        (conn, hello)
    }

    /// So many nodes, joined and welcomed in whatever order they come.
    pub(crate) async fn welcome_all(&self, nodes: usize, ttl: Span) -> Vec<Conn> {
        let mut up = Vec::new();
        while up.len() < nodes {
            if let Some((mut conn, _)) = self.meet(ttl).await {
                self.greet(&mut conn, 1).await;
                up.push(conn);
            }
        }
        up
    }

    pub(crate) async fn greet(&self, conn: &mut Conn, epoch: u64) {
        conn.say(&FromServer::Welcome {
            site: self.site.clone(),
            epoch: Epoch(epoch),
            seq: Seq(7),
            heartbeat: Span(100),
            telemetry: Span(100),
            protected: false,
            output_age: true,
        })
        .await;
    }
}

impl Conn {
    pub(crate) async fn say(&mut self, message: &FromServer) {
        self.writer.send(message).await.unwrap();
        self.writer.flush().await.unwrap();
    }

    pub(crate) async fn try_next(&mut self) -> Option<FromAgent> {
        loop {
            match timeout(LONG, self.reader.next::<FromAgent>()).await.expect("an answer") {
                Ok(Some(Frame::Message(m))) => return Some(m),
                Ok(Some(Frame::Log(chunk))) => self.logs.push(chunk),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    pub(crate) async fn next(&mut self) -> FromAgent {
        self.try_next().await.expect("the agent hung up")
    }

    pub(crate) async fn hello(&mut self) -> Hello {
        match self.next().await {
            FromAgent::Hello(hello) => *hello,
            other => panic!("{other:?}"),
        }
    }

    /// Reads on until something answers the question; heartbeats are acknowledged meanwhile.
    pub(crate) async fn until<T>(&mut self, mut f: impl FnMut(&FromAgent) -> Option<T>) -> T {
        loop {
            let message = self.next().await;
            if let FromAgent::Heartbeat { .. } = message {
                self.say(&FromServer::Ack { seq: Seq(8), uncertain: false }).await;
            }
            if let Some(found) = f(&message) {
                return found;
            }
        }
    }

    pub(crate) async fn report(&mut self, key: AttemptKey, wanted: &Observed) {
        self.until(|m| match m {
            FromAgent::Report { key: k, observed, .. } if *k == key && observed == wanted => {
                Some(())
            }
            _ => None,
        })
        .await;
    }

    pub(crate) async fn end(&mut self, key: AttemptKey) -> SlotEnd {
        self.until(|m| match m {
            FromAgent::Report { key: k, observed: Observed::Ended(end), .. } if *k == key => {
                Some(end.clone())
            }
            _ => None,
        })
        .await
    }

    pub(crate) async fn desire(&mut self, epoch: u64, runs: Vec<RunOrder>) {
        self.say(&FromServer::Desired { epoch: Epoch(epoch), seq: Seq(9), runs }).await;
    }

    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.logs.iter().flat_map(|c| c.data.to_vec()).collect();
        String::from_utf8(bytes).unwrap()
    }
}

pub(crate) fn run(key: AttemptKey, detail: &RunDetail) -> RunOrder {
    RunOrder { key, action: Action::Run, detail: Some(Arc::new(detail.clone())) }
}
