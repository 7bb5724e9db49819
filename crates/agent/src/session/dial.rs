//! Reaching the server: joining the site first, when this node never has.

use super::Session;
use crate::clock::wall;
use crate::error::AgentError;
use crate::identity::{SiteState, Store, Stored};
use muster_link::LinkError;
use muster_link::frame::{Frame, FrameReader, FrameWriter, MAX_FROM_SERVER};
use muster_link::messages::{FromAgent, FromServer, PROTOCOL};
use muster_link::token::JoinToken;
use muster_link::{pki, tls};
use muster_model::names::NodeName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// A connection to the server.
pub(super) type Stream = tokio_rustls::client::TlsStream<TcpStream>;

/// How long the server may take to answer a join.
const JOIN: Duration = Duration::from_secs(30);

pub(super) enum DialError {
    /// Trying again makes sense.
    Again(String),
    Fatal(AgentError),
}

impl From<LinkError> for DialError {
    fn from(e: LinkError) -> DialError {
        DialError::Again(chain(&e))
    }
}

/// An error with everything behind it.
pub(super) fn chain(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(e) = next {
        text = format!("{text}: {e}");
        next = e.source();
    }
    text
}

impl Session {
    /// Connects after a pause; none when asked to end meanwhile.
    pub(super) async fn dial(
        &mut self,
        pause: Duration,
        shutdown: &CancellationToken,
    ) -> Option<Result<Stream, DialError>> {
        let dials = self.config.dials.clone();
        let server = self.config.servers.current().to_owned();
        if let Some(stored) = self.stored.clone() {
            let known = self.client.clone();
            let connect = async move {
                tokio::time::sleep(pause).await;
                let _turn = dials.acquire_owned().await;
                let config = match known {
                    Some(config) => config,
                    None => tls::client_config(
                        Some(&stored.identity()),
                        &tls::Trust::Ca(stored.ca.clone()),
                    )
                    .map_err(|e| DialError::Fatal(AgentError::Link(e)))?,
                };
                let stream = tls::connect(&server, config.clone()).await?;
                Ok::<_, DialError>((stream, config))
            };
            let connected = self.meanwhile(connect, shutdown).await?;
            return Some(connected.map(|(stream, config)| {
                self.client = Some(config);
                stream
            }));
        }
        let Some(token) = self.config.token.clone() else {
            let node = self.config.node.to_string();
            return Some(Err(DialError::Fatal(AgentError::NotJoined { node })));
        };
        let (node, machine) = (self.config.node.clone(), self.config.machine.clone());
        let key = match self.config.store.key() {
            Ok(key) => key,
            Err(e) => return Some(Err(DialError::Fatal(e))),
        };
        let join = async move {
            tokio::time::sleep(pause).await;
            let _turn = dials.acquire_owned().await;
            tokio::time::timeout(JOIN, join(&server, &token, node, machine, key))
                .await
                .unwrap_or_else(|_| Err(DialError::Again("the server does not answer".into())))
        };
        let stored = match self.meanwhile(join, shutdown).await? {
            Ok(stored) => stored,
            Err(e) => return Some(Err(e)),
        };
        if let Err(e) = self.config.store.save(&stored) {
            return Some(Err(DialError::Fatal(e)));
        }
        tracing::info!(node = %self.config.node, site = ?stored.site.site, "joined");
        self.site = stored.site.clone();
        self.stored = Some(stored);
        Box::pin(self.dial(Duration::ZERO, shutdown)).await
    }

    /// Takes a new certificate into use, from the next connection on.
    pub(super) fn renewed(&mut self, cert: String) {
        let (Some((key, _)), Some(stored)) = (self.renewing.take(), &mut self.stored) else {
            return;
        };
        self.site.certified = Some(wall());
        *stored = Stored { cert, key, ca: stored.ca.clone(), site: self.site.clone() };
        self.client = None;
        let store: &Store = &self.config.store;
        match store.save(stored) {
            Ok(()) => tracing::info!(node = %self.config.node, "certificate renewed"),
            Err(e) => tracing::error!(node = %self.config.node, error = %chain(&e),
                "the new certificate cannot be written down"),
        }
    }
}

async fn join(
    server: &str,
    token: &JoinToken,
    node: NodeName,
    machine: String,
    key: String,
) -> Result<Stored, DialError> {
    let trust = tls::Trust::Pin(token.pin.clone());
    let config =
        tls::client_config(None, &trust).map_err(|e| DialError::Fatal(AgentError::Link(e)))?;
    let stream = tls::connect(server, Arc::clone(&config)).await?;
    let csr = pki::request_with(&node, &key).map_err(|e| DialError::Fatal(AgentError::Link(e)))?;
    let (reader, writer) = tokio::io::split(stream);
    let mut reader = FrameReader::new(reader, MAX_FROM_SERVER);
    let mut writer = FrameWriter::new(writer);
    let name = node.to_string();
    let token = token.presented();
    writer.send(&FromAgent::Join { protocol: PROTOCOL, token, node, machine, csr }).await?;
    writer.flush().await?;
    match reader.next::<FromServer>().await? {
        Some(Frame::Message(FromServer::Joined { cert, ca, site })) => {
            let site =
                SiteState { site: Some(site), certified: Some(wall()), ..SiteState::default() };
            Ok(Stored { cert, key, ca, site })
        }
        Some(Frame::Message(FromServer::Refused { code, message, retry: false })) => {
            Err(DialError::Fatal(AgentError::Refused { node: name, code, message }))
        }
        Some(Frame::Message(FromServer::Refused { message, .. })) => Err(DialError::Again(message)),
        Some(_) => Err(DialError::Again("the server answers something else than a join".into())),
        None => Err(DialError::Again("the server hung up".into())),
    }
}
