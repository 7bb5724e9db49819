//! Writes down that another machine has the identity of a node, and when that is over.

use super::Inner;
use super::node_entry::NodeEntry;
use muster_health::identity;
use muster_model::command::Command;
use muster_model::finding::ObservedFinding;
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};

/// Between two looks whether it is over.
pub(super) const LOOK: Span = Span::mins(1);

/// Writes it down, unless that was done a moment ago.
pub(super) async fn report(inner: &Inner, entry: &NodeEntry, node: &NodeName, line: String) {
    if !entry.may_report_copy(inner.clock()) {
        return;
    }
    tracing::warn!(%node, "another machine has the identity of this node: {line}");
    record(inner, vec![identity::copied(node, line, inner.brain.now())]).await;
}

/// Reports that it is over, where nothing of it was seen for long.
pub(super) async fn close_old(inner: &Inner, now: Time) {
    let over: Vec<ObservedFinding> = inner
        .brain
        .read(|s| s.health.open().filter_map(|f| identity::over(&f.seen, now)).collect());
    if !over.is_empty() {
        record(inner, over).await;
    }
}

async fn record(inner: &Inner, findings: Vec<ObservedFinding>) {
    if let Err(e) = inner.brain.system(Command::FindingsSeen { findings }).await {
        tracing::warn!(error = %e, "what is known of a copied identity is not in the log");
    }
}
