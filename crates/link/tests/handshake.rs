//! Agent and server meet over a real socket.

use muster_link::frame::{Frame, FrameReader, FrameWriter, MAX_FROM_AGENT, MAX_FROM_SERVER};
use muster_link::messages::{FromAgent, FromServer};
use muster_link::pki::{Authority, Identity, new_request};
use muster_link::tls::{Peer, Trust, client_config, connect, not_after, peer, server_config};
use muster_link::{LinkError, token::JoinToken};
use muster_model::ids::{Seq, SiteId};
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

fn authority() -> Authority {
    Authority::create_or_load(tempfile::tempdir().unwrap().path()).unwrap()
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time(i64::try_from(since.as_millis()).unwrap())
}

fn node() -> NodeName {
    "hgx-0001".parse().unwrap()
}

fn site() -> SiteId {
    SiteId("site-a1".into())
}

fn identity(a: &Authority, ttl: Span, at: Time) -> Identity {
    let (key_pem, csr) = new_request(&node()).unwrap();
    let cert_pem = a.sign_node(&csr, &node(), None, &site(), ttl, at).unwrap();
    Identity { cert_pem, key_pem }
}

/// One server that says to every caller who it took them for.
async fn server(
    a: &Authority,
) -> (String, tokio::sync::mpsc::Receiver<Result<Option<Peer>, String>>) {
    server_with(a, now).await
}

async fn server_with(
    a: &Authority,
    clock: fn() -> Time,
) -> (String, tokio::sync::mpsc::Receiver<Result<Option<Peer>, String>>) {
    let identity = a.server_identity(&["127.0.0.1".into()]).unwrap();
    let config = server_config(a, &identity, clock).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let (tx, rx) = tokio::sync::mpsc::channel(8);
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(config);
        while let Ok((tcp, _)) = listener.accept().await {
            match acceptor.accept(tcp).await {
                Err(e) => tx.send(Err(e.to_string())).await.unwrap(),
                Ok(tls) => {
                    let who = peer(tls.get_ref().1).map_err(|e| e.to_string());
                    let (r, w) = tokio::io::split(tls);
                    let (mut r, mut w) = (FrameReader::new(r, MAX_FROM_AGENT), FrameWriter::new(w));
                    if let Ok(Some(Frame::Message(FromAgent::Heartbeat { .. }))) = r.next().await {
                        w.send(&FromServer::Ack { seq: Seq(7), uncertain: false }).await.unwrap();
                        w.close().await.unwrap();
                    }
                    tx.send(who).await.unwrap();
                }
            }
        }
    });
    (addr, rx)
}

/// Connects, says one thing, hears one thing.
async fn call(addr: &str, config: &Arc<rustls::ClientConfig>) -> Result<(), LinkError> {
    let tls = connect(addr, config.clone()).await?;
    let (r, w) = tokio::io::split(tls);
    let (mut r, mut w) = (FrameReader::new(r, MAX_FROM_SERVER), FrameWriter::new(w));
    w.send(&FromAgent::Heartbeat { at: now() }).await?;
    w.flush().await?;
    match r.next().await? {
        Some(Frame::Message(FromServer::Ack { seq: Seq(7), .. })) => Ok(()),
        other => Err(LinkError::Garbled(format!("{other:?}"))),
    }
}

#[tokio::test]
async fn a_node_with_a_certificate_is_known_by_name_again_and_again() {
    let a = authority();
    let (addr, mut seen) = server(&a).await;
    let id = identity(&a, Span::mins(10), now());
    let config = client_config(Some(&id), &Trust::Ca(a.ca_pem().into())).unwrap();
    for _ in 0..3 {
        call(&addr, &config).await.unwrap();
        let who = seen.recv().await.unwrap().unwrap().unwrap();
        assert_eq!((who.node, who.site), (node(), site()));
        assert_eq!(who.serial.len(), 32);
        assert_eq!(who.not_after, not_after(&id.cert_pem).unwrap());
    }
}

#[tokio::test]
async fn a_newcomer_with_the_right_pin_is_let_through_without_a_certificate() {
    let a = authority();
    let (addr, mut seen) = server(&a).await;
    let token: JoinToken = JoinToken::generate(a.pin()).unwrap().to_string().parse().unwrap();
    let config = client_config(None, &Trust::Pin(token.pin)).unwrap();
    call(&addr, &config).await.unwrap();
    assert_eq!(seen.recv().await.unwrap(), Ok(None));
}

#[tokio::test]
async fn a_newcomer_with_the_wrong_pin_or_authority_does_not_talk_to_the_server() {
    let (a, other) = (authority(), authority());
    let (addr, mut seen) = server(&a).await;
    for trust in [Trust::Pin(other.pin()), Trust::Ca(other.ca_pem().into())] {
        let config = client_config(None, &trust).unwrap();
        let e = call(&addr, &config).await.unwrap_err();
        assert!(matches!(e, LinkError::Tls(_)), "{e:?}");
        assert!(seen.recv().await.unwrap().is_err());
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let (a, other) = (authority(), authority());
    let (addr, mut seen) = server(&a).await;
    let id = identity(&other, Span::mins(10), now());
    let config = client_config(Some(&id), &Trust::Ca(a.ca_pem().into())).unwrap();
    call(&addr, &config).await.unwrap_err();
    seen.recv().await.unwrap().unwrap_err();
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let a = authority();
    let (addr, mut seen) = server(&a).await;
    let id = identity(&a, Span::mins(1), now() - Span::mins(5));
    let config = client_config(Some(&id), &Trust::Ca(a.ca_pem().into())).unwrap();
    call(&addr, &config).await.unwrap_err();
    let e = seen.recv().await.unwrap().unwrap_err();
    assert!(e.contains("xpired"), "{e}");
}

/// A clock that is forty days before that of the machine.
fn forty_days_ago() -> Time {
    now() - Span::hours(40 * 24)
}

#[tokio::test]
async fn a_machine_whose_clock_was_set_forty_days_ahead_lets_its_nodes_in() {
    let a = authority();
    // The server went on with its own time, and signed by it.
    let (addr, mut seen) = server_with(&a, forty_days_ago).await;
    let id = identity(&a, Span::hours(30 * 24), forty_days_ago());
    let config = client_config(Some(&id), &Trust::Ca(a.ca_pem().into())).unwrap();
    call(&addr, &config).await.unwrap();
    assert_eq!(seen.recv().await.unwrap().unwrap().unwrap().node, node());
    // What has ended by that clock has ended.
    let id = identity(&a, Span::mins(1), forty_days_ago() - Span::mins(5));
    let config = client_config(Some(&id), &Trust::Ca(a.ca_pem().into())).unwrap();
    call(&addr, &config).await.unwrap_err();
    let e = seen.recv().await.unwrap().unwrap_err();
    assert!(e.contains("xpired"), "{e}");
}

#[tokio::test]
async fn a_servers_certificate_opens_no_door_as_a_nodes() {
    let a = authority();
    let (addr, mut seen) = server(&a).await;
    let id = a.server_identity(&[]).unwrap();
    let config = client_config(Some(&id), &Trust::Ca(a.ca_pem().into())).unwrap();
    call(&addr, &config).await.unwrap_err();
    seen.recv().await.unwrap().unwrap_err();
}
