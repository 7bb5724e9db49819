//! The API's listener: HTTP or HTTPS, many connections, a clean stop.

use crate::conns::{ConnectionGuard, ConnectionLimits, RequestGuard, Table, WatchedStream};
use crate::{ServeError, TlsFiles};
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Reads the certificate and key for HTTPS.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServeError> {
    let bad = |what: &std::path::Path, e: &dyn std::fmt::Display| {
        ServeError::Tls(format!("{}: {e}", what.display()))
    };
    let certs = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| bad(&files.cert, &e))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| bad(&files.key, &e))?;
    let mut config = rustls::ServerConfig::builder_with_provider(muster_link::tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| ServeError::Tls(e.to_string()))?
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .map_err(|e| ServeError::Tls(e.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Tasks that accept. One lets in so many at a time, and then waits for its turn behind them, while
/// probes stand in the same row as a flood of others. With more than two, whoever came last could be
/// let in before several others, and make room for them before it has spoken.
const ACCEPTING: usize = 2;

/// Accepts until asked to stop.
pub(crate) async fn run(
    listener: Arc<TcpListener>,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let table = Table::new(limits);
    let mut accepting = JoinSet::new();
    for _ in 0..ACCEPTING {
        let (listener, tls, router) = (listener.clone(), tls.clone(), router.clone());
        accepting.spawn(accept(listener, tls, router, table.clone(), stop.clone()));
    }
    while let Some(ended) = accepting.join_next().await {
        // Whoever supervises this starts all of them again.
        if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
            std::panic::resume_unwind(panic);
        }
    }
}

async fn accept(
    listener: Arc<TcpListener>,
    tls: Option<TlsAcceptor>,
    router: Router,
    table: Arc<Table>,
    stop: CancellationToken,
) {
    let limits = table.limits;
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok(a) => a,
                Err(e) => {
                    // Out of descriptors, most likely: one that does nothing makes room.
                    tracing::warn!(error = %e, "a connection could not be accepted");
                    table.evict_idle();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let Some(seat) = table.admit(peer.ip()) else {
            tracing::debug!(%peer, "refused: there are too many connections");
            continue;
        };
        let _ = stream.set_nodelay(true);
        let stream = WatchedStream::new(stream, seat.connection.clone(), limits.write_stall);
        let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
        tokio::spawn(async move {
            let Some(tls) = tls else {
                return connection(stream, peer, &seat, limits, router, stop).await;
            };
            let session = tokio::select! {
                session = tokio::time::timeout(limits.handshake, tls.accept(stream)) => session,
                () = seat.connection.evicted.cancelled() => return,
            };
            match session {
                Ok(Ok(stream)) => {
                    seat.connection.opened();
                    connection(stream, peer, &seat, limits, router, stop).await;
                }
                Ok(Err(e)) => tracing::debug!(%peer, error = %e, "TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "no TLS handshake came"),
            }
        });
    }
}

/// An answer's body; its request is under way until it is sent.
struct TrackedBody {
    body: Body,
    request: RequestGuard,
    _place: Option<muster_http::TokenPlace>,
}

impl TrackedBody {
    fn new(answer: Response, request: RequestGuard) -> hyper::Response<TrackedBody> {
        let (mut parts, body) = answer.into_parts();
        let place = parts.extensions.remove();
        if !body.is_end_stream() {
            request.offered();
        }
        hyper::Response::from_parts(parts, TrackedBody { body, request, _place: place })
    }
}

impl HttpBody for TrackedBody {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        // It is asked for when there is room for it: with a window that is closed, never.
        self.request.taken();
        let piece = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(piece, Poll::Ready(Some(Ok(_)))) {
            self.request.offered();
        }
        piece
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What is kept of one connection's bytes at most, each way: the head of a request, and of answers
/// what the reader has not taken. The library's own 400 KiB are gigabytes with every connection taken.
const BUFFER: usize = 64 << 10;
/// Requests at once on one connection of HTTP/2: each may have that much waiting.
const STREAMS: u32 = 32;

async fn connection<S>(
    stream: S,
    peer: SocketAddr,
    seat: &ConnectionGuard,
    limits: ConnectionLimits,
    router: Router,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let this = seat.connection.clone();
    let service =
        hyper::service::service_fn(move |mut req: hyper::Request<hyper::body::Incoming>| {
            req.extensions_mut().insert(ConnectInfo(peer));
            let request = this.request(req.version() == hyper::Version::HTTP_2);
            let refused = this.probes_only && !muster_http::is_probe(req.uri().path());
            let router = router.clone();
            async move {
                let answer = match refused {
                    true => muster_http::too_many_connections(),
                    false => router.oneshot(req).await?,
                };
                Ok::<_, Infallible>(TrackedBody::new(answer, request))
            }
        });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().keep_alive(!seat.connection.probes_only).max_buf_size(BUFFER);
    builder.http2().max_send_buf_size(BUFFER).max_concurrent_streams(STREAMS);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    loop {
        // What it does is looked at again before that could be too late.
        let (now, deadline) = (Instant::now(), seat.connection.deadline(&limits));
        if deadline.is_some_and(|at| at <= now) {
            break;
        }
        let look = deadline.map_or(now + limits.head, |at| at.min(now + limits.head));
        tokio::select! {
            r = connection.as_mut() => {
                if let Err(e) = r {
                    tracing::debug!(%peer, error = %e, "connection ended");
                }
                return;
            }
            () = tokio::time::sleep_until(look.into()) => {}
            () = seat.connection.evicted.cancelled() => return,
            () = stop.cancelled() => break,
        }
    }
    tracing::debug!(%peer, "closed: no request came, an answer was not read, or the server stops");
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(limits.goodbye, connection).await;
}

#[cfg(test)]
mod tests;
