//! A connection with an agent.

use muster_link::LinkError;
use muster_link::frame::{FrameReader, FrameWriter};
use muster_link::messages::FromServer;
use std::time::Duration;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

/// How long a newcomer has to say something: long, because when a whole site comes back its
/// machines are as busy as we are.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Its two directions.
pub(super) struct Conn {
    pub(super) r: FrameReader<ReadHalf<TlsStream<TcpStream>>>,
    pub(super) w: FrameWriter<WriteHalf<TlsStream<TcpStream>>>,
}

impl Conn {
    /// Says one last thing.
    pub(super) async fn part(mut self, message: &FromServer) -> Result<(), LinkError> {
        self.w.send(message).await?;
        match timeout(PATIENCE, self.w.close()).await {
            Ok(done) => done,
            Err(_) => Err(slow("the goodbye", PATIENCE)),
        }
    }
}

/// The error of a step that took longer than it may.
pub(super) fn slow(what: &'static str, limit: Duration) -> LinkError {
    LinkError::Slow { what, seconds: limit.as_secs() }
}
