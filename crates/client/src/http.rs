//! One request: address, token, idempotency key, retries, errors.

use crate::ClientError;
use crate::waits::{SILENCE, Waits};
use muster_api::{ErrorBody, ErrorInfo};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, IF_MATCH, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(3);

/// How often in a row a server that served before is asked again: one that is started anew, or a
/// standby that takes over, needs its time.
pub(crate) const MAX_BREAKS: u32 = 30;

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    tries: u32,
    timeout: Duration,
    /// What the newest answer said of its place in the log.
    seen: Arc<Mutex<Option<String>>>,
    pub(crate) waits: Waits,
}

/// Sets up a [`Client`].
#[derive(Debug, Clone)]
pub struct Builder {
    server: String,
    token: Option<String>,
    ca: Option<PathBuf>,
    tries: u32,
    timeout: Duration,
    waits: Waits,
}

impl Builder {
    /// A file with the certificates (PEM) that the server's own must follow from.
    #[must_use]
    pub fn ca(mut self, file: impl AsRef<Path>) -> Builder {
        self.ca = Some(file.as_ref().into());
        self
    }

    /// How often a request is tried before the server counts as unreachable.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Builder {
        self.tries = tries.max(1);
        self
    }

    /// How long one try may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Builder {
        self.timeout = timeout;
        self
    }

    /// Called once for each time in which the server does not answer for more than two seconds, with a
    /// line that says what is waited for.
    #[must_use]
    pub fn on_wait(mut self, say: impl Fn(&str) + Send + Sync + 'static) -> Builder {
        self.waits = Waits::new(say);
        self
    }

    /// The client, or what is wrong with the settings.
    pub fn build(self) -> Result<Client, ClientError> {
        let Builder { server, token, ca, tries, timeout, waits } = self;
        let setup = |what: String, hint: &str| ClientError::Setup {
            what,
            hint: Some(hint.to_owned()).filter(|h| !h.is_empty()),
        };
        let base = Url::parse(&server)
            .ok()
            .filter(|u| matches!(u.scheme(), "http" | "https") && u.has_host())
            .ok_or_else(|| {
                let given: String = server.chars().take(200).flat_map(char::escape_debug).collect();
                setup(
                    format!("`{given}` is not the address of a server"),
                    "write it like http://127.0.0.1:7070",
                )
            })?;
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            if token.trim().is_empty() {
                return Err(setup("the token is empty".into(), "pass a token, or none at all"));
            }
            let mut value =
                HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| {
                    setup(
                        "the token has characters that no token may have".into(),
                        "copy it again, without line breaks",
                    )
                })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // An error says that the process has one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5))
            .tcp_keepalive(Duration::from_secs(15));
        if let Some(file) = &ca {
            let pem = std::fs::read(file)
                .map_err(|e| setup(format!("cannot read {}: {e}", file.display()), ""))?;
            let certs = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|_| setup(format!("{} has no certificate in PEM", file.display()), ""))?;
            http = http.tls_certs_only(certs);
        } else if base.scheme() == "http" {
            // Nothing to verify: do not search this machine for authorities it may not have.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(|e| setup(format!("cannot set up TLS: {e}"), ""))?;
        Ok(Client { http, base, tries, timeout, seen: Arc::default(), waits })
    }
}

/// One request.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) accept: &'static str,
    pub(crate) if_match: Option<u64>,
    pub(crate) last_event: Option<String>,
    /// Set for answers that never end.
    pub(crate) endless: bool,
}

impl Client {
    /// A client with the usual settings.
    pub fn new(server: &str, token: Option<&str>) -> Result<Client, ClientError> {
        Client::builder(server, token).build()
    }

    /// A client with settings of one's own.
    #[must_use]
    pub fn builder(server: &str, token: Option<&str>) -> Builder {
        Builder {
            server: server.into(),
            token: token.map(Into::into),
            ca: None,
            tries: 5,
            timeout: Duration::from_secs(60),
            waits: Waits::default(),
        }
    }

    /// The same client with the patience of one that follows a stream: for whoever waits for
    /// something that a server began and that goes on while the server is away.
    #[must_use]
    pub fn patient(&self) -> Client {
        Client { tries: self.tries.max(MAX_BREAKS), ..self.clone() }
    }

    /// The server's address.
    #[must_use]
    pub fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The place in the log that the newest answer stands for: events after it report what
    /// happened since.
    #[must_use]
    pub fn position(&self) -> Option<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A call of a path, given in segments that are escaped here.
    pub(crate) fn call(&self, method: Method, path: &[&str]) -> Call {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        Call {
            method,
            url,
            body: None,
            accept: "application/json",
            if_match: None,
            last_event: None,
            endless: false,
        }
    }

    pub(crate) fn get(&self, path: &[&str]) -> Call {
        self.call(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &[&str]) -> Call {
        self.call(Method::POST, path)
    }

    /// Sets something whole; refused when the version seen has moved. With `dry_run` nothing is
    /// set: the answer says what it would be.
    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        if_version: Option<u64>,
        dry_run: bool,
    ) -> Result<T, ClientError> {
        let mut call = self.call(Method::PUT, path).body(body)?;
        call.if_match = if_version;
        self.json(call.query(&[("dry_run", dry_run.then(|| "true".into()))])).await
    }

    pub(crate) fn garbled(&self, what: impl Into<String>) -> ClientError {
        ClientError::Garbled { server: self.server().into(), what: what.into() }
    }

    pub(crate) fn unreachable(&self, source: reqwest::Error) -> ClientError {
        ClientError::Unreachable { server: self.server().into(), source }
    }

