//! Writes down that another machine has the identity of a node, and when that is over.

use super::Inner;
use super::node_entry::NodeEntry;
use muster_model::FailureMode;
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};

/// It is over when nothing of it was seen for so long.
const OVER: Span = Span::hours(1);
/// Between two looks whether it is over.
pub(super) const LOOK: Span = Span::mins(1);

const KIND: FailureMode = FailureMode::COPIED_IDENTITY;

/// Writes it down, unless that was done a moment ago.
pub(super) async fn report(inner: &Inner, entry: &NodeEntry, node: &NodeName, line: String) {
    if !entry.other_machines().may_report(inner.clock()) {
        return;
    }
    tracing::warn!(%node, "another machine has the identity of this node: {line}");
    let (entity, now) = (Entity::Node(node.clone()), inner.brain.now());
    let seen = ObservedFinding::new(KIND.code(), entity, Severity::Warning, now).because(line);
    record(inner, vec![seen]).await;
}

/// Reports that it is over, where nothing of it was seen for long.
pub(super) async fn close_old(inner: &Inner, now: Time) {
    let over: Vec<ObservedFinding> = inner.brain.read(|s| {
        let old =
            s.health.open().filter(|f| f.seen.kind == KIND && now.since(f.seen.last_seen) >= OVER);
        old.map(|f| ObservedFinding { over: true, ..f.seen.clone() }).collect()
    });
    if !over.is_empty() {
        record(inner, over).await;
    }
}

async fn record(inner: &Inner, findings: Vec<ObservedFinding>) {
    if let Err(e) = inner.brain.system(Command::FindingsSeen { findings }).await {
        tracing::warn!(error = %e, "what is known of a copied identity is not in the log");
    }
}
