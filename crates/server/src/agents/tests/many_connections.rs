//! Connections of people who are not agents, many at once.

use super::support::{Agent, PATIENCE, Site, site_with};
use muster_link::messages::{FromAgent, FromServer};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// A connection from this address of the machine.
async fn connect(s: &Site, from: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(s.addr.parse().unwrap()).await.unwrap()
}

/// The first word of a handshake, after which nothing more comes.
fn first_word(agent: &Agent) -> Vec<u8> {
    let name = rustls::pki_types::ServerName::try_from("muster").unwrap();
    let mut tls = rustls::ClientConnection::new(Arc::clone(&agent.config), name).unwrap();
    let mut word = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut word).unwrap();
    }
    word
}

async fn hears_something(c: &mut TcpStream) -> bool {
    let mut some = [0; 1024];
    let read = tokio::time::timeout(PATIENCE, c.read(&mut some)).await;
    let read = read.expect("the server says nothing");
    matches!(read, Ok(n) if n > 0)
}

async fn is_sent_away(c: &mut TcpStream) {
    while hears_something(c).await {}
}

#[tokio::test]
async fn idle_connections_keep_no_agent_out_and_end_no_session() {
    let s = site_with(8).await;
    let (_agent, mut session) = s.idle("n1").await;
    let late = s.enrolled("n2").await;
    let mut flood = Vec::new();
    for _ in 0..60 {
        flood.push(connect(&s, "127.0.0.1").await);
    }
    // From the very address of the flood.
    let (_line, m) = late.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    for old in &mut flood[..56] {
        is_sent_away(old).await;
    }
    session.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    session.hear_of(|m| matches!(m, FromServer::Ack { .. }).then_some(())).await;
}

#[tokio::test]
async fn strangers_leave_their_places_to_a_node_that_was_heard() {
    let s = site_with(8).await;
    let (agent, line) = s.idle("n1").await;
    drop(line);
    let mut flood = Vec::new();
    for i in 0..60 {
        flood.push(connect(&s, &format!("127.0.0.{}", 2 + i % 3)).await);
    }
    let (_line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    is_sent_away(&mut flood[0]).await;
    // The node took none of their places: the newest still has its own.
    let last = flood.last_mut().unwrap();
    last.write_all(&first_word(&agent)).await.unwrap();
    assert!(hears_something(last).await);
}

#[tokio::test]
async fn handshakes_that_stand_still_keep_no_agent_out() {
    let s = site_with(256).await;
    let agent = s.enrolled("n1").await;
    let word = first_word(&agent);
    let mut flood = Vec::new();
    for i in 0..40 {
        let mut c = connect(&s, "127.0.0.2").await;
        c.write_all(&word).await.unwrap();
        // So many handshakes of strangers are under way at once; the others wait for their turn.
        if i < 16 {
            assert!(hears_something(&mut c).await);
        }
        flood.push(c);
    }
    let (_line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    is_sent_away(&mut flood[0]).await;
}
