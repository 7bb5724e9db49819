//! The sending half of a connection. It has a task of its own, so that a server that does not
//! read keeps nobody from looking after the ranks.

use muster_link::LinkError;
use muster_link::frame::FrameWriter;
use muster_link::messages::{FromAgent, LogChunk};
use muster_supervise::failpoint::hit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// Output that may be on its way at a time.
const IN_FLIGHT: usize = 1 << 20;

enum Out {
    Message(Box<FromAgent>),
    Log(LogChunk),
}

/// Keeps the order of what it is given.
pub(super) struct Wire {
    queue: mpsc::UnboundedSender<Out>,
    flow: Arc<Flow>,
}

/// The task that sends; it ends with the connection.
pub(super) type Sending = JoinHandle<Result<(), LinkError>>;

#[derive(Default)]
struct Flow {
    bytes: AtomicUsize,
    room: Notify,
}

impl Wire {
    pub(super) fn new<W: AsyncWrite + Unpin + Send + 'static>(writer: W) -> (Wire, Sending) {
        let (queue, rx) = mpsc::unbounded_channel();
        let flow = Arc::new(Flow::default());
        let task = tokio::spawn(send_all(FrameWriter::new(writer), rx, flow.clone()));
        (Wire { queue, flow }, task)
    }

    pub(super) fn send_message(&self, message: FromAgent) {
        // The task ends only with the connection, which is noticed elsewhere.
        let _ = self.queue.send(Out::Message(Box::new(message)));
    }

    /// Says things from elsewhere for as long as the connection lasts.
    pub(super) fn message_sender(&self) -> impl Fn(FromAgent) + Send + 'static {
        let queue = self.queue.downgrade();
        move |message| {
            if let Some(queue) = queue.upgrade() {
                let _ = queue.send(Out::Message(Box::new(message)));
            }
        }
    }

    pub(super) fn log(&self, chunk: LogChunk) {
        self.flow.bytes.fetch_add(chunk.data.len(), Ordering::Relaxed);
        let _ = self.queue.send(Out::Log(chunk));
    }

    /// How much output may be handed over now.
    pub(super) fn free_space(&self) -> usize {
        IN_FLIGHT.saturating_sub(self.flow.bytes.load(Ordering::Relaxed))
    }

    /// Completes when there is room again.
    pub(super) async fn wait_for_capacity(&self) {
        self.flow.room.notified().await;
    }
}

async fn send_all<W: AsyncWrite + Unpin>(
    mut writer: FrameWriter<W>,
    mut rx: mpsc::UnboundedReceiver<Out>,
    flow: Arc<Flow>,
) -> Result<(), LinkError> {
    while let Some(out) = rx.recv().await {
        hit("agent.send");
        match out {
            Out::Message(m) => writer.send(&*m).await?,
            Out::Log(chunk) => {
                writer.send_log(&chunk).await?;
                let before = flow.bytes.fetch_sub(chunk.data.len(), Ordering::Relaxed);
                if before > IN_FLIGHT / 2 {
                    flow.room.notify_one();
                }
            }
        }
        if rx.is_empty() {
            writer.flush().await?;
        }
    }
    writer.flush().await
}
