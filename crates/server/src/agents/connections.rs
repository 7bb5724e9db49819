//! The engine is informed whose connection ended: until the node's heartbeat is lost, or its agent is back,
//! new work goes there only where no other node fits.

use super::Inner;
use super::node_entry::NodeEntry;
use muster_model::names::NodeName;
use std::sync::Arc;

/// The connection of a node's agent ended.
pub(super) async fn ended(inner: Arc<Inner>, node_entry: Arc<NodeEntry>, node: NodeName) {
    let mut connected = node_entry.session().is_some();
    if connected {
        return;
    }
    // Another connection may begin meanwhile, and its greeting overtake this.
    while !inner.stop.is_cancelled() {
        if let Err(e) = inner.brain.note_connection(&node, connected).await {
            tracing::debug!(%node, error = %e, "the end of a connection is not planned with");
            return;
        }
        let now = node_entry.session().is_some();
        if now == connected {
            return;
        }
        connected = now;
    }
}