    /// Sends, again and again while that may help, and reads a JSON answer.
    pub(crate) async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let bytes = self.bytes(call).await?;
        serde_json::from_slice(&bytes).map_err(|e| self.garbled(e.to_string()))
    }

    /// Sends and reads the whole answer.
    pub(crate) async fn bytes(&self, call: Call) -> Result<bytes::Bytes, ClientError> {
        let key = (call.method != Method::GET).then(|| format!("{:032x}", rand::random::<u128>()));
        let mut tried = 0;
        loop {
            tried += 1;
            // The body may break off as well, so that it belongs inside the retry.
            let result = match self.try_once(&call, key.as_deref()).await {
                Ok(answer) => answer.bytes().await.map_err(|e| self.unreachable(e)),
                Err(e) => Err(e),
            };
            match result {
                Err(e) if e.is_passing() && tried < self.tries => {
                    tracing::debug!(error = %e, tried, "will try again");
                    self.rest(&e, tried).await;
                }
                other => return other,
            }
        }
    }

    /// Sends until an answer begins; the caller reads its body.
    pub(crate) async fn open(&self, call: &Call) -> Result<Response, ClientError> {
        let mut tried = 0;
        loop {
            tried += 1;
            match self.try_once(call, None).await {
                Err(e) if e.is_passing() && tried < self.tries => self.rest(&e, tried).await,
                other => return other,
            }
        }
    }

    /// The pause after a try that failed.
    pub(crate) async fn rest(&self, error: &ClientError, tried: u32) {
        let pause = pause(tried);
        self.waits.away(self.server(), error, pause);
        tokio::time::sleep(pause).await;
    }

    async fn try_once(&self, call: &Call, key: Option<&str>) -> Result<Response, ClientError> {
        let mut request =
            self.http.request(call.method.clone(), call.url.clone()).header(ACCEPT, call.accept);
        if !call.endless {
            request = request.timeout(self.timeout);
        }
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(version) = call.if_match {
            request = request.header(IF_MATCH, format!("\"{version}\""));
        }
        if let Some(id) = &call.last_event {
            request = request.header("Last-Event-ID", id);
        }
        if let Some(body) = &call.body {
            request = request.header("Content-Type", "application/json").body(body.clone());
        }
        let answer = self.waits.answer(SILENCE, self.server(), request.send()).await;
        let answer = answer.map_err(|e| self.unreachable(e))?;
        if answer.status().is_success() {
            self.waits.answered();
            if let Some(place) = answer.headers().get("muster-seq")
                && let Ok(place) = place.to_str()
            {
                *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(place.into());
            }
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let after = answer.headers().get(RETRY_AFTER).filter(|_| matches!(status, 429 | 503));
        let seconds = after.and_then(|after| after.to_str().ok()?.parse::<u64>().ok());
        let body = answer.bytes().await.map_err(|e| self.unreachable(e))?;
        let error = match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(b) => b.error,
            // A proxy in between speaks its own language.
            Err(_) => ErrorInfo {
                code: String::new(),
                message: format!("the server answered with status {status}"),
                field: None,
                hint: None,
            },
        };
        let error = ClientError::Api { status, error };
        if let Some(seconds) = seconds {
            let pause = Duration::from_secs(seconds).min(MAX_PAUSE);
            self.waits.away(self.server(), &error, pause);
            tokio::time::sleep(pause).await;
        } else if !error.is_passing() {
            self.waits.answered();
        }
        Err(error)
    }
}

impl Call {
    /// With a JSON body.
    pub(crate) fn body<T: Serialize>(mut self, body: &T) -> Result<Call, ClientError> {
        let bytes = serde_json::to_vec(body).map_err(|e| ClientError::Setup {
            what: format!("the request cannot be written as JSON: {e}"),
            hint: None,
        })?;
        self.body = Some(bytes);
        Ok(self)
    }

    /// With what stands behind the `?`.
    pub(crate) fn query(mut self, pairs: &[(&str, Option<String>)]) -> Call {
        for (name, value) in pairs {
            if let Some(value) = value {
                self.url.query_pairs_mut().append_pair(name, value);
            }
        }
        self
    }
}

/// 100 ms, 200 ms, … with some disorder, so that many clients do not come back at once.
pub(crate) fn pause(tried: u32) -> Duration {
    let base = Duration::from_millis(100u64 << tried.saturating_sub(1).min(5)).min(MAX_PAUSE);
    base.mul_f64(0.75 + rand::random::<f64>() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_tokens_are_checked_before_anything_is_sent() {
        for bad in ["", "127.0.0.1:7070", "ftp://x", "http://", "not a url"] {
            let e = Client::new(bad, None).expect_err(bad);
            assert_eq!(e.exit_code(), 2, "{bad}");
            assert!(e.hint().is_some());
        }
        assert!(Client::new("http://127.0.0.1:7070", Some("a\nb")).is_err());
        assert!(Client::new("http://127.0.0.1:7070", Some("\n")).is_err(), "empty");
        assert!(Client::new("http://127.0.0.1:7070/", Some("ok\n")).is_ok(), "a file's newline");
    }

    #[test]
    fn path_segments_are_escaped() {
        let c = Client::new("http://h:1/base/", None).expect("a good address");
        let call =
            c.get(&["v1", "nodes", "a/b ?"]).query(&[("x", Some("1 2".into())), ("y", None)]);
        assert_eq!(call.url.as_str(), "http://h:1/base/v1/nodes/a%2Fb%20%3F?x=1+2");
        assert_eq!(c.server(), "http://h:1/base");
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        assert!(pause(1) < pause(4));
        assert!(pause(40) <= MAX_PAUSE.mul_f64(1.25));
    }
}
