//! An HTTP/1.1 client that costs little: one kept-alive connection, requests one after the other.

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Where requests go and what goes with each.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) port: u16,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Target {
    /// A server on this machine that wants these headers.
    pub(crate) fn new(port: u16, headers: &[(&str, &str)]) -> Result<Target> {
        let headers = headers
            .iter()
            .map(|(name, value)| Ok((HeaderName::try_from(*name)?, HeaderValue::try_from(*value)?)))
            .collect::<Result<_>>()
            .context("a header cannot be sent")?;
        Ok(Target { port, headers })
    }

    fn request(&self, method: &Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, format!("127.0.0.1:{}", self.port));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(body))?)
    }
}

/// One connection; made again when the server closed it.
pub(crate) struct Client {
    target: Target,
    connection: Option<SendRequest<Full<Bytes>>>,
    /// How often it connected.
    pub(crate) connects: u64,
}

impl Client {
    pub(crate) fn new(target: Target) -> Client {
        Client { target, connection: None, connects: 0 }
    }

    async fn ready(&mut self) -> Result<&mut SendRequest<Full<Bytes>>> {
        if let Some(open) = &mut self.connection
            && open.ready().await.is_err()
        {
            self.connection = None;
        }
        if self.connection.is_none() {
            let stream = TcpStream::connect(("127.0.0.1", self.target.port))
                .await
                .with_context(|| format!("cannot connect to port {}", self.target.port))?;
            stream.set_nodelay(true)?;
            let (sender, driver) = handshake(TokioIo::new(stream)).await?;
            tokio::spawn(async move {
                // Its end is seen by the next request.
                let _ = driver.await;
            });
            self.connects += 1;
            self.connection = Some(sender);
        }
        self.connection.as_mut().context("not connected")
    }

    /// Sends and gives the head of the answer; the body can be read as it comes.
    pub(crate) async fn open(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let request = self.target.request(method, path, body)?;
        let answer = self.ready().await?.send_request(request).await;
        if answer.is_err() {
            self.connection = None;
        }
        answer.with_context(|| format!("{method} {path}"))
    }

    /// Sends and reads the whole answer.
    pub(crate) async fn call(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<(u16, Bytes)> {
        let answer = self.open(method, path, body).await?;
        let status = answer.status().as_u16();
        match answer.into_body().collect().await {
            Ok(body) => Ok((status, body.to_bytes())),
            Err(error) => {
                self.connection = None;
                Err(error).with_context(|| format!("{method} {path}: the answer broke off"))
            }
        }
    }
}
