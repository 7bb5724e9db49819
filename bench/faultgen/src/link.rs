//! A small client of the agent link: joins once, then connects and hangs up as it is asked to.

use anyhow::{Context, Result, bail};
use muster_link::frame::{Frame, FrameReader, FrameWriter, MAX_FROM_SERVER};
use muster_link::messages::{FromAgent, FromServer, Hello, PROTOCOL};
use muster_link::pki::{Identity, new_request};
use muster_link::tls::{self, Trust};
use muster_link::token::JoinToken;
use muster_model::command::Observed;
use muster_model::ids::{AttemptKey, Epoch, Seq, SiteId};
use muster_model::names::NodeName;
use muster_model::node::Inventory;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// What a node's connection reports to the world.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// Welcomed.
    Up,
    /// The connection is gone, for whatever reason.
    Down,
    /// The server said something.
    Said(Box<FromServer>),
}

/// What the world sends to a node's connection.
#[derive(Debug)]
pub(crate) enum ConnectionCommand {
    /// Connect and say hello like this.
    Open(Box<Opening>),
    /// Send this.
    Send(Box<FromAgent>),
    /// Hang up.
    Close,
}

/// What hello says beside what never changes.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) boot: String,
    pub(crate) observed: Vec<(AttemptKey, Observed)>,
}

/// One node as the link sees it.
pub(crate) struct Caller {
    pub(crate) index: usize,
    pub(crate) node: NodeName,
    pub(crate) link: String,
    pub(crate) token: JoinToken,
    pub(crate) inventory: Inventory,
    /// How many may be shaking hands at once.
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) world: mpsc::UnboundedSender<(usize, ConnectionEvent)>,
}

struct Joined {
    site: SiteId,
    config: Arc<rustls::ClientConfig>,
}

/// How long to wait after a try that failed.
const PAUSE: Duration = Duration::from_millis(300);

impl Caller {
    /// Lives until the world lets go of it.
    pub(crate) async fn run(self, mut orders: mpsc::UnboundedReceiver<ConnectionCommand>) {
        let mut joined: Option<Joined> = None;
        let mut seen = (Seq(0), Epoch(0));
        let mut next = orders.recv().await;
        while let Some(say) = next.take() {
            if let ConnectionCommand::Open(opening) = say {
                match self.talk(&mut joined, &mut seen, *opening, &mut orders).await {
                    Ok(()) => {}
                    Err(error) => {
                        eprintln!("{}: {error:#}", self.node);
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                let _ = self.world.send((self.index, ConnectionEvent::Down));
            }
            next = orders.recv().await;
        }
    }

    async fn join(&self) -> Result<Joined> {
        let config = tls::client_config(None, &Trust::Pin(self.token.pin.clone()))?;
        let stream = tls::connect(&self.link, config).await?;
        let (key_pem, csr) = new_request(&self.node)?;
        let (reader, writer) = tokio::io::split(stream);
        let mut reader = FrameReader::new(reader, MAX_FROM_SERVER);
        let mut writer = FrameWriter::new(writer);
        let join = FromAgent::Join {
            protocol: PROTOCOL,
            token: self.token.presented(),
            node: self.node.clone(),
            machine: self.machine(),
            csr,
        };
        writer.send(&join).await?;
        writer.flush().await?;
        match reader.next::<FromServer>().await? {
            Some(Frame::Message(FromServer::Joined { cert, ca, site })) => {
                let identity = Identity { cert_pem: cert, key_pem };
                let config = tls::client_config(Some(&identity), &Trust::Ca(ca))?;
                Ok(Joined { site, config })
            }
            Some(Frame::Message(FromServer::Refused { code, message, .. })) => {
                bail!("joining was refused ({code}): {message}")
            }
            _ => bail!("the server answers something else than a join"),
        }
    }

    fn machine(&self) -> String {
        format!("made-up-{}", self.node)
    }

    async fn talk(
        &self,
        joined: &mut Option<Joined>,
        seen: &mut (Seq, Epoch),
        opening: Opening,
        orders: &mut mpsc::UnboundedReceiver<ConnectionCommand>,
    ) -> Result<()> {
        let turn = self.turns.acquire().await.context("nobody takes turns any more")?;
        if joined.is_none() {
            *joined = Some(self.join().await?);
        }
        let own = joined.as_ref().context("not joined")?;
        let stream = tls::connect(&self.link, own.config.clone()).await?;
        let (reader, writer) = tokio::io::split(stream);
        let mut reader = FrameReader::new(reader, MAX_FROM_SERVER);
        let mut writer = FrameWriter::new(writer);
        let hello = Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").into(),
            node: self.node.clone(),
            machine: self.machine(),
            instance: format!("{}-{}", self.node, opening.boot),
            boot: opening.boot,
            address: format!("10.{}.{}.1", self.index / 250, self.index % 250),
            host: self.machine(),
            inventory: self.inventory.clone(),
            site: Some(own.site.clone()),
            seq: seen.0,
            epoch: seen.1,
            observed: opening.observed,
            ended_ago: Vec::new(),
            place: String::new(),
            at: crate::wall(),
            qualifying: None,
        };
        writer.send(&FromAgent::Hello(Box::new(hello))).await?;
        writer.flush().await?;
        let mut turn = Some(turn);
        loop {
            tokio::select! {
                frame = reader.next::<FromServer>() => match frame? {
                    None => return Ok(()),
                    Some(Frame::Log(_)) => {}
                    Some(Frame::Message(FromServer::Ack { seq, .. })) => seen.0 = seen.0.max(seq),
                    Some(Frame::Message(FromServer::Welcome { epoch, .. })) => {
                        seen.1 = epoch;
                        turn.take();
                        let _ = self.world.send((self.index, ConnectionEvent::Up));
                    }
                    Some(Frame::Message(FromServer::Refused { code, message, .. })) => {
                        bail!("refused ({code}): {message}")
                    }
                    Some(Frame::Message(m)) => {
                        if let FromServer::Desired { seq, .. } = &m {
                            seen.0 = seen.0.max(*seq);
                        }
                        let _ = self.world.send((self.index, ConnectionEvent::Said(Box::new(m))));
                    }
                },
                say = orders.recv() => match say {
                    None | Some(ConnectionCommand::Close) => return Ok(()),
                    Some(ConnectionCommand::Open(_)) => {}
                    Some(ConnectionCommand::Send(first)) => {
                        writer.send(&*first).await?;
                        // What has come meanwhile goes along, in the same packet.
                        while let Ok(more) = orders.try_recv() {
                            match more {
                                ConnectionCommand::Send(m) => writer.send(&*m).await?,
                                ConnectionCommand::Open(_) => {}
                                ConnectionCommand::Close => {
                                    writer.flush().await?;
                                    return Ok(());
                                }
                            }
                        }
                        writer.flush().await?;
                    }
                },
            }
        }
    }
}
