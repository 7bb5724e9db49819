//! The door: TCP, TLS, and the first message.

use super::conn::{Conn, PATIENCE, slow};
use super::newcomers::NewcomerSlot;
use super::{Inner, hello, join, refused, session, unreadable};
use crate::supervise;
use muster_link::LinkError;
use muster_link::frame::{Frame, FrameReader, FrameWriter, MAX_FROM_AGENT};
use muster_link::messages::{FromAgent, FromServer};
use muster_link::tls;
use rustls::server::Acceptor;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;

/// How long a handshake may take, from its first word on. Shorter: others wait for its place.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// Bytes of the first message of somebody who shows no certificate: it can only be a join.
const MAX_JOIN: usize = 64 << 10;

pub(super) async fn listen(inner: Arc<Inner>, listener: Arc<TcpListener>) {
    loop {
        let accepted = tokio::select! {
            a = listener.accept() => a,
            () = inner.stop.cancelled() => return,
        };
        match accepted {
            Ok((tcp, addr)) => {
                // Agents that are sent away come again.
                let Some(place) = inner.newcomers.admit(addr.ip()) else {
                    tracing::debug!(%addr, "too many newcomers: sent away");
                    continue;
                };
                let inner = inner.clone();
                let greeting = Box::pin(async move {
                    // Until it is let in, which goes on in a task of its own, or is not.
                    tokio::select! {
                        greeted = greet(inner, tcp, addr, &place) => if let Err(e) = greeted {
                            let cause = std::error::Error::source(&e).map(ToString::to_string);
                            tracing::debug!(%addr, error = %e, cause, "an agent was not let in");
                        },
                        () = place.dropped.cancelled() => {
                            tracing::debug!(%addr, "its place was needed: sent away");
                        }
                    }
                });
                // One that panics is counted; the agent comes again.
                tokio::spawn(async move { supervise::once("agents-greet", greeting).await });
            }
            Err(e) => {
                // Out of files, most likely; those that are open go on.
                tracing::warn!(error = %e, "cannot accept agents");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn greet(
    inner: Arc<Inner>,
    tcp: TcpStream,
    addr: SocketAddr,
    place: &NewcomerSlot,
) -> Result<(), LinkError> {
    tls::tune(&tcp)?;
    // Whoever says nothing takes no turn of a handshake.
    let start = timeout(PATIENCE, LazyConfigAcceptor::new(Acceptor::default(), tcp))
        .await
        .map_err(|_| slow("the first word", PATIENCE))??;
    place.turn().await;
    let stream = timeout(HANDSHAKE, start.into_stream(inner.tls.clone()))
        .await
        .map_err(|_| slow("the handshake", HANDSHAKE))??;
    let peer = tls::peer(stream.get_ref().1)?;
    place.settle(peer.is_some());
    let (r, w) = tokio::io::split(stream);
    let most = if peer.is_some() { MAX_FROM_AGENT } else { MAX_JOIN };
    let mut conn = Conn { r: FrameReader::new(r, most), w: FrameWriter::new(w) };
    let first =
        timeout(PATIENCE, conn.r.next()).await.map_err(|_| slow("the first message", PATIENCE))?;
    let first = match first {
        Ok(first) => first,
        Err(e) => {
            if let Some(answer) = unreadable(&e) {
                conn.part(&answer).await?;
            }
            return Err(e);
        }
    };
    match (peer, first) {
        (_, None) => Ok(()),
        (peer, Some(Frame::Message(FromAgent::Join { protocol, token, node, machine, csr }))) => {
            let asked = join::JoinRequest { protocol, token, node, machine, csr };
            // A join that was begun is answered: it may have used its token up.
            if !place.settle(true) {
                return Ok(());
            }
            let answer = join::join(&inner, asked).await?;
            place.settle(peer.is_some() || matches!(answer, FromServer::Joined { .. }));
            conn.part(&answer).await
        }
        (Some(peer), Some(Frame::Message(FromAgent::Hello(mut hello)))) => {
            match hello::enter(&inner, &peer, &mut hello, addr).await? {
                Ok(entered) => {
                    inner.newcomers.note_contact(&hello.node, addr.ip());
                    // A task of its own: this one has the size of a handshake.
                    tokio::spawn(async move {
                        // Its entry is given up with it; the agent connects again.
                        let _ =
                            supervise::once("agents-session", session::run(inner, conn, entered))
                                .await;
                    });
                    Ok(())
                }
                Err(refusal) => {
                    tracing::warn!(node = %hello.node, %addr, ?refusal, "an agent was refused");
                    conn.part(&refusal).await
                }
            }
        }
        (None, Some(_)) => {
            let why = "this connection shows no certificate: join with a join token first";
            conn.part(&refused("identity", why, false)).await
        }
        (Some(_), Some(_)) => {
            conn.part(&refused("protocol", "the first message must be a hello", false)).await
        }
    }
}
