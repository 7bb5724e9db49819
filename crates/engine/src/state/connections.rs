//! Whose agent is connected, as far as this server knows. It is not in the log: nothing that follows
//! from records rests on it, only where new work goes while the heartbeat is not lost yet.

use super::State;
use muster_model::names::NodeName;

impl State {
    /// The connection of a node's agent began or ended. While there is none, new work goes there only
    /// where no other node fits.
    pub fn note_connection(&mut self, node: &NodeName, connected: bool) {
        let changed = match connected {
            true => self.disconnected.remove(node),
            false => self.nodes.contains_key(node) && self.disconnected.insert(node.clone()),
        };
        if changed {
            self.follow_avoidance(node);
        }
    }

    /// The same state with what another one knows of connections.
    #[must_use]
    pub fn with_connections_of(mut self, other: &State) -> State {
        for node in &other.disconnected {
            self.note_connection(node, false);
        }
        self
    }

    /// The same state, without what it knows of connections: for a copy that follows records alone. It
    /// would never see that an agent is connected again.
    #[must_use]
    pub fn without_connections(mut self) -> State {
        for node in std::mem::take(&mut self.disconnected) {
            self.follow_avoidance(&node);
        }
        self
    }

    /// Did the connection of a node's agent end, and no other begin?
    #[must_use]
    pub fn is_disconnected(&self, node: &NodeName) -> bool {
        self.disconnected.contains(node)
    }

    /// Does new work go to a node only where no other fits?
    pub(crate) fn avoids(&self, node: &NodeName) -> bool {
        self.is_disconnected(node) || self.health.waits_on(node)
    }

    /// Whether new work avoids a node may have changed although its record did not.
    pub(crate) fn follow_avoidance(&mut self, node: &NodeName) {
        if let Some(n) = self.nodes.get(node).cloned() {
            let avoided = self.avoids(node);
            self.index.node_changed(&n, avoided);
        }
    }
}
