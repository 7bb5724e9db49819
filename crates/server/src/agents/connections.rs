//! The engine is informed whose connection ended: until the node's heartbeat is lost, or its agent is back,
//! new work goes there only where no other node fits.

use super::Inner;
use super::node_entry::NodeEntry;
use muster_model::names::NodeName;
use std::sync::Arc;
use std::time::Duration;

/// Between two tries while nothing can be decided.
const AGAIN: Duration = Duration::from_secs(1);

/// The connection of a node's agent ended.
pub(super) async fn ended(inner: Arc<Inner>, node_entry: Arc<NodeEntry>, node: NodeName) {
    let mut noted = true;
    // Another connection may begin meanwhile, and its greeting overtake this.
    while !inner.stop.is_cancelled() && inner.brain.is_leading() {
        let connected = node_entry.session().is_some();
        if connected == noted {
            return;
        }
        match inner.brain.note_connection(&node, connected).await {
            Ok(()) => noted = connected,
            Err(e) => {
                tracing::debug!(%node, error = %e, "the end of a connection is not planned with yet");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
